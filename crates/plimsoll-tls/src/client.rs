//! The client side's settings, checked once and shared by all its sessions.
//!
//! [`ClientContext::new`] turns [`TlsOptions`] into a rustls configuration: versions, groups, suites, verifier and
//! client certificate. A second configuration with a ticket store exists only if a share of the connections resumes.
//! [`ClientContext::session`] selects one of the two for each connection and sets, as [`Afterwards`], when the
//! session becomes compact. The order of suites and groups decides the CPU cost of a handshake. Start reading at
//! [`client_config`].

use std::sync::Arc;

use rustls::client::danger::ServerCertVerifier;
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::aws_lc_rs::kx_group;
use rustls::crypto::{CryptoProvider, SupportedKxGroup, aws_lc_rs};
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, ClientConnection, RootCertStore, SupportedCipherSuite, pki_types};

use plimsoll_model::plan::{
    CertificateKey, Group, ServerName, TlsOptions, TlsState, TlsVersion, Trust,
};

use crate::agreed::HTTP2;
use crate::capture::SecretSink;
use crate::chains::RememberedChains;
use crate::diagnosis::Diagnosing;
use crate::handshaking::Afterwards;
use crate::identity::{certified_key, roots_from_pem, system_roots, trusted_certificates};
use crate::ticketer::random;
use crate::tickets::TicketStore;
use crate::verify::{AcceptAnyServer, TrustedServer, algorithms_of};
use crate::{ConfigError, Session, shares};

/// Groups without `--groups`: the ones that OpenSSL, BoringSSL and Go shared for years, and no post-quantum group,
/// whose larger key share and extra CPU must be asked for.
const GROUPS_DEFAULT: [Group; 3] = [Group::X25519, Group::Secp256r1, Group::Secp384r1];

/// The shared part of every client session of a load. Clones are cheap and share the ticket store.
#[derive(Clone, Debug)]
pub struct ClientContext {
    full: Arc<ClientConfig>,
    /// Only if a share of the connections resumes.
    resuming: Option<Arc<ClientConfig>>,
    state: TlsState,
    description: String,
}

impl ClientContext {
    /// Checks `options` and loads what they name. Reads the host's certificate store if it is
    /// trusted, which takes milliseconds: make one context and clone it.
    pub fn new(options: &TlsOptions) -> Result<Self, ConfigError> {
        let groups = if options.groups.is_empty() { &GROUPS_DEFAULT } else { &options.groups[..] };
        if options.version == Some(TlsVersion::V1_2)
            && groups.iter().all(|group| *group == Group::X25519Mlkem768)
        {
            return Err(ConfigError::GroupNeedsTls13);
        }
        let full = client_config(options, groups)?;
        let resuming = (options.resume_ratio > 0.0).then(|| {
            let mut config = full.clone();
            config.resumption = Resumption::store(Arc::new(TicketStore::new(options.tickets_max)));
            Arc::new(config)
        });
        let description = describe(options, groups);
        draw_first_random_number()?;
        Ok(Self { full: Arc::new(full), resuming, state: options.state, description })
    }

    /// Creates a session towards `name`, with the ClientHello ready to be sent. `offer_ticket` asks for resumption; it
    /// is ignored when the options allow none, and the handshake is a full one while no ticket is at hand.
    pub fn session(&self, name: &ServerName, offer_ticket: bool) -> Result<Session, ConfigError> {
        let (config, afterwards) = match &self.resuming {
            Some(resuming) if offer_ticket => (resuming, Afterwards::SettleThenCompact),
            _ => (&self.full, Afterwards::Compact),
        };
        let afterwards = match self.state {
            TlsState::Compact => afterwards,
            TlsState::Rustls => Afterwards::Keep,
        };
        let server_name = pki_types::ServerName::try_from(name.0.clone())
            .map_err(|_| ConfigError::BadServerName { name: name.0.clone() })?;
        let connection =
            ClientConnection::new(Arc::clone(config), server_name).map_err(ConfigError::refused)?;
        Ok(Session::new(connection.into(), afterwards))
    }

    /// Describes the settings that change what is measured, in one line for the report.
    pub fn describe(&self) -> &str {
        &self.description
    }
}

/// Seeds aws-lc before any measurement. Unless it was built with AWS_LC_SYS_NO_JITTER_ENTROPY, as .cargo/config.toml
/// asks for in this repository only, its first random number takes 100 ms of CPU, which the first handshake would pay.
fn draw_first_random_number() -> Result<(), ConfigError> {
    random::<1>().map(drop)
}

