//! Diagnosis of a certificate chain that was refused, beyond rustls's error.
//!
//! An unknown issuer is one of three faults with three remedies: the certificate is self-signed, the chain ends at an
//! authority that is not trusted here, or the server did not send an intermediate certificate. A bad signature may come
//! from a key that is too short. Both follow from the certificates alone, of which a few fields are read here.

use std::sync::Arc;

use plimsoll_model::reason::CertificateFault;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, OtherError, SignatureScheme};

/// RSA keys below this length are not accepted.
const RSA_BITS_MIN: u32 = 2048;
/// X.509 version 3, as it is encoded.
const VERSION_3: u8 = 2;

/// A diagnosis in place of what rustls says.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Diagnosed(pub(crate) CertificateFault);

/// Asks `inner`, and diagnoses what it refuses.
#[derive(Debug)]
pub(crate) struct Diagnosing {
    pub(crate) inner: Arc<dyn ServerCertVerifier>,
}

impl ServerCertVerifier for Diagnosing {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.inner
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            .map_err(|error| diagnosed(error, end_entity, intermediates))
    }

    signatures_as!(inner, |error, cert: &CertificateDer<'_>| diagnosed(error, cert, &[]));
}

fn diagnosed(error: Error, end_entity: &[u8], intermediates: &[CertificateDer<'_>]) -> Error {
    let Error::InvalidCertificate(reason) = &error else { return error };
    match diagnosis(reason, end_entity, intermediates) {
        Some(fault) => {
            let other = OtherError(Arc::new(Diagnosed(fault)));
            Error::InvalidCertificate(CertificateError::Other(other))
        }
        None => error,
    }
}

fn diagnosis(
    error: &CertificateError,
    end_entity: &[u8],
    intermediates: &[CertificateDer<'_>],
) -> Option<CertificateFault> {
    let leaf = Fields::of(end_entity)?;
    let others: Vec<_> = intermediates.iter().filter_map(|der| Fields::of(der)).collect();
    match error {
        CertificateError::UnknownIssuer => Some(end_of_chain(&leaf, &others)),
        CertificateError::BadSignature => {
            let all = std::iter::once(&leaf).chain(&others);
            let shortest = all.filter_map(|one| rsa_bits(one.key)).min();
            let weak = shortest.filter(|bits| *bits < RSA_BITS_MIN);
            weak.map(|bits| CertificateFault::WeakKey { bits })
        }
        CertificateError::BadEncoding | CertificateError::Other(_) if leaf.version < VERSION_3 => {
            Some(CertificateFault::OldVersion)
        }
        // `openssl req -x509` marks the certificates that it makes as authorities.
        CertificateError::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => {
            (leaf.issuer == leaf.subject).then_some(CertificateFault::SelfSigned)
        }
        _ => None,
    }
}

/// Returns the end of a chain that no trusted certificate has issued.
fn end_of_chain(leaf: &Fields<'_>, others: &[Fields<'_>]) -> CertificateFault {
    let mut last = leaf;
    // A chain may be a circle.
    for _ in 0..=others.len() {
        if last.issuer == last.subject {
            return match last.subject == leaf.subject {
                true => CertificateFault::SelfSigned,
                false => CertificateFault::UntrustedRoot { root: name_of(last.subject) },
            };
        }
        match others.iter().find(|other| other.subject == last.issuer) {
            Some(issuer) => last = issuer,
            None => break,
        }
    }
    let sent_others = !others.is_empty();
    CertificateFault::IssuerMissing { issuer: name_of(last.issuer), sent_others }
}

/// The fields of a certificate that are read.
struct Fields<'a> {
    /// Encoded version: 0 for version 1.
    version: u8,
    issuer: &'a [u8],
    subject: &'a [u8],
    /// SubjectPublicKeyInfo.
    key: &'a [u8],
}

impl<'a> Fields<'a> {
    /// Reads a certificate (RFC 5280, 4.1); `None` if it is none.
    fn of(certificate: &'a [u8]) -> Option<Self> {
        let mut signed = Der(Der(certificate).content(SEQUENCE)?);
        let mut fields = Der(signed.content(SEQUENCE)?);
        let mut version = 0;
        if fields.0.first() == Some(&CONTEXT_0) {
            version = *Der(fields.content(CONTEXT_0)?).content(INTEGER)?.last()?;
        }
        fields.content(INTEGER)?;
        fields.content(SEQUENCE)?;
        let issuer = fields.content(SEQUENCE)?;
        fields.content(SEQUENCE)?;
        let subject = fields.content(SEQUENCE)?;
        Some(Self { version, issuer, subject, key: fields.content(SEQUENCE)? })
    }
}

