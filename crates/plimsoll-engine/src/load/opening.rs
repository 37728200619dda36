//! Opening and closing connections: TCP, then TLS where the destination asks for it.

use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::clock;
use plimsoll_sys::ports::Closed;
use plimsoll_sys::socket::Connecting;
use plimsoll_tls::HandshakeKind;

use super::conn::{ConnHot, Op, Peer, State};
use super::endings::wrapping_ms;
use super::origin::OriginError;
use super::worker::Worker;

/// Up to this many connections are closed by FIN when the load ends. More are reset, because so
/// many sockets in TIME_WAIT would take the ports of the next run for a minute.
const CLOSE_BY_FIN_MAX: u64 = 10_000;

impl Worker {
    /// Begins a connection, for `op` if the load keeps none alive.
    pub(super) fn open(&mut self, destination: u32, op: Option<Op>, now: Nanos) {
        let pool = &mut self.pools[destination as usize];
        pool.open += 1;
        pool.opening += 1;
        let begun = match self.origins.connect(&self.plan.sources, destination, now) {
            Ok(begun) => begun,
            Err(error) => return self.fail_unopened(destination, op, &error, now),
        };
        let index = self.slab.take();
        let token = self.slab.token(index);
        if let Err(errno) = self.poller.add(&begun.socket, token) {
            self.slab.release(index);
            if let Some(lease) = begun.lease {
                self.origins.give_back(lease, Closed::HereFirst, now);
            }
            return self.fail_unopened(destination, op, &errno.into(), now);
        }
        let ops_total = self.age_of_next_prewarmed();
        let replaces = self.is_replacing();
        self.slab.cold[index as usize].lease = begun.lease;
        let hot = &mut self.slab.hot[index as usize];
        *hot = ConnHot {
            ops_total,
            replaces,
            socket: Some(begun.socket),
            destination,
            since: now,
            state: State::Connecting,
            generation: hot.generation,
            ..ConnHot::default()
        };
        if let Some(op) = op {
            hot.has_op = true;
            hot.intended = op.intended;
            hot.target = op.target;
            self.in_flight += 1;
        }
        self.arm(index, now + self.plan.connect_timeout);
        // A handshake-only operation would end, and begin the next one, inside this call; the poller
        // brings the same news.
        if begun.progress == Connecting::Done && !self.plan.handshake_only {
            self.handle_connected(index, now);
        }
    }

    /// Operations that a connection opened now counts as having had. Connections that are opened
    /// together and replaced after as many operations each would be replaced together, a burst of
    /// handshakes that no users make.
    fn age_of_next_prewarmed(&self) -> u32 {
        let Some(life) = self.plan.requests_per_connection else { return 0 };
        if !self.plan.staggered || !self.is_prewarming() {
            return 0;
        }
        let pool: u64 = self.pools.iter().map(|pool| u64::from(pool.cap)).sum();
        let nth = self.slab.len() as u64 % pool.max(1);
        u32::try_from(nth * life / pool.max(1)).unwrap_or(0)
    }

    fn fail_unopened(&mut self, destination: u32, op: Option<Op>, error: &OriginError, now: Nanos) {
        let pool = &mut self.pools[destination as usize];
        pool.open -= 1;
        pool.opening -= 1;
        self.handle_open_failure(destination, op, error.class(), error, now);
        self.handle_attempt_failed(self.is_replacing(), now);
    }

    /// TCP is established.
    pub(super) fn handle_connected(&mut self, index: u32, now: Nanos) {
        let hot = &mut self.slab.hot[index as usize];
        hot.offset_us = u32::try_from(now.since(hot.since).0 / 1000).unwrap_or(u32::MAX);
        let destination = &self.plan.destinations[hot.destination as usize];
        let (Some(context), Some(name)) = (&self.tls, &destination.tls) else {
            return self.handle_usable(index, now);
        };
        hot.state = State::Handshaking;
        self.resume_credit += self.plan.tls.resume_ratio;
        let offer_ticket = self.resume_credit >= 1.0;
        if offer_ticket {
            self.resume_credit -= 1.0;
        }
        match context.session(name, offer_ticket) {
            Ok(session) => {
                self.slab.tls.set(index, session);
                self.transmit_tls(index, now);
            }
            Err(error) => self.fail_opening(index, ErrorClass::TlsHandshake, &error, now),
        }
    }

