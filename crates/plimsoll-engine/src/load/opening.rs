//! Opening and closing connections: TCP, then TLS where the destination asks for it.

use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;

use plimsoll_model::ErrorClass;
use plimsoll_model::Nanos;
use plimsoll_sys::Errno;
use plimsoll_sys::socket::Connecting;
use plimsoll_sys::socket::Socket;
use plimsoll_tls::HandshakeKind;
use plimsoll_tls::Session;

use super::classify::opening_error;
use super::conn::ConnHot;
use super::conn::Op;
use super::conn::State;
use super::endings::wrapping_ms;
use super::worker::Worker;

/// Connections from one loopback address: the default port range has 28,232 ports, and finding a
/// free one gets slow above 70 % of it.
const PER_LOOPBACK_SOURCE: u64 = 20_000;
/// Up to this many connections are closed by FIN when the load ends. More are reset, because so
/// many sockets in TIME_WAIT would take the ports of the next run for a minute.
const CLOSE_BY_FIN_MAX: u64 = 10_000;

impl Worker {
    /// Begins a connection, for `op` if the load keeps none alive.
    pub(super) fn open(&mut self, destination: u32, op: Option<Op>, now: Nanos) {
        let pool = &mut self.pools[destination as usize];
        pool.open += 1;
        pool.opening += 1;
        let addresses = &self.plan.destinations[destination as usize].addresses;
        let remote = addresses[(self.connects % addresses.len().max(1) as u64) as usize];
        let source = self.source(remote);
        // All workers together take the addresses in turn, as if they opened alternately.
        let workers = u64::from(self.plan.shard.of) * u64::from(self.plan.threads.max(1));
        self.connects += workers;
        let connected = Socket::connect(remote, source);
        let (socket, progress) = match connected {
            Ok(connected) => connected,
            Err(errno) => return self.fail_unopened(destination, op, errno, now),
        };
        let index = self.slab.take();
        let token = self.slab.token(index);
        if let Err(errno) = self.poller.add(&socket, token) {
            self.slab.release(index);
            return self.fail_unopened(destination, op, errno, now);
        }
        let ops_total = self.age_of_next_prewarmed();
        let hot = &mut self.slab.hot[index as usize];
        *hot = ConnHot {
            ops_total,
            socket: Some(socket),
            destination,
            since: now,
            state: State::Connecting,
            generation: hot.generation,
            in_idle_ring: hot.in_idle_ring,
            ..ConnHot::default()
        };
        if let Some(op) = op {
            hot.has_op = true;
            hot.intended = op.intended;
            hot.target = op.target;
            self.in_flight += 1;
        }
        self.arm(index, now + self.plan.connect_timeout);
        if progress == Connecting::Done {
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

    fn fail_unopened(&mut self, destination: u32, op: Option<Op>, errno: Errno, now: Nanos) {
        let pool = &mut self.pools[destination as usize];
        pool.open -= 1;
        pool.opening -= 1;
        self.handle_open_failure(destination, op, opening_error(errno), &errno, now);
    }

    /// The address to connect from; `None` leaves it to the kernel.
    fn source(&self, remote: SocketAddr) -> Option<IpAddr> {
        let sources = &self.plan.sources;
        if !sources.is_empty() {
            let fitting = |source: &&IpAddr| source.is_ipv4() == remote.is_ipv4();
            let count = sources.iter().filter(fitting).count();
            let nth = self.connects as usize % count.max(1);
            return sources.iter().filter(fitting).nth(nth).copied();
        }
        let needed = self.plan.connections / PER_LOOPBACK_SOURCE;
        if needed > 0 && matches!(remote.ip(), IpAddr::V4(ip) if ip.is_loopback()) {
            // 127.0.0.1 to 127.255.255.254 need no set-up on Linux.
            let host = 1 + (self.connects % (needed + 1)) as u32 % 0x00FF_FFFD;
            return Some(IpAddr::V4(Ipv4Addr::from(0x7F00_0000 | host)));
        }
        None
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
                self.slab.cold[index as usize].tls = Some(session);
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
        hot.opened_ms = wrapping_ms(now);
        let tally = &mut self.meter.tally.tally;
        let connect = Nanos(u64::from(hot.offset_us) * 1000);
        tally.spans.connect.record(connect);
        match self.slab.cold[index as usize].tls.as_ref().and_then(Session::handshake) {
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
        if self.slab.hot[index as usize].has_op {
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
        let destination = hot.destination;
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
        self.open_for_waiting(destination, now);
    }

    /// Closes the socket and frees its slot. `reset` sends a RST and leaves no TIME_WAIT.
    pub(super) fn close(&mut self, index: u32, reset: bool) {
        let hot = &self.slab.hot[index as usize];
        let usable = matches!(hot.state, State::Idle | State::Busy);
        if let Some(socket) = &hot.socket {
            if reset {
                // Fails only on a socket that is already dead, whose close needs no RST.
                let _ = socket.reset_on_close();
            } else if let (true, Some(session)) = (usable, &mut self.slab.cold[index as usize].tls)
            {
                session.queue_close_notify();
                self.ciphertext.clear();
                session.poll_transmit(&mut self.ciphertext);
                // Best effort: the peer may be gone already.
                let _ = socket.send(&self.ciphertext);
                self.ciphertext.clear();
            }
        }
        let pool = &mut self.pools[hot.destination as usize];
        pool.open -= 1;
        if usable {
            self.held -= 1;
        } else {
            pool.opening -= 1;
        }
        self.wheel.cancel(index);
        self.slab.release(index);
    }

    /// Ends every connection, in the way that suits their number.
    pub(super) fn close_all(&mut self) {
        let reset = self.plan.connections > CLOSE_BY_FIN_MAX;
        for index in 0..self.slab.hot.len() as u32 {
            if self.slab.hot[index as usize].state != State::Free {
                self.close(index, reset);
            }
        }
    }

    /// Gives the connection's present wait up at `give_up`.
    pub(super) fn arm(&mut self, index: u32, give_up: Nanos) {
        let hot = &mut self.slab.hot[index as usize];
        hot.give_up = give_up;
        if !hot.timer_armed {
            hot.timer_armed = true;
            self.wheel.arm(index, give_up);
        }
    }
}
