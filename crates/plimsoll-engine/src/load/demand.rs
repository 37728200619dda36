//! The source of operations: a schedule, the end of the last one, or a hold.

use std::sync::Arc;

use plimsoll_model::pace::{Schedule, Shard};
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::starts::lag_tolerance;

use super::conn::Purpose;
use super::hold::Hold;
use super::starts::StartMeter;
use super::storm::StormRun;
use super::sweep::SweepRun;

pub(super) enum Demand {
    Open(Box<OpenLoop>),
    Closed(ClosedLoop),
    Hold(Box<Hold>),
}

/// Operations come due by a schedule, whatever became of those before.
pub(super) struct OpenLoop {
    pub(super) schedule: Schedule,
    pub(super) starts: StartMeter,
}

/// Each connection begins its next operation when its last one has ended.
pub(super) struct ClosedLoop {
    /// Operations that may still be started.
    pub(super) ops_left: u64,
}

impl Demand {
    /// Creates the demand of the worker that makes `shard` of the load.
    pub(super) fn new(plan: &LoadPlan, shard: Shard) -> Self {
        match &plan.pacing {
            Pacing::Open { profile, arrivals } => {
                let profile = Arc::new(profile.clone());
                let schedule = Schedule::new(profile, *arrivals, shard, plan.seed);
                let starts = StartMeter::new(lag_tolerance(plan.timeouts.deadline));
                Self::Open(Box::new(OpenLoop { schedule, starts }))
            }
            Pacing::Closed { ops_total, .. } => {
                let ops_left = ops_total.map_or(u64::MAX, |total| shard.share(total));
                Self::Closed(ClosedLoop { ops_left })
            }
            Pacing::Hold(hold) => Self::Hold(Box::new(Hold::new(*hold, shard, plan.connections))),
        }
    }

    pub(super) fn open(&mut self) -> Option<&mut OpenLoop> {
        if let Self::Open(open) = self { Some(open) } else { None }
    }

    pub(super) const fn closed(&mut self) -> Option<&mut ClosedLoop> {
        if let Self::Closed(closed) = self { Some(closed) } else { None }
    }

    pub(super) fn hold(&self) -> Option<&Hold> {
        if let Self::Hold(hold) = self { Some(hold) } else { None }
    }

    pub(super) fn hold_mut(&mut self) -> Option<&mut Hold> {
        if let Self::Hold(hold) = self { Some(hold) } else { None }
    }

    /// Returns the sweep in progress.
    pub(super) fn sweep(&mut self) -> Option<&mut SweepRun> {
        self.hold_mut()?.sweep.as_mut()
    }

    /// Returns the storm in progress.
    pub(super) fn storm(&mut self) -> Option<&mut StormRun> {
        self.hold_mut()?.storm.as_deref_mut()
    }

    /// Returns the reason for which a connection is being opened.
    pub(super) fn purpose(&self) -> Purpose {
        self.hold().map_or(Purpose::Ramp, |hold| hold.purpose)
    }

    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Open(_))
    }

    pub(super) const fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }

    pub(super) const fn is_hold(&self) -> bool {
        matches!(self, Self::Hold(_))
    }
}
