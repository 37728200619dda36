//! The client half: finds the end of each response and what it means for the connection.
//!
//! It does not send requests ([`super::encode`] writes them), does not pipeline, and keeps no
//! header and no body: a load generator needs status, size and end.

use httparse::Header;
use plimsoll_model::ErrorClass;
use thiserror::Error;

use super::body::{Body, BodyError, Framing};
use super::head::{Coding, Fed, Field, PartialHead, Persistence};
use super::{INTERIM_RESPONSES_MAX, RESPONSE_HEAD_BYTES_MAX, head};

/// Reads the responses of one connection, one at a time.
///
/// Call [`expect_response`](Self::expect_response) when a request is sent, then
/// [`handle_bytes`](Self::handle_bytes) until it returns [`Progress::Complete`]. After an error the
/// connection is of no more use.
///
/// ```
/// use plimsoll_proto::http1::{Progress, ResponseParser};
///
/// let mut parser = ResponseParser::default();
/// parser.expect_response(false);
/// let head = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n";
/// assert_eq!(parser.handle_bytes(head), Ok((head.len(), Progress::NeedMore)));
/// let Ok((4, Progress::Complete(response))) = parser.handle_bytes(b"pong") else { panic!() };
/// assert_eq!((response.status, response.body_bytes, response.keep_alive), (200, 4, true));
/// ```
#[derive(Debug, Default)]
pub struct ResponseParser {
    state: State,
    /// Status of the response whose body is being read.
    status: u16,
    /// Persistence of the response whose body is being read.
    keep_alive: bool,
    /// The awaited response answers a HEAD request.
    head_request: bool,
    /// 1xx responses since the request; 0 <= interim <= INTERIM_RESPONSES_MAX
    interim: u8,
    /// Timeout that the response whose body is being read announced, seconds.
    keep_alive_s: u16,
}

/// One per connection, idle ones included.
const _: () = assert!(size_of::<ResponseParser>() <= 32);

#[derive(Debug, Default)]
enum State {
    #[default]
    Idle,
    Head(Option<Box<PartialHead>>),
    Body(Body),
}

/// The result of handling bytes from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// All bytes were consumed; the response is not complete.
    NeedMore,
    /// The response is complete and the parser idle; bytes after it were not consumed.
    Complete(Response),
}

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code, 200 to 999.
    pub status: u16,
    /// `true` if the connection may carry another request.
    pub keep_alive: bool,
    /// Seconds after which the server closes the connection when it is idle, by `Keep-Alive: timeout`; 0 if it
    /// announced none.
    pub keep_alive_s: u16,
    /// Payload bytes, without chunk framing.
    pub body_bytes: u64,
}

/// Why a response could not be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum ResponseError {
    /// HTTP that breaks the rules of HTTP/1.1.
    #[error("the answer is not valid HTTP/1.1: {what}; correct the server, or the proxy before it")]
    Malformed {
        /// The fault.
        what: &'static str,
    },
    /// Another protocol.
    #[error("the answer does not begin with HTTP/{}", other_protocol(*.first))]
    NotHttp {
        /// The first byte.
        first: u8,
    },
    /// Bytes for which no request is open. The answer before them is complete.
    #[error(
        "the server sent bytes that no request asked for: more behind an answer than its head announces (HEAD, \
         204 and 304 have no body), or an unrequested answer; correct the server"
    )]
    Unrequested,
    /// Larger than this client reads.
    #[error("the answer has {what}, more than plimsoll reads; make the server send less")]
    HeadTooLarge {
        /// The part, and the bound that it exceeds.
        what: &'static str,
    },
    /// The stream ended inside a response.
    #[error("the server closed before its answer was complete; look for the reason in its log")]
    Truncated,
    /// The stream ended before the first byte of a response.
    #[error("the server closed without an answer; look for the reason in its log")]
    ClosedBeforeResponse,
}

