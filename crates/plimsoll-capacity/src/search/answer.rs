//! The answer: the result that the evidence so far supports. A pure function, callable after every trial.
//!
//! [`answer`] combines everything in [`Known`] (task, evidence, guards, fit) with the plan's [`Landmarks`].
//! [`Known::outcome`] looks for evidence against the fitted interval, then for evidence that it lacks. If the search
//! is contradicted or undecided but a load held, the outcome becomes [`Outcome::Bounds`], with a range over the
//! observed speeds if possible. Loads are in operations per second. Start reading at [`answer`].

use plimsoll_model::Rate;
use plimsoll_model::trial::{
    Confirmations, Outcome, Recovery, SafeMissing, TippingPoint, Unsettled,
};

use crate::stats::median_of;

use super::bounds::ObservedBounds;
use super::contrast::{differed, full_host};
use super::evidence::Evidence;
use super::fit::Fit;
use super::guards::Guards;
use super::levels::reading;
use super::open::open_goal;
use super::regimes::regimes;
use super::safe::safe_load;
use super::second::readings;
use super::task::Task;
use super::trials::{MissedBelow, Role, Trial, rose};

/// A capacity that differs more than this from trial to trial (a standard deviation) is no number.
const SPREAD_MAX: f64 = 0.15;
/// Two equal overloads whose goodput differs by more than this, logarithmic, met two different speeds of the server. If
/// the capacity is noisy, the limit is this number of its standard deviations.
const LEVELS_APART: f64 = 0.1;
const SPREADS_APART: f64 = 4.0;
/// A wider interval says nothing.
const WIDTH_MAX: f64 = 0.6;
/// Largest upper over lower bound of a range that spans the speeds that were observed.
const RANGE_MAX: f64 = 3.0;
/// A wider interval is of a server that has several speeds: it reaches to the slowest and the fastest that were met.
const OF_SPEEDS: f64 = 0.2;
/// Share of the seconds of overloads that were slower than the slowest speed, and faster than the fastest.
const BEYOND: f64 = 0.1;
/// Goodput under overload and the capacity under the objective differ if they are this far apart, relative.
const OVERLOAD_OFF: f64 = 0.02;
/// A server that carries the interval's loads in overloads, and less than this share of them in every second of a trial
/// near it, was slow; one that was so this often has a slower speed.
const SLOW_TRIAL: f64 = 0.85;
const SLOW_TIMES_MIN: u32 = 3;
/// Trials at loads up to this multiple of the upper end are near the interval.
const NEAR: f64 = 1.1;
/// Standard deviations by which the verdicts may be less likely than the model predicts.
const SURPRISE_MAX: f64 = 4.0;

/// Everything that is known after the trials so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known<'a> {
    pub(super) task: &'a Task,
    pub(super) evidence: &'a Evidence,
    pub(super) guards: &'a Guards,
    /// `None` if there is none, or if it was not asked for.
    pub(super) fit: Option<&'a Fit>,
}

/// The plan's landmarks in the evidence: the meaning of loads and instants.
#[derive(Clone, Copy, Debug)]
pub(super) struct Landmarks {
    /// The lowest load that may be offered, operations per second.
    pub(super) lowest: f64,
    /// End of expansion, on the clock of [`Trial::at_s`].
    pub(super) expanded_s: f64,
    /// Final bounds, once the search only describes them.
    pub(super) stated: Option<Stated>,
}

/// Final bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stated {
    pub(super) low: f64,
    pub(super) confirmed: f64,
    pub(super) recovery: Option<Recovery>,
}

fn rate(per_s: f64) -> Rate {
    Rate::per_second(per_s).unwrap_or_default()
}

