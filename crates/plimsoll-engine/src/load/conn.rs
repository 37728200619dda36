//! One client connection: a hot record that the loop touches, a cold one that it seldom needs.

use plimsoll_model::Nanos;
use plimsoll_proto::http1::client::ResponseParser;
use plimsoll_sys::socket::Socket;
use plimsoll_tls::Session;

/// Where a connection is in its life.
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
    /// Usable, no operation.
    Idle,
    /// An operation is being sent or awaits its answer.
    Busy,
}

/// An operation, from the instant it came due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Op {
    pub(crate) intended: Nanos,
    /// Index into the plan's targets.
    pub(crate) target: u32,
}

/// All that the loop touches for a connection, in one cache line.
#[derive(Debug, Default)]
#[repr(C, align(64))]
pub(crate) struct ConnHot {
    // ---- 16 bytes: identity
    pub(crate) socket: Option<Socket>,
    /// Tells a late event of the slot's earlier owner from one of this.
    pub(crate) generation: u32,
    /// Index into the plan's destinations.
    pub(crate) destination: u32,
    /// Target of the operation in hand.
    pub(crate) target: u32,
    // ---- 24 bytes: time
    /// Intended start of the operation in hand.
    pub(crate) intended: Nanos,
    /// Actual send of the operation in hand. While idle: since when. While opening: the SYN.
    pub(crate) since: Nanos,
    /// When the operation in hand, or the opening, is given up.
    pub(crate) give_up: Nanos,
    // ---- 16 bytes: progress
    /// Request bytes (before encryption) already handed to the kernel or to TLS.
    pub(crate) request_sent_bytes: u32,
    /// Operations ended on this connection.
    pub(crate) ops_total: u32,
    pub(crate) state: State,
    /// An operation is attached; only while opening without keep-alive can it be missing a send.
    pub(crate) has_op: bool,
    /// The slot stands in its pool's idle ring, perhaps from an earlier owner.
    pub(crate) in_idle_ring: bool,
    /// The wheel holds a timer for the slot; it may be due too early, never too late: answers
    /// do not disarm it, and firing early it is armed again.
    pub(crate) timer_armed: bool,
    /// The first byte of the answer has been seen.
    pub(crate) answer_begun: bool,
    /// Opening: `since` to TCP established, us. Busy: `since` to the request's first byte, us.
    pub(crate) offset_us: u32,
    /// When it became usable, CLOCK_MONOTONIC in ms, wrapping.
    pub(crate) opened_ms: u32,
}

const _: () = assert!(size_of::<ConnHot>() == 64);

/// What only opening, TLS and split messages need.
#[derive(Default)]
pub(crate) struct ConnCold {
    pub(crate) parser: ResponseParser,
    pub(crate) tls: Option<Session>,
    /// Ciphertext that the kernel would not take; boxed, because it is nearly always absent.
    #[expect(clippy::box_collection, reason = "8 bytes instead of 24 in every connection")]
    pub(crate) unsent: Option<Box<Vec<u8>>>,
}

const _: () = assert!(size_of::<ConnCold>() <= 64);

/// The connections of one worker, found by index; a generation guards against stale events.
#[derive(Default)]
pub(crate) struct Slab {
    pub(crate) hot: Vec<ConnHot>,
    pub(crate) cold: Vec<ConnCold>,
    free: Vec<u32>,
}

impl Slab {
    /// A slot in state [`State::Free`], to be filled by the caller.
    pub(crate) fn take(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        self.hot.push(ConnHot::default());
        self.cold.push(ConnCold::default());
        (self.hot.len() - 1) as u32
    }

    /// Slots made so far, free ones included.
    pub(crate) fn len(&self) -> usize {
        self.hot.len()
    }

    /// Closes the socket and frees the slot.
    pub(crate) fn release(&mut self, index: u32) {
        let hot = &mut self.hot[index as usize];
        *hot = ConnHot {
            generation: hot.generation.wrapping_add(1),
            in_idle_ring: hot.in_idle_ring,
            ..ConnHot::default()
        };
        self.cold[index as usize] = ConnCold::default();
        self.free.push(index);
    }

    /// What the poller returns with events of this slot's present owner.
    pub(crate) fn token(&self, index: u32) -> u64 {
        u64::from(self.hot[index as usize].generation) << 32 | u64::from(index)
    }

    /// The slot of an event; `None` when its owner is gone.
    pub(crate) fn index_of(&self, token: u64) -> Option<u32> {
        let index = token as u32;
        let hot = self.hot.get(index as usize)?;
        (hot.state != State::Free && hot.generation == (token >> 32) as u32).then_some(index)
    }
}
