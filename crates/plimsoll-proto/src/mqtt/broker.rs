//! The broker half: it accepts every client, acknowledges what is published and delivers nothing.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_model::target::{MqttVersion, is_filter, is_topic};
use thiserror::Error;

use super::packet::{
    self, CONNACK, CONNECT, DISCONNECT, LengthTooLong, PINGREQ, PINGRESP, PUBACK, PUBCOMP, PUBLISH,
    PUBREC, PUBREL, RECEIVE_MAXIMUM, SUBACK, SUBSCRIBE, UNSUBACK, UNSUBSCRIBE,
};

/// Longest packet but a PUBLISH, whose payload may be as long as MQTT allows.
pub const PACKET_BYTES_MAX: usize = 65_536;
/// Topic filters of one SUBSCRIBE or UNSUBSCRIBE.
pub const FILTERS_MAX: usize = 256;

const SUCCESS: u8 = 0;
const QOS_MAX: u8 = 2;
const UNSUPPORTED_VERSION_3: u8 = 1;
const IDENTIFIER_REJECTED_3: u8 = 2;
const UNSUPPORTED_VERSION_5: u8 = 0x84;
const MALFORMED_PACKET: u8 = 0x81;
const RECEIVE_MAXIMUM_EXCEEDED: u8 = 0x93;
const PACKET_TOO_LARGE: u8 = 0x95;

/// Identifiers of properties.
const SESSION_EXPIRY_INTERVAL: u8 = 0x11;
const ASSIGNED_CLIENT_IDENTIFIER: u8 = 0x12;

/// Clients of this process that got an identifier from here, and one.
static IDENTIFIERS: AtomicU64 = AtomicU64::new(1);

/// Reads what one client sends. After an error it is of no more use.
#[derive(Debug, Default)]
pub struct Broker {
    /// A packet whose end has not come, that of a PUBLISH up to its payload; while a payload is coming,
    /// the acknowledgement that is sent at its end.
    partial: Vec<u8>,
    /// Bytes of a payload that are still to come.
    payload_left: u32,
}

const _: () = assert!(size_of::<Broker>() <= 32);

/// What a packet is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The version of a client whose CONNECT was accepted.
    pub connected: Option<MqttVersion>,
    /// Publishes above QoS 0 that a client of version 5 is told that it may leave open; at least 1.
    pub receive_maximum: u16,
}

/// Appends why a client of version 5 is disconnected: it leaves more publishes open than it may.
pub fn refuse_excess(out: &mut Vec<u8>) {
    out.extend_from_slice(&[DISCONNECT, 1, RECEIVE_MAXIMUM_EXCEEDED]);
}

/// What a packet means for the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client is accepted, or with `is_refused` told why not; then the connection is to be closed.
    Connected {
        /// The version that it speaks.
        version: MqttVersion,
        /// Seconds within which it will send something; 0 for no bound.
        keep_alive_s: u16,
        /// It speaks a version that is not spoken here.
        is_refused: bool,
    },
    /// A message was published.
    Published,
    /// A subscription, a ping, or the second half of QoS 2.
    Answered,
    /// The client ends the connection.
    Disconnected,
}

/// Why the connection must be closed.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum BrokerError {
    /// Not MQTT, or not in its place.
    #[error("the client does not speak MQTT: {0}")]
    Malformed(&'static str),
    /// More than this broker reads.
    #[error("the client sent {0}")]
    TooLarge(&'static str),
}

impl BrokerError {
    /// The reason code of version 5.
    const fn reason(self) -> u8 {
        match self {
            Self::Malformed(_) => MALFORMED_PACKET,
            Self::TooLarge(_) => PACKET_TOO_LARGE,
        }
    }
}

const fn malformed<T>(what: &'static str) -> Result<T, BrokerError> {
    Err(BrokerError::Malformed(what))
}

/// What has been parsed of a packet: its bytes up to a payload, and the length of that.
struct Packet<'a> {
    first: u8,
    content: &'a [u8],
    head_bytes: usize,
    payload_bytes: u32,
}

impl Broker {
    /// For a connection on which nothing came yet.
    pub const fn new() -> Self {
        Self { partial: Vec::new(), payload_left: 0 }
    }

    /// Whether it stands between packets, and nothing would be lost by dropping it.
    pub const fn is_idle(&self) -> bool {
        self.partial.is_empty() && self.payload_left == 0
    }

