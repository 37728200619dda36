//! A control link between two programs of one run: TLS 1.3, both ends with a certificate of an authority that
//! exists for this run alone.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_model::plan::Identity;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};
use rustls::client::{Resumption, verify_server_name};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::ServerName;
use rustls::server::{NoServerSessionStorage, ParsedCertificate, WebPkiClientVerifier};
use rustls::sign::SingleCertAndKey;
use rustls::version::TLS13;
use rustls::{ClientConfig, ClientConnection, Connection, ServerConfig, ServerConnection};

use crate::ConfigError;
use crate::error::TlsError;
use crate::handshaking::{drain, take_output};
use crate::identity::{certified_key, roots_from_pem};

/// The name in the coordinator's certificate.
const COORDINATOR: &str = "coordinator";

/// Returns the name in the certificate of agent `index`.
fn agent_name(index: u32) -> String {
    format!("agent-{index}")
}

/// Certificates of the two ends of the links of one run, and their authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunKeys {
    /// The run's authority, whose own key is gone once these are made.
    pub roots_pem: String,
    /// Identity of the end that agents connect to.
    pub coordinator: Identity,
    /// Identity of each agent, by its index.
    pub agents: Vec<Identity>,
}

impl RunKeys {
    /// Creates keys for a run with `agents` agents, whose certificates are valid in these seconds since 1970.
    pub fn new(agents: u32, valid_unix_s: Range<u64>) -> Result<Self, ConfigError> {
        let named = |name: &str| -> Result<CertificateParams, ConfigError> {
            let mut params =
                CertificateParams::new([name.to_owned()]).map_err(ConfigError::refused)?;
            params.distinguished_name.push(DnType::CommonName, name);
            let at = |unix_s: u64| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(unix_s);
            params.not_before = at(valid_unix_s.start);
            params.not_after = at(valid_unix_s.end);
            Ok(params)
        };
        let mut authority = named("plimsoll-run")?;
        authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().map_err(ConfigError::refused)?;
        let roots_pem = authority.self_signed(&key).map_err(ConfigError::refused)?.pem();
        let issuer = Issuer::new(authority, key);
        let identity = |name: &str, purpose: ExtendedKeyUsagePurpose| {
            let mut params = named(name)?;
            params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
            params.extended_key_usages = vec![purpose];
            let key = KeyPair::generate().map_err(ConfigError::refused)?;
            let certificate = params.signed_by(&key, &issuer).map_err(ConfigError::refused)?;
            Ok(Identity { chain_pem: certificate.pem(), key_pem: key.serialize_pem() })
        };
        Ok(Self {
            coordinator: identity(COORDINATOR, ExtendedKeyUsagePurpose::ServerAuth)?,
            agents: (0..agents)
                .map(|index| identity(&agent_name(index), ExtendedKeyUsagePurpose::ClientAuth))
                .collect::<Result<_, ConfigError>>()?,
            roots_pem,
        })
    }
}

/// One end's settings, for all of its links.
#[derive(Clone, Debug)]
pub struct MutualContext(Side);

#[derive(Clone, Debug)]
enum Side {
    Coordinator(Arc<ServerConfig>),
    Agent(Arc<ClientConfig>),
}

impl MutualContext {
    /// Creates the end that agents connect to.
    pub fn coordinator(identity: &Identity, roots_pem: &str) -> Result<Self, ConfigError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let roots = Arc::new(roots_from_pem(roots_pem)?);
        let verifier = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider))
            .build()
            .map_err(ConfigError::refused)?;
        let key = certified_key(identity, &provider)?;
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(ConfigError::refused)?
            .with_client_cert_verifier(verifier)
            .with_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(Self(Side::Coordinator(Arc::new(config))))
    }

    /// Creates an agent's end.
    pub fn agent(identity: &Identity, roots_pem: &str) -> Result<Self, ConfigError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let key = certified_key(identity, &provider)?;
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13])
            .map_err(ConfigError::refused)?
            .with_root_certificates(roots_from_pem(roots_pem)?)
            .with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)));
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Self(Side::Agent(Arc::new(config))))
    }

    /// Creates a link before its handshake.
    pub fn link(&self) -> Result<MutualLink, ConfigError> {
        let mut connection = match &self.0 {
            Side::Coordinator(config) => {
                ServerConnection::new(Arc::clone(config)).map_err(ConfigError::refused)?.into()
            }
            Side::Agent(config) => {
                let name = ServerName::try_from(COORDINATOR)
                    .map_err(|_| ConfigError::BadServerName { name: COORDINATOR.to_owned() })?;
                let connection = ClientConnection::new(Arc::clone(config), name);
                Connection::from(connection.map_err(ConfigError::refused)?)
            }
        };
        // What is handed over is encrypted at once and taken away by the caller.
        connection.set_buffer_limit(None);
        Ok(MutualLink(connection))
    }
}

/// One end of a link, as bytes to bytes.
#[derive(Debug)]
pub struct MutualLink(Connection);