    /// The connection can carry requests.
    pub(super) fn handle_usable(&mut self, index: u32, now: Nanos) {
        self.wheel.cancel(index);
        let hot = &mut self.slab.hot[index as usize];
        hot.timer_armed = false;
        hot.state = State::Idle;
        self.slab.cold[index as usize].opened_ms = wrapping_ms(now);
        let tally = &mut self.meter.tally.tally;
        let connect = Nanos(u64::from(hot.offset_us) * 1000);
        tally.spans.connect.record(connect);
        match self.slab.tls.get(index).and_then(|session| session.handshake()) {
            None => {}
            Some(handshake) => {
                tally.spans.tls.record(now.since(hot.since + connect));
                match handshake.kind {
                    HandshakeKind::Full => tally.handshakes.full += 1,
                    HandshakeKind::Resumed => tally.handshakes.resumed += 1,
                }
            }
        }
        self.pools[hot.destination as usize].opening -= 1;
        self.held += 1;
        tally.connections.opened += 1;
        tally.connections.held_max = tally.connections.held_max.max(self.held);
        self.count_prewarmed();
        if self.plan.handshake_only && self.slab.hot[index as usize].has_op {
            self.finish_handshake(index, now);
        } else if self.slab.hot[index as usize].has_op {
            self.begin_request(index, now);
        } else {
            self.handle_free(index, now);
        }
    }

    /// The connection ended before it was usable.
    pub(super) fn fail_opening(
        &mut self,
        index: u32,
        class: ErrorClass,
        detail: &dyn std::fmt::Display,
        now: Nanos,
    ) {
        self.count_failed_opening(index, class, now);
        let hot = &mut self.slab.hot[index as usize];
        let (destination, was_replacing) = (hot.destination, hot.replaces);
        let op = hot.has_op.then_some(Op { intended: hot.intended, target: hot.target });
        if op.is_some() {
            hot.has_op = false;
            self.in_flight -= 1;
        }
        if hot.state == State::Handshaking {
            self.meter.tally.tally.handshakes.failed += 1;
        }
        self.close(index, false);
        self.handle_open_failure(destination, op, class, detail, now);
        self.handle_attempt_failed(was_replacing, now);
        self.open_for_waiting(destination, now);
    }

    /// Closes the socket and frees its slot. `reset` sends a RST and leaves no TIME_WAIT.
    pub(super) fn close(&mut self, index: u32, reset: bool) {
        let hot = &self.slab.hot[index as usize];
        let usable = matches!(hot.state, State::Idle | State::Busy | State::Closing);
        if let Some(socket) = &hot.socket {
            if reset {
                // Fails only on a socket that is already dead, whose close needs no RST.
                let _ = socket.reset_on_close();
            } else if matches!(hot.state, State::Idle | State::Busy)
                && let Some(link) = self.slab.link(index)
                && link.unsent.is_empty()
            {
                // Behind a record of which only a part has left it would be no record. Best
                // effort: the peer may be gone already.
                self.pump.send_last(link, &[]);
            }
        }
        let hot = &self.slab.hot[index as usize];
        let pool = &mut self.pools[hot.destination as usize];
        pool.open -= 1;
        if usable {
            self.held -= 1;
        } else {
            pool.opening -= 1;
        }
        if let Some(lease) = self.slab.cold[index as usize].lease {
            let closed = match hot.state {
                _ if reset => Closed::Reset,
                // Never established as far as is known, so there is no FIN.
                State::Connecting => Closed::Reset,
                _ if matches!(hot.peer, Peer::Ended | Peer::Reset) => Closed::PeerFirst,
                _ => Closed::HereFirst,
            };
            self.origins.give_back(lease, closed, Nanos(clock::monotonic_ns()));
        }
        self.wheel.cancel(index);
        self.slab.release(index);
    }

    /// Ends every connection, in the way that suits their number.
    pub(super) fn close_all(&mut self) {
        let reset = self.plan.connections > CLOSE_BY_FIN_MAX && self.plan.session.is_none();
        for index in 0..self.slab.hot.len() as u32 {
            if self.slab.hot[index as usize].state != State::Free {
                self.close(index, reset);
            }
        }
    }

    /// Gives the connection's present wait up at `give_up`. A timer that is armed is due by then,
    /// or fires before the connection could notice that it is not.
    pub(super) fn arm(&mut self, index: u32, give_up: Nanos) {
        let hot = &mut self.slab.hot[index as usize];
        if !hot.timer_armed {
            hot.timer_armed = true;
            self.wheel.arm(index, give_up);
        }
    }
}