impl ResponseError {
    /// Returns the class in which the operation ends.
    pub const fn class(&self) -> ErrorClass {
        match self {
            Self::Malformed { .. } | Self::NotHttp { .. } => ErrorClass::HttpMalformed,
            Self::Unrequested => ErrorClass::UnrequestedAnswer,
            Self::HeadTooLarge { .. } => ErrorClass::HttpTooLarge,
            Self::Truncated | Self::ClosedBeforeResponse => ErrorClass::ClosedByPeer,
        }
    }
}

/// Names the protocol that a first byte belongs to, and the fix.
const fn other_protocol(first: u8) -> &'static str {
    match first {
        // An alert or a handshake.
        0x15 | 0x16 => ", and is TLS; write https:// in the URL",
        // The length of a frame.
        0x00 => ", and may be HTTP/2; try --http 2",
        _ => "; check the URL's port",
    }
}

impl From<BodyError> for ResponseError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Malformed(what) => Self::Malformed { what },
            BodyError::TooLarge(what) => Self::HeadTooLarge { what },
        }
    }
}

impl ResponseParser {
    /// Notes that a request was sent; with `head_request` the answer has no body. Call it only when no response is
    /// awaited: an awaited one would be dropped.
    pub fn expect_response(&mut self, head_request: bool) {
        debug_assert!(matches!(self.state, State::Idle), "pipelining is not spoken");
        self.state = State::Head(None);
        self.head_request = head_request;
        self.interim = 0;
    }

    /// Handles bytes from the peer; returns how many were consumed, and the result.
    #[inline]
    pub fn handle_bytes(&mut self, input: &[u8]) -> Result<(usize, Progress), ResponseError> {
        let result = self.advance(input);
        if !matches!(result, Ok((_, Progress::NeedMore))) {
            self.state = State::Idle;
        }
        result
    }

    /// Handles the end of the peer's stream. A body that ends with the connection is complete now; everything else is
    /// an error.
    pub fn handle_eof(&mut self) -> Result<Response, ResponseError> {
        let begun = self.has_begun();
        match std::mem::replace(&mut self.state, State::Idle) {
            State::Body(body) if body.ends_with_connection() => Ok(self.response(body.received())),
            _ if begun => Err(ResponseError::Truncated),
            _ => Err(ResponseError::ClosedBeforeResponse),
        }
    }

    /// Reports whether any byte of the awaited response has come; a 1xx counts.
    pub const fn has_begun(&self) -> bool {
        match &self.state {
            State::Idle => false,
            State::Head(partial) => partial.is_some() || self.interim > 0,
            State::Body(_) => true,
        }
    }

    /// Returns the status of the response whose body is being read, if it is 400 or higher.
    pub fn failing_status(&self) -> Option<u16> {
        (matches!(self.state, State::Body(_)) && self.status >= 400).then_some(self.status)
    }

    fn advance(&mut self, input: &[u8]) -> Result<(usize, Progress), ResponseError> {
        let mut rest = input;
        loop {
            let (consumed, complete) = match &mut self.state {
                State::Idle if head::skip_empty_lines(rest).is_empty() => {
                    return Ok((input.len(), Progress::NeedMore));
                }
                State::Idle => return Err(ResponseError::Unrequested),
                State::Head(partial) => {
                    if partial.is_none() {
                        rest = head::skip_empty_lines(rest);
                    }
                    match head::feed(partial, rest, RESPONSE_HEAD_BYTES_MAX, parse_head)? {
                        Fed::Complete { consumed, head } => {
                            rest = rest.get(consumed..).unwrap_or_default();
                            match self.begin_body(&head)? {
                                None => continue,
                                Some(Framing::Fixed(bytes)) if bytes <= rest.len() as u64 => {
                                    (bytes as usize, Some(bytes))
                                }
                                Some(framing) => {
                                    self.state = State::Body(Body::new(framing));
                                    continue;
                                }
                            }
                        }
                        Fed::Partial => return Ok((input.len(), Progress::NeedMore)),
                        Fed::TooLarge => {
                            return Err(ResponseError::HeadTooLarge { what: "a head over 64 KiB" });
                        }
                    }
                }
                State::Body(body) => {
                    let (consumed, done) = body.handle_bytes(rest)?;
                    (consumed, done.then_some(body.received()))
                }
            };
            let left = rest.len().saturating_sub(consumed);
            return Ok(match complete {
                Some(body_bytes) => {
                    (input.len() - left, Progress::Complete(self.response(body_bytes)))
                }
                None => (input.len() - left, Progress::NeedMore),
            });
        }
    }

