//! The connections of one worker: their records, TLS sessions and timers, over a transport. This module knows nothing
//! of operations but their record.

use std::net::SocketAddr;
use std::ops::{Index, IndexMut};
use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{LoadPlan, Pacing, ServerName};
use plimsoll_model::tally::Tally;
use plimsoll_sys::Errno;
use plimsoll_sys::ports::Closed;
use plimsoll_sys::socket::{FirstBytes, Socket};
use plimsoll_tls::{ClientContext, ConfigError, Received, TlsError};

use super::conn::{ConnHot, Peer, Slab, State};
use super::origin::OriginError;
use super::transport::{LeftOpen, Transport};
use crate::pump::{Pump, Sent, Unsent, send_plain};
use crate::wheel::Wheel;

/// One read takes at most this much; a small answer never needs a second read.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Request bytes that are encrypted at a time: four full TLS records. More is encrypted only when
/// these are gone, so that a large body is not held twice.
const ENCRYPT_AT_ONCE_BYTES: usize = 64 * 1024;

/// The connections of one worker. Indexed by slot it gives the hot record.
pub(super) struct Conns {
    pub(super) slab: Slab,
    pub(super) transport: Transport,
    wheel: Wheel,
    pump: Pump,
    /// Read buffer; an empty one, which costs nothing, while it is lent to the connection that is being read.
    pub(super) read_buffer: Box<[u8]>,
    tls: Option<Arc<ClientContext>>,
    resume_ratio: f64,
    resume_credit: f64,
}

impl Conns {
    pub(super) fn new(
        plan: &LoadPlan,
        shard: Shard,
        tls: Option<Arc<ClientContext>>,
        now: Nanos,
    ) -> Result<Self, Errno> {
        let conns_max = shard.share(plan.connections);
        Ok(Self {
            slab: Slab::with_capacity(conns_max, plan),
            transport: Transport::new(plan, shard)?,
            wheel: Wheel::with_capacity(now, conns_max),
            pump: Pump::new(busy_sessions(plan, conns_max), READ_BUFFER_BYTES),
            read_buffer: vec![0; READ_BUFFER_BYTES].into_boxed_slice(),
            tls,
            resume_ratio: plan.tls.resume_ratio,
            resume_credit: 0.0,
        })
    }

    // ---- opening and closing

    /// Begins a connection to `destination` in a new slot; returns the slot, and whether the
    /// connection is established already.
    pub(super) fn begin(
        &mut self,
        plan: &LoadPlan,
        destination: u32,
        first_bytes: FirstBytes,
        now: Nanos,
    ) -> Result<(u32, bool), OriginError> {
        let index = self.slab.take();
        let token = self.slab.token(index);
        let begun = self.transport.begin(plan, destination, first_bytes, token, now);
        let (begun, is_established) = match begun {
            Ok(begun) => begun,
            Err(error) => {
                self.slab.release(index);
                return Err(error);
            }
        };
        self.slab.cold[index as usize].lease = begun.lease;
        let hot = &mut self[index];
        *hot = ConnHot {
            socket: Some(begun.socket),
            destination,
            since: now,
            state: State::Connecting,
            generation: hot.generation,
            ..ConnHot::default()
        };
        Ok((index, is_established))
    }

    /// Begins a handshake with the server called `name`.
    pub(super) fn begin_tls(&mut self, index: u32, name: &ServerName) -> Result<(), ConfigError> {
        let Some(context) = &self.tls else { return Ok(()) };
        self.resume_credit += self.resume_ratio;
        let offer_ticket = self.resume_credit >= 1.0;
        if offer_ticket {
            self.resume_credit -= 1.0;
        }
        self.slab.tls.set(index, context.session(name, offer_ticket)?);
        Ok(())
    }

    /// Closes the socket and frees its slot. `reset` sends a RST and leaves no TIME_WAIT.
    pub(super) fn close(&mut self, index: u32, reset: bool) {
        let is_usable = matches!(self[index].state, State::Idle | State::Busy);
        if reset {
            self.reset_on_close(index);
        } else if is_usable && !self.has_unsent(index) {
            // After a half-sent record an alert would be read as part of that record. Best effort:
            // the peer may have closed already.
            self.send_last(index);
        }
        if let Some(socket) = &self.slab.hot[index as usize].socket {
            self.transport.count_segments(socket);
        }
        if let Some(lease) = self.slab.cold[index as usize].lease {
            let hot = &self[index];
            let closed = match hot.state {
                _ if reset => Closed::Reset,
                // Not known to be established, so no FIN is sent.
                State::Connecting => Closed::Reset,
                _ if matches!(hot.peer, Peer::Ended | Peer::Reset) => Closed::PeerFirst,
                _ => Closed::HereFirst,
            };
            self.transport.give_back(lease, closed);
        }
        self.wheel.cancel(index);
        self.slab.release(index);
    }

    /// Takes the socket of a connection, which stays open and is never read again; closing the slot then sends nothing.
    pub(super) fn leave_open(&mut self, index: u32) -> Option<LeftOpen> {
        let lease = self.slab.cold[index as usize].lease.take();
        Some(LeftOpen { socket: self[index].socket.take()?, lease })
    }