    /// Handles bytes from the client up to the end of a packet; returns how many were consumed, and
    /// what the packet means, if one has ended. The answer is appended to `reply`. After an error the
    /// reply ends with the reason, where the client's version has one.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        terms: Terms,
        reply: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event>), BrokerError> {
        let read = self.read(input, terms, reply);
        if let (Err(error), Some(MqttVersion::V5)) = (&read, terms.connected) {
            reply.extend_from_slice(&[DISCONNECT, 1, error.reason()]);
        }
        read
    }

    fn read(
        &mut self,
        input: &[u8],
        terms: Terms,
        reply: &mut Vec<u8>,
    ) -> Result<(usize, Option<Event>), BrokerError> {
        if self.payload_left > 0 {
            let taken = input.len().min(self.payload_left as usize);
            self.payload_left -= taken as u32;
            if self.payload_left > 0 {
                return Ok((taken, None));
            }
            reply.append(&mut self.partial);
            return Ok((taken, Some(Event::Published)));
        }
        if self.partial.is_empty() {
            let Some(packet) = Packet::parse(input)? else {
                self.keep(input)?;
                return Ok((input.len(), None));
            };
            return Ok((packet.head_bytes, self.begin(&packet, terms, reply)?));
        }
        let kept = self.partial.len();
        let mut partial = std::mem::take(&mut self.partial);
        let room = KEPT_BYTES_MAX.saturating_sub(kept);
        partial.extend_from_slice(input.get(..room).unwrap_or(input));
        let Some(packet) = Packet::parse(&partial)? else {
            self.keep(&partial)?;
            return Ok((input.len(), None));
        };
        let event = self.begin(&packet, terms, reply)?;
        Ok((packet.head_bytes.saturating_sub(kept), event))
    }

    /// Answers a packet; one with a payload when that has come.
    fn begin(
        &mut self,
        packet: &Packet<'_>,
        terms: Terms,
        reply: &mut Vec<u8>,
    ) -> Result<Option<Event>, BrokerError> {
        if packet.payload_bytes == 0 {
            return answer(packet, terms, reply).map(Some);
        }
        let mut acknowledgement = Vec::new();
        answer(packet, terms, &mut acknowledgement)?;
        self.partial = acknowledgement;
        self.payload_left = packet.payload_bytes;
        Ok(None)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), BrokerError> {
        if bytes.len() >= KEPT_BYTES_MAX {
            return Err(BrokerError::TooLarge("a packet of more than 64 KiB"));
        }
        self.partial = bytes.to_vec();
        Ok(())
    }
}

/// First byte and remaining length.
const HEAD_BYTES_MAX: usize = 5;
/// The longest beginning of a packet that says what it means: of a PUBLISH with the longest topic, and
/// its identifier.
const KEPT_BYTES_MAX: usize = HEAD_BYTES_MAX + 2 + u16::MAX as usize + 2;

const _: () = assert!(KEPT_BYTES_MAX >= HEAD_BYTES_MAX + PACKET_BYTES_MAX);

impl<'a> Packet<'a> {
    /// Reads a packet from its first byte, a PUBLISH up to its payload; `None` where more is needed.
    fn parse(bytes: &'a [u8]) -> Result<Option<Self>, BrokerError> {
        let Some((&first, rest)) = bytes.split_first() else { return Ok(None) };
        check_first(first)?;
        let Some((length, length_bytes)) = remaining_length(rest)? else { return Ok(None) };
        let behind = rest.get(length_bytes..).unwrap_or_default();
        let content_bytes = if first & 0xF0 == PUBLISH {
            let &[high, low, ..] = behind else { return Ok(None) };
            let qos = first >> 1 & 3;
            if qos > QOS_MAX {
                return malformed("a PUBLISH at QoS 3");
            }
            let id_bytes = if qos > 0 { 2 } else { 0 };
            2 + usize::from(u16::from_be_bytes([high, low])) + id_bytes
        } else if length as usize > PACKET_BYTES_MAX {
            return Err(BrokerError::TooLarge("a packet of more than 64 KiB"));
        } else {
            length as usize
        };
        let Some(payload_bytes) = (length as usize).checked_sub(content_bytes) else {
            return malformed("a PUBLISH that ends within its topic");
        };
        let Some(content) = behind.get(..content_bytes) else { return Ok(None) };
        let head_bytes = 1 + length_bytes + content_bytes;
        Ok(Some(Self { first, content, head_bytes, payload_bytes: payload_bytes as u32 }))
    }
}

