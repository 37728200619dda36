//! The handshake axis: an operation is a new TLS connection, and the source ports bound its rate.
//!
//! The side that closes a TCP connection first keeps its port in TIME_WAIT for 60 s, and here that
//! is the client. A rate that the ports do not allow is refused before anything is started.

use plimsoll_model::Rate;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::settings::SourcePorts;
use plimsoll_model::target::Protocol;
use plimsoll_model::units::grouped;
use plimsoll_sys::ports::{PORTS_RESTING_MAX, TIME_WAIT_S};

use super::Inputs;
use super::load::LoadJob;
use super::search::SearchJob;
use crate::exit::Result;

/// Share of an address's ports that may be in use or in TIME_WAIT at once; beyond it a free one is found slowly.
pub(crate) const TIME_WAIT_SHARE: f64 = 0.7;
/// Source addresses per CPU without --max: enough for 21,000 handshakes/s, twice what a core
/// makes as a client.
const SOURCES_PER_CPU: u64 = 64;
/// Most addresses that are used without --source: 1.3 million handshakes/s.
const SOURCES_MAX: u64 = 4096;

/// Turns a search of requests into one of handshakes.
pub(super) fn apply(load: &mut LoadJob, search: &mut SearchJob, inputs: &Inputs) -> Result<()> {
    // Of MQTT a handshake ends with CONNACK, and of a script with its opening, with or without TLS below it.
    let has_opening = load.plan.script().is_some_and(|script| !script.opening.is_empty());
    if load.plan.protocol() != Protocol::Mqtt
        && !has_opening
        && let Some(plain) = load.plan.destinations.iter().find(|server| server.tls.is_none())
    {
        refuse!("find handshakes needs TLS, and {} is plain", plain.name;
            "write https://, or use find rate with --no-keepalive");
    }
    load.plan.handshake_only = true;
    load.plan.keepalive = false;
    load.plan.prewarm = false;
    if load.plan.unix_socket.is_some() {
        return Ok(());
    }
    load.spread(sources_for(search.max, inputs));
    bound_by_ports(load, search, inputs)
}

/// Returns the number of addresses for the highest rate, if they need not be given.
pub(super) fn sources_for(max: Option<Rate>, inputs: &Inputs) -> u32 {
    let count = match max {
        Some(max) => (max.get() / rate_per_pair(inputs)).ceil() as u64,
        None => inputs.cpus as u64 * SOURCES_PER_CPU,
    };
    count.clamp(1, SOURCES_MAX) as u32
}

/// Returns the number of connections per second from one source address to one server address. Where more ports rest,
/// the engine resets connections instead of closing them, which users do not do.
pub(super) fn rate_per_pair(inputs: &Inputs) -> f64 {
    let resting = inputs.source_ports as f64 * TIME_WAIT_SHARE;
    resting.clamp(1.0, f64::from(PORTS_RESTING_MAX)) / f64::from(TIME_WAIT_S)
}

/// Returns the number of source addresses of a load, and the connections per second that their ports allow.
pub(super) fn allowed_by_ports(plan: &LoadPlan, inputs: &Inputs) -> (usize, f64) {
    let servers: usize = plan.destinations.iter().map(|one| one.addresses.len()).sum();
    let sources = plan.sources.len().max(1);
    (sources, rate_per_pair(inputs) * (servers * sources) as f64)
}

/// Refuses rates that the ports do not allow; without --max, that rate becomes the highest one.
fn bound_by_ports(load: &mut LoadJob, search: &mut SearchJob, inputs: &Inputs) -> Result<()> {
    let (sources, allowed) = allowed_by_ports(&load.plan, inputs);
    let asked = [("--max", search.max), ("the lowest rate", Some(search.lowest()))];
    for (what, rate) in asked {
        if let Some(rate) = rate.filter(|rate| rate.get() > allowed) {
            let wanted = (rate.get() / allowed * sources as f64).ceil() as u64;
            refuse!(
                "{what} of {} handshakes/s is more than the {} that the ports of {} allow: each \
                 stays in TIME_WAIT for 60 s",
                    grouped(rate.get() as u64), grouped(allowed as u64), addresses(sources);
                "give {} with --source, or lower {}",
                    addresses(wanted as usize), if what == "--max" { what } else { "--min" });
        }
    }
    let ports = SourcePorts { handshakes_per_s: allowed as u64, addresses: sources as u64 };
    let words = plimsoll_report::settings::allowed(ports);
    load.settings.source_ports = Some(ports);
    load.settings.source_ranges.clear();
    search.notes.push(format!("source ports stay in TIME_WAIT for 60 s, which allows {words}"));
    if search.max.is_none() {
        search.max = Rate::per_second(allowed);
        search.cap_reason = Some(format!(
            "source ports stay in TIME_WAIT for 60 s, which allows {words}; --source adds addresses"
        ));
    }
    Ok(())
}

pub(super) fn addresses(count: usize) -> String {
    let plural = if count == 1 { "" } else { "es" };
    format!("{} address{plural}", grouped(count as u64))
}