impl Known<'_> {
    /// Returns the trials that count, each as if it had been made at the slowest level.
    pub(super) fn counted(&self) -> &[Trial] {
        self.fit.map_or(&[], |fit| &fit.trials)
    }

    /// The interval that spans what was observed, if one capacity does not explain it: from a load that held,
    /// through what the fit says, to the lowest load above that did not.
    fn range(&self, why: &Unsettled, observed: &ObservedBounds) -> Option<(Rate, Rate)> {
        let is_of_speeds = matches!(
            why,
            Unsettled::NotConfirmed { .. }
                | Unsettled::Wide { .. }
                | Unsettled::Spread { .. }
                | Unsettled::Time { .. }
                | Unsettled::Trials { .. }
        );
        let (low, high) = self.fit.filter(|_| is_of_speeds)?.ends;
        let counted = self.guards.levels.counted(self.evidence);
        let met = counted.iter().filter(|t| t.is_verdict() && t.good).map(|t| t.load);
        let upper = met.fold(observed.upper?.get().max(high), f64::max);
        let (lower, upper) = self.with_speeds((observed.lower.get().min(low), upper));
        Rate::per_second(lower).zip(Rate::per_second(upper)).filter(|_| upper <= RANGE_MAX * lower)
    }

    /// An interval that is wide reaches to the speeds that overloads have shown.
    fn with_speeds(&self, (lower, upper): (f64, f64)) -> (f64, f64) {
        if upper <= (1.0 + OF_SPEEDS) * lower {
            return (lower, upper);
        }
        let counted = self.guards.levels.counted(self.evidence);
        let seconds = readings(&self.evidence.seconds, &counted);
        let mut carried: Vec<f64> = seconds.map(|second| second.ok).collect();
        carried.sort_by(f64::total_cmp);
        let beyond = (BEYOND * carried.len() as f64) as usize;
        let slow = carried.get(beyond).map_or(lower, |slow| slow * (1.0 - OVERLOAD_OFF));
        let fast = carried.iter().rev().nth(beyond);
        let fast = fast.map_or(upper, |fast| fast * (1.0 + OVERLOAD_OFF));
        (lower.min(slow), upper.max(fast))
    }

    /// Returns the least that the server carried in trials near the interval in which it was slower all the time, if it
    /// was slow, fast and slow again, and overloads do not cost it as much.
    fn slow_at_times(&self, lower: f64, upper: f64) -> Option<f64> {
        let counted = self.guards.levels.counted(self.evidence);
        let usual = median_of(counted.iter().filter_map(reading).map(|reading| reading.y.exp()))?;
        let fast_from = (1.0 - 2.0 * OVERLOAD_OFF) * lower;
        if usual < fast_from {
            return None;
        }
        // Most trials that miss are cut short within a second.
        let fastest = |trial: &Trial| {
            let seconds = self.evidence.seconds.iter();
            let of = seconds.filter(|second| second.trial == trial.number && second.is_whole());
            of.map(|second| second.ok).reduce(f64::max).or(trial.carried)
        };
        let missed_near = |trial: &&Trial| {
            trial.is_verdict() && trial.saturated().is_some() && trial.load <= NEAR * upper
        };
        let (mut least, mut times, mut was_fast) = (f64::INFINITY, 0, true);
        for trial in &counted {
            let fastest = Some(trial).filter(missed_near).and_then(fastest);
            if let Some(slow) = fastest.filter(|fastest| *fastest < SLOW_TRIAL * lower) {
                if was_fast {
                    (least, times) = (least.min(slow), times + 1);
                }
                was_fast = false;
            } else {
                was_fast |= trial.shown().is_some_and(|carried| carried >= fast_from);
            }
        }
        (times >= SLOW_TIMES_MIN).then_some(least)
    }

    /// Returns the trials that missed the objective far below the interval.
    pub(super) fn missed_far_below(&self, lower: f64) -> Option<MissedBelow> {
        MissedBelow::of(self.counted(), lower)
    }

    /// Returns the longer trials for and against `load`: one that met the objective confirms every lower load, one that
    /// missed it contradicts every higher one.
    pub(super) fn confirmations_at(&self, load: f64) -> Confirmations {
        let invalid = self.evidence.invalid_confirmations;
        let mut seen = Confirmations { invalid, ..Default::default() };
        for trial in self.counted() {
            if trial.role == Role::Confirmation {
                seen.good += u32::from(trial.good && trial.load >= load * (1.0 - 1e-9));
                seen.bad += u32::from(!trial.good && trial.load <= load * (1.0 + 1e-9));
            }
        }
        seen
    }

    /// Reports whether the server carried more in the overload that just ended than in the sentinels at `anchor`.
    /// Less is no news: some servers carry less the longer they are overloaded.
    pub(super) fn carries_more(&self, anchor: Option<f64>) -> bool {
        let Some(fit) = self.fit else { return false };
        let last = self.evidence.all().next_back().and_then(|trial| trial.carried);
        let counted = self.guards.levels.counted(self.evidence);
        let at_anchor = counted.iter().filter(|trial| Some(trial.load) == anchor);
        let usual = median_of(at_anchor.filter_map(reading).map(|reading| reading.y));
        let apart = LEVELS_APART.max(SPREADS_APART * fit.posterior.spread());
        last.zip(usual).is_some_and(|(last, usual)| last.ln() - usual > 0.5 * apart)
    }

    /// Returns the evidence against an interval that was found.
    fn contradiction(&self, fit: &Fit, plan: &Landmarks) -> Option<Unsettled> {
        if let Some((before, after)) = self.evidence.fell(plan.expanded_s) {
            let beside = differed(self.evidence.all());
            return Some(Unsettled::Fell { before: rate(before), after: rate(after), beside });
        }
        if let Some((before, after)) = rose(&self.guards.levels.counted(self.evidence)) {
            return Some(Unsettled::Rose { before: rate(before), after: rate(after) });
        }
        if let Some(missed) = fit.lower.and_then(|lower| self.missed_far_below(lower)) {
            let (bad, all) = (missed.bad as u32, missed.all as u32);
            return Some(Unsettled::MissedBelow { bad, all });
        }
        let sd = fit.posterior.spread();
        if sd > SPREAD_MAX {
            return Some(Unsettled::Spread { sd });
        }
        let sds = fit.surprise();
        (sds > SURPRISE_MAX).then_some(Unsettled::Contradiction { sds })
    }

    /// Returns the evidence that an interval lacks, if nothing contradicts it.
    fn lacking(&self, plan: &Landmarks) -> Option<Outcome> {
        let one_bound = Some(Outcome::Undecided { why: Unsettled::OneBound });
        let Some(fit) = self.fit.filter(|fit| fit.width().is_finite()) else { return one_bound };
        let Some(lower) = fit.lower else { return one_bound };
        // The interval may have moved a little since a load was confirmed.
        let lower = lower.max(plan.stated.map_or(0.0, |stated| stated.confirmed));
        let open = open_goal(self.evidence, &self.task.slo, lower);
        let wide = || {
            let width = Some(fit.width()).filter(|width| *width > WIDTH_MAX)?;
            Some(Outcome::Undecided { why: Unsettled::Wide { width } })
        };
        open.map(|open| open.outcome(lower, false)).or_else(wide)
    }

    /// The outcome that the evidence allows: `reached` is how far the plan came.
    fn outcome(&self, plan: &Landmarks, reached: Outcome) -> Outcome {
        let contradiction = || self.fit.and_then(|fit| self.contradiction(fit, plan));
        let unstable = |why| Outcome::Unstable { why };
        match reached {
            Outcome::Regular => match contradiction() {
                Some(why) => unstable(why),
                None => self.lacking(plan).unwrap_or(Outcome::Regular),
            },
            // A server that changed is why the time was too short.
            Outcome::Undecided { why } => {
                contradiction().map_or(Outcome::Undecided { why }, unstable)
            }
            reached => reached,
        }
    }
}

