//! Client connections: a hot record that the loop touches for every event, a cold one that it seldom needs.
//!
//! [`Slab`] stores all connections of a worker by slot: [`ConnHot`] (64 bytes, one cache line), [`ConnCold`] (at most
//! 16) and the TLS session. A token of generation and index names the owner of a slot, and [`Slab::index_of`] rejects
//! events of an earlier one. [`Slab::parser`] lends a parser to a connection that awaits an answer. A lane is a slot
//! without a socket, for one operation on a shared connection. Start reading at [`State`] and [`ConnHot`].

use plimsoll_model::Nanos;
use plimsoll_model::plan::LoadPlan;
use plimsoll_proto::conversation::{Conversation, Dialect};
use plimsoll_proto::http2::Rest;
use plimsoll_proto::script;
use plimsoll_sys::ports::Lease;
use plimsoll_sys::socket::Socket;

use crate::pump::{Link, Unsent};
use crate::sessions::Sessions;
use crate::slots::slot_mut;

/// The state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// The slot is free.
    #[default]
    Free,
    /// SYN sent.
    Connecting,
    /// TCP established, TLS not yet.
    Handshaking,
    /// The protocol's opening is sent, and not answered yet.
    Greeting,
    /// Usable, no operation.
    Idle,
    /// An operation is being sent or awaits its answer.
    Busy,
    /// A session has ended: our FIN is sent, the peer's is awaited, all other input is discarded.
    Closing,
}

/// An operation, from the instant it came due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) intended: Nanos,
    /// Index into the plan's targets.
    pub(crate) target: u32,
    /// `true` if it gets a row.
    pub(crate) is_recorded: bool,
    /// Times that it was sent before, and not begun by the server.
    pub(crate) again: u8,
}

/// A million of them may wait.
const _: () = assert!(size_of::<Op>() == 16);

/// The fields of a connection that the loop uses for every event, in one cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct ConnHot {
    // ---- 16 bytes: identity
    pub(crate) socket: Option<Socket>,
    /// Distinguishes a late event of the slot's earlier connection from an event of this one.
    pub(crate) generation: u32,
    /// Index into the plan's destinations.
    pub(crate) destination: u32,
    /// Target of the current operation.
    pub(crate) target: u32,
    // ---- 24 bytes: time
    /// Intended start of the current operation.
    pub(crate) intended: Nanos,
    /// Actual send of the current operation. While idle: since when. While opening: the SYN.
    pub(crate) since: Nanos,
    /// Holds: when its next heartbeat is due; [`Nanos::MAX`] for never, 0 until it is usable. Scripts: when an
    /// idle connection has rested; 0 if it does not rest. HTTP/2, closed loops: when an idle connection on which the
    /// server allows nothing is given up; 0 if it allows something.
    pub(crate) beat_due: Nanos,
    // ---- 24 bytes: progress
    /// Request bytes (before encryption) already handed to the kernel or to TLS.
    pub(crate) request_sent_bytes: u32,
    /// Operations ended on this connection.
    pub(crate) ops_total: u32,
    pub(crate) state: State,
    /// An operation is attached; only while opening without keep-alive can it be missing a send.
    pub(crate) has_op: bool,
    /// An answer has come on it.
    pub(crate) reused: bool,
    /// The wheel holds a timer for the slot; it may be due too early, never too late: answers
    /// do not disarm it, and firing early it is armed again.
    pub(crate) timer_armed: bool,
    /// `true` if the first byte of the answer has come.
    pub(crate) answer_begun: bool,
    /// Holds: why it was opened.
    pub(crate) purpose: Purpose,
    /// Holds: its part in the sweep in progress.
    pub(crate) sweep: Sweep,
    pub(crate) peer: Peer,
    /// Opening: `since` to TCP established, us. Busy: `since` to the request's first byte, us.
    pub(crate) offset_us: u32,
    /// Number of its parser in the slab while an answer is awaited.
    pub(crate) parser: u32,
}

/// One cache line. With the timer's 16 bytes and the cold record, an idle plain connection of a
/// hold costs 96 bytes here.
const _: () = assert!(size_of::<ConnHot>() == 64);

impl ConnHot {
    /// Returns the time at which the first byte of the current request was sent.
    pub(crate) fn request_began(&self) -> Nanos {
        self.since + self.offset()
    }

    /// Returns [`Self::offset_us`] as a time.
    pub(crate) fn offset(&self) -> Nanos {
        Nanos(u64::from(self.offset_us) * 1000)
    }

