//! Needs of held connections on this host, limit by limit, and the number of connections that the host
//! can hold.
//!
//! [`Needs::of`] compares a [`Shape`] (what will run here) with the `HostLimits` that a probe
//! read. Nothing is changed: each limit that is too low names the command that raises it.

mod json;
mod limits;
mod need;
mod needs;
mod shape;
#[cfg(test)]
mod tests;

pub(crate) use need::UNIT_FILE;
pub use need::{Fix, Need, SYSCTL_FILE, Setting, Unit, Verdict};
pub use needs::{Needs, PartProcesses};
pub use shape::{
    Hop, PROCESS_DESCRIPTORS, PROXY_BYTES, Part, Processes, SOCKET_KERNEL_BYTES, Shape,
};
