//! What is sent: method, URL, headers, body.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use thiserror::Error;

mod filters;
mod mqtt;
mod script;
mod template;
pub mod vegeta;

pub use filters::{Filters, filter_matches};
pub use mqtt::{
    Credentials, MqttVersion, Publish, Qos, REMAINING_LENGTH_MAX, Subscription, Will,
    foreign_placeholder, is_filter, is_topic,
};
pub use script::{Action, Script, Step};
pub use template::{Field, Filling, STAMP_BYTES, STAMP_MAGIC, Template};

/// What is spoken with a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Protocol {
    /// HTTP/1.1, RFC 9112.
    #[default]
    Http1,
    /// HTTP/2, RFC 9113: by ALPN over TLS, by prior knowledge without.
    Http2,
    /// WebSocket, RFC 6455.
    WebSocket,
    /// MQTT 3.1.1 or 5.0.
    Mqtt,
    /// Whatever a script says.
    Script,
}

impl Protocol {
    /// Whether it is HTTP of any version, a request and its answer.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http1 | Self::Http2)
    }

    /// Whether its requests have headers and a path.
    pub const fn has_headers(self) -> bool {
        match self {
            Self::Http1 | Self::Http2 | Self::WebSocket => true,
            Self::Mqtt | Self::Script => false,
        }
    }
}

/// A scheme of URLs: what it says, and the port where a URL names none; 0 where a URL must name it.
struct Scheme {
    name: &'static str,
    protocol: Protocol,
    tls: bool,
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

/// An absolute URL of one of the schemes `http`, `https`, `ws`, `wss`, `mqtt`, `mqtts`, `tcp` and `tls`,
/// parsed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TargetUrl {
    /// What is spoken.
    #[serde(default)]
    pub protocol: Protocol,
    /// Whether it is spoken over TLS.
    pub tls: bool,
    /// Host name or address, without brackets.
    pub host: String,
    /// The port; the scheme's when the URL names none.
    pub port: u16,
    /// Path and query as sent; starts with `/`.
    pub path: String,
}

impl Protocol {
    /// The scheme of its URLs, with or without TLS.
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

    /// The value of a `Host` header: no default port, IPv6 in brackets.
    pub fn authority(&self) -> String {
        let host =
            if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == self.scheme().port { host } else { format!("{host}:{}", self.port) }
    }
}

impl fmt::Display for TargetUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme().name, self.authority())?;
        // What has no paths is written without one.
        if self.protocol.has_headers() { f.write_str(&self.path) } else { Ok(()) }
    }
}

/// What URLs may start with.
pub const SCHEMES_TEXT: &str =
    "http://, https://, ws://, wss://, mqtt://, mqtts://, tcp:// or tls://";

/// Why a URL was refused; the text has the fix.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UrlError {
    /// No scheme, or one that is not spoken.
    #[error("URL {0:?} must start with {SCHEMES_TEXT}")]
    Scheme(String),
    /// No host, a bad port, forbidden characters.
    #[error("URL {url:?} is malformed: {why}; write it like https://host:8443/path")]
    Malformed {
        /// What was written.
        url: String,
        /// What is wrong with it.
        why: String,
    },
}

impl FromStr for TargetUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        let malformed =
            |why: &str| UrlError::Malformed { url: text.to_owned(), why: why.to_owned() };
        let name = text.split_once("://").map(|(name, _)| name).unwrap_or_default();
        let scheme = SCHEMES.iter().find(|scheme| scheme.name.eq_ignore_ascii_case(name));
        let scheme = scheme.ok_or_else(|| UrlError::Scheme(text.to_owned()))?;
        let uri: http::Uri =
            text.parse().map_err(|e: http::uri::InvalidUri| malformed(&e.to_string()))?;
        let authority = uri.authority().ok_or_else(|| malformed("no host"))?;
        if authority.as_str().contains('@') {
            return Err(malformed(match scheme.protocol {
                Protocol::Mqtt | Protocol::Script => {
                    "it must not hold a user and a password, which archives keep"
                }
                Protocol::Http1 | Protocol::Http2 | Protocol::WebSocket => {
                    "user and password belong in --header 'Authorization: …'"
                }
            }));
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err(malformed("no host"));
        }
        let port_text = authority.as_str().strip_prefix(authority.host()).unwrap_or("");
        let port = match port_text.strip_prefix(':') {
            None | Some("") if scheme.port == 0 => return Err(malformed("no port")),
            None | Some("") => scheme.port,
            Some(digits) => match digits.parse::<u16>() {
                Ok(port) if port > 0 => port,
                _ => return Err(malformed("the port must be 1 to 65535")),
            },
        };
        let path = match uri.path_and_query() {
            Some(path) if path.as_str().starts_with('/') => path.as_str().to_owned(),
            Some(path) => format!("/{}", path.as_str()),
            None => "/".to_owned(),
        };
        if path != "/" {
            match scheme.protocol {
                Protocol::Http1 | Protocol::Http2 | Protocol::WebSocket => {}
                Protocol::Mqtt => {
                    return Err(malformed("MQTT has no paths; give the topic with --topic"));
                }
                Protocol::Script => return Err(malformed("TCP has no paths")),
            }
        }
        Ok(Self { protocol: scheme.protocol, tls: scheme.tls, host: host.to_owned(), port, path })
    }
}

