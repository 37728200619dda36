//! URLs: scheme, host, port, and the path and query as they are sent.
//!
//! A path is sent as its grammar has it (RFC 3986): bytes above 0x7F and characters that no URL may
//! contain are percent-encoded, as browsers do. Whitespace and control characters are refused, because
//! they are more often a mistake of quoting than a part of the URL. Hosts are ASCII.
//!
//! A URL is shown without what may be a credential: user and password, the query, and the parameters of path segments
//! (`;session=…`). Path segments stay, because reports distinguish requests by them. `Display` and [`shown`] give this
//! form; [`TargetUrl::path`] is what is sent.

use std::fmt::{self, Write as _};
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::Protocol;
use crate::framed::framed;
use crate::secret::REDACTED;

/// A scheme of URLs.
struct Scheme {
    name: &'static str,
    protocol: Protocol,
    tls: bool,
    /// The port of a URL that names none; 0 if a URL must name it.
    port: u16,
}

const SCHEMES: [Scheme; 8] = [
    Scheme { name: "http", protocol: Protocol::Http1, tls: false, port: 80 },
    Scheme { name: "https", protocol: Protocol::Http1, tls: true, port: 443 },
    Scheme { name: "ws", protocol: Protocol::WebSocket, tls: false, port: 80 },
    Scheme { name: "wss", protocol: Protocol::WebSocket, tls: true, port: 443 },
    Scheme { name: "mqtt", protocol: Protocol::Mqtt, tls: false, port: 1883 },
    Scheme { name: "mqtts", protocol: Protocol::Mqtt, tls: true, port: 8883 },
    Scheme { name: "tcp", protocol: Protocol::Script, tls: false, port: 0 },
    Scheme { name: "tls", protocol: Protocol::Script, tls: true, port: 0 },
];

/// The schemes, for an error.
const SCHEMES_TEXT: &str = "http://, https://, ws://, wss://, mqtt://, mqtts://, tcp:// or tls://";
/// Longest host of DNS, and so the longest that is converted.
const HOST_BYTES_MAX: usize = 255;
/// The fix for a URL whose error has no more exact one.
const EXAMPLE: &str = "write it like https://host:8443/path";

/// An absolute URL of one of the schemes `http`, `https`, `ws`, `wss`, `mqtt`, `mqtts`, `tcp` and `tls`,
/// parsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct TargetUrl {
    /// The protocol.
    pub protocol: Protocol,
    /// `true` if the protocol runs over TLS.
    pub tls: bool,
    /// Host name or address, without brackets; an IPv6 address may have a zone, as in `fe80::1%eth0`.
    pub host: String,
    /// The port; the scheme's when the URL names none.
    pub port: u16,
    /// Path and query as sent; starts with `/`.
    pub path: String,
}

framed!(TargetUrl);

/// Why a URL was refused, and the fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("URL {url:?} {what}; {fix}")]
pub struct UrlError {
    /// The URL as it may be shown.
    url: String,
    what: String,
    fix: String,
}

impl Protocol {
    /// Returns the scheme of the protocol's URLs, with or without TLS.
    pub fn scheme(self, tls: bool) -> &'static str {
        scheme(self, tls).name
    }
}

fn scheme(protocol: Protocol, tls: bool) -> &'static Scheme {
    // Both versions of HTTP have the same schemes.
    let protocol = if protocol == Protocol::Http2 { Protocol::Http1 } else { protocol };
    let is_ours = |scheme: &&Scheme| (scheme.protocol, scheme.tls) == (protocol, tls);
    SCHEMES.iter().find(is_ours).unwrap_or(&SCHEMES[0])
}

impl TargetUrl {
    fn scheme(&self) -> &'static Scheme {
        scheme(self.protocol, self.tls)
    }

    /// Returns the host for `Host` headers and certificates. A zone has a meaning on this host alone and is
    /// never sent (RFC 6874, 4).
    pub fn host_without_zone(&self) -> &str {
        self.host.split('%').next().unwrap_or_default()
    }

    /// Returns the value of a `Host` header: no default port, IPv6 in brackets.
    pub fn authority(&self) -> String {
        self.authority_of(self.host_without_zone())
    }

    fn authority_of(&self, host: &str) -> String {
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        if self.port == self.scheme().port { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.host.replace('%', "%25");
        write!(f, "{}://{}", self.scheme().name, self.authority_of(&host))?;
        // A protocol without paths is written without one.
        if self.protocol.has_headers() { write_path(&self.path, f) } else { Ok(()) }
    }
}

