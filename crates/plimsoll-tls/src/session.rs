//! One TLS connection, either side: ciphertext in, plaintext out, and the other way round.
//!
//! It holds no socket. After any `handle_*` or `write_*`, send what [`Session::poll_transmit`]
//! appends.

use std::io::BufRead;
use std::io::Write;

use rustls::Connection;
use rustls::ProtocolVersion;

use crate::TlsError;

/// One TLS connection. Small here; its state is in one allocation behind it.
pub struct Session(Box<Connection>);

const _: () = assert!(size_of::<Option<Session>>() == 8);

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("handshake", &self.handshake()).finish_non_exhaustive()
    }
}

/// What one call of [`Session::handle_ciphertext`] brought, beside plaintext.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The handshake ended in this call.
    pub handshake_finished: bool,
    /// The peer has said, now or earlier, that it sends nothing more (close_notify). Bytes after
    /// that are ignored.
    pub peer_closed: bool,
}

/// How the keys came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeKind {
    /// With certificates and a signature.
    Full,
    /// From a ticket of an earlier session.
    Resumed,
}

/// What a finished handshake agreed on; the names are those of the IANA registries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handshake {
    /// How the keys came about.
    pub kind: HandshakeKind,
    /// The server wanted another key share: one more round trip.
    pub retried: bool,
    /// `TLS 1.2` or `TLS 1.3`.
    pub version: &'static str,
    /// The cipher suite, such as `TLS13_AES_256_GCM_SHA384`.
    pub suite: &'static str,
    /// The key-exchange group, such as `X25519`; none where a TLS 1.2 session was resumed.
    pub group: Option<&'static str>,
}

impl Session {
    pub(crate) fn new(mut connection: Connection) -> Self {
        // The caller bounds what it offers, so that all of it can be taken.
        connection.set_buffer_limit(None);
        Self(Box::new(connection))
    }

    /// Takes all of `input` and appends the application bytes in it to `plaintext`, those before
    /// an error included. After an error an alert may be waiting to be sent; nothing else works.
    pub fn handle_ciphertext(
        &mut self,
        mut input: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        let connection = &mut *self.0;
        let was_handshaking = connection.is_handshaking();
        let mut received = Received::default();
        while !input.is_empty() {
            // rustls takes some KiB at a time; 0 means that it ignores what follows close_notify.
            let handshaking = connection.is_handshaking();
            let taken = connection.read_tls(&mut input).map_err(|error| {
                let reason = error.to_string();
                if handshaking {
                    TlsError::Handshake { reason }
                } else {
                    TlsError::Record { reason }
                }
            })?;
            let outcome = connection.process_new_packets();
            drain(connection, plaintext);
            match outcome {
                Ok(state) => received.peer_closed |= state.peer_has_closed(),
                Err(error) => return Err(TlsError::from_rustls(&error, handshaking)),
            }
            if taken == 0 {
                break;
            }
        }
        received.handshake_finished = was_handshaking && !connection.is_handshaking();
        Ok(received)
    }

    /// Queues application bytes; all are taken, and held back until the handshake is done.
    pub fn write_plaintext(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        self.0
            .writer()
            .write_all(bytes)
            .map_err(|error| TlsError::Record { reason: error.to_string() })
    }

    /// Appends what must go to the peer (handshake, records, alerts) to `out`; returns the number
    /// of bytes appended.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        while self.0.wants_write() {
            // A Vec takes everything, so neither an error nor a short write can happen.
            if !matches!(self.0.write_tls(out), Ok(1..)) {
                break;
            }
        }
        out.len() - before
    }

    /// Whether [`Self::poll_transmit`] has anything to give.
    pub fn wants_transmit(&self) -> bool {
        self.0.wants_write()
    }

    /// Whether the handshake is still under way.
    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// What the handshake agreed on, once it is done.
    pub fn handshake(&self) -> Option<Handshake> {
        use rustls::HandshakeKind as Kind;
        if self.0.is_handshaking() {
            return None;
        }
        let (kind, retried) = match self.0.handshake_kind()? {
            Kind::Full => (HandshakeKind::Full, false),
            Kind::FullWithHelloRetryRequest => (HandshakeKind::Full, true),
            Kind::Resumed => (HandshakeKind::Resumed, false),
        };
        let version = match self.0.protocol_version()? {
            ProtocolVersion::TLSv1_2 => "TLS 1.2",
            _ => "TLS 1.3",
        };
        let suite = self.0.negotiated_cipher_suite()?.suite().as_str().unwrap_or("unknown");
        let group = self.0.negotiated_key_exchange_group().and_then(|group| group.name().as_str());
        Some(Handshake { kind, retried, version, suite, group })
    }

    /// Queues the announcement that nothing more will be sent.
    pub fn queue_close_notify(&mut self) {
        self.0.send_close_notify();
    }
}

/// Moves all decrypted bytes into `plaintext`.
fn drain(connection: &mut Connection, plaintext: &mut Vec<u8>) {
    let mut reader = connection.reader();
    // "Would block" and both kinds of end of stream mean the same here: nothing more for now.
    while let Ok(chunk) = reader.fill_buf() {
        if chunk.is_empty() {
            break;
        }
        plaintext.extend_from_slice(chunk);
        let taken = chunk.len();
        reader.consume(taken);
    }
}
