//! What the searches have in common: the verdict on a tipping point, and what decided it.

use plimsoll_model::Nanos;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, Outcome, TippingPoint, TrialRecord, Verdict};
use plimsoll_report::archive::SearchHead;
use plimsoll_report::terminal::trial_at_lower_bound;

use crate::plan::search::SearchJob;

/// `SLO p99<50ms,errors<0.1%`, and whether it was asked for.
pub(super) fn objective(search: &SearchJob) -> String {
    let default = if search.slo_given { "" } else { " (the default; change it with --slo)" };
    format!("SLO {}{default}", search.slo)
}

/// The search as archives describe it.
pub(crate) fn search_head(search: &SearchJob) -> SearchHead {
    SearchHead { axis: search.axis, slo: search.slo.to_string(), mode: search.mode.into() }
}

/// All trials together, and their time.
pub(super) fn all_trials(trials: &[TrialRecord]) -> (Tally, Nanos) {
    let mut tally = Tally::default();
    let mut window = Nanos::ZERO;
    for record in trials {
        tally.merge_following(&record.measurement.tally);
        window = window + record.measurement.window;
    }
    (tally, window)
}

/// The verdict on a search: GOOD once a load was found that meets the SLO.
pub(super) fn verdict(tipping: &TippingPoint, is_server_to_blame: bool) -> Verdict {
    match tipping.outcome {
        Outcome::Regular | Outcome::NotReached { .. } => Verdict::Good,
        Outcome::FailsAtMinimum => Verdict::Bad,
        Outcome::GeneratorLimited { .. }
        | Outcome::NetworkLimited { .. }
        | Outcome::Unconfirmed { .. }
        | Outcome::Unstable { .. }
        | Outcome::Undecided { .. } => Verdict::Invalid,
        Outcome::Unfinished { .. } if is_server_to_blame => Verdict::Bad,
        Outcome::Unfinished { .. } if tipping.lower.is_some() => Verdict::Good,
        Outcome::Unfinished { .. } => Verdict::Invalid,
    }
}

/// The checks of the trial that decided.
pub(super) fn reasons(
    tipping: &TippingPoint,
    trials: &[TrialRecord],
    verdict: Verdict,
) -> Vec<Check> {
    let deciding = match tipping.lower {
        Some(lower) if verdict == Verdict::Good => trial_at_lower_bound(trials, lower),
        _ => trials.last(),
    };
    deciding.map(|record| record.judgement.reasons.clone()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Rate;
    use plimsoll_model::trial::Confirmations;

    use super::*;

    fn tipping(outcome: Outcome, lower: Option<f64>) -> TippingPoint {
        TippingPoint {
            outcome,
            lower: lower.and_then(Rate::per_second),
            upper: None,
            conditional_throughput: None,
            trials: 1,
            invalid_trials: 0,
            confirmations: Confirmations::default(),
            noise: None,
            confidence: None,
            safe: None,
            spread: None,
            drift_per_min: None,
            recovery: None,
            notes: Vec::new(),
        }
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
            // No interval is claimed, which the exit code tells from a limit of the generator.
            (Outcome::Unstable { why: why() }, None, false, Verdict::Invalid),
            (Outcome::Undecided { why: why() }, None, false, Verdict::Invalid),
            (Outcome::Unfinished { why: why() }, Some(10.0), false, Verdict::Good),
            (Outcome::Unfinished { why: why() }, None, false, Verdict::Invalid),
            (Outcome::Unfinished { why: why() }, Some(10.0), true, Verdict::Bad),
        ] {
            let tipping = tipping(outcome, lower);
            assert_eq!(verdict(&tipping, is_server_to_blame), expected, "{tipping:?}");
        }
    }
}
