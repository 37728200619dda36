//! WebSocket (RFC 6455): the opening handshake's fields, frames, and messages made of them.
//!
//! Both halves are here: a [`MessageReader`] is created for one side. No extension is spoken, so that reserved bits and
//! opcodes are errors. Payload is passed on as it comes and never stored, except the payload of control frames, of
//! which there are at most [`CONTROL_PAYLOAD_BYTES_MAX`].

mod answers;
mod client;
mod frame;
mod large;
mod opening;
mod reader;
mod utf8;

pub use answers::{Answers, expected};
pub use client::{Client, Push, WebSocketError, close, message, opening, ping};
pub use frame::{FRAME_HEAD_BYTES_MAX, Opcode, apply_mask, write_frame};
pub use large::{message_bytes, write_message_from};
pub use opening::{KEY_BYTES, Opening, Refusal, accept_for};
pub use reader::{FrameError, MessageReader, Progress, Side};

/// Longest payload of a ping, pong or close frame (RFC 6455 5.5).
pub const CONTROL_PAYLOAD_BYTES_MAX: usize = 125;
/// Longest message that is read; a longer one is refused with 1009.
pub const MESSAGE_BYTES_MAX: u64 = 1 << 30;
