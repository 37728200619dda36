//! What one more result means in each state of the search.

use plimsoll_model::Nanos;
use plimsoll_model::trial::{
    CheckId, Judgement, Outcome, Phase, TrialMeasurement, TrialRequest, Verdict,
};

use crate::losses::Unloaded;
use crate::validity::is_drifting;

use super::rare::{Pooled, misses_rare_goals_alone};
use super::seen::Seen;
use super::silence::is_unanswered;
use super::trials::{Role, Trial};
use super::{BAD_MAX, BUSY_FAR, CEILING_CELLS, GROWTH, GROWTH_FAR, RateSearch, State};

/// BAD trials at the lowest load that end the search: with the rests between them a pause of some
/// seconds does not reach all of them.
const QUALIFY_MAX: usize = 3;
/// GOOD trials at the lowest load while a server warms up.
const WARM_UP_MAX: usize = 5;
/// A lowest load that is missed is divided by this.
const DOWN: f64 = 4.0;
/// A lower load helps where this many times the share of its operations is well.
const HELPED: f64 = 1.5;
/// What a trial carried in less time than this is chance.
pub(super) const CARRIED_WINDOW_MIN: Nanos = Nanos::from_millis(250);
/// INVALID trials in a row at one load that end the search there: a disturbance that spoils one trial
/// in ten hardly ever reaches all of them.
const INVALID_MAX: u32 = 4;
/// The same load is never spread over more than so many times the usual threads.
const SPLIT_MAX: u32 = 8;

impl RateSearch {
    /// The repeat of an INVALID trial is a split test: positive proof, if it helps.
    pub(super) fn split_wanted(&self) -> u32 {
        let is_test = self.invalid_in_a_row > 0 && self.may_need_threads;
        if is_test { (2 * self.split).min(SPLIT_MAX) } else { self.split }
    }

    pub(super) fn learn_invalid(&mut self, request: &TrialRequest, judgement: &Judgement) {
        self.invalid += 1;
        self.may_need_threads = judgement.deciding().any(|check| threads_may_help(&check.id));
        match request.phase {
            Phase::Sentinel => {
                self.sentinel.invalid += 1;
                return;
            }
            Phase::Safe => return,
            _ => {}
        }
        self.invalid_in_a_row += 1;
        self.confirmations_invalid += u32::from(request.phase == Phase::Confirm);
        // What only describes the answer is not worth a repeat.
        if matches!(self.state, State::Overload(..) | State::Recover(..))
            && !self.silence.is_suspected()
        {
            self.finish(Outcome::Regular);
            return;
        }
        if self.invalid_in_a_row < INVALID_MAX {
            return;
        }
        self.invalid_in_a_row = 0;
        let why = judgement.why();
        match self.state {
            // It is not even known whether there is a server.
            _ if self.silence.is_suspected() => {
                self.finish(Outcome::GeneratorLimited { why });
            }
            State::Expand { rate } => {
                // The step may have jumped over a tipping point that lies below this ceiling.
                self.ceiling = Some((rate, why));
                let low = self.trials.highest_good().unwrap_or_else(|| self.settings.lowest.get());
                self.expand_from(low, None);
            }
            _ if request.phase == Phase::Confirm => self.confirm_no_more(request.rate.get(), why),
            _ => {
                self.finish(Outcome::GeneratorLimited { why });
            }
        }
    }

    /// A valid trial where one over fewer threads was INVALID: those were the limit, and the
    /// search goes on with more.
    fn learn_split(&mut self, request: &TrialRequest, measurement: &TrialMeasurement) {
        if measurement.split > self.split && self.invalid_in_a_row > 0 {
            self.notes.push(format!(
                "at {} the generator was the limit; over {} times the threads the same load is \
                 valid, and the search went on with them",
                request.rate, measurement.split
            ));
            self.split = measurement.split;
        }
        self.invalid_in_a_row = 0;
    }

