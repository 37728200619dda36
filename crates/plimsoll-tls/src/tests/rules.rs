//! The rules of the record layer, one by one. The peer itself reads the alerts that it is sent.

use proptest::prelude::*;
use rustls::CipherSuite;

use plimsoll_model::ErrorClass;

use super::pair::{End, Pair, craft};
use super::seeded::{SUITES, Settings, World};
use crate::compact::{Direction, Flags};
use crate::handshaking::Afterwards;
use crate::record::{ALERT, APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE};
use crate::suite::Material;
use crate::{Session, TlsError};

const TLS13: CipherSuite = CipherSuite::TLS13_AES_256_GCM_SHA384;
const TLS12: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256;

/// NewSessionTicket: lifetime, age_add, nonce of 1 byte, ticket of 3, no extensions.
const TICKET: [u8; 21] = [4, 0, 0, 17, 0, 0, 14, 16, 1, 2, 3, 4, 1, 0, 0, 3, 7, 7, 7, 0, 0];
const UPDATE: [u8; 5] = [24, 0, 0, 1, 0];
const UPDATE_BACK: [u8; 5] = [24, 0, 0, 1, 1];

fn pair_of(suite: CipherSuite) -> Pair {
    let world = World::new(Settings::of(suite));
    let (client, server) = (world.client(Afterwards::Compact), world.server(Afterwards::Compact));
    let mut pair = Pair::of(client, server);
    pair.settle();
    assert!(pair.client.session.is_compact() && pair.server.session.is_compact());
    pair
}

/// The client is given `wire`: it must fail, and the server must read this alert.
#[track_caller]
fn refused(pair: &mut Pair, wire: &[u8], alert: &str) {
    refused_by(&mut pair.client, &mut pair.server, wire, alert);
}

#[track_caller]
fn refused_by(end: &mut End, other: &mut End, wire: &[u8], alert: &str) {
    let error = end.receive(wire).unwrap_err();
    assert_eq!(error.class(), ErrorClass::TlsRecord, "{error}");
    let told = other.receive(&end.take_out()).unwrap_err();
    assert!(matches!(&told, TlsError::Alert { alert: said, .. } if said == alert), "{told}");
    // The end is the end.
    assert!(end.receive(b"").is_err() && end.write(b"more").is_err());
    end.close();
    assert!(!end.wants_transmit());
}

/// Both directions still work.
#[track_caller]
fn assert_alive(pair: &mut Pair) {
    pair.client.write(b"ping").unwrap();
    pair.server.write(b"pong").unwrap();
    pair.settle();
    assert!(pair.server.got.ends_with(b"ping") && pair.client.got.ends_with(b"pong"));
    assert!(!pair.client.session.is_buffering() && !pair.server.session.is_buffering());
}

// ---- framing

#[test]
fn padding_is_stripped_and_nothing_but_padding_is_refused() {
    for suite in &SUITES[..3] {
        let mut pair = pair_of(*suite);
        for padding in [1, 2, 300, 16_000] {
            let wire = craft(&mut pair.server, APPLICATION_DATA, b"padded\0", padding);
            pair.client.receive(&wire).unwrap();
            assert_eq!(std::mem::take(&mut pair.client.got), b"padded\0");
        }
        let wire = craft(&mut pair.server, 0, &[0; 40], 0);
        refused(&mut pair, &wire, "unexpected_message");
    }
}

#[test]
fn a_record_may_be_as_long_as_allowed_and_no_longer() {
    for suite in SUITES {
        let mut pair = pair_of(suite);
        let wire = craft(&mut pair.server, APPLICATION_DATA, &[7; 16_384], 0);
        pair.client.receive(&wire).unwrap();
        assert_eq!(pair.client.got.len(), 16_384);
        let wire = craft(&mut pair.server, APPLICATION_DATA, &[7; 16_385], 0);
        refused(&mut pair, &wire, "record_overflow");
        assert_eq!(pair.client.got.len(), 16_384);
    }
    // With padding the plaintext's type is beyond the end.
    let mut pair = pair_of(TLS13);
    let wire = craft(&mut pair.server, APPLICATION_DATA, &[7; 100], 16_300);
    refused(&mut pair, &wire, "record_overflow");
}

