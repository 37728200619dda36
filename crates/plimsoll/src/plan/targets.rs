//! Targets and their servers: URL or targets, method, headers and body into targets; their servers
//! into destinations.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use plimsoll_model::plan::{Endpoint, ServerName};
use plimsoll_model::settings::ResolvedName;
use plimsoll_model::target::{Body, Target, TargetUrl, UrlError, is_method, vegeta};

use super::bodies::Bodies;
use super::inputs::both_stdin;
use super::{Destination, Inputs, headers, http2, protocol};
use crate::exit::{Result, Stop};
use crate::flags::shared::{RequestFlags, ServerFlags};
use crate::flags::values::{InputFile, Resolved, TargetFormat};

/// Sent unless the user sets one, so that a server's log shows where the load came from.
const USER_AGENT: &str = concat!("plimsoll/", env!("CARGO_PKG_VERSION"));

/// The servers of all targets, without repetition.
pub(super) struct TargetServers {
    /// One per scheme, host and port.
    pub(super) destinations: Vec<Endpoint>,
    /// For each target its server, as an index into `destinations`.
    pub(super) target_destination: Vec<u32>,
    /// Names of which an address did not accept a connection.
    pub(super) refused: Vec<ResolvedName>,
}

/// Returns every request of the load, in turn.
pub(super) fn targets(to: &Destination, inputs: &mut Inputs) -> Result<Vec<Target>> {
    let Destination { usage, server, request: flags, .. } = to;
    if server.targets == Some(InputFile::Stdin) && flags.body == Some(InputFile::Stdin) {
        return Err(both_stdin("--targets", "--body"));
    }
    let mut bodies = Bodies::default();
    let mut targets = match (&server.url, &server.targets) {
        (Some(_), Some(_)) => {
            refuse!("a URL and --targets exclude each other"; "drop one of them")
        }
        (None, None) => refuse!("no URL given"; "for example: {usage} http://127.0.0.1:8080/"),
        (Some(text), None) => {
            refuse_if!(server.format.is_some();
                "--format is the format of --targets, and there is no --targets"; "drop it");
            vec![single(text, flags, &mut bodies, inputs)?]
        }
        (None, Some(from)) => listed(from, server.format, flags, &mut bodies, inputs)?,
    };
    http2::apply(&mut targets, flags, inputs)?;
    protocol::complete(&mut targets, to, &mut bodies, inputs)?;
    let has_headers = |target: &&mut Target| target.url.protocol.has_headers();
    for (index, target) in targets.iter_mut().filter(has_headers).enumerate() {
        add_headers(target, &flags.header.headers);
        headers::check(target).map_err(|stop| match (stop, &server.targets) {
            (Stop::Usage(text), Some(from)) => {
                Stop::Usage(format!("{}, target {}: {text}", name_of(from), index + 1))
            }
            (stop, _) => stop,
        })?;
    }
    bodies.settle(&mut targets)?;
    Ok(targets)
}

fn name_of(from: &InputFile) -> String {
    format!("--targets {from}")
}

fn single(
    text: &str,
    flags: &RequestFlags,
    bodies: &mut Bodies,
    inputs: &mut Inputs,
) -> Result<Target> {
    let url = text.parse().map_err(|error: UrlError| Stop::Usage(error.to_string()))?;
    let body = body(flags, bodies, inputs)?;
    let method = match &flags.method {
        Some(method) if is_method(method) => method.clone(),
        Some(method) => {
            refuse!("--method {method:?} is not an HTTP method"; "write one such as GET or POST");
        }
        None if body.is_some() => "POST".to_owned(),
        None => "GET".to_owned(),
    };
    Ok(Target {
        method,
        url,
        headers: Vec::new(),
        body: body.unwrap_or_default(),
        publish: None,
        script: None,
        websocket: None,
    })
}

/// Returns the body that flags give to every request; `None` when none of them was used.
fn body(flags: &RequestFlags, bodies: &mut Bodies, inputs: &mut Inputs) -> Result<Option<Body>> {
    match (&flags.body, &flags.data) {
        // It is translated as a whole.
        (Some(from), _) if flags.grpc_descriptor.is_some() => {
            inputs.read("--body", from).map(|json| Some(json.into()))
        }
        (Some(from), _) => bodies.named("--body", from, inputs).map(Some),
        (None, Some(text)) => data(text).map(Some),
        (None, None) => Ok(None),
    }
}

/// Returns the text of `--data`. Other programs read a file where it begins with @.
fn data(text: &str) -> Result<Body> {
    match text.strip_prefix('@') {
        Some(file) if !file.is_empty() => refuse!(
            "--data sends its text as it is, and this text begins with @";
            "to send the content of the file write --body {file}; to send such a text give it as \
             standard input with --body -"),
        _ => Ok(text.into()),
    }
}

