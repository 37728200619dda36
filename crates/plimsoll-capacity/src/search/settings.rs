//! Settings of a search: the modes and their figures.
//!
//! Each [`Mode`] has a table of [`Limits`]: lengths of trials, widths, rests and the budget. [`Limits::within`] picks
//! the most thorough mode that a given budget suffices for, and interpolates between [`BUDGET_MIN`] (30 s) and quick
//! mode below that. [`SearchSettings`] adds the loads and the confidence of one search. Budgets count trial and rest
//! time, not starting and draining. Start reading at [`Limits`].

use std::fmt;

use plimsoll_model::{Nanos, Rate, search};

/// Length and number of the search's trials.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// About two minutes if the server is steady. The budget is 3.5 minutes; it grows to 4.5 if time is short while the
    /// interval is measured, and to at most 8.5 if the server carries few operations per second.
    Quick,
    /// About ten minutes, never more than 25.
    Standard,
    /// About three quarters of an hour, never more than 90 minutes.
    Strict,
}

/// The figures of a mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Shortest trial while expanding and in the first, coarse narrowing.
    pub initial_trial: Nanos,
    /// Shortest trial that decides a bound.
    pub final_trial: Nanos,
    /// Relative width at which an interval is narrow enough. It stays wider if the capacity
    /// differs from trial to trial, or if the budget ends.
    pub width_max: f64,
    /// Length of an overload that looks whether the server is still the same.
    pub sentinel_trial: Nanos,
    /// Length of a confirmation trial.
    pub confirm_trial: Nanos,
    /// Confirmation trials that have to be GOOD; there must also be twice as many as BAD ones.
    pub confirmations: u32,
    /// Trials of the same length, with random arrivals, that find the safe load.
    pub safe_trials: u32,
    /// Rest after a trial that was not GOOD, before load is offered again.
    pub rest: Nanos,
    /// Longest such rest, if the SUT needs longer to come back.
    pub rest_max: Nanos,
    /// Trial and rest time of the whole search.
    pub budget: Nanos,
    /// Trials of the whole search, INVALID ones included.
    pub trials_max: u32,
    /// Operations beyond the strictest quantile that a final trial should see.
    pub tail_ops: f64,
    /// The most by which a final trial is stretched for `tail_ops`.
    pub tail_span_max: Nanos,
    /// The most by which a final trial is stretched for a long deadline.
    pub deadline_span_max: Nanos,
}

const QUICK: Limits = Limits {
    initial_trial: Nanos::from_secs(3),
    final_trial: Nanos::from_secs(5),
    width_max: 0.05,
    sentinel_trial: Nanos::from_secs(3),
    confirm_trial: Nanos::from_secs(15),
    confirmations: 1,
    safe_trials: 4,
    rest: Nanos::from_millis(1_500),
    rest_max: Nanos::from_secs(6),
    budget: Nanos::from_secs(210),
    trials_max: 60,
    // 500 operations for a p99.
    tail_ops: 5.0,
    tail_span_max: Nanos::from_secs(15),
    deadline_span_max: Nanos::from_secs(8),
};

const STANDARD: Limits = Limits {
    initial_trial: Nanos::from_secs(3),
    final_trial: Nanos::from_secs(10),
    width_max: 0.02,
    sentinel_trial: Nanos::from_secs(5),
    confirm_trial: Nanos::from_secs(60),
    confirmations: 3,
    safe_trials: 6,
    rest: Nanos::from_secs(2),
    rest_max: Nanos::from_secs(16),
    budget: Nanos::from_secs(1_500),
    trials_max: 150,
    tail_ops: 100.0,
    tail_span_max: Nanos::from_secs(60),
    deadline_span_max: Nanos::from_secs(60),
};

const STRICT: Limits = Limits {
    initial_trial: Nanos::from_secs(5),
    final_trial: Nanos::from_secs(30),
    width_max: 0.01,
    sentinel_trial: Nanos::from_secs(5),
    confirm_trial: Nanos::from_secs(60),
    confirmations: 6,
    safe_trials: 8,
    rest: Nanos::from_secs(2),
    rest_max: Nanos::from_secs(16),
    budget: Nanos::from_secs(5_400),
    trials_max: 250,
    tail_ops: 1_000.0,
    tail_span_max: Nanos::from_secs(60),
    deadline_span_max: Nanos::from_secs(60),
};

impl Mode {
    /// Every mode, the fastest first.
    pub const ALL: &'static [Self] = &[Self::Quick, Self::Standard, Self::Strict];

    /// Returns the mode's name on the command line.
    pub fn name(self) -> &'static str {
        search::Mode::from(self).name()
    }

    /// Returns the mode's figures.
    pub const fn limits(self) -> &'static Limits {
        match self {
            Self::Quick => &QUICK,
            Self::Standard => &STANDARD,
            Self::Strict => &STRICT,
        }
    }
}

/// Extension of a quick search: a host that changes its speed late in it leaves no time to measure the other one.
const QUICK_EXTENSION: Nanos = Nanos::from_secs(60);

