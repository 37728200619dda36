//! Server connections: a hot record for as long as one is open, an active one while bytes move.
//!
//! [`Slab`] stores the connections of a worker by slot; a token of generation and index rejects late events. [`Conn`]
//! is all that an idle connection needs (56 bytes). Parsers and buffers are in [`Active`], which a connection has
//! only while bytes move. The slab stores what HTTP/2 and MQTT connections must not lose meanwhile
//! ([`Slab::keep_http2`], [`Slab::keep_subscriptions`]). Start reading at [`Phase`] and [`Conn`].

use plimsoll_model::Nanos;
use plimsoll_model::plan::Spoken;
use plimsoll_proto::http1::RequestParser;
use plimsoll_proto::http2::{Server, ServerRest};
use plimsoll_proto::mqtt::{Broker, Subscriptions};
use plimsoll_proto::websocket::{MessageReader, Side};
use plimsoll_sys::socket::Socket;
use plimsoll_tls::Session;

use super::acknowledgements::Acknowledgements;
use super::answering::{Answering, PREFACE_METHOD};
use crate::pump::Unsent;
use crate::sessions::Sessions;
use crate::slots::slot_mut;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Phase {
    /// The slot is free.
    #[default]
    Free,
    /// TLS is not established yet.
    Handshaking,
    /// No request has begun.
    Idle,
    /// A request has begun and is not complete.
    Reading,
    /// The next piece of an answer is not due yet.
    Sleeping,
    /// An answer is being written.
    Sending,
    /// Pending output is sent, then the connection closes.
    Closing,
    /// Our side is shut; what the peer still sends is discarded, so that it reads the answer
    /// instead of a reset.
    Lingering,
}

/// Facts about a connection, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flags(u16);

/// The socket may have bytes that were not read yet.
pub(super) const READABLE: u16 = 1;
/// The peer has ended its stream or broken the connection: read until the end shows.
pub(super) const READ_TO_END: u16 = 1 << 1;
/// The send buffer is full; nothing is done until it has room.
pub(super) const BLOCKED: u16 = 1 << 2;
/// The peer sends nothing more.
pub(super) const PEER_DONE: u16 = 1 << 3;
/// The connection stays open after the current answer.
pub(super) const KEEP_ALIVE: u16 = 1 << 4;
/// The current answer is sent in chunks.
pub(super) const CHUNKED: u16 = 1 << 5;
/// The current answer has no body, because it answers a HEAD.
pub(super) const BODILESS: u16 = 1 << 6;
/// The head of the current answer is written.
pub(super) const HEAD_SENT: u16 = 1 << 7;
/// Linger before closing: the peer may have sent more than was read.
pub(super) const LINGER: u16 = 1 << 8;
/// The head of the current request is complete, its body is not.
pub(super) const IN_BODY: u16 = 1 << 9;
/// The connection waits for its next turn.
pub(super) const QUEUED: u16 = 1 << 10;
/// The connection has switched to WebSocket.
pub(super) const WEBSOCKET: u16 = 1 << 11;
/// The client's CONNECT was accepted.
pub(super) const MQTT_CONNECTED: u16 = 1 << 12;
/// The connection speaks version 5.
pub(super) const MQTT_5: u16 = 1 << 13;

/// The connection speaks HTTP/2.
pub(super) const HTTP2: u16 = 1 << 14;
/// A header of the PROXY protocol must come first.
pub(super) const PROXY_DUE: u16 = 1 << 15;

impl Flags {
    pub(super) const fn has(self, bits: u16) -> bool {
        self.0 & bits != 0
    }

    pub(super) const fn set(&mut self, bits: u16) {
        self.0 |= bits;
    }

    pub(super) const fn clear(&mut self, bits: u16) {
        self.0 &= !bits;
    }

    pub(super) const fn put(&mut self, bits: u16, on: bool) {
        if on { self.set(bits) } else { self.clear(bits) }
    }
}

/// The state of a connection while bytes move; pooled per worker, absent while idle or sleeping.
pub(super) struct Active<N> {
    pub(super) parser: RequestParser,
    /// Reader of a connection that has switched to WebSocket.
    pub(super) messages: MessageReader,
    /// Broker of a connection that speaks MQTT.
    pub(super) packets: Broker,
    /// Server half of a connection that speaks HTTP/2.
    pub(super) http2: Option<Box<Server<Answering<N>>>>,
    pub(super) notes: N,
    /// Request bytes after the current request; at most the bytes of one read.
    pub(super) stash: Vec<u8>,
    /// The frame that is sent when the sleep has ended; at most one read's worth.
    pub(super) delayed: Vec<u8>,
    /// Acknowledgements of a connection that speaks MQTT.
    pub(super) acknowledgements: Acknowledgements,
    /// Answer bytes, as they go on the wire, that the kernel did not accept.
    pub(super) unsent: Unsent,
    /// Memory of messages that the worker has counted: see [`super::connections::Connections::count_kept`].
    pub(super) counted_bytes: usize,
}

