//! The interval is as narrow as it gets: is the load below it met for longer, by operations enough, and in
//! random arrivals?

use plimsoll_model::trial::{Confirmations, Outcome, Phase, TrialMeasurement, Unsettled};
use plimsoll_model::{Nanos, Rate};

use super::super::answer::{Known, Landmarks, Stated};
use super::super::fit::Fit;
use super::super::open::open_goal;
use super::super::rare::Pooled;
use super::super::safe::next_load;
use super::super::trials::Role;
use super::memory::{ExtendedTrial, LONGEST, Policy, SLOW_EXTENSION, Want};
use crate::validity::is_drifting;

/// Estimated share of the trials that meet the confirmed load.
const CONFIRMED_SHARE: f64 = 0.9;
/// Length of an extended confirmation, which follows one that drifts, in confirmations.
const EXTENDED: u64 = 2;
/// Trials that ask whether what missed the objective far below the interval were accidents.
const BELOW_AGAIN_MAX: u32 = 8;
/// Trials with random arrivals before one of them has met the objective, and how far each goes down from the
/// lowest load that was missed.
const SAFE_TRIALS_MAX: u32 = 6;
const STEPS_DOWN: [f64; 3] = [0.95, 0.9, 0.8];
/// A server is slow that answers fewer operations in a confirmation.
const SLOW_OPS: f64 = 1_500.0;
/// Time is reserved for this number of trials after the overload: most servers are back in the first.
const RECOVERIES_KEPT: u32 = 2;
/// An interval that is wider, relative, is first made narrower.
const WIDE: f64 = 0.2;
/// Confirmations are longer in modes with a large budget.
const LONG_CONFIRMATION: Nanos = Nanos::from_secs(30);

impl Policy {
    pub(super) fn plan_confirm(&mut self, known: &Known<'_>, fit: &Fit) -> Want {
        let limits = &known.task.limits;
        let (Some(lower), Some(_)) = (fit.lower, fit.upper) else {
            let phase = if fit.lower.is_none() { Phase::Confirm } else { Phase::Narrow };
            let length = limits.confirm_trial;
            let end = self.unmeasured_end(known, fit).filter(|_| self.affords(known, length));
            return match end {
                Some(load) => Want::Trial(phase, load, length),
                None => Want::Finish(Outcome::Undecided { why: self.why_unbounded(known, fit) }),
            };
        };
        if known.evidence.fell(self.expanded_s).is_some() && !self.is_retested {
            // A burst that the server grants once, or a server that has become slower?
            self.is_retested = true;
            let length = limits.initial_trial;
            if self.affords(known, length) {
                return Want::Trial(Phase::Narrow, self.first_bad, length);
            }
        }
        if let Some(want) = self.plan_far_below(known, lower) {
            return want;
        }
        let target = self.confirmed_load(known, fit, lower);
        let seen = known.confirmations_at(target);
        if is_confirmed(&seen) && seen.good >= limits.confirmations {
            return self.plan_extended(known, fit, target);
        }
        // Confirmations that failed, here or at higher loads, leave time for a safe load.
        let mut confirmations = known.evidence.verdicts().filter(|t| t.role == Role::Confirmation);
        let is_open = known.evidence.safe_made == 0 && confirmations.any(|t| !t.good);
        let kept = if is_open { limits.confirm_trial } else { Nanos::ZERO };
        match self.exhausted(known, limits.confirm_trial + kept) {
            None => Want::Trial(Phase::Confirm, target, limits.confirm_trial),
            Some(_) if is_confirmed(&seen) => self.overload(known, fit, target),
            Some(_) => {
                let safe = if is_open { self.plan_safe(known, fit) } else { None };
                safe.unwrap_or_else(|| Want::Finish(not_confirmed(&seen)))
            }
        }
    }

    /// Returns the progress of the search, for an answer before its end.
    pub(in super::super) fn reached(&self, known: &Known<'_>) -> (Outcome, Landmarks) {
        let plan = self.landmarks();
        if plan.stated.is_some() {
            return (Outcome::Regular, plan);
        }
        let bounds = known.fit.and_then(|fit| Some((fit, fit.lower?, fit.upper?)));
        let Some((fit, lower, _)) = bounds else {
            return (Outcome::Undecided { why: Unsettled::OneBound }, plan);
        };
        let confirmed = self.confirmed_load(known, fit, lower);
        let seen = known.confirmations_at(confirmed);
        if !is_confirmed(&seen) {
            return (not_confirmed(&seen), plan);
        }
        let stated = Some(Stated { low: lower, confirmed, recovery: None });
        (Outcome::Regular, Landmarks { stated, ..plan })
    }

