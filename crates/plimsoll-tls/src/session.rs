//! One TLS connection, either side: ciphertext in, plaintext out, and the other way round.
//!
//! It holds no socket. After any `handle_*` send what [`Session::poll_transmit`] appends.

use crate::handshaking::{Afterwards, Handshaking, JustParked};
use crate::parked::{Flags, MessageReader, Parked};
use crate::workbench::Permit;
use crate::{Handshake, TlsError, Workbench, record};

/// One TLS connection. Until its handshake is done it is a rustls object on the heap; from then on
/// it is *parked*: traffic secrets and sequence numbers, all of them in here. Bytes go through the
/// [`Workbench`] of the thread that has the session in hand.
///
/// Memory while parked: these 120 bytes, and no heap but for a record or a message that has come
/// in part.
pub struct Session(State);

const _: () = assert!(size_of::<Option<Session>>() == 120);

enum State {
    /// rustls has it.
    Handshaking(Box<Handshaking>),
    /// Parked, with bytes that wait.
    Laden(Box<Laden>),
    Parked(Parked),
    /// It could not be parked. Holds nothing.
    Failed,
}

/// A parked connection and bytes that wait.
struct Laden {
    parked: Parked,
    /// The beginning of a record whose end has not come.
    record: Vec<u8>,
    message: MessageReader,
    /// Records for the peer.
    out: Vec<u8>,
    permit: Option<Permit>,
}

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
    /// that are ignored. TLS 1.3 leaves our direction open; in TLS 1.2 the answer is to close.
    pub peer_closed: bool,
}

impl Session {
    pub(crate) fn new(connection: rustls::Connection, afterwards: Afterwards) -> Self {
        Self(State::Handshaking(Box::new(Handshaking::new(connection, afterwards))))
    }

    /// Takes all of `input` and appends the application bytes in it to `plaintext`, those before
    /// an error included. After an error an alert may be waiting to be sent; nothing else works.
    pub fn handle_ciphertext(
        &mut self,
        bench: &mut Workbench,
        mut input: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        let mut handshake_finished = false;
        if let State::Handshaking(handshaking) = &mut self.0 {
            let progress = handshaking.receive(bench, &mut input, plaintext)?;
            handshake_finished = progress.finished;
            if progress.may_park {
                self.park(bench)?;
            }
        }
        match &mut self.0 {
            State::Handshaking(_) => {}
            State::Parked(parked) => {
                let mut message = MessageReader::default();
                let taken = parked.receive(bench, &mut message, input, plaintext)?;
                let rest = &input[taken..];
                if !rest.is_empty() || !message.is_between_messages() {
                    let mut laden = Laden::new(parked.clone());
                    laden.message = message;
                    laden.begin_record(bench, rest)?;
                    self.0 = State::Laden(Box::new(laden));
                }
            }
            State::Laden(laden) => {
                laden.receive(bench, input, plaintext)?;
                self.unload();
            }
            State::Failed => return Err(TlsError::failed_before()),
        }
        Ok(Received { handshake_finished, peer_closed: self.has_peer_closed() })
    }

    /// Appends what waits for the peer and then `bytes`, as records, to `out`. Before the
    /// handshake is done the bytes are held back.
    pub fn write_plaintext(
        &mut self,
        bench: &mut Workbench,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        match &mut self.0 {
            State::Parked(parked) => parked.send(bench, bytes, out),
            State::Handshaking(handshaking) => {
                handshaking.write(bytes)?;
                handshaking.transmit(out);
                Ok(())
            }
            State::Laden(laden) => {
                out.append(&mut laden.out);
                let sent = laden.parked.send(bench, bytes, out);
                self.unload();
                sent
            }
            State::Failed => Err(TlsError::failed_before()),
        }
    }

    /// Appends what must go to the peer (handshake, alerts) to `out`; returns the number of bytes
    /// appended.
    pub fn poll_transmit(&mut self, bench: &mut Workbench, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        match &mut self.0 {
            State::Parked(parked) => parked.transmit(bench, out),
            State::Handshaking(handshaking) => handshaking.transmit(out),
            State::Laden(laden) => {
                out.append(&mut laden.out);
                laden.parked.transmit(bench, out);
                self.unload();
            }
            State::Failed => {}
        }
        out.len() - before
    }

    /// Whether [`Self::poll_transmit`] has anything to give.
    pub fn wants_transmit(&self) -> bool {
        match &self.0 {
            State::Parked(parked) => parked.wants_transmit(),
            State::Handshaking(handshaking) => handshaking.wants_transmit(),
            State::Laden(laden) => !laden.out.is_empty() || laden.parked.wants_transmit(),
            State::Failed => false,
        }
    }

    /// Whether the handshake is still under way.
    pub fn is_handshaking(&self) -> bool {
        matches!(&self.0, State::Handshaking(handshaking) if handshaking.is_handshaking())
    }