impl<N: Default> Default for Active<N> {
    fn default() -> Self {
        Self {
            parser: RequestParser::new(),
            messages: MessageReader::new(Side::Server),
            packets: Broker::default(),
            http2: None,
            notes: N::default(),
            stash: Vec::new(),
            delayed: Vec::new(),
            acknowledgements: Acknowledgements::default(),
            unsent: Unsent::default(),
            counted_bytes: 0,
        }
    }
}

impl<N> Active<N> {
    /// Returns the memory of messages that are incomplete, or wait to be sent back.
    pub(super) fn kept_bytes(&self) -> usize {
        self.packets.kept_bytes() + self.http2.as_ref().map_or(0, |server| server.kept_bytes())
    }

    /// Reports whether nothing would be lost by giving it back.
    pub(super) fn is_spare(&self) -> bool {
        self.parser.is_idle()
            && self.messages.is_idle()
            && self.packets.is_idle()
            && self.http2.as_ref().is_none_or(|server| server.is_idle())
            && self.stash.is_empty()
            && self.delayed.is_empty()
            && self.acknowledgements.is_empty()
            && self.unsent.is_empty()
    }
}

/// All that a connection is while it does nothing.
pub(super) struct Conn<N> {
    // ---- 16 bytes: identity
    pub(super) socket: Option<Socket>,
    /// Distinguishes a late event of the slot's earlier owner from one of this owner.
    pub(super) generation: u32,
    pub(super) active: Option<Box<Active<N>>>,
    // ---- 16 bytes: time
    /// When the phase ends by itself.
    pub(super) deadline: Nanos,
    /// Time at which the wheel will ask; armed <= deadline, so that pushing the deadline back is free.
    pub(super) armed: Nanos,
    // ---- 20 bytes: the current answer
    pub(super) token: u64,
    pub(super) piece_bytes: u32,
    /// Bytes of the present piece that are still to be written; piece_left <= piece_bytes.
    pub(super) piece_left: u32,
    pub(super) pieces_further: u32,
    // ---- 4 bytes: state
    pub(super) flags: Flags,
    pub(super) phase: Phase,
    pub(super) spoken: Spoken,
}

/// Within a cache line. With the timer's 16 bytes, an idle plain connection costs 72 bytes here.
const _: () = assert!(size_of::<Conn<[u64; 16]>>() == 56);

impl<N> Conn<N> {
    const fn free(generation: u32) -> Self {
        Self {
            socket: None,
            generation,
            active: None,
            deadline: Nanos::MAX,
            armed: Nanos::MAX,
            token: 0,
            piece_bytes: 0,
            piece_left: 0,
            pieces_further: 0,
            flags: Flags(0),
            phase: Phase::Free,
            spoken: Spoken::Http,
        }
    }

    /// Reports whether answer bytes wait for the kernel.
    pub(super) fn has_unsent(&self) -> bool {
        self.active.as_ref().is_some_and(|active| !active.unsent.is_empty())
    }

    /// Reports whether answers of HTTP/2 are not complete.
    pub(super) fn has_answers(&self) -> bool {
        let server = self.active.as_ref().and_then(|active| active.http2.as_ref());
        server.is_some_and(|server| !server.streams.is_empty())
    }

    /// Reports whether `input` begins a connection that speaks HTTP/2.
    pub(super) fn begins_http2(&self, input: &[u8]) -> bool {
        let is_fresh = self.active.as_ref().is_none_or(|active| active.parser.is_idle());
        is_fresh && !self.flags.has(HTTP2) && input.starts_with(PREFACE_METHOD)
    }

    /// Reports whether request bytes wait for their turn.
    pub(super) fn has_stash(&self) -> bool {
        self.active.as_ref().is_some_and(|active| !active.stash.is_empty())
    }
}

/// The connections of one worker, found by index; a generation guards against stale events.
pub(super) struct Slab<N> {
    conns: Vec<Conn<N>>,
    tls: Sessions,
    /// By slot, as far as connections have spoken HTTP/2: where those without active parts are.
    http2: Vec<ServerRest>,
    /// By slot, as far as clients of MQTT have subscribed to something.
    subscriptions: Vec<Subscriptions>,
    free: Vec<u32>,
}

