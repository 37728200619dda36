//! A connection that rustls drives: until it is compact, or for its whole life.
//!
//! [`Handshaking::receive`] feeds rustls and appends plaintext. A connection that will become compact gets whole
//! records only, because bytes inside rustls cannot be taken back. If its session must be resumable
//! ([`Afterwards::SettleThenCompact`]), [`Settling`] decrypts the same records, to find a point after a ticket or
//! data and between two handshake messages. [`Handshaking::into_compact`] then drops rustls and keeps traffic secrets
//! and sequence numbers. Start reading at [`Handshaking::receive`].

use std::io::{BufRead, Write};

use rustls::{Connection, ConnectionTrafficSecrets, HandshakeKind};

use crate::capture::Captured;
use crate::compact::{Compact, Direction, Flags, MessageReader, Side};
use crate::suite::{Material, Secret, Suite};
use crate::{ThreadContext, TlsError, agreed, record};

/// KeyUpdates that rustls may have sent before a connection is made compact: one for each 2^24
/// records.
const KEY_UPDATES_MAX: usize = 64;

/// The state of a connection after its handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    /// The connection stays with rustls.
    Keep,
    /// The connection is made compact at once. Tickets that come later are counted and not kept.
    Compact,
    /// The connection stays with rustls until a ticket or data has come, so that its session can be resumed.
    SettleThenCompact,
}

/// A rustls connection and the state for making it compact.
///
/// One that is to be compact is fed whole records only: what is behind the handshake's last record
/// never gets into rustls, from where it could not be had back.
pub(crate) struct Handshaking {
    pub(crate) connection: Connection,
    afterwards: Afterwards,
    captured: Captured,
    settling: Option<Settling>,
    /// The beginning of a record whose end has not come.
    record: Vec<u8>,
    /// Application bytes that were written before the handshake was done.
    early: Vec<u8>,
    tickets: u32,
    pub(crate) peer_closed: bool,
    failed: bool,
}

/// Reads the same bytes as rustls, to detect when no handshake message is half received.
struct Settling {
    suite: Suite,
    rx: Direction,
    message: MessageReader,
    /// A ticket or data has come.
    settled: bool,
}

/// The result of [`Handshaking::receive`].
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    /// The handshake ended in this call.
    pub(crate) finished: bool,
    /// The connection can be made compact; input after this point was not consumed.
    pub(crate) may_compact: bool,
}

