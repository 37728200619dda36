//! A running SUT on this host: our own server, or an installed program under a supervisor.
//!
//! `RunningSut::start` starts either; `start_proxy` prepares a scratch directory, certificate and [`ProxyPlan`], lets
//! the description of the program write its configuration, and starts its processes in batches of 16. The supervisor
//! ends them also if this process is killed. Every timeout of the proxy is 60 s longer than the longest wait, so that
//! none fires during a measurement. Start reading at `RunningSut::start`; the rest implements `WatchedServer`.

use std::net::SocketAddr;
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use plimsoll_fleet::message::{SupervisorPlan, SutStarted};
use plimsoll_fleet::{AgentCommand, ServerGroup, Supervisor};
use plimsoll_model::Nanos;
use plimsoll_model::host::LimitUse;
use plimsoll_model::plan::Identity;
use plimsoll_probe::server_counters::{CounterSource, ServerCounters};
use plimsoll_sys::private_dir;
use plimsoll_tune::proxy::unwritable;

use crate::address::SutAddress;
use crate::certificate::Certificate;
use crate::controls::{Controls, Drain, Programs};
use crate::error::{LabError, Result};
use crate::isolated::on_host;
use crate::log_receiver::LogReceiver;
use crate::plan::{CONNECTIONS_SPARE, LabPlan};
use crate::proxy_plan::ProxyPlan;
use crate::settings::ProxyConfiguration;
use crate::sut::{Prepared, Proxy, own, write};
use crate::watched::{ServerEnd, Statistics, WatchedServer};

/// Every timer of a proxy is longer than the longest wait by this, so that none fires while
/// something is measured.
const TIMEOUT_PAST_WAIT: Nanos = Nanos::from_secs(60);
/// Programs that are started at once; the supervisor's timeout is for each batch.
const STARTS_AT_ONCE: usize = 16;

/// A running SUT. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct RunningSut {
    pub(crate) started: SutStarted,
    controls: Controls,
    /// Our own server; `None` for programs under a supervisor, which the controls have.
    own: Option<ServerGroup>,
    statistics: Option<Statistics>,
    /// Ended after the programs.
    _log: Option<LogReceiver>,
}

impl RunningSut {
    /// Starts the planned SUT in front of `backends`.
    pub(crate) fn start(
        plan: &LabPlan,
        at: &SutAddress,
        backends: Vec<SocketAddr>,
    ) -> Result<Self> {
        if let Some(proxy) = plan.sut.description().proxy {
            return Self::start_proxy(proxy, plan, at, backends);
        }
        let (servers, started) = own::start(plan, at)?;
        let controls = Controls::of_processes(servers.pids());
        Ok(Self { started, controls, own: Some(servers), statistics: None, _log: None })
    }

