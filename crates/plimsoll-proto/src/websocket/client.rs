//! The client half of WebSocket: the switch from HTTP, then messages, of which one is awaited at a time.
//!
//! [`opening`], [`message`], [`ping`] and [`close`] append bytes to send; [`Client`] reads the server's bytes. Before
//! the switch it parses the response head, afterwards frames, and it appends pongs and close frames to `reply`. A
//! message is the awaited answer only if it matches the plan's answers, has no stamp and began after the request was
//! sent; all others are surplus or pushed messages. Opening key and mask are constants. Start reading at
//! [`Client::handle_bytes`].

use std::sync::{Arc, LazyLock};

use plimsoll_model::target::{Body, Filling, Messages, STAMP_BYTES, Target};
use plimsoll_model::{ErrorClass, Nanos};
use regex_automata::util::primitives::StateID;
use thiserror::Error;

use super::answers::Answers;
use super::frame::{Opcode, write_frame};
use super::opening::{KEY_BYTES, accept_for};
use super::reader::{FrameError, MessageReader, Progress as FrameProgress, Side};
use crate::conversation::{Answer, Progress};
use crate::http1::head::{self, Fed, PartialHead, is, tokens};
use crate::http1::{RESPONSE_HEAD_BYTES_MAX, encode};
use crate::kept::Kept;

/// The key of every opening. The standard wants a new one for each, but no server can detect reuse, and the answer that
/// proves that the server has read it is computed once.
const KEY: &[u8; KEY_BYTES] = b"cGxpbXNvbGwtbG9hZC1saQ==";
static ACCEPT: LazyLock<String> = LazyLock::new(|| accept_for(KEY));
/// The masking key of every frame: the payload is our own, so that no attacker could choose bytes for an intermediary
/// to see.
pub(super) const MASK: [u8; 4] = [0x9E, 0x37, 0x79, 0xB9];
/// RFC 6455 7.4.1.
const NORMAL_CLOSURE: u16 = 1000;
/// The payload of a ping.
const PING: &[u8] = b"plimsoll";

/// Reads what the server sends on one connection. After an error it is of no more use.
#[derive(Debug)]
pub struct Client {
    /// The head of the answer, as far as it came; `None` once the server has switched.
    opening: Option<Option<Box<PartialHead>>>,
    messages: MessageReader,
    awaited: Awaited,
    beginning: Kept<STAMP_BYTES>,
    answers: Arc<Answers>,
    /// The search for what makes the present message an answer.
    search: Option<StateID>,
    /// Messages that are still to come and answer nothing.
    skips: u32,
    /// Bytes of the last input that are not handled yet.
    unhandled: usize,
    /// Bytes that were here before what awaits an answer was sent.
    early: usize,
    /// `true` if the present message began with such a byte.
    began_early: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Awaited {
    Nothing,
    Message,
    Pong,
}

/// A message that nothing asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Push {
    /// Bytes of the payload.
    pub bytes: u32,
    /// Clock that the server has read, by its stamp, see `plimsoll_sys::clock`; 0 without a stamp.
    pub clock: u32,
    /// When the server sent it, by that clock.
    pub sent: Nanos,
}

/// Why the connection is of no more use.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WebSocketError {
    /// Any answer to the opening but the right one.
    #[error("the server does not switch to WebSocket: {what}; check the URL's path")]
    Refused {
        /// The server's action instead.
        what: &'static str,
    },
    /// Another status than 101.
    #[error(
        "the server does not switch to WebSocket: it answers with status {status}; check the URL's path"
    )]
    Status {
        /// The status.
        status: u16,
    },
    /// A close frame.
    #[error("the server closed the WebSocket {}", closing_words(*.code))]
    Closed {
        /// Code of the close.
        code: Option<u16>,
    },
    /// A frame that is none.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl WebSocketError {
    /// Returns the class in which the operation ends.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Refused { .. } | Self::Status { .. } => ErrorClass::WsRefused,
            Self::Closed { .. } => ErrorClass::WsClosed,
            Self::Frame(_) => ErrorClass::WsMalformed,
        }
    }
}

