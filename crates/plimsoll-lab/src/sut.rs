//! The system under test (SUT): our own server, or HAProxy or nginx in the care of a warden, which
//! ends it in every case.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use plimsoll_fleet::message::GuardPlan;
use plimsoll_fleet::{AgentCommand, ServerGroup, Warden};
use plimsoll_model::Nanos;
use plimsoll_model::cliff::{KnownTimer, Owner};
use plimsoll_model::plan::{Identity, Listener};
use plimsoll_probe::allowed::Allowance;
use plimsoll_probe::counted::Counted;
use plimsoll_sys::{limits, process};
use plimsoll_tls::KeyKind;
use plimsoll_tune::doctor::PROCESS_DESCRIPTORS;

use crate::address::SutAddress;
use crate::error::LabError;
use crate::own_servers::OwnServers;
use crate::plan::{CONNECTIONS_SPARE, LabPlan};
use crate::program::write;
use crate::proxy::Prepared;
use crate::proxy_plan::ProxyPlan;
use crate::watched::{ServerEnd, Statistics};
use crate::{haproxy, nginx, proxy};

/// Every timer of a proxy outlasts the longest wait by this, so that none of them fires inside what
/// is measured.
const TIMEOUT_PAST_WAIT: Nanos = Nanos::from_secs(60);
/// Programs that are started at once; each batch has the whole time limit of the warden.
const STARTS_AT_ONCE: usize = 16;

/// The program under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sut {
    /// Our own TLS server, which answers itself.
    Embedded,
    /// HAProxy at this path.
    Haproxy(PathBuf),
    /// nginx at this path.
    Nginx(PathBuf),
}

impl Sut {
    /// The HAProxy that is named, or else the installed one.
    pub fn haproxy(named: Option<&Path>) -> Result<Self, LabError> {
        let missing = LabError::NotInstalled { program: "haproxy", package: "haproxy" };
        haproxy::find(named).map(Self::Haproxy).ok_or(missing)
    }

    /// The nginx that is named, or else the installed one.
    pub fn nginx(named: Option<&Path>) -> Result<Self, LabError> {
        let missing = LabError::NotInstalled { program: "nginx", package: "nginx-light" };
        nginx::find(named).map(Self::Nginx).ok_or(missing)
    }

    /// HAProxy where it is installed, else our own server.
    pub fn installed() -> Self {
        haproxy::find(None).map_or(Self::Embedded, Self::Haproxy)
    }

    /// Whether our own server is the SUT.
    pub const fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded)
    }

    /// The key of the certificate of a SUT whose rate is searched.
    ///
    /// Our own server costs what our own client costs, request for request (6.7 us each over TLS,
    /// see docs/journal), so that on one core each the client would be the limit. An RSA handshake
    /// costs the server twice what it costs the client; HAProxy and nginx need no such help.
    pub const fn key_kind(&self) -> KeyKind {
        if self.is_embedded() { KeyKind::Rsa2048 } else { KeyKind::EcdsaP256 }
    }
}

/// `haproxy 2.6`, or `3 x haproxy 2.6`.
pub(crate) fn several(processes: u32, name: &str) -> String {
    if processes == 1 { name.to_owned() } else { format!("{processes} x {name}") }
}

/// A running SUT. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct RunningSut {
    /// Program and version.
    pub(crate) name: String,
    /// Lines for the reader.
    pub(crate) notes: Vec<String>,
    /// Its own timers.
    pub(crate) timers: Vec<KnownTimer>,
    processes: SutProcesses,
}

/// What keeps a SUT running.
#[derive(Debug)]
enum SutProcesses {
    Own(ServerGroup),
    Guarded { warden: Warden, statistics: Option<Statistics> },
}

impl RunningSut {
    /// Starts our own server.
    pub(crate) fn start_embedded(plan: &LabPlan, at: &SutAddress) -> Result<Self, LabError> {
        let fit = limits::raise_descriptor_limit().saturating_sub(PROCESS_DESCRIPTORS);
        let own = OwnServers {
            processes: plan.processes(fit),
            tls_state: plan.tls_state,
            ..plan.own_servers(plan.sut_cpus())
        };
        let listener = Listener { address: at.listen, tls: plan.tls };
        let servers = own.start_at(vec![listener], Some(at.identity().clone()))?;
        Ok(Self {
            name: several(own.processes, "plimsoll serve (embedded)"),
            notes: Vec::new(),
            timers: own.timers(Owner::Sut, "plimsoll serve"),
            processes: SutProcesses::Own(servers),
        })
    }

