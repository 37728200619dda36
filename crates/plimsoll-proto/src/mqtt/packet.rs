//! The encoding of the packets that a client sends.
//!
//! Each function appends one packet to a buffer: [`connect`], [`publish`], [`subscribe`], [`pingreq`], [`disconnect`]
//! and acknowledgements. `begin` writes the fixed header with its length of at most four bytes, and
//! `remaining_length` parses such a length. A client without `--inflight` has one open packet, so all packets share
//! the identifier `PACKET_ID`; `set_identifier` replaces it. Callers check lengths beforehand. Start reading at
//! [`connect`].

use plimsoll_model::target::{
    Credentials, MqttVersion, Publish, Qos, REMAINING_LENGTH_MAX, Subscription, Will,
};

use super::PACKET_ID;
use super::properties::SESSION_EXPIRY;

pub(super) const CONNECT: u8 = 0x10;
pub(super) const CONNACK: u8 = 0x20;
pub(super) const PUBLISH: u8 = 0x30;
pub(super) const PUBACK: u8 = 0x40;
pub(super) const PUBREC: u8 = 0x50;
pub(super) const PUBREL: u8 = 0x62;
pub(super) const PUBCOMP: u8 = 0x70;
pub(super) const SUBSCRIBE: u8 = 0x82;
pub(super) const SUBACK: u8 = 0x90;
pub(super) const UNSUBSCRIBE: u8 = 0xA2;
pub(super) const UNSUBACK: u8 = 0xB0;
pub(super) const PINGREQ: u8 = 0xC0;
pub(super) const PINGRESP: u8 = 0xD0;
pub(super) const DISCONNECT: u8 = 0xE0;
pub(super) const AUTH: u8 = 0xF0;

/// Clean session (3.1.1) or clean start (5).
pub(super) const CLEAN: u8 = 0x02;
const RETAIN: u8 = 0x01;
/// Flags of CONNECT.
pub(super) const WILL: u8 = 0x04;
const WILL_RETAIN: u8 = 0x20;
pub(super) const PASSWORD: u8 = 0x40;
pub(super) const USER_NAME: u8 = 0x80;

/// The fields of a CONNECT. The caller has checked that each text is at most 65,535 bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Connect<'a> {
    /// Identifier of the client.
    pub client_id: &'a str,
    /// Seconds within which it sends something; 0 for no bound.
    pub keep_alive_s: u16,
    /// The broker resumes the stored session.
    pub resumes_session: bool,
    /// Seconds for which the broker keeps the session; MQTT 5 alone.
    pub session_expiry_s: Option<u32>,
    /// Credentials of the client.
    pub user: Option<&'a Credentials>,
    /// Message to publish when the client disappears.
    pub will: Option<&'a Will>,
}

/// Appends a CONNECT.
pub fn connect(out: &mut Vec<u8>, version: MqttVersion, says: &Connect<'_>) {
    let is_v5 = version == MqttVersion::V5;
    let mut content = Vec::new();
    string(&mut content, b"MQTT");
    content.extend_from_slice(&[version.level(), connect_flags(says)]);
    content.extend_from_slice(&says.keep_alive_s.to_be_bytes());
    match says.session_expiry_s.filter(|_| is_v5) {
        Some(expiry_s) => {
            content.extend_from_slice(&[5, SESSION_EXPIRY]);
            content.extend_from_slice(&expiry_s.to_be_bytes());
        }
        None if is_v5 => content.push(0),
        None => {}
    }
    string(&mut content, says.client_id.as_bytes());
    if let Some(will) = says.will {
        if is_v5 {
            content.push(0);
        }
        string(&mut content, will.publish.topic.as_bytes());
        string(&mut content, &will.message);
    }
    if let Some(user) = says.user {
        if !user.name.is_empty() {
            string(&mut content, user.name.as_bytes());
        }
        if let Some(password) = &user.password {
            string(&mut content, password.as_bytes());
        }
    }
    begin(out, CONNECT, content.len());
    out.extend_from_slice(&content);
}

fn connect_flags(says: &Connect<'_>) -> u8 {
    let mut flags = if says.resumes_session { 0 } else { CLEAN };
    if let Some(will) = says.will {
        flags |= WILL | (will.publish.qos as u8) << 3;
        flags |= if will.publish.retain { WILL_RETAIN } else { 0 };
    }
    if let Some(user) = says.user {
        // MQTT 5 allows a password without a user name.
        flags |= if user.name.is_empty() { 0 } else { USER_NAME };
        flags |= if user.password.is_some() { PASSWORD } else { 0 };
    }
    flags
}

