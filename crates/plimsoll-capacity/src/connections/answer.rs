//! The answer of the search, as a function of its evidence.

use plimsoll_model::hold::{ConnectionsFound, FailedAt, ServerFailure, Side};
use plimsoll_model::trial::{
    Confirmations, Outcome, Phase, Recovery, Standing, Stopped, TippingPoint, Verdict,
};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use super::ceiling::{self, Ceiling};
use super::evidence::Evidence;
use super::level::JudgedLevel;
use super::policy::{Decision, Known, decide, is_after_bounds, is_ours, would_have_stopped};
use super::settings::ConnectionSettings;

/// Returns the bounds and the outcome.
pub(super) fn tipping_point(evidence: &Evidence, settings: &ConnectionSettings) -> TippingPoint {
    let levels = &evidence.levels;
    let known = Known::after(levels.len(), evidence, settings);
    let rate = |connections: Option<u64>| Rate::per_second(connections? as f64);
    let invalid = levels.iter().filter(|level| level.verdict() == Verdict::Invalid).count();
    let again = levels.iter().find(|level| level.phase == Phase::Reramp);
    TippingPoint {
        outcome: outcome(evidence, settings).unwrap_or_default(),
        lower: rate(known.bounds.good()),
        upper: rate(known.bounds.bad),
        trials: (levels.len() - invalid) as u32,
        invalid_trials: invalid as u32,
        confirmations: Confirmations {
            good: known.soaks(Verdict::Good),
            bad: known.soaks(Verdict::Bad),
            invalid: known.soaks(Verdict::Invalid),
        },
        recovery: again.and_then(|level| match level.verdict() {
            Verdict::Good => Some(Recovery::Yes),
            Verdict::Bad => Some(Recovery::No(level.took)),
            Verdict::Invalid => None,
        }),
        notes: levels.iter().filter_map(|level| failed_soak(level, settings.limits.soak)).collect(),
        ..TippingPoint::default()
    }
}

fn failed_soak(level: &JudgedLevel, soak: Nanos) -> Option<String> {
    let is_failed = level.is_soak(Verdict::Bad);
    is_failed.then(|| {
        format!(
            "{} connections passed the search, but not {soak} of soak: {}",
            grouped(level.target),
            level.judgement.why()
        )
    })
}

/// Returns the outcome; `None` while the bounds are searched for.
fn outcome(evidence: &Evidence, settings: &ConnectionSettings) -> Option<Outcome> {
    if evidence.is_stopped {
        return Some(Outcome::Unfinished { why: Stopped::LoadEnded });
    }
    let levels = &evidence.levels;
    let searched = levels.iter().rposition(|level| !is_after_bounds(level))?;
    let outcome = match decide(&Known::after(searched + 1, evidence, settings)) {
        Decision::Again | Decision::Level(..) => return None,
        Decision::Limited(first) => stopped_at(&first),
        Decision::Found(outcome) | Decision::End(outcome) => outcome,
    };
    let soak = levels.iter().rfind(|level| level.phase == Phase::Confirm);
    Some(match soak.filter(|soak| soak.verdict() == Verdict::Invalid) {
        Some(soak) if outcome.standing() == Some(Standing::Met) => {
            Outcome::Unconfirmed { why: soak.judgement.why() }
        }
        _ => outcome,
    })
}

fn stopped_at(first: &Ceiling) -> Outcome {
    let words = first.words();
    if first.side == Side::Generator {
        return Outcome::GeneratorLimited { why: words };
    }
    let push = match first.side {
        Side::Server => "; --push continues until the server fails",
        _ => "",
    };
    Outcome::NotReached { cap: format!("{words}; the search stops at 85 % of that{push}") }
}

/// Returns the findings beside the bounds.
pub(super) fn found(evidence: &Evidence, settings: &ConnectionSettings) -> ConnectionsFound {
    let first = ceiling::first(&evidence.gauges, |_| true);
    let held_in_soak = |level: &&JudgedLevel| level.is_soak(Verdict::Good);
    let history = history(evidence, settings);
    ConnectionsFound {
        first_limit_of: first.as_ref().map(|first| first.side),
        first_limit: first.map(|first| first.projection),
        stopped_by: history.iter().find_map(|known| match decide(known) {
            Decision::Limited(first) if first.side != Side::Generator => Some(first.projection),
            _ => None,
        }),
        failed_at: failed_at(&history),
        soak_held: evidence.levels.iter().find(held_in_soak).map(|level| level.answered),
        soak_s: settings.limits.soak.as_secs_f64(),
    }
}

/// Returns what was known after each level that moves the bounds.
fn history<'a>(evidence: &'a Evidence, settings: &'a ConnectionSettings) -> Vec<Known<'a>> {
    let levels = evidence.levels.iter().enumerate();
    let moving = levels.filter(|(_, level)| !is_after_bounds(level));
    moving.map(|(index, _)| Known::after(index + 1, evidence, settings)).collect()
}

/// Returns where the server failed, against the prediction.
fn failed_at(history: &[Known<'_>]) -> Option<FailedAt> {
    let last = history.last()?;
    let push = last.settings.push;
    let (known, at, why) = match last.bounds.collapse {
        Some(collapse) => (last, collapse.at, collapse.why),
        None => {
            let is_full = |known: &&Known<'_>| decide(known) == Decision::Found(Outcome::Regular);
            let full = history.iter().filter(|_| push).find(is_full)?;
            (full, full.answered_max(), ServerFailure::AcceptsNoMore)
        }
    };
    let predicted = history.iter().filter(|_| push).find_map(would_have_stopped).or_else(|| {
        ceiling::first(known.gauges(), |side| !is_ours(side)).map(|first| first.projection)
    });
    let end = predicted.as_ref().and_then(|predicted| predicted.ends_at);
    let off = end.filter(|_| at > 0).map(|end| end as f64 / at as f64 - 1.0);
    Some(FailedAt { at, why, predicted, predicted_off: off })
}

/// Returns the time spent on searching, and on the soak and the second ramp.
pub(super) fn times(levels: &[JudgedLevel]) -> (Nanos, Nanos) {
    let spent = |is_after: bool| {
        let of = levels.iter().filter(|level| level.phase.is_after_search() == is_after);
        of.fold(Nanos::ZERO, |spent, level| spent + level.took)
    };
    (spent(false), spent(true))
}
