//! The search for the most connections that a server can hold. The search chooses the levels; the
//! controller of one hold carries them out, from the first level to the last.

use std::cell::RefCell;

use plimsoll_capacity::connections::ConnectionLimits;
use plimsoll_capacity::{ConnectionSearch, ConnectionSettings};
use plimsoll_lab::LabPlan;
use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::hold::{HoldEnd, HoldHead, HoldSummary};
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::summary::FindSummary;
use plimsoll_model::trial::{Outcome, TippingPoint, Verdict};
use plimsoll_model::units::grouped;
use plimsoll_report::archive::SearchHead;
use plimsoll_report::tui::Budget;

use super::controller::{Driven, Speed};
use super::hold::LAB_WAIT;
use super::holders::Holders;
use super::timers::TimerWatch;
use super::{RunsInLab, tipping};
use crate::exit::{Result, Stop};
use crate::plan::connections::ConnectionsJob;
use crate::plan::load::LoadJob;
use crate::preflight;
use crate::preflight::Server;
use crate::session::{Experiment, ExperimentResult, Session};
use crate::survey::Room;

/// A laboratory's server has room for this much more than the highest level, in percent: its own
/// configuration must not be what is found.
const LAB_ROOM_PERCENT: u64 = 130;

/// `find connections`, and the same in a laboratory.
pub(super) struct ConnectionsExperiment {
    job: ConnectionsJob,
    holders: Holders,
    /// Why no higher level can be made.
    our_limit: Option<String>,
}

impl ConnectionsExperiment {
    /// Lowers the highest level to what this host can make.
    pub(super) fn new(mut job: ConnectionsJob, server: &Server) -> Result<Self, Stop> {
        let mut holders = Holders::of(&mut job.load, job.hold.opening_max, server);
        // Memory is watched during the search, which stops before memory runs out.
        holders.shape.memory_is_watched = true;
        let (highest, our_limit) = preflight::highest(&holders.shape, &holders.limits, job.lowest)?;
        job.highest = highest;
        job.load.plan.connections = highest;
        Ok(Self { job, holders, our_limit })
    }

    fn hold_head(&self, found: &Found) -> HoldHead {
        let Self { job, holders, .. } = self;
        let Found { driven, tipping } = found;
        let (load, search) = (&driven.load, &driven.procedure);
        let asked =
            driven.trials.iter().map(|trial| trial.measurement.request.rate.get() as u64).max();
        HoldHead {
            asked: asked.unwrap_or(0),
            held: driven.held,
            end: match (&tipping.outcome, search.found().failed_at) {
                (Outcome::FailsAtMinimum, _) if load.tally.connections.opened == 0 => {
                    HoldEnd::NothingHeld
                }
                (Outcome::Unfinished { .. }, Some(failed)) => {
                    HoldEnd::ServerFailed { why: failed.why }
                }
                (Outcome::Unfinished { .. }, None) => HoldEnd::Unfinished,
                _ => HoldEnd::Complete,
            },
            hold: job.soak,
            paused: Nanos::ZERO,
            heartbeat: None,
            baseline: *search.baseline(),
            plateaus: search.levels().to_vec(),
            projections: search.projections(),
            cycles: None,
            last_sweep: search.levels().last().and_then(|level| level.swept),
            both_ends_here: job.load.both_ends_here,
            sources: job.load.plan.sources.len() as u64,
            ports_per_source: preflight::ports_per_source(&holders.limits),
        }
    }
}

impl RunsInLab for ConnectionsExperiment {
    fn lab_plan(&self, plan: LabPlan) -> LabPlan {
        LabPlan {
            connections: self.job.highest * LAB_ROOM_PERCENT / 100,
            longest_wait: LAB_WAIT,
            tls_state: self.job.load.plan.tls.state,
            ..plan
        }
    }
}

impl Experiment for ConnectionsExperiment {
    fn load(&mut self) -> &mut LoadJob {
        &mut self.job.load
    }

    fn kind(&self) -> RunKind {
        RunKind::Search
    }

    fn search_head(&self) -> Option<SearchHead> {
        Some(tipping::search_head(&self.job.search))
    }

    fn budget(&self) -> Option<Budget> {
        Some(Budget::Elapsed(settings(self).limits.budget))
    }

