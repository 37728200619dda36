//! The memory of the policy: the stage of the search, the loads that may be offered, the remaining time.
//!
//! [`Policy`] stores the [`State`] of the plan and what it must remember; measurements are in the evidence, not here.
//! A [`Want`] is the next trial of a state, or the end. [`Policy::trial_length`] computes how long a trial must be
//! for the strictest goal, and [`Policy::exhausted`] compares the trials and their time with the budget. Loads are in
//! operations per second. Start reading at [`State`].

use plimsoll_model::Nanos;
use plimsoll_model::slo::Goal;
use plimsoll_model::trial::{Outcome, Phase, Unsettled};

use super::super::answer::{Known, Landmarks, Stated};
use super::super::grid::Grid;
use super::super::settings::HIGHEST_PER_S;
use super::super::task::Task;
use super::repeats::Repeats;

/// Cells of the grid within the narrowest interval of a mode.
const CELLS_PER_WIDTH: f64 = 4.0;
/// Extension of a search if the server carries few operations per second, for a trial that has enough of them.
pub(in super::super) const SLOW_EXTENSION: Nanos = Nanos::from_secs(300);
/// The longest trial, in lengths of a confirmation.
pub(super) const LONGEST: u64 = 4;
/// Verdicts between two sentinels.
pub(super) const SENTINEL_EVERY: u32 = 3;
/// A verdict that was so unlikely asks for a sentinel at once.
pub(super) const SURPRISE: f64 = 0.05;

/// A stage of the search.
#[derive(Clone, Debug)]
pub(super) enum State {
    Qualify,
    Expand {
        rate: f64,
    },
    /// This load was met, and no higher one may be offered.
    Capped(f64),
    /// Closing in, and confirming what was found.
    Measure,
    /// With the load of the overload.
    Overload(Stated, f64),
    Recover(Stated, Recovering),
    Done,
}

/// The wish of a state: a load, its purpose and its length; or the end.
#[derive(Clone, Debug)]
pub(in super::super) enum Want {
    Trial(Phase, f64, Nanos),
    Finish(Outcome),
}

/// The memory of the policy.
#[derive(Clone, Debug)]
pub(in super::super) struct Policy {
    /// The loads that may be offered: it begins at the lowest of them.
    pub(in super::super) grid: Grid,
    pub(super) state: State,
    pub(super) sentinel: Sentinel,
    pub(super) extended_trial: ExtendedTrial,
    pub(super) repeats: Repeats,
    /// Trials far below the interval that were asked for because others had missed the objective there.
    pub(super) below_again: u32,
    /// Set once the first BAD load was measured again, because the server carried less ever since.
    pub(super) is_retested: bool,
    /// Share of the operations that were well in the best trial at the lowest load before this one.
    pub(super) met_share: Option<f64>,
    /// The load at which expansion ended, and when, on the clock of the trials.
    pub(super) first_bad: f64,
    pub(super) expanded_s: f64,
    /// The lowest load at which only INVALID trials were had while expanding, and why.
    pub(super) ceiling: Option<(f64, String)>,
    /// Extension of the budget.
    pub(super) extended: Nanos,
    /// Before the next trial.
    pub(in super::super) rest: Nanos,
    /// Findings worth a line.
    pub(in super::super) notes: Vec<String>,
}

/// A confirmation whose halves differ is repeated over more time, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ExtendedTrial {
    NotNeeded,
    /// The next confirmation is longer.
    Wanted,
    /// The extended trial was made, or no time was left for it; it is not repeated.
    Done,
}

/// The time of the next sentinel, and its load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Sentinel {
    pub(super) anchor: Option<f64>,
    /// Verdicts since the last one.
    pub(super) verdicts: u32,
    pub(super) is_wanted: bool,
}

/// Trials after the overload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Recovering {
    pub(super) trials: u32,
    /// Since the end of the overload.
    pub(super) passed: Nanos,
}

impl Recovering {
    /// Returns the next rest: none at first, then longer and longer.
    pub(super) fn rest(&self, rest: Nanos) -> Nanos {
        match self.trials {
            0 => Nanos::ZERO,
            trials => Nanos(rest.0.saturating_mul(1 << trials.min(8))),
        }
    }
}

impl Policy {
    pub(in super::super) fn new(task: &Task) -> Self {
        Self {
            grid: Grid::new(task.first(), task.limits.width_max / CELLS_PER_WIDTH),
            state: State::Qualify,
            sentinel: Sentinel::default(),
            extended_trial: ExtendedTrial::NotNeeded,
            repeats: Repeats::default(),
            below_again: 0,
            is_retested: false,
            met_share: None,
            first_bad: HIGHEST_PER_S,
            expanded_s: 0.0,
            ceiling: None,
            extended: Nanos::ZERO,
            rest: Nanos::ZERO,
            notes: Vec::new(),
        }
    }