/// Describes the close code and its meaning (RFC 6455 7.4.1 and the registry of codes).
fn closing_words(code: Option<u16>) -> String {
    let Some(code) = code else { return "without a code".to_owned() };
    let meaning = match code {
        NORMAL_CLOSURE => ", normal closure",
        1001 => ", going away",
        1002 => ", protocol error",
        1003 => ", unsupported data",
        1007 => ", text that is not UTF-8",
        1008 => ", policy violation",
        1009 => ", message too large",
        1010 => ", missing extension",
        1011 => ", internal error",
        1012 => ", service restart",
        1013 => ", try again later",
        1014 => ", bad gateway",
        _ => "",
    };
    format!("with code {code}{meaning}")
}

/// Appends the request that asks `target`'s server to switch.
pub fn opening(out: &mut Vec<u8>, target: &Target) {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let mut target = Target { body: Body::default(), ..target.clone() };
    target.headers.extend([
        header("Upgrade", "websocket"),
        header("Connection", "Upgrade"),
        header("Sec-WebSocket-Version", "13"),
        header("Sec-WebSocket-Key", &String::from_utf8_lossy(KEY)),
    ]);
    out.extend_from_slice(&encode::request(&target, true));
}

/// Appends `payload` as one message: text if it is UTF-8 and nothing else is asked for.
pub fn message(out: &mut Vec<u8>, payload: &[u8], frames: &Messages) {
    let is_text = !frames.is_binary && std::str::from_utf8(payload).is_ok();
    let mut opcode = if is_text { Opcode::Text } else { Opcode::Binary };
    let most = frames.payload_bytes_max.map_or(usize::MAX, |most| most.max(1) as usize);
    let mut rest = payload;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(most));
        write_frame(out, after.is_empty(), opcode, piece, Some(MASK));
        if after.is_empty() {
            return;
        }
        (rest, opcode) = (after, Opcode::Continuation);
    }
}

/// Appends a ping.
pub fn ping(out: &mut Vec<u8>) {
    write_frame(out, true, Opcode::Ping, PING, Some(MASK));
}

/// Appends a close frame with the code of a normal end.
pub fn close(out: &mut Vec<u8>) {
    write_frame(out, true, Opcode::Close, &NORMAL_CLOSURE.to_be_bytes(), Some(MASK));
}

impl Client {
    /// Creates the client of a connection on which the opening is sent, or with `is_switched` answered.
    pub fn new(answers: Arc<Answers>, is_switched: bool) -> Self {
        Self {
            opening: if is_switched { None } else { Some(None) },
            messages: MessageReader::new(Side::Client),
            awaited: Awaited::Nothing,
            beginning: Kept::default(),
            search: None,
            skips: if is_switched { 0 } else { answers.skipped },
            answers,
            unhandled: 0,
            early: 0,
            began_early: false,
        }
    }

    /// Notes that a message was sent. The next answer whose first byte is yet to come is the answer to it.
    pub const fn expect_message(&mut self) {
        self.awaited = Awaited::Message;
        self.early = self.unhandled;
        self.began_early = self.messages.is_in_message();
    }

    /// Notes that a ping was sent.
    pub const fn expect_pong(&mut self) {
        self.awaited = Awaited::Pong;
    }

    /// Reports whether nothing would be lost by dropping it.
    pub fn is_idle(&self) -> bool {
        self.opening.is_none()
            && self.messages.is_idle()
            && self.awaited == Awaited::Nothing
            && self.skips == 0
            && self.unhandled == 0
    }

