//! The judgement of one measurement: GOOD, BAD or INVALID, with every check that was made.
//!
//! Goals judge the SUT, validity checks judge the generator; goals are joined by AND and never
//! averaged. It does not know why a load was chosen.

use plimsoll_model::announced::Uniform;
use plimsoll_model::observation::Observations;
use plimsoll_model::slo::Slo;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, CheckId, Judgement, Level, Measure, TrialMeasurement, Unit};
use plimsoll_model::{ErrorClass, Nanos, Rate};

use crate::losses::{Context, Losses};
use crate::stability::Backlog;
use crate::validity;

/// Judges one trial of a search.
pub fn judge(measurement: &TrialMeasurement, slo: &Slo, context: &Context) -> Judgement {
    let tally = &measurement.tally;
    let losses = Losses::of(tally, measurement.aborted);
    let mut goals: Vec<Check> = slo.goals.iter().map(|goal| losses.check(goal)).collect();
    let rate = measurement.request.rate;
    let stable = stable(tally, measurement.window, rate, context, Level::Fail);
    let (stable, grown) = stable.unzip();
    goals.extend(stable);
    goals.extend(aborted(measurement, &goals));
    let subject = validity::Subject {
        window: measurement.window,
        rate: Some(rate),
        aborted: measurement.aborted,
        planned_ops: Some(planned_ops(measurement)),
        missed: failed(&goals),
        backlog_growth: grown.unwrap_or(0.0),
        context: *context,
        ..validity::Subject::of(tally, &losses, &measurement.observations, Some(slo))
    };
    conclude(validity::checks(&subject), goals, losses.ratio(slo.deadline()))
}

/// Judges a plain load: `open` is false for a closed loop, whose pace is the server's.
///
/// Without an SLO a valid load is GOOD, unless nothing was answered at all: that measures nothing,
/// and must not pass for a success. A growing backlog is only a warning, because a load with
/// stages may grow on purpose.
///
/// ```
/// use plimsoll_capacity::judge_load;
/// use plimsoll_model::Nanos;
/// use plimsoll_model::observation::Observations;
/// use plimsoll_model::slo::Slo;
/// use plimsoll_model::tally::Tally;
/// use plimsoll_model::trial::Verdict;
///
/// let mut tally = Tally { scheduled: 1_000, ok: 1_000, ..Tally::default() };
/// tally.spans.corrected.record_n(Nanos::from_millis(20), 1_000);
/// let verdict = |goals: &str| {
///     let slo: Slo = goals.parse().expect("goals");
///     let seen = Observations::default();
///     judge_load(&tally, Nanos::from_secs(10), Some(&slo), false, &seen).verdict
/// };
/// assert_eq!(verdict("p99<50ms"), Verdict::Good);
/// assert_eq!(verdict("p99<10ms"), Verdict::Bad);
/// ```
pub fn judge_load(
    tally: &Tally,
    window: Nanos,
    slo: Option<&Slo>,
    open: bool,
    observations: &Observations,
) -> Judgement {
    let losses = Losses::of(tally, false);
    let mut goals: Vec<Check> =
        slo.iter().flat_map(|slo| &slo.goals).map(|goal| losses.check(goal)).collect();
    if open && slo.is_some() && window > Nanos::ZERO {
        let rate = Rate::per_second(tally.scheduled as f64 / window.as_secs_f64());
        let (rate, context) = (rate.unwrap_or_default(), Context::default());
        let stable = stable(tally, window, rate, &context, Level::Warn);
        goals.extend(stable.map(|(check, _)| check));
    }
    let missed = failed(&goals);
    goals.extend(answers(tally));
    goals.extend(closed_at_once(tally));
    goals.extend(uniform(tally));
    // A load with stages has more than one rate.
    let subject = validity::Subject::of(tally, &losses, observations, slo);
    let subject = validity::Subject { window, open, missed, ..subject };
    conclude(validity::checks(&subject), goals, losses.ratio(subject.deadline))
}

/// Returns the failed checks of the generator that one second of a load decides by itself. They say nothing about the
/// goals, and the load as a whole may still pass them.
pub fn failed_in_second(tally: &Tally, deadline: Option<Nanos>, open: bool) -> Vec<Check> {
    let losses = Losses::of(tally, false);
    let observations = Observations::default();
    let subject = validity::Subject {
        window: Nanos::from_secs(1),
        deadline,
        open,
        ..validity::Subject::of(tally, &losses, &observations, None)
    };
    let mut checks = validity::second_checks(&subject);
    checks.retain(|check| check.level == Level::Fail);
    checks
}