    pub(super) fn learn(
        &mut self,
        request: &TrialRequest,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
    ) {
        self.judged += 1;
        self.learn_split(request, measurement);
        if !self.is_about_silence(measurement, judgement) {
            self.learn_verdict(measurement, judgement);
            if judgement.verdict == Verdict::Good {
                self.remember_bounds();
            }
        }
    }

    /// What the trial says of its load.
    pub(super) fn learn_verdict(&mut self, measurement: &TrialMeasurement, judgement: &Judgement) {
        let request = &measurement.request;
        let good = judgement.verdict == Verdict::Good;
        if good {
            self.learn_unloaded(measurement);
        }
        if request.phase.moves_bounds() && self.is_put_aside(measurement, good) {
            return;
        }
        self.aside.handle_verdict(good);
        let pooled = self.with_others(measurement, judgement);
        if request.phase != Phase::Recover {
            self.add(self.evidence(measurement, judgement, pooled));
        }
        let good = pooled != Pooled::Missed;
        if request.phase == Phase::Confirm {
            self.learn_confirm(good, measurement);
        }
        match self.state {
            State::Qualify => self.learn_qualify(request.rate.get(), good, measurement),
            State::Expand { .. } | State::Capped(_) => {
                self.learn_expand(request.rate.get(), good, measurement);
            }
            State::Overload(answer, _) => self.learn_overload(answer, good),
            State::Recover(answer, recovering) => {
                self.learn_recover(answer, recovering, good, measurement);
            }
            // What a trial means is read from all of them.
            State::Measure | State::Done(_) => {}
        }
    }

    fn evidence(
        &self,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
        pooled: Pooled,
    ) -> Trial {
        let carried = measurement.carried_per_s();
        let is_long = measurement.window >= CARRIED_WINDOW_MIN;
        Trial {
            load: measurement.request.rate.get(),
            good: pooled == Pooled::Met,
            at_s: self.middle_s(measurement.window),
            window_s: measurement.window.as_secs_f64(),
            loss_ratio: judgement.loss_ratio,
            carried: Some(carried).filter(|carried| is_long && *carried > 0.0),
            bad: self.bad_of(measurement),
            scheduled: measurement.tally.scheduled,
            rarely_missed: misses_rare_goals_alone(judgement),
            role: match pooled {
                Pooled::Untold => Role::Untold,
                Pooled::Met | Pooled::Missed => Role::of(measurement.request.phase),
            },
            seen: Seen::of(measurement, carried),
        }
    }

    /// Learns from a trial that the search for another objective has asked for, after `rest`; it may be
    /// no evidence for reasons that have nothing to do with the objective.
    pub(super) fn learn_of_another(
        &mut self,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
        rest: Nanos,
        is_evidence: bool,
    ) {
        let request = &measurement.request;
        let good = judgement.verdict == Verdict::Good;
        self.number = request.number;
        self.spent = self.spent + rest + measurement.window;
        self.rest = if good { Nanos::ZERO } else { self.limits.rest };
        self.split = self.split.max(if judgement.verdict == Verdict::Invalid {
            1
        } else {
            measurement.split
        });
        let is_judged =
            is_evidence && !measurement.aborted && judgement.verdict != Verdict::Invalid;
        if !is_judged || request.phase == Phase::Recover {
            return;
        }
        if request.phase == Phase::Sentinel {
            self.sentinel.anchor = Some(request.rate.get());
        }
        if good {
            self.learn_unloaded(measurement);
        }
        let pooled = self.with_others(measurement, judgement);
        self.add(self.evidence(measurement, judgement, pooled));
    }

    /// Begins where the trials leave it that other searches have asked for.
    pub(super) fn begin_from_evidence(&mut self) {
        self.trials.end_expansion();
        let lowest = self.settings.lowest.get();
        let Some(good) = self.trials.highest_met().filter(|_| self.context.unloaded.is_some())
        else {
            return;
        };
        let missed: Vec<f64> =
            self.trials.missed_above(good).filter(|load| *load > lowest).collect();
        let first_bad = missed.iter().copied().reduce(f64::min);
        match first_bad {
            Some(first_bad) if missed.len() >= BAD_MAX => {
                self.first_bad = first_bad;
                self.state = State::Measure;
            }
            Some(rate) => self.state = State::Expand { rate },
            None => self.expand_from(good, None),
        }
    }

