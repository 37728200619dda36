//! The broker half: it accepts every client, acknowledges what is published, and delivers it to the client that
//! published it, if that has subscribed to its topic. It has no other subscribers.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

use plimsoll_model::target::{MqttVersion, is_filter, is_topic};
use thiserror::Error;

use super::Subscriptions;
use super::error::NOT_SENT;
use super::packet::{
    self, CLEAN, CONNACK, CONNECT, DISCONNECT, LengthTooLong, PASSWORD, PINGREQ, PINGRESP, PUBACK,
    PUBCOMP, PUBLISH, PUBREC, PUBREL, SUBACK, SUBSCRIBE, UNSUBACK, UNSUBSCRIBE, USER_NAME, WILL,
    acknowledgement,
};
use super::properties::{ASSIGNED_CLIENT_ID, RECEIVE_MAXIMUM, SESSION_EXPIRY};

/// Longest packet but a PUBLISH, whose payload may be as long as MQTT allows.
pub const PACKET_BYTES_MAX: usize = 65_536;
/// Topic filters of one SUBSCRIBE or UNSUBSCRIBE.
pub const FILTERS_MAX: usize = 256;
/// Longest message that is delivered, its properties included.
const DELIVERED_BYTES_MAX: u32 = 1 << 20;
/// A buffer that has grown past this is not kept for the next packet.
const SPARE_BYTES_MAX: usize = 4_096;

const SUCCESS: u8 = 0;
/// Reason of a refused subscription: an unspecified failure, in both versions.
const NOT_GRANTED: u8 = 0x80;
const QOS_MAX: u8 = 2;
const UNSUPPORTED_VERSION_3: u8 = 1;
const IDENTIFIER_REJECTED_3: u8 = 2;
const UNSUPPORTED_VERSION_5: u8 = 0x84;
const MALFORMED_PACKET: u8 = 0x81;
const RECEIVE_MAXIMUM_EXCEEDED: u8 = 0x93;
const QUOTA_EXCEEDED: u8 = 0x97;
const PACKET_TOO_LARGE: u8 = 0x95;

/// Clients of this process that got an identifier from here, and one.
static IDENTIFIERS: AtomicU64 = AtomicU64::new(1);

/// Reads what one client sends. After an error it is of no more use.
#[derive(Debug, Default)]
pub struct Broker {
    /// The incomplete packet; of a PUBLISH, only the bytes before its payload. While a payload is arriving: the
    /// acknowledgement to be sent at its end, followed by the delivery.
    partial: Vec<u8>,
    /// Bytes of a payload that are still to come.
    payload_left: u32,
    /// Bytes of that acknowledgement.
    answer_bytes: u8,
    /// The payload is delivered.
    is_delivered: bool,
}

const _: () = assert!(size_of::<Broker>() <= 32);

/// The terms by which a packet is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The version of a client whose CONNECT was accepted.
    pub connected: Option<MqttVersion>,
    /// Publishes above QoS 0 that a client of version 5 may leave open; at least 1.
    pub receive_maximum: u16,
}

/// Appends why a client of version 5 is disconnected: it leaves more publishes open than it may.
pub fn refuse_excess(out: &mut Vec<u8>) {
    out.extend_from_slice(&[DISCONNECT, 1, RECEIVE_MAXIMUM_EXCEEDED]);
}

/// Appends why a client of version 5 is disconnected: all clients together have begun more messages than are kept.
pub fn refuse_for_quota(out: &mut Vec<u8>) {
    out.extend_from_slice(&[DISCONNECT, 1, QUOTA_EXCEEDED]);
}

/// The output for the client.
#[derive(Debug)]
pub struct Output<'a> {
    /// Bytes that answer a packet.
    pub reply: &'a mut Vec<u8>,
    /// A message that is delivered, behind the answer: a PUBLISH with its payload.
    pub delivery: &'a mut Vec<u8>,
}

/// The meaning of a packet for the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The client is accepted, or refused if `is_refused`; after a refusal the connection is to be closed.
    Connected {
        /// The version that it speaks.
        version: MqttVersion,
        /// Seconds within which it will send something; 0 for no bound.
        keep_alive_s: u16,
        /// `true` if its version is unsupported.
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
    /// Returns the reason code of version 5.
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

/// A packet as parsed so far: its bytes up to a payload, and the length of that.
struct Packet<'a> {
    first: u8,
    content: &'a [u8],
    head_bytes: usize,
    payload_bytes: u32,
}

impl Broker {
    /// Reports whether the broker is between packets, and dropping it would lose no state.
    pub const fn is_idle(&self) -> bool {
        self.partial.is_empty() && self.payload_left == 0
    }

    /// Returns the memory of an incomplete packet.
    pub const fn kept_bytes(&self) -> usize {
        self.partial.capacity()
    }

