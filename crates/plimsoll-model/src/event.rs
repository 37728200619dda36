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

/// A report of a load: an agent sends each as one frame.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum LoadEvent {
    /// The pool is open, or as much of it as could be opened.
    Ready {
        /// Usable connections.
        opened: u64,
        /// Connections that could not be opened.
        failed: u64,
        /// The first failure in words.
        first_error: Option<String>,
    },
    /// One second, all threads.
    Interval(Box<Interval>),
    /// The server allows less than the plan asks for: which limit, and what to ask for instead; at most once. The load
    /// continues until it is stopped, and yields no result.
    Refused(String),
    /// Single operations of a thread.
    Rows(RowBatch),
    /// A hold has carried out a steer, and every second in which it did so has been yielded.
    Steered {
        /// The number that was given with the steer.
        id: u32,
        /// Connections that ramps have tried so far.
        tried: u64,
    },
    /// No more operations are started; some are still in flight.
    Draining {
        /// Operations awaiting an answer.
        in_flight: u64,
    },
    /// Every operation has ended, the connections are closed.
    Ended {
        /// Epoch to the last instant at which operations were started.
        window: Nanos,
    },
}

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
        /// Intended start of the first operation, on CLOCK_MONOTONIC.
        epoch: Nanos,
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
    /// A level of held connections starts, within a load that continues.
    TrialStarted(TrialRequest),
    /// A block of a comparison begins.
    BlockStarted(BlockStart),
    /// A trial was judged.
    TrialEnded(Box<TrialRecord>),
    /// The timeout probe has ended.
    TimersProbed(Vec<ProbedTimer>),
    /// The best answer that the trials so far allow, after each of them.
    Answer(Box<TippingPoint>),
    /// The search has ended.
    SearchEnded(Box<TippingPoint>),
    /// A hold begins its next step.
    HoldStep(HoldStep),
    /// Memory of a hold at this instant.
    Memory(Box<MemoryReading>),
    /// A level of a hold was measured, and swept unless the hold ended before that.
    PlateauEnded(Box<Plateau>),
    /// A cycle of a hold has ended: the answer so far.
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
