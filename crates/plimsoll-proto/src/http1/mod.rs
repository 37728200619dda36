//! HTTP/1.1 and HTTP/1.0 (RFC 9110, RFC 9112): what was answered, what was asked, what to write.
//!
//! Bodies are counted and dropped, never kept. Not here: HTTP/0.9, upgrades, CONNECT tunnels,
//! decoding of content or of transfer codings other than `chunked`.

pub mod client;
pub mod encode;
pub mod server;

mod body;
pub(crate) mod head;

pub use client::{Progress, Response, ResponseError, ResponseParser};
pub use encode::BodyLength;
pub use server::{Request, RequestError, RequestParser, RequestProgress};

/// Longest response head, and so the most a client connection buffers.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 64 * 1024;
/// Most header lines in a response head, folded ones included.
pub const RESPONSE_HEADERS_MAX: usize = 128;
/// Most 1xx responses before the final one.
pub const INTERIM_RESPONSES_MAX: u8 = 32;

/// Longest request head, and so the most a server connection buffers.
pub const REQUEST_HEAD_BYTES_MAX: usize = 16 * 1024;
/// Most header lines in a request head.
pub const REQUEST_HEADERS_MAX: usize = 100;

/// Longest line that gives a chunk's size, extensions included. It is not buffered.
pub const CHUNK_LINE_BYTES_MAX: u32 = 4 * 1024;
/// Longest trailer section after the last chunk. It is not buffered.
pub const TRAILER_BYTES_MAX: u32 = 16 * 1024;