    /// Notes that nothing more is to be said to the server on this connection.
    pub(crate) fn note_announced(&mut self) {
        if self.peer == Peer::Open {
            self.peer = Peer::Announced;
        }
    }

    /// Reports whether an end of the connection now is a race: the request of a reused connection awaits the first
    /// byte of its answer. A FIN that crosses the request and the RST that answers it are the same event: which one
    /// is read first depends on the scheduler.
    pub(crate) fn is_in_race(&self) -> bool {
        self.state == State::Busy && self.reused && !self.answer_begun
    }

    /// Reports whether the connection belongs to a client of the storm in progress.
    pub(crate) fn is_in_storm(&self) -> bool {
        self.purpose == Purpose::Storm
    }

    /// Reports whether the connection belongs to a storm's client that is not back.
    pub(crate) fn is_trying(&self) -> bool {
        self.is_in_storm() && self.beat_due == Nanos::ZERO
    }
}

/// The fields that only blocked sockets and the end of a connection need.
#[derive(Default)]
pub(crate) struct ConnCold {
    pub(crate) unsent: Unsent,
    /// The source port, when it is the load's own. Kept, because asking the socket when it is
    /// closed takes two system calls, and one that was reset no longer knows its peer.
    pub(crate) lease: Option<Lease>,
    /// Time at which it became usable, see [`wrapping_ms`].
    opened_ms: u32,
}

const _: () = assert!(size_of::<ConnCold>() <= 16);

/// CLOCK_MONOTONIC in ms, wrapping after 49 days.
const fn wrapping_ms(now: Nanos) -> u32 {
    (now.0 / 1_000_000) as u32
}

/// The state of the peer's end of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Peer {
    /// The peer may send.
    #[default]
    Open,
    /// The peer has announced that it sends no more (close_notify, GOAWAY, a close frame), or broke the protocol and
    /// was sent an error. No request may follow.
    Announced,
    /// A FIN or a RST has arrived, perhaps behind bytes that are yet to be read. No request may
    /// follow, and no TIME_WAIT remains here.
    Ended,
    /// As `Ended`, but by a reset. Only a send that the reset refuses reports the reset.
    Reset,
}

/// The reason for which a connection of a hold is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Purpose {
    /// A ramp.
    #[default]
    Ramp,
    /// A connection in the place of one that was lost or could not be opened.
    Replacement,
    /// A client of the storm in progress comes back.
    Storm,
}

/// The part of a sweep that a connection still owes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Sweep {
    /// No part: the connection was not held when the sweep began, or it has had its request.
    #[default]
    No,
    /// A request, when the sweep reaches it.
    Planned,
    /// The end of the operation that was under way when the sweep reached it.
    Awaited,
    /// The end of the sweep's request.
    Sent,
}

/// The parsers of the connections that await an answer; idle ones need none. There are never more
/// than connections that awaited one at the same time.
struct Parsers {
    dialect: Dialect,
    parsers: Vec<Conversation>,
    free: Vec<u32>,
    /// HTTP/2, by slot: where connections without a parser are.
    rests: Vec<Rest>,
}

/// No parser.
const NO_PARSER: u32 = 0;

impl Parsers {
    /// A fresh parser; its number is at least 1.
    fn take(&mut self, is_greeted: bool) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.parsers.push(self.dialect.conversation(true));
            self.parsers.len() as u32
        });
        // A parser of HTTP/2 is kept: it was cleared, and `resume` loads the state of its connection.
        if !is_greeted && !self.dialect.traits().has_streams {
            self.parsers[number as usize - 1] = self.dialect.conversation(false);
        }
        number
    }

    /// Loads the stored state of the connection at `index` into parser `number`, if there is one.
    #[inline]
    fn resume(&mut self, number: u32, index: u32) {
        if let Some(rest) = self.rests.get(index as usize)
            && let Conversation::Http2(client) = &mut self.parsers[number as usize - 1]
        {
            client.resume(*rest);
        }
    }

    /// Stores the state of the connection at `index`, which needs no parser for now.
    #[inline]
    fn leave(&mut self, number: u32, index: u32) {
        if let Some(rest) = self.rests.get_mut(index as usize)
            && let Conversation::Http2(client) = &self.parsers[number as usize - 1]
        {
            *rest = client.rest();
        }
    }

    fn give_back(&mut self, number: u32) {
        // A partial head in it would count as memory of the next connection.
        if let Some(mut client) = self.parsers[number as usize - 1].shared() {
            client.clear();
        } else if !self.parsers[number as usize - 1].is_fresh() {
            self.parsers[number as usize - 1] = self.dialect.conversation(true);
        }
        self.free.push(number);
    }
}

