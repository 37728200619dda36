//! The search for the largest storm. The search chooses the number of connections that are cut; the controller of one
//! hold carries the storms out, from the first to the last.

use std::cell::RefCell;

use plimsoll_capacity::storm::{StormLimits, without_cut};
use plimsoll_capacity::{StormSearch, StormSettings};
use plimsoll_lab::LabPlan;
use plimsoll_model::Nanos;
use plimsoll_model::confirmation::Remedied;
use plimsoll_model::event::Event;
use plimsoll_model::result::{RunKind, RunResult};
use plimsoll_model::storm::{Cut, StormSummary};
use plimsoll_model::summary::FindSummary;
use plimsoll_model::trial::{Outcome, TippingPoint, Verdict};
use plimsoll_report::archive::SearchHead;
use plimsoll_report::tui::Budget;
use plimsoll_tune::doctor::Shape;

use super::controller::{Driven, Speed};
use super::hold::LAB_WAIT;
use super::holders::Holders;
use super::tipping::Pass;
use super::{RunsInLab, tipping};
use crate::causes::Readings;
use crate::exit::Stop;
use crate::plan::load::LoadJob;
use crate::plan::storm::StormJob;
use crate::preflight;
use crate::preflight::Server;
use crate::session::{Experiment, ExperimentResult, Session};
use crate::survey::Room;

mod remedies;
mod seconds;

use seconds::{StormRecorder, StormSeconds};

/// A laboratory's server has room for this many times the connections: a server may count those that were cut until it
/// has noticed.
const LAB_ROOM: u64 = 3;
/// Requests of a sweep per second, and their bounds: all connections within about two seconds.
const SWEEP_S: f64 = 2.0;
const SWEEP_PER_S: (f64, f64) = (200.0, 10_000.0);
/// An order reaches agents on other hosts within this time, like the order to start.
const FAR_NOTICE: Nanos = Nanos::from_secs(1);

/// `find storm`, and the same in a laboratory.
pub(super) struct StormExperiment {
    job: StormJob,
    holders: Holders,
}

impl StormExperiment {
    /// Checks that this host can hold the connections, and those that silent clients leave behind.
    pub(super) fn new(mut job: StormJob, server: &Server) -> Result<Self, Stop> {
        let holders = Holders::of(&mut job.load, job.hold.opening_max, server);
        let Holders { shape, limits, .. } = &holders;
        let left_open = if job.clients.cut == Cut::Silent { job.highest } else { 0 };
        let most = Shape { connections: shape.connections + left_open, ..shape.clone() };
        preflight::check(&most, limits, false)?;
        Ok(Self { job, holders })
    }

    fn search_settings(&self) -> StormSettings {
        let StormJob { load, search, lowest, highest, recover, .. } = &self.job;
        let limits =
            StormLimits { budget: self.job.search_budget(), ..*StormLimits::of(search.mode) };
        StormSettings {
            slo: search.slo.clone(),
            connections: load.plan.connections,
            lowest: *lowest,
            highest: *highest,
            recover: *recover,
            patience: load.plan.timeouts.connect,
            pause: self.job.clients.reconnect.pause_max(),
            try_jitter: self.job.try_jitter,
            confidence: search.confidence,
            limits,
        }
    }

    fn summary(&self, found: &Found, readings: &Readings, remedies: Vec<Remedied>) -> StormSummary {
        let StormJob { load, hold, clients, recover, .. } = &self.job;
        let Driven { load: driven, procedure: search, .. } = &found.driven;
        let base_p99 = search.base().and_then(|base| base.p99);
        let mut storms = search.storms().to_vec();
        for (storm, seconds) in storms.iter_mut().zip(&found.seconds) {
            storm.wasted = seconds.wasted;
            storm.seconds = seconds.with(readings);
        }
        let mut summary = StormSummary {
            connections: load.plan.connections,
            held: driven.tally.connections.held_max,
            heartbeat_s: hold.heartbeat.map_or(0.0, Nanos::as_secs_f64),
            cut: clients.cut,
            reconnect: clients.reconnect.to_string(),
            patience_s: load.plan.timeouts.connect.as_secs_f64(),
            recover_s: recover.as_secs_f64(),
            base_p99_ms: base_p99.map(Nanos::as_millis_f64),
            endless_from: None,
            ends_below: search.ends_below(),
            jitter: search.jitter(),
            remedies,
            storms,
        };
        summary.endless_from = summary.endless().map(|(storm, _)| storm.cut);
        summary
    }
}

