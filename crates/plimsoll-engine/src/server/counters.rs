//! Counters of a server: one block per worker, written by it alone, read by anyone.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Sums over all workers since the start; `conns_open` is the present state.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counters {
            $($(#[$doc])* pub $name: u64,)*
        }

        /// One worker's block. Its own cache lines, so that workers do not slow each other down.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub(super) struct WorkerCounters {
            $(pub(super) $name: Count,)*
        }

        impl WorkerCounters {
            pub(super) fn add_to(&self, sum: &mut Counters) {
                $(sum.$name = sum.$name.wrapping_add(self.$name.0.load(Relaxed));)*
            }
        }
    };
}

counters! {
    /// Connections accepted.
    conns_accepted,
    /// Connections open now.
    conns_open,
    /// Connections that ended in a reset by the peer.
    conns_reset,
    /// Connections closed because a request, a handshake or a slow reader took too long.
    conns_timed_out,
    /// Connections that the peer closed in the middle of a request.
    conns_truncated,
    /// Full TLS handshakes completed.
    handshakes_full,
    /// Resumed TLS handshakes completed.
    handshakes_resumed,
    /// Connections that ended in a TLS error, during or after the handshake.
    tls_failed,
    /// Requests answered completely, refusals included.
    requests,
    /// Request body bytes, without framing.
    request_body_bytes,
    /// Requests that were not acceptable HTTP, by whatever 4xx or 5xx they were answered.
    requests_malformed,
    /// Connections that ended because messages of all connections took too much memory.
    conns_overfull,
    /// Requests that the service refused.
    requests_refused,
    /// Connections that switched to WebSocket.
    conns_upgraded,
    /// WebSocket messages and MQTT publishes received completely.
    messages,
    /// WebSocket messages sent unasked.
    pushes,
    /// MQTT messages that were delivered, once or twice.
    deliveries,
    /// Messages of `deliveries` that were delivered twice, on purpose.
    deliveries_repeated,
    /// MQTT messages that were not delivered, on purpose.
    deliveries_lost,
    /// Bytes received, TLS included.
    rx_bytes,
    /// Bytes sent, TLS included.
    tx_bytes,
    /// Times accepting was paused because descriptors or memory ran out.
    accepts_paused,
}

/// A counter with one writer: plain stores, no locked instruction.
#[derive(Debug, Default)]
pub(super) struct Count(AtomicU64);

impl Count {
    pub(super) fn add(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(amount), Relaxed);
    }

    pub(super) fn subtract(&self, amount: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_sub(amount), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_cover_all_workers() {
        let (one, two) = (WorkerCounters::default(), WorkerCounters::default());
        one.requests.add(3);
        two.requests.add(4);
        two.conns_open.add(2);
        two.conns_open.subtract(1);
        let mut sum = Counters::default();
        one.add_to(&mut sum);
        two.add_to(&mut sum);
        assert_eq!(sum, Counters { requests: 7, conns_open: 1, ..Counters::default() });
    }
}
