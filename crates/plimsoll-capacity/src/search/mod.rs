//! The rate search: which load to offer next, and what the answers add up to.
//!
//! ```text
//! qualify -> expand (x2 from below) -> measure, confirm -> overload -> recover -> done
//!                                        ^---- GOOD, or unlike before ----'
//! ```
//!
//! What the trials add up to is one likelihood (`likelihood`) over those that were made at the
//! level where the server is now (`levels`).
//!
//! A state machine without clock or I/O. It does not run trials and does not retry a failed agent;
//! it only sees measurements. INVALID trials are repeated, over twice the threads where those can be
//! had and may help, and never enter a bound.

mod after;
mod aside;
mod change;
mod goals;
mod grid;
mod learn;
mod levels;
mod likelihood;
mod measure;
mod rare;
mod safe;
mod seen;
mod settings;
mod silence;
mod trials;

use std::cell::RefCell;
use std::rc::Rc;

use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::tally::OUTSTANDING_SAMPLE;
use plimsoll_model::trial::{
    Judgement, Outcome, Phase, TippingPoint, TrialMeasurement, TrialRecord, TrialRequest,
    Unsettled, Verdict,
};
use plimsoll_model::{Nanos, Rate};

use crate::losses::Context;
use crate::validity::REFERENCE_FAIL;
use crate::verdict::judge;

use after::{Answer, Recovering};
use aside::Aside;
use grid::Grid;
use learn::CARRIED_WINDOW_MIN;
use levels::Levels;
use measure::{Fit, Longer, Sentinel};
use silence::Silence;
use trials::Trials;

pub use goals::GoalSearch;
pub use rare::operations_needed;
pub use settings::{CONFIDENCE, LOWEST_PER_S, Limits, Mode, SearchSettings};

/// BAD trials at one load while expanding that settle it.
const BAD_MAX: usize = 2;
/// Loads above this multiple of the first BAD one are never offered: overload can do harm.
const OVERSHOOT_MAX: f64 = 2.0;
/// The overload on purpose, relative to the upper bound.
const OVERLOAD: f64 = 1.2;
/// How near to a load that the generator cannot make the search looks for a BAD one.
const CEILING_CELLS: u32 = 2;
/// Cells of the grid within the narrowest interval of a mode.
const CELLS_PER_WIDTH: f64 = 4.0;
/// Growth per step while expanding.
const GROWTH: f64 = 2.0;
/// Growth while the SUT's busiest thread uses less than a tenth of its core.
const GROWTH_FAR: f64 = 4.0;
const BUSY_FAR: f64 = 0.1;
/// A trial is ended early only when the goal is missed by so much: what is late is counted by the
/// agents at their clocks, and the verdict is computed from histograms.
const ABORT_MARGIN: f64 = 1.25;
const ABORT_MARGIN_OPS: f64 = 10.0;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and the large one ends a search")]
pub enum Step {
    /// Run this trial and hand in its measurement.
    Trial(TrialRequest),
    /// The search is over.
    Done(TippingPoint),
}

#[derive(Clone, Debug)]
enum State {
    Qualify,
    Expand {
        rate: f64,
    },
    /// This load was met, and no higher one may be offered.
    Capped(f64),
    /// Closing in, and confirming what was found.
    Measure,
    /// With the load of the overload.
    Overload(Answer, f64),
    Recover(Answer, Recovering),
    Done(Box<TippingPoint>),
}

/// What a state wants: a load, why and for how long; or the end.
enum Want {
    Trial(Phase, f64, Nanos),
    Finish(Outcome),
}

/// What a search has used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exhausted {
    Trials(u32),
    Time(Nanos),
}

impl From<Exhausted> for Unsettled {
    fn from(spent: Exhausted) -> Self {
        match spent {
            Exhausted::Trials(most) => Self::Trials { most },
            Exhausted::Time(budget) => Self::Time { budget },
        }
    }
}

