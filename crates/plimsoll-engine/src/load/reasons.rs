//! Reasons for failed operations and connections, in the tally of the present second.
//!
//! The beginnings of failing answers of HTTP/1.1 are stored until the answer is complete, for a few connections at a
//! time and only while no body of that status has been stored in this second: a proxy states there what is wrong.

use std::fmt;

use plimsoll_model::reason::Reason;
use plimsoll_model::target::Target;
use plimsoll_proto::conversation::ConversationError;
use plimsoll_proto::http1::ResponseError;
use plimsoll_proto::http2::{Http2Error, StreamFault};
use plimsoll_proto::mqtt;
use plimsoll_proto::websocket::WebSocketError;
use plimsoll_sys::Errno;
use plimsoll_tls::{ConfigError, TlsError};

use super::origin::OriginError;

/// Connections whose failing answers are stored at a time, per worker.
const ANSWERS_MAX: usize = 8;
/// Bytes of a request's body that are looked for in an answer.
const PRIVATE_BYTES_MAX: usize = 256;
/// Bytes of an answer, its head included.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// A failure that knows its reason.
pub(super) trait Why: fmt::Display {
    /// Returns the reason, typed if it is known.
    fn reason(&self) -> Reason;
}

macro_rules! in_words {
    ($($error:ty),* $(,)?) => {
        $(impl Why for $error {
            fn reason(&self) -> Reason {
                Reason::other(self)
            }
        })*
    };
}

in_words!(
    &str,
    fmt::Arguments<'_>,
    Errno,
    OriginError,
    ConfigError,
    Http2Error,
    StreamFault,
    WebSocketError
);

impl Why for ResponseError {
    fn reason(&self) -> Reason {
        match self {
            Self::Unrequested => Reason::Surplus,
            Self::ClosedBeforeResponse => Reason::Unanswered { reset: false },
            other => Reason::other(other),
        }
    }
}

impl Why for ConversationError {
    fn reason(&self) -> Reason {
        match self {
            Self::Http1(error) => error.reason(),
            other => Reason::other(other),
        }
    }
}

/// Faulty bytes of the server, which may contain a reason in words, and their fault.
pub(super) struct Refusal<'a> {
    pub(super) error: &'a ConversationError,
    pub(super) bytes: &'a [u8],
}

impl fmt::Display for Refusal<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl Why for Refusal<'_> {
    fn reason(&self) -> Reason {
        match self.error {
            ConversationError::Mqtt(error) if let Some((packet, code, name)) = error.refusal() => {
                Reason::mqtt(packet, code, name, mqtt::reason_string(self.bytes), &[])
            }
            error => error.reason(),
        }
    }
}

impl Why for TlsError {
    fn reason(&self) -> Reason {
        Self::reason(self)
    }
}

/// The beginnings of failing answers that are not complete.
#[derive(Debug, Default)]
pub(super) struct FailingAnswers {
    /// The token of the connection, and the bytes so far.
    begun: Vec<(u64, Vec<u8>)>,
}

impl FailingAnswers {
    pub(super) fn append(&mut self, token: u64, bytes: &[u8], is_alive: impl Fn(u64) -> bool) {
        let at = self.begun.iter().position(|(of, _)| *of == token).or_else(|| {
            if self.begun.len() == ANSWERS_MAX {
                self.begun.retain(|(of, _)| is_alive(*of));
            }
            let is_room = self.begun.len() < ANSWERS_MAX;
            is_room.then(|| {
                self.begun.push((token, Vec::new()));
                self.begun.len() - 1
            })
        });
        if let Some(at) = at {
            let answer = &mut self.begun[at].1;
            let room = ANSWER_BYTES_MAX - answer.len();
            answer.extend_from_slice(&bytes[..bytes.len().min(room)]);
        }
    }

    pub(super) fn take(&mut self, token: u64) -> Vec<u8> {
        let at = self.begun.iter().position(|(of, _)| *of == token);
        at.map(|at| self.begun.swap_remove(at).1).unwrap_or_default()
    }
}

/// Returns the first bytes of the body in the beginning of an answer.
pub(super) fn body_of(answer: &[u8]) -> &[u8] {
    let (mut head, mut rest) = (&answer[..0], answer);
    // Interim answers come before it.
    while head.is_empty() || rest.starts_with(b"HTTP/1.") {
        let Some(end) = find(rest, b"\r\n\r\n") else { return &[] };
        (head, rest) = rest.split_at(end + 4);
    }
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    if !head.contains("transfer-encoding: chunked") {
        return rest;
    }
    // The first chunk.
    let Some(end) = find(rest, b"\r\n") else { return &[] };
    let (size, chunk) = rest.split_at(end);
    let size = std::str::from_utf8(size).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok());
    let chunk = &chunk[2..];
    &chunk[..chunk.len().min(size.unwrap_or(0))]
}

/// Texts of a target that no archive contains, and that a server may repeat in its answer: values of header fields, the
/// query, its values, and a short body.
pub(super) fn private(target: &Target) -> Vec<String> {
    let query = target.url.path.split_once('?').map_or("", |(_, query)| query);
    let parameters = query.split('&').filter_map(|one| Some(one.split_once('=')?.1.to_owned()));
    let body = std::str::from_utf8(target.body.get(..PRIVATE_BYTES_MAX).unwrap_or(&target.body));
    let fields = target.headers.iter().map(|(_, value)| value.clone());
    let texts = [query, body.unwrap_or_default()].map(str::to_owned);
    fields.chain(texts).chain(parameters).collect()
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

/// Returns the status of an answer of HTTP that these bytes begin.
pub(super) fn status_of(bytes: &[u8]) -> Option<u16> {
    let line = bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    std::str::from_utf8(line).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_of_an_answer_is_found() {
        for (answer, body) in [
            (&b"HTTP/1.1 400 X\r\nContent-Length: 3\r\n\r\nbad"[..], &b"bad"[..]),
            (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 X\r\nA: b\r\n\r\nlarge", b"large"),
            (
                b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\n4\r\noops\r\n0\r\n\r\n",
                b"oops",
            ),
            (b"HTTP/1.1 500 X\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\noops", b""),
            (b"HTTP/1.1 204 X\r\n\r\n", b""),
            (b"HTTP/1.1 500 X\r\n", b""),
            (b"", b""),
        ] {
            assert_eq!(body_of(answer), body, "{}", String::from_utf8_lossy(answer));
        }
    }

    #[test]
    fn an_answer_is_known_by_its_status_line() {
        assert_eq!(status_of(b"HTTP/1.0 408 Request Time-out\r\n"), Some(408));
        for bytes in [&b"HTTP/1.1 4"[..], b"0\r\n\r\n", b"HTTP/1.1 abc", b""] {
            assert_eq!(status_of(bytes), None);
        }
    }

    #[test]
    fn answers_in_progress_are_few_and_bounded() {
        let mut answers = FailingAnswers::default();
        for token in 0..20 {
            answers.append(token, b"one ", |token| token > 2);
            answers.append(token, &[b'x'; 8_000], |_| true);
        }
        assert!(answers.begun.len() <= ANSWERS_MAX);
        assert_eq!(answers.take(5).len(), ANSWER_BYTES_MAX);
        assert!(answers.take(5).is_empty() && answers.take(0).is_empty());
    }
}
