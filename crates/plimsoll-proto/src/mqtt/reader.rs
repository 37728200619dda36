//! Packets of a broker, one after the other, of each no more than a client needs.

use plimsoll_model::target::{MqttVersion, STAMP_BYTES};

use super::client::MqttError;
use super::packet::{
    CONNACK, DISCONNECT, LengthTooLong, PINGRESP, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK,
    acknowledgement, remaining_length,
};

/// A broker's answer to a publish, a ping or one subscription is far shorter. What it delivers may be
/// longer: most of it is skipped.
const ANSWER_BYTES_MAX: u32 = 65_536;
/// Of a delivery: its identifier, or as many bytes without meaning, ...
const ID_BYTES: u16 = 2;
/// ... and what its payload begins with.
const DELIVERY_BYTES: u16 = ID_BYTES + STAMP_BYTES as u16;
/// Bytes of a remaining length.
const LENGTH_BYTES_MAX: u8 = 4;

/// Reads packets, and keeps the first `KEPT` bytes of the content of each: of a delivery its identifier, and where
/// there is room for a stamp the first bytes of the payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<const KEPT: usize> {
    part: Part,
    /// First byte of the packet that is being read.
    first: u8,
    /// Last byte of the content so far.
    last: u8,
    /// What of a delivery comes next, ...
    field: Field,
    /// ... behind so many bytes that do not matter.
    skip: u32,
    kept_bytes: u16,
    kept: [u8; KEPT],
}