/// Returns the length of a PUBLISH with a payload of `payload_bytes`.
pub(crate) fn publish_bytes(
    version: MqttVersion,
    publish: &Publish,
    payload_bytes: usize,
) -> usize {
    let id = if publish.qos == Qos::AtMostOnce { 0 } else { 2 };
    let properties = usize::from(version == MqttVersion::V5);
    packet_bytes(2 + publish.topic.len() + id + properties + payload_bytes)
}

/// Returns the length of a SUBSCRIBE to `filter`.
pub(crate) fn subscribe_bytes(version: MqttVersion, filter: &str) -> usize {
    packet_bytes(2 + usize::from(version == MqttVersion::V5) + 2 + filter.len() + 1)
}

/// Returns the length of a packet whose content has `content_bytes`.
fn packet_bytes(content_bytes: usize) -> usize {
    let mut head = Vec::new();
    begin(&mut head, 0, content_bytes);
    head.len() + content_bytes
}

/// Appends a PUBLISH of `payload`. The caller has checked that all of it fits a packet.
pub fn publish(out: &mut Vec<u8>, version: MqttVersion, publish: &Publish, payload: &[u8]) {
    publish_head(out, version, publish, payload.len());
    out.extend_from_slice(payload);
}

/// Appends what a PUBLISH has before a payload of this number of bytes.
pub fn publish_head(
    out: &mut Vec<u8>,
    version: MqttVersion,
    publish: &Publish,
    payload_bytes: usize,
) {
    let id: &[u8] = if publish.qos == Qos::AtMostOnce { &[] } else { &PACKET_ID.to_be_bytes() };
    let properties: &[u8] = if version == MqttVersion::V5 { &[0] } else { &[] };
    let retain = if publish.retain { RETAIN } else { 0 };
    let topic = publish.topic.as_bytes();
    let length = 2 + topic.len() + id.len() + properties.len() + payload_bytes;
    begin(out, PUBLISH | (publish.qos as u8) << 1 | retain, length);
    string(out, topic);
    out.extend_from_slice(id);
    out.extend_from_slice(properties);
}

/// Appends a SUBSCRIBE. Only before the first publish: it has the identifier of one. The caller has checked that
/// the filter is at most 65,535 bytes.
pub fn subscribe(out: &mut Vec<u8>, version: MqttVersion, subscription: &Subscription) {
    let Subscription { filter, qos } = subscription;
    let properties: &[u8] = if version == MqttVersion::V5 { &[0] } else { &[] };
    begin(out, SUBSCRIBE, 2 + properties.len() + 2 + filter.len() + 1);
    out.extend_from_slice(&PACKET_ID.to_be_bytes());
    out.extend_from_slice(properties);
    string(out, filter.as_bytes());
    out.push(*qos as u8);
}

/// Appends a PINGREQ.
pub fn pingreq(out: &mut Vec<u8>) {
    out.extend_from_slice(&[PINGREQ, 0]);
}

/// Appends a DISCONNECT without a reason: a will is not published.
pub fn disconnect(out: &mut Vec<u8>) {
    out.extend_from_slice(&[DISCONNECT, 0]);
}

/// Appends an acknowledgement that begins with this byte: PUBACK, PUBREC, PUBREL, PUBCOMP. Version 5 lets everything
/// after the identifier be left out if all is well.
pub(super) fn acknowledgement(out: &mut Vec<u8>, first: u8, id: u16) {
    let [high, low] = id.to_be_bytes();
    out.extend_from_slice(&[first, 2, high, low]);
}

/// Gives a PUBLISH above QoS 0 another identifier.
pub(super) fn set_identifier(publish: &mut [u8], id: u16) {
    let length = remaining_length(publish.get(1..).unwrap_or_default());
    let Ok(Some((_, length_bytes))) = length else { return };
    let content = publish.get_mut(1 + length_bytes..).unwrap_or_default();
    let &mut [high, low, ref mut behind @ ..] = content else { return };
    let topic_bytes = usize::from(u16::from_be_bytes([high, low]));
    if let Some(place) = behind.get_mut(topic_bytes..topic_bytes + 2) {
        place.copy_from_slice(&id.to_be_bytes());
    }
}

/// Appends the fixed header.
pub(super) fn begin(out: &mut Vec<u8>, first: u8, length: usize) {
    debug_assert!(length <= REMAINING_LENGTH_MAX);
    out.push(first);
    let mut left = length;
    loop {
        let more = left >> 7;
        out.push((left & 0x7F) as u8 | if more > 0 { 0x80 } else { 0 });
        left = more;
        if left == 0 {
            return;
        }
    }
}

/// A remaining length of more than four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LengthTooLong;

