//! A number of connections, opened level by level and held, and their cost.
//!
//! [`HoldExperiment`] lowers the number to the room on the hosts if `--up-to` allows it. `drive` then builds a
//! [`Staircase`] of levels and lets [`Holders`] steer it on the agents. Every event of the hold goes through a
//! closure that also feeds the disruptor (events on the server) and the statistics of slow answers. The end is judged
//! as one hold, and the summary has one plateau per level. Start with `drive`.

use std::cell::RefCell;

use plimsoll_capacity::cliffs::SlowAnswers;
use plimsoll_capacity::staircase::HoldProcedure;
use plimsoll_capacity::{Held, Staircase, StaircaseSettings, judge_hold};
use plimsoll_fleet::coordinator::{LoadOutcome, Newcomers};
use plimsoll_lab::{LabPlan, SutSettings};
use plimsoll_model::Nanos;
use plimsoll_model::disruption::{Disruption, DisruptionKind};
use plimsoll_model::event::Event;
use plimsoll_model::hold::{HoldEnd, HoldHead, HoldSummary};
use plimsoll_model::result::RunKind;
use plimsoll_model::trial::Judgement;
use plimsoll_model::units::grouped;

use super::RunsInLab;
use super::controller::{Driven, Speed};
use super::holders::Holders;
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
/// Requests that a sweep sends per connection that a ramp opens in the same time: a request costs less than a fifth of
/// a handshake.
const SWEEP_PER_RAMP: f64 = 5.0;
/// Bounds of a sweep's pace, requests per second: below, small holds would be swept for minutes;
/// above, a server on this host's CPUs would be measured under full load.
const SWEEP_PER_S: (f64, f64) = (1_000.0, 15_000.0);
/// No hold of a laboratory lasts longer.
pub(super) const LAB_WAIT: Nanos = Nanos::from_secs(24 * 3600);

/// `hold`, and the same in a laboratory.
pub(super) struct HoldExperiment {
    job: HoldJob,
    holders: Holders,
}

impl HoldExperiment {
    /// Lowers a hold to what this host can hold, if `--up-to` allows it; also returns notes for the
    /// report.
    pub(super) fn new(mut job: HoldJob, server: &Server) -> Result<(Self, Vec<String>), Stop> {
        let mut holders = Holders::of(&mut job.load, job.hold.opening_max, server);
        let fit = preflight::check(&holders.shape, &holders.limits, job.up_to)?;
        job.lower_to(fit.connections);
        holders.shape.connections = fit.connections;
        Ok((Self { job, holders }, fit.notes))
    }

    fn head(&self, driven: &Driven<Staircase>) -> HoldHead {
        let Self { job, holders } = self;
        let staircase = &driven.procedure;
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
            cycles: staircase.cycles(),
            last_sweep: staircase.last_sweep(),
            both_ends_here: job.load.both_ends_here,
            sources: job.load.plan.sources.len() as u64,
            ports_per_source: preflight::ports_per_source(&holders.limits),
        }
    }
}

impl RunsInLab for HoldExperiment {
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

    fn kind(&self) -> RunKind {
        RunKind::Hold
    }

    fn least_connections(&self) -> Option<u64> {
        self.job.up_to.then_some(1)
    }

    fn fit_hosts(&mut self, room: Room) -> Vec<String> {
        let asked = self.holders.shape.connections;
        let fits = self.job.load.plan.connections;
        self.job.lower_to(fits);
        let lowered = (fits < asked).then(|| {
            let (fits, asked) = (grouped(fits), grouped(asked));
            let why = room.limit.as_deref().unwrap_or("their limits");
            format!("the hosts can hold {fits} of {asked} connections: {why}")
        });
        self.holders.move_to(room);
        lowered.into_iter().collect()
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult, Stop> {
        let (job, server) = (&self.job, session.server());
        // The memory of a server on this host that was not named is not attributed.
        self.holders.is_all_ours = server.backend_is_ours() || !job.load.both_ends_here;
        let disruptor = RefCell::new(Disruptor::of(&job.load, &**server));
        let slow = RefCell::new(SlowAnswers::default());
        let emit = |event: Event| {
            if let Event::Interval(interval) = &event {
                slow.borrow_mut().handle_second(interval);
            }
            let notes = disruptor.borrow_mut().handle_event(&event);
            session.emit(&event);
            notes.into_iter().for_each(|note| session.note(note));
        };
        session.let_pause();
        let plan = &job.load.plan;
        let rate = job.hold.connections_per_s;
        let sweep_per_s = (rate * SWEEP_PER_RAMP).clamp(SWEEP_PER_S.0, SWEEP_PER_S.1);
        let speed = Speed { connections_per_s: rate, sweep_per_s, ..Speed::default() };
        let host_file = HostFile::of(&job.load);
        let newcomers = host_file.as_ref().map(|file| file as &dyn Newcomers);
        let mut driven =
            self.holders.steer(staircase(job), plan, newcomers, speed, session, &emit)?;
        let events = disruptor.into_inner().finish(plan.timeouts.deadline);
        if driven.procedure.cycles().is_some() {
            // After the last cycle none is held: the fewest of those that were.
            let least = driven.procedure.plateaus().iter().map(|plateau| plateau.held).min();
            driven.held = least.unwrap_or(driven.held);
        }
        let Judgement { verdict, reasons, .. } = judge(job, &driven);
        let hold = HoldSummary::new(self.head(&driven), &driven.load.tally);
        let timers = timers::of_one_load(plan, &**server, &driven.load, &slow.into_inner(), None);
        let partial = driven.load.is_partial();
        let LoadOutcome { tally, window, .. } = driven.load;
        Ok(ExperimentResult {
            partial,
            result: hold.into(),
            events,
            timers: Some(timers),
            ..ExperimentResult::new(tally, window, verdict, reasons)
        })
    }
}

/// Returns the levels of a hold.
fn staircase(job: &HoldJob) -> Staircase {
    let events = &job.load.events.event;
    Staircase::new(StaircaseSettings {
        levels: job.levels.clone(),
        settle: if job.load.plan.connections >= LARGE { SETTLE_LARGE } else { SETTLE },
        hold: job.span,
        // One level is a hold: after losses, the remaining connections are held for the whole time.
        ends_at_losses: job.levels.len() > 1,
        // Events come at their instants, whatever those before them did.
        ends_when_empty: events.is_empty(),
        cycles: job.cycles.map_or(0, |cycles| cycles.count),
        reconnects: reconnects(events),
    })
}

/// Returns the shares of connections that are reset and opened again, and the instants in the hold, ascending.
fn reconnects(plan: &[Disruption]) -> Vec<(Nanos, f64)> {
    let of = |one: &Disruption| match one.kind {
        DisruptionKind::Reconnect(share) => Some((one.at, share)),
        _ => None,
    };
    let mut reconnects: Vec<_> = plan.iter().filter_map(of).collect();
    reconnects.sort_by_key(|(at, _)| *at);
    reconnects
}

fn judge(job: &HoldJob, driven: &Driven<Staircase>) -> Judgement {
    let Driven { load, held, procedure: staircase, .. } = driven;
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
        growth: job.cycles.and_then(|asked| {
            Some((staircase.cycles()?.growth_bytes_per_cycle?, asked.growth_max?))
        }),
    })
}
