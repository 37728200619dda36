//! StatsD counters over UDP, from a thread of its own, once a second and once at the end.
//!
//! Requests are counted by the workers as they are anyway; only sums leave, so a busy backend
//! sends no more datagrams than a quiet one.

use std::fmt::Write;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_engine::server::{CounterReader, Counters};
use plimsoll_sys::socket::DatagramSocket;
use plimsoll_sys::thread;

const PERIOD: Duration = Duration::from_secs(1);

/// Ends the thread, after a last flush.
#[derive(Debug)]
pub(crate) struct Flusher(mpsc::Sender<()>);

impl Flusher {
    pub(crate) fn finish(self) {
        // Dropping the sender is the message.
        drop(self.0);
    }
}

/// Begins to send what `counters` show to `remote`.
pub(crate) fn start(
    remote: SocketAddr,
    counters: CounterReader,
) -> io::Result<(Flusher, JoinHandle<()>)> {
    let socket = DatagramSocket::connect(remote)?;
    let (sender, receiver) = mpsc::channel();
    let thread = thread::spawn("statsd", None, move || {
        let mut sent = Counters::default();
        loop {
            let wait = receiver.recv_timeout(PERIOD);
            let now = counters.read();
            if let Some(datagram) = datagram(&sent, &now) {
                // UDP promises nothing; a missing server must not disturb the backend.
                let _ = socket.send(datagram.as_bytes());
            }
            sent = now;
            if wait != Err(RecvTimeoutError::Timeout) {
                return;
            }
        }
    })?;
    Ok((Flusher(sender), thread))
}

/// The growth since the last datagram; `None` when nothing has grown.
fn datagram(sent: &Counters, now: &Counters) -> Option<String> {
    let mut text = String::new();
    for (name, growth) in [
        ("plimsoll.requests", now.requests - sent.requests),
        ("plimsoll.connections", now.conns_accepted - sent.conns_accepted),
    ] {
        if growth > 0 {
            let separator = if text.is_empty() { "" } else { "\n" };
            // Writing to a String cannot fail.
            let _ = write!(text, "{separator}{name}:{growth}|c");
        }
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_datagram_says_what_has_grown() {
        let sent = Counters { requests: 5, conns_accepted: 2, ..Counters::default() };
        let now = Counters { requests: 12, conns_accepted: 2, ..Counters::default() };
        assert_eq!(datagram(&sent, &now).as_deref(), Some("plimsoll.requests:7|c"));
        assert_eq!(
            datagram(&Counters::default(), &now).as_deref(),
            Some("plimsoll.requests:12|c\nplimsoll.connections:2|c")
        );
        assert_eq!(datagram(&now, &now), None);
    }
}
