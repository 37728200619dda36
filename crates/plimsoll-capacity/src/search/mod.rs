//! The rate search: which load to offer next, and what the answers add up to.
//!
//! ```text
//! qualify -> expand (x2 from below) -> narrow (4, 2, 1 cells of the grid) -> confirm -> done
//!                                         ^------ lower bound not confirmed ----'
//! ```
//!
//! A state machine without clock or I/O. It does not run trials and does not retry a failed agent;
//! it only sees measurements. INVALID trials are repeated and never enter a bound.

mod grid;
mod ledger;
mod narrow;
mod settings;

use plimsoll_model::Nanos;
use plimsoll_model::Rate;
use plimsoll_model::slo::Goal;
use plimsoll_model::slo::Slo;
use plimsoll_model::tally::OUTSTANDING_SAMPLE;
use plimsoll_model::trial::Judgement;
use plimsoll_model::trial::Level;
use plimsoll_model::trial::Outcome;
use plimsoll_model::trial::Phase;
use plimsoll_model::trial::TippingPoint;
use plimsoll_model::trial::TrialMeasurement;
use plimsoll_model::trial::TrialRecord;
use plimsoll_model::trial::TrialRequest;
use plimsoll_model::trial::Verdict;

use crate::classify::TrialOutcome;
use crate::classify::conditional_throughput;
use crate::verdict::Context;
use crate::verdict::Unloaded;
use crate::verdict::judge;

use grid::Grid;
use ledger::Ledger;
use narrow::Bracket;

pub use settings::LOWEST_PER_S;
pub use settings::Limits;
pub use settings::Mode;
pub use settings::SearchSettings;

/// INVALID trials in a row at one load that end the search.
const INVALID_MAX: u32 = 3;
/// BAD trials while qualifying or at one load while expanding that settle it.
const BAD_MAX: usize = 2;
/// Loads above this multiple of the first BAD one are never offered: overload can do harm.
const OVERSHOOT_MAX: f64 = 2.0;
/// Growth per step while expanding.
const GROWTH: f64 = 2.0;
/// Growth while the SUT's busiest thread uses less than a tenth of its core.
const GROWTH_FAR: f64 = 4.0;
const BUSY_FAR: f64 = 0.1;
/// How near to a load that the generator cannot make the search looks for a BAD one.
const CEILING_CELLS: u32 = 2;
/// A trial is ended early only when the goal is missed by so much: what is late is counted by the
/// agents at their clocks, and the verdict is computed from histograms.
const ABORT_MARGIN: f64 = 1.25;
const ABORT_MARGIN_OPS: f64 = 10.0;

/// What to do next.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Run this trial and hand in its measurement.
    Trial(TrialRequest),
    /// The search is over.
    Done(TippingPoint),
}

#[derive(Clone, Debug)]
enum State {
    Qualify,
    Expand { rate: f64 },
    Narrow(Bracket),
    Confirm { bracket: Bracket, good: u32, bad: u32 },
    Done(Box<TippingPoint>),
}

/// What a state wants: a load, why and for how long; or the end.
enum Want {
    Trial(Phase, f64, Nanos),
    Finish(Outcome),
}

