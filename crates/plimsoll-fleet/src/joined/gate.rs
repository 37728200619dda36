//! The coordinator's listener: an agent with a certificate of the run gets the seat of its index, and any other client
//! is refused.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};
use std::{io, thread};

use plimsoll_model::Nanos;
use plimsoll_sys::clock;
use plimsoll_sys::thread::{lock, spawn};
use plimsoll_tls::MutualContext;

use super::wire::{Greeting, HandshakeError};
use super::{Joined, Listen, Wire};
use crate::error::{FleetError, Result};
use crate::frame;
use crate::hosts::{HostName, fold};
use crate::message::ToAgent;

/// Handshakes at a time. Who comes beyond takes the place of one that says nothing, or is closed at once and tries
/// again.
const HANDSHAKES_MAX: usize = 64;
/// Timeout of the first record of a handshake.
const FIRST_RECORD_WAIT: Duration = Duration::from_secs(2);
/// Period of checking the listener.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Notes that are kept until they are read.
const NOTES_MAX: usize = 20;

/// From one ping to the next of an agent that waits for the others: it must not take the silence for a loss.
const PING_EVERY: Duration = Duration::from_secs(1);

/// The listener of a run. Dropping it closes it.
#[derive(Debug)]
pub(crate) struct Gate {
    inside: Arc<Inside>,
    names: Vec<HostName>,
    /// Time within which an agent must connect.
    pub(crate) within: Duration,
}

#[derive(Debug)]
struct Inside {
    context: MutualContext,
    agents: u32,
    seats: Mutex<BTreeMap<u32, Seat>>,
    notes: Mutex<Vec<String>>,
    /// Handshakes that go on, the oldest first.
    handshakes: Mutex<Vec<Handshake>>,
    next_id: AtomicU64,
    is_over: AtomicBool,
}

/// The state of an index.
#[derive(Debug)]
enum Seat {
    /// A link waits for its agent.
    Expected(Sender<Joined>),
    /// The agent has arrived, and no link has asked for it yet.
    Arrived(Joined),
}

/// A connection whose agent is not known yet.
#[derive(Debug)]
struct Handshake {
    id: u64,
    since: Instant,
    /// `true` if its first record has arrived.
    has_spoken: bool,
    /// To end it from another thread.
    socket: TcpStream,
}

/// Returns the handshake to end if another one begins: the oldest one whose client has sent nothing, otherwise the
/// oldest one that takes too long. Agents are not distinguished by their addresses, because many may share one.
fn least_wanted(handshakes: &[Handshake], now: Instant) -> Option<usize> {
    let is_slow = |one: &Handshake| now.saturating_duration_since(one.since) > FIRST_RECORD_WAIT;
    let silent = handshakes.iter().position(|one| !one.has_spoken);
    silent.or_else(|| handshakes.iter().position(is_slow))
}

impl Gate {
    pub(crate) fn open(listen: &Listen, names: Vec<HostName>) -> Result<Arc<Self>> {
        let start = |source| FleetError::Start {
            name: format!("the listener for agents at {}", listen.address),
            source,
        };
        let context = MutualContext::coordinator(&listen.identity, &listen.roots_pem)
            .map_err(|error| start(io::Error::other(error)))?;
        let listener = TcpListener::bind(listen.address).map_err(start)?;
        Self::at(listener, context, names, listen.within).map_err(start)
    }

    /// Opens the gate at an existing listener.
    pub(super) fn at(
        listener: TcpListener,
        context: MutualContext,
        names: Vec<HostName>,
        within: Duration,
    ) -> io::Result<Arc<Self>> {
        listener.set_nonblocking(true)?;
        let inside = Arc::new(Inside {
            context,
            agents: names.len() as u32,
            seats: Mutex::default(),
            notes: Mutex::default(),
            handshakes: Mutex::default(),
            next_id: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
        });
        let shared = Arc::clone(&inside);
        spawn("gate", None, move || shared.accept_all(&listener))?;
        Ok(Arc::new(Self { inside, names, within }))
    }

    /// Waits until all agents have connected, or for as long as they may take.
    pub(crate) fn await_all(&self, interrupted: &dyn Fn() -> bool) -> Result<()> {
        let deadline = Instant::now() + self.within;
        while lock(&self.inside.seats).len() < self.names.len() {
            if interrupted() {
                return Err(FleetError::Interrupted);
            }
            if Instant::now() > deadline {
                return Err(FleetError::Hosts { lines: self.missing() });
            }
            thread::sleep(LOOK_AGAIN);
        }
        Ok(())
    }

    /// Returns the agents that have not connected, and those that were refused meanwhile.
    fn missing(&self) -> Vec<String> {
        let seats = lock(&self.inside.seats);
        let is_missing = |index: &usize| !seats.contains_key(&(*index as u32));
        let missing: Vec<_> = (0..self.names.len()).filter(is_missing).collect();
        let names: Vec<_> = missing.iter().map(|index| self.names[*index].clone()).collect();
        let within = self.within.as_secs();
        let first = format!("{} did not connect within {within} s", fold(&names));
        [vec![first], self.take_notes()].concat()
    }

    /// Waits for the agent of this index; the end of the receiver gives that up.
    pub(crate) fn expect(&self, index: usize) -> Receiver<Joined> {
        let (sender, receiver) = mpsc::channel();
        let index = index as u32;
        let mut seats = lock(&self.inside.seats);
        match seats.remove(&index) {
            // The receiver is alive.
            Some(Seat::Arrived(joined)) => drop(sender.send(joined)),
            _ => drop(seats.insert(index, Seat::Expected(sender))),
        }
        receiver
    }

