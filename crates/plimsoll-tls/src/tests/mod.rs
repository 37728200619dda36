//! Client sessions against server sessions, in memory.

mod pair;
mod rules;
mod same_bytes;
mod seeded;
mod settling;

use std::sync::{Arc, OnceLock};

use proptest::prelude::*;
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use rustls::crypto::aws_lc_rs;
use rustls::server::WebPkiClientVerifier;

use plimsoll_model::ErrorClass;
use plimsoll_model::plan::{
    CertificateKey, Group, Identity, ServerName, TicketKey, TlsOptions, TlsState, TlsVersion, Trust,
};

use crate::suite::Suite;
use crate::*;

use pair::Pair;

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        self_signed(&["localhost".to_owned(), "127.0.0.1".to_owned()], KeyKind::EcdsaP256).unwrap()
    })
}

fn trusting() -> TlsOptions {
    TlsOptions { trust: Trust::Roots(identity().chain_pem.clone()), ..TlsOptions::default() }
}

fn name(name: &str) -> ServerName {
    ServerName(name.to_owned())
}

fn pair(options: &TlsOptions) -> Pair {
    let client = ClientContext::new(options).unwrap();
    let server = ServerContext::new(identity(), TlsState::Compact).unwrap();
    Pair::of(client.session(&name("localhost"), true).unwrap(), server.session().unwrap())
}

#[test]
fn both_versions_carry_bytes_both_ways() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let mut pair = pair(&TlsOptions { version: Some(version), ..trusting() });
        assert!(pair.client.session.is_handshaking() && pair.client.session.handshake().is_none());
        // Held back until the handshake is done, and larger than a record.
        let request = vec![7; 100_000];
        pair.client.write(&request).unwrap();
        pair.settle();
        pair.server.write(b"pong").unwrap();
        pair.settle();
        assert!(pair.server.got == request);
        assert_eq!(pair.client.got, b"pong");
        assert_eq!((pair.client.finished(), pair.server.finished()), (1, 1));
        for session in [&mut pair.client.session, &mut pair.server.session] {
            let handshake = session.handshake().unwrap();
            assert_eq!(handshake.kind, HandshakeKind::Full);
            assert_eq!(handshake.is_tls13, version == TlsVersion::V1_3);
            let suite = session.compact_mut().suite;
            assert!(matches!(suite, Suite::Aes128 | Suite::EcdheEcdsaAes128), "{suite:?}");
        }
    }
}

/// Both ends stay with rustls, which knows what was agreed on.
fn kept_in_rustls(options: &TlsOptions) -> Pair {
    let options = TlsOptions { state: TlsState::Rustls, ..options.clone() };
    let client = ClientContext::new(&options).unwrap();
    let server = ServerContext::new(identity(), TlsState::Rustls).unwrap();
    let session = client.session(&name("localhost"), true).unwrap();
    let mut pair = Pair::of(session, server.session().unwrap());
    pair.settle();
    pair
}

#[test]
fn the_first_group_and_aes_128_are_agreed_on_without_a_retry() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let pair = kept_in_rustls(&TlsOptions { version: Some(version), ..trusting() });
        for session in [&pair.client.session, &pair.server.session] {
            let connection = session.rustls();
            let group = connection.negotiated_key_exchange_group().unwrap();
            assert_eq!(group.name().as_str(), Some("X25519"));
            let suite = connection.negotiated_cipher_suite().unwrap();
            assert!(suite.suite().as_str().unwrap().contains("_AES_128_GCM_"), "{suite:?}");
            assert_eq!(connection.handshake_kind(), Some(rustls::HandshakeKind::Full));
        }
    }
}

#[test]
fn groups_are_what_was_asked_for() {
    for (group, text) in [
        (Group::Secp256r1, "secp256r1"),
        (Group::Secp384r1, "secp384r1"),
        (Group::X25519Mlkem768, "X25519MLKEM768"),
    ] {
        let pair = kept_in_rustls(&TlsOptions { groups: vec![group], ..trusting() });
        let agreed = pair.client.session.rustls().negotiated_key_exchange_group().unwrap();
        assert_eq!(agreed.name().as_str(), Some(text));
    }
    let impossible = TlsOptions {
        groups: vec![Group::X25519Mlkem768],
        version: Some(TlsVersion::V1_2),
        ..trusting()
    };
    assert_eq!(ClientContext::new(&impossible).unwrap_err(), ConfigError::GroupNeedsTls13);
}

