//! Pauses between attempts to connect to a server that ends connections before it answers on them.
//!
//! An open loop whose operations wait for a connection, and a closed loop whose connections are missing, would
//! otherwise open the next one at once, thousands per second. Openings for one operation each, in an open loop without
//! keep-alive, do not pause: the schedule bounds them.

use plimsoll_model::{ErrorClass, Nanos};

use super::conn::State;
use super::worker::Worker;

/// A server that ends a connection within this time, before it has answered on it, counts as having refused it.
const AT_ONCE_MS: u32 = 100;

impl Worker {
    /// Opens missing connections to all destinations once the pause of one has ended.
    pub(super) fn retry_openings(&mut self, now: Nanos) {
        if now < self.pools.retry_due {
            return;
        }
        self.pools.retry_due = Nanos::MAX;
        for destination in 0..self.plan.destinations.len() as u32 {
            self.open_for_waiting(destination, now);
            self.reopen_closed_loop(destination, now);
        }
    }

    /// Notes that a usable connection ends for `class`; streams on it are still open.
    pub(super) fn note_loss(&mut self, index: u32, class: ErrorClass, now: Nanos) {
        let is_by_peer = matches!(
            class,
            ErrorClass::ClosedByPeer
                | ErrorClass::ResetByPeer
                | ErrorClass::TlsAlert
                | ErrorClass::WsClosed
                | ErrorClass::MqttDisconnected
                | ErrorClass::H2Goaway
        );
        let hot = &self.conns[index];
        if hot.reused || !is_by_peer || self.demand.is_hold() {
            return;
        }
        let (destination, is_idle) = (hot.destination, hot.state == State::Idle);
        let is_at_once = self.conns.slab.age_ms(index, now) < AT_ONCE_MS;
        self.meter.tally().connections.closed_at_once += u64::from(is_at_once);
        // In an open loop an operation that failed with its connection was itself an attempt.
        if self.demand.is_closed() || (is_idle && is_at_once) {
            self.pools.of(destination).note_futile(now);
        }
    }
}
