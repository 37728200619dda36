//! TLS as bytes to bytes, on rustls: handshakes, records, certificates. No sockets, no threads.
//!
//! The only direct user of rustls; none of its types appear in this crate's interface, so that a
//! session may later shed its rustls object once the handshake is done. The system's certificate
//! store is the one thing read from the host, and only where a plan trusts it.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used)]

mod capture;
mod chains;
mod client;
mod error;
mod handshaking;
mod identity;
mod keyring;
mod parked;
mod record;
mod server;
mod session;
mod shares;
mod suite;
mod tickets;
mod verify;
mod workbench;

pub use client::ClientContext;
pub use error::ConfigError;
pub use error::TlsError;
pub use identity::KeyKind;
pub use identity::check_identity;
pub use identity::self_signed;
pub use server::ServerContext;
pub use session::Handshake;
pub use session::HandshakeKind;
pub use session::Received;
pub use session::Session;
pub use workbench::Workbench;

#[cfg(test)]
mod tests;