/// Slots of a worker for which addresses are reserved at once; untouched pages cost nothing. 2^22 slots are 400 MB of
/// addresses; a larger slab grows by copying.
const RESERVED_MAX: u64 = 1 << 22;

/// The part of a slot in the sharing of connections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    /// The slot of its connection; [`NO_CONNECTION`] where the slot is no lane.
    connection: u32,
    /// Times that its operation was sent before, and not begun by the server.
    pub(crate) again: u8,
    /// `true` if the slot is a connection in its pool's ring.
    pub(crate) is_in_ring: bool,
}

const NO_CONNECTION: u32 = u32::MAX;
const NO_LANE: Lane = Lane { connection: NO_CONNECTION, again: 0, is_in_ring: false };

/// The connections of one worker, found by index; a generation guards against stale events.
pub(crate) struct Slab {
    pub(crate) hot: Vec<ConnHot>,
    pub(crate) cold: Vec<ConnCold>,
    pub(crate) tls: Sessions,
    free: Vec<u32>,
    /// Slots that never had a socket.
    free_lanes: Vec<u32>,
    /// By slot; empty if connections are not shared.
    lanes: Vec<Lane>,
    parsers: Parsers,
}

impl Slab {
    /// Creates an empty slab, with addresses reserved for `conns`: growing by doubling would copy it, and leave the
    /// copies behind, while the connections are being opened.
    pub(crate) fn with_capacity(conns: u64, plan: &LoadPlan) -> Self {
        let reserved = conns.min(RESERVED_MAX) as usize;
        let dialect = Dialect::of(plan);
        let resting = if dialect.traits().has_streams { reserved } else { 0 };
        let mut slab = Self {
            hot: Vec::with_capacity(reserved),
            cold: Vec::with_capacity(reserved),
            tls: Sessions::reserving(reserved),
            free: Vec::new(),
            free_lanes: Vec::new(),
            lanes: Vec::new(),
            parsers: Parsers {
                dialect,
                parsers: Vec::new(),
                free: Vec::new(),
                rests: Vec::with_capacity(resting),
            },
        };
        if plan.shares_connections() {
            // Slots of connections are dense, as they are where no lanes are between them: their clients are
            // called by them.
            slab.free = (0..reserved).map(|_| slab.add()).collect();
            slab.free.reverse();
        }
        slab
    }

