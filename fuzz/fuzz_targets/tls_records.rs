//! TLS records on a parked connection: no input panics or passes for the peer's data, and splitting
//! changes nothing. The first byte chooses the version, the side and how the rest is split.
#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use plimsoll_model::plan::{ServerName, TlsOptions, TlsState, TlsVersion, Trust};
use plimsoll_tls::{ClientContext, KeyKind, ServerContext, Session, ThreadContext};

struct World {
    clients: [ClientContext; 2],
    server: ServerContext,
}

fn world() -> &'static World {
    static WORLD: OnceLock<World> = OnceLock::new();
    WORLD.get_or_init(|| {
        let names = ["localhost".to_owned()];
        let identity = plimsoll_tls::self_signed(&names, KeyKind::EcdsaP256).unwrap();
        let client = |version| {
            let version = Some(version);
            let options = TlsOptions { trust: Trust::Insecure, version, ..TlsOptions::default() };
            ClientContext::new(&TlsOptions { reuse_key_share: true, ..options }).unwrap()
        };
        World {
            clients: [client(TlsVersion::V1_2), client(TlsVersion::V1_3)],
            server: ServerContext::new(&identity, TlsState::Compact).unwrap(),
        }
    })
}

/// Both ends after a handshake.
fn compact(version: usize, thread: &mut ThreadContext) -> [Session; 2] {
    let name = ServerName("localhost".to_owned());
    let mut client = world().clients[version].session(&name, false).unwrap();
    let mut server = world().server.session().unwrap();
    let mut plaintext = Vec::new();
    while client.wants_transmit() || server.wants_transmit() {
        for turn in [true, false] {
            let (from, to) = match turn {
                true => (&mut client, &mut server),
                false => (&mut server, &mut client),
            };
            let mut wire = Vec::new();
            from.poll_transmit(thread, &mut wire);
            to.handle_ciphertext(thread, &wire, &mut plaintext).unwrap();
        }
    }
    assert!(client.is_compact() && server.is_compact() && plaintext.is_empty());
    [client, server]
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&choice, input)) = bytes.split_first() else { return };
    let (version, side) = (usize::from(choice & 1), usize::from(choice >> 1 & 1));
    let mut thread = ThreadContext::new(8);
    let mut sessions = compact(version, &mut thread);
    let session = &mut sessions[side];
    let mut plaintext = Vec::new();
    let mut failed = false;
    for piece in input.chunks(usize::from(choice >> 2) + 1) {
        failed |= session.handle_ciphertext(&mut thread, piece, &mut plaintext).is_err();
        // Once over, it stays over.
        assert!(!failed || session.handle_ciphertext(&mut thread, piece, &mut plaintext).is_err());
    }
    assert!(plaintext.is_empty(), "a forged record was taken");
    let mut out = Vec::new();
    session.poll_transmit(&mut thread, &mut out);
    // One alert at most, and only after a failure.
    assert!(if failed { (20..50).contains(&out.len()) } else { out.is_empty() });
    assert!(failed || session.write_plaintext(&mut thread, b"alive", &mut out).is_ok());
});