    /// Plans some more trials at a load far below the interval that missed the objective: the misses may have been
    /// accidents.
    fn plan_far_below(&mut self, known: &Known<'_>, lower: f64) -> Option<Want> {
        let load = known.missed_far_below(lower)?.highest;
        let limits = &known.task.limits;
        let length = self.trial_length(known, load, limits.final_trial);
        // The safe load may go without a trial for an interval.
        let confirmations = limits.confirm_trial.0 * u64::from(limits.confirmations);
        let reserve = Nanos(confirmations) + self.reserve_after(known, 1);
        if self.below_again >= BELOW_AGAIN_MAX || !self.affords(known, length + reserve) {
            return None;
        }
        self.below_again += 1;
        Some(Want::Trial(Phase::Narrow, load, length))
    }

    /// GOOD on average, and perhaps not for long: a confirmation whose halves differ is followed by
    /// one over twice the time.
    fn plan_extended(&mut self, known: &Known<'_>, fit: &Fit, target: f64) -> Want {
        if self.extended_trial == ExtendedTrial::Wanted {
            let length = Nanos(known.task.limits.confirm_trial.0 * EXTENDED);
            let spent = match self.exhausted(known, length) {
                None => return Want::Trial(Phase::Confirm, target, length),
                Some(Unsettled::Trials { most }) => format!("the limit of {most} trials"),
                Some(_) => format!("the time budget of {}", self.budget(known)),
            };
            self.note_drift(target, &format!("and {spent} left no room for a longer trial"));
            self.extended_trial = ExtendedTrial::Done;
        }
        let more = self.plan_more_operations(known, fit, target);
        let more = more.or_else(|| self.plan_safe(known, fit));
        more.unwrap_or_else(|| self.overload(known, fit, target))
    }

    /// One more trial at the confirmed load, if the goals need more operations.
    fn plan_more_operations(&mut self, known: &Known<'_>, fit: &Fit, target: f64) -> Option<Want> {
        let open = open_goal(known.evidence, &known.task.slo, fit.lower?.max(target))
            .filter(|open| open.verdict == Pooled::Undecided)?;
        let usual = known.task.limits.confirm_trial;
        let wanted = Nanos::from_secs_f64(open.missing()? as f64 / target);
        let wanted = known.evidence.whole(wanted);
        let is_in_reach = wanted <= SLOW_EXTENSION;
        let length = wanted.max(usual).min(Nanos(usual.0 * LONGEST));
        let has_safe = met_and_missed(fit).0;
        let rest = self.reserve_after(known, 1) + if has_safe { Nanos::ZERO } else { usual };
        let shorter = [length, known.evidence.whole(Nanos(usual.0.max(length.0 / 2))), usual];
        let fits = shorter.into_iter().find(|length| self.affords(known, *length + rest));
        let is_slow = target * usual.as_secs_f64() < SLOW_OPS;
        let length = match fits {
            Some(length) => length,
            None if is_slow && is_in_reach && self.extend_for(known, length + rest) => length,
            None => return None,
        };
        Some(Want::Trial(Phase::Confirm, target, length))
    }

    /// The next trial with random arrivals; `None` if there were enough of them, or no time is left.
    fn plan_safe(&mut self, known: &Known<'_>, fit: &Fit) -> Option<Want> {
        // The stated capacity applies to the end of the search.
        if let Some(sentinel) = self.plan_sentinel(known, fit) {
            return Some(sentinel);
        }
        let limits = &known.task.limits;
        // A shorter one passes between those that take the server's CPU again and again.
        let disturbed = known.evidence.safe_disturbed();
        let length = Nanos(limits.confirm_trial.0 >> disturbed.min(8)).max(limits.final_trial);
        let length = known.evidence.whole(length);
        let reserve = self.reserve_after(known, RECOVERIES_KEPT);
        // Without one that met the objective there is no safe load: for that the server is not overloaded.
        let (is_met, missed) = met_and_missed(fit);
        let made = known.evidence.safe_made.saturating_sub(disturbed);
        let most =
            if is_met { limits.safe_trials } else { SAFE_TRIALS_MAX.max(limits.safe_trials) };
        let reserve = if is_met { reserve } else { Nanos::ZERO };
        if made >= most || !self.affords(known, length + reserve) && (is_met || !self.extend(known))
        {
            return None;
        }
        let down = missed.map_or(f64::INFINITY, |missed| {
            missed * STEPS_DOWN[(made as usize).saturating_sub(1).min(STEPS_DOWN.len() - 1)]
        });
        let load = next_load(fit).unwrap_or(f64::INFINITY);
        let load = if is_met { load } else { load.min(down) };
        let load = if load.is_finite() { load } else { fit.lower? };
        let load = self.grid.step(load, 0).max(self.lowest());
        Some(Want::Trial(Phase::Safe, load, length))
    }