#[test]
fn a_certificate_has_the_key_that_was_asked_for() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let with =
            |key| TlsOptions { version: Some(version), certificate_key: Some(key), ..trusting() };
        let mut of_ecdsa = pair(&with(CertificateKey::Ecdsa));
        of_ecdsa.settle();
        assert_eq!(of_ecdsa.client.finished(), 1, "{version:?}");
        // The server has no other one, and says so with an alert.
        let mut of_rsa = pair(&with(CertificateKey::Rsa));
        let hello = of_rsa.client.take_out();
        assert!(of_rsa.server.receive(&hello).is_err(), "{version:?}");
    }
}

#[test]
fn no_suite_is_offered_whose_certificate_was_not_asked_for() {
    // ECDHE with AES-128-GCM, AES-256-GCM and ChaCha20 (RFC 5289, 7905).
    const OF_ECDSA: [u16; 3] = [0xC02B, 0xC02C, 0xCCA9];
    const OF_RSA: [u16; 3] = [0xC02F, 0xC030, 0xCCA8];
    let offered = |certificate_key| {
        let hello = pair(&TlsOptions { certificate_key, ..trusting() }).client.take_out();
        // Record and message headers, version, random; then the session's identifier and the suites.
        let after = &hello[5 + 4 + 2 + 32..];
        let suites = &after[1 + usize::from(after[0])..];
        let bytes = usize::from(u16::from_be_bytes([suites[0], suites[1]]));
        let pairs = suites[2..2 + bytes].chunks(2).map(|two| u16::from_be_bytes([two[0], two[1]]));
        let suites: Vec<u16> = pairs.collect();
        [OF_ECDSA, OF_RSA].map(|of| of.iter().filter(|suite| suites.contains(suite)).count())
    };
    assert_eq!(offered(None), [3, 3]);
    assert_eq!(offered(Some(CertificateKey::Ecdsa)), [3, 0]);
    assert_eq!(offered(Some(CertificateKey::Rsa)), [0, 3]);
}

#[test]
fn resumption_happens_only_when_asked_for() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        for resume_ratio in [0.0, 1.0] {
            let options = TlsOptions { version: Some(version), resume_ratio, ..trusting() };
            let client = ClientContext::new(&options).unwrap();
            let server = ServerContext::new(identity(), TlsState::Compact).unwrap();
            let kinds: Vec<_> = [true, true, false, true]
                .into_iter()
                .map(|offer_ticket| {
                    let session = client.session(&name("localhost"), offer_ticket).unwrap();
                    let mut pair = Pair::of(session, server.session().unwrap());
                    pair.settle();
                    assert_eq!(
                        pair.client.session.handshake().unwrap().kind,
                        pair.server.session.handshake().unwrap().kind
                    );
                    pair.client.session.handshake().unwrap().kind
                })
                .collect();
            use HandshakeKind::{Full, Resumed};
            let expected = match resume_ratio > 0.0 {
                true => [Full, Resumed, Full, Resumed],
                false => [Full; 4],
            };
            assert_eq!(kinds, expected, "{version:?} {resume_ratio}");
        }
    }
}

#[test]
fn as_many_sessions_are_resumed_at_once_as_tickets_are_kept() {
    for tickets_max in [1, 2] {
        let version = Some(TlsVersion::V1_3);
        let options = TlsOptions { version, resume_ratio: 1.0, tickets_max, ..trusting() };
        let client = ClientContext::new(&options).unwrap();
        let server = ServerContext::new(identity(), TlsState::Compact).unwrap();
        let begun = || {
            let session = client.session(&name("localhost"), true).unwrap();
            Pair::of(session, server.session().unwrap())
        };
        // It brings two tickets.
        begun().settle();
        let both = [begun(), begun()];
        let kinds = both.map(|mut pair| {
            pair.settle();
            pair.client.session.handshake().unwrap().kind
        });
        let resumed = kinds.iter().filter(|kind| **kind == HandshakeKind::Resumed).count();
        assert_eq!(resumed, tickets_max as usize);
    }
}