/// Fails when not one operation was answered, well or badly. An interrupt proves nothing.
fn answers(tally: &Tally) -> Option<Check> {
    let answered = tally.ok > 0 || !tally.answers.status.is_empty();
    let cut_short = tally.failures.operations.get(ErrorClass::Interrupted) > 0;
    (tally.scheduled > 0 && !answered && !cut_short).then(|| {
        let measures =
            [Measure::count("answered", 0).at_least(1.0), Measure::count("of", tally.scheduled)];
        Check::new(CheckId::Answers, Level::Fail, measures)
    })
}

/// Finds connections that the server closed instead of answering on them, if they are more than one in a hundred.
fn closed_at_once(tally: &Tally) -> Option<Check> {
    let counts = &tally.connections;
    let attempts = counts.opened + counts.failed;
    let is_notable = counts.closed_at_once >= 2 && counts.closed_at_once * 100 >= attempts;
    is_notable.then(|| {
        let requests = tally.scheduled.saturating_sub(tally.unsent);
        let measures = [
            Measure::count("connections closed", counts.closed_at_once).at_most(0.0),
            Measure::count("of", attempts),
            Measure::count("for requests", requests),
        ];
        Check::new(CheckId::ClosedAtOnce, Level::Warn, measures)
    })
}

/// Answers that are all redirects, or all the same refusal.
fn uniform(tally: &Tally) -> Option<Check> {
    let id = match Uniform::of(tally.answers.status.iter())? {
        Uniform::Redirects => CheckId::Redirects,
        Uniform::Refusal(_) => CheckId::Refused,
    };
    let measure = |(status, answers)| Measure::count(format!("status {status}:"), answers);
    let measures: Vec<_> = tally.answers.status.iter().map(measure).collect();
    Some(Check::new(id, Level::Warn, measures))
}

pub(crate) fn failed(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.level == Level::Fail)
}

/// Sorts the deciding checks first: for an INVALID trial that is not the missed goal.
pub(crate) fn conclude(mut checks: Vec<Check>, goals: Vec<Check>, loss_ratio: f64) -> Judgement {
    checks.extend(goals);
    Judgement::of(checks, loss_ratio)
}

/// Operations the plan puts into the time that was really used.
fn planned_ops(measurement: &TrialMeasurement) -> f64 {
    let request = &measurement.request;
    // Sending may end late while operations wait for the SUT to free a connection, and that is
    // not the plan's doing; so a window longer than planned does not raise what is expected.
    let span = measurement.window.min(request.duration);
    let ops = request.rate.get() * span.as_secs_f64();
    if measurement.aborted {
        // Cut at an instant of a Poisson process: four standard deviations are chance.
        return ops - 4.0 * ops.sqrt();
    }
    // The last intended start lies about one gap before the end of the plan, in a Poisson
    // schedule up to five or so.
    (ops - 5.0).min((request.rate.get() * request.duration.as_secs_f64()).round())
}

/// Checks that the backlog does not grow; returns also the operations by which it did, if that is a failure.
fn stable(
    tally: &Tally,
    window: Nanos,
    rate: Rate,
    context: &Context,
    worst: Level,
) -> Option<(Check, f64)> {
    let settle = match context.unloaded {
        Some(unloaded) => unloaded.p99,
        None => tally.spans.uncorrected.quantile(0.5).unwrap_or_default(),
    };
    let backlog = Backlog::observe(&tally.outstanding, window, settle, rate)?;
    let slope = Measure::new("backlog grows by", backlog.slope_per_s, Unit::PerS);
    let ops = backlog.growth_ops.max(0.0).round();
    let grown = Measure::count("operations in all", ops as u64);
    let level = if backlog.grows() { worst } else { Level::Pass };
    let measures =
        [slope.at_most(backlog.slope_per_s_max), grown.at_most(backlog.growth_ops_chance.round())];
    let missed_by = if level == Level::Fail { ops } else { 0.0 };
    Some((Check::new(CheckId::Stable, level, measures), missed_by))
}

/// Checks why a trial was ended early: only if it was lost, by its goals or by a guard that stopped it.
fn aborted(measurement: &TrialMeasurement, goals: &[Check]) -> Option<Check> {
    measurement.aborted.then(|| {
        let measures = [
            Measure::span("after", measurement.window),
            Measure::span("of", measurement.request.duration),
        ];
        Check::new(CheckId::Aborted, Level::of(!failed(goals), true), measures)
    })
}

#[cfg(test)]
mod tests;
