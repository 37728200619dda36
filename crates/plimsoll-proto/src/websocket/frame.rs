//! One WebSocket frame: head and payload mask (RFC 6455, 5.2).
//!
//! `FrameHead::parse` reads a head of at most 14 bytes and rejects reserved bits, unknown opcodes and lengths that
//! are not in the shortest form; rules that depend on earlier frames are checked by the message reader.
//! [`write_frame`] is the counterpart for a whole frame. [`apply_mask`] masks and unmasks alike, from any offset of
//! the payload. Start reading at `FrameHead::parse`.

/// Longest head: two bytes, a length of eight, a mask of four.
pub const FRAME_HEAD_BYTES_MAX: usize = 14;

/// The last frame of its message.
const FIN: u8 = 0x80;
const RESERVED: u8 = 0x70;
const MASKED: u8 = 0x80;
/// Lengths that say where the length is.
const LENGTH_16: u8 = 126;
const LENGTH_64: u8 = 127;

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Opcode {
    /// More of the message that began in an earlier frame.
    Continuation = 0,
    /// A message of text in UTF-8 begins.
    Text = 1,
    /// A message of bytes begins.
    Binary = 2,
    /// The connection is to be closed.
    Close = 8,
    /// The peer is to answer with a pong.
    Ping = 9,
    /// The answer to a ping, or a sign of life.
    Pong = 10,
}

impl Opcode {
    const fn of(number: u8) -> Option<Self> {
        Some(match number {
            0 => Self::Continuation,
            1 => Self::Text,
            2 => Self::Binary,
            8 => Self::Close,
            9 => Self::Ping,
            10 => Self::Pong,
            _ => return None,
        })
    }

    /// Reports whether it may come between the frames of a message.
    pub const fn is_control(self) -> bool {
        matches!(self, Self::Close | Self::Ping | Self::Pong)
    }
}

/// A frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FrameHead {
    pub(super) is_last: bool,
    pub(super) opcode: Opcode,
    pub(super) mask: Option<[u8; 4]>,
    pub(super) payload_bytes: u64,
}

impl FrameHead {
    /// Reads a head from the first byte of a frame: its length in bytes and what it says; `None`
    /// if it is not complete.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<(usize, Self)>, &'static str> {
        let &[first, second, ..] = bytes else { return Ok(None) };
        if first & RESERVED != 0 {
            return Err("a frame sets a reserved bit, and no extension was agreed on");
        }
        let Some(opcode) = Opcode::of(first & 0x0F) else {
            return Err("a frame has an opcode that does not exist");
        };
        let short = second & !MASKED;
        let length_bytes: usize = match short {
            LENGTH_16 => 2,
            LENGTH_64 => 8,
            _ => 0,
        };
        let mask_bytes = if second & MASKED != 0 { 4 } else { 0 };
        let head_bytes = 2 + length_bytes + mask_bytes;
        let Some(rest) = bytes.get(2..head_bytes) else { return Ok(None) };
        let (length, mask) = rest.split_at(length_bytes);
        let long = length.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
        let payload_bytes = match short {
            LENGTH_16 if long < u64::from(LENGTH_16) => return Err(NOT_SHORTEST),
            LENGTH_64 if long <= u64::from(u16::MAX) => return Err(NOT_SHORTEST),
            LENGTH_64 if long >> 63 != 0 => return Err("a frame's length has its top bit set"),
            LENGTH_16 | LENGTH_64 => long,
            short => u64::from(short),
        };
        let is_last = first & FIN != 0;
        Ok(Some((head_bytes, Self { is_last, opcode, mask: mask.try_into().ok(), payload_bytes })))
    }
}

const NOT_SHORTEST: &str = "a frame's length is not in its shortest form";

/// Appends one frame; `is_last` ends the message. A client gives a mask, a server must not.
pub fn write_frame(
    out: &mut Vec<u8>,
    is_last: bool,
    opcode: Opcode,
    payload: &[u8],
    mask: Option<[u8; 4]>,
) {
    write_frame_head(out, is_last, opcode, payload.len() as u64, mask);
    let from = out.len();
    out.extend_from_slice(payload);
    if let (Some(mask), Some(payload)) = (mask, out.get_mut(from..)) {
        apply_mask(payload, mask, 0);
    }
}