    /// Handles bytes from the client up to the end of a packet; returns how many were consumed, and
    /// what the packet means, if one has ended. The answer is appended to `to.reply`, what is delivered to
    /// `to.delivery`. After an error the reply ends with the reason, if the client's version has one.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        terms: Terms,
        own: &mut Subscriptions,
        to: Output<'_>,
    ) -> Result<(usize, Option<Event>), BrokerError> {
        let Output { reply, delivery } = to;
        let read = self.read(input, terms, own, Output { reply: &mut *reply, delivery });
        if let (Err(error), Some(MqttVersion::V5)) = (&read, terms.connected) {
            reply.extend_from_slice(&[DISCONNECT, 1, error.reason()]);
        }
        read
    }

    fn read(
        &mut self,
        input: &[u8],
        terms: Terms,
        own: &mut Subscriptions,
        to: Output<'_>,
    ) -> Result<(usize, Option<Event>), BrokerError> {
        if self.payload_left > 0 {
            let taken = input.len().min(self.payload_left as usize);
            self.payload_left -= taken as u32;
            if self.is_delivered {
                self.partial.extend_from_slice(input.get(..taken).unwrap_or_default());
            }
            if self.payload_left > 0 {
                return Ok((taken, None));
            }
            self.end_payload(to);
            return Ok((taken, Some(Event::Published)));
        }
        if self.partial.is_empty() {
            let Some(packet) = Packet::parse(input)? else {
                self.keep(input)?;
                return Ok((input.len(), None));
            };
            return Ok((packet.head_bytes, self.begin(&packet, terms, own, to)?));
        }
        let kept = self.partial.len();
        let mut partial = std::mem::take(&mut self.partial);
        let room = KEPT_BYTES_MAX.saturating_sub(kept);
        partial.extend_from_slice(input.get(..room).unwrap_or(input));
        let Some(packet) = Packet::parse(&partial)? else {
            self.keep(&partial)?;
            return Ok((input.len(), None));
        };
        let event = self.begin(&packet, terms, own, to)?;
        Ok((packet.head_bytes.saturating_sub(kept), event))
    }

    /// Answers a packet; one with a payload when that has come.
    fn begin(
        &mut self,
        packet: &Packet<'_>,
        terms: Terms,
        own: &mut Subscriptions,
        to: Output<'_>,
    ) -> Result<Option<Event>, BrokerError> {
        let Some(version) = terms.connected.filter(|_| packet.first & 0xF0 == PUBLISH) else {
            return answer(packet, terms, own, to.reply).map(Some);
        };
        self.partial.clear();
        let topic = publish(packet, &mut self.partial)?;
        self.answer_bytes = self.partial.len() as u8;
        // Version 5 has the length of properties at least.
        if version == MqttVersion::V5 && packet.payload_bytes == 0 {
            return malformed("a PUBLISH without properties");
        }
        let qos = (!own.is_empty()).then(|| own.own_qos(topic)).flatten();
        self.is_delivered = qos.is_some();
        if let Some(wanted) = qos {
            if packet.payload_bytes > DELIVERED_BYTES_MAX {
                return Err(BrokerError::TooLarge("a message of more than 1 MiB to itself"));
            }
            self.begin_delivery(packet, topic, wanted.min(packet.first >> 1 & 3), own);
        }
        self.payload_left = packet.payload_bytes;
        if packet.payload_bytes > 0 {
            return Ok(None);
        }
        self.end_payload(to);
        Ok(Some(Event::Published))
    }

    /// Appends the head of what is delivered.
    fn begin_delivery(
        &mut self,
        packet: &Packet<'_>,
        topic: &str,
        qos: u8,
        own: &mut Subscriptions,
    ) {
        let id_bytes = if qos > 0 { 2 } else { 0 };
        let length = 2 + topic.len() + id_bytes + packet.payload_bytes as usize;
        packet::begin(&mut self.partial, PUBLISH | qos << 1, length);
        self.partial.extend_from_slice(&(topic.len() as u16).to_be_bytes());
        self.partial.extend_from_slice(topic.as_bytes());
        if qos > 0 {
            self.partial.extend_from_slice(&own.take_id().to_be_bytes());
        }
    }

    /// Ends a complete message.
    fn end_payload(&mut self, to: Output<'_>) {
        let (answer, delivered) = self.partial.split_at(self.answer_bytes.into());
        to.reply.extend_from_slice(answer);
        to.delivery.extend_from_slice(delivered);
        match self.partial.capacity() > SPARE_BYTES_MAX {
            true => self.partial = Vec::new(),
            false => self.partial.clear(),
        }
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
    /// Reads a packet from its first byte, a PUBLISH up to its payload; `None` if more is needed.
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
fn answer(
    packet: &Packet<'_>,
    terms: Terms,
    own: &mut Subscriptions,
    reply: &mut Vec<u8>,
) -> Result<Event, BrokerError> {
    let content = packet.content;
    let Some(version) = terms.connected else {
        return if packet.first == CONNECT {
            connect(content, terms.receive_maximum, reply)
        } else {
            malformed("the first packet is not CONNECT")
        };
    };
    match packet.first {
        CONNECT => return malformed("a second CONNECT"),
        PINGREQ if !content.is_empty() => return malformed("a PINGREQ that has content"),
        PINGREQ => reply.extend_from_slice(&[PINGRESP, 0]),
        DISCONNECT => return Ok(Event::Disconnected),
        PUBREL => acknowledgement(reply, PUBCOMP, identifier(content)?),
        SUBSCRIBE | UNSUBSCRIBE => subscribe(packet.first, content, version, own, reply)?,
        PUBACK | PUBREC | PUBCOMP if own.is_empty() => return malformed(NOT_SENT),
        PUBREC => acknowledgement(reply, PUBREL, identifier(content)?),
        _ => _ = identifier(content)?,
    }
    Ok(Event::Answered)
}

/// Appends the acknowledgement of a PUBLISH; returns its topic.
fn publish<'a>(packet: &Packet<'a>, reply: &mut Vec<u8>) -> Result<&'a str, BrokerError> {
    let mut fields = Fields { rest: packet.content };
    let topic = fields.text()?;
    if !is_topic(topic) {
        return malformed("a PUBLISH whose topic is no topic");
    }
    match packet.first >> 1 & 3 {
        0 => {}
        1 => acknowledgement(reply, PUBACK, identifier(fields.rest)?),
        _ => acknowledgement(reply, PUBREC, identifier(fields.rest)?),
    }
    Ok(topic)
}

