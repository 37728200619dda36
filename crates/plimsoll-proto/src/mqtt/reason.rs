//! Names of reason codes (MQTT 5.0, 2.4) and of CONNACK's return codes (MQTT 3.1.1, 3.2.2.3), and reason strings.

use plimsoll_model::target::MqttVersion;

use super::client::FAILURE;
use super::packet::{CONNACK, DISCONNECT, PUBACK, PUBCOMP, PUBREC, SUBACK, remaining_length};
use super::properties::{Properties, REASON_STRING};

/// Returns the reason string of the first packet in `bytes` that refuses something; empty if there is none. `bytes` begin
/// with a packet: of one that has begun before them, none is found.
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

/// The reason string of a packet with a failing reason.
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

/// The standard's name of a reason that refuses something.
pub const fn reason_name(version: MqttVersion, code: u8) -> &'static str {
    match (version, code) {
        (MqttVersion::V3_1_1, 1) => "unacceptable protocol version",
        (MqttVersion::V3_1_1, 2) => "identifier rejected",
        (MqttVersion::V3_1_1, 3) => "server unavailable",
        (MqttVersion::V3_1_1, 4) => "bad user name or password",
        (MqttVersion::V3_1_1, 5) => "not authorized",
        (MqttVersion::V3_1_1, _) => "a code that MQTT 3.1.1 does not know",
        (_, 0x00) => "success",
        (_, 0x80) => "unspecified error",
        (_, 0x81) => "malformed packet",
        (_, 0x82) => "protocol error",
        (_, 0x83) => "implementation specific error",
        (_, 0x84) => "unsupported protocol version",
        (_, 0x85) => "client identifier not valid",
        (_, 0x86) => "bad user name or password",
        (_, 0x87) => "not authorized",
        (_, 0x88) => "server unavailable",
        (_, 0x89) => "server busy",
        (_, 0x8A) => "banned",
        (_, 0x8B) => "server shutting down",
        (_, 0x8C) => "bad authentication method",
        (_, 0x8D) => "keep alive timeout",
        (_, 0x8E) => "session taken over",
        (_, 0x8F) => "topic filter invalid",
        (_, 0x90) => "topic name invalid",
        (_, 0x91) => "packet identifier in use",
        (_, 0x92) => "packet identifier not found",
        (_, 0x93) => "receive maximum exceeded",
        (_, 0x94) => "topic alias invalid",
        (_, 0x95) => "packet too large",
        (_, 0x96) => "message rate too high",
        (_, 0x97) => "quota exceeded",
        (_, 0x98) => "administrative action",
        (_, 0x99) => "payload format invalid",
        (_, 0x9A) => "retain not supported",
        (_, 0x9B) => "QoS not supported",
        (_, 0x9C) => "use another server",
        (_, 0x9D) => "server moved",
        (_, 0x9E) => "shared subscriptions not supported",
        (_, 0x9F) => "connection rate exceeded",
        (_, 0xA0) => "maximum connect time",
        (_, 0xA1) => "subscription identifiers not supported",
        (_, 0xA2) => "wildcard subscriptions not supported",
        _ => "a code that MQTT 5 does not know",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
