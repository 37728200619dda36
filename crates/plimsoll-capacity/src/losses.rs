//! Bad operations by cause, and what earlier trials taught about the server's own time: what the
//! goals and the checks of the generator both look at.

use plimsoll_model::slo::Goal;
use plimsoll_model::tally::{ErrorCounts, Tally};
use plimsoll_model::trial::{Check, CheckId, Level, Measure};
use plimsoll_model::{ErrorClass, Fault, Nanos};

/// Lessons of earlier trials for the judgement of the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Context {
    /// The latency of the server at the lowest load, if that is known.
    pub unloaded: Option<Unloaded>,
}

/// The server's own time without queueing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unloaded {
    /// Mean, see `server_time`.
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

/// Returns the server's mean share in an operation: from the actual send, which without keep-alive is the SYN, to the
/// arrival of the answer, or to our reading of it if no arrival was stamped.
pub(crate) fn server_time(tally: &Tally) -> Option<Nanos> {
    tally.spans.wire.mean().or_else(|| tally.spans.uncorrected.mean())
}

/// Returns the number of connections that the server or the network ended, or did not answer.
pub(crate) fn lost_by_peer(losses: &ErrorCounts) -> u64 {
    losses.total() - losses.by(Fault::Local) - losses.get(ErrorClass::Interrupted)
}

/// Bad operations by cause; the numerators of every goal.
pub(crate) struct Losses<'a> {
    tally: &'a Tally,
    /// Failed by the peer or by a timer of ours; this host's faults are no loss of the SUT.
    failed: u64,
    /// Operations of those that an interrupt ended.
    interrupted: u64,
    /// Due and without an end when the trial was aborted.
    outstanding: u64,
}

impl<'a> Losses<'a> {
    pub(crate) fn of(tally: &'a Tally, aborted: bool) -> Self {
        let ended = tally.ok + tally.errors_total() + tally.unsent;
        let if_aborted = |ops: u64| if aborted { ops } else { 0 };
        Self {
            tally,
            failed: tally.failed_by_peer(),
            interrupted: if_aborted(tally.failures.operations.get(ErrorClass::Interrupted)),
            outstanding: if_aborted(tally.scheduled.saturating_sub(ended)),
        }
    }

    /// Returns the number of operations that were late at `limit`, failed, unsent or left over.
    pub(crate) fn late_or_lost(&self, limit: Nanos) -> u64 {
        self.tally.spans.corrected.count_above(limit)
            + self.failed
            + self.tally.unsent
            + self.outstanding
    }

    /// Returns the number of operations that were due and had not ended when the trial was aborted.
    pub(crate) const fn outstanding(&self) -> u64 {
        self.outstanding + self.interrupted
    }

    /// Returns the number of operations that failed for another reason than the trial's early end.
    pub(crate) fn errors(&self) -> u64 {
        self.failed - self.interrupted
    }

    pub(crate) fn share(&self, ops: u64) -> f64 {
        if self.tally.scheduled == 0 { 0.0 } else { ops as f64 / self.tally.scheduled as f64 }
    }

    /// Returns the number of operations that miss `goal`.
    pub(crate) fn bad_ops(&self, goal: &Goal) -> u64 {
        match *goal {
            Goal::Latency { limit, .. } => self.late_or_lost(limit),
            Goal::Errors { .. } => self.errors(),
        }
    }

    /// Returns the share of operations that miss `goal`.
    pub(crate) fn bad_share(&self, goal: &Goal) -> f64 {
        self.share(self.bad_ops(goal))
    }

    /// Reports whether `goal` is missed, even if the share `spared` of all operations had not missed it.
    pub(crate) fn misses(&self, goal: &Goal, spared: f64) -> bool {
        // 1 - 0.99 is not 0.01: a share that is equal to the limit must pass.
        self.bad_share(goal) - spared > goal.bad_ratio_max() + 1e-12
    }

    pub(crate) fn check(&self, goal: &Goal) -> Check {
        let (share, limit) = (self.bad_share(goal), goal.bad_ratio_max());
        let what = match goal {
            Goal::Latency { .. } => "late, failed or unsent",
            Goal::Errors { .. } => "failed",
        };
        let level = Level::of(self.misses(goal, 0.0), false);
        Check::new(CheckId::Goal(*goal), level, [Measure::ratio(what, share).at_most(limit)])
    }

    pub(crate) fn ratio(&self, deadline: Option<Nanos>) -> f64 {
        // No histogram value lies above the largest span.
        self.share(self.late_or_lost(deadline.unwrap_or(Nanos::MAX)))
    }
}