    /// Returns the body that follows this head; `None` when the head was an interim one.
    fn begin_body(&mut self, head: &Head) -> Result<Option<Framing>, ResponseError> {
        if head.status < 200 {
            if head.status == 101 {
                return Err(ResponseError::Malformed { what: "an upgrade that was not requested" });
            }
            if self.interim == INTERIM_RESPONSES_MAX {
                return Err(ResponseError::HeadTooLarge { what: "over 32 interim responses" });
            }
            self.interim += 1;
            self.state = State::Head(None);
            return Ok(None);
        }
        let bodiless = self.head_request || head.status == 204 || head.status == 304;
        let framing = if bodiless { Framing::Fixed(0) } else { head.framing };
        self.status = head.status;
        self.keep_alive = head.keep_alive && framing != Framing::UntilClose;
        self.keep_alive_s = head.keep_alive_s;
        Ok(Some(framing))
    }

    const fn response(&self, body_bytes: u64) -> Response {
        let Self { status, keep_alive, keep_alive_s, .. } = *self;
        Response { status, keep_alive, keep_alive_s, body_bytes }
    }
}

/// The relevant fields of a complete head.
#[derive(Debug)]
struct Head {
    status: u16,
    keep_alive: bool,
    keep_alive_s: u16,
    framing: Framing,
}

/// Parses a head from its first byte; `None` while its end is missing.
fn parse_head(bytes: &[u8]) -> Result<Option<(usize, Head)>, ResponseError> {
    if let Some(first) = bytes.first().copied().filter(|first| *first != b'H') {
        return Err(ResponseError::NotHttp { first });
    }
    match head::read_response(bytes, read_head) {
        Ok(head) => head.transpose(),
        Err(httparse::Error::TooManyHeaders) => {
            Err(ResponseError::HeadTooLarge { what: "over 128 header lines" })
        }
        Err(error) => Err(ResponseError::Malformed { what: head::describe(error) }),
    }
}

fn read_head(
    length: usize,
    response: &httparse::Response<'_, '_>,
) -> Result<(usize, Head), ResponseError> {
    let status = response.code.unwrap_or(0);
    if status < 100 {
        return Err(ResponseError::Malformed { what: "a status below 100" });
    }
    let is_http11 = response.version == Some(1);
    let (framing, persistence, keep_alive_s) = read_fields(response.headers, is_http11)?;
    let keep_alive = persistence.keeps_alive(is_http11);
    Ok((length, Head { status, keep_alive, keep_alive_s, framing }))
}

