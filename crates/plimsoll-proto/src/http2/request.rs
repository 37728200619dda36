//! The request of a client's stream: a header block that is encoded once for each target, and the gRPC prefix.
//!
//! [`write_request_block`] writes the pseudo-fields first, then the target's headers in lower case and the defaults
//! that are missing. Fields that concern framing (`host`, `content-length`) come from the target itself, once. The
//! content type alone decides if a call is gRPC ([`is_grpc`]); such a call has no `content-length`. Start reading at
//! [`write_request_block`].

use plimsoll_model::target::Target;

use super::hpack::{Decoder, write_field};
use crate::http1::encode::USER_AGENT;

/// Content type of gRPC, with or without the name of its encoding behind it.
const GRPC: &str = "application/grpc";

/// Appends the header block of the target's request.
///
/// Headers go out as they are, names in lower case. `:authority` replaces `host`, and `content-length` is written
/// once, with the length of the body.
pub fn write_request_block(out: &mut Vec<u8>, target: &Target) {
    let given = |name: &str| {
        target.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| v)
    };
    let scheme = if target.url.tls { "https" } else { "http" };
    let authority = target.url.authority();
    write_field(out, ":method", &target.method);
    write_field(out, ":scheme", scheme);
    write_field(out, ":authority", given("host").unwrap_or(&authority));
    write_field(out, ":path", &target.url.path);
    if is_grpc(target) && given("te").is_none() {
        write_field(out, "te", "trailers");
    }
    for (name, value) in &target.headers {
        let name = name.to_ascii_lowercase();
        if !matches!(name.as_str(), "host" | "content-length") {
            write_field(out, &name, value);
        }
    }
    if given("user-agent").is_none() {
        write_field(out, "user-agent", USER_AGENT);
    }
    if given("accept").is_none() && !is_grpc(target) {
        write_field(out, "accept", "*/*");
    }
    let has_length = matches!(target.method.as_str(), "POST" | "PUT" | "PATCH")
        || !target.body.is_empty()
        || given("content-length").is_some();
    if !is_grpc(target) && has_length {
        write_field(out, "content-length", &target.body.len().to_string());
    }
}

/// Returns the size of the fields in a block of ours, as SETTINGS_MAX_HEADER_LIST_SIZE counts it (RFC 9113, 6.5.2).
pub fn header_bytes(block: &[u8]) -> u64 {
    let mut bytes = 0;
    let mut add = |name: &[u8], value: &[u8]| bytes += (name.len() + value.len() + 32) as u64;
    // Ours is valid.
    let _ = Decoder::default().decode(block, &mut Vec::new(), &mut add);
    bytes
}

/// Reports whether the target is a call of gRPC, by its content type: its answer is judged by `grpc-status`.
pub fn is_grpc(target: &Target) -> bool {
    target.headers.iter().any(|(name, value)| {
        name.eq_ignore_ascii_case("content-type") && is_grpc_type(value.as_bytes())
    })
}

/// Reports whether `content_type` is a gRPC type.
pub fn is_grpc_type(content_type: &[u8]) -> bool {
    content_type
        .strip_prefix(GRPC.as_bytes())
        .is_some_and(|rest| rest.first().is_none_or(|next| matches!(next, b'+' | b';')))
}

/// Returns the prefix that gRPC has before a message: that it is not compressed, and its length.
pub fn grpc_prefix(message_bytes: usize) -> [u8; 5] {
    let [a, b, c, d] = u32::try_from(message_bytes).unwrap_or(u32::MAX).to_be_bytes();
    [0, a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(target: &Target) -> String {
        let mut block = Vec::new();
        write_request_block(&mut block, target);
        let mut lines = Vec::new();
        Decoder::default()
            .decode(&block, &mut Vec::new(), &mut |name, value| {
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                lines.push(format!("{}: {}", text(name), text(value)));
            })
            .expect("our own block");
        lines.join("|").replace(USER_AGENT, "AGENT")
    }

    fn target(method: &str, headers: &[(&str, &str)], body: &str) -> Target {
        Target {
            method: method.to_owned(),
            url: "https://h:8443/p?q=1".parse().expect("a URL"),
            headers: headers.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect(),
            body: body.into(),
            publish: None,
            script: None,
            websocket: None,
        }
    }

    #[test]
    fn blocks() {
        let start =
            |method| format!(":method: {method}|:scheme: https|:authority: h:8443|:path: /p?q=1");
        assert_eq!(
            lines(&target("GET", &[("Sleep", "5"), ("TE", "trailers")], "")),
            format!("{}|sleep: 5|te: trailers|user-agent: AGENT|accept: */*", start("GET"))
        );
        assert_eq!(
            lines(&target("PUT", &[("Accept", "x"), ("Content-Length", "3")], "abc")),
            format!("{}|accept: x|user-agent: AGENT|content-length: 3", start("PUT"))
        );
        assert_eq!(
            lines(&target("GET", &[("Host", "other")], "")),
            ":method: GET|:scheme: https|:authority: other|:path: /p?q=1|user-agent: AGENT|\
             accept: */*"
        );
        let grpc = ("Content-Type", "application/grpc");
        for headers in [&[grpc][..], &[("te", "trailers"), grpc]] {
            assert_eq!(
                lines(&target("POST", headers, "")),
                format!(
                    "{}|te: trailers|content-type: application/grpc|user-agent: AGENT",
                    start("POST")
                )
            );
        }
    }

    #[test]
    fn fields_are_counted_as_the_setting_counts_them() {
        let mut block = Vec::new();
        write_field(&mut block, ":method", "GET");
        write_field(&mut block, "x-id", "12345");
        assert_eq!(header_bytes(&block), (7 + 3 + 32) + (4 + 5 + 32));
    }

    #[test]
    fn types_of_grpc() {
        for (value, is) in [
            ("application/grpc", true),
            ("application/grpc+proto", true),
            ("application/grpc;x=y", true),
            ("application/grpc-web", false),
            ("text/plain", false),
        ] {
            assert_eq!(is_grpc_type(value.as_bytes()), is, "{value}");
        }
        assert_eq!(grpc_prefix(0x102), [0, 0, 0, 1, 2]);
    }
}