/// A field of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    TopicLength,
    /// Above QoS 0.
    Identifier,
    /// Of version 5.
    PropertiesLength,
    Payload,
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
        Self {
            part: Part::First,
            first: 0,
            last: 0,
            field: Field::TopicLength,
            skip: 0,
            kept_bytes: 0,
            kept: [0; KEPT],
        }
    }

    /// Whether it stands between packets.
    pub(super) fn is_idle(&self) -> bool {
        self.part == Part::First
    }

    /// Reads up to the end of a packet; returns how many bytes were consumed, and the first byte of the
    /// packet if one has ended.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        version: MqttVersion,
    ) -> Result<(usize, Option<u8>), MqttError> {
        let mut rest = input;
        while let Some((&byte, behind)) = rest.split_first() {
            match self.part {
                Part::First => {
                    self.first = check_first(byte)?;
                    (self.field, self.skip, self.kept_bytes) = (Field::TopicLength, 0, 0);
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
                    match is_delivery(self.first) {
                        true => self.keep_delivery(content, version)?,
                        false => self.keep(content),
                    }
                    self.part = Part::Content { left: left - taken as u32 };
                    rest = behind;
                }
            }
            if self.part == (Part::Content { left: 0 }) {
                self.part = Part::First;
                let is_whole = self.field == Field::Payload && self.skip == 0;
                if is_delivery(self.first) && !is_whole {
                    return malformed("a message that ends before its payload");
                }
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

    /// Reads a delivery, as far as it matters.
    fn keep_delivery(&mut self, content: &[u8], version: MqttVersion) -> Result<(), MqttError> {
        let mut rest = content;
        loop {
            let skipped = rest.len().min(self.skip as usize);
            self.skip -= skipped as u32;
            rest = rest.get(skipped..).unwrap_or_default();
            if self.field == Field::Payload {
                let room = DELIVERY_BYTES.saturating_sub(self.kept_bytes);
                self.keep(rest.get(..usize::from(room)).unwrap_or(rest));
                return Ok(());
            }
            let Some((byte, behind)) = rest.split_first() else { return Ok(()) };
            self.keep(std::slice::from_ref(byte));
            rest = behind;
            self.end_field(version)?;
        }
    }

    /// A byte of a field is kept, perhaps its last one: what is next.
    fn end_field(&mut self, version: MqttVersion) -> Result<(), MqttError> {
        let behind_id = match version {
            // Where no stamp is kept it does not matter where the payload begins.
            MqttVersion::V5 if KEPT >= DELIVERY_BYTES as usize => Field::PropertiesLength,
            MqttVersion::V5 | MqttVersion::V3_1_1 => Field::Payload,
        };
        match self.field {
            Field::TopicLength if self.kept_bytes == 2 => {
                self.skip = u16::from_be_bytes([self.kept[0], self.kept[1]]).into();
                (self.field, self.kept_bytes) = match qos(self.first) {
                    0 => (behind_id, ID_BYTES),
                    _ => (Field::Identifier, 0),
                };
            }
            Field::Identifier if self.kept_bytes == ID_BYTES => self.field = behind_id,
            Field::PropertiesLength => {
                let length = self.content().get(usize::from(ID_BYTES)..).unwrap_or_default();
                match remaining_length(length) {
                    Ok(Some((length, _))) => {
                        (self.field, self.skip, self.kept_bytes) =
                            (Field::Payload, length, ID_BYTES);
                    }
                    Ok(None) => {}
                    Err(LengthTooLong) => return malformed("properties of too many bytes"),
                }
            }
            Field::TopicLength | Field::Identifier | Field::Payload => {}
        }
        Ok(())
    }

    /// Of the delivery that has ended: what its payload begins with.
    pub(super) fn payload(&self) -> &[u8] {
        self.content().get(usize::from(ID_BYTES)..).unwrap_or_default()
    }

    /// Appends what answers the packet that has ended, which is a delivery or the release of one.
    pub(super) fn answer_delivery(&self, out: &mut Vec<u8>) {
        let &[high, low, ..] = self.content() else { return };
        let first = match self.first {
            PUBREL => PUBCOMP,
            first => match qos(first) {
                0 => return,
                1 => PUBACK,
                _ => PUBREC,
            },
        };
        acknowledgement(out, first, u16::from_be_bytes([high, low]));
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

/// Of a byte that begins nothing.
const NO_FIRST: &str = "it begins with a byte that no packet of a broker begins with";

pub(super) const fn malformed<T>(what: &'static str) -> Result<T, MqttError> {
    Err(MqttError::Malformed { what })
}

/// Refuses what cannot be the first byte of an answer.
const fn check_first(byte: u8) -> Result<u8, MqttError> {
    match byte {
        CONNACK | PUBACK | PUBREC | PUBREL | PUBCOMP | SUBACK | PINGRESP | DISCONNECT => Ok(byte),
        _ if is_delivery(byte) => Ok(byte),
        b'H' => malformed("it begins with H, as HTTP does"),
        0x15 => malformed("it begins as a TLS alert does"),
        _ => malformed(NO_FIRST),
    }
}

/// Whether a packet that begins so is a message.
pub(super) const fn is_delivery(first: u8) -> bool {
    first & 0xF0 == PUBLISH && qos(first) < 3
}

/// How often a message whose packet begins so is delivered.
const fn qos(first: u8) -> u8 {
    first >> 1 & 3
}

#[cfg(test)]
mod tests {
    use plimsoll_model::target::{Publish, Qos};
    use proptest::prelude::*;

    use super::super::packet;
    use super::*;

    const STAMP: &[u8; STAMP_BYTES] = b"0123456789abcdefghijklmnopqrstuv";

    /// Kept of a packet that comes in these pieces, and what answers it.
    fn read<const KEPT: usize>(
        pieces: &[&[u8]],
        version: MqttVersion,
    ) -> Result<(Vec<u8>, Vec<u8>), MqttError> {
        let (mut reader, mut answer) = (Reader::<KEPT>::new(), Vec::new());
        let mut ended = None;
        for piece in pieces {
            let (consumed, first) = reader.read(piece, version)?;
            assert_eq!((consumed, ended), (piece.len(), None));
            ended = first;
        }
        assert!(ended.is_some_and(is_delivery));
        reader.answer_delivery(&mut answer);
        Ok((reader.payload().to_vec(), answer))
    }

    #[test]
    fn a_stamp_is_found_behind_properties() {
        // Message Expiry Interval and Payload Format Indicator.
        let head = b"\x35\x32\0\x05topic\x01\x02\x07\x02\0\0\0\x09\x01\x01";
        let bytes = [&head[..], STAMP, b"x"].concat();
        let whole = read::<64>(&[&bytes], MqttVersion::V5);
        assert_eq!(whole, Ok((STAMP.to_vec(), b"\x50\x02\x01\x02".to_vec())));
        // Only the identifier.
        let small = read::<3>(&[&bytes], MqttVersion::V5).unwrap();
        assert_eq!(small.1, b"\x50\x02\x01\x02");
    }

    #[test]
    fn a_message_that_ends_too_early_is_malformed() {
        for bytes in [
            &b"\x30\0"[..],
            b"\x30\x01\0",
            b"\x32\x03\0\x01a",
            b"\x32\x04\0\x01a\0",
            b"\x30\x03\0\x01a",
            b"\x30\x04\0\x01a\x80",
            b"\x30\x08\0\x01a\x80\x80\x80\x80\x01",
        ] {
            let refused = read::<64>(&[bytes], MqttVersion::V5);
            assert!(matches!(refused, Err(MqttError::Malformed { .. })), "{bytes:?} {refused:?}");
        }
        assert_eq!(check_first(0x36), malformed(NO_FIRST));
    }

    proptest! {
        #[test]
        fn what_was_published_is_read_in_any_pieces(
            topic in "[a-z/]{1,300}",
            payload in prop::collection::vec(any::<u8>(), 0..200),
            qos in prop::sample::select(vec![Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce]),
            version in prop::sample::select(vec![MqttVersion::V3_1_1, MqttVersion::V5]),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut bytes = Vec::new();
            let publish = Publish { topic, qos, retain: false };
            packet::publish(&mut bytes, version, &publish, &payload);
            let cut = cut.index(bytes.len());
            let (kept, answer) = read::<64>(&[&bytes[..cut], &bytes[cut..]], version).unwrap();
            prop_assert_eq!(&kept[..], &payload[..payload.len().min(STAMP_BYTES)]);
            let expected: &[u8] = match qos {
                Qos::AtMostOnce => b"",
                Qos::AtLeastOnce => b"\x40\x02\0\x01",
                Qos::ExactlyOnce => b"\x50\x02\0\x01",
            };
            prop_assert_eq!(&answer[..], expected);
        }
    }
}
