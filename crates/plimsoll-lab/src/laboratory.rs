//! The SUT and its backends, started and watched as one.

use std::net::SocketAddr;
use std::rc::Rc;

use plimsoll_fleet::ServerGroup;
use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Awaits, KnownTimer, Owner};
use plimsoll_model::plan::{Identity, LoadPlan};
use plimsoll_probe::sampler::Role;
use plimsoll_probe::server_counters::{CounterSource, ServerCounters};
use plimsoll_probe::server_limits::ServerLimit;
use plimsoll_sys::limits;
use plimsoll_tune::doctor::PROCESS_DESCRIPTORS;

use crate::address::SutAddress;
use crate::error::LabError;
use crate::isolated::{Isolated, IsolatedHost};
use crate::mosquitto::Mosquitto;
use crate::own_servers::OwnServers;
use crate::plan::LabPlan;
use crate::running_sut::RunningSut;
use crate::sut::Sut;
use crate::watched::{HostView, ServerEnd, WatchedServer};

/// The note when our own server is tested because HAProxy is missing.
const NO_HAPROXY: &str = "HAProxy is not installed, so our own TLS server is tested; for the real \
                          one: apt-get install haproxy";

/// The note about hosts that are network namespaces, and about those that are not.
const ISOLATED: &str = "clients, SUT and backends are network namespaces joined by veth: each has \
                        addresses, ports and TCP counters of its own";
const SHARED: &str = "clients, SUT and backends share this host's loopback: TCP counters, ports and \
                      interfaces of one cannot be told from those of the others";

/// A running laboratory. Dropping it ends everything in it.
#[derive(Debug)]
pub struct Laboratory {
    // Fields are dropped in this order: the SUT before its backends.
    sut: RunningSut,
    /// None behind our own server, which answers itself.
    backends: Option<Backends>,
    backend_timers: Vec<KnownTimer>,
    at: Rc<SutAddress>,
    url: String,
    notes: Vec<String>,
}

/// What a proxy passes requests on to.
#[derive(Debug)]
enum Backends {
    Own(ServerGroup),
    Mosquitto(Mosquitto),
}

impl Backends {
    /// Where they listen.
    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Own(servers) => {
                servers.listeners().iter().map(|listener| listener.address).collect()
            }
            Self::Mosquitto(broker) => broker.addresses.clone(),
        }
    }

    fn pids(&self) -> Vec<u32> {
        match self {
            Self::Own(servers) => servers.pids(),
            Self::Mosquitto(broker) => broker.pids(),
        }
    }

    /// As notes name them.
    fn name(&self) -> String {
        let ports = self.addresses().len();
        match self {
            Self::Own(_) => format!("{ports} backends"),
            Self::Mosquitto(broker) => format!("{} on {ports} ports", broker.name),
        }
    }
}

impl Laboratory {
    /// Starts everything that `plan` names, the SUT at its address, and waits until it accepts
    /// connections.
    pub fn start(plan: &LabPlan, at: Rc<SutAddress>) -> Result<Self, LabError> {
        let (mut backends, mut backend_timers) = (None, Vec::new());
        // Before the SUT, whose configuration names their addresses.
        let host = at.isolated().map(|hosts| hosts.backends.clone());
        if let Some(path) = plan.mosquitto.as_deref().filter(|_| !plan.sut.is_embedded()) {
            backends = Some(Backends::Mosquitto(Mosquitto::start(path, plan, host.as_ref())?));
        } else if !plan.sut.is_embedded() {
            let cpus = plan.placement.as_ref().map_or(&[][..], |placement| &placement.backends);
            let fit = limits::raise_descriptor_limit().saturating_sub(PROCESS_DESCRIPTORS);
            let processes = if plan.is_tunnel() { plan.processes(fit) } else { 1 };
            let servers = OwnServers { host, processes, ..plan.own_servers(cpus) };
            backend_timers = servers.timers(Owner::Backend, "backend");
            backends =
                Some(Backends::Own(servers.start_behind(plan.backend_ports(), plan.spoken())?));
        }
        let addresses = backends.as_ref().map(Backends::addresses).unwrap_or_default();
        let none = || "no backends: the SUT answers itself".to_owned();
        let behind = backends.as_ref().map_or_else(none, Backends::name);
        let sut = match &plan.sut {
            Sut::Embedded => RunningSut::start_embedded(plan, &at)?,
            Sut::Haproxy(path) => RunningSut::start_haproxy(path, plan, &at, addresses)?,
            Sut::Nginx(path) => RunningSut::start_nginx(path, plan, &at, addresses)?,
        };
        let url = at.url(plan.protocol, plan.tls);
        let mut notes = vec![format!("SUT {} at {url}", sut.name)];
        match &plan.placement {
            Some(placement) => notes.push(placement.note(&behind)),
            None if backends.is_some() => notes.push(behind),
            None => {}
        }
        notes.push(if at.isolated().is_some() { ISOLATED } else { SHARED }.to_owned());
        if plan.sut_is_default && plan.sut.is_embedded() {
            notes.push(NO_HAPROXY.to_owned());
        }
        notes.extend(sut.notes.iter().cloned());
        Ok(Self { sut, backends, backend_timers, at, url, notes })
    }

