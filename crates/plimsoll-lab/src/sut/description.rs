//! The facts that a laboratory relies on about a kind of server.

use std::path::Path;

use plimsoll_tls::KeyKind;

use super::Proxy;
use crate::controls::Reload;

/// A kind of server that a laboratory can start as its SUT.
pub struct Description {
    /// The installed program; `None` for plimsoll's own server.
    pub(crate) proxy: Option<&'static dyn Proxy>,
    /// Returns the way in which a program reloads its configuration in a scratch directory; `None` if it cannot.
    pub(crate) reload: Option<fn(&Path, &Path) -> Reload>,
    /// `true` if it drains servers behind it on a command.
    pub drains: bool,
    /// `true` if it carries any protocol over TCP, not only HTTP and WebSocket.
    pub carries_tcp: bool,
    /// `true` if its processes keep the privileges that they are started with.
    pub keeps_privileges: bool,
    /// `true` if a request costs it no more than it costs plimsoll's client.
    pub costs_as_client: bool,
    /// Settings that a sweep may vary. `tune.*` is every setting with that prefix: the program knows all of them, and
    /// refuses others.
    pub options: &'static [&'static str],
}

impl Description {
    /// An installed program that only passes requests on.
    pub(super) const PROXY: Self = Self {
        proxy: None,
        reload: None,
        drains: false,
        carries_tcp: false,
        keeps_privileges: true,
        costs_as_client: false,
        options: &[],
    };

    /// `true` if it is an installed program with servers behind it, `false` if it answers requests itself.
    pub const fn is_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// `true` if it can be made to reload its configuration.
    pub const fn reloads(&self) -> bool {
        self.reload.is_some()
    }

    /// Reports whether `key` is the name of one of its [`Self::options`].
    pub fn has_option(&self, key: &str) -> bool {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        let is_of = |option: &&str| match option.strip_suffix('*') {
            Some(prefix) => key
                .strip_prefix(prefix)
                .is_some_and(|name| !name.is_empty() && name.bytes().all(is_letter)),
            None => key == *option,
        };
        self.options.iter().any(is_of)
    }

    /// Returns the key of its certificate if its rate is searched.
    ///
    /// Our own server costs what our own client costs, request for request (6.7 us each over TLS,
    /// see docs/journal), so that on one core each the client would be the limit. An RSA handshake
    /// costs the server twice what it costs the client; proxies need no such help.
    pub const fn key_kind(&self) -> KeyKind {
        if self.costs_as_client { KeyKind::Rsa2048 } else { KeyKind::EcdsaP256 }
    }
}
