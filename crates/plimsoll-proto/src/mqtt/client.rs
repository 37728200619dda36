//! The client half: what the broker's packets mean for the one packet that is open.

use plimsoll_model::ErrorClass;
use plimsoll_model::target::MqttVersion;
use thiserror::Error;

use super::packet::{
    CONNACK, DISCONNECT, PINGRESP, PUBACK, PUBCOMP, PUBLISH, PUBREC, RETAIN, SUBACK, pubrel,
};
use super::{PACKET_ID, reason_name};

/// A reason from here on says that something failed.
const FAILURE: u8 = 0x80;
/// Bytes of a packet's content that matter: flags and code, or identifier and reason.
const KEPT_BYTES: usize = 3;
/// A broker's answer to a publish, a ping or one subscription is far shorter. What it delivers may be
/// longer: it is skipped.
const ANSWER_BYTES_MAX: u32 = 65_536;
/// Bytes of a remaining length.
const LENGTH_BYTES_MAX: u8 = 4;

/// Reads what the broker sends on one connection. After an error it is of no more use.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    version: MqttVersion,
    awaited: Awaited,
    part: Part,
    /// First byte of the packet that is being read.
    first: u8,
    kept: [u8; KEPT_BYTES],
    kept_bytes: u8,
    /// Last byte of the content so far.
    last: u8,
}

/// Lent to each connection that awaits something.
const _: () = assert!(size_of::<Client>() <= 24);

/// What the broker is to send next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Nothing,
    /// With `subscribes` SUBACK comes after it.
    Connack {
        subscribes: bool,
    },
    Suback,
    /// The acknowledgement of a publish at QoS 1.
    Puback,
    /// The first one at QoS 2.
    Pubrec,
    /// The last one at QoS 2.
    Pubcomp,
    Pingresp,
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

/// The result of handling bytes from the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes were consumed; nothing has ended.
    NeedMore,
    /// The broker has accepted the connection, and the subscription if there is one.
    Connected,
    /// The open publish or ping is answered.
    Complete,
    /// The broker has refused the open publish, for this reason.
    Rejected(u8),
}

/// Why the connection is of no more use.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum MqttError {
    /// The answer to CONNECT is a refusal.
    #[error("the broker refuses the connection: {}, reason {code:#04x}", reason_name(*.version, *.code))]
    Refused {
        /// As the client spoke.
        version: MqttVersion,
        /// CONNACK's.
        code: u8,
    },
    /// The answer to SUBSCRIBE is a refusal.
    #[error("the broker refuses the subscription: {}, reason {code:#04x}", reason_name(MqttVersion::V5, *.code))]
    NotSubscribed {
        /// SUBACK's.
        code: u8,
    },
    /// The broker says why it closes (MQTT 5).
    #[error("the broker disconnects: {}, reason {code:#04x}", reason_name(MqttVersion::V5, *.code))]
    Disconnected {
        /// DISCONNECT's.
        code: u8,
    },
    /// Not MQTT, or a packet that nothing asked for.
    #[error("the answer is not valid MQTT: {what}; check that the URL's port is the broker's")]
    Malformed {
        /// What is wrong.
        what: &'static str,
    },
}

impl MqttError {
    /// The class in which the operation ends.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Refused { .. } => ErrorClass::MqttRefused,
            Self::NotSubscribed { .. } => ErrorClass::MqttRejected,
            Self::Disconnected { .. } => ErrorClass::MqttDisconnected,
            Self::Malformed { .. } => ErrorClass::MqttMalformed,
        }
    }
}

impl Client {
    /// For a connection on which nothing was sent yet.
    pub const fn new(version: MqttVersion) -> Self {
        Self {
            version,
            awaited: Awaited::Nothing,
            part: Part::First,
            first: 0,
            kept: [0; KEPT_BYTES],
            kept_bytes: 0,
            last: 0,
        }
    }

    /// A CONNECT is sent, with `subscribes` a SUBSCRIBE behind it.
    pub const fn expect_connack(&mut self, subscribes: bool) {
        self.awaited = Awaited::Connack { subscribes };
    }

    /// A PUBLISH at QoS 1 or, with `exactly_once`, 2 is sent.
    pub const fn expect_acknowledgement(&mut self, exactly_once: bool) {
        self.awaited = if exactly_once { Awaited::Pubrec } else { Awaited::Puback };
    }

    /// A PINGREQ is sent.
    pub const fn expect_pingresp(&mut self) {
        self.awaited = Awaited::Pingresp;
    }

