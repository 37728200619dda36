//! The two directions of a TLS connection, for two threads that block.
//!
//! [`Joined::new`] and [`Joined::accept`] complete the handshake and split the connection into a [`WireReader`] and a
//! [`WireWriter`] over one [`Wire`]. The TLS state is locked while bytes are encrypted or decrypted, never during
//! I/O; a second lock keeps sent records in order. [`Wire::cut`] ends both directions at once. A handshake has 10 s,
//! and the accepting end limits the time of the first record ([`Greeting`]). Start reading at [`Wire::shake_hands`].

use std::io;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use plimsoll_sys::thread::lock;
use plimsoll_tls::{MutualContext, MutualLink, TlsError};

/// Bytes that are read from the socket at once.
const READ_BYTES: usize = 64 * 1024;
/// Timeout of a handshake, which takes some round trips.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// The length of a record's header, whose last two bytes are the length of the rest.
const RECORD_HEADER_BYTES: usize = 5;

/// A connection that both directions share.
#[derive(Debug)]
pub(crate) struct Wire {
    socket: TcpStream,
    link: Mutex<MutualLink>,
    /// Held while bytes are encrypted and written, so that they leave in order. Nothing is read under it.
    sending: Mutex<()>,
    is_over: AtomicBool,
}

/// The connection of an agent and its coordinator.
#[derive(Debug)]
pub(crate) struct Joined {
    pub(crate) wire: Arc<Wire>,
    pub(crate) reader: WireReader,
    pub(crate) writer: WireWriter,
}

/// The terms for an agent before its handshake is done.
pub(crate) struct Greeting<'a> {
    /// Time within which its first record must be complete.
    pub(crate) within: Duration,
    /// Called once it is.
    pub(crate) arrived: &'a dyn Fn(),
}

impl Joined {
    /// Shakes hands over `socket`, as the agent, which has connected. An end of the connection is an error there.
    pub(crate) fn new(socket: TcpStream, context: &MutualContext) -> Result<Self, HandshakeError> {
        Self::shake_hands(socket, context, None)
    }

    /// Shakes hands over `socket`, as the end that was connected to.
    pub(crate) fn accept(
        socket: TcpStream,
        context: &MutualContext,
        greeting: Greeting<'_>,
    ) -> Result<Self, HandshakeError> {
        Self::shake_hands(socket, context, Some(greeting))
    }

    fn shake_hands(
        socket: TcpStream,
        context: &MutualContext,
        greeting: Option<Greeting<'_>>,
    ) -> Result<Self, HandshakeError> {
        socket.set_nodelay(true)?;
        let link = context.link().map_err(|error| HandshakeError::Refused(error.to_string()))?;
        let wire = Wire {
            socket,
            link: Mutex::new(link),
            sending: Mutex::new(()),
            is_over: AtomicBool::new(false),
        };
        let mut early = Vec::new();
        // A coordinator says before that it is done.
        let end_is_error = greeting.is_none();
        wire.shake_hands(&mut early, greeting)?;
        wire.socket.set_read_timeout(None)?;
        wire.socket.set_write_timeout(None)?;
        let wire = Arc::new(wire);
        let reader =
            WireReader { wire: Arc::clone(&wire), plaintext: early, taken: 0, end_is_error };
        let writer = WireWriter { wire: Arc::clone(&wire) };
        Ok(Self { wire, reader, writer })
    }
}

/// The part of the first record that has arrived.
#[derive(Debug, Default)]
struct FirstRecord {
    header: Vec<u8>,
    bytes: usize,
}

impl FirstRecord {
    fn add(&mut self, bytes: &[u8]) {
        let missing = RECORD_HEADER_BYTES.saturating_sub(self.header.len()).min(bytes.len());
        self.header.extend_from_slice(&bytes[..missing]);
        self.bytes += bytes.len();
    }

    fn is_complete(&self) -> bool {
        let [_, _, _, high, low] = self.header[..] else { return false };
        self.bytes >= RECORD_HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]))
    }
}