#[test]
fn a_length_beyond_the_maximum_is_refused_by_the_header() {
    for (suite, most) in [(TLS13, 16_384 + 256), (TLS12, 16_384 + 2048)] {
        let header = |length: u16| [[23, 3, 3].as_slice(), &length.to_be_bytes()].concat();
        let mut pair = pair_of(suite);
        pair.client.receive(&header(most)).unwrap();
        let mut pair = pair_of(suite);
        refused(&mut pair, &header(most + 1), "record_overflow");
        // Byte by byte as well.
        let mut pair = pair_of(suite);
        pair.client.receive(&header(most + 1)[..3]).unwrap();
        refused(&mut pair, &header(most + 1)[3..], "record_overflow");
    }
}

#[test]
fn what_is_not_protected_is_refused() {
    for plain in [
        [ALERT, 3, 3, 0, 2, 1, 0].as_slice(),
        &[HANDSHAKE, 3, 3, 0, 4, 14, 0, 0, 0],
        &[CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1],
        &[99, 3, 3, 0, 1, 1],
    ] {
        refused(&mut pair_of(TLS13), plain, "unexpected_message");
    }
    // TLS 1.2 names the type outside; what fails there is the protection.
    refused(&mut pair_of(TLS12), &[ALERT, 3, 3, 0, 2, 1, 0], "bad_record_mac");
    refused(&mut pair_of(TLS12), &[APPLICATION_DATA, 3, 3, 0, 0], "bad_record_mac");
    refused(&mut pair_of(TLS12), &[CHANGE_CIPHER_SPEC, 3, 3, 0, 1, 1], "unexpected_message");
}

#[test]
fn every_damaged_byte_is_found() {
    for suite in SUITES {
        let intact = pair_of(suite);
        let Pair { mut server, .. } = intact;
        let wire = craft(&mut server, APPLICATION_DATA, b"data", 0);
        for at in 5..wire.len() {
            let mut pair = pair_of(suite);
            let mut wire = wire.clone();
            wire[at] ^= 0x10;
            refused(&mut pair, &wire, "bad_record_mac");
            assert!(pair.client.got.is_empty());
        }
    }
}

#[test]
fn a_record_that_comes_twice_or_out_of_turn_is_refused() {
    for suite in SUITES {
        let mut pair = pair_of(suite);
        let first = craft(&mut pair.server, APPLICATION_DATA, b"one", 0);
        let second = craft(&mut pair.server, APPLICATION_DATA, b"two", 0);
        pair.client.receive(&first).unwrap();
        refused(&mut pair, &first, "bad_record_mac");
        let mut pair = pair_of(suite);
        refused(&mut pair, &second, "bad_record_mac");
    }
}

#[test]
fn empty_data_is_legal_but_not_for_ever_and_nothing_else_may_be_empty() {
    for suite in [TLS13, TLS12] {
        let mut pair = pair_of(suite);
        for _ in 0..10 {
            for _ in 0..32 {
                let wire = craft(&mut pair.server, APPLICATION_DATA, b"", 0);
                pair.client.receive(&wire).unwrap();
            }
            assert_alive(&mut pair);
        }
        for _ in 0..32 {
            let wire = craft(&mut pair.server, APPLICATION_DATA, b"", 0);
            pair.client.receive(&wire).unwrap();
        }
        let wire = craft(&mut pair.server, APPLICATION_DATA, b"", 0);
        refused(&mut pair, &wire, "unexpected_message");
        for kind in [HANDSHAKE, ALERT] {
            let mut pair = pair_of(suite);
            let wire = craft(&mut pair.server, kind, b"", 0);
            refused(&mut pair, &wire, "unexpected_message");
        }
    }
}