impl MutualLink {
    /// Takes what came from the peer and adds the plaintext in it to `plaintext`. `false` once the peer sends
    /// no more.
    pub fn receive(
        &mut self,
        mut ciphertext: &[u8],
        plaintext: &mut Vec<u8>,
    ) -> Result<bool, TlsError> {
        while !ciphertext.is_empty() {
            // From memory, into a buffer that the last round has emptied.
            let read = self.0.read_tls(&mut ciphertext);
            let handshaking = self.0.is_handshaking();
            let refused = |error| TlsError::from_rustls(&error, handshaking);
            let state = self.0.process_new_packets().map_err(refused)?;
            drain(&mut self.0, plaintext);
            if state.peer_has_closed() || read.is_err() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Encrypts `plaintext` for the peer; to be taken by [`Self::take_ciphertext`].
    pub fn send(&mut self, plaintext: &[u8]) {
        // Into memory without a limit.
        let _ = std::io::Write::write_all(&mut self.0.writer(), plaintext);
    }

    /// Notifies the peer that no more is sent.
    pub fn send_close(&mut self) {
        self.0.send_close_notify();
    }

    /// Adds what must be sent to the peer to `ciphertext`.
    pub fn take_ciphertext(&mut self, ciphertext: &mut Vec<u8>) {
        take_output(&mut self.0, ciphertext);
    }

    /// Reports whether plaintext can be sent and received only later.
    pub fn is_handshaking(&self) -> bool {
        self.0.is_handshaking()
    }

    /// Returns the number of the agent, below `agents`, whose certificate the peer presented.
    pub fn agent_index(&self, agents: u32) -> Option<u32> {
        let certificate = ParsedCertificate::try_from(self.0.peer_certificates()?.first()?).ok()?;
        (0..agents).find(|index| {
            ServerName::try_from(agent_name(*index))
                .is_ok_and(|name| verify_server_name(&certificate, &name).is_ok())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALWAYS: Range<u64> = 0..4_000_000_000;

    fn contexts(coordinator: &RunKeys, agent: &RunKeys) -> [MutualContext; 2] {
        [
            MutualContext::coordinator(&coordinator.coordinator, &coordinator.roots_pem).unwrap(),
            MutualContext::agent(&agent.agents[1], &agent.roots_pem).unwrap(),
        ]
    }

    /// Carries bytes both ways until neither has more, or one refuses: what each received.
    fn exchange(ends: &mut [MutualLink; 2]) -> Result<[Vec<u8>; 2], (usize, TlsError)> {
        let mut received = [Vec::new(), Vec::new()];
        loop {
            let mut is_idle = true;
            for from in [1, 0] {
                let mut bytes = Vec::new();
                ends[from].take_ciphertext(&mut bytes);
                is_idle &= bytes.is_empty();
                let to = 1 - from;
                ends[to].receive(&bytes, &mut received[to]).map_err(|error| (to, error))?;
            }
            if is_idle {
                return Ok(received);
            }
        }
    }

    fn links(contexts: &[MutualContext; 2]) -> [MutualLink; 2] {
        contexts.each_ref().map(|context| context.link().unwrap())
    }

    #[test]
    fn both_ends_know_each_other_and_bytes_go_both_ways() {
        let keys = RunKeys::new(3, ALWAYS).unwrap();
        let mut ends = links(&contexts(&keys, &keys));
        exchange(&mut ends).unwrap();
        assert!(ends.iter().all(|end| !end.is_handshaking()));
        assert_eq!(ends[0].agent_index(3), Some(1));
        // One of a run with fewer agents.
        assert_eq!(ends[0].agent_index(1), None);
        let large: Vec<u8> = (0..300_000u32).map(|at| at as u8).collect();
        ends[1].send(&large);
        ends[0].send(b"frames");
        let received = exchange(&mut ends).unwrap();
        assert!(received[0] == large && received[1] == b"frames");
        ends[0].send_close();
        let mut bytes = Vec::new();
        ends[0].take_ciphertext(&mut bytes);
        assert!(!ends[1].receive(&bytes, &mut Vec::new()).unwrap());
    }

    #[test]
    fn strangers_and_old_certificates_are_refused() {
        let keys = RunKeys::new(2, ALWAYS).unwrap();
        let other = RunKeys::new(2, ALWAYS).unwrap();
        let old = RunKeys::new(2, 0..1_000).unwrap();
        let mixed = |identity: &Identity| RunKeys {
            roots_pem: keys.roots_pem.clone(),
            coordinator: identity.clone(),
            agents: vec![identity.clone(), identity.clone()],
        };
        // Keys of each end, and which of the two refuses.
        for (what, coordinator, agent, refuses) in [
            ("agent of another run", &keys, &mixed(&other.agents[1]), 0),
            ("coordinator of another run", &other, &keys, 1),
            ("both old", &old, &old, 1),
            ("agent that shows the coordinator's", &keys, &mixed(&keys.coordinator), 0),
            ("coordinator that shows an agent's", &mixed(&keys.agents[0]), &keys, 1),
        ] {
            let mut ends = links(&contexts(coordinator, agent));
            let (end, error) = exchange(&mut ends).expect_err(what);
            assert_eq!(end, refuses, "{what}: {error:?}");
        }
    }

    #[test]
    fn bytes_that_are_no_tls_are_refused() {
        let keys = RunKeys::new(1, ALWAYS).unwrap();
        let context = MutualContext::coordinator(&keys.coordinator, &keys.roots_pem).unwrap();
        let mut end = context.link().unwrap();
        assert!(end.receive(b"GET / HTTP/1.1\r\n\r\n", &mut Vec::new()).is_err());
    }
}
