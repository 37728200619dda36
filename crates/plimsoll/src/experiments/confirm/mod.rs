//! `--confirm-cause`: a limit of the server, or the load, is changed in pairs of saturating loads, and the
//! capacity follows by the size that was predicted, or does not.
//!
//! A pair is a load with the change and one with the same steps and what was there, in an order by
//! chance. What is to come out is fixed and shown before the first pair.

use plimsoll_capacity::compare::{Pair, turns};
use plimsoll_capacity::diagnose::confirm::{
    CALIBRATIONS_MAX, DOSE, INVALID_PAIRS_MAX, JudgedPairs, PAIRS, PAIRS_MAX, Strength, judge,
    strength, wants_more,
};
use plimsoll_capacity::stats::median_of;
use plimsoll_lab::{LabError, Lever};
use plimsoll_model::Nanos;
use plimsoll_model::cause::{Finding, Grade};
use plimsoll_model::confirmation::{
    Confirmation, ConfirmationArm, ConfirmationPair, ConfirmationResult, Intervention, Remedied,
};
use plimsoll_model::plan::LoadPlan;
use plimsoll_report::terminal::{
    render_confirmation_pair, render_confirmation_plan, render_remedy_plan,
};

use super::in_turn::{FinishedLoad, run_load, saturating};
use crate::exit::Result;
use crate::plan::search::CauseTest;
use crate::session::Session;

mod levers;
mod loads;

use loads::OperationCost;

/// Time for which the server is saturated in each load. Whole seconds.
const LOAD: Nanos = Nanos::from_secs(6);

/// A change, and what is expected of it.
struct PlannedChange {
    change: Change,
    intervention: Intervention,
    /// The value that limits.
    from: f64,
    to: f64,
    /// CPU time that a quota leaves the work, over what it took without.
    left_ratio: Option<f64>,
    /// Capacity after over capacity before.
    predicted_ratio: f64,
}

/// The difference between the two loads of a pair.
enum Change {
    Server(Lever),
    Load { sham: Box<LoadPlan>, changed: Box<LoadPlan> },
}

impl Change {
    /// Makes the change, or does the same steps without it; returns the load where it is not the usual one.
    fn begin(&mut self, arm: ConfirmationArm) -> Result<Option<&LoadPlan>, LabError> {
        match self {
            Self::Server(lever) => lever.set(arm == ConfirmationArm::Changed).map(|()| None),
            Self::Load { sham, changed } => Ok(Some(match arm {
                ConfirmationArm::Sham => sham,
                ConfirmationArm::Changed => changed,
            })),
        }
    }
}

/// Tests the first of `causes` with loads like `plan`, and grades it by what comes out. `lower` is the
/// lower bound of the tipping point.
pub(super) fn run(
    by: CauseTest,
    plan: &LoadPlan,
    lower: f64,
    causes: &mut [Finding],
    session: &Session<'_>,
) -> Result<()> {
    let named = causes.first_mut().filter(|finding| finding.grade > Grade::Unknown);
    let Some(finding) = named else {
        session.note("--confirm-cause: no cause was named, so there is none to test".to_owned());
        return Ok(());
    };
    let only_load =
        finding.cause.interventions().is_empty() && !finding.cause.load_interventions().is_empty();
    let by = if only_load { CauseTest::ByLoad } else { by };
    let mut test = Test { plan, session, loads: 0 };
    finding.confirmations = match by {
        CauseTest::ByServer => vec![test.by_server(finding)?],
        CauseTest::ByLoad => test.by_load(finding, lower)?,
    };
    let possible = match by {
        CauseTest::ByServer => 1,
        CauseTest::ByLoad => finding.cause.load_interventions().len().min(loads::LOAD_CHANGES),
    };
    finding.grade = grade(possible, finding.grade, &finding.confirmations);
    Ok(())
}

/// A change of the server that lasts until this is dropped, or that could not be made.
pub(super) struct TemporaryChange {
    /// Held for its drop.
    pub(super) lever: Option<Lever>,
    /// The facts before the search; its `why` if there is to be none.
    pub(super) remedied: Remedied,
}

impl TemporaryChange {
    fn make(intervention: Intervention, planned: Result<PlannedChange, LabError>) -> Self {
        let mut remedied = Remedied::new(intervention, 0.0, 0.0);
        let set = planned.and_then(|planned| {
            (remedied.from, remedied.to) = (planned.from, planned.to);
            match planned.change {
                Change::Server(mut lever) => lever.set(true).map(|()| Some(lever)),
                Change::Load { .. } => Ok(None),
            }
        });
        let lever = set.unwrap_or_else(|why| {
            remedied.why = Some(why.to_string());
            None
        });
        Self { lever, remedied }
    }
}