    /// Starts HAProxy, at `path`, in front of `backends`.
    pub(crate) fn start_haproxy(
        path: &Path,
        plan: &LabPlan,
        at: &SutAddress,
        backends: Vec<SocketAddr>,
    ) -> Result<Self, LabError> {
        Self::start_proxy(plan, at, backends, |of| proxy::prepare_haproxy(path, plan, of))
    }

    /// Starts nginx, at `path`, in front of `backends`.
    pub(crate) fn start_nginx(
        path: &Path,
        plan: &LabPlan,
        at: &SutAddress,
        backends: Vec<SocketAddr>,
    ) -> Result<Self, LabError> {
        Self::start_proxy(plan, at, backends, |of| proxy::prepare_nginx(path, plan, of))
    }

    fn start_proxy(
        plan: &LabPlan,
        at: &SutAddress,
        backends: Vec<SocketAddr>,
        prepare: impl FnOnce(&ProxyPlan) -> Result<Prepared, LabError>,
    ) -> Result<Self, LabError> {
        let scratch = std::env::temp_dir().join(format!("plimsoll-lab-{}", std::process::id()));
        let keep = plan.keep_config;
        let guard = GuardPlan { scratch_dir: Some(scratch.clone()), keep, children: vec![] };
        let mut warden = Warden::start(&AgentCommand::this_program(), guard)?;
        let cpus = plan.sut_cpus().to_vec();
        let proxy_plan = ProxyPlan {
            listen: at.listen,
            backends,
            certificate_pem_path: scratch.join("certificate.pem"),
            connections_max: plan.connections + CONNECTIONS_SPARE,
            timeout: plan.longest_wait + TIMEOUT_PAST_WAIT,
            threads: cpus.len().max(1) as u32,
            cpus,
            tls_sessions_max: None,
            tls: plan.tls,
            resumes: plan.resumes,
            stats_socket: scratch.join("stats.sock"),
            stub_status: false,
            scratch: scratch.clone(),
        };
        let Identity { chain_pem, key_pem } = at.identity();
        let pem = format!("{chain_pem}{key_pem}");
        write(&proxy_plan.certificate_pem_path, &pem)?;
        let Prepared { name, children, mut notes, timers, statistics } = prepare(&proxy_plan)?;
        for batch in children.chunks(STARTS_AT_ONCE) {
            warden.guard(batch.to_vec())?;
        }
        if keep {
            notes.push(format!("the generated configuration stays in {}", scratch.display()));
        }
        let statistics = statistics.map(Statistics::new);
        let processes = SutProcesses::Guarded { warden, statistics };
        Ok(Self { name, notes, timers, processes })
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        match &self.processes {
            SutProcesses::Own(servers) => servers.pids(),
            // nginx's workers are children of its master: all of them are in the session.
            SutProcesses::Guarded { warden, .. } => {
                let mut pids = process::session_members(warden.pid()).unwrap_or_default();
                pids.retain(|pid| *pid != warden.pid());
                pids
            }
        }
    }

    pub(crate) fn ended(&mut self) -> Option<ServerEnd> {
        match &mut self.processes {
            SutProcesses::Own(servers) => {
                servers.poll_status(Duration::ZERO).lost.first().cloned().map(ServerEnd::Server)
            }
            SutProcesses::Guarded { warden, .. } => match warden.poll_exited() {
                Ok(None) => None,
                Ok(Some(exit)) => {
                    Some(ServerEnd::Server(format!("{} ended: {}", exit.name, exit.reason)))
                }
                Err(error) => Some(ServerEnd::Laboratory(error.to_string())),
            },
        }
    }

    pub(crate) fn counted(&mut self) -> Option<Counted> {
        match &mut self.processes {
            SutProcesses::Own(servers) => servers.count().map(|seen| Counted {
                requests: seen.requests_total,
                connections: seen.conns_total,
            }),
            SutProcesses::Guarded { statistics, .. } => statistics.as_mut()?.read(),
        }
    }

    pub(crate) fn allowances(&self) -> Vec<Allowance> {
        match &self.processes {
            SutProcesses::Guarded { statistics: Some(statistics), .. } => statistics.allowances(),
            SutProcesses::Guarded { .. } | SutProcesses::Own(_) => Vec::new(),
        }
    }
}
