//! A reader that assembles WebSocket messages from frames.
//!
//! [`MessageReader::handle_bytes`] consumes bytes up to the end of a message or of a control frame and reports which
//! one ended. Payload is unmasked in pieces of 1 KiB and passed to a callback; only a partial head and the payload of
//! the last control frame (at most 125 bytes) are stored. `begin_frame` checks masking, order and length of a frame,
//! and text is checked as UTF-8 on the way. Start reading at [`MessageReader::handle_bytes`].

use thiserror::Error;

use super::frame::{FRAME_HEAD_BYTES_MAX, FrameHead, Opcode, apply_mask};
use super::utf8::Utf8;
use super::{CONTROL_PAYLOAD_BYTES_MAX, MESSAGE_BYTES_MAX};
use crate::kept::Kept;

/// Payload is unmasked in pieces of this size.
const PIECE_BYTES: usize = 1024;

/// The side that reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Frames come from a server: not masked.
    Client,
    /// Frames come from a client: masked.
    Server,
}

/// Reads what the peer of one connection sends, frame by frame. After an error it is of no more
/// use.
#[derive(Debug)]
pub struct MessageReader {
    side: Side,
    /// Bytes of a head that is not complete.
    head: [u8; FRAME_HEAD_BYTES_MAX],
    head_bytes: u8,
    /// The message whose end has not come yet.
    message: Option<Message>,
    /// The frame whose payload is being read, and how much of that has come.
    frame: Option<(FrameHead, u64)>,
    /// Payload of the last control frame.
    control: Option<Box<Kept<CONTROL_PAYLOAD_BYTES_MAX>>>,
}

const _: () = assert!(size_of::<MessageReader>() <= 88);

#[derive(Clone, Copy, Debug)]
struct Message {
    is_text: bool,
    utf8: Utf8,
    bytes: u64,
}

/// The result of handling bytes from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes were consumed; the message or frame is not complete.
    NeedMore,
    /// A message is complete.
    Message {
        /// Text rather than bytes.
        is_text: bool,
        /// Bytes of the payload, of all frames.
        bytes: u64,
    },
    /// A ping is complete: answer with a pong of the same payload.
    Ping,
    /// A pong is complete.
    Pong,
    /// The peer closes, with this code if it gives one.
    Close(Option<u16>),
}

/// Why the connection must be closed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum FrameError {
    /// Not RFC 6455.
    #[error("the peer does not speak WebSocket: {what}")]
    Malformed {
        /// The fault.
        what: &'static str,
    },
    /// A text message or a close reason that is not UTF-8.
    #[error("the peer sent text that is not UTF-8")]
    NotUtf8,
    /// A message over [`MESSAGE_BYTES_MAX`].
    #[error("the peer sent a message of more than 1 GiB; make it send less")]
    TooLarge,
}

impl FrameError {
    /// Returns the close code for the peer (RFC 6455 7.4.1).
    pub const fn close_code(self) -> u16 {
        match self {
            Self::Malformed { .. } => 1002,
            Self::NotUtf8 => 1007,
            Self::TooLarge => 1009,
        }
    }
}

impl MessageReader {
    /// Creates the reader of a connection before its first frame.
    pub const fn new(side: Side) -> Self {
        Self {
            side,
            head: [0; FRAME_HEAD_BYTES_MAX],
            head_bytes: 0,
            message: None,
            frame: None,
            control: None,
        }
    }

    /// Reports whether the reader is between messages, and dropping it would lose no state.
    pub const fn is_idle(&self) -> bool {
        self.head_bytes == 0 && self.message.is_none() && self.frame.is_none()
    }

    /// Reports whether the first byte of a message is here, and its last one is not.
    pub const fn is_in_message(&self) -> bool {
        let opens = matches!(self.head[0] & 0x0F, 1 | 2);
        self.message.is_some() || (self.head_bytes > 0 && opens)
    }

    /// Reports whether a message is open whose first bytes were handed on earlier.
    pub fn has_begun(&self) -> bool {
        self.message.is_some_and(|message| message.bytes > 0)
    }

    /// Reports whether the open message is text; `false` if none is open.
    pub fn is_in_text(&self) -> bool {
        self.message.is_some_and(|message| message.is_text)
    }

    /// Returns the payload of the control frame whose end [`Self::handle_bytes`] has just returned.
    pub fn control_payload(&self) -> &[u8] {
        self.control.as_ref().map_or(&[], |control| control.bytes())
    }

