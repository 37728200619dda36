//! Opening and closing of connections: TCP, then TLS if the destination uses it.
//!
//! [`Worker::open`] starts a connection; [`Worker::handle_connected`], [`Worker::handle_established`] and
//! [`Worker::handle_usable`] follow it through TCP, TLS and the greeting of its protocol. [`Worker::fail_opening`]
//! ends a failed attempt, and in most loads one operation with it. [`Worker::close`] frees the slot and its place in
//! the pool. A load of more than 10,000 connections (without sessions) resets them at its end, to leave no TIME_WAIT.
//! Start reading at [`Worker::open`].

use plimsoll_model::row::RowEnd;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::conversation::Greeting;
use plimsoll_sys::socket::FirstBytes;
use plimsoll_tls::HandshakeKind;

use super::classify::opening_error;
use super::conn::{Op, Peer, Purpose, State};
use super::demand::Demand;
use super::origin::OriginError;
use super::phases::Phase;
use super::reasons::Why;
use super::stamps::us;
use super::transport::Transport;
use super::worker::Worker;

/// Up to this many connections are closed by FIN when the load ends. If there are more, they are reset: their sockets
/// in TIME_WAIT would take the ports of the next run for a minute.
const CLOSE_BY_FIN_MAX: u64 = 10_000;

impl Worker {
    /// Begins a connection, if the load keeps none alive for an operation, which has had a place
    /// in the pool since the instant beside it.
    pub(super) fn open(&mut self, destination: u32, op: Option<(Op, Nanos)>, now: Nanos) {
        let (op, free_since) = op.unzip();
        debug_assert!(
            self.demand.is_hold() || self.pools.of(destination).has_room(),
            "a pool has more connections than its cap"
        );
        self.pools.begin_opening(destination);
        let first_bytes = self.first_bytes(destination, op.is_some());
        let begun = self.conns.begin(&self.plan, destination, first_bytes, now);
        let (index, is_established) = match begun {
            Ok(begun) => begun,
            Err(error) => return self.fail_unopened(destination, op, &error, now),
        };
        let (ops_total, purpose) = (self.age_of_next_prewarmed(), self.demand.purpose());
        let hot = &mut self.conns[index];
        (hot.ops_total, hot.purpose) = (ops_total, purpose);
        self.note_storm_attempt(index, now);
        let is_reused = self.plan.keepalive || self.plan.session.is_some();
        if is_reused || self.meter.stamps.samples(index, &self.conns[index], 0) {
            self.conns.ask_for_stamps(index);
        }
        if let Some(op) = op {
            let free_since = free_since.unwrap_or(now);
            self.meter.stamps.count_sent(index, &self.conns[index], op.intended, free_since, now);
            self.attach_op(index, op);
        }
        self.conns.arm(index, now + self.plan.timeouts.connect);
        if is_established {
            self.handle_connected(index, Transport::now());
        }
    }

    /// A plaintext handshake-only operation would end, and begin the next one, inside the call that
    /// opens it; and a silent connection sends nothing.
    fn first_bytes(&self, destination: u32, has_op: bool) -> FirstBytes {
        let over_tls = self.plan.destinations[destination as usize].tls.is_some();
        let introduces = self.plan.proxy.is_some() && !self.plan.handshake_only;
        let sends = over_tls || introduces || self.sends_first(has_op);
        if sends { FirstBytes::AtOnce } else { FirstBytes::Later }
    }

    /// Reports whether something leaves as soon as TCP, and TLS, are established.
    fn sends_first(&self, has_op: bool) -> bool {
        self.has_greeting() || (has_op && !self.plan.handshake_only)
    }

    /// Reports whether a connection begins with a message of the client that the server has to answer.
    fn has_greeting(&self) -> bool {
        match self.protocol.greeting {
            Greeting::Never => false,
            Greeting::Always => true,
            Greeting::Scripted => {
                self.plan.script().is_some_and(|script| !script.opening.is_empty())
            }
        }
    }

    /// Operations that a connection opened now counts as already done. Connections that are opened
    /// together and replaced after as many operations each would be replaced together, a burst of
    /// handshakes that no users make.
    fn age_of_next_prewarmed(&self) -> u32 {
        let Some(life) = self.plan.requests_per_connection else { return 0 };
        if !self.plan.staggered || !self.phases.is(Phase::Prewarming) {
            return 0;
        }
        let pool: u64 = self.pools.all.iter().map(|pool| u64::from(pool.cap)).sum();
        let nth = self.conns.slab.len() as u64 % pool.max(1);
        u32::try_from(nth * life / pool.max(1)).unwrap_or(0)
    }

