//! Access control: the request has to name this server, come from no other site, and know the token if
//! there is one.
//!
//! A browser opens any page, and any page may ask it to fetch from loopback or, after its name was bound
//! to another address, from any host of this network. The name in the Host header shows that.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method, StatusCode};

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// The method is neither GET nor HEAD.
    Method,
    /// The Host header names another server.
    Host,
    /// The request comes from the page of another site.
    Origin,
    /// The path is not one of ours; without the token none is.
    NotFound,
    /// The number of viewers is at its limit.
    Full,
}

impl Refusal {
    pub(super) const fn answer(self) -> (StatusCode, &'static str) {
        match self {
            Self::Method => (StatusCode::METHOD_NOT_ALLOWED, "This server only shows: use GET.\n"),
            Self::Host => (
                StatusCode::MISDIRECTED_REQUEST,
                "This is not the server that the address names.\n",
            ),
            Self::Origin => (StatusCode::FORBIDDEN, "Another site may not read this.\n"),
            Self::NotFound => (StatusCode::NOT_FOUND, "There is nothing here.\n"),
            Self::Full => (
                StatusCode::SERVICE_UNAVAILABLE,
                "16 viewers are connected, and there may not be more.\n",
            ),
        }
    }
}

/// The rules of one listener.
#[derive(Clone, Debug)]
pub(super) struct Access {
    /// Listening address.
    pub(super) address: SocketAddr,
    /// The name in the address that the user gave.
    pub(super) name: Option<String>,
    /// The first part of every path, where there is one.
    pub(super) token: Option<String>,
}

impl Access {
    /// Reports whether the request may be answered, were its path one of ours.
    pub(super) fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        if !matches!(*method, Method::GET | Method::HEAD) {
            return Err(Refusal::Method);
        }
        let mut hosts = headers.get_all(HOST).iter();
        let host = hosts.next().and_then(|host| host.to_str().ok());
        if hosts.next().is_some() || !host.is_some_and(|host| self.is_named(host)) {
            return Err(Refusal::Host);
        }
        let host = host.unwrap_or_default();
        let is_ours = |origin: &str| {
            origin.strip_prefix("http://").is_some_and(|origin| origin.eq_ignore_ascii_case(host))
        };
        let origin = headers.get(ORIGIN).map(|origin| origin.to_str().is_ok_and(is_ours));
        let site = headers.get("sec-fetch-site").map(|site| site.as_bytes());
        // `none` is a person who typed the address; `cross-site` and `same-site` are other pages.
        if origin == Some(false) || !matches!(site, None | Some(b"same-origin" | b"none")) {
            return Err(Refusal::Origin);
        }
        Ok(())
    }

    /// Reports whether `host`, with its port, is this server.
    fn is_named(&self, host: &str) -> bool {
        let (name, port) = match host.rsplit_once(':') {
            // The end of an IPv6 address is no port.
            Some((name, port)) if !port.ends_with(']') => (name, port),
            _ => (host, "80"),
        };
        if port.parse() != Ok(self.address.port()) {
            return false;
        }
        let literal =
            name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
        match literal.parse::<IpAddr>() {
            // No name was resolved, so none was bound to another address.
            Ok(address) => self.address.ip().is_unspecified() || address == self.address.ip(),
            Err(_) => {
                let known = self.name.as_deref().is_some_and(|own| own.eq_ignore_ascii_case(name));
                known || name.eq_ignore_ascii_case("localhost")
            }
        }
    }

    /// Reports whether `path` begins with the token, where there is one.
    pub(super) fn is_open(&self, path: &str) -> bool {
        let Some(token) = &self.token else { return true };
        let first = path.strip_prefix('/').and_then(|rest| rest.split('/').next());
        is_same(first.unwrap_or_default().as_bytes(), token.as_bytes())
    }
}

