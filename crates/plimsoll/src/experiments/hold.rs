//! A number of connections, opened level by level and held, and what they cost.

use std::cell::RefCell;

use plimsoll_capacity::cliffs::SlowAnswers;
use plimsoll_capacity::staircase::HoldProcedure;
use plimsoll_capacity::{Held, Staircase, StaircaseSettings, judge_hold};
use plimsoll_fleet::coordinator::{LoadOutcome, Newcomers};
use plimsoll_lab::{LabPlan, SutSettings};
use plimsoll_model::Nanos;
use plimsoll_model::cycles::CyclesSummary;
use plimsoll_model::disruption::{Disruption, DisruptionKind, DisruptionSummary};
use plimsoll_model::event::Event;
use plimsoll_model::hold::{HoldEnd, HoldHead, HoldSummary};
use plimsoll_model::storm::StormClients;
use plimsoll_model::trial::Judgement;
use plimsoll_model::units::grouped;
use plimsoll_probe::limits::HostLimits;
use plimsoll_tune::doctor::Shape;

use super::LabExperiment;
use super::controller::{ProcedureController, Speed, Surroundings};
use super::memory::{Bounds, Depth, Memory, gauges_of, kept_by};
use super::timers;
use crate::exit::{Result, Stop};
use crate::host_file::HostFile;
use crate::plan::hold::HoldJob;
use crate::plan::load::LoadJob;
use crate::preflight;
use crate::preflight::Server;
use crate::session::disruptor::Disruptor;
use crate::session::{Experiment, ExperimentResult, Session};
use crate::survey::Room;

/// Wait at a level before memory is read: tickets arrive, and allocators and the
/// kernel's deferred frees settle.
const SETTLE: Nanos = Nanos::from_secs(1);
/// Wait at levels of this many connections and more.
const SETTLE_LARGE: Nanos = Nanos::from_secs(3);
const LARGE: u64 = 100_000;
/// A sweep sends so many requests for each connection that a ramp opens in the same time: a
/// request costs less than a fifth of a handshake.
const SWEEP_PER_RAMP: f64 = 5.0;
/// Bounds of a sweep's pace, requests per second: below, small holds would be swept for minutes;
/// above, a server on this host's CPUs would be measured under full load.
const SWEEP_PER_S: (f64, f64) = (1_000.0, 15_000.0);
/// No hold of a laboratory lasts longer.
pub(super) const LAB_WAIT: Nanos = Nanos::from_secs(24 * 3600);

/// `hold`, and the same in a laboratory.
pub(super) struct HoldExperiment {
    job: HoldJob,
    shape: Shape,
    limits: HostLimits,
    /// Room of other hosts, if they hold the connections.
    room: Option<Room>,
}

impl HoldExperiment {
    /// Lowers a hold to what this host can hold, if `--up-to` allows it; also returns notes for the
    /// report.
    pub(super) fn new(mut job: HoldJob, server: &Server) -> Result<(Self, Vec<String>), Stop> {
        let limits = preflight::limits_of(&job.load);
        preflight::spread_sources(&mut job.load, &limits);
        let shape = preflight::shape(&job.load, job.hold.opening_max, server);
        let fit = preflight::check(&shape, &limits, job.up_to)?;
        job.lower_to(fit.connections);
        let shape = Shape { connections: fit.connections, ..shape };
        Ok((Self { job, shape, limits, room: None }, fit.notes))
    }

    fn head(&self, driven: &Driven) -> HoldHead {
        let Self { job, limits, .. } = self;
        let staircase = &driven.staircase;
        HoldHead {
            asked: job.load.plan.connections,
            held: driven.held,
            end: staircase.end(),
            hold: driven.hold,
            paused: driven.paused,
            heartbeat: job.hold.heartbeat,
            baseline: *staircase.baseline(),
            plateaus: staircase.plateaus().to_vec(),
            projections: staircase.projections(),
            cycles: driven.cycles.clone(),
            last_sweep: staircase.last_sweep(),
            both_ends_here: job.load.both_ends_here,
            sources: job.load.plan.sources.len() as u64,
            ports_per_source: preflight::ports_per_source(limits),
        }
    }
}

impl LabExperiment for HoldExperiment {
    fn lab_plan(&self, plan: LabPlan) -> LabPlan {
        // Nothing is pinned: while connections are opened, every part can use every CPU.
        let events = &self.job.load.events;
        let (reloads, backends_end) = (events.needs_reload(), events.ends_backends());
        // A cache of sessions would fill over the cycles, and look like a leak.
        let resumes = self.job.cycles.is_none() || self.job.load.plan.tls.resume_ratio > 0.0;
        LabPlan {
            resumes: plan.resumes && resumes,
            settings: SutSettings { reloads, backends_end, ..plan.settings },
            connections: self.job.load.plan.connections,
            longest_wait: LAB_WAIT,
            tls_state: self.job.load.plan.tls.state,
            ..plan
        }
    }
}

impl Experiment for HoldExperiment {
    fn load(&mut self) -> &mut LoadJob {
        &mut self.job.load
    }

    fn least_connections(&self) -> Option<u64> {
        self.job.up_to.then_some(1)
    }

