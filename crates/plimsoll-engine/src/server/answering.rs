//! The answer of one stream of HTTP/2.

use plimsoll_model::Nanos;
use plimsoll_proto::http2::PREFACE;

use super::service::Body;

/// First bytes of a connection that speaks HTTP/2: the method of its preface, which HTTP/1.1
/// does not have.
pub(super) const PREFACE_METHOD: &[u8] = PREFACE.first_chunk::<4>().expect("it is longer");

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answering<N> {
    pub(super) notes: Option<N>,
    pub(super) state: State,
    pub(super) body: Source,
}

impl<N> Default for Answering<N> {
    fn default() -> Self {
        Self { notes: None, state: State::Receiving, body: Source::Text(Vec::new()) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The request is not complete.
    Receiving,
    /// The next piece is due then; `head` is still to be written, with this status.
    Waiting(Nanos, Head),
    /// A piece is being written.
    Writing(Head),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Head {
    Due(u16),
    Sent,
}

/// The rest of an answer's body.
#[derive(Debug)]
pub(super) enum Source {
    /// A body of the service's pattern.
    Pattern { body: Body, piece_left: u32 },
    /// These bytes, backwards from their end to `0`: nothing is moved while they are sent.
    Text(Vec<u8>),
    /// The message of a call, from here on.
    Message { from: usize },
}

impl Source {
    /// Returns the bytes of the whole body; `None` if they are not announced.
    pub(super) fn length(&self) -> Option<u64> {
        match self {
            Self::Pattern { body, .. } if body.chunked => None,
            Self::Pattern { body, .. } => {
                Some(u64::from(body.piece_bytes) * (u64::from(body.pieces_further) + 1))
            }
            Self::Text(text) => Some(text.len() as u64),
            Self::Message { .. } => None,
        }
    }
}
