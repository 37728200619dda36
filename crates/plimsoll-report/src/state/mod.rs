//! The state of a running command, reduced once from its events. Lines of progress, the screen and the metrics are
//! projections of it.
//!
//! [`RunState::handle_event`] takes each event; [`RunState::said`] then has the line that it is worth.
//! [`RunState::handle_reading`] takes the readings of hosts. A screen copies the state several times a second, so that
//! everything large in it is shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_model::compare::BlockStart;
use plimsoll_model::event::Event;
use plimsoll_model::host::{Change, Reading};
use plimsoll_model::search::Axis;
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::{TippingPoint, TrialBounds, TrialRecord, TrialRequest, Verdict};
use plimsoll_model::{Nanos, Rate};

use crate::digest::cycles::cycle_line;
use crate::reasons;
use crate::terminal::layout::{clean, counted};
use crate::terminal::{answer_line, bounds_line, level_line, plateau_line, render_trial_line};

mod holding;
mod host;
mod second;

pub(crate) use holding::Holding;
pub(crate) use host::{Host, HostRow};
pub(crate) use second::Second;

/// The state as of the last event.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunState {
    /// `true` if trials are made.
    pub(crate) is_search: bool,
    /// The trial that runs, or the last one.
    pub(crate) trial: Option<TrialRequest>,
    /// The block of a comparison that runs.
    pub(crate) block: Option<BlockStart>,
    /// Length of the load.
    pub(crate) planned: Option<Nanos>,
    /// Start of the load; `None` between two trials.
    pub(crate) started_at: Option<Nanos>,
    /// The most operations that may still be answered, after sending has ended.
    pub(crate) draining: Option<u64>,
    /// The bounds by the verdicts of trials alone; [`Self::known`] also has the bounds of an answer.
    bounds: TrialBounds,
    /// The last answer of a search. Until the search ends it has bounds.
    pub(crate) answer: Option<Box<TippingPoint>>,
    pub(crate) holding: Option<Holding>,
    /// Connections that the steps of this load were to reach so far.
    pub(crate) asked: Option<u64>,
    /// The last second of the load that runs, or ran last; `None` before its first.
    pub(crate) second: Option<Arc<Interval>>,
    /// All seconds of that load, without [`Tally::outstanding`].
    pub(crate) load: Arc<Tally>,
    /// The loads before it, merged.
    before: Arc<Tally>,
    /// Trials that were judged, by the name of their verdict.
    judged: BTreeMap<&'static str, u64>,
    /// By name.
    pub(crate) hosts: BTreeMap<String, Host>,
}

/// A line for the reader.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    /// About a trial or a level that has ended.
    Result(String),
    /// The answer of a search so far.
    Answer(String),
    Note(String),
}

impl Said {
    /// Returns the line.
    pub(crate) fn into_text(self) -> String {
        match self {
            Self::Result(text) | Self::Answer(text) | Self::Note(text) => text,
        }
    }
}

impl RunState {
    /// Returns the state at the start of the next search of a command: counters continue, and the hosts are the same.
    pub(crate) fn next_search(&self) -> Self {
        let before = Arc::new(self.total());
        let (judged, hosts) = (self.judged.clone(), self.hosts.clone());
        Self { before, judged, hosts, ..Self::default() }
    }

    /// Returns all seconds of all loads, without [`Tally::outstanding`].
    pub(crate) fn total(&self) -> Tally {
        let mut total = Tally::clone(&self.before);
        // A load without a second holds no connections, and those of the load before may still be open.
        if self.second.is_some() {
            total.merge_following(&self.load);
        }
        total
    }

    /// Returns the number of trials with `verdict`.
    pub(crate) fn judged(&self, verdict: Verdict) -> u64 {
        self.judged.get(verdict.name()).copied().unwrap_or_default()
    }

