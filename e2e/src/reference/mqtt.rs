//! The reference server's half of MQTT: publishes at QoS 1 are its requests.

/// First byte of a connection that speaks MQTT.
pub(super) const CONNECT: u8 = 0x10;
const PUBLISH: u8 = 0x30;
const PINGREQ: u8 = 0xC0;
const DISCONNECT: u8 = 0xE0;
/// A longer packet ends its connection.
const PACKET_BYTES_MAX: usize = 16_384;

/// The request of a packet.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// This at once.
    Answer(Vec<u8>),
    /// This after the service's time.
    Served(Vec<u8>),
    /// The end of the connection: nothing else is known here.
    End,
}

/// Returns the length of the first packet, and what it asks for; `None` if it is not complete.
pub(super) fn first_packet(bytes: &[u8]) -> Option<(usize, Asked)> {
    let (mut length, mut at) = (0, 1);
    loop {
        let byte = *bytes.get(at)?;
        length |= usize::from(byte & 0x7F) << (7 * (at - 1));
        at += 1;
        if byte & 0x80 == 0 {
            break;
        }
        if at == 5 {
            return Some((bytes.len(), Asked::End));
        }
    }
    if length > PACKET_BYTES_MAX {
        return Some((bytes.len(), Asked::End));
    }
    let content = bytes.get(at..at + length)?;
    Some((at + length, asked(bytes[0], content)))
}

fn asked(first: u8, content: &[u8]) -> Asked {
    match (first, content) {
        // The level stands behind the name.
        (CONNECT, [0, 4, b'M', b'Q', b'T', b'T', 5, ..]) => Asked::Answer(vec![0x20, 3, 0, 0, 0]),
        (CONNECT, _) => Asked::Answer(vec![0x20, 2, 0, 0]),
        (PINGREQ, _) => Asked::Answer(vec![0xD0, 0]),
        (first, [high, low, rest @ ..]) if first & 0xF6 == PUBLISH | 2 => {
            let topic_bytes = usize::from(u16::from_be_bytes([*high, *low]));
            match rest.get(topic_bytes..topic_bytes + 2) {
                Some(id) => Asked::Served(vec![0x40, 2, id[0], id[1]]),
                None => Asked::End,
            }
        }
        (DISCONNECT, _) | (_, _) => Asked::End,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_are_told_apart() {
        for (bytes, read) in [
            (
                &b"\x10\x0D\0\x04MQTT\x05\x02\0\0\0\0\0"[..],
                Some((15, Asked::Answer(vec![0x20, 3, 0, 0, 0]))),
            ),
            (b"\x32\x07\0\x01a\0\x09\0xrest", Some((9, Asked::Served(vec![0x40, 2, 0, 9])))),
            (b"\x32\x07\0\x01a\0\x09\0", None),
            (b"\xC0\0", Some((2, Asked::Answer(vec![0xD0, 0])))),
            (b"\xE0\0", Some((2, Asked::End))),
            (b"\x34\x07\0\x01a\0\x09\0x", Some((9, Asked::End))),
        ] {
            assert_eq!(first_packet(bytes), read, "{bytes:?}");
        }
    }
}
