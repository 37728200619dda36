//! HTTP/2 (RFC 9113) and HPACK (RFC 7541): streams, flow control, header blocks.
//!
//! Bodies are counted and dropped, never kept. The client announces a header table of no size, so that it
//! keeps none, and its own blocks are the same bytes each time. Not here: server push, priorities (read
//! and ignored), the upgrade from HTTP/1.1, `CONNECT`.

pub mod client;
pub mod hpack;
pub mod request;
pub mod server;

mod answer;
mod frame;
mod huffman;

pub use answer::Malformation;
pub use client::{Client, Http2Error, Request, Rest, StreamFault};
pub use frame::{Code, FRAME_BYTES_MAX, PREFACE};
pub use server::{Incoming, Server, ServerRest, Stream};

/// Longest header block, and so the most that is kept of one whose frames arrive in parts.
pub const BLOCK_BYTES_MAX: usize = 64 * 1024;
/// Most CONTINUATION frames of one header block.
pub const CONTINUATIONS_MAX: u8 = 16;
