//! Properties of both HTTP/1.1 halves: however bytes are split the result is the same, no bytes
//! make them panic or take more than they were given, and each half understands the other.

use proptest::prelude::*;

use plimsoll_model::target::{Protocol, Target, TargetUrl};
use plimsoll_proto::http1::{
    BodyLength, Progress, Request, RequestParser, RequestProgress, Response, ResponseParser, encode,
};

/// The result of feeding pieces until a message was complete, refused, or the pieces ran out.
#[derive(Debug, PartialEq)]
enum Outcome<T> {
    Complete { consumed: usize, message: T },
    NeedMore,
    Refused,
}

/// Cuts `bytes` into pieces whose lengths repeat; one empty piece goes first.
fn pieces<'a>(bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut pieces = vec![&bytes[..0]];
    let mut rest = bytes;
    for length in lengths.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*length).clamp(1, rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

fn read_response(pieces: &[&[u8]], head_request: bool) -> Outcome<Response> {
    let mut parser = ResponseParser::default();
    parser.expect_response(head_request);
    let mut total = 0;
    for piece in pieces {
        match parser.handle_bytes(piece) {
            Err(_) => return Outcome::Refused,
            Ok((consumed, progress)) => {
                assert!(consumed <= piece.len());
                total += consumed;
                match progress {
                    Progress::Complete(message) => {
                        assert!(!parser.has_begun());
                        return Outcome::Complete { consumed: total, message };
                    }
                    Progress::NeedMore => assert_eq!(consumed, piece.len()),
                }
            }
        }
    }
    // Empty lines before an answer are none of it.
    let is_line_end = |byte: &u8| matches!(byte, b'\r' | b'\n');
    assert_eq!(parser.has_begun(), !pieces.iter().copied().flatten().all(is_line_end));
    Outcome::NeedMore
}

type Headers = Vec<(String, Vec<u8>)>;

/// A request, its headers, and whether the client waited for 100 Continue.
fn read_request(pieces: &[&[u8]]) -> Outcome<(Request, Headers, bool)> {
    let mut parser = RequestParser::new();
    let mut headers = Headers::new();
    let mut total = 0;
    let mut waited = false;
    for piece in pieces {
        let mut rest = *piece;
        loop {
            let mut note = |name: &str, value: &[u8]| headers.push((name.into(), value.to_vec()));
            match parser.handle_bytes(rest, &mut note) {
                Err(_) => return Outcome::Refused,
                Ok((consumed, progress)) => {
                    assert!(consumed <= rest.len());
                    total += consumed;
                    rest = &rest[consumed..];
                    match progress {
                        RequestProgress::Complete(request) => {
                            assert!(parser.is_idle());
                            let message = (request, headers, waited);
                            return Outcome::Complete { consumed: total, message };
                        }
                        RequestProgress::ExpectContinue => {
                            assert!(!waited);
                            waited = true;
                        }
                        RequestProgress::NeedMore => {
                            assert!(rest.is_empty());
                            break;
                        }
                    }
                }
            }
        }
    }
    Outcome::NeedMore
}

/// Split input may be refused later than whole input (a line is judged at its end), nothing else.
fn assert_agree<T: PartialEq + std::fmt::Debug>(whole: &Outcome<T>, split: &Outcome<T>) {
    let later = *whole == Outcome::Refused && *split == Outcome::NeedMore;
    assert!(later || whole == split, "whole {whole:?}, split {split:?}");
}

fn token() -> impl Strategy<Value = String> {
    // No name that changes framing: those are written by the generators below.
    "[A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,9}X"
}

fn value() -> impl Strategy<Value = String> {
    "[!-~]([ -~]{0,20}[!-~])?"
}

fn plain_headers() -> impl Strategy<Value = Vec<(String, String)>> {
    prop::collection::vec((token(), value()), 0..6)
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..300)
}

fn cuts() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(1usize..40, 1..6)
}

/// `payload` in chunks, with an extension and a trailer now and then.
fn chunked(payload: &[u8], lengths: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    for (index, piece) in pieces(payload, lengths).into_iter().enumerate() {
        if index % 3 == 2 {
            out.extend_from_slice(format!("{:X} ;ext=\"a;b\"\r\n", piece.len()).as_bytes());
            out.extend_from_slice(piece);
            out.extend_from_slice(b"\r\n");
        } else {
            encode::chunk(&mut out, piece);
        }
    }
    if payload.len().is_multiple_of(2) {
        encode::last_chunk(&mut out);
    } else {
        out.extend_from_slice(b"0;last\r\nDigest: x\r\nEmpty:\r\n\r\n");
    }
    out
}

fn target() -> impl Strategy<Value = Target> {
    let method = prop::sample::select(vec!["GET", "HEAD", "POST", "PUT", "DELETE", "PURGE"]);
    (method, "/[a-z0-9/?=&%.-]{0,30}", plain_headers(), payload(), any::<bool>()).prop_map(
        |(method, path, mut headers, body, chunked)| {
            if chunked {
                headers.push(("Transfer-Encoding".into(), "chunked".into()));
            }
            let url = TargetUrl {
                protocol: Protocol::Http1,
                tls: false,
                host: "::1".into(),
                port: 8080,
                path,
            };
            Target {
                method: method.into(),
                url,
                headers,
                body: body.into(),
                publish: None,
                script: None,
                websocket: None,
            }
        },
    )
}

