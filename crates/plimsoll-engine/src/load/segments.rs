//! Segments that the sockets of one worker sent, read from each when it closes.
//!
//! The kernel's sums over a host count the sockets of every program on it. Reading one socket takes about a
//! microsecond: if more connections close in a second than are read, each that is read represents several.

use plimsoll_model::segments::SegmentCounts;
use plimsoll_model::tally::Tally;
use plimsoll_sys::socket::Socket;

/// The number of connections per second that are all read.
const ALL_READ: u32 = 1_000;
/// Further connections are sampled: one in this number is read.
const SAMPLED_EVERY: u32 = 64;

/// Sums of the present second.
#[derive(Debug, Default)]
pub(super) struct Segments {
    counts: SegmentCounts,
    closed: u32,
}

impl Segments {
    /// Counts what `socket` has sent, just before it is closed.
    pub(super) fn count(&mut self, socket: &Socket) {
        let stands_for = stands_for(self.closed);
        self.closed = self.closed.saturating_add(1);
        if stands_for == 0 {
            return;
        }
        // Of a socket that cannot be read nothing is known.
        if let Ok(seen) = socket.segments() {
            self.counts.sent += u64::from(stands_for) * u64::from(seen.sent);
            self.counts.sent_again += u64::from(stands_for) * u64::from(seen.sent_again);
        }
    }

    /// Hands the sums of the second over.
    pub(super) fn end_second(&mut self, tally: &mut Tally) {
        tally.segments.merge(self.counts);
        *self = Self::default();
    }
}

/// Returns the number of connections that the next one represents, if `closed` have closed in this second; 0 if it is
/// not read.
const fn stands_for(closed: u32) -> u32 {
    match closed {
        0..ALL_READ => 1,
        closed if (closed - ALL_READ + 1).is_multiple_of(SAMPLED_EVERY) => SAMPLED_EVERY,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, SocketAddr};

    use plimsoll_sys::socket::ListenSocket;

    use super::*;

    #[test]
    fn a_sample_stands_for_all_connections() {
        let most = ALL_READ + 40 * SAMPLED_EVERY;
        assert_eq!((0..most).map(stands_for).sum::<u32>(), most);
        let read = (0..most).filter(|closed| stands_for(*closed) > 0).count() as u32;
        assert_eq!(read, ALL_READ + 40);
    }

    #[test]
    fn the_segments_of_closed_connections_are_handed_over_once() {
        let any_port = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let listener = ListenSocket::bind(any_port, 16).expect("a port");
        let address = listener.local_address().expect("it listens");
        let (connected, _) = Socket::connect(address, None).expect("it listens");
        let mut segments = Segments::default();
        segments.count(&connected);
        let (mut first, mut second) = (Tally::default(), Tally::default());
        segments.end_second(&mut first);
        segments.end_second(&mut second);
        // A SYN and the acknowledgement of its answer.
        assert_eq!(first.segments, SegmentCounts { sent: 2, sent_again: 0 });
        assert!(second.segments.is_none());
    }
}