/// Writes a path, and what follows it, as it may be shown.
fn write_path(text: &str, f: &mut impl fmt::Write) -> fmt::Result {
    let end = text.find(['?', '#']).unwrap_or(text.len());
    let (path, after) = text.split_at(end);
    for (at, segment) in path.split('/').enumerate() {
        if at > 0 {
            f.write_char('/')?;
        }
        match segment.split_once(';') {
            Some((name, _)) => write!(f, "{name};{REDACTED}")?,
            None => f.write_str(segment)?,
        }
    }
    let mut after = after.chars();
    match (after.next(), after.as_str().is_empty()) {
        (Some(mark), false) => write!(f, "{mark}{REDACTED}"),
        (Some(mark), true) => f.write_char(mark),
        (None, _) => Ok(()),
    }
}

/// Returns a text that is, or was meant to be, a URL as it may be shown. Where it has a `@`, all before the last one is
/// taken for a user and a password, since a password that is not encoded may contain `/` and `?`.
pub fn shown(text: &str) -> String {
    let (scheme, rest) = text.split_at(text.find("://").map_or(0, |at| at + 3));
    let host = rest.rsplit_once('@').map(|(_, host)| host);
    let user = if host.is_some() { format!("{REDACTED}@") } else { String::new() };
    let mut out = format!("{scheme}{user}");
    // Writing to a String cannot fail.
    let _ = write_path(host.unwrap_or(rest), &mut out);
    out
}

/// A problem of one URL: what is wrong, and the fix.
type Problem = (String, String);

fn malformed(why: impl fmt::Display) -> Problem {
    (format!("is malformed: {why}"), EXAMPLE.to_owned())
}

impl FromStr for TargetUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        parse(text).map_err(|(what, fix)| UrlError { url: shown(text), what, fix })
    }
}

fn parse(text: &str) -> Result<TargetUrl, Problem> {
    let split = text.split_once("://");
    let named = split.and_then(|(name, rest)| Some((scheme_named(name)?, rest)));
    let (scheme, rest) = named.ok_or_else(|| without_scheme(text))?;
    let (authority, after) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if authority.contains('@') {
        return Err(malformed(match scheme.protocol {
            Protocol::Mqtt | Protocol::Script => {
                "it must not hold a user and a password, which archives keep"
            }
            Protocol::Http1 | Protocol::Http2 | Protocol::WebSocket => {
                "user and password belong in --header 'Authorization: …'"
            }
        }));
    }
    let (host, port) = host_and_port(authority)?;
    let port = match port {
        "" if scheme.port == 0 => return Err(malformed("no port")),
        "" => scheme.port,
        digits => match digits.parse::<u16>() {
            Ok(port) if port > 0 && digits.bytes().all(|byte| byte.is_ascii_digit()) => port,
            _ => return Err(malformed("the port must be 1 to 65535")),
        },
    };
    match scheme.protocol {
        Protocol::Http1 | Protocol::Http2 | Protocol::WebSocket => {}
        _ if matches!(after, "" | "/") => {}
        Protocol::Mqtt => return Err(malformed("MQTT has no paths; give the topic with --topic")),
        Protocol::Script => return Err(malformed("TCP has no paths")),
    }
    let path = encoded_path(after)?;
    Ok(TargetUrl { protocol: scheme.protocol, tls: scheme.tls, host, port, path })
}

fn scheme_named(name: &str) -> Option<&'static Scheme> {
    SCHEMES.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name))
}

/// Describes a text that does not begin with a scheme and `://`. The fix names only URLs that are accepted.
fn without_scheme(text: &str) -> Problem {
    let is_url = |text: &str| parse(text).is_ok() && !text.contains(char::is_control);
    let (name, rest) = text.split_once(':').unwrap_or((text, ""));
    let lower = name.to_ascii_lowercase();
    if lower == "unix" || lower.ends_with("+unix") || text.starts_with("unix@") {
        return (
            "names a Unix socket, and not what is requested there".to_owned(),
            "write http://localhost/ and name the socket with --unix-socket PATH".to_owned(),
        );
    }
    if let Some(scheme) = scheme_named(name) {
        let slashed = format!("{}://{}", scheme.name, rest.trim_start_matches(['/', '\\']));
        if is_url(&slashed) {
            return (
                "has no // behind its scheme".to_owned(),
                format!("write {}", shown(&slashed)),
            );
        }
    }
    if text.contains("://") {
        return (
            "has a scheme that is not spoken".to_owned(),
            format!("write one that starts with {SCHEMES_TEXT}"),
        );
    }
    if text.starts_with('/') && is_url(&format!("http://host{text}")) {
        let fix = format!("write it with its server, like http://127.0.0.1:8080{}", shown(text));
        return ("has no scheme and no host".to_owned(), fix);
    }
    let host = match text.parse::<Ipv6Addr>() {
        Ok(address) => format!("[{address}]"),
        Err(_) => text.to_owned(),
    };
    let is_accepted = is_url(&format!("http://{host}"));
    let host = shown(&host);
    let fix = match is_accepted {
        true => format!("write http://{host} or https://{host}"),
        false => EXAMPLE.to_owned(),
    };
    ("has no scheme".to_owned(), fix)
}

