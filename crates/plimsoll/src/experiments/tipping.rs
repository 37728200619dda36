//! The common parts of searches: the verdict on a tipping point, and its reasons.
//!
//! The functions are pure and work on the result of any search (rate, connections, storm). [`verdict`] turns the
//! outcome of each SLO into GOOD, BAD or INVALID and returns the worst; BAD outranks INVALID. [`reasons`] returns the
//! checks of the trial that decided: the one at the lower bound if the verdict is GOOD, else the last one. The other
//! functions write the notes and heads of a search. Start with [`verdict`].

use plimsoll_model::summary::FindHead;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{
    Check, Family, Outcome, Phase, Standing, TippingPoint, TrialRecord, Verdict,
    trial_at_lower_bound,
};
use plimsoll_model::{Nanos, Rate};
use plimsoll_report::archive::SearchHead;
use plimsoll_report::time_text::rounded;

use crate::plan::search::SearchJob;

/// The number of a search in its run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Pass {
    First,
    /// The search after a change; the report leaves its trials out.
    Again,
}

/// Returns `SLO p99<50ms,errors<0.1%`, and whether it was asked for.
pub(super) fn objective(search: &SearchJob) -> String {
    let default = if search.slo_given { "" } else { " (the default; change it with --slo)" };
    let further: String = search.further.iter().map(|slo| format!("; {slo}")).collect();
    let each = if further.is_empty() { "" } else { ": an interval for each" };
    format!("SLO {}{further}{each}{default}", search.slo)
}

/// Returns `budget 3 m 30 s of trials and rests (--mode quick; change it with --budget)`.
pub(super) fn budget(search: &SearchJob, budget: Nanos) -> String {
    let why = match search.budget {
        Some(_) => String::new(),
        None => format!(" (--mode {}; change it with --budget)", search.mode),
    };
    format!("budget {} of trials and rests{why}", rounded(budget))
}

/// Returns the search as archives describe it.
pub(crate) fn search_head(search: &SearchJob) -> SearchHead {
    SearchHead { axis: search.axis, slo: search.slo.to_string(), mode: search.mode.into() }
}

/// Returns the search as summaries describe it, with the times that it searched and confirmed for.
pub(super) fn find_head(job: &SearchJob, search: Nanos, confirm: Nanos) -> FindHead {
    let SearchHead { axis, slo, mode } = search_head(job);
    FindHead { axis, slo, mode, search, confirm }
}

/// Returns the sum of all trials, and their time.
pub(super) fn all_trials(trials: &[TrialRecord]) -> (Tally, Nanos) {
    let mut tally = Tally::default();
    let mut window = Nanos::ZERO;
    for record in trials {
        tally.merge_following(&record.measurement.tally);
        window = window + record.measurement.window;
    }
    (tally, window)
}

/// Returns the verdict on a search: GOOD once a load was found that meets the SLO; of several SLOs the worst.
pub(super) fn verdict(tipping: &TippingPoint, is_server_to_blame: bool) -> Verdict {
    let one = |outcome: &Outcome, lower: Option<Rate>| match outcome.standing() {
        Some(Standing::Met) => Verdict::Good,
        Some(Standing::Missed) => Verdict::Bad,
        None if is_server_to_blame => Verdict::Bad,
        None if lower.is_some() => Verdict::Good,
        Some(Standing::Invalid | Standing::Open) | None => Verdict::Invalid,
    };
    let verdicts = tipping.goals.iter().map(|goal| one(&goal.found.outcome, goal.found.lower));
    worst(verdicts.chain([one(&tipping.outcome, tipping.lower)]))
}

/// Returns the worst of some verdicts; INVALID where there are none.
pub(super) fn worst(verdicts: impl Iterator<Item = Verdict>) -> Verdict {
    let badness = |verdict: &Verdict| match verdict {
        Verdict::Good => 0,
        Verdict::Invalid => 1,
        Verdict::Bad => 2,
    };
    verdicts.max_by_key(badness).unwrap_or(Verdict::Invalid)
}

/// Returns the checks of the trial that decided. Of several SLOs a trial has only the verdicts: its checks know the
/// first one.
pub(super) fn reasons(
    tipping: &TippingPoint,
    trials: &[TrialRecord],
    verdict: Verdict,
) -> Vec<Check> {
    let deciding = match tipping.lower {
        Some(lower) if verdict == Verdict::Good => trial_at_lower_bound(trials, lower),
        _ => trials.iter().rfind(|trial| trial.measurement.request.phase != Phase::Usage),
    };
    let mut checks = deciding.map(|record| record.judgement.reasons.clone()).unwrap_or_default();
    checks.retain(|check| tipping.goals.is_empty() || check.id.family() != Family::Goal);
    checks
}

