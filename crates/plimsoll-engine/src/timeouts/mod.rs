//! The timeout probe: a handful of connections that each stop in the middle of something and wait
//! for the server to end it. One thread, next to no CPU.
//!
//! It shows timers that a load meets only by accident. It ascribes none.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use plimsoll_model::Nanos;
use plimsoll_model::cliff::{ProbeEnd, ProbeKind};
use plimsoll_model::ending::Closer;
use plimsoll_model::plan::{Endpoint, TlsOptions};
use plimsoll_model::target::Target;
use plimsoll_sys::poll::Poller;
use plimsoll_sys::socket::Socket;
use plimsoll_sys::{Errno, clock, thread};
use plimsoll_tls::{ClientContext, Session};

use crate::pump::{Link, Pump, SendOutcome, Unsent, send_plain};

mod script;

use script::{Effect, Script};

/// Connections of each kind: one may meet an accident, three do not meet the same.
const OF_EACH_KIND: usize = 3;
/// Timeout of a connection to reach its wait.
const OPENING_MAX: Nanos = Nanos::from_secs(10);
/// Period in which the probe looks for a stop.
const CONTROL_PERIOD: Nanos = Nanos::from_millis(50);
const READ_BUFFER_BYTES: usize = 16 * 1024;
/// A slow answer is delayed by this much more than the probe waits.
const SLOWER_BY: Nanos = Nanos::from_secs(5);

/// The plan of a probe.
#[derive(Clone, Debug, PartialEq)]
pub struct ProbePlan {
    /// The server; its first address is used.
    pub destination: Endpoint,
    /// Unix socket that is used instead of its address.
    pub unix_socket: Option<PathBuf>,
    /// The request that is begun; its own headers and body, so nothing is sent that the load does
    /// not send.
    pub target: Target,
    /// TLS knobs.
    pub tls: TlsOptions,
    /// Time for which each connection waits.
    pub wait: Nanos,
    /// The server is our own backend, which can be asked for a slow answer.
    pub backend_is_ours: bool,
}

/// Why there is no probe.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The TLS settings do not work.
    #[error("{0}")]
    Tls(#[from] plimsoll_tls::ConfigError),
    /// The host refused.
    #[error("cannot start the timeout probe: {0}")]
    Host(String),
}

/// A running probe. Dropping it ends it.
#[derive(Debug)]
pub struct Probe {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<ProbeEnd>>>,
}