#[test]
fn a_part_of_a_record_takes_heap_only_until_it_is_whole() {
    for suite in SUITES {
        let mut pair = pair_of(suite);
        for step in [1, 2, 3, 4, 5, 6, 7, 50] {
            let wire = [
                craft(&mut pair.server, APPLICATION_DATA, b"split", 0),
                craft(&mut pair.server, APPLICATION_DATA, b" and joined", 0),
            ]
            .concat();
            for (index, piece) in wire.chunks(step).enumerate() {
                pair.client.receive(piece).unwrap();
                let boundary = wire.len() / 2;
                if index == 0 && step < boundary / 2 {
                    assert!(pair.client.session.is_buffering());
                }
            }
            assert_eq!(std::mem::take(&mut pair.client.got), b"split and joined");
            assert!(!pair.client.session.is_buffering());
        }
    }
}

#[test]
fn a_sequence_does_not_wrap() {
    let mut pair = pair_of(CipherSuite::TLS13_CHACHA20_POLY1305_SHA256);
    pair.client.session.compact_mut().rx.sequence = u64::MAX;
    pair.server.session.compact_mut().tx.sequence = u64::MAX - 1;
    let wire = craft(&mut pair.server, APPLICATION_DATA, b"", 0);
    assert!(pair.client.receive(&wire).is_err());
}

// ---- messages

#[test]
fn tickets_are_counted_and_discarded_however_they_are_cut() {
    let two = [TICKET, TICKET].concat();
    for cuts in [vec![], vec![1], vec![4], vec![5], vec![21], vec![30], vec![3, 21, 22, 41]] {
        let mut pair = pair_of(TLS13);
        let mut begin = 0;
        for end in cuts.into_iter().chain([two.len()]) {
            let wire = craft(&mut pair.server, HANDSHAKE, &two[begin..end], 3);
            pair.client.receive(&wire).unwrap();
            begin = end;
        }
        assert_eq!(pair.client.thread.take_messages().tickets, 2);
        assert_alive(&mut pair);
    }
}

#[test]
fn nothing_comes_between_the_parts_of_a_message() {
    for (kind, content) in [(APPLICATION_DATA, b"x".as_slice()), (ALERT, &[1, 0])] {
        let mut pair = pair_of(TLS13);
        let wire = craft(&mut pair.server, HANDSHAKE, &TICKET[..9], 0);
        pair.client.receive(&wire).unwrap();
        assert!(pair.client.session.is_buffering());
        let wire = craft(&mut pair.server, kind, content, 0);
        refused(&mut pair, &wire, "unexpected_message");
    }
}

#[test]
fn messages_that_have_no_place_are_refused() {
    let cases: [(CipherSuite, &[u8], &str); 9] = [
        // CertificateRequest: post-handshake authentication was not offered.
        (TLS13, &[13, 0, 0, 3, 0, 0, 0], "unexpected_message"),
        (TLS13, &[2, 0, 0, 0], "unexpected_message"),
        (TLS13, &[24, 0, 0, 1, 2], "illegal_parameter"),
        (TLS13, &[24, 0, 0, 0], "decode_error"),
        (TLS13, &[24, 0, 0, 2, 0, 0], "decode_error"),
        (TLS13, &[4, 0xff, 0xff, 0xff], "decode_error"),
        (TLS13, &[24, 0, 0, 1, 0, 24, 0, 0, 1, 0], "unexpected_message"),
        (TLS12, &UPDATE, "unexpected_message"),
        (TLS12, &TICKET, "unexpected_message"),
    ];
    for (suite, content, alert) in cases {
        let mut pair = pair_of(suite);
        let wire = craft(&mut pair.server, HANDSHAKE, content, 0);
        refused(&mut pair, &wire, alert);
    }
    for content in [TICKET.as_slice(), &[0, 0, 0, 0], &[1, 0, 0, 1, 0]] {
        let mut pair = pair_of(TLS13);
        let wire = craft(&mut pair.client, HANDSHAKE, content, 0);
        refused_by(&mut pair.server, &mut pair.client, &wire, "unexpected_message");
    }
    // A protected change_cipher_spec, and a type that does not exist.
    for kind in [CHANGE_CIPHER_SPEC, 42] {
        let mut pair = pair_of(TLS13);
        let wire = craft(&mut pair.server, kind, &[1], 0);
        refused(&mut pair, &wire, "unexpected_message");
    }
}