    // ---- sockets

    /// Reports whether the slot has a socket; a stream of a shared connection has none.
    pub(super) fn has_socket(&self, index: u32) -> bool {
        self[index].socket.is_some()
    }

    /// Returns the socket of a slot.
    fn socket(&self, index: u32) -> Result<&Socket, Errno> {
        self[index].socket.as_ref().ok_or(Errno::BADF)
    }

    /// Takes the error for which the connection failed.
    pub(super) fn take_error(&self, index: u32) -> Result<(), Errno> {
        self.socket(index)?.take_error()
    }

    /// Reports whether a connection that was begun is established.
    pub(super) fn is_connected(&self, index: u32) -> Result<bool, Errno> {
        self.socket(index)?.is_connected()
    }

    /// Returns the local address of a connection.
    pub(super) fn local_address(&self, index: u32) -> Result<SocketAddr, Errno> {
        self.socket(index)?.local_address()
    }

    /// Returns the peer's address of a connection.
    pub(super) fn peer_address(&self, index: u32) -> Result<SocketAddr, Errno> {
        self.socket(index)?.peer_address()
    }

    /// Sends a FIN. Fails only on a dead socket, which the next read reports.
    pub(super) fn end_sending(&self, index: u32) {
        let _ = self.socket(index).and_then(Socket::shutdown_write);
    }

    /// Makes closing the connection send a RST. Fails only on a socket that is already dead, whose close needs none.
    pub(super) fn reset_on_close(&self, index: u32) {
        let _ = self.socket(index).and_then(Socket::reset_on_close);
    }

    /// Asks the kernel to stamp what arrives. Where it cannot, answers count as not stamped.
    pub(super) fn ask_for_stamps(&self, index: u32) {
        let _ = self.socket(index).and_then(Socket::ask_for_stamps);
    }

    /// Reads what has arrived, on request with the time of arrival.
    pub(super) fn recv(
        &self,
        index: u32,
        buffer: &mut [u8],
        is_stamped: bool,
    ) -> Result<(usize, Option<Nanos>), Errno> {
        self.transport.recv(self.socket(index)?, buffer, is_stamped)
    }

    // ---- bytes

    /// Sends as much of what is queued, or of `piece` of the current request, as the kernel accepts; over TLS
    /// no more than is encrypted at a time. With `is_last` no more of the request follows.
    pub(super) fn send_request(&mut self, index: u32, piece: &[u8], is_last: bool) -> Sent {
        let has_unsent = self.has_unsent(index);
        let hot = &mut self.slab.hot[index as usize];
        if !self.slab.tls.has(index) {
            let Some(socket) = &hot.socket else { return Sent::NOTHING };
            if has_unsent {
                let unsent = std::mem::take(&mut self.slab.cold[index as usize].unsent);
                let sent = send_plain(socket, unsent.bytes(), !piece.is_empty());
                let left = unsent.bytes().get(sent.bytes..).unwrap_or_default();
                self.slab.cold[index as usize].unsent = Unsent::new(left);
                return sent;
            }
            let sent = send_plain(socket, piece, !is_last);
            hot.request_sent_bytes += sent.bytes as u32;
            return sent;
        }
        let piece = match hot.state == State::Busy && !has_unsent {
            true => &piece[..piece.len().min(ENCRYPT_AT_ONCE_BYTES)],
            false => &[],
        };
        hot.request_sent_bytes += piece.len() as u32;
        self.slab.link(index).map_or(Sent::NOTHING, |link| self.pump.send(link, piece))
    }

    /// Keeps bytes that go before everything else, in clear. Call it before anything is sent.
    pub(super) fn put_first(&mut self, index: u32, bytes: &[u8]) {
        self.slab.cold[index as usize].unsent = Unsent::new(bytes);
    }

    /// Sends bytes that belong to no request, such as the answer to a server's ping; what the kernel does
    /// not accept is kept. Never in the middle of a request.
    pub(super) fn send_aside(&mut self, index: u32, bytes: &[u8]) -> Sent {
        if let Some(link) = self.slab.link(index) {
            return self.pump.send(link, bytes);
        }
        let Some(socket) = &self.slab.hot[index as usize].socket else { return Sent::NOTHING };
        let unsent = &mut self.slab.cold[index as usize].unsent;
        let all: &[u8] = if unsent.is_empty() { bytes } else { &[unsent.bytes(), bytes].concat() };
        let sent = send_plain(socket, all, false);
        *unsent = Unsent::new(all.get(sent.bytes..).unwrap_or_default());
        sent
    }

    /// Sends what TLS itself has queued: handshake messages, alerts.
    pub(super) fn transmit(&mut self, index: u32) -> Sent {
        self.slab.link(index).map_or(Sent::NOTHING, |link| self.pump.send(link, &[]))
    }

