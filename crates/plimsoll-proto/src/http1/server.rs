//! The server half: finds the end of each request, strictly.
//!
//! A request whose end two readers could understand differently is refused rather than guessed, since
//! a proxy in front may have guessed otherwise. One leniency is kept, which RFC 9112 allows: a line
//! of a head may end in a bare LF. Empty lines between requests are skipped. It writes nothing:
//! [`super::encode`] does.

use std::mem::MaybeUninit;

use httparse::Header;
use thiserror::Error;

use super::body::{Body, BodyError, Framing};
use super::head::{Coding, Fed, Field, PartialHead, Persistence};
use super::{REQUEST_HEAD_BYTES_MAX, REQUEST_HEADERS_MAX, head};

/// Reads the requests of one connection, one after the other.
///
/// After [`RequestProgress::Complete`] it waits for the next request; pipelined bytes were left
/// unconsumed and are fed again. After an error it accepts nothing more.
#[derive(Debug)]
pub struct RequestParser {
    state: State,
}

/// One per connection, idle ones included.
const _: () = assert!(size_of::<RequestParser>() <= 48);

#[derive(Debug)]
enum State {
    Head(Option<Box<PartialHead>>),
    /// The request is complete but for the number of its body's bytes.
    Body(Body, Request),
    Failed,
}

/// The result of handling bytes from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestProgress {
    /// All bytes were consumed; the request is not complete.
    NeedMore,
    /// The head is complete and the client may wait for `100 Continue` before it sends the body.
    /// Bytes after the head were not consumed.
    ExpectContinue,
    /// The request is complete; bytes after it were not consumed.
    Complete(Request),
}

/// A complete request; its headers went to `on_header`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// The method is HEAD: the answer has no body.
    pub head_method: bool,
    /// `true` if the client lets the connection carry another request.
    pub keep_alive: bool,
    /// The client speaks HTTP/1.0: no chunked answer, and no 100 Continue.
    pub http10: bool,
    /// Payload bytes, without chunk framing.
    pub body_bytes: u64,
}

/// Why a request is refused. The connection must be closed after the answer.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// Not HTTP/1.1, or ambiguous.
    #[error("the request is not valid HTTP/1.1: {what}; correct the client")]
    Malformed {
        /// The fault.
        what: &'static str,
    },
    /// Larger than this server reads.
    #[error("the request has {what}; make the client send less")]
    HeadTooLarge {
        /// The part, and the bound that it exceeds.
        what: &'static str,
    },
    /// Neither HTTP/1.0 nor HTTP/1.1.
    #[error("the request's version is not spoken; make the client use HTTP/1.1")]
    UnsupportedVersion,
    /// A transfer coding other than `chunked`.
    #[error("the request's transfer coding is not spoken; make the client use chunked")]
    UnsupportedTransferEncoding,
}

impl RequestError {
    /// Returns the status to answer with.
    pub const fn status(&self) -> u16 {
        match self {
            Self::Malformed { .. } => 400,
            Self::HeadTooLarge { .. } => 431,
            Self::UnsupportedTransferEncoding => 501,
            Self::UnsupportedVersion => 505,
        }
    }
}

impl From<BodyError> for RequestError {
    fn from(error: BodyError) -> Self {
        match error {
            BodyError::Malformed(what) => Self::Malformed { what },
            BodyError::TooLarge(what) => Self::HeadTooLarge { what },
        }
    }
}

impl Default for RequestParser {
    fn default() -> Self {
        Self::new()
    }
}

impl RequestParser {
    /// Creates a parser of a connection on which nothing was received yet.
    pub const fn new() -> Self {
        Self { state: State::Head(None) }
    }

