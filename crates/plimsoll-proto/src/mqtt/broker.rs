//! The broker half: it accepts every client, acknowledges what is published and delivers nothing.

use plimsoll_model::target::MqttVersion;
use thiserror::Error;

use super::packet::{
    CONNACK, CONNECT, DISCONNECT, PINGREQ, PINGRESP, PUBACK, PUBCOMP, PUBLISH, PUBREC, PUBREL,
    SUBACK, SUBSCRIBE, UNSUBACK, UNSUBSCRIBE,
};

/// Longest packet but a PUBLISH, whose payload may be as long as MQTT allows.
pub const PACKET_BYTES_MAX: usize = 65_536;
/// Topic filters of one SUBSCRIBE or UNSUBSCRIBE.
pub const FILTERS_MAX: usize = 256;

const SUCCESS: u8 = 0;
const QOS_MAX: u8 = 2;
const UNSUPPORTED_VERSION_3: u8 = 1;
const UNSUPPORTED_VERSION_5: u8 = 0x84;

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
    /// what the packet means, if one has ended. The answer is appended to `reply`. `connected` is the
    /// version of a client whose CONNECT was accepted.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        connected: Option<MqttVersion>,
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
            return Ok((packet.head_bytes, self.begin(&packet, connected, reply)?));
        }
        let kept = self.partial.len();
        let mut partial = std::mem::take(&mut self.partial);
        let room = (PACKET_BYTES_MAX + HEAD_BYTES_MAX).saturating_sub(kept);
        partial.extend_from_slice(input.get(..room).unwrap_or(input));
        let Some(packet) = Packet::parse(&partial)? else {
            self.keep(&partial)?;
            return Ok((input.len(), None));
        };
        let event = self.begin(&packet, connected, reply)?;
        Ok((packet.head_bytes.saturating_sub(kept), event))
    }

    /// Answers a packet; one with a payload when that has come.
    fn begin(
        &mut self,
        packet: &Packet<'_>,
        connected: Option<MqttVersion>,
        reply: &mut Vec<u8>,
    ) -> Result<Option<Event>, BrokerError> {
        if packet.payload_bytes == 0 {
            return answer(packet, connected, reply).map(Some);
        }
        let mut acknowledgement = Vec::new();
        answer(packet, connected, &mut acknowledgement)?;
        self.partial = acknowledgement;
        self.payload_left = packet.payload_bytes;
        Ok(None)
    }

    fn keep(&mut self, bytes: &[u8]) -> Result<(), BrokerError> {
        if bytes.len() >= PACKET_BYTES_MAX + HEAD_BYTES_MAX {
            return Err(BrokerError::TooLarge("a packet of more than 64 KiB"));
        }
        self.partial = bytes.to_vec();
        Ok(())
    }
}

/// First byte and remaining length.
const HEAD_BYTES_MAX: usize = 5;

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

/// The remaining length, and how many bytes it takes; `None` where it is not complete.
fn remaining_length(bytes: &[u8]) -> Result<Option<(u32, usize)>, BrokerError> {
    let mut length = 0;
    for (index, byte) in bytes.iter().take(4).enumerate() {
        length |= u32::from(byte & 0x7F) << (7 * index);
        if byte & 0x80 == 0 {
            return Ok(Some((length, index + 1)));
        }
    }
    if bytes.len() >= 4 {
        malformed("a remaining length of more than four bytes")
    } else {
        Ok(None)
    }
}

/// Appends the answer to a packet; returns what it means.
fn answer(
    packet: &Packet<'_>,
    connected: Option<MqttVersion>,
    reply: &mut Vec<u8>,
) -> Result<Event, BrokerError> {
    let content = packet.content;
    let Some(version) = connected else {
        return if packet.first == CONNECT {
            connect(content, reply)
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
            if qos > 0 {
                let Some((_, id)) = content.split_last_chunk::<2>() else {
                    return malformed("a PUBLISH without an identifier");
                };
                acknowledge(reply, if qos == 1 { PUBACK } else { PUBREC }, *id);
            }
            Ok(Event::Published)
        }
        // Nothing is delivered, so that nothing can be acknowledged.
        _ => malformed("an acknowledgement of a packet that was not sent"),
    }
}

fn identifier(content: &[u8]) -> Result<[u8; 2], BrokerError> {
    match content {
        [high, low, ..] => Ok([*high, *low]),
        _ => malformed("a packet without an identifier"),
    }
}

