//! The script of one connection of the probe, and its reading of the answers. It holds
//! no socket and no clock.

use plimsoll_model::cliff::{Hand, ProbeKind};
use plimsoll_model::ending::Closer;
use plimsoll_model::target::Target;
use plimsoll_proto::http1::client::{Progress, ResponseParser};
use plimsoll_proto::http1::encode;

/// Body bytes that are announced at most; half of them are sent.
const BODY_BYTES_MAX: usize = 8 * 1024;
/// Bytes of an answer's head that are looked at for who wrote it.
const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Headers about the transfer of an answer, not about its origin.
const CARRIAGE: [&str; 5] =
    ["connection", "content-length", "transfer-encoding", "keep-alive", "date"];

/// The effect of bytes from the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Effect {
    /// The bytes decide nothing yet.
    Nothing,
    /// The good answer is complete, and the wait begins.
    WaitBegins,
    /// The wait has ended: with an answer, or with other bytes.
    Ended(Closer),
}

/// One connection's part.
#[derive(Debug)]
pub(super) struct Script {
    kind: ProbeKind,
    request: Vec<u8>,
    parser: ResponseParser,
    /// The head of the answer that is being read.
    head: Vec<u8>,
    /// The author of the answer before the wait.
    pub(super) good_hand: Option<Hand>,
    is_head_request: bool,
}

impl Script {
    /// Creates the script. `slow_ms` is the sleep that is requested from our own backend, if that is behind the server.
    pub(super) fn new(kind: ProbeKind, target: &Target, slow_ms: u64) -> Self {
        let is_head_request = target.method == "HEAD";
        let mut parser = ResponseParser::default();
        parser.expect_response(is_head_request);
        Self {
            kind,
            request: request(kind, target, slow_ms),
            parser,
            head: Vec::new(),
            good_hand: None,
            is_head_request,
        }
    }

    /// Returns the bytes to send once the connection is usable.
    pub(super) fn request(&self) -> &[u8] {
        &self.request
    }

    /// Reports whether the wait begins as soon as the request is sent.
    pub(super) fn waits_at_once(&self) -> bool {
        self.kind != ProbeKind::Answered
    }

    /// Returns the author of the head that was read last.
    pub(super) fn hand(&self) -> Option<Hand> {
        hand(&self.head)
    }

    pub(super) fn handle_bytes(&mut self, bytes: &[u8]) -> Effect {
        let room = HEAD_BYTES_MAX.saturating_sub(self.head.len());
        self.head.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
        match self.parser.handle_bytes(bytes) {
            Ok((_, Progress::NeedMore)) => Effect::Nothing,
            Ok((_, Progress::Complete(answer))) => {
                if self.kind == ProbeKind::Answered && self.good_hand.is_none() {
                    self.good_hand = Some(self.hand().unwrap_or_default());
                    self.head.clear();
                    self.parser.expect_response(self.is_head_request);
                    return Effect::WaitBegins;
                }
                Effect::Ended(match answer.status {
                    400.. => Closer::Status(answer.status),
                    _ => Closer::Success,
                })
            }
            Err(_) => Effect::Ended(Closer::PeerAnswer),
        }
    }
}

/// Returns the bytes that `kind` sends.
fn request(kind: ProbeKind, target: &Target, slow_ms: u64) -> Vec<u8> {
    let mut target = target.clone();
    target.body = target.body.truncated(BODY_BYTES_MAX);
    match kind {
        ProbeKind::Connected | ProbeKind::TlsDone => Vec::new(),
        ProbeKind::HalfHead => {
            // The whole first line and no end: from then on the server waits for headers.
            let whole = encode::request(&target, true);
            let line = whole.windows(2).position(|pair| pair == b"\r\n").unwrap_or(0) + 2;
            let end = whole.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(line);
            whole[..line.max(end / 2)].to_vec()
        }
        ProbeKind::HalfBody => {
            if target.body.is_empty() {
                target.body = "xx".into();
            }
            let mut whole = encode::request(&target, true);
            whole.truncate(whole.len() - target.body.len().div_ceil(2));
            whole
        }
        ProbeKind::Answered => encode::request(&target, true),
        ProbeKind::SlowAnswer => {
            target.headers.retain(|(name, _)| !name.eq_ignore_ascii_case("sleep-fixed"));
            target.headers.push(("sleep-fixed".to_owned(), slow_ms.to_string()));
            encode::request(&target, true)
        }
    }
}

