//! StatsD: what other programs send.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use plimsoll_model::host::Reading;
use plimsoll_probe::statsd::Received;

use crate::exit::{Result, Stop};

/// The largest datagram that is received.
const DATAGRAM_BYTES_MAX: usize = 64 * 1024;
/// The most datagrams that are taken for one reading.
const DATAGRAMS_MAX: usize = 100_000;

/// A socket whose datagrams are read together with the host.
pub(super) struct Receiver {
    socket: UdpSocket,
    /// Listening address.
    pub(super) address: SocketAddr,
    received: Received,
}

impl Receiver {
    /// Listens at `at`.
    pub(super) fn start(at: SocketAddr) -> Result<Self> {
        let cannot = |error: io::Error| {
            Stop::CannotRun(format!("--statsd-listen: cannot listen on {at}: {error}"))
        };
        let socket = UdpSocket::bind(at).map_err(cannot)?;
        socket.set_nonblocking(true).map_err(cannot)?;
        let address = socket.local_addr().map_err(cannot)?;
        Ok(Self { socket, address, received: Received::default() })
    }

    /// Adds what has arrived to `reading`.
    pub(super) fn add_to(&mut self, reading: &mut Reading) {
        let mut datagram = vec![0; DATAGRAM_BYTES_MAX];
        for _ in 0..DATAGRAMS_MAX {
            let Ok(length) = self.socket.recv(&mut datagram) else { break };
            self.received.add(&datagram[..length]);
        }
        self.received.add_to(self.address, reading);
    }
}