    /// Waits no longer for the agent of this index.
    pub(crate) fn give_up(&self, index: usize) {
        let mut seats = lock(&self.inside.seats);
        if matches!(seats.get(&(index as u32)), Some(Seat::Expected(_))) {
            seats.remove(&(index as u32));
        }
    }

    /// Returns lines for the reader since the last call.
    pub(crate) fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut *lock(&self.inside.notes))
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.inside.is_over.store(true, Ordering::Release);
        // Whoever still waits is told.
        lock(&self.inside.seats).clear();
    }
}

impl Inside {
    fn note(&self, line: String) {
        let mut notes = lock(&self.notes);
        if notes.len() < NOTES_MAX {
            notes.push(line);
        }
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        while !self.is_over.load(Ordering::Acquire) {
            let Ok((socket, _)) = listener.accept() else {
                // None is there, or the process has no descriptor left for it.
                thread::sleep(LOOK_AGAIN);
                continue;
            };
            let shared = Arc::clone(self);
            let Some(id) = self.begin(&socket) else { continue };
            let started = spawn("gate-hello", None, move || {
                if let Some((index, wire)) = shared.admit(id, socket) {
                    shared.keep_alive(index, &wire);
                }
            });
            if started.is_err() {
                self.end(id);
            }
        }
    }

    /// Counts a handshake that begins, and ends another one where there are too many; `None` if it cannot begin.
    fn begin(&self, socket: &TcpStream) -> Option<u64> {
        let other_handle = socket.try_clone().ok()?;
        let now = Instant::now();
        let mut handshakes = lock(&self.handshakes);
        if handshakes.len() >= HANDSHAKES_MAX {
            let place = least_wanted(&handshakes, now)?;
            // Its thread finds the connection closed; the other end may have closed it before.
            let _ = handshakes.remove(place).socket.shutdown(Shutdown::Both);
        }
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        handshakes.push(Handshake { id, since: now, has_spoken: false, socket: other_handle });
        Some(id)
    }

    /// Counts a handshake no longer; false where it has made room for another one.
    fn end(&self, id: u64) -> bool {
        let mut handshakes = lock(&self.handshakes);
        let before = handshakes.len();
        handshakes.retain(|one| one.id != id);
        handshakes.len() < before
    }

    /// Admits an agent that must wait; returns its index.
    fn admit(&self, id: u64, socket: TcpStream) -> Option<(u32, Arc<Wire>)> {
        let from = socket.peer_addr().map_or_else(|_| "?".to_owned(), |peer| peer.to_string());
        let refuse = |why: &dyn fmt::Display| {
            self.note(format!("a connection from {from} was refused: {why}"));
            None
        };
        let blocking = socket.set_nonblocking(false).map_err(HandshakeError::from);
        let arrived = || {
            if let Some(own) = lock(&self.handshakes).iter_mut().find(|one| one.id == id) {
                own.has_spoken = true;
            }
        };
        let greeting = Greeting { within: FIRST_RECORD_WAIT, arrived: &arrived };
        let joined = blocking.and_then(|()| Joined::accept(socket, &self.context, greeting));
        if !self.end(id) {
            // Who has made room for others tries again.
            return None;
        }
        let joined = match joined {
            Ok(joined) => joined,
            Err(error) => return refuse(&error),
        };
        let Some(index) = joined.wire.link().agent_index(self.agents) else {
            return refuse(&"its certificate belongs to no agent of this run");
        };
        let wire = Arc::clone(&joined.wire);
        let mut seats = lock(&self.seats);
        if self.is_over.load(Ordering::Acquire) {
            return None;
        }
        match seats.remove(&index) {
            Some(Seat::Expected(link)) => {
                // A link that was given up meanwhile has no use for it.
                let _ = link.send(joined);
                None
            }
            // A new one takes the place of an agent that has waited: that one is gone, most likely.
            Some(Seat::Arrived(_)) | None => {
                seats.insert(index, Seat::Arrived(joined));
                Some((index, wire))
            }
        }
    }

    /// Pings an agent until a link asks for it.
    fn keep_alive(&self, index: u32, wire: &Arc<Wire>) {
        loop {
            thread::sleep(PING_EVERY);
            let is_waiting = |seat: Option<&Seat>| matches!(seat, Some(Seat::Arrived(joined)) if Arc::ptr_eq(&joined.wire, wire));
            if self.is_over.load(Ordering::Acquire) || !is_waiting(lock(&self.seats).get(&index)) {
                return;
            }
            let ping = ToAgent::Ping { sent: Nanos(clock::monotonic_ns()) };
            let sent = frame::encode(&ping).is_ok_and(|frame| wire.send(&frame).is_ok());
            let mut seats = lock(&self.seats);
            if !sent && is_waiting(seats.get(&index)) {
                seats.remove(&index);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silent_connections_make_room_first_and_then_slow_ones() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let began = Instant::now();
        let at = |second: u64| began + Duration::from_secs(second);
        let one = |id, second, has_spoken| {
            let socket = socket.try_clone().unwrap();
            Handshake { id, since: at(second), has_spoken, socket }
        };
        let wanted = |handshakes: &[Handshake], now| least_wanted(handshakes, at(now));
        let spoken = [one(0, 0, true), one(1, 1, true)];
        assert_eq!(wanted(&spoken, 1), None);
        assert_eq!(wanted(&spoken, 3), Some(0));
        let mixed = [one(0, 0, true), one(1, 1, false), one(2, 2, false)];
        assert_eq!(wanted(&mixed, 3), Some(1));
    }
}
