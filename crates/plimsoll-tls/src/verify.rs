//! The verifiers that rustls lacks: the one behind `--insecure`, and the one that also trusts a
//! certificate by itself; and what checks the signatures of one type of key alone.

use std::sync::{Arc, LazyLock};

use plimsoll_model::plan::CertificateKey;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, aws_lc_rs};
use rustls::pki_types::{CertificateDer, ServerName, SignatureVerificationAlgorithm, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, SignatureScheme};

/// Delegates the signatures of a handshake, and their schemes, to the verifier in a field; `$told` changes its errors.
macro_rules! signatures_as {
    ($inner:ident $(, $told:expr)?) => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.$inner.verify_tls12_signature(message, cert, dss)$(.map_err(|error| $told(error, cert)))?
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            self.$inner.verify_tls13_signature(message, cert, dss)$(.map_err(|error| $told(error, cert)))?
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.$inner.supported_verify_schemes()
        }
    };
}

/// Accepts any certificate and does not check the handshake's signature by it.
///
/// A signature by an untrusted key proves nothing about the peer's identity, and a check
/// costs as much CPU as the rest of the handshake's public-key work. What still holds, and
/// is all that a correct exchange of bytes needs: both ends share the key exchange's secret and
/// saw the same transcript (Finished).
#[derive(Debug)]
pub(crate) struct AcceptAnyServer {
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AcceptAnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn verify_tls13_signature(
        &self,
        _message: &[u8],
        _cert: &CertificateDer<'_>,
        _dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Ok(HandshakeSignatureValid::assertion())
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Accepts what chains to the trusted certificates, and a trusted certificate itself.
///
/// `openssl req -x509` marks the certificates that it makes as authorities. rustls accepts no
/// authority as a server's own certificate, other clients do when they are configured to trust exactly
/// this one (`curl --cacert`), and so do we.
#[derive(Debug)]
pub(crate) struct TrustedServer {
    pub(crate) chained: Arc<WebPkiServerVerifier>,
    pub(crate) trusted: Vec<CertificateDer<'static>>,
}

impl ServerCertVerifier for TrustedServer {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chained = self.chained.verify_server_cert(
            end_entity,
            intermediates,
            server_name,
            ocsp_response,
            now,
        );
        match chained {
            // CaUsedAsEndEntity: returned after the dates were checked, before the name is.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if self.trusted.iter().any(|trusted| trusted == end_entity) =>
            {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    signatures_as!(chained);
}

/// Returns the signature schemes of a client whose server must have a key of this type: it offers no other schemes, by
/// which a server that has several certificates chooses. Chains are checked as ever.
pub(crate) fn algorithms_of(key: CertificateKey) -> WebPkiSupportedAlgorithms {
    static RSA: LazyLock<Vec<Scheme>> = LazyLock::new(|| schemes_of(CertificateKey::Rsa));
    static ECDSA: LazyLock<Vec<Scheme>> = LazyLock::new(|| schemes_of(CertificateKey::Ecdsa));
    let mapping = match key {
        CertificateKey::Rsa => &RSA,
        CertificateKey::Ecdsa => &ECDSA,
    };
    WebPkiSupportedAlgorithms { mapping, ..all_algorithms() }
}

/// A scheme, and what checks signatures of it.
type Scheme = (SignatureScheme, &'static [&'static dyn SignatureVerificationAlgorithm]);

fn all_algorithms() -> WebPkiSupportedAlgorithms {
    aws_lc_rs::default_provider().signature_verification_algorithms
}

fn schemes_of(key: CertificateKey) -> Vec<Scheme> {
    let all = all_algorithms().mapping.iter().copied();
    all.filter(|(scheme, _)| key_of(*scheme) == Some(key)).collect()
}

/// The type of key that makes signatures of `scheme`; `None` for other types.
fn key_of(scheme: SignatureScheme) -> Option<CertificateKey> {
    use SignatureScheme as S;
    match scheme {
        S::RSA_PKCS1_SHA256
        | S::RSA_PKCS1_SHA384
        | S::RSA_PKCS1_SHA512
        | S::RSA_PSS_SHA256
        | S::RSA_PSS_SHA384
        | S::RSA_PSS_SHA512 => Some(CertificateKey::Rsa),
        S::ECDSA_NISTP256_SHA256 | S::ECDSA_NISTP384_SHA384 | S::ECDSA_NISTP521_SHA512 => {
            Some(CertificateKey::Ecdsa)
        }
        _ => None,
    }
}
