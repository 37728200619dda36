//! The system under test of a laboratory: our own server, or a real HAProxy or nginx in the care
//! of a warden, which ends it in every case.

use std::cell::RefCell;
use std::fs;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::path::Path;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Duration;

use plimsoll_fleet::AgentCommand;
use plimsoll_fleet::ServerGroup;
use plimsoll_fleet::Warden;
use plimsoll_fleet::message::GuardPlan;
use plimsoll_fleet::message::GuardedChild;
use plimsoll_fleet::message::Readiness;
use plimsoll_model::Nanos;
use plimsoll_model::cliff::KnownTimer;
use plimsoll_model::cliff::Owner;
use plimsoll_model::plan::Identity;
use plimsoll_model::plan::Listener;
use plimsoll_sys::limits;
use plimsoll_sys::process;
use plimsoll_tune::ProxyPlan;
use plimsoll_tune::haproxy;
use plimsoll_tune::nginx;

use crate::commands::lab;
use crate::commands::search::SutWatch;
use crate::exit::Stop;
use crate::hosts::fleet_stop;
use crate::plan::lab::LabJob;
use crate::plan::lab::Sut;

/// Every timer of the proxy outlasts the linger by this, so that none of them fires inside what
/// is measured.
const TIMEOUT_PAST_LINGER: Nanos = Nanos::from_secs(60);
/// Connections beyond the load's own: health checks of the curious, the next trial's first ones
/// while the last trial's are being closed.
const CONNECTIONS_SPARE: u64 = 100;

/// What is to be started.
pub(super) enum Program {
    /// Our own TLS server.
    Embedded,
    /// HAProxy at this path.
    Haproxy(PathBuf),
    /// nginx at this path.
    Nginx(PathBuf),
}

/// Finds the program that the job asks for.
pub(super) fn program(job: &LabJob) -> Result<Program, Stop> {
    let missing = |name: &str, package: &str| {
        Stop::CannotRun(format!(
            "{name} is not installed; install it with apt-get install {package}, name it with \
             --{name} PATH, or use --sut embedded"
        ))
    };
    match job.sut {
        Sut::Embedded => Ok(Program::Embedded),
        Sut::Haproxy => haproxy::find(job.haproxy.as_deref())
            .map(Program::Haproxy)
            .ok_or_else(|| missing("haproxy", "haproxy")),
        Sut::Nginx => nginx::find(job.nginx.as_deref())
            .map(Program::Nginx)
            .ok_or_else(|| missing("nginx", "nginx-light")),
        Sut::Auto => Ok(haproxy::find(None).map_or(Program::Embedded, Program::Haproxy)),
    }
}

/// Whoever keeps the SUT running.
enum Keeper {
    Servers(ServerGroup),
    Warden(Warden),
}

/// A running SUT.
pub(super) struct Started {
    /// Where TLS clients connect.
    pub(super) address: SocketAddr,
    /// Program and version.
    pub(super) name: String,
    /// A line for the reader.
    pub(super) note: Option<String>,
    /// Its timers.
    timers: Vec<KnownTimer>,
    keeper: Keeper,
}

impl Started {
    /// What the search may know of it; the SUT ends when this is dropped.
    pub(super) fn into_watch(self) -> SutWatch {
        let keeper = Rc::new(RefCell::new(self.keeper));
        let seen = Rc::clone(&keeper);
        SutWatch {
            timers: self.timers,
            backend_is_ours: true,
            pids: Box::new(move || match &*seen.borrow() {
                Keeper::Servers(servers) => servers.pids(),
                // nginx's workers are children of its master: all of them are in the session.
                Keeper::Warden(warden) => {
                    let mut pids = process::session_members(warden.pid()).unwrap_or_default();
                    pids.retain(|pid| *pid != warden.pid());
                    pids
                }
            }),
            ended: Box::new(move || match &mut *keeper.borrow_mut() {
                Keeper::Servers(servers) => {
                    servers.poll_status(Duration::ZERO).lost.first().cloned()
                }
                Keeper::Warden(warden) => match warden.poll_exited() {
                    Ok(None) => None,
                    Ok(Some(exit)) => Some(format!("{} ended: {}", exit.name, exit.reason)),
                    Err(error) => Some(error.to_string()),
                },
            }),
        }
    }
}

/// Starts our own TLS server.
pub(super) fn start_embedded(identity: &Identity, cpus: &[u32]) -> Result<Started, Stop> {
    let listener = Listener { address: ([127, 0, 0, 1], 0).into(), tls: true };
    let servers = lab::start_servers(vec![listener], Some(identity.clone()), cpus)?;
    let address = servers.listeners().first().map(|listener| listener.address);
    let address = address.ok_or_else(|| Stop::CannotRun("the server has no port".to_owned()))?;
    Ok(Started {
        address,
        name: "plimsoll serve (embedded)".to_owned(),
        note: None,
        timers: lab::server_timers(Owner::Sut, "plimsoll serve"),
        keeper: Keeper::Servers(servers),
    })
}