fn check_first(first: u8) -> Result<(), BrokerError> {
    match first {
        CONNECT | SUBSCRIBE | UNSUBSCRIBE | PINGREQ | DISCONNECT | PUBREL | PUBACK | PUBREC
        | PUBCOMP => Ok(()),
        _ if first & 0xF0 == PUBLISH => Ok(()),
        _ => malformed("a packet begins with a byte that no packet of a client begins with"),
    }
}

/// [`packet::remaining_length`] of a client.
fn remaining_length(bytes: &[u8]) -> Result<Option<(u32, usize)>, BrokerError> {
    packet::remaining_length(bytes)
        .or_else(|LengthTooLong| malformed("a remaining length of more than four bytes"))
}

/// Appends the answer to a packet; returns what it means.
fn answer(packet: &Packet<'_>, terms: Terms, reply: &mut Vec<u8>) -> Result<Event, BrokerError> {
    let content = packet.content;
    let Some(version) = terms.connected else {
        return if packet.first == CONNECT {
            connect(content, terms.receive_maximum, reply)
        } else {
            malformed("the first packet is not CONNECT")
        };
    };
    // Version 5 lets everything after the identifier be left out where all is well.
    let acknowledge = |reply: &mut Vec<u8>, first: u8, id: [u8; 2]| {
        reply.extend_from_slice(&[first, 2, id[0], id[1]]);
    };
    match packet.first {
        CONNECT => malformed("a second CONNECT"),
        PINGREQ if !content.is_empty() => malformed("a PINGREQ that has content"),
        PINGREQ => {
            reply.extend_from_slice(&[PINGRESP, 0]);
            Ok(Event::Answered)
        }
        DISCONNECT => Ok(Event::Disconnected),
        PUBREL => {
            acknowledge(reply, PUBCOMP, identifier(content)?);
            Ok(Event::Answered)
        }
        SUBSCRIBE | UNSUBSCRIBE => {
            subscribe(packet.first, content, version, reply)?;
            Ok(Event::Answered)
        }
        first if first & 0xF0 == PUBLISH => {
            let qos = first >> 1 & 3;
            let mut fields = Fields { rest: content };
            let is_name = std::str::from_utf8(fields.text()?).is_ok_and(is_topic);
            if !is_name {
                return malformed("a PUBLISH whose topic is no topic");
            }
            if qos > 0 {
                acknowledge(
                    reply,
                    if qos == 1 { PUBACK } else { PUBREC },
                    identifier(fields.rest)?,
                );
            }
            Ok(Event::Published)
        }
        // Nothing is delivered, so that nothing can be acknowledged.
        _ => malformed("an acknowledgement of a packet that was not sent"),
    }
}

fn identifier(content: &[u8]) -> Result<[u8; 2], BrokerError> {
    match content {
        [0, 0, ..] => malformed("a packet with the identifier 0"),
        [high, low, ..] => Ok([*high, *low]),
        _ => malformed("a packet without an identifier"),
    }
}

/// The fields of a packet, from its beginning.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// The next bytes, whose length is in the two before.
    fn bytes(&mut self) -> Result<&'a [u8], BrokerError> {
        if let [high, low, behind @ ..] = self.rest {
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            if let Some((bytes, rest)) = behind.split_at_checked(length) {
                self.rest = rest;
                return Ok(bytes);
            }
        }
        malformed("a field that is cut off")
    }

    /// The same as text: UTF-8 without a null character.
    fn text(&mut self) -> Result<&'a [u8], BrokerError> {
        let bytes = self.bytes()?;
        if std::str::from_utf8(bytes).is_err() || bytes.contains(&0) {
            return malformed("a text that is not UTF-8, or has a null character");
        }
        Ok(bytes)
    }

    /// Steps over the properties of version 5.
    fn properties(&mut self, version: MqttVersion) -> Result<(), BrokerError> {
        if version == MqttVersion::V5 {
            let Some((length, bytes)) = remaining_length(self.rest)? else {
                return malformed("properties that are cut off");
            };
            let Some(behind) = self.rest.get(bytes + length as usize..) else {
                return malformed("properties that are cut off");
            };
            self.rest = behind;
        }
        Ok(())
    }
}

