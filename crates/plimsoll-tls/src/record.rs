//! One TLS record: its length, its protection and its opening (RFC 8446 section 5, RFC 5246 section 6).
//!
//! The functions keep no state: suite, key and sequence number are arguments, and the caller counts the records of a
//! key. A receiver calls [`length`] and [`check_header`] before the body has arrived, then [`open`], which appends
//! the plaintext and leaves the buffer unchanged on error; [`seal`] is the inverse. The longest record has
//! [`BYTES_MAX`] bytes, header included. Each [`Fault`] names the alert that the peer gets. Start with [`open`].

use aws_lc_rs::aead::{Aad, Nonce};
use rustls::AlertDescription;

use crate::suite::{ExpandedKey, IV_BYTES, Suite};

pub(crate) const HEADER_BYTES: usize = 5;
const TAG_BYTES: usize = 16;
const EXPLICIT_NONCE_BYTES: usize = 8;
/// Most plaintext in a record.
pub(crate) const PLAINTEXT_BYTES_MAX: usize = 1 << 14;
const TLS13_EXPANSION_MAX: usize = 256;
const TLS12_EXPANSION_MAX: usize = 2048;
/// Most that any record's header may claim.
const BODY_BYTES_MAX: usize = PLAINTEXT_BYTES_MAX + TLS12_EXPANSION_MAX;
/// The longest record, header included.
pub(crate) const BYTES_MAX: usize = HEADER_BYTES + BODY_BYTES_MAX;
/// The version that every record names, TLS 1.3's as well.
const VERSION: [u8; 2] = [3, 3];

pub(crate) const CHANGE_CIPHER_SPEC: u8 = 20;
pub(crate) const ALERT: u8 = 21;
pub(crate) const HANDSHAKE: u8 = 22;
pub(crate) const APPLICATION_DATA: u8 = 23;

/// The fault of a record: the alert to send, and words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    pub(crate) alert: AlertDescription,
    pub(crate) reason: &'static str,
}

const BAD_RECORD_MAC: Fault =
    Fault { alert: AlertDescription::BadRecordMac, reason: "it is not what the peer's key made" };
const OVERFLOW: Fault =
    Fault { alert: AlertDescription::RecordOverflow, reason: "it is longer than a record may be" };
const ALL_PADDING: Fault =
    Fault { alert: AlertDescription::UnexpectedMessage, reason: "it has padding and nothing else" };
const EXHAUSTED: Fault =
    Fault { alert: AlertDescription::InternalError, reason: "the key has no record left" };

/// Returns the bytes of the first record in `bytes`, header included; `None` if `bytes` are shorter than a header. The
/// claimed length is not checked.
pub(crate) fn length(bytes: &[u8]) -> Option<usize> {
    let header = bytes.first_chunk::<HEADER_BYTES>()?;
    Some(HEADER_BYTES + usize::from(u16::from_be_bytes([header[3], header[4]])))
}

/// Reports whether `bytes`, as far as they go, can be the beginning of any TLS record.
pub(crate) fn is_plausible(bytes: &[u8]) -> bool {
    let (kind, major) = (bytes.first(), bytes.get(1));
    kind.is_none_or(|kind| (CHANGE_CIPHER_SPEC..=APPLICATION_DATA).contains(kind))
        && major.is_none_or(|major| *major == VERSION[0])
        && length(bytes).is_none_or(|length| length <= BYTES_MAX)
}

/// Refuses a protected record by its header alone, before its body has come.
pub(crate) fn check_header(suite: Suite, header: &[u8; HEADER_BYTES]) -> Result<(), Fault> {
    let expansion_max = if suite.is_tls13() { TLS13_EXPANSION_MAX } else { TLS12_EXPANSION_MAX };
    let body_bytes = usize::from(u16::from_be_bytes([header[3], header[4]]));
    let reason = match header[0] {
        CHANGE_CIPHER_SPEC => "a change_cipher_spec after the handshake",
        APPLICATION_DATA => "",
        ALERT | HANDSHAKE if !suite.is_tls13() => "",
        ALERT | HANDSHAKE => "it is not protected",
        _ => "its type is unknown",
    };
    if !reason.is_empty() {
        return Err(Fault { alert: AlertDescription::UnexpectedMessage, reason });
    }
    if body_bytes > PLAINTEXT_BYTES_MAX + expansion_max {
        return Err(OVERFLOW);
    }
    Ok(())
}

/// Opens a whole `record` whose header passed [`check_header`], appends its content to
/// `plaintext` and returns the content's type. On error `plaintext` is as it was.
pub(crate) fn open(
    suite: Suite,
    key: &ExpandedKey,
    sequence: u64,
    record: &[u8],
    plaintext: &mut Vec<u8>,
) -> Result<u8, Fault> {
    let before = plaintext.len();
    let opened = open_into(suite, key, sequence, record, plaintext);
    if opened.is_err() {
        plaintext.truncate(before);
    }
    opened
}

