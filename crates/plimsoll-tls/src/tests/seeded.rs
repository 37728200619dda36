//! Handshakes without chance: the same seed gives the same bytes, so that what follows them can be
//! compared byte for byte.

use std::cell::Cell;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ::aws_lc_rs::agreement;
use ::aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey};
use rcgen::{CertificateParams, KeyPair, PKCS_ED25519};
use rustls::client::Resumption;
use rustls::crypto::{
    ActiveKeyExchange, CryptoProvider, GetRandomFailed, SecureRandom, SharedSecret,
    SupportedKxGroup, aws_lc_rs,
};
use rustls::pki_types::UnixTime;
use rustls::server::{NoServerSessionStorage, ProducesTickets};
use rustls::sign::SingleCertAndKey;
use rustls::time_provider::TimeProvider;
use rustls::{
    CipherSuite, CipherSuiteCommon, ClientConfig, NamedGroup, ServerConfig, SupportedCipherSuite,
    Tls12CipherSuite, Tls13CipherSuite,
};

use plimsoll_model::plan::Identity;

use crate::Session;
use crate::capture::SecretSink;
use crate::handshaking::Afterwards;
use crate::identity::{certified_key, roots_from_pem};
use crate::suite::RECORDS_MAX_IN_TEST;
use crate::tickets::TicketStore;

thread_local! {
    static STATE: Cell<u64> = const { Cell::new(0) };
}

/// splitmix64.
fn next_u64() -> u64 {
    let state = STATE.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
    STATE.set(state);
    let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[derive(Debug)]
struct Seeded;

impl SecureRandom for Seeded {
    fn fill(&self, bytes: &mut [u8]) -> Result<(), GetRandomFailed> {
        for chunk in bytes.chunks_mut(8) {
            chunk.copy_from_slice(&next_u64().to_le_bytes()[..chunk.len()]);
        }
        Ok(())
    }
}

impl SupportedKxGroup for Seeded {
    fn start(&self) -> Result<Box<dyn ActiveKeyExchange>, rustls::Error> {
        let mut bytes = [0; 32];
        self.fill(&mut bytes)?;
        let private = PrivateKey::from_private_key(&agreement::X25519, &bytes).unwrap();
        let public = private.compute_public_key().unwrap().as_ref().to_vec();
        Ok(Box::new(SeededShare { private, public }))
    }

    fn name(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

struct SeededShare {
    private: PrivateKey,
    public: Vec<u8>,
}

impl ActiveKeyExchange for SeededShare {
    fn complete(self: Box<Self>, peer: &[u8]) -> Result<SharedSecret, rustls::Error> {
        let peer = UnparsedPublicKey::new(&agreement::X25519, peer);
        let failed = rustls::Error::General("a bad share".to_owned());
        agreement::agree(&self.private, peer, failed, |secret| Ok(SharedSecret::from(secret)))
    }

    fn pub_key(&self) -> &[u8] {
        &self.public
    }

    fn group(&self) -> NamedGroup {
        NamedGroup::X25519
    }
}

#[derive(Debug)]
struct OpenTickets;

impl ProducesTickets for OpenTickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        3600
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        Some(plain.to_vec())
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        Some(cipher.to_vec())
    }
}

#[derive(Debug)]
struct StoppedClock;

impl TimeProvider for StoppedClock {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000)))
    }
}

fn identity() -> &'static Identity {
    static IDENTITY: OnceLock<Identity> = OnceLock::new();
    IDENTITY.get_or_init(|| {
        let key = KeyPair::generate_for(&PKCS_ED25519).unwrap();
        let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
        let chain_pem = params.self_signed(&key).unwrap().pem();
        Identity { chain_pem, key_pem: key.serialize_pem() }
    })
}

/// Settings of a world.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    pub(super) suite: CipherSuite,
    /// The client resumes the second session.
    pub(super) resumption: bool,
    /// Tickets that a TLS 1.3 server sends.
    pub(super) tickets: usize,
    /// Records that a key may protect.
    pub(super) records_max: Option<u64>,
}

impl Settings {
    pub(super) const fn of(suite: CipherSuite) -> Self {
        Self { suite, resumption: false, tickets: 0, records_max: None }
    }
}

/// Suites that this Ed25519 server can agree on, of both versions.
pub(super) const SUITES: [CipherSuite; 6] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS13_AES_256_GCM_SHA384,
    CipherSuite::TLS13_CHACHA20_POLY1305_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
];

/// A client's and a server's configuration that know no chance.
pub(super) struct World {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

impl World {
    /// Everything in this thread that follows is a function of `settings`.
    pub(super) fn new(settings: Settings) -> Self {
        STATE.set(1);
        RECORDS_MAX_IN_TEST.set(settings.records_max);
        let provider = Arc::new(provider(settings));
        let versions = rustls::ALL_VERSIONS;
        let versions: Vec<_> = versions
            .iter()
            .copied()
            .filter(|version| provider.cipher_suites[0].version().version == version.version)
            .collect();
        let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .unwrap()
            .with_root_certificates(roots_from_pem(&identity().chain_pem).unwrap())
            .with_no_client_auth();
        client.time_provider = Arc::new(StoppedClock);
        client.key_log = Arc::new(SecretSink);
        client.enable_secret_extraction = true;
        client.resumption = match settings.resumption {
            true => Resumption::store(Arc::new(TicketStore::new(8))),
            false => Resumption::disabled(),
        };
        let key = certified_key(identity(), &provider).unwrap();
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .unwrap()
            .with_no_client_auth()
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        server.time_provider = Arc::new(StoppedClock);
        server.key_log = Arc::new(SecretSink);
        server.enable_secret_extraction = true;
        server.ticketer = Arc::new(OpenTickets);
        server.send_tls13_tickets = settings.tickets;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        Self { client: Arc::new(client), server: Arc::new(server) }
    }

    pub(super) fn client(&self, afterwards: Afterwards) -> Session {
        let name = "localhost".try_into().unwrap();
        let connection = rustls::ClientConnection::new(Arc::clone(&self.client), name).unwrap();
        Session::new(connection.into(), afterwards)
    }

    pub(super) fn server(&self, afterwards: Afterwards) -> Session {
        let connection = rustls::ServerConnection::new(Arc::clone(&self.server)).unwrap();
        Session::new(connection.into(), afterwards)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        RECORDS_MAX_IN_TEST.set(None);
    }
}

fn provider(settings: Settings) -> CryptoProvider {
    let all = aws_lc_rs::default_provider();
    let suite = all.cipher_suites.iter().find(|suite| suite.suite() == settings.suite).unwrap();
    let suite = match settings.records_max {
        Some(records) => limited(*suite, records),
        None => *suite,
    };
    CryptoProvider {
        cipher_suites: vec![suite],
        kx_groups: vec![&Seeded],
        secure_random: &Seeded,
        ..all
    }
}

/// Returns the suite with a key's life cut short.
fn limited(suite: SupportedCipherSuite, records: u64) -> SupportedCipherSuite {
    let common = |common: &CipherSuiteCommon| CipherSuiteCommon {
        suite: common.suite,
        hash_provider: common.hash_provider,
        confidentiality_limit: records,
    };
    match suite {
        SupportedCipherSuite::Tls13(suite) => {
            SupportedCipherSuite::Tls13(Box::leak(Box::new(Tls13CipherSuite {
                common: common(&suite.common),
                ..*suite
            })))
        }
        SupportedCipherSuite::Tls12(suite) => {
            SupportedCipherSuite::Tls12(Box::leak(Box::new(Tls12CipherSuite {
                common: common(&suite.common),
                ..*suite
            })))
        }
    }
}