    /// Handles bytes from the peer, up to the end of a message or of a control frame; returns how
    /// many were consumed, and the result. `on_payload` sees the payload of messages, unmasked.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        on_payload: &mut dyn FnMut(&[u8]),
    ) -> Result<(usize, Progress), FrameError> {
        let mut rest = input;
        loop {
            let (head, read) = match self.frame {
                Some(frame) => frame,
                None => match self.handle_head(&mut rest)? {
                    Some(head) => (head, 0),
                    None => return Ok((input.len(), Progress::NeedMore)),
                },
            };
            let left = usize::try_from(head.payload_bytes - read).unwrap_or(usize::MAX);
            let (payload, behind) = rest.split_at(left.min(rest.len()));
            rest = behind;
            self.handle_payload(&head, read, payload, on_payload)?;
            let read = read + payload.len() as u64;
            if read < head.payload_bytes {
                self.frame = Some((head, read));
                return Ok((input.len(), Progress::NeedMore));
            }
            self.frame = None;
            if let Some(progress) = self.end_frame(&head)? {
                return Ok((input.len() - rest.len(), progress));
            }
        }
    }

    /// Reads a head and judges it; `None` if it is not complete, and all of `input` is kept.
    fn handle_head(&mut self, input: &mut &[u8]) -> Result<Option<FrameHead>, FrameError> {
        let kept = usize::from(self.head_bytes);
        let fresh = input.len().min(FRAME_HEAD_BYTES_MAX - kept);
        for (to, from) in self.head.iter_mut().skip(kept).zip(input.iter()) {
            *to = *from;
        }
        let bytes = self.head.get(..kept + fresh).unwrap_or_default();
        let parsed = FrameHead::parse(bytes).map_err(|what| FrameError::Malformed { what })?;
        let Some((length, head)) = parsed else {
            self.head_bytes = (kept + fresh) as u8;
            *input = &[];
            return Ok(None);
        };
        self.head_bytes = 0;
        *input = input.get(length - kept..).unwrap_or_default();
        self.begin_frame(&head)?;
        Ok(Some(head))
    }

    fn begin_frame(&mut self, head: &FrameHead) -> Result<(), FrameError> {
        let malformed = |what| Err(FrameError::Malformed { what });
        match (self.side, head.mask) {
            (Side::Server, None) => return malformed("a client's frame is not masked"),
            (Side::Client, Some(_)) => return malformed("a server's frame is masked"),
            _ => {}
        }
        match (head.opcode, self.message) {
            (opcode, _) if opcode.is_control() => {
                if !head.is_last {
                    return malformed("a control frame is split");
                }
                if head.payload_bytes > CONTROL_PAYLOAD_BYTES_MAX as u64 {
                    return malformed("a control frame has more than 125 bytes");
                }
                self.control = Some(Box::default());
            }
            (Opcode::Continuation, None) => {
                return malformed("a continuation continues no message");
            }
            (Opcode::Continuation, Some(message)) => {
                check_length(message.bytes.saturating_add(head.payload_bytes))?;
            }
            (_, Some(_)) => return malformed("a message begins before the last one has ended"),
            (opcode, None) => {
                check_length(head.payload_bytes)?;
                let is_text = opcode == Opcode::Text;
                self.message = Some(Message { is_text, utf8: Utf8::default(), bytes: 0 });
            }
        }
        Ok(())
    }

    /// Passes on the payload of a message, and stores the payload of a control frame. `read` bytes of the frame came
    /// before it.
    fn handle_payload(
        &mut self,
        head: &FrameHead,
        read: u64,
        payload: &[u8],
        on_payload: &mut dyn FnMut(&[u8]),
    ) -> Result<(), FrameError> {
        let mut plain = [0; PIECE_BYTES];
        let mut at = read;
        for piece in payload.chunks(PIECE_BYTES) {
            let bytes = match head.mask {
                None => piece,
                Some(mask) => {
                    let plain = plain.get_mut(..piece.len()).unwrap_or_default();
                    plain.copy_from_slice(piece);
                    apply_mask(plain, mask, at);
                    plain
                }
            };
            at += piece.len() as u64;
            if head.opcode.is_control() {
                self.control.get_or_insert_default().extend(bytes);
            } else if let Some(message) = &mut self.message {
                if message.is_text && !message.utf8.handle_bytes(bytes) {
                    return Err(FrameError::NotUtf8);
                }
                message.bytes += bytes.len() as u64;
                on_payload(bytes);
            }
        }
        Ok(())
    }

    /// Ends a complete frame; returns its meaning, if it ends anything.
    fn end_frame(&mut self, head: &FrameHead) -> Result<Option<Progress>, FrameError> {
        let progress = match head.opcode {
            Opcode::Ping => Progress::Ping,
            Opcode::Pong => Progress::Pong,
            Opcode::Close => Progress::Close(close_code(self.control_payload())?),
            _ if !head.is_last => return Ok(None),
            _ => {
                let Some(message) = self.message.take() else { return Ok(None) };
                if message.is_text && !message.utf8.is_complete() {
                    return Err(FrameError::NotUtf8);
                }
                Progress::Message { is_text: message.is_text, bytes: message.bytes }
            }
        };
        Ok(Some(progress))
    }
}

const fn check_length(bytes: u64) -> Result<(), FrameError> {
    if bytes > MESSAGE_BYTES_MAX { Err(FrameError::TooLarge) } else { Ok(()) }
}

/// The code of a close frame; its reason is text.
fn close_code(payload: &[u8]) -> Result<Option<u16>, FrameError> {
    let malformed = |what| Err(FrameError::Malformed { what });
    let (code, reason) = match payload {
        [] => return Ok(None),
        [_] => return malformed("a close frame has half a code"),
        [high, low, reason @ ..] => (u16::from_be_bytes([*high, *low]), reason),
    };
    // 1004 to 1006 and 1015 are never sent; below 3000 the rest is not assigned.
    if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
        return malformed("a close frame has a code that must not be sent");
    }
    match std::str::from_utf8(reason) {
        Ok(_) => Ok(Some(code)),
        Err(_) => Err(FrameError::NotUtf8),
    }
}

#[cfg(test)]
mod tests;
