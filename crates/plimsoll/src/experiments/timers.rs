//! Hidden timers of a search: the timeout probe beside its first trials, and what all trials show.

use plimsoll_capacity::cliffs;
use plimsoll_capacity::cliffs::{Load, SlowAnswers};
use plimsoll_engine::timeouts::{Probe, ProbePlan};
use plimsoll_fleet::coordinator::LoadOutcome;
use plimsoll_lab::WatchedServer;
use plimsoll_model::Nanos;
use plimsoll_model::cliff::{KnownTimer, ProbedTimer};
use plimsoll_model::ending::Closer;
use plimsoll_model::event::Event;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::trial::{TrialMeasurement, TrialRecord};

use crate::session::{Session, Timers};

/// Period of checking the probe for its end.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// Returns the timers of one load or hold: the observed ones, and the longest one that it could have observed.
pub(super) fn of_one_load(
    plan: &LoadPlan,
    server: &dyn WatchedServer,
    outcome: &LoadOutcome,
    slow: &SlowAnswers,
    sent_again: Option<u64>,
) -> Timers {
    let load = Load { tally: &outcome.tally, slow, rate: None, sent_again };
    Timers {
        cliffs: cliffs::find(&[load], &known(plan, server)),
        probed: None,
        horizon: cliffs::horizon(plan, outcome.window, outcome.is_partial(), None),
    }
}

/// Returns our own timers, and the timers of the server as far as they are configured or can be read.
fn known(plan: &LoadPlan, server: &dyn WatchedServer) -> Vec<KnownTimer> {
    let mut known = cliffs::own_timers(plan);
    known.extend(server.timers(plan));
    known
}

/// Timers that are configured, and those observed while a search runs.
pub(super) struct TimerWatch {
    known: Vec<KnownTimer>,
    /// While it waits.
    probe: Option<Probe>,
    wait: Nanos,
    /// Findings of the probe, once it has ended.
    probed: Option<Vec<ProbedTimer>>,
    /// The slow answers of every trial that has begun.
    slow: Vec<SlowAnswers>,
}

impl TimerWatch {
    /// Starts the probe, if there is to be one.
    pub(super) fn start(plan: &LoadPlan, wait: Option<Nanos>, session: &Session<'_>) -> Self {
        let known = known(plan, &**session.server());
        let probe = wait.and_then(|wait| probe(plan, wait, session));
        let wait = wait.unwrap_or_default();
        if probe.is_some() {
            let note = format!(
                "timeout probe: connections wait up to {wait} for the server's timers \
                 (--probe-timeouts)"
            );
            session.note(note);
        }
        Self { known, probe, wait, probed: None, slow: Vec::new() }
    }

    /// Hears what happens in trials.
    pub(super) fn handle_event(&mut self, event: &Event) {
        match event {
            Event::LoadStarted { trial: Some(_), .. } | Event::TrialStarted(_) => {
                self.slow.push(SlowAnswers::default());
            }
            Event::Interval(interval) => {
                if let Some(slow) = self.slow.last_mut() {
                    slow.handle_second(interval);
                }
            }
            _ => {}
        }
    }

    /// Waits for the probe: overload ends connections, and would look like a timer.
    pub(super) fn wait(&mut self, session: &Session<'_>) {
        let under_way = |probe: &Option<Probe>| probe.as_ref().is_some_and(|p| !p.is_over());
        if under_way(&self.probe) {
            session.note("waiting for the timeout probe to end".to_owned());
        }
        while under_way(&self.probe) && !session.is_interrupted() {
            session.rest(LOOK_EVERY);
        }
        self.finish(session);
    }

    /// Ends the probe and takes its findings so far.
    pub(super) fn finish(&mut self, session: &Session<'_>) {
        let Some(probe) = self.probe.take() else { return };
        let mut ends = probe.finish();
        // An interrupted wait shows nothing: the timer may have fired later.
        ends.retain(|end| end.closer != Closer::Us || end.after >= self.wait);
        let probed = cliffs::probed_timers(&ends, &self.known);
        session.emit(&Event::TimersProbed(probed.clone()));
        self.probed = Some(probed);
    }

    /// Looks for timers in all trials together: those found, and the longest wait observed.
    pub(super) fn found(self, plan: &LoadPlan, trials: &[TrialRecord]) -> Timers {
        let longest_trial = trials.iter().map(|trial| trial.measurement.window).max();
        let probe = self.probed.is_some().then_some(self.wait);
        // A trial that was interrupted has no record.
        let loads: Vec<_> = trials.iter().zip(&self.slow).map(load).collect();
        Timers {
            cliffs: cliffs::find(&loads, &self.known),
            probed: self.probed,
            horizon: cliffs::horizon(plan, longest_trial.unwrap_or_default(), false, probe),
        }
    }
}

/// Starts the probe of the first target's server; a note says why it does not start.
fn probe(plan: &LoadPlan, wait: Nanos, session: &Session<'_>) -> Option<Probe> {
    let server = session.server();
    let destination = *plan.target_destination.first()? as usize;
    let plan = ProbePlan {
        destination: plan.destinations.get(destination)?.clone(),
        unix_socket: plan.unix_socket.clone(),
        target: plan.targets.first()?.clone(),
        tls: plan.tls.clone(),
        wait,
        backend_is_ours: server.backend_is_ours(),
    };
    // Its threads stay where they were started.
    let started = match server.isolated() {
        Some(hosts) => hosts.clients.run(|| Probe::start(plan)).map_err(|why| why.to_string()),
        None => Ok(Probe::start(plan)),
    };
    let probe = started.and_then(|probe| probe.map_err(|why| why.to_string()));
    probe.map_err(|why| session.note(format!("{why}; no timers probed"))).ok()
}

fn load<'a>((trial, slow): (&'a TrialRecord, &'a SlowAnswers)) -> Load<'a> {
    let TrialMeasurement { request, tally, observations, .. } = &trial.measurement;
    let sent_again = observations.network.map(|network| network.sent_again);
    Load { tally, slow, rate: Some(request.rate), sent_again }
}
