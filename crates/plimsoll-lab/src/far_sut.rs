//! The SUT and its backends on other machines.
//!
//! `FarSut::start` connects to the agents, starts the backends on their hosts (or beside the SUT, with half of its
//! CPUs), and sends the SUT's agent a `SutPlan`; a SUT is named by kind, never by path. Host 0 is the SUT's. The
//! implementation of `WatchedServer` reads the status that the agents report: the loss of a host is a fault of the
//! laboratory, the end of the server is not. Start reading at `FarSut::start`.

use std::net::SocketAddr;

use plimsoll_fleet::coordinator::FarServers;
use plimsoll_fleet::message::{SutPlan, SutStarted};
use plimsoll_fleet::{FleetError, ReadingSink};
use plimsoll_model::cliff::Owner;
use plimsoll_model::host::LimitUse;
use plimsoll_model::plan::{Listener, ServePlan};
use plimsoll_probe::server_counters::ServerCounters;
use plimsoll_tune::doctor::PROCESS_DESCRIPTORS;

use crate::address::SutAddress;
use crate::error::Result;
use crate::own_servers::OwnServers;
use crate::plan::{FarHosts, LabPlan};
use crate::watched::{ServerEnd, WatchedServer};

/// The number of the SUT's host.
const SUT: usize = 0;

/// A running SUT and its backends on other machines. Dropping it ends them.
#[derive(Debug)]
pub(crate) struct FarSut {
    servers: FarServers,
    /// Program and host, with the notes and timers of the backends, too.
    pub(crate) started: SutStarted,
}

impl FarSut {
    /// Starts the agents, the backends, and the SUT in front of them.
    pub(crate) fn start(plan: &LabPlan, far: &FarHosts, at: &SutAddress) -> Result<Self> {
        let mut servers = FarServers::start(&far.hosts)?;
        let mut notes = servers.take_notes();
        let own = plan.own_servers(&[]);
        let (mut backends, mut backend_timers) = (Vec::new(), Vec::new());
        if plan.sut.description().is_proxy() {
            backends = start_backends(plan, far, at, &own, &mut servers)?;
            backend_timers = own.timers(Owner::Backend, "backend");
            notes.push(place_of(backends.len(), far, &servers));
        }
        let mut started = servers.start_sut(SUT, sut_plan(plan, far, at, backends))?;
        started.name = format!("{} on {}", started.name, servers.name(SUT));
        started.notes = [notes, started.notes].concat();
        started.timers.extend(backend_timers);
        Ok(Self { servers, started })
    }
}

impl WatchedServer for FarSut {
    /// Asks the host for the state of the server, because a server that has died loses its connections before its host
    /// reports it. A host that is lost is no fault of the server.
    fn ended(&mut self) -> Option<ServerEnd> {
        if self.servers.lost().is_empty() {
            self.servers.count_sut(SUT);
        }
        let lost = self.servers.lost().first().cloned().map(ServerEnd::Laboratory);
        lost.or_else(|| self.servers.status().ended.clone().map(ServerEnd::Server))
    }

    fn counters(&mut self) -> Option<ServerCounters> {
        let is_answered = self.servers.count_sut(SUT);
        let counted = self.servers.status().counted.filter(|_| is_answered);
        let (requests, incomplete, connections) = counted?;
        Some(ServerCounters { requests, incomplete, connections, ..ServerCounters::default() })
    }

    fn limits(&self) -> Vec<LimitUse> {
        self.servers.status().limits.clone()
    }

    fn watch(&self, sink: &ReadingSink) {
        // The loss of an agent is reported elsewhere.
        let _ = self.servers.watch(sink.clone());
    }
}

/// Starts backends on their hosts, or on the SUT's; returns where they listen.
fn start_backends(
    plan: &LabPlan,
    far: &FarHosts,
    at: &SutAddress,
    own: &OwnServers,
    servers: &mut FarServers,
) -> Result<Vec<SocketAddr>> {
    let hosts: Vec<usize> = match far.hosts.hosts.len() {
        0 | 1 => vec![SUT],
        count => (1..count).collect(),
    };
    let count = hosts.len() as u64;
    let ports = plan.backend_ports().max(count);
    check_files(plan, count, servers)?;
    let mut addresses = Vec::new();
    for (position, index) in hosts.into_iter().enumerate() {
        let is_beside = index == SUT;
        let ip = if is_beside { at.listen.ip() } else { servers.address(index, at.listen)? };
        let listener = Listener { address: (ip, 0).into(), tls: false, spoken: plan.spoken() };
        let share = ports / count + u64::from((position as u64) < ports % count);
        let listeners = (0..share).map(|_| listener).collect();
        // The SUT needs the other half.
        let cpus = servers.cpus(index);
        let threads = if is_beside { (cpus / 2).max(1) } else { cpus };
        let serve = ServePlan { threads, ..own.serve_plan(listeners, None)? };
        let listening = servers.serve(index, serve)?;
        addresses.extend(listening.iter().map(|listener| listener.address));
    }
    Ok(addresses)
}

/// Checks the limit of open files: each host has one process of backends, which holds all connections that a proxy
/// passes on.
fn check_files(plan: &LabPlan, hosts: u64, servers: &FarServers) -> Result<()> {
    let needed = plan.connections.div_ceil(hosts) + PROCESS_DESCRIPTORS;
    let have = servers.descriptors_max();
    if plan.is_tunnel() && needed > have {
        let lines = vec![format!(
            "the backends need {needed} open files on each host, and a process may open {have}; name more hosts with \
             --backends-on"
        )];
        return Err(FleetError::Hosts { lines }.into());
    }
    Ok(())
}

/// Returns the place of the backends, for the report.
fn place_of(count: usize, far: &FarHosts, servers: &FarServers) -> String {
    match far.hosts.hosts.len() {
        0 | 1 => format!(
            "{count} backends on {}, beside the SUT: its CPUs and its network are theirs, too",
            servers.name(SUT)
        ),
        hosts => {
            let names: Vec<_> = (1..hosts).map(|index| servers.name(index)).collect();
            format!("{count} backends on {}", names.join(", "))
        }
    }
}

fn sut_plan(plan: &LabPlan, far: &FarHosts, at: &SutAddress, backends: Vec<SocketAddr>) -> SutPlan {
    SutPlan {
        kind: plan.sut.kind,
        listen: at.listen,
        identity: at.identity.clone(),
        backends,
        connections: plan.connections,
        longest_wait: plan.longest_wait,
        tls_state: plan.tls_state,
        protocol: plan.protocol,
        tls: plan.tls,
        resumes: plan.resumes,
        keep_config: plan.keep_config,
        is_pinned: far.pins_sut,
    }
}