impl RunsInLab for StormExperiment {
    fn lab_plan(&self, plan: LabPlan) -> LabPlan {
        LabPlan {
            connections: self.job.load.plan.connections * LAB_ROOM,
            longest_wait: LAB_WAIT,
            tls_state: self.job.load.plan.tls.state,
            ..plan
        }
    }
}

impl Experiment for StormExperiment {
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
        Some(Budget::Elapsed(self.job.budget()))
    }

    fn fit_hosts(&mut self, room: Room) -> Vec<String> {
        self.holders.move_to(room);
        Vec::new()
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult, Stop> {
        let search = &self.job.search;
        session.note(tipping::objective(search));
        let found = find(&self.holders, &self.job, self.search_settings(), Pass::First, session)?;
        session.emit(&Event::SearchEnded(Box::new(found.tipping.clone())));
        let tried = remedies::try_each(self, &found, session)?;
        let Driven { load: driven, procedure, .. } = &found.driven;
        let verdict = match driven.lost_agents {
            0 => {
                // A server that does not come back from a storm has failed.
                let is_stopped = matches!(found.tipping.outcome, Outcome::Unfinished { .. });
                tipping::verdict(&found.tipping, is_stopped && !driven.interrupted)
            }
            _ => Verdict::Invalid,
        };
        let head = tipping::find_head(search, procedure.took(), Nanos::ZERO);
        let find = FindSummary {
            budget_s: Some(self.job.budget().as_secs_f64()),
            ..FindSummary::new(head, found.tipping.clone())
        };
        let reasons = tipping::reasons(&found.tipping, &found.driven.trials, verdict);
        let storm = Some(Box::new(self.summary(&found, &session.readings(), tried.remedies)));
        let mut tally = driven.tally.clone();
        tally.merge_following(&tried.tally);
        if !driven.interrupted {
            // Requests that were open when the storm cut their connection are no failures.
            tally = without_cut(&tally);
        }
        let partial = driven.is_partial() || session.is_interrupted();
        let window = driven.window + tried.window;
        Ok(ExperimentResult {
            partial,
            trials: found.driven.trials,
            result: RunResult::Storm { find: Box::new(find), storm },
            ..ExperimentResult::new(tally, window, verdict, reasons)
        })
    }
}

/// The result of a search.
struct Found {
    driven: Driven<StormSearch>,
    tipping: TippingPoint,
    /// The seconds of each storm.
    seconds: Vec<StormSeconds>,
}

/// Searches with the load of `job`: the load of the experiment or a changed one.
fn find(
    holders: &Holders,
    job: &StormJob,
    settings: StormSettings,
    pass: Pass,
    session: &Session<'_>,
) -> Result<Found, Stop> {
    let server = session.server();
    let seconds = RefCell::new(StormRecorder::default());
    let over_tls = job.load.plan.destinations.iter().any(|one| one.tls.is_some());
    let failed = || server.statistics().filter(|_| over_tls)?.failed_handshakes();
    let emit = |event: Event| {
        seconds.borrow_mut().handle_event(&event, &failed);
        if pass == Pass::First || !matches!(event, Event::TrialEnded(_)) {
            session.emit(&event);
        }
    };
    let connections = job.load.plan.connections as f64;
    let speed = Speed {
        connections_per_s: job.hold.connections_per_s,
        sweep_per_s: (connections / SWEEP_S).clamp(SWEEP_PER_S.0, SWEEP_PER_S.1),
        storm: job.clients,
        notice: if holders.room.is_some() { FAR_NOTICE } else { Nanos::ZERO },
    };
    let (search, plan) = (StormSearch::new(settings), &job.load.plan);
    // Ramps are not paused: a storm is a trial, and a pause would change what it measures.
    let driven = holders.steer(search, plan, None, speed, session, &emit)?;
    let tipping = driven.procedure.tipping_point();
    let seconds = seconds.into_inner().storms;
    Ok(Found { driven, tipping, seconds })
}
