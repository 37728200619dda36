//! Encoding of HTTP/1.1 for both halves; the input was checked before.
//!
//! [`request`] encodes the request of a target once, so that the same bytes can be sent for every operation; a large
//! body is sent separately between the two parts that [`request_frame`] returns. A server writes [`response_head`],
//! then plain bytes or [`chunk`] and [`last_chunk`]. Only `Content-Length`, `Connection` and missing defaults are
//! added; all other headers go out unchanged. Start reading at [`request_frame`].

use std::io::Write;

use plimsoll_model::target::Target;

/// Sent unless the target names another.
pub(crate) const USER_AGENT: &str = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));

/// The end of a response's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLength {
    /// The body has this many bytes.
    Fixed(u64),
    /// Chunks follow, then [`last_chunk`].
    Chunked,
}

/// Encodes one whole request, ready to be sent again and again.
///
/// The target's headers go out as they are, with these exceptions: `Content-Length` is written once, with
/// the length of the body; a target with `Transfer-Encoding: chunked` gets its body as one chunk; without
/// `keepalive`, `Connection: close` is added.
pub fn request(target: &Target, keepalive: bool) -> Vec<u8> {
    let (mut out, tail) = request_frame(target, keepalive);
    out.extend_from_slice(&target.body);
    out.extend_from_slice(tail);
    out
}

/// Returns the bytes of [`request`] before the target's body, and those behind it.
pub fn request_frame(target: &Target, keepalive: bool) -> (Vec<u8>, &'static [u8]) {
    let given = |name: &str| target.headers.iter().any(|(n, _)| n.eq_ignore_ascii_case(name));
    let chunked = given("transfer-encoding");
    let has_length = matches!(target.method.as_str(), "POST" | "PUT" | "PATCH")
        || !target.body.is_empty()
        || given("content-length");

    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(target.method.as_bytes());
    out.push(b' ');
    out.extend_from_slice(target.url.path.as_bytes());
    out.extend_from_slice(b" HTTP/1.1\r\n");
    if !given("host") {
        field(&mut out, "Host", &target.url.authority());
    }
    for (name, value) in &target.headers {
        if !name.eq_ignore_ascii_case("content-length") {
            field(&mut out, name, value);
        }
    }
    if !given("user-agent") {
        field(&mut out, "User-Agent", USER_AGENT);
    }
    if !given("accept") {
        field(&mut out, "Accept", "*/*");
    }
    if !keepalive && !target.closes_connection() {
        field(&mut out, "Connection", "close");
    }
    if !chunked && has_length {
        field(&mut out, "Content-Length", &target.body.len().to_string());
    }
    out.extend_from_slice(b"\r\n");
    match (chunked, target.body.len()) {
        (false, _) => (out, b""),
        (true, 0) => (out, LAST_CHUNK),
        (true, bytes) => {
            append(&mut out, format_args!("{bytes:x}\r\n"));
            (out, b"\r\n0\r\n\r\n")
        }
    }
}

/// Appends a response's head. 1xx, 204 and 304 get no length, since they have no body.
///
/// `Connection` is always sent: HTTP/1.0 clients that ask for keep-alive need it.
pub fn response_head(out: &mut Vec<u8>, status: u16, length: BodyLength, keep_alive: bool) {
    let reason = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason())
        .unwrap_or_default();
    append(out, format_args!("HTTP/1.1 {status} {reason}\r\n"));
    let bodiless = status < 200 || status == 204 || status == 304;
    match length {
        _ if bodiless => {}
        BodyLength::Fixed(bytes) => append(out, format_args!("Content-Length: {bytes}\r\n")),
        BodyLength::Chunked => out.extend_from_slice(b"Transfer-Encoding: chunked\r\n"),
    }
    out.extend_from_slice(if keep_alive {
        b"Connection: keep-alive\r\n\r\n"
    } else {
        b"Connection: close\r\n\r\n"
    });
}

/// Appends one chunk; nothing for an empty payload, which would end the body.
pub fn chunk(out: &mut Vec<u8>, payload: &[u8]) {
    if payload.is_empty() {
        return;
    }
    append(out, format_args!("{:x}\r\n", payload.len()));
    out.extend_from_slice(payload);
    out.extend_from_slice(b"\r\n");
}

