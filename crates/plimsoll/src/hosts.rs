//! What this host has: descriptors for agents, its name in an archive.

use std::fs;
use std::io::Write;

use plimsoll_fleet::coordinator::agents_needed;
use plimsoll_fleet::hosts::{HostName, Launcher, LoadHosts};
use plimsoll_fleet::message::{AgentFault, HostSurvey};
use plimsoll_fleet::{AgentSpec, FleetError, LoadAgents};
use plimsoll_lab::LabError;
use plimsoll_model::Nanos;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::units::grouped;
use plimsoll_report::archive::ArchivedHost;
use plimsoll_sys::affinity::usable_cpus;
use plimsoll_sys::limits;
use plimsoll_sys::namespace::Namespace;
use plimsoll_sys::signal::Interrupts;
use plimsoll_tune::doctor::PROCESS_DESCRIPTORS;

use crate::exit::Stop;
use crate::flags::values::Processes;
use crate::survey::{Findings, findings};
use crate::{run, survey};

/// Descriptors of an agent that are no connections: pipes, epoll instances, libraries' own.
pub(crate) const DESCRIPTOR_RESERVE: u64 = PROCESS_DESCRIPTORS;

/// What a line for each host that cannot take part, or a table of what they lack, begins with.
const NOT_EVERY_HOST: &str = "not every host can make its part of the load, so none does";

/// Starts as many agents as `plan` needs, or the given number, on `plan.cpus` and in `network`, or in this
/// process's.
pub(crate) fn start_load_agents(
    plan: &mut LoadPlan,
    processes: Processes,
    network: Option<Namespace>,
) -> Result<LoadAgents, Stop> {
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
    LoadAgents::start(AgentSpec { cpus, network, ..AgentSpec::new(count) })
        .map_err(|error| fleet_stop(&error))
}

/// Starts an agent on each of `hosts`, and refuses hosts that lack something for their parts. Also returns notes
/// on what may become tight.
pub(crate) fn start_hosts(
    hosts: &LoadHosts,
    threads: Option<u32>,
    plan: &mut LoadPlan,
    interrupts: &Interrupts,
) -> Result<(LoadAgents, Vec<String>), Stop> {
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
    let surveys = agents.survey(|threads, all| survey::part(plan, threads, all)).map_err(fleet)?;
    let off = |(host, survey, at): (HostName, HostSurvey, Nanos)| {
        let off_ns = survey::clock_off_ns(&survey, at);
        (host, survey, off_ns)
    };
    let Findings { missing, notes } = findings(&surveys.into_iter().map(off).collect::<Vec<_>>());
    if !missing.is_empty() {
        return Err(Stop::TooMany([vec![NOT_EVERY_HOST.to_owned()], missing].concat()));
    }
    plan.threads = agents.threads().unwrap_or(plan.threads);
    Ok((agents, notes))
}

/// How a failure of the fleet ends the command.
pub(crate) fn fleet_stop(error: &FleetError) -> Stop {
    if let FleetError::Hosts { lines } = error {
        return Stop::TooMany([vec![NOT_EVERY_HOST.to_owned()], lines.clone()].concat());
    }
    match error.fault() {
        AgentFault::Usage => Stop::Usage(error.to_string()),
        AgentFault::Host | AgentFault::Peer | AgentFault::Bug => Stop::CannotRun(error.to_string()),
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

/// The name of this host.
pub(crate) fn host_name() -> String {
    fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned()
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
