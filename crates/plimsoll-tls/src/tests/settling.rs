//! A client that wants to resume keeps rustls until its session has settled.

use rustls::CipherSuite;

use super::pair::{Pair, craft};
use super::seeded::{Settings, World};
use crate::HandshakeKind;
use crate::compact::Direction;
use crate::handshaking::Afterwards;
use crate::record::{ALERT, APPLICATION_DATA, HANDSHAKE};

const TLS13: CipherSuite = CipherSuite::TLS13_AES_128_GCM_SHA256;
const TLS12: CipherSuite = CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384;
const TICKET: [u8; 21] = [4, 0, 0, 17, 0, 0, 14, 16, 1, 2, 3, 4, 1, 0, 0, 3, 7, 7, 7, 0, 0];

fn settling_pair(tickets: usize) -> (World, Pair) {
    let settings = Settings { resumption: true, tickets, ..Settings::of(TLS13) };
    let world = World::new(settings);
    let (client, server) =
        (world.client(Afterwards::SettleThenCompact), world.server(Afterwards::Compact));
    let mut pair = Pair::of(client, server);
    pair.settle();
    (world, pair)
}

fn assert_alive(pair: &mut Pair) {
    pair.client.write(b"ping").unwrap();
    pair.server.write(b"pong").unwrap();
    pair.settle();
    assert!(pair.server.got.ends_with(b"ping") && pair.client.got.ends_with(b"pong"));
}

#[test]
fn a_ticket_settles_a_session_and_is_kept() {
    let (world, mut pair) = settling_pair(2);
    assert!(pair.client.session.is_compact());
    assert_alive(&mut pair);
    let (client, server) =
        (world.client(Afterwards::SettleThenCompact), world.server(Afterwards::Compact));
    let mut pair = Pair::of(client, server);
    pair.settle();
    assert_eq!(pair.client.session.handshake().unwrap().kind, HandshakeKind::Resumed);
    assert_eq!(pair.server.session.handshake().unwrap().kind, HandshakeKind::Resumed);
}

#[test]
fn a_session_is_not_made_compact_within_a_ticket() {
    for cut in 1..TICKET.len() {
        let (_world, mut pair) = settling_pair(0);
        assert!(!pair.client.session.is_compact());
        // One ticket and a part of another: settled, and yet in the middle of a message.
        let begun = [&TICKET[..], &TICKET[..cut]].concat();
        let wire = craft(&mut pair.server, HANDSHAKE, &begun, 0);
        pair.client.receive(&wire).unwrap();
        assert!(!pair.client.session.is_compact());
        let wire = craft(&mut pair.server, HANDSHAKE, &TICKET[cut..], 0);
        pair.client.receive(&wire).unwrap();
        assert!(pair.client.session.is_compact());
        assert_eq!(pair.client.thread.take_messages().tickets, 2);
        assert_alive(&mut pair);
    }
}

#[test]
fn data_settles_a_session() {
    let (_world, mut pair) = settling_pair(0);
    let wire = [
        craft(&mut pair.server, APPLICATION_DATA, b"", 0),
        craft(&mut pair.server, APPLICATION_DATA, b"one", 0),
        craft(&mut pair.server, APPLICATION_DATA, b"two", 0),
        craft(&mut pair.server, HANDSHAKE, &TICKET, 0),
    ]
    .concat();
    pair.client.receive(&wire[..22]).unwrap();
    assert!(!pair.client.session.is_compact(), "an empty record is no data");
    pair.client.receive(&wire[22..]).unwrap();
    assert!(pair.client.session.is_compact());
    assert_eq!(pair.client.got, b"onetwo");
    // The ticket came after that: counted, and gone.
    assert_eq!(pair.client.thread.take_messages().tickets, 1);
    assert_alive(&mut pair);
}

#[test]
fn a_key_update_before_settling_leaves_the_session_to_rustls() {
    let (_world, mut pair) = settling_pair(0);
    let wire = craft(&mut pair.server, HANDSHAKE, &[24, 0, 0, 1, 1], 0);
    let compact = pair.server.session.compact_mut();
    let secret = compact.suite.next_secret(&compact.tx.secret).unwrap();
    compact.tx = Direction { secret, sequence: 0 };
    pair.client.receive(&wire).unwrap();
    assert_eq!(pair.client.thread.kept_in_rustls, 1);
    assert_alive(&mut pair);
    assert!(!pair.client.session.is_compact());
}

#[test]
fn a_close_before_settling_is_seen_and_said() {
    let (_world, mut pair) = settling_pair(0);
    let wire = craft(&mut pair.server, ALERT, &[1, 0], 0);
    pair.client.receive(&wire).unwrap();
    assert!(pair.client.peer_closed());
    pair.client.write(b"last").unwrap();
    pair.client.close();
    pair.settle();
    assert!(pair.server.got == b"last" && pair.server.peer_closed());
}

#[test]
fn a_close_of_ours_before_settling_keeps_the_begun_record() {
    let (_world, mut pair) = settling_pair(0);
    let wire = craft(&mut pair.server, APPLICATION_DATA, b"late", 0);
    pair.client.receive(&wire[..9]).unwrap();
    pair.client.close();
    pair.client.receive(&wire[9..]).unwrap();
    assert_eq!(pair.client.got, b"late");
}

#[test]
fn tls12_needs_no_settling() {
    let settings = Settings { resumption: true, tickets: 1, ..Settings::of(TLS12) };
    let world = World::new(settings);
    for kind in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let client = world.client(Afterwards::SettleThenCompact);
        let mut pair = Pair::of(client, world.server(Afterwards::Compact));
        pair.settle();
        assert!(pair.client.session.is_compact() && pair.server.session.is_compact());
        assert_eq!(pair.client.session.handshake().unwrap().kind, kind);
        assert_alive(&mut pair);
    }
}
