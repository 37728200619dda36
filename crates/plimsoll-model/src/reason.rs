//! Reasons of failures: for each error class the first distinct ones, with count, time and connection.
//!
//! A class is a counter; what an engineer needs is what the server, the proxy or the kernel said. Workers
//! note each failure's reason in the second's tally, where [`ErrorReasons`] stores up to [`REASONS_MAX`] distinct ones
//! per class. From there they are merged as every other count is. A reason is data: its sentence and its remedy are
//! made in the report.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::target::percent_decoded;
use crate::{ErrorClass, Nanos, secret};

/// Distinct reasons that are stored for a class.
pub const REASONS_MAX: usize = 3;
/// Characters of a text that is stored.
const TEXT_CHARS_MAX: usize = 300;
/// Characters of a body's beginning that are stored.
const BODY_CHARS_MAX: usize = 200;
/// A body with a larger share of other characters is no text.
const UNPRINTABLE_SHARE_MAX: usize = 8;

/// A fault of a server's certificate, or of its chain.
#[derive(Clone, Debug, Error, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CertificateFault {
    /// The end of its validity has passed.
    #[error("it has expired")]
    Expired,
    /// The beginning of its validity is in the future.
    #[error("it is not valid yet")]
    NotValidYet,
    /// The certificate is for other names.
    #[error("it is for {}, and not for {asked}", names.join(", "))]
    WrongName {
        /// The name that the client asked for.
        asked: String,
        /// The first names that it has.
        names: Vec<String>,
    },
    /// The certificate has no subject alternative name; the common name does not count (RFC 9525).
    #[error("it has no subject alternative name, and its common name does not count")]
    NoName,
    /// No authority that is trusted here has issued it.
    #[error("no certificate trusted here has issued it")]
    UnknownIssuer,
    /// The certificate is self-signed, and not trusted here.
    #[error("it has signed itself, and is not trusted here")]
    SelfSigned,
    /// The chain ends at a self-signed authority that is not trusted here.
    #[error("its chain ends at the authority {root:?}, which is not trusted here")]
    UntrustedRoot {
        /// The authority's common name.
        root: String,
    },
    /// The chain ends at a certificate whose issuer the server did not send and this host does not trust.
    #[error("{}", issuer_missing(issuer, *sent_others))]
    IssuerMissing {
        /// The common name of the missing issuer.
        issuer: String,
        /// `true` if the server sent any intermediate certificate.
        sent_others: bool,
    },
    /// The issuer of this name that is trusted here has not signed it.
    #[error("the certificate trusted here under its issuer's name has not signed it")]
    ForeignSignature,
    /// The certificate, or one of its issuers, is signed with an algorithm that is not accepted any more.
    #[error("it, or one of its issuers, is signed with {}", unaccepted(algorithm))]
    WeakSignature {
        /// `SHA-1`, `MD5`, or empty for another one.
        algorithm: String,
    },
    /// A key of the chain is too short.
    #[error("an RSA key of its chain has {bits} bits, and fewer than 2,048 are not accepted")]
    WeakKey {
        /// The length of the RSA key.
        bits: u32,
    },
    /// The certificate is of X.509 version 1 or 2, which has no names and no limits for authorities.
    #[error("it is an X.509 certificate of version 1 or 2, and only version 3 is accepted")]
    OldVersion,
    /// The certificate is an authority's, and not one that is trusted here itself.
    #[error("it is the certificate of an authority, and not one that is trusted here itself")]
    Authority,
    /// The certificate is not for servers.
    #[error("it is not for servers (extended key usage)")]
    WrongPurpose,
    /// The certificate was revoked.
    #[error("it was revoked")]
    Revoked,
    /// The server presented none.
    #[error("the server presented none")]
    Missing,
    /// The certificate cannot be read.
    #[error("it cannot be read")]
    Malformed,
    /// Anything else, in the words of the TLS library.
    #[error("{text}")]
    Other {
        /// A free text.
        text: String,
    },
}

fn issuer_missing(issuer: &str, sent_others: bool) -> String {
    if sent_others {
        format!(
            "the chain that the server sent ends at a certificate issued by {issuer:?}, which is neither sent nor \
             trusted here"
        )
    } else {
        format!(
            "its issuer {issuer:?} is not trusted here, and the server did not send the certificate of that issuer"
        )
    }
}