    /// Takes an event; `elapsed` since any fixed instant of the run.
    pub(crate) fn handle_event(&mut self, event: &Event, elapsed: Nanos) {
        match event {
            Event::LoadStarted { trial, planned, .. } => {
                self.is_search |= trial.is_some();
                self.trial = *trial;
                self.planned = *planned;
                self.started_at = Some(elapsed);
                self.draining = None;
                self.asked = None;
                if self.second.take().is_some() {
                    let ended = std::mem::take(&mut self.load);
                    Arc::make_mut(&mut self.before).merge_following(&ended);
                }
            }
            Event::Interval(interval) => self.handle_second(interval),
            Event::HoldStep(step) => {
                self.asked = step.aim().or(self.asked);
                self.hold().handle_step(*step, elapsed);
            }
            Event::Memory(memory) => self.hold().handle_memory(**memory),
            Event::PlateauEnded(plateau) => self.hold().plateaus.push(**plateau),
            Event::CycleEnded(cycles) => self.hold().cycles = Some(cycles.clone()),
            Event::Draining { in_flight } => self.draining = Some(*in_flight),
            Event::TrialStarted(trial) => {
                self.is_search = true;
                self.trial = Some(*trial);
            }
            Event::TrialEnded(record) => self.handle_trial(record),
            Event::Answer(answer) if !answer.has_bounds() => {}
            Event::Answer(answer) | Event::SearchEnded(answer) => {
                self.answer = Some(answer.clone());
            }
            Event::BlockStarted(block) => self.block = Some(*block),
            Event::FirstFailure { .. }
            | Event::Note(_)
            | Event::TimersProbed(_)
            | Event::Rows(_) => {}
        }
    }

    /// Takes a trial that was judged.
    pub(crate) fn handle_trial(&mut self, record: &TrialRecord) {
        self.bounds.add(record);
        *self.judged.entry(record.judgement.verdict.name()).or_default() += 1;
        // The load of a hold continues.
        self.started_at = self.started_at.filter(|_| self.holding.is_some());
    }

    /// Takes a reading of `host`. Returns the one before.
    pub(crate) fn handle_reading(
        &mut self,
        host: &str,
        reading: Arc<Reading>,
    ) -> Option<Arc<Reading>> {
        let before = self.hosts.get(host).map(|host| Arc::clone(&host.reading));
        let row = before.as_deref().map(|before| HostRow::of(&Change::new(before, &reading)));
        self.hosts.insert(host.to_owned(), Host { reading, row });
        before
    }

    /// Returns the number of the trial or block of the load; `None` for a plain load.
    pub(crate) fn number(&self) -> Option<u32> {
        let block = self.block.map(|block| block.number);
        self.trial.map(|trial| trial.number).or(block)
    }

    /// Returns the line that `event` is worth, once it was taken.
    pub(crate) fn said(&self, event: &Event) -> Option<Said> {
        Some(match event {
            Event::PlateauEnded(plateau) => {
                let baseline = self.holding.as_ref().and_then(|holding| holding.baseline);
                Said::Result(plateau_line(plateau, &baseline.unwrap_or_default()))
            }
            Event::CycleEnded(cycles) => Said::Result(cycle_line(cycles)),
            Event::TrialEnded(record) if self.holding.is_some() => Said::Result(level_line(record)),
            Event::TrialEnded(record) => Said::Result(render_trial_line(record)),
            Event::Answer(answer) if answer.has_bounds() => {
                Said::Answer(answer_line(self.axis(), answer))
            }
            Event::FirstFailure { class, reason } => {
                Said::Note(reasons::first_failure(*class, reason))
            }
            Event::Note(text) => Said::Note(clean(text)),
            _ => return None,
        })
    }

    /// Returns the state of a hold in one line.
    pub(crate) fn hold_line(&self, elapsed: Nanos) -> Option<String> {
        let opened = self.second.as_ref().map_or(0, |second| second.tally.connections.opened);
        Some(self.holding.as_ref()?.line(&self.load, opened, elapsed))
    }