    /// Handles bytes from the server, up to what ends something; returns how many were consumed, and
    /// the result. What must be sent at once is appended to `reply`. What is not consumed comes again.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(usize, Progress), WebSocketError> {
        let (consumed, progress) = match &self.opening {
            Some(_) => self.handle_opening(input)?,
            None => self.handle_frames(input, reply)?,
        };
        self.unhandled = input.len() - consumed;
        Ok((consumed, progress))
    }

    fn handle_opening(&mut self, input: &[u8]) -> Result<(usize, Progress), WebSocketError> {
        let mut rest = input;
        while let Some(partial) = &mut self.opening {
            let answers = &self.answers;
            let parse = |bytes: &[u8]| parse_answer(bytes, answers);
            match head::feed(partial, rest, RESPONSE_HEAD_BYTES_MAX, parse)? {
                Fed::Complete { consumed, head: is_switch } => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    self.opening = if is_switch { None } else { Some(None) };
                }
                Fed::Partial => return Ok((input.len(), Progress::NeedMore)),
                Fed::TooLarge => return refused("its answer's head is over 64 KiB"),
            }
        }
        Ok((input.len() - rest.len(), Progress::Greeted))
    }

    fn handle_frames(
        &mut self,
        input: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(usize, Progress), WebSocketError> {
        let mut rest = input;
        loop {
            let (consumed, progress) = self.handle_frame(rest, reply)?;
            rest = rest.get(consumed..).unwrap_or_default();
            let ended = match progress {
                FrameProgress::NeedMore if rest.is_empty() => Progress::NeedMore,
                FrameProgress::NeedMore => continue,
                FrameProgress::Message { is_text, bytes } => self.handle_message(is_text, bytes),
                FrameProgress::Ping => {
                    let payload = self.messages.control_payload();
                    write_frame(reply, true, Opcode::Pong, payload, Some(MASK));
                    continue;
                }
                FrameProgress::Pong => {
                    // A server may send unsolicited pongs (RFC 6455 5.5.3).
                    if self.awaited != Awaited::Pong || self.messages.control_payload() != PING {
                        continue;
                    }
                    self.awaited = Awaited::Nothing;
                    Progress::Complete(Answer::plain(0, None))
                }
                FrameProgress::Close(code) => {
                    let payload = self.messages.control_payload();
                    write_frame(reply, true, Opcode::Close, payload, Some(MASK));
                    self.awaited = Awaited::Nothing;
                    Progress::Closed(code)
                }
            };
            return Ok((input.len() - rest.len(), ended));
        }
    }

    /// Reads up to the end of a message or of a control frame, or of the bytes that came early.
    fn handle_frame(
        &mut self,
        input: &[u8],
        reply: &mut Vec<u8>,
    ) -> Result<(usize, FrameProgress), FrameError> {
        let early = input.get(..self.early).filter(|early| !early.is_empty());
        let Self { beginning, answers, search, .. } = self;
        let mut on_payload = |bytes: &[u8]| {
            beginning.extend(bytes);
            answers.read(search, bytes);
        };
        let read = self.messages.handle_bytes(early.unwrap_or(input), &mut on_payload);
        let (consumed, progress) = read.inspect_err(|error| {
            let code = error.close_code().to_be_bytes();
            write_frame(reply, true, Opcode::Close, &code, Some(MASK));
        })?;
        if early.is_some() {
            self.began_early =
                matches!(progress, FrameProgress::Message { .. }) || self.messages.is_in_message();
        }
        self.early = self.early.saturating_sub(consumed);
        Ok((consumed, progress))
    }

    /// A message of this number of bytes is complete.
    fn handle_message(&mut self, is_text: bool, bytes: u64) -> Progress {
        let beginning = std::mem::take(&mut self.beginning);
        let stamp = if is_text { None } else { Filling::of_stamp(beginning.bytes()) };
        let is_skipped = self.skips > 0;
        self.skips = self.skips.saturating_sub(1);
        let is_answer = self.answers.contain(self.search.take()) && stamp.is_none() && !is_skipped;
        let is_early = std::mem::take(&mut self.began_early);
        if is_answer && self.awaited == Awaited::Message && !is_early {
            self.awaited = Awaited::Nothing;
            return Progress::Complete(Answer::plain(bytes, None));
        }
        // A message is at most 1 GiB.
        let bytes = bytes as u32;
        if is_answer {
            return Progress::Surplus(bytes);
        }
        let stamp = stamp.unwrap_or_default();
        Progress::Pushed(Push { bytes, clock: stamp.run, sent: stamp.began })
    }
}

