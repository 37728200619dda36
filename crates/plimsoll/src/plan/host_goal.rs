//! The goal of `doctor` and `tune` for this host.

use std::path::Path;

use plimsoll_probe::limits::HostLimits;
use plimsoll_probe::processes::ProcessUse;
use plimsoll_tune::doctor::{Hop, Needs, PROXY_BYTES, Part, Processes, Shape};

use crate::exit::{Result, Stop};
use crate::flags::{GoalFlags, RoleFlag};
use crate::preflight::{CLIENT_BYTES, SERVER_BYTES, host_limits};

/// Compares every limit of this host with the need of the goal.
pub(crate) fn needs(flags: &GoalFlags) -> Result<Needs> {
    Ok(Needs::of(&shape(flags), &limits(flags.pid)?))
}

/// Returns this host's limits; the limits of processes may be those of `pid`.
fn limits(pid: Option<u32>) -> Result<HostLimits> {
    let Some(pid) = pid else { return Ok(host_limits()) };
    let unreadable = || {
        Stop::CannotRun(format!(
            "--pid {pid}: its open file limit cannot be read; name a running process, or run as its \
             user or as root"
        ))
    };
    let (_, files_max) = ProcessUse::read(Path::new("/"), pid).files.ok_or_else(unreadable)?;
    let limits = HostLimits::of_process(Path::new("/"), &pid.to_string());
    // The soft one: it has raised it already, or never will.
    Ok(HostLimits { descriptors_per_process: Some(files_max), ..limits })
}

/// Returns the processes of this host in its roles.
fn shape(flags: &GoalFlags) -> Shape {
    let (mut parts, mut hops) = (Vec::new(), Vec::new());
    let hop = |name: &str, by_kernel| Hop {
        name: name.to_owned(),
        sources: Some(flags.sources),
        destinations: flags.destinations,
        by_kernel,
    };
    for role in &flags.role {
        match role {
            RoleFlag::Client => {
                parts.push(Part::clients(CLIENT_BYTES));
                hops.push(hop("clients", false));
            }
            RoleFlag::Proxy => {
                // One process with threads, as HAProxy runs.
                parts.push(Part::proxy(PROXY_BYTES, Processes::Exactly(1)));
                hops.push(hop("proxy", true));
            }
            RoleFlag::Backend => parts.push(Part::servers(SERVER_BYTES)),
        }
    }
    let opened_per_s = flags.rate.map_or(0, |rate| rate.get().ceil() as u64);
    Shape {
        connections: flags.connections,
        parts,
        hops,
        // The number of connections that wait after an acceptor has paused for a second.
        opening_max: opened_per_s,
        opened_per_s,
        closes_by_reset: false,
        memory_is_watched: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Command, parse_words};

    fn shaped(words: &[&str]) -> Shape {
        let words = [&["doctor"], words].concat();
        let Ok(Command::Doctor(flags)) = parse_words(&words) else { panic!("{words:?}") };
        shape(&flags.goal)
    }

    #[test]
    fn roles_become_parts_and_hops() {
        let client = shaped(&["--connections", "1k"]);
        assert_eq!((client.sockets_each(), client.hops.len(), client.opened_per_s), (1, 1, 0));
        let all = ["--role", "client", "--role", "proxy", "--role", "backend"];
        let flags = ["-c", "10", "--rate", "30/m", "--destinations", "8"];
        let all = shaped(&[&all[..], &flags].concat());
        assert_eq!((all.sockets_each(), all.hops.len(), all.opened_per_s), (4, 2, 1));
        assert_eq!(all.hops[1].destinations, 8);
    }

    #[test]
    fn a_process_that_is_not_there_is_one_line() {
        let stop = limits(Some(4_194_305)).unwrap_err();
        assert_eq!(stop.code(), 1);
        assert!(stop.complaint().unwrap().contains("--pid 4194305"));
    }
}