    fn fit_hosts(&mut self, room: Room) -> Vec<String> {
        let asked = self.shape.connections;
        let fits = self.job.load.plan.connections;
        self.job.lower_to(fits);
        self.shape.connections = fits;
        let lowered = (fits < asked).then(|| {
            let (fits, asked) = (grouped(fits), grouped(asked));
            let why = room.limit.as_deref().unwrap_or("their limits");
            format!("the hosts can hold {fits} of {asked} connections: {why}")
        });
        self.limits.ports_per_source = Some(room.ports_per_source);
        self.room = Some(room);
        lowered.into_iter().collect()
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult, Stop> {
        let driven = drive(self, session)?;
        let Judgement { verdict, reasons, .. } = judge(&self.job, &driven);
        let hold = HoldSummary::new(self.head(&driven), &driven.load.tally);
        let partial = driven.load.is_partial();
        let (plan, server) = (&self.job.load.plan, session.server());
        let timers = timers::of_one_load(plan, &**server, &driven.load, &driven.slow, None);
        let LoadOutcome { tally, window, .. } = driven.load;
        Ok(ExperimentResult {
            partial,
            result: hold.into(),
            events: driven.events,
            timers: Some(timers),
            ..ExperimentResult::new(tally, window, verdict, reasons)
        })
    }
}

/// A hold as it was driven.
struct Driven {
    load: LoadOutcome,
    held: u64,
    hold: Nanos,
    paused: Nanos,
    staircase: Staircase,
    cycles: Option<CyclesSummary>,
    events: Vec<DisruptionSummary>,
    slow: SlowAnswers,
}

fn drive(experiment: &HoldExperiment, session: &Session<'_>) -> Result<Driven, Stop> {
    let HoldExperiment { job, shape, limits, room } = experiment;
    let plan = &job.load.plan;
    let server = session.server();
    // The memory of a server on this host that was not named is not attributed.
    let is_all_ours = server.backend_is_ours() || !job.load.both_ends_here;
    let bounds = Bounds::of(shape, limits, &session.agents(), is_all_ours).on_hosts(room.as_ref());
    let staircase = Staircase::new(StaircaseSettings {
        levels: job.levels.clone(),
        settle: if plan.connections >= LARGE { SETTLE_LARGE } else { SETTLE },
        hold: job.span,
        // One level is a hold: after losses, the remaining connections are held for the whole time.
        ends_at_losses: job.levels.len() > 1,
        // Events come at their instants, whatever those before them did.
        ends_when_empty: job.load.events.event.is_empty(),
        cycles: job.cycles.map_or(0, |cycles| cycles.count),
        reconnects: reconnects(&job.load.events.event),
    });
    let is_elsewhere = job.load.hosts.is_some();
    let memory = Memory { clients: session.agents().pids(), sut: &**server, is_elsewhere };
    let read = |depth: Depth| memory.read(depth);
    let disruptor = RefCell::new(Disruptor::of(&job.load, &**server));
    let emit = |event: Event| {
        let notes = disruptor.borrow_mut().handle_event(&event);
        session.emit(&event);
        notes.into_iter().for_each(|note| session.note(note));
    };
    let gauges = || gauges_of(&**server, is_elsewhere);
    let kept = || kept_by(&**server);
    let counted = RefCell::default();
    session.let_pause();
    let is_paused = || session.is_paused();
    let around = Surroundings {
        read: &read,
        kept: &kept,
        server: &gauges,
        emit: &emit,
        counted: &counted,
        is_paused: &is_paused,
    };
    let rate = job.hold.connections_per_s;
    let sweep_per_s = (rate * SWEEP_PER_RAMP).clamp(SWEEP_PER_S.0, SWEEP_PER_S.1);
    let storm = StormClients::default();
    let speed = Speed { connections_per_s: rate, sweep_per_s, storm, notice: Nanos::ZERO };
    let mut controller = ProcedureController::new(staircase, bounds, speed, around);
    let host_file = HostFile::of(&job.load);
    let newcomers = host_file.as_ref().map(|file| file as &dyn Newcomers);
    let mut slow = SlowAnswers::default();
    let load = session.steer(plan, newcomers, &mut controller, &mut |event| {
        if let Event::Interval(interval) = &event {
            slow.handle_second(interval);
        }
        emit(event);
    })?;
    let paused = controller.paused();
    let (held, hold, staircase) = controller.into_parts();
    let events = disruptor.into_inner().finish(plan.timeouts.deadline);
    let cycles = staircase.cycles();
    // After the last cycle none is held: the fewest of those that were.
    let least = staircase.plateaus().iter().map(|plateau| plateau.held).min();
    let held = least.filter(|_| cycles.is_some()).unwrap_or(held);
    Ok(Driven { load, held, hold, paused, staircase, cycles, events, slow })
}

/// The shares of connections that are reset and opened again, and the instants in the hold, ascending.
fn reconnects(plan: &[Disruption]) -> Vec<(Nanos, f64)> {
    let of = |one: &Disruption| match one.kind {
        DisruptionKind::Reconnect(share) => Some((one.at, share)),
        _ => None,
    };
    let mut reconnects: Vec<_> = plan.iter().filter_map(of).collect();
    reconnects.sort_by_key(|(at, _)| *at);
    reconnects
}

fn judge(job: &HoldJob, driven: &Driven) -> Judgement {
    let Driven { load, held, staircase, cycles, .. } = driven;
    let end = staircase.end();
    let cut_short = match &end {
        HoldEnd::CutShort { why } => Some(why.as_str()),
        _ => None,
    };
    judge_hold(&Held {
        asked: job.load.plan.connections,
        held: *held,
        tally: &load.tally,
        last_sweep: staircase.last_sweep(),
        cut_short,
        accepts_less: job.up_to,
        lost_agents: load.lost_agents,
        interrupted: load.interrupted,
        growth: job
            .cycles
            .and_then(|asked| Some((cycles.as_ref()?.growth_bytes_per_cycle?, asked.growth_max?))),
    })
}
