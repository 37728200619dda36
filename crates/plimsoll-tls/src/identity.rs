//! Certificates and keys: PEM to rustls types, and self-signed certificates for tests and backends.
//!
//! [`self_signed`] makes a certificate that is its own root, and [`renewed`] issues another one that the same root
//! covers. [`certified_key`] parses a chain with its key, rejects an encrypted key and checks that the two match.
//! [`roots_from_pem`] and [`system_roots`] build trust stores. Every fault is a [`ConfigError`], found before a run
//! starts. Start reading at [`certified_key`].

use std::sync::Arc;

use rcgen::{
    CertificateParams, DnType, ExtendedKeyUsagePurpose, Issuer, KeyPair, KeyUsagePurpose,
    PKCS_RSA_SHA256, RsaKeySize,
};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore};

use plimsoll_model::plan::Identity;

use crate::ConfigError;

const CHAIN: &str = "certificate chain";
const ROOTS: &str = "trusted roots";

/// The key of a self-signed certificate: decides what a full handshake costs the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// Signing costs tens of microseconds.
    EcdsaP256,
    /// Signing costs some hundred microseconds, verifying far less.
    Rsa2048,
}

/// Creates a certificate for `names` (DNS names and IP addresses) that is its own root: give `chain_pem` to clients as
/// their trusted roots. Valid from 1975 to 4096, so that no clock matters.
///
/// ```
/// use plimsoll_model::plan::{ServerName, TlsOptions, TlsState, Trust};
/// use plimsoll_tls::{ClientContext, KeyKind, ServerContext, ThreadContext, self_signed};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let identity = self_signed(&["localhost".to_owned()], KeyKind::EcdsaP256)?;
/// let trust = Trust::Roots(identity.chain_pem.clone());
/// let options = TlsOptions { trust, ..TlsOptions::default() };
/// let name = ServerName("localhost".to_owned());
/// let mut client = ClientContext::new(&options)?.session(&name, false)?;
/// let mut server = ServerContext::new(&identity, TlsState::Compact)?.session()?;
///
/// let (mut thread, mut received) = (ThreadContext::new(2), Vec::new());
/// let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
/// client.write_plaintext(&mut thread, b"ping", &mut to_server)?;
/// for _ in 0..2 {
///     server.handle_ciphertext(&mut thread, &to_server, &mut received)?;
///     server.poll_transmit(&mut thread, &mut to_client);
///     client.handle_ciphertext(&mut thread, &to_client, &mut Vec::new())?;
///     (to_server.clear(), to_client.clear());
///     client.poll_transmit(&mut thread, &mut to_server);
/// }
/// assert_eq!(received, b"ping");
/// assert!(server.is_compact());
/// # Ok(())
/// # }
/// ```
pub fn self_signed(names: &[String], kind: KeyKind) -> Result<Identity, ConfigError> {
    let key = match kind {
        KeyKind::EcdsaP256 => KeyPair::generate(),
        KeyKind::Rsa2048 => KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048),
    }
    .map_err(ConfigError::refused)?;
    let certificate = parameters(names)?.self_signed(&key).map_err(ConfigError::refused)?;
    Ok(Identity { chain_pem: certificate.pem(), key_pem: key.serialize_pem() })
}

/// Creates another certificate for `names`, with a new ECDSA key. It is trusted by clients whose root is `identity`,
/// which [`self_signed`] has made for the same names.
pub fn renewed(names: &[String], identity: &Identity) -> Result<Identity, ConfigError> {
    let issuer = KeyPair::from_pem(&identity.key_pem).map_err(ConfigError::refused)?;
    let issuer = Issuer::new(parameters(names)?, issuer);
    let key = KeyPair::generate().map_err(ConfigError::refused)?;
    let certificate = parameters(names)?.signed_by(&key, &issuer).map_err(ConfigError::refused)?;
    Ok(Identity { chain_pem: certificate.pem(), key_pem: key.serialize_pem() })
}

fn parameters(names: &[String]) -> Result<CertificateParams, ConfigError> {
    let mut params = CertificateParams::new(names).map_err(ConfigError::refused)?;
    let common_name = names.first().map_or("plimsoll", String::as_str);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages =
        vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}

/// Reports whether `identity` can be presented: both PEM texts are sound and the key is the certificate's.
pub fn check_identity(identity: &Identity) -> Result<(), ConfigError> {
    certified_key(identity, &aws_lc_rs::default_provider()).map(drop)
}

pub(crate) fn certified_key(
    identity: &Identity,
    provider: &CryptoProvider,
) -> Result<Arc<CertifiedKey>, ConfigError> {
    let chain = certificates(&identity.chain_pem, CHAIN)?;
    if is_encrypted(&identity.key_pem) {
        return Err(ConfigError::EncryptedKey);
    }
    let key =
        PrivateKeyDer::from_pem_slice(identity.key_pem.as_bytes()).map_err(
            |error| match error {
                pem::Error::NoItemsFound => ConfigError::NoKey,
                other => ConfigError::BadPem { subject: "private key", reason: other.to_string() },
            },
        )?;
    let key = provider
        .key_provider
        .load_private_key(key)
        .map_err(|error| ConfigError::BadKey { reason: error.to_string() })?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        // A key without a public half cannot be compared; all built-in kinds have one.
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {
            Ok(Arc::new(certified))
        }
        Err(rustls::Error::InconsistentKeys(_)) => Err(ConfigError::KeyMismatch),
        Err(error) => {
            Err(ConfigError::BadCertificate { subject: CHAIN, reason: error.to_string() })
        }
    }
}