const fn refused<T>(what: &'static str) -> Result<T, WebSocketError> {
    Err(WebSocketError::Refused { what })
}

/// Judges an answer to the opening once its head is complete; `false` if it announces another one.
fn parse_answer(bytes: &[u8], answers: &Answers) -> Result<Option<(usize, bool)>, WebSocketError> {
    if bytes.first() != Some(&b'H') {
        return refused("it does not answer with HTTP");
    }
    match head::read_response(bytes, |length, response| judge_answer(length, response, answers)) {
        Ok(judged) => judged.transpose(),
        Err(_) => refused("its answer is not valid HTTP/1.1"),
    }
}

fn judge_answer(
    length: usize,
    response: &httparse::Response<'_, '_>,
    answers: &Answers,
) -> Result<(usize, bool), WebSocketError> {
    match response.code {
        Some(101) => {}
        // Others of 1xx announce another answer (RFC 9110 15.2).
        Some(100..200) => return Ok((length, false)),
        status => return Err(WebSocketError::Status { status: status.unwrap_or_default() }),
    }
    let values_of = |name: &'static str| {
        let fields = response.headers.iter();
        let named = fields.filter(move |field| field.name.eq_ignore_ascii_case(name));
        named.map(|field| field.value.trim_ascii())
    };
    let value_of = |name| values_of(name).next();
    if !value_of("upgrade").is_some_and(|value| is(value, b"websocket")) {
        return refused("its answer has no Upgrade: websocket");
    }
    if !values_of("connection").flat_map(tokens).any(|token| is(token, b"upgrade")) {
        return refused("its answer has no Connection: Upgrade");
    }
    if value_of("sec-websocket-accept") != Some(ACCEPT.as_bytes()) {
        return refused("its Sec-WebSocket-Accept does not belong to our key");
    }
    if value_of("sec-websocket-extensions").is_some() {
        return refused("it uses an extension that was not asked for");
    }
    if values_of("sec-websocket-protocol").any(|chosen| !answers.offers(chosen)) {
        return refused("it chooses a subprotocol that was not offered");
    }
    Ok((length, true))
}

#[cfg(test)]
mod tests {
    use super::super::opening::Opening;
    use super::*;
    use crate::http1::{RequestParser, RequestProgress};

    fn switched() -> Client {
        Client::new(Arc::default(), true)
    }

    fn opened() -> Client {
        Client::new(Arc::default(), false)
    }

    fn target() -> Target {
        Target {
            method: "GET".to_owned(),
            url: "ws://h/chat".parse().unwrap(),
            headers: Vec::new(),
            body: b"not sent".to_vec().into(),
            publish: None,
            script: None,
            websocket: None,
        }
    }

    #[test]
    fn a_message_is_split_into_frames() {
        let mut out = Vec::new();
        let frames =
            Messages { is_binary: true, payload_bytes_max: Some(2), ..Messages::default() };
        message(&mut out, b"abcde", &frames);
        // Heads: binary, continuation, and the last one; each masked.
        assert_eq!([out[0], out[8], out[16]], [0x02, 0x00, 0x80]);
        assert_eq!([out[1], out[9], out[17]], [0x82, 0x82, 0x81]);
        let mut reader = MessageReader::new(Side::Server);
        let mut payload = Vec::new();
        let mut rest = out.as_slice();
        let read = loop {
            let (consumed, progress) =
                reader.handle_bytes(rest, &mut |bytes| payload.extend_from_slice(bytes)).unwrap();
            rest = &rest[consumed..];
            if progress != FrameProgress::NeedMore || rest.is_empty() {
                break progress;
            }
        };
        assert!(matches!(read, FrameProgress::Message { is_text: false, .. }), "{read:?}");
        assert_eq!(payload, b"abcde");
        out.clear();
        message(&mut out, b"", &frames);
        assert_eq!(out[..2], [0x82, 0x80]);
    }

