//! Goals on errors: a few failed operations among some hundreds say little of a goal of one in a
//! thousand. A trial that misses such a goal by what may be chance is no verdict; what failed is
//! pooled over all trials, and the pool has to show that the goal is met.

use plimsoll_model::slo::Goal;
use plimsoll_model::trial::{CheckId, Judgement, Level, Outcome, TrialMeasurement};

use crate::losses::Losses;

use super::RateSearch;

/// A count that is as likely as this, or more, may be chance.
const CHANCE: f64 = 0.05;

/// Loads below this share of a bound show failures that do not depend on the load.
const FAR_BELOW: f64 = 0.9;

/// Operations that failed by the peer or by a timer of ours.
pub(super) fn failed(measurement: &TrialMeasurement) -> u64 {
    Losses::of(&measurement.tally, measurement.aborted).errors()
}

/// How likely a Poisson variable of this mean is `count` at most.
fn at_most(count: u64, mean: f64) -> f64 {
    if mean > 500.0 {
        let z = (count as f64 + 0.5 - mean) / mean.sqrt();
        return 1.0 / (1.0 + (-1.702 * z).exp());
    }
    let mut term = (-mean).exp();
    let mut sum = term;
    for k in 1..=count.min(2_000) {
        term *= mean / k as f64;
        sum += term;
    }
    sum.min(1.0)
}

impl RateSearch {
    /// The least share of errors that a goal allows.
    fn errors_max(&self) -> Option<f64> {
        let goals = self.slo.goals.iter().filter(|goal| matches!(goal, Goal::Errors { .. }));
        goals.map(Goal::bad_ratio_max).min_by(f64::total_cmp)
    }

    /// Whether a BAD trial missed a goal on errors alone, and by no more than chance.
    pub(super) fn may_be_chance(
        &self,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
    ) -> bool {
        let Some(most) = self.errors_max() else { return false };
        let mut fails = judgement.reasons.iter().filter(|check| check.level == Level::Fail);
        let alone = fails.all(|check| matches!(check.id, CheckId::Goal(Goal::Errors { .. })));
        let failed = failed(measurement);
        let mean = measurement.tally.scheduled as f64 * most;
        alone && failed > 0 && 1.0 - at_most(failed - 1, mean) > CHANCE
    }

    /// What the failed operations of all trials up to `lower` say against an interval.
    pub(super) fn errors_untold(&self, lower: f64) -> Option<Outcome> {
        let most = self.errors_max()?;
        // Near the bound a server fails as much as the goal allows: that is what a bound is.
        let met =
            |(failed, all): (u64, u64)| failed == 0 || at_most(failed, all as f64 * most) < CHANCE;
        let (failed, all) = self.trials.failed_up_to(lower);
        if met((failed, all)) || met(self.trials.failed_up_to(FAR_BELOW * lower)) {
            return None;
        }
        let mean = all as f64 * most;
        let share = failed as f64 / all.max(1) as f64;
        let (share, goal) = (format!("{:.3} %", share * 100.0), format!("{:.3} %", most * 100.0));
        if 1.0 - at_most(failed.saturating_sub(1), mean) < CHANCE {
            let why = format!("{share} of {all} operations failed below the bounds, over {goal}");
            return Some(Outcome::Unstable { why });
        }
        let why = format!("{share} of {all} operations failed: too few to tell that from {goal}");
        Some(Outcome::Undecided { why })
    }
}

#[cfg(test)]
mod tests {
    use super::at_most;

    #[test]
    fn counts_are_as_likely_as_the_table_says() {
        assert!((at_most(0, 1.0) - 0.3679).abs() < 1e-3);
        assert!((at_most(2, 3.0) - 0.4232).abs() < 1e-3);
        assert!((at_most(1_000, 1_000.0) - 0.508).abs() < 0.02);
    }
}
