//! StatsD counters over UDP, from a separate thread, once a second and once at the end.
//!
//! Requests are counted by the workers as they are anyway; only sums leave, so a busy backend
//! sends no more datagrams than a quiet one.

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::sync::mpsc::{RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use cadence::{Counted, StatsdClient, UdpMetricSink};

use plimsoll_engine::server::{CounterReader, Counters};
use plimsoll_sys::{address, thread};

const PERIOD: Duration = Duration::from_secs(1);

/// A thread that flushes, and what it lives by: dropping the sender ends it, after a last flush.
pub(crate) type Flusher = (Sender<()>, JoinHandle<()>);

/// Begins to send what `counters` show to `remote`.
pub(crate) fn start(remote: SocketAddr, counters: CounterReader) -> io::Result<Flusher> {
    let socket = UdpSocket::bind(address::any_like(remote))?;
    socket.set_nonblocking(true)?;
    let sink = UdpMetricSink::from(remote, socket).map_err(io::Error::other)?;
    let client = StatsdClient::from_sink("plimsoll", sink);
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn("statsd", None, move || {
        let mut sent = Counters::default();
        loop {
            let wait = receiver.recv_timeout(PERIOD);
            let now = counters.read();
            for (name, growth) in [
                ("requests", now.requests - sent.requests),
                ("connections", now.conns_accepted - sent.conns_accepted),
            ] {
                if growth > 0 {
                    // UDP promises nothing; a missing server must not disturb the backend.
                    let _ = client.count(name, growth);
                }
            }
            sent = now;
            if wait != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    })?;
    Ok((sender, thread))
}
