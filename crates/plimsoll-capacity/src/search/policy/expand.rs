//! The stages from the lowest load up to the first BAD one, or to the highest that may be offered.
//!
//! Three misses at the lowest load divide it by four, or end the search ([`Policy::learn_qualify`]). Each GOOD trial
//! doubles the load, or quadruples it while the server's busiest thread uses less than a tenth of its core
//! ([`Policy::expand_from`]). Two BAD trials at one load end the expansion. [`Policy::plan_capped`] makes sure that a
//! load at the cap was met for long enough. Start reading at [`Policy::learn_expand`].

use plimsoll_model::Nanos;
use plimsoll_model::trial::{Outcome, Phase, TrialMeasurement, TrialRequest, Verdict};

use super::super::answer::Known;
use super::super::open::open_goal_at;
use super::super::rare::Pooled;
use super::super::silence::is_unanswered;
use super::memory::{LONGEST, Policy, State, Want};
use super::repeats::Repeats;
use super::sentinel::CEILING_CELLS;
use crate::validity::is_drifting;

/// BAD trials at one load while expanding that settle it.
const BAD_MAX: usize = 2;
/// Growth per step while expanding.
const GROWTH: f64 = 2.0;
/// Growth while the SUT's busiest thread uses less than a tenth of its core.
const GROWTH_FAR: f64 = 4.0;
const BUSY_FAR: f64 = 0.1;
/// BAD trials at the lowest load that end the search: with the rests between them a pause of some
/// seconds does not reach all of them.
const QUALIFY_MAX: usize = 3;
/// GOOD trials at the lowest load while a server warms up.
const WARM_UP_MAX: usize = 5;
/// A lowest load that is missed is divided by this.
const DOWN: f64 = 4.0;
/// A lower load helps if this many times the share of its operations is well.
const HELPED: f64 = 1.5;
/// The most times the usual threads over which one load is spread.
const SPLIT_MAX: u32 = 8;

impl Policy {
    /// Returns the factor on the usual number of threads for the next trial. The repeat of an INVALID trial is a split
    /// test: positive proof, if it helps.
    pub(in super::super) fn split_wanted(&self) -> u32 {
        let Repeats { invalid_in_a_row, may_need_threads, split } = self.repeats;
        let is_test = invalid_in_a_row > 0 && may_need_threads;
        if is_test { (2 * split).min(SPLIT_MAX) } else { split }
    }

    /// Learns from a valid trial that follows an INVALID one over fewer threads: the threads were the limit, and the
    /// search continues with more.
    pub(in super::super) fn learn_split(
        &mut self,
        request: &TrialRequest,
        measurement: &TrialMeasurement,
    ) {
        if measurement.split > self.repeats.split && self.repeats.invalid_in_a_row > 0 {
            self.notes.push(format!(
                "at {} the generator was the limit; over {} times the threads the same load is \
                 valid, and the search went on with them",
                request.rate, measurement.split
            ));
            self.repeats.split = measurement.split;
        }
        self.repeats.invalid_in_a_row = 0;
    }

    /// Learns the rest, the threads and the anchor from a trial that the search for another objective has
    /// asked for.
    pub(in super::super) fn learn_of_another(
        &mut self,
        measurement: &TrialMeasurement,
        verdict: Verdict,
        rest: Nanos,
    ) {
        self.rest = if verdict == Verdict::Good { Nanos::ZERO } else { rest };
        if verdict != Verdict::Invalid {
            self.repeats.split = self.repeats.split.max(measurement.split);
        }
    }

    /// Begins where the trials leave it that other searches have asked for; the outcome if that ends it.
    pub(in super::super) fn begin_from_evidence(&mut self, known: &Known<'_>) -> Option<Outcome> {
        self.expanded_s = known.evidence.last_s();
        let is_known = known.evidence.context.unloaded.is_some();
        let good = known.evidence.highest_met().filter(|_| is_known)?;
        let lowest = self.lowest();
        let missed: Vec<f64> =
            known.evidence.missed_above(good).filter(|load| *load > lowest).collect();
        match missed.iter().copied().reduce(f64::min) {
            Some(first_bad) if missed.len() >= BAD_MAX => {
                self.first_bad = first_bad;
                self.state = State::Measure;
            }
            Some(rate) => self.state = State::Expand { rate },
            None => return self.expand_from(known, good, None),
        }
        None
    }