    /// Whether it stands between packets, and nothing would be lost by dropping it.
    pub fn is_idle(&self) -> bool {
        self.part == Part::First && self.awaited == Awaited::Nothing
    }

    /// Handles bytes from the broker, up to the packet that ends something; returns how many were
    /// consumed, and the result. What must be sent at once is appended to `reply`.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(usize, Progress), MqttError> {
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
                let progress = self.end_packet(reply)?;
                if progress != Progress::NeedMore {
                    return Ok((input.len() - rest.len(), progress));
                }
            }
        }
        Ok((input.len(), Progress::NeedMore))
    }

    fn keep(&mut self, content: &[u8]) {
        let room = self.kept.iter_mut().skip(usize::from(self.kept_bytes));
        for (to, from) in room.zip(content) {
            *to = *from;
            self.kept_bytes += 1;
        }
        self.last = content.last().copied().unwrap_or(self.last);
    }

    /// A packet is complete: what it means.
    fn end_packet(&mut self, reply: &mut Vec<u8>) -> Result<Progress, MqttError> {
        if is_delivery(self.first) {
            return Ok(Progress::NeedMore);
        }
        let awaited = std::mem::replace(&mut self.awaited, Awaited::Nothing);
        let kept = self.kept.get(..usize::from(self.kept_bytes)).unwrap_or_default();
        match (self.first, awaited) {
            (CONNACK, Awaited::Connack { subscribes }) => match kept {
                [_, 0, ..] if subscribes => {
                    self.awaited = Awaited::Suback;
                    Ok(Progress::NeedMore)
                }
                [_, 0, ..] => Ok(Progress::Connected),
                [_, code, ..] => Err(MqttError::Refused { version: self.version, code: *code }),
                _ => malformed("a CONNACK of less than two bytes"),
            },
            // One filter was asked for: its code is the last byte.
            (SUBACK, Awaited::Suback) => match self.last {
                _ if kept.len() < KEPT_BYTES => malformed("a SUBACK of less than three bytes"),
                code if code >= FAILURE => Err(MqttError::NotSubscribed { code }),
                _ => Ok(Progress::Connected),
            },
            (PUBACK, Awaited::Puback) | (PUBCOMP, Awaited::Pubcomp) => Ok(match failure(kept)? {
                Some(code) => Progress::Rejected(code),
                None => Progress::Complete,
            }),
            (PUBREC, Awaited::Pubrec) => match failure(kept)? {
                Some(code) => Ok(Progress::Rejected(code)),
                None => {
                    pubrel(reply);
                    self.awaited = Awaited::Pubcomp;
                    Ok(Progress::NeedMore)
                }
            },
            (PINGRESP, Awaited::Pingresp) => Ok(Progress::Complete),
            (DISCONNECT, _) if self.version == MqttVersion::V5 => {
                Err(MqttError::Disconnected { code: kept.first().copied().unwrap_or_default() })
            }
            _ => malformed("a packet that nothing asked for"),
        }
    }
}