/// Raises the limit that the tests of `finding` have confirmed; `tip` is the middle of its tipping point, per second.
/// `None` if nothing was confirmed by a change of the server.
pub(super) fn raise(finding: &Finding, tip: f64, session: &Session<'_>) -> Option<TemporaryChange> {
    let by = finding.confirmations.first().filter(|_| finding.grade == Grade::Confirmed)?;
    let mut raised = raise_limit(by.intervention?, session);
    let remedied = &mut raised.remedied;
    if remedied.why.is_none() {
        let next = finding.next.as_ref().map_or(f64::INFINITY, |next| next.projected.at / tip);
        remedied.predicted_ratio = Some((remedied.to / remedied.from).min(next.max(1.0)));
        session.note(render_remedy_plan(remedied));
    } else {
        (remedied.from, remedied.to) = (by.from, by.from);
    }
    Some(raised)
}

/// Doubles a limit of the running server.
pub(super) fn raise_limit(intervention: Intervention, session: &Session<'_>) -> TemporaryChange {
    TemporaryChange::make(intervention, levers::raised(intervention, &**session.server()))
}

/// Limits the new connections of a server that has no such limit.
pub(super) fn limit_connections(per_s: u64, session: &Session<'_>) -> TemporaryChange {
    let planned = levers::limited(per_s, &**session.server());
    TemporaryChange::make(Intervention::SessionRate, planned)
}

/// Returns the grade of a cause after its tests: all that are `possible` confirm it together, and at least one does.
fn grade(possible: usize, before: Grade, confirmations: &[Confirmation]) -> Grade {
    let count = |result| confirmations.iter().filter(|test| test.result == result).count();
    let confirmed = count(ConfirmationResult::Confirmed);
    if count(ConfirmationResult::Refuted) > 0 {
        // Its counters moved, and it is not the limit.
        Grade::Correlated
    } else if confirmed >= possible.max(1) {
        Grade::Confirmed
    } else if confirmed + count(ConfirmationResult::Moved) > 0 {
        before.max(Grade::Predicted)
    } else {
        before
    }
}

/// The loads of all tests of a cause.
struct Test<'a, 's> {
    plan: &'a LoadPlan,
    session: &'a Session<'s>,
    loads: u64,
}

impl Test<'_, '_> {
    /// Tests the cause by one change of the server.
    fn by_server(&mut self, finding: &Finding) -> Result<Confirmation> {
        let began = self.session.elapsed();
        let Some(seen) = self.usable_load(None)? else {
            let why = self.ended();
            let why = why.unwrap_or_else(|| "the load before the first pair failed".to_owned());
            return Ok(Confirmation::impossible(why));
        };
        let planned = levers::first_possible(finding, &seen, &**self.session.server());
        match planned {
            Ok(planned) => {
                let planned = self.calibrated(planned, &seen)?;
                self.pairs(planned, &seen, began)
            }
            Err(why) => Ok(Confirmation::impossible(why)),
        }
    }

    /// Measures the CPU time that a quota leaves the work, and corrects the quota until that is what was planned;
    /// `seen` is the load without it. A change of another kind stays as it is.
    fn calibrated(
        &mut self,
        mut planned: PlannedChange,
        seen: &FinishedLoad,
    ) -> Result<PlannedChange> {
        let intervention = planned.intervention;
        let Some(before) = cpu_used(intervention, seen).filter(|used| *used > 0.0) else {
            return Ok(planned);
        };
        // What is predicted for each part of the CPU time that is taken.
        let part = (1.0 - planned.predicted_ratio) / DOSE;
        let target = planned.to;
        for _ in 0..CALIBRATIONS_MAX {
            let Change::Server(lever) = &mut planned.change else { break };
            lever.adjust_quota(planned.to);
            if lever.set(true).is_err() {
                break;
            }
            let Some(load) = self.usable_load(None)? else { break };
            let Some(left) = cpu_used(intervention, &load) else { break };
            match strength(planned.to, before, left, target) {
                Strength::Right(share) => {
                    planned.left_ratio = Some(share);
                    // Work with room does not feel the quota, and shows that nothing moves.
                    if target < before {
                        planned.predicted_ratio = 1.0 - part * (1.0 - share);
                    }
                    break;
                }
                Strength::Correct(next) => planned.to = next,
            }
        }
        if let Change::Server(lever) = &mut planned.change {
            lever.adjust_quota(planned.to);
        }
        Ok(planned)
    }