    fn start_proxy(
        proxy: &dyn Proxy,
        plan: &LabPlan,
        at: &SutAddress,
        backends: Vec<SocketAddr>,
    ) -> Result<Self> {
        let scratch = private_dir::unused_path(&format!("plimsoll-lab-{}", at.listen.port()));
        if let Some(character) = unwritable(&scratch) {
            let program = plan.sut.kind.title();
            return Err(LabError::Unwritable { path: scratch, character, program });
        }
        let keep = plan.keep_config;
        let supervised = SupervisorPlan {
            scratch_dir: Some(scratch.clone()),
            keep,
            ..SupervisorPlan::default()
        };
        let host = at.isolated.as_ref().map(|hosts| &hosts.sut);
        let network = host.map(|host| host.network.clone());
        let mut supervisor = Supervisor::start(&AgentCommand::supervisor(), network, supervised)?;
        let cpus = plan.sut_cpus().to_vec();
        let behind = backends.len() as u32;
        let certificate = scratch.join("certificate.pem");
        let proxy_plan = ProxyPlan {
            listen: at.listen,
            backends,
            certificate_pem_path: certificate.clone(),
            connections_max: plan.connections + CONNECTIONS_SPARE,
            timeout: plan.longest_wait + TIMEOUT_PAST_WAIT,
            threads: plan.settings.threads.unwrap_or_else(|| cpus.len().max(1) as u32),
            cpus,
            tls_sessions_max: None,
            protocol: plan.protocol,
            tls: plan.tls,
            resumes: plan.resumes,
            stats_socket: scratch.join("stats.sock"),
            stub_status: proxy.has_statistics(&plan.sut.program),
            settings: plan.settings.clone(),
            scratch: scratch.clone(),
        };
        let is_logging =
            plan.settings.logs || plan.settings.configuration != ProxyConfiguration::Laboratory;
        let log = (is_logging && proxy.logs_to_socket())
            .then(|| {
                let path = proxy_plan.log();
                let cpus = plan.placement.as_ref().map(|placement| placement.clients.clone());
                LogReceiver::start(&path, cpus.unwrap_or_default())
                    .map_err(|source| LabError::Write { path, source })
            })
            .transpose()?;
        let Identity { chain_pem, key_pem } = &at.identity;
        let pem = format!("{chain_pem}{key_pem}");
        write(&proxy_plan.certificate_pem_path, &pem)?;
        // nginx binds its port when it checks a configuration.
        let prepared = on_host(host, || proxy.prepare(&plan.sut.program, plan, proxy_plan))??;
        if !proxy.shares_port(&plan.settings.configuration) {
            at.admit_any()?;
        }
        let Prepared { name, children, mut notes, timers, statistics, sockets } = prepared;
        for batch in children.chunks(STARTS_AT_ONCE) {
            supervisor.start_programs(batch.to_vec())?;
        }
        if keep {
            notes.push(format!("the generated configuration is kept in {}", scratch.display()));
        }
        let way = plan.sut.description().reload;
        let programs = Programs {
            session: supervisor.pid(),
            supervisor: Arc::new(Mutex::new(supervisor)),
            reload: way
                .filter(|_| plan.settings.reloads)
                .map(|way| way(&plan.sut.program, &scratch)),
        };
        let drain = Drain { sockets, servers: behind, drained: AtomicU32::new(0) };
        let controls = Controls {
            programs: Some(programs),
            drain: (!drain.sockets.is_empty()).then(|| Arc::new(drain)),
            certificate: Certificate::of(at, certificate).filter(|_| plan.tls).map(Arc::new),
            ..Controls::default()
        };
        let started = SutStarted { name, notes, timers };
        let statistics = statistics.map(Statistics::new);
        Ok(Self { started, controls, own: None, statistics, _log: log })
    }
}

impl WatchedServer for RunningSut {
    fn controls(&self) -> Controls {
        self.controls.clone()
    }

    fn pids(&self) -> Vec<u32> {
        self.controls.pids()
    }

    fn ended(&mut self) -> Option<ServerEnd> {
        if let Some(servers) = &mut self.own {
            let lost = servers.poll_status(Duration::ZERO).lost;
            return lost.into_iter().next().map(ServerEnd::Server);
        }
        // While it is restarted, nothing is known.
        let mut supervisor = self.controls.programs.as_ref()?.supervisor.try_lock().ok()?;
        match supervisor.poll_exited() {
            Ok(exit) => {
                exit.map(|exit| ServerEnd::Server(format!("{} ended: {}", exit.name, exit.reason)))
            }
            Err(error) => Some(ServerEnd::Laboratory(error.to_string())),
        }
    }

    fn statistics(&self) -> Option<CounterSource> {
        self.statistics.as_ref().map(|statistics| statistics.source.clone())
    }

    fn counters(&mut self) -> Option<ServerCounters> {
        match &mut self.own {
            Some(servers) => servers.count().map(|seen| ServerCounters {
                requests: seen.requests_total,
                connections: seen.conns_total,
                ..ServerCounters::default()
            }),
            None => self.statistics.as_mut()?.read(),
        }
    }

    fn limits(&self) -> Vec<LimitUse> {
        self.statistics.as_ref().map(Statistics::limits).unwrap_or_default()
    }
}