fn unaccepted(algorithm: &str) -> String {
    match algorithm {
        "" => "an algorithm that is not accepted".to_owned(),
        named => format!("{named}, which is not accepted any more"),
    }
}

/// A packet in which a broker of MQTT refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum MqttPacket {
    /// The answer to CONNECT.
    Connack,
    /// The answer to SUBSCRIBE.
    Suback,
    /// The answer to PUBLISH: PUBACK, PUBREC or PUBCOMP.
    Puback,
    /// The end of the connection.
    Disconnect,
}

/// The reason for which an operation or a connection failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Reason {
    /// A complete answer with a failing status.
    Status {
        /// HTTP's.
        status: u16,
        /// The beginning of the first such body: printable, bounded, without secrets.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        body: String,
    },
    /// The server sent an answer on an idle connection.
    Unrequested {
        /// The status, if the bytes begin an answer of HTTP.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<u16>,
        /// Time that the connection had been idle, in ms.
        idle_ms: u64,
        /// `true` if the connection had carried an answer before.
        was_used: bool,
    },
    /// The server sent more behind an answer than its head announces.
    Surplus,
    /// The server ended a new connection behind the first request and before any byte of an answer.
    Unanswered {
        /// `true` if by RST, `false` if by FIN.
        reset: bool,
    },
    /// The server ended TCP within the TLS handshake, without an alert.
    HandshakeCut {
        /// `true` if by RST, `false` if by FIN.
        reset: bool,
    },
    /// The server answered the ClientHello with bytes that are not TLS.
    NotTls,
    /// The server ended TLS with an alert.
    Alert {
        /// The alert's name as in RFC 8446, such as `handshake_failure`.
        alert: String,
    },
    /// The server's certificate was not accepted.
    Certificate {
        /// Why.
        fault: CertificateFault,
    },
    /// A call of gRPC ended with a status other than 0.
    Grpc {
        /// The status of gRPC.
        status: u8,
        /// The `grpc-message` of the first such call: printable, bounded, without secrets.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        message: String,
    },
    /// A broker of MQTT refused something, or ended the connection.
    Mqtt {
        /// The broker's packet.
        packet: MqttPacket,
        /// The reason code of MQTT 5, or the return code of a CONNACK of MQTT 3.1.1, which is below 0x80.
        code: u8,
        /// The name of the code in its standard.
        name: String,
        /// The broker's reason string (MQTT 5): printable, bounded, without secrets.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        text: String,
    },
    /// Anything else, in the words of what noticed it.
    Other {
        /// A free text.
        detail: String,
    },
}

impl Reason {
    /// Creates a reason from an untyped text, bounded and without secrets.
    pub fn other(detail: &dyn fmt::Display) -> Self {
        let detail = secret::text_redacted(&detail.to_string(), &[]);
        Self::Other { detail: detail.chars().take(TEXT_CHARS_MAX).collect() }
    }

    /// Creates the reason for a failing answer, of whose body these are the first bytes; `known` are values that are
    /// secrets.
    pub fn status(status: u16, body: &[u8], known: &[String]) -> Self {
        Self::Status { status, body: excerpt(body, known) }
    }

    /// Creates the reason for a gRPC call with a failing status; `message` is percent-encoded, and `known` are values
    /// that are secrets.
    pub fn grpc(status: u8, message: &[u8], known: &[String]) -> Self {
        Self::Grpc { status, message: excerpt(&percent_decoded(message), known) }
    }

    /// Creates the reason for a broker's refusal; `text` is its reason string, and `known` are values that are secrets.
    pub fn mqtt(packet: MqttPacket, code: u8, name: &str, text: &[u8], known: &[String]) -> Self {
        Self::Mqtt { packet, code, name: name.to_owned(), text: excerpt(text, known) }
    }

    /// Reports whether both are the same reason. Bodies, messages and times differ from one failure to the next.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Status { status: ours, .. }, Self::Status { status: theirs, .. }) => {
                ours == theirs
            }
            (
                Self::Unrequested { status: ours, was_used: our_use, .. },
                Self::Unrequested { status: theirs, was_used: their_use, .. },
            ) => (ours, our_use) == (theirs, their_use),
            (Self::Grpc { status: ours, .. }, Self::Grpc { status: theirs, .. }) => ours == theirs,
            (
                Self::Mqtt { packet: our_packet, code: ours, .. },
                Self::Mqtt { packet: their_packet, code: theirs, .. },
            ) => (our_packet, ours) == (their_packet, theirs),
            (ours, theirs) => ours == theirs,
        }
    }

    /// Takes over what a like reason has and this one lacks.
    fn complete_from(&mut self, like: &Self) {
        let (ours, theirs) = match (self, like) {
            (Self::Status { body, .. }, Self::Status { body: theirs, .. }) => (body, theirs),
            (Self::Grpc { message, .. }, Self::Grpc { message: theirs, .. }) => (message, theirs),
            (Self::Mqtt { text, .. }, Self::Mqtt { text: theirs, .. }) => (text, theirs),
            _ => return,
        };
        if ours.is_empty() {
            ours.clone_from(theirs);
        }
    }
}

