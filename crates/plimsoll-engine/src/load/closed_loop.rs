//! The closed loop: each connection begins its next operation when the last one has ended.

use plimsoll_model::Nanos;

use super::conn::Op;
use super::phases::Phase;
use super::worker::Worker;

/// After a failed attempt a closed loop waits this long, or it would spin on a dead server.
const BACKOFF: Nanos = Nanos::from_millis(50);

impl Worker {
    /// The operation that the closed loop may start next towards `destination`, counted; `None`
    /// where it may not.
    pub(super) fn take_closed_op(&mut self, destination: u32, now: Nanos) -> Option<Op> {
        let closed = self.demand.closed().filter(|closed| closed.ops_left > 0)?;
        if !self.phases.may_start(now) {
            return None;
        }
        closed.ops_left -= 1;
        self.meter.tally().scheduled += 1;
        let target = self.requests.take_for(destination);
        let is_recorded = self.rows.choose();
        Some(Op { intended: now, target, is_recorded, again: 0 })
    }

    /// Gives every idle connection an operation and opens the missing ones.
    pub(super) fn fill_closed_loop(&mut self, now: Nanos) {
        for destination in 0..self.plan.destinations.len() as u32 {
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
            if now < closed.backoff_until {
                self.next_due = Some(closed.backoff_until);
                return;
            }
            if self.plan.keepalive {
                if closed.ops_left == 0 || !self.phases.may_start(now) {
                    return;
                }
                self.open(destination, None, now);
            } else {
                let Some(op) = self.take_closed_op(destination, now) else { return };
                self.open(destination, Some((op, now)), now);
            }
        }
    }

    /// A connection could not be opened: its operation fails, or where it had none the loop's next one.
    pub(super) fn fail_closed_op(
        &mut self,
        destination: u32,
        op: Option<Op>,
        now: Nanos,
    ) -> Option<Op> {
        if self.phases.is(Phase::Running)
            && let Some(closed) = self.demand.closed()
        {
            closed.backoff_until = now + BACKOFF;
            self.next_due = Some(closed.backoff_until);
        }
        op.or_else(|| self.take_closed_op(destination, now))
    }
}