    /// Returns `round 3, B`, of a comparison.
    pub(crate) fn block_text(&self) -> Option<String> {
        self.block.map(|BlockStart { round, arm, .. }| match round {
            0 => format!("first loads, {}", arm.name()),
            round => format!("round {round}, {}", arm.name()),
        })
    }

    /// Returns the last answer in one line.
    pub(crate) fn answer_line(&self) -> Option<String> {
        Some(answer_line(self.axis(), self.answer.as_ref()?))
    }

    /// Returns the bounds so far: `between 33,779/s and 35,377/s (90 % confidence)`, or `good at 33,779/s, bad at
    /// 35,377/s` until there is an answer.
    pub(crate) fn bounds_text(&self) -> Option<String> {
        if let Some(answer) = &self.answer {
            return Some(bounds_line(self.axis(), answer));
        }
        let TrialBounds { good_max, bad_min } = self.bounds;
        let text = |rate: Rate| self.load_text(rate);
        match (good_max.map(text), bad_min.map(text)) {
            // Trials may contradict each other; the search weighs them, this line does not.
            (Some(good), Some(bad)) if bad_min <= good_max => {
                Some(format!("both good and bad from {bad} to {good}"))
            }
            (Some(good), Some(bad)) => Some(format!("good at {good}, bad at {bad}")),
            (Some(good), None) => Some(format!("good at {good}")),
            (None, Some(bad)) => Some(format!("bad at {bad}")),
            (None, None) => None,
        }
    }

    /// Returns the load of a trial: `33,779/s`, or `10,000 connections` of a hold.
    pub(crate) fn load_text(&self, load: Rate) -> String {
        match self.axis() {
            Axis::Connections => counted(load.get() as u64, "connection"),
            _ => load.to_string(),
        }
    }

    /// Returns the bounds so far: the bounds of the last answer, or of the verdicts of trials until there is an answer.
    pub(crate) fn known(&self) -> (TrialBounds, Option<Rate>) {
        self.answer.as_ref().map_or((self.bounds, None), |answer| {
            (TrialBounds { good_max: answer.lower, bad_min: answer.upper }, answer.safe)
        })
    }

    /// Returns the axis of the loads in its lines: rates are written alike, whatever the operation.
    const fn axis(&self) -> Axis {
        if self.holding.is_some() { Axis::Connections } else { Axis::Rate }
    }

    fn hold(&mut self) -> &mut Holding {
        self.holding.get_or_insert_default()
    }

    fn handle_second(&mut self, interval: &Interval) {
        let tally = &interval.tally;
        // The second in which sending ended has earlier answers in it: this is an upper bound.
        let ended = tally.ok + tally.errors_total();
        self.draining = self.draining.map(|left| left.saturating_sub(ended));
        let load = Arc::make_mut(&mut self.load);
        load.merge_following(tally);
        load.outstanding.clear();
        self.second = Some(Arc::new(interval.clone()));
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::trial::{Phase, Verdict};

    use super::*;
    use crate::fixtures;

    #[test]
    fn bounds_that_cross_are_not_shown_as_bounds() {
        let bounds = |phase, good, bad| {
            let mut state = RunState::default();
            for (per_s, verdict) in [(good, Verdict::Good), (bad, Verdict::Bad)] {
                let trial = fixtures::trial(1, phase, per_s, 1, verdict);
                state.handle_event(&Event::TrialEnded(Box::new(trial)), Nanos::ZERO);
            }
            state.bounds_text()
        };
        let narrow = |good, bad| bounds(Phase::Narrow, good, bad).unwrap();
        assert_eq!(narrow(100, 200), "good at 100/s, bad at 200/s");
        assert_eq!(narrow(200, 100), "both good and bad from 100/s to 200/s");
        // Neither says where the tipping point is.
        assert_eq!(bounds(Phase::Sentinel, 100, 200), None);
        assert_eq!(bounds(Phase::Safe, 100, 200), None);
    }
}