/// Answers CONNECT.
fn connect(
    content: &[u8],
    receive_maximum: u16,
    reply: &mut Vec<u8>,
) -> Result<Event, BrokerError> {
    // MQTT 3.1 has another name and the same return codes, so that its client is told why.
    if let [0, 6, b'M', b'Q', b'I', b's', b'd', b'p', _, _, high, low, ..] = content {
        reply.extend_from_slice(&[CONNACK, 2, 0, UNSUPPORTED_VERSION_3]);
        let keep_alive_s = u16::from_be_bytes([*high, *low]);
        let version = MqttVersion::V3_1_1;
        return Ok(Event::Connected { version, keep_alive_s, is_refused: true });
    }
    let [0, 4, b'M', b'Q', b'T', b'T', level, flags, high, low, rest @ ..] = content else {
        return malformed("a CONNECT that does not name MQTT");
    };
    let keep_alive_s = u16::from_be_bytes([*high, *low]);
    let (version, is_refused) = match level {
        4 => (MqttVersion::V3_1_1, false),
        5 => (MqttVersion::V5, false),
        // What it would understand is not known.
        0..=3 => (MqttVersion::V3_1_1, true),
        _ => (MqttVersion::V5, true),
    };
    let mut is_named = true;
    if !is_refused {
        is_named = check_connect(*flags, Fields { rest }, version).inspect_err(|error| {
            if version == MqttVersion::V5 {
                reply.extend_from_slice(&[CONNACK, 3, 0, error.reason(), 0]);
            }
        })?;
        if version == MqttVersion::V3_1_1 && !is_named && flags & CLEAN_START == 0 {
            reply.extend_from_slice(&[CONNACK, 2, 0, IDENTIFIER_REJECTED_3]);
            return Ok(Event::Connected { version, keep_alive_s, is_refused: true });
        }
    }
    match (version, is_refused) {
        (MqttVersion::V3_1_1, false) => reply.extend_from_slice(&[CONNACK, 2, 0, SUCCESS]),
        (MqttVersion::V3_1_1, true) => {
            reply.extend_from_slice(&[CONNACK, 2, 0, UNSUPPORTED_VERSION_3]);
        }
        (MqttVersion::V5, false) => accept_5(is_named, receive_maximum, reply),
        (MqttVersion::V5, true) => {
            reply.extend_from_slice(&[CONNACK, 3, 0, UNSUPPORTED_VERSION_5, 0]);
        }
    }
    Ok(Event::Connected { version, keep_alive_s, is_refused })
}

/// Accepts a client of version 5; one that does not name itself gets an identifier.
fn accept_5(is_named: bool, receive_maximum: u16, reply: &mut Vec<u8>) {
    // No session outlives its connection.
    let mut properties = vec![SESSION_EXPIRY_INTERVAL, 0, 0, 0, 0, RECEIVE_MAXIMUM];
    properties.extend_from_slice(&receive_maximum.to_be_bytes());
    if !is_named {
        let id = format!("plimsoll-{}", IDENTIFIERS.fetch_add(1, Relaxed));
        properties.push(ASSIGNED_CLIENT_IDENTIFIER);
        properties.extend_from_slice(&(id.len() as u16).to_be_bytes());
        properties.extend_from_slice(id.as_bytes());
    }
    // Far below 128 bytes: each length takes one.
    let length = properties.len() as u8;
    reply.extend_from_slice(&[CONNACK, 3 + length, 0, SUCCESS, length]);
    reply.extend_from_slice(&properties);
}

const CLEAN_START: u8 = 1 << 1;
const WILL: u8 = 1 << 2;
/// Quality of service and retaining of the will.
const OF_WILL: u8 = 0b111 << 3;
const PASSWORD: u8 = 1 << 6;
const USER: u8 = 1 << 7;

/// Checks the payload of CONNECT; returns whether the client names itself.
fn check_connect(
    flags: u8,
    mut fields: Fields<'_>,
    version: MqttVersion,
) -> Result<bool, BrokerError> {
    let has = |flag| flags & flag != 0;
    if has(1) {
        return malformed("a CONNECT with its reserved flag set");
    }
    if flags >> 3 & 3 > QOS_MAX || (!has(WILL) && has(OF_WILL)) {
        return malformed("a CONNECT whose flags contradict each other about the will");
    }
    if version == MqttVersion::V3_1_1 && has(PASSWORD) && !has(USER) {
        return malformed("a CONNECT with a password and no user");
    }
    fields.properties(version)?;
    let is_named = !fields.text()?.is_empty();
    if has(WILL) {
        fields.properties(version)?;
        fields.text()?;
        fields.bytes()?;
    }
    if has(USER) {
        fields.text()?;
    }
    if has(PASSWORD) {
        fields.bytes()?;
    }
    if fields.rest.is_empty() { Ok(is_named) } else { malformed("a CONNECT with bytes at its end") }
}

