//! The service of a server, as a trait: the engine decides when and how much is sent, not its content.

use plimsoll_model::Nanos;
use plimsoll_proto::http1::Request;

/// The behaviour behind a server. One per worker thread, so it needs no locks.
pub trait Service: Send + 'static {
    /// Values of a request's headers; kept per connection while a request is arriving.
    type Notes: Default + Send;

    /// A body is this, repeated and cut to size. Not empty.
    const PATTERN: &'static [u8];

    /// Handles one header of a request; `name` in the peer's spelling.
    fn handle_header(&mut self, notes: &mut Self::Notes, name: &str, value: &[u8]);

    /// Handles a complete request.
    fn handle_request(&mut self, notes: &Self::Notes, request: &Request) -> Answer;

    /// Returns the pause before the next piece of an answer. `token` is what the
    /// service gave with the answer.
    fn next_delay(&mut self, token: u64) -> Nanos;
}

/// The answer to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Status 200 and a body.
    Body(Body),
    /// Any other status, at once, with a one-line text; the connection lives on if it may.
    Refusal {
        /// The status, 400 to 599.
        status: u16,
        /// One line, without its end.
        text: String,
    },
}

/// A body in one or more pieces of the same size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Body {
    /// Wait before the head and the first piece.
    pub delay: Nanos,
    /// Size of each piece.
    pub piece_bytes: u32,
    /// Pieces after the first, each after its own delay.
    pub pieces_further: u32,
    /// Send pieces as chunks; otherwise the length is announced, as it is to HTTP/1.0 clients,
    /// who do not know chunks.
    pub chunked: bool,
    /// Handed back to [`Service::next_delay`].
    pub token: u64,
    /// Period, in milliseconds, of the stamped messages of `piece_bytes` that a WebSocket opened by this answer gets; 0
    /// for none.
    pub push_every_ms: u32,
}