/// Reports whether the first key of a PEM text is encrypted: PKCS #8, or the traditional form of OpenSSL.
fn is_encrypted(key_pem: &str) -> bool {
    let is_key = |line: &&str| line.starts_with("-----BEGIN ") && line.contains("PRIVATE KEY");
    let mut lines = key_pem.lines().map(str::trim).skip_while(|line| !is_key(line));
    let begins = lines.next().is_some_and(|line| line.contains("ENCRYPTED"));
    begins
        || lines
            .next()
            .is_some_and(|line| line.starts_with("Proc-Type:") && line.contains("ENCRYPTED"))
}

/// Reads the certificates in `roots_pem` as trust anchors.
pub(crate) fn roots_from_pem(roots_pem: &str) -> Result<RootCertStore, ConfigError> {
    let mut roots = RootCertStore::empty();
    for certificate in trusted_certificates(roots_pem)? {
        roots.add(certificate).map_err(|error| ConfigError::BadCertificate {
            subject: ROOTS,
            reason: error.to_string(),
        })?;
    }
    Ok(roots)
}

/// Reads the certificates in `roots_pem`.
pub(crate) fn trusted_certificates(
    roots_pem: &str,
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    certificates(roots_pem, ROOTS)
}

/// Reads the host's trust anchors. Single entries that cannot be read are skipped, as every other client on the host
/// does.
pub(crate) fn system_roots() -> Result<RootCertStore, ConfigError> {
    let found = rustls_native_certs::load_native_certs();
    let mut roots = RootCertStore::empty();
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        let reason =
            found.errors.first().map_or_else(|| "none found".to_owned(), ToString::to_string);
        return Err(ConfigError::NoSystemRoots { reason });
    }
    Ok(roots)
}

fn certificates(
    pem: &str,
    subject: &'static str,
) -> Result<Vec<CertificateDer<'static>>, ConfigError> {
    let chain: Vec<_> = CertificateDer::pem_slice_iter(pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error: pem::Error| ConfigError::BadPem { subject, reason: error.to_string() })?;
    if chain.is_empty() {
        return Err(ConfigError::NoCertificate { subject });
    }
    Ok(chain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> Identity {
        self_signed(&["localhost".to_owned(), "127.0.0.1".to_owned()], KeyKind::EcdsaP256).unwrap()
    }

    #[test]
    fn a_fresh_identity_is_a_pair() {
        assert_eq!(check_identity(&identity()), Ok(()));
        let rsa = self_signed(&["localhost".to_owned()], KeyKind::Rsa2048).unwrap();
        assert_eq!(check_identity(&rsa), Ok(()));
    }

    #[test]
    fn clients_of_an_identity_trust_the_renewed_one() {
        let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
        let name = rustls::pki_types::ServerName::try_from("localhost").unwrap();
        for kind in [KeyKind::EcdsaP256, KeyKind::Rsa2048] {
            let first = self_signed(&names, kind).unwrap();
            let second = renewed(&names, &first).unwrap();
            assert_eq!(check_identity(&second), Ok(()));
            assert!(second.chain_pem != first.chain_pem && second.key_pem != first.key_pem);
            let roots = Arc::new(roots_from_pem(&first.chain_pem).unwrap());
            let provider = Arc::new(aws_lc_rs::default_provider());
            let verifier =
                rustls::client::WebPkiServerVerifier::builder_with_provider(roots, provider)
                    .build()
                    .unwrap();
            let leaf = certificates(&second.chain_pem, CHAIN).unwrap().remove(0);
            let now = rustls::pki_types::UnixTime::now();
            let verified = rustls::client::danger::ServerCertVerifier::verify_server_cert(
                &*verifier,
                &leaf,
                &[],
                &name,
                &[],
                now,
            );
            assert!(verified.is_ok(), "{verified:?}");
        }
    }

    #[test]
    fn every_fault_has_its_own_message() {
        let (good, other) = (identity(), identity());
        let with = |chain: &str, key: &str| {
            check_identity(&Identity { chain_pem: chain.to_owned(), key_pem: key.to_owned() })
        };
        let damaged = good.chain_pem.replacen("MII", "!!!", 1);
        let not_der = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let pkcs8 =
            "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let traditional = "-----BEGIN EC PARAMETERS-----\nAAAA\n-----END EC PARAMETERS-----\n\
                           -----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n\
                           DEK-Info: AES-256-CBC,00\n\nAAAA\n-----END EC PRIVATE KEY-----\n";
        let no_key = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
        for (chain, key, text) in [
            ("", good.key_pem.as_str(), "no certificate in the PEM"),
            (good.key_pem.as_str(), good.key_pem.as_str(), "no certificate in the PEM"),
            (good.chain_pem.as_str(), "", "no private key"),
            (good.chain_pem.as_str(), other.key_pem.as_str(), "does not match"),
            (damaged.as_str(), good.key_pem.as_str(), "is damaged"),
            (not_der, good.key_pem.as_str(), "certificate chain cannot be used"),
            (good.chain_pem.as_str(), no_key, "private key cannot be used"),
            (good.chain_pem.as_str(), pkcs8, "is encrypted"),
            (good.chain_pem.as_str(), traditional, "is encrypted"),
        ] {
            let message = with(chain, key).unwrap_err().to_string();
            assert!(message.contains(text), "{text:?} not in {message:?}");
            assert!(!message.contains('\n'), "{message:?} is not one line");
        }
        assert!(roots_from_pem("").is_err());
    }
}
