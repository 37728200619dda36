//! What this host has: descriptors for agents, CPUs for each part of a laboratory, its name in an
//! archive.

use std::fs;

use plimsoll_fleet::coordinator::agents_needed;
use plimsoll_fleet::message::AgentFault;
use plimsoll_fleet::{AgentSpec, FleetError, LocalAgents};
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::units::grouped;
use plimsoll_report::archive::ArchivedHost;
use plimsoll_sys::affinity::usable_cpus;
use plimsoll_sys::limits;
use plimsoll_tune::needs::PROCESS_DESCRIPTORS;

use crate::exit::Stop;
use crate::flags::values::Processes;

/// Descriptors of an agent that are no connections: pipes, epoll instances, libraries' own.
pub(crate) const DESCRIPTOR_RESERVE: u64 = PROCESS_DESCRIPTORS;

/// Starts as many agents as `plan` needs, or as many as were asked for, on `plan.cpus`.
pub(crate) fn start_load_agents(
    plan: &mut LoadPlan,
    processes: Processes,
) -> Result<LocalAgents, Stop> {
    let descriptors = limits::raise_descriptor_limit();
    let needed = agents_needed(plan.connections, descriptors, DESCRIPTOR_RESERVE)
        .map_err(|error| fleet_stop(&error))?;
    let count = match processes {
        Processes::Auto => needed,
        Processes::Exactly(count) if count < needed => {
            return Err(Stop::usage(
                format_args!(
                    "{} connections do not fit into --processes {count}: each may open {} files",
                    grouped(plan.connections),
                    grouped(descriptors)
                ),
                format_args!("use --processes {needed}, or raise the limit with ulimit -n"),
            ));
        }
        Processes::Exactly(count) => count,
    };
    if processes == Processes::Auto {
        plan.threads = plan.threads.div_ceil(count);
    }
    let cpus = if plan.cpus.is_empty() { Vec::new() } else { vec![plan.cpus.clone()] };
    LocalAgents::start(AgentSpec { cpus, ..AgentSpec::new(count) })
        .map_err(|error| fleet_stop(&error))
}

/// How a failure of the fleet ends the command.
pub(crate) fn fleet_stop(error: &FleetError) -> Stop {
    match error.fault() {
        AgentFault::Usage => Stop::Usage(error.to_string()),
        AgentFault::Host | AgentFault::Peer | AgentFault::Bug => Stop::CannotRun(error.to_string()),
    }
}

/// This host, for an archive.
pub(crate) fn archived_host() -> ArchivedHost {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| {
        line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name.trim().to_owned())
    });
    ArchivedHost {
        kernel: format!("Linux {}", release.trim()),
        cpus: usable_cpus().len() as u32,
        cpu_model: model,
    }
}

/// Which CPUs each part of a laboratory runs on; empty: wherever the kernel puts it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Placement {
    /// The system under test; never shared with the others where there are two CPUs.
    pub(crate) sut: Vec<u32>,
    /// Clients.
    pub(crate) clients: Vec<u32>,
    /// Backends.
    pub(crate) backends: Vec<u32>,
}

impl Placement {
    /// Half of `cpus` for the SUT; the clients and the backends share the other half, which is a
    /// quarter each from four CPUs on.
    pub(crate) fn of(cpus: &[u32]) -> Self {
        let half = cpus.len() / 2;
        let (others, sut) = cpus.split_at(cpus.len() - half);
        let (clients, backends) = match others {
            [] | [_] => (others, others),
            more => more.split_at(more.len().div_ceil(2)),
        };
        if sut.is_empty() {
            return Self::default();
        }
        Self { sut: sut.to_vec(), clients: clients.to_vec(), backends: backends.to_vec() }
    }

    /// This host's.
    pub(crate) fn of_host() -> Self {
        Self::of(&usable_cpus())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sut_shares_no_cpu_where_there_are_two() {
        for (cpus, sut, clients, backends) in [
            (1, vec![], vec![], vec![]),
            (2, vec![1], vec![0], vec![0]),
            (3, vec![2], vec![0], vec![1]),
            (4, vec![2, 3], vec![0], vec![1]),
            (8, vec![4, 5, 6, 7], vec![0, 1], vec![2, 3]),
        ] {
            let all: Vec<u32> = (0..cpus).collect();
            assert_eq!(Placement::of(&all), Placement { sut, clients, backends }, "{cpus} CPUs");
        }
    }
}
