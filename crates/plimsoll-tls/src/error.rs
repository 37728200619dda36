//! Errors of TLS: of settings before a run, and of a peer during one.
//!
//! [`ConfigError`] rejects settings before any connection exists. [`TlsError`] ends one session: [`TlsError::class`]
//! maps it to a counter of the report, [`TlsError::reason`] to a typed reason. Errors of rustls enter through
//! `TlsError::from_rustls`, which needs to know whether the handshake is running; alerts about a client certificate
//! count as handshake errors even after its end. Start reading there, then at [`fault_of`] for certificates.

use std::fmt::Display;

use rustls::{AlertDescription, CertificateError, InvalidMessage, OtherError};
use thiserror::Error;

use plimsoll_model::ErrorClass;
use plimsoll_model::reason::{CertificateFault, Reason};

use crate::diagnosis::Diagnosed;

/// Settings that no connection could be made with.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConfigError {
    /// A PEM text without a certificate in it.
    #[error("no certificate in the PEM of the {subject}; expected -----BEGIN CERTIFICATE-----")]
    NoCertificate {
        /// Name of the PEM: `certificate chain`, `trusted roots`.
        subject: &'static str,
    },
    /// A PEM text without a private key in it.
    #[error("no private key in the key's PEM; expected -----BEGIN PRIVATE KEY-----")]
    NoKey,
    /// A private key that is encrypted.
    #[error(
        "the private key is encrypted, and no passphrase is asked for; decrypt it with `openssl pkey -in KEY -out PLAIN`"
    )]
    EncryptedKey,
    /// A PEM text that is damaged.
    #[error("the PEM of the {subject} is damaged: {reason}")]
    BadPem {
        /// Name of the PEM.
        subject: &'static str,
        /// The parser's error.
        reason: String,
    },
    /// A certificate that is not usable.
    #[error("the {subject} cannot be used: {reason}")]
    BadCertificate {
        /// Role of the certificate.
        subject: &'static str,
        /// The fault in words.
        reason: String,
    },
    /// A key that is not usable.
    #[error(
        "the private key cannot be used: {reason}; give an unencrypted RSA, ECDSA or Ed25519 key"
    )]
    BadKey {
        /// The fault in words.
        reason: String,
    },
    /// Key and certificate are not a pair.
    #[error(
        "the private key does not match the certificate; give the key of the chain's first certificate"
    )]
    KeyMismatch,
    /// The host has no certificate store, or an empty one.
    #[error(
        "this host has no trusted certificates ({reason}); install ca-certificates, or use --cacert or --insecure"
    )]
    NoSystemRoots {
        /// The places that were tried.
        reason: String,
    },
    /// Neither a DNS name nor an IP address.
    #[error(
        "{name:?} is neither a DNS name nor an IP address, so TLS cannot ask for it; set --sni"
    )]
    BadServerName {
        /// The name that was given.
        name: String,
    },
    /// Groups and version exclude each other.
    #[error("x25519mlkem768 needs TLS 1.3; add another group or drop --tls 1.2")]
    GroupNeedsTls13,
    /// Anything else that rustls refuses.
    #[error("TLS cannot be set up: {reason}")]
    Refused {
        /// The error of rustls.
        reason: String,
    },
}

impl ConfigError {
    pub(crate) fn refused(error: impl Display) -> Self {
        Self::Refused { reason: error.to_string() }
    }
}

/// Why a session ended badly. The peer's doing, unless a certificate of ours is wrong.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TlsError {
    /// The peer sent a fatal alert.
    #[error("the peer ended TLS with the alert {alert}")]
    Alert {
        /// The alert's name as in RFC 8446, such as `handshake_failure`.
        alert: String,
        /// `true` if the alert belongs to the handshake, even if it came after its end.
        handshake: bool,
    },
    /// The peer speaks none of the protocols that were offered by ALPN.
    #[error("the server does not speak HTTP/2: it accepts none of the protocols offered by ALPN")]
    NoProtocol,
    /// The peer's certificate was not accepted here.
    #[error("the peer's certificate is not trusted: {fault}")]
    Untrusted {
        /// The reason.
        fault: CertificateFault,
    },
    /// The peer's first bytes are no record of TLS.
    #[error("the server answered the TLS handshake with bytes that are not TLS")]
    NotTls,
    /// The handshake failed here.
    #[error("the TLS handshake failed: {reason}")]
    Handshake {
        /// The fault of the peer's messages.
        reason: String,
    },
    /// A TLS 1.2 key has protected as many records as it may, and there is no way to another.
    #[error(
        "the connection has sent as many records as a TLS 1.2 key may protect; use TLS 1.3, or --requests-per-connection"
    )]
    KeyExhausted,
    /// Our own bound.
    #[error(
        "incomplete TLS records need more than {} MiB in one thread; use more threads or fewer connections",
        .most_bytes >> 20
    )]
    TooManyPartials {
        /// The bound.
        most_bytes: usize,
    },
    /// A record after the handshake was wrong.
    #[error("a TLS record was wrong: {reason}")]
    Record {
        /// The fault of the record.
        reason: String,
    },
}

