//! After the search proper: the SUT is overloaded on purpose to see whether it comes back, and the
//! answer is put together.

use plimsoll_model::trial::{Outcome, Phase, Recovery, TippingPoint, TrialMeasurement, Unsettled};
use plimsoll_model::{Nanos, Rate};

use crate::median::median_of;

use super::levels::reading;
use super::measure::Fit;
use super::seen::{differed, full_host};
use super::trials::breakdowns;
use super::{OVERLOAD, RateSearch, State, Want};

/// The load at which a SUT is asked whether it came back, relative to the lower bound.
const RECOVERY: f64 = 0.5;
/// Trials at that load before it is said not to come back.
const RECOVERY_TRIALS: u32 = 4;
/// A capacity that differs more than this from trial to trial (a standard deviation) is no number.
const SPREAD_MAX: f64 = 0.15;
/// Goodput of two like overloads that differs by more is that of two servers, logarithmic; and where
/// the capacity is noisy, by so many of its standard deviations.
const LEVELS_APART: f64 = 0.1;
const SPREADS_APART: f64 = 4.0;
/// One sentinel in more than so many may be unlike the others by accident.
const SENTINELS_PER_LAPSE: usize = 4;
/// A wider interval says nothing.
const WIDTH_MAX: f64 = 0.4;
/// Standard deviations by which the verdicts may be less likely than the model predicts.
const SURPRISE_MAX: f64 = 4.0;

/// Bounds that stand.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) low: f64,
    pub(super) high: f64,
    pub(super) confirmed: f64,
    pub(super) recovery: Option<Recovery>,
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

fn rate(per_s: f64) -> Rate {
    Rate::per_second(per_s).unwrap_or_default()
}

impl RateSearch {
    /// The bounds stand and are confirmed.
    pub(super) fn overload(&mut self, fit: &Fit, confirmed: f64) -> Want {
        let (Some(low), Some(high)) = (fit.lower, fit.upper) else {
            return Want::Finish(Outcome::Undecided { why: Unsettled::OneBound });
        };
        let load = self.anchor(fit).unwrap_or_else(|| (OVERLOAD * high).min(self.overload_max()));
        self.state = State::Overload(Answer { low, high, confirmed, recovery: None }, load);
        self.plan()
    }

    pub(super) fn plan_overload(&self, load: f64) -> Want {
        Want::Trial(Phase::Overload, load, Nanos(self.limits.confirm_trial.0 / 2))
    }

    /// The overload is evidence like any other: one that is met reopens the search.
    pub(super) fn learn_overload(&mut self, answer: Answer, good: bool) {
        if good {
            self.notes.push("an overload on purpose met the objective: searched on".to_owned());
            self.sentinel.is_wanted = true;
            self.state = State::Measure;
        } else if self.carries_more() {
            self.notes.push(
                "the server carried more in the last overload than in those before: searched on"
                    .to_owned(),
            );
            self.sentinel.is_wanted = true;
            self.state = State::Measure;
        } else {
            self.state = State::Recover(answer, Recovering::default());
        }
    }

    /// Whether the server carried more in the overload that just ended than in the sentinels. Less is
    /// no news: some servers carry less the longer they are overloaded.
    fn carries_more(&self) -> bool {
        let Some(fit) = self.fit() else { return false };
        let last = self.trials.all().next_back();
        let usual = median_of(self.anchored());
        let most = LEVELS_APART.max(SPREADS_APART * fit.posterior.spread());
        match (usual, last.and_then(|trial| trial.carried)) {
            (Some(usual), Some(carried)) => carried.ln() - usual > 0.5 * most,
            _ => false,
        }
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
        answer.recovery = Some(match (good, recovering.trials) {
            (true, 1) => Recovery::Yes,
            (true, _) => Recovery::After(began),
            // Not so far: there may be no time for another trial.
            (false, _) => Recovery::No(recovering.passed),
        });
        self.state = State::Recover(answer, recovering);
        if good || recovering.trials >= RECOVERY_TRIALS {
            self.finish(Outcome::Regular);
        }
    }

    /// A capacity that does not stay at one level.
    pub(super) fn unsteady(&self) -> Option<Unsettled> {
        let changes = self.levels.unsteady(&self.trials)?;
        Some(Unsettled::Levels { changes, beside: differed(self.trials.all()) })
    }

    /// What speaks against an interval that was found.
    fn contradiction(&self, fit: &Fit) -> Option<Unsettled> {
        if let Some(why) = self.unsteady().or_else(|| self.differing_sentinels(fit)) {
            return Some(why);
        }
        if let Some((before, after)) = self.trials.fell() {
            let beside = differed(self.trials.all());
            return Some(Unsettled::Fell { before: rate(before), after: rate(after), beside });
        }
        if let Some(missed) = fit.lower.and_then(|lower| self.missed_far_below(lower)) {
            let (bad, all) = (missed.bad as u32, missed.all as u32);
            return Some(Unsettled::MissedBelow { bad, all });
        }
        if let Some((times, most)) = breakdowns(&self.levels.current(&self.trials)) {
            return Some(Unsettled::BrokeDown { trials: times as u32, most: rate(most) });
        }
        let sd = fit.posterior.spread();
        if sd > SPREAD_MAX {
            return Some(Unsettled::Spread { sd });
        }
        (fit.surprise > SURPRISE_MAX).then_some(Unsettled::Contradiction { sds: fit.surprise })
    }

