//! Agents that somebody else starts, and that connect to the coordinator: a TCP connection with TLS at both
//! ends in the place of a child's pipes.

mod dial;
mod gate;
mod keys;
mod wire;

pub use dial::dial;
pub use keys::{ReadKeysError, read_agent, read_coordinator, write_keys};

pub(crate) use gate::Gate;
pub(crate) use keys::{coordinator_files, files_of_agent};
pub(crate) use wire::{Joined, Wire};

use std::net::SocketAddr;
use std::time::Duration;

use plimsoll_model::plan::Identity;

/// Where agents connect to, and how they are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address of the listener.
    pub address: SocketAddr,
    /// What the coordinator presents.
    pub identity: Identity,
    /// Who has issued the agents' certificates.
    pub roots_pem: String,
    /// How long they may take to connect.
    pub within: Duration,
}
