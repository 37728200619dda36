//! `plimsoll find connections` and `plimsoll lab connections`: how many connections a server
//! holds. The search decides, a hold's pilot carries it out, in one hold from the first level to
//! the last.

use std::cell::RefCell;

use plimsoll_capacity::connections::ConnectionLimits;
use plimsoll_capacity::{ConnectionSearch, ConnectionSettings};
use plimsoll_fleet::LocalAgents;
use plimsoll_fleet::coordinator::{LoadControl, LoadOutcome};
use plimsoll_lab::{LabPlan, Laboratory, NamedServer, ServerEnd, WatchedServer};
use plimsoll_model::event::Event;
use plimsoll_model::hold::{HoldEnd, HoldHead, HoldSummary};
use plimsoll_model::summary::{FindHead, FindSummary, Summary, SummaryHead};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Outcome, TippingPoint, TrialRecord, Verdict};
use plimsoll_model::units::grouped;
use plimsoll_probe::limits::HostLimits;
use plimsoll_sys::signal::Interrupts;
use plimsoll_tune::doctor::Shape;

use crate::commands::hold::pilot::{Speed, StairPilot, Surroundings};
use crate::commands::hold::witness::{Bounds, Depth, Witness, server_gauges};
use crate::commands::lab::Site;
use crate::commands::timers::TimerWatch;
use crate::commands::{hold, search};
use crate::exit::Stop;
use crate::hosts::{fleet_stop, start_load_agents};
use crate::plan::connections;
use crate::plan::connections::ConnectionsJob;
use crate::plan::watch::Watched;
use crate::preflight::Server;
use crate::run::{Run, RunHead};
use crate::{preflight, run};

/// A laboratory's server has room for this much more than the highest level, in percent: its own
/// configuration must not be what is found.
const LAB_ROOM_PERCENT: u64 = 130;

/// What is searched, and what is said first.
struct Experiment {
    command: &'static str,
    is_lab: bool,
    shape: Shape,
    limits: HostLimits,
    /// Why this machine can make no higher level.
    our_limit: Option<String>,
    notes: Vec<String>,
}

/// What a search came to.
struct Found {
    load: LoadOutcome,
    held: u64,
    search: ConnectionSearch,
    tipping: TippingPoint,
    trials: Vec<TrialRecord>,
    sut_end: Option<ServerEnd>,
}

/// `plimsoll find connections`.
pub(super) fn run(mut job: ConnectionsJob, watched: Watched) -> Result<(), Stop> {
    let limits = preflight::host_limits();
    let server = Server::of(&job.load);
    let (shape, our_limit) = fit(&mut job, server, &limits)?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let mut notes = Vec::new();
    if job.load.both_ends_here && watched.pids.is_empty() {
        notes.push(
            "the server is on this host: --watch pid:N has its files and its memory projected, too"
                .to_owned(),
        );
    }
    let mut server = NamedServer::new(watched.pids, watched.counts)?;
    let experiment = Experiment { command: "find", is_lab: false, shape, limits, our_limit, notes };
    search_connections(&experiment, &mut job, &mut server, &interrupts)
}

/// `plimsoll lab connections`.
pub(super) fn run_lab(site: Site, mut job: ConnectionsJob) -> Result<(), Stop> {
    let limits = preflight::host_limits();
    let server = hold::server_of(&site.sut);
    let (shape, our_limit) = fit(&mut job, server, &limits)?;
    let interrupts = run::install_interrupts()?;
    let lab_plan = LabPlan {
        connections: job.highest * LAB_ROOM_PERCENT / 100,
        longest_wait: hold::LAB_WAIT,
        tls_state: job.load.plan.tls.state,
        ..site.plan
    };
    let mut lab = Laboratory::start(&lab_plan, site.at)?;
    job.load.target_name = lab.name();
    let notes = lab.notes().to_vec();
    let experiment = Experiment { command: "lab", is_lab: true, shape, limits, our_limit, notes };
    search_connections(&experiment, &mut job, &mut lab, &interrupts)
}

