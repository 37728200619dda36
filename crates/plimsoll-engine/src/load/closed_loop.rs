//! The closed loop: each connection begins its next operation when the last one has ended.

use plimsoll_model::Nanos;

use super::conn::Op;
use super::worker::Worker;

impl Worker {
    /// Counts and returns the operation that the closed loop may start next towards `destination`; `None` if it may
    /// not.
    pub(super) fn take_closed_op(&mut self, destination: u32, now: Nanos) -> Option<Op> {
        let closed = self.demand.closed().filter(|closed| closed.ops_left > 0)?;
        if !self.phases.may_start(now) {
            return None;
        }
        closed.ops_left -= 1;
        self.meter.tally().scheduled += 1;
        let target = self.requests.take_for(destination);
        let is_recorded = self.meter.rows.choose();
        Some(Op { intended: now, target, is_recorded, again: 0 })
    }

    /// Gives every idle connection an operation and opens the missing ones.
    pub(super) fn fill_closed_loop(&mut self, now: Nanos) {
        for destination in 0..self.plan.destinations.len() as u32 {
            while let Some(index) = self.take_idle(destination, now) {
                if !self.continue_closed_loop(index, now) {
                    return;
                }
            }
            self.reopen_closed_loop(destination, now);
        }
        self.feed_starved(now);
    }

    /// Starts the next operation of a connection whose last one has ended; `false` if there is none.
    pub(super) fn continue_closed_loop(&mut self, index: u32, now: Nanos) -> bool {
        let destination = self.conns[index].destination;
        let Some(op) = self.take_closed_op(destination, now) else { return false };
        self.send_op(index, op, now, now);
        true
    }

    /// Opens what is missing of a closed loop's connections.
    pub(super) fn reopen_closed_loop(&mut self, destination: u32, now: Nanos) {
        while let Some(closed) = self.demand.closed()
            && self.pools.of(destination).has_room()
        {
            let ops_left = closed.ops_left;
            if self.pools.must_pause(destination, now) {
                return;
            }
            if self.plan.keepalive {
                if ops_left == 0 || !self.phases.may_start(now) {
                    return;
                }
                self.open(destination, None, now);
            } else {
                let Some(op) = self.take_closed_op(destination, now) else { return };
                // It was due when there was room for it.
                self.meter.tally().spans.send_lag.record(Nanos::ZERO);
                self.open(destination, Some((op, now)), now);
            }
        }
    }

    /// Counts the part of an operation that lies after the end of the window. A rest after the operation belongs to
    /// it: the connection starts the next one behind both.
    pub(super) fn count_after_window(&mut self, index: u32, is_ok: bool, now: Nanos) {
        let window_ends = self.phases.window_ends;
        let ends = now + self.requests.rest;
        if ends > window_ends && self.demand.is_closed() {
            // A sleep of the script moves the intended start: see `begin_sleep`.
            let slept = self.conns.slab.script(index).map_or(Nanos::ZERO, |script| script.slept());
            let began = Nanos(self.conns[index].intended.0 - slept.0);
            self.meter.tally().after_window.count(is_ok, began, ends, window_ends);
        }
    }
}
