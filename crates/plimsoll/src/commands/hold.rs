//! `plimsoll hold` and `plimsoll lab hold`: many connections, level by level, and what they cost.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};

use plimsoll_capacity::{Held, StairSettings, Staircase, judge_hold};
use plimsoll_fleet::LocalAgents;
use plimsoll_fleet::coordinator::{LoadControl, LoadOutcome};
use plimsoll_lab::{LabPlan, Laboratory, NamedServer, ServerEnd, Sut, WatchedServer};
use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::hold::{HoldEnd, HoldHead, HoldSummary};
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::summary::{Summary, SummaryHead};
use plimsoll_model::trial::Verdict;
use plimsoll_probe::limits::HostLimits;
use plimsoll_sys::signal::Interrupts;

use crate::commands::lab::Site;
use crate::commands::search;
use crate::exit::Stop;
use crate::flags::HoldCommand;
use crate::hosts::{fleet_stop, start_load_agents};
use crate::plan::Inputs;
use crate::plan::hold::HoldJob;
use crate::preflight::Server;
use crate::run::{Run, RunHead};
use crate::{plan, preflight, run};

pub(super) mod pilot;
pub(super) mod witness;

use pilot::{Speed, StairPilot, Surroundings};
use witness::{Bounds, Depth, Witness};

/// How long a level is left alone before memory is read: tickets arrive, allocators and the
/// kernel's deferred frees come to rest.
const SETTLE: Nanos = Nanos::from_secs(1);
/// The same for levels of this many connections and more.
const SETTLE_LARGE: Nanos = Nanos::from_secs(3);
const LARGE: u64 = 100_000;
/// A sweep sends so many requests for each connection that a ramp opens in the same time: a
/// request costs less than a fifth of a handshake.
const SWEEP_PER_RAMP: f64 = 5.0;
/// Bounds of a sweep's pace, requests per second: below, small holds would be swept for minutes;
/// above, a server on this host's CPUs would be measured under full load.
const SWEEP_PER_S: (f64, f64) = (1_000.0, 15_000.0);
/// Of each source address's ports, the part that is planned with; some are taken by others.
const PORT_FILL: f64 = 0.8;
/// From this part of one address's ports on, loopback gets more addresses.
const ONE_SOURCE_FILL: f64 = 0.5;
/// No hold of a laboratory lasts longer.
pub(super) const LAB_WAIT: Nanos = Nanos::from_secs(24 * 3600);

/// `plimsoll hold`.
pub(crate) fn run(command: &HoldCommand) -> Result<(), Stop> {
    let mut stdin = std::io::stdin();
    run_job(plan::hold::build(command, &mut Inputs::of_host(&mut stdin))?)
}

/// Holds connections to a server that somebody else runs.
pub(super) fn run_job(mut job: HoldJob) -> Result<(), Stop> {
    let limits = preflight::host_limits();
    let server = Server::of(&job.load);
    let notes = fit(&mut job, server, &limits)?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let experiment = Experiment { command: "hold", is_lab: false, server, limits, notes };
    hold(experiment, &mut job, &mut NamedServer::default(), &interrupts)
}

/// `plimsoll lab hold`.
pub(super) fn run_lab(site: Site, mut job: HoldJob) -> Result<(), Stop> {
    let limits = preflight::host_limits();
    let server = server_of(&site.sut);
    let fits = fit(&mut job, server, &limits)?;
    let interrupts = run::install_interrupts()?;
    // Nothing is pinned: while connections are opened, every part wants every CPU.
    let lab_plan = LabPlan {
        connections: job.load.plan.connections,
        longest_wait: LAB_WAIT,
        tls_state: job.load.plan.tls.state,
        ..site.plan
    };
    let mut lab = Laboratory::start(&lab_plan, site.at)?;
    job.load.target_name = lab.name();
    let notes = [lab.notes(), &fits].concat();
    let experiment = Experiment { command: "lab hold", is_lab: true, server, limits, notes };
    hold(experiment, &mut job, &mut lab, &interrupts)
}

