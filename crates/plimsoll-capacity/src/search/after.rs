//! After the search proper: the lower bound is confirmed by longer trials, and the SUT is
//! overloaded on purpose to see whether it comes back.

use plimsoll_model::trial::{
    Confirmations, Outcome, Phase, Recovery, TippingPoint, TrialMeasurement,
};
use plimsoll_model::{Nanos, Rate};

use crate::classify::conditional_throughput;
use crate::validity::is_drifting;

use super::narrow::Bracket;
use super::{RateSearch, State, Want};

/// The overload on purpose, relative to the upper bound.
const OVERLOAD: f64 = 1.2;
/// A confirmation that drifts is repeated over so many times its length.
const LONGER: u64 = 2;
/// The load at which a SUT is asked whether it came back, relative to the lower bound.
const RECOVERY: f64 = 0.5;
/// Trials at that load before it is said not to come back.
const RECOVERY_TRIALS: u32 = 4;

/// Bounds, and how they were confirmed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) confirmations: Confirmations,
    pub(super) recovery: Option<Recovery>,
    longer: Longer,
}

/// A confirmation whose halves differ is repeated over more time, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Longer {
    /// Nothing asked for it.
    No,
    /// The next one is longer; the GOOD one that asked for it is set aside.
    Next,
    /// It was, or could not be had, and is not again.
    Had,
}

/// Trials after the overload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Recovering {
    trials: u32,
    /// Since the end of the overload.
    passed: Nanos,
}

impl Recovering {
    /// None at first, then longer and longer.
    pub(super) fn rest(&self, rest: Nanos) -> Nanos {
        match self.trials {
            0 => Nanos::ZERO,
            trials => Nanos(rest.0.saturating_mul(1 << trials.min(8))),
        }
    }
}

impl RateSearch {
    /// The bounds stand; now they are confirmed.
    pub(super) fn confirm(&mut self, low: f64, high: f64) -> Want {
        let confirmations = Confirmations::default();
        let answer = Answer { low, high, confirmations, recovery: None, longer: Longer::No };
        self.state = State::Confirm(answer);
        self.plan()
    }

    pub(super) fn plan_confirm(&mut self, answer: Answer) -> Want {
        let usual = self.limits.confirm_trial;
        if answer.longer != Longer::Next {
            return Want::Trial(Phase::Confirm, answer.low, usual);
        }
        let longer = Nanos(usual.0 * LONGER);
        if let Some(why) = self.exhausted(longer) {
            self.note_drift(answer.low, &format!("and {why} left no room for a longer trial"));
            self.count_confirmation(Answer { longer: Longer::Had, ..answer }, true);
            return self.plan();
        }
        Want::Trial(Phase::Confirm, answer.low, longer)
    }

    pub(super) fn learn_confirm(
        &mut self,
        mut answer: Answer,
        good: bool,
        measurement: &TrialMeasurement,
    ) {
        // GOOD on average, and perhaps not for long: the queue grows, or something leaks.
        let drifts = good && is_drifting(measurement);
        match answer.longer {
            Longer::No if drifts => {
                self.state = State::Confirm(Answer { longer: Longer::Next, ..answer });
                return;
            }
            Longer::Next => {
                answer.longer = Longer::Had;
                if drifts {
                    self.note_drift(answer.low, "also over twice the time");
                }
            }
            Longer::No | Longer::Had => {}
        }
        self.count_confirmation(answer, good);
    }

    fn note_drift(&mut self, low: f64, further: &str) {
        let rate = Rate::per_second(low).unwrap_or_default();
        self.notes.push(format!(
            "at {rate} the second half was unlike the first, {further}: the server is not steady \
             there"
        ));
    }

    fn count_confirmation(&mut self, mut answer: Answer, good: bool) {
        let planned = self.limits.confirmations;
        let seen = &mut answer.confirmations;
        seen.good += u32::from(good);
        seen.bad += u32::from(!good);
        // A single confirmation is repeated before it overturns a majority of three.
        let bad_max = (planned / 2 + 1).max(2);
        if seen.bad >= bad_max {
            self.overturn(answer);
        } else if seen.good + seen.bad >= planned && seen.good > 0 {
            self.state = State::Overload(answer);
        } else {
            self.state = State::Confirm(answer);
        }
    }