    /// Changes of the load, as many as are possible.
    fn by_load(&mut self, finding: &Finding, lower: f64) -> Result<Vec<Confirmation>> {
        let interventions = finding.cause.load_interventions();
        if interventions.is_empty() {
            return Ok(vec![Confirmation::impossible(
                "no change of the load moves this limit by a size that can be predicted, and plimsoll \
                 changes only servers that it started (plimsoll lab --confirm-cause)"
                    .to_owned(),
            )]);
        }
        let usual = self.plan;
        let mut measure = |plan: &LoadPlan| self.operation_cost(plan);
        let planned = loads::plan_changes(interventions, usual, lower, &mut measure)?;
        if planned.is_empty() {
            let why = self.ended().unwrap_or_else(|| loads::why_none(interventions).to_owned());
            return Ok(vec![Confirmation::impossible(why)]);
        }
        let mut all = Vec::new();
        for mut planned in planned {
            let began = self.session.elapsed();
            let sham = planned.change.begin(ConfirmationArm::Sham).ok().flatten().cloned();
            let Some(seen) = self.usable_load(sham.as_ref())? else {
                all.extend(self.ended().map(Confirmation::impossible));
                break;
            };
            all.push(self.pairs(planned, &seen, began)?);
        }
        Ok(all)
    }

    /// Measures the cost of an operation of `plan`.
    fn operation_cost(&mut self, plan: &LoadPlan) -> Result<Option<OperationCost>> {
        let load = run_load(self.session, plan)?;
        let ok = load.tally.ok as f64;
        let cpu_s =
            load.server.map(|times| times.ran.as_secs_f64() / ok).filter(|cpu_s| *cpu_s > 0.0);
        let sent_bytes = load.tally.bytes.sent as f64 / ok;
        let received_bytes = load.tally.bytes.received as f64 / ok;
        let is_usable = ok > 0.0 && load.invalid.is_none();
        Ok(is_usable.then_some(OperationCost { cpu_s, sent_bytes, received_bytes }))
    }

    /// Makes the pairs of one change; `seen` is the load without any step.
    fn pairs(
        &mut self,
        planned: PlannedChange,
        seen: &FinishedLoad,
        began: Nanos,
    ) -> Result<Confirmation> {
        let PlannedChange { mut change, intervention, from, to, left_ratio, predicted_ratio } =
            planned;
        let mut confirmation = Confirmation {
            intervention: Some(intervention),
            from,
            to,
            left_ratio,
            predicted_ratio,
            pairs_planned: PAIRS,
            untouched_per_s: vec![seen.usual_goodput],
            ..Confirmation::default()
        };
        self.session.note(render_confirmation_plan(&confirmation));
        let mut costs = Vec::new();
        for turn in turns(2, (PAIRS_MAX + INVALID_PAIRS_MAX) as usize, self.plan.seed) {
            if !wants_more(predicted_ratio, &counted(&confirmation)) {
                break;
            }
            if confirmation.counted().count() == PAIRS as usize {
                confirmation.pairs_planned = PAIRS_MAX;
            }
            match self.pair(&turn, intervention, &mut change)? {
                Ok((pair, cost)) => {
                    costs.extend(cost.filter(|_| pair.invalid.is_none()));
                    confirmation.pairs.push(pair);
                    self.session.note(render_confirmation_pair(&confirmation));
                }
                Err(why) => {
                    confirmation.why = Some(why);
                    break;
                }
            }
        }
        confirmation.cost_ratio = median_of(costs);
        // A change of the server is taken back here.
        let sham = match change {
            Change::Server(lever) => {
                drop(lever);
                None
            }
            Change::Load { sham, .. } => Some(sham),
        };
        if confirmation.why.is_none() {
            let after = self.usable_load(sham.as_deref())?;
            confirmation.untouched_per_s.extend(after.map(|load| load.usual_goodput));
            conclude(&mut confirmation);
        }
        confirmation.seconds = self.session.elapsed().since(began).as_secs_f64();
        Ok(confirmation)
    }

