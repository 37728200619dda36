//! Scripted servers on loopback, plans against them, and runs that check the sum.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;

use plimsoll_engine::load::Load;
use plimsoll_model::event::LoadEvent;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{LoadPlan, Pacing, Timeouts};
use plimsoll_model::tally::Tally;
use plimsoll_model::{Nanos, Rate};
use plimsoll_sys::clock;

pub(crate) const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";

/// A server whose connections are each handled by `script`, until the listener's owner is dropped.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    // Accepts until the process ends: the tests are short and the thread holds one socket.
    _acceptor: JoinHandle<()>,
}

impl Scripted {
    pub(crate) fn start(script: impl Fn(TcpStream) + Send + Clone + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let acceptor = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let script = script.clone();
                std::thread::spawn(move || script(stream));
            }
        });
        Self { address, _acceptor: acceptor }
    }

    /// Answers every request.
    pub(crate) fn answering() -> Self {
        Self::start(|mut stream| while read_request(&mut stream) && stream.write_all(OK).is_ok() {})
    }
}

/// Reads one request head without a body; false at the end of the stream.
pub(crate) fn read_request(stream: &mut TcpStream) -> bool {
    let mut seen = Vec::new();
    let mut byte = [0; 1];
    while !seen.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => seen.push(byte[0]),
            _ => return false,
        }
    }
    true
}

/// Longer than anything takes on a host whose CPUs are busy with other tests.
const PATIENCE: Nanos = Nanos::from_secs(60);

/// Timers that end no connection and no answer.
pub(crate) const PATIENT: Timeouts =
    Timeouts { deadline: None, linger: PATIENCE, connect: PATIENCE };

/// A plan whose own timers end nothing unless a test sets them. On a busy host operations wait for connections for
/// long: without a deadline they are given up after a second.
pub(crate) fn plan(address: SocketAddr, pacing: Pacing) -> LoadPlan {
    let timeouts = Timeouts { deadline: Some(PATIENCE), ..PATIENT };
    LoadPlan { threads: 2, timeouts, ..LoadPlan::plain(&[&[address]], pacing) }
}

pub(crate) fn open(per_s: f64, ms: u64) -> Pacing {
    let rate = Rate::per_second(per_s).unwrap();
    let profile = Profile::constant(rate, Nanos::from_millis(ms));
    Pacing::Open { profile, arrivals: Arrivals::Poisson }
}

pub(crate) fn closed(ops: u64) -> Pacing {
    Pacing::Closed { duration: None, ops_total: Some(ops) }
}

/// Runs the load to its end; checks the sum.
pub(crate) fn run(plan: LoadPlan) -> Tally {
    let mut load = Load::prepare(plan).unwrap();
    let mut whole = Tally::default();
    while let Some(event) = load.next_event() {
        match event {
            LoadEvent::Ready { .. } => load.start(Nanos(clock::monotonic_ns())),
            LoadEvent::Interval(interval) => whole.merge_following(&interval.tally),
            LoadEvent::Rows(_)
            | LoadEvent::Steered { .. }
            | LoadEvent::Refused(_)
            | LoadEvent::Draining { .. }
            | LoadEvent::Ended { .. } => {}
        }
    }
    assert!(
        whole.balances(),
        "scheduled {} != ok {} + errors {} + unsent {}",
        whole.scheduled,
        whole.ok,
        whole.errors_total(),
        whole.unsent
    );
    whole
}
