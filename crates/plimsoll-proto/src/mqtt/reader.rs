//! A reader of a broker's packets that stores only the bytes a client needs.
//!
//! `Reader::read` consumes bytes up to the end of one packet and returns the first byte of that packet. `Part` is the
//! state: the fixed header, then plain content, or the fields of a PUBLISH one by one. The first `KEPT` bytes of each
//! packet are stored: for a PUBLISH, the identifier and, if there is room, the payload's stamp. A PUBLISH may have
//! any length, other packets at most 64 KiB. Start reading at `Reader::read`, then `end_byte`.

use plimsoll_model::target::{MqttVersion, STAMP_BYTES};

use super::error::{Result, UNASKED, malformed};
use super::packet::{
    AUTH, CONNACK, DISCONNECT, LengthTooLong, PINGRESP, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL,
    SUBACK, UNSUBACK, acknowledgement, remaining_length,
};
use super::properties::{CUT_PROPERTY, Kind, TOPIC_ALIAS, UNKNOWN_PROPERTY, is_of_publish, kind};

/// A broker's answer to a publish, a ping or one subscription is far shorter. What it delivers may be
/// longer: most of it is skipped.
const ANSWER_BYTES_MAX: u32 = 65_536;
/// Identifier of a delivery, or as many bytes without meaning, ...
const ID_BYTES: u8 = 2;
/// ... and what its payload begins with.
pub(super) const DELIVERY_BYTES: u8 = ID_BYTES + STAMP_BYTES as u8;
/// Bytes of a remaining length.
const LENGTH_BYTES_MAX: u8 = 4;

/// Reads packets, and keeps the first `KEPT` bytes of the content of each: of a delivery its identifier, and where
/// there is room for a stamp the first bytes of the payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reader<const KEPT: usize> {
    /// Bytes of the content that are still to come; while the remaining length is read, its value so far.
    left: u32,
    /// Bytes without meaning before `part` of a delivery; of another packet, the length of its content.
    skip: u32,
    /// Bytes of a delivery's properties that are still to come.
    properties: u32,
    part: Part,
    /// First byte of the packet that is being read.
    first: u8,
    /// Bytes in `kept`; while the remaining length is read, the bytes of that.
    kept_bytes: u8,
    kept: [u8; KEPT],
}

/// The part of a packet that comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    First,
    Length,
    /// Content of anything but a delivery.
    Content,
    // The remaining variants are parts of a delivery.
    TopicLength,
    /// Above QoS 0.
    Identifier,
    /// Length of the properties, in version 5.
    PropertiesLength,
    Property,
    /// The first of two texts.
    PropertyName,
    PropertyText,
    PropertyNumber,
    Payload,
}

impl<const KEPT: usize> Reader<KEPT> {
    pub(super) const fn new() -> Self {
        assert!(KEPT >= ID_BYTES as usize + LENGTH_BYTES_MAX as usize);
        Self {
            left: 0,
            skip: 0,
            properties: 0,
            part: Part::First,
            first: 0,
            kept_bytes: 0,
            kept: [0; KEPT],
        }
    }

    /// Reports whether the reader is between packets.
    pub(super) fn is_idle(&self) -> bool {
        self.part == Part::First
    }

    /// Reports whether the bytes that were read last belong to a message.
    pub(super) const fn is_in_delivery(&self) -> bool {
        is_delivery(self.first)
    }

    /// Reads up to the end of a packet; returns how many bytes were consumed, and the first byte of the
    /// packet if one has ended.
    pub(super) fn read(
        &mut self,
        input: &[u8],
        version: MqttVersion,
    ) -> Result<(usize, Option<u8>)> {
        let mut rest = input;
        while let Some((&byte, behind)) = rest.split_first() {
            match self.part {
                Part::First => {
                    *self = Self { first: check_first(byte)?, part: Part::Length, ..Self::new() };
                    rest = behind;
                }
                Part::Length => {
                    self.read_length(byte)?;
                    rest = behind;
                }
                part => {
                    let taken = rest.len().min(self.left as usize);
                    let (content, behind) = rest.split_at(taken);
                    match part {
                        Part::Content => self.keep(content),
                        _ => self.read_delivery(content, version)?,
                    }
                    self.left -= taken as u32;
                    rest = behind;
                }
            }
            if self.left == 0 && self.part != Part::Length {
                let part = std::mem::replace(&mut self.part, Part::First);
                if part != Part::Content && (part != Part::Payload || self.skip > 0) {
                    return malformed("a message that ends before its payload");
                }
                return Ok((input.len() - rest.len(), Some(self.first)));
            }
        }
        Ok((input.len(), None))
    }

