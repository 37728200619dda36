//! Agents that somebody else starts, and that connect to the coordinator: a TCP connection with TLS at both
//! ends in the place of a child's pipes.

mod dial;
mod gate;
mod keys;
#[cfg(test)]
mod tests;
mod wire;

pub use dial::dial;
pub use keys::{ReadKeysError, read_agent, read_coordinator, write_keys};

pub(crate) use gate::Gate;
pub(crate) use keys::{coordinator_files, files_of_agent};
pub(crate) use wire::{Joined, Wire};

use std::net::SocketAddr;
use std::time::Duration;

use plimsoll_model::plan::Identity;

/// The place to which agents connect, and their authentication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address of the listener.
    pub address: SocketAddr,
    /// Identity of the coordinator.
    pub identity: Identity,
    /// Authority of the agents' certificates.
    pub roots_pem: String,
    /// Time within which they must connect.
    pub within: Duration,
}