    fn fail_unopened(&mut self, destination: u32, op: Option<Op>, error: &OriginError, now: Nanos) {
        self.pools.close(destination, false);
        self.meter.note_unattached(error.class(), error.reason(), now);
        if self.demand.purpose() != Purpose::Storm {
            self.handle_open_failure(destination, op, error.class(), error, now);
        }
        self.handle_attempt_failed(self.demand.purpose(), None, error.class(), now);
    }

    /// Handles a connection that could not be opened, or was lost while opening, for `class`.
    pub(super) fn handle_open_failure(
        &mut self,
        destination: u32,
        op: Option<Op>,
        class: ErrorClass,
        why: &dyn Why,
        now: Nanos,
    ) {
        self.meter.count_failed_attempt(class);
        if self.phases.is(Phase::Prewarming) {
            return self.pools.prewarm.count_failure(destination, class, why);
        }
        let failed_op = match &self.demand {
            Demand::Hold(_) => None,
            Demand::Closed(_) => {
                self.pools.of(destination).note_futile(now);
                op.or_else(|| self.take_closed_op(destination, now))
            }
            // The attempt was made for the operation at the head of the queue.
            Demand::Open(_) => op.or_else(|| self.pools.take_waiting(destination)),
        };
        if let Some(op) = failed_op {
            self.meter.count_error(class);
            self.meter.record_unattached(op, RowEnd::Failed(class), now);
        }
    }

    /// Handles an established TCP connection.
    pub(super) fn handle_connected(&mut self, index: u32, now: Nanos) {
        let hot = &mut self.conns[index];
        hot.offset_us = us(now.since(hot.since));
        if self.plan.proxy.is_some() && !self.introduce(index, now) {
            return;
        }
        let hot = &mut self.conns[index];
        let Some(name) = &self.plan.destinations[hot.destination as usize].tls else {
            return self.handle_established(index, now);
        };
        hot.state = State::Handshaking;
        match self.conns.begin_tls(index, name) {
            Ok(()) => self.transmit_tls(index, now),
            Err(error) => self.fail_opening(index, ErrorClass::TlsHandshake, &error, now),
        }
    }

    /// The header of the PROXY protocol is to leave with what is sent first; where nothing will be, it is
    /// sent now. Returns whether the connection is still there.
    fn introduce(&mut self, index: u32, now: Nanos) -> bool {
        let generation = self.conns[index].generation;
        let header = match self.proxy_headers.next(&self.plan, &self.conns, index) {
            Ok(header) => header,
            Err(errno) => {
                self.fail_opening(index, opening_error(errno), &errno, now);
                return false;
            }
        };
        let hot = &self.conns[index];
        let is_plain = self.plan.destinations[hot.destination as usize].tls.is_none();
        if is_plain && !self.sends_first(hot.has_op) {
            let sent = self.conns.send_aside(index, &header);
            self.handle_sent(index, sent, now);
        } else {
            self.conns.put_first(index, &header);
        }
        self.conns[index].generation == generation
    }

    /// Handles a connection on which TCP, and TLS if the destination uses it, are established.
    pub(super) fn handle_established(&mut self, index: u32, now: Nanos) {
        let handshake = self.conns.slab.tls.get(index).and_then(|session| session.handshake());
        let hot = &mut self.conns[index];
        let tally = self.meter.tally();
        let connect = hot.offset();
        tally.spans.connect.record(connect);
        if let Some(handshake) = handshake {
            tally.spans.tls.record(now.since(hot.since + connect));
            match handshake.kind {
                HandshakeKind::Full => {
                    tally.handshakes.full += 1;
                    tally.handshakes.rsa += u64::from(handshake.is_rsa);
                }
                HandshakeKind::Resumed => tally.handshakes.resumed += 1,
            }
        }
        if self.protocol.needs_alpn && handshake.is_some_and(|handshake| !handshake.is_http2) {
            let refusal = "the server did not choose HTTP/2 by ALPN";
            self.fail_opening(index, ErrorClass::AlpnMismatch, &refusal, now);
        } else if self.has_greeting() {
            self.begin_greeting(index, now);
        } else {
            self.handle_usable(index, now);
        }
    }