/// Returns the targets of a file or of standard input; flags give a body to those that have none.
fn listed(
    from: &InputFile,
    format: Option<TargetFormat>,
    flags: &RequestFlags,
    bodies: &mut Bodies,
    inputs: &mut Inputs,
) -> Result<Vec<Target>> {
    let text = inputs.read("--targets", from)?;
    let format = match format {
        None => vegeta::detect(&text),
        Some(TargetFormat::Http) => vegeta::Format::Http,
        Some(TargetFormat::Json) => vegeta::Format::Json,
    };
    let name = name_of(from);
    let mut targets =
        vegeta::parse(format, &name, &text, &[], &mut |path| bodies.file(path.as_ref()))
            .map_err(|error| Stop::Usage(error.to_string()))?;
    if let Some(body) = body(flags, bodies, inputs)? {
        for target in targets.iter_mut().filter(|target| target.body.is_empty()) {
            target.body.clone_from(&body);
        }
    }
    Ok(targets)
}

/// Adds the user's headers that the target does not have, then our User-Agent, unless there is
/// one.
fn add_headers(target: &mut Target, headers: &[(String, String)]) {
    let own: Vec<_> = target.headers.iter().map(|(name, _)| name.to_ascii_lowercase()).collect();
    let missing = headers.iter().filter(|(name, _)| !own.contains(&name.to_ascii_lowercase()));
    target.headers.extend(missing.cloned());
    if !target.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("user-agent")) {
        target.headers.push(("User-Agent".to_owned(), USER_AGENT.to_owned()));
    }
}

/// Resolves the servers of `targets`, as far as `flags` do not name their addresses, or a Unix socket for all of them.
pub(super) fn servers(
    targets: &[Target],
    flags: &ServerFlags,
    inputs: &Inputs,
) -> Result<TargetServers> {
    let is_used = |one: &Resolved| targets.iter().any(|target| is_of(one, &target.url));
    if let Some(Resolved { host, port, .. }) = flags.resolve.iter().find(|one| !is_used(one)) {
        refuse!("--resolve names {host}:{port}, which no URL has";
            "write the host and port of a URL");
    }
    let mut known: HashMap<(bool, &str, u16), u32> = HashMap::new();
    let (mut destinations, mut refused) = (Vec::new(), Vec::new());
    let mut target_destination = Vec::with_capacity(targets.len());
    for Target { url, .. } in targets {
        let key = (url.tls, url.host.as_str(), url.port);
        let index = match known.get(&key) {
            Some(index) => *index,
            None => {
                let index = u32::try_from(destinations.len())
                    .map_err(|_| Stop::usage("too many servers", "give fewer targets"))?;
                destinations.push(destination(url, flags, &mut refused, inputs)?);
                known.insert(key, index);
                index
            }
        };
        target_destination.push(index);
    }
    Ok(TargetServers { destinations, target_destination, refused })
}

/// Reports whether `resolved` names the server of `url`.
fn is_of(resolved: &Resolved, url: &TargetUrl) -> bool {
    resolved.host.eq_ignore_ascii_case(&url.host) && resolved.port == url.port
}

/// Returns the server of a URL.
fn destination(
    url: &TargetUrl,
    flags: &ServerFlags,
    refused: &mut Vec<ResolvedName>,
    inputs: &Inputs,
) -> Result<Endpoint> {
    let TargetUrl { host, port, .. } = url;
    let given = flags.resolve.iter().filter(|one| is_of(one, url));
    let mut addresses: Vec<_> = given.flat_map(|one| one.addresses.iter().copied()).collect();
    // A placeholder, so that no name is resolved: --resolve excludes a socket.
    if flags.unix_socket.is_some() {
        addresses.push((Ipv4Addr::LOCALHOST, *port).into());
    }
    if addresses.is_empty() {
        let found = inputs.addresses(host, *port)?;
        addresses.clone_from(&found.kept);
        if !found.refused.is_empty() {
            refused.push(found);
        }
    }
    let name =
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let sni = flags.trust.sni.as_deref().unwrap_or_else(|| url.host_without_zone());
    Ok(Endpoint { name, addresses, tls: url.tls.then(|| ServerName(sni.to_owned())) })
}

/// Returns the name of the targets in reports.
pub(super) fn name(targets: &[Target]) -> String {
    match targets {
        [] => String::new(),
        [only] => only.url.to_string(),
        [first, rest @ ..] => format!("{} and {} more", first.url, rest.len()),
    }
}