/// Lowers a hold to what this machine takes, if that is accepted; what the reader should know.
fn fit(job: &mut HoldJob, server: Server, limits: &HostLimits) -> Result<Vec<String>, Stop> {
    spread_sources(&mut job.load.plan, limits);
    let shape = preflight::shape(&job.load, job.hold.opening_max, server);
    let fit = preflight::check(&shape, limits, job.up_to)?;
    job.lower_to(fit.connections);
    Ok(fit.notes)
}

pub(super) const fn server_of(sut: &Sut) -> Server {
    match sut {
        Sut::Embedded => Server::Embedded,
        Sut::Haproxy(_) => Server::Haproxy,
        Sut::Nginx(_) => Server::Nginx,
    }
}

/// Gives a hold over loopback as many source addresses as its connections need. Elsewhere, one
/// address is what the kernel chooses, and more must be named.
pub(super) fn spread_sources(plan: &mut LoadPlan, limits: &HostLimits) {
    let addresses = plan.destinations.iter().flat_map(|server| &server.addresses);
    let is_loopback = addresses.clone().all(|at| at.is_ipv4() && at.ip().is_loopback());
    // The same port reaches each of them.
    let destinations = addresses.count().max(1);
    let ports = preflight::ports_per_source(limits) as f64 * destinations as f64;
    let connections = plan.connections as f64;
    if !plan.sources.is_empty() || !is_loopback || connections <= ports * ONE_SOURCE_FILL {
        return;
    }
    let needed = (connections / (ports * PORT_FILL)).ceil().max(1.0) as u32;
    let first = u32::from(Ipv4Addr::LOCALHOST);
    plan.sources = (0..needed).map(|index| IpAddr::V4(Ipv4Addr::from(first + index))).collect();
}

/// What is run, and what is said first.
struct Experiment {
    command: &'static str,
    is_lab: bool,
    server: Server,
    limits: HostLimits,
    notes: Vec<String>,
}

/// What a hold came to.
struct Outcome {
    load: LoadOutcome,
    held: u64,
    hold: Nanos,
    stairs: Staircase,
}

/// Holds, reports, and says how the command ends.
fn hold(
    experiment: Experiment,
    job: &mut HoldJob,
    server: &mut dyn WatchedServer,
    interrupts: &Interrupts,
) -> Result<(), Stop> {
    let mut agents = start_load_agents(&mut job.load.plan, job.load.processes)?;
    let head = RunHead {
        command: experiment.command,
        job: &job.load,
        search: None,
        always_archive: experiment.is_lab,
    };
    let run = RefCell::new(Run::begin(head)?);
    for note in &experiment.notes {
        run.borrow_mut().handle_event(&Event::Note(note.clone()));
    }
    let shape = preflight::shape(&job.load, job.hold.opening_max, experiment.server);
    // A server that somebody else started here takes memory that nobody attributes.
    let is_all_ours = experiment.is_lab || !job.load.both_ends_here;
    let bounds = Bounds::of(&shape, &experiment.limits, &agents, is_all_ours);
    let outcome = drive(job, &mut agents, bounds, &run, server, interrupts)?;
    drop(agents);
    let ended = server.ended();
    if let Some(end) = &ended {
        let what = if matches!(end, ServerEnd::Server(_)) { "the SUT" } else { "the laboratory" };
        run.borrow_mut().handle_event(&Event::Note(format!("{what} ended: {}", end.reason())));
    }
    let run = run.into_inner();
    let mut summary = summarise(&experiment, job, &outcome, &run);
    if let Some(broken) = ended.as_ref().and_then(search::laboratory) {
        summary.verdict = Verdict::Invalid;
        summary.reasons.insert(0, broken);
    }
    let verdict = summary.verdict;
    run.finish(&summary, &[])?;
    if outcome.load.interrupted {
        return Err(run::interrupted_stop(interrupts));
    }
    search::stop_of(verdict)
}