    /// Makes a load with the change and one without. Also returns the CPU time of a good answer with the change over the
    /// one without it; an inner error states why no further pair is possible.
    fn pair(
        &mut self,
        turn: &[usize],
        intervention: Intervention,
        change: &mut Change,
    ) -> Result<Result<(ConfirmationPair, Option<f64>), String>> {
        use ConfirmationArm::{Changed, Sham};
        let arms = [turn[0], turn[1]].map(|place| [Sham, Changed][place]);
        let mut pair =
            ConfirmationPair { first: arms[0], sham_per_s: 0.0, changed_per_s: 0.0, invalid: None };
        let mut costs = [None; 2];
        for arm in arms {
            let load = match change.begin(arm) {
                Ok(plan) => self.load(plan)?,
                Err(error) => return Ok(Err(error.to_string())),
            };
            if let Some(why) = self.ended() {
                return Ok(Err(why));
            }
            let cost = cpu_used(intervention, &load).map(|used| used / load.goodput);
            match arm {
                Sham => (pair.sham_per_s, costs[0]) = (load.usual_goodput, cost),
                Changed => (pair.changed_per_s, costs[1]) = (load.usual_goodput, cost),
            }
            pair.invalid = pair.invalid.take().or(load.invalid);
        }
        if pair.invalid.is_none() && Pair::new(pair.sham_per_s, pair.changed_per_s).is_none() {
            pair.invalid = Some("a load without a good answer".to_owned());
        }
        let cost_ratio = costs[0].zip(costs[1]).map(|(sham, changed)| changed / sham);
        Ok(Ok((pair, cost_ratio.filter(|ratio| ratio.is_finite()))))
    }

    /// Returns the reason why no further load can be made, if there is one.
    fn ended(&self) -> Option<String> {
        if self.session.is_interrupted() {
            return Some("interrupted".to_owned());
        }
        self.session.server_end().map(|end| end.reason().to_owned())
    }

    /// Makes a load that saturates: `plan`, or the usual one.
    fn load(&mut self, plan: Option<&LoadPlan>) -> Result<FinishedLoad> {
        self.loads += 1;
        let plan = plan.unwrap_or(self.plan);
        let mut plan = saturating(plan, plan.connections, LOAD);
        plan.seed = plan.seed.wrapping_mul(1_000).wrapping_add(self.loads);
        run_load(self.session, &plan)
    }

    /// Runs a load that nothing has invalidated; none if the run ends.
    fn usable_load(&mut self, plan: Option<&LoadPlan>) -> Result<Option<FinishedLoad>> {
        let load = self.load(plan)?;
        let is_usable = load.invalid.is_none() && load.usual_goodput > 0.0 && !load.interrupted;
        Ok(Some(load).filter(|_| is_usable))
    }
}

/// Returns the CPU time per second of the threads that a quota is for; `None` for other changes.
fn cpu_used(intervention: Intervention, load: &FinishedLoad) -> Option<f64> {
    match intervention {
        Intervention::ServerCpuQuota => load.server_cpu().map(|used| used.ran),
        Intervention::BackendCpuQuota => load.backends.map(|used| used.ran),
        // The busiest thread with the change may be another one.
        _ => None,
    }
}

/// Returns the pairs that count, whose loads all had answers.
fn counted(confirmation: &Confirmation) -> Vec<Pair> {
    let pair = |pair: &ConfirmationPair| Pair::new(pair.sham_per_s, pair.changed_per_s);
    confirmation.counted().filter_map(pair).collect()
}

/// Concludes a test from its pairs.
fn conclude(confirmation: &mut Confirmation) {
    let pairs = counted(confirmation);
    let untouched = &confirmation.untouched_per_s;
    let JudgedPairs { result, shift, sham_ratio } =
        judge(confirmation.predicted_ratio, &pairs, untouched);
    confirmation.result = result;
    confirmation.shift = shift;
    confirmation.sham_ratio = sham_ratio;
    confirmation.why = shift.is_none().then(|| "too many pairs were invalid".to_owned());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_of_the_load_needs_another_one() {
        use ConfirmationResult::{Confirmed, Moved, Refuted, Undecided};
        let (server, load) = (1, loads::LOAD_CHANGES);
        for (possible, before, results, after) in [
            (server, Grade::Predicted, vec![Confirmed], Grade::Confirmed),
            (server, Grade::Predicted, vec![Refuted], Grade::Correlated),
            (server, Grade::Predicted, vec![Undecided], Grade::Predicted),
            (server, Grade::Correlated, vec![Moved], Grade::Predicted),
            (load, Grade::Correlated, vec![Confirmed, Confirmed], Grade::Confirmed),
            (load, Grade::Correlated, vec![Confirmed], Grade::Predicted),
            (load, Grade::Predicted, vec![Confirmed, Refuted], Grade::Correlated),
            (load, Grade::Correlated, vec![], Grade::Correlated),
            // No change of the load moves such a limit.
            (0, Grade::Predicted, vec![Undecided], Grade::Predicted),
            (0, Grade::Predicted, vec![], Grade::Predicted),
        ] {
            let test = |result| Confirmation { result, ..Confirmation::default() };
            let tests: Vec<_> = results.iter().copied().map(test).collect();
            assert_eq!(grade(possible, before, &tests), after, "{possible} {results:?}");
        }
    }
}
