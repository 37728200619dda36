//! HTTP/2 and gRPC: which targets speak it, and how their connections are shared.

use plimsoll_model::plan::Http2Plan;
use plimsoll_model::target::{Protocol, Target};

use super::{Inputs, grpc};
use crate::exit::Result;
use crate::flags::shared::RequestFlags;
use crate::flags::values::HttpFlag;

/// Requests at once on a connection without `--streams`.
const STREAMS_DEFAULT: u32 = 10;
/// Connections in the pool without `--connections`: they carry the load of 100 connections of HTTP/1.1.
pub(super) const CONNECTIONS_DEFAULT: u64 = 10;

/// Reports whether the flags ask for HTTP/2.
pub(super) fn is_asked(flags: &RequestFlags) -> bool {
    flags.grpc.is_some() || flags.header.http == Some(HttpFlag::Http2)
}

/// Makes the targets ones of HTTP/2 where the flags ask for it.
pub(super) fn apply(
    targets: &mut [Target],
    flags: &RequestFlags,
    inputs: &mut Inputs,
) -> Result<()> {
    if !is_asked(flags) {
        refuse_if!(flags.header.streams.is_some();
            "--streams is for HTTP/2"; "add --http 2, or drop it");
        return Ok(());
    }
    refuse_if!(flags.grpc.is_some() && flags.header.http == Some(HttpFlag::Http1);
        "gRPC needs HTTP/2, and --http says 1.1"; "drop one of them");
    for target in &mut *targets {
        refuse_if!(target.url.protocol != Protocol::Http1;
            "{} is not a URL of HTTP", target.url;
            "write http:// or https://, or drop --http and --grpc");
        target.url.protocol = Protocol::Http2;
    }
    match &flags.grpc {
        Some(method) => call(targets, method, flags, inputs),
        None => Ok(()),
    }
}

/// Makes the target a call of a gRPC method; its body is the message.
fn call(
    targets: &mut [Target],
    method: &str,
    flags: &RequestFlags,
    inputs: &mut Inputs,
) -> Result<()> {
    let [target] = targets else {
        refuse!("a list of targets and --grpc exclude each other"; "give one URL");
    };
    refuse_if!(flags.method.is_some(); "a call of gRPC is a POST"; "drop --method");
    let path = method.trim_start_matches('/');
    let is_name = |name: &str| {
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"_.".contains(&byte);
        !name.is_empty() && name.bytes().all(is_part)
    };
    let is_method = path.split_once('/').is_some_and(|(s, m)| is_name(s) && is_name(m));
    refuse_if!(!is_method;
        "--grpc {method:.80?} is not a method";
        "write package.Service/Method, such as grpc.health.v1.Health/Check");
    refuse_if!(target.url.path != "/";
        "the URL {} has a path, and --grpc names another", target.url;
        "give the URL without a path");
    "POST".clone_into(&mut target.method);
    target.url.path = format!("/{path}");
    if let Some(from) = &flags.grpc_descriptor {
        let descriptors = inputs.read("--grpc-descriptor", from)?;
        target.body = grpc::message(&descriptors, path, &target.body)?.into();
    }
    let is_typed = |(name, _): &(String, String)| name.eq_ignore_ascii_case("content-type");
    if !flags.header.headers.iter().any(is_typed) {
        target.headers.push(("content-type".to_owned(), "application/grpc".to_owned()));
    }
    Ok(())
}

/// Returns the sharing of connections; `None` if HTTP/2 is not spoken.
pub(super) fn plan(flags: &RequestFlags) -> Option<Http2Plan> {
    let streams = flags.header.streams.unwrap_or(STREAMS_DEFAULT);
    is_asked(flags).then_some(Http2Plan { streams })
}
