//! The server's side of the opening handshake: the fields of an HTTP/1.1 request for WebSocket, and the answer.
//!
//! [`Opening::handle_header`] receives each header of a request and stores the few that matter.
//! [`Opening::is_asked_for`] then reports whether the request asks for WebSocket, and [`Opening::accept`] writes the
//! 101 response or returns the [`Refusal`], which becomes status 400. The client checks the response with
//! [`accept_for`]. Start reading at [`Opening::accept`].

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use sha1_smol::Sha1;
use thiserror::Error;

use crate::http1::head::{is, tokens};

/// A key is 16 bytes in Base64.
pub const KEY_BYTES: usize = 24;
/// RFC 6455 1.3.
const GUID: &[u8] = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const KEY_PLAIN_BYTES: usize = 16;

/// Fields of a request that concern WebSocket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opening {
    upgrades: bool,
    connection_upgrades: bool,
    is_version_13: bool,
    key: Option<[u8; KEY_BYTES]>,
    /// The first subprotocol that the client offers.
    protocol: Option<Vec<u8>>,
}

/// Why a request that asks for WebSocket does not get it: status 400.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Refusal {
    /// `Connection` does not name `Upgrade`.
    #[error("Upgrade without Connection: Upgrade; correct the client or the proxy")]
    Connection,
    /// Another version than 13.
    #[error("Sec-WebSocket-Version is not 13; correct the client")]
    Version,
    /// No key, or not one of 16 bytes.
    #[error("Sec-WebSocket-Key is not 16 bytes in Base64; correct the client")]
    Key,
}

impl Opening {
    /// Handles one header of a request.
    pub fn handle_header(&mut self, name: &str, value: &[u8]) {
        let name = name.as_bytes();
        let value = value.trim_ascii();
        match name.len() {
            7 if is(name, b"upgrade") => {
                self.upgrades |= tokens(value).any(|token| is(token, b"websocket"));
            }
            10 if is(name, b"connection") => {
                self.connection_upgrades |= tokens(value).any(|token| is(token, b"upgrade"));
            }
            17 if is(name, b"sec-websocket-key") => self.key = value.try_into().ok(),
            21 if is(name, b"sec-websocket-version") => self.is_version_13 = value == b"13",
            22 if is(name, b"sec-websocket-protocol") => {
                let first = || tokens(value).next().map(<[u8]>::to_vec);
                self.protocol = self.protocol.take().or_else(first);
            }
            _ => {}
        }
    }

    /// Reports whether the request asks for WebSocket.
    pub const fn is_asked_for(&self) -> bool {
        self.upgrades
    }

    /// Appends the answer that switches to WebSocket, with the first subprotocol that was offered.
    pub fn accept(&self, out: &mut Vec<u8>) -> Result<(), Refusal> {
        if !self.connection_upgrades {
            return Err(Refusal::Connection);
        }
        if !self.is_version_13 {
            return Err(Refusal::Version);
        }
        let key = self.key.filter(is_key).ok_or(Refusal::Key)?;
        write_switch(out, &key, self.protocol.as_deref());
        Ok(())
    }
}

fn is_key(key: &[u8; KEY_BYTES]) -> bool {
    STANDARD.decode(key).is_ok_and(|plain| plain.len() == KEY_PLAIN_BYTES)
}

/// Returns the value of `Sec-WebSocket-Accept` that proves that the server has read `key`.
pub fn accept_for(key: &[u8; KEY_BYTES]) -> String {
    let mut sha1 = Sha1::new();
    sha1.update(key);
    sha1.update(GUID);
    STANDARD.encode(sha1.digest().bytes())
}

/// Appends the head of the response that switches to WebSocket.
fn write_switch(out: &mut Vec<u8>, key: &[u8; KEY_BYTES], protocol: Option<&[u8]>) {
    out.extend_from_slice(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n");
    out.extend_from_slice(b"Connection: Upgrade\r\nSec-WebSocket-Accept: ");
    out.extend_from_slice(accept_for(key).as_bytes());
    if let Some(protocol) = protocol {
        out.extend_from_slice(b"\r\nSec-WebSocket-Protocol: ");
        out.extend_from_slice(protocol);
    }
    out.extend_from_slice(b"\r\n\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 6455 1.3.
    const KEY: &[u8; KEY_BYTES] = b"dGhlIHNhbXBsZSBub25jZQ==";

    fn opening(headers: &[(&str, &[u8])]) -> Opening {
        let mut opening = Opening::default();
        headers.iter().for_each(|(name, value)| opening.handle_header(name, value));
        opening
    }

    #[test]
    fn the_handshake_of_the_standard() {
        let opening = opening(&[
            ("Host", b"server.example.com"),
            ("UPGRADE", b"h2c, WebSocket"),
            ("Connection", b"keep-alive, Upgrade"),
            ("Sec-WebSocket-Key", KEY),
            ("Sec-WebSocket-Protocol", b"chat, superchat"),
            ("Sec-WebSocket-Version", b"13"),
        ]);
        assert!(opening.is_asked_for());
        let mut out = Vec::new();
        opening.accept(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.starts_with("HTTP/1.1 101 Switching Protocols\r\n"), "{text}");
        assert!(
            text.contains("\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n"),
            "{text}"
        );
        assert!(text.ends_with("\r\nSec-WebSocket-Protocol: chat\r\n\r\n"), "{text}");
    }

    #[test]
    fn what_is_not_whole_is_refused() {
        let upgrade: (&str, &[u8]) = ("Upgrade", b"websocket");
        let connection: (&str, &[u8]) = ("Connection", b"Upgrade");
        let version: (&str, &[u8]) = ("Sec-WebSocket-Version", b"13");
        for (headers, expected) in [
            (&[upgrade, version, ("Sec-WebSocket-Key", KEY)][..], Refusal::Connection),
            (&[upgrade, connection, ("Sec-WebSocket-Key", KEY)], Refusal::Version),
            (&[upgrade, connection, version], Refusal::Key),
            (&[upgrade, connection, version, ("Sec-WebSocket-Key", &[b'*'; 24])], Refusal::Key),
            (&[upgrade, connection, version, ("Sec-WebSocket-Key", b"AAAA")], Refusal::Key),
        ] {
            let mut out = Vec::new();
            assert_eq!(opening(headers).accept(&mut out), Err(expected));
            assert!(out.is_empty());
        }
        assert!(!opening(&[connection, ("Upgrade", b"h2c")]).is_asked_for());
    }
}
