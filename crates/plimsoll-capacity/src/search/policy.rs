//! The policy: which trial to make next, by what is known so far. It holds only what a plan has to
//! remember; whatever was measured is evidence.
//!
//! ```text
//! qualify -> expand (x2 from below) -> measure, confirm -> overload -> recover -> done
//!                                        ^---- GOOD, or unlike before ----'
//! ```
//!
//! The states up to the first bound are planned in `expand`, the interval in `narrow`, its confirmation in
//! `confirm`, and what describes it in `after`.

mod after;
mod confirm;
mod expand;
mod narrow;

use plimsoll_model::Nanos;
use plimsoll_model::slo::Goal;
use plimsoll_model::trial::{
    Judgement, Outcome, Outlook, Phase, TrialMeasurement, TrialRequest, Unsettled, Verdict,
};

use super::answer::{Known, Landmarks, Stated};
use super::evidence::Evidence;
use super::grid::Grid;
use super::settings::HIGHEST_PER_S;
use super::task::Task;
use super::trials::{Role, Trial, seconds};

use after::Recovering;
use confirm::Longer;
use expand::Repeats;
use narrow::Sentinel;

/// Cells of the grid within the narrowest interval of a mode.
const CELLS_PER_WIDTH: f64 = 4.0;
/// Distance from a load that the generator cannot make within which the search looks for a BAD one.
const CEILING_CELLS: u32 = 2;
/// Loads above this multiple of the first BAD one are never offered: overload can do harm.
pub(super) const OVERSHOOT_MAX: f64 = 2.0;
/// The overload on purpose, relative to the upper bound.
const OVERLOAD: f64 = 1.2;
/// A search of a server that carries few operations per second may take so much more for a trial that has enough
/// of them.
pub(super) const SLOW_EXTENSION: Nanos = Nanos::from_secs(300);
/// Horizon of an outlook.
const FURTHER: Nanos = Nanos::from_secs(60);
/// A trial that is lengthened has at most so many times the length of a confirmation.
const LONGEST: u64 = 4;

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
    Overload(Stated, f64),
    Recover(Stated, Recovering),
    Done,
}

/// The wish of a state: a load, its purpose and its length; or the end.
#[derive(Clone, Debug)]
pub(super) enum Want {
    Trial(Phase, f64, Nanos),
    Finish(Outcome),
}

/// The exhausted budget of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exhausted {
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

/// The memory of the policy.
#[derive(Clone, Debug)]
pub(super) struct Policy {
    /// The loads that may be offered: it begins at the lowest of them.
    grid: Grid,
    state: State,
    sentinel: Sentinel,
    longer: Longer,
    repeats: Repeats,
    /// Trials far below the interval that were asked for because others had missed the objective there.
    below_again: u32,
    /// Whether the first BAD load was measured again, because the server carried less ever since.
    is_retested: bool,
    /// Share of the operations that were well in the best trial at the lowest load before this one.
    met_share: Option<f64>,
    /// The load at which expansion ended, and when, on the clock of the trials.
    first_bad: f64,
    expanded_s: f64,
    /// The lowest load at which only INVALID trials were had while expanding, and why.
    ceiling: Option<(f64, String)>,
    /// Extension of the budget.
    extended: Nanos,
    /// Before the next trial.
    rest: Nanos,
    notes: Vec<String>,
}

impl Policy {
    pub(super) fn new(task: &Task) -> Self {
        Self {
            grid: Grid::new(task.first(), task.limits.width_max / CELLS_PER_WIDTH),
            state: State::Qualify,
            sentinel: Sentinel::default(),
            longer: Longer::No,
            repeats: Repeats::default(),
            below_again: 0,
            is_retested: false,
            met_share: None,
            first_bad: HIGHEST_PER_S,
            expanded_s: 0.0,
            ceiling: None,
            extended: Nanos::ZERO,
            rest: Nanos::ZERO,
            notes: Vec::new(),
        }
    }

    pub(super) const fn grid(&self) -> &Grid {
        &self.grid
    }

    pub(super) const fn rest(&self) -> Nanos {
        self.rest
    }

    /// Findings worth a line.
    pub(super) fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(super) fn note(&mut self, text: String) {
        self.notes.push(text);
    }

