//! The judgement of one storm: GOOD, BAD or INVALID, with every check that was made.

use plimsoll_model::hold::Swept;
use plimsoll_model::tally::{ErrorCounts, Tally};
use plimsoll_model::trial::{Check, CheckId, Judgement, Level, Measure};
use plimsoll_model::{ErrorClass, Nanos};

use crate::losses::{Losses, lost_by_peer};
use crate::validity;
use crate::verdict::failed;

use super::evidence::Storm;
use super::settings::StormSettings;

/// This program may make an attempt too late by this share of the time for recovery, and by at least [`LAG_LEAST`].
const LAG_SHARE: f64 = 0.1;
const LAG_LEAST: Nanos = Nanos::from_millis(250);

/// Judges a storm by the counts from the cut until all were back, or the storm was ended. `swept` is one request on
/// each connection, after all were back.
pub(super) fn judge(
    storm: &Storm,
    tally: &Tally,
    swept: Option<Swept>,
    settings: &StormSettings,
) -> Judgement {
    let mut checks =
        vec![validity::local_held(tally), lag(tally, settings), recovery(storm, settings)];
    let lost = lost_by_peer(&tally.failures.lost_held);
    let measures = [Measure::count("connections that were not cut", lost).at_most(0.0)];
    checks.push(Check::new(CheckId::Lost, Level::of(lost > 0, false), measures));
    checks.extend(swept.map(|swept| {
        let silent = swept.answered < swept.connections;
        let measures = [Measure::count("", swept.answered).at_least(swept.connections as f64)];
        Check::new(CheckId::Answered, Level::of(silent, false), measures)
    }));
    checks.extend(others(&without_cut(tally), settings));
    let missing = storm.cut.saturating_sub(storm.back_in_time);
    Judgement::of(checks, missing as f64 / storm.cut.max(1) as f64)
}

/// Judges the connections while there is no storm.
pub(super) fn judge_base(tally: &Tally, settings: &StormSettings) -> Judgement {
    Judgement::of(others(tally, settings), 0.0)
}

/// Checks the goals on connections that are not cut, and whether this program was the reason for a missed one.
fn others(tally: &Tally, settings: &StormSettings) -> Vec<Check> {
    let losses = Losses::of(tally, false);
    let goals: Vec<Check> = settings.slo.goals.iter().map(|goal| losses.check(goal)).collect();
    let mut checks = validity::held_checks(&losses, tally, &settings.slo, failed(&goals));
    // Requests that are still open when a storm has ended are counted in the next step.
    checks.retain(|check| check.id != CheckId::Accounting);
    checks.extend(goals);
    checks
}

/// Checks that all clients were back in time.
fn recovery(storm: &Storm, settings: &StormSettings) -> Check {
    let Storm { cut, recovered, back_in_time, .. } = *storm;
    let in_time = recovered.is_some_and(|recovered| recovered <= settings.recover);
    let limit = settings.recover.as_millis_f64();
    let mut measures = vec![Measure::count("back in time", back_in_time).at_least(cut as f64)];
    measures.extend(recovered.map(|took| Measure::span("all after", took).at_most(limit)));
    Check::new(CheckId::Recovered, Level::of(!in_time, false), measures)
}

/// Checks that this program let the clients try when they wanted to.
fn lag(tally: &Tally, settings: &StormSettings) -> Check {
    let most = Nanos((settings.recover.0 as f64 * LAG_SHARE) as u64).max(LAG_LEAST);
    let worst = tally.storm.lag_max;
    let measures = [Measure::span("attempts of clients", worst).at_most(most.as_millis_f64())];
    Check::new(CheckId::SendLag, Level::of(worst > most, false), measures)
}

/// Returns the operations of the connections that were not cut.
pub fn without_cut(tally: &Tally) -> Tally {
    let all = &tally.failures.operations;
    let mut others = ErrorCounts::default();
    let others_of = all.iter().filter(|(class, _)| *class != ErrorClass::Interrupted);
    others_of.for_each(|(class, count)| others.add(class, count));
    let mut without = tally.clone();
    without.scheduled = tally.scheduled.saturating_sub(all.get(ErrorClass::Interrupted));
    without.failures.operations = others;
    without
}
