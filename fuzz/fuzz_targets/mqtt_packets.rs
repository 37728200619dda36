//! Packets of MQTT: no input panics either half, none is over-consumed, and splitting changes nothing. The
//! first byte chooses how the rest is split.
#![no_main]

use libfuzzer_sys::fuzz_target;
use plimsoll_model::target::{Filling, MqttVersion, Qos};
use plimsoll_proto::conversation::Progress;
use plimsoll_proto::mqtt::{
    Broker, BrokerError, Client, Event, LargeBody, MqttError, Needs, Opening, Output,
    Subscriptions, Terms, Window,
};

/// Prefix of an identifier that the broker gives.
const GIVEN: &[u8] = b"plimsoll-";

/// Returns the reports, answers and deliveries of the broker's half, up to the first error.
fn broker<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<Event>, Vec<u8>, Vec<u8>, Option<BrokerError>) {
    let (mut broker, mut reply, mut delivery) = (Broker::default(), Vec::new(), Vec::new());
    let mut own = Subscriptions::default();
    let (mut events, mut connected, mut error) = (Vec::new(), None, None);
    'pieces: for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            let terms = Terms { connected, receive_maximum: 20 };
            let to = Output { reply: &mut reply, delivery: &mut delivery };
            match broker.handle_bytes(rest, terms, &mut own, to) {
                Ok((consumed, event)) => {
                    assert!(consumed <= rest.len());
                    rest = &rest[consumed..];
                    if let Some(Event::Connected { version, .. }) = event {
                        connected = Some(version);
                    }
                    events.extend(event);
                }
                Err(wrong) => {
                    error = Some(wrong);
                    break 'pieces;
                }
            }
        }
    }
    // A client without an identifier is given the next one, another each time.
    if reply.windows(GIVEN.len()).any(|bytes| bytes == GIVEN) {
        reply.clear();
    }
    (events, reply, delivery, error)
}

/// Returns those of the client's half, which awaits the end of a publish at QoS 2.
fn client<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<Progress>, Vec<u8>, Option<MqttError>) {
    let (mut client, mut reply) = (Client::new(MqttVersion::V5), Vec::new());
    client.expect_acknowledgement(true);
    client.ping(&mut reply);
    let mut events = Vec::new();
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            match client.handle_bytes(rest, &mut reply) {
                Ok((consumed, progress)) => {
                    assert!(consumed <= rest.len());
                    rest = &rest[consumed..];
                    events.extend((progress != Progress::NeedMore).then_some(progress));
                }
                Err(error) => return (events, reply, Some(error)),
            }
        }
    }
    (events, reply, None)
}

/// Returns those of a connection that is not usable yet, up to the packet that makes it so.
fn opening<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Option<(u16, bool)>, Vec<u8>, Option<MqttError>) {
    let (mut opening, mut reply) = (Opening::new(MqttVersion::V5), Vec::new());
    let needs = Needs { subscribes: Some(Qos::AtLeastOnce), packet_bytes: 1_000, ..Needs::NONE };
    opening.expect_connack(needs);
    for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            match opening.handle_bytes(rest, &mut reply) {
                Ok((consumed, Progress::Greeted)) => {
                    assert!(consumed <= rest.len());
                    let keep_alive_s = opening.finish().1;
                    let usable = (keep_alive_s.unwrap_or_default(), keep_alive_s.is_some());
                    return (Some(usable), reply, None);
                }
                Ok((consumed, _)) => rest = &rest[consumed..],
                Err(error) => return (None, reply, Some(error)),
            }
        }
    }
    (None, reply, None)
}

/// Returns those of a client with a window: each connection publishes at QoS 1 and 2.
/// No part of a large body.
const NO_BODY: LargeBody = LargeBody { number: 0, from: 0, bytes: 0 };

fn window<'a>(
    pieces: impl Iterator<Item = &'a [u8]>,
) -> (Vec<Progress>, Vec<Option<Filling>>, Vec<u8>, Option<MqttError>) {
    let mut window = Window::new(MqttVersion::V5);
    window.expect_connack(Needs::NONE);
    let (mut events, mut stamps, mut sent) = (Vec::new(), Vec::new(), Vec::new());
    let mut error = None;
    'pieces: for piece in pieces {
        let mut rest = piece;
        while !rest.is_empty() {
            match window.handle_bytes(rest) {
                Ok((consumed, progress)) => {
                    assert!(consumed <= rest.len());
                    rest = &rest[consumed..];
                    events.extend((progress != Progress::NeedMore).then_some(progress));
                    if progress == Progress::Delivered {
                        stamps.push(window.delivery());
                    }
                    if progress == Progress::Greeted {
                        window.ping();
                        window.begin(1, b"\x32\x06\0\x01a\0\x01\0", NO_BODY, false);
                        window.begin(2, b"\x34\x06\0\x01a\0\x01\0", NO_BODY, true);
                    }
                }
                Err(wrong) => {
                    error = Some(wrong);
                    break 'pieces;
                }
            }
        }
    }
    window.take_output(&mut sent);
    (events, stamps, sent, error)
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, input)) = bytes.split_first() else { return };
    let size = usize::from(choice) + 1;
    assert_eq!(broker(std::iter::once(input)), broker(input.chunks(size)));
    assert_eq!(client(std::iter::once(input)), client(input.chunks(size)));
    assert_eq!(opening(std::iter::once(input)), opening(input.chunks(size)));
    assert_eq!(window(std::iter::once(input)), window(input.chunks(size)));
});
