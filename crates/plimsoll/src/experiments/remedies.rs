//! Remedies for the search's own limits: processes where one may open too few files, source
//! addresses where the ports of one run out. Threads are added by the search itself, and
//! connections by the pool.

use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

use plimsoll_fleet::coordinator::agents_needed;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::trial::{CheckId, TrialRecord, Verdict};
use plimsoll_model::units::grouped;
use plimsoll_model::{ErrorClass, Rate};
use plimsoll_probe::processes::ProcessUse;
use plimsoll_sys::address::sources_towards;
use plimsoll_sys::ports::TIME_WAIT_S;

use crate::flags::values::Processes;
use crate::hosts::DESCRIPTOR_RESERVE;
use crate::plan::handshakes::TIME_WAIT_SHARE;
use crate::plan::search::RateJob;
use crate::preflight;
use crate::session::Session;

/// More processes are not started by themselves: each takes memory and turns on a CPU.
pub(super) const PROCESSES_MAX: u32 = 64;
/// More addresses are not used by themselves: each connection chooses among all of them.
const SOURCES_MAX: u64 = 1_024;
/// Addresses for each one that the present load needs: later loads are larger.
const ROOM: f64 = 2.0;

/// Remedies that are left.
pub(super) struct Remedies {
    /// The flags leave the number of processes open.
    may_add_processes: bool,
    /// One that ran out of files was relieved already.
    is_relieved: bool,
    /// The flags name no source addresses, and none were added.
    may_add_sources: bool,
}

impl Remedies {
    pub(super) fn new(job: &RateJob) -> Self {
        Self {
            may_add_processes: job.load.processes == Processes::Auto && job.load.hosts.is_none(),
            is_relieved: false,
            may_add_sources: !job.sources_fixed && job.load.hosts.is_none(),
        }
    }

    /// Starts more processes before a load if its connections need more files than the present ones may open; returns a
    /// note.
    pub(super) fn prepare(
        &self,
        connections: u64,
        plan: &mut LoadPlan,
        session: &Session<'_>,
    ) -> Option<String> {
        let descriptors = session.agents().descriptors_max();
        let needed = agents_needed(connections, descriptors, DESCRIPTOR_RESERVE).ok()?;
        let why = format!(
            "{} connections need more open files than one process may have",
            grouped(connections)
        );
        self.start_processes(needed, &why, plan, session)
    }

    /// Adds processes or source addresses after a judged trial that ran out of files or ports; returns a note. Each
    /// remedy is applied once.
    pub(super) fn add(
        &mut self,
        trial: &TrialRecord,
        connections: u64,
        plan: &mut LoadPlan,
        session: &Session<'_>,
    ) -> Option<String> {
        let rate = trial.measurement.request.rate;
        if ran_out(trial, ErrorClass::LocalFiles) && !self.is_relieved {
            self.is_relieved = true;
            let agents = session.agents().pids();
            let limit = |pid: &u32| Some(ProcessUse::read(Path::new("/"), *pid).files?.1);
            let fewest = agents.iter().filter_map(limit).min();
            let wanted = processes_for(connections, agents.len() as u32, fewest);
            let why = format!("a process ran out of open files at {rate}");
            if let Some(note) = self.start_processes(wanted, &why, plan, session) {
                return Some(note);
            }
        }
        if ran_out(trial, ErrorClass::LocalPorts) && self.may_add_sources {
            self.may_add_sources = false;
            return self.add_sources(rate, connections, plan);
        }
        None
    }

    fn start_processes(
        &self,
        wanted: u32,
        why: &str,
        plan: &mut LoadPlan,
        session: &Session<'_>,
    ) -> Option<String> {
        let before = session.agents().count() as u32;
        let wanted = wanted.min(PROCESSES_MAX);
        if wanted <= before || !self.may_add_processes || !session.add_agents(wanted) {
            return None;
        }
        plan.threads = (plan.threads * before).div_ceil(wanted);
        Some(format!("agents {before} -> {wanted}, because {why} (--processes fixes their number)"))
    }