    /// The name of the target in reports.
    pub fn name(&self) -> String {
        let before = match &self.backends {
            Some(Backends::Mosquitto(broker)) => format!(" before {}", broker.name),
            Some(Backends::Own(_)) | None => String::new(),
        };
        format!("{}{before} at {}", self.sut.name, self.url)
    }

    /// Lines for the report.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// The certificate of the SUT, which is its own root, and its key.
    pub fn identity(&self) -> &Identity {
        self.at.identity()
    }

    /// The owner of timers that the requests ask of `plimsoll serve`.
    const fn answering_owner(&self) -> Owner {
        if self.backends.is_some() { Owner::Backend } else { Owner::Sut }
    }
}

impl WatchedServer for Laboratory {
    fn pids(&self) -> Vec<u32> {
        self.sut.pids()
    }

    fn backend_pids(&self) -> Vec<u32> {
        self.backends.as_ref().map(Backends::pids).unwrap_or_default()
    }

    fn ended(&mut self) -> Option<ServerEnd> {
        self.sut.ended()
    }

    fn counters(&mut self) -> Option<ServerCounters> {
        self.sut.counters()
    }

    fn statistics(&self) -> Option<CounterSource> {
        self.sut.statistics()
    }

    fn limits(&self) -> Vec<ServerLimit> {
        self.sut.limits()
    }

    fn timers(&self, plan: &LoadPlan) -> Vec<KnownTimer> {
        let own = self.sut.timers.iter().chain(&self.backend_timers).cloned();
        own.chain(sleep_timer(plan, self.answering_owner())).collect()
    }

    fn isolated(&self) -> Option<Isolated> {
        self.at.isolated().cloned()
    }

    fn hosts(&self) -> Vec<HostView> {
        let Some(isolated) = self.at.isolated() else { return Vec::new() };
        let of = |name: &str, host: &IsolatedHost, pids: Vec<u32>, role| HostView {
            name: name.to_owned(),
            network: host.network.clone(),
            processes: pids.into_iter().map(|pid| (pid, role)).collect(),
        };
        let sut = of("sut", &isolated.sut, self.pids(), Role::Server);
        let behind = self.backends.is_some();
        let backends =
            behind.then(|| of("backends", &isolated.backends, self.backend_pids(), Role::Backend));
        [Some(sut), backends].into_iter().flatten().collect()
    }

    fn backend_is_ours(&self) -> bool {
        true
    }
}

/// The delay that the requests ask of `plimsoll serve`.
fn sleep_timer(plan: &LoadPlan, owner: Owner) -> Option<KnownTimer> {
    let headers = plan.targets.iter().flat_map(|target| &target.headers);
    let mut named = headers.filter(|(name, _)| name.eq_ignore_ascii_case("sleep-fixed"));
    Some(KnownTimer {
        name: "the header sleep-fixed".to_owned(),
        at: Nanos::from_millis(named.next()?.1.trim().parse().ok()?),
        owner,
        awaits: Awaits::Answer,
    })
}