/// Splits an authority into a host without brackets and a port, which may be missing.
fn host_and_port(authority: &str) -> Result<(String, &str), Problem> {
    let Some(bracketed) = authority.strip_prefix('[') else {
        if authority.parse::<Ipv6Addr>().is_ok() {
            let what = "is malformed: an IPv6 address is written in brackets".to_owned();
            return Err((what, format!("write [{authority}]")));
        }
        let (host, port) = authority.split_once(':').unwrap_or((authority, ""));
        check_name(host)?;
        return Ok((host.to_owned(), port));
    };
    let (inside, after) =
        bracketed.split_once(']').ok_or_else(|| malformed("a bracket is not closed"))?;
    let port = match after.strip_prefix(':') {
        Some(port) => port,
        None if after.is_empty() => "",
        None => return Err(malformed("only a port may follow the brackets")),
    };
    let (address, zone) = match inside.split_once('%') {
        None => (inside, None),
        // RFC 6874 writes the percent sign itself percent-encoded; people and other tools do not.
        Some((address, zone)) => {
            (address, Some(zone.strip_prefix("25").filter(|rest| !rest.is_empty()).unwrap_or(zone)))
        }
    };
    let parsed = address.parse::<Ipv6Addr>();
    let parsed =
        parsed.map_err(|_| malformed(format_args!("[{inside}] is not an IPv6 address")))?;
    let Some(zone) = zone else {
        if parsed.is_unicast_link_local() {
            let what = format!("is malformed: [{address}] is link-local and needs an interface");
            return Err((what, format!("write it like http://[{address}%25eth0]/")));
        }
        return Ok((address.to_owned(), port));
    };
    let is_zone = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~@".contains(&byte);
    if zone.is_empty() || !zone.bytes().all(is_zone) {
        let what = format!("is malformed: {zone:?} is not the name of an interface");
        return Err((what, "write it like http://[fe80::1%25eth0]:8080/".to_owned()));
    }
    Ok((format!("{address}%{zone}"), port))
}

/// Checks a host name or an IPv4 address.
fn check_name(host: &str) -> Result<(), Problem> {
    if host.is_empty() {
        return Err(malformed("no host"));
    }
    let is_part = |c: &char| c.is_ascii_alphanumeric() || "-._~".contains(*c);
    match host.chars().find(|c| !is_part(c)) {
        None => Ok(()),
        Some(c) if c.is_ascii() => Err(malformed(format_args!("its host has the character {c:?}"))),
        Some(c) => Err((
            format!("is malformed: its host has the character {c:?}"),
            match ascii_form(host) {
                Some(ascii) => format!("write the host as {ascii}"),
                None => "write the ASCII form of the host, which begins with xn--".to_owned(),
            },
        )),
    }
}

/// Returns the ASCII form of a host, for advice. Letters are not normalised as IDNA asks; `None` if that could matter.
fn ascii_form(host: &str) -> Option<String> {
    let is_plain =
        |c: char| !c.is_control() && !c.is_whitespace() && !('\u{300}'..='\u{36f}').contains(&c);
    if host.len() > HOST_BYTES_MAX || !host.chars().all(is_plain) {
        return None;
    }
    let labels: Vec<_> = host.to_lowercase().split('.').map(ascii_label).collect();
    let ascii = labels.join(".");
    check_name(&ascii).is_ok().then_some(ascii)
}

