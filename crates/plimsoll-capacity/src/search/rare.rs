//! Goals on few operations: errors and high quantiles. Some bad ones among some hundreds say little of
//! a goal of one in a thousand. A trial that misses such a goal by what may be chance is no verdict;
//! the trials of its load are pooled until they tell, and those up to the lower bound have to show
//! that the goal is met.

use plimsoll_model::observation::SecondCounts;
use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::trial::{
    CheckId, Judgement, Level, Outcome, Phase, TrialMeasurement, Unsettled, Verdict,
};
use plimsoll_model::{Nanos, Rate};

use crate::losses::Losses;

use super::measure::Fit;
use super::trials::FAR_BELOW;
use super::{RateSearch, Want};

/// A count that is as likely as this, or more, may be chance.
const CHANCE: f64 = 0.05;
/// So many bad operations are expected where the goal is just missed, before none of them shows by
/// [`CHANCE`] that it is met.
const EXPECTED_MIN: f64 = 3.0;
/// The same quantile of a normal variable.
const CHANCE_SDS: f64 = 1.645;
/// Quantiles from here on leave few operations above them.
const HIGH_QUANTILE: f64 = 0.995;
/// From so many at a time on, it is said that operations are bad together.
const GROUPS: f64 = 3.0;
/// A trial that is lengthened has at most so many times the length of a confirmation.
const LONGEST: u64 = 4;

/// Bad operations by goal, in the order of the objective.
pub(super) type Bad = [BadOps; Slo::GOALS_MAX];

/// Operations that miss a goal, in one trial or several.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BadOps {
    pub(super) ops: u64,
    /// Of the trials whose seconds are known: the squares of what each second differs from its trial's
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

    /// How many are bad together: the variance of the seconds over their mean (index of dispersion),
    /// which is 1 where each is bad by itself, and m where they come m at a time.
    fn together(&self) -> f64 {
        if self.squares_alone > 0.0 { (self.squares / self.squares_alone).max(1.0) } else { 1.0 }
    }
}

fn is_rare(goal: &Goal) -> bool {
    match goal {
        Goal::Errors { .. } => true,
        Goal::Latency { quantile, .. } => *quantile >= HIGH_QUANTILE,
    }
}

/// Operations that it takes at least to show that every goal of `slo` is met, where none is bad.
pub fn operations_needed(slo: &Slo) -> u64 {
    let ratios = slo.goals.iter().map(Goal::bad_ratio_max).filter(|ratio| *ratio > 0.0);
    ratios.reduce(f64::min).map_or(0, |ratio| (EXPECTED_MIN / ratio).round() as u64)
}

/// What a pool of operations says of a goal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pooled {
    Met,
    Missed,
    Untold,
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

/// What `bad` of `all` operations say where the share `most` may be bad, and `together` of them are bad
/// at a time: then so many times fewer events are counted, and expected.
fn pooled(bad: u64, together: f64, all: u64, most: f64) -> Pooled {
    let mean = all as f64 * most / together;
    let events = bad as f64 / together;
    let (at_least, at_most_seen) = (events.floor() as u64, events.ceil() as u64);
    // Of a goal that allows none, none is all that can be seen.
    let is_more = at_least > 0 && 1.0 - at_most(at_least - 1, mean) <= CHANCE;
    if at_most(at_most_seen, mean) < CHANCE || (bad == 0 && most <= 0.0) {
        Pooled::Met
    } else if is_more || (bad > 0 && most <= 0.0) {
        Pooled::Missed
    } else {
        Pooled::Untold
    }
}

/// A goal that the pool does not settle.
struct Open {
    goal: Goal,
    bad: u64,
    /// How many of them at a time.
    together: f64,
    all: u64,
    said: Pooled,
}

impl Open {
    /// Further operations like these that would show the goal to be met, where any number would.
    fn missing(&self) -> Option<u64> {
        let most = self.goal.bad_ratio_max();
        let share = self.bad as f64 / self.all.max(1) as f64;
        let apart = Some(most - share).filter(|apart| *apart > 0.02 * most)?;
        let events = (CHANCE_SDS.powi(2) * share / apart.powi(2)).max(EXPECTED_MIN / most);
        let needed = self.together * events;
        Some((needed.ceil() as u64).saturating_sub(self.all).max(1))
    }