    fn add_sources(&self, rate: Rate, connections: u64, plan: &mut LoadPlan) -> Option<String> {
        let is_lasting = plan.keepalive && plan.requests_per_connection.is_none();
        let resting = if is_lasting { 0.0 } else { rate.get() * f64::from(TIME_WAIT_S) };
        let ports = preflight::ports_per_source(&preflight::host_limits());
        let needed = sources_for(connections as f64 + resting, ports);
        let before = plan.sources.len().max(1);
        let sources = more_sources(plan, needed);
        if sources.len() <= before {
            return None;
        }
        let note = format!(
            "source addresses {before} -> {}, because the ports of {before} ran out at {rate} \
             (--source fixes them)",
            sources.len()
        );
        plan.sources = sources;
        Some(note)
    }
}

/// Reports whether the trial is INVALID because of errors of this class.
fn ran_out(trial: &TrialRecord, class: ErrorClass) -> bool {
    let judgement = &trial.judgement;
    judgement.verdict == Verdict::Invalid
        && judgement.deciding().any(|check| {
            check.id == CheckId::LocalErrors
                && check.measures.iter().any(|measure| measure.name == class.name())
        })
}

/// Returns the number of processes that connections need where one of those there are may open only `fewest` files; at
/// least twice as many as now.
fn processes_for(connections: u64, now: u32, fewest: Option<u64>) -> u32 {
    let needed =
        fewest.and_then(|fewest| agents_needed(connections, fewest, DESCRIPTOR_RESERVE).ok());
    let most = u32::try_from(connections).unwrap_or(u32::MAX);
    needed.unwrap_or(0).max(now.saturating_mul(2)).min(most.max(1))
}

/// Returns the number of source addresses whose ports are enough for `connections`, including those in TIME_WAIT.
fn sources_for(connections: f64, ports: u64) -> u64 {
    let needed = ROOM * connections / (ports.max(1) as f64 * TIME_WAIT_SHARE);
    (needed.ceil() as u64).clamp(2, SOURCES_MAX)
}

/// Returns up to `needed` addresses that reach every server: on loopback all of 127.0.0.0/8 is there for the
/// asking, elsewhere those of the interface that leads to them all.
pub(super) fn more_sources(plan: &LoadPlan, needed: u64) -> Vec<IpAddr> {
    let servers = || plan.destinations.iter().flat_map(|server| &server.addresses);
    if servers().all(|server| server.is_ipv4() && server.ip().is_loopback()) {
        let first = u32::from(Ipv4Addr::LOCALHOST);
        return (first..).take(needed as usize).map(|bits| Ipv4Addr::from(bits).into()).collect();
    }
    let mut towards = servers().map(|server| sources_towards(server.ip()));
    let mut sources = towards.next().unwrap_or_default();
    if towards.any(|other| other != sources) {
        return Vec::new();
    }
    sources.truncate(needed as usize);
    sources
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;
    use plimsoll_model::pace::{Arrivals, Profile};
    use plimsoll_model::plan::Pacing;

    use super::*;

    #[test]
    fn processes_follow_the_lowest_limit() {
        for (connections, now, fewest, wanted) in [
            (100, 1, Some(100), 3),
            // Enough as far as is known: twice as many all the same.
            (100, 2, Some(20_000), 4),
            (100, 1, None, 2),
            // No room at all.
            (100, 1, Some(10), 2),
            // Each needs a connection.
            (3, 2, None, 3),
        ] {
            assert_eq!(processes_for(connections, now, fewest), wanted, "{connections} {now}");
        }
    }

    #[test]
    fn addresses_follow_the_ports() {
        for (connections, ports, sources) in
            [(100.0, 28_232, 2), (60_000.0, 10_000, 18), (1e9, 28_232, 1_024), (5.0, 0, 15)]
        {
            assert_eq!(sources_for(connections, ports), sources, "{connections} over {ports}");
        }
    }

    #[test]
    fn loopback_has_as_many_addresses_as_are_needed() {
        let pacing = Pacing::Open {
            profile: Profile::constant(Rate::ZERO, Nanos::ZERO),
            arrivals: Arrivals::Uniform,
        };
        let here = "127.0.0.1:80".parse().expect("an address");
        let sources = |servers: &[&[_]]| more_sources(&LoadPlan::plain(servers, pacing.clone()), 3);
        let three: [IpAddr; 3] =
            ["127.0.0.1", "127.0.0.2", "127.0.0.3"].map(|text| text.parse().unwrap());
        assert_eq!(sources(&[&[here]]), three);
        // No address reaches both.
        let elsewhere = "[::1]:80".parse().expect("an address");
        assert!(sources(&[&[here], &[elsewhere]]).len() <= 1);
    }
}