/// Sends a KeyUpdate from the server and rolls its key, as a peer does.
fn update_from_server(pair: &mut Pair, message: &[u8]) {
    let wire = craft(&mut pair.server, HANDSHAKE, message, 0);
    let compact = pair.server.session.compact_mut();
    let secret = compact.suite.next_secret(&compact.tx.secret).unwrap();
    compact.tx = Direction { secret, sequence: 0 };
    pair.client.receive(&wire).unwrap();
}

#[test]
fn key_updates_that_ask_for_nothing_get_no_answer() {
    for suite in &SUITES[..3] {
        let mut pair = pair_of(*suite);
        for _ in 0..3 {
            update_from_server(&mut pair, &UPDATE);
            assert_alive(&mut pair);
        }
        let counts = pair.client.thread.take_messages();
        assert_eq!((counts.key_updates_received, counts.key_updates_sent), (3, 0));
    }
}

#[test]
fn many_requests_get_one_answer_and_not_before_something_is_sent() {
    for suite in &SUITES[..3] {
        let mut pair = pair_of(*suite);
        for _ in 0..5 {
            update_from_server(&mut pair, &UPDATE_BACK);
            assert!(!pair.client.wants_transmit());
        }
        pair.client.write(b"data").unwrap();
        assert_alive(&mut pair);
        let counts = pair.client.thread.take_messages();
        assert_eq!((counts.key_updates_received, counts.key_updates_sent), (5, 1));
        assert_eq!(pair.server.thread.take_messages().key_updates_received, 1);
        // An alert is something, too.
        update_from_server(&mut pair, &UPDATE_BACK);
        pair.client.close();
        pair.settle();
        assert!(pair.server.peer_closed());
        assert_eq!(pair.server.thread.take_messages().key_updates_received, 1);
    }
}

#[test]
fn key_updates_without_end_are_refused() {
    let mut pair = pair_of(TLS13);
    for _ in 0..32 {
        update_from_server(&mut pair, &UPDATE);
    }
    let wire = craft(&mut pair.server, HANDSHAKE, &UPDATE, 0);
    refused(&mut pair, &wire, "unexpected_message");
}

#[test]
fn a_key_that_was_given_cannot_be_updated() {
    let mut pair = pair_of(TLS13);
    // As if the traffic secrets had not been caught.
    let compact = pair.client.session.compact_mut();
    for direction in [&mut compact.rx, &mut compact.tx] {
        direction.secret =
            compact.suite.key_of(Material::TrafficSecret, &direction.secret).unwrap();
    }
    compact.flags.set(Flags::GIVEN_KEYS);
    assert_alive(&mut pair);
    let wire = craft(&mut pair.server, HANDSHAKE, &UPDATE, 0);
    refused(&mut pair, &wire, "internal_error");
}

#[test]
fn a_tls12_key_is_not_used_beyond_its_limit() {
    for suite in &SUITES[3..5] {
        let world = World::new(Settings { records_max: Some(5), ..Settings::of(*suite) });
        let (client, server) =
            (world.client(Afterwards::Compact), world.server(Afterwards::Compact));
        let mut pair = Pair::of(client, server);
        pair.settle();
        // Finished was the first record. The next three fit, the two after them do not.
        pair.client.write(&[1; 40_000]).unwrap();
        let error = pair.client.write(&[2; 20_000]).unwrap_err();
        assert_eq!(error, TlsError::KeyExhausted);
        pair.settle();
        assert!(pair.server.got == [1; 40_000] && pair.server.peer_closed());
    }
}

