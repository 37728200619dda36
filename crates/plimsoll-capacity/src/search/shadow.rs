//! Trials in the shadow of an overload: a server that needs longer than the rest to come back is
//! BAD at loads that it can well serve.
//!
//! A trial that follows one that was not GOOD is deferred if it is BAD against all that is known, or if
//! the server carried far less than it did before. It is repeated after a rest twice as long, and
//! whatever the repeat says counts.

use plimsoll_model::Nanos;
use plimsoll_model::trial::TrialMeasurement;

use super::evidence::Evidence;

/// Share of a load that was GOOD below which a server carries "far less": noise of 10 % does not
/// reach it.
const COLLAPSED: f64 = 0.75;
/// A BAD verdict that was so unlikely.
const UNEXPECTED: f64 = 0.03;
/// Trials deferred in one search.
const DEFERRED_MAX: usize = 6;

/// The guard against the shadow of an overload.
#[derive(Clone, Debug)]
pub(super) struct Shadow {
    /// `true` if the last verdict was BAD.
    pub(super) after_bad: bool,
    /// Number of trials that were deferred.
    deferred: usize,
    /// Load of the trial that was deferred last, until it is repeated.
    pub(super) repeat: Option<f64>,
    /// Rest after a BAD trial.
    pub(super) rest: Nanos,
    rest_max: Nanos,
}

/// The guard's verdict on a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Suspicion {
    /// The trial counts.
    None,
    /// The trial is the repeat, which met the objective after this much rest.
    Confirmed(Nanos),
    /// The trial is deferred: it is repeated after a longer rest.
    Deferred,
}

impl Shadow {
    pub(super) const fn new(rest: Nanos, rest_max: Nanos) -> Self {
        Self { after_bad: false, deferred: 0, repeat: None, rest, rest_max }
    }

    /// Looks at a trial that moves bounds; `expected` is how likely its being BAD was, if that is known.
    pub(super) fn observe(
        &mut self,
        evidence: &Evidence,
        measurement: &TrialMeasurement,
        good: bool,
        expected: Option<f64>,
    ) -> Suspicion {
        let rate = measurement.request.rate.get();
        let repeated = self.repeat.take() == Some(rate);
        if good {
            return if repeated { Suspicion::Confirmed(self.rest) } else { Suspicion::None };
        }
        let can_rest = self.rest < self.rest_max;
        if !self.after_bad || self.deferred >= DEFERRED_MAX || (repeated && !can_rest) {
            return Suspicion::None;
        }
        let best = evidence.highest_good();
        let collapsed =
            best.is_some_and(|best| measurement.carried_per_s() < COLLAPSED * best.min(rate));
        if !collapsed && expected.is_none_or(|p| p >= UNEXPECTED) {
            return Suspicion::None;
        }
        self.rest = Nanos((2 * self.rest.0).min(self.rest_max.0));
        self.deferred += 1;
        self.repeat = Some(rate);
        Suspicion::Deferred
    }
}
