//! Requests to send: method, URL, headers, body.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::framed::framed;

mod body;
mod filters;
mod mqtt;
mod script;
mod template;
mod url;
pub mod vegeta;

pub use body::{BODY_BYTES_MAX, Body, BodyStore, SMALL_BODY_BYTES_MAX};
pub use filters::{Filters, filter_matches, shared_filter};
pub use mqtt::{
    Credentials, MqttVersion, Publish, Qos, REMAINING_LENGTH_MAX, Subscription, Will,
    foreign_placeholder, is_filter, is_topic,
};
pub use script::{Action, Script, Step};
pub use template::{Field, Filling, STAMP_BYTES, STAMP_MAGIC, Template};
pub(crate) use url::percent_decoded;
pub use url::{TargetUrl, UrlError, shown as shown_url};

pub use crate::secret::REDACTED;

/// The protocol spoken with a server.
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
    /// Reports whether it is HTTP of any version, a request and its answer.
    pub const fn is_http(self) -> bool {
        matches!(self, Self::Http1 | Self::Http2)
    }

    /// Reports whether its requests have headers and a path.
    pub const fn has_headers(self) -> bool {
        match self {
            Self::Http1 | Self::Http2 | Self::WebSocket => true,
            Self::Mqtt | Self::Script => false,
        }
    }
}

/// One request to send.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Target {
    /// The HTTP method, for example `GET`.
    pub method: String,
    /// URL of the target.
    #[serde(with = "crate::framed")]
    pub url: TargetUrl,
    /// Names and values in order, without `Host` unless the user set it.
    pub headers: Vec<(String, String)>,
    /// The body, message or payload; an empty body is not sent.
    #[serde(with = "crate::framed")]
    pub body: Body,
    /// Settings of a publish; for MQTT alone.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::framed")]
    pub publish: Option<Publish>,
    /// Script of the connection; for raw TCP and TLS alone.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::framed")]
    pub script: Option<Script>,
    /// Form of the body as a message, and of its answer; for WebSocket alone. `None`: text if it is UTF-8, in
    /// one frame, answered by any message.
    #[serde(default, skip_serializing_if = "Option::is_none", with = "crate::framed")]
    pub websocket: Option<Messages>,
}

/// Registered methods, and the methods of caches: <https://www.iana.org/assignments/http-methods>.
const METHODS: [&str; 21] = [
    "GET",
    "HEAD",
    "POST",
    "PUT",
    "DELETE",
    "CONNECT",
    "OPTIONS",
    "TRACE",
    "PATCH",
    "QUERY",
    "PROPFIND",
    "PROPPATCH",
    "MKCOL",
    "COPY",
    "MOVE",
    "LOCK",
    "UNLOCK",
    "SEARCH",
    "REPORT",
    "PURGE",
    "BAN",
];

framed!(Target, Messages);

impl Target {
    /// Returns the method as it may be shown: a well-known one.
    pub fn method_shown(&self) -> &str {
        if METHODS.contains(&self.method.as_str()) { &self.method } else { REDACTED }
    }

    /// Returns the options of all `Connection` headers, as the user wrote them.
    pub fn connection_options(&self) -> impl Iterator<Item = &str> {
        let named = |(name, _): &&(String, String)| name.eq_ignore_ascii_case("connection");
        let values = self.headers.iter().filter(named).map(|(_, value)| value.as_str());
        values.flat_map(|value| value.split(',')).map(str::trim)
    }

    /// Reports whether the request ends its connection: `Connection: close` (RFC 9112, 9.6).
    pub fn closes_connection(&self) -> bool {
        self.connection_options().any(|option| option.eq_ignore_ascii_case("close"))
    }
}

/// The messages of a WebSocket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self")]
pub struct Messages {
    /// `true` if each is sent as binary, even if the payload is text.
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
    use std::sync::Arc;

    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(
        bytes: &Arc<[u8]>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Arc<[u8]>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map(Into::into).map_err(serde::de::Error::custom)
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

/// Reports whether `text` is an HTTP method: a non-empty token.
pub fn is_method(text: &str) -> bool {
    http::Method::from_bytes(text.as_bytes()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers() {
        assert_eq!(parse_header("sleep: 20"), Some(("sleep".into(), "20".into())));
        for text in ["novalue", ": x", "a b: c", "a: b\r\nc: d"] {
            assert_eq!(parse_header(text), None, "{text}");
        }
    }
}