fn open_into(
    suite: Suite,
    key: &ExpandedKey,
    sequence: u64,
    record: &[u8],
    plaintext: &mut Vec<u8>,
) -> Result<u8, Fault> {
    let before = plaintext.len();
    let (header, body) = record.split_first_chunk::<HEADER_BYTES>().ok_or(BAD_RECORD_MAC)?;
    let mut iv = key.iv;
    let mut body = body;
    if suite.has_explicit_nonce() {
        let (explicit, rest) =
            body.split_first_chunk::<EXPLICIT_NONCE_BYTES>().ok_or(BAD_RECORD_MAC)?;
        iv[IV_BYTES - EXPLICIT_NONCE_BYTES..].copy_from_slice(explicit);
        body = rest;
    } else {
        mix_sequence(&mut iv, sequence);
    }
    let (ciphertext, tag) = body.split_last_chunk::<TAG_BYTES>().ok_or(BAD_RECORD_MAC)?;
    plaintext.resize(before + ciphertext.len(), 0);
    let opened = &mut plaintext[before..];
    let nonce = Nonce::assume_unique_for_key(iv);
    if suite.is_tls13() {
        key.aead.open_separate_gather(nonce, Aad::from(*header), ciphertext, tag, opened)
    } else {
        let aad = tls12_aad(sequence, header[0], [header[1], header[2]], ciphertext.len());
        key.aead.open_separate_gather(nonce, Aad::from(aad), ciphertext, tag, opened)
    }
    .map_err(|_| BAD_RECORD_MAC)?;
    let kind = if suite.is_tls13() { strip_padding(before, plaintext)? } else { header[0] };
    if plaintext.len() - before > PLAINTEXT_BYTES_MAX {
        return Err(OVERFLOW);
    }
    Ok(kind)
}

/// Removes the content type and the padding after it.
fn strip_padding(before: usize, plaintext: &mut Vec<u8>) -> Result<u8, Fault> {
    if plaintext.len() - before > PLAINTEXT_BYTES_MAX + 1 {
        return Err(OVERFLOW);
    }
    let last = plaintext[before..].iter().rposition(|byte| *byte != 0).ok_or(ALL_PADDING)?;
    let kind = plaintext[before + last];
    plaintext.truncate(before + last);
    Ok(kind)
}

/// Appends `content` as one protected record of type `kind`.
pub(crate) fn seal(
    suite: Suite,
    key: &ExpandedKey,
    sequence: u64,
    kind: u8,
    content: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), Fault> {
    let mut iv = key.iv;
    mix_sequence(&mut iv, sequence);
    let begin = out.len();
    let inner_kind = [kind];
    let (outer, explicit, trailer): (u8, &[u8], &[u8]) = if suite.is_tls13() {
        (APPLICATION_DATA, &[], &inner_kind)
    } else if suite.has_explicit_nonce() {
        (kind, &iv[IV_BYTES - EXPLICIT_NONCE_BYTES..], &[])
    } else {
        (kind, &[], &[])
    };
    let body_bytes = explicit.len() + content.len() + trailer.len() + TAG_BYTES;
    let [high, low] = (body_bytes as u16).to_be_bytes();
    let header = [outer, VERSION[0], VERSION[1], high, low];
    out.reserve(HEADER_BYTES + body_bytes);
    out.extend_from_slice(&header);
    out.extend_from_slice(explicit);
    let at = out.len();
    out.resize(begin + HEADER_BYTES + body_bytes, 0);
    let (sealed, end) = out[at..].split_at_mut(content.len());
    let nonce = Nonce::assume_unique_for_key(iv);
    let done = if suite.is_tls13() {
        key.aead.seal_out_of_place_scatter(nonce, Aad::from(header), content, sealed, trailer, end)
    } else {
        let aad = Aad::from(tls12_aad(sequence, kind, VERSION, content.len()));
        key.aead.seal_out_of_place_scatter(nonce, aad, content, sealed, trailer, end)
    };
    done.map_err(|_| {
        out.truncate(begin);
        EXHAUSTED
    })
}

fn mix_sequence(iv: &mut [u8; IV_BYTES], sequence: u64) {
    for (byte, mix) in iv[IV_BYTES - 8..].iter_mut().zip(sequence.to_be_bytes()) {
        *byte ^= mix;
    }
}

/// RFC 5246 6.2.3.3.
fn tls12_aad(sequence: u64, kind: u8, version: [u8; 2], content_bytes: usize) -> [u8; 13] {
    let mut aad = [0; 13];
    aad[..8].copy_from_slice(&sequence.to_be_bytes());
    aad[8] = kind;
    aad[9..11].copy_from_slice(&version);
    aad[11..].copy_from_slice(&(content_bytes as u16).to_be_bytes());
    aad
}