/// The shortest budget of a search.
pub(crate) const BUDGET_MIN: Nanos = Nanos::from_secs(30);
/// Figures of a search with [`BUDGET_MIN`]: a bracket, and a load that met the SLO. One with a budget between
/// this and quick mode's has figures in between.
const SHORTEST: Limits = Limits {
    initial_trial: Nanos::from_secs(1),
    final_trial: Nanos::from_millis(1_500),
    width_max: 0.15,
    sentinel_trial: Nanos::from_secs(1),
    confirm_trial: Nanos::from_secs(3),
    safe_trials: 1,
    rest: Nanos::from_millis(300),
    budget: BUDGET_MIN,
    tail_ops: 1.0,
    tail_span_max: Nanos::from_secs(2),
    deadline_span_max: Nanos::from_secs(2),
    // The longest rest, too: only a server that needs it gets it.
    ..QUICK
};

impl Limits {
    /// Returns the figures of a search that takes `budget` of trial and rest time: the figures of the most thorough
    /// mode that the budget suffices for.
    pub fn within(budget: Nanos) -> Self {
        let mut modes = Mode::ALL.iter().rev().map(|mode| mode.limits());
        if let Some(limits) = modes.find(|limits| limits.budget <= budget) {
            return Self { budget, ..*limits };
        }
        // Between the shortest search and a quick one.
        let over_s = |budget: Nanos| budget.since(SHORTEST.budget).as_secs_f64();
        let at = (over_s(budget) / over_s(QUICK.budget)).clamp(0.0, 1.0);
        let between = |less: f64, more: f64| less + at * (more - less);
        let tenths = |less: Nanos, more: Nanos| {
            let span_s = between(less.as_secs_f64(), more.as_secs_f64());
            Nanos::from_secs_f64((span_s * 10.0).round() / 10.0)
        };
        Self {
            initial_trial: tenths(SHORTEST.initial_trial, QUICK.initial_trial),
            final_trial: tenths(SHORTEST.final_trial, QUICK.final_trial),
            width_max: between(SHORTEST.width_max, QUICK.width_max),
            sentinel_trial: tenths(SHORTEST.sentinel_trial, QUICK.sentinel_trial),
            confirm_trial: tenths(SHORTEST.confirm_trial, QUICK.confirm_trial),
            safe_trials: between(1.0, QUICK.safe_trials.into()).round() as u32,
            rest: tenths(SHORTEST.rest, QUICK.rest),
            budget,
            tail_ops: between(SHORTEST.tail_ops, QUICK.tail_ops),
            tail_span_max: tenths(SHORTEST.tail_span_max, QUICK.tail_span_max),
            deadline_span_max: tenths(SHORTEST.deadline_span_max, QUICK.deadline_span_max),
            ..QUICK
        }
    }
}

impl From<Mode> for search::Mode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::Quick => Self::Quick,
            Mode::Standard => Self::Standard,
            Mode::Strict => Self::Strict,
        }
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Settings of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct SearchSettings {
    /// Thoroughness.
    pub mode: Mode,
    /// First load; above zero.
    pub lowest: Rate,
    /// The lowest load that is ever offered: a search whose first load is missed goes down to it.
    pub floor: Rate,
    /// Highest load that may be offered; `None` stops at ten million per second.
    pub cap: Option<Rate>,
    /// Reason for the cap, for the report.
    pub cap_reason: String,
    /// Rate that the generator reaches alone, with the same profile against a server that does nothing,
    /// if that was measured. Not more than [`crate::validity::REFERENCE_FAIL`] of it is offered.
    pub reference: Option<Rate>,
    /// Trial and rest time of the whole search; starting and draining trials come on top.
    pub budget: Nanos,
    /// Extension of a search that would otherwise end without an interval or a safe load.
    pub extension: Nanos,
    /// Trials of the whole search, INVALID ones included.
    pub trials_max: u32,
    /// Confidence that the interval contains the capacity, 0.5 to 1.
    pub confidence: f64,
}

/// Confidence of an interval when the user names none.
pub const CONFIDENCE: f64 = 0.9;

/// The first load when the user names none.
pub const LOWEST_PER_S: f64 = 100.0;
/// The lowest load when the user names none.
const FLOOR_PER_S: f64 = 1.0;
/// The largest rate that any flag accepts.
pub(crate) const HIGHEST_PER_S: f64 = 1e7;

impl SearchSettings {
    /// Creates the default settings of a mode.
    pub fn new(mode: Mode) -> Self {
        let limits = mode.limits();
        Self {
            mode,
            lowest: Rate::per_second(LOWEST_PER_S).unwrap_or_default(),
            floor: Rate::per_second(FLOOR_PER_S).unwrap_or_default(),
            cap: None,
            cap_reason: "--max".to_owned(),
            reference: None,
            budget: limits.budget,
            extension: if mode == Mode::Quick { QUICK_EXTENSION } else { Nanos::ZERO },
            trials_max: limits.trials_max,
            confidence: CONFIDENCE,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_has_the_figures_of_the_mode_that_it_suffices_for() {
        let of = |seconds| Limits::within(Nanos::from_secs(seconds));
        assert_eq!(of(210), QUICK);
        assert_eq!(of(300), Limits { budget: Nanos::from_secs(300), ..QUICK });
        assert_eq!(of(1_500), STANDARD);
        assert_eq!(of(30), SHORTEST);
        let minute = of(60);
        assert!(minute.confirm_trial > SHORTEST.confirm_trial && minute.width_max < 0.15);
    }

    #[test]
    fn modes_have_the_names_of_the_command_line() {
        let names: Vec<String> = Mode::ALL.iter().map(Mode::to_string).collect();
        assert_eq!(names, ["quick", "standard", "strict"]);
    }
}