    /// A byte of the remaining length.
    fn read_length(&mut self, byte: u8) -> Result<()> {
        self.left |= u32::from(byte & 0x7F) << (7 * self.kept_bytes);
        self.kept_bytes += 1;
        if byte & 0x80 != 0 {
            return match self.kept_bytes < LENGTH_BYTES_MAX {
                true => Ok(()),
                false => malformed("a remaining length of more than four bytes"),
            };
        }
        self.kept_bytes = 0;
        if is_delivery(self.first) {
            self.part = Part::TopicLength;
            return Ok(());
        }
        if self.left > ANSWER_BYTES_MAX {
            return malformed("a packet of more than 64 KiB");
        }
        (self.part, self.skip) = (Part::Content, self.left);
        Ok(())
    }

    fn keep(&mut self, content: &[u8]) {
        let room = self.kept.iter_mut().skip(usize::from(self.kept_bytes));
        for (to, from) in room.zip(content) {
            *to = *from;
            self.kept_bytes += 1;
        }
    }

    /// Reads a delivery, as far as it matters.
    fn read_delivery(&mut self, content: &[u8], version: MqttVersion) -> Result<()> {
        let mut rest = content;
        loop {
            let skipped = rest.len().min(self.skip as usize);
            self.skip -= skipped as u32;
            rest = rest.get(skipped..).unwrap_or_default();
            if self.part == Part::Payload {
                let room = DELIVERY_BYTES.saturating_sub(self.kept_bytes);
                self.keep(rest.get(..usize::from(room)).unwrap_or(rest));
                return Ok(());
            }
            let Some((byte, behind)) = rest.split_first() else { return Ok(()) };
            self.keep(std::slice::from_ref(byte));
            rest = behind;
            self.end_byte(version)?;
        }
    }

    /// A byte of a field is kept, perhaps its last one: decides what comes next.
    fn end_byte(&mut self, version: MqttVersion) -> Result<()> {
        let behind_id = match version {
            MqttVersion::V5 => Part::PropertiesLength,
            MqttVersion::V3_1_1 => Part::Payload,
        };
        let field = self.content().get(usize::from(ID_BYTES)..).unwrap_or_default();
        match (self.part, field) {
            (Part::TopicLength, _) if self.kept_bytes == 2 => {
                self.skip = u16::from_be_bytes([self.kept[0], self.kept[1]]).into();
                if self.skip == 0 {
                    return malformed("a message without a topic");
                }
                (self.part, self.kept_bytes) = match qos(self.first) {
                    0 => (behind_id, ID_BYTES),
                    _ => (Part::Identifier, 0),
                };
            }
            (Part::Identifier, _) if self.kept_bytes == ID_BYTES => {
                if self.content() == [0, 0] {
                    return malformed("a packet identifier of 0");
                }
                self.part = behind_id;
            }
            (Part::PropertiesLength, length) => match remaining_length(length) {
                Ok(Some((length, _))) => {
                    self.properties = length;
                    self.begin_property();
                }
                Ok(None) => {}
                Err(LengthTooLong) => return malformed("properties of too many bytes"),
            },
            (Part::Property, &[id, ..]) => {
                self.spend(1)?;
                self.part = match kind(id) {
                    _ if id == TOPIC_ALIAS => {
                        return malformed("a topic alias, and the client allows none");
                    }
                    Some(_) if !is_of_publish(id) => {
                        return malformed("a message with a property of another packet");
                    }
                    None => return malformed(UNKNOWN_PROPERTY),
                    Some(Kind::Fixed(bytes)) => {
                        self.spend(bytes.into())?;
                        self.skip = bytes.into();
                        self.begin_property();
                        return Ok(());
                    }
                    Some(Kind::Text) => Part::PropertyText,
                    Some(Kind::Pair) => Part::PropertyName,
                    Some(Kind::Number) => Part::PropertyNumber,
                };
                self.kept_bytes = ID_BYTES;
            }
            (Part::PropertyName | Part::PropertyText, &[high, low]) => {
                let bytes = u32::from(u16::from_be_bytes([high, low]));
                self.spend(2 + bytes)?;
                self.skip = bytes;
                match self.part {
                    Part::PropertyName => {
                        (self.part, self.kept_bytes) = (Part::PropertyText, ID_BYTES);
                    }
                    _ => self.begin_property(),
                }
            }
            (Part::PropertyNumber, number) => match remaining_length(number) {
                Ok(Some((_, bytes))) => {
                    self.spend(bytes as u32)?;
                    self.begin_property();
                }
                Ok(None) => {}
                Err(LengthTooLong) => return malformed("a property of too many bytes"),
            },
            _ => {}
        }
        Ok(())
    }