/// Bytes that look like HTTP often enough to get deep, and random ones.
fn almost_http() -> impl Strategy<Value = Vec<u8>> {
    let fragment = prop::sample::select(vec![
        "HTTP/1.1 200 OK\r\n",
        "HTTP/1.1 100 \r\n\r\n",
        "HTTP/1.0 304\r\n",
        "GET / HTTP/1.1\r\n",
        "PUT / HTTP/1.0\r\n",
        "Host: a\r\n",
        "Content-Length: 3\r\n",
        "Content-Length: 18446744073709551615\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, \r\n",
        "Expect: 100-continue\r\n",
        "Connection: close\r\n",
        "\r\n",
        "\n",
        "\r",
        "3\r\nabc\r\n",
        "0\r\n",
        "ffffffffffffffff;x\r\n",
        ": ",
    ]);
    let piece = prop_oneof![
        8 => fragment.prop_map(|text| text.as_bytes().to_vec()),
        1 => prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..10).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn split_requests_parse_alike(
        target in target(), keepalive: bool, expect: bool, cuts in cuts(),
    ) {
        let mut target = target;
        if expect {
            target.headers.push(("Expect".into(), "100-continue".into()));
        }
        let mut bytes = encode::request(&target, keepalive);
        let length = bytes.len();
        bytes.extend_from_slice(b"GET /next HTTP/1.1\r\n");
        let whole = read_request(&[&bytes]);
        prop_assert_eq!(&read_request(&pieces(&bytes, &cuts)), &whole);

        let Outcome::Complete { consumed, message: (request, headers, waited) } = whole else {
            return Err(TestCaseError::fail(format!("{whole:?}")));
        };
        prop_assert_eq!(consumed, length);
        let expected = Request {
            head_method: target.method == "HEAD",
            keep_alive: keepalive,
            http10: false,
            body_bytes: target.body.len() as u64,
        };
        prop_assert_eq!(request, expected);
        for (name, value) in &target.headers {
            let pair = (name.clone(), value.clone().into_bytes());
            prop_assert!(headers.contains(&pair), "{name} is missing");
        }
        let sized = target.headers.iter().any(|(name, _)| name == "Transfer-Encoding");
        prop_assert_eq!(waited, expect && (sized || !target.body.is_empty()));
    }

    #[test]
    fn split_responses_parse_alike(
        status in 200u16..600,
        fixed: bool,
        keep_alive: bool,
        head_request: bool,
        interim in 0usize..3,
        headers in plain_headers(),
        payload in payload(),
        cuts in cuts(),
    ) {
        let mut bytes = Vec::new();
        (0..interim).for_each(|_| encode::continue_100(&mut bytes));
        let bytes_total = payload.len() as u64;
        let length = if fixed { BodyLength::Fixed(bytes_total) } else { BodyLength::Chunked };
        encode::response_head(&mut bytes, status, length, keep_alive);
        bytes.truncate(bytes.len() - 2);
        for (name, value) in &headers {
            bytes.extend_from_slice(format!("{name}: {value}\r\n").as_bytes());
        }
        bytes.extend_from_slice(b"\r\n");
        let bodiless = head_request || status == 204 || status == 304;
        match fixed {
            _ if bodiless => {}
            true => bytes.extend_from_slice(&payload),
            false => bytes.extend_from_slice(&chunked(&payload, &cuts)),
        }
        let length = bytes.len();
        bytes.extend_from_slice(b"surplus");

        let body_bytes = if bodiless { 0 } else { bytes_total };
        let message = Response { status, keep_alive, keep_alive_s: 0, body_bytes };
        let expected = Outcome::Complete { consumed: length, message };
        prop_assert_eq!(read_response(&[&bytes], head_request), expected);
        let expected = Outcome::Complete { consumed: length, message };
        prop_assert_eq!(read_response(&pieces(&bytes, &cuts), head_request), expected);
    }

    #[test]
    fn a_body_until_close_counts_every_byte(payload in payload(), cuts in cuts()) {
        let mut bytes = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
        bytes.extend_from_slice(&payload);
        let mut parser = ResponseParser::default();
        parser.expect_response(false);
        for piece in pieces(&bytes, &cuts) {
            prop_assert_eq!(parser.handle_bytes(piece), Ok((piece.len(), Progress::NeedMore)));
        }
        let body_bytes = payload.len() as u64;
        let response = Response { status: 200, keep_alive: false, keep_alive_s: 0, body_bytes };
        prop_assert_eq!(parser.handle_eof(), Ok(response));
    }

    #[test]
    fn any_bytes_are_safe(bytes in almost_http(), head_request: bool, cuts in cuts()) {
        let whole = read_response(&[&bytes], head_request);
        assert_agree(&whole, &read_response(&pieces(&bytes, &cuts), head_request));
        let whole = read_request(&[&bytes]);
        assert_agree(&whole, &read_request(&pieces(&bytes, &cuts)));
    }

    #[test]
    fn random_bytes_are_safe(bytes in payload(), cuts in cuts()) {
        let split = pieces(&bytes, &cuts);
        assert_agree(&read_response(&[&bytes], false), &read_response(&split, false));
        assert_agree(&read_request(&[&bytes]), &read_request(&split));
    }
}