    /// Whether the rustls object is gone.
    pub const fn is_parked(&self) -> bool {
        !matches!(self.0, State::Handshaking(_))
    }

    /// Whether the peer has said that it sends nothing more (close_notify). Where the TCP stream
    /// ends without it, data may be missing at the end.
    pub fn has_peer_closed(&self) -> bool {
        match &self.0 {
            State::Handshaking(handshaking) => handshaking.peer_closed(),
            State::Parked(parked) => parked.flags.has(Flags::PEER_CLOSED),
            State::Laden(laden) => laden.parked.flags.has(Flags::PEER_CLOSED),
            State::Failed => false,
        }
    }

    /// What the handshake agreed on, once it is done.
    pub fn handshake(&self) -> Option<Handshake> {
        match &self.0 {
            State::Handshaking(handshaking) => handshaking.handshake(),
            State::Parked(parked) => Some(Handshake::of(parked)),
            State::Laden(laden) => Some(Handshake::of(&laden.parked)),
            State::Failed => None,
        }
    }

    /// Queues the announcement that nothing more will be sent.
    pub fn queue_close_notify(&mut self) {
        match &mut self.0 {
            State::Parked(parked) => parked.queue_close_notify(),
            State::Handshaking(handshaking) => handshaking.queue_close_notify(),
            State::Laden(laden) => laden.parked.queue_close_notify(),
            State::Failed => {}
        }
    }

    /// Turns a rustls connection into a parked one.
    fn park(&mut self, bench: &mut Workbench) -> Result<(), TlsError> {
        let State::Handshaking(handshaking) = std::mem::replace(&mut self.0, State::Failed) else {
            return Ok(());
        };
        let JustParked { parked, out } = handshaking.park(bench)?;
        self.0 = if out.is_empty() {
            State::Parked(parked)
        } else {
            let mut laden = Laden::new(parked);
            laden.out = out;
            State::Laden(Box::new(laden))
        };
        Ok(())
    }

    /// Gives the heap back as soon as nothing waits.
    fn unload(&mut self) {
        if let State::Laden(laden) = &mut self.0
            && laden.is_empty()
        {
            self.0 = State::Parked(laden.parked.clone());
        }
    }

    #[cfg(test)]
    pub(crate) const fn of_parked(parked: Parked) -> Self {
        Self(State::Parked(parked))
    }

    #[cfg(test)]
    pub(crate) fn parked_mut(&mut self) -> &mut Parked {
        match &mut self.0 {
            State::Parked(parked) => parked,
            State::Laden(laden) => &mut laden.parked,
            _ => panic!("not parked"),
        }
    }

    #[cfg(test)]
    pub(crate) const fn is_laden(&self) -> bool {
        matches!(self.0, State::Laden(_))
    }
}

impl Laden {
    const fn new(parked: Parked) -> Self {
        let message = MessageReader::BETWEEN;
        Self { parked, record: Vec::new(), message, out: Vec::new(), permit: None }
    }

    const fn is_empty(&self) -> bool {
        self.record.is_empty() && self.out.is_empty() && self.message.is_between_messages()
    }

    /// Keeps the beginning of a record, with room for the rest of it.
    fn begin_record(&mut self, bench: &Workbench, bytes: &[u8]) -> Result<(), TlsError> {
        let whole = match bytes {
            [] => 0,
            _ => record::length(bytes).unwrap_or(record::BYTES_MAX),
        };
        self.permit = None;
        self.permit = Some(bench.permit(size_of::<Self>() + whole.max(self.record.capacity()))?);
        self.record.reserve_exact(whole);
        self.record.extend_from_slice(bytes);
        Ok(())
    }

    fn receive(
        &mut self,
        bench: &mut Workbench,
        mut input: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        if !self.record.is_empty() && !self.complete_record(&mut input)? {
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.record);
        if !whole.is_empty() {
            self.parked.receive(bench, &mut self.message, &whole, plaintext)?;
            whole.clear();
        }
        let taken = self.parked.receive(bench, &mut self.message, input, plaintext)?;
        let rest = &input[taken..];
        if !rest.is_empty() {
            self.record = whole;
            self.begin_record(bench, rest)?;
        }
        Ok(())
    }

    /// Moves bytes from `input` to the record that has begun; true when it is whole.
    fn complete_record(&mut self, input: &mut &[u8]) -> Result<bool, TlsError> {
        loop {
            let length = self.parked.record_length(&self.record)?;
            let missing = length.unwrap_or(record::HEADER_BYTES) - self.record.len();
            if missing == 0 {
                return Ok(true);
            }
            if input.is_empty() {
                return Ok(false);
            }
            let (taken, rest) = input.split_at(missing.min(input.len()));
            self.record.extend_from_slice(taken);
            *input = rest;
        }
    }
}