    /// Begins the next property, or the payload behind the last one.
    const fn begin_property(&mut self) {
        self.part = if self.properties == 0 { Part::Payload } else { Part::Property };
        self.kept_bytes = ID_BYTES;
    }

    /// Bytes of properties are read, or will be skipped.
    fn spend(&mut self, bytes: u32) -> Result<()> {
        match self.properties.checked_sub(bytes) {
            Some(left) => {
                self.properties = left;
                Ok(())
            }
            None => malformed(CUT_PROPERTY),
        }
    }

    /// Returns the first bytes of the payload of the delivery that has ended.
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

    /// Returns the stored part of the content of the packet that has ended.
    pub(super) fn content(&self) -> &[u8] {
        self.kept.get(..usize::from(self.kept_bytes)).unwrap_or_default()
    }

    /// Returns the length of the content of the packet that has ended, which must not be a delivery.
    pub(super) const fn length(&self) -> u32 {
        self.skip
    }
}

/// Fault of a byte that begins nothing.
const NO_FIRST: &str = "it begins with a byte that no packet of a broker begins with";

/// Refuses what cannot be the first byte of an answer.
const fn check_first(byte: u8) -> Result<u8> {
    match byte {
        CONNACK | PUBACK | PUBREC | PUBREL | PUBCOMP | SUBACK | PINGRESP | DISCONNECT => Ok(byte),
        _ if is_delivery(byte) => Ok(byte),
        AUTH => malformed("an AUTH, and the client has asked for no authentication"),
        UNSUBACK => malformed(UNASKED),
        b'H' => malformed("it begins with H, as HTTP does"),
        0x15 => malformed("it begins as a TLS alert does"),
        _ => malformed(NO_FIRST),
    }
}

/// Reports whether a packet that begins so is a message.
pub(super) const fn is_delivery(first: u8) -> bool {
    first & 0xF0 == PUBLISH && qos(first) < 3
}

/// Returns the quality of service of a message, by the first byte of its packet.
const fn qos(first: u8) -> u8 {
    first >> 1 & 3
}

#[cfg(test)]
mod tests {
    use plimsoll_model::target::{Publish, Qos};
    use proptest::prelude::*;

    use super::super::error::MqttError;
    use super::super::packet;
    use super::*;

    const STAMP: &[u8; STAMP_BYTES] = b"0123456789abcdefghijklmnopqrstuv";

    /// Kept of a packet that comes in these pieces, and what answers it.
    fn read<const KEPT: usize>(
        pieces: &[&[u8]],
        version: MqttVersion,
    ) -> Result<(Vec<u8>, Vec<u8>)> {
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
        let small = read::<6>(&[&bytes], MqttVersion::V5).unwrap();
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