/// Returns the reason for which there is no safe load; `None` if the search did not look for one.
fn safe_missing(fit: Option<&Fit>, outcome: &Outcome) -> Option<SafeMissing> {
    let random: Vec<&Trial> =
        fit.iter().flat_map(|fit| &fit.trials).filter(|trial| trial.role == Role::Safe).collect();
    let is_met = random.iter().any(|trial| trial.good);
    match (outcome, random.iter().map(|trial| trial.load).reduce(f64::min)) {
        (Outcome::Regular, None) => Some(SafeMissing::NoTime),
        (Outcome::Regular, Some(lowest)) => {
            Some(SafeMissing::NoneMet { trials: random.len() as u32, lowest: rate(lowest) })
        }
        (Outcome::Bounds { why } | Outcome::Unstable { why }, Some(_)) if is_met => {
            Some(SafeMissing::SetAside { why: why.clone() })
        }
        _ => None,
    }
}

/// A remark on a safe load that no trial of a confirmation's length speaks for.
fn shorter_safe_trials(fit: &Fit, task: &Task) -> Option<String> {
    let met = fit.trials.iter().filter(|trial| trial.role == Role::Safe && trial.good);
    let longest = met.map(|trial| trial.planned).max()?;
    (longest < task.limits.confirm_trial).then(|| {
        format!(
            "the trials with random arrivals that met the SLO lasted {longest} at most: longer ones were disturbed \
             by other programs on the server's CPU"
        )
    })
}