impl Handshaking {
    pub(crate) fn new(mut connection: Connection, afterwards: Afterwards) -> Self {
        // The caller bounds the input, so that all of it can be consumed.
        connection.set_buffer_limit(None);
        Self {
            connection,
            afterwards,
            captured: Captured::default(),
            settling: None,
            record: Vec::new(),
            early: Vec::new(),
            tickets: 0,
            peer_closed: false,
            failed: false,
        }
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    pub(crate) fn queue_close_notify(&mut self) {
        // Only rustls knows that close_notify was sent; the connection ends soon.
        self.afterwards = Afterwards::Keep;
        self.settling = None;
        self.connection.send_close_notify();
    }

    // ---- receiving

    /// Takes bytes off the front of `input`: all, or those before [`Progress::may_compact`].
    pub(crate) fn receive(
        &mut self,
        thread: &mut ThreadContext,
        input: &mut &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<Progress, TlsError> {
        let mut progress = Progress::default();
        if self.afterwards == Afterwards::Keep {
            let all = std::mem::take(input);
            let was_handshaking = self.is_handshaking();
            let begun = std::mem::take(&mut self.record);
            self.feed(thread, &begun, plaintext)?;
            self.feed(thread, all, plaintext)?;
            progress.finished = was_handshaking && !self.is_handshaking();
            return Ok(progress);
        }
        while !progress.may_compact && !input.is_empty() && self.afterwards != Afterwards::Keep {
            if self.record.is_empty()
                && let Some(whole) = whole_record(input)
            {
                *input = &input[whole.len()..];
                self.receive_record(thread, whole, plaintext, &mut progress)?;
            } else if self.complete_record(input) {
                let mut whole = std::mem::take(&mut self.record);
                self.receive_record(thread, &whole, plaintext, &mut progress)?;
                whole.clear();
                self.record = whole;
            }
        }
        if self.afterwards == Afterwards::Keep && !input.is_empty() {
            let rest = std::mem::take(input);
            self.feed(thread, rest, plaintext)?;
        }
        Ok(progress)
    }

    /// Moves bytes from `input` to the record that has begun; true when it is whole.
    fn complete_record(&mut self, input: &mut &[u8]) -> bool {
        loop {
            let needed = match record::length(&self.record) {
                // rustls returns the error.
                _ if !record::is_plausible(&self.record) => self.record.len(),
                None => record::HEADER_BYTES,
                Some(length) => length,
            };
            let missing = needed.saturating_sub(self.record.len());
            if missing == 0 {
                return true;
            }
            if input.is_empty() {
                return false;
            }
            // The first bytes one by one: they may show that this is no TLS.
            let step = if self.record.len() < record::HEADER_BYTES { 1 } else { missing };
            let (taken, rest) = input.split_at(step.min(input.len()));
            self.record.extend_from_slice(taken);
            *input = rest;
        }
    }

    fn receive_record(
        &mut self,
        thread: &mut ThreadContext,
        whole: &[u8],
        plaintext: &mut Vec<u8>,
        progress: &mut Progress,
    ) -> Result<(), TlsError> {
        let was_handshaking = self.is_handshaking();
        let (before, tickets) = (plaintext.len(), self.tickets);
        let read_along = self.settling.as_mut().map(|settling| settling.read(thread, whole));
        self.feed(thread, whole, plaintext)?;
        if was_handshaking && !self.is_handshaking() {
            progress.finished = true;
            self.begin_settling(thread);
            progress.may_compact = self.afterwards == Afterwards::Compact;
        } else if let (Some(read_along), Some(settling)) = (read_along, &mut self.settling) {
            settling.settled |= plaintext.len() > before || self.tickets > tickets;
            match read_along {
                true => progress.may_compact = settling.may_end(),
                false => self.keep(thread),
            }
        }
        if self.peer_closed && self.settling.is_some() {
            self.keep(thread);
        }
        Ok(())
    }

    fn keep(&mut self, thread: &mut ThreadContext) {
        self.afterwards = Afterwards::Keep;
        self.settling = None;
        thread.kept_in_rustls += 1;
    }

    /// Decides how the connection continues; called when its handshake is done.
    fn begin_settling(&mut self, thread: &mut ThreadContext) {
        let suite = self.suite();
        let Captured { client, server } = &self.captured;
        match (suite, (client, server)) {
            // TLS 1.2 has its ticket before its handshake ends.
            (Some(suite), _) if !suite.is_tls13() => self.afterwards = Afterwards::Compact,
            (Some(suite), (Some(_), Some(server))) => {
                if self.afterwards == Afterwards::SettleThenCompact {
                    let rx = Direction { secret: server.clone(), sequence: 0 };
                    let message = MessageReader::default();
                    self.settling = Some(Settling { suite, rx, message, settled: false });
                }
            }
            _ => self.keep(thread),
        }
    }

    fn suite(&self) -> Option<Suite> {
        Suite::of(self.connection.negotiated_cipher_suite()?.suite())
    }

    /// Hands `input` to rustls and appends the data in it to `plaintext`.
    fn feed(
        &mut self,
        thread: &mut ThreadContext,
        mut input: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let connection = &mut self.connection;
        while !input.is_empty() {
            // rustls reads some KiB at a time; 0 means that it ignores what follows close_notify.
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
                Ok(state) => self.peer_closed |= state.peer_has_closed(),
                Err(error) => {
                    self.failed = true;
                    return Err(TlsError::from_rustls(&error, handshaking));
                }
            }
            if taken == 0 {
                break;
            }
        }
        if self.afterwards != Afterwards::Keep {
            self.captured.merge(Captured::take());
        }
        if let Connection::Client(client) = &self.connection {
            let tickets = client.tls13_tickets_received();
            thread.messages.tickets += u64::from(tickets - self.tickets);
            self.tickets = tickets;
        }
        Ok(())
    }

    // ---- sending

    /// Queues application bytes, which are held back until the handshake is done.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        if self.afterwards != Afterwards::Keep && self.is_handshaking() && !self.failed {
            self.early.extend_from_slice(bytes);
            return Ok(());
        }
        // What was held back for a connection that is kept after all.
        let early = std::mem::take(&mut self.early);
        let mut writer = self.connection.writer();
        writer
            .write_all(&early)
            .and_then(|()| writer.write_all(bytes))
            .map_err(|error| TlsError::Record { reason: error.to_string() })
    }

    /// Appends what rustls has for the peer.
    pub(crate) fn transmit(&mut self, out: &mut Vec<u8>) {
        if !self.early.is_empty() && !self.is_handshaking() {
            // Fails only after an error, which was returned to the caller.
            let _ = self.write(&[]);
        }
        take_output(&mut self.connection, out);
    }

    // ---- making compact

    /// Drops the rustls object; returns the compact connection, and records that are left to be sent. To be called
    /// only after [`Progress::may_compact`].
    pub(crate) fn into_compact(
        mut self,
        thread: &mut ThreadContext,
    ) -> Result<(Compact, Vec<u8>), TlsError> {
        let refused = |reason: &str| TlsError::Record { reason: reason.to_owned() };
        let suite = self.suite().ok_or_else(|| refused("its cipher suite is unknown"))?;
        let mut flags = self.flags();
        let is_server = matches!(self.connection, Connection::Server(_));
        let mut out = Vec::new();
        take_output(&mut self.connection, &mut out);
        let secrets = self
            .connection
            .dangerous_extract_secrets()
            .map_err(|error| refused(&error.to_string()))?;
        let unknown = || refused("its keys are of an unknown kind");
        let rx_key = key_of(&secrets.rx.1).ok_or_else(unknown)?;
        let tx_key = key_of(&secrets.tx.1).ok_or_else(unknown)?;
        let Captured { client, server } = std::mem::take(&mut self.captured);
        let (rx, tx) = if is_server { (client, server) } else { (server, client) };
        // Before it was settled, KeyUpdates may have replaced what was caught.
        let is_checked = thread.is_checked() || self.afterwards != Afterwards::Compact;
        let (rx_secret, tx_secret) = match (rx, tx) {
            (Some(rx), Some(tx)) if suite.is_tls13() && !is_checked => (Some(rx), Some(tx)),
            // The self-check: what was caught must give the keys that rustls uses.
            (Some(rx), Some(tx)) if suite.is_tls13() => {
                (secret_behind(suite, rx, &rx_key), secret_behind(suite, tx, &tx_key))
            }
            _ => (None, None),
        };
        let (rx_secret, tx_secret) = rx_secret.zip(tx_secret).unwrap_or_else(|| {
            if suite.is_tls13() {
                thread.without_secrets += 1;
            }
            flags.set(Flags::GIVEN_KEYS);
            (rx_key.clone(), tx_key.clone())
        });
        for (secret, key) in [(&rx_secret, &rx_key), (&tx_secret, &tx_key)] {
            thread.keys.keep(suite, secret, key).map_err(|_| unknown())?;
        }
        let rx = Direction { secret: rx_secret, sequence: secrets.rx.0 };
        let tx = Direction { secret: tx_secret, sequence: secrets.tx.0 };
        let mut compact = Compact::new(suite, flags, rx, tx);
        compact.send(thread, &self.early, &mut out)?;
        Ok((compact, out))
    }

    fn flags(&self) -> Flags {
        let mut flags = Flags::default();
        if matches!(self.connection, Connection::Server(_)) {
            flags.set(Flags::SERVER);
        }
        if self.connection.alpn_protocol() == Some(agreed::HTTP2) {
            flags.set(Flags::HTTP2);
        }
        if agreed::is_rsa(&self.connection) {
            flags.set(Flags::RSA);
        }
        if self.connection.handshake_kind() == Some(HandshakeKind::Resumed) {
            flags.set(Flags::RESUMED);
        }
        flags
    }
}