    /// Handles a connection that can carry operations.
    pub(super) fn handle_usable(&mut self, index: u32, now: Nanos) {
        self.conns.disarm(index);
        self.conns.slab.note_usable(index, now);
        self.note_allowed(index, now);
        let hot = &mut self.conns[index];
        hot.state = State::Idle;
        let tally = self.meter.tally();
        self.pools.hold(hot.destination);
        tally.connections.opened += 1;
        tally.connections.held_max = tally.connections.held_max.max(self.pools.held);
        if self.phases.is(Phase::Prewarming) {
            self.pools.prewarm.opened += 1;
        }
        if !hot.has_op {
            self.handle_free(index, now);
        } else if self.plan.handshake_only {
            self.finish_handshake(index, now);
        } else {
            self.begin_request(index, now);
            self.conns.acknowledge_at_once(index);
        }
    }

    /// Ends a connection that failed before it was usable.
    pub(super) fn fail_opening(
        &mut self,
        index: u32,
        class: ErrorClass,
        why: &dyn Why,
        now: Nanos,
    ) {
        self.meter.count_failed_opening(&self.conns[index], class, now);
        let is_in_storm = self.conns[index].is_in_storm();
        // The storm counts the attempts that its clients give up.
        if !(class == ErrorClass::Timeout && is_in_storm) {
            self.meter.note_failed_opening(&self.conns, index, class, why, now);
        }
        let hot = &mut self.conns[index];
        let (destination, purpose) = (hot.destination, hot.purpose);
        let is_recorded = self.meter.rows.records(index);
        let (intended, target) = (hot.intended, hot.target);
        let op = hot.has_op.then_some(Op { intended, target, is_recorded, again: 0 });
        let was_handshaking = hot.state == State::Handshaking;
        if op.is_some() {
            self.end_op(index, false, now);
        }
        if was_handshaking {
            self.meter.tally().handshakes.failed += 1;
        }
        if is_in_storm {
            self.count_sent_in_vain(index, class);
        }
        self.close(index, false);
        if !is_in_storm {
            self.handle_open_failure(destination, op, class, why, now);
        }
        self.handle_attempt_failed(purpose, Some(index), class, now);
        self.open_for_waiting(destination, now);
    }

    /// Closes the connection. `reset` sends a RST and leaves no TIME_WAIT.
    pub(super) fn close(&mut self, index: u32, reset: bool) {
        let hot = &self.conns[index];
        let is_held = matches!(hot.state, State::Idle | State::Busy | State::Closing);
        if !self.is_listener(index) {
            self.pools.close(hot.destination, is_held);
        }
        self.keep_alive.forget(index);
        if !reset && is_held && self.protocol.reads_before_closing {
            if hot.peer == Peer::Open && !hot.has_op {
                self.take_leave(index);
            }
            self.conns.discard_unread(index);
        }
        self.conns.close(index, reset);
    }

    /// Says that the client ends the connection, in its protocol's words. Best effort: the server may
    /// have closed already.
    fn take_leave(&mut self, index: u32) {
        let mut words = Vec::new();
        (self.protocol.farewell)(&mut words);
        self.conns.send_aside(index, &words);
    }

    /// Makes `op` the current operation of the connection.
    pub(super) fn attach_op(&mut self, index: u32, op: Op) {
        let hot = &mut self.conns[index];
        hot.has_op = true;
        (hot.intended, hot.target) = (op.intended, op.target);
        self.meter.rows.attach(index, op.is_recorded);
        self.pools.in_flight += 1;
    }

    /// Ends the current operation, well or not.
    pub(super) fn end_op(&mut self, index: u32, is_ok: bool, now: Nanos) {
        self.count_after_window(index, is_ok, now);
        self.detach_op(index);
    }

    /// Removes the operation from the connection.
    pub(super) fn detach_op(&mut self, index: u32) {
        self.conns[index].has_op = false;
        self.pools.in_flight -= 1;
    }

    /// Closes every connection, by FIN or by RST according to their number.
    pub(super) fn close_all(&mut self) {
        let reset = self.plan.connections > CLOSE_BY_FIN_MAX && self.plan.session.is_none();
        for index in 0..self.conns.slab.len() as u32 {
            if self.conns[index].state != State::Free {
                self.close(index, reset);
            }
        }
    }
}
