//! The client half: what the broker's packets mean for the one packet that is open.

use plimsoll_model::ErrorClass;
use plimsoll_model::target::MqttVersion;
use thiserror::Error;

use super::packet::{
    CONNACK, DISCONNECT, PINGRESP, PUBACK, PUBCOMP, PUBREC, PUBREL, SUBACK, pubrel,
};
use super::reader::{Reader, is_delivery, malformed};
use super::{PACKET_ID, reason_name};

/// A reason from here on says that something failed.
const FAILURE: u8 = 0x80;
/// Bytes of a packet's content that matter: flags and code, or identifier and reason.
const KEPT_BYTES: usize = 3;

/// Reads what the broker sends on one connection. After an error it is of no more use.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    version: MqttVersion,
    awaited: Awaited,
    reader: Reader<KEPT_BYTES>,
}

/// Lent to each connection that awaits something.
const _: () = assert!(size_of::<Client>() <= 28);

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
        Self { version, awaited: Awaited::Nothing, reader: Reader::new() }
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
        self.reader.is_idle() && self.awaited == Awaited::Nothing
    }

    /// Handles bytes from the broker, up to the packet that ends something; returns how many were
    /// consumed, and the result. What must be sent at once is appended to `reply`.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(usize, Progress), MqttError> {
        let mut consumed = 0;
        while let (read, Some(first)) =
            self.reader.read(input.get(consumed..).unwrap_or_default(), self.version)?
        {
            consumed += read;
            let progress = self.end_packet(first, reply)?;
            if progress != Progress::NeedMore {
                return Ok((consumed, progress));
            }
        }
        Ok((input.len(), Progress::NeedMore))
    }

    /// A packet is complete: what it means.
    fn end_packet(&mut self, first: u8, reply: &mut Vec<u8>) -> Result<Progress, MqttError> {
        if is_delivery(first) || first == PUBREL {
            self.reader.answer_delivery(reply);
            return Ok(Progress::NeedMore);
        }
        let awaited = std::mem::replace(&mut self.awaited, Awaited::Nothing);
        let content = self.reader.content();
        match (first, awaited) {
            (CONNACK, Awaited::Connack { subscribes }) => {
                check_connack(content, self.version)?;
                if !subscribes {
                    return Ok(Progress::Connected);
                }
                self.awaited = Awaited::Suback;
                Ok(Progress::NeedMore)
            }
            (SUBACK, Awaited::Suback) => {
                check_suback(content, self.reader.last())?;
                Ok(Progress::Connected)
            }
            (PUBACK, Awaited::Puback) | (PUBCOMP, Awaited::Pubcomp) => {
                Ok(match failure(content)? {
                    Some(code) => Progress::Rejected(code),
                    None => Progress::Complete,
                })
            }
            (PUBREC, Awaited::Pubrec) => match failure(content)? {
                Some(code) => Ok(Progress::Rejected(code)),
                None => {
                    pubrel(reply, PACKET_ID);
                    self.awaited = Awaited::Pubcomp;
                    Ok(Progress::NeedMore)
                }
            },
            (PINGRESP, Awaited::Pingresp) => Ok(Progress::Complete),
            (DISCONNECT, _) => Err(disconnected(content, self.version)),
            _ => malformed("a packet that nothing asked for"),
        }
    }
}

/// What a CONNACK says of the connection.
pub(super) const fn check_connack(content: &[u8], version: MqttVersion) -> Result<(), MqttError> {
    match content {
        [_, 0, ..] => Ok(()),
        [_, code, ..] => Err(MqttError::Refused { version, code: *code }),
        _ => malformed("a CONNACK of less than two bytes"),
    }
}

/// What a SUBACK says of the one filter that was asked for: its code is the `last` byte.
pub(super) const fn check_suback(content: &[u8], last: u8) -> Result<(), MqttError> {
    match last {
        _ if content.len() < KEPT_BYTES => malformed("a SUBACK of less than three bytes"),
        code if code >= FAILURE => Err(MqttError::NotSubscribed { code }),
        _ => Ok(()),
    }
}

/// What a DISCONNECT says, which only brokers of version 5 send.
pub(super) fn disconnected(content: &[u8], version: MqttVersion) -> MqttError {
    match version {
        MqttVersion::V5 => {
            MqttError::Disconnected { code: content.first().copied().unwrap_or_default() }
        }
        MqttVersion::V3_1_1 => MqttError::Malformed { what: "a packet that nothing asked for" },
    }
}

/// The identifier of an acknowledgement, and its reason where that is a failure.
pub(super) const fn acknowledged(content: &[u8]) -> Result<(u16, Option<u8>), MqttError> {
    match content {
        [high, low, code, ..] if *code >= FAILURE => {
            Ok((u16::from_be_bytes([*high, *low]), Some(*code)))
        }
        [high, low, ..] => Ok((u16::from_be_bytes([*high, *low]), None)),
        _ => malformed("an acknowledgement without an identifier"),
    }
}

/// Of a packet that nothing is open for.
pub(super) const NOT_SENT: &str = "an acknowledgement of a packet that was not sent";

/// The reason of the acknowledgement of the one open packet, where it is a failure.
const fn failure(content: &[u8]) -> Result<Option<u8>, MqttError> {
    match acknowledged(content) {
        Ok((PACKET_ID, reason)) => Ok(reason),
        Ok(_) => malformed(NOT_SENT),
        Err(error) => Err(error),
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
    fn deliveries_are_acknowledged() {
        let mut pinging = client(Client::expect_pingresp);
        let mut reply = Vec::new();
        let bytes = b"\x32\x07\0\x01a\0\x05\0x\x3D\x06\0\x01a\0\x06\0\x62\x02\0\x06\xD0\0";
        let read = pinging.handle_bytes(bytes, &mut reply);
        assert_eq!(read, Ok((bytes.len(), Progress::Complete)));
        assert_eq!(reply, b"\x40\x02\0\x05\x50\x02\0\x06\x70\x02\0\x06");
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
                    prop::sample::select(vec![&b"\x50\x02\0\x01"[..], b"\x70\x02\0\x01", b"\xD0\0",
                        b"\x32\x06\0\x01a\0\x05\0", b"\x62\x02\0\x05"]),
                    0..6,
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