    /// What the server carried in the sentinels at the anchor: logarithms.
    fn anchored(&self) -> Vec<f64> {
        let current = self.levels.current(&self.trials);
        let at_anchor = current.iter().filter(|t| Some(t.load) == self.sentinel.anchor);
        at_anchor.filter_map(reading).map(|r| r.y).collect()
    }

    /// Sentinels in which the server carried something else than in most; `None` where they agree.
    fn differing_sentinels(&self, fit: &Fit) -> Option<Unsettled> {
        let readings = self.anchored();
        let usual = median_of(readings.iter().copied())?;
        let most = LEVELS_APART.max(SPREADS_APART * fit.posterior.spread());
        let unlike = readings.iter().filter(|y| (*y - usual).abs() > most).count();
        if unlike == 0 || (unlike == 1 && readings.len() > SENTINELS_PER_LAPSE) {
            return None;
        }
        let least = readings.iter().copied().fold(f64::INFINITY, f64::min);
        let greatest = readings.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Some(Unsettled::Overloads {
            least: rate(least.exp()),
            greatest: rate(greatest.exp()),
            usual: rate(usual.exp()),
            count: readings.len() as u32,
            unlike: unlike as u32,
            beside: differed(self.trials.all()),
        })
    }

    pub(super) fn finish(&mut self, outcome: Outcome) -> TippingPoint {
        self.pending = None;
        let answer = self.answer();
        let fit = self.fit();
        let contradiction = fit.as_ref().and_then(|fit| self.contradiction(fit));
        let has_ends = fit.as_ref().is_some_and(|fit| fit.width().is_finite());
        let untold = match fit.as_ref().and_then(|fit| fit.lower) {
            // The interval may have moved a little since a load was confirmed.
            Some(lower) if has_ends => {
                self.goals_untold(lower.max(answer.map_or(0.0, |answer| answer.confirmed)))
            }
            _ => Some(Outcome::Undecided { why: Unsettled::OneBound }),
        };
        let untold = untold.or_else(|| {
            let width = fit.as_ref().map(|fit| fit.width()).filter(|width| *width > WIDTH_MAX)?;
            Some(Outcome::Undecided { why: Unsettled::Wide { width } })
        });
        let outcome = match outcome {
            Outcome::Regular if contradiction.is_none() => untold.unwrap_or(Outcome::Regular),
            outcome => outcome,
        };
        let changed = match &outcome {
            Outcome::Regular => contradiction,
            // A server that changed is why the time was too short.
            Outcome::Undecided { .. } => contradiction.or_else(|| self.unsteady()),
            _ => None,
        };
        let outcome = match changed {
            Some(why) => Outcome::Unstable { why },
            None => outcome,
        };
        let (lower, upper) = match (&outcome, &fit) {
            (Outcome::Regular, Some(fit)) => {
                let rate = |load: f64| Rate::per_second(load);
                (fit.lower.and_then(rate), fit.upper.and_then(rate))
            }
            (Outcome::Unstable { .. } | Outcome::Undecided { .. }, _) => (None, None),
            _ => self.silence.known().unwrap_or_else(|| self.trials.leaning_bounds()),
        };
        if !matches!(outcome, Outcome::Unstable { .. }) {
            self.notes.extend(self.levels.told(&self.trials));
            self.notes.extend(self.trials.disturbance());
        }
        if outcome == Outcome::FailsAtMinimum {
            self.notes.extend(full_host(self.trials.verdicts()));
        }
        let is_interval = outcome == Outcome::Regular;
        let told = fit.as_ref().filter(|_| is_interval);
        let spread = fit.as_ref().map(|fit| fit.posterior.spread());
        let tipping = TippingPoint {
            safe_missing: None,
            met: None,
            regimes: Vec::new(),
            outlook: None,
            lower,
            upper,
            safe: told.and_then(|fit| self.safe_load(fit)),
            confidence: is_interval.then_some(self.settings.confidence),
            spread,
            drift_per_min: fit
                .as_ref()
                .map(|fit| if fit.drift.is_seen { fit.drift.per_min } else { 0.0 }),
            conditional_throughput: lower
                .and_then(|lower| self.trials.conditional_throughput(lower)),
            trials: self.judged,
            invalid_trials: self.invalid,
            confirmed: answer.and_then(|answer| Rate::per_second(answer.confirmed)),
            confirmations: self.confirmations_at(answer.map_or(0.0, |answer| answer.confirmed)),
            noise: spread.filter(|spread| is_interval && *spread > self.limits.width_max / 2.0),
            recovery: answer.and_then(|answer| answer.recovery),
            notes: std::mem::take(&mut self.notes),
            goals: Vec::new(),
            outcome,
        };
        self.state = State::Done(Box::new(tipping.clone()));
        tipping
    }

    /// What is being described, once there is such a thing.
    fn answer(&self) -> Option<Answer> {
        match &self.state {
            State::Overload(answer, _) | State::Recover(answer, _) => Some(*answer),
            _ => None,
        }
    }
}