    fn overturn(&mut self, answer: Answer) {
        self.unconfirmed += 1;
        self.ledger.condemn(answer.low);
        let rate = Rate::per_second(answer.low).unwrap_or_default();
        self.notes.push(format!("{rate} passed the search but not its confirmation"));
        if self.unconfirmed > self.limits.unconfirmed_max {
            let why = format!("{} lower bounds that were not confirmed", self.unconfirmed);
            self.finish(Outcome::Unfinished { why });
            return;
        }
        self.state = State::Narrow(Bracket::new(answer.low, answer.low).overturned());
    }

    /// No further confirmation is valid: what the valid ones say, if there were any.
    pub(super) fn confirm_no_more(&mut self, mut answer: Answer, why: String) {
        if answer.longer == Longer::Next {
            self.note_drift(answer.low, "and no longer trial was valid");
            answer.confirmations.good += 1;
            self.state = State::Confirm(answer);
        }
        let seen = answer.confirmations;
        if seen.good <= seen.bad {
            self.finish(Outcome::Unconfirmed { why });
            return;
        }
        self.notes.push(format!(
            "confirmed by {} of {} trials only; the others were INVALID ({why})",
            seen.good, self.limits.confirmations
        ));
        self.finish(Outcome::Regular);
    }

    pub(super) fn plan_overload(&self, answer: Answer) -> Want {
        let length = Nanos(self.limits.confirm_trial.0 / 2);
        Want::Trial(Phase::Overload, (OVERLOAD * answer.high).min(self.cap()), length)
    }

    pub(super) fn learn_overload(&mut self, answer: Answer) {
        self.state = State::Recover(answer, Recovering::default());
    }

    pub(super) fn plan_recover(&self, answer: Answer) -> Want {
        let rate = (RECOVERY * answer.low).max(self.settings.lowest.get());
        Want::Trial(Phase::Recover, rate, self.trial_length(rate, self.limits.initial_trial))
    }

    pub(super) fn learn_recover(
        &mut self,
        mut answer: Answer,
        mut recovering: Recovering,
        good: bool,
        measurement: &TrialMeasurement,
    ) {
        let began = recovering.passed + self.rest;
        recovering.passed = began + measurement.window;
        recovering.trials += 1;
        if !good && recovering.trials < RECOVERY_TRIALS {
            self.state = State::Recover(answer, recovering);
            return;
        }
        answer.recovery = Some(match (good, recovering.trials) {
            (true, 1) => Recovery::Yes,
            (true, _) => Recovery::After(began),
            (false, _) => Recovery::No(recovering.passed),
        });
        self.state = State::Recover(answer, recovering);
        self.finish(Outcome::Regular);
    }

    pub(super) fn finish(&mut self, outcome: Outcome) -> TippingPoint {
        self.pending = None;
        let answer = self.answer();
        let (lower, upper) = self.silence.known().unwrap_or_else(|| self.bounds());
        if let Some((bad, good)) = self.ledger.inversions(|entry| self.final_class(entry)) {
            let rate = |load| Rate::per_second(load).unwrap_or_default();
            let note = format!("non-monotonic: BAD at {}, GOOD at {}", rate(bad), rate(good));
            self.notes.push(note);
        }
        let tipping = TippingPoint {
            outcome,
            lower,
            upper,
            conditional_throughput: lower.and_then(|lower| self.throughput(lower)),
            trials: self.judged,
            invalid_trials: self.invalid,
            confirmations: answer.map(|answer| answer.confirmations).unwrap_or_default(),
            noise: self.noise.map(|noise| noise.sd),
            recovery: answer.and_then(|answer| answer.recovery),
            notes: std::mem::take(&mut self.notes),
        };
        self.state = State::Done(Box::new(tipping.clone()));
        tipping
    }

    /// What is being confirmed, once there is such a thing.
    fn answer(&self) -> Option<Answer> {
        match &self.state {
            State::Confirm(answer) | State::Overload(answer) | State::Recover(answer, _) => {
                Some(*answer)
            }
            _ => None,
        }
    }

    /// The bounds as far as they are known.
    pub(super) fn bounds(&self) -> (Option<Rate>, Option<Rate>) {
        match self.answer() {
            Some(answer) => (Rate::per_second(answer.low), Rate::per_second(answer.high)),
            None => self.ledger.leaning_bounds(),
        }
    }

    /// `None` where the lower bound was never measured for as long as the mode asks.
    fn throughput(&self, lower: Rate) -> Option<Rate> {
        let goal = self.final_goal(lower.get());
        let trials = self.ledger.trials(lower.get());
        Some(conditional_throughput(lower, trials, &goal)).filter(|rate| *rate > Rate::ZERO)
    }
}