    /// Handles bytes from the peer; returns how many were consumed, and the result.
    /// `on_header` sees each header once, in order, when the head is complete and accepted.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        on_header: &mut dyn FnMut(&str, &[u8]),
    ) -> Result<(usize, RequestProgress), RequestError> {
        let result = self.advance(input, on_header);
        match result {
            Ok((_, RequestProgress::Complete(_))) => self.state = State::Head(None),
            Ok(_) => {}
            Err(_) => self.state = State::Failed,
        }
        result
    }

    /// Reports whether the parser is between requests: no byte of the next one has come.
    pub const fn is_idle(&self) -> bool {
        matches!(self.state, State::Head(None))
    }

    fn advance(
        &mut self,
        input: &[u8],
        on_header: &mut dyn FnMut(&str, &[u8]),
    ) -> Result<(usize, RequestProgress), RequestError> {
        let mut rest = input;
        if self.is_idle() {
            rest = head::skip_empty_lines(rest);
        }
        if let State::Head(partial) = &mut self.state {
            let parse = |bytes: &[u8]| parse_head(bytes, on_header);
            match head::feed(partial, rest, REQUEST_HEAD_BYTES_MAX, parse)? {
                Fed::Complete { consumed, head } => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    self.state = State::Body(Body::new(head.framing), head.request);
                    if head.expects_continue {
                        return Ok((input.len() - rest.len(), RequestProgress::ExpectContinue));
                    }
                }
                Fed::Partial => return Ok((input.len(), RequestProgress::NeedMore)),
                Fed::TooLarge => {
                    return Err(RequestError::HeadTooLarge { what: "a head over 16 KiB" });
                }
            }
        }
        let State::Body(body, request) = &mut self.state else {
            return Err(RequestError::Malformed { what: "bytes after a refused request" });
        };
        let (consumed, done) = body.handle_bytes(rest)?;
        let left = rest.len().saturating_sub(consumed);
        let progress = if done {
            RequestProgress::Complete(Request { body_bytes: body.received(), ..*request })
        } else {
            RequestProgress::NeedMore
        };
        Ok((input.len() - left, progress))
    }
}

/// The relevant fields of a complete head.
#[derive(Clone, Copy, Debug)]
struct Head {
    request: Request,
    framing: Framing,
    expects_continue: bool,
}

/// Parses a head from its first byte; `None` while its end is missing.
fn parse_head(
    bytes: &[u8],
    on_header: &mut dyn FnMut(&str, &[u8]),
) -> Result<Option<(usize, Head)>, RequestError> {
    let mut headers = [MaybeUninit::<Header<'_>>::uninit(); REQUEST_HEADERS_MAX];
    let mut request = httparse::Request::new(&mut []);
    let length = match request.parse_with_uninit_headers(bytes, &mut headers) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(RequestError::HeadTooLarge { what: "over 100 headers" });
        }
        Err(httparse::Error::Version) if names_other_version(bytes) => {
            return Err(RequestError::UnsupportedVersion);
        }
        Err(error) => return Err(RequestError::Malformed { what: head::describe(error) }),
    };
    let http10 = request.version == Some(0);
    let fields = Fields::read(request.headers)?;
    let framing = fields.framing(http10)?;
    let head = Head {
        request: Request {
            head_method: request.method == Some("HEAD"),
            keep_alive: fields.persistence.keeps_alive(!http10),
            http10,
            body_bytes: 0,
        },
        framing,
        expects_continue: fields.expects_continue && !http10 && framing != Framing::Fixed(0),
    };
    for header in request.headers.iter() {
        on_header(header.name, header.value);
    }
    Ok(Some((length, head)))
}

/// Reports whether the first line ends in an HTTP version, one that httparse refused.
fn names_other_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let last_word = line.rsplit(|byte| *byte == b' ').next().unwrap_or_default();
    matches!(last_word.strip_prefix(b"HTTP/"), Some([b'0'..=b'9', ..]))
}

/// The fields that decide what a request is.
struct Fields {
    length: Option<u64>,
    coding: Coding,
    persistence: Persistence,
    expects_continue: bool,
    has_host: bool,
}

