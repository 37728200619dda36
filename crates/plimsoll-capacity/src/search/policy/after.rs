//! The phase after the final bounds: the SUT is overloaded on purpose to see whether it recovers.

use plimsoll_model::Nanos;
use plimsoll_model::trial::{Outcome, Phase, Recovery, TrialMeasurement, Unsettled};

use super::super::answer::{Known, Stated};
use super::super::fit::Fit;
use super::memory::{Policy, Recovering, State, Want};
use super::sentinel::OVERLOAD;

/// The load at which a SUT is asked whether it came back, relative to the lower bound.
const RECOVERY: f64 = 0.5;
/// Trials at that load before it is said not to come back.
const RECOVERY_TRIALS: u32 = 4;

impl Policy {
    /// Plans the overload that follows confirmed bounds.
    pub(super) fn overload(&mut self, known: &Known<'_>, fit: &Fit, confirmed: f64) -> Want {
        let (Some(low), Some(high)) = (fit.lower, fit.upper) else {
            return Want::Finish(Outcome::Undecided { why: Unsettled::OneBound });
        };
        let most = (OVERLOAD * high).min(self.overload_max(known));
        let load = self.place_anchor(known, fit).unwrap_or(most);
        self.state = State::Overload(Stated { low, confirmed, recovery: None }, load);
        self.plan(known)
    }

    /// Learns from the overload as from any trial: one that is met reopens the search.
    pub(super) fn learn_overload(&mut self, known: &Known<'_>, stated: Stated, good: bool) {
        let reopens = if good {
            "an overload on purpose met the objective: searched on"
        } else if known.carries_more(self.sentinel.anchor) {
            "the server carried more in the last overload than in those before: searched on"
        } else {
            self.state = State::Recover(stated, Recovering::default());
            return;
        };
        self.notes.push(reopens.to_owned());
        self.sentinel.is_wanted = true;
        self.state = State::Measure;
    }

    pub(super) fn plan_recover(&self, known: &Known<'_>, stated: Stated) -> Want {
        let rate = (RECOVERY * stated.low).max(self.lowest());
        let length = self.trial_length(known, rate, known.task.limits.initial_trial);
        Want::Trial(Phase::Recover, rate, length)
    }

    pub(super) fn learn_recover(
        &mut self,
        mut stated: Stated,
        mut recovering: Recovering,
        good: bool,
        measurement: &TrialMeasurement,
    ) -> Option<Outcome> {
        let began = recovering.passed + self.rest;
        recovering.passed = began + measurement.window;
        recovering.trials += 1;
        stated.recovery = Some(match (good, recovering.trials) {
            (true, 1) => Recovery::Yes,
            (true, _) => Recovery::After(began),
            // Not so far: there may be no time for another trial.
            (false, _) => Recovery::No(recovering.passed),
        });
        self.state = State::Recover(stated, recovering);
        (good || recovering.trials >= RECOVERY_TRIALS).then_some(Outcome::Regular)
    }

    /// Returns the time for the overload and the `recoveries` after it.
    pub(super) fn reserve_after(&self, known: &Known<'_>, recoveries: u32) -> Nanos {
        let limits = &known.task.limits;
        let overload = Nanos(limits.confirm_trial.0 / 2);
        // Each rest is twice as long as the one before it.
        let rests = (2 << recoveries) - 1;
        overload
            + Nanos(limits.initial_trial.0 * u64::from(recoveries))
            + Nanos(rests * limits.rest.0)
    }
}