/// Reads a length in bytes of seven bits, and the number of those bytes; `None` if it is incomplete.
pub(super) fn remaining_length(bytes: &[u8]) -> Result<Option<(u32, usize)>, LengthTooLong> {
    let mut length = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        length |= u32::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((length, index + 1)));
        }
    }
    if bytes.len() >= 4 { Err(LengthTooLong) } else { Ok(None) }
}

/// The caller has checked that it is at most 65,535 bytes.
fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(&(bytes.len() as u16).to_be_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut out = Vec::new();
        write(&mut out);
        out
    }

    #[test]
    fn packets_as_the_standards_draw_them() {
        let says = Connect { client_id: "ab", keep_alive_s: 60, ..Connect::default() };
        let four = written(|out| connect(out, MqttVersion::V3_1_1, &says));
        assert_eq!(four, b"\x10\x0E\0\x04MQTT\x04\x02\0\x3C\0\x02ab");
        let says = Connect { keep_alive_s: 0, ..says };
        let five = written(|out| connect(out, MqttVersion::V5, &says));
        assert_eq!(five, b"\x10\x0F\0\x04MQTT\x05\x02\0\0\0\0\x02ab");
        let of = |qos, retain| Publish { topic: "a/b".to_owned(), qos, retain };
        let zero = written(|out| {
            publish(out, MqttVersion::V3_1_1, &of(Qos::AtMostOnce, true), b"hi");
        });
        assert_eq!(zero, b"\x31\x07\0\x03a/bhi");
        let two = written(|out| publish(out, MqttVersion::V5, &of(Qos::ExactlyOnce, false), b""));
        assert_eq!(two, b"\x34\x08\0\x03a/b\0\x01\0");
        let released = written(|out| acknowledgement(out, PUBREL, 0x0102));
        assert_eq!(released, b"\x62\x02\x01\x02");
        let mut numbered = two;
        set_identifier(&mut numbered, 0x0102);
        assert_eq!(numbered, b"\x34\x08\0\x03a/b\x01\x02\0");
        let wants = |qos| Subscription { filter: "a/#".to_owned(), qos };
        let four = written(|out| {
            subscribe(out, MqttVersion::V3_1_1, &wants(Qos::ExactlyOnce));
        });
        assert_eq!(four, b"\x82\x08\0\x01\0\x03a/#\x02");
        let five = written(|out| subscribe(out, MqttVersion::V5, &wants(Qos::AtMostOnce)));
        assert_eq!(five, b"\x82\x09\0\x01\0\0\x03a/#\0");
        let long = written(|out| {
            publish(out, MqttVersion::V5, &of(Qos::AtLeastOnce, false), &[7; 20_000]);
        });
        assert_eq!(long[..4], [0x32, 0xA8, 0x9C, 0x01]);
        assert_eq!(long.len(), 4 + 8 + 20_000);
        let mut numbered = long.clone();
        set_identifier(&mut numbered, 0x0102);
        assert_eq!(numbered[9..12], [1, 2, 0]);
        numbered[9..11].copy_from_slice(&[0, 1]);
        assert_eq!(numbered, long);
    }

    #[test]
    fn a_connect_that_says_everything() {
        let user = Credentials { name: "u".to_owned(), password: Some("pw".to_owned()) };
        let publish = Publish { topic: "w".to_owned(), qos: Qos::ExactlyOnce, retain: true };
        let will = Will { publish, message: b"bye".to_vec() };
        let says = Connect {
            client_id: "ab",
            keep_alive_s: 60,
            resumes_session: true,
            session_expiry_s: Some(3_600),
            user: Some(&user),
            will: Some(&will),
        };
        let five = written(|out| connect(out, MqttVersion::V5, &says));
        let expected = b"\x10\x24\0\x04MQTT\x05\xF4\0\x3C\x05\x11\0\0\x0E\x10\0\x02ab\
            \0\0\x01w\0\x03bye\0\x01u\0\x02pw";
        assert_eq!(five, expected);
        let four = written(|out| connect(out, MqttVersion::V3_1_1, &says));
        let expected = b"\x10\x1D\0\x04MQTT\x04\xF4\0\x3C\0\x02ab\0\x01w\0\x03bye\0\x01u\0\x02pw";
        assert_eq!(four, expected);
        let token = Credentials { name: String::new(), password: Some("t".to_owned()) };
        let says = Connect { client_id: "ab", user: Some(&token), ..Connect::default() };
        let five = written(|out| connect(out, MqttVersion::V5, &says));
        assert_eq!(five, b"\x10\x12\0\x04MQTT\x05\x42\0\0\0\0\x02ab\0\x01t");
    }
}