/// Grants what SUBSCRIBE asks for, forgets what UNSUBSCRIBE names.
fn subscribe(
    first: u8,
    content: &[u8],
    version: MqttVersion,
    reply: &mut Vec<u8>,
) -> Result<(), BrokerError> {
    let id = identifier(content)?;
    let mut fields = Fields { rest: content.get(2..).unwrap_or_default() };
    fields.properties(version)?;
    let mut granted = Vec::new();
    while !fields.rest.is_empty() {
        if !std::str::from_utf8(fields.text()?).is_ok_and(is_filter) {
            return malformed("a topic filter that is none");
        }
        if granted.len() == FILTERS_MAX {
            return Err(BrokerError::TooLarge("more than 256 topic filters at once"));
        }
        if first == SUBSCRIBE {
            let Some((options, behind)) = fields.rest.split_first() else {
                return malformed("a topic filter without options");
            };
            fields.rest = behind;
            granted.push(quality(*options, version)?);
        } else {
            granted.push(SUCCESS);
        }
    }
    if granted.is_empty() {
        return malformed("a subscription without a topic filter");
    }
    let (first, codes) = match (first, version) {
        (SUBSCRIBE, _) => (SUBACK, granted),
        (_, MqttVersion::V5) => (UNSUBACK, granted),
        // 3.1.1 has no codes here.
        (_, MqttVersion::V3_1_1) => (UNSUBACK, Vec::new()),
    };
    let properties: &[u8] = if version == MqttVersion::V5 { &[0] } else { &[] };
    packet::begin(reply, first, 2 + properties.len() + codes.len());
    reply.extend_from_slice(&id);
    reply.extend_from_slice(properties);
    reply.extend_from_slice(&codes);
    Ok(())
}

