//! Protocol machines: bytes from a peer in, progress and bytes to send out.
//!
//! Client and server halves, without sockets, clocks or hidden output. No bytes from a peer can
//! make anything here panic, and every buffer has a bound that is a public constant.
#![forbid(unsafe_code)]
#![warn(clippy::expect_used)]

pub mod conversation;
pub mod http1;
pub mod http2;
mod kept;
pub mod mqtt;
mod pattern;
pub mod proxy_header;
pub mod script;
pub mod streamed;
pub mod websocket;

/// Answers to a peer's frames and packets (acknowledgements, pongs, resets) that may wait for it to read. A broker of
/// MQTT leaves at most 65,535 messages open, whose acknowledgements have four bytes each.
pub const REPLIES_BYTES_MAX: usize = 256 * 1024;

/// Bytes of bodies that wait here for the kernel; more is written when these are gone.
const BODY_BYTES_AHEAD: usize = 64 * 1024;

/// Words for a peer that reads no answers.
pub const READS_NO_ANSWERS: &str = "the server asks for many answers and reads none of them";
