//! The rate search: which load to offer next, and what the answers add up to.
//!
//! Trials become `evidence`, which is only appended to. The fit (`fit`) and the answer (`answer`) are pure
//! functions of it; the guards (`guards`) say which of it may be void, and the policy (`policy`) names the
//! next trial. What the trials add up to is one likelihood (`likelihood`) at the server's slowest level
//! (`levels`).
//!
//! A state machine without clock or I/O. It does not run trials and does not retry a failed agent;
//! it only sees measurements. INVALID trials are repeated, over twice the threads where those can be
//! had and may help, and never enter a bound.

mod answer;
mod bounds;
mod change;
mod conditions;
mod contrast;
mod evidence;
mod fit;
mod goals;
mod grid;
mod guards;
mod levels;
pub(crate) mod likelihood;
mod open;
mod periodic;
mod policy;
mod rare;
mod regimes;
mod safe;
mod second;
mod settings;
mod shadow;
mod silence;
mod speeds;
mod task;
mod trials;

use plimsoll_model::slo::Slo;
use plimsoll_model::trial::{
    Judgement, Outcome, Phase, Stopped, TippingPoint, TrialMeasurement, TrialRecord, TrialRequest,
    Verdict,
};
use plimsoll_model::{Nanos, Rate};

use crate::verdict::judge;

use answer::{Known, Landmarks, answer};
use bounds::ObservedBounds;
pub(crate) use conditions::starved;
pub(crate) use contrast::WAITED;
use evidence::Evidence;
use fit::{Fit, Fitted, fit, spreads};
use guards::Guards;
use levels::Levels;
use open::pool;
use policy::{Policy, Want};
use rare::Pooled;
use shadow::Suspicion;
use silence::Presence;
use task::Task;
use trials::{Role, Trial};

pub use goals::GoalSearch;
pub use rare::operations_needed;
pub use settings::{CONFIDENCE, LOWEST_PER_S, Limits, Mode, SearchSettings};

/// The next step.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "one at a time, and the large one ends a search")]
pub enum SearchStep {
    /// Run this trial and hand in its measurement.
    Trial(TrialRequest),
    /// The search has ended.
    Done(TippingPoint),
}

/// A search for the highest rate that meets an objective.
#[derive(Clone, Debug)]
pub struct RateSearch {
    task: Task,
    evidence: Evidence,
    guards: Guards,
    policy: Policy,
    fitted: Fitted,
    pending: Option<TrialRequest>,
    finished: Option<TippingPoint>,
}

impl RateSearch {
    /// Creates a search that has not measured anything yet.
    pub fn new(settings: SearchSettings, slo: Slo) -> Self {
        let task = Task::new(settings, slo);
        Self {
            guards: Guards::new(&task.limits),
            policy: Policy::new(&task),
            task,
            evidence: Evidence::default(),
            fitted: Fitted::default(),
            pending: None,
            finished: None,
        }
    }

    /// Returns the objective of the search.
    pub fn slo(&self) -> &Slo {
        &self.task.slo
    }

    /// Returns the next step; the same one until a result or a stop is handled.
    pub fn next_step(&mut self) -> SearchStep {
        if let Some(tipping) = &self.finished {
            return SearchStep::Done(tipping.clone());
        }
        if let Some(request) = self.pending {
            return SearchStep::Trial(request);
        }
        loop {
            let want = self.with_policy(Policy::plan);
            let outcome = match self.admit(want) {
                Ok(request) => {
                    self.pending = Some(request);
                    return SearchStep::Trial(request);
                }
                Err(outcome) => outcome,
            };
            if let Some(why) = self.guards.silence.give_up() {
                return SearchStep::Done(self.finish(Outcome::Unfinished { why }));
            }
            let is_open = matches!(outcome, Outcome::Undecided { .. } | Outcome::Unstable { .. });
            if !is_open || !self.with_policy(Policy::extend) {
                return SearchStep::Done(self.finish(outcome));
            }
        }
    }