    /// The server's own time is the shortest that was seen: the first trials may have met a server
    /// that was warming up.
    fn learn_unloaded(&mut self, measurement: &TrialMeasurement) {
        let known = self.context.unloaded;
        let seen = Unloaded::of(&measurement.tally);
        let is_shorter = |seen: &Unloaded| known.is_none_or(|known| seen.mean < known.mean);
        self.context.unloaded = seen.filter(is_shorter).or(known);
    }

    fn learn_qualify(&mut self, rate: f64, good: bool, measurement: &TrialMeasurement) {
        let trials = self.trials.at(rate).count();
        if good {
            // A server that is still warming up is not what the search is to expand from.
            if !is_drifting(measurement) || trials >= WARM_UP_MAX {
                self.expand_from(rate, measurement.sut_busiest_thread);
            }
        } else if trials >= QUALIFY_MAX && (is_unanswered(measurement) || !self.go_down()) {
            self.finish(Outcome::FailsAtMinimum);
        }
    }

    /// Begins again at a lower load; `false` where none may be offered, or it would not help.
    pub(super) fn go_down(&mut self) -> bool {
        let (lowest, floor) = (self.settings.lowest.get(), self.settings.floor.get());
        let met = self.trials.at(lowest).map(|trial| 1.0 - trial.loss_ratio).fold(0.0, f64::max);
        // A quarter of the load made no difference: it is not the load.
        let is_in_vain = self.met_share.replace(met).is_some_and(|before| met <= HELPED * before);
        if is_in_vain || lowest <= floor * (1.0 + 1e-9) {
            return false;
        }
        self.set_lowest((lowest / DOWN).max(floor));
        self.state = State::Qualify;
        true
    }

    fn learn_expand(&mut self, rate: f64, good: bool, measurement: &TrialMeasurement) {
        if good {
            self.expand_from(rate, measurement.sut_busiest_thread);
        } else if self.trials.at(rate).filter(|trial| !trial.good).count() >= BAD_MAX {
            self.first_bad = rate;
            self.trials.end_expansion();
            self.state = State::Measure;
        } else {
            self.state = State::Expand { rate };
        }
    }

    fn expand_from(&mut self, rate: f64, busiest: Option<f64>) {
        if rate >= self.cap() {
            self.state = State::Capped(rate);
            return;
        }
        let growth = if busiest.is_some_and(|busy| busy < BUSY_FAR) { GROWTH_FAR } else { GROWTH };
        let mut next = (rate * growth).min(self.cap());
        if let Some((ceiling, why)) = self.ceiling.clone()
            && next >= ceiling
        {
            let inside = self.grid.split(rate, ceiling, CEILING_CELLS);
            let narrow = self.grid.within(rate, ceiling, CEILING_CELLS);
            let Some(inside) = inside.filter(|_| !narrow) else {
                self.finish(Outcome::GeneratorLimited { why });
                return;
            };
            next = inside;
        }
        self.state = State::Expand { rate: next };
    }

    /// Back to expansion from a load that is GOOD after all.
    pub(super) fn expand_again(&mut self, rate: f64) -> super::Want {
        self.first_bad = super::settings::HIGHEST_PER_S;
        self.expand_from(rate, None);
        self.plan()
    }
}

/// Whether a check may fail for lack of threads. What else a generator lacks, threads do not give.
const fn threads_may_help(check: &CheckId) -> bool {
    !matches!(
        check,
        CheckId::LocalErrors
            | CheckId::Pool
            | CheckId::PathLoss
            | CheckId::PeerCounters
            | CheckId::Unrequested
            | CheckId::GeneratorNetwork
            | CheckId::GeneratorMemory
    )
}
