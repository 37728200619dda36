//! Packets of a broker, one after the other, of each no more than a client needs.

use super::client::MqttError;
use super::packet::{
    CONNACK, DISCONNECT, PINGRESP, PUBACK, PUBCOMP, PUBLISH, PUBREC, RETAIN, SUBACK,
};

/// A broker's answer to a publish, a ping or one subscription is far shorter. What it delivers may be
/// longer: it is skipped.
const ANSWER_BYTES_MAX: u32 = 65_536;
/// Bytes of a remaining length.
const LENGTH_BYTES_MAX: u8 = 4;

/// Reads packets, and keeps the first `KEPT` bytes of the content of each.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<const KEPT: usize> {
    part: Part,
    /// First byte of the packet that is being read.
    first: u8,
    /// Last byte of the content so far.
    last: u8,
    kept_bytes: u16,
    kept: [u8; KEPT],
}

/// What of a packet comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    First,
    /// The remaining length, as far as it came.
    Length {
        value: u32,
        bytes: u8,
    },
    /// So many bytes of the content.
    Content {
        left: u32,
    },
}

impl<const KEPT: usize> Reader<KEPT> {
    pub(super) const fn new() -> Self {
        Self { part: Part::First, first: 0, last: 0, kept_bytes: 0, kept: [0; KEPT] }
    }

    /// Whether it stands between packets.
    pub(super) fn is_idle(&self) -> bool {
        self.part == Part::First
    }

    /// Reads up to the end of a packet; returns how many bytes were consumed, and the first byte of the
    /// packet if one has ended.
    pub(super) fn read(&mut self, input: &[u8]) -> Result<(usize, Option<u8>), MqttError> {
        let mut rest = input;
        while let Some((&byte, behind)) = rest.split_first() {
            match self.part {
                Part::First => {
                    self.first = check_first(byte)?;
                    self.kept_bytes = 0;
                    self.part = Part::Length { value: 0, bytes: 0 };
                    rest = behind;
                }
                Part::Length { value, bytes } => {
                    let value = value | u32::from(byte & 0x7F) << (7 * bytes);
                    let bytes = bytes + 1;
                    self.part = match byte & 0x80 {
                        0 if value > ANSWER_BYTES_MAX && !is_delivery(self.first) => {
                            return malformed("a packet of more than 64 KiB");
                        }
                        0 => Part::Content { left: value },
                        _ if bytes == LENGTH_BYTES_MAX => {
                            return malformed("a remaining length of more than four bytes");
                        }
                        _ => Part::Length { value, bytes },
                    };
                    rest = behind;
                }
                Part::Content { left } => {
                    let taken = rest.len().min(left as usize);
                    let (content, behind) = rest.split_at(taken);
                    self.keep(content);
                    self.part = Part::Content { left: left - taken as u32 };
                    rest = behind;
                }
            }
            if self.part == (Part::Content { left: 0 }) {
                self.part = Part::First;
                return Ok((input.len() - rest.len(), Some(self.first)));
            }
        }
        Ok((input.len(), None))
    }

    fn keep(&mut self, content: &[u8]) {
        let room = self.kept.iter_mut().skip(usize::from(self.kept_bytes));
        for (to, from) in room.zip(content) {
            *to = *from;
            self.kept_bytes += 1;
        }
        self.last = content.last().copied().unwrap_or(self.last);
    }

    /// The content of the packet that has ended, as far as it is kept.
    pub(super) fn content(&self) -> &[u8] {
        self.kept.get(..usize::from(self.kept_bytes)).unwrap_or_default()
    }

    /// The last byte of that content, kept or not.
    pub(super) const fn last(&self) -> u8 {
        self.last
    }
}

pub(super) const fn malformed<T>(what: &'static str) -> Result<T, MqttError> {
    Err(MqttError::Malformed { what })
}

/// Refuses what cannot be the first byte of an answer.
const fn check_first(byte: u8) -> Result<u8, MqttError> {
    match byte {
        CONNACK | PUBACK | PUBREC | PUBCOMP | SUBACK | PINGRESP | DISCONNECT => Ok(byte),
        _ if is_delivery(byte) => Ok(byte),
        b'H' => malformed("it begins with H, as HTTP does"),
        0x15 => malformed("it begins as a TLS alert does"),
        _ => malformed("it begins with a byte that no packet of a broker begins with"),
    }
}

/// Whether a packet that begins so is a message at QoS 0, which nothing answers.
pub(super) const fn is_delivery(first: u8) -> bool {
    first & !RETAIN == PUBLISH
}