/// RFC 9112, 6.3: Transfer-Encoding wins over Content-Length, neither means until close. The last figure is the timeout
/// of `Keep-Alive`.
fn read_fields(
    headers: &[Header<'_>],
    is_http11: bool,
) -> Result<(Framing, Persistence, u16), ResponseError> {
    let mut keep_alive_s = 0;
    let mut length = None;
    let mut coding = Coding::Absent;
    let mut persistence = Persistence::default();
    for header in headers {
        match Field::of(header.name) {
            Field::ContentLength => length = Some(content_length(header.value, length)?),
            // Obsolete but still sent; it means no coding.
            Field::TransferEncoding
                if header.value.trim_ascii().eq_ignore_ascii_case(b"identity") => {}
            Field::TransferEncoding => coding.add(header.value),
            Field::Connection => persistence.add(header.value),
            Field::KeepAlive => keep_alive_s = head::keep_alive_s(header.value),
            Field::Expect | Field::Host | Field::Other => {}
        }
    }
    let framing = match (coding, length) {
        (Coding::Broken, _) => {
            return Err(ResponseError::Malformed { what: "a bad Transfer-Encoding" });
        }
        (Coding::Chunked | Coding::OtherThenChunked, _) => Framing::Chunked,
        (Coding::Absent, Some(bytes)) => Framing::Fixed(bytes),
        (Coding::Other | Coding::ChunkedNotLast, _) | (Coding::Absent, None) => Framing::UntilClose,
    };
    // HTTP/1.0 has no codings: the framing may be faulty (RFC 9112, 6.1).
    if !is_http11 && coding != Coding::Absent {
        persistence.add(b"close");
    }
    Ok((framing, persistence, keep_alive_s))
}

/// Reads one Content-Length field: a number, or the same number repeated.
fn content_length(value: &[u8], before: Option<u64>) -> Result<u64, ResponseError> {
    let mut length = before;
    for element in value.split(|byte| *byte == b',') {
        let Some(bytes) = head::decimal(element.trim_ascii()) else {
            return Err(ResponseError::Malformed { what: "a bad Content-Length" });
        };
        if length.is_some_and(|length| length != bytes) {
            return Err(ResponseError::Malformed { what: "two Content-Lengths that differ" });
        }
        length = Some(bytes);
    }
    length.ok_or(ResponseError::Malformed { what: "a bad Content-Length" })
}

#[cfg(test)]
mod tests {
    use super::super::RESPONSE_HEADERS_MAX;
    use super::*;

    use ResponseError::{ClosedBeforeResponse, Truncated};

    fn awaiting(head_request: bool) -> ResponseParser {
        let mut parser = ResponseParser::default();
        parser.expect_response(head_request);
        parser
    }

    fn whole(text: &[u8]) -> Result<(usize, Progress), ResponseError> {
        awaiting(false).handle_bytes(text)
    }

    fn complete(status: u16, keep_alive: bool, body_bytes: u64) -> Progress {
        Progress::Complete(Response { status, keep_alive, keep_alive_s: 0, body_bytes })
    }

    #[test]
    fn responses() {
        // the response, bytes after it, progress
        for (text, surplus, progress) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong", "", complete(200, true, 4)),
            ("HTTP/1.1 200\r\ncontent-LENGTH:4\r\n\r\npong", "HTTP", complete(200, true, 4)),
            ("HTTP/1.1 200 OK\ncontent-length: 0\n\n", "", complete(200, true, 0)),
            ("HTTP/1.1 404 X\r\nContent-Length: 1, 1\r\n\r\nx", "", complete(404, true, 1)),
            ("HTTP/1.1 204 X\r\nContent-Length: 9\r\n\r\n", "", complete(204, true, 0)),
            ("HTTP/1.1 304 X\r\nContent-Length: 9\r\n\r\n", "", complete(304, true, 0)),
            ("HTTP/1.0 200 X\r\nContent-Length: 0\r\n\r\n", "", complete(200, false, 0)),
            (
                "HTTP/1.1 200 \r\nTransfer-Encoding: identity\r\nContent-Length: 1\r\n\r\nx",
                "",
                complete(200, true, 1),
            ),
            (
                "HTTP/1.0 200 \r\nConnection: Keep-Alive\r\nContent-Length: 0\r\n\r\n",
                "",
                complete(200, true, 0),
            ),
            (
                "HTTP/1.1 200 \r\nConnection: x, Close\r\nContent-Length: 0\r\n\r\n",
                "",
                complete(200, false, 0),
            ),
            (
                "HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
                "+",
                complete(200, true, 1),
            ),
            (
                "HTTP/1.1 200 \r\nContent-Length: 9\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
                "",
                complete(200, true, 0),
            ),
            (
                "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 \r\nA: b\r\n\r\nHTTP/1.1 204 \r\n\r\n",
                "",
                complete(204, true, 0),
            ),
            ("HTTP/1.1 200 OK\r\nA: b\r\n folded\r\n\r\n", "", Progress::NeedMore),
            (
                "HTTP/1.1 200 OK\r\nA:\r\n\tb\r\n \r\nContent-Length:\r\n 2\r\nConnection: a,\r\n close\r\n\r\nok",
                "",
                complete(200, false, 2),
            ),
            (
                "HTTP/1.1 200 OK\nTransfer-Encoding:\n gzip,\n  chunked\n\n0\r\nA: b\r\n c\r\n\r\n",
                " ",
                complete(200, true, 0),
            ),
            (
                "HTTP/1.1 103 \r\nA: b\r\n c\r\n\r\nHTTP/1.1 200 \r\nContent-Length: 1\r\n\r\n ",
                "",
                complete(200, true, 1),
            ),
            ("HTTP/1.1 200 \r\nContent-Length : 1\r\nA\t: b\r\n\r\nx", "", complete(200, true, 1)),
            ("\r\n\nHTTP/1.1 200 \r\nContent-Length: 0\r\n\r\n", "\r\n", complete(200, true, 0)),
            (
                "HTTP/1.0 200 \r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
                "",
                complete(200, false, 0),
            ),
            ("HTTP/1.1  200   OK\r\nContent-Length: 0\r\n\r\n", "", complete(200, true, 0)),
            ("HTTP/1.1 205 \r\nContent-Length: 0\r\n\r\n", "", complete(205, true, 0)),
            ("HTTP/1.1 999 \r\nContent-Length:0\r\n\r\n", "", complete(999, true, 0)),
            ("\r\n", "", Progress::NeedMore),
            ("HTTP/1.1 200 OK\r\n\r\nuntil close", "", Progress::NeedMore),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nzzz", "", Progress::NeedMore),
            (
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, gzip\r\n\r\n0",
                "",
                Progress::NeedMore,
            ),
            ("HTTP/1.1 100 Continue\r\n\r\n", "", Progress::NeedMore),
            ("HTTP/1.1 2", "", Progress::NeedMore),
            ("", "", Progress::NeedMore),
        ] {
            let input = [text, surplus].concat();
            assert_eq!(whole(input.as_bytes()), Ok((text.len(), progress)), "{input:?}");
        }
    }

    #[test]
    fn malformed() {
        for text in [
            "\r\n HTTP/1.1 200 OK\r\n\r\n",
            "SSH-2.0-OpenSSH_9.2",
            "\u{15}\u{3}\u{3}\0\u{2}\u{2}\u{a}",
            "HTTP/2",
            "HTTP/1.2 200 OK\r\n\r\n",
            "HTTP/1.1 2000 OK\r\n\r\n",
            "HTTP/1.1 099 OK\r\n\r\n",
            "HTTP/1.1 101 Switching Protocols\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1, 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551616\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz",
            "HTTP/1.1 200 OK\r\n A: b\r\n\r\n",
            "HTTP/1.1 200 OK\r\n : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA b: c\r\n\r\n",
            // Only values are folded.
            "HTTP/1.1 200 OK\r\nA\r\n : b\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: b\r\n \0\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 2\r\n\r\n",
            "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
            "HTTP/1.1 200 OK\r\nA: \0\r\n\r\n",
        ] {
            let error = whole(text.as_bytes()).expect_err(text);
            assert_eq!(error.class(), ErrorClass::HttpMalformed, "{text:?}");
        }
    }

    #[test]
    fn bounds() {
        let class = |text: String| whole(text.as_bytes()).map_err(|error| error.class());
        let head = |bytes: usize| {
            let (before, after) = ("HTTP/1.1 204 OK\r\nA: ", "\r\n\r\n");
            format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len()))
        };
        let most = RESPONSE_HEAD_BYTES_MAX;
        assert_eq!(class(head(most)), Ok((most, complete(204, true, 0))));
        assert_eq!(class(head(most + 1)), Err(ErrorClass::HttpTooLarge));

        let headers = |count: usize| format!("HTTP/1.1 204 OK\r\n{}\r\n", "A: b\r\n".repeat(count));
        assert!(class(headers(RESPONSE_HEADERS_MAX)).is_ok());
        assert_eq!(class(headers(RESPONSE_HEADERS_MAX + 1)), Err(ErrorClass::HttpTooLarge));

        let folded =
            |count: usize| format!("HTTP/1.1 204 OK\r\nA: b\r\n{}\r\n", " c\r\n".repeat(count));
        assert!(class(folded(RESPONSE_HEADERS_MAX - 1)).is_ok());
        assert_eq!(class(folded(RESPONSE_HEADERS_MAX)), Err(ErrorClass::HttpTooLarge));

        let interims = |count: u8| {
            format!("{}HTTP/1.1 204 \r\n\r\n", "HTTP/1.1 100 \r\n\r\n".repeat(count.into()))
        };
        assert!(class(interims(INTERIM_RESPONSES_MAX)).is_ok());
        assert_eq!(class(interims(INTERIM_RESPONSES_MAX + 1)), Err(ErrorClass::HttpTooLarge));
    }

    #[test]
    fn head_answers_have_no_body() {
        for framing in ["Content-Length: 9", "Transfer-Encoding: chunked", "A: b"] {
            let text = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n");
            let result = awaiting(true).handle_bytes(text.as_bytes());
            assert_eq!(result, Ok((text.len(), complete(200, true, 0))), "{framing}");
        }
    }

    #[test]
    fn unrequested_bytes_are_no_answer() {
        let mut parser = ResponseParser::default();
        assert_eq!(parser.handle_bytes(b""), Ok((0, Progress::NeedMore)));
        assert_eq!(parser.handle_bytes(b"H"), Err(ResponseError::Unrequested));
        parser.expect_response(false);
        assert!(parser.handle_bytes(b"HTTP/1.1 204 \r\n\r\n").is_ok());
        assert_eq!(parser.handle_bytes(b"\r\n"), Ok((2, Progress::NeedMore)));
        let error = parser.handle_bytes(b"HTTP/1.1 408 \r\n\r\n").expect_err("idle again");
        assert_eq!(error.class(), ErrorClass::UnrequestedAnswer);
    }

    #[test]
    fn the_advice_fits_the_protocol() {
        for (text, advice) in [
            ("\u{15}\u{3}\u{3}", "is TLS; write https:// in the URL"),
            ("\0\0\u{12}\u{4}", "may be HTTP/2; try --http 2"),
            ("SSH-2.0-OpenSSH_9.2", "check the URL's port"),
            ("HTTP/1.1 200 OK\r\nno colon\r\n\r\n", "a bad header name; correct the server"),
        ] {
            let said = whole(text.as_bytes()).expect_err(text).to_string();
            assert!(said.contains(advice), "{said}");
        }
    }

    #[test]
    fn ends_of_stream() {
        // text before the end, has_begun, verdict
        let closed = Response { status: 200, keep_alive: false, keep_alive_s: 0, body_bytes: 3 };
        for (text, begun, verdict) in [
            ("", false, Err(ClosedBeforeResponse)),
            ("\r\n", false, Err(ClosedBeforeResponse)),
            ("H", true, Err(Truncated)),
            ("HTTP/1.1 100 \r\n\r\n", true, Err(Truncated)),
            ("HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nx", true, Err(Truncated)),
            ("HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n0\r\n", true, Err(Truncated)),
            ("HTTP/1.1 200 \r\nConnection: keep-alive\r\n\r\nabc", true, Ok(closed)),
        ] {
            let mut parser = awaiting(false);
            assert_eq!(parser.handle_bytes(text.as_bytes()).map(|at| at.1), Ok(Progress::NeedMore));
            assert_eq!(parser.has_begun(), begun, "{text:?}");
            assert_eq!(parser.handle_eof(), verdict, "{text:?}");
            assert!(!parser.has_begun());
        }
    }

    #[test]
    fn a_head_sent_byte_by_byte_is_kept_only_until_it_ends() {
        let text = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
        let mut parser = awaiting(false);
        for (at, byte) in text.iter().enumerate() {
            let last = at + 1 == text.len();
            let progress = if last { complete(200, true, 2) } else { Progress::NeedMore };
            assert_eq!(parser.handle_bytes(&[*byte]), Ok((1, progress)), "byte {at}");
            assert!(parser.has_begun() != last);
            let in_head = at + 1 < text.len() - 2;
            assert_eq!(matches!(parser.state, State::Head(Some(_))), in_head, "byte {at}");
        }
    }
}