    /// What is missed before what is not known, and then what needs most operations.
    fn by_urgency(&self) -> (bool, u64) {
        (self.said == Pooled::Missed, self.missing().unwrap_or(u64::MAX))
    }

    /// What it says against an answer for the loads up to `load`, or for that load alone, which is then
    /// the highest that may be offered.
    fn outcome(&self, load: f64, is_cap: bool) -> Outcome {
        let Self { goal, bad, together, all, said } = *self;
        let together = if together >= GROUPS { together } else { 1.0 };
        let rate = Rate::per_second(load).unwrap_or_default();
        if said == Pooled::Missed {
            let why = Unsettled::GoalMissed { goal, bad, all, together, load: rate, is_cap };
            return Outcome::Unstable { why };
        }
        let span = |missing: u64| Nanos::from_secs_f64(missing as f64 / load.max(1e-3));
        let further = self.missing().map(span);
        let why = Unsettled::GoalOpen { goal, bad, all, together, load: rate, further, is_cap };
        Outcome::Undecided { why }
    }
}

/// Whether a trial missed goals on few operations, and nothing else.
pub(super) fn misses_rare_goals_alone(judgement: &Judgement) -> bool {
    let mut fails = judgement.reasons.iter().filter(|check| check.level == Level::Fail);
    fails.all(|check| matches!(&check.id, CheckId::Goal(goal) if is_rare(goal)))
}

impl RateSearch {
    /// The rare goals with their places in the objective.
    fn rare_goals(&self) -> impl Iterator<Item = (usize, &Goal)> {
        let goals = self.slo.goals.iter().enumerate().take(Slo::GOALS_MAX);
        goals.filter(|(_, goal)| is_rare(goal))
    }

    /// Bad operations of a trial.
    pub(super) fn bad_of(&self, measurement: &TrialMeasurement) -> Bad {
        let losses = Losses::of(&measurement.tally, measurement.aborted);
        let mut bad = Bad::default();
        for (bad, goal) in bad.iter_mut().zip(&self.slo.goals) {
            let seen = &measurement.observations;
            let seconds = match goal {
                Goal::Errors { .. } => seen.failed_by_second,
                Goal::Latency { .. } => seen.late_or_lost_by_second,
            };
            *bad = BadOps::new(losses.bad_ops(goal), seconds);
        }
        bad
    }

    /// How many operations miss a goal at a time in the trials up to `load`, and in one that is not among
    /// them yet. Those of higher loads do not tell: an overload is a long group.
    fn together(&self, goal: usize, load: f64, own: Option<&BadOps>) -> f64 {
        let (mut bad, _) = self.trials.bad_up_to(load, goal);
        own.into_iter().for_each(|own| bad.add(own));
        bad.together()
    }

    /// What a trial says of its load: its own verdict, but with the others of that load where it missed
    /// rare goals alone.
    pub(super) fn with_others(
        &self,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
    ) -> Pooled {
        if judgement.verdict == Verdict::Good {
            return Pooled::Met;
        }
        if !measurement.request.phase.moves_bounds() {
            return Pooled::Missed;
        }
        if !misses_rare_goals_alone(judgement) {
            return Pooled::Missed;
        }
        let own = self.bad_of(measurement);
        let (bad, all) = self.trials.rarely_bad(measurement.request.rate.get());
        let all = all + measurement.tally.scheduled;
        let said: Vec<Pooled> = self
            .rare_goals()
            .filter(|(index, goal)| {
                own[*index].ops as f64 > goal.bad_ratio_max() * measurement.tally.scheduled as f64
            })
            .map(|(index, goal)| {
                let load = measurement.request.rate.get();
                let together = self.together(index, load, Some(&own[index]));
                pooled(bad[index].ops + own[index].ops, together, all, goal.bad_ratio_max())
            })
            .collect();
        match said.contains(&Pooled::Missed) {
            true => Pooled::Missed,
            false if said.iter().all(|said| *said == Pooled::Met) => Pooled::Met,
            false => Pooled::Untold,
        }
    }

    /// The trial at `rate` is longer where those before it told nothing.
    pub(super) fn lengthened(&self, rate: f64, length: Nanos) -> Nanos {
        let most = Nanos(self.limits.confirm_trial.0 * LONGEST);
        let longer = Nanos(length.0 << self.trials.untold_at(rate).min(4)).min(most);
        if self.affords(longer) { longer.max(length) } else { length }
    }

