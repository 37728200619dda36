//! The memory that a proxy will need, from what a connection was measured to cost.

use plimsoll_model::units::grouped;

use super::ProxyGoal;
use crate::doctor::{PROXY_BYTES, SOCKET_KERNEL_BYTES};

/// Two buffers of 16 KiB and the stream of a request in progress, and its connection to the backend.
const BUSY_BYTES: u64 = 2 * 16_384 + 2_048 + SOCKET_KERNEL_BYTES;
/// A TLS handshake in progress: HAProxy's own constant, include/haproxy/defaults.h.
const HANDSHAKE_BYTES: u64 = 76 * 1024;
/// One thread's or worker's caches.
const THREAD_BYTES: u64 = 2 * 1024 * 1024;
/// A process without connections.
const PROCESS_BYTES: u64 = 20_000_000;

/// The memory of a proxy with its sockets, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Client connections.
    pub connections: u64,
    /// Memory of the proxy for them.
    pub held: u64,
    /// Memory of the kernel for their sockets.
    pub sockets: u64,
    /// Requests in progress: those of one second.
    pub busy: u64,
    /// Handshakes in progress: those of a tenth of a second.
    pub handshakes: u64,
    /// The processes and threads.
    pub fixed: u64,
}

impl Memory {
    /// Computes the memory for `goal`, beside `slots`, which are allocated when the program starts.
    pub(super) fn of(goal: &ProxyGoal, slots: u64) -> Self {
        Self {
            connections: goal.connections,
            held: goal.connections.saturating_mul(PROXY_BYTES),
            sockets: goal.connections.saturating_mul(SOCKET_KERNEL_BYTES),
            busy: goal.rate_per_s.min(goal.connections).saturating_mul(BUSY_BYTES),
            handshakes: goal.rate_per_s.div_ceil(10).saturating_mul(HANDSHAKE_BYTES),
            fixed: (PROCESS_BYTES + u64::from(goal.cores) * THREAD_BYTES).saturating_add(slots),
        }
    }

    /// Returns the sum of all parts, in bytes.
    pub fn total(&self) -> u64 {
        [self.held, self.sockets, self.busy, self.handshakes, self.fixed]
            .into_iter()
            .fold(0, u64::saturating_add)
    }

    /// Returns the number of connections whose need fits into `bytes`, everything else as it is.
    pub fn connections_fit(&self, bytes: u64) -> u64 {
        let others = self.total().saturating_sub(self.held).saturating_sub(self.sockets);
        bytes.saturating_sub(others) / (PROXY_BYTES + SOCKET_KERNEL_BYTES)
    }

    /// Returns one line.
    pub fn line(&self) -> String {
        format!(
            "memory: {} MB: {} for {} idle TLS connections ({PROXY_BYTES} bytes each, as measured, and \
             {SOCKET_KERNEL_BYTES} of the kernel), {} for requests, {} for handshakes, {} for processes and threads",
            megabytes(self.total()),
            megabytes(self.held.saturating_add(self.sockets)),
            grouped(self.connections),
            megabytes(self.busy),
            megabytes(self.handshakes),
            megabytes(self.fixed)
        )
    }
}

fn megabytes(bytes: u64) -> String {
    grouped(bytes.div_ceil(1_000_000))
}
