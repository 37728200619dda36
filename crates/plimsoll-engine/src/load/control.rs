//! Messages between the owner of a load and its workers.
//!
//! [`Control`] carries orders to the workers: epoch, stop and grace are atomics, and steers are appended to one list.
//! Workers poll them between events and read the list only after it has grown. [`WorkerEvent`]s go back through a
//! channel. A stop is never withdrawn, and a grace that has ended turns it into [`Stop::Now`]. Times are nanoseconds
//! of CLOCK_MONOTONIC. Start reading at [`Control::asked_to_stop`].

use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex};

use plimsoll_model::Nanos;
use plimsoll_model::plan::Steer;
use plimsoll_model::row::RowBatch;
use plimsoll_model::tally::Interval;
use plimsoll_sys::clock;
use plimsoll_sys::thread::lock;

/// A report of a worker.
pub(crate) enum WorkerEvent {
    Ready {
        opened: u64,
        failed: u64,
        first_error: Option<String>,
    },
    Interval {
        worker: u32,
        interval: Box<Interval>,
    },
    /// The server allows less than the plan asks for, and no connection was usable: nothing can come of the load.
    Refused(String),
    /// Single operations.
    Rows(RowBatch),
    /// Done; what it did is in the seconds up to and including `second`.
    Steered {
        id: u32,
        second: u32,
        /// Connections that its ramps have tried.
        tried: u64,
    },
    Draining {
        in_flight: u64,
    },
    Ended {
        worker: u32,
        window: Nanos,
    },
}

/// An order to end a load before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(super) enum Stop {
    /// Go on.
    No,
    /// Start nothing more; wait for what is in flight until the grace ends.
    Soon,
    /// Abort what is in flight, too.
    Now,
}

/// Orders of the owner, which any of its threads may give; the workers read them.
#[derive(Debug)]
pub struct Control {
    /// CLOCK_MONOTONIC ns of the first intended start; 0 until it is known.
    epoch_ns: AtomicU64,
    stop: AtomicU8,
    /// CLOCK_MONOTONIC ns after which nothing is waited for once stopped.
    grace_ends_ns: AtomicU64,
    /// Workers that publish nothing more, if deliveries are counted.
    settling: AtomicU32,
    /// Deliveries that they still miss.
    missing: AtomicI64,
    /// Length of `steers`; workers look at it between events, and at the list when it has grown.
    steers_given: AtomicUsize,
    steers: Mutex<Vec<(u32, Steer)>>,
}

impl Control {
    pub(super) const fn new() -> Self {
        Self {
            epoch_ns: AtomicU64::new(0),
            stop: AtomicU8::new(Stop::No as u8),
            grace_ends_ns: AtomicU64::new(u64::MAX),
            settling: AtomicU32::new(0),
            missing: AtomicI64::new(0),
            steers_given: AtomicUsize::new(0),
            steers: Mutex::new(Vec::new()),
        }
    }

    /// Starts the load; see [`super::Load::start`].
    pub fn start(&self, epoch: Nanos) {
        self.epoch_ns.store(epoch.0.max(1), Ordering::Release);
    }

    /// Returns the instant of the first intended start, once it is known.
    pub(super) fn epoch(&self) -> Option<Nanos> {
        let epoch_ns = self.epoch_ns.load(Ordering::Acquire);
        (epoch_ns > 0).then_some(Nanos(epoch_ns))
    }

    /// Starts no more operations, and waits for the ones in flight for at most `grace`; see [`super::Load::stop`].
    pub fn stop(&self, grace: Nanos) {
        let ends = clock::monotonic_ns().saturating_add(grace.0);
        self.grace_ends_ns.store(ends, Ordering::Release);
        self.stop.fetch_max(Stop::Soon as u8, Ordering::AcqRel);
    }

    /// Stops the load at once; see [`super::Load::stop_now`].
    pub fn stop_now(&self) {
        self.stop.store(Stop::Now as u8, Ordering::Release);
    }

    /// Returns the order in force at `now`: a grace that has ended is a stop at once.
    pub(super) fn asked_to_stop(&self, now: Nanos) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            stop if stop == Stop::No as u8 => Stop::No,
            stop if stop == Stop::Now as u8 => Stop::Now,
            _ if now.0 >= self.grace_ends_ns.load(Ordering::Acquire) => Stop::Now,
            _ => Stop::Soon,
        }
    }

    /// Counts one more worker that publishes nothing more.
    pub(super) fn count_settling(&self) {
        self.settling.fetch_add(1, Ordering::AcqRel);
    }

    /// Adds deliveries that must come to all of them together; fewer if some came.
    pub(super) fn add_missing(&self, deliveries: i64) {
        if deliveries != 0 {
            self.missing.fetch_add(deliveries, Ordering::AcqRel);
        }
    }

    /// Reports whether all of `workers` publish nothing more, and have got everything.
    pub(super) fn has_settled(&self, workers: u32) -> bool {
        self.settling.load(Ordering::Acquire) >= workers
            && self.missing.load(Ordering::Acquire) <= 0
    }

    /// Steers a hold; see [`super::Load::steer`].
    pub fn steer(&self, id: u32, steer: Steer) {
        // A list is whole also when a thread panicked beside it.
        let mut steers = lock(&self.steers);
        steers.push((id, steer));
        self.steers_given.store(steers.len(), Ordering::Release);
    }
}

/// A worker's connection to its owner.
pub(super) struct Owner {
    pub(super) control: Arc<Control>,
    pub(super) worker: u32,
    pub(super) events: Sender<WorkerEvent>,
    /// Steers of the control that were read.
    pub(super) steers_read: usize,
}

impl Owner {
    /// Sends an event. The owner outlives its workers; if it does not, the event is dropped.
    pub(super) fn send(&self, event: WorkerEvent) {
        let _ = self.events.send(event);
    }

    /// Returns the steers that were given since the last call.
    pub(super) fn take_steers(&mut self) -> Vec<(u32, Steer)> {
        if self.control.steers_given.load(Ordering::Acquire) == self.steers_read {
            return Vec::new();
        }
        let all = lock(&self.control.steers);
        let steers = all.get(self.steers_read..).unwrap_or_default().to_vec();
        self.steers_read += steers.len();
        steers
    }
}