impl std::fmt::Display for Exhausted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Trials(most) => write!(f, "the limit of {most} trials"),
            Self::Time(budget) => write!(f, "the time budget of {budget}"),
        }
    }
}

/// A search for the highest rate that meets an objective.
#[derive(Clone, Debug)]
pub struct RateSearch {
    settings: SearchSettings,
    limits: &'static Limits,
    slo: Slo,
    grid: Grid,
    trials: Trials,
    levels: Levels,
    sentinel: Sentinel,
    longer: Longer,
    /// The fit to so many trials, so that it is made once for each.
    known: RefCell<(usize, Option<Rc<Fit>>)>,
    context: Context,
    state: State,
    pending: Option<TrialRequest>,
    /// Trials asked for.
    number: u32,
    judged: u32,
    invalid: u32,
    invalid_in_a_row: u32,
    /// Whether the last INVALID trial may have lacked threads.
    may_need_threads: bool,
    /// Over how many times the usual threads the load is spread; more once that was seen to help.
    split: u32,
    /// Trials with random arrivals that were asked for and made.
    safe_made: u32,
    /// Confirmations that were INVALID.
    confirmations_invalid: u32,
    /// Trials far below the interval that were asked for because others had missed the objective there.
    below_again: u32,
    /// Whether that load was measured again, because the server carried less ever since.
    is_retested: bool,
    /// Share of the operations that were well in the best trial at the lowest load before this one.
    met_share: Option<f64>,
    /// The load at which expansion ended.
    first_bad: f64,
    /// The lowest load at which only INVALID trials were had while expanding, and why.
    ceiling: Option<(f64, String)>,
    aside: Aside,
    silence: Silence,
    spent: Nanos,
    rest: Nanos,
    notes: Vec<String>,
}

impl RateSearch {
    /// A search that has not measured anything yet.
    pub fn new(settings: SearchSettings, slo: Slo) -> Self {
        let limits = settings.mode.limits();
        let lowest = settings.lowest.get().clamp(1e-3, settings::HIGHEST_PER_S);
        let lowest = settings.cap.map_or(lowest, |cap| lowest.min(cap.get().max(1e-3)));
        let mut search = Self {
            grid: Grid::new(lowest, limits.width_max / CELLS_PER_WIDTH),
            settings,
            limits,
            slo,
            trials: Trials::default(),
            levels: Levels::default(),
            sentinel: Sentinel::default(),
            longer: Longer::No,
            known: RefCell::default(),
            context: Context::default(),
            state: State::Qualify,
            pending: None,
            number: 0,
            judged: 0,
            invalid: 0,
            invalid_in_a_row: 0,
            may_need_threads: false,
            safe_made: 0,
            confirmations_invalid: 0,
            below_again: 0,
            is_retested: false,
            met_share: None,
            first_bad: settings::HIGHEST_PER_S,
            ceiling: None,
            split: 1,
            aside: Aside::new(limits.rest, limits.rest_max),
            silence: Silence::default(),
            spent: Nanos::ZERO,
            rest: Nanos::ZERO,
            notes: Vec::new(),
        };
        search.set_lowest(lowest);
        search
    }

    fn set_lowest(&mut self, lowest: f64) {
        self.settings.lowest = Rate::per_second(lowest).unwrap_or_default();
        self.grid = Grid::new(lowest, self.limits.width_max / CELLS_PER_WIDTH);
    }

    /// The objective that is searched for.
    pub fn slo(&self) -> &Slo {
        &self.slo
    }