#[test]
fn renegotiation_is_declined_once() {
    let hello = [1, 0, 0, 2, 3, 3];
    for (from_server, content) in [(true, [0, 0, 0, 0].as_slice()), (false, &hello)] {
        let mut pair = pair_of(TLS12);
        let (asking, asked) = match from_server {
            true => (&mut pair.server, &mut pair.client),
            false => (&mut pair.client, &mut pair.server),
        };
        let wire = craft(asking, HANDSHAKE, content, 0);
        asked.receive(&wire).unwrap();
        let answer = asked.take_out();
        assert_eq!(answer.first(), Some(&ALERT));
        // A warning: both go on.
        asking.receive(&answer).unwrap();
        let wire = craft(asking, HANDSHAKE, content, 0);
        refused_by(asked, asking, &wire, "unexpected_message");
    }
}

// ---- alerts

#[test]
fn alerts_are_judged_by_the_version() {
    const WARNING: u8 = 1;
    const FATAL: u8 = 2;
    const HANDSHAKE_FAILURE: u8 = 40;
    const USER_CANCELED: u8 = 90;
    for (suite, content, error, answer) in [
        (TLS13, [FATAL, HANDSHAKE_FAILURE], true, None),
        (TLS13, [WARNING, HANDSHAKE_FAILURE], true, Some("decode_error")),
        (TLS13, [7, HANDSHAKE_FAILURE], true, Some("illegal_parameter")),
        (TLS13, [WARNING, USER_CANCELED], false, None),
        (TLS12, [FATAL, HANDSHAKE_FAILURE], true, None),
        (TLS12, [WARNING, HANDSHAKE_FAILURE], false, None),
        (TLS12, [WARNING, USER_CANCELED], false, None),
        (TLS12, [7, HANDSHAKE_FAILURE], true, Some("illegal_parameter")),
    ] {
        let mut pair = pair_of(suite);
        let wire = craft(&mut pair.server, ALERT, &content, 0);
        let outcome = pair.client.receive(&wire);
        assert_eq!(outcome.is_err(), error, "{content:?}");
        if let Err(error) = &outcome {
            assert!(matches!(error, TlsError::Alert { alert, .. } if alert == "handshake_failure"));
        }
        match answer {
            None if error => assert!(pair.client.take_out().is_empty()),
            None => assert_alive(&mut pair),
            Some(answer) => {
                let told = pair.server.receive(&pair.client.take_out()).unwrap_err().to_string();
                assert!(told.contains(answer), "{told}");
            }
        }
    }
}

#[test]
fn an_alert_is_two_bytes() {
    for suite in [TLS13, TLS12] {
        for content in [[1].as_slice(), &[1, 0, 1, 0]] {
            let mut pair = pair_of(suite);
            let wire = craft(&mut pair.server, ALERT, content, 0);
            refused(&mut pair, &wire, "decode_error");
        }
    }
}

#[test]
fn warnings_without_end_are_refused() {
    let mut pair = pair_of(TLS12);
    for _ in 0..32 {
        let wire = craft(&mut pair.server, ALERT, &[1, 90], 0);
        pair.client.receive(&wire).unwrap();
    }
    let wire = craft(&mut pair.server, ALERT, &[1, 90], 0);
    refused(&mut pair, &wire, "unexpected_message");
}

#[test]
fn after_close_notify_nothing_is_heard_and_the_other_direction_lives() {
    for suite in SUITES {
        let mut pair = pair_of(suite);
        let close = craft(&mut pair.server, ALERT, &[1, 0], 0);
        pair.client.receive(&[&close, b"anything".as_slice()].concat()).unwrap();
        assert!(pair.client.peer_closed());
        pair.client.receive(b"at all").unwrap();
        assert!(pair.client.peer_closed() && pair.client.got.is_empty());
        pair.client.write(b"still here").unwrap();
        pair.client.close();
        pair.client.close();
        pair.settle();
        assert_eq!(pair.server.got, b"still here");
        assert!(pair.server.peer_closed());
        assert!(pair.client.write(b"too late").is_err());
    }
}

