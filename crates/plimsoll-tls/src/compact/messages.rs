//! Handshake messages that come after the handshake: where each ends, and which may come at all.

use rustls::AlertDescription;

use crate::record::Fault;

pub(super) const HELLO_REQUEST: u8 = 0;
pub(super) const CLIENT_HELLO: u8 = 1;
pub(super) const NEW_SESSION_TICKET: u8 = 4;
pub(super) const KEY_UPDATE: u8 = 24;

/// A ticket's fields at their longest: lifetime, age, nonce, ticket, extensions (RFC 8446 4.6.1).
const TICKET_BYTES_MAX: u32 = 4 + 4 + (1 + 255) + (2 + 65_535) + (2 + 65_534);
/// The limit of rustls.
const CLIENT_HELLO_BYTES_MAX: u32 = 65_535;
const MESSAGE_HEADER_BYTES: usize = 4;

/// Our end of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Client,
    Server,
}

/// A complete message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) kind: u8,
    /// The body's first byte, which is all there is of a KeyUpdate; 0 if there is none.
    pub(crate) first: u8,
}

/// Finds the end of messages that are split over records or share one. Bodies are not kept.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MessageReader {
    header: [u8; MESSAGE_HEADER_BYTES],
    header_read: u8,
    body_read: u32,
    first: u8,
}

impl Message {
    pub(crate) const fn is_ticket(self) -> bool {
        self.kind == NEW_SESSION_TICKET
    }
}

impl MessageReader {
    /// Reports whether no message has begun that has not ended.
    pub(crate) const fn is_between_messages(&self) -> bool {
        self.header_read == 0
    }

    /// Consumes `input` up to the end of a message; `None` when all of it is consumed.
    pub(crate) fn next(
        &mut self,
        input: &mut &[u8],
        side: Side,
        tls13: bool,
    ) -> Result<Option<Message>, Fault> {
        while usize::from(self.header_read) < MESSAGE_HEADER_BYTES {
            let Some((byte, rest)) = input.split_first() else { return Ok(None) };
            *input = rest;
            self.header[usize::from(self.header_read)] = *byte;
            self.header_read += 1;
        }
        let [kind, length @ ..] = self.header;
        let body_bytes = u32::from_be_bytes([0, length[0], length[1], length[2]]);
        check_kind(kind, body_bytes, side, tls13)?;
        if let (0, Some(first)) = (self.body_read, input.first()) {
            self.first = *first;
        }
        let taken = input.len().min((body_bytes - self.body_read) as usize);
        *input = &input[taken..];
        self.body_read += taken as u32;
        if self.body_read < body_bytes {
            return Ok(None);
        }
        let first = if body_bytes == 0 { 0 } else { self.first };
        *self = Self::default();
        Ok(Some(Message { kind, first }))
    }
}

/// Refuses a message by its type and length, before its body has come.
fn check_kind(kind: u8, body_bytes: u32, side: Side, tls13: bool) -> Result<(), Fault> {
    let lengths = match (tls13, side, kind) {
        (true, Side::Client, NEW_SESSION_TICKET) => 1..=TICKET_BYTES_MAX,
        (true, _, KEY_UPDATE) => 1..=1,
        (false, Side::Client, HELLO_REQUEST) => 0..=0,
        (false, Side::Server, CLIENT_HELLO) => 1..=CLIENT_HELLO_BYTES_MAX,
        _ => {
            return Err(Fault {
                alert: AlertDescription::UnexpectedMessage,
                reason: "a handshake message of this type must not come after the handshake",
            });
        }
    };
    if lengths.contains(&body_bytes) {
        return Ok(());
    }
    Err(Fault {
        alert: AlertDescription::DecodeError,
        reason: "a handshake message has a length that its type does not allow",
    })
}