impl Probe {
    /// Opens the connections and begins to wait.
    pub fn start(plan: ProbePlan) -> Result<Self, ProbeError> {
        let tls = plan.destination.tls.is_some().then(|| ClientContext::new(&plan.tls));
        let tls = tls.transpose()?;
        let poller =
            Poller::new(ProbeKind::ALL.len()).map_err(|e| ProbeError::Host(e.to_string()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn("timeout-probe", None, move || {
            Waiting::new(plan, tls, poller).run(&stopped)
        })
        .map_err(|error| ProbeError::Host(error.to_string()))?;
        Ok(Self { stop, thread: Some(thread) })
    }

    /// Reports whether every connection has ended or waited long enough.
    pub fn is_over(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Returns the ends of the connections that got as far as waiting. Ends the others.
    pub fn finish(mut self) -> Vec<ProbeEnd> {
        self.stop.store(true, Ordering::Relaxed);
        // A thread that panicked has already printed why; then nothing is known.
        self.thread.take().and_then(|thread| thread.join().ok()).unwrap_or_default()
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// More than the connections of a probe.
const TLS_SESSIONS: u64 = 32;

/// One connection.
struct Conn {
    kind: ProbeKind,
    script: Script,
    /// `None` once it has ended.
    socket: Option<Socket>,
    tls: Option<Session>,
    /// TCP is established.
    connected: bool,
    unsent: Unsent,
    /// Request bytes that the kernel or TLS has accepted.
    sent_bytes: usize,
    /// Since when it waits.
    waits_since: Option<Nanos>,
}

struct Waiting {
    plan: ProbePlan,
    tls: Option<ClientContext>,
    poller: Poller,
    pump: Pump,
    conns: Vec<Conn>,
    ends: Vec<ProbeEnd>,
}

fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}

impl Waiting {
    fn new(plan: ProbePlan, tls: Option<ClientContext>, poller: Poller) -> Self {
        let pump = Pump::new(TLS_SESSIONS, READ_BUFFER_BYTES);
        Self { plan, tls, poller, pump, conns: Vec::new(), ends: Vec::new() }
    }

    fn run(mut self, stop: &AtomicBool) -> Vec<ProbeEnd> {
        let began = now();
        for kind in ProbeKind::ALL {
            let applies = match kind {
                ProbeKind::TlsDone => self.tls.is_some(),
                ProbeKind::SlowAnswer => self.plan.backend_is_ours,
                _ => true,
            };
            for _ in 0..if applies { OF_EACH_KIND } else { 0 } {
                self.open(kind);
            }
        }
        let mut buffer = vec![0; READ_BUFFER_BYTES];
        while self.conns.iter().any(|conn| conn.socket.is_some()) {
            let timeout = self.next_deadline(began).since(now()).min(CONTROL_PERIOD);
            let Ok(count) = self.poller.wait(Some(timeout.0)) else { break };
            for ready in (0..count).filter_map(|index| self.poller.event(index)).collect::<Vec<_>>()
            {
                self.handle_ready(ready.token as usize, &mut buffer);
            }
            self.end_waits(began, stop.load(Ordering::Relaxed));
        }
        self.ends
    }

    /// A connection that cannot even be begun leaves no trace: there was nothing to wait for.
    fn open(&mut self, kind: ProbeKind) {
        let socket = match (&self.plan.unix_socket, self.plan.destination.addresses.first()) {
            (Some(path), _) => Socket::connect_unix(path),
            (None, Some(address)) => Socket::connect(*address, None).map(|(socket, _)| socket),
            (None, None) => return,
        };
        let Ok(socket) = socket else { return };
        if self.poller.add(&socket, self.conns.len() as u64).is_err() {
            return;
        }
        let slow_ms = (self.plan.wait + SLOWER_BY).as_millis_f64() as u64;
        self.conns.push(Conn {
            kind,
            script: Script::new(kind, &self.plan.target, slow_ms),
            socket: Some(socket),
            tls: None,
            connected: false,
            unsent: Unsent::default(),
            sent_bytes: 0,
            waits_since: None,
        });
    }

    /// Returns the earliest time at which a wait, or an opening, is long enough.
    fn next_deadline(&self, began: Nanos) -> Nanos {
        let deadline = |conn: &Conn| match conn.waits_since {
            Some(since) => since + self.plan.wait,
            None => began + OPENING_MAX,
        };
        let alive = self.conns.iter().filter(|conn| conn.socket.is_some());
        alive.map(deadline).min().unwrap_or(began)
    }

    /// Ends what has waited long enough; with `all`, everything.
    fn end_waits(&mut self, began: Nanos, all: bool) {
        let now = now();
        for index in 0..self.conns.len() {
            let conn = &self.conns[index];
            let is_over = match conn.waits_since {
                Some(since) => now >= since + self.plan.wait,
                None => now >= began + OPENING_MAX,
            };
            if conn.socket.is_some() && (is_over || all) {
                self.end(index, Closer::Us, now);
            }
        }
    }

    fn end(&mut self, index: usize, closer: Closer, now: Nanos) {
        let conn = &mut self.conns[index];
        conn.socket = None;
        conn.tls = None;
        let Some(since) = conn.waits_since else { return };
        self.ends.push(ProbeEnd {
            kind: conn.kind,
            after: now.since(since),
            closer,
            hand: conn.script.hand(),
            good_hand: conn.script.good_hand.clone(),
        });
    }

    fn handle_ready(&mut self, index: usize, buffer: &mut [u8]) {
        let Some(conn) = self.conns.get_mut(index) else { return };
        let Some(socket) = &conn.socket else { return };
        if !conn.connected {
            if socket.take_error().is_err() {
                conn.socket = None;
                return;
            }
            self.handle_connected(index);
        }
        // Before anything is sent: a reset may have come behind an answer.
        self.receive(index, Closer::PeerFin, buffer);
        if self.transmit(index).is_err() {
            self.receive(index, Closer::PeerReset, buffer);
        }
    }

    /// Reads all there is; the end of the stream was made by `closer`.
    fn receive(&mut self, index: usize, closer: Closer, buffer: &mut [u8]) {
        while let Some(socket) = &self.conns[index].socket {
            match socket.recv(buffer) {
                Err(Errno::AGAIN) => break,
                Err(_) => self.end(index, Closer::PeerReset, now()),
                Ok(0) => self.end(index, closer, now()),
                Ok(received) => self.handle_received(index, &buffer[..received]),
            }
        }
    }

    fn handle_connected(&mut self, index: usize) {
        let conn = &mut self.conns[index];
        conn.connected = true;
        if conn.kind == ProbeKind::Connected {
            conn.waits_since = Some(now());
        } else if let (Some(tls), Some(name)) = (&self.tls, &self.plan.destination.tls) {
            // The name was checked with the plan; a failure would end this connection only.
            conn.tls = tls.session(name, false).ok();
            if conn.tls.is_none() {
                conn.socket = None;
            }
        }
    }

    fn handle_received(&mut self, index: usize, bytes: &[u8]) {
        let conn = &mut self.conns[index];
        let Some(session) = &mut conn.tls else { return self.handle_bytes(index, bytes) };
        let (plaintext, received) = self.pump.receive(session, bytes);
        if !plaintext.is_empty() {
            self.handle_bytes(index, &plaintext);
        }
        self.pump.give_back(plaintext);
        if self.conns[index].socket.is_none() {
            return;
        }
        match received {
            Err(_) => self.end(index, Closer::TlsAlert, now()),
            Ok(received) if received.peer_closed => self.end(index, Closer::PeerFin, now()),
            Ok(_) => {}
        }
    }

    fn handle_bytes(&mut self, index: usize, bytes: &[u8]) {
        match self.conns[index].script.handle_bytes(bytes) {
            Effect::Nothing => {}
            Effect::WaitBegins => self.conns[index].waits_since = Some(now()),
            Effect::Ended(closer) => self.end(index, closer, now()),
        }
    }

    /// Sends the bytes of the script and of TLS; the wait begins once all of them are sent.
    fn transmit(&mut self, index: usize) -> Result<(), Errno> {
        let conn = &mut self.conns[index];
        let Some(socket) = &conn.socket else { return Ok(()) };
        let request = conn.script.request();
        let mut rest = &request[conn.sent_bytes..];
        let sent = match &mut conn.tls {
            None => {
                let sent = send_plain(socket, rest, false);
                conn.sent_bytes += sent.bytes;
                sent
            }
            Some(session) => {
                if session.is_handshaking() {
                    rest = &[];
                }
                conn.sent_bytes += rest.len();
                let unsent = &mut conn.unsent;
                self.pump.send(Link { socket, session, unsent }, rest)
            }
        };
        // A session that refuses bytes has failed, and its end is read soon.
        if let SendOutcome::Failed(errno) = sent.outcome {
            return Err(errno);
        }
        let usable = conn.tls.as_ref().is_none_or(|session| !session.is_handshaking());
        let all_sent = conn.sent_bytes == request.len() && conn.unsent.is_empty();
        let begins = conn.connected && usable && all_sent && conn.script.waits_at_once();
        if begins && conn.waits_since.is_none() {
            conn.waits_since = Some(now());
        }
        Ok(())
    }
}
