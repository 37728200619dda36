//! The one stream from those who act to those who judge or show.

use serde::{Deserialize, Serialize};

use crate::cliff::ProbedTimer;
use crate::compare::BlockStart;
use crate::cycles::CyclesSummary;
use crate::hold::{HoldStep, MemoryReading, Plateau};
use crate::reason::Reason;
use crate::row::RowBatch;
use crate::tally::Interval;
use crate::trial::{TippingPoint, TrialRecord, TrialRequest};
use crate::{ErrorClass, Nanos};

/// Something that happened in a run. Sinks receive every event in one order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Event {
    /// A load begins: its first operation is intended to start in a moment.
    LoadStarted {
        /// The trial it belongs to; `None` for a plain load.
        trial: Option<TrialRequest>,
        /// Duration in which operations are started; `None` when only a count ends the load.
        planned: Option<Nanos>,
        /// That instant on CLOCK_MONOTONIC; `None` in archives of versions that did not say it.
        epoch: Option<Nanos>,
    },
    /// One second of the current load, merged over all agents.
    Interval(Box<Interval>),
    /// Single operations of the current load, in the order in which they ended.
    Rows(RowBatch),
    /// Operations are no longer started; the answers still out are waited for.
    Draining {
        /// Operations in flight.
        in_flight: u64,
    },
    /// A level of held connections begins, within a load that goes on.
    TrialStarted(TrialRequest),
    /// A block of a comparison begins.
    BlockStarted(BlockStart),
    /// A trial was judged.
    TrialEnded(Box<TrialRecord>),
    /// The timeout probe is over.
    TimersProbed(Vec<ProbedTimer>),
    /// The best answer that the trials so far allow, after each of them.
    Answer(Box<TippingPoint>),
    /// The search is over.
    SearchEnded(Box<TippingPoint>),
    /// A hold begins its next step.
    HoldStep(HoldStep),
    /// Memory of a hold at this instant.
    Memory(Box<MemoryReading>),
    /// A level of a hold was measured, and swept unless the hold ended before that.
    PlateauEnded(Box<Plateau>),
    /// A cycle of a hold is over: the answer so far.
    CycleEnded(Box<CyclesSummary>),
    /// The first failure of the current load whose reason is known.
    FirstFailure {
        /// The class in which it was counted.
        class: ErrorClass,
        /// Why it failed.
        reason: Reason,
    },
    /// A line for the reader: what was started, what was not as expected.
    Note(String),
}