// ---- what a thread shares

#[test]
fn one_bench_serves_many_sessions_without_mixing_them_up() {
    for suite in SUITES {
        let mut pairs: Vec<_> = (0..20).map(|_| pair_of(suite)).collect();
        // All of one side go through the first one's context, whose cache is far too small.
        let mut thread = crate::ThreadContext::new(2);
        for round in 0..3u8 {
            for (number, pair) in pairs.iter_mut().enumerate() {
                std::mem::swap(&mut thread, &mut pair.client.thread);
                pair.client.write(&[round, number as u8]).unwrap();
                pair.settle();
                assert_eq!(pair.server.got.split_off(0), [round, number as u8]);
                std::mem::swap(&mut thread, &mut pair.client.thread);
            }
        }
    }
}

#[test]
fn ten_thousand_records_may_have_come_in_part() {
    let mut pair = pair_of(TLS13);
    let wire = craft(&mut pair.server, APPLICATION_DATA, &[7; 100], 0);
    let (begin, end) = wire.split_at(50);
    let client = pair.client.session.compact_mut();
    let mut sessions: Vec<_> = (0..10_000).map(|_| Session::of_compact(client.clone())).collect();
    let thread = &mut pair.client.thread;
    for session in &mut sessions {
        session.handle_ciphertext(thread, begin, &mut Vec::new()).unwrap();
        assert!(session.is_buffering());
    }
    for session in &mut sessions {
        let mut got = Vec::new();
        session.handle_ciphertext(thread, end, &mut got).unwrap();
        assert_eq!(got, [7; 100]);
        assert!(!session.is_buffering());
    }
}

/// Messages of a hostile peer: types and messages that exist, nearly exist, or do not.
fn any_record() -> impl Strategy<Value = (u8, Vec<u8>, usize)> {
    let kind = prop_oneof![4 => 20u8..24, 1 => any::<u8>()];
    let noise = prop::collection::vec(any::<u8>(), 0..40);
    let message = (prop::sample::select(vec![0u8, 1, 4, 13, 24]), 0u8..4, noise.clone())
        .prop_map(|(kind, length, body)| [&[kind, 0, 0, length], &body[..]].concat());
    let content = prop_oneof![noise, message, Just(UPDATE_BACK.to_vec()), Just(TICKET.to_vec())];
    (kind, content, 0usize..20)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn whatever_a_peer_protects_is_taken_or_refused(
        suite in prop::sample::select(SUITES.to_vec()),
        records in prop::collection::vec(any_record(), 1..12),
        step_bytes in 1usize..100,
        to_client in any::<bool>(),
    ) {
        let Pair { mut client, mut server, .. } = pair_of(suite);
        let (from, to) = if to_client { (&mut server, &mut client) } else { (&mut client, &mut server) };
        let wire: Vec<u8> = records
            .iter()
            .flat_map(|(kind, content, padding)| {
                craft(from, *kind, content, if suite_is_tls13(suite) { *padding } else { 0 })
            })
            .collect();
        let outcome = wire.chunks(step_bytes).try_for_each(|chunk| to.receive(chunk));
        let out = to.take_out();
        if outcome.is_err() {
            // It is over, and stays so.
            prop_assert!(to.receive(&wire).is_err());
            prop_assert!(to.take_out().is_empty());
        }
        // Alerts, refusals, an answer to a KeyUpdate: some hundred bytes at most.
        prop_assert!(out.len() < 200);
        let data: usize = records
            .iter()
            .filter(|(kind, ..)| *kind == APPLICATION_DATA)
            .map(|(_, content, _)| content.len())
            .sum();
        prop_assert!(to.got.len() <= data);
    }
}

fn suite_is_tls13(suite: CipherSuite) -> bool {
    SUITES[..3].contains(&suite)
}