/// Why a connection did not become a link.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HandshakeError {
    #[error("{0}")]
    Tls(#[from] TlsError),
    #[error("the connection failed: {0}")]
    Socket(#[from] io::Error),
    #[error("it was closed during the TLS handshake")]
    Closed,
    #[error("the TLS handshake took more than {} s", HANDSHAKE_WAIT.as_secs())]
    Slow,
    #[error("it sent no TLS record within {} s", .0.as_secs())]
    Silent(Duration),
    #[error("{0}")]
    Refused(String),
}

impl HandshakeError {
    /// Reports whether another try would meet the same.
    pub(crate) const fn is_final(&self) -> bool {
        matches!(self, Self::Tls(_) | Self::Refused(_))
    }
}

impl Wire {
    fn shake_hands(
        &self,
        early: &mut Vec<u8>,
        mut greeting: Option<Greeting<'_>>,
    ) -> Result<(), HandshakeError> {
        let began = Instant::now();
        let mut first = FirstRecord::default();
        let mut received = [0; 4096];
        loop {
            self.send_pending()?;
            if !self.link().is_handshaking() {
                return Ok(());
            }
            let (most, late) = match &greeting {
                Some(greeting) => (greeting.within, HandshakeError::Silent(greeting.within)),
                None => (HANDSHAKE_WAIT, HandshakeError::Slow),
            };
            let left = most.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(late);
            }
            self.socket.set_read_timeout(Some(left))?;
            self.socket.set_write_timeout(Some(left))?;
            let taken = match (&self.socket).read(&mut received) {
                Ok(0) => return Err(HandshakeError::Closed),
                Ok(taken) => taken,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error.into()),
            };
            first.add(&received[..taken]);
            if let Some(greeting) = greeting.take_if(|_| first.is_complete()) {
                (greeting.arrived)();
            }
            let received = self.link().receive(&received[..taken], early);
            if let Err(error) = received {
                // The alert that says why.
                let _ = self.send_pending();
                return Err(error.into());
            }
        }
    }

    pub(crate) fn link(&self) -> MutexGuard<'_, MutualLink> {
        lock(&self.link)
    }

    /// Encrypts and sends `plaintext`.
    pub(crate) fn send(&self, plaintext: &[u8]) -> io::Result<()> {
        self.send_with(|link| link.send(plaintext))
    }

    fn send_pending(&self) -> io::Result<()> {
        self.send_with(|_| {})
    }

    fn send_with(&self, prepare: impl FnOnce(&mut MutualLink)) -> io::Result<()> {
        let _in_order = lock(&self.sending);
        let mut ciphertext = Vec::new();
        {
            let mut link = self.link();
            prepare(&mut link);
            link.take_ciphertext(&mut ciphertext);
        }
        (&self.socket).write_all(&ciphertext)
    }

    /// Ends both directions at once, also where a thread blocks in one.
    pub(crate) fn cut(&self) {
        // It may be closed already.
        let _ = self.socket.shutdown(Shutdown::Both);
        self.is_over.store(true, Ordering::Release);
    }

    /// Reports whether the other end has closed it, or this one has cut it.
    pub(crate) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Acquire)
    }
}

/// The reading half of the connection.
#[derive(Debug)]
pub(crate) struct WireReader {
    wire: Arc<Wire>,
    plaintext: Vec<u8>,
    taken: usize,
    end_is_error: bool,
}

impl Read for WireReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.taken == self.plaintext.len() {
            self.plaintext.clear();
            self.taken = 0;
            let mut received = vec![0; READ_BYTES];
            let count = match (&self.wire.socket).read(&mut received) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // What the other end is gone with says nothing more than that.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => 0,
                Err(error) => return Err(error),
            };
            let goes_on = count > 0
                && self
                    .wire
                    .link()
                    .receive(&received[..count], &mut self.plaintext)
                    .map_err(io::Error::other)?;
            if !goes_on && self.plaintext.is_empty() {
                self.wire.is_over.store(true, Ordering::Release);
                return match self.end_is_error {
                    false => Ok(0),
                    true => Err(io::Error::other("the coordinator has closed the connection")),
                };
            }
        }
        let rest = &self.plaintext[self.taken..];
        let count = rest.len().min(buffer.len());
        buffer[..count].copy_from_slice(&rest[..count]);
        self.taken += count;
        Ok(count)
    }
}

/// The writing half of the connection. Dropping it signals the other end that nothing more is sent.
#[derive(Debug)]
pub(crate) struct WireWriter {
    wire: Arc<Wire>,
}

impl Write for WireWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wire.send(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for WireWriter {
    fn drop(&mut self) {
        // The other end may be gone.
        let _ = self.wire.send_with(MutualLink::send_close);
        let _ = self.wire.socket.shutdown(Shutdown::Write);
    }
}
