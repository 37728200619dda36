//! Handshake-only loads: an operation is a connection, and ends well once that is usable.
//!
//! The connection is closed at once, by close_notify and FIN as users close theirs. That leaves a
//! port in TIME_WAIT for 60 s on this side, so if the plan would run out of ports it is reset
//! instead. A reset may overtake what the server still does for the handshake (checking Finished,
//! sending tickets), so it is the exception.
//!
//! If connections resume, the next ones need this one's tickets. In TLS 1.3 they come after the
//! handshake: the operation ends with the handshake, its connection when they are here.

use plimsoll_model::Nanos;
use plimsoll_model::row::RowEnd;

use super::conn::State;
use super::worker::Worker;

/// Time for which tickets are waited for. A server that sends any does so as soon as it has the client's
/// Finished; the store takes what comes later from other connections.
const TICKET_WAIT: Nanos = Nanos::from_millis(500);

impl Worker {
    /// Ends an operation that asked only for the connection.
    pub(super) fn finish_handshake(&mut self, index: u32, now: Nanos) {
        let hot = &self.conns[index];
        let (destination, intended, sent) = (hot.destination, hot.intended, hot.since);
        self.detach_op(index);
        // Without TLS nothing arrives that could carry a stamp.
        let is_tls = self.conns.slab.tls.has(index);
        let stamped =
            if is_tls { self.meter.take_stamped(index, &self.conns[index], now) } else { None };
        self.meter.count_ok(
            now.since(intended),
            now.since(sent),
            stamped,
            self.plan.timeouts.deadline,
        );
        self.meter.record(&self.conns, index, RowEnd::Ok, 0, 0, now);
        let handshake = self.conns.slab.tls.get(index).and_then(|session| session.handshake());
        // In TLS 1.2 the ticket is part of the handshake.
        let tickets_follow = handshake.is_some_and(|handshake| handshake.is_tls13);
        if self.waits_for_tickets() && tickets_follow {
            self.conns[index].since = now;
            return self.conns.arm(index, now + TICKET_WAIT);
        }
        self.end_handshake(index, destination, now);
    }

    fn waits_for_tickets(&self) -> bool {
        self.plan.handshake_only && self.plan.tls.resume_ratio > 0.0
    }

    /// Returns the time at which the wait for tickets on an idle connection ends; `None` if there is no such wait.
    pub(super) fn tickets_due(&self, index: u32) -> Option<Nanos> {
        let since = self.conns[index].since;
        self.waits_for_tickets().then(|| since + TICKET_WAIT)
    }

    /// Handles bytes after the handshake, or the end of the wait for them, for which the connection was kept.
    pub(super) fn handle_tickets(&mut self, index: u32, now: Nanos) {
        let hot = &self.conns[index];
        if self.waits_for_tickets() && hot.state == State::Idle && !hot.has_op {
            self.end_handshake(index, hot.destination, now);
        }
    }

    fn end_handshake(&mut self, index: u32, destination: u32, now: Nanos) {
        self.close(index, self.resets_handshakes);
        self.open_for_waiting(destination, now);
        self.reopen_closed_loop(destination, now);
    }
}