impl<N> Slab<N> {
    pub(super) const fn new() -> Self {
        Self {
            conns: Vec::new(),
            tls: Sessions::reserving(0),
            http2: Vec::new(),
            subscriptions: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Stores `socket` in a slot; the caller sets its phase at once.
    pub(super) fn insert(&mut self, socket: Socket, tls: Option<Session>) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.conns.push(Conn::free(0));
            (self.conns.len() - 1) as u32
        });
        let conn = &mut self.conns[index as usize];
        conn.socket = Some(socket);
        if let Some(session) = tls {
            self.tls.set(index, session);
        }
        index
    }

    /// Prepares a connection that speaks HTTP/2 from its first byte on.
    pub(super) fn begin_http2(&mut self, index: u32) {
        *slot_mut(&mut self.http2, index, ServerRest::default) = ServerRest::default();
        self.conns[index as usize].flags.set(HTTP2);
    }

    /// Takes out where a connection of HTTP/2 was left.
    pub(super) fn take_http2(&mut self, index: u32) -> Option<ServerRest> {
        let is_spoken = self.conns[index as usize].flags.has(HTTP2);
        let rest = self.http2.get_mut(index as usize).filter(|_| is_spoken)?;
        Some(std::mem::take(rest))
    }

    /// Keeps where a connection of HTTP/2 is left.
    pub(super) fn keep_http2(&mut self, index: u32, rest: ServerRest) {
        if let Some(kept) = self.http2.get_mut(index as usize) {
            *kept = rest;
        }
    }

    /// Appends that no further request of a connection that was left will be answered.
    pub(super) fn write_http2_goaway(&self, index: u32, out: &mut Vec<u8>) {
        if let Some(rest) = self.http2.get(index as usize) {
            rest.write_goaway(out);
        }
    }

    /// Takes out what the connection's client has subscribed to.
    pub(super) fn take_subscriptions(&mut self, index: u32) -> Subscriptions {
        self.subscriptions.get_mut(index as usize).map(std::mem::take).unwrap_or_default()
    }

    /// Keeps what the connection's client has subscribed to.
    pub(super) fn keep_subscriptions(&mut self, index: u32, own: Subscriptions) {
        let index = index as usize;
        if self.subscriptions.len() <= index && !own.is_empty() {
            self.subscriptions.resize_with(index + 1, Subscriptions::default);
        }
        if let Some(kept) = self.subscriptions.get_mut(index) {
            *kept = own;
        }
    }

    /// Closes the socket, frees the slot and gives back what was active.
    pub(super) fn remove(&mut self, index: u32) -> Option<Box<Active<N>>> {
        self.keep_http2(index, ServerRest::default());
        self.keep_subscriptions(index, Subscriptions::default());
        let conn = &mut self.conns[index as usize];
        let next = Conn::free(conn.generation.wrapping_add(1));
        self.free.push(index);
        self.tls.remove(index);
        std::mem::replace(conn, next).active
    }

    /// Returns a connection and its TLS session, if it has one.
    pub(super) fn with_tls(&mut self, index: u32) -> (&mut Conn<N>, Option<&mut Session>) {
        (&mut self.conns[index as usize], self.tls.get(index))
    }

    /// Returns the token of the poller's events for this slot's present owner.
    pub(super) fn token(&self, index: u32) -> u64 {
        u64::from(self.conns[index as usize].generation) << 32 | u64::from(index)
    }

    /// Returns the slot of an event; `None` when its connection was closed.
    pub(super) fn index_of(&self, token: u64) -> Option<u32> {
        let index = token as u32;
        let conn = self.conns.get(index as usize)?;
        (conn.phase != Phase::Free && conn.generation == (token >> 32) as u32).then_some(index)
    }

    /// Indices of all slots, free ones included.
    pub(super) fn indices(&self) -> std::ops::Range<u32> {
        0..self.conns.len() as u32
    }
}

impl<N> std::ops::Index<u32> for Slab<N> {
    type Output = Conn<N>;

    fn index(&self, index: u32) -> &Conn<N> {
        &self.conns[index as usize]
    }
}

impl<N> std::ops::IndexMut<u32> for Slab<N> {
    fn index_mut(&mut self, index: u32) -> &mut Conn<N> {
        &mut self.conns[index as usize]
    }
}