impl TlsError {
    /// Returns the class of the error, for its counter and report row.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Alert { handshake: true, .. } => ErrorClass::TlsAlert,
            Self::NoProtocol => ErrorClass::AlpnMismatch,
            Self::Untrusted { .. } => ErrorClass::TlsUntrusted,
            Self::Handshake { .. } | Self::NotTls => ErrorClass::TlsHandshake,
            Self::Alert { handshake: false, .. } | Self::Record { .. } => ErrorClass::TlsRecord,
            Self::TooManyPartials { .. } => ErrorClass::LocalMemory,
            Self::KeyExhausted => ErrorClass::LocalOther,
        }
    }

    /// Returns the reason for reports, typed if it is known.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Alert { alert, .. } => Reason::Alert { alert: alert.clone() },
            Self::Untrusted { fault } => Reason::Certificate { fault: fault.clone() },
            Self::NotTls => Reason::NotTls,
            other => Reason::other(other),
        }
    }

    /// Creates the error for an `alert` that the peer sent after the handshake.
    pub(crate) fn alert_received(alert: AlertDescription) -> Self {
        Self::from_rustls(&rustls::Error::AlertReceived(alert), false)
    }

    pub(crate) fn failed_before() -> Self {
        Self::Record { reason: "the connection has failed before".to_owned() }
    }

    pub(crate) fn from_rustls(error: &rustls::Error, handshaking: bool) -> Self {
        match error {
            rustls::Error::AlertReceived(AlertDescription::NoApplicationProtocol) => {
                Self::NoProtocol
            }
            rustls::Error::AlertReceived(alert) => Self::Alert {
                alert: alert_name(*alert),
                handshake: handshaking || concerns_handshake(*alert),
            },
            rustls::Error::InvalidCertificate(reason) => {
                Self::Untrusted { fault: fault_of(reason) }
            }
            rustls::Error::NoCertificatesPresented => {
                Self::Untrusted { fault: CertificateFault::Missing }
            }
            rustls::Error::InvalidMessage(InvalidMessage::InvalidContentType) if handshaking => {
                Self::NotTls
            }
            other if handshaking => Self::Handshake { reason: other.to_string() },
            other => Self::Record { reason: other.to_string() },
        }
    }
}

/// Names of a certificate that are reported.
const NAMES_MAX: usize = 3;

/// Returns the fault of a certificate.
fn fault_of(error: &CertificateError) -> CertificateFault {
    use CertificateError as E;
    use CertificateFault as F;
    match error {
        E::UnknownIssuer => F::UnknownIssuer,
        // Two issuers of one name: the trusted one is not the one that signed.
        #[expect(deprecated, reason = "rustls may still give it")]
        E::BadSignature
        | E::UnsupportedSignatureAlgorithm
        | E::UnsupportedSignatureAlgorithmForPublicKeyContext { .. } => F::ForeignSignature,
        E::UnsupportedSignatureAlgorithmContext { signature_algorithm_id, .. } => {
            F::WeakSignature { algorithm: weak(signature_algorithm_id).to_owned() }
        }
        E::Expired | E::ExpiredContext { .. } => F::Expired,
        E::NotValidYet | E::NotValidYetContext { .. } => F::NotValidYet,
        E::NotValidForNameContext { presented, .. } if presented.is_empty() => F::NoName,
        E::NotValidForNameContext { expected, presented } => F::WrongName {
            asked: expected.to_str().into_owned(),
            names: presented.iter().take(NAMES_MAX).map(|name| plain_name(name)).collect(),
        },
        E::Revoked => F::Revoked,
        E::InvalidPurpose | E::InvalidPurposeContext { .. } => F::WrongPurpose,
        E::BadEncoding => F::Malformed,
        E::Other(OtherError(other)) => match other.downcast_ref::<Diagnosed>() {
            Some(Diagnosed(fault)) => fault.clone(),
            None if other.to_string().contains("CaUsedAsEndEntity") => F::Authority,
            None => F::Other { text: other.to_string() },
        },
        other => F::Other { text: other.to_string() },
    }
}

