//! Cipher suites of the record layer, and the derivation of a key from a secret.
//!
//! A connection stores a [`Suite`] (one byte) and 48 bytes of [`Secret`] per direction. [`Material`] states the
//! content of the secret: a traffic secret of TLS 1.3, or key and IV. [`Suite::key_of`] derives the key and IV of the
//! records, and [`Suite::next_secret`] the secret after a KeyUpdate. [`ExpandedKey`] is the large form that seals and
//! opens records. An AES-GCM key protects at most 2^24 records. Start with [`Suite::key_of`].

use aws_lc_rs::aead::{LessSafeKey, UnboundKey};
use aws_lc_rs::error::Unspecified;
use aws_lc_rs::{aead, hkdf};
use rustls::CipherSuite;
use zeroize::Zeroize;

/// Longest secret: SHA-384's output. A key (32 bytes) and an IV (12) fit as well.
pub(crate) const SECRET_BYTES: usize = 48;
pub(crate) const IV_BYTES: usize = 12;
/// Position of the IV in a [`Secret`] that holds a key and an IV.
const IV_AT: usize = 32;
/// AES-GCM keys are not used for more records than this (RFC 8446 5.5 allows 2^24.5 of full size).
const GCM_RECORDS_MAX: u64 = 1 << 24;

#[cfg(test)]
thread_local! {
    /// A limit that a test can reach.
    pub(crate) static RECORDS_MAX_IN_TEST: std::cell::Cell<Option<u64>> =
        const { std::cell::Cell::new(None) };
}

/// A TLS 1.3 traffic secret, or a key and its IV; see [`Material`]. Bytes that are not used are
/// zero, and all are after its drop.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) [u8; SECRET_BYTES]);

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Secret {
    /// Creates a secret from `key` and `iv`.
    pub(crate) fn of_key(key: &[u8], iv: &[u8]) -> Self {
        let mut bytes = [0; SECRET_BYTES];
        bytes[..key.len()].copy_from_slice(key);
        bytes[IV_AT..IV_AT + IV_BYTES].copy_from_slice(iv);
        Self(bytes)
    }

    /// Returns eight of its bytes as a number; secrets are as good as random. `nth` is below 4.
    pub(crate) fn number(&self, nth: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.0[8 * nth..8 * (nth + 1)]);
        u64::from_le_bytes(bytes)
    }
}

/// The content of a [`Secret`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Material {
    /// A TLS 1.3 traffic secret: keys are derived from it, and so is the next one.
    TrafficSecret,
    /// A key and an IV, from which nothing follows.
    Key,
}

/// A cipher suite of TLS 1.3 or 1.2 that rustls may agree on. One byte in each connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Suite {
    Aes128,
    Aes256,
    ChaCha20,
    EcdheEcdsaAes128,
    EcdheEcdsaAes256,
    EcdheEcdsaChaCha20,
    EcdheRsaAes128,
    EcdheRsaAes256,
    EcdheRsaChaCha20,
}

impl Suite {
    /// Finds the suite; `None` for an unknown one.
    pub(crate) const fn of(suite: CipherSuite) -> Option<Self> {
        use CipherSuite as C;
        Some(match suite {
            C::TLS13_AES_128_GCM_SHA256 => Self::Aes128,
            C::TLS13_AES_256_GCM_SHA384 => Self::Aes256,
            C::TLS13_CHACHA20_POLY1305_SHA256 => Self::ChaCha20,
            C::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => Self::EcdheEcdsaAes128,
            C::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => Self::EcdheEcdsaAes256,
            C::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => Self::EcdheEcdsaChaCha20,
            C::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => Self::EcdheRsaAes128,
            C::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => Self::EcdheRsaAes256,
            C::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => Self::EcdheRsaChaCha20,
            _ => return None,
        })
    }

    pub(crate) const fn is_tls13(self) -> bool {
        matches!(self, Self::Aes128 | Self::Aes256 | Self::ChaCha20)
    }

    /// Reports whether records carry half of their nonce, as AES-GCM's in TLS 1.2 do.
    pub(crate) const fn has_explicit_nonce(self) -> bool {
        !self.is_tls13() && !self.is_chacha20()
    }