/// A search for the highest rate that meets an objective.
#[derive(Clone, Debug)]
pub struct RateSearch {
    settings: SearchSettings,
    limits: &'static Limits,
    slo: Slo,
    grid: Grid,
    ledger: Ledger,
    context: Context,
    state: State,
    pending: Option<TrialRequest>,
    /// Trials asked for.
    number: u32,
    judged: u32,
    invalid: u32,
    invalid_in_a_row: u32,
    /// Lower bounds that failed their confirmation.
    unconfirmed: u32,
    /// The load at which expansion ended.
    first_bad: f64,
    /// The lowest load at which only INVALID trials were had while expanding, and why.
    ceiling: Option<(f64, String)>,
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
        Self {
            grid: Grid::new(lowest, limits.width_max),
            settings: SearchSettings {
                lowest: Rate::per_second(lowest).unwrap_or_default(),
                ..settings
            },
            limits,
            slo,
            ledger: Ledger::default(),
            context: Context::default(),
            state: State::Qualify,
            pending: None,
            number: 0,
            judged: 0,
            invalid: 0,
            invalid_in_a_row: 0,
            unconfirmed: 0,
            first_bad: settings::HIGHEST_PER_S,
            ceiling: None,
            spent: Nanos::ZERO,
            rest: Nanos::ZERO,
            notes: Vec::new(),
        }
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
                Some(why) => Step::Done(self.finish(Outcome::Unfinished { why })),
                None => {
                    self.number += 1;
                    let rate = Rate::per_second(rate).unwrap_or_default();
                    let request =
                        TrialRequest { number: self.number, phase, rate, duration, split: 1 };
                    self.pending = Some(request);
                    Step::Trial(request)
                }
            },
        }
    }

    /// Judges the trial that was asked for and learns from it.
    pub fn handle_result(&mut self, measurement: TrialMeasurement) -> TrialRecord {
        let judgement = judge(&measurement, &self.slo, &self.context);
        // Only a trial that was asked for teaches: its rate and length are the request's.
        if let Some(request) = self.pending.take() {
            // An aborted trial costs what it ran, any other what was planned or a little more.
            self.spent = self.spent + self.rest + measurement.window;
            self.rest = match judgement.verdict {
                Verdict::Good => Nanos::ZERO,
                Verdict::Bad | Verdict::Invalid => self.limits.rest,
            };
            match judgement.verdict {
                Verdict::Invalid => self.learn_invalid(&judgement),
                Verdict::Good | Verdict::Bad => self.learn(&request, &measurement, &judgement),
            }
        }
        TrialRecord { measurement, judgement }
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
        ratio.map_or(u64::MAX, |ratio| (ops * ratio * ABORT_MARGIN + ABORT_MARGIN_OPS) as u64)
    }

    fn cap(&self) -> f64 {
        self.settings.cap.map_or(settings::HIGHEST_PER_S, Rate::get)
    }

    fn cap_text(&self) -> String {
        match self.settings.cap {
            Some(cap) => format!("{} ({cap})", self.settings.cap_reason),
            None => "the highest rate plimsoll offers".to_owned(),
        }
    }

    /// Why no trial of `duration` may be started any more.
    fn exhausted(&self, duration: Nanos) -> Option<String> {
        if self.number >= self.settings.trials_max {
            return Some(format!("the limit of {} trials", self.settings.trials_max));
        }
        (self.spent + self.rest + duration > self.settings.budget)
            .then(|| format!("the time budget of {}", self.settings.budget))
    }

    fn plan(&mut self) -> Want {
        match self.state {
            State::Qualify => {
                let rate = self.settings.lowest.get();
                Want::Trial(Phase::Qualify, rate, self.trial_length(rate, self.limits.final_trial))
            }
            State::Expand { rate } => {
                let length = self.trial_length(rate, self.limits.initial_trial);
                Want::Trial(Phase::Expand, rate, length)
            }
            State::Narrow(bracket) => self.plan_narrow(bracket),
            State::Confirm { bracket, .. } => {
                Want::Trial(Phase::Confirm, bracket.low, self.limits.confirm_trial)
            }
            // next_step answers for a finished search.
            State::Done(ref tipping) => Want::Finish(tipping.outcome.clone()),
        }
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
        // Whole tenths of a second, the spacing of the backlog's samples.
        Nanos(length.0.div_ceil(OUTSTANDING_SAMPLE.0) * OUTSTANDING_SAMPLE.0)
    }

    fn learn_invalid(&mut self, judgement: &Judgement) {
        self.invalid += 1;
        self.invalid_in_a_row += 1;
        if self.invalid_in_a_row < INVALID_MAX {
            return;
        }
        self.invalid_in_a_row = 0;
        let failed: Vec<String> = judgement
            .reasons
            .iter()
            .filter(|check| check.level == Level::Fail && !self.is_goal(&check.check))
            .map(|check| format!("{}: {} (limit: {})", check.check, check.value, check.limit))
            .collect();
        let why = failed.join("; ");
        if let State::Expand { rate } = self.state {
            // The step may have jumped over a tipping point that lies below this ceiling.
            self.ceiling = Some((rate, why));
            let lowest = self.settings.lowest.get();
            let low = self.ledger.entries().rev().find(|entry| entry.leans_good());
            let low = low.map_or(lowest, |entry| entry.load);
            self.expand_from(low, None);
        } else {
            self.finish(Outcome::GeneratorLimited { why });
        }
    }

    fn is_goal(&self, name: &str) -> bool {
        name == "stable"
            || name == "aborted"
            || self.slo.goals.iter().any(|goal| goal.to_string() == name)
    }

    fn learn(
        &mut self,
        request: &TrialRequest,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
    ) {
        self.judged += 1;
        self.invalid_in_a_row = 0;
        let rate = request.rate.get();
        let good = judgement.verdict == Verdict::Good;
        let loss_ratio = judgement.loss_ratio;
        self.ledger.add(rate, TrialOutcome { duration: request.duration, good, loss_ratio });
        match std::mem::replace(&mut self.state, State::Qualify) {
            State::Qualify => self.learn_qualify(rate, good, measurement),
            State::Expand { .. } => self.learn_expand(rate, good, measurement.sut_busiest_thread),
            State::Confirm { bracket, good: goods, bad: bads } => {
                let bad = u32::from(!good);
                self.learn_confirm(bracket, goods + 1 - bad, bads + bad);
            }
            // What a trial means while narrowing is read from the ledger.
            state @ (State::Narrow(_) | State::Done(_)) => self.state = state,
        }
    }

    fn learn_qualify(&mut self, rate: f64, good: bool, measurement: &TrialMeasurement) {
        if good {
            self.context.unloaded = Unloaded::of(&measurement.tally);
            self.expand_from(rate, measurement.sut_busiest_thread);
        } else if self.ledger.trials(rate).len() >= BAD_MAX {
            self.finish(Outcome::FailsAtMinimum);
        }
    }

    fn learn_expand(&mut self, rate: f64, good: bool, busiest: Option<f64>) {
        if good {
            self.expand_from(rate, busiest);
        } else if self.ledger.trials(rate).len() >= BAD_MAX {
            self.first_bad = rate;
            let lowest = self.settings.lowest.get();
            let low = self.ledger.entries().rev().find(|e| e.load < rate).map(|e| e.load);
            let low = low.unwrap_or(lowest);
            self.state = State::Narrow(Bracket::new(low, rate));
        } else {
            self.state = State::Expand { rate };
        }
    }

    fn expand_from(&mut self, rate: f64, busiest: Option<f64>) {
        if rate >= self.cap() {
            self.finish(Outcome::NotReached { cap: self.cap_text() });
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
    fn expand_again(&mut self, rate: f64) -> Want {
        self.first_bad = settings::HIGHEST_PER_S;
        self.expand_from(rate, None);
        self.plan()
    }

    fn learn_confirm(&mut self, bracket: Bracket, good: u32, bad: u32) {
        let planned = self.limits.confirmations;
        // A single confirmation is repeated before it overturns a majority of three.
        let bad_max = (planned / 2 + 1).max(2);
        if bad >= bad_max {
            self.unconfirmed += 1;
            self.ledger.condemn(bracket.low);
            let rate = Rate::per_second(bracket.low).unwrap_or_default();
            self.notes.push(format!("{rate} passed the search but not its confirmation"));
            if self.unconfirmed > self.limits.unconfirmed_max {
                let why = format!("{} lower bounds that were not confirmed", self.unconfirmed);
                self.finish(Outcome::Unfinished { why });
                return;
            }
            self.state = State::Narrow(bracket.overturned());
        } else if good + bad >= planned && good > 0 {
            self.state = State::Confirm { bracket, good, bad };
            self.finish(Outcome::Regular);
        } else {
            self.state = State::Confirm { bracket, good, bad };
        }
    }

    fn finish(&mut self, outcome: Outcome) -> TippingPoint {
        self.pending = None;
        let (lower, upper) = match &self.state {
            State::Confirm { bracket, .. } => {
                (Rate::per_second(bracket.low), Rate::per_second(bracket.high))
            }
            _ => self.ledger.leaning_bounds(),
        };
        if let Some((bad, good)) = self.ledger.inversions(|entry| self.final_class(entry)) {
            let rate = |load| Rate::per_second(load).unwrap_or_default();
            let note = format!("non-monotonic: BAD at {}, GOOD at {}", rate(bad), rate(good));
            self.notes.push(note);
        }
        let tipping = TippingPoint {
            outcome,
            lower,
            upper,
            conditional_throughput: lower.and_then(|lower| self.throughput(lower)),
            trials: self.judged,
            invalid_trials: self.invalid,
            confirmations: Default::default(),
            noise: None,
            recovery: None,
            notes: std::mem::take(&mut self.notes),
        };
        self.state = State::Done(Box::new(tipping.clone()));
        tipping
    }

    /// `None` where the lower bound was never measured for as long as the mode asks.
    fn throughput(&self, lower: Rate) -> Option<Rate> {
        let goal = self.final_goal(lower.get());
        let trials = self.ledger.trials(lower.get());
        Some(conditional_throughput(lower, trials, &goal)).filter(|rate| *rate > Rate::ZERO)
    }
}

#[cfg(test)]
mod tests;