/// Starts HAProxy or nginx in front of `backends`.
pub(super) fn start_proxy(
    program: &Program,
    job: &LabJob,
    identity: &Identity,
    backends: Vec<SocketAddr>,
    cpus: &[u32],
) -> Result<Started, Stop> {
    let scratch = std::env::temp_dir().join(format!("plimsoll-lab-{}", std::process::id()));
    let plan = GuardPlan { scratch_dir: Some(scratch.clone()), keep: job.keep, children: vec![] };
    let mut warden =
        Warden::start(&AgentCommand::this_program(), plan).map_err(|error| fleet_stop(&error))?;
    let plan = ProxyPlan {
        listen: free_address()?,
        backends,
        certificate_pem_path: scratch.join("certificate.pem"),
        connections_max: job.connections() + CONNECTIONS_SPARE,
        timeout: job.linger() + TIMEOUT_PAST_LINGER,
        threads: cpus.len().max(1) as u32,
        cpus: cpus.to_vec(),
        stats_socket: scratch.join("stats.sock"),
        scratch: scratch.clone(),
    };
    let pem = format!("{}{}", identity.chain_pem, identity.key_pem);
    write(&plan.certificate_pem_path, &pem)?;
    let ((name, argv), mut timers) = match program {
        Program::Haproxy(path) => (prepare_haproxy(path, &plan)?, haproxy::timers(&plan)),
        Program::Nginx(path) => (prepare_nginx(path, &plan)?, nginx::timers(&plan)),
        Program::Embedded => return start_embedded(identity, cpus),
    };
    let child = GuardedChild {
        name: name.clone(),
        argv,
        cpus: cpus.to_vec(),
        ready: Readiness::Accepts(plan.listen),
    };
    warden.guard(vec![child]).map_err(|error| fleet_stop(&error))?;
    let note =
        job.keep.then(|| format!("the generated configuration stays in {}", scratch.display()));
    timers.extend(lab::server_timers(Owner::Backend, "backend"));
    Ok(Started { address: plan.listen, name, note, timers, keeper: Keeper::Warden(warden) })
}

fn prepare_haproxy(path: &Path, plan: &ProxyPlan) -> Result<(String, Vec<String>), Stop> {
    check_descriptors("haproxy", haproxy::descriptors_needed(plan))?;
    let config = plan.scratch.join("haproxy.cfg");
    write(&config, &haproxy::render(plan))?;
    haproxy::check(path, &config).map_err(|error| Stop::CannotRun(error.to_string()))?;
    let version = haproxy::version(path).map_err(|error| Stop::CannotRun(error.to_string()))?;
    Ok((format!("haproxy {version}"), haproxy::argv(path, &config)))
}

fn prepare_nginx(path: &Path, plan: &ProxyPlan) -> Result<(String, Vec<String>), Stop> {
    check_descriptors("nginx", nginx::descriptors_needed(plan))?;
    let config = plan.scratch.join("nginx.conf");
    write(&config, &nginx::render(plan))?;
    nginx::check(path, &config, &plan.scratch)
        .map_err(|error| Stop::CannotRun(error.to_string()))?;
    let version = nginx::version(path).map_err(|error| Stop::CannotRun(error.to_string()))?;
    Ok((format!("nginx {version}"), nginx::argv(path, &config, &plan.scratch)))
}

fn check_descriptors(name: &str, needed: u64) -> Result<(), Stop> {
    let have = limits::raise_descriptor_limit();
    if needed <= have {
        return Ok(());
    }
    Err(Stop::CannotRun(format!(
        "{name} would need {needed} open files, and a process may have {have} here; raise the \
         limit with ulimit -n {needed}, or use fewer --connections"
    )))
}

/// A loopback address whose port nobody listens on now. HAProxy and nginx cannot be asked which
/// port they got, so port 0 is no choice.
fn free_address() -> Result<SocketAddr, Stop> {
    TcpListener::bind(("127.0.0.1", 0))
        .and_then(|listener| listener.local_addr())
        .map_err(|error| Stop::CannotRun(format!("no free port on loopback: {error}")))
}

fn write(path: &Path, text: &str) -> Result<(), Stop> {
    fs::write(path, text)
        .map_err(|error| Stop::CannotRun(format!("cannot write {}: {error}", path.display())))
}