/// Encodes a label by Punycode (RFC 3492, 6.3) if it is not ASCII.
fn ascii_label(label: &str) -> String {
    if label.is_ascii() {
        return label.to_owned();
    }
    let points: Vec<u64> = label.chars().map(u64::from).collect();
    let basic: String = label.chars().filter(char::is_ascii).collect();
    let mut out = format!("xn--{basic}{}", if basic.is_empty() { "" } else { "-" });
    let (mut next, mut delta, mut bias, mut handled) = (0x80, 0, 72, basic.len() as u64);
    while let Some(least) = points.iter().copied().filter(|point| *point >= next).min() {
        delta += (least - next) * (handled + 1);
        next = least;
        for point in &points {
            delta += u64::from(*point < next);
            if *point == next {
                push_delta(&mut out, delta, bias);
                bias = adapted(delta, handled + 1, handled == basic.len() as u64);
                (delta, handled) = (0, handled + 1);
            }
        }
        (delta, next) = (delta + 1, next + 1);
    }
    out
}

/// Appends a number of variable length.
fn push_delta(out: &mut String, delta: u64, bias: u64) {
    let digit =
        |value: u64| char::from(b"abcdefghijklmnopqrstuvwxyz0123456789"[value as usize % 36]);
    let (mut rest, mut weight) = (delta, 36);
    loop {
        let threshold = weight.max(bias).saturating_sub(bias).clamp(1, 26);
        if rest < threshold {
            break out.push(digit(rest));
        }
        out.push(digit(threshold + (rest - threshold) % (36 - threshold)));
        rest = (rest - threshold) / (36 - threshold);
        weight += 36;
    }
}

fn adapted(delta: u64, points: u64, is_first: bool) -> u64 {
    let mut delta = delta / if is_first { 700 } else { 2 };
    delta += delta / points;
    let mut bias = 0;
    while delta > 455 {
        delta /= 35;
        bias += 36;
    }
    bias + 36 * delta / (delta + 38)
}

/// Encodes the path and query as they are sent. A fragment is not (RFC 9110, 7.1).
fn encoded_path(after: &str) -> Result<String, Problem> {
    let sent = after.split('#').next().unwrap_or_default();
    let mut path = String::with_capacity(sent.len() + 1);
    if !sent.starts_with('/') {
        path.push('/');
    }
    for (at, c) in sent.char_indices() {
        match c {
            ' ' => return Err(("is malformed: it has a space".to_owned(), "write %20".to_owned())),
            c if c.is_ascii_control() => {
                return Err((
                    format!("is malformed: it has the control character {c:?}"),
                    format!("write %{:02X}", u32::from(c)),
                ));
            }
            '%' if !is_escape(sent.get(at + 1..).unwrap_or_default()) => {
                return Err((
                    "is malformed: it has a % that two hexadecimal digits do not follow".to_owned(),
                    "write %25 for the % itself".to_owned(),
                ));
            }
            '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}' => push_encoded(&mut path, c),
            c if !c.is_ascii() => push_encoded(&mut path, c),
            c => path.push(c),
        }
    }
    Ok(path)
}

/// Decodes `%41` to `A`; what is not two hexadecimal digits stays.
pub(crate) fn percent_decoded(mut text: &[u8]) -> Vec<u8> {
    let mut decoded = Vec::with_capacity(text.len());
    let hex = |digit: u8| char::from(digit).to_digit(16);
    while let Some((first, rest)) = text.split_first() {
        let digits = rest.first_chunk::<2>().filter(|_| *first == b'%');
        let byte = digits.and_then(|[high, low]| Some((hex(*high)? << 4 | hex(*low)?) as u8));
        decoded.push(byte.unwrap_or(*first));
        text = if byte.is_some() { &rest[2..] } else { rest };
    }
    decoded
}

fn is_escape(after_percent: &str) -> bool {
    after_percent
        .as_bytes()
        .first_chunk::<2>()
        .is_some_and(|two| two.iter().all(u8::is_ascii_hexdigit))
}