    pub(super) fn learn_confirm(&mut self, good: bool, measurement: &TrialMeasurement) {
        let drifts = good && is_drifting(measurement);
        self.extended_trial = match self.extended_trial {
            ExtendedTrial::NotNeeded if drifts => ExtendedTrial::Wanted,
            ExtendedTrial::Wanted => {
                if drifts {
                    let load = measurement.request.rate.get();
                    self.note_drift(load, "also over twice the time");
                }
                ExtendedTrial::Done
            }
            state => state,
        };
    }

    fn note_drift(&mut self, load: f64, further: &str) {
        let rate = Rate::per_second(load).unwrap_or_default();
        self.notes.push(format!(
            "at {rate} the second half was unlike the first, {further}: the server is not steady \
             there"
        ));
    }

    /// Returns the outcome if no further confirmation is valid: the verdict of the valid ones, if there were any.
    pub(super) fn confirm_no_more(&mut self, known: &Known<'_>, load: f64, why: String) -> Outcome {
        let seen = known.confirmations_at(load);
        if seen.good <= seen.bad {
            return Outcome::Unconfirmed { why };
        }
        if self.extended_trial == ExtendedTrial::Wanted {
            self.note_drift(load, "and no longer trial was valid");
        }
        self.notes.push(format!(
            "confirmed by {} of {} trials only; the others were INVALID ({why})",
            seen.good, known.task.limits.confirmations
        ));
        Outcome::Regular
    }

    /// Returns the highest load of the grid that most trials meet, at most `lower`.
    fn confirmed_load(&self, known: &Known<'_>, fit: &Fit, lower: f64) -> f64 {
        let lowest = self.lowest();
        let mut load = lower;
        while load > lowest && fit.posterior.exceeds(load.ln()) < CONFIRMED_SHARE {
            load = self.grid.step(load, -1).max(lowest);
        }
        // A load just below that was confirmed already does as well.
        let near = load / (1.0 + known.task.limits.width_max)..load;
        let verdicts = known.evidence.verdicts();
        let confirmed = verdicts.filter(|t| t.role == Role::Confirmation && t.good);
        confirmed
            .map(|t| t.load)
            .filter(|known| near.contains(known))
            .reduce(f64::max)
            .unwrap_or(load)
    }

    /// Returns the time for what is left once the interval is final. Until then, only its confirmation
    /// counts: what would describe it has nothing to describe.
    pub(super) fn reserve(&self, known: &Known<'_>, fit: &Fit) -> Nanos {
        let limits = &known.task.limits;
        if fit.lower.is_none() || fit.upper.is_none() {
            return Nanos(limits.confirm_trial.0 * u64::from(limits.confirmations));
        }
        // As long as the interval is wide, a narrower one is worth more than a better safe load.
        let safe_trials = if fit.width() > WIDE { 1 } else { limits.safe_trials };
        // One of them may be BAD.
        let confirmations = u64::from(limits.confirmations + safe_trials) + 1;
        // A confirmation of a minute leaves time for more than one trial after the overload.
        let recoveries = if limits.confirm_trial > LONG_CONFIRMATION { 4 } else { 1 };
        Nanos(limits.confirm_trial.0 * confirmations) + self.reserve_after(known, recoveries)
    }

    /// Returns the reason for which the search ends without both bounds.
    fn why_unbounded(&self, known: &Known<'_>, fit: &Fit) -> Unsettled {
        let length = known.task.limits.final_trial;
        if let Some(spent) = self.exhausted(known, length + self.reserve(known, fit)) {
            return spent;
        }
        let (low, high) = fit.ends;
        let end = if fit.lower.is_none() { low } else { high };
        Unsettled::NotOffered { near: Rate::per_second(end).unwrap_or_default() }
    }
}

/// Reports whether a trial with random arrivals met the objective, and the lowest load of those that missed it.
fn met_and_missed(fit: &Fit) -> (bool, Option<f64>) {
    let random = || fit.trials.iter().filter(|trial| trial.role == Role::Safe);
    let missed = random().filter(|trial| !trial.good).map(|trial| trial.load).reduce(f64::min);
    (random().any(|trial| trial.good), missed)
}

const fn is_confirmed(seen: &Confirmations) -> bool {
    seen.good >= 2 * seen.bad && seen.good > 0
}

const fn not_confirmed(seen: &Confirmations) -> Outcome {
    Outcome::Undecided { why: Unsettled::NotConfirmed { good: seen.good, bad: seen.bad } }
}
