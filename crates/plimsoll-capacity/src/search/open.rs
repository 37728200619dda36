//! Goals on few operations that the trials do not settle. A trial that misses such a goal by an amount that may be
//! chance is no verdict: the trials of its load are pooled until they decide, and the trials up to the lower bound have
//! to show that the goal is met.

use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::trial::{Judgement, Outcome, TrialMeasurement, Unsettled, Verdict};
use plimsoll_model::{Nanos, Rate};

use super::evidence::Evidence;
use super::rare::{BadOps, EXPECTED_MIN, Pooled, bad_of, is_rare, misses_rare_goals_alone, pooled};
use super::trials::FAR_BELOW;
use crate::stats::Z_95;

/// Operations that are bad at a time from which on the outcome names groups.
const GROUPS: f64 = 3.0;

/// A goal that the pool does not settle.
pub(super) struct Open {
    goal: Goal,
    bad: u64,
    /// Bad operations that come together.
    together: f64,
    all: u64,
    pub(super) verdict: Pooled,
}

impl Open {
    /// Returns the number of further operations like these that would show the goal to be met, if any number would.
    pub(super) fn missing(&self) -> Option<u64> {
        let most = self.goal.bad_ratio_max();
        let share = self.bad as f64 / self.all.max(1) as f64;
        let apart = Some(most - share).filter(|apart| *apart > 0.02 * most)?;
        let events = (Z_95.powi(2) * share / apart.powi(2)).max(EXPECTED_MIN / most);
        let needed = self.together * events;
        Some((needed.ceil() as u64).saturating_sub(self.all).max(1))
    }

    /// Sort key: missed goals before unknown ones, and then the goal that needs most operations.
    fn by_urgency(&self) -> (bool, u64) {
        (self.verdict == Pooled::Missed, self.missing().unwrap_or(u64::MAX))
    }

    /// Returns the objection to an answer for the loads up to `load`, or for that load alone, which is then
    /// the highest that may be offered.
    pub(super) fn outcome(&self, load: f64, is_cap: bool) -> Outcome {
        let Self { goal, bad, together, all, verdict } = *self;
        let together = if together >= GROUPS { together } else { 1.0 };
        let rate = Rate::per_second(load).unwrap_or_default();
        if verdict == Pooled::Missed {
            let why = Unsettled::GoalMissed { goal, bad, all, together, load: rate, is_cap };
            return Outcome::Unstable { why };
        }
        let span = |missing: u64| Nanos::from_secs_f64(missing as f64 / load.max(1e-3));
        let further = self.missing().map(span);
        let why = Unsettled::GoalOpen { goal, bad, all, together, load: rate, further, is_cap };
        Outcome::Undecided { why }
    }
}

/// Returns the rare goals with their places in the objective.
fn rare_goals(slo: &Slo) -> impl Iterator<Item = (usize, &Goal)> {
    slo.goals.iter().enumerate().take(Slo::GOALS_MAX).filter(|(_, goal)| is_rare(goal))
}

/// Returns the number of operations that miss a goal together in the trials up to `load`, and in one that is not among
/// them yet. Trials at higher loads are no evidence: an overload is a long group.
fn together(evidence: &Evidence, goal: usize, load: f64, own: Option<&BadOps>) -> f64 {
    let (mut bad, _) = evidence.bad_up_to(load, goal);
    own.into_iter().for_each(|own| bad.add(own));
    bad.together()
}

/// Returns a trial's verdict on its load: its own, but pooled with the others of that load if it missed
/// rare goals alone.
pub(super) fn pool(
    evidence: &Evidence,
    slo: &Slo,
    measurement: &TrialMeasurement,
    judgement: &Judgement,
) -> Pooled {
    let request = &measurement.request;
    if judgement.verdict == Verdict::Good {
        return Pooled::Met;
    }
    if !request.phase.moves_bounds() || !misses_rare_goals_alone(judgement) {
        return Pooled::Missed;
    }
    let (load, scheduled) = (request.rate.get(), measurement.tally.scheduled);
    let own = bad_of(slo, measurement);
    let (bad, all) = evidence.rarely_bad(load);
    let all = all + scheduled;
    let missed = |(index, goal): &(usize, &Goal)| {
        own[*index].ops as f64 > goal.bad_ratio_max() * scheduled as f64
    };
    let verdicts: Vec<Pooled> = rare_goals(slo)
        .filter(missed)
        .map(|(index, goal)| {
            let together = together(evidence, index, load, Some(&own[index]));
            pooled(bad[index].ops + own[index].ops, together, all, goal.bad_ratio_max())
        })
        .collect();
    match verdicts.contains(&Pooled::Missed) {
        true => Pooled::Missed,
        false if verdicts.iter().all(|verdict| *verdict == Pooled::Met) => Pooled::Met,
        false => Pooled::Undecided,
    }
}

/// Returns the goal that the trials up to `lower` settle least; `None` if they show every goal to be met.
pub(super) fn open_goal(evidence: &Evidence, slo: &Slo, lower: f64) -> Option<Open> {
    let open = rare_goals(slo).filter_map(|(index, goal)| {
        let together = together(evidence, index, lower, None);
        let up_to = |load: f64| {
            let (bad, all) = evidence.bad_up_to(load, index);
            (pooled(bad.ops, together, all, goal.bad_ratio_max()), bad.ops, all)
        };
        // Near the bound a server fails as much as the goal allows: that is what a bound is.
        let (verdict, bad, all) = up_to(lower);
        let is_met = verdict == Pooled::Met || up_to(FAR_BELOW * lower).0 == Pooled::Met;
        (!is_met).then_some(Open { goal: *goal, bad, together, all, verdict })
    });
    open.max_by_key(Open::by_urgency)
}

/// Returns the goal that the trials at `load` settle least: whatever its quantile, some operations have to show that it
/// is met.
pub(super) fn open_goal_at(evidence: &Evidence, slo: &Slo, load: f64) -> Option<Open> {
    let (bad, all) = evidence.rarely_bad(load);
    let each = slo.goals.iter().zip(bad).enumerate().map(|(index, (goal, bad))| {
        let together = together(evidence, index, load, None);
        let verdict = pooled(bad.ops, together, all, goal.bad_ratio_max());
        Open { goal: *goal, bad: bad.ops, together, all, verdict }
    });
    each.filter(|open| open.verdict != Pooled::Met).max_by_key(Open::by_urgency)
}