    /// Reads and discards up to 64 KiB of received bytes: a socket that is closed with unread bytes sends a RST, and
    /// the peer may lose the last bytes sent to it.
    pub(super) fn discard_unread(&mut self, index: u32) {
        let Some(socket) = &self.slab.hot[index as usize].socket else { return };
        let mut unread = [0; 4 << 10];
        for _ in 0..16 {
            if !matches!(socket.recv(&mut unread), Ok(1..)) {
                return;
            }
        }
    }

    /// Sends the last TLS records (close_notify); the caller sends the FIN.
    pub(super) fn send_last(&mut self, index: u32) -> Sent {
        self.slab.link(index).map_or(Sent::NOTHING, |link| self.pump.send_last(link, &[]))
    }

    /// Switches quick ACKs on again, after the first bytes of a plaintext connection have carried the ACK of the
    /// handshake. Over TLS this happens with the client's Finished.
    pub(super) fn acknowledge_at_once(&self, index: u32) {
        if let Some(socket) = &self[index].socket
            && !self.slab.tls.has(index)
        {
            socket.acknowledge_at_once();
        }
    }

    /// Returns the number of bytes that the kernel has not accepted.
    pub(super) fn unsent_bytes(&self, index: u32) -> usize {
        self.slab.cold[index as usize].unsent.bytes().len()
    }

    pub(super) fn has_unsent(&self, index: u32) -> bool {
        !self.slab.cold[index as usize].unsent.is_empty()
    }

    /// Decrypts `bytes`, if the connection speaks TLS. The caller puts the plaintext buffer back.
    pub(super) fn decrypt(
        &mut self,
        index: u32,
        bytes: &[u8],
    ) -> Option<(Vec<u8>, Result<Received, TlsError>)> {
        let session = self.slab.tls.get(index)?;
        Some(self.pump.receive(session, bytes))
    }

    /// Takes the plaintext buffer of [`Self::decrypt`] back.
    pub(super) fn return_plaintext(&mut self, plaintext: Vec<u8>) {
        self.pump.give_back(plaintext);
    }

    /// Frees what busy connections have used: they may be idle from now on.
    pub(super) fn free_unused(&mut self) {
        self.pump.free_unused();
    }

    /// Ends the second: hands its counts over.
    pub(super) fn end_second(&mut self, tally: &mut Tally) {
        tally.tls_messages = self.pump.take_messages();
        self.transport.end_second(tally);
    }

    // ---- timers

    /// Ends the connection's present wait at `give_up`. A timer that is armed already fires before
    /// that, and is then armed again.
    pub(super) fn arm(&mut self, index: u32, give_up: Nanos) {
        if !self[index].timer_armed {
            self.rearm(index, give_up);
        }
    }

    /// Arms the timer for `at`, in place of any earlier one.
    pub(super) fn rearm(&mut self, index: u32, at: Nanos) {
        self[index].timer_armed = true;
        self.wheel.arm(index, at);
    }

    pub(super) fn disarm(&mut self, index: u32) {
        self[index].timer_armed = false;
        self.wheel.cancel(index);
    }

    /// Returns the next connection whose timer has fired.
    pub(super) fn next_expired(&mut self, now: Nanos) -> Option<u32> {
        let index = self.wheel.poll_expired(now)?;
        self[index].timer_armed = false;
        Some(index)
    }

    /// Returns the time at which [`Self::next_expired`] will return a connection next.
    pub(super) fn next_timer(&self) -> Nanos {
        self.wheel.poll_timeout().unwrap_or(Nanos::MAX)
    }

    /// Replaces the wheel before it has counted to its end. Returns the connections whose timers
    /// went with it, to be armed again.
    pub(super) fn renew_wheel(&mut self, now: Nanos) -> Vec<u32> {
        if !self.wheel.is_old(now) {
            return Vec::new();
        }
        self.wheel = Wheel::with_capacity(now, self.slab.len() as u64);
        let armed = |(index, hot): (usize, &mut ConnHot)| {
            std::mem::take(&mut hot.timer_armed).then_some(index as u32)
        };
        self.slab.hot.iter_mut().enumerate().filter_map(armed).collect()
    }

    /// Timers in the wheel.
    #[cfg(any(test, debug_assertions))]
    pub(super) fn timers(&self) -> u32 {
        assert_eq!(self.wheel.linked(), self.wheel.pending(), "timers in buckets, and pending");
        self.wheel.pending()
    }
}

impl Index<u32> for Conns {
    type Output = ConnHot;

    fn index(&self, index: u32) -> &ConnHot {
        &self.slab.hot[index as usize]
    }
}

impl IndexMut<u32> for Conns {
    fn index_mut(&mut self, index: u32) -> &mut ConnHot {
        &mut self.slab.hot[index as usize]
    }
}

/// Returns the number of TLS sessions whose expanded keys a worker keeps. Sessions of a hold are nearly always idle,
/// and make their keys anew when needed; short connections are gone when keys have gathered.
fn busy_sessions(plan: &LoadPlan, conns_max: u64) -> u64 {
    match plan.pacing {
        Pacing::Hold(_) => 32,
        _ if !plan.keepalive => conns_max.min(512),
        Pacing::Open { .. } | Pacing::Closed { .. } => conns_max,
    }
}