fn drive(
    job: &HoldJob,
    agents: &mut LocalAgents,
    bounds: Bounds,
    run: &RefCell<Run>,
    server: &dyn WatchedServer,
    interrupts: &Interrupts,
) -> Result<Outcome, Stop> {
    let plan = &job.load.plan;
    let stairs = Staircase::new(StairSettings {
        levels: job.levels.clone(),
        settle: if plan.connections >= LARGE { SETTLE_LARGE } else { SETTLE },
        hold: job.span,
        // One level is a hold: whatever was lost, the rest is held for as long as was asked for.
        ends_at_losses: job.levels.len() > 1,
    });
    let witness = Witness { clients: agents.pids(), sut: server };
    let read = |depth: Depth| witness.read(depth);
    let tell = |event: Event| run.borrow_mut().handle_event(&event);
    let (gauges, heard) = (Vec::new, RefCell::default());
    let around = Surroundings { read: &read, server: &gauges, tell: &tell, heard: &heard };
    let rate = job.hold.connections_per_s;
    let sweep_per_s = (rate * SWEEP_PER_RAMP).clamp(SWEEP_PER_S.0, SWEEP_PER_S.1);
    let speed = Speed { connections_per_s: rate, sweep_per_s };
    let mut pilot = StairPilot::new(stairs, bounds, speed, around);
    // Asked several times a second, also while nothing happens.
    let interrupted = || {
        run.borrow_mut().handle_tick();
        interrupts.is_raised()
    };
    let control = LoadControl::new(&interrupted);
    let load = agents
        .run_hold(plan, &control, &mut pilot, &mut |event| tell(event))
        .map_err(|error| fleet_stop(&error))?;
    let (held, hold, stairs) = pilot.into_parts();
    Ok(Outcome { load, held, hold, stairs })
}

fn summarise(experiment: &Experiment, job: &HoldJob, outcome: &Outcome, run: &Run) -> Summary {
    let Outcome { load, held, hold, stairs } = outcome;
    let end = stairs.end();
    let cut_short = match &end {
        HoldEnd::CutShort { why } => Some(why.as_str()),
        _ => None,
    };
    let judgement = judge_hold(&Held {
        asked: job.load.plan.connections,
        held: *held,
        tally: &load.tally,
        last_sweep: stairs.last_sweep(),
        cut_short,
        accepts_less: job.up_to,
        lost_agents: load.lost_agents,
        interrupted: load.interrupted,
    });
    let head = HoldHead {
        asked: job.load.plan.connections,
        held: *held,
        end: end.clone(),
        hold: *hold,
        heartbeat: job.hold.heartbeat,
        baseline: *stairs.baseline(),
        plateaus: stairs.plateaus().to_vec(),
        projections: stairs.projections(),
        last_sweep: stairs.last_sweep(),
        both_ends_here: job.load.both_ends_here,
        sources: job.load.plan.sources.len() as u64,
        ports_per_source: preflight::ports_per_source(&experiment.limits),
    };
    let head = SummaryHead {
        command: experiment.command.to_owned(),
        target: job.load.target_name.clone(),
        started_at: run.started_at.clone(),
        window: load.window,
        partial: load.is_partial(),
        settings: run::settings(&job.load, &job.load.plan),
        verdict: judgement.verdict,
        reasons: judgement.reasons,
        find: None,
        hold: Some(HoldSummary::new(head, &load.tally)),
        archive: run.archive_dir(),
    };
    Summary::new(head, &load.tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::tests::hold_job;

    #[test]
    fn loopback_gets_as_many_addresses_as_its_connections_need() {
        let limits = HostLimits { ports_per_source: Some(28_232), ..HostLimits::default() };
        let sources = |connections: &str, url: &str| {
            let mut job = hold_job(&[url, "--connections", connections]);
            spread_sources(&mut job.load.plan, &limits);
            job.load.plan.sources
        };
        let here = "https://127.0.0.1:8443/";
        assert!(sources("14k", here).is_empty());
        assert_eq!(sources("15k", here).len(), 1);
        let million = sources("1M", here);
        assert_eq!(million.len(), 45);
        assert_eq!(million[44], IpAddr::from([127, 0, 0, 45]));
        assert!(sources("1M", "https://[::1]:8443/").is_empty());
        assert!(sources("1M", "https://10.1.2.3:8443/").is_empty());
    }
}