/// The beginning of a body in one line; empty if it is no text.
fn excerpt(body: &[u8], known: &[String]) -> String {
    let text = String::from_utf8_lossy(body);
    let is_odd =
        |c: char| c == char::REPLACEMENT_CHARACTER || (c.is_control() && !c.is_whitespace());
    let odd = text.chars().filter(|c| is_odd(*c)).count();
    if odd * UNPRINTABLE_SHARE_MAX > text.chars().count() {
        return String::new();
    }
    let text: String =
        secret::text_redacted(&text, known).chars().filter(|c| !is_odd(*c)).collect();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(BODY_CHARS_MAX).collect()
}

/// A reason, and how often and where it occurred.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CountedReason {
    /// The reason.
    pub reason: Reason,
    /// Times that it was noted.
    pub count: u64,
    /// Time from the load's epoch to the first one; zero for what happened before.
    pub first: Nanos,
    /// This end's address of the first connection, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<SocketAddr>,
}

/// The first distinct reasons of each class.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ErrorReasons(BTreeMap<ErrorClass, Vec<CountedReason>>);

impl ErrorReasons {
    /// Notes a failure in `class`, so long after the epoch; `connection` is asked once for each reason that is stored.
    pub fn note(
        &mut self,
        class: ErrorClass,
        reason: Reason,
        at: Nanos,
        connection: impl FnOnce() -> Option<SocketAddr>,
    ) {
        let reasons = self.0.entry(class).or_default();
        if let Some(counted) = reasons.iter_mut().find(|known| known.reason.is_like(&reason)) {
            counted.count += 1;
            counted.reason.complete_from(&reason);
        } else if reasons.len() < REASONS_MAX {
            let connection = connection();
            reasons.push(CountedReason { reason, count: 1, first: at, connection });
        }
    }

    /// Reports whether the body of an answer with `status` is stored already.
    pub fn has_body(&self, class: ErrorClass, status: u16) -> bool {
        let is_it = |counted: &CountedReason| matches!(&counted.reason, Reason::Status { status: known, body } if *known == status && !body.is_empty());
        self.0.get(&class).is_some_and(|reasons| reasons.iter().any(is_it))
    }

    /// Adds the reasons of another part of the load, whose times count from `shift` after our epoch.
    pub fn merge(&mut self, other: &Self, shift: Nanos) {
        for (class, theirs) in &other.0 {
            let ours = self.0.entry(*class).or_default();
            for counted in theirs {
                add(ours, CountedReason { first: counted.first + shift, ..counted.clone() });
            }
        }
    }

    /// Returns the classes that have reasons, in fixed order, the earliest reason first.
    pub fn iter(&self) -> impl Iterator<Item = (ErrorClass, &[CountedReason])> {
        self.0.iter().map(|(class, reasons)| (*class, reasons.as_slice()))
    }

    /// Returns the earliest reason of all classes.
    pub fn earliest(&self) -> Option<(ErrorClass, &CountedReason)> {
        let all = self.iter().flat_map(|(class, all)| all.iter().map(move |one| (class, one)));
        all.min_by_key(|(_, counted)| counted.first)
    }