/// Appends the UTF-8 bytes of `c`, percent-encoded.
fn push_encoded(path: &mut String, c: char) {
    for byte in c.encode_utf8(&mut [0; 4]).bytes() {
        // Writing to a String cannot fail.
        let _ = write!(path, "%{byte:02X}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        text.parse::<TargetUrl>().expect_err(text).to_string()
    }

    #[test]
    fn urls() {
        for (text, tls, host, port, path) in [
            ("http://a", false, "a", 80, "/"),
            ("https://a/x?y=1", true, "a", 443, "/x?y=1"),
            ("https://a?y=1", true, "a", 443, "/?y=1"),
            ("https://a:/#top", true, "a", 443, "/"),
            ("https://[::1]:8443/", true, "::1", 8443, "/"),
            ("http://[fe80::1%25eth0]/", false, "fe80::1%eth0", 80, "/"),
            ("http://[fe80::1%eth0]:81", false, "fe80::1%eth0", 81, "/"),
            ("http://[fe80::1%2]", false, "fe80::1%2", 80, "/"),
            ("http://[fe80::1%25]", false, "fe80::1%25", 80, "/"),
            ("HTTP://127.0.0.1:9/ping", false, "127.0.0.1", 9, "/ping"),
        ] {
            let protocol = Protocol::Http1;
            let expected = TargetUrl { protocol, tls, host: host.into(), port, path: path.into() };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
    }

    #[test]
    fn refused_urls_have_a_fix() {
        for (text, what) in [
            ("", "has no scheme; write it like https://host:8443/path"),
            ("a", "has no scheme; write http://a or https://a"),
            ("a:80/x", "has no scheme; write http://a:80/x or https://a:80/x"),
            ("::1", "has no scheme; write http://[::1] or https://[::1]"),
            ("é", "has no scheme; write it like"),
            (
                "/x",
                "has no scheme and no host; write it with its server, like http://127.0.0.1:8080/x",
            ),
            (
                "unix:/x",
                "names a Unix socket, and not what is requested there; write http://localhost/",
            ),
            ("unix:///x", "names a Unix socket"),
            ("http+unix://%2Fx/", "names a Unix socket"),
            ("http:/x", "has no // behind its scheme; write http://x"),
            ("HTTPS:a:81/y", "has no // behind its scheme; write https://a:81/y"),
            ("mqtt:/a", "has no // behind its scheme; write mqtt://a"),
            ("ftp://a", "has a scheme that is not spoken; write one that starts with http://,"),
            ("http://", "is malformed: no host"),
            ("https:///x", "is malformed: no host"),
            ("http://:80/", "is malformed: no host"),
            ("http://a:0", "is malformed: the port must be 1 to 65535; write it like"),
            ("http://a:99999", "is malformed: the port"),
            ("http://a:+80", "is malformed: the port"),
            ("http://u:p@a/", "is malformed: user and password belong in --header"),
            ("http://a b/", "is malformed: its host has the character ' '"),
            ("http://::1/", "is malformed: an IPv6 address is written in brackets; write [::1]"),
            ("http://[::1", "is malformed: a bracket is not closed"),
            ("http://[::1]80", "is malformed: only a port may follow the brackets"),
            ("http://[a]/", "is malformed: [a] is not an IPv6 address"),
            ("http://[fe80::1]/", "is malformed: [fe80::1] is link-local and needs an interface"),
            ("http://[fe80::1%]/", "is malformed: \"\" is not the name of an interface"),
            (
                "https://münchen.de/",
                "is malformed: its host has the character 'ü'; write the host as xn--mnchen-3ya.de",
            ),
            (
                "http://u\u{308}.de/",
                "is malformed: its host has the character '\\u{308}'; write the ASCII form",
            ),
            ("http://a/b c", "is malformed: it has a space; write %20"),
            ("http://a/?b\tc", "is malformed: it has the control character '\\t'; write %09"),
            (
                "http://a/100%",
                "is malformed: it has a % that two hexadecimal digits do not follow; \
                               write %25",
            ),
            ("http://a/%é0", "is malformed: it has a %"),
            ("mqtt://a/topic", "is malformed: MQTT has no paths"),
            ("mqtt://a/#", "is malformed: MQTT has no paths"),
            ("mqtt://user@a", "is malformed: it must not hold a user"),
            ("tcp://a", "is malformed: no port"),
            ("tls://a:1/path", "is malformed: TCP has no paths"),
            ("tcp://user@a:1", "is malformed: it must not hold a user"),
        ] {
            let said = refused(text);
            assert!(said.starts_with(&format!("URL {:?} {what}", shown(text))), "{said}");
            // The advised URL is accepted.
            if let Some((_, advised)) = said.split_once("; write http://") {
                let advised = format!("http://{}", advised.split(' ').next().unwrap_or_default());
                assert!(advised.parse::<TargetUrl>().is_ok(), "{said}");
            }
        }
    }

    #[test]
    fn no_credential_is_shown() {
        const SECRET: &str = "hunter2";
        for (text, expected) in [
            ("http://a/b/c?k=hunter2&hunter2", "http://a/b/c?<redacted>"),
            ("http://a/b;sid=hunter2/c;v=1", "http://a/b;<redacted>/c;<redacted>"),
            ("ws://a?aHVudGVyMg==", "ws://a/?<redacted>"),
            ("https://a/x@y#hunter2", "https://a/x@y"),
            ("http://a/?", "http://a/?"),
        ] {
            assert_eq!(text.parse::<TargetUrl>().expect(text).to_string(), expected);
        }
        for (text, expected) in [
            ("http://u:hunter2@a/", "http://<redacted>@a/"),
            ("mqtt://hunter2@a", "mqtt://<redacted>@a"),
            ("http://u:hun/ter2@a:1/x", "http://<redacted>@a:1/x"),
            ("http://u:hun?ter2#@a", "http://<redacted>@a"),
            ("u:hunter2@a/x", "<redacted>@a/x"),
            ("http:u:hunter2@a/x", "<redacted>@a/x"),
            ("ftp://a/?k=hunter2", "ftp://a/?<redacted>"),
            ("a/?k=hunter2", "a/?<redacted>"),
            ("http:/a?k=hunter2", "http:/a?<redacted>"),
            ("/x?k=hunter2", "/x?<redacted>"),
            ("http://a b#hunter2", "http://a b#<redacted>"),
            ("http://é/?k=hunter2", "http://é/?<redacted>"),
        ] {
            let said = refused(text);
            assert!(said.starts_with(&format!("URL {expected:?} ")), "{said}");
            let hidden = ["hunter2", "hun/", "hun?", "ter2"];
            assert!(!hidden.iter().any(|part| said.contains(part)), "{said}");
        }
        assert!(!shown(&format!("x://{SECRET}@{SECRET}@a;{SECRET}?{SECRET}")).contains(SECRET));
    }

    #[test]
    fn hosts_have_an_ascii_form() {
        for (host, ascii) in [
            ("bücher.example", "xn--bcher-kva.example"),
            ("MÜNCHEN-Ost.de", "xn--mnchen-ost-9db.de"),
            ("他们为什么不说中文", "xn--ihqwcrb4cv8a8dqg056pqjye"),
            ("почемужеонинеговорятпорусски", "xn--b1abfaaepdrnnbgefbadotcwatmq2g4l"),
            ("a.παράδειγμα.δοκιμή", "a.xn--hxajbheg2az3al.xn--jxalpdlp"),
        ] {
            assert_eq!(ascii_form(host).as_deref(), Some(ascii));
        }
        assert_eq!(ascii_form(&"ü".repeat(200)), None);
    }

    #[test]
    fn paths_are_sent_in_the_grammar_of_urls() {
        for (path, sent) in [
            ("/münchen", "/m%C3%BCnchen"),
            ("/?q=日本&x=é", "/?q=%E6%97%A5%E6%9C%AC&x=%C3%A9"),
            ("?é", "/?%C3%A9"),
            ("/\u{1F600}\u{80}", "/%F0%9F%98%80%C2%80"),
            ("/m%C3%BCnchen/%2f", "/m%C3%BCnchen/%2f"),
            ("/\"<>\\^`{|}", "/%22%3C%3E%5C%5E%60%7B%7C%7D"),
            ("/a[]?b[]=~!$&'()*+,;=:@", "/a[]?b[]=~!$&'()*+,;=:@"),
            ("/a/../b//c?d?e/#é f", "/a/../b//c?d?e/"),
        ] {
            let url = format!("ws://a{path}").parse::<TargetUrl>().expect(path);
            assert_eq!(url.path, sent);
        }
    }

    #[test]
    fn a_zone_stays_on_this_host() {
        let url: TargetUrl = "https://[fe80::1%25eth0]:8443/x".parse().expect("a URL");
        assert_eq!(url.authority(), "[fe80::1]:8443");
        assert_eq!(url.host_without_zone(), "fe80::1");
        assert_eq!(url.to_string().parse(), Ok(url));
    }

    #[test]
    fn authority_round_trips() {
        for text in [
            "http://a/",
            "https://[::1]:8443/x",
            "https://h:80/",
            "ws://a/x",
            "wss://a:80/",
            "mqtts://a",
            "tcp://a:80",
            "tls://[::1]:443",
            "http://[fe80::1%25eth0]:81/",
        ] {
            assert_eq!(text.parse::<TargetUrl>().map(|url| url.to_string()), Ok(text.to_owned()));
        }
    }
}
