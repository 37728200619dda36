//! A message that is not held as a whole: any part of its frames, made when it is sent.

use plimsoll_model::target::Messages;

use super::client::MASK;
use super::frame::{FRAME_HEAD_BYTES_MAX, Opcode, apply_mask, write_frame_head};

/// The frames of a message with so much payload: all have `each` bytes of it but the last one.
struct Layout {
    opcode: Opcode,
    payload: u64,
    each: u64,
}

impl Layout {
    fn new(payload: u64, frames: &Messages) -> Self {
        let each = frames.payload_bytes_max.map_or(payload, |most| payload.min(most.into()));
        let opcode = if frames.is_binary { Opcode::Binary } else { Opcode::Text };
        Self { opcode, payload, each: each.max(1) }
    }

    fn frames(&self) -> u64 {
        self.payload.div_ceil(self.each).max(1)
    }

    fn payload_of(&self, frame: u64) -> u64 {
        self.each.min(self.payload - frame * self.each)
    }

    fn write_head(&self, out: &mut Vec<u8>, frame: u64) {
        let opcode = if frame == 0 { self.opcode } else { Opcode::Continuation };
        let is_last = frame + 1 == self.frames();
        write_frame_head(out, is_last, opcode, self.payload_of(frame), Some(MASK));
    }

    fn head_bytes(&self, frame: u64) -> u64 {
        let mut head = Vec::with_capacity(FRAME_HEAD_BYTES_MAX);
        self.write_head(&mut head, frame);
        head.len() as u64
    }

    /// Returns the bytes of every frame but the last one.
    fn frame_bytes(&self) -> u64 {
        self.head_bytes(0) + self.each
    }
}

/// Returns the number of bytes that [`super::message`] appends for this much payload.
pub fn message_bytes(payload: u64, frames: &Messages) -> u64 {
    let layout = Layout::new(payload, frames);
    let last = layout.frames() - 1;
    last * layout.frame_bytes() + layout.head_bytes(last) + layout.payload_of(last)
}

/// Appends what [`super::message`] would append, from its byte `from` on: at least `made` bytes, and
/// fewer only at its end. Text is not checked.
pub fn write_message_from(
    out: &mut Vec<u8>,
    payload: &[u8],
    frames: &Messages,
    from: u64,
    made: usize,
) {
    let layout = Layout::new(payload.len() as u64, frames);
    let first = (from / layout.frame_bytes()).min(layout.frames() - 1);
    let mut skipped = (from - first * layout.frame_bytes()) as usize;
    let mut head = Vec::with_capacity(FRAME_HEAD_BYTES_MAX);
    for frame in first..layout.frames() {
        let room = match made.checked_sub(out.len()) {
            None | Some(0) => return,
            Some(room) => room,
        };
        head.clear();
        layout.write_head(&mut head, frame);
        out.extend_from_slice(head.get(skipped..).unwrap_or_default());
        let at = skipped.saturating_sub(head.len());
        skipped = 0;
        let begins = (frame * layout.each) as usize;
        let piece = payload.get(begins..begins + layout.payload_of(frame) as usize);
        let rest = piece.and_then(|piece| piece.get(at..)).unwrap_or_default();
        let masked_from = out.len();
        out.extend_from_slice(rest.get(..room).unwrap_or(rest));
        if let Some(masked) = out.get_mut(masked_from..) {
            apply_mask(masked, MASK, at as u64);
        }
        if rest.len() > room {
            return;
        }
    }
}
