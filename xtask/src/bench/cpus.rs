//! The CPUs of a benchmark.

/// Clients run on this CPU, servers on the next.
pub(super) const CLIENT_CPU: u32 = 0;
pub(super) const SERVER_CPU: u32 = 1;