    /// The trial that is wanted if there is time for it; otherwise how the search ends.
    fn admit(&self, want: Want) -> Result<TrialRequest, Outcome> {
        let (phase, rate, duration) = match want {
            Want::Finish(outcome) => return Err(outcome),
            Want::Trial(phase, rate, duration) => (phase, rate, duration),
        };
        match self.policy.exhausted(&self.known(), duration) {
            // The answer is final; only its description is left out.
            Some(_) if !phase.moves_bounds() => Err(Outcome::Regular),
            Some(why) => Err(Outcome::Undecided { why }),
            None => Ok(TrialRequest {
                number: self.evidence.made + 1,
                phase,
                rate: Rate::per_second(rate).unwrap_or_default(),
                duration,
                split: self.policy.split_wanted(),
            }),
        }
    }

    /// Judges the trial that was asked for and learns from it.
    pub fn handle_result(&mut self, measurement: TrialMeasurement) -> TrialRecord {
        let judgement = self.judge(&measurement);
        self.handle_judged(measurement, judgement)
    }

    /// The verdict by this search's objective.
    fn judge(&self, measurement: &TrialMeasurement) -> Judgement {
        judge(measurement, &self.task.slo, &self.evidence.context)
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

    /// Ends the search with the bounds reached, because of an interrupt or a SUT that died.
    pub fn handle_stop(&mut self, why: Stopped) -> TippingPoint {
        match &self.finished {
            Some(tipping) => tipping.clone(),
            // The bounds found so far remain.
            None => {
                let so_far = TippingPoint { outlook: None, ..self.answer() };
                self.end_with(TippingPoint { outcome: Outcome::Unfinished { why }, ..so_far })
            }
        }
    }

    /// Returns the best answer by the evidence so far; the answer of the search once it has ended.
    pub fn answer(&self) -> TippingPoint {
        match &self.finished {
            Some(tipping) => tipping.clone(),
            None => {
                let answer = self.answer_with(|known| self.policy.reached(known));
                let answer = self.with_highest_held(answer);
                // Two loads that were met and missed are as near to each other as they happened to be offered.
                let width = answer.confidence.and_then(|_| answer.width());
                let outlook = Some(self.policy.outlook(&self.known(), width));
                TippingPoint { outlook, ..answer }
            }
        }
    }

    /// Bounds without a confidence reach up to the highest load that held, however short its trials: until the search
    /// has come near the tipping point, only loads far below it have been tried for long.
    fn with_highest_held(&self, answer: TippingPoint) -> TippingPoint {
        let is_observed = answer.met.is_some() && answer.confidence.is_none();
        let highest =
            || ObservedBounds::of(&self.guards.levels.counted(&self.evidence), Nanos::ZERO);
        match is_observed.then(highest).flatten() {
            Some(ObservedBounds { lower, met, upper }) => {
                TippingPoint { lower: Some(lower), met: Some(met), upper, ..answer }
            }
            None => answer,
        }
    }

    /// Returns the rest before the next trial, which keeps one overload from being felt by the next.
    pub fn rest(&self) -> Nanos {
        self.policy.rest
    }

    /// Returns the count of bad operations (late at the strictest deadline, failed or unsent) above which `request` can
    /// only be BAD; `u64::MAX` when no such count exists.
    pub fn abort_bad_ops(&self, request: &TrialRequest) -> u64 {
        self.task.abort_bad_ops(request)
    }

    /// Reports whether the server stopped answering and did not come back.
    pub fn is_sut_gone(&self) -> bool {
        self.guards.silence.is_over
    }

    /// Returns what is known, with the fit if it was made.
    fn known(&self) -> Known<'_> {
        let fit = self.fitted.get(&self.evidence);
        Known { task: &self.task, evidence: &self.evidence, guards: &self.guards, fit }
    }

    /// Makes the fit to the evidence, unless it is there already.
    fn update_fit(&mut self) {
        let levels = &self.guards.levels;
        self.fitted.update(&self.evidence, levels, &self.task, &self.policy.grid);
    }

