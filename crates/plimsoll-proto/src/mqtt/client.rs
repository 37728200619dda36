//! The client half of MQTT: answers to the one open packet, and to pings beside it.
//!
//! [`Opening`] reads until the connection is usable; [`Opening::finish`] then yields a [`Client`] of at most 28
//! bytes. The `expect_…` functions set the awaited packet, and [`Client::handle_bytes`] reads packets until one
//! completes an operation or answers a keep-alive ping. Deliveries and PUBREL are answered in `reply` and end
//! nothing. PINGRESPs have no identifier, so pings before and behind an awaited one are counted. Start reading at
//! `Client::end_packet`.

use plimsoll_model::target::MqttVersion;

use super::PACKET_ID;
use super::error::{NOT_SENT, Result, UNASKED, disconnected, malformed};
use super::greeting::{Greeting, Needs};
use super::packet::{
    DISCONNECT, PINGRESP, PUBACK, PUBCOMP, PUBREC, PUBREL, acknowledgement, pingreq,
    remaining_length,
};
use super::reader::{Reader, is_delivery};
use super::reason::FAILURE;
use crate::conversation::{Answer, Progress};

/// A publish was received, but its topic has no subscribers.
const NO_SUBSCRIBERS: u8 = 0x10;
/// Bytes of a packet's content that matter: identifier, reason, and the length of properties.
const KEPT_BYTES: usize = 6;

/// Reads what the broker sends on one connection. After an error it is of no more use.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    version: MqttVersion,
    awaited: Awaited,
    /// Answers to [`Self::ping`] that come before what is awaited; if nothing is, all of them.
    pings_before: u8,
    /// Answers to [`Self::ping`] that come behind the awaited PINGRESP.
    pings_behind: u8,
    reader: Reader<KEPT_BYTES>,
}

/// Lent to each connection that awaits something.
const _: () = assert!(size_of::<Client>() <= 28);

/// The next expected packet of the broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Nothing,
    /// The acknowledgement of a publish at QoS 1.
    Puback,
    /// The first one at QoS 2.
    Pubrec,
    /// The last one at QoS 2.
    Pubcomp,
    /// The answer to a ping that is an operation.
    Pingresp,
}

/// A connection that is not usable yet.
#[derive(Clone, Debug)]
pub struct Opening {
    client: Client,
    greeting: Greeting,
}

impl Opening {
    /// Creates the client of a connection before anything is sent.
    pub const fn new(version: MqttVersion) -> Self {
        Self { client: Client::new(version), greeting: Greeting::new(Needs::NONE) }
    }

    /// Notes that a CONNECT was sent, followed by a SUBSCRIBE if there is a subscription.
    pub fn expect_connack(&mut self, needs: Needs) {
        self.greeting = Greeting::new(needs);
    }

    /// Returns the client of a usable connection, and the seconds within which the broker wants to be sent something,
    /// if it states that.
    pub const fn finish(&self) -> (Client, Option<u16>) {
        (self.client, self.greeting.limits.keep_alive_s)
    }

    /// Handles bytes from the broker, up to the packet that makes the connection usable; returns how many were
    /// consumed, and the result. What must be sent at once is appended to `reply`.
    pub fn handle_bytes(&mut self, input: &[u8], reply: &mut Vec<u8>) -> Result<(usize, Progress)> {
        let Self { client: Client { version, reader, .. }, greeting } = self;
        let mut consumed = 0;
        while let Some(rest) = input.get(consumed..).filter(|rest| !rest.is_empty()) {
            let (read, ended) = reader.read(rest, *version)?;
            if !reader.is_in_delivery() {
                greeting.keep(rest.get(..read).unwrap_or(rest));
            }
            consumed += read;
            let Some(first) = ended else { break };
            if is_delivery(first) || first == PUBREL {
                greeting.check_delivery()?;
                answer_delivery(reader, first, *version, reply)?;
                greeting.forget();
            } else if greeting.end_packet(first, *version)? {
                return Ok((consumed, Progress::Greeted));
            }
        }
        Ok((consumed, Progress::NeedMore))
    }
}

impl Client {
    /// Creates the client of a usable connection.
    pub const fn new(version: MqttVersion) -> Self {
        Self {
            version,
            awaited: Awaited::Nothing,
            pings_before: 0,
            pings_behind: 0,
            reader: Reader::new(),
        }
    }

