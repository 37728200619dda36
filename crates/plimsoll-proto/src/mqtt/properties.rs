//! The properties of packets in MQTT version 5 (MQTT 5.0, 2.2.2).
//!
//! `kind` is the table of value forms, and the `is_of_…` functions state which packet may carry which property.
//! `Properties` iterates over (identifier, value) and ends after its first error; unknown, foreign and repeated
//! properties are errors. The value of a text includes its two length bytes. [`reason_string`] extracts the broker's
//! explanation from raw packets. Start reading at `Properties::split`.

use super::error::{Result, malformed};
use super::packet::{CONNACK, DISCONNECT, PUBACK, PUBCOMP, PUBREC, SUBACK, remaining_length};
use super::reason::FAILURE;

pub(super) const SESSION_EXPIRY: u8 = 0x11;
pub(super) const ASSIGNED_CLIENT_ID: u8 = 0x12;
pub(super) const SERVER_KEEP_ALIVE: u8 = 0x13;
pub(super) const REASON_STRING: u8 = 0x1F;
pub(super) const RECEIVE_MAXIMUM: u8 = 0x21;
pub(super) const TOPIC_ALIAS: u8 = 0x23;
pub(super) const MAXIMUM_QOS: u8 = 0x24;
pub(super) const RETAIN_AVAILABLE: u8 = 0x25;
const USER_PROPERTY: u8 = 0x26;
pub(super) const MAXIMUM_PACKET_SIZE: u8 = 0x27;
pub(super) const WILDCARDS_AVAILABLE: u8 = 0x28;
pub(super) const SUBSCRIPTION_IDS_AVAILABLE: u8 = 0x29;
pub(super) const SHARED_AVAILABLE: u8 = 0x2A;

pub(super) const UNKNOWN_PROPERTY: &str = "a property that MQTT 5 does not know";
pub(super) const CUT_PROPERTY: &str = "a property that ends behind its packet's properties";

/// The form of a property's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// This number of bytes.
    Fixed(u8),
    /// A text or bytes, behind their length.
    Text,
    /// Two texts.
    Pair,
    /// A number in bytes of seven bits.
    Number,
}

/// Returns the form of the property with an identifier; `None` if there is no such property.
pub(super) const fn kind(id: u8) -> Option<Kind> {
    Some(match id {
        0x01 | 0x17 | 0x19 | 0x24 | 0x25 | 0x28..=0x2A => Kind::Fixed(1),
        0x13 | 0x21..=0x23 => Kind::Fixed(2),
        0x02 | 0x11 | 0x18 | 0x27 => Kind::Fixed(4),
        0x03 | 0x08 | 0x09 | 0x12 | 0x15 | 0x16 | 0x1A | 0x1C | 0x1F => Kind::Text,
        USER_PROPERTY => Kind::Pair,
        0x0B => Kind::Number,
        _ => return None,
    })
}

/// Reports whether a PUBLISH may have the property.
pub(super) const fn is_of_publish(id: u8) -> bool {
    matches!(id, 0x01..=0x03 | 0x08 | 0x09 | 0x0B | TOPIC_ALIAS | USER_PROPERTY)
}

/// Reports whether a CONNACK may have the property, if the client has asked for no authentication.
pub(super) const fn is_of_connack(id: u8) -> bool {
    matches!(id, 0x11..=0x13 | 0x1A | 0x1C | 0x1F | 0x21 | 0x22 | 0x24..=0x2A)
}

/// Reports whether a SUBACK may have the property.
pub(super) const fn is_of_suback(id: u8) -> bool {
    matches!(id, 0x1F | USER_PROPERTY)
}

/// The properties of a packet, each with its identifier.
#[derive(Clone, Copy, Debug)]
pub(super) struct Properties<'a> {
    rest: &'a [u8],
    /// Bit n: the property n has come.
    seen: u64,
    is_allowed: fn(u8) -> bool,
}

