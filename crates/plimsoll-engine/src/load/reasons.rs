//! Notes why operations and connections failed, in the tally of the present second.
//!
//! The beginnings of failing answers of HTTP/1.1 are stored until the answer is complete, for a few connections at a time and
//! only while no body of that status has been stored in this second: a proxy says there what is wrong.

use std::fmt;

use plimsoll_model::reason::{MqttPacket, Reason};
use plimsoll_model::target::{MqttVersion, Target};
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::conversation::{Answer, Conversation, ConversationError};
use plimsoll_proto::http1::ResponseError;
use plimsoll_proto::http2::{Http2Error, StreamFault};
use plimsoll_proto::mqtt;
use plimsoll_proto::websocket::WebSocketError;
use plimsoll_sys::Errno;
use plimsoll_tls::{ConfigError, TlsError};

use super::conn::State;
use super::origin::OriginError;
use super::worker::Worker;

/// Connections whose failing answers are stored at a time, per worker.
const ANSWERS_MAX: usize = 8;
/// Bytes of a request's body that are looked for in an answer.
const PRIVATE_BYTES_MAX: usize = 256;
/// Bytes of an answer, its head included.
const ANSWER_BYTES_MAX: usize = 4 << 10;

/// A failure that knows its reason.
pub(super) trait Why: fmt::Display {
    /// The reason, typed where it is known.
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
    fn append(&mut self, token: u64, bytes: &[u8], is_alive: impl Fn(u64) -> bool) {
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

    fn take(&mut self, token: u64) -> Vec<u8> {
        let at = self.begun.iter().position(|(of, _)| *of == token);
        at.map(|at| self.begun.swap_remove(at).1).unwrap_or_default()
    }
}

/// The first bytes of the body in the beginning of an answer.
fn body_of(answer: &[u8]) -> &[u8] {
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
fn private(target: &Target) -> Vec<String> {
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

/// The status of an answer of HTTP that these bytes begin.
fn status_of(bytes: &[u8]) -> Option<u16> {
    let line = bytes.strip_prefix(b"HTTP/1.")?.get(2..5)?;
    std::str::from_utf8(line).ok()?.parse().ok()
}

impl Worker {
    /// Notes why something failed in `class`.
    pub(super) fn note(&mut self, index: u32, class: ErrorClass, reason: Reason, now: Nanos) {
        let connection = self.streams.connection_of(index);
        let socket = &self.conns[connection].socket;
        let address = || socket.as_ref().and_then(|socket| socket.local_address().ok());
        self.meter.note(class, reason, now, address);
    }

    /// Notes why a connection could not be opened. What we gave up ourselves has no reason.
    pub(super) fn note_failed_opening(
        &mut self,
        index: u32,
        class: ErrorClass,
        why: &dyn Why,
        now: Nanos,
    ) {
        let reason = match (self.conns[index].state, class) {
            (State::Handshaking, ErrorClass::TlsClosed) => Reason::HandshakeCut { reset: false },
            (State::Handshaking, ErrorClass::ConnectReset) => Reason::HandshakeCut { reset: true },
            (_, ErrorClass::Interrupted) => return,
            _ => why.reason(),
        };
        self.note(index, class, reason, now);
    }

    /// Notes that a reset or an end of the stream has cut off the answer to the open operation, or has come instead of it.
    pub(super) fn note_cut_off(&mut self, index: u32, class: ErrorClass, reset: bool, now: Nanos) {
        let hot = &self.conns[index];
        let reason = match (hot.answer_begun, hot.reused) {
            (false, false) => Reason::Unanswered { reset },
            // The class says it.
            (false, true) => return,
            (true, _) => ResponseError::Truncated.reason(),
        };
        self.note(index, class, reason, now);
    }

    /// Notes that the server has sent `bytes` on an idle connection.
    pub(super) fn note_unrequested(&mut self, index: u32, bytes: &[u8], now: Nanos) {
        let hot = &self.conns[index];
        let status = status_of(bytes);
        let reason = match status {
            // What comes late behind an answer is its rest.
            None if hot.reused => Reason::Surplus,
            status => {
                let idle_ms = now.since(hot.since).0 / 1_000_000;
                Reason::Unrequested { status, idle_ms, was_used: hot.reused }
            }
        };
        self.note(index, ErrorClass::UnrequestedAnswer, reason, now);
    }

    /// Stores a part of an answer that is not complete, if its status is a failure.
    pub(super) fn store_failing_part(&mut self, index: u32, bytes: &[u8]) {
        if let Conversation::Http1(parser) = self.conns.slab.parser(index)
            && let Some(status) = parser.failing_status()
        {
            self.store_failing(index, status, bytes);
        }
    }

    /// Stores the packets with which a broker refuses the publish of `index`.
    pub(super) fn store_refusal(&mut self, index: u32, bytes: &[u8]) {
        let token = self.conns.slab.token(index);
        let slab = &self.conns.slab;
        self.failing.append(token, bytes, |token| slab.index_of(token).is_some());
    }

    /// Stores a part of an answer with a failing `status`.
    pub(super) fn store_failing(&mut self, index: u32, status: u16, bytes: &[u8]) {
        let class = class_of(status);
        if !self.meter.tally().reasons.has_body(class, status) {
            let token = self.conns.slab.token(index);
            let slab = &self.conns.slab;
            self.failing.append(token, bytes, |token| slab.index_of(token).is_some());
        }
    }

    /// Notes why an answer is a failure.
    pub(super) fn note_failing_answer(
        &mut self,
        index: u32,
        class: ErrorClass,
        answer: &Answer,
        now: Nanos,
    ) {
        let target = self.plan.targets.get(self.conns[index].target as usize);
        let known = || target.map(private).unwrap_or_default();
        let reason = match (answer.status, answer.grpc_status(), answer.mqtt_reason()) {
            (status @ 400.., ..) => {
                let stored = self.failing.take(self.conns.slab.token(index));
                let streamed = self.conns.slab.said(self.streams.connection_of(index), index);
                let body = if stored.is_empty() { streamed } else { body_of(&stored) };
                match body.is_empty() {
                    true => Reason::status(status, b"", &[]),
                    false => Reason::status(status, body, &known()),
                }
            }
            (1.., Some(status @ 1..), _) => {
                let message = self.conns.slab.said(self.streams.connection_of(index), index);
                Reason::grpc(status, message, &known())
            }
            (_, _, Some(code)) => {
                let stored = self.failing.take(self.conns.slab.token(index));
                let name = mqtt::reason_name(MqttVersion::V5, code);
                let text = mqtt::reason_string(&stored);
                Reason::mqtt(MqttPacket::Puback, code, name, text, &known())
            }
            // What failed without an answer was noted when it did.
            _ => return,
        };
        self.note(index, class, reason, now);
    }

    /// Counts a usable connection that ends without our doing.
    pub(super) fn count_lost(&mut self, index: u32, class: ErrorClass, is_in_use: bool) {
        if self.streams.is_lane(index) {
            return;
        }
        let tally = self.meter.tally();
        match is_in_use {
            true => tally.lost_in_use.count(class),
            false => tally.lost_idle.count(class),
        }
    }
}

const fn class_of(status: u16) -> ErrorClass {
    match status {
        500.. => ErrorClass::Status5xx,
        _ => ErrorClass::Status4xx,
    }
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
