//! Headers that control how a request is sent or how long its connection lives. Each is either obeyed or refused with
//! the text to write instead. All other headers are sent as given.

use plimsoll_model::plan::Pacing;
use plimsoll_model::target::{Protocol, Target, is_method};
use plimsoll_proto::http2::request::is_grpc;

use super::parts::Parts;
use crate::exit::Result;

/// A problem of a header, and the fix.
pub(super) type Problem = (String, String);

/// Checks the headers of one request, and its method. A right `Content-Length` that is repeated is sent once.
pub(super) fn check(target: &Target) -> Result<(), Problem> {
    if target.method == "CONNECT" {
        return refuse("method CONNECT asks for a tunnel", "name another method");
    }
    if target.method == "TRACE" && !target.body.is_empty() {
        return refuse("a TRACE request has no body", "drop the body");
    }
    for (name, value) in &target.headers {
        check_header(target, name, value)?;
    }
    let hosts = target.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    if hosts.count() > 1 {
        return refuse("header Host is given twice", "give it once");
    }
    Ok(())
}

fn check_header(target: &Target, name: &str, value: &str) -> Result<(), Problem> {
    let lower = name.to_ascii_lowercase();
    match (lower.as_str(), target.url.protocol) {
        ("host", _) => check_host(value),
        ("content-length" | "transfer-encoding", _) => check_framing(target, name, value),
        ("expect", _) => refuse(
            format_args!("header {name} waits for 100 Continue, and plimsoll sends bodies at once"),
            "drop it",
        ),
        ("trailer", _) => {
            refuse(format_args!("header {name}: plimsoll sends no trailers"), "drop it")
        }
        ("keep-alive", _) => refuse(
            format_args!("header {name} announces limits that plimsoll would not keep"),
            "drop it; --requests-per-connection N ends connections after N requests",
        ),
        ("proxy-connection", _) => refuse(
            format_args!("header {name} is none of HTTP"),
            format_args!("write Connection: {value}"),
        ),
        ("connection" | "upgrade" | "http2-settings", Protocol::Http2) => {
            let closes = value.split(',').any(|token| token.trim().eq_ignore_ascii_case("close"));
            let fix = match closes {
                true => "drop it; --no-keepalive ends each connection after its request",
                false => "drop it",
            };
            refuse(format_args!("HTTP/2 has no header {name} (RFC 9113, 8.2.2)"), fix)
        }
        (
            "connection"
            | "upgrade"
            | "te"
            | "sec-websocket-key"
            | "sec-websocket-version"
            | "sec-websocket-accept"
            | "sec-websocket-extensions",
            Protocol::WebSocket,
        ) => refuse(
            format_args!("header {name} is plimsoll's own in the opening of a WebSocket"),
            "drop it",
        ),
        ("connection", _) => check_connection(name, value),
        ("upgrade" | "http2-settings", _) => refuse_upgrade(name),
        ("te", _) => check_te(target, name, value),
        _ => Ok(()),
    }
}

fn refuse<T>(what: impl ToString, fix: impl ToString) -> Result<T, Problem> {
    Err((what.to_string(), fix.to_string()))
}

fn refuse_upgrade(name: &str) -> Result<(), Problem> {
    let fix = "write ws:// or wss:// for WebSocket, --http 2 for HTTP/2";
    refuse(format_args!("header {name} asks for another protocol"), fix)
}

/// Checks that a value is a host with or without a port: a server must refuse any other (RFC 9112, 3.2).
fn check_host(value: &str) -> Result<(), Problem> {
    let is_host = value.bytes().all(|b| b.is_ascii_graphic() && !b"/?#@,\\\"<>{}|^`".contains(&b));
    if value.is_empty() || !is_host {
        let what = format_args!("header Host {value:?} is no host");
        return refuse(what, "write Host: NAME or Host: NAME:PORT, or drop it");
    }
    Ok(())
}