/// Answers CONNECT.
fn connect(content: &[u8], reply: &mut Vec<u8>) -> Result<Event, BrokerError> {
    let [0, 4, b'M', b'Q', b'T', b'T', level, flags, high, low, rest @ ..] = content else {
        return malformed("a CONNECT that does not name MQTT");
    };
    if flags & 1 != 0 {
        return malformed("a CONNECT with its reserved flag set");
    }
    if rest.len() < 2 {
        return malformed("a CONNECT without a client identifier");
    }
    let keep_alive_s = u16::from_be_bytes([*high, *low]);
    let (version, is_refused) = match level {
        4 => (MqttVersion::V3_1_1, false),
        5 => (MqttVersion::V5, false),
        // What it would understand is not known.
        0..=3 => (MqttVersion::V3_1_1, true),
        _ => (MqttVersion::V5, true),
    };
    match (version, is_refused) {
        (MqttVersion::V3_1_1, false) => reply.extend_from_slice(&[CONNACK, 2, 0, SUCCESS]),
        (MqttVersion::V3_1_1, true) => {
            reply.extend_from_slice(&[CONNACK, 2, 0, UNSUPPORTED_VERSION_3]);
        }
        (MqttVersion::V5, false) => reply.extend_from_slice(&[CONNACK, 3, 0, SUCCESS, 0]),
        (MqttVersion::V5, true) => {
            reply.extend_from_slice(&[CONNACK, 3, 0, UNSUPPORTED_VERSION_5, 0]);
        }
    }
    Ok(Event::Connected { version, keep_alive_s, is_refused })
}

/// Grants what SUBSCRIBE asks for, forgets what UNSUBSCRIBE names.
fn subscribe(
    first: u8,
    content: &[u8],
    version: MqttVersion,
    reply: &mut Vec<u8>,
) -> Result<(), BrokerError> {
    let id = identifier(content)?;
    let mut rest = content.get(2..).unwrap_or_default();
    if version == MqttVersion::V5 {
        let Some((length, bytes)) = remaining_length(rest)? else {
            return malformed("a subscription that ends within its properties");
        };
        let Some(behind) = rest.get(bytes + length as usize..) else {
            return malformed("a subscription that ends within its properties");
        };
        rest = behind;
    }
    let mut granted = Vec::new();
    while let [high, low, behind @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low]));
        let Some(behind) = behind.get(length..) else {
            return malformed("a topic filter that is cut off");
        };
        if granted.len() == FILTERS_MAX {
            return Err(BrokerError::TooLarge("more than 256 topic filters at once"));
        }
        rest = behind;
        if first == SUBSCRIBE {
            let Some((options, behind)) = rest.split_first() else {
                return malformed("a topic filter without options");
            };
            granted.push((options & 3).min(QOS_MAX));
            rest = behind;
        } else {
            granted.push(SUCCESS);
        }
    }
    if granted.is_empty() || !rest.is_empty() {
        return malformed("a subscription without a topic filter");
    }
    let (first, codes) = match (first, version) {
        (SUBSCRIBE, _) => (SUBACK, granted),
        (_, MqttVersion::V5) => (UNSUBACK, granted),
        // 3.1.1 has no codes here.
        (_, MqttVersion::V3_1_1) => (UNSUBACK, Vec::new()),
    };
    let properties: &[u8] = if version == MqttVersion::V5 { &[0] } else { &[] };
    super::packet::begin(reply, first, 2 + properties.len() + codes.len());
    reply.extend_from_slice(&id);
    reply.extend_from_slice(properties);
    reply.extend_from_slice(&codes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use plimsoll_model::target::{Publish, Qos};
    use proptest::prelude::*;

    use super::super::packet;
    use super::*;

    type Seen = (Vec<Event>, Vec<u8>, Option<BrokerError>);

    /// All events of `bytes`, given in pieces, and what was answered.
    fn read(pieces: &[&[u8]]) -> Seen {
        let (mut broker, mut reply) = (Broker::new(), Vec::new());
        let (mut events, mut connected) = (Vec::new(), None);
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                match broker.handle_bytes(rest, connected, &mut reply) {
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
    fn session(version: MqttVersion, payload: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        packet::connect(&mut out, version, "a client", 60);
        for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
            let publish = Publish { topic: "a/b".to_owned(), qos, retain: false };
            packet::publish(&mut out, version, &publish, payload);
        }
        packet::pubrel(&mut out);
        packet::pingreq(&mut out);
        packet::disconnect(&mut out);
        out
    }

    #[test]
    fn our_client_is_served() {
        for (version, connack) in
            [(MqttVersion::V3_1_1, &b"\x20\x02\0\0"[..]), (MqttVersion::V5, b"\x20\x03\0\0\0")]
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
        packet::connect(&mut bytes, MqttVersion::V5, "s", 0);
        bytes.extend_from_slice(b"\x82\x0D\0\x07\0\0\x01a\x01\0\x03b/#\x02");
        bytes.extend_from_slice(b"\xA2\x06\0\x08\0\0\x01a");
        let (_, reply, error) = read(&[&bytes]);
        let expected = b"\x20\x03\0\0\0\x90\x05\0\x07\0\x01\x02\xB0\x04\0\x08\0\0";
        assert_eq!((&reply[..], error), (&expected[..], None));
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
        packet::connect(&mut twice, MqttVersion::V5, "a", 0);
        packet::connect(&mut twice, MqttVersion::V5, "a", 0);
        assert!(of(&twice).contains("second CONNECT"));
        let (events, reply, _) = read(&[b"\x10\x0D\0\x04MQTT\x06\x02\0\0\0\0\0"]);
        assert!(matches!(events[..], [Event::Connected { is_refused: true, .. }]));
        assert_eq!(reply, b"\x20\x03\0\x84\0");
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
