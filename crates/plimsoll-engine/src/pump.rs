//! Bytes between sockets and TLS sessions, for clients, the server and the timeout probe.
//!
//! A [`Pump`] has the buffers and expanded keys of one thread; a connection lends its parts for one call ([`Link`]).
//! [`Pump::receive`] decrypts into a buffer that the caller returns by [`Pump::give_back`]. [`Pump::send`] encrypts
//! and sends; bytes that the kernel does not take are stored in [`Unsent`] and leave first at the next call.
//! Plaintext connections call [`send_plain`]. Start reading at [`Pump::send`].

use plimsoll_model::tally::TlsMessageCounts;
use plimsoll_sys::socket::Socket;
use plimsoll_sys::{Errno, memory};
use plimsoll_tls::{Received, Session, ThreadContext, TlsError};

/// Buffers that one thread's TLS connections need only while bytes move.
pub(crate) struct Pump {
    thread: ThreadContext,
    /// Lent to the handler of decrypted bytes.
    plaintext: Vec<u8>,
    /// Records for the peer; empty between calls.
    wire: Vec<u8>,
}

/// The parts of a TLS connection that sending concerns.
pub(crate) struct Link<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) session: &'a mut Session,
    pub(crate) unsent: &'a mut Unsent,
}

/// Bytes that the kernel would not take; boxed, because there are nearly never any.
#[derive(Debug, Default)]
#[expect(clippy::box_collection, reason = "8 bytes instead of 24 in every connection")]
pub(crate) struct Unsent(Option<Box<Vec<u8>>>);

const _: () = assert!(size_of::<Unsent>() == 8);

impl Unsent {
    pub(crate) fn new(bytes: &[u8]) -> Self {
        Self((!bytes.is_empty()).then(|| Box::new(bytes.to_vec())))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// The result of sending bytes to the peer.
#[derive(Debug)]
pub(crate) struct Sent {
    /// Bytes that the kernel took.
    pub(crate) bytes: usize,
    pub(crate) outcome: SendOutcome,
}

impl Sent {
    /// The result of a send without bytes, or without a session or socket.
    pub(crate) const NOTHING: Self = Self { bytes: 0, outcome: SendOutcome::All };
}

#[derive(Debug)]
pub(crate) enum SendOutcome {
    /// The kernel has all of it.
    All,
    /// The poller will say when there is room.
    Blocked,
    /// The session takes nothing more; what it had to say before is sent as far as possible.
    Refused(TlsError),
    Failed(Errno),
}

impl Pump {
    /// Creates a pump for a thread with `sessions` busy sessions.
    pub(crate) fn new(sessions: u64, buffer_bytes: usize) -> Self {
        Self {
            thread: ThreadContext::new(sessions),
            plaintext: Vec::with_capacity(buffer_bytes),
            wire: Vec::with_capacity(buffer_bytes),
        }
    }

    /// Returns the number of expanded keys at present.
    pub(crate) fn keys(&self) -> usize {
        self.thread.keys()
    }

    /// Frees the expanded keys and hands unused heap pages back to the kernel: connections that
    /// were busy may be idle from now on.
    pub(crate) fn free_unused(&mut self) {
        self.thread.free_keys();
        memory::give_back_unused();
    }

    /// Returns the counts of TLS messages since the last call.
    pub(crate) fn take_messages(&mut self) -> TlsMessageCounts {
        self.thread.take_messages()
    }

    /// Decrypts `bytes`. The plaintext, which may have come before an error, is to be given back.
    pub(crate) fn receive(
        &mut self,
        session: &mut Session,
        bytes: &[u8],
    ) -> (Vec<u8>, Result<Received, TlsError>) {
        let mut plaintext = std::mem::take(&mut self.plaintext);
        plaintext.clear();
        let received = session.handle_ciphertext(&mut self.thread, bytes, &mut plaintext);
        (plaintext, received)
    }

    /// Takes back the plaintext of [`Self::receive`] once it has been handled.
    pub(crate) fn give_back(&mut self, plaintext: Vec<u8>) {
        self.plaintext = plaintext;
    }

    /// Sends what is unsent, what TLS has to say, and `bytes`.
    pub(crate) fn send(&mut self, link: Link<'_>, bytes: &[u8]) -> Sent {
        let refused = self.seal(&mut *link.session, link.unsent, bytes).err();
        self.flush(link, refused, false)
    }

    /// Sends like [`Self::send`], followed by close_notify. The caller closes the sending side next, so that the FIN is
    /// in the last segment.
    pub(crate) fn send_last(&mut self, link: Link<'_>, bytes: &[u8]) -> Sent {
        let refused = self.seal(&mut *link.session, link.unsent, bytes).err();
        link.session.queue_close_notify();
        link.session.poll_transmit(&mut self.thread, &mut self.wire);
        self.flush(link, refused, true)
    }

    /// Fills the wire.
    fn seal(
        &mut self,
        session: &mut Session,
        unsent: &mut Unsent,
        bytes: &[u8],
    ) -> Result<(), TlsError> {
        self.wire.clear();
        if let Some(unsent) = unsent.0.take() {
            self.wire.extend_from_slice(&unsent);
        }
        if bytes.is_empty() {
            session.poll_transmit(&mut self.thread, &mut self.wire);
            return Ok(());
        }
        session.write_plaintext(&mut self.thread, bytes, &mut self.wire)
    }

    /// Sends the wire bytes; keeps those that the kernel does not accept.
    fn flush(&mut self, link: Link<'_>, refused: Option<TlsError>, is_last: bool) -> Sent {
        let mut sent = send_plain(link.socket, &self.wire, is_last);
        if let SendOutcome::Blocked = sent.outcome {
            *link.unsent = Unsent::new(&self.wire[sent.bytes..]);
        }
        self.wire.clear();
        if let Some(error) = refused {
            sent.outcome = SendOutcome::Refused(error);
        }
        sent
    }
}

/// Hands the kernel as much of `bytes` as it takes. With `waits` the last segment waits for what
/// comes next: more, or the FIN.
pub(crate) fn send_plain(socket: &Socket, bytes: &[u8], waits: bool) -> Sent {
    let mut done = 0;
    let outcome = loop {
        let rest = &bytes[done..];
        if rest.is_empty() {
            break SendOutcome::All;
        }
        let taken = if waits { socket.send_more(rest) } else { socket.send(rest) };
        match taken {
            Ok(count) => done += count,
            Err(Errno::AGAIN) => break SendOutcome::Blocked,
            Err(errno) => break SendOutcome::Failed(errno),
        }
    };
    Sent { bytes: done, outcome }
}