    /// What to do next; the same answer until a result or a stop is handled.
    pub fn next_step(&mut self) -> Step {
        if let State::Done(tipping) = &self.state {
            return Step::Done((**tipping).clone());
        }
        if let Some(request) = self.pending {
            return Step::Trial(request);
        }
        match self.plan() {
            Want::Finish(outcome) => Step::Done(self.finish(outcome)),
            Want::Trial(phase, rate, duration) => match self.exhausted(duration) {
                // The answer stands; what would only describe it is left out.
                Some(_) if !phase.moves_bounds() => Step::Done(self.finish(Outcome::Regular)),
                Some(spent) => Step::Done(self.finish(Outcome::Undecided { why: spent.into() })),
                None => {
                    self.number += 1;
                    let rate = Rate::per_second(rate).unwrap_or_default();
                    let split = self.split_wanted();
                    let request =
                        TrialRequest { number: self.number, phase, rate, duration, split };
                    self.pending = Some(request);
                    Step::Trial(request)
                }
            },
        }
    }

    /// Judges the trial that was asked for and learns from it.
    pub fn handle_result(&mut self, measurement: TrialMeasurement) -> TrialRecord {
        let judgement = self.judge(&measurement);
        self.handle_judged(measurement, judgement)
    }

    /// The verdict by this search's objective.
    fn judge(&self, measurement: &TrialMeasurement) -> Judgement {
        judge(measurement, &self.slo, &self.context)
    }

    /// Learns from the trial that was asked for, which somebody else has judged by other goals.
    pub fn handle_judged(
        &mut self,
        measurement: TrialMeasurement,
        judgement: Judgement,
    ) -> TrialRecord {
        self.learn_result(&measurement, &judgement);
        TrialRecord { measurement, judgement, further: Vec::new() }
    }

    /// Learns from the trial that was asked for; whether it is evidence by now.
    fn learn_result(&mut self, measurement: &TrialMeasurement, judgement: &Judgement) -> bool {
        let known = self.trials.count();
        // Only a trial that was asked for teaches: its rate and length are the request's.
        if let Some(request) = self.pending.take() {
            // An aborted trial costs what it ran, any other what was planned or a little more.
            self.spent = self.spent + self.rest + measurement.window;
            self.safe_made += u32::from(request.phase == Phase::Safe);
            match judgement.verdict {
                Verdict::Invalid => self.learn_invalid(&request, judgement),
                Verdict::Good | Verdict::Bad => self.learn(&request, measurement, judgement),
            }
            self.rest = self.rest_after(judgement.verdict);
        }
        self.trials.count() > known
    }

    /// Ends the search with the bounds reached, because of an interrupt or a SUT that died.
    pub fn handle_stop(&mut self, why: String) -> TippingPoint {
        if let State::Done(tipping) = &self.state {
            return (**tipping).clone();
        }
        self.finish(Outcome::Unfinished { why })
    }

    /// How long to rest before the next trial, so that one overload is not felt by the next.
    pub fn rest(&self) -> Nanos {
        self.rest
    }

    /// The count of bad operations (late at the strictest deadline, failed or unsent) above which
    /// `request` can only be BAD; `u64::MAX` when no such count exists.
    pub fn abort_bad_ops(&self, request: &TrialRequest) -> u64 {
        if !request.phase.moves_bounds() {
            // They are there to be overloaded, and to be looked at until the end.
            return u64::MAX;
        }
        let ops = request.rate.get() * request.duration.as_secs_f64();
        let deadline = self.slo.deadline();
        // Goals with a longer limit, or on errors alone, cannot be told from that count.
        let ratio = self
            .slo
            .goals
            .iter()
            .filter(|goal| matches!(goal, Goal::Latency { limit, .. } if Some(*limit) == deadline))
            .map(Goal::bad_ratio_max)
            .min_by(f64::total_cmp);
        // And what is carried in too short a time says nothing of the capacity.
        let least = request.rate.get() * CARRIED_WINDOW_MIN.as_secs_f64();
        let most = |ratio: f64| (ops * ratio * ABORT_MARGIN + ABORT_MARGIN_OPS).max(least) as u64;
        ratio.map_or(u64::MAX, most)
    }

    fn cap(&self) -> f64 {
        self.asked_cap().min(self.generator_cap())
    }