const fn malformed<T>(what: &'static str) -> Result<T, MqttError> {
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
const fn is_delivery(first: u8) -> bool {
    first & !RETAIN == PUBLISH
}

/// The reason of an acknowledgement, where it is a failure.
const fn failure(kept: &[u8]) -> Result<Option<u8>, MqttError> {
    match kept {
        [high, low, ..] if u16::from_be_bytes([*high, *low]) != PACKET_ID => {
            malformed("an acknowledgement of a packet that was not sent")
        }
        [_, _, code, ..] if *code >= FAILURE => Ok(Some(*code)),
        [_, _, ..] => Ok(None),
        _ => malformed("an acknowledgement without an identifier"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const V5: MqttVersion = MqttVersion::V5;

    fn client(expect: impl FnOnce(&mut Client)) -> Client {
        let mut client = Client::new(V5);
        expect(&mut client);
        client
    }

    #[test]
    fn answers() {
        let of = |expect: fn(&mut Client), bytes: &[u8]| {
            client(expect).handle_bytes(bytes, &mut Vec::new())
        };
        let connack: fn(&mut Client) = |client| client.expect_connack(false);
        let acknowledged: fn(&mut Client) = |client| client.expect_acknowledgement(false);
        assert_eq!(of(connack, b"\x20\x03\0\0\0"), Ok((5, Progress::Connected)));
        assert_eq!(of(acknowledged, b"\x40\x02\0\x01rest"), Ok((4, Progress::Complete)));
        assert_eq!(of(acknowledged, b"\x40\x04\0\x01\x97\0"), Ok((6, Progress::Rejected(0x97))));
        assert_eq!(of(Client::expect_pingresp, b"\xD0\0"), Ok((2, Progress::Complete)));
        let refused = of(connack, b"\x20\x03\0\x87\0").unwrap_err();
        assert_eq!(refused.class(), ErrorClass::MqttRefused);
        let text = "the broker refuses the connection: not authorized, reason 0x87";
        assert_eq!(refused.to_string(), text);
        let ended = of(acknowledged, b"\xE0\x02\x8E\0").unwrap_err();
        assert_eq!(ended.to_string(), "the broker disconnects: session taken over, reason 0x8e");
        for (bytes, what) in [
            (&b"HTTP/1.1 400 Bad Request"[..], "as HTTP does"),
            (b"\x40\x02\0\x02", "was not sent"),
            (b"\x20\x03\0\0\0", "nothing asked for"),
            (b"\x40\xFF\xFF\xFF\xFF\x01", "more than four bytes"),
            (b"\x40\x80\x80\x08", "more than 64 KiB"),
            (b"\x40\x01\0", "without an identifier"),
        ] {
            let error = of(acknowledged, bytes).unwrap_err();
            assert_eq!(error.class(), ErrorClass::MqttMalformed);
            assert!(error.to_string().contains(what), "{error}");
        }
    }

    #[test]
    fn usable_once_the_subscription_is_granted() {
        let of = |bytes: &[u8]| {
            client(|client| client.expect_connack(true)).handle_bytes(bytes, &mut Vec::new())
        };
        let granted = b"\x20\x03\0\0\0\x90\x04\0\x01\0\0";
        assert_eq!(of(&granted[..5]), Ok((5, Progress::NeedMore)));
        assert_eq!(of(granted), Ok((11, Progress::Connected)));
        let refused = of(b"\x20\x03\0\0\0\x90\x04\0\x01\0\x8F").unwrap_err();
        assert_eq!(refused.class(), ErrorClass::MqttRejected);
        let text = "the broker refuses the subscription: topic filter invalid, reason 0x8f";
        assert_eq!(refused.to_string(), text);
    }

    #[test]
    fn deliveries_are_read_past_whatever_is_awaited() {
        let mut pinging = client(Client::expect_pingresp);
        let mut bytes = b"\x31\x06\0\x01a\0hi\x30\xF0\xA2\x04".to_vec();
        bytes.resize(bytes.len() + 70_000, b'x');
        bytes.extend_from_slice(b"\xD0\0");
        let read = pinging.handle_bytes(&bytes, &mut Vec::new());
        assert_eq!(read, Ok((bytes.len(), Progress::Complete)));
        assert!(pinging.is_idle());
    }

    #[test]
    fn exactly_once_takes_two_round_trips() {
        let mut client = client(|client| client.expect_acknowledgement(true));
        let mut reply = Vec::new();
        assert_eq!(client.handle_bytes(b"\x50\x02\0\x01", &mut reply), Ok((4, Progress::NeedMore)));
        assert_eq!(reply, b"\x62\x02\0\x01");
        assert_eq!(client.handle_bytes(b"\x70\x02\0\x01", &mut reply), Ok((4, Progress::Complete)));
        assert!(client.is_idle());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic_and_cuts_change_nothing(
            bytes in prop_oneof![
                any::<Vec<u8>>(),
                prop::collection::vec(
                    prop::sample::select(vec![&b"\x50\x02\0\x01"[..], b"\x70\x02\0\x01", b"\xD0\0"]),
                    0..4,
                ).prop_map(|packets| packets.concat()),
            ],
            cut in any::<prop::sample::Index>(),
        ) {
            let read = |pieces: &[&[u8]]| {
                let mut client = client(|client| client.expect_acknowledgement(true));
                let (mut reply, mut events) = (Vec::new(), Vec::new());
                for piece in pieces {
                    let mut rest = *piece;
                    while !rest.is_empty() {
                        match client.handle_bytes(rest, &mut reply) {
                            Ok((consumed, progress)) => {
                                rest = &rest[consumed..];
                                events.push(progress);
                            }
                            Err(error) => return (events, reply, Some(error)),
                        }
                    }
                }
                events.retain(|progress| *progress != Progress::NeedMore);
                (events, reply, None)
            };
            let cut = cut.index(bytes.len() + 1);
            let (mut whole, pieces) = (read(&[&bytes]), read(&[&bytes[..cut], &bytes[cut..]]));
            whole.0.retain(|progress| *progress != Progress::NeedMore);
            let mut pieces = pieces;
            pieces.0.retain(|progress| *progress != Progress::NeedMore);
            prop_assert_eq!(whole, pieces);
        }
    }
}