    fn least_connections(&self) -> Option<u64> {
        Some(self.job.lowest)
    }

    fn fit_hosts(&mut self, room: Room) -> Vec<String> {
        let highest = self.job.load.plan.connections;
        if highest < self.job.highest {
            self.our_limit.clone_from(&room.limit);
        }
        self.job.highest = highest;
        self.holders.move_to(room);
        Vec::new()
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult, Stop> {
        let ConnectionsJob { load, search, .. } = &self.job;
        session.note(tipping::objective(search));
        let mut timers = TimerWatch::start(&load.plan, search.probe, session);
        // Before the first level: what is overloaded closes connections, and would look like a
        // timer.
        timers.wait(session);
        let found = find(self, session, &mut timers)?;
        session.emit(&Event::SearchEnded(Box::new(found.tipping.clone())));
        let verdict = self.verdict(&found, session);
        let (searched, confirmed) = found.driven.procedure.times();
        let find = FindSummary {
            connections: Some(found.driven.procedure.found()),
            budget_s: Some(settings(self).limits.budget.as_secs_f64()),
            ..FindSummary::new(
                tipping::find_head(search, searched, confirmed),
                found.tipping.clone(),
            )
        };
        let hold = HoldSummary::new(self.hold_head(&found), &found.driven.load.tally);
        let reasons = tipping::reasons(&found.tipping, &found.driven.trials, verdict);
        let Driven { load: driven, trials, .. } = found.driven;
        Ok(ExperimentResult {
            partial: driven.is_partial(),
            result: RunResult::Connections { find: Box::new(find), hold: Some(Box::new(hold)) },
            timers: Some(timers.found(&load.plan, &trials)),
            trials,
            ..ExperimentResult::new(driven.tally, driven.window, verdict, reasons)
        })
    }
}

impl ConnectionsExperiment {
    /// Returns the verdict. The failure of a server is the goal of `--push`, and otherwise a fault.
    fn verdict(&self, found: &Found, session: &Session<'_>) -> Verdict {
        let Driven { load, procedure, .. } = &found.driven;
        if load.lost_agents > 0 {
            return Verdict::Invalid;
        }
        let has_failed = procedure.found().failed_at.is_some() || session.server_end().is_some();
        tipping::verdict(&found.tipping, has_failed && !self.job.push)
    }
}

/// The result of a search.
struct Found {
    driven: Driven<ConnectionSearch>,
    tipping: TippingPoint,
}

fn find(
    experiment: &ConnectionsExperiment,
    session: &Session<'_>,
    timers: &mut TimerWatch,
) -> Result<Found, Stop> {
    let ConnectionsExperiment { job, holders, .. } = experiment;
    let search = ConnectionSearch::new(settings(experiment));
    let timers = RefCell::new(timers);
    let emit = |event: Event| {
        timers.borrow_mut().handle_event(&event);
        session.emit(&event);
    };
    let rate = job.hold.connections_per_s;
    // A server that accepts this rate of new connections can serve as many requests.
    let speed = Speed { connections_per_s: rate, sweep_per_s: rate, ..Speed::default() };
    // Ramps are not paused: a level is a trial, which a pause would spoil.
    let driven = holders.steer(search, &job.load.plan, None, speed, session, &emit)?;
    let tipping = driven.procedure.tipping_point();
    Ok(Found { driven, tipping })
}

fn settings(experiment: &ConnectionsExperiment) -> ConnectionSettings {
    let ConnectionsExperiment { job, our_limit, .. } = experiment;
    let of_mode = ConnectionLimits::of(job.search.mode);
    let budget = job.search.budget.unwrap_or(of_mode.budget);
    let limits = ConnectionLimits { soak: job.soak, budget, ..*of_mode };
    let highest = grouped(job.highest);
    let asked = if job.highest_given { "--max" } else { "the default of this mode; see --max" };
    let at_cap = match our_limit {
        Some(why) => Outcome::GeneratorLimited { why: why.clone() },
        None => Outcome::NotReached { cap: format!("{highest} connections, {asked}") },
    };
    ConnectionSettings {
        slo: job.search.slo.clone(),
        lowest: job.lowest,
        cap: job.highest,
        at_cap,
        limits,
        push: job.push,
    }
}