    /// Reports whether an interval is still looked for.
    pub(in super::super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Qualify | State::Expand { .. } | State::Measure)
    }

    /// Reports whether an interval is being closed in on.
    pub(in super::super) const fn is_measuring(&self) -> bool {
        matches!(self.state, State::Measure)
    }

    /// Reports whether the next plan, or the next result, needs the fit.
    pub(in super::super) const fn needs_fit(&self) -> bool {
        matches!(self.state, State::Measure | State::Overload(..))
    }

    /// Reports whether the server has answered.
    pub(in super::super) const fn has_qualified(&self) -> bool {
        !matches!(self.state, State::Qualify)
    }

    pub(in super::super) fn landmarks(&self) -> Landmarks {
        let stated = match &self.state {
            State::Overload(stated, _) | State::Recover(stated, _) => Some(*stated),
            _ => None,
        };
        Landmarks { lowest: self.lowest(), expanded_s: self.expanded_s, stated }
    }

    /// Ends the search.
    pub(in super::super) fn end(&mut self) {
        self.state = State::Done;
    }

    pub(super) fn lowest(&self) -> f64 {
        self.grid.lowest
    }

    /// Returns the time of the whole search, with its extension.
    pub(super) fn budget(&self, known: &Known<'_>) -> Nanos {
        known.task.settings.budget + self.extended
    }

    /// Returns the exhausted budget that forbids another trial of `duration`.
    pub(in super::super) fn exhausted(
        &self,
        known: &Known<'_>,
        duration: Nanos,
    ) -> Option<Unsettled> {
        let settings = &known.task.settings;
        if known.evidence.made >= settings.trials_max {
            return Some(Unsettled::Trials { most: settings.trials_max });
        }
        let budget = self.budget(known);
        let is_over = known.evidence.spent + self.rest + duration > budget;
        is_over.then_some(Unsettled::Time { budget })
    }

    /// Extends the budget by the time of a trial that a slow server needs for its operations. Returns whether it was
    /// extended.
    pub(super) fn extend_for(&mut self, known: &Known<'_>, span: Nanos) -> bool {
        let settings = &known.task.settings;
        let wanted = (known.evidence.spent + self.rest + span).since(settings.budget);
        let is_allowed = settings.extension > Nanos::ZERO && wanted <= SLOW_EXTENSION;
        if !is_allowed || known.evidence.made >= settings.trials_max {
            return false;
        }
        self.extended = self.extended.max(wanted);
        self.notes.push(format!(
            "so few operations come in {} that {span} more went into a trial",
            settings.budget
        ));
        true
    }

    pub(super) fn affords(&self, known: &Known<'_>, span: Nanos) -> bool {
        self.exhausted(known, span).is_none()
    }

    /// Returns the length of a trial at `rate` that would be `shortest` without other demands.
    ///
    /// Only final trials are stretched all the way for a long deadline: what shorter ones miss of a
    /// slowly growing queue, the backlog check sees.
    pub(in super::super) fn trial_length(
        &self,
        known: &Known<'_>,
        rate: f64,
        shortest: Nanos,
    ) -> Nanos {
        let (limits, slo) = (&known.task.limits, &known.task.slo);
        let tail = slo.goals.iter().filter_map(|goal| match goal {
            Goal::Latency { quantile, .. } => Some(limits.tail_ops / (1.0 - quantile)),
            Goal::Errors { .. } => None,
        });
        let tail_span = Nanos::from_secs_f64(tail.fold(0.0, f64::max) / rate);
        let deadline_s = slo.deadline().unwrap_or_default().as_secs_f64();
        let coarse = shortest < limits.final_trial;
        let times = if coarse { 5.0 } else { (1.0 / limits.width_max).max(20.0) };
        let deadline_span = Nanos::from_secs_f64(deadline_s * times);
        // Coarse trials decide nothing for good: a tenth of the sample is enough.
        let tail_span = if coarse { Nanos(tail_span.0 / 10) } else { tail_span };
        let length = shortest
            .max(tail_span.min(limits.tail_span_max))
            .max(deadline_span.min(limits.deadline_span_max));
        // The trial is longer if those before it were inconclusive.
        let most = Nanos(limits.confirm_trial.0 * LONGEST);
        let longer = Nanos(length.0 << known.evidence.inconclusive_at(rate).min(4)).min(most);
        let is_longer = longer > length && self.affords(known, longer);
        known.evidence.whole(if is_longer { longer } else { length })
    }
}
