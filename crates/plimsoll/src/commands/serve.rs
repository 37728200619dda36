//! `plimsoll serve`: runs the backend until a signal stops it.
//!
//! `run` builds the plan of the listeners, creates a self-signed certificate if TLS needs one, and starts serving
//! processes that share the ports by SO_REUSEPORT. The loop polls them every 100 ms until a signal: a lost process
//! ends the command, and the display adds up their counters once per second. With TLS and several processes all share
//! one ticket key, so that each of them can resume a session. Start with `run`.

use std::io::Write;
use std::net::TcpListener;
use std::time::Duration;

use plimsoll_fleet::message::ServeCounters;
use plimsoll_fleet::{AgentSpec, ServerGroup};
use plimsoll_model::plan::{Listener, Spoken};
use plimsoll_model::units::grouped;
use plimsoll_sys::limits;

use crate::exit::{Result, Stop};
use crate::flags::ServeFlags;
use crate::flags::values::Processes;
use crate::hosts::{DESCRIPTOR_RESERVE, fleet_stop};
use crate::plan::Inputs;
use crate::screen::Stream;
use crate::{plan, run};

/// Period of checking the processes.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Checks between two lines of the live display.
const LOOKS_PER_LINE: u32 = 10;
/// Connections that `--processes auto` makes room for, where one process may open few files.
const CONNECTIONS_AUTO: u64 = 65_536;
/// The most processes that `--processes auto` starts.
const PROCESSES_AUTO_MAX: u64 = 8;
/// The most that `--connections` starts.
const PROCESSES_MAX: u64 = 1024;
/// The kernel spreads connections over processes by a hash, so none is planned fuller than this.
const FILL_PERCENT: u64 = 90;

pub(crate) fn run(flags: &ServeFlags) -> Result<()> {
    let mut plan = plan::serve::build(flags, &mut Inputs::of_host(std::io::stdin()))?;
    check_ports(&plan.listeners)?;
    let interrupts = run::install_interrupts()?;
    let needs_identity = plan.listeners.iter().any(|listener| listener.tls);
    let mut self_signed = "";
    if needs_identity && plan.identity.is_none() {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let identity = plimsoll_tls::self_signed(&names, plimsoll_tls::KeyKind::EcdsaP256)
            .map_err(Stop::cannot_run)?;
        plan.identity = Some(identity);
        self_signed = " (self-signed certificate for localhost; clients need --insecure)";
    }
    let descriptors = limits::raise_descriptor_limit();
    let count = match flags.processes {
        Processes::Exactly(count) => count,
        Processes::Auto => {
            let needed = match flags.connections {
                None => CONNECTIONS_AUTO.div_ceil(descriptors.max(1)).min(PROCESSES_AUTO_MAX),
                Some(connections) => {
                    let usable =
                        descriptors.saturating_sub(DESCRIPTOR_RESERVE) * FILL_PERCENT / 100;
                    connections.div_ceil(usable.max(1)).min(PROCESSES_MAX)
                }
            };
            let count = u32::try_from(needed).unwrap_or(1).max(1);
            plan.threads = plan.threads.div_ceil(count);
            count
        }
    };
    if needs_identity && count > 1 {
        // Whichever of the processes accepts a connection can resume its session.
        plan.ticket_key = Some(plimsoll_tls::new_ticket_key().map_err(Stop::cannot_run)?);
    }
    let mut servers =
        ServerGroup::start(&AgentSpec::new(count), &plan).map_err(|error| fleet_stop(&error))?;
    announce(servers.listeners(), count, self_signed);
    let live = !flags.no_ui && Stream::Err.draws();
    let mut looks = 0;
    let mut before = ServeCounters::default();
    while !interrupts.is_raised() {
        let status = servers.poll_status(LOOK_EVERY);
        if let Some(how) = status.lost.first() {
            return Err(Stop::CannotRun(format!("a serving process was lost: {how}")));
        }
        looks += 1;
        if live && looks % LOOKS_PER_LINE == 0 {
            draw(&status.counters, &before);
            before = status.counters;
        }
    }
    let counters = servers.stop();
    let newline = if live { "\n" } else { "" };
    let messages = match counters.messages_total {
        0 => String::new(),
        messages => format!("; {} messages{}", grouped(messages), deliveries(&counters)),
    };
    let _ = writeln!(
        std::io::stderr(),
        "{newline}served {} requests on {} connections{messages}",
        grouped(counters.requests_total),
        grouped(counters.conns_total)
    );
    // A stop signal is the regular end of a server.
    Ok(())
}

/// Describes the fate of messages that their publishers wanted themselves.
fn deliveries(counters: &ServeCounters) -> String {
    let counts = [
        (counters.deliveries_total, "delivered"),
        (counters.deliveries_repeated_total, "of them twice"),
        (counters.deliveries_lost_total, "left out"),
    ];
    let said = counts.into_iter().filter(|(count, _)| *count > 0);
    said.map(|(count, what)| format!(", {} {what}", grouped(count))).collect()
}

/// Refuses a port that something else listens on. The serving processes share theirs by
/// SO_REUSEPORT, so another `plimsoll serve` would silently get a part of the connections.
fn check_ports(listeners: &[Listener]) -> Result<()> {
    for Listener { address, .. } in listeners {
        let taken = TcpListener::bind(address)
            .is_err_and(|error| error.kind() == std::io::ErrorKind::AddrInUse);
        if taken {
            return Err(Stop::CannotRun(format!(
                "cannot listen on {address}: the port is in use; stop what listens there, or name \
                 another port"
            )));
        }
    }
    Ok(())
}

/// Prints one line per listener to standard output, so that a script can wait for it and read the port.
fn announce(listeners: &[Listener], processes: u32, self_signed: &str) {
    let mut out = std::io::stdout();
    for listener in listeners {
        let (scheme, path) = match (listener.spoken, listener.tls) {
            (Spoken::Http, false) => ("http", "/"),
            (Spoken::Http, true) => ("https", "/"),
            (Spoken::Mqtt, false) => ("mqtt", ""),
            (Spoken::Mqtt, true) => ("mqtts", ""),
            (Spoken::Echo, false) => ("tcp", ""),
            (Spoken::Echo, true) => ("tls", ""),
        };
        let remark = if listener.tls { self_signed } else { "" };
        let _ = writeln!(out, "listening on {scheme}://{}{path}{remark}", listener.address);
    }
    let _ = out.flush();
    let plural = if processes == 1 { "" } else { "es" };
    let _ = writeln!(std::io::stderr(), "{processes} process{plural}; stop with Ctrl-C");
}

fn draw(now: &ServeCounters, before: &ServeCounters) {
    let mut err = std::io::stderr();
    let _ = write!(
        err,
        "\r\x1b[K{} connections  {} requests/s  {} requests in all",
        grouped(now.conns_open),
        grouped(now.requests_total.saturating_sub(before.requests_total)),
        grouped(now.requests_total)
    );
    let _ = err.flush();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_refused() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = holder.local_addr().unwrap();
        let listener = |address| Listener { address, tls: false, spoken: Spoken::Http };
        let refused = check_ports(&[listener(address)]).unwrap_err();
        assert_eq!(refused.code(), 1);
        assert!(refused.complaint().unwrap().contains(&address.to_string()));
        assert_eq!(check_ports(&[listener("127.0.0.1:0".parse().unwrap())]), Ok(()));
    }
}