/// The quality of service that the options of a subscription ask for.
fn quality(options: u8, version: MqttVersion) -> Result<u8, BrokerError> {
    let qos = options & 3;
    let is_valid = match version {
        MqttVersion::V3_1_1 => options <= QOS_MAX,
        // No local, retain as published, and how retained messages are handled: 0, 1 or 2.
        MqttVersion::V5 => options >> 6 == 0 && options >> 4 & 3 != 3 && qos <= QOS_MAX,
    };
    if is_valid { Ok(qos) } else { malformed("a topic filter with options that are none") }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::target::{Publish, Qos};
    use proptest::prelude::*;

    use super::super::packet;
    use super::*;

    /// No session is kept, and as many publishes may be in flight as there are identifiers.
    const ACCEPTED_5: &[u8] = b"\x20\x0B\0\0\x08\x11\0\0\0\0\x21\xFF\xFF";

    type Seen = (Vec<Event>, Vec<u8>, Option<BrokerError>);

    /// All events of `bytes`, given in pieces, and what was answered.
    fn read(pieces: &[&[u8]]) -> Seen {
        let (mut broker, mut reply) = (Broker::new(), Vec::new());
        let (mut events, mut connected) = (Vec::new(), None);
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                match broker.handle_bytes(
                    rest,
                    Terms { connected, receive_maximum: u16::MAX },
                    &mut reply,
                ) {
                    Ok((consumed, event)) => {
                        rest = &rest[consumed..];
                        if let Some(Event::Connected { version, .. }) = event {
                            connected = Some(version);
                        }
                        events.extend(event);
                    }
                    Err(error) => return (events, reply, Some(error)),
                }
            }
        }
        (events, reply, None)
    }

    /// What a client of ours sends.
    fn named(client_id: &str, keep_alive_s: u16) -> packet::Connect<'_> {
        packet::Connect { client_id, keep_alive_s, ..packet::Connect::default() }
    }

    fn session(version: MqttVersion, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        packet::connect(&mut out, version, &named("a client", 60));
        for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let publish = Publish { topic: "a/b".to_owned(), qos, retain: false };
            packet::publish(&mut out, version, &publish, payload);
        }
        packet::pubrel(&mut out, 1);
        packet::pingreq(&mut out);
        packet::disconnect(&mut out);
        out
    }

    #[test]
    fn our_client_is_served() {
        for (version, connack) in
            [(MqttVersion::V3_1_1, &b"\x20\x02\0\0"[..]), (MqttVersion::V5, ACCEPTED_5)]
        {
            let (events, reply, error) = read(&[&session(version, &[7; 300])]);
            let connected = Event::Connected { version, keep_alive_s: 60, is_refused: false };
            let published = [Event::Published; 3];
            let rest = [Event::Answered, Event::Answered, Event::Disconnected];
            assert_eq!(events, [&[connected][..], &published, &rest].concat());
            let answers = b"\x40\x02\0\x01\x50\x02\0\x01\x70\x02\0\x01\xD0\0";
            assert_eq!((reply, error), ([connack, answers].concat(), None));
        }
    }

    #[test]
    fn subscriptions_are_granted() {
        let mut bytes = Vec::new();
        packet::connect(&mut bytes, MqttVersion::V5, &named("s", 0));
        bytes.extend_from_slice(b"\x82\x0D\0\x07\0\0\x01a\x01\0\x03b/#\x02");
        bytes.extend_from_slice(b"\xA2\x06\0\x08\0\0\x01a");
        let (_, reply, error) = read(&[&bytes]);
        let answers = b"\x90\x05\0\x07\0\x01\x02\xB0\x04\0\x08\0\0";
        assert_eq!((reply, error), ([ACCEPTED_5, answers].concat(), None));
    }

    #[test]
    fn a_client_without_an_identifier_gets_one_of_its_own() {
        let assigned = || {
            let (_, reply, error) = read(&[b"\x10\x0D\0\x04MQTT\x05\x02\0\0\0\0\0"]);
            assert_eq!(error, None);
            // The property, its length, and the text at the end.
            let (at, length) = (ACCEPTED_5.len(), usize::from(reply[ACCEPTED_5.len() + 2]));
            assert_eq!((reply[at], reply.len()), (0x12, at + 3 + length));
            assert_eq!((reply[1], reply[4]), (reply.len() as u8 - 2, reply.len() as u8 - 5));
            String::from_utf8(reply[at + 3..].to_vec()).unwrap()
        };
        let (one, other) = (assigned(), assigned());
        assert!(one.starts_with("plimsoll-") && one != other, "{one} {other}");
    }

    #[test]
    fn version_5_is_told_the_reason() {
        // A CONNECT with its reserved flag set.
        let (_, reply, error) = read(&[b"\x10\x0E\0\x04MQTT\x05\x03\0\0\0\0\x01a"]);
        assert_eq!((&reply[..], error.is_some()), (&b"\x20\x03\0\x81\0"[..], true));
        for (bytes, reason) in [(&b"\x30\x03\0\0\0"[..], 0x81), (b"\x82\xFF\xFF\x7F", 0x95)] {
            let mut session = Vec::new();
            packet::connect(&mut session, MqttVersion::V5, &named("a", 0));
            session.extend_from_slice(bytes);
            let (_, reply, error) = read(&[&session]);
            assert!(error.is_some());
            assert_eq!(reply, [ACCEPTED_5, &[0xE0, 1, reason]].concat());
        }
    }

    #[test]
    fn what_is_not_mqtt_is_refused() {
        let of = |bytes: &[u8]| read(&[bytes]).2.expect("it is refused").to_string();
        assert!(of(b"GET / HTTP/1.1\r\n\r\n").contains("no packet of a client"));
        assert!(of(b"\xC0\0").contains("not CONNECT"));
        assert!(of(b"\x10\x0C\0\x04HTTP\x04\x02\0\0\0\0").contains("does not name MQTT"));
        assert!(of(b"\x10\xFF\xFF\xFF\xFF").contains("more than four"));
        assert!(of(b"\x10\xFF\xFF\x7F").contains("more than 64 KiB"));
        let mut twice = Vec::new();
        packet::connect(&mut twice, MqttVersion::V5, &named("a", 0));
        packet::connect(&mut twice, MqttVersion::V5, &named("a", 0));
        assert!(of(&twice).contains("second CONNECT"));
        let (events, reply, _) = read(&[b"\x10\x0D\0\x04MQTT\x06\x02\0\0\0\0\0"]);
        assert!(matches!(events[..], [Event::Connected { is_refused: true, .. }]));
        assert_eq!(reply, b"\x20\x03\0\x84\0");
        // MQTT 3.1; cut off, it is refused like anything else.
        let (events, reply, _) = read(&[b"\x10\x0F\0\x06MQIsdp\x03\x02\0\x3C\0\x01a"]);
        assert!(matches!(events[..], [Event::Connected { is_refused: true, .. }]));
        assert_eq!(reply, b"\x20\x02\0\x01");
        assert!(of(b"\x10\x0A\0\x06MQIsdp\x03\x02").contains("does not name MQTT"));
    }

    /// A CONNECT of version 3.1.1 with these flags, and what follows the keep-alive.
    fn connect_311(flags: u8, payload: &[u8]) -> Vec<u8> {
        let head = [b"\x10", &[10 + payload.len() as u8][..], b"\0\x04MQTT\x04", &[flags, 0, 9]];
        [&head.concat()[..], payload].concat()
    }

    #[test]
    fn malformed_packets_are_refused_each_by_its_name() {
        let of = |bytes: &[u8]| read(&[bytes]).2.map(|error| error.to_string()).unwrap_or_default();
        for (flags, payload, why) in [
            (0x03, &b"\0\x01a"[..], "reserved"),
            (0x0A, b"\0\x01a", "about the will"),
            (0x1E, b"\0\x01a\0\x01t\0\x01m", "about the will"),
            (0x42, b"\0\x01a\0\x01p", "no user"),
            (0x82, b"\0\x01a", "cut off"),
            (0x02, b"\0\x01a\0", "bytes at its end"),
            (0x02, b"\0\x01\xFF", "UTF-8"),
            (0x02, b"\0\x01\0", "null"),
            (0xC6, b"\0\x01a\0\x01t\0\x01m\0\x01u\0\x01p", ""),
            (0x02, b"\0\0", ""),
        ] {
            let said = of(&connect_311(flags, payload));
            assert!(said.contains(why) && said.is_empty() == why.is_empty(), "{payload:?}: {said}");
        }
        let (events, reply, _) = read(&[&connect_311(0, b"\0\0")]);
        assert!(matches!(events[..], [Event::Connected { is_refused: true, .. }]));
        assert_eq!(reply, b"\x20\x02\0\x02");
        for (packet, why) in [
            (&b"\x30\x02\0\0"[..], "no topic"),
            (b"\x30\x05\0\x03a/#", "no topic"),
            (b"\x32\x05\0\x01a\0\0", "identifier 0"),
            (b"\x82\x02\0\x01", "without a topic filter"),
            (b"\x82\x06\0\x01\0\x01a\x03", "options"),
            (b"\x82\x08\0\x01\0\x03#/a\x01", "filter that is none"),
            (b"\x82\x06\0\x01\0\x01a\x04", "options"),
            (b"\x82\x06\0\0\0\x01a\x01", "identifier 0"),
            (b"\xC0\x01\0", "PINGREQ"),
        ] {
            let said = of(&[&connect_311(2, b"\0\x01a"), packet].concat());
            assert!(said.contains(why), "{packet:?}: {said}");
        }
    }

    #[test]
    fn the_longest_topic_is_taken_in_any_pieces() {
        let publish = Publish { topic: "t".repeat(65_535), qos: Qos::AtLeastOnce, retain: false };
        let mut bytes = connect_311(2, b"\0\x01a");
        packet::publish(&mut bytes, MqttVersion::V3_1_1, &publish, b"payload");
        let whole = read(&[&bytes]);
        assert_eq!((whole.0.len(), whole.2), (2, None));
        for cut in [20, 21, 30_000, bytes.len() - 9, bytes.len() - 8, bytes.len() - 1] {
            assert_eq!(read(&[&bytes[..cut], &bytes[cut..]]), whole, "cut at {cut}");
        }
        let bytewise: Vec<&[u8]> = bytes.chunks(1_000).collect();
        assert_eq!(read(&bytewise), whole);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_cuts_change_nothing(
            bytes in prop_oneof![
                any::<Vec<u8>>(),
                any::<Vec<u8>>().prop_map(|payload| session(MqttVersion::V5, &payload)),
                any::<Vec<u8>>().prop_map(|payload| session(MqttVersion::V3_1_1, &payload)),
            ],
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
        ) {
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            prop_assert_eq!(read(&pieces), read(&[&bytes]));
        }
    }
}
