//! The parts of a laboratory, and the connections that it must be able to hold.
//!
//! [`LabPlan`] is filled from flags before anything starts; the other modules only read it. Sizes follow from
//! `connections`: `processes` spreads them over processes that share a port if one cannot open enough descriptors,
//! and `backend_ports` adds ports for tunnels, 12,000 connections each. [`LabPlan::ways`] lists which disturbances
//! are possible. Start reading at the fields of [`LabPlan`].

use std::path::PathBuf;

use plimsoll_fleet::hosts::LoadHosts;
use plimsoll_model::Nanos;
use plimsoll_model::plan::{Spoken, TlsState};
use plimsoll_model::target::Protocol;

use crate::controls::Ways;
use crate::own_servers::{OwnServers, TIMEOUT};
use crate::placement::Placement;
use crate::settings::{ProxyConfiguration, SutSettings};
use crate::sut::Sut;

/// Connections beyond the load's own: the first ones of a trial while those of the last trial are
/// still being closed, and manual requests.
pub(crate) const CONNECTIONS_SPARE: u64 = 100;
/// The kernel distributes connections over the processes that share a port by a hash, not evenly: the
/// percentage of its descriptors that a process is planned to use.
const FILL_PERCENT: u64 = 90;
/// Connections of one proxy to one port. Of the kernel's usual range of source ports, 32,768 to 60,999, `connect` tries
/// every second one first, 14,116: once they are taken, it looks at all of them each time, which takes 19 ms.
const TUNNELS_PER_PORT: u64 = 12_000;
/// The most processes of a SUT.
pub(crate) const PROCESSES_MAX: u32 = 1024;

/// The parts of a laboratory, and the connections that it must be able to hold.
#[derive(Clone, Debug)]
pub struct LabPlan {
    /// The server under test.
    pub sut: Sut,
    /// The user named no SUT.
    pub sut_is_default: bool,
    /// Backends behind a proxy; at least 1.
    pub backends: u32,
    /// Program of the backends: mosquitto at this path; `None` for our own servers.
    pub mosquitto: Option<PathBuf>,
    /// `true` if the generated configuration is kept.
    pub keep_config: bool,
    /// Client connections at once.
    pub connections: u64,
    /// The longest time that a client waits for anything or leaves a connection idle: every timer of
    /// the servers is longer.
    pub longest_wait: Nanos,
    /// CPUs of each part. With `None` nothing is pinned, and several processes share the SUT's port
    /// where one may not open enough files: while many connections are opened, every part can
    /// use every CPU.
    pub placement: Option<Placement>,
    /// State that our own server keeps per TLS connection.
    pub tls_state: TlsState,
    /// Protocol of the clients.
    pub protocol: Protocol,
    /// `true` if clients speak it over TLS.
    pub tls: bool,
    /// `true` if a proxy caches TLS sessions and sends tickets, as it does by default.
    pub resumes: bool,
    /// Other settings.
    pub settings: SutSettings,
    /// Other machines that SUT and backends are on; `None` starts them here.
    pub far: Option<FarHosts>,
}

/// Other machines that a laboratory is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FarHosts {
    /// The host of the SUT, then the hosts of the backends; without these, the SUT's host has the backends, too.
    pub hosts: LoadHosts,
    /// The SUT has one process with a thread on each CPU of its host; else as many as its connections need.
    pub pins_sut: bool,
}

impl LabPlan {
    /// Returns one connection to `sut` over TLS, nothing pinned.
    pub fn new(sut: Sut) -> Self {
        Self {
            sut,
            sut_is_default: false,
            backends: 1,
            mosquitto: None,
            keep_config: false,
            connections: 1,
            longest_wait: Nanos::ZERO,
            placement: None,
            tls_state: TlsState::Compact,
            protocol: Protocol::Http1,
            tls: true,
            resumes: true,
            settings: SutSettings::default(),
            far: None,
        }
    }

    /// Returns the ways in which the SUT of this laboratory can be disturbed; its hosts are network namespaces if
    /// `is_isolated`.
    pub fn ways(&self, is_isolated: bool) -> Ways {
        if self.far.is_some() {
            return Ways::default();
        }
        let sut = self.sut.description();
        let backends = if sut.is_proxy() { self.backend_ports() } else { 0 };
        let backends = u32::try_from(backends).unwrap_or(u32::MAX);
        let is_tuned = matches!(self.settings.configuration, ProxyConfiguration::Tuned(_));
        Ways {
            processes: true,
            reload: sut.reloads(),
            restart: sut.is_proxy(),
            backends: if self.mosquitto.is_none() { backends } else { 0 },
            drained: if sut.drains && !is_tuned { backends } else { 0 },
            link: is_isolated,
            certificate: sut.reloads() && self.tls,
        }
    }