/// Appends the head of a frame with a payload of this number of bytes.
pub(super) fn write_frame_head(
    out: &mut Vec<u8>,
    is_last: bool,
    opcode: Opcode,
    payload_bytes: u64,
    mask: Option<[u8; 4]>,
) {
    out.push(opcode as u8 | if is_last { FIN } else { 0 });
    let masked = if mask.is_some() { MASKED } else { 0 };
    match (u8::try_from(payload_bytes), u16::try_from(payload_bytes)) {
        (Ok(short), _) if short < LENGTH_16 => out.push(masked | short),
        (_, Ok(long)) => {
            out.push(masked | LENGTH_16);
            out.extend_from_slice(&long.to_be_bytes());
        }
        _ => {
            out.push(masked | LENGTH_64);
            out.extend_from_slice(&payload_bytes.to_be_bytes());
        }
    }
    if let Some(mask) = mask {
        out.extend_from_slice(&mask);
    }
}

/// Masks or unmasks `bytes`, which begin `at` bytes behind the beginning of their frame's payload.
pub fn apply_mask(bytes: &mut [u8], mask: [u8; 4], at: u64) {
    let mut key = mask;
    key.rotate_left((at % 4) as usize);
    let (blocks, rest) = bytes.as_chunks_mut::<4>();
    for block in blocks {
        block.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
    }
    rest.iter_mut().zip(key).for_each(|(byte, key)| *byte ^= key);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_frames_of_the_standard() {
        // RFC 6455 5.7.
        let mut out = Vec::new();
        write_frame(&mut out, true, Opcode::Text, b"Hello", None);
        assert_eq!(out, [0x81, 0x05, 0x48, 0x65, 0x6c, 0x6c, 0x6f]);
        out.clear();
        write_frame(&mut out, true, Opcode::Text, b"Hello", Some([0x37, 0xfa, 0x21, 0x3d]));
        assert_eq!(out, [0x81, 0x85, 0x37, 0xfa, 0x21, 0x3d, 0x7f, 0x9f, 0x4d, 0x51, 0x58]);
        out.clear();
        write_frame(&mut out, false, Opcode::Binary, &[7; 256], None);
        assert_eq!(out[..5], [0x02, 0x7E, 0x01, 0x00, 7]);
        out.clear();
        write_frame(&mut out, true, Opcode::Continuation, &[7; 65_536], None);
        assert_eq!(out[..11], [0x80, 0x7F, 0, 0, 0, 0, 0, 1, 0, 0, 7]);
    }

    #[test]
    fn heads_that_are_refused() {
        for (bytes, what) in [
            (&[0xC1, 0x00][..], "reserved"),
            (&[0x83, 0x00], "opcode"),
            (&[0x8B, 0x00], "opcode"),
            (&[0x82, 126, 0, 125], "shortest"),
            (&[0x82, 127, 0, 0, 0, 0, 0, 0, 0xFF, 0xFF], "shortest"),
            (&[0x82, 127, 0x80, 0, 0, 0, 0, 0, 0, 0], "top bit"),
        ] {
            let error = FrameHead::parse(bytes).expect_err(what);
            assert!(error.contains(what), "{error}");
        }
    }

    proptest! {
        #[test]
        fn a_head_is_read_as_it_was_written(
            length in prop_oneof![0usize..130, 65_530usize..65_540, Just(200_000)],
            is_last: bool,
            mask: Option<[u8; 4]>,
        ) {
            let mut out = Vec::new();
            write_frame(&mut out, is_last, Opcode::Binary, &vec![1; length], mask);
            let (bytes, head) = FrameHead::parse(&out).unwrap().unwrap();
            prop_assert_eq!(bytes + length, out.len());
            prop_assert!(bytes <= FRAME_HEAD_BYTES_MAX);
            let payload_bytes = length as u64;
            prop_assert_eq!(head, FrameHead { is_last, opcode: Opcode::Binary, mask, payload_bytes });
            for cut in 0..bytes {
                prop_assert_eq!(FrameHead::parse(&out[..cut]), Ok(None));
            }
        }

        #[test]
        fn a_mask_is_taken_off_in_pieces(
            payload: Vec<u8>, mask: [u8; 4], cut: prop::sample::Index,
        ) {
            let mut masked = payload.clone();
            apply_mask(&mut masked, mask, 0);
            let cut = cut.index(payload.len() + 1);
            let (head, tail) = masked.split_at_mut(cut);
            apply_mask(head, mask, 0);
            apply_mask(tail, mask, cut as u64);
            prop_assert_eq!(masked, payload);
        }
    }
}