/// A name as certificates are said to have it: rustls writes `DnsName("a.test")`.
fn plain_name(name: &str) -> String {
    let quoted = name.split_once('"').and_then(|(_, rest)| rest.rsplit_once('"'));
    quoted.map_or(name, |(name, _)| name).to_owned()
}

/// Names the algorithm of a signature that is not accepted, by the bytes of its object identifier; empty if it has no
/// name here.
fn weak(id: &[u8]) -> &'static str {
    const RSA_MD5: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x04];
    const RSA_SHA1: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x05];
    const ECDSA_SHA1: &[u8] = &[0x2A, 0x86, 0x48, 0xCE, 0x3D, 0x04, 0x01];
    let has = |oid: &[u8]| id.windows(oid.len()).any(|part| part == oid);
    if has(RSA_SHA1) || has(ECDSA_SHA1) {
        "SHA-1"
    } else if has(RSA_MD5) {
        "MD5"
    } else {
        ""
    }
}

/// A TLS 1.3 client is done before the server has judged the client's certificate, so these may
/// come after the handshake's end and still be about it.
const fn concerns_handshake(alert: AlertDescription) -> bool {
    use AlertDescription as A;
    matches!(
        alert,
        A::HandshakeFailure
            | A::NoCertificate
            | A::BadCertificate
            | A::UnsupportedCertificate
            | A::CertificateRevoked
            | A::CertificateExpired
            | A::CertificateUnknown
            | A::UnknownCA
            | A::AccessDenied
            | A::CertificateRequired
    )
}

/// Returns the name in RFC 8446, such as `handshake_failure` for `HandshakeFailure`.
fn alert_name(alert: AlertDescription) -> String {
    match alert {
        // Names that cannot be derived from rustls's names.
        AlertDescription::UnrecognisedName => return "unrecognized_name".to_owned(),
        AlertDescription::UnknownPSKIdentity => return "unknown_psk_identity".to_owned(),
        _ => {}
    }
    let Some(camel) = alert.as_str() else {
        return format!("number {}", u8::from(alert));
    };
    let mut name = String::with_capacity(camel.len() + 3);
    let mut after_lower = false;
    for letter in camel.chars() {
        if letter.is_ascii_uppercase() && after_lower {
            name.push('_');
        }
        after_lower = letter.is_ascii_lowercase();
        name.push(letter.to_ascii_lowercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alerts_are_named_as_in_the_rfc() {
        for (alert, name) in [
            (AlertDescription::HandshakeFailure, "handshake_failure"),
            (AlertDescription::UnknownCA, "unknown_ca"),
            (AlertDescription::BadRecordMac, "bad_record_mac"),
            (AlertDescription::UnrecognisedName, "unrecognized_name"),
            (AlertDescription::UnknownPSKIdentity, "unknown_psk_identity"),
            (AlertDescription::NoApplicationProtocol, "no_application_protocol"),
            (AlertDescription::Unknown(200), "number 200"),
        ] {
            assert_eq!(alert_name(alert), name);
        }
    }

    fn weakly_signed(id: &[u8]) -> CertificateError {
        CertificateError::UnsupportedSignatureAlgorithmContext {
            signature_algorithm_id: id.to_vec(),
            supported_algorithms: Vec::new(),
        }
    }

    #[test]
    fn common_faults_of_certificates_are_told_in_words() {
        for (error, part) in [
            (CertificateError::UnknownIssuer, "has issued it"),
            (CertificateError::Expired, "has expired"),
            (CertificateError::BadSignature, "has not signed it"),
            (weakly_signed(&[6, 9, 0x2A, 0x86, 0x48, 0x86, 0xF7, 13, 1, 1, 5]), "with SHA-1"),
            (weakly_signed(&[0x2A, 0x86, 0x48, 0xCE, 0x3D, 4, 1]), "with SHA-1"),
            (weakly_signed(&[0x2A, 0x86, 0x48, 0x86, 0xF7, 13, 1, 1, 4]), "with MD5"),
            (weakly_signed(&[0x2A]), "an algorithm that is not accepted"),
        ] {
            let error = rustls::Error::InvalidCertificate(error);
            let text = TlsError::from_rustls(&error, true).to_string();
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn an_alert_about_a_certificate_belongs_to_the_handshake() {
        let class = |alert, handshaking| {
            TlsError::from_rustls(&rustls::Error::AlertReceived(alert), handshaking).class()
        };
        assert_eq!(class(AlertDescription::CertificateRequired, false), ErrorClass::TlsAlert);
        assert_eq!(class(AlertDescription::BadRecordMac, false), ErrorClass::TlsRecord);
        assert_eq!(class(AlertDescription::BadRecordMac, true), ErrorClass::TlsAlert);
    }
}