    fn asked_cap(&self) -> f64 {
        self.settings.cap.map_or(settings::HIGHEST_PER_S, Rate::get)
    }

    /// Above it a missed goal would not speak against the server.
    fn generator_cap(&self) -> f64 {
        self.settings.reference.map_or(f64::INFINITY, |alone| alone.get() * REFERENCE_FAIL)
    }

    /// The SLO is met up to the cap.
    fn met_at_cap(&self) -> Outcome {
        if self.generator_cap() < self.asked_cap()
            && let Some(alone) = self.settings.reference
        {
            let share = REFERENCE_FAIL * 100.0;
            return Outcome::GeneratorLimited {
                why: format!(
                    "reference: {share:.0} % of the {alone} that the generator reaches alone"
                ),
            };
        }
        let cap = match self.settings.cap {
            Some(cap) => format!("{} ({cap})", self.settings.cap_reason),
            None => "the highest rate plimsoll offers".to_owned(),
        };
        Outcome::NotReached { cap }
    }

    /// Why no trial of `duration` may be started any more.
    fn exhausted(&self, duration: Nanos) -> Option<Exhausted> {
        let most = self.settings.trials_max;
        if self.number >= most {
            return Some(Exhausted::Trials(most));
        }
        let budget = self.settings.budget;
        (self.spent + self.rest + duration > budget).then_some(Exhausted::Time(budget))
    }

    fn plan(&mut self) -> Want {
        if self.silence.is_suspected() {
            return self.plan_qualify();
        }
        match self.state {
            State::Qualify => self.plan_qualify(),
            State::Expand { rate } => {
                let length = self.trial_length(rate, self.limits.initial_trial);
                Want::Trial(Phase::Expand, rate, length)
            }
            State::Capped(load) => self.plan_capped(load),
            State::Measure => self.plan_measure(),
            State::Overload(_, load) => self.plan_overload(load),
            State::Recover(answer, _) => self.plan_recover(answer),
            // next_step answers for a finished search.
            State::Done(ref tipping) => Want::Finish(tipping.outcome.clone()),
        }
    }

    fn plan_qualify(&self) -> Want {
        let rate = self.settings.lowest.get();
        // It decides no bound unless all else fails: a coarse sample is enough.
        let coarse = self.trial_length(rate, self.limits.initial_trial);
        Want::Trial(Phase::Qualify, rate, coarse.max(self.limits.final_trial))
    }

    /// The length of a trial at `rate` that would be `shortest` if nothing asked for more.
    ///
    /// Only final trials are stretched all the way for a long deadline: what shorter ones miss of a
    /// slowly growing queue, the backlog check sees.
    fn trial_length(&self, rate: f64, shortest: Nanos) -> Nanos {
        let limits = self.limits;
        let tail = self.slo.goals.iter().filter_map(|goal| match goal {
            Goal::Latency { quantile, .. } => Some(limits.tail_ops / (1.0 - quantile)),
            Goal::Errors { .. } => None,
        });
        let tail_span = Nanos::from_secs_f64(tail.fold(0.0, f64::max) / rate);
        let deadline_s = self.slo.deadline().unwrap_or_default().as_secs_f64();
        let coarse = shortest < limits.final_trial;
        let times = if coarse { 5.0 } else { (1.0 / limits.width_max).max(20.0) };
        let deadline_span = Nanos::from_secs_f64(deadline_s * times);
        // Coarse trials decide nothing for good: a tenth of the sample is enough.
        let tail_span = if coarse { Nanos(tail_span.0 / 10) } else { tail_span };
        let length = shortest
            .max(tail_span.min(limits.tail_span_max))
            .max(deadline_span.min(limits.deadline_span_max));
        let length = self.lengthened(rate, length);
        // Whole tenths of a second, the spacing of the backlog's samples.
        Nanos(length.0.div_ceil(OUTSTANDING_SAMPLE.0) * OUTSTANDING_SAMPLE.0)
    }
}

#[cfg(test)]
mod tests;
