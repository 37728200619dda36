//! Trials in the shadow of an overload: a server that needs longer than the rest to come back is
//! BAD at loads that it can well serve.
//!
//! A trial that follows one that was not GOOD is put aside where it is BAD against all that is
//! known, or where the server carried far less than it did before. It is repeated after a rest twice
//! as long, and whatever the repeat says counts.

use plimsoll_model::Nanos;
use plimsoll_model::trial::{TrialMeasurement, Verdict};

use super::{RateSearch, State};

/// Share of a load that was GOOD below which a server carries "far less": noise of 10 % does not
/// reach it.
const COLLAPSED: f64 = 0.75;
/// A BAD verdict that was so unlikely.
const UNEXPECTED: f64 = 0.03;
/// Trials put aside in one search.
const ASIDE_MAX: u32 = 6;

/// What is remembered of overloads.
#[derive(Clone, Debug)]
pub(super) struct Aside {
    after_bad: bool,
    /// The load of the trial that was put aside last.
    load: Option<f64>,
    count: u32,
    /// Rest after a BAD trial.
    rest: Nanos,
    rest_max: Nanos,
}

impl Aside {
    pub(super) const fn new(rest: Nanos, rest_max: Nanos) -> Self {
        Self { after_bad: false, load: None, count: 0, rest, rest_max }
    }

    pub(super) const fn handle_verdict(&mut self, good: bool) {
        self.after_bad = !good;
    }

    /// The load that is to be measured again.
    pub(super) const fn repeats(&self) -> Option<f64> {
        self.load
    }
}

impl RateSearch {
    /// How long the SUT is left alone before the next trial.
    pub(super) fn rest_after(&self, verdict: Verdict) -> Nanos {
        if self.silence.is_suspected() {
            return self.silence.rest(self.limits.rest, self.limits.rest_max);
        }
        match (verdict, &self.state) {
            // How soon it comes back is what the next trial asks.
            (_, State::Recover(_, recovering)) => recovering.rest(self.limits.rest),
            (Verdict::Good, _) => Nanos::ZERO,
            (Verdict::Invalid, _) => self.limits.rest,
            // A server that pauses for some seconds is asked again after longer.
            (Verdict::Bad, State::Qualify) => Nanos(2 * self.limits.rest.0),
            (Verdict::Bad, _) => self.aside.rest,
        }
    }

    /// Whether the trial is put aside, to be repeated after a longer rest.
    pub(super) fn is_put_aside(&mut self, measurement: &TrialMeasurement, good: bool) -> bool {
        let rate = measurement.request.rate.get();
        let repeated = self.aside.load.take() == Some(rate);
        if good && repeated {
            let note = format!(
                "the server was slow after an overload and well after {} of rest; it was left \
                 alone for so long from then on",
                self.aside.rest
            );
            self.notes.push(note);
        }
        let can_rest = self.aside.rest < self.aside.rest_max;
        if good || !self.aside.after_bad || self.aside.count >= ASIDE_MAX || (repeated && !can_rest)
        {
            return false;
        }
        let best = self.trials.highest_good();
        let collapsed =
            best.is_some_and(|best| measurement.carried_per_s() < COLLAPSED * best.min(rate));
        let unexpected = matches!(self.state, State::Measure)
            && self.expected(rate, false).is_some_and(|p| p < UNEXPECTED);
        if !collapsed && !unexpected {
            return false;
        }
        self.aside.rest = Nanos((2 * self.aside.rest.0).min(self.aside.rest_max.0));
        self.aside.count += 1;
        self.aside.load = Some(rate);
        true
    }
}