impl Fields {
    fn read(headers: &[Header<'_>]) -> Result<Self, RequestError> {
        let mut fields = Self {
            length: None,
            coding: Coding::Absent,
            persistence: Persistence::default(),
            expects_continue: false,
            has_host: false,
        };
        for header in headers {
            match Field::of(header.name) {
                Field::ContentLength => {
                    let length = head::decimal(header.value);
                    if length.is_none() || fields.length.is_some() {
                        return Err(malformed("a bad or repeated Content-Length"));
                    }
                    fields.length = length;
                }
                Field::TransferEncoding => fields.coding.add(header.value),
                Field::Connection => fields.persistence.add(header.value),
                Field::Expect => {
                    fields.expects_continue |= header.value.eq_ignore_ascii_case(b"100-continue");
                }
                Field::Host => {
                    if fields.has_host || !is_host(header.value) {
                        return Err(malformed("a bad or repeated Host"));
                    }
                    fields.has_host = true;
                }
                Field::KeepAlive | Field::Other => {}
            }
        }
        Ok(fields)
    }

    fn framing(&self, http10: bool) -> Result<Framing, RequestError> {
        if !http10 && !self.has_host {
            return Err(malformed("no Host"));
        }
        match (self.coding, self.length) {
            (Coding::Absent, length) => Ok(Framing::Fixed(length.unwrap_or(0))),
            (_, Some(_)) => Err(malformed("both Transfer-Encoding and Content-Length")),
            (_, None) if http10 => Err(malformed("Transfer-Encoding in HTTP/1.0")),
            (Coding::Chunked, None) => Ok(Framing::Chunked),
            (Coding::Broken | Coding::ChunkedNotLast, None) => {
                Err(malformed("a bad Transfer-Encoding"))
            }
            (Coding::Other | Coding::OtherThenChunked, None) => {
                Err(RequestError::UnsupportedTransferEncoding)
            }
        }
    }
}

const fn malformed(what: &'static str) -> RequestError {
    RequestError::Malformed { what }
}

/// Reports whether `value` may be a host and port: no white space, and none of the characters that delimit
/// the other parts of a URL.
fn is_host(value: &[u8]) -> bool {
    value.iter().all(|byte| byte.is_ascii_graphic() && !b"/?#@\\\"<>{}|^`".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(text: &str) -> Result<(usize, RequestProgress), RequestError> {
        RequestParser::new().handle_bytes(text.as_bytes(), &mut |_, _| {})
    }

    fn status(text: &str) -> u16 {
        whole(text).expect_err(text).status()
    }

    /// A GET-like HTTP/1.1 request, with what the tests care about.
    fn complete(keep_alive: bool, body_bytes: u64) -> RequestProgress {
        let request = Request { head_method: false, keep_alive, http10: false, body_bytes };
        RequestProgress::Complete(request)
    }

    #[test]
    fn requests() {
        let http10 = |keep_alive| {
            let request = Request { head_method: false, keep_alive, http10: true, body_bytes: 0 };
            RequestProgress::Complete(request)
        };
        // what is taken, bytes after it, progress
        for (text, surplus, progress) in [
            ("GET / HTTP/1.1\r\nHost: a\r\n\r\n", "", complete(true, 0)),
            ("GET / HTTP/1.1\nhost:\n\n", "", complete(true, 0)),
            ("\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET", complete(true, 0)),
            (
                "GET / HTTP/1.1\r\nHost: [::1]:80\r\nConnection: close\r\n\r\n",
                "",
                complete(false, 0),
            ),
            ("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc", "GET", complete(true, 3)),
            (
                "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nab",
                "",
                RequestProgress::NeedMore,
            ),
            (
                "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: CHUNKED\r\n\r\n\
                 1\r\nx\r\n0\r\n\r\n",
                "G",
                complete(true, 1),
            ),
            (
                "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: 100-Continue\r\n\r\n",
                "x",
                RequestProgress::ExpectContinue,
            ),
            (
                "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\nExpect: 100-continue\r\n\r\n",
                "",
                complete(true, 0),
            ),
            ("GET / HTTP/1.0\r\nExpect: 100-continue\r\n\r\n", "", http10(false)),
            ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "", http10(true)),
            ("GET / HTTP/1.1\r\nHost: a\r\n\r", "", RequestProgress::NeedMore),
            ("\r\n", "", RequestProgress::NeedMore),
            ("", "", RequestProgress::NeedMore),
        ] {
            let input = [text, surplus].concat();
            assert_eq!(whole(&input), Ok((text.len(), progress)), "{input:?}");
        }
    }

    #[test]
    fn head_method() {
        let result = whole("HEAD / HTTP/1.1\r\nHost: a\r\n\r\n");
        let Ok((_, RequestProgress::Complete(request))) = result else {
            panic!("{result:?}");
        };
        assert!(request.head_method);
    }

    #[test]
    fn refused() {
        for (text, code) in [
            ("\u{16}\u{3}\u{1}\u{2}\0\u{1}", 400),
            ("GET /\r\n", 400),
            ("GET / FTP/1.1\r\n\r\n", 400),
            ("GET  / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: y\r\n folded\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n folded\r\nHost: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
            ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
            ("GET / HTTP/1.2\r\n\r\n", 505),
        ] {
            assert_eq!(status(text), code, "{text:?}");
        }
    }

    #[test]
    fn smuggling_is_refused() {
        for (fields, code) in [
            ("Content-Length: 3\r\nTransfer-Encoding: chunked", 400),
            ("Transfer-Encoding: chunked\r\nContent-Length: 3", 400),
            ("Transfer-Encoding: gzip\r\nContent-Length: 3", 400),
            ("Content-Length: 3\r\nContent-Length: 3", 400),
            ("Content-Length: 3, 3", 400),
            ("Content-Length: +3", 400),
            ("Content-Length: -3", 400),
            ("Content-Length: 0x3", 400),
            ("Content-Length: 3 3", 400),
            ("Content-Length:", 400),
            ("Content-Length: 18446744073709551616", 400),
            ("Transfer-Encoding: chunked, gzip", 400),
            ("Transfer-Encoding: chunked, chunked", 400),
            ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", 400),
            ("Transfer-Encoding:", 400),
            ("Transfer-Encoding: \u{b}chunked", 400),
            ("Transfer-Encoding : chunked", 400),
            ("Transfer-Encoding\r\n : chunked", 400),
            ("Transfer-Encoding: xchunked", 501),
            ("Transfer-Encoding: identity", 501),
            ("Transfer-Encoding: gzip, chunked", 501),
            ("Transfer-Encoding: \"chunked\"", 501),
        ] {
            let text = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
            assert_eq!(status(&text), code, "{fields:?}");
        }
        assert_eq!(status("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n"), 400);
    }

    #[test]
    fn bounds() {
        let head = |bytes: usize| {
            let (before, after) = ("GET / HTTP/1.1\r\nHost: a\r\nA: ", "\r\n\r\n");
            format!("{before}{}{after}", "x".repeat(bytes - before.len() - after.len()))
        };
        let most = REQUEST_HEAD_BYTES_MAX;
        assert_eq!(whole(&head(most)), Ok((most, complete(true, 0))));
        assert_eq!(status(&head(most + 1)), 431);
        assert_eq!(status(&format!("GET /{} HTTP/1.1\r\n", "x".repeat(most))), 431);

        let headers = |count: usize| {
            format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(count - 1))
        };
        assert!(whole(&headers(REQUEST_HEADERS_MAX)).is_ok());
        assert_eq!(status(&headers(REQUEST_HEADERS_MAX + 1)), 431);
    }

    #[test]
    fn an_endless_head_is_refused_at_the_bound() {
        let mut parser = RequestParser::new();
        let mut fed = 0;
        let error = loop {
            match parser.handle_bytes(&[b'x'; 100], &mut |_, _| {}) {
                Ok((consumed, _)) => fed += consumed,
                Err(error) => break error,
            }
        };
        assert_eq!(error.status(), 431);
        assert!(fed < REQUEST_HEAD_BYTES_MAX && fed + 100 >= REQUEST_HEAD_BYTES_MAX);
    }

    #[test]
    fn headers_are_seen_once_and_only_of_accepted_heads() {
        let mut seen = Vec::new();
        let mut parser = RequestParser::new();
        for byte in b"PUT / HTTP/1.1\r\nHost: a\r\nSleep:  20 \r\nContent-Length: 1\r\n\r\nx" {
            let mut note = |name: &str, value: &[u8]| {
                seen.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
            };
            assert!(parser.handle_bytes(&[*byte], &mut note).is_ok());
        }
        let expected = [("Host", "a"), ("Sleep", "20"), ("Content-Length", "1")];
        assert_eq!(seen, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(parser.is_idle());

        let refused = b"GET / HTTP/1.1\r\nSleep: 20\r\n\r\n";
        let mut count = 0;
        assert!(parser.handle_bytes(refused, &mut |_, _| count += 1).is_err());
        assert_eq!(count, 0);
    }

    #[test]
    fn pipelined_requests_complete_one_at_a_time() {
        let text = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n\
            PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nxG";
        let mut parser = RequestParser::new();
        let mut rest = &text[..];
        for progress in [complete(true, 0), complete(true, 1), RequestProgress::NeedMore] {
            let result = parser.handle_bytes(rest, &mut |_, _| {});
            assert_eq!(result.map(|at| at.1), Ok(progress));
            rest = &rest[result.map_or(0, |at| at.0)..];
        }
        assert!(rest.is_empty() && !parser.is_idle());
    }

    #[test]
    fn the_body_follows_expect_continue() {
        let mut parser = RequestParser::new();
        let head =
            b"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n";
        let mut feed = |bytes: &[u8]| parser.handle_bytes(bytes, &mut |_, _| {});
        assert_eq!(feed(head), Ok((head.len(), RequestProgress::ExpectContinue)));
        assert_eq!(feed(b"a"), Ok((1, RequestProgress::NeedMore)));
        assert_eq!(feed(b"bc"), Ok((1, complete(true, 2))));
    }

    #[test]
    fn nothing_is_accepted_after_an_error() {
        let mut parser = RequestParser::new();
        assert!(parser.handle_bytes(b"?\r\n\r\n", &mut |_, _| {}).is_err());
        assert!(!parser.is_idle());
        let valid = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
        assert!(parser.handle_bytes(valid, &mut |_, _| {}).is_err());
    }
}
