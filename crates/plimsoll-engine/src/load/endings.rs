//! Counting how long operations, openings and connections lasted that somebody ended, so that a
//! hidden timer shows. Nothing is counted for what ends well, or by our own will.

use plimsoll_model::ending::{Closer, Stretch};
use plimsoll_model::{ErrorClass, Nanos};

use super::conn::{Peer, State};
use super::worker::Worker;

/// CLOCK_MONOTONIC in ms, wrapping after 49 days.
pub(super) const fn wrapping_ms(now: Nanos) -> u32 {
    (now.0 / 1_000_000) as u32
}

impl Worker {
    /// The current operation, sent at `since`, fails in `class`.
    pub(super) fn count_failed_operation(&mut self, index: u32, class: ErrorClass, now: Nanos) {
        let connection = self.conns.slab.connection_of(index);
        let is_reset = self.conns[connection].peer == Peer::Reset;
        let closer = match class {
            // The class does not say how the connection ended, which a hidden timer is known by.
            ErrorClass::KeepaliveRace if is_reset => Some(Closer::PeerReset),
            class => Closer::of_class(class),
        };
        if let Some(closer) = closer {
            self.count_ending(index, Stretch::Operation, closer, now);
        }
    }

    /// The current operation was answered with a failing `status`.
    pub(super) fn count_failing_answer(&mut self, index: u32, status: u16, now: Nanos) {
        if let Some(closer) = Closer::of_status(status) {
            self.count_ending(index, Stretch::Operation, closer, now);
        }
    }

    /// The connection could not be opened.
    pub(super) fn count_failed_opening(&mut self, index: u32, class: ErrorClass, now: Nanos) {
        if let Some(closer) = Closer::of_class(class) {
            self.count_ending(index, Stretch::Opening, closer, now);
        }
    }

    /// The peer ends a usable connection. Call it while the connection is still in the state in
    /// which the end found it: only an idle one has been idle.
    pub(super) fn count_lifetime(&mut self, index: u32, closer: Closer, now: Nanos) {
        let hot = &self.conns[index];
        let opened_ms = self.conns.slab.cold[index as usize].opened_ms;
        let lasted_ms = wrapping_ms(now).wrapping_sub(opened_ms);
        let lasted = Nanos::from_millis(u64::from(lasted_ms));
        let (ops, is_idle) = (hot.ops_total, hot.state == State::Idle);
        self.meter.tally().endings.record(Stretch::Lifetime, closer, lasted, ops, now);
        if is_idle {
            self.count_ending(index, Stretch::Idle, closer, now);
        }
    }

    /// `since` to now: the operation, the attempt, or the rest of an idle connection.
    fn count_ending(&mut self, index: u32, stretch: Stretch, closer: Closer, now: Nanos) {
        let hot = &self.conns[index];
        let (lasted, ops) = (now.since(hot.since), hot.ops_total);
        self.meter.tally().endings.record(stretch, closer, lasted, ops, now);
    }
}