impl Settling {
    /// Opens `whole` beside rustls; false when it holds what this connection cannot be made compact
    /// after.
    fn read(&mut self, thread: &mut ThreadContext, whole: &[u8]) -> bool {
        let Ok(key) = thread.keys.key(self.suite, Material::TrafficSecret, &self.rx.secret) else {
            return false;
        };
        let mut scratch = std::mem::take(&mut thread.scratch);
        scratch.clear();
        let opened = match whole.first_chunk() {
            Some(header) if record::check_header(self.suite, header).is_ok() => {
                record::open(self.suite, key, self.rx.sequence, whole, &mut scratch).ok()
            }
            _ => None,
        };
        self.rx.sequence += 1;
        let may_compact = match opened {
            Some(record::HANDSHAKE) => self.has_tickets_only(&scratch),
            Some(record::APPLICATION_DATA) => true,
            _ => false,
        };
        thread.scratch = scratch;
        may_compact
    }

    fn has_tickets_only(&mut self, mut content: &[u8]) -> bool {
        loop {
            match self.message.next(&mut content, Side::Client, true) {
                Ok(None) => return true,
                Ok(Some(message)) if message.is_ticket() => {}
                // A KeyUpdate may have left an answer inside rustls.
                Ok(Some(_)) | Err(_) => return false,
            }
        }
    }

    const fn may_end(&self) -> bool {
        self.settled && self.message.is_between_messages()
    }
}

/// Returns the record at the front of `input`, if all of it is there.
fn whole_record<'a>(input: &&'a [u8]) -> Option<&'a [u8]> {
    if !record::is_plausible(input) {
        return None;
    }
    input.get(..record::length(input)?)
}

/// The traffic secret that gives `key`: `first`, or one that KeyUpdates of ours made of it while
/// the session settled.
fn secret_behind(suite: Suite, first: Secret, key: &Secret) -> Option<Secret> {
    let mut secret = first;
    for _ in 0..=KEY_UPDATES_MAX {
        if suite.key_of(Material::TrafficSecret, &secret).ok()? == *key {
            return Some(secret);
        }
        secret = suite.next_secret(&secret).ok()?;
    }
    None
}

fn key_of(secrets: &ConnectionTrafficSecrets) -> Option<Secret> {
    use ConnectionTrafficSecrets as S;
    match secrets {
        S::Aes128Gcm { key, iv } | S::Aes256Gcm { key, iv } | S::Chacha20Poly1305 { key, iv } => {
            Some(Secret::of_key(key.as_ref(), iv.as_ref()))
        }
        _ => None,
    }
}

/// Appends the records that rustls has for the peer.
pub(crate) fn take_output(connection: &mut Connection, out: &mut Vec<u8>) {
    // Writing to a Vec has neither errors nor short writes.
    while connection.wants_write() && matches!(connection.write_tls(out), Ok(1..)) {}
}

/// Moves all decrypted bytes into `plaintext`.
pub(crate) fn drain(connection: &mut Connection, plaintext: &mut Vec<u8>) {
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
