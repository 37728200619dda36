//! The server that a command names, or the one of a laboratory.

use std::net::Ipv4Addr;

use plimsoll_model::plan::Trust;

use crate::flags::hosts::LoadHostFlags;
use crate::flags::shared::{HeaderFlags, RequestFlags, ServerFlags};

/// The server that a load goes to, and what is requested there.
#[derive(Clone, Debug, Default)]
pub(crate) struct Destination {
    /// The command in hints: `plimsoll load`.
    pub(super) usage: &'static str,
    pub(super) server: ServerFlags,
    pub(super) request: RequestFlags,
    /// `true` if no request is sent on a usable connection.
    pub(super) only_connects: bool,
    /// Roots for the server's certificate; `None` leaves them to the flags.
    pub(super) trust: Option<Trust>,
    /// First of the addresses that clients have without naming them; `None` if there are none.
    pub(super) sources: Option<Ipv4Addr>,
    /// The server is a laboratory's on another machine.
    pub(super) is_far: bool,
}

impl Destination {
    /// Creates the destination of an existing server.
    pub(super) fn named(usage: &'static str, server: &ServerFlags, request: &RequestFlags) -> Self {
        let (server, request) = (server.clone(), request.clone());
        Self { usage, server, request, ..Self::default() }
    }

    /// Creates the destination of a laboratory's server: it answers `request` at `url`, with a certificate that `trust`
    /// accepts. The clients have many addresses from `sources` on, where that is not loopback.
    pub(crate) fn laboratory(
        url: String,
        request: RequestFlags,
        trust: Trust,
        sources: Option<Ipv4Addr>,
    ) -> Self {
        let server = ServerFlags { url: Some(url), ..ServerFlags::default() };
        let (trust, usage) = (Some(trust), "plimsoll lab");
        Self { usage, server, request, trust, sources, ..Self::default() }
    }

    /// Returns the laboratory's server on another machine; `clients` names the hosts that make the load.
    pub(crate) fn far(self, clients: LoadHostFlags) -> Self {
        let server = ServerFlags { hosts: clients, ..self.server };
        Self { server, is_far: true, ..self }
    }

    /// Reports whether the server is a laboratory's.
    pub(super) fn is_laboratory(&self) -> bool {
        self.trust.is_some()
    }

    pub(super) fn with(&self, header: &HeaderFlags) -> Self {
        let request = RequestFlags { header: header.clone(), ..self.request.clone() };
        Self { request, ..self.clone() }
    }
}
