//! The SUT and its backends, started and watched as one.
//!
//! [`Laboratory::start`] starts the backends first, because the configuration of the SUT names their addresses, then
//! the SUT; with other machines in the plan it delegates to `FarSut`. The fields of [`Laboratory`] are dropped in the
//! order SUT, backends, which ends everything. The implementation of `WatchedServer` forwards to the SUT and adds
//! backends, isolated hosts and timers. Start reading at `Laboratory::start_here`.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use plimsoll_fleet::message::SutStarted;
use plimsoll_fleet::{ReadingSink, ServerGroup};
use plimsoll_model::Nanos;
use plimsoll_model::cliff::{Awaits, KnownTimer, Owner};
use plimsoll_model::host::{LimitUse, Role};
use plimsoll_model::plan::{Identity, LoadPlan};
use plimsoll_probe::server_counters::{CounterSource, ServerCounters};
use plimsoll_sys::{affinity, limits};
use plimsoll_tune::doctor::PROCESS_DESCRIPTORS;

use crate::address::SutAddress;
use crate::backend_pool::BackendPool;
use crate::controls::Controls;
use crate::error::Result;
use crate::far_sut::FarSut;
use crate::isolated::{Isolated, IsolatedHost};
use crate::mosquitto::Mosquitto;
use crate::own_servers::OwnServers;
use crate::plan::{FarHosts, LabPlan};
use crate::running_sut::RunningSut;
use crate::watched::{HostView, ServerEnd, WatchedServer};

/// The note when our own server is tested because HAProxy is missing.
const NO_HAPROXY: &str = "HAProxy is not installed, so our own TLS server is tested; for the real \
                          one: apt-get install haproxy";

/// The note about hosts that are network namespaces, and about those that are not.
const ISOLATED: &str = "clients, SUT and backends are network namespaces joined by veth: each has \
                        addresses, ports and TCP counters of its own";
const SHARED: &str = "clients, SUT and backends share this host's loopback: TCP counters, ports and \
                      interfaces of one cannot be distinguished from the others'";

/// A running laboratory. Dropping it ends everything in it.
pub struct Laboratory {
    /// Name of the target in reports.
    pub name: String,
    /// Lines for the report.
    pub notes: Vec<String>,
    // Fields are dropped in this order: the SUT before its backends.
    sut: Box<dyn WatchedServer>,
    /// Servers on this machine; none behind our own server, which answers itself, and behind a SUT elsewhere.
    backends: Option<Backends>,
    timers: Vec<KnownTimer>,
    /// The owner of timers that the requests ask of `plimsoll serve`.
    answering: Owner,
    at: Rc<SutAddress>,
}

/// The servers behind a proxy.
#[derive(Debug)]
enum Backends {
    Own(ServerGroup),
    /// Each can end, and start again.
    Single(Arc<BackendPool>),
    Mosquitto(Mosquitto),
}

impl Backends {
    /// Returns their listening addresses.
    fn addresses(&self) -> Vec<SocketAddr> {
        match self {
            Self::Own(servers) => {
                servers.listeners().iter().map(|listener| listener.address).collect()
            }
            Self::Single(pool) => pool.addresses(),
            Self::Mosquitto(broker) => broker.addresses.clone(),
        }
    }

    fn pids(&self) -> Vec<u32> {
        match self {
            Self::Own(servers) => servers.pids(),
            Self::Single(pool) => pool.pids(),
            Self::Mosquitto(broker) => broker.pids(),
        }
    }

    /// Returns the name of the backends in notes.
    fn name(&self) -> String {
        let ports = self.addresses().len();
        match self {
            Self::Own(_) => format!("{ports} backends"),
            Self::Single(_) => format!("{ports} backends, each a process of its own"),
            Self::Mosquitto(broker) => format!("{} on {ports} ports", broker.name),
        }
    }
}

impl Laboratory {
    /// Starts everything that `plan` names, the SUT at its address, and waits until it accepts
    /// connections.
    pub fn start(plan: &LabPlan, at: Rc<SutAddress>) -> Result<Self> {
        match &plan.far {
            Some(far) => Self::start_there(plan, far, at),
            None => Self::start_here(plan, at),
        }
    }

    fn start_there(plan: &LabPlan, far: &FarHosts, at: Rc<SutAddress>) -> Result<Self> {
        let sut = FarSut::start(plan, far, &at)?;
        let SutStarted { name, mut notes, timers } = sut.started.clone();
        let name = format!("{name} at {}", at.url(plan.protocol, plan.tls));
        notes.insert(0, format!("SUT {name}"));
        let answering = answering(plan);
        Ok(Self { name, notes, sut: Box::new(sut), backends: None, timers, answering, at })
    }

