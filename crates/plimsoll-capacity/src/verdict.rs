//! From one measurement to GOOD, BAD or INVALID, with every check that was made.
//!
//! Goals judge the SUT, validity checks judge the generator; goals are joined by AND and never
//! averaged. It does not know why a load was chosen.

use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, Judgement, Level, TrialMeasurement, Verdict};
use plimsoll_model::witness::Witnesses;
use plimsoll_model::{ErrorClass, Fault, Nanos, Rate};

use crate::stability::Backlog;
use crate::validity;

/// What earlier trials taught, as far as it helps to judge the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Context {
    /// How long the server takes at the lowest load, if that is known.
    pub unloaded: Option<Unloaded>,
}

/// The server's own time without queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unloaded {
    /// Mean, see [`server_time`].
    pub mean: Nanos,
    /// 99th percentile of the time from the actual send.
    pub p99: Nanos,
}

impl Unloaded {
    /// Reads it off a trial at a load that the server does not feel.
    pub fn of(tally: &Tally) -> Option<Self> {
        Some(Self { mean: server_time(tally)?, p99: tally.spans.uncorrected.quantile(0.99)? })
    }
}

/// The server's mean share in an operation: from the actual send, which without keep-alive is
/// the SYN, to the end of the answer.
pub fn server_time(tally: &Tally) -> Option<Nanos> {
    tally.spans.uncorrected.mean()
}

/// Judges one trial of a search.
pub fn judge(measurement: &TrialMeasurement, slo: &Slo, context: &Context) -> Judgement {
    let tally = &measurement.tally;
    let losses = Losses::of(tally, measurement.aborted);
    let mut goals: Vec<Check> = slo.goals.iter().map(|goal| losses.check(goal)).collect();
    goals.extend(stable(tally, measurement.window, measurement.request.rate, context, Level::Fail));
    goals.extend(aborted(measurement, &goals));
    let subject = validity::Subject {
        tally,
        witnesses: &measurement.witnesses,
        window: measurement.window,
        rate: Some(measurement.request.rate),
        losses: &losses,
        slo: Some(slo),
        deadline: slo.deadline(),
        aborted: measurement.aborted,
        open: true,
        planned_ops: Some(planned_ops(measurement)),
        missed: failed(&goals),
        context,
    };
    conclude(goals, validity::checks(&subject), losses.ratio(slo.deadline()))
}

/// Judges a plain load: `open` is false for a closed loop, whose pace is the server's.
///
/// Without an SLO a valid load is GOOD, unless nothing was answered at all: that measures nothing,
/// and must not pass for a success. A growing backlog is only a warning, because a load with
/// stages may grow on purpose.
pub fn judge_load(
    tally: &Tally,
    window: Nanos,
    slo: Option<&Slo>,
    open: bool,
    witnesses: &Witnesses,
) -> Judgement {
    let losses = Losses::of(tally, false);
    let context = Context::default();
    let mut goals: Vec<Check> =
        slo.iter().flat_map(|slo| &slo.goals).map(|goal| losses.check(goal)).collect();
    if open && slo.is_some() && window > Nanos::ZERO {
        let rate = Rate::per_second(tally.scheduled as f64 / window.as_secs_f64());
        goals.extend(stable(tally, window, rate.unwrap_or_default(), &context, Level::Warn));
    }
    let missed = failed(&goals);
    goals.extend(answers(tally));
    let deadline = slo.and_then(Slo::deadline);
    let subject = validity::Subject {
        tally,
        witnesses,
        window,
        // A load with stages has more than one.
        rate: None,
        losses: &losses,
        slo,
        deadline,
        aborted: false,
        open,
        planned_ops: None,
        missed,
        context: &context,
    };
    conclude(goals, validity::checks(&subject), losses.ratio(deadline))
}

/// Fails when not one operation was answered, well or badly. An interrupt proves nothing.
fn answers(tally: &Tally) -> Option<Check> {
    let answered = tally.ok > 0 || tally.status.iter().next().is_some();
    let cut_short = tally.errors.get(ErrorClass::Interrupted) > 0;
    (tally.scheduled > 0 && !answered && !cut_short).then(|| Check {
        check: "answers".to_owned(),
        value: format!("none to {} operations", tally.scheduled),
        limit: "at least one".to_owned(),
        level: Level::Fail,
    })
}

pub(crate) fn failed(checks: &[Check]) -> bool {
    checks.iter().any(|check| check.level == Level::Fail)
}