/// One request to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// The HTTP method, for example `GET`.
    pub method: String,
    /// Where to.
    pub url: TargetUrl,
    /// Names and values in order, without `Host` unless the user set it.
    pub headers: Vec<(String, String)>,
    /// The body, message or payload; an empty body is not sent.
    #[serde(with = "base64_text")]
    pub body: Vec<u8>,
    /// How the body is published; for MQTT alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publish: Option<Publish>,
    /// What is said; for raw TCP and TLS alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Script>,
    /// How the body is sent as a message, and what answers it; for WebSocket alone. `None`: text if it is UTF-8, in
    /// one frame, answered by any message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub websocket: Option<Messages>,
}

/// The messages of a WebSocket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Messages {
    /// Whether each is sent as binary, even if the payload is text.
    pub is_binary: bool,
    /// Most payload bytes of one frame sent, at least 1; `None`: all of them are in one.
    pub payload_bytes_max: Option<u32>,
    /// Messages of the server after the switch that answer nothing.
    pub skipped: u32,
    /// Regular expression, of bytes, that matches a part of each answer; `None`: any message is one.
    pub expected: Option<Arc<str>>,
}

/// Bytes as one base64 text: a list of numbers would be four times their size.
mod base64_text {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(serde::de::Error::custom)
    }

    pub(super) mod shared {
        use std::sync::Arc;

        use serde::{Deserializer, Serializer};

        pub(in super::super) fn serialize<S: Serializer>(
            bytes: &Arc<[u8]>,
            serializer: S,
        ) -> Result<S::Ok, S::Error> {
            super::serialize(bytes, serializer)
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            deserializer: D,
        ) -> Result<Arc<[u8]>, D::Error> {
            super::deserialize(deserializer).map(Into::into)
        }
    }
}

/// Splits `Name: value`; `None` when the name is not an HTTP token or the value holds a control
/// character, which could smuggle a second header.
pub fn parse_header(text: &str) -> Option<(String, String)> {
    let (name, value) = text.split_once(':')?;
    let (name, value) = (name.trim_end(), value.trim());
    http::HeaderName::from_bytes(name.as_bytes()).ok()?;
    http::HeaderValue::from_str(value).ok()?;
    Some((name.to_owned(), value.to_owned()))
}

/// Whether `text` is an HTTP method: a non-empty token.
pub fn is_method(text: &str) -> bool {
    http::Method::from_bytes(text.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for (text, tls, host, port, path) in [
            ("http://a", false, "a", 80, "/"),
            ("https://a/x?y=1", true, "a", 443, "/x?y=1"),
            ("https://a?y=1", true, "a", 443, "/?y=1"),
            ("https://[::1]:8443/", true, "::1", 8443, "/"),
            ("HTTP://127.0.0.1:9/ping", false, "127.0.0.1", 9, "/ping"),
        ] {
            let protocol = Protocol::Http1;
            let expected = TargetUrl { protocol, tls, host: host.into(), port, path: path.into() };
            assert_eq!(text.parse(), Ok(expected), "{text}");
        }
        for text in [
            "",
            "a",
            "a:80",
            "ftp://a",
            "http://",
            "http://a:0",
            "http://a:99999",
            "http://u:p@a/",
            "http://a b/",
            "https:///x",
            "http://[::1",
            "é",
            "https://é",
            "mqtt://a/topic",
            "mqtt://user@a",
            "tcp://a",
            "tls://a:1/path",
            "tcp://user@a:1",
        ] {
            assert!(text.parse::<TargetUrl>().is_err(), "{text}");
        }
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
        ] {
            assert_eq!(text.parse::<TargetUrl>().map(|url| url.to_string()), Ok(text.to_owned()));
        }
    }

    #[test]
    fn headers() {
        assert_eq!(parse_header("sleep: 20"), Some(("sleep".into(), "20".into())));
        for text in ["novalue", ": x", "a b: c", "a: b\r\nc: d"] {
            assert_eq!(parse_header(text), None, "{text}");
        }
    }
}
