//! The closed loop: each connection begins its next operation when the last one has ended.

use plimsoll_model::Nanos;

use super::conn::Op;
use super::worker::{Phase, Worker};

impl Worker {
    /// Whether the closed loop may start another operation; counts it if so.
    pub(super) fn take_closed_op(&mut self, now: Nanos) -> Option<Op> {
        if self.phase != Phase::Running || now >= self.window_ends || self.ops_left == 0 {
            return None;
        }
        self.ops_left -= 1;
        self.meter.tally.tally.scheduled += 1;
        Some(Op { intended: now, target: self.take_target() })
    }

    /// Gives every idle connection an operation and opens the missing ones.
    pub(super) fn fill_closed_loop(&mut self, now: Nanos) {
        for destination in 0..self.pools.len() as u32 {
            while let Some(index) = self.take_idle(destination) {
                if !self.continue_closed_loop(index, now) {
                    return;
                }
            }
            self.reopen_closed_loop(destination, now);
        }
    }

    /// The next operation of a connection whose last one has ended; false when there is none.
    pub(super) fn continue_closed_loop(&mut self, index: u32, now: Nanos) -> bool {
        let destination = self.slab.hot[index as usize].destination;
        let Some(mut op) = self.take_closed_op(now) else { return false };
        op.target = self.target_of(destination, op.target);
        self.send_op(index, op, now, now);
        true
    }

    pub(super) const fn is_closed_loop(&self) -> bool {
        self.schedule.is_none() && self.hold.is_none()
    }

    /// Opens what is missing of a closed loop's connections.
    pub(super) fn reopen_closed_loop(&mut self, destination: u32, now: Nanos) {
        if !self.is_closed_loop() {
            return;
        }
        while self.pools[destination as usize].has_room() {
            if now < self.backoff_until {
                self.next_due = Some(self.backoff_until);
                return;
            }
            if self.plan.keepalive {
                if self.ops_left == 0 || self.phase != Phase::Running || now >= self.window_ends {
                    return;
                }
                self.open(destination, None, now);
            } else {
                let Some(mut op) = self.take_closed_op(now) else { return };
                op.target = self.target_of(destination, op.target);
                self.open(destination, Some(op), now);
            }
        }
    }

    /// `proposed` if it goes to `destination`, else the next target that does.
    pub(super) fn target_of(&self, destination: u32, proposed: u32) -> u32 {
        let targets = self.prepared.len() as u32;
        (0..targets)
            .map(|step| (proposed + step) % targets)
            .find(|target| self.prepared[*target as usize].destination == destination)
            .unwrap_or(proposed)
    }
}