    #[test]
    fn our_two_halves_agree_on_the_switch() {
        let target = target();
        let mut request = Vec::new();
        opening(&mut request, &target);
        let mut asked = Opening::default();
        let (consumed, progress) = RequestParser::new()
            .handle_bytes(&request, &mut |name, value| asked.handle_header(name, value))
            .unwrap();
        assert_eq!(consumed, request.len());
        assert!(matches!(progress, RequestProgress::Complete(_)));
        let mut answer = Vec::new();
        asked.accept(&mut answer).unwrap();
        answer.extend_from_slice(b"frames");
        let mut client = opened();
        let read = client.handle_bytes(&answer, &mut Vec::new());
        assert_eq!(read, Ok((answer.len() - 6, Progress::Greeted)));
        assert!(!client.is_idle(), "what came with the switch is not handled yet");
        for cut in 1..answer.len() - 6 {
            let mut client = opened();
            let read = client.handle_bytes(&answer[..cut], &mut Vec::new());
            assert_eq!(read, Ok((cut, Progress::NeedMore)));
            let read = client.handle_bytes(&answer[cut..], &mut Vec::new());
            assert_eq!(read, Ok((answer.len() - 6 - cut, Progress::Greeted)));
        }
    }

    #[test]
    fn an_answer_that_does_not_switch_is_refused() {
        let switch = "HTTP/1.1 101 Switching Protocols\r\n";
        let upgrade = format!("{switch}Upgrade: WebSocket\r\nConnection: x, upgrade");
        let right = format!("{upgrade}\r\nSec-WebSocket-Accept: {}\r\n", *ACCEPT);
        for (answer, what) in [
            ("HTTP/1.1 404 Not Found\r\n\r\n".to_owned(), "status 404"),
            ("\x15\x03\x01".to_owned(), "with HTTP"),
            (format!("{switch}\r\n"), "no Upgrade"),
            (format!("{switch}Upgrade: websocket\r\nConnection: close\r\n\r\n"), "no Connection"),
            (format!("{upgrade}\r\nSec-WebSocket-Accept: x\r\n\r\n"), "our key"),
            (format!("{right}Sec-WebSocket-Extensions: x\r\n\r\n"), "extension"),
            (format!("{right}Sec-WebSocket-Protocol: chat\r\n\r\n"), "not offered"),
        ] {
            let error = opened().handle_bytes(answer.as_bytes(), &mut Vec::new());
            let error = error.unwrap_err();
            assert_eq!(error.class(), ErrorClass::WsRefused);
            assert!(error.to_string().contains(what), "{error}");
        }
    }