    /// Reports whether an interval is still looked for.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self.state, State::Qualify | State::Expand { .. } | State::Measure)
    }

    /// Begins again near the highest load that was met, with trials as long as multiples of `period`.
    pub(super) fn begin_again(&mut self, evidence: &Evidence, period: Nanos) {
        self.notes.push(format!(
            "the server pauses about every {period}: trials are as long as multiples of that"
        ));
        let good = evidence.highest_good_ever().unwrap_or_default();
        self.first_bad = HIGHEST_PER_S;
        self.state = State::Expand { rate: (0.5 * good).max(self.lowest()) };
    }

    /// Reports whether an interval is being closed in on.
    pub(super) const fn is_measuring(&self) -> bool {
        matches!(self.state, State::Measure)
    }

    /// Reports whether the next plan, or the next result, needs the fit.
    pub(super) const fn needs_fit(&self) -> bool {
        matches!(self.state, State::Measure | State::Overload(..))
    }

    /// Reports whether the server has answered.
    pub(super) const fn has_qualified(&self) -> bool {
        !matches!(self.state, State::Qualify)
    }

    pub(super) fn landmarks(&self) -> Landmarks {
        let stated = match &self.state {
            State::Overload(stated, _) | State::Recover(stated, _) => Some(*stated),
            _ => None,
        };
        Landmarks { lowest: self.lowest(), expanded_s: self.expanded_s, stated }
    }

    /// The search has ended.
    pub(super) fn end(&mut self) {
        self.state = State::Done;
    }

    fn lowest(&self) -> f64 {
        self.grid.lowest()
    }

    /// Names the next trial.
    pub(super) fn plan(&mut self, known: &Known<'_>) -> Want {
        if known.guards.silence.is_suspected() {
            return self.plan_qualify(known);
        }
        match self.state {
            State::Qualify => self.plan_qualify(known),
            State::Expand { rate } => {
                let length = self.trial_length(known, rate, known.task.limits.initial_trial);
                Want::Trial(Phase::Expand, rate, length)
            }
            State::Capped(load) => self.plan_capped(known, load),
            State::Measure => self.plan_measure(known),
            State::Overload(_, load) => {
                Want::Trial(Phase::Overload, load, Nanos(known.task.limits.confirm_trial.0 / 2))
            }
            State::Recover(stated, _) => self.plan_recover(known, stated),
            // The search answers for itself once it has ended.
            State::Done => Want::Finish(Outcome::Regular),
        }
    }

    /// Returns the exhausted budget that forbids another trial of `duration`.
    pub(super) fn exhausted(&self, known: &Known<'_>, duration: Nanos) -> Option<Exhausted> {
        let settings = &known.task.settings;
        if known.evidence.made >= settings.trials_max {
            return Some(Exhausted::Trials(settings.trials_max));
        }
        let budget = settings.budget + self.extended;
        let is_over = known.evidence.spent() + self.rest + duration > budget;
        is_over.then_some(Exhausted::Time(budget))
    }

    /// Returns what more time would buy an interval of this relative width.
    pub(super) fn outlook(&self, known: &Known<'_>, width: Option<f64>) -> Outlook {
        let spent = known.evidence.spent();
        let left = (known.task.settings.budget + self.extended).since(spent);
        let further = left.min(FURTHER);
        // The error of a mean falls with the root of the time.
        let measured_s = (seconds(spent) - self.expanded_s).max(1.0);
        let share = (measured_s / (measured_s + seconds(further))).sqrt();
        let least = known.task.limits.width_max;
        let width = width.map(|width| width.min((width * share).max(least)));
        Outlook { left, width, further }
    }

    /// Adds to the budget what may be added, once; whether it was.
    pub(super) fn extend(&mut self, known: &Known<'_>) -> bool {
        let extension = known.task.settings.extension;
        let is_time_short = known.evidence.made < known.task.settings.trials_max;
        let is_worth =
            is_time_short && matches!(self.state, State::Measure) && self.extended < extension;
        if is_worth {
            self.extended = extension;
            let budget = known.task.settings.budget;
            self.notes.push(format!("{budget} left the answer open: up to {extension} were added"));
        }
        is_worth
    }

    /// Adds to the budget what a trial takes that a slow server needs for its operations; whether it was.
    fn extend_for(&mut self, known: &Known<'_>, span: Nanos) -> bool {
        let settings = &known.task.settings;
        let wanted = (known.evidence.spent() + self.rest + span).since(settings.budget);
        let is_allowed = settings.extension > Nanos::ZERO && wanted <= SLOW_EXTENSION;
        if !is_allowed || known.evidence.made >= settings.trials_max {
            return false;
        }
        self.extended = self.extended.max(wanted);
        self.notes.push(format!(
            "so few operations come in {} that {span} more went into a trial",
            settings.budget
        ));
        true
    }

    fn affords(&self, known: &Known<'_>, span: Nanos) -> bool {
        self.exhausted(known, span).is_none()
    }

    /// The length of a trial at `rate` that would be `shortest` if nothing asked for more.
    ///
    /// Only final trials are stretched all the way for a long deadline: what shorter ones miss of a
    /// slowly growing queue, the backlog check sees.
    pub(super) fn trial_length(&self, known: &Known<'_>, rate: f64, shortest: Nanos) -> Nanos {
        let (limits, slo) = (&known.task.limits, &known.task.slo);
        let tail = slo.goals.iter().filter_map(|goal| match goal {
            Goal::Latency { quantile, .. } => Some(limits.tail_ops / (1.0 - quantile)),
            Goal::Errors { .. } => None,
        });
        let tail_span = Nanos::from_secs_f64(tail.fold(0.0, f64::max) / rate);
        let deadline_s = slo.deadline().unwrap_or_default().as_secs_f64();
        let coarse = shortest < limits.final_trial;
        let times = if coarse { 5.0 } else { (1.0 / limits.width_max).max(20.0) };
        let deadline_span = Nanos::from_secs_f64(deadline_s * times);
        // Coarse trials decide nothing for good: a tenth of the sample is enough.
        let tail_span = if coarse { Nanos(tail_span.0 / 10) } else { tail_span };
        let length = shortest
            .max(tail_span.min(limits.tail_span_max))
            .max(deadline_span.min(limits.deadline_span_max));
        let length = self.lengthened(known, rate, length);
        known.evidence.whole(length)
    }

    /// The trial at `rate` is longer if those before it told nothing.
    fn lengthened(&self, known: &Known<'_>, rate: f64, length: Nanos) -> Nanos {
        let most = Nanos(known.task.limits.confirm_trial.0 * LONGEST);
        let longer = Nanos(length.0 << known.evidence.inconclusive_at(rate).min(4)).min(most);
        if self.affords(known, longer) { longer.max(length) } else { length }
    }

    /// Sets the time for which the SUT is left alone before the next trial.
    pub(super) fn rest_after(&mut self, known: &Known<'_>, verdict: Verdict) {
        let limits = &known.task.limits;
        let silence = &known.guards.silence;
        if silence.is_suspected() {
            self.rest = silence.rest(limits.rest, limits.rest_max);
            return;
        }
        self.rest = match (verdict, &self.state) {
            // How soon it comes back is what the next trial asks.
            (_, State::Recover(_, recovering)) => recovering.rest(limits.rest),
            (Verdict::Good, _) => Nanos::ZERO,
            (Verdict::Invalid, _) => limits.rest,
            // A server that pauses for some seconds is asked again after longer.
            (Verdict::Bad, State::Qualify) => Nanos(2 * limits.rest.0),
            (Verdict::Bad, _) => known.guards.shadow.rest(),
        };
    }

    /// Learns from an INVALID trial; the outcome if it ends the search.
    pub(super) fn learn_invalid(
        &mut self,
        known: &Known<'_>,
        request: &TrialRequest,
        judgement: &Judgement,
    ) -> Option<Outcome> {
        if !self.repeats.count(request.phase, judgement) {
            return None;
        }
        let is_suspected = known.guards.silence.is_suspected();
        // What only describes the answer is not worth a repeat.
        if matches!(self.state, State::Overload(..) | State::Recover(..)) && !is_suspected {
            return Some(Outcome::Regular);
        }
        if !self.repeats.are_over() {
            return None;
        }
        let why = judgement.why();
        match self.state {
            // It is not even known whether there is a server.
            _ if is_suspected => Some(Outcome::GeneratorLimited { why }),
            State::Expand { rate } => {
                // The step may have jumped over a tipping point that lies below this ceiling.
                self.ceiling = Some((rate, why));
                let low = known.evidence.highest_good().unwrap_or_else(|| self.lowest());
                self.expand_from(known, low, None)
            }
            _ if request.phase == Phase::Confirm => {
                Some(self.confirm_no_more(known, request.rate.get(), why))
            }
            _ => Some(Outcome::GeneratorLimited { why }),
        }
    }

    /// Learns how likely a verdict was that is about to become evidence, if that is known.
    pub(super) fn learn_expected(&mut self, trial: &Trial, expected: Option<f64>) {
        if self.is_measuring() && trial.is_verdict() {
            self.sentinel.count_verdict(expected);
        }
        if trial.role == Role::Safe {
            self.sentinel.count_safe();
        }
    }

    /// Learns from a trial that has become evidence; the outcome if it ends the search.
    pub(super) fn learn(
        &mut self,
        known: &Known<'_>,
        measurement: &TrialMeasurement,
        good: bool,
    ) -> Option<Outcome> {
        let request = &measurement.request;
        if request.phase == Phase::Confirm {
            self.learn_confirm(good, measurement);
        }
        match self.state {
            State::Qualify => self.learn_qualify(known, request.rate.get(), good, measurement),
            State::Expand { .. } | State::Capped(_) => {
                self.learn_expand(known, request.rate.get(), good, measurement)
            }
            State::Overload(stated, _) => {
                self.learn_overload(known, stated, good);
                None
            }
            State::Recover(stated, recovering) => {
                self.learn_recover(stated, recovering, good, measurement)
            }
            // What a trial means is read from all of them.
            State::Measure | State::Done => None,
        }
    }
}
