//! TLS as bytes to bytes: handshakes by rustls, records by a layer of our own once a handshake is
//! done. No sockets, no threads.
//!
//! A [`Session`] drops its rustls object (about 8 kB) with the end of its handshake and continues as 120 bytes.
//! `compact` has the rules that it then keeps, `handshaking` the way there. State that sessions need only while bytes
//! move is in the [`ThreadContext`] of their thread.
//!
//! The only direct user of rustls and aws-lc-rs; none of their types appear in this crate's
//! interface. Secrets of connections are plain bytes in memory here, and not wiped: the peers of a
//! load test are its user's own. The system's certificate store is the one thing read from the
//! host, and only if a plan trusts it.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used)]

#[macro_use]
mod verify;
mod agreed;
mod capture;
mod chains;
mod client;
mod compact;
mod diagnosis;
mod error;
mod handshaking;
mod identity;
mod key_cache;
mod mutual;
mod record;
mod server;
mod session;
mod shares;
mod suite;
mod thread_context;
mod ticketer;
mod tickets;

pub use agreed::{Handshake, HandshakeKind};
pub use client::ClientContext;
pub use error::{ConfigError, TlsError};
pub use identity::{KeyKind, check_identity, renewed, self_signed};
pub use mutual::{MutualContext, MutualLink, RunKeys};
pub use server::ServerContext;
pub use session::{Received, Session};
pub use thread_context::ThreadContext;
pub use ticketer::new_ticket_key;

#[cfg(test)]
mod tests;