/// Compares in a time that depends on the lengths alone.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let differing = a.iter().zip(b).fold(0, |differing, (a, b)| differing | (a ^ b));
    a.len() == b.len() && std::hint::black_box(differing) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        headers
    }

    fn at(address: &str) -> Access {
        let name = Some("proxy1.example".to_owned());
        Access { address: address.parse().unwrap(), name, token: None }
    }

    #[test]
    fn only_requests_that_name_this_server_are_answered() {
        for (address, host, expected) in [
            ("127.0.0.1:8080", "127.0.0.1:8080", true),
            ("127.0.0.1:8080", "localhost:8080", true),
            ("127.0.0.1:8080", "LOCALHOST:8080", true),
            ("127.0.0.1:8080", "proxy1.example:8080", true),
            ("127.0.0.1:80", "localhost", true),
            ("[::1]:8080", "[::1]:8080", true),
            ("[::1]:80", "[::1]", true),
            ("0.0.0.0:8080", "10.1.2.3:8080", true),
            ("[::]:8080", "[fd00::1]:8080", true),
            ("127.0.0.1:8080", "evil.example:8080", false),
            ("127.0.0.1:8080", "evil.example", false),
            ("127.0.0.1:8080", "127.0.0.1.evil.example:8080", false),
            ("127.0.0.1:8080", "localhost:9090", false),
            ("127.0.0.1:8080", "localhost", false),
            ("127.0.0.1:8080", "127.0.0.2:8080", false),
            ("0.0.0.0:8080", "evil.example:8080", false),
            ("127.0.0.1:8080", "", false),
        ] {
            let checked = at(address).check(&Method::GET, &headers(&[("host", host)]));
            assert_eq!(checked.is_ok(), expected, "{host} at {address}");
        }
        let access = at("127.0.0.1:80");
        assert_eq!(access.check(&Method::GET, &HeaderMap::new()), Err(Refusal::Host));
        let two = headers(&[("host", "localhost"), ("host", "evil.example")]);
        assert_eq!(access.check(&Method::GET, &two), Err(Refusal::Host));
    }

    #[test]
    fn other_sites_get_nothing() {
        for (name, value, expected) in [
            ("origin", "http://localhost:8080", true),
            ("origin", "http://evil.example", false),
            ("origin", "https://localhost:8080", false),
            ("origin", "http://localhost:9090", false),
            ("origin", "null", false),
            ("sec-fetch-site", "same-origin", true),
            ("sec-fetch-site", "none", true),
            ("sec-fetch-site", "cross-site", false),
            ("sec-fetch-site", "same-site", false),
        ] {
            let headers = headers(&[("host", "localhost:8080"), (name, value)]);
            let checked = at("127.0.0.1:8080").check(&Method::GET, &headers);
            let expected = if expected { Ok(()) } else { Err(Refusal::Origin) };
            assert_eq!(checked, expected, "{name}: {value}");
        }
    }

    #[test]
    fn nothing_can_be_changed() {
        let headers = headers(&[("host", "localhost:8080")]);
        for (method, expected) in [
            (Method::GET, Ok(())),
            (Method::HEAD, Ok(())),
            (Method::POST, Err(Refusal::Method)),
            (Method::OPTIONS, Err(Refusal::Method)),
            (Method::DELETE, Err(Refusal::Method)),
        ] {
            assert_eq!(at("127.0.0.1:8080").check(&method, &headers), expected, "{method}");
        }
    }

    #[test]
    fn a_token_is_the_first_part_of_the_path() {
        let address = "10.0.0.1:80".parse().unwrap();
        let access = Access { address, name: None, token: Some("secret".to_owned()) };
        for (path, expected) in [
            ("/secret/", true),
            ("/secret/view", true),
            ("/secret", true),
            ("/secre/", false),
            ("/secrett/", false),
            ("/Secret/", false),
            ("/view/secret", false),
            ("/", false),
            ("", false),
        ] {
            assert_eq!(access.is_open(path), expected, "{path}");
        }
        assert!(at("127.0.0.1:80").is_open("/view"));
    }
}