fn client_config(options: &TlsOptions, groups: &[Group]) -> Result<ClientConfig, ConfigError> {
    let share = |group: &Group| {
        let fresh = kx_group_of(*group);
        let reused = shares::reused(fresh.name()).filter(|_| options.reuse_key_share);
        reused.unwrap_or(fresh)
    };
    let kx_groups = groups.iter().map(share).collect();
    let provider = aws_lc_rs::default_provider();
    let mut cipher_suites = aes128_first(provider.cipher_suites);
    // A server may choose the suite first, and has then no certificate for it.
    cipher_suites.retain(|suite| fits_key(*suite, options.certificate_key));
    let signature_verification_algorithms =
        options.certificate_key.map_or(provider.signature_verification_algorithms, algorithms_of);
    let provider = Arc::new(CryptoProvider {
        kx_groups,
        cipher_suites,
        signature_verification_algorithms,
        ..provider
    });
    let versions = match options.version {
        None => rustls::ALL_VERSIONS,
        Some(TlsVersion::V1_2) => &[&rustls::version::TLS12],
        Some(TlsVersion::V1_3) => &[&rustls::version::TLS13],
    };
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(versions)
        .map_err(ConfigError::refused)?;
    let verifier_of = |roots: RootCertStore| {
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(ConfigError::refused)
    };
    let verifier: Arc<dyn ServerCertVerifier> = match &options.trust {
        Trust::System => remembering(verifier_of(system_roots()?)?),
        Trust::Roots(roots_pem) => {
            let trusted = trusted_certificates(roots_pem)?;
            let chained = verifier_of(roots_from_pem(roots_pem)?)?;
            remembering(Arc::new(TrustedServer { chained, trusted }))
        }
        Trust::Insecure => {
            let algorithms = provider.signature_verification_algorithms;
            Arc::new(AcceptAnyServer { algorithms })
        }
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(verifier);
    let mut config = match &options.identity {
        None => builder.with_no_client_auth(),
        Some(identity) => {
            let key = certified_key(identity, &provider)?;
            builder.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(key)))
        }
    };
    config.resumption = Resumption::disabled();
    if options.offers_http2 {
        config.alpn_protocols = vec![HTTP2.to_vec()];
    }
    if options.state == TlsState::Compact {
        config.enable_secret_extraction = true;
        config.key_log = Arc::new(SecretSink);
    }
    Ok(config)
}

/// Sorts suites in the order in which browsers offer them. CPUs have instructions for SHA-256, which comes with
/// AES-128; SHA-384 takes a quarter of a client's CPU for a handshake.
fn aes128_first(mut suites: Vec<SupportedCipherSuite>) -> Vec<SupportedCipherSuite> {
    // Stable, so that versions and signatures stay in rustls's order.
    suites.sort_by_key(|suite| {
        let is_aes128 = suite.suite().as_str().is_some_and(|name| name.contains("AES_128"));
        (suite.tls13().is_none(), !is_aes128)
    });
    suites
}

/// Reports whether a server with a certificate of this key can use the suite; TLS 1.3 suites name no key.
fn fits_key(suite: SupportedCipherSuite, key: Option<CertificateKey>) -> bool {
    let is_named = |name| suite.suite().as_str().is_some_and(|suite| suite.contains(name));
    match key {
        Some(CertificateKey::Rsa) => !is_named("_ECDHE_ECDSA_"),
        Some(CertificateKey::Ecdsa) => !is_named("_ECDHE_RSA_"),
        None => true,
    }
}

/// Asks `verifier` once about each chain, and diagnoses what it refuses.
fn remembering(verifier: Arc<dyn ServerCertVerifier>) -> Arc<dyn ServerCertVerifier> {
    Arc::new(Diagnosing { inner: Arc::new(RememberedChains::new(verifier)) })
}

pub(crate) fn kx_group_of(group: Group) -> &'static dyn SupportedKxGroup {
    match group {
        Group::X25519 => kx_group::X25519,
        Group::Secp256r1 => kx_group::SECP256R1,
        Group::Secp384r1 => kx_group::SECP384R1,
        Group::X25519Mlkem768 => kx_group::X25519MLKEM768,
    }
}

fn describe(options: &TlsOptions, groups: &[Group]) -> String {
    let version = match options.version {
        None => "TLS 1.3 or 1.2",
        Some(TlsVersion::V1_2) => "TLS 1.2 only",
        Some(TlsVersion::V1_3) => "TLS 1.3 only",
    };
    let groups: Vec<_> = groups.iter().map(|group| group.name()).collect();
    let shares = if options.reuse_key_share { " (shares reused)" } else { "" };
    let trust = match options.trust {
        Trust::System => "certificates checked, each chain once in 10 s",
        Trust::Roots(_) => "certificates checked against --cacert, each chain once in 10 s",
        Trust::Insecure => "neither certificates nor their signatures checked",
    };
    let identity = if options.identity.is_some() { ", client certificate" } else { "" };
    let key = match options.certificate_key {
        None => "",
        Some(CertificateKey::Rsa) => ", RSA certificates only",
        Some(CertificateKey::Ecdsa) => ", ECDSA certificates only",
    };
    let resumption = if options.resume_ratio > 0.0 {
        format!("resuming {:.0} %", options.resume_ratio * 100.0)
    } else {
        "full handshakes only".to_owned()
    };
    let state = match options.state {
        TlsState::Compact => "compact after the handshake",
        TlsState::Rustls => "kept in rustls",
    };
    let groups = groups.join(" ");
    format!(
        "{version}, AES-128 before AES-256, groups {groups}{shares}, {trust}{key}{identity}, {resumption}, {state}"
    )
}