    /// Records that one key may protect.
    pub(crate) fn records_max(self) -> u64 {
        #[cfg(test)]
        if let Some(records) = RECORDS_MAX_IN_TEST.get() {
            return records;
        }
        // ChaCha20-Poly1305 has no limit of practical size; the last numbers are left for alerts.
        if self.is_chacha20() { u64::MAX - 0xffff } else { GCM_RECORDS_MAX }
    }

    const fn is_chacha20(self) -> bool {
        matches!(self, Self::ChaCha20 | Self::EcdheEcdsaChaCha20 | Self::EcdheRsaChaCha20)
    }

    fn aead(self) -> &'static aead::Algorithm {
        match self {
            Self::Aes128 | Self::EcdheEcdsaAes128 | Self::EcdheRsaAes128 => &aead::AES_128_GCM,
            Self::Aes256 | Self::EcdheEcdsaAes256 | Self::EcdheRsaAes256 => &aead::AES_256_GCM,
            Self::ChaCha20 | Self::EcdheEcdsaChaCha20 | Self::EcdheRsaChaCha20 => {
                &aead::CHACHA20_POLY1305
            }
        }
    }

    fn hkdf(self) -> hkdf::Algorithm {
        if self == Self::Aes256 { hkdf::HKDF_SHA384 } else { hkdf::HKDF_SHA256 }
    }

    /// Returns the key and IV that records are protected with: `secret` itself, or derived from it (RFC 8446 7.3).
    pub(crate) fn key_of(self, material: Material, secret: &Secret) -> Result<Secret, Unspecified> {
        if material == Material::Key {
            return Ok(secret.clone());
        }
        let prk = self.prk(secret);
        let mut bytes = [0; SECRET_BYTES];
        let (key, iv) = bytes.split_at_mut(IV_AT);
        expand_label(&prk, b"key", &mut key[..self.aead().key_len()])?;
        expand_label(&prk, b"iv", &mut iv[..IV_BYTES])?;
        Ok(Secret(bytes))
    }

    /// Returns the traffic secret that a KeyUpdate replaces `secret` by (RFC 8446 7.2).
    pub(crate) fn next_secret(self, secret: &Secret) -> Result<Secret, Unspecified> {
        let mut bytes = [0; SECRET_BYTES];
        expand_label(&self.prk(secret), b"traffic upd", &mut bytes[..self.hkdf_bytes()])?;
        Ok(Secret(bytes))
    }

    fn prk(self, secret: &Secret) -> hkdf::Prk {
        hkdf::Prk::new_less_safe(self.hkdf(), &secret.0[..self.hkdf_bytes()])
    }

    const fn hkdf_bytes(self) -> usize {
        if matches!(self, Self::Aes256) { 48 } else { 32 }
    }
}

/// HKDF-Expand-Label with an empty context (RFC 8446 7.1).
fn expand_label(prk: &hkdf::Prk, label: &[u8], out: &mut [u8]) -> Result<(), Unspecified> {
    let lengths = [0, out.len() as u8, (b"tls13 ".len() + label.len()) as u8];
    prk.expand(&[&lengths, b"tls13 ", label, &[0]], OutputBytes(out.len()))?.fill(out)
}

struct OutputBytes(usize);

impl hkdf::KeyType for OutputBytes {
    fn len(&self) -> usize {
        self.0
    }
}

/// An expanded key, of some hundred bytes.
pub(crate) struct ExpandedKey {
    pub(crate) aead: LessSafeKey,
    pub(crate) iv: [u8; IV_BYTES],
}

impl ExpandedKey {
    /// Expands `key`, which is a key and an IV.
    pub(crate) fn new(suite: Suite, key: &Secret) -> Result<Self, Unspecified> {
        let algorithm = suite.aead();
        let aead = LessSafeKey::new(UnboundKey::new(algorithm, &key.0[..algorithm.key_len()])?);
        let mut iv = [0; IV_BYTES];
        iv.copy_from_slice(&key.0[IV_AT..IV_AT + IV_BYTES]);
        Ok(Self { aead, iv })
    }
}