    /// Notes that a PUBLISH was sent at QoS 1, or 2 with `exactly_once`.
    pub const fn expect_acknowledgement(&mut self, exactly_once: bool) {
        self.awaited = if exactly_once { Awaited::Pubrec } else { Awaited::Puback };
    }

    /// Notes that a PINGREQ was sent, as an operation.
    pub const fn expect_pingresp(&mut self) {
        self.awaited = Awaited::Pingresp;
    }

    /// Appends a PINGREQ that is no operation.
    pub fn ping(&mut self, out: &mut Vec<u8>) {
        pingreq(out);
        let pings = match self.awaited {
            Awaited::Pingresp => &mut self.pings_behind,
            _ => &mut self.pings_before,
        };
        *pings = pings.saturating_add(1);
    }

    /// Reports whether the client is between packets, and dropping it would lose no state.
    pub fn is_idle(&self) -> bool {
        self.reader.is_idle() && self.awaited == Awaited::Nothing && self.pings_before == 0
    }

    /// Handles bytes from the broker, up to the packet that ends something; returns how many were
    /// consumed, and the result. What must be sent at once is appended to `reply`.
    pub fn handle_bytes(&mut self, input: &[u8], reply: &mut Vec<u8>) -> Result<(usize, Progress)> {
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

    /// Returns the meaning of a packet that is complete.
    fn end_packet(&mut self, first: u8, reply: &mut Vec<u8>) -> Result<Progress> {
        if is_delivery(first) || first == PUBREL {
            answer_delivery(&self.reader, first, self.version, reply)?;
            return Ok(Progress::NeedMore);
        }
        if first == PINGRESP {
            return self.end_ping();
        }
        let awaited = std::mem::replace(&mut self.awaited, Awaited::Nothing);
        match (first, awaited) {
            (PUBACK, Awaited::Puback) | (PUBREC, Awaited::Pubrec) | (PUBCOMP, Awaited::Pubcomp) => {
                let reason = self.failure(first)?;
                if first == PUBREC && reason.is_none() {
                    acknowledgement(reply, PUBREL, PACKET_ID);
                    self.awaited = Awaited::Pubcomp;
                    return Ok(Progress::NeedMore);
                }
                Ok(Progress::Complete(Answer::of_publish(reason)))
            }
            (DISCONNECT, _) => Err(disconnected(self.reader.content(), self.version)),
            _ => malformed(UNASKED),
        }
    }

    /// The next of the pings that are open is answered.
    fn end_ping(&mut self) -> Result<Progress> {
        check_pingresp(&self.reader)?;
        if self.pings_before > 0 {
            self.pings_before -= 1;
            return Ok(Progress::Alive);
        }
        if self.awaited != Awaited::Pingresp {
            return malformed(UNASKED);
        }
        self.awaited = Awaited::Nothing;
        self.pings_before = std::mem::take(&mut self.pings_behind);
        Ok(Progress::Complete(Answer::plain(0, None)))
    }

    /// Returns the reason of the acknowledgement of the one open packet, if it is a failure.
    fn failure(&self, first: u8) -> Result<Option<u8>> {
        match acknowledged(&self.reader, first, self.version)? {
            (PACKET_ID, reason) => Ok(reason),
            _ => malformed(NOT_SENT),
        }
    }
}

/// Appends the answer to the packet that has ended, a message or the release of one.
pub(super) fn answer_delivery<const KEPT: usize>(
    reader: &Reader<KEPT>,
    first: u8,
    version: MqttVersion,
    reply: &mut Vec<u8>,
) -> Result<()> {
    if first == PUBREL {
        // A message that the broker does not know any more is released all the same.
        acknowledged(reader, first, version)?;
    }
    reader.answer_delivery(reply);
    Ok(())
}

/// Checks a PINGRESP, which has no content.
pub(super) const fn check_pingresp<const KEPT: usize>(reader: &Reader<KEPT>) -> Result<()> {
    match reader.length() {
        0 => Ok(()),
        _ => malformed("a PINGRESP with content"),
    }
}

/// Returns the identifier of the acknowledgement that has ended, and its reason if that is a failure.
pub(super) fn acknowledged<const KEPT: usize>(
    reader: &Reader<KEPT>,
    first: u8,
    version: MqttVersion,
) -> Result<(u16, Option<u8>)> {
    let (length, content) = (reader.length(), reader.content());
    let Some((id, behind)) = content.split_first_chunk::<2>() else {
        return malformed("an acknowledgement without an identifier");
    };
    let id = u16::from_be_bytes(*id);
    if id == 0 {
        return malformed("a packet identifier of 0");
    }
    let Some((&reason, properties)) = behind.split_first() else { return Ok((id, None)) };
    if version == MqttVersion::V3_1_1 {
        return malformed("an acknowledgement of more than two bytes, as MQTT 5 has it");
    }
    let properties_end = match remaining_length(properties) {
        Ok(Some((bytes, of_length))) => Some(3 + of_length as u32 + bytes),
        _ if length == 3 => Some(3),
        _ => None,
    };
    if properties_end != Some(length) {
        return malformed("properties that do not end with their packet");
    }
    match reason {
        FAILURE.. => Ok((id, Some(reason))),
        0 => Ok((id, None)),
        NO_SUBSCRIBERS if matches!(first, PUBACK | PUBREC) => Ok((id, None)),
        _ => malformed("an acknowledgement with an unknown reason"),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use plimsoll_model::ErrorClass;

    use super::*;

    const V5: MqttVersion = MqttVersion::V5;
    const COMPLETE: Progress = Progress::Complete(Answer::plain(0, None));

    fn client(expect: impl FnOnce(&mut Client)) -> Client {
        let mut client = Client::new(V5);
        expect(&mut client);
        client
    }

    /// Returns the progress that these bytes make on a usable connection.
    fn read(expect: fn(&mut Client), bytes: &[u8]) -> Result<(usize, Progress)> {
        client(expect).handle_bytes(bytes, &mut Vec::new())
    }

    fn publishing(client: &mut Client) {
        client.expect_acknowledgement(false);
    }

    #[test]
    fn answers() {
        assert_eq!(read(publishing, b"\x40\x02\0\x01rest"), Ok((4, COMPLETE)));
        // No matching subscribers.
        assert_eq!(read(publishing, b"\x40\x03\0\x01\x10"), Ok((5, COMPLETE)));
        let refused = Ok((6, Progress::Complete(Answer::of_publish(Some(0x97)))));
        assert_eq!(read(publishing, b"\x40\x04\0\x01\x97\0"), refused);
        assert_eq!(read(Client::expect_pingresp, b"\xD0\0"), Ok((2, COMPLETE)));
        let ended = read(publishing, b"\xE0\x02\x8E\0").unwrap_err();
        assert_eq!(ended.to_string(), "the broker disconnects: session taken over, reason 0x8e");
        for (bytes, what) in [
            (&b"HTTP/1.1 400 Bad Request"[..], "as HTTP does"),
            (b"\x40\x02\0\x02", "was not sent"),
            (b"\x40\x02\0\0", "identifier of 0"),
            (b"\x50\x02\0\x01", "nothing asked for"),
            (b"\x20\x03\0\0\0", "nothing asked for"),
            (b"\xD0\0", "nothing asked for"),
            (b"\xB0\x04\0\x01\0\0", "nothing asked for"),
            (b"\xF0\x02\0\0", "an AUTH"),
            (b"\x40\xFF\xFF\xFF\xFF\x01", "more than four bytes"),
            (b"\x40\x80\x80\x08", "more than 64 KiB"),
            (b"\x40\x01\0", "without an identifier"),
            (b"\x62\x01\0", "without an identifier"),
            (b"\x62\x02\0\0", "identifier of 0"),
            (b"\x40\x03\0\x01\x01", "unknown reason"),
            (b"\x40\x04\0\x01\0\x01", "do not end with"),
            (b"\x40\x05\0\x01\0\0\0", "do not end with"),
            // Flags of the fixed header that MQTT reserves.
            (b"\x41\x02\0\x01", "no packet of a broker"),
            (b"\x60\x02\0\x01", "no packet of a broker"),
            (b"\x36\x05\0\x01a\0\x01", "no packet of a broker"),
        ] {
            let error = read(publishing, bytes).unwrap_err();
            assert_eq!(error.class(), ErrorClass::MqttMalformed);
            assert!(error.to_string().contains(what), "{bytes:?}: {error}");
        }
        let error = read(Client::expect_pingresp, b"\xD0\x01\0").unwrap_err();
        assert!(error.to_string().contains("a PINGRESP with content"), "{error}");
        // MQTT 3.1.1 has neither reasons nor a DISCONNECT of the broker's.
        for (bytes, what) in
            [(&b"\x40\x03\0\x01\0"[..], "as MQTT 5 has it"), (b"\xE0\0", "nothing asked for")]
        {
            let mut client = Client::new(MqttVersion::V3_1_1);
            client.expect_acknowledgement(false);
            let error = client.handle_bytes(bytes, &mut Vec::new()).unwrap_err();
            assert!(error.to_string().contains(what), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn pings_beside_operations_are_answered_in_their_order() {
        let mut client = client(|client| client.expect_acknowledgement(false));
        let (mut out, mut reply) = (Vec::new(), Vec::new());
        client.ping(&mut out);
        assert_eq!(out, b"\xC0\0");
        let read = client.handle_bytes(b"\xD0\0\x40\x02\0\x01", &mut reply);
        assert_eq!((read, client.is_idle()), (Ok((2, Progress::Alive)), false));
        let read = client.handle_bytes(b"\x40\x02\0\x01", &mut reply);
        assert_eq!((read, client.is_idle()), (Ok((4, COMPLETE)), true));
        // One before the ping that is an operation, and one behind it.
        client.ping(&mut out);
        client.expect_pingresp();
        client.ping(&mut out);
        for ended in [Progress::Alive, COMPLETE, Progress::Alive] {
            assert!(!client.is_idle());
            assert_eq!(client.handle_bytes(b"\xD0\0", &mut reply), Ok((2, ended)));
        }
        assert!(client.is_idle());
        assert!(client.handle_bytes(b"\xD0\0", &mut reply).is_err());
    }

    #[test]
    fn deliveries_are_read_past_whatever_is_awaited() {
        let mut pinging = client(Client::expect_pingresp);
        let mut bytes = b"\x31\x06\0\x01a\0hi\x30\xF0\xA2\x04\0\x01a\0".to_vec();
        bytes.resize(bytes.len() + 70_000 - 4, b'x');
        bytes.extend_from_slice(b"\xD0\0");
        let read = pinging.handle_bytes(&bytes, &mut Vec::new());
        assert_eq!(read, Ok((bytes.len(), COMPLETE)));
        assert!(pinging.is_idle());
    }

    #[test]
    fn deliveries_are_acknowledged() {
        let mut pinging = client(Client::expect_pingresp);
        let mut reply = Vec::new();
        let bytes = b"\x32\x07\0\x01a\0\x05\0x\x3D\x06\0\x01a\0\x06\0\x62\x02\0\x06\xD0\0";
        let read = pinging.handle_bytes(bytes, &mut reply);
        assert_eq!(read, Ok((bytes.len(), COMPLETE)));
        assert_eq!(reply, b"\x40\x02\0\x05\x50\x02\0\x06\x70\x02\0\x06");
    }

    #[test]
    fn topic_aliases_are_not_taken() {
        for (bytes, what) in [
            (&b"\x30\x07\0\x01a\x03\x23\0\x01"[..], "a topic alias"),
            (b"\x30\x06\0\0\x03\x23\0\x01", "without a topic"),
            (b"\x30\x06\0\x01a\x02\x21\0", "of another packet"),
            (b"\x30\x06\0\x01a\x02\x7F\0", "does not know"),
            (b"\x30\x07\0\x01a\x02\x02\0\0", "ends behind"),
            (b"\x32\x06\0\x01a\0\0\0", "identifier of 0"),
        ] {
            let error = read(publishing, bytes).unwrap_err().to_string();
            assert!(error.contains(what), "{bytes:?}: {error}");
        }
    }

    #[test]
    fn exactly_once_takes_two_round_trips() {
        let mut client = client(|client| client.expect_acknowledgement(true));
        let mut reply = Vec::new();
        assert_eq!(client.handle_bytes(b"\x50\x02\0\x01", &mut reply), Ok((4, Progress::NeedMore)));
        assert_eq!(reply, b"\x62\x02\0\x01");
        assert_eq!(client.handle_bytes(b"\x70\x02\0\x01", &mut reply), Ok((4, COMPLETE)));
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
