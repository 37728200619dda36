//! A load generator with limits of its own.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use fastrand::Rng;

use plimsoll_model::Nanos;

/// The generator of the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Generator {
    /// Operations per second that its one thread can send.
    pub capacity_per_s: f64,
    /// Connections, each with one operation at a time; at least 1.
    pub connections: usize,
    /// Fraction of trials in which the generator is descheduled once, 0 to 1.
    pub pauses_share: f64,
    /// For how long.
    pub pause: Nanos,
    /// Operations per second that ever come due, whatever the plan says.
    pub offers_per_s_max: f64,
    /// Fraction of its core that another process takes, 0 to 1.
    pub rival: f64,
    /// Operations per second that find a source port; the others fail here.
    pub ports_per_s_max: f64,
    /// `true` if a split test can be made: twice the threads are twice the capacity.
    pub splits: bool,
}

impl Default for Generator {
    /// Returns a generator that is far faster than any server in these tests.
    fn default() -> Self {
        Self {
            capacity_per_s: 1e6,
            connections: 1_000,
            pauses_share: 0.0,
            pause: Nanos::ZERO,
            offers_per_s_max: f64::INFINITY,
            rival: 0.0,
            ports_per_s_max: f64::INFINITY,
            splits: false,
        }
    }
}

/// The generator in one trial.
pub(crate) struct Sending {
    generator: Generator,
    /// When the thread is free, ns.
    free: u64,
    /// When each operation in flight gives its connection back, ns.
    in_flight: BinaryHeap<Reverse<u64>>,
    pause: Option<(u64, u64)>,
    pub(crate) waits: u64,
}

/// When an operation could be sent, and when it was, ns.
pub(crate) struct Sent {
    pub(crate) ready: u64,
    pub(crate) at: u64,
}

impl Sending {
    pub(crate) fn new(generator: Generator, duration: Nanos, rng: &mut Rng) -> Self {
        let pause = (rng.f64() < generator.pauses_share).then(|| {
            let at = rng.u64(0..duration.0.max(1));
            (at, at + generator.pause.0)
        });
        Self { generator, free: 0, in_flight: BinaryHeap::new(), pause, waits: 0 }
    }

    /// Sends the operation that is due at `intended`, or gives up when no connection is free
    /// before `give_up`.
    pub(crate) fn send(&mut self, intended: u64, give_up: u64) -> Option<Sent> {
        let mut ready = intended;
        if self.in_flight.len() >= self.generator.connections.max(1) {
            let Reverse(freed) = self.in_flight.peek().copied().unwrap_or_default();
            if freed > give_up {
                self.waits += 1;
                return None;
            }
            self.in_flight.pop();
            self.waits += u64::from(freed > intended);
            ready = intended.max(freed);
        }
        let mut at = ready.max(self.free);
        if let Some((from, to)) = self.pause
            && (from..to).contains(&at)
        {
            at = to;
        }
        self.free = at + (1e9 / self.generator.capacity_per_s) as u64;
        Some(Sent { ready, at: self.free })
    }

    /// Records that the operation just sent ends at `end`.
    pub(crate) fn handle_end(&mut self, end: u64) {
        self.in_flight.push(Reverse(end));
    }
}