/// Checks a header that frames the body. A wrong length would desynchronise the connection.
fn check_framing(target: &Target, name: &str, value: &str) -> Result<(), Problem> {
    let is_length = name.eq_ignore_ascii_case("content-length");
    match target.url.protocol {
        Protocol::WebSocket => {
            refuse(format_args!("header {name}: the opening of a WebSocket has no body"), "drop it")
        }
        _ if is_grpc(target) => {
            refuse(format_args!("header {name}: plimsoll frames the messages of gRPC"), "drop it")
        }
        _ if is_length && value == target.body.len().to_string() => match has_codings(target) {
            true => refuse(
                format_args!("headers {name} and Transfer-Encoding exclude each other"),
                "drop one of them",
            ),
            false => Ok(()),
        },
        _ if is_length => {
            let what = format_args!(
                "header {name}: {value}, and the body has {} bytes",
                target.body.len()
            );
            refuse(what, "drop it")
        }
        Protocol::Http2 => {
            refuse(format_args!("HTTP/2 has no header {name} (RFC 9113, 8.2.2)"), "drop it")
        }
        _ if value.eq_ignore_ascii_case("chunked") && codings(target).count() == 1 => Ok(()),
        _ => {
            let what =
                format_args!("header {name}: {value} is a coding that plimsoll does not apply");
            refuse(what, "write Transfer-Encoding: chunked once, or drop it")
        }
    }
}

fn codings(target: &Target) -> impl Iterator<Item = &str> {
    let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("transfer-encoding");
    target.headers.iter().filter(named).map(|(_, value)| value.as_str())
}

fn has_codings(target: &Target) -> bool {
    codings(target).next().is_some()
}

/// Checks the options of a `Connection` header of HTTP/1.1. `close` is obeyed.
fn check_connection(name: &str, value: &str) -> Result<(), Problem> {
    let mut options = value.split(',').map(str::trim);
    if !options.clone().all(is_method) {
        let what = format_args!("header {name}: {value} is no list of options");
        return refuse(what, "write Connection: close or Connection: keep-alive, or drop it");
    }
    match options.any(|option| option.eq_ignore_ascii_case("upgrade")) {
        true => refuse_upgrade(name),
        false => Ok(()),
    }
}

fn check_te(target: &Target, name: &str, value: &str) -> Result<(), Problem> {
    let mut codings = value.split(',').map(|one| one.split(';').next().unwrap_or_default().trim());
    if codings.any(|coding| coding.eq_ignore_ascii_case("chunked")) {
        return refuse(
            format_args!("header {name} never names chunked (RFC 9112, 7.4)"),
            "drop it",
        );
    }
    if target.url.protocol == Protocol::Http2 {
        return match value.eq_ignore_ascii_case("trailers") {
            true => Ok(()),
            false => refuse(
                format_args!("header {name} of HTTP/2 has one value (RFC 9113, 8.2.2)"),
                "write te: trailers, or drop it",
            ),
        };
    }
    match target.connection_options().any(|option| option.eq_ignore_ascii_case("te")) {
        true => Ok(()),
        false => refuse(
            format_args!("header {name} is for the next hop alone (RFC 9112, 7.4)"),
            "add -H 'Connection: TE', or drop it",
        ),
    }
}

/// Checks `Connection` headers against what the command does with its connections; returns whether connections
/// carry further requests.
pub(super) fn keepalive(targets: &[Target], parts: &Parts<'_>) -> Result<bool> {
    let pool = parts.pool;
    let is_http1 = |target: &&Target| target.url.protocol == Protocol::Http1;
    let closing =
        targets.iter().filter(is_http1).filter(|target| target.closes_connection()).count();
    let keeps = |target: &Target| {
        let mut options = target.connection_options();
        options.any(|option| option.eq_ignore_ascii_case("keep-alive"))
    };
    refuse_if!(closing > 0 && matches!(parts.pacing, Pacing::Hold(_));
        "header Connection: close ends a connection, and this command holds connections";
        "drop the header");
    refuse_if!(pool.no_keepalive && targets.iter().filter(is_http1).any(keeps);
        "header Connection: keep-alive keeps a connection, and --no-keepalive ends it";
        "drop one of them");
    let do_all_close = closing > 0 && closing == targets.len();
    refuse_if!(do_all_close && pool.requests_per_connection.is_some_and(|requests| requests > 1);
        "header Connection: close ends a connection after one request, --requests-per-connection later";
        "drop one of them");
    Ok(!pool.no_keepalive && !do_all_close)
}