    /// Takes a slot in state [`State::Free`], to be filled by the caller.
    pub(crate) fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| self.add())
    }

    /// Takes a slot for an operation, sent `again` times before, on a connection that has others.
    pub(crate) fn take_lane(&mut self, connection: u32, again: u8) -> u32 {
        let index = self.free_lanes.pop().unwrap_or_else(|| self.add());
        let parent = &self.hot[connection as usize];
        let (destination, reused, ops_total) =
            (parent.destination, parent.reused, parent.ops_total);
        let hot = &mut self.hot[index as usize];
        *hot = ConnHot {
            destination,
            reused,
            ops_total,
            state: State::Busy,
            generation: hot.generation,
            timer_armed: hot.timer_armed,
            ..ConnHot::default()
        };
        *self.lane(index) = Lane { connection, again, ..NO_LANE };
        index
    }

    /// Reports whether the slot is a lane.
    pub(crate) fn is_lane(&self, index: u32) -> bool {
        self.connection_of(index) != index
    }

    /// Returns the slot of the connection on which the operation of a slot is.
    pub(crate) fn connection_of(&self, index: u32) -> u32 {
        match self.lanes.get(index as usize) {
            Some(lane) if lane.connection != NO_CONNECTION => lane.connection,
            _ => index,
        }
    }

    pub(crate) fn lane(&mut self, index: u32) -> &mut Lane {
        slot_mut(&mut self.lanes, index, || NO_LANE)
    }

    /// Resets the lane of a slot that has a new owner, or none.
    fn forget_lane(&mut self, index: u32) {
        if let Some(lane) = self.lanes.get_mut(index as usize) {
            *lane = NO_LANE;
        }
    }

    fn add(&mut self) -> u32 {
        self.hot.push(ConnHot::default());
        self.cold.push(ConnCold::default());
        if self.parsers.dialect.traits().has_streams {
            self.parsers.rests.push(Rest::default());
        }
        (self.hot.len() - 1) as u32
    }

    /// Notes that the connection has become usable.
    pub(crate) fn note_usable(&mut self, index: u32, now: Nanos) {
        self.cold[index as usize].opened_ms = wrapping_ms(now);
    }

    /// Returns the time for which the connection has been usable.
    pub(crate) fn age_ms(&self, index: u32, now: Nanos) -> u32 {
        wrapping_ms(now).wrapping_sub(self.cold[index as usize].opened_ms)
    }

    /// Returns the parser of a connection that awaits an answer, lent to it at the first call.
    pub(crate) fn parser(&mut self, index: u32) -> &mut Conversation {
        let hot = &mut self.hot[index as usize];
        if hot.parser == NO_PARSER {
            hot.parser = self.parsers.take(hot.state != State::Greeting);
            self.parsers.resume(hot.parser, index);
        }
        &mut self.parsers.parsers[hot.parser as usize - 1]
    }

    /// Returns the server's explanation for the failure of the operation that has just ended on the connection.
    pub(crate) fn said(&self, connection: u32, key: u32) -> &[u8] {
        let number = self.hot[connection as usize].parser.checked_sub(1);
        number.map_or(&[], |number| self.parsers.parsers[number as usize].said(key))
    }

    /// Returns the script that runs on the connection; `None` if nothing is awaited, or in another protocol.
    pub(crate) fn script(&self, index: u32) -> Option<&script::Client> {
        let number = self.hot[index as usize].parser.checked_sub(1)?;
        match &self.parsers.parsers[number as usize] {
            Conversation::Script(client) => Some(client),
            _ => None,
        }
    }

    /// Takes the connection's parser back, unless it holds a part of a message.
    pub(crate) fn return_idle_parser(&mut self, index: u32) {
        let number = self.hot[index as usize].parser;
        if number != NO_PARSER && self.parsers.parsers[number as usize - 1].is_idle() {
            self.parsers.leave(number, index);
            self.return_parser(index);
        }
    }

    /// Takes the connection's parser back, if it has one.
    pub(crate) fn return_parser(&mut self, index: u32) {
        let number = std::mem::replace(&mut self.hot[index as usize].parser, NO_PARSER);
        if number != NO_PARSER {
            self.parsers.give_back(number);
        }
    }

    /// Returns the parts needed to send over TLS; `None` if the slot is free or speaks plaintext.
    pub(crate) fn link(&mut self, index: u32) -> Option<Link<'_>> {
        let socket = self.hot[index as usize].socket.as_ref()?;
        let session = self.tls.get(index)?;
        Some(Link { socket, session, unsent: &mut self.cold[index as usize].unsent })
    }

    /// Slots that wait for an owner.
    #[cfg(debug_assertions)]
    pub(crate) fn free_slots(&self) -> usize {
        self.free.len() + self.free_lanes.len()
    }

    /// Slots made so far, free ones included.
    pub(crate) fn len(&self) -> usize {
        self.hot.len()
    }

    /// Closes the socket and frees the slot.
    pub(crate) fn release(&mut self, index: u32) {
        self.return_parser(index);
        self.forget_lane(index);
        if let Some(rest) = self.parsers.rests.get_mut(index as usize) {
            *rest = Rest::default();
        }
        let hot = &mut self.hot[index as usize];
        *hot = ConnHot { generation: hot.generation.wrapping_add(1), ..ConnHot::default() };
        self.cold[index as usize] = ConnCold::default();
        self.tls.remove(index);
        self.free.push(index);
    }

    /// Frees a slot that had no socket. Its timer stays in the wheel, for the slot's next use.
    pub(crate) fn release_lane(&mut self, index: u32) {
        self.forget_lane(index);
        let hot = &mut self.hot[index as usize];
        let (generation, timer_armed) = (hot.generation.wrapping_add(1), hot.timer_armed);
        *hot = ConnHot { generation, timer_armed, ..ConnHot::default() };
        self.free_lanes.push(index);
    }

    /// Returns the token of the poller's events for this slot's present owner.
    pub(crate) fn token(&self, index: u32) -> u64 {
        u64::from(self.hot[index as usize].generation) << 32 | u64::from(index)
    }

    /// Returns the slot of an event; `None` when its connection has ended.
    pub(crate) fn index_of(&self, token: u64) -> Option<u32> {
        let index = token as u32;
        let hot = self.hot.get(index as usize)?;
        (hot.state != State::Free && hot.generation == (token >> 32) as u32).then_some(index)
    }
}
