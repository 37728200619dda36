//! One TLS connection, either side: ciphertext in, plaintext out, and the other way round.
//!
//! It holds no socket. After any `handle_*` send what [`Session::poll_transmit`] appends.

use crate::compact::{Compact, Flags, MessageReader};
use crate::handshaking::{Afterwards, Handshaking};
use crate::thread_context::Permit;
use crate::{Handshake, ThreadContext, TlsError, record};

/// One TLS connection. Until its handshake is done it is a rustls object on the heap; from then on
/// it is *compact*: traffic secrets and sequence numbers, all of them in here. Bytes go through the
/// [`ThreadContext`] of the thread that handles the session.
///
/// Memory while compact: these 120 bytes, and no heap but for a record or a message that has come
/// in part.
pub struct Session(State);

const _: () = assert!(size_of::<Option<Session>>() == 120);

enum State {
    /// rustls has it.
    Handshaking(Box<Handshaking>),
    /// Compact, with bytes that wait.
    Buffering(Box<Buffering>),
    Compact(Compact),
    /// The connection could not be made compact. Holds no state.
    Failed,
}

/// A compact connection and bytes that wait.
struct Buffering {
    compact: Compact,
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

/// The result of one call of [`Session::handle_ciphertext`], beside plaintext.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Received {
    /// The handshake ended in this call.
    pub handshake_finished: bool,
    /// The peer has sent close_notify, now or earlier. Bytes after
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
        thread: &mut ThreadContext,
        mut input: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<Received, TlsError> {
        let mut handshake_finished = false;
        if let State::Handshaking(handshaking) = &mut self.0 {
            let progress = handshaking.receive(thread, &mut input, plaintext)?;
            handshake_finished = progress.finished;
            if progress.may_compact {
                self.make_compact(thread)?;
            }
        }
        match &mut self.0 {
            State::Handshaking(_) => {}
            State::Compact(compact) => {
                let mut message = MessageReader::default();
                let taken = compact.receive(thread, &mut message, input, plaintext)?;
                let rest = &input[taken..];
                if !rest.is_empty() || !message.is_between_messages() {
                    let mut buffering = Buffering::new(compact.clone());
                    buffering.message = message;
                    buffering.begin_record(thread, rest)?;
                    self.0 = State::Buffering(Box::new(buffering));
                }
            }
            State::Buffering(buffering) => {
                buffering.receive(thread, input, plaintext)?;
                self.drop_empty_buffers();
            }
            State::Failed => return Err(TlsError::failed_before()),
        }
        Ok(Received { handshake_finished, peer_closed: self.has_peer_closed() })
    }

    /// Appends what waits for the peer and then `bytes`, as records, to `out`. Before the
    /// handshake is done the bytes are held back.
    pub fn write_plaintext(
        &mut self,
        thread: &mut ThreadContext,
        bytes: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        match &mut self.0 {
            State::Compact(compact) => compact.send(thread, bytes, out),
            State::Handshaking(handshaking) => {
                handshaking.write(bytes)?;
                handshaking.transmit(out);
                Ok(())
            }
            State::Buffering(buffering) => {
                out.append(&mut buffering.out);
                let sent = buffering.compact.send(thread, bytes, out);
                self.drop_empty_buffers();
                sent
            }
            State::Failed => Err(TlsError::failed_before()),
        }
    }

    /// Appends what must go to the peer (handshake, alerts) to `out`; returns the number of bytes
    /// appended.
    pub fn poll_transmit(&mut self, thread: &mut ThreadContext, out: &mut Vec<u8>) -> usize {
        let before = out.len();
        match &mut self.0 {
            State::Compact(compact) => compact.transmit(thread, out),
            State::Handshaking(handshaking) => handshaking.transmit(out),
            State::Buffering(buffering) => {
                out.append(&mut buffering.out);
                buffering.compact.transmit(thread, out);
                self.drop_empty_buffers();
            }
            State::Failed => {}
        }
        out.len() - before
    }

    /// Reports whether [`Self::poll_transmit`] has anything to give.
    pub fn wants_transmit(&self) -> bool {
        match &self.0 {
            State::Compact(compact) => compact.wants_transmit(),
            State::Handshaking(handshaking) => handshaking.connection.wants_write(),
            State::Buffering(buffering) => {
                !buffering.out.is_empty() || buffering.compact.wants_transmit()
            }
            State::Failed => false,
        }
    }

    /// Reports whether the handshake is not complete.
    pub fn is_handshaking(&self) -> bool {
        matches!(&self.0, State::Handshaking(handshaking) if handshaking.is_handshaking())
    }

    /// Reports whether the rustls object was dropped.
    pub const fn is_compact(&self) -> bool {
        !matches!(self.0, State::Handshaking(_))
    }