impl<'a> Properties<'a> {
    /// Returns the properties at the beginning of `field`, behind their length, and the bytes behind them.
    pub(super) fn split(field: &'a [u8], is_allowed: fn(u8) -> bool) -> Result<(Self, &'a [u8])> {
        let split =
            |(length, bytes): (u32, usize)| field.get(bytes..)?.split_at_checked(length as usize);
        match remaining_length(field).ok().flatten().and_then(split) {
            Some((rest, behind)) => Ok((Self { rest, seen: 0, is_allowed }, behind)),
            None => malformed("properties that end behind their packet"),
        }
    }

    fn read(&mut self, id: u8, behind: &'a [u8]) -> Result<&'a [u8]> {
        let Some(kind) = kind(id) else { return malformed(UNKNOWN_PROPERTY) };
        if !(self.is_allowed)(id) {
            return malformed("a property of another packet");
        }
        if id != USER_PROPERTY && self.seen >> id & 1 == 1 {
            return malformed("a property that comes twice");
        }
        self.seen |= 1 << id;
        let bytes = match kind {
            Kind::Fixed(bytes) => Some(bytes.into()),
            Kind::Text => text_bytes(behind),
            Kind::Pair => {
                text_bytes(behind).and_then(|name| Some(name + text_bytes(behind.get(name..)?)?))
            }
            Kind::Number => remaining_length(behind).ok().flatten().map(|(_, bytes)| bytes),
        };
        let Some((value, rest)) = bytes.and_then(|bytes| behind.split_at_checked(bytes)) else {
            return malformed(CUT_PROPERTY);
        };
        let (first, second) = match kind {
            Kind::Fixed(_) | Kind::Number => (&[][..], &[][..]),
            Kind::Text => (value, &[][..]),
            Kind::Pair => value.split_at(text_bytes(value).unwrap_or_default().min(value.len())),
        };
        if ![first, second].into_iter().all(is_text) {
            return malformed("a property that is not UTF-8, or has a NUL");
        }
        self.rest = rest;
        Ok(value)
    }
}

/// Returns the length of the text at the beginning, with the length in front of it.
fn text_bytes(field: &[u8]) -> Option<usize> {
    let length = field.first_chunk::<2>()?;
    Some(2 + usize::from(u16::from_be_bytes(*length)))
}

/// Reports whether a text behind its length is one (MQTT 5.0, 1.5.4), or there is none.
fn is_text(field: &[u8]) -> bool {
    let text = field.get(2..).unwrap_or_default();
    std::str::from_utf8(text).is_ok() && !text.contains(&0)
}

impl<'a> Iterator for Properties<'a> {
    type Item = Result<(u8, &'a [u8])>;

    fn next(&mut self) -> Option<Self::Item> {
        let (&id, behind) = self.rest.split_first()?;
        let read = self.read(id, behind);
        if read.is_err() {
            self.rest = &[];
        }
        Some(read.map(|value| (id, value)))
    }
}

/// Returns the reason string of the first packet in `bytes` that refuses something; empty if there is none. `bytes`
/// must begin at the start of a packet: the rest of an earlier packet is not searched.
pub fn reason_string(bytes: &[u8]) -> &[u8] {
    let mut rest = bytes;
    while let Some((first, content, behind)) = split_packet(rest) {
        if let Some(text) = text_of(first, content) {
            return text;
        }
        rest = behind;
    }
    &[]
}

/// Splits off the packet at the beginning: its first byte, its content, and the bytes behind it.
fn split_packet(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&first, behind) = bytes.split_first()?;
    let (length, length_bytes) = remaining_length(behind).ok().flatten()?;
    let (content, behind) = behind.get(length_bytes..)?.split_at_checked(length as usize)?;
    Some((first, content, behind))
}

/// Returns the reason string of a packet with a failing reason.
fn text_of(first: u8, content: &[u8]) -> Option<&[u8]> {
    let (code, properties) = match (first, content) {
        (CONNACK, [_, code, properties @ ..])
        | (DISCONNECT, [code, properties @ ..])
        | (PUBACK | PUBREC | PUBCOMP, [_, _, code, properties @ ..]) => (code, properties),
        (SUBACK, [_, _, properties @ ..]) => (&FAILURE, properties),
        _ => return None,
    };
    let (properties, _) = Properties::split(properties, |_| true).ok()?;
    let mut texts = properties.map_while(Result::ok).filter(|(id, _)| *id == REASON_STRING);
    // Its length is in front of it.
    let text = texts.next().and_then(|(_, text)| text.get(2..));
    text.filter(|_| *code >= FAILURE)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Read = Result<Vec<(u8, Vec<u8>)>>;

    fn read(field: &[u8]) -> Read {
        let (properties, behind) = Properties::split(field, is_of_connack)?;
        assert_eq!(behind, b"");
        properties.map(|one| one.map(|(id, value)| (id, value.to_vec()))).collect()
    }

    #[test]
    fn each_kind_is_read_and_none_may_be_cut_off() {
        let field = b"\x18\x24\x01\x13\0\x0A\x27\0\0\0\x09\x12\0\x01c\x26\0\x01k\0\x01v\x21\0\x14";
        let all = read(field).unwrap();
        let ids: Vec<_> = all.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [0x24, 0x13, 0x27, 0x12, 0x26, 0x21]);
        assert_eq!(all.last(), Some(&(0x21, b"\0\x14".to_vec())));
        for cut in 0..field.len() {
            assert!(read(&field[..cut]).is_err(), "{cut}");
        }
        assert!(Properties::split(b"\xFF\xFF\xFF\xFF\x01", is_of_connack).is_err());
    }

