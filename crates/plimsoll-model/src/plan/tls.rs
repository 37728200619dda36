//! TLS of a load and of a server: trust, certificates, versions, groups and tickets.
//!
//! [`TlsOptions`] is the client's part of a load plan and contains everything about TLS that affects a measurement.
//! [`Identity`] and [`TicketKey`] are secrets: `Debug` hides them, and `framed!` restricts their serialisation to
//! frames, so that they cannot reach an archive. Certificates and keys are PEM text. Start reading at [`TlsOptions`].

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::framed::framed;
use crate::units::ParseError;

/// The name that is sent as SNI and checked against the certificate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ServerName(pub String);

/// The roots that a server's certificate is checked against.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trust {
    /// The host's certificate store.
    #[default]
    System,
    /// Only these roots, PEM.
    Roots(String),
    /// Anything: `--insecure`.
    Insecure,
}

named! {
    /// A TLS version that can be forced.
    pub enum TlsVersion {
        /// TLS 1.2, RFC 5246.
        V1_2 = "1.2",
        /// TLS 1.3, RFC 8446.
        V1_3 = "1.3",
    }
}

read_by_name!(TlsVersion: "a TLS version: 1.2 or 1.3");

named! {
    /// A key-exchange group, by its IANA name.
    pub enum Group {
        /// Curve25519.
        X25519 = "x25519",
        /// NIST P-256.
        Secp256r1 = "secp256r1",
        /// NIST P-384.
        Secp384r1 = "secp384r1",
        /// The post-quantum hybrid; TLS 1.3 only.
        X25519Mlkem768 = "x25519mlkem768",
    }
}

impl FromStr for Group {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        match text.to_ascii_lowercase().as_str() {
            "x25519" => Ok(Self::X25519),
            "secp256r1" | "p256" | "p-256" | "prime256v1" => Ok(Self::Secp256r1),
            "secp384r1" | "p384" | "p-384" => Ok(Self::Secp384r1),
            "x25519mlkem768" => Ok(Self::X25519Mlkem768),
            _ => Err(ParseError {
                text: text.to_owned(),
                expected: "a group: x25519, secp256r1, secp384r1 or x25519mlkem768",
            }),
        }
    }
}

/// Everything about TLS that changes what is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct TlsOptions {
    /// Roots that certificates are checked against.
    pub trust: Trust,
    /// Client certificate: chain and key, PEM.
    #[serde(with = "crate::framed")]
    pub identity: Option<Identity>,
    /// Only this version; `None` offers 1.3 and 1.2.
    pub version: Option<TlsVersion>,
    /// Groups in order of preference; empty means x25519, secp256r1, secp384r1.
    pub groups: Vec<Group>,
    /// Fraction of new connections that offer a session ticket, 0 to 1; 0 is full handshakes only.
    pub resume_ratio: f64,
    /// One key share per thread and group for all handshakes, instead of a new one for each.
    pub reuse_key_share: bool,
    /// State that each connection stores after its handshake.
    pub state: TlsState,
    /// Offer HTTP/2, and only that, by ALPN; otherwise no protocol is offered.
    pub offers_http2: bool,
    /// The server's certificate must have a key of this type; `None` for any.
    pub certificate_key: Option<CertificateKey>,
    /// Session tickets that a process keeps for each server, about 1 kB each.
    pub tickets_max: u32,
}

impl TlsOptions {
    /// More than the handshakes that one process has in flight, unless all clients come at once.
    pub const TICKETS_MAX: u32 = 1_024;
}

/// The type of a certificate's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CertificateKey {
    /// RSA of any size.
    Rsa,
    /// ECDSA on any curve.
    Ecdsa,
}

named! {
    /// The state that a TLS connection stores between its handshake and its end.
    #[derive(Default)]
    pub enum TlsState {
        /// Traffic secrets and sequence numbers; records by our own layer.
        #[default]
        Compact = "compact",
        /// The whole rustls object: the reference that the compact state is compared with.
        Rustls = "rustls",
    }
}

impl Default for TlsOptions {
    fn default() -> Self {
        Self {
            trust: Trust::System,
            identity: None,
            version: None,
            groups: Vec::new(),
            resume_ratio: 0.0,
            reuse_key_share: false,
            state: TlsState::Compact,
            offers_http2: false,
            certificate_key: None,
            tickets_max: Self::TICKETS_MAX,
        }
    }
}

/// A certificate chain and its key.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Identity {
    /// PEM, leaf first.
    pub chain_pem: String,
    /// PEM; never written to an archive.
    pub key_pem: String,
}

impl std::fmt::Debug for Identity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Identity { key_pem: <secret> }")
    }
}

/// The key that encrypts a server's tickets. Processes with the same key accept each other's.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct TicketKey(pub [u8; 32]);

impl std::fmt::Debug for TicketKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TicketKey(<secret>)")
    }
}

framed!(Identity, TicketKey, TlsOptions);