#[test]
fn servers_that_share_a_ticket_key_resume_each_others_sessions() {
    let key = new_ticket_key().unwrap();
    let server = |key: Option<&TicketKey>| {
        let server = ServerContext::new(identity(), TlsState::Compact).unwrap();
        key.map_or(Ok(server.clone()), |key| server.with_ticket_key(key)).unwrap()
    };
    use HandshakeKind::{Full, Resumed};
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        for (key, second) in [(Some(&key), Resumed), (None, Full)] {
            let options = TlsOptions { version: Some(version), resume_ratio: 1.0, ..trusting() };
            let client = ClientContext::new(&options).unwrap();
            let kinds = [server(key), server(key)].map(|server| {
                let session = client.session(&name("localhost"), true).unwrap();
                let mut pair = Pair::of(session, server.session().unwrap());
                pair.settle();
                pair.client.session.handshake().unwrap().kind
            });
            assert_eq!(kinds, [Full, second], "{version:?}");
        }
    }
}

#[test]
fn a_stranger_is_untrusted_and_told_so() {
    let other = self_signed(&["localhost".to_owned()], KeyKind::EcdsaP256).unwrap();
    let stranger = TlsOptions { trust: Trust::Roots(other.chain_pem), ..TlsOptions::default() };
    let (client, server) = pair(&stranger).run();
    let error = client.unwrap_err();
    assert_eq!(error.class(), ErrorClass::TlsUntrusted, "{error}");
    let error = server.unwrap_err();
    assert_eq!(error.class(), ErrorClass::TlsAlert, "{error}");
    assert!(error.to_string().contains("the alert "), "{error}");

    let insecure = TlsOptions { trust: Trust::Insecure, ..TlsOptions::default() };
    assert_eq!(pair(&insecure).run(), (Ok(()), Ok(())));
}

#[test]
fn the_name_is_checked() {
    let client = ClientContext::new(&trusting()).unwrap();
    let server = ServerContext::new(identity(), TlsState::Compact).unwrap();
    for (asked, good) in [("localhost", true), ("127.0.0.1", true), ("example.org", false)] {
        let session = client.session(&name(asked), false).unwrap();
        let (outcome, _) = Pair::of(session, server.session().unwrap()).run();
        assert_eq!(outcome.as_ref().map_err(TlsError::class).err().is_none(), good, "{outcome:?}");
    }
    let error = client.session(&name("not a name"), false).unwrap_err();
    assert!(error.to_string().contains("\"not a name\""), "{error}");
}

/// Makes an identity as `openssl req -x509` does: self-signed for localhost, and marked as an authority.
fn self_signed_authority() -> Identity {
    let mut params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let chain_pem = params.self_signed(&key).unwrap().pem();
    Identity { chain_pem, key_pem: key.serialize_pem() }
}

#[test]
fn a_trusted_authority_may_be_the_server_itself() {
    let authority = self_signed_authority();
    let server = ServerContext::new(&authority, TlsState::Compact).unwrap();
    let other = self_signed_authority();
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        for (trusted, asked, good) in [
            (&authority, "localhost", true),
            (&authority, "example.org", false),
            // Same subject, other key.
            (&other, "localhost", false),
        ] {
            let trust = Trust::Roots(trusted.chain_pem.clone());
            let options = TlsOptions { trust, version: Some(version), ..TlsOptions::default() };
            let client = ClientContext::new(&options).unwrap();
            let session = client.session(&name(asked), false).unwrap();
            let (outcome, _) = Pair::of(session, server.session().unwrap()).run();
            let class = outcome.as_ref().map_err(TlsError::class).err();
            assert_eq!(class, (!good).then_some(ErrorClass::TlsUntrusted), "{outcome:?}");
        }
    }
}

#[test]
fn client_certificates() {
    let roots = Arc::new(identity::roots_from_pem(&identity().chain_pem).unwrap());
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
    let server = ServerContext::build(identity(), TlsState::Compact, verifier).unwrap();
    let known = TlsOptions { identity: Some(identity().clone()), ..trusting() };
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        for (options, good) in [(&known, true), (&trusting(), false)] {
            let options = TlsOptions { version: Some(version), ..options.clone() };
            let client = ClientContext::new(&options).unwrap();
            let session = client.session(&name("localhost"), false).unwrap();
            let (client, server) = Pair::of(session, server.session().unwrap()).run();
            assert_eq!(server.is_ok(), good);
            let expected = if good { None } else { Some(ErrorClass::TlsAlert) };
            assert_eq!(client.err().map(|error| error.class()), expected, "{version:?}");
        }
    }
}

