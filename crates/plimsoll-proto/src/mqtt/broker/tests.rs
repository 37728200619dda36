//! Tests of the packets of clients, and of their answers.

use plimsoll_model::target::{Publish, Qos, Subscription};
use proptest::prelude::*;

use super::super::packet;
use super::*;

/// No session is kept, and as many publishes may be in flight as there are identifiers.
const ACCEPTED_5: &[u8] = b"\x20\x0B\0\0\x08\x11\0\0\0\0\x21\xFF\xFF";

type Seen = (Vec<Event>, Vec<u8>, Option<BrokerError>);

/// All events of `bytes`, given in pieces, and what was answered.
fn read(pieces: &[&[u8]]) -> Seen {
    let (seen, _) = read_all(pieces);
    seen
}

/// Reads the pieces; also returns what was delivered.
fn read_all(pieces: &[&[u8]]) -> (Seen, Vec<u8>) {
    let (mut broker, mut reply, mut delivery) = (Broker::default(), Vec::new(), Vec::new());
    let (mut events, mut connected) = (Vec::new(), None);
    let mut own = Subscriptions::default();
    for piece in pieces {
        let mut rest = *piece;
        while !rest.is_empty() {
            match broker.handle_bytes(
                rest,
                Terms { connected, receive_maximum: u16::MAX },
                &mut own,
                Output { reply: &mut reply, delivery: &mut delivery },
            ) {
                Ok((consumed, event)) => {
                    rest = &rest[consumed..];
                    if let Some(Event::Connected { version, .. }) = event {
                        connected = Some(version);
                    }
                    events.extend(event);
                }
                Err(error) => return ((events, reply, Some(error)), delivery),
            }
        }
    }
    ((events, reply, None), delivery)
}

/// Makes the CONNECT of one of our clients.
fn named(client_id: &str, keep_alive_s: u16) -> packet::Connect<'_> {
    packet::Connect { client_id, keep_alive_s, ..packet::Connect::default() }
}

fn session(version: MqttVersion, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    packet::connect(&mut out, version, &named("a client", 60));
    if payload.len().is_multiple_of(2) {
        let wants = Subscription { filter: "a/+".to_owned(), qos: Qos::ExactlyOnce };
        packet::subscribe(&mut out, version, &wants);
    }
    for qos in [Qos::AtMostOnce, Qos::AtLeastOnce, Qos::ExactlyOnce] {
        let publish = Publish { topic: "a/b".to_owned(), qos, retain: false };
        packet::publish(&mut out, version, &publish, payload);
    }
    acknowledgement(&mut out, PUBREL, 1);
    packet::pingreq(&mut out);
    packet::disconnect(&mut out);
    out
}

#[test]
fn our_client_is_served() {
    for (version, connack) in
        [(MqttVersion::V3_1_1, &b"\x20\x02\0\0"[..]), (MqttVersion::V5, ACCEPTED_5)]
    {
        let (events, reply, error) = read(&[&session(version, &[7; 301])]);
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
fn a_client_gets_what_it_publishes_and_wants() {
    for (version, properties) in [(MqttVersion::V3_1_1, &b""[..]), (MqttVersion::V5, b"\0")] {
        let mut bytes = Vec::new();
        packet::connect(&mut bytes, version, &named("s", 0));
        let wants = Subscription { filter: "a/+".to_owned(), qos: Qos::AtLeastOnce };
        packet::subscribe(&mut bytes, version, &wants);
        for (topic, qos) in
            [("a/b", Qos::AtMostOnce), ("a/c", Qos::ExactlyOnce), ("b", Qos::AtLeastOnce)]
        {
            let publish = Publish { topic: topic.to_owned(), qos, retain: true };
            packet::publish(&mut bytes, version, &publish, b"hi");
        }
        bytes.extend_from_slice(b"\x40\x02\0\x01\x50\x02\0\x02\x70\x02\0\x02");
        let ((events, reply, error), delivered) = read_all(&[&bytes]);
        assert_eq!((events.len(), error), (8, None));
        assert!(reply.ends_with(b"\x50\x02\0\x01\x40\x02\0\x01\x62\x02\0\x02"), "{reply:?}");
        let first = |head: &[u8]| [head, properties, b"hi"].concat();
        let length = properties.len() as u8;
        let at_0 = first(&[&[0x30, 7 + length][..], b"\0\x03a/b"].concat());
        let at_1 = first(&[&[0x32, 9 + length][..], b"\0\x03a/c\0\x01"].concat());
        assert_eq!(delivered, [at_0, at_1].concat());
    }
    // Who never subscribed has nothing to acknowledge.
    let early = read(&[&[&connect_311(2, b"\0\x01a")[..], b"\x40\x02\0\x01"].concat()]);
    assert!(early.2.is_some_and(|error| error.to_string().contains("was not sent")));
}

#[test]
fn what_is_too_long_to_be_delivered_is_refused() {
    let mut bytes = connect_311(2, b"\0\x01a");
    let wants = Subscription { filter: "t".to_owned(), qos: Qos::AtMostOnce };
    packet::subscribe(&mut bytes, MqttVersion::V3_1_1, &wants);
    for (topic, is_refused) in [("other", false), ("t", true)] {
        let publish = Publish { topic: topic.to_owned(), ..Publish::default() };
        packet::publish(&mut bytes, MqttVersion::V3_1_1, &publish, &vec![0; (1 << 20) + 1]);
        assert_eq!(read(&[&bytes]).2.is_some(), is_refused, "{topic}");
    }
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
        prop_assert_eq!(read_all(&pieces), read_all(&[&bytes]));
    }
}
