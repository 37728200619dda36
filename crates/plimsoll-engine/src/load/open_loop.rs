//! The open loop: operations are sent when they are due, on whatever connection is free.

use plimsoll_model::Nanos;
use plimsoll_model::row::RowEnd;

use super::conn::{Op, State};
use super::phases::Phase;
use super::transport::Transport;
use super::worker::Worker;

impl Worker {
    pub(super) fn advance_schedule(&mut self) {
        let epoch = self.phases.epoch;
        let next = self.demand.open().and_then(|open| open.schedule.next());
        self.phases.next_due = next.map(|at| epoch + at);
    }

    /// Starts every operation of the schedule whose time has come.
    pub(super) fn start_scheduled(&mut self, mut now: Nanos) {
        while let Some(due) = self.phases.next_due.filter(|due| *due <= now) {
            let target = self.requests.take();
            let is_recorded = self.meter.rows.choose();
            let op = Op { intended: due, target, is_recorded, again: 0 };
            let epoch = self.phases.epoch;
            let tally = self.meter.tally();
            tally.scheduled += 1;
            if let Some(open) = self.demand.open() {
                open.starts.count(due.since(epoch), now.since(epoch), &mut tally.starts);
            }
            self.start_op(op, now);
            self.advance_schedule();
            if self.phases.is_due(now) {
                // Starting takes time, by which the next one of a backlog is later still.
                now = Transport::now();
            }
        }
    }

    fn start_op(&mut self, op: Op, now: Nanos) {
        let destination = self.requests.get(op.target).destination;
        let pool = self.pools.of(destination);
        if !self.plan.keepalive {
            if pool.has_room() && !pool.is_awaited() {
                self.meter.tally().spans.send_lag.record(now.since(op.intended));
                self.open(destination, Some((op, op.intended)), now);
                return;
            }
        } else if !pool.is_awaited()
            && let Some(index) = self.take_idle(destination, now)
        {
            let free_since = self.conns[index].since;
            self.send_op(index, op, free_since, now);
            return;
        }
        self.wait_for_connection(destination, op, now);
    }

    /// Takes the idle connection whose turn it is.
    pub(super) fn take_idle(&mut self, destination: u32, now: Nanos) -> Option<u32> {
        while let Some(token) = self.pools.of(destination).idle.pop_front() {
            if let Some(index) = self.conns.slab.index_of(token)
                && self.leave_ring(index)
                && self.read_unrequested(index, now)
            {
                debug_assert_eq!(self.conns[index].state, State::Idle);
                return Some(index);
            }
        }
        None
    }

    fn wait_for_connection(&mut self, destination: u32, op: Op, now: Nanos) {
        if !self.pools.push_waiting(destination, op) {
            self.meter.tally().unsent += 1;
            self.meter.record_unattached(op, RowEnd::Unsent, now);
        } else if self.pools.of(destination).has_room() {
            self.open_for_waiting(destination, now);
        } else {
            self.meter.tally().pool_exhausted += 1;
        }
    }

    /// Opens connections for operations that wait without one coming.
    pub(super) fn open_for_waiting(&mut self, destination: u32, now: Nanos) {
        loop {
            let pool = self.pools.of(destination);
            if !pool.has_room() || !pool.is_awaited() {
                return;
            }
            if self.plan.keepalive {
                if !pool.lacks_openings() || self.pools.must_pause(destination, now) {
                    return;
                }
                self.pools.of(destination).note_attempt(now);
                self.open(destination, None, now);
            } else if let Some(op) = self.pools.take_waiting(destination) {
                // It waited for a place in the pool, not for us.
                self.meter.tally().spans.send_lag.record(Nanos::ZERO);
                self.open(destination, Some((op, now)), now);
            }
        }
    }

    /// Replaces a connection of a warm pool that ended with an answer. Left to demand, the pool
    /// would drain to nothing and then be opened at once, again and again. Connections that end
    /// otherwise are replaced on demand only, with pauses between futile attempts ([`super::pool`]).
    pub(super) fn keep_pool_full(&mut self, destination: u32, now: Nanos) {
        let open_loop = self.demand.is_open() && self.phases.is(Phase::Running);
        if open_loop
            && self.plan.keepalive
            && self.plan.prewarm
            && self.pools.of(destination).has_room()
        {
            self.open(destination, None, now);
        }
    }
}