#[test]
fn a_close_is_announced_and_ends_the_reading() {
    let mut pair = pair(&trusting());
    pair.settle();
    assert!(pair.server.seen.iter().all(|received| !received.peer_closed));
    pair.client.write(b"last").unwrap();
    pair.client.close();
    pair.settle();
    assert_eq!(pair.server.got, b"last");
    assert!(pair.server.peer_closed());
    // TLS 1.3 is half closed: the other direction still works.
    pair.server.write(b"bye").unwrap();
    pair.settle();
    assert_eq!(pair.client.got, b"bye");
}

#[test]
fn a_damaged_record_is_an_error_after_what_came_before_it() {
    let mut pair = pair(&trusting());
    pair.settle();
    pair.server.write(b"good").unwrap();
    pair.server.write(b"bad").unwrap();
    let mut wire = pair.server.take_out();
    *wire.last_mut().unwrap() ^= 1;
    let error = pair.client.receive(&wire).unwrap_err();
    assert_eq!(error.class(), ErrorClass::TlsRecord, "{error}");
    assert_eq!(pair.client.got, b"good");
    assert!(pair.client.wants_transmit(), "the peer is to be told");
}

/// The key_share extension (51) of a ClientHello in one record.
fn key_share(hello: &[u8]) -> Vec<u8> {
    let length = |at: usize| usize::from(u16::from_be_bytes([hello[at], hello[at + 1]]));
    // Record header, message header, version and random; then the session id, the suites, the
    // compression methods, and the length of all extensions.
    let mut at = 5 + 4 + 2 + 32;
    at += 1 + usize::from(hello[at]);
    at += 2 + length(at);
    at += 1 + usize::from(hello[at]) + 2;
    while length(at) != 51 {
        at += 4 + length(at + 2);
    }
    hello[at + 4..at + 4 + length(at + 2)].to_vec()
}

#[test]
fn shares_are_reused_only_when_asked_for() {
    let share = |context: &ClientContext| {
        let mut out = Vec::new();
        let mut session = context.session(&name("localhost"), false).unwrap();
        session.poll_transmit(&mut ThreadContext::new(0), &mut out);
        key_share(&out)
    };
    for group in [Group::X25519, Group::Secp256r1, Group::Secp384r1] {
        for reuse_key_share in [false, true] {
            let options = TlsOptions { groups: vec![group], reuse_key_share, ..trusting() };
            let context = ClientContext::new(&options).unwrap();
            assert_eq!(share(&context) == share(&context), reuse_key_share, "{group:?}");
            let mut pair = pair(&options);
            pair.settle();
            assert_eq!(pair.client.finished(), 1);
        }
    }
}

#[test]
fn settings_are_described() {
    let options = TlsOptions { version: Some(TlsVersion::V1_3), resume_ratio: 0.25, ..trusting() };
    assert_eq!(
        ClientContext::new(&options).unwrap().describe(),
        "TLS 1.3 only, AES-128 before AES-256, groups x25519 secp256r1 secp384r1, \
         certificates checked against --cacert, each chain once in 10 s, resuming 25 %, compact after the handshake"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn split_anywhere_equals_whole(step_bytes in 1usize..300, size in 0usize..40_000) {
        let mut pair = pair(&trusting());
        pair.step_bytes = step_bytes;
        let request: Vec<u8> = (0..size).map(|index| index as u8).collect();
        pair.client.write(&request).unwrap();
        pair.settle();
        pair.server.write(&request).unwrap();
        pair.server.close();
        pair.settle();
        prop_assert!(pair.server.got == request && pair.client.got == request);
        prop_assert_eq!(pair.client.finished(), 1);
        prop_assert_eq!(pair.server.finished(), 1);
        prop_assert!(pair.client.peer_closed());
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic(
        garbage in prop::collection::vec(any::<u8>(), 0..600),
        prefix in prop::sample::select(vec![&b""[..], b"\x16\x03\x01", b"\x17\x03\x03\x00\x20"]),
        after_handshake in any::<bool>(),
    ) {
        let mut pair = pair(&trusting());
        if after_handshake {
            pair.settle();
        }
        let bytes = [prefix, &garbage].concat();
        for end in [&mut pair.client, &mut pair.server] {
            // A second helping after an error must be harmless too.
            let _ = end.receive(&bytes);
            let _ = end.receive(&bytes);
            end.take_out();
            prop_assert!(end.got.is_empty());
        }
    }
}
