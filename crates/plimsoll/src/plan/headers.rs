//! Headers that control how a request is sent or how long its connection lives. Each is either obeyed or refused with
//! the text to write instead. All other headers are sent as given.

use plimsoll_model::plan::Pacing;
use plimsoll_model::target::{Protocol, Target, is_method};
use plimsoll_proto::http2::request::is_grpc;

use super::parts::Parts;
use crate::exit::Result;

/// Checks the headers of one request, and its method. A right `Content-Length` that is repeated is sent once.
pub(super) fn check(target: &Target) -> Result<()> {
    refuse_if!(target.method == "CONNECT";
        "method CONNECT asks for a tunnel"; "name another method");
    refuse_if!(target.method == "TRACE" && !target.body.is_empty();
        "a TRACE request has no body"; "drop the body");
    for (name, value) in &target.headers {
        check_header(target, name, value)?;
    }
    let hosts = target.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("host"));
    refuse_if!(hosts.count() > 1; "header Host is given twice"; "give it once");
    Ok(())
}

fn check_header(target: &Target, name: &str, value: &str) -> Result<()> {
    let lower = name.to_ascii_lowercase();
    match (lower.as_str(), target.url.protocol) {
        ("host", _) => check_host(value),
        ("content-length" | "transfer-encoding", _) => check_framing(target, name, value),
        ("expect", _) => refuse!(
            "header {name} waits for 100 Continue, and plimsoll sends bodies at once"; "drop it"),
        ("trailer", _) => refuse!("header {name}: plimsoll sends no trailers"; "drop it"),
        ("keep-alive", _) => refuse!(
            "header {name} announces limits that plimsoll would not keep";
            "drop it; --requests-per-connection N ends connections after N requests"),
        ("proxy-connection", _) => refuse!(
            "header {name} is none of HTTP"; "write Connection: {value}"),
        ("connection" | "upgrade" | "http2-settings", Protocol::Http2) => {
            let closes = value.split(',').any(|token| token.trim().eq_ignore_ascii_case("close"));
            let fix = match closes {
                true => "drop it; --no-keepalive ends each connection after its request",
                false => "drop it",
            };
            refuse!("HTTP/2 has no header {name} (RFC 9113, 8.2.2)"; "{fix}")
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
        ) => refuse!(
            "header {name} is plimsoll's own in the opening of a WebSocket"; "drop it"),
        ("connection", _) => check_connection(name, value),
        ("upgrade" | "http2-settings", _) => refuse_upgrade(name),
        ("te", _) => check_te(target, name, value),
        _ => Ok(()),
    }
}

fn refuse_upgrade(name: &str) -> Result<()> {
    refuse!("header {name} asks for another protocol";
        "write ws:// or wss:// for WebSocket, --http 2 for HTTP/2")
}

/// Checks that a value is a host with or without a port: a server must refuse any other (RFC 9112, 3.2).
fn check_host(value: &str) -> Result<()> {
    let is_host = value.bytes().all(|b| b.is_ascii_graphic() && !b"/?#@,\\\"<>{}|^`".contains(&b));
    refuse_if!(value.is_empty() || !is_host;
        "header Host {value:?} is no host"; "write Host: NAME or Host: NAME:PORT, or drop it");
    Ok(())
}

/// Checks a header that frames the body. A wrong length would desynchronise the connection.
fn check_framing(target: &Target, name: &str, value: &str) -> Result<()> {
    let is_length = name.eq_ignore_ascii_case("content-length");
    match target.url.protocol {
        Protocol::WebSocket => {
            refuse!("header {name}: the opening of a WebSocket has no body"; "drop it")
        }
        _ if is_grpc(target) => {
            refuse!("header {name}: plimsoll frames the messages of gRPC"; "drop it")
        }
        _ if is_length && value == target.body.len().to_string() => {
            refuse_if!(codings(target).next().is_some();
                "headers {name} and Transfer-Encoding exclude each other"; "drop one of them");
        }
        _ if is_length => refuse!(
            "header {name}: {value}, and the body has {} bytes", target.body.len(); "drop it"),
        Protocol::Http2 => refuse!("HTTP/2 has no header {name} (RFC 9113, 8.2.2)"; "drop it"),
        _ => {
            let is_known = value.eq_ignore_ascii_case("chunked") && codings(target).count() == 1;
            refuse_if!(!is_known;
                "header {name}: {value} is a coding that plimsoll does not apply";
                "write Transfer-Encoding: chunked once, or drop it");
        }
    }
    Ok(())
}

fn codings(target: &Target) -> impl Iterator<Item = &str> {
    let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("transfer-encoding");
    target.headers.iter().filter(named).map(|(_, value)| value.as_str())
}

/// Checks the options of a `Connection` header of HTTP/1.1. `close` is obeyed.
fn check_connection(name: &str, value: &str) -> Result<()> {
    let mut options = value.split(',').map(str::trim);
    refuse_if!(!options.clone().all(is_method);
        "header {name}: {value} is no list of options";
        "write Connection: close or Connection: keep-alive, or drop it");
    match options.any(|option| option.eq_ignore_ascii_case("upgrade")) {
        true => refuse_upgrade(name),
        false => Ok(()),
    }
}

fn check_te(target: &Target, name: &str, value: &str) -> Result<()> {
    let mut codings = value.split(',').map(|one| one.split(';').next().unwrap_or_default().trim());
    refuse_if!(codings.any(|coding| coding.eq_ignore_ascii_case("chunked"));
        "header {name} never names chunked (RFC 9112, 7.4)"; "drop it");
    if target.url.protocol == Protocol::Http2 {
        refuse_if!(!value.eq_ignore_ascii_case("trailers");
            "header {name} of HTTP/2 has one value (RFC 9113, 8.2.2)";
            "write te: trailers, or drop it");
        return Ok(());
    }
    let mut options = target.connection_options();
    refuse_if!(!options.any(|option| option.eq_ignore_ascii_case("te"));
        "header {name} is for the next hop alone (RFC 9112, 7.4)";
        "add -H 'Connection: TE', or drop it");
    Ok(())
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
