//! Our own servers as processes: backends, the embedded SUT, the server of a reference run.

use std::net::SocketAddr;

use plimsoll_fleet::{AgentSpec, ServerGroup};
use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Awaits, KnownTimer, Owner};
use plimsoll_model::plan::{DeliveryFaults, Identity, Listener, ServePlan, Spoken, TlsState};

use crate::error::Result;
use crate::isolated::{IsolatedHost, ip_of};

/// The default of every timer of our own servers.
pub(crate) const TIMEOUT: Nanos = Nanos::from_secs(600);

/// Settings of our own servers.
#[derive(Clone, Debug)]
pub struct OwnServers {
    /// Processes that share the ports.
    pub processes: u32,
    /// CPUs they are pinned to, a thread on each; empty pins nothing.
    pub cpus: Vec<u32>,
    /// Every timer.
    pub timeout: Nanos,
    /// State that is kept per TLS connection.
    pub tls_state: TlsState,
    /// Host of the servers; `None` is this host, on loopback.
    pub host: Option<IsolatedHost>,
}

impl OwnServers {
    /// Creates the settings of one process with a thread on each of `cpus`, and timers longer than any wait of a
    /// search.
    pub fn new(cpus: &[u32]) -> Self {
        Self {
            processes: 1,
            cpus: cpus.to_vec(),
            timeout: TIMEOUT,
            tls_state: TlsState::Compact,
            host: None,
        }
    }

    /// Starts them on free ports: one for each entry of `with_tls`, which says whether
    /// it speaks TLS.
    pub fn start(&self, with_tls: &[bool], identity: Option<Identity>) -> Result<ServerGroup> {
        let listener =
            |tls: &bool| Listener { address: self.any_port(), tls: *tls, spoken: Spoken::Http };
        self.start_at(with_tls.iter().map(listener).collect(), identity)
    }

    /// Starts backends without TLS on `ports` free ports.
    pub(crate) fn start_behind(&self, ports: u64, spoken: Spoken) -> Result<ServerGroup> {
        let listener = |_| Listener { address: self.any_port(), tls: false, spoken };
        self.start_at((0..ports).map(listener).collect(), None)
    }

    fn any_port(&self) -> SocketAddr {
        (ip_of(self.host.as_ref()), 0).into()
    }

    pub(crate) fn start_at(
        &self,
        listeners: Vec<Listener>,
        identity: Option<Identity>,
    ) -> Result<ServerGroup> {
        let plan = self.serve_plan(listeners, identity)?;
        let cpus = if self.cpus.is_empty() { Vec::new() } else { vec![self.cpus.clone()] };
        let network = self.host.as_ref().map(|host| host.network.clone());
        let spec = AgentSpec { cpus, network, ..AgentSpec::new(self.processes) };
        Ok(ServerGroup::start(&spec, &plan)?)
    }

    /// Returns the plan of each server.
    pub(crate) fn serve_plan(
        &self,
        listeners: Vec<Listener>,
        identity: Option<Identity>,
    ) -> Result<ServePlan> {
        // The kernel may give the next connection of a session to another process.
        let shares_tickets = identity.is_some() && self.processes > 1;
        Ok(ServePlan {
            listeners,
            identity,
            ticket_key: shares_tickets.then(plimsoll_tls::new_ticket_key).transpose()?,
            threads: self.cpus.len().max(1) as u32,
            cpus: self.cpus.clone(),
            tls_state: self.tls_state,
            statsd: None,
            seed: 1,
            request_timeout: self.timeout,
            idle_timeout: self.timeout,
            acknowledgement_delay: Nanos::ZERO,
            receive_maximum: u16::MAX,
            delivery_faults: DeliveryFaults::default(),
            accept_proxy: false,
        })
    }

    /// Returns the timers of the servers.
    pub(crate) fn timers(&self, owner: Owner, name: &str) -> Vec<KnownTimer> {
        [("--request-timeout", Awaits::Request), ("--idle-timeout", Awaits::NextRequest)]
            .map(|(flag, awaits)| KnownTimer {
                name: format!("{name} {flag}"),
                at: self.timeout,
                owner,
                awaits,
            })
            .to_vec()
    }
}
