//! The connections of one worker: their slots, their timers, and the parts that they borrow.
//!
//! [`Connections`] joins the slab, the timer wheel and a stock of spare [`Active`] parts.
//! [`Connections::take_active`] lends parts to a connection and [`Connections::settle`] takes them back once nothing
//! would be lost; at most [`SPARE_MAX`] are kept. `armed <= deadline` always holds, so a deadline moves to a later
//! time without the wheel, and [`Connections::poll_expired`] arms the timer again. Start reading at
//! [`Connections::set_deadline`].

use plimsoll_model::Nanos;
use plimsoll_sys::clock;

use super::conn::{Active, HTTP2, Phase, Slab};
use crate::pump::Unsent;
use crate::wheel::Wheel;

/// Active parts kept for reuse; those beyond it are freed.
const SPARE_MAX: usize = 256;
/// A buffer that has grown past this is not kept for reuse.
const SPARE_BUFFER_BYTES_MAX: usize = 16 * 1024;

pub(super) struct Connections<N> {
    pub(super) slab: Slab<N>,
    wheel: Wheel,
    spare: Vec<Box<Active<N>>>,
    /// Memory of messages in all active parts.
    pub(super) kept_bytes: usize,
    /// The time of the current event or timer.
    pub(super) now: Nanos,
}

impl<N: Default> Connections<N> {
    pub(super) fn new(now: Nanos) -> Self {
        let (slab, wheel) = (Slab::new(), Wheel::new(now));
        Self { slab, wheel, spare: Vec::new(), kept_bytes: 0, now }
    }

    pub(super) fn read_clock(&mut self) {
        self.now = Nanos(clock::monotonic_ns());
    }

    // ---- timers

    /// Ends the connection's phase after `span`, unless something else does before.
    pub(super) fn set_deadline(&mut self, index: u32, span: Nanos) {
        let conn = &mut self.slab[index];
        conn.deadline = self.now + span;
        if conn.deadline < conn.armed {
            conn.armed = conn.deadline;
            self.wheel.arm(index, conn.deadline);
        }
    }

    /// Returns a connection whose deadline has passed, of those that were due at `until`.
    pub(super) fn poll_expired(&mut self, until: Nanos) -> Option<u32> {
        while let Some(index) = self.wheel.poll_expired(until) {
            let conn = &mut self.slab[index];
            conn.armed = Nanos::MAX;
            if conn.deadline <= self.now {
                return Some(index);
            }
            conn.armed = conn.deadline;
            self.wheel.arm(index, conn.deadline);
        }
        None
    }

    /// Returns the earliest time at which a deadline may pass.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        self.wheel.poll_timeout()
    }

    pub(super) fn renew_wheel(&mut self) {
        if !self.wheel.is_old(self.now) {
            return;
        }
        self.wheel = Wheel::new(self.now);
        for index in self.slab.indices() {
            let conn = &mut self.slab[index];
            if conn.phase != Phase::Free {
                conn.armed = conn.deadline;
                self.wheel.arm(index, conn.deadline);
            }
        }
    }

    // ---- parts

    pub(super) fn take_active(&mut self, index: u32) -> Box<Active<N>> {
        match self.slab[index].active.take() {
            Some(active) => active,
            None => {
                let mut active = self.spare.pop().unwrap_or_default();
                if let Some(rest) = self.slab.take_http2(index) {
                    active.http2.get_or_insert_default().resume(rest);
                }
                active
            }
        }
    }

    /// Takes what the kernel did not take earlier.
    pub(super) fn take_unsent(&mut self, index: u32) -> Unsent {
        let active = self.slab[index].active.as_mut();
        active.map(|active| std::mem::take(&mut active.unsent)).unwrap_or_default()
    }

    pub(super) fn keep_unsent(&mut self, index: u32, unsent: Unsent) {
        if !unsent.is_empty() {
            let mut active = self.take_active(index);
            active.unsent = unsent;
            self.slab[index].active = Some(active);
        }
    }

    /// Gives back the buffers of a connection that holds nothing in them.
    pub(super) fn settle(&mut self, index: u32) {
        let conn = &mut self.slab[index];
        if conn.active.as_ref().is_some_and(|active| active.is_spare())
            && let Some(mut active) = conn.active.take()
        {
            if conn.flags.has(HTTP2)
                && let Some(server) = &mut active.http2
            {
                self.slab.keep_http2(index, server.leave());
            }
            self.put_back(active);
        }
    }

    /// Counts the memory of messages in these parts anew.
    pub(super) fn count_kept(&mut self, active: &mut Active<N>) {
        let kept_bytes = active.kept_bytes();
        self.kept_bytes = self.kept_bytes + kept_bytes - active.counted_bytes;
        active.counted_bytes = kept_bytes;
    }

    fn put_back(&mut self, mut active: Box<Active<N>>) {
        self.kept_bytes -= std::mem::take(&mut active.counted_bytes);
        if self.spare.len() >= SPARE_MAX {
            return;
        }
        if !active.is_spare() {
            *active = Active::default();
        }
        for buffer in [&mut active.stash, &mut active.delayed] {
            if buffer.capacity() > SPARE_BUFFER_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
        active.notes = N::default();
        self.spare.push(active);
    }

    /// Closes the socket and frees the slot.
    pub(super) fn remove(&mut self, index: u32) {
        self.wheel.cancel(index);
        if let Some(active) = self.slab.remove(index) {
            self.put_back(active);
        }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_sys::socket::{ListenSocket, Socket};

    use super::*;

    const BEGIN: Nanos = Nanos::from_secs(1_000);

    /// One sleeping connection.
    fn sleeping() -> (Connections<()>, ListenSocket, u32) {
        let mut conns = Connections::new(BEGIN);
        let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 1).unwrap();
        let (socket, _) = Socket::connect(listener.local_address().unwrap(), None).unwrap();
        let index = conns.slab.insert(socket, None);
        conns.slab[index].phase = Phase::Sleeping;
        (conns, listener, index)
    }

    #[test]
    fn a_deadline_that_is_pushed_back_is_not_met_early() {
        let (mut conns, _listener, index) = sleeping();
        conns.set_deadline(index, Nanos::from_secs(10));
        conns.set_deadline(index, Nanos::from_secs(30));
        conns.now = BEGIN + Nanos::from_secs(29);
        assert_eq!(conns.poll_expired(conns.now), None);
        conns.now = BEGIN + Nanos::from_secs(31);
        assert_eq!(conns.poll_expired(conns.now), Some(index));
    }

    #[test]
    fn timers_live_on_when_the_wheel_is_renewed() {
        let (mut conns, _listener, index) = sleeping();
        // Longer than one wheel can count, in days.
        for day in 1..6 {
            conns.set_deadline(index, Nanos::from_secs(23 * 3600));
            conns.now = BEGIN + Nanos::from_secs(day * 22 * 3600);
            assert_eq!(conns.poll_expired(conns.now), None, "day {day}");
            conns.renew_wheel();
        }
        assert!(!conns.wheel.is_old(BEGIN + Nanos::from_secs(110 * 3600)));
        conns.now = conns.now + Nanos::from_secs(2 * 3600);
        assert_eq!(conns.poll_expired(conns.now), Some(index));
    }
}