    pub(crate) fn sut_cpus(&self) -> &[u32] {
        self.placement.as_ref().map_or(&[], |placement| &placement.sut)
    }

    pub(crate) const fn may_split(&self) -> bool {
        self.placement.is_none()
    }

    /// Returns the number of processes that share the connections when each can hold `fit`, including spare ones.
    pub(crate) fn processes(&self, fit: u64) -> u32 {
        if !self.may_split() || self.connections + CONNECTIONS_SPARE <= fit {
            return 1;
        }
        let usable = (fit * FILL_PERCENT / 100).max(1);
        let needed = self.connections.div_ceil(usable).clamp(1, u64::from(PROCESSES_MAX));
        u32::try_from(needed).unwrap_or(PROCESSES_MAX)
    }

    /// Returns the protocol of our own servers.
    pub(crate) const fn spoken(&self) -> Spoken {
        match self.protocol {
            Protocol::Mqtt => Spoken::Mqtt,
            Protocol::Script => Spoken::Echo,
            Protocol::Http1 | Protocol::Http2 | Protocol::WebSocket => Spoken::Http,
        }
    }

    /// Reports whether a proxy passes bytes on without looking at them: each client connection has one of its
    /// own to a backend, for as long as it lasts.
    pub(crate) const fn is_tunnel(&self) -> bool {
        !self.protocol.has_headers()
    }

    /// Returns the number of ports on which the backends listen: one for each, or as many as a proxy needs for a
    /// connection of its own behind each client's.
    pub(crate) fn backend_ports(&self) -> u64 {
        let tunnels =
            if self.is_tunnel() { self.connections.div_ceil(TUNNELS_PER_PORT) } else { 0 };
        tunnels.max(self.backends.into())
    }

    /// Returns the settings of our own servers on `cpus`.
    pub(crate) fn own_servers(&self, cpus: &[u32]) -> OwnServers {
        OwnServers { timeout: TIMEOUT.max(self.longest_wait), ..OwnServers::new(cpus) }
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::SutKind;
    use plimsoll_model::cliff::Owner;

    use super::*;

    #[test]
    fn processes_are_started_for_descriptors_and_none_is_planned_full() {
        let plan = |connections| LabPlan { connections, ..LabPlan::new(Sut::embedded()) };
        for (connections, fit, processes) in [
            (9_000, 9_964, 1),
            // The spare ones do not fit.
            (9_900, 9_964, 2),
            (300, 164, 3),
            (1_000_000, 9_964, 112),
            (1, 0, 1),
        ] {
            assert_eq!(plan(connections).processes(fit), processes, "{connections}");
        }
        // A SUT that has CPUs of its own is one process, or is refused for its descriptors.
        let pinned = LabPlan { placement: Some(Placement::default()), ..plan(1_000_000) };
        assert_eq!(pinned.processes(9_964), 1);
    }

    #[test]
    fn a_kind_is_disturbed_in_the_ways_of_its_description() {
        let ways = |kind, tls| {
            LabPlan { backends: 4, tls, ..LabPlan::new(Sut::elsewhere(kind)) }.ways(false)
        };
        for kind in SutKind::proxies() {
            let proxy = ways(kind, true);
            assert!(proxy.reload && proxy.restart && proxy.certificate, "{kind}");
            assert!(ways(kind, false).reload && !ways(kind, false).certificate, "{kind}");
            let drained = if kind == SutKind::Haproxy { 4 } else { 0 };
            assert_eq!((proxy.backends, proxy.drained), (4, drained), "{kind}");
        }
        let own = Ways { processes: true, ..Ways::default() };
        assert_eq!(ways(SutKind::Embedded, true), own);
    }

    #[test]
    fn tunnels_have_enough_ports_behind_the_proxy() {
        let plan = |protocol, connections| {
            let plan = LabPlan::new(Sut::elsewhere(SutKind::Haproxy));
            LabPlan { protocol, connections, backends: 4, ..plan }.backend_ports()
        };
        assert_eq!(plan(Protocol::Mqtt, 48_000), 4);
        assert_eq!(plan(Protocol::Mqtt, 48_001), 5);
        assert_eq!(plan(Protocol::Mqtt, 1_000_000), 84);
        assert_eq!(plan(Protocol::Http1, 1_000_000), 4);
    }

    #[test]
    fn timers_of_our_own_servers_are_known_at_what_they_are_set_to() {
        for (wait_s, timer_s) in [(3, 600), (86_400, 86_400)] {
            let longest_wait = Nanos::from_secs(wait_s);
            let servers =
                LabPlan { longest_wait, ..LabPlan::new(Sut::embedded()) }.own_servers(&[]);
            let timers = servers.timers(Owner::Backend, "backend");
            assert_eq!(servers.timeout, Nanos::from_secs(timer_s));
            assert!(timers.iter().all(|timer| timer.at == servers.timeout), "{timers:?}");
        }
    }
}