    fn start_here(plan: &LabPlan, at: Rc<SutAddress>) -> Result<Self> {
        // All roles alike, and what measures the host's speed beside them: what else runs on this host displaces
        // them less.
        let nice = affinity::prefer_process();
        let (mut backends, mut backend_timers) = (None, Vec::new());
        // Before the SUT, whose configuration names their addresses.
        let host = at.isolated.as_ref().map(|hosts| hosts.backends.clone());
        let is_proxy = plan.sut.description().is_proxy();
        if let Some(path) = plan.mosquitto.as_deref().filter(|_| is_proxy) {
            backends = Some(Backends::Mosquitto(Mosquitto::start(path, plan, host.as_ref())?));
        } else if is_proxy {
            let cpus = plan.placement.as_ref().map_or(&[][..], |placement| &placement.backends);
            let fit = limits::raise_descriptor_limit().saturating_sub(PROCESS_DESCRIPTORS);
            let each_ends = plan.settings.backends_end;
            let processes = if plan.is_tunnel() && !each_ends { plan.processes(fit) } else { 1 };
            let servers = OwnServers { host, processes, ..plan.own_servers(cpus) };
            backend_timers = servers.timers(Owner::Backend, "backend");
            let (ports, spoken) = (plan.backend_ports(), plan.spoken());
            backends = Some(match each_ends {
                true => Backends::Single(Arc::new(BackendPool::start(servers, ports, spoken)?)),
                false => Backends::Own(servers.start_behind(ports, spoken)?),
            });
        }
        let addresses = backends.as_ref().map(Backends::addresses).unwrap_or_default();
        let none = || "no backends: the SUT answers itself".to_owned();
        let behind = backends.as_ref().map_or_else(none, Backends::name);
        let sut = RunningSut::start(plan, &at, addresses)?;
        let SutStarted { name, notes: more, mut timers } = sut.started.clone();
        let url = at.url(plan.protocol, plan.tls);
        let mut notes = vec![format!("SUT {name} at {url}")];
        match &plan.placement {
            Some(placement) => notes.push(placement.note(&behind)),
            None if backends.is_some() => notes.push(behind),
            None => {}
        }
        notes.push(if at.isolated.is_some() { ISOLATED } else { SHARED }.to_owned());
        if nice < 0 {
            notes.push(format!(
                "clients, SUT and backends run at nice {nice}, before other work on this host"
            ));
        }
        if plan.sut_is_default && !is_proxy {
            notes.push(NO_HAPROXY.to_owned());
        }
        notes.extend(more);
        let name = match &backends {
            Some(Backends::Mosquitto(broker)) => format!("{name} before {} at {url}", broker.name),
            _ => format!("{name} at {url}"),
        };
        timers.extend(backend_timers);
        let answering = answering(plan);
        Ok(Self { name, notes, sut: Box::new(sut), backends, timers, answering, at })
    }

    /// Returns the certificate of the SUT, which is its own root, and its key.
    pub fn identity(&self) -> &Identity {
        &self.at.identity
    }
}

impl WatchedServer for Laboratory {
    fn pids(&self) -> Vec<u32> {
        self.sut.pids()
    }

    fn controls(&self) -> Controls {
        let backends = match &self.backends {
            Some(Backends::Single(pool)) => Some(Arc::clone(pool)),
            _ => None,
        };
        Controls { backends, link: self.at.isolated.clone(), ..self.sut.controls() }
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

    fn limits(&self) -> Vec<LimitUse> {
        self.sut.limits()
    }

    fn watch(&self, sink: &ReadingSink) {
        self.sut.watch(sink);
    }

    fn timers(&self, plan: &LoadPlan) -> Vec<KnownTimer> {
        let own = self.timers.iter().cloned();
        own.chain(sleep_timer(plan, self.answering)).collect()
    }

    fn isolated(&self) -> Option<Isolated> {
        self.at.isolated.clone()
    }

    fn hosts(&self) -> Vec<HostView> {
        let Some(isolated) = &self.at.isolated else { return Vec::new() };
        let of = |name: &str, host: &IsolatedHost, pids: Vec<u32>, role| HostView {
            name: name.to_owned(),
            network: host.network.clone(),
            processes: pids.into_iter().map(|pid| (pid, role)).collect(),
        };
        let sut = of("sut", &isolated.sut, self.pids(), Role::Server);
        let behind = !self.backend_pids().is_empty();
        let backends =
            behind.then(|| of("backends", &isolated.backends, self.backend_pids(), Role::Backend));
        [Some(sut), backends].into_iter().flatten().collect()
    }

    fn backend_is_ours(&self) -> bool {
        true
    }
}

/// Returns the owner of timers that the requests ask of `plimsoll serve`.
fn answering(plan: &LabPlan) -> Owner {
    if plan.sut.description().is_proxy() { Owner::Backend } else { Owner::Sut }
}

/// Returns the delay that the requests ask of `plimsoll serve`.
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
