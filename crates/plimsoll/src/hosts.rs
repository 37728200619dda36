//! Agents of a load on this host and on others, and facts of this host for archives.
//!
//! [`start_load_agents`] starts the processes on this host: the given number, or the one that the descriptor limit
//! requires. [`start_hosts`] starts one agent per named host, asks each for its room, and lowers the plan to the room
//! of all if the command allows that; else a table of the shortages ends it. No connection is opened before every
//! host has agreed. [`fleet_stop`] maps errors of the fleet to exit codes. Start with [`start_hosts`].

use std::fs;
use std::io::Write;

use plimsoll_fleet::coordinator::agents_needed;
use plimsoll_fleet::hosts::{Launcher, LoadHosts};
use plimsoll_fleet::message::AgentFault;
use plimsoll_fleet::{AgentSpec, FleetError, LoadAgents};
use plimsoll_lab::LabError;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::units::grouped;
use plimsoll_report::archive::ArchivedHost;
use plimsoll_sys::affinity::usable_cpus;
use plimsoll_sys::limits;
use plimsoll_sys::namespace::Namespace;
use plimsoll_sys::signal::Interrupts;
use plimsoll_tune::doctor::PROCESS_DESCRIPTORS;

use crate::exit::{Result, Stop};
use crate::flags::values::Processes;
use crate::survey::{Findings, Room, findings};
use crate::{run, survey};

/// Descriptors of an agent that are no connections: pipes, epoll instances, libraries' own.
pub(crate) const DESCRIPTOR_RESERVE: u64 = PROCESS_DESCRIPTORS;

/// First words of the lines for hosts that cannot take part, and of a table of what they lack.
const NOT_EVERY_HOST: &str = "not every host can make its part of the load, so none does";

/// Starts as many agents as `plan` needs, or the given number, on `plan.cpus` and in `network`, or in this
/// process's.
pub(crate) fn start_load_agents(
    plan: &mut LoadPlan,
    processes: Processes,
    network: Option<Namespace>,
) -> Result<LoadAgents> {
    let descriptors = limits::raise_descriptor_limit();
    let needed = agents_needed(plan.connections, descriptors, DESCRIPTOR_RESERVE)
        .map_err(|error| fleet_stop(&error))?;
    let count = match processes {
        Processes::Auto => needed,
        Processes::Exactly(count) if count < needed => {
            refuse!("{} connections do not fit into --processes {count}: each may open {} files",
                    grouped(plan.connections), grouped(descriptors);
                "use --processes {needed}, or raise the limit with ulimit -n");
        }
        Processes::Exactly(count) => count,
    };
    if processes == Processes::Auto {
        plan.threads = plan.threads.div_ceil(count);
    }
    let cpus = if plan.cpus.is_empty() { Vec::new() } else { vec![plan.cpus.clone()] };
    LoadAgents::start(AgentSpec { cpus, network, ..AgentSpec::new(count) })
        .map_err(|error| fleet_stop(&error))
}

/// Starts an agent on each of `hosts`, and refuses hosts that lack something for their parts. Where `least`
/// connections are enough, `plan` gets as many as there is room for. Returns the room, too, and notes on what may
/// become tight.
pub(crate) fn start_hosts(
    hosts: &LoadHosts,
    threads: Option<u32>,
    plan: &mut LoadPlan,
    least: Option<u64>,
    interrupts: &Interrupts,
) -> Result<(LoadAgents, Room, Vec<String>)> {
    if let Launcher::Joined(listen) = &hosts.launcher {
        // Nothing else is shown before they are there. Whether it can be written changes nothing.
        let agents = hosts.hosts.len();
        let _ = writeln!(std::io::stderr(), "waiting for {agents} agents at {}", listen.address);
    }
    let fleet = |error: FleetError| match error {
        FleetError::Interrupted => run::interrupted_stop(interrupts),
        error => fleet_stop(&error),
    };
    let is_raised = || interrupts.is_raised();
    let mut agents = LoadAgents::start_on(hosts, threads, &is_raised).map_err(fleet)?;
    agents.make_room(plan.connections, DESCRIPTOR_RESERVE);
    let is_alone = is_alone(hosts);
    let ask = |agents: &mut LoadAgents, plan: &LoadPlan| {
        let part = |threads, all| survey::part(plan, threads, all, is_alone);
        agents.survey(part, &is_raised).map_err(fleet)
    };
    let mut surveys = ask(&mut agents, plan)?;
    let room = Room::of(&surveys);
    if room.connections < plan.connections && least.is_some_and(|least| least <= room.connections) {
        plan.connections = room.connections;
        surveys = ask(&mut agents, plan)?;
    }
    let Findings { is_short, is_missing, table, notes } = findings(&surveys);
    if is_short || is_missing {
        let mut lines = vec![NOT_EVERY_HOST.to_owned()];
        lines.extend(table);
        lines.extend(together(plan, &room, least).filter(|_| is_short && !is_missing));
        return Err(Stop::TooMany(lines));
    }
    plan.threads = agents.threads().unwrap_or(plan.threads);
    Ok((agents, room, notes))
}

/// Reports whether no other run may make load on these hosts: where several agents of one run may share a host, so may
/// several runs.
pub(crate) const fn is_alone(hosts: &LoadHosts) -> bool {
    matches!(hosts.launcher, Launcher::Ssh(_) | Launcher::Other(_))
}

/// Describes the connections that hosts can hold if they cannot hold all.
fn together(plan: &LoadPlan, room: &Room, least: Option<u64>) -> Option<String> {
    let fits = grouped(room.connections);
    match (&plan.pacing, least) {
        (Pacing::Hold(_), None) if room.connections > 0 => {
            Some(format!("together they can hold {fits} connections; --up-to holds as many"))
        }
        (Pacing::Hold(_), Some(least)) => {
            let least = grouped(least);
            Some(format!("together they can hold {fits} connections, and {least} are the fewest"))
        }
        _ => None,
    }
}

/// Returns the command's end for a failure of the fleet.
pub(crate) fn fleet_stop(error: &FleetError) -> Stop {
    if let FleetError::Hosts { lines } = error {
        return Stop::TooMany([vec![NOT_EVERY_HOST.to_owned()], lines.clone()].concat());
    }
    match error.fault() {
        AgentFault::Usage => Stop::Usage(error.to_string()),
        AgentFault::Host | AgentFault::Bug => Stop::cannot_run(error),
    }
}

impl From<LabError> for Stop {
    fn from(error: LabError) -> Self {
        match error {
            LabError::Fleet(error) => fleet_stop(&error),
            other => Self::CannotRun(other.to_string()),
        }
    }
}

/// Returns the name of this host.
pub(crate) fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
}

/// Returns this host for an archive.
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
