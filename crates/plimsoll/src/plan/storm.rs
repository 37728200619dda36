//! `find storm` and `lab storm` into jobs: a hold, some of whose connections are cut at once.

use plimsoll_capacity::storm::StormLimits;
use plimsoll_model::Nanos;
use plimsoll_model::confirmation::Intervention;
use plimsoll_model::pace::Arrivals;
use plimsoll_model::plan::{HoldPlan, LoadPlan, Pacing, TlsOptions};
use plimsoll_model::search::Axis;
use plimsoll_model::storm::StormClients;
use plimsoll_model::units::grouped;

use super::load::{LoadJob, assemble};
use super::search::SearchJob;
use super::{Destination, Inputs, search};
use crate::exit::Result;
use crate::flags::search::SearchFlags;
use crate::flags::shared::{OutputFlags, PoolFlags};
use crate::flags::storm::StormFlags;

/// Connections of `lab storm` without --connections.
const LAB_CONNECTIONS_DEFAULT: u64 = 2_000;
/// Connections that are being opened at once outside storms: a server that accepts few per second must not keep one of
/// them waiting for longer than its client's patience.
const OPENING_MAX: u32 = 64;

/// A search for the largest storm, resolved and checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StormJob {
    /// Requests and their target; the pacing is a hold.
    pub(crate) load: LoadJob,
    /// Settings of the search.
    pub(crate) search: SearchJob,
    /// Settings of opening and of heartbeats.
    pub(crate) hold: HoldPlan,
    /// Conduct of the clients whose connections are cut.
    pub(crate) clients: StormClients,
    /// The smallest storm, and the largest; lowest <= highest <= connections.
    pub(crate) lowest: u64,
    /// The largest storm.
    pub(crate) highest: u64,
    /// Time within which all must be back.
    pub(crate) recover: Nanos,
    /// Jitter of the clients is tried, within as much time again.
    pub(crate) try_jitter: bool,
    /// Other changes that are tried, one at a time, each within as much time again.
    pub(crate) remedies: Vec<Intervention>,
}

impl StormJob {
    /// Returns the time of the storms that search for the largest one.
    pub(crate) fn search_budget(&self) -> Nanos {
        let of_mode = StormLimits::of(self.search.mode).budget;
        self.search.budget.unwrap_or(of_mode)
    }

    /// Returns the time of all storms.
    pub(crate) fn budget(&self) -> Nanos {
        let searches = 1 + u64::from(self.try_jitter) + self.remedies.len() as u64;
        Nanos(self.search_budget().0 * searches)
    }
}

/// Plans the search for the largest storm. `may_be_remote`: the user agreed to storms against other hosts.
pub(super) fn plan(
    flags: &StormFlags,
    may_be_remote: bool,
    to: &Destination,
    output: &OutputFlags,
    inputs: &mut Inputs,
) -> Result<StormJob> {
    let connections = match flags.connections {
        Some(connections) => connections,
        None if to.is_laboratory() => LAB_CONNECTIONS_DEFAULT,
        None => refuse!("find storm needs the number of connections to hold";
            "for example: plimsoll find storm https://127.0.0.1:8443/ -k --connections 10k"),
    };
    let (lowest, highest) = range(flags, connections)?;
    let search = SearchJob { confidence: flags.confidence, ..search_of(flags, to)? };
    let hold = HoldPlan {
        connections_per_s: flags.rate.get(),
        opening_max: OPENING_MAX,
        heartbeat: Some(flags.heartbeat),
        replace: false,
    };
    let pool = PoolFlags { connections: Some(connections), ..PoolFlags::default() };
    let parts = search::parts(&search, &flags.load, to, &pool, output, Pacing::Hold(hold));
    let mut load = assemble(parts, inputs)?;
    // A storm may take a server down: one on another host needs the consent of the user.
    refuse_if!(!(load.both_ends_here || to.is_laboratory() || may_be_remote);
        "the server is on another host, and a storm may take it down";
        "give --yes-storm-remote if you may do that, or use lab storm");
    let targets = load.plan.targets.len() as u64;
    refuse_if!(targets > connections;
        "{targets} targets share {} connections", grouped(connections);
        "give --connections {targets} or more, or fewer targets");
    // The ramp opens the connections, at its own pace.
    load.plan.prewarm = false;
    // Each client has its own ticket.
    load.plan.tls.tickets_max =
        u32::try_from(connections).unwrap_or(u32::MAX).max(TlsOptions::TICKETS_MAX);
    let clients = StormClients { cut: flags.cut, reconnect: flags.reconnect };
    load.settings.reconnect = Some(flags.reconnect.to_string());
    let StormFlags { recover, try_remedies: try_jitter, .. } = *flags;
    let remedies = if try_jitter { remedies(&load.plan, to) } else { Vec::new() };
    Ok(StormJob { load, search, hold, clients, lowest, highest, recover, try_jitter, remedies })
}

/// Returns the changes that may make larger storms safe. Only a laboratory's server is changed.
fn remedies(plan: &LoadPlan, to: &Destination) -> Vec<Intervention> {
    let of_server = [Intervention::SessionRate, Intervention::AcceptQueue];
    let resumes = plan.tls.resume_ratio >= 1.0;
    let has_tls = plan.destinations.iter().any(|server| server.tls.is_some());
    let of_server = of_server.into_iter().filter(|_| to.is_laboratory());
    let of_tls = [Intervention::Resumption, Intervention::CertificateKey];
    of_server.chain(of_tls.into_iter().filter(|_| has_tls && !resumes)).collect()
}

fn range(flags: &StormFlags, connections: u64) -> Result<(u64, u64)> {
    let highest = flags.max.unwrap_or(connections);
    let lowest = flags.min.unwrap_or(1);
    refuse_if!(highest > connections;
        "--max {} is above the {} connections that are held", grouped(highest), grouped(connections);
        "raise --connections, or lower --max");
    refuse_if!(lowest > highest;
        "the smallest storm, {} connections, is above the largest, {}", grouped(lowest), grouped(highest);
        "raise --max, or lower --min");
    Ok((lowest, highest))
}

fn search_of(flags: &StormFlags, to: &Destination) -> Result<SearchJob> {
    let search = SearchFlags {
        slo: flags.slo.iter().cloned().collect(),
        deadline: None,
        mode: flags.mode,
        budget: flags.budget,
        // Storms would close what the probe waits for.
        probe_timeouts: Some(Nanos::ZERO),
        repeat: None,
    };
    search::search(Axis::Storm, &search, Arrivals::Uniform, to)
}