const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const SEQUENCE: u8 = 0x30;
const CONTEXT_0: u8 = 0xA0;
/// id-at-commonName and id-at-organizationName, with tag and length.
const NAMES: [&[u8]; 2] = [&[0x06, 3, 0x55, 0x04, 0x03], &[0x06, 3, 0x55, 0x04, 0x0A]];
/// rsaEncryption.
const RSA: &[u8] = &[0x2A, 0x86, 0x48, 0x86, 0xF7, 0x0D, 0x01, 0x01, 0x01];

/// Elements of DER that are still to be read.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// Returns the content of the next element, if it has this tag.
    fn content(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, content) = self.element()?;
        (found == tag).then_some(content)
    }

    fn element(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, short, rest @ ..] = self.0 else { return None };
        let (length, rest) = match *short {
            short @ ..=0x7F => (usize::from(short), rest),
            0x81..=0x83 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(*short) - 0x80)?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }
}

/// Returns the common name in a distinguished name, or the organisation.
fn name_of(name: &[u8]) -> String {
    let named = NAMES.iter().find_map(|kind| {
        let at = name.windows(kind.len()).position(|window| window == *kind)?;
        let (_, text) = Der(&name[at + kind.len()..]).element()?;
        Some(String::from_utf8_lossy(text).into_owned())
    });
    named.unwrap_or_else(|| "an authority without a name".to_owned())
}

/// Reports whether a certificate has an RSA key.
pub(crate) fn has_rsa_key(certificate: &[u8]) -> bool {
    Fields::of(certificate).is_some_and(|fields| rsa_key(fields.key).is_some())
}

/// The elements after the algorithm of an RSA key; `None` for another algorithm.
fn rsa_key(key: &[u8]) -> Option<Der<'_>> {
    let mut fields = Der(key);
    let algorithm = fields.content(SEQUENCE)?;
    let is_rsa = algorithm.windows(RSA.len()).any(|window| window == RSA);
    is_rsa.then_some(fields)
}

/// The length of an RSA key.
fn rsa_bits(key: &[u8]) -> Option<u32> {
    let mut fields = rsa_key(key)?;
    let key = fields.content(BIT_STRING)?.get(1..)?;
    let modulus = Der(Der(key).content(SEQUENCE)?).content(INTEGER)?;
    let first = modulus.iter().position(|byte| *byte != 0)?;
    let significant = &modulus[first..];
    Some(significant.len() as u32 * 8 - significant[0].leading_zeros())
}

#[cfg(test)]
mod tests {
    use rcgen::{
        BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, PKCS_RSA_SHA256,
        RsaKeySize,
    };

    use super::*;

    fn params(name: &str, is_authority: bool) -> CertificateParams {
        let mut params = CertificateParams::new(["a.test".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        if is_authority {
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        }
        params
    }

    #[test]
    fn the_end_of_an_unknown_chain_is_named() {
        let keys: Vec<_> = (0..3).map(|_| KeyPair::generate().unwrap()).collect();
        let (top, between) = (params("Root", true), params("Middle", true));
        let root = top.self_signed(&keys[0]).unwrap();
        let root_issuer = Issuer::from_params(&top, &keys[0]);
        let middle = between.signed_by(&keys[1], &root_issuer).unwrap();
        let middle_issuer = Issuer::from_params(&between, &keys[1]);
        let leaf = params("a.test", false).signed_by(&keys[2], &middle_issuer).unwrap();
        let of = |leaf: &[u8], others: &[&CertificateDer<'static>]| {
            let others: Vec<_> = others.iter().map(|other| (*other).clone()).collect();
            diagnosis(&CertificateError::UnknownIssuer, leaf, &others)
        };
        let missing = |issuer: &str, sent_others| {
            Some(CertificateFault::IssuerMissing { issuer: issuer.to_owned(), sent_others })
        };
        assert_eq!(of(leaf.der(), &[]), missing("Middle", false));
        assert_eq!(of(leaf.der(), &[middle.der()]), missing("Root", true));
        let untrusted = CertificateFault::UntrustedRoot { root: "Root".to_owned() };
        assert_eq!(of(leaf.der(), &[root.der(), middle.der()]), Some(untrusted));
        assert_eq!(of(root.der(), &[]), Some(CertificateFault::SelfSigned));
        assert_eq!(of(b"no certificate", &[]), None);
    }

    #[test]
    fn a_short_key_is_measured() {
        let key = KeyPair::generate_rsa_for(&PKCS_RSA_SHA256, RsaKeySize::_2048).unwrap();
        let certificate = params("a.test", false).self_signed(&key).unwrap();
        let fields = Fields::of(certificate.der()).unwrap();
        assert_eq!((rsa_bits(fields.key), fields.version), (Some(2048), VERSION_3));
        // Long enough: something else is wrong with the signature.
        assert_eq!(diagnosis(&CertificateError::BadSignature, certificate.der(), &[]), None);
        for bytes in 0..certificate.der().len() {
            let _ = Fields::of(&certificate.der()[..bytes]);
        }
    }
}