    /// Reports whether nothing was noted.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Adds a reason to the reasons of its class, of which the earliest stay.
fn add(ours: &mut Vec<CountedReason>, mut theirs: CountedReason) {
    if let Some(at) = ours.iter().position(|counted| counted.reason.is_like(&theirs.reason)) {
        let mut counted = ours.swap_remove(at);
        if theirs.first < counted.first {
            std::mem::swap(&mut counted, &mut theirs);
        }
        counted.count += theirs.count;
        counted.reason.complete_from(&theirs.reason);
        theirs = counted;
    }
    ours.push(theirs);
    ours.sort_by_key(|counted| counted.first);
    ours.truncate(REASONS_MAX);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(detail: &str) -> Reason {
        Reason::other(&detail)
    }

    fn noted(parts: &[(&str, u64)]) -> ErrorReasons {
        let mut reasons = ErrorReasons::default();
        for (detail, at) in parts {
            reasons.note(ErrorClass::TlsUntrusted, text(detail), Nanos(*at), || None);
        }
        reasons
    }

    fn told(reasons: &ErrorReasons) -> Vec<(String, u64, u64)> {
        let all = reasons.iter().flat_map(|(_, all)| all);
        all.map(|one| match &one.reason {
            Reason::Other { detail } => (detail.clone(), one.count, one.first.0),
            other => panic!("{other:?}"),
        })
        .collect()
    }

    #[test]
    fn messages_of_grpc_are_decoded_and_taken_over_by_like_ones() {
        let said = |bytes: &[u8]| match Reason::grpc(5, bytes, &["hunter22".to_owned()]) {
            Reason::Grpc { message, .. } => message,
            other => panic!("{other:?}"),
        };
        assert_eq!(said(b"no user%3A %C3%A4"), "no user: \u{e4}");
        assert_eq!(said(b"50% of %2g and %"), "50% of %2g and %");
        assert!(!said(b"token %68unter22").contains("hunter22"));
        let mut reasons = ErrorReasons::default();
        for (status, message) in [(5, &b""[..]), (5, b"no such user"), (5, b"another"), (7, b"")] {
            let reason = Reason::grpc(status, message, &[]);
            reasons.note(ErrorClass::GrpcStatus, reason, Nanos(1), || None);
        }
        let (_, all) = reasons.iter().next().expect("a class");
        assert_eq!((all.len(), all[0].count), (2, 3));
        assert_eq!(all[0].reason, Reason::grpc(5, b"no such user", &[]));
    }

    #[test]
    fn three_distinct_reasons_are_stored_and_all_alike_are_counted() {
        let reasons = noted(&[("a", 1), ("b", 2), ("a", 3), ("c", 4), ("d", 5), ("a", 6)]);
        let expected = [("a".to_owned(), 3, 1), ("b".to_owned(), 1, 2), ("c".to_owned(), 1, 4)];
        assert_eq!(told(&reasons), expected);
    }

    #[test]
    fn merged_parts_store_the_earliest_reasons() {
        let mut whole = noted(&[("a", 10), ("b", 20), ("c", 30)]);
        whole.merge(&noted(&[("b", 5), ("d", 6)]), Nanos(10));
        let expected = [("a".to_owned(), 1, 10), ("b".to_owned(), 2, 15), ("d".to_owned(), 1, 16)];
        assert_eq!(told(&whole), expected);
        assert_eq!(whole.earliest().map(|(_, counted)| counted.first), Some(Nanos(10)));
        let json = serde_json::to_string(&whole).expect("plain data");
        assert_eq!(serde_json::from_str::<ErrorReasons>(&json).expect("as written"), whole);
    }

    #[test]
    fn answers_are_alike_by_their_status_and_store_the_first_body() {
        let mut reasons = ErrorReasons::default();
        let class = ErrorClass::Status5xx;
        for body in [&b""[..], b"first", b"second"] {
            reasons.note(class, Reason::status(503, body, &[]), Nanos(1), || None);
        }
        assert!(reasons.has_body(class, 503) && !reasons.has_body(class, 502));
        let [(_, [counted])] = &reasons.iter().collect::<Vec<_>>()[..] else {
            panic!("{reasons:?}")
        };
        assert_eq!(counted.reason, Reason::Status { status: 503, body: "first".to_owned() });
        assert_eq!(counted.count, 3);
    }

    #[test]
    fn bodies_are_printable_bounded_and_without_secrets() {
        let body = |bytes: &[u8]| match Reason::status(400, bytes, &["hunter22".to_owned()]) {
            Reason::Status { body, .. } => body,
            other => panic!("{other:?}"),
        };
        assert_eq!(body(b"<h1>Bad\r\n\t request</h1>\0"), "<h1>Bad request</h1>");
        assert_eq!(body(b"no hunter22, token=abcd"), "no <redacted>, token=<redacted>");
        assert_eq!(body(&[0x1f, 0x8b, 8, 0, 0, 0, 0xff, 3]), "");
        assert_eq!(body(&[b'x'; 5_000]).len(), BODY_CHARS_MAX);
    }
}