    #[test]
    fn an_answer_ends_what_waits_for_it_and_pings_are_answered() {
        let mut frames = Vec::new();
        write_frame(&mut frames, true, Opcode::Ping, b"you?", None);
        write_frame(&mut frames, true, Opcode::Text, b"answer", None);
        let first = frames.len();
        write_frame(&mut frames, true, Opcode::Close, b"\x03\xe8", None);
        let (mut client, mut reply) = (switched(), Vec::new());
        client.expect_message();
        let read = client.handle_bytes(&frames, &mut reply);
        assert_eq!(read, Ok((first, complete(6))));
        let mut pong = Vec::new();
        write_frame(&mut pong, true, Opcode::Pong, b"you?", Some(MASK));
        assert_eq!(reply, pong);
        let read = client.handle_bytes(&frames[first..], &mut reply);
        assert_eq!(read, Ok((frames.len() - first, Progress::Closed(Some(1000)))));

        // The error is reported to the server, too.
        for (frames, code, what) in [
            (&[0x81, 0x81, 1, 2, 3, 4, 5][..], 1002u16, "a server's frame is masked"),
            (&[0x81, 1, 0xFF], 1007, "not UTF-8"),
            (&[0x82, 127, 0, 0, 0, 1, 0, 0, 0, 0], 1009, "more than 1 GiB"),
        ] {
            reply.clear();
            let error = switched().handle_bytes(frames, &mut reply).unwrap_err();
            assert_eq!(error.class(), ErrorClass::WsMalformed);
            assert!(error.to_string().contains(what), "{error}");
            let mut close = Vec::new();
            write_frame(&mut close, true, Opcode::Close, &code.to_be_bytes(), Some(MASK));
            assert_eq!(reply, close);
        }

        let mut client = switched();
        client.expect_pong();
        let mut frames = Vec::new();
        write_frame(&mut frames, true, Opcode::Binary, b"pushed", None);
        write_frame(&mut frames, true, Opcode::Pong, PING, None);
        let read = client.handle_bytes(&frames, &mut Vec::new());
        assert_eq!(read, Ok((8, Progress::Surplus(6))));
        let read = client.handle_bytes(&frames[8..], &mut Vec::new());
        assert_eq!(read, Ok((frames.len() - 8, complete(0))));

        // A push before the answer is distinguished from it by its stamp, however it is cut.
        let stamp = Filling { run: 5, began: Nanos(77), ..Filling::default() }.stamp();
        let push = Push { bytes: 36, clock: 5, sent: Nanos(77) };
        let mut frames = Vec::new();
        write_frame(&mut frames, true, Opcode::Binary, &[&stamp[..], b"more"].concat(), None);
        for cut in 0..frames.len() {
            let mut client = switched();
            client.expect_message();
            let read = client.handle_bytes(&frames[..cut], &mut Vec::new());
            assert_eq!(read, Ok((cut, Progress::NeedMore)));
            let read = client.handle_bytes(&frames[cut..], &mut Vec::new());
            assert_eq!(read, Ok((frames.len() - cut, Progress::Pushed(push))));
            let mut answer = Vec::new();
            write_frame(&mut answer, true, Opcode::Text, b"answer", None);
            let read = client.handle_bytes(&answer, &mut Vec::new());
            assert_eq!(read, Ok((answer.len(), complete(6))));
        }
    }

    const fn complete(bytes: u64) -> Progress {
        Progress::Complete(Answer::plain(bytes, None))
    }

    fn text(payload: &str) -> Vec<u8> {
        let mut frame = Vec::new();
        write_frame(&mut frame, true, Opcode::Text, payload.as_bytes(), None);
        frame
    }

    /// Returns a client's reading of a server's bytes: `+` for an answer and `-` for a surplus message and `.` for one
    /// that answers nothing, each with its length. `sends` says whether another message is sent after the switch and
    /// after each answer.
    fn heard(answers: &Arc<Answers>, input: &[u8], pieces: usize, sends: bool) -> String {
        let (mut client, mut heard) = (Client::new(Arc::clone(answers), true), String::new());
        client.skips = answers.skipped;
        if sends {
            client.expect_message();
        }
        for piece in input.chunks(pieces) {
            let mut rest = piece;
            while !rest.is_empty() {
                let (consumed, progress) = client.handle_bytes(rest, &mut Vec::new()).unwrap();
                rest = &rest[consumed..];
                match progress {
                    Progress::Complete(Answer { body_bytes: bytes, .. }) => {
                        heard += &format!("+{bytes}");
                        if sends {
                            client.expect_message();
                        }
                    }
                    Progress::Surplus(bytes) => heard += &format!("-{bytes}"),
                    Progress::Pushed(Push { bytes, .. }) => heard += &format!(".{bytes}"),
                    _ => {}
                }
            }
        }
        heard
    }