/// The header names of an answer that identify its origin, sorted; `None` before the head is complete.
fn hand(head: &[u8]) -> Option<Hand> {
    let end = head.windows(4).position(|four| four == b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&head[..end]);
    let names = text.split("\r\n").skip(1).filter_map(|line| line.split_once(':'));
    let mut names: Vec<String> = names
        .map(|(name, _)| name.trim().to_ascii_lowercase())
        .filter(|name| !CARRIAGE.contains(&name.as_str()))
        .collect();
    names.sort();
    names.dedup();
    Some(Hand(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: &str, body: &[u8]) -> Target {
        let url = "http://sut.example/path".parse().expect("a URL");
        Target {
            method: method.into(),
            url,
            headers: vec![],
            body: body.to_vec().into(),
            publish: None,
            script: None,
            websocket: None,
        }
    }

    fn text(kind: ProbeKind, target: &Target) -> String {
        let script = Script::new(kind, target, 7_000);
        String::from_utf8(script.request().to_vec()).expect("ASCII")
    }

    #[test]
    fn each_kind_stops_where_it_should() {
        let get = target("GET", b"");
        assert_eq!(text(ProbeKind::Connected, &get), "");
        let head = text(ProbeKind::HalfHead, &get);
        assert!(head.starts_with("GET /path HTTP/1.1\r\n") && !head.contains("\r\n\r\n"), "{head}");
        let body = text(ProbeKind::HalfBody, &get);
        assert!(body.contains("Content-Length: 2\r\n") && body.ends_with("\r\n\r\nx"), "{body}");
        let body = text(ProbeKind::HalfBody, &target("POST", b"0123456789"));
        assert!(body.contains("Content-Length: 10\r\n") && body.ends_with("\r\n01234"), "{body}");
        assert!(text(ProbeKind::SlowAnswer, &get).contains("\r\nsleep-fixed: 7000\r\n"));
    }

    #[test]
    fn an_answer_begins_the_wait_of_one_kind_and_ends_that_of_others() {
        const GOOD: &[u8] = b"HTTP/1.1 200 OK\r\nX-App: 1\r\nContent-Length: 2\r\n\r\nok";
        const LATE: &[u8] =
            b"HTTP/1.1 408 Late\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n";
        let get = target("GET", b"");
        let mut idle = Script::new(ProbeKind::Answered, &get, 0);
        assert_eq!(idle.handle_bytes(&GOOD[..20]), Effect::Nothing);
        assert_eq!(idle.handle_bytes(&GOOD[20..]), Effect::WaitBegins);
        assert_eq!(idle.good_hand, Some(Hand(vec!["x-app".to_owned()])));
        assert_eq!(idle.handle_bytes(LATE), Effect::Ended(Closer::Status(408)));
        assert_eq!(idle.hand(), Some(Hand(vec!["content-type".to_owned()])));
        let mut half = Script::new(ProbeKind::HalfHead, &get, 0);
        assert_eq!(half.handle_bytes(LATE), Effect::Ended(Closer::Status(408)));
        let mut slow = Script::new(ProbeKind::SlowAnswer, &get, 0);
        assert_eq!(slow.handle_bytes(GOOD), Effect::Ended(Closer::Success));
        let mut other = Script::new(ProbeKind::Connected, &get, 0);
        assert_eq!(other.handle_bytes(b"220 mail\r\n\r\n"), Effect::Ended(Closer::PeerAnswer));
    }
}
