//! The state of a run for its screen.
//!
//! A [`Tracker`] takes events and readings and owns the [`State`], which `tui/draw.rs` draws. Figures that all
//! outputs share are in [`RunState`]; this module adds the history that only a screen shows: 300 seconds, 400 trials,
//! and 100 lines of results and of notes, of which the oldest go first. Times are durations since the run started and
//! come in as arguments. Start reading at [`Tracker::handle_event`].

use std::collections::VecDeque;
use std::sync::Arc;

use plimsoll_model::event::Event;
use plimsoll_model::host::Reading;
use plimsoll_model::trial::{TrialMeasurement, TrialRecord, Verdict};
use plimsoll_model::{ErrorClass, Nanos};

use crate::state::{RunState, Said, Second};

/// Seconds that the chart shows at most.
const SECONDS_MAX: usize = 300;
/// Trials that are drawn at most; the oldest go first.
const TRIALS_MAX: usize = 400;
/// Notes and lines that are kept.
const LINES_MAX: usize = 100;

/// The most time that a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// The time of its trials together.
    Trials(Nanos),
    /// From its first load on.
    Elapsed(Nanos),
}

/// The facts of a run before its first event.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// `load`, `find`, `lab hold`.
    pub command: String,
    /// Target in reports.
    pub target: String,
    /// The SLO as `--slo` spells it.
    pub slo: Option<String>,
    /// An answer after this is late.
    pub deadline: Option<Nanos>,
    /// The most time that it takes, where there is a limit.
    pub budget: Option<Budget>,
    /// URL of the live page of the run, with its token.
    pub page: Option<String>,
}

/// Everything that is drawn, as of the last event. Its size is bounded by the number of hosts.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(super) head: Head,
    pub(super) run: RunState,
    pub(super) seconds: VecDeque<Second>,
    pub(super) trials: VecDeque<TrialMark>,
    /// Duration of all trials.
    pub(super) tried: Nanos,
    /// Start of the first load.
    pub(super) first_load: Option<Nanos>,
    /// Lines of trials, levels and rounds, the oldest first.
    pub(super) lines: VecDeque<String>,
    pub(super) notes: VecDeque<String>,
    /// Somebody has asked for an end.
    pub(super) stopping: bool,
    /// The answer to a key, and when it was given.
    pub(super) said: Option<(String, Nanos)>,
}

/// A trial that was judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrialMark {
    pub(super) per_s: f64,
    pub(super) p99_ms: Option<f64>,
    pub(super) verdict: Verdict,
}

/// Makes the state from what happens.
#[derive(Debug, Default)]
pub struct Tracker {
    state: State,
}

impl State {
    /// Failures in the load so far by class, the most first: operations and lost connections, or attempts at
    /// connections if those are more.
    pub(super) fn errors(&self) -> Vec<(ErrorClass, u64)> {
        let tally = &self.run.load;
        let failed = |class: &ErrorClass| {
            let ended =
                tally.failures.operations.get(*class) + tally.failures.lost_held.get(*class);
            (*class, ended.max(tally.failures.attempts.get(*class)))
        };
        let mut errors: Vec<_> = ErrorClass::ALL.iter().map(failed).collect();
        errors.retain(|(_, count)| *count > 0);
        errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        errors
    }

    /// Returns the most time that is left, where there is a limit.
    pub(super) fn left(&self, elapsed: Nanos) -> Option<Nanos> {
        let (budget, spent) = match self.head.budget? {
            Budget::Trials(budget) => (budget, self.tried),
            Budget::Elapsed(budget) => (budget, elapsed.since(self.first_load.unwrap_or(elapsed))),
        };
        Some(budget.since(spent))
    }

    fn handle_trial(&mut self, record: &TrialRecord) {
        let TrialMeasurement { request, window, tally, .. } = &record.measurement;
        self.tried = self.tried + *window;
        let mark = TrialMark {
            per_s: request.rate.get(),
            p99_ms: tally.spans.corrected.quantile(0.99).map(Nanos::as_millis_f64),
            verdict: record.judgement.verdict,
        };
        push(&mut self.trials, TRIALS_MAX, mark);
    }
}

impl Tracker {
    /// Creates a run before its first event.
    pub fn new(head: Head) -> Self {
        Self { state: State { head, ..State::default() } }
    }

    /// Returns the drawn state.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Notes, the oldest first: they are worth reading after the screen is gone.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.state.notes.iter().map(String::as_str)
    }

    /// Records that the user has stopped the run, which ends once open operations have ended.
    pub fn handle_stop(&mut self) {
        self.state.stopping = true;
    }

    /// Answers a key that the run cannot follow.
    pub fn say(&mut self, what: impl Into<String>, elapsed: Nanos) {
        self.state.said = Some((what.into(), elapsed));
    }

    /// Takes an event; `elapsed` since the run began.
    pub fn handle_event(&mut self, event: &Event, elapsed: Nanos) {
        let state = &mut self.state;
        state.run.handle_event(event, elapsed);
        match state.run.said(event) {
            Some(Said::Result(line)) => push_line(&mut state.lines, line),
            Some(Said::Note(line)) => push_line(&mut state.notes, line),
            // The screen draws the answer of `run`.
            Some(Said::Answer(_)) | None => {}
        }
        match event {
            Event::LoadStarted { .. } => {
                state.first_load.get_or_insert(elapsed);
            }
            Event::Interval(interval) => {
                push(&mut state.seconds, SECONDS_MAX, Second::of(&interval.tally));
            }
            Event::TrialEnded(record) => state.handle_trial(record),
            _ => {}
        }
    }

    /// Takes a reading of `host`.
    pub fn handle_reading(&mut self, host: &str, reading: &Reading) {
        self.state.run.handle_reading(host, Arc::new(reading.clone()));
    }
}

/// Adds to a list of at most `most`; the oldest goes where there are too many.
pub(super) fn push<T>(list: &mut VecDeque<T>, most: usize, item: T) {
    if list.len() == most {
        list.pop_front();
    }
    list.push_back(item);
}

pub(super) fn push_line(lines: &mut VecDeque<String>, line: String) {
    push(lines, LINES_MAX, line.replace('\u{a0}', " "));
}
