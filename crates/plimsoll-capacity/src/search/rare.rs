//! Counts of bad operations for goals on few of them (errors and high quantiles), and what a count says
//! of a goal: some bad operations among some hundreds say little of a goal of one in a thousand.

use plimsoll_model::observation::SecondCounts;
use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::trial::{CheckId, Judgement, Level, TrialMeasurement};

use crate::losses::Losses;
use crate::stats::poisson_at_most;

/// A count that is as likely as this, or more, may be chance.
const CHANCE: f64 = 0.05;
/// Bad operations that are expected if the goal is just missed, before none of them shows by
/// [`CHANCE`] that it is met.
pub(super) const EXPECTED_MIN: f64 = 3.0;
/// Quantiles from here on leave few operations above them.
const HIGH_QUANTILE: f64 = 0.995;

/// Bad operations by goal, in the order of the objective.
pub(super) type Bad = [BadOps; Slo::GOALS_MAX];

/// Operations that miss a goal, in one trial or several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BadOps {
    pub(super) ops: u64,
    /// Squares of the differences of each second from its trial's mean, for trials whose seconds are known,
    /// mean, summed, and what that sum would be if each operation were bad by itself.
    squares: f64,
    squares_alone: f64,
}

impl BadOps {
    fn new(ops: u64, seconds: Option<SecondCounts>) -> Self {
        let Some(seen) = seconds.filter(|seen| seen.seconds > 1) else {
            return Self { ops, ..Self::default() };
        };
        let (n, sum) = (f64::from(seen.seconds), seen.sum as f64);
        let squares = (seen.squares as f64 - sum * sum / n).max(0.0);
        Self { ops, squares, squares_alone: sum / n * (n - 1.0) }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.ops += other.ops;
        self.squares += other.squares;
        self.squares_alone += other.squares_alone;
    }

    /// Returns the number that are bad together: the variance of the seconds over their mean (index of dispersion),
    /// which is 1 if each is bad by itself, and m if they come m at a time.
    pub(super) fn together(&self) -> f64 {
        if self.squares_alone > 0.0 { (self.squares / self.squares_alone).max(1.0) } else { 1.0 }
    }
}

pub(super) fn is_rare(goal: &Goal) -> bool {
    match goal {
        Goal::Errors { .. } => true,
        Goal::Latency { quantile, .. } => *quantile >= HIGH_QUANTILE,
    }
}

/// Returns the least number of operations that shows that every goal of `slo` is met, if none is bad.
pub fn operations_needed(slo: &Slo) -> u64 {
    let ratios = slo.goals.iter().map(Goal::bad_ratio_max).filter(|ratio| *ratio > 0.0);
    ratios.reduce(f64::min).map_or(0, |ratio| (EXPECTED_MIN / ratio).round() as u64)
}

/// The verdict of pooled operations on a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooled {
    Met,
    Missed,
    Undecided,
}

/// Judges a goal by `bad` of `all` operations. The share `most` may be bad, and `together` operations are bad at a
/// time: the numbers of counted and of expected events are divided by it.
pub(super) fn pooled(bad: u64, together: f64, all: u64, most: f64) -> Pooled {
    let mean = all as f64 * most / together;
    let events = bad as f64 / together;
    let (at_least, at_most_seen) = (events.floor() as u64, events.ceil() as u64);
    // For a goal that allows no failure, no failure is all that can be observed.
    let is_more = at_least > 0 && 1.0 - poisson_at_most(at_least - 1, mean) <= CHANCE;
    if poisson_at_most(at_most_seen, mean) < CHANCE || (bad == 0 && most <= 0.0) {
        Pooled::Met
    } else if is_more || (bad > 0 && most <= 0.0) {
        Pooled::Missed
    } else {
        Pooled::Undecided
    }
}

/// Reports whether a trial missed goals on few operations, and nothing else.
pub(super) fn misses_rare_goals_alone(judgement: &Judgement) -> bool {
    let mut fails = judgement.reasons.iter().filter(|check| check.level == Level::Fail);
    fails.all(|check| matches!(&check.id, CheckId::Goal(goal) if is_rare(goal)))
}

/// Returns the bad operations of a trial by every goal of `slo`.
pub(super) fn bad_of(slo: &Slo, measurement: &TrialMeasurement) -> Bad {
    let losses = Losses::of(&measurement.tally, measurement.aborted);
    let mut bad = Bad::default();
    for (bad, goal) in bad.iter_mut().zip(&slo.goals) {
        let seen = &measurement.observations;
        let seconds = match goal {
            Goal::Errors { .. } => seen.failed_by_second,
            Goal::Latency { .. } => seen.late_or_lost_by_second,
        };
        *bad = BadOps::new(losses.bad_ops(goal), seconds);
    }
    bad
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goal_is_told_by_enough_operations_only() {
        // One in a thousand is allowed.
        assert_eq!(pooled(0, 1.0, 500, 0.001), Pooled::Undecided);
        assert_eq!(pooled(1, 1.0, 500, 0.001), Pooled::Undecided);
        assert_eq!(pooled(0, 1.0, 3_000, 0.001), Pooled::Met);
        assert_eq!(pooled(8, 1.0, 10_000, 0.001), Pooled::Undecided);
        assert_eq!(pooled(80, 1.0, 100_000, 0.001), Pooled::Met);
        assert_eq!(pooled(120, 1.0, 100_000, 0.001), Pooled::Missed);
        assert_eq!(
            (pooled(0, 1.0, 10, 0.0), pooled(1, 1.0, 10, 0.0)),
            (Pooled::Met, Pooled::Missed)
        );
    }

    #[test]
    fn failures_that_come_together_are_one_event() {
        // One group of 50 in 25,000 operations: twice what is allowed, and one event where a half is.
        assert_eq!(pooled(50, 1.0, 25_000, 0.001), Pooled::Missed);
        assert_eq!(pooled(50, 50.0, 25_000, 0.001), Pooled::Undecided);
        // A server that fails is not excused by failing all at a time.
        assert_eq!(pooled(5_000, 2_500.0, 25_000, 0.001), Pooled::Missed);
        assert_eq!(pooled(2_000, 50.0, 2_500_000, 0.001), Pooled::Undecided);
        assert_eq!(pooled(16_000, 50.0, 20_000_000, 0.001), Pooled::Met);
        assert_eq!(pooled(1, 50.0, 10, 0.0), Pooled::Missed);
    }

    #[test]
    fn seconds_show_how_many_fail_together() {
        let trial = |each: &[u64]| {
            let mut seconds = SecondCounts::default();
            each.iter().for_each(|ops| seconds.add(*ops));
            BadOps::new(seconds.sum, Some(seconds))
        };
        let mut groups = trial(&[0, 50, 0, 0, 0]);
        groups.add(&trial(&[0, 0, 0]));
        groups.add(&trial(&[0, 0, 0, 0, 50, 0, 50, 0]));
        assert!((groups.together() - 50.0).abs() < 5.0, "{}", groups.together());
        assert_eq!(trial(&[4, 3, 5, 4, 4]).together(), 1.0);
        assert_eq!((trial(&[50]).together(), BadOps::new(9, None).together()), (1.0, 1.0));
    }

    #[test]
    fn the_rarest_goal_says_how_many_operations_are_needed() {
        let needed = |slo: &str| operations_needed(&slo.parse().expect("an objective"));
        assert_eq!(needed("p99<50ms"), 300);
        assert_eq!(needed("p99<50ms,errors<0.1%"), 3_000);
        assert_eq!(needed("p99.99<50ms,errors<1%"), 30_000);
        assert_eq!(needed("errors<0%"), 0);
    }
}
