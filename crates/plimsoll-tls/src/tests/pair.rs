//! Both ends of a connection in memory.

use crate::{Received, Session, ThreadContext, TlsError, record};

/// One end, what it has for the other, and what it has received.
pub(super) struct End {
    pub(super) session: Session,
    pub(super) thread: ThreadContext,
    pub(super) out: Vec<u8>,
    pub(super) got: Vec<u8>,
    pub(super) seen: Vec<Received>,
    /// Every byte that has left.
    pub(super) sent: Vec<u8>,
}

impl End {
    pub(super) fn new(session: Session) -> Self {
        Self {
            session,
            thread: ThreadContext::new(2),
            out: Vec::new(),
            got: Vec::new(),
            seen: Vec::new(),
            sent: Vec::new(),
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        self.session.write_plaintext(&mut self.thread, bytes, &mut self.out)
    }

    /// Closes as callers do: queued bytes are fetched before anything else happens.
    pub(super) fn close(&mut self) {
        self.session.queue_close_notify();
        self.session.poll_transmit(&mut self.thread, &mut self.out);
    }

    pub(super) fn receive(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        let received = self.session.handle_ciphertext(&mut self.thread, bytes, &mut self.got)?;
        self.seen.push(received);
        Ok(())
    }

    /// All that waits for the other end.
    pub(super) fn take_out(&mut self) -> Vec<u8> {
        let before = self.out.len();
        let wanted = self.session.wants_transmit();
        let appended = self.session.poll_transmit(&mut self.thread, &mut self.out);
        assert_eq!(appended, self.out.len() - before);
        assert_eq!(wanted, appended > 0);
        self.sent.extend_from_slice(&self.out);
        std::mem::take(&mut self.out)
    }

    pub(super) fn wants_transmit(&self) -> bool {
        !self.out.is_empty() || self.session.wants_transmit()
    }

    pub(super) fn finished(&self) -> usize {
        self.seen.iter().filter(|received| received.handshake_finished).count()
    }

    pub(super) fn peer_closed(&self) -> bool {
        self.seen.last().is_some_and(|received| received.peer_closed)
    }
}

pub(super) struct Pair {
    pub(super) client: End,
    pub(super) server: End,
    /// Bytes that go into one `handle_ciphertext`.
    pub(super) step_bytes: usize,
}

impl Pair {
    pub(super) fn of(client: Session, server: Session) -> Self {
        Self { client: End::new(client), server: End::new(server), step_bytes: usize::MAX }
    }

    /// Carries bytes to and fro until both ends are silent; errors as (client's, server's).
    pub(super) fn run(&mut self) -> (Result<(), TlsError>, Result<(), TlsError>) {
        let mut outcome = (Ok(()), Ok(()));
        while self.client.wants_transmit() || self.server.wants_transmit() {
            for chunk in self.client.take_out().chunks(self.step_bytes) {
                outcome.1 = self.server.receive(chunk).and(outcome.1);
            }
            for chunk in self.server.take_out().chunks(self.step_bytes) {
                outcome.0 = self.client.receive(chunk).and(outcome.0);
            }
        }
        outcome
    }

    /// [`Self::run`] where nothing may go wrong.
    pub(super) fn settle(&mut self) {
        assert_eq!(self.run(), (Ok(()), Ok(())));
    }
}

/// Protects anything at all as the next record of a compact end, which is how a peer that breaks
/// the rules, or uses all of them, is played.
pub(super) fn craft(end: &mut End, kind: u8, content: &[u8], padding: usize) -> Vec<u8> {
    let material = end.session.compact_mut().material();
    let compact = end.session.compact_mut();
    let suite = compact.suite;
    let mut wire = Vec::new();
    let key = end.thread.keys.key(suite, material, &compact.tx.secret).unwrap();
    let sequence = compact.tx.sequence;
    if padding == 0 {
        record::seal(suite, key, sequence, kind, content, &mut wire).unwrap();
    } else {
        // The type that `seal` adds is the padding's last zero.
        let padded = [content, &[kind], &vec![0; padding - 1]].concat();
        record::seal(suite, key, sequence, 0, &padded, &mut wire).unwrap();
    }
    compact.tx.sequence += 1;
    wire
}