    /// Reports whether the peer has sent close_notify. Where the TCP stream
    /// ends without it, data may be missing at the end.
    pub fn has_peer_closed(&self) -> bool {
        match &self.0 {
            State::Handshaking(handshaking) => handshaking.peer_closed,
            State::Compact(compact) => compact.flags.has(Flags::PEER_CLOSED),
            State::Buffering(buffering) => buffering.compact.flags.has(Flags::PEER_CLOSED),
            State::Failed => false,
        }
    }

    /// Returns the parameters of the handshake, once it is done.
    pub fn handshake(&self) -> Option<Handshake> {
        match &self.0 {
            State::Handshaking(handshaking) => Handshake::of_rustls(&handshaking.connection),
            State::Compact(compact) => Some(Handshake::of(compact)),
            State::Buffering(buffering) => Some(Handshake::of(&buffering.compact)),
            State::Failed => None,
        }
    }

    /// Queues the announcement that nothing more will be sent.
    pub fn queue_close_notify(&mut self) {
        match &mut self.0 {
            State::Compact(compact) => compact.queue_close_notify(),
            State::Handshaking(handshaking) => handshaking.queue_close_notify(),
            State::Buffering(buffering) => buffering.compact.queue_close_notify(),
            State::Failed => {}
        }
    }

    /// Turns a rustls connection into a compact one.
    fn make_compact(&mut self, thread: &mut ThreadContext) -> Result<(), TlsError> {
        let State::Handshaking(handshaking) = std::mem::replace(&mut self.0, State::Failed) else {
            return Ok(());
        };
        let (compact, out) = handshaking.into_compact(thread)?;
        self.0 = if out.is_empty() {
            State::Compact(compact)
        } else {
            let mut buffering = Buffering::new(compact);
            buffering.out = out;
            State::Buffering(Box::new(buffering))
        };
        Ok(())
    }

    /// Gives the heap back as soon as nothing waits.
    fn drop_empty_buffers(&mut self) {
        if let State::Buffering(buffering) = &mut self.0
            && buffering.is_empty()
        {
            self.0 = State::Compact(buffering.compact.clone());
        }
    }

    #[cfg(test)]
    pub(crate) const fn of_compact(compact: Compact) -> Self {
        Self(State::Compact(compact))
    }

    #[cfg(test)]
    pub(crate) fn compact_mut(&mut self) -> &mut Compact {
        match &mut self.0 {
            State::Compact(compact) => compact,
            State::Buffering(buffering) => &mut buffering.compact,
            _ => panic!("not compact"),
        }
    }

    #[cfg(test)]
    pub(crate) fn rustls(&self) -> &rustls::Connection {
        match &self.0 {
            State::Handshaking(handshaking) => &handshaking.connection,
            _ => panic!("compact"),
        }
    }

    #[cfg(test)]
    pub(crate) const fn is_buffering(&self) -> bool {
        matches!(self.0, State::Buffering(_))
    }
}

impl Buffering {
    fn new(compact: Compact) -> Self {
        let message = MessageReader::default();
        Self { compact, record: Vec::new(), message, out: Vec::new(), permit: None }
    }

    const fn is_empty(&self) -> bool {
        self.record.is_empty() && self.out.is_empty() && self.message.is_between_messages()
    }

    /// Keeps the beginning of a record, with room for the rest of it.
    fn begin_record(&mut self, thread: &ThreadContext, bytes: &[u8]) -> Result<(), TlsError> {
        let whole = match bytes {
            [] => 0,
            _ => record::length(bytes).unwrap_or(record::BYTES_MAX),
        };
        self.permit = None;
        self.permit = Some(thread.permit(size_of::<Self>() + whole.max(self.record.capacity()))?);
        self.record.reserve_exact(whole);
        self.record.extend_from_slice(bytes);
        Ok(())
    }

    fn receive(
        &mut self,
        thread: &mut ThreadContext,
        mut input: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        if !self.record.is_empty() && !self.complete_record(&mut input)? {
            return Ok(());
        }
        let mut whole = std::mem::take(&mut self.record);
        if !whole.is_empty() {
            self.compact.receive(thread, &mut self.message, &whole, plaintext)?;
            whole.clear();
        }
        let taken = self.compact.receive(thread, &mut self.message, input, plaintext)?;
        let rest = &input[taken..];
        if !rest.is_empty() {
            self.record = whole;
            self.begin_record(thread, rest)?;
        }
        Ok(())
    }

    /// Moves bytes from `input` to the record that has begun; true when it is whole.
    fn complete_record(&mut self, input: &mut &[u8]) -> Result<bool, TlsError> {
        loop {
            let length = self.compact.record_length(&self.record)?;
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
