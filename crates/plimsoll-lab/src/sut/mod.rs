//! The systems under test (SUT), with one module per installed program.
//!
//! A module describes its program by one [`Proxy`]: its package, its version, its configuration, and what it can do.
//! [`proxy()`] is the only table of them.

mod caddy;
mod haproxy;
mod nginx;
mod proxy;
mod subject;

use std::path::Path;

use plimsoll_model::SutKind;

use crate::error::{LabError, Result};
use crate::program;
pub(crate) use proxy::{Prepared, Proxy, check_descriptors, several, write};
pub use subject::Sut;

impl Sut {
    /// Finds the named program of this kind, or the installed one.
    pub fn find(kind: SutKind, named: Option<&Path>) -> Result<Self> {
        let Some(proxy) = proxy(kind) else { return Ok(Self::embedded()) };
        let missing = LabError::NotInstalled { program: kind.name(), package: proxy.package() };
        let program = program::find(kind.name(), named).ok_or(missing)?;
        Ok(Self { kind, program })
    }

    /// Returns HAProxy if it is installed, else plimsoll's own server.
    pub fn installed() -> Self {
        Self::find(SutKind::Haproxy, None).unwrap_or_else(|_| Self::embedded())
    }
}

/// Returns the description of an installed program; `None` for plimsoll's own server.
pub(crate) fn proxy(kind: SutKind) -> Option<&'static dyn Proxy> {
    match kind {
        SutKind::Embedded => None,
        SutKind::Haproxy => Some(&haproxy::Haproxy),
        SutKind::Nginx => Some(&nginx::Nginx),
        SutKind::Caddy => Some(&caddy::Caddy),
    }
}

/// Reports whether a server of this kind carries any protocol over TCP, not only HTTP and WebSocket.
pub fn carries_tcp(kind: SutKind) -> bool {
    proxy(kind).is_none_or(Proxy::carries_tcp)
}

/// Reports whether the processes of this kind keep the privileges that they are started with.
pub fn keeps_privileges(kind: SutKind) -> bool {
    proxy(kind).is_none_or(Proxy::keeps_privileges)
}