    pub(super) fn plan_qualify(&self, known: &Known<'_>) -> Want {
        let (rate, limits) = (self.lowest(), &known.task.limits);
        // It decides no bound unless all else fails: a coarse sample is enough.
        let coarse = self.trial_length(known, rate, limits.initial_trial);
        Want::Trial(Phase::Qualify, rate, coarse.max(limits.final_trial))
    }

    /// Plans the next trial after the highest load that may be offered was met: were there enough operations, and was
    /// it long enough?
    pub(super) fn plan_capped(&self, known: &Known<'_>, load: f64) -> Want {
        let limits = &known.task.limits;
        let Some(open) = open_goal_at(known.evidence, &known.task.slo, load) else {
            let long = limits.confirm_trial;
            let mut met = known.evidence.at(load).filter(|trial| trial.good);
            let is_confirmed = met.any(|trial| trial.planned >= long);
            return if is_confirmed || !self.affords(known, long) {
                Want::Finish(known.task.met_at_cap())
            } else {
                Want::Trial(Phase::Expand, load, long)
            };
        };
        let usual = self.trial_length(known, load, limits.initial_trial);
        let longest = usual.max(Nanos(limits.confirm_trial.0 * LONGEST));
        let wanted = open.missing().map(|missing| Nanos::from_secs_f64(missing as f64 / load));
        match wanted.map(|wanted| wanted.clamp(usual, longest)) {
            Some(length) if open.verdict == Pooled::Undecided && self.affords(known, length) => {
                Want::Trial(Phase::Expand, load, length)
            }
            _ => Want::Finish(open.outcome(load, true)),
        }
    }

    pub(super) fn learn_qualify(
        &mut self,
        known: &Known<'_>,
        rate: f64,
        good: bool,
        measurement: &TrialMeasurement,
    ) -> Option<Outcome> {
        let trials = known.evidence.at(rate).count();
        if good {
            // A server that is still warming up is not what the search is to expand from.
            let is_warm = !is_drifting(measurement) || trials >= WARM_UP_MAX;
            let busiest = measurement.sut_busiest_thread;
            return if is_warm { self.expand_from(known, rate, busiest) } else { None };
        }
        let fails = trials >= QUALIFY_MAX && (is_unanswered(measurement) || !self.go_down(known));
        fails.then_some(Outcome::FailsAtMinimum)
    }

    /// Begins again at a lower load; `false` if none may be offered, or it would not help.
    pub(super) fn go_down(&mut self, known: &Known<'_>) -> bool {
        let (lowest, floor) = (self.lowest(), known.task.settings.floor.get());
        let trials = known.evidence.at(lowest);
        let met = trials.map(|trial| 1.0 - trial.loss_ratio).fold(0.0, f64::max);
        // A quarter of the load made no difference: it is not the load.
        let is_in_vain = self.met_share.replace(met).is_some_and(|before| met <= HELPED * before);
        if is_in_vain || lowest <= floor * (1.0 + 1e-9) {
            return false;
        }
        self.grid = self.grid.from((lowest / DOWN).max(floor));
        self.state = State::Qualify;
        true
    }

    pub(super) fn learn_expand(
        &mut self,
        known: &Known<'_>,
        rate: f64,
        good: bool,
        measurement: &TrialMeasurement,
    ) -> Option<Outcome> {
        if good {
            return self.expand_from(known, rate, measurement.sut_busiest_thread);
        }
        if known.evidence.at(rate).filter(|trial| !trial.good).count() >= BAD_MAX {
            self.first_bad = rate;
            self.expanded_s = known.evidence.last_s();
            self.state = State::Measure;
        } else {
            self.state = State::Expand { rate };
        }
        None
    }

    /// Takes the next step up from a load that was met; the outcome if there is none.
    pub(super) fn expand_from(
        &mut self,
        known: &Known<'_>,
        rate: f64,
        busiest: Option<f64>,
    ) -> Option<Outcome> {
        let cap = known.task.cap();
        if rate >= cap {
            self.state = State::Capped(rate);
            return None;
        }
        let growth = if busiest.is_some_and(|busy| busy < BUSY_FAR) { GROWTH_FAR } else { GROWTH };
        let mut next = (rate * growth).min(cap);
        if let Some((ceiling, why)) = &self.ceiling
            && next >= *ceiling
        {
            let inside = self.grid.split(rate, *ceiling, CEILING_CELLS);
            let narrow = self.grid.within(rate, *ceiling, CEILING_CELLS);
            let Some(inside) = inside.filter(|_| !narrow) else {
                return Some(Outcome::GeneratorLimited { why: why.clone() });
            };
            next = inside;
        }
        self.state = State::Expand { rate: next };
        None
    }
}