fn identifier(content: &[u8]) -> Result<u16, BrokerError> {
    match content {
        [0, 0, ..] => malformed("a packet with the identifier 0"),
        [high, low, ..] => Ok(u16::from_be_bytes([*high, *low])),
        _ => malformed("a packet without an identifier"),
    }
}

/// The fields of a packet, from its beginning.
struct Fields<'a> {
    rest: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Returns the next bytes, whose length is in the two before.
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

    /// Reads text: UTF-8 without a null character.
    fn text(&mut self) -> Result<&'a str, BrokerError> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(text) if !text.as_bytes().contains(&0) => Ok(text),
            _ => malformed("a text that is not UTF-8, or has a null character"),
        }
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
    // MQTT 3.1 has another name and the same return codes, so that its client learns why.
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
        if version == MqttVersion::V3_1_1 && !is_named && flags & CLEAN == 0 {
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
    let mut properties = vec![SESSION_EXPIRY, 0, 0, 0, 0, RECEIVE_MAXIMUM];
    properties.extend_from_slice(&receive_maximum.to_be_bytes());
    if !is_named {
        let id = format!("plimsoll-{}", IDENTIFIERS.fetch_add(1, Relaxed));
        properties.push(ASSIGNED_CLIENT_ID);
        properties.extend_from_slice(&(id.len() as u16).to_be_bytes());
        properties.extend_from_slice(id.as_bytes());
    }
    // Far below 128 bytes: each length takes one.
    let length = properties.len() as u8;
    reply.extend_from_slice(&[CONNACK, 3 + length, 0, SUCCESS, length]);
    reply.extend_from_slice(&properties);
}

/// Quality of service and retaining of the will.
const OF_WILL: u8 = 0b111 << 3;

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
    if version == MqttVersion::V3_1_1 && has(PASSWORD) && !has(USER_NAME) {
        return malformed("a CONNECT with a password and no user");
    }
    fields.properties(version)?;
    let is_named = !fields.text()?.is_empty();
    if has(WILL) {
        fields.properties(version)?;
        fields.text()?;
        fields.bytes()?;
    }
    if has(USER_NAME) {
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
    own: &mut Subscriptions,
    reply: &mut Vec<u8>,
) -> Result<(), BrokerError> {
    let id = identifier(content)?;
    let mut fields = Fields { rest: content.get(2..).unwrap_or_default() };
    fields.properties(version)?;
    let mut granted = Vec::new();
    while !fields.rest.is_empty() {
        let filter = fields.text()?;
        if !is_filter(filter) {
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
            let qos = quality(*options, version)?;
            granted.push(if own.add(filter, *options) { qos } else { NOT_GRANTED });
        } else {
            own.remove(filter);
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
    reply.extend_from_slice(&id.to_be_bytes());
    reply.extend_from_slice(properties);
    reply.extend_from_slice(&codes);
    Ok(())
}

/// Returns the quality of service that the options of a subscription ask for.
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
mod tests;