    /// The goal that the trials up to `lower` settle least.
    fn open_goal(&self, lower: f64) -> Option<Open> {
        let open = self.rare_goals().filter_map(|(index, goal)| {
            let together = self.together(index, lower, None);
            let up_to = |load: f64| {
                let (bad, all) = self.trials.bad_up_to(load, index);
                (pooled(bad.ops, together, all, goal.bad_ratio_max()), bad.ops, all)
            };
            // Near the bound a server fails as much as the goal allows: that is what a bound is.
            let (said, bad, all) = up_to(lower);
            let is_met = said == Pooled::Met || up_to(FAR_BELOW * lower).0 == Pooled::Met;
            (!is_met).then_some(Open { goal: *goal, bad, together, all, said })
        });
        open.max_by_key(Open::by_urgency)
    }

    /// The goal that the trials at `load` settle least: whatever its quantile, some operations have to
    /// show that it is met.
    fn open_goal_at(&self, load: f64) -> Option<Open> {
        let (bad, all) = self.trials.rarely_bad(load);
        let each = self.slo.goals.iter().zip(bad).enumerate().map(|(index, (goal, bad))| {
            let together = self.together(index, load, None);
            let said = pooled(bad.ops, together, all, goal.bad_ratio_max());
            Open { goal: *goal, bad: bad.ops, together, all, said }
        });
        each.filter(|open| open.said != Pooled::Met).max_by_key(Open::by_urgency)
    }

    /// The highest load that may be offered was met: by operations enough?
    pub(super) fn plan_capped(&self, load: f64) -> Want {
        let Some(open) = self.open_goal_at(load) else { return Want::Finish(self.met_at_cap()) };
        let usual = self.trial_length(load, self.limits.initial_trial);
        let longest = usual.max(Nanos(self.limits.confirm_trial.0 * LONGEST));
        let wanted = open.missing().map(|missing| Nanos::from_secs_f64(missing as f64 / load));
        match wanted.map(|wanted| wanted.clamp(usual, longest)) {
            Some(length) if open.said == Pooled::Untold && self.affords(length) => {
                Want::Trial(Phase::Expand, load, length)
            }
            _ => Want::Finish(open.outcome(load, true)),
        }
    }

    /// One more trial at the confirmed load, where the goals need more operations.
    pub(super) fn plan_more_operations(&self, fit: &Fit, target: f64) -> Option<Want> {
        let open =
            self.open_goal(fit.lower?.max(target)).filter(|open| open.said == Pooled::Untold)?;
        let usual = self.limits.confirm_trial;
        let wanted = Nanos::from_secs_f64(open.missing()? as f64 / target);
        let length = wanted.max(usual).min(Nanos(usual.0 * LONGEST));
        let rest = self.reserve_after(1);
        let shorter = [length, Nanos(usual.0.max(length.0 / 2)), usual];
        let fits = shorter.into_iter().find(|length| self.affords(*length + rest))?;
        Some(Want::Trial(Phase::Confirm, target, fits))
    }

    /// What the bad operations of all trials up to `lower` say against an interval.
    pub(super) fn goals_untold(&self, lower: f64) -> Option<Outcome> {
        Some(self.open_goal(lower)?.outcome(lower, false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_as_likely_as_the_table_says() {
        assert!((at_most(0, 1.0) - 0.3679).abs() < 1e-3);
        assert!((at_most(2, 3.0) - 0.4232).abs() < 1e-3);
        assert!((at_most(1_000, 1_000.0) - 0.508).abs() < 0.02);
    }

    #[test]
    fn a_goal_is_told_by_enough_operations_only() {
        // One in a thousand is allowed.
        assert_eq!(pooled(0, 1.0, 500, 0.001), Pooled::Untold);
        assert_eq!(pooled(1, 1.0, 500, 0.001), Pooled::Untold);
        assert_eq!(pooled(0, 1.0, 3_000, 0.001), Pooled::Met);
        assert_eq!(pooled(8, 1.0, 10_000, 0.001), Pooled::Untold);
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
        assert_eq!(pooled(50, 50.0, 25_000, 0.001), Pooled::Untold);
        // A server that fails is not excused by failing all at a time.
        assert_eq!(pooled(5_000, 2_500.0, 25_000, 0.001), Pooled::Missed);
        assert_eq!(pooled(2_000, 50.0, 2_500_000, 0.001), Pooled::Untold);
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
