//! The policy: which trial to make next, by what is known so far. It holds only what a plan has to
//! remember; whatever was measured is evidence.
//!
//! ```text
//! qualify -> expand (x2 from below) -> measure, confirm -> overload -> recover -> done
//!                                        ^---- GOOD, or unlike before ----'
//! ```
//!
//! `memory` has the state that a plan remembers. The states up to the first bound are planned in `expand`, the interval
//! in `narrow`, its confirmation in `confirm`, its description in `after`, and overloads beside them in `sentinel`.

mod after;
mod confirm;
mod expand;
mod memory;
mod narrow;
mod repeats;
mod sentinel;

use plimsoll_model::Nanos;
use plimsoll_model::trial::{
    Judgement, Outcome, Outlook, Phase, TrialMeasurement, TrialRequest, Verdict,
};

use super::answer::Known;
use super::evidence::Evidence;
use super::settings::HIGHEST_PER_S;
use super::trials::{Role, Trial};

#[cfg(test)]
pub(super) use memory::SLOW_EXTENSION;
pub(super) use memory::{Policy, Want};
use memory::{SENTINEL_EVERY, SURPRISE, State};
#[cfg(test)]
pub(super) use sentinel::OVERSHOOT_MAX;

/// Horizon of an outlook.
const FURTHER: Nanos = Nanos::from_secs(60);

impl Policy {
    /// Begins again near the highest load that was met, with trials as long as multiples of `period`.
    pub(super) fn begin_again(&mut self, evidence: &Evidence, period: Nanos) {
        self.notes.push(format!(
            "the server pauses about every {period}: trials are as long as multiples of that"
        ));
        let good = evidence.highest_good_ever().unwrap_or_default();
        self.first_bad = HIGHEST_PER_S;
        self.state = State::Expand { rate: (0.5 * good).max(self.lowest()) };
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

    /// Returns what more time would buy an interval of this relative width.
    pub(super) fn outlook(&self, known: &Known<'_>, width: Option<f64>) -> Outlook {
        let spent = known.evidence.spent;
        let left = self.budget(known).since(spent);
        let further = left.min(FURTHER);
        // The error of a mean falls with the root of the time.
        let measured_s = (spent.as_secs_f64() - self.expanded_s).max(1.0);
        let share = (measured_s / (measured_s + further.as_secs_f64())).sqrt();
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
            (Verdict::Bad, _) => known.guards.shadow.rest,
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
            self.sentinel.verdicts += 1;
            self.sentinel.is_wanted |= expected.is_some_and(|p| p < SURPRISE);
        }
        if trial.role == Role::Safe {
            // It is as long as three of those that close in.
            self.sentinel.verdicts += SENTINEL_EVERY;
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
