//! Protocol machines: bytes from a peer in, progress and bytes to send out.
//!
//! Client and server halves, without sockets, clocks or hidden output. No bytes from a peer can
//! make anything here panic, and every buffer has a bound that is a public constant.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used)]

pub mod conversation;
pub mod http1;
pub mod http2;
pub mod mqtt;
mod pattern;
pub mod proxy_header;
pub mod script;
pub mod streamed;
pub mod websocket;