    /// Returns the answer for `reached` and all that is known.
    fn answer_with(
        &self,
        reached: impl FnOnce(&Known<'_>) -> (Outcome, Landmarks),
    ) -> TippingPoint {
        let mut known = self.known();
        let made: Option<Fit>;
        if known.fit.is_none() {
            made = fit(&self.evidence, &self.guards.levels, &self.task, &self.policy.grid);
            known.fit = made.as_ref();
        }
        let (reached, plan) = reached(&known);
        answer(&known, &plan, reached, &self.policy.notes)
    }

    fn finish(&mut self, outcome: Outcome) -> TippingPoint {
        let tipping = self.answer_with(|_| (outcome, self.policy.landmarks()));
        self.end_with(tipping)
    }

    fn end_with(&mut self, tipping: TippingPoint) -> TippingPoint {
        self.pending = None;
        self.policy.end();
        self.finished = Some(tipping.clone());
        tipping
    }

    /// Calls the policy with what is known, the fit included if it needs that.
    fn with_policy<T>(&mut self, call: impl FnOnce(&mut Policy, &Known<'_>) -> T) -> T {
        if self.policy.needs_fit() {
            self.update_fit();
        }
        let Self { task, evidence, guards, policy, fitted, .. } = self;
        let fit = fitted.get(evidence);
        call(policy, &Known { task, evidence, guards, fit })
    }

    /// Learns from the trial that was asked for; returns whether it is evidence by now.
    fn learn_result(&mut self, measurement: &TrialMeasurement, judgement: &Judgement) -> bool {
        let known = self.evidence.len();
        // Only a trial that was asked for teaches: its rate and length are the request's.
        if let Some(request) = self.pending.take() {
            self.evidence.count(&request, measurement, self.policy.rest, judgement.verdict);
            let end = match judgement.verdict {
                Verdict::Invalid => self
                    .with_policy(|policy, known| policy.learn_invalid(known, &request, judgement)),
                Verdict::Good | Verdict::Bad => {
                    self.policy.learn_split(&request, measurement);
                    self.learn_valid(measurement, judgement)
                }
            };
            if let Some(outcome) = end {
                self.finish(outcome);
            }
            self.with_policy(|policy, known| policy.rest_after(known, judgement.verdict));
        }
        self.evidence.len() > known
    }

    /// Learns from a valid trial; the outcome if it ends the search.
    fn learn_valid(
        &mut self,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
    ) -> Option<Outcome> {
        let was_there = self.policy.has_qualified();
        match self.guards.silence.observe(measurement, judgement, was_there) {
            Presence::Present => {
                let end = self.learn_verdict(measurement, judgement);
                if judgement.verdict == Verdict::Good {
                    self.guards.silence.remember(self.evidence.leaning_bounds());
                }
                end
            }
            Presence::Suspected => None,
            Presence::Returned(first) => self.learn_verdict(&first.0, &first.1),
            Presence::Gone(why) => Some(Outcome::Unfinished { why }),
        }
    }

    /// Learns what the trial says of its load; the outcome if it ends the search.
    fn learn_verdict(
        &mut self,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
    ) -> Option<Outcome> {
        let request = &measurement.request;
        let good = judgement.verdict == Verdict::Good;
        if good {
            self.evidence.learn_unloaded(&measurement.tally);
        }
        if request.phase.moves_bounds() && self.is_deferred(measurement, good) {
            return None;
        }
        self.guards.shadow.after_bad = !good;
        let pooled = pool(&self.evidence, &self.task.slo, measurement, judgement);
        if request.phase != Phase::Recover {
            self.append(measurement, judgement, pooled);
        }
        let good = pooled != Pooled::Missed;
        let end = self.with_policy(|policy, known| policy.learn(known, measurement, good));
        if self.learn_pauses(measurement) { None } else { end }
    }

    /// Reports whether the trial is deferred, to be repeated after a longer rest.
    fn is_deferred(&mut self, measurement: &TrialMeasurement, good: bool) -> bool {
        let request = &measurement.request;
        let expected = self.expected(request.rate.get(), request.duration, false);
        let fit = self.fitted.get(&self.evidence);
        if fit.is_some_and(|fit| fit.speeds.have_slow_seconds()) {
            // It may as well have met a slow stretch, and those count.
            return false;
        }
        if self.evidence.is_starved(starved(measurement)) {
            // It does not count anyway, and rest would not help.
            return false;
        }
        match self.guards.shadow.observe(&self.evidence, measurement, good, expected) {
            Suspicion::None => false,
            Suspicion::Deferred => true,
            Suspicion::Confirmed(rest) => {
                self.policy.notes.push(format!(
                    "the server was slow after an overload and well after {rest} of rest; it was \
                     left alone for so long from then on"
                ));
                false
            }
        }
    }

    /// Returns the probability of this verdict, by all trials before it; `None` unless an interval is being narrowed.
    fn expected(&mut self, load: f64, length: Nanos, good: bool) -> Option<f64> {
        if !self.policy.is_measuring() {
            return None;
        }
        self.update_fit();
        Some(self.fitted.get(&self.evidence)?.expects(load, length, good))
    }

    /// Appends the trial to the evidence, and lets the guards look at it.
    fn append(&mut self, measurement: &TrialMeasurement, judgement: &Judgement, pooled: Pooled) {
        let at_s = self.evidence.spent.as_secs_f64() - 0.5 * measurement.window.as_secs_f64();
        let trial = Trial::of(measurement, judgement, &self.task.slo, pooled, at_s);
        let expected = self.expected(trial.load, trial.planned, trial.good);
        self.evidence.append_seconds(measurement);
        self.policy.learn_expected(&trial, expected);
        if self.evidence.append(trial) {
            // What was taken for a change may have been the disturbance.
            self.guards.levels = Levels::default();
        }
        if trial.role == Role::Sentinel {
            let (evidence, anchor) = (&self.evidence, self.policy.anchor());
            let is_wanted = self.guards.levels.observe(evidence, anchor, &spreads(evidence));
            self.policy.learn_sentinel(is_wanted);
        }
    }

    /// Looks for a period of pauses; whether trials became multiples of it now.
    fn learn_pauses(&mut self, measurement: &TrialMeasurement) -> bool {
        let period = self.evidence.see_pauses(measurement);
        let Some(period) = period.filter(|_| self.policy.is_open()) else { return false };
        let begins = self.task.stretch(period);
        if begins {
            self.policy.begin_again(&self.evidence, period);
            self.evidence.period = Some(period);
            self.fitted = Fitted::default();
        }
        begins
    }

    /// Learns from a trial that the search for another objective has asked for, after `rest`; it may be
    /// no evidence for reasons that have nothing to do with the objective.
    fn learn_of_another(
        &mut self,
        measurement: &TrialMeasurement,
        judgement: &Judgement,
        rest: Nanos,
        is_evidence: bool,
    ) {
        let request = &measurement.request;
        self.evidence.pass(request.number, rest, measurement.window);
        self.policy.learn_of_another(measurement, judgement.verdict, self.task.limits.rest);
        let is_judged =
            is_evidence && !measurement.aborted && judgement.verdict != Verdict::Invalid;
        if !is_judged || request.phase == Phase::Recover {
            return;
        }
        if request.phase == Phase::Sentinel {
            self.policy.set_anchor(request.rate.get());
        }
        if judgement.verdict == Verdict::Good {
            self.evidence.learn_unloaded(&measurement.tally);
        }
        let pooled = pool(&self.evidence, &self.task.slo, measurement, judgement);
        self.append(measurement, judgement, pooled);
    }

    /// Begins where the trials leave it that other searches have asked for.
    fn begin_from_evidence(&mut self) {
        if let Some(outcome) = self.with_policy(Policy::begin_from_evidence) {
            self.finish(outcome);
        }
    }
}

#[cfg(test)]
mod tests;