/// Lowers the highest level to what this machine can make; says what runs here, and the limit.
fn fit(
    job: &mut ConnectionsJob,
    server: Server,
    limits: &HostLimits,
) -> Result<(Shape, Option<String>), Stop> {
    hold::spread_sources(&mut job.load.plan, limits);
    // Memory is: it ends the search before it ends.
    let shape = preflight::shape(&job.load, job.hold.opening_max, server);
    let shape = Shape { memory_is_watched: true, ..shape };
    let (highest, our_limit) = preflight::highest(&shape, limits, job.lowest)?;
    job.highest = highest;
    job.load.plan.connections = highest;
    Ok((Shape { connections: highest, ..shape }, our_limit))
}

/// Searches, reports, and says how the command ends.
fn search_connections(
    experiment: &Experiment,
    job: &mut ConnectionsJob,
    server: &mut dyn WatchedServer,
    interrupts: &Interrupts,
) -> Result<(), Stop> {
    let mut agents = start_load_agents(&mut job.load.plan, job.load.processes)?;
    let head = RunHead {
        command: experiment.command,
        job: &job.load,
        search: Some(search::search_head(&job.search)),
        always_archive: true,
    };
    let mut run = Run::begin(head)?;
    for note in experiment.notes.iter().chain(&job.search.notes) {
        run.handle_event(&Event::Note(note.clone()));
    }
    run.handle_event(&Event::Note(search::objective(&job.search)));
    let mut timers = TimerWatch::start(&job.load.plan, job.search.probe, server, &mut run);
    // Before the first level: what is overloaded closes connections, and would look like a timer.
    timers.wait(&mut run, interrupts);
    let run = RefCell::new(run);
    let found = drive(experiment, job, &mut agents, server, &run, interrupts)?;
    drop(agents);
    let mut run = run.into_inner();
    match &found.sut_end {
        Some(ServerEnd::Server(how)) => {
            run.handle_event(&Event::Note(format!("the server ended: {how}")));
        }
        Some(ServerEnd::Laboratory(how)) => {
            run.handle_event(&Event::Note(format!("the laboratory ended: {how}")));
        }
        None => {}
    }
    run.handle_event(&Event::SearchEnded(Box::new(found.tipping.clone())));
    let verdict = verdict(job, &found);
    let summary = summarise(experiment, job, &found, verdict, &run);
    let summary = timers.add_to(summary, &job.load.plan, &found.trials);
    run.finish(&summary, &found.trials)?;
    search::conclude_as(verdict, interrupts)
}

/// A server that gave way is what `--push` asks for, and otherwise a fault.
fn verdict(job: &ConnectionsJob, found: &Found) -> Verdict {
    if found.load.lost_agents > 0 {
        return Verdict::Invalid;
    }
    let failed_at = found.search.found().failed_at.is_some() || found.sut_end.is_some();
    let is_server_to_blame = failed_at && !job.push;
    search::verdict_on(&found.tipping, is_server_to_blame, found.sut_end.as_ref())
}