    #[test]
    fn what_a_property_must_not_be() {
        for (field, what) in [
            (&b"\x02\x7F\0"[..], "does not know"),
            (b"\x02\x13\0", "ends behind"),
            (b"\x04\x26\0\x01k", "ends behind"),
            (b"\x03\x23\0\x01", "of another packet"),
            // An authentication method that was not requested.
            (b"\x04\x15\0\x01m", "of another packet"),
            (b"\x04\x24\x01\x24\x01", "comes twice"),
            (b"\x04\x12\0\x01\xFF", "not UTF-8"),
            (b"\x05\x1F\0\x02a\0", "has a NUL"),
            (b"\x07\x26\0\x01k\0\x01\xFF", "not UTF-8"),
        ] {
            let refused = read(field).unwrap_err().to_string();
            assert!(refused.contains(what), "{field:?}: {refused}");
        }
        // User properties may come twice.
        assert_eq!(read(b"\x0A\x26\0\0\0\0\x26\0\0\0\0").map(|all| all.len()), Ok(2));
    }

    #[test]
    fn the_reason_string_of_a_refusal_is_found() {
        let string = b"\x1F\0\x04full";
        let with = |head: &[u8]| [head, string].concat();
        for packet in [
            with(b"\x20\x0A\0\x97\x07"),
            with(b"\xE0\x09\x97\x07"),
            with(b"\x40\x0B\0\x01\x97\x07"),
            [&with(b"\x90\x0B\0\x01\x07")[..], b"\x97"].concat(),
            // Behind others.
            [&b"\x40\x02\0\x01\xD0\0"[..], &with(b"\xE0\x09\x97\x07")].concat(),
        ] {
            assert_eq!(reason_string(&packet), b"full", "{packet:x?}");
            for cut in 0..packet.len() - 1 {
                assert_eq!(reason_string(&packet[..cut]), b"", "{packet:x?} cut at {cut}");
            }
        }
        for other in [&with(b"\x40\x0B\0\x01\0\x07")[..], b"\xE0\x01\x8B", b"\xE0\0", b"full", b""]
        {
            assert_eq!(reason_string(other), b"", "{other:x?}");
        }
    }
}