pub(crate) fn conclude(goals: Vec<Check>, validity: Vec<Check>, loss_ratio: f64) -> Judgement {
    let verdict = if failed(&validity) {
        Verdict::Invalid
    } else if failed(&goals) {
        Verdict::Bad
    } else {
        Verdict::Good
    };
    // What decided comes first: for an INVALID trial that is not the missed goal.
    let mut reasons = validity;
    reasons.extend(goals);
    reasons.sort_by_key(|check| std::cmp::Reverse(check.level));
    Judgement { verdict, reasons, loss_ratio }
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

/// Bad operations by cause; the numerators of every goal.
pub(crate) struct Losses<'a> {
    tally: &'a Tally,
    /// Failed by the peer or by a timer of ours; this machine's faults are no loss of the SUT.
    failed: u64,
    /// Of those, ended by an interrupt.
    interrupted: u64,
    /// Due and without an end when the trial was aborted.
    outstanding: u64,
}

impl<'a> Losses<'a> {
    pub(crate) fn of(tally: &'a Tally, aborted: bool) -> Self {
        let failed = tally
            .errors
            .iter()
            .filter(|(class, _)| class.fault() != Fault::Local)
            .map(|(_, ops)| ops)
            .sum();
        let ended = tally.ok + tally.errors_total() + tally.unsent;
        Self {
            tally,
            failed,
            interrupted: if aborted { tally.errors.get(ErrorClass::Interrupted) } else { 0 },
            outstanding: if aborted { tally.scheduled.saturating_sub(ended) } else { 0 },
        }
    }

    /// Late at `limit`, failed, unsent or left over.
    pub(crate) fn late_or_lost(&self, limit: Nanos) -> u64 {
        self.tally.spans.corrected.count_above(limit)
            + self.failed
            + self.tally.unsent
            + self.outstanding
    }

    /// Failed on their own account: not because the trial was cut short.
    fn errors(&self) -> u64 {
        self.failed - self.interrupted
    }

    pub(crate) fn share(&self, ops: u64) -> f64 {
        if self.tally.scheduled == 0 { 0.0 } else { ops as f64 / self.tally.scheduled as f64 }
    }

    /// Share of operations that miss `goal`.
    pub(crate) fn bad_share(&self, goal: &Goal) -> f64 {
        self.share(match *goal {
            Goal::Latency { limit, .. } => self.late_or_lost(limit),
            Goal::Errors { .. } => self.errors(),
        })
    }

    pub(crate) fn check(&self, goal: &Goal) -> Check {
        let (share, limit) = (self.bad_share(goal), goal.bad_ratio_max());
        let what = match goal {
            Goal::Latency { .. } => "late, failed or unsent",
            Goal::Errors { .. } => "failed",
        };
        Check {
            check: goal.to_string(),
            value: format!("{} {what}", percent(share)),
            limit: format!("at most {}", percent(limit)),
            // 1 - 0.99 is not 0.01: a share that is equal to the limit must pass.
            level: level(share > limit + 1e-12, false),
        }
    }

    fn ratio(&self, deadline: Option<Nanos>) -> f64 {
        // No histogram value lies above the largest span.
        self.share(self.late_or_lost(deadline.unwrap_or(Nanos::MAX)))
    }
}

fn stable(
    tally: &Tally,
    window: Nanos,
    rate: Rate,
    context: &Context,
    worst: Level,
) -> Option<Check> {
    let settle = match context.unloaded {
        Some(unloaded) => unloaded.p99,
        None => tally.spans.uncorrected.quantile(0.5).unwrap_or_default(),
    };
    let backlog = Backlog::observe(&tally.outstanding, window, settle, rate)?;
    Some(Check {
        check: "stable".to_owned(),
        value: format!("backlog {:+.1} operations/s", backlog.slope_per_s),
        limit: format!(
            "at most {:.1} operations/s, or {:.0} operations in all",
            backlog.slope_per_s_max(),
            backlog.growth_ops_chance
        ),
        level: if backlog.grows() { worst } else { Level::Pass },
    })
}

/// A trial is only ended early when it is lost: by its goals, or by a guard that stopped it.
fn aborted(measurement: &TrialMeasurement, goals: &[Check]) -> Option<Check> {
    measurement.aborted.then(|| Check {
        check: "aborted".to_owned(),
        value: format!("after {}", measurement.window),
        limit: format!("planned {}", measurement.request.duration),
        level: level(!failed(goals), true),
    })
}

pub(crate) const fn level(fail: bool, warn: bool) -> Level {
    if fail {
        Level::Fail
    } else if warn {
        Level::Warn
    } else {
        Level::Pass
    }
}

/// `1.24 %`, `0.1 %`, `0 %`.
pub(crate) fn percent(share: f64) -> String {
    let text = format!("{:.3}", share * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

#[cfg(test)]
mod tests;
