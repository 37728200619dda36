//! The source address and port of each connection.
//!
//! Without a plan the kernel looks for a free port one by one, which needs about 100 probes a
//! connect at 99 % occupancy, and never finds one that is free for this destination only because
//! somebody bound it explicitly. So the space of (source address, port) is owned here: every
//! connection asks for one exact port, and the kernel's answer is kept.
//!
//! - [`HostPorts`] reads what the host allows.
//! - [`PortPlan`] lists what a load may use, and which part of it belongs to this shard.
//! - [`PortAllocator`] allocates and frees pairs. It makes no system call and has no
//!   clock; [`crate::outgoing`] does the connecting.
//!
//! Memory: nothing for a port that was never used or is in use, 4 bytes for one that waits to be
//! used again (twice that while its queue grows). A connection keeps a [`Lease`] of 4 bytes.

mod allocator;
mod delay_queue;
mod error;
mod host;
mod set;
mod sources;

/// Time for which a pair stays in TIME_WAIT at the end that sent the first FIN, seconds: TCP_TIMEWAIT_LEN,
/// include/net/tcp.h.
pub const TIME_WAIT_S: u32 = 60;
/// Ports of one source address to one server that may be in TIME_WAIT: 70 % of the 28,232 of the default
/// range. Beyond that the kernel takes long to find a free one.
pub const PORTS_RESTING_MAX: u32 = 20_000;

pub use allocator::{Candidate, Closed, Lease, PortAllocator, PortPlan, Route, Slice};
pub use error::{PortCounts, PortError, PortShortage};
pub use host::{HostPorts, parse_range};
pub use set::PortSet;
pub use sources::Sources;

#[cfg(test)]
mod tests;