fn drive(
    experiment: &Experiment,
    job: &ConnectionsJob,
    agents: &mut LocalAgents,
    server: &mut dyn WatchedServer,
    run: &RefCell<Run>,
    interrupts: &Interrupts,
) -> Result<Found, Stop> {
    let search = ConnectionSearch::new(settings(experiment, job));
    let watched: &dyn WatchedServer = server;
    let witness = Witness { clients: agents.pids(), sut: watched };
    let heard = RefCell::new(Tally::default());
    let trials = RefCell::new(Vec::new());
    let read = |depth: Depth| witness.read(depth);
    let gauges = || server_gauges(watched);
    let tell = |event: Event| {
        match &event {
            Event::Interval(interval) => heard.borrow_mut().merge_following(&interval.tally),
            Event::TrialEnded(record) => trials.borrow_mut().push(TrialRecord::clone(record)),
            _ => {}
        }
        run.borrow_mut().handle_event(&event);
    };
    let around = Surroundings { read: &read, server: &gauges, tell: &tell, heard: &heard };
    let rate = job.hold.connections_per_s;
    // Whoever takes so many new connections takes as many requests.
    let speed = Speed { connections_per_s: rate, sweep_per_s: rate };
    // What is not ours is felt by the limit, which is what is left of the host.
    let bounds = Bounds::of(&experiment.shape, &experiment.limits, agents, true);
    let mut pilot = StairPilot::new(search, bounds, speed, around);
    // Asked several times a second, also while nothing happens.
    let interrupted = || {
        run.borrow_mut().handle_tick();
        interrupts.is_raised()
    };
    let control = LoadControl::new(&interrupted);
    let load = agents
        .run_hold(&job.load.plan, &control, &mut pilot, &mut |event| tell(event))
        .map_err(|error| fleet_stop(&error))?;
    let (held, _, search) = pilot.into_parts();
    let sut_end = server.ended();
    let tipping = search.tipping_point();
    let trials = trials.into_inner();
    Ok(Found { load, held, search, tipping, trials, sut_end })
}

fn settings(experiment: &Experiment, job: &ConnectionsJob) -> ConnectionSettings {
    let limits = ConnectionLimits { soak: job.soak, ..connections::limits(job.search.mode) };
    let highest = grouped(job.highest);
    let asked = if job.highest_given { "--max" } else { "the default of this mode; see --max" };
    let cap_reason = match &experiment.our_limit {
        Some(limit) => limit.clone(),
        None => format!("{highest} connections, {asked}"),
    };
    ConnectionSettings {
        slo: job.search.slo.clone(),
        lowest: job.lowest,
        cap: job.highest,
        cap_reason,
        cap_is_ours: experiment.our_limit.is_some(),
        limits,
        push: job.push,
    }
}

fn summarise(
    experiment: &Experiment,
    job: &ConnectionsJob,
    found: &Found,
    verdict: Verdict,
    run: &Run,
) -> Summary {
    let Found { load, search, tipping, trials, .. } = found;
    let (searched, confirmed) = search.times();
    let asked = trials.iter().map(|trial| trial.measurement.request.rate.get() as u64).max();
    let head = HoldHead {
        asked: asked.unwrap_or(0),
        held: found.held,
        end: match &tipping.outcome {
            Outcome::FailsAtMinimum if load.tally.connections.opened == 0 => HoldEnd::NothingHeld,
            Outcome::Unfinished { why } if search.found().failed_at.is_some() => {
                HoldEnd::ServerFailed { why: why.clone() }
            }
            Outcome::Unfinished { .. } => HoldEnd::Unfinished,
            _ => HoldEnd::Complete,
        },
        hold: job.soak,
        heartbeat: None,
        baseline: *search.baseline(),
        plateaus: search.levels().to_vec(),
        projections: search.projections(),
        last_sweep: search.levels().last().and_then(|level| level.swept),
        both_ends_here: experiment.is_lab || job.load.both_ends_here,
        sources: job.load.plan.sources.len() as u64,
        ports_per_source: preflight::ports_per_source(&experiment.limits),
    };
    let asked = FindHead {
        axis: job.search.axis,
        slo: job.search.slo.to_string(),
        mode: job.search.mode.into(),
        search: searched,
        confirm: confirmed,
    };
    let find =
        FindSummary { connections: Some(search.found()), ..FindSummary::new(asked, tipping) };
    let head = SummaryHead {
        command: experiment.command.to_owned(),
        target: job.load.target_name.clone(),
        started_at: run.started_at.clone(),
        window: load.window,
        partial: load.is_partial(),
        settings: run::settings(&job.load, &job.load.plan),
        verdict,
        reasons: search::reasons_of(tipping, trials, verdict, found.sut_end.as_ref()),
        find: Some(find),
        hold: Some(HoldSummary::new(head, &load.tally)),
        archive: run.archive_dir(),
    };
    Summary::new(head, &load.tally)
}