#[cfg(test)]
mod tests {
    use plimsoll_model::observation::Observations;
    use plimsoll_model::slo::Slo;
    use plimsoll_model::trial::{
        CheckId, Judgement, SloFound, Stopped, TrialMeasurement, TrialRequest, Unsettled,
    };

    use super::*;

    fn tipping(outcome: Outcome, lower: Option<f64>) -> TippingPoint {
        let lower = lower.and_then(Rate::per_second);
        TippingPoint { outcome, lower, trials: 1, ..TippingPoint::default() }
    }

    #[test]
    fn every_outcome_has_the_contracts_verdict() {
        let why = || "send-lag".to_owned();
        for (outcome, lower, is_server_to_blame, expected) in [
            (Outcome::Regular, Some(10.0), false, Verdict::Good),
            (Outcome::NotReached { cap: why() }, Some(10.0), false, Verdict::Good),
            (Outcome::FailsAtMinimum, None, false, Verdict::Bad),
            (Outcome::GeneratorLimited { why: why() }, Some(10.0), false, Verdict::Invalid),
            // Bounds that no valid trial confirmed are not an answer.
            (Outcome::Unconfirmed { why: why() }, Some(10.0), false, Verdict::Invalid),
            // The exit code distinguishes a result without interval from a limit of the generator.
            (Outcome::Unstable { why: Unsettled::OneBound }, None, false, Verdict::Invalid),
            (Outcome::Bounds { why: Unsettled::OneBound }, Some(10.0), false, Verdict::Good),
            (Outcome::Undecided { why: Unsettled::OneBound }, None, false, Verdict::Invalid),
            (Outcome::Unfinished { why: Stopped::Interrupted }, Some(10.0), false, Verdict::Good),
            (Outcome::Unfinished { why: Stopped::Interrupted }, None, false, Verdict::Invalid),
            (Outcome::Unfinished { why: Stopped::Interrupted }, Some(10.0), true, Verdict::Bad),
        ] {
            let tipping = tipping(outcome, lower);
            assert_eq!(verdict(&tipping, is_server_to_blame), expected, "{tipping:?}");
        }
    }

    #[test]
    fn the_goals_of_the_first_objective_are_no_reasons_of_several() {
        let goal = "p99<50ms".parse::<Slo>().unwrap().goals[0];
        let checks = [CheckId::Goal(goal), CheckId::SendLag].map(|id| Check::failed(id, "seen"));
        let request = TrialRequest {
            number: 1,
            phase: Phase::Qualify,
            rate: Rate::per_second(10.0).unwrap(),
            duration: Nanos::from_secs(1),
            split: 1,
        };
        let measurement = TrialMeasurement {
            request,
            window: request.duration,
            aborted: false,
            tally: Tally::default(),
            sut_busiest_thread: None,
            split: 1,
            observations: Observations::default(),
            seconds: Vec::new(),
        };
        let judgement = Judgement::of(checks.to_vec(), 1.0);
        let all = judgement.reasons.clone();
        let record = TrialRecord { measurement, judgement, further: vec![Verdict::Bad] };
        let one = tipping(Outcome::FailsAtMinimum, None);
        let records = [record];
        let of = |tipping: &TippingPoint| reasons(tipping, &records, Verdict::Bad);
        assert_eq!(of(&one), all);
        let goals = vec![SloFound { slo: "p99<50ms".to_owned(), found: one.clone() }; 2];
        assert_eq!(of(&TippingPoint { goals, ..one }), [Check::failed(CheckId::SendLag, "seen")]);
    }

    #[test]
    fn of_several_objectives_the_worst_decides() {
        let undecided = || Outcome::Undecided { why: Unsettled::OneBound };
        let found = |outcome: Outcome| SloFound {
            slo: "p99<1s".to_owned(),
            found: tipping(outcome, Some(10.0)),
        };
        for (second, expected) in [
            (Outcome::Regular, Verdict::Good),
            (undecided(), Verdict::Invalid),
            (Outcome::FailsAtMinimum, Verdict::Bad),
        ] {
            let goals = vec![found(Outcome::Regular), found(second)];
            let all = TippingPoint { goals, ..tipping(Outcome::Regular, Some(10.0)) };
            assert_eq!(verdict(&all, false), expected, "{all:?}");
        }
    }
}