/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Appends the end of a chunked body.
pub fn last_chunk(out: &mut Vec<u8>) {
    out.extend_from_slice(LAST_CHUNK);
}

/// Appends the interim response that lets a client send its body.
pub fn continue_100(out: &mut Vec<u8>) {
    out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
}

fn field(out: &mut Vec<u8>, name: &str, value: &str) {
    append(out, format_args!("{name}: {value}\r\n"));
}

fn append(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    // Writing to a Vec cannot fail.
    let _ = out.write_fmt(text);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(method: &str, headers: &[(&str, &str)], body: &str) -> Target {
        Target {
            method: method.to_owned(),
            url: "http://[::1]:8080/p?q=1".parse().expect("a URL"),
            headers: headers.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
            body: body.into(),
            publish: None,
            script: None,
            websocket: None,
        }
    }

    #[track_caller]
    fn assert_request(target: &Target, keepalive: bool, head: &str, body: &str) {
        let text = String::from_utf8(request(target, keepalive)).expect("ASCII");
        let agent = format!("User-Agent: {USER_AGENT}");
        let text = text.replace(&agent, "AGENT").replace("\r\n", "|");
        assert_eq!(text, format!("{head}||{body}"));
    }

    #[test]
    fn requests() {
        assert_request(
            &target("GET", &[], ""),
            true,
            "GET /p?q=1 HTTP/1.1|Host: [::1]:8080|AGENT|Accept: */*",
            "",
        );
        assert_request(
            &target("POST", &[], ""),
            false,
            "POST /p?q=1 HTTP/1.1|Host: [::1]:8080|AGENT|Accept: */*|Connection: close|\
             Content-Length: 0",
            "",
        );
        let own = [("host", "h"), ("user-AGENT", "me"), ("accept", "x"), ("content-length", "99")];
        assert_request(
            &target("DELETE", &own, "abc"),
            true,
            "DELETE /p?q=1 HTTP/1.1|host: h|user-AGENT: me|accept: x|Content-Length: 3",
            "abc",
        );
        assert_request(
            &target("GET", &[("Content-Length", "0"), ("content-length", "0")], ""),
            true,
            "GET /p?q=1 HTTP/1.1|Host: [::1]:8080|AGENT|Accept: */*|Content-Length: 0",
            "",
        );
        assert_request(
            &target("PUT", &[("Transfer-Encoding", "chunked"), ("Connection", "x, Close")], "abc"),
            false,
            "PUT /p?q=1 HTTP/1.1|Host: [::1]:8080|Transfer-Encoding: chunked|\
             Connection: x, Close|AGENT|Accept: */*",
            "3|abc|0||",
        );
    }

    #[test]
    fn response_heads() {
        for (status, length, keep_alive, text) in [
            (200, BodyLength::Fixed(4), true, "200 OK|Content-Length: 4|Connection: keep-alive||"),
            (
                200,
                BodyLength::Chunked,
                false,
                "200 OK|Transfer-Encoding: chunked|Connection: close||",
            ),
            (
                431,
                BodyLength::Fixed(0),
                false,
                "431 Request Header Fields Too Large|Content-Length: 0|Connection: close||",
            ),
            (204, BodyLength::Fixed(0), true, "204 No Content|Connection: keep-alive||"),
            (599, BodyLength::Fixed(0), true, "599 |Content-Length: 0|Connection: keep-alive||"),
        ] {
            let mut out = Vec::new();
            response_head(&mut out, status, length, keep_alive);
            let out = String::from_utf8(out).expect("ASCII").replace("\r\n", "|");
            assert_eq!(out, format!("HTTP/1.1 {text}"));
        }
    }

    #[test]
    fn an_empty_chunk_does_not_end_the_body() {
        let mut out = Vec::new();
        chunk(&mut out, b"");
        assert!(out.is_empty());
        chunk(&mut out, &[b'x'; 26]);
        assert!(out.starts_with(b"1a\r\nxxx"));
    }
}