    #[test]
    fn what_was_here_before_a_message_is_sent_does_not_answer_it() {
        let two = [text("a"), text("bb")].concat();
        // In one piece, the second message is here before the next one of ours is sent.
        assert_eq!(heard(&Arc::default(), &two, 99, true), "+1-2");
        // Its first bytes are, or none of them.
        assert_eq!(heard(&Arc::default(), &two, 4, true), "+1-2");
        assert_eq!(heard(&Arc::default(), &two, 3, true), "+1+2");
        assert_eq!(heard(&Arc::default(), &two, 1, true), "+1+2");
        // None is sent.
        assert_eq!(heard(&Arc::default(), &two, 99, false), "-1-2");

        // A greeting with the switch, in one segment; a ping between the fragments of an answer is not part of it.
        let mut client = opened();
        let switch = format!(
            "HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\
             Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: {}\r\n\r\n",
            *ACCEPT
        );
        let input = [switch.as_bytes(), &text("hello")].concat();
        let read = client.handle_bytes(&input, &mut Vec::new());
        assert_eq!(read, Ok((switch.len(), Progress::Greeted)));
        assert!(!client.is_idle());
        client.expect_message();
        let read = client.handle_bytes(&text("hello"), &mut Vec::new());
        assert_eq!(read, Ok((7, Progress::Surplus(5))), "a greeting is no answer");
        let mut answer = Vec::new();
        write_frame(&mut answer, false, Opcode::Text, b"an", None);
        write_frame(&mut answer, true, Opcode::Ping, b"", None);
        write_frame(&mut answer, true, Opcode::Continuation, b"swer", None);
        let read = client.handle_bytes(&answer, &mut Vec::new());
        assert_eq!(read, Ok((answer.len(), complete(6))));
        assert!(client.is_idle());

        // A message that begins while nothing is awaited, also when only a part of its head is here.
        for cut in 1..7 {
            let mut client = switched();
            assert_eq!(
                client.handle_bytes(&text("hello")[..cut], &mut Vec::new()),
                Ok((cut, Progress::NeedMore))
            );
            client.expect_message();
            let read = client.handle_bytes(&text("hello")[cut..], &mut Vec::new());
            assert_eq!(read, Ok((7 - cut, Progress::Surplus(5))), "{cut}");
        }
        // A pong that answers no ping of ours.
        let mut client = switched();
        client.expect_pong();
        let mut pong = Vec::new();
        write_frame(&mut pong, true, Opcode::Pong, b"keep-alive", None);
        let read = client.handle_bytes(&pong, &mut Vec::new());
        assert_eq!(read, Ok((pong.len(), Progress::NeedMore)));
    }

    #[test]
    fn an_answer_is_what_the_flags_say() {
        let mut target = target();
        let mut answers = |skipped, expected: Option<&str>| {
            let expected = expected.map(|wanted| super::super::expected(wanted).unwrap().into());
            target.websocket = Some(Messages { skipped, expected, ..Messages::default() });
            Arc::new(Answers::new(&target).unwrap())
        };
        let three = [text("hello"), text("ok 1"), text("ok 22")].concat();
        for pieces in [1, 2, 7, 99] {
            assert_eq!(heard(&answers(1, None), &three, pieces, false), ".5-4-5");
            assert_eq!(heard(&answers(0, Some("ok")), &three, pieces, false), ".5-4-5");
        }
        assert_eq!(heard(&answers(1, None), &three, 1, true), ".5+4+5");
        assert_eq!(heard(&answers(2, None), &three, 1, true), ".5.4+5");
        assert_eq!(heard(&answers(1, Some("/^ok [0-9]+$/")), &three, 1, true), ".5+4+5");
        assert_eq!(heard(&answers(0, Some("/^ok [0-9]{2}$/")), &three, 1, true), ".5.4+5");
        assert_eq!(heard(&answers(9, None), &three, 1, true), ".5.4.5");
    }
}