/// Creates the answer from all that is known. `reached` is how far the plan came, and `notes` are its findings for the
/// report.
pub(super) fn answer(
    known: &Known<'_>,
    plan: &Landmarks,
    reached: Outcome,
    notes: &[String],
) -> TippingPoint {
    let Known { task, evidence, guards, fit } = *known;
    let held = ObservedBounds::of(&guards.levels.counted(evidence), task.limits.confirm_trial);
    let (outcome, observed) = match (known.outcome(plan, reached), held) {
        // A load held all the same.
        (Outcome::Unstable { why } | Outcome::Undecided { why }, Some(held)) => {
            (Outcome::Bounds { why }, Some(held))
        }
        (outcome, _) => (outcome, None),
    };
    let range = match (&outcome, &observed) {
        (Outcome::Bounds { why }, Some(observed)) => known.range(why, observed),
        _ => None,
    };
    let regimes = fit.map(regimes).unwrap_or_default();
    let slow = fit.filter(|_| outcome == Outcome::Regular).and_then(|fit| {
        let (lower, upper) = fit.lower.zip(fit.upper)?;
        known.slow_at_times(lower, upper)
    });
    let (lower, upper) = match (&outcome, fit, observed) {
        _ if range.is_some() => range.unzip(),
        (_, _, Some(observed)) => (Some(observed.lower), observed.upper),
        (Outcome::Regular, Some(fit), _) => {
            let ends = fit.lower.zip(fit.upper).map(|(lower, upper)| {
                let (slowest, fastest) = known.with_speeds((lower, upper));
                let slow = slow.map_or(f64::INFINITY, |slow| slow * (1.0 - OVERLOAD_OFF));
                let slowest = slowest.min(slow);
                // With several speeds it is of the slowest.
                (slowest, if regimes.is_empty() { fastest } else { upper })
            });
            let (lower, upper) = ends.unzip();
            (lower.and_then(Rate::per_second), upper.and_then(Rate::per_second))
        }
        _ => guards.silence.known().unwrap_or_else(|| evidence.leaning_bounds()),
    };
    let mut notes = notes.to_vec();
    if !matches!(outcome, Outcome::Unstable { .. }) {
        notes.extend(guards.levels.describe(evidence));
    }
    notes.extend(slow.and_then(Rate::per_second).map(|slow| {
        format!(
            "the server has a slower speed: in some trials near the interval it carried {slow} at most, from their \
             beginning to their end; the interval reaches down to it"
        )
    }));
    if outcome == Outcome::FailsAtMinimum {
        notes.extend(full_host(evidence.verdicts()));
    }
    let is_interval = outcome == Outcome::Regular || range.is_some();
    let safe = fit.filter(|_| is_interval).and_then(|fit| {
        let load = safe_load(fit)?;
        let load = lower.map_or(load, |lower| if load < lower { load } else { lower });
        Some(load).filter(|load| load.get() >= plan.lowest)
    });
    notes.extend(fit.filter(|_| safe.is_some()).and_then(|fit| shorter_safe_trials(fit, task)));
    let spread = fit.map(|fit| fit.posterior.spread());
    TippingPoint {
        safe_missing: if safe.is_some() { None } else { safe_missing(fit, &outcome) },
        met: observed.map(|observed| observed.met),
        regimes: if is_interval { regimes } else { Vec::new() },
        disturbed: evidence.disturbance(),
        outlook: None,
        lower,
        upper,
        safe,
        run: Some(task.limits.confirm_trial),
        confidence: is_interval.then_some(task.settings.confidence),
        spread,
        drift_per_min: fit
            .map(|fit| if fit.drift.is_significant { fit.drift.per_min } else { 0.0 }),
        conditional_throughput: lower.and_then(|lower| evidence.conditional_throughput(lower)),
        trials: evidence.judged,
        invalid_trials: evidence.invalid,
        confirmed: plan.stated.and_then(|stated| Rate::per_second(stated.confirmed)),
        confirmations: known.confirmations_at(plan.stated.map_or(0.0, |stated| stated.confirmed)),
        noise: spread.filter(|spread| is_interval && *spread > task.limits.width_max / 2.0),
        recovery: plan.stated.and_then(|stated| stated.recovery),
        notes,
        goals: Vec::new(),
        outcome,
    }
}
