//! The system under test of a laboratory: our own server, or a real HAProxy or nginx in the care
//! of a warden, which ends it in every case.

use std::cell::RefCell;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use plimsoll_fleet::message::{GuardPlan, GuardedChild, Readiness};
use plimsoll_fleet::{AgentCommand, ServerGroup, Warden};
use plimsoll_model::Nanos;
use plimsoll_model::cliff::{KnownTimer, Owner};
use plimsoll_model::plan::{Identity, Listener, TlsState};
use plimsoll_model::units::grouped;
use plimsoll_probe::counted::{CountSource, Counted};
use plimsoll_sys::socket::ReservedPort;
use plimsoll_sys::{limits, process};
use plimsoll_tune::{ProxyPlan, haproxy, nginx};

use crate::commands::lab;
use crate::commands::search::{SutEnd, SutWatch};
use crate::exit::Stop;
use crate::hosts::{DESCRIPTOR_RESERVE, fleet_stop};
use crate::plan::lab::{Hosts, Sut};

/// Connections beyond the load's own: health checks of the curious, the next trial's first ones
/// while the last trial's are being closed.
const CONNECTIONS_SPARE: u64 = 100;
/// The kernel spreads connections over the processes that share a port by a hash: a process gets
/// its mean give or take some hundred, so it is not planned fuller than this, in percent.
const FILL_PERCENT: u64 = 90;
/// More processes than this are not started, whatever the limits of one are.
const PROCESSES_MAX: u32 = 1024;
/// TLS sessions that each of several HAProxy processes remembers: nobody resumes at another one,
/// and the default of 20,000 would cost more memory than the held connections of a small lab.
const TLS_SESSIONS_OF_MANY: u32 = 1_000;
/// Programs that are started at once; each batch has the whole patience of the warden.
const STARTS_AT_ONCE: usize = 16;

/// What the SUT must have room for, and how it may take it.
#[derive(Clone, Debug)]
pub(super) struct Room {
    /// Client connections at once.
    pub(super) connections: u64,
    /// Every timer of the SUT: longer than anything that is waited for.
    pub(super) timeout: Nanos,
    /// CPUs it is pinned to; empty pins nothing.
    pub(super) cpus: Vec<u32>,
    /// Where one process may not open enough files, several share the port.
    pub(super) may_split: bool,
    /// What our own server keeps of a TLS connection.
    pub(super) tls_state: TlsState,
    /// Whether clients speak TLS.
    pub(super) tls: bool,
    /// Whether a proxy remembers TLS sessions and gives tickets, as it does by itself.
    pub(super) resumes: bool,
}

impl Room {
    /// How many processes share the connections when each can have `fit`, spare ones included.
    fn processes(&self, fit: u64) -> u32 {
        if !self.may_split || self.connections + CONNECTIONS_SPARE <= fit {
            return 1;
        }
        let usable = (fit * FILL_PERCENT / 100).max(1);
        let needed = self.connections.div_ceil(usable).clamp(1, u64::from(PROCESSES_MAX));
        u32::try_from(needed).unwrap_or(PROCESSES_MAX)
    }
}

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
pub(super) fn program(hosts: &Hosts) -> Result<Program, Stop> {
    let missing = |name: &str, package: &str| {
        Stop::CannotRun(format!(
            "{name} is not installed; install it with apt-get install {package}, name it with \
             --{name} PATH, or use --sut embedded"
        ))
    };
    match hosts.sut {
        Sut::Embedded => Ok(Program::Embedded),
        Sut::Haproxy => haproxy::find(hosts.haproxy.as_deref())
            .map(Program::Haproxy)
            .ok_or_else(|| missing("haproxy", "haproxy")),
        Sut::Nginx => nginx::find(hosts.nginx.as_deref())
            .map(Program::Nginx)
            .ok_or_else(|| missing("nginx", "nginx-light")),
        Sut::Auto => Ok(haproxy::find(None).map_or(Program::Embedded, Program::Haproxy)),
    }
}

/// The longest path that every kernel takes for a Unix socket, with something to spare.
const SOCKET_PATH_BYTES_MAX: usize = 97;

/// Whoever keeps the SUT running.
enum Keeper {
    Servers(ServerGroup),
    Warden {
        warden: Warden,
        /// On which its programs listen.
        _port: ReservedPort,
    },
}

/// A running SUT.
pub(super) struct Started {
    /// Where clients connect.
    pub(super) address: SocketAddr,
    /// Program and version.
    pub(super) name: String,
    /// Lines for the reader.
    pub(super) notes: Vec<String>,
    /// Its timers.
    timers: Vec<KnownTimer>,
    keeper: Keeper,
    /// Where it says what it has served, unless its keeper knows.
    counts: Option<CountSource>,
}

impl Started {
    /// What the search may know of it; the SUT ends when this is dropped.
    pub(super) fn into_watch(self) -> SutWatch {
        let keeper = Rc::new(RefCell::new(self.keeper));
        let seen = Rc::clone(&keeper);
        let counting = Rc::clone(&keeper);
        let counts = self.counts;
        let told_at = counts.clone();
        let count_of_reading = counts.as_ref().map(CountSource::own).unwrap_or_default();
        SutWatch {
            counted: Box::new(move || match (&mut *counting.borrow_mut(), &counts) {
                (Keeper::Servers(servers), _) => servers.count().map(|seen| Counted {
                    requests: seen.requests_total,
                    connections: seen.conns_total,
                }),
                (Keeper::Warden { .. }, Some(source)) => source.read().ok(),
                (Keeper::Warden { .. }, None) => None,
            }),
            count_of_reading,
            told_at,
            behind: Vec::new(),
            timers: self.timers,
            backend_is_ours: true,
            pids: Box::new(move || match &*seen.borrow() {
                Keeper::Servers(servers) => servers.pids(),
                // nginx's workers are children of its master: all of them are in the session.
                Keeper::Warden { warden, .. } => {
                    let mut pids = process::session_members(warden.pid()).unwrap_or_default();
                    pids.retain(|pid| *pid != warden.pid());
                    pids
                }
            }),
            ended: Box::new(move || match &mut *keeper.borrow_mut() {
                Keeper::Servers(servers) => {
                    let lost = servers.poll_status(Duration::ZERO).lost.first().cloned();
                    lost.map(SutEnd::Itself)
                }
                Keeper::Warden { warden, .. } => match warden.poll_exited() {
                    Ok(None) => None,
                    Ok(Some(exit)) => {
                        Some(SutEnd::Itself(format!("{} ended: {}", exit.name, exit.reason)))
                    }
                    Err(error) => Some(SutEnd::Keeper(error.to_string())),
                },
            }),
        }
    }
}

/// Starts our own server.
pub(super) fn start_embedded(identity: &Identity, room: &Room) -> Result<Started, Stop> {
    let listener = Listener { address: ([127, 0, 0, 1], 0).into(), tls: room.tls };
    let fit = limits::raise_descriptor_limit().saturating_sub(DESCRIPTOR_RESERVE);
    let staff = lab::Staff {
        processes: room.processes(fit),
        cpus: room.cpus.clone(),
        timeout: room.timeout,
        tls_state: room.tls_state,
    };
    let servers = lab::start_servers(vec![listener], Some(identity.clone()), &staff)?;
    let address = servers.listeners().first().map(|listener| listener.address);
    let address = address.ok_or_else(|| Stop::CannotRun("the server has no port".to_owned()))?;
    Ok(Started {
        address,
        name: several(staff.processes, "plimsoll serve (embedded)"),
        notes: Vec::new(),
        timers: lab::server_timers(Owner::Sut, "plimsoll serve"),
        keeper: Keeper::Servers(servers),
        counts: None,
    })
}

/// `haproxy 2.6`, or `3 x haproxy 2.6`.
fn several(processes: u32, name: &str) -> String {
    if processes == 1 { name.to_owned() } else { format!("{processes} x {name}") }
}

/// Starts HAProxy or nginx in front of `backends`.
pub(super) fn start_proxy(
    program: &Program,
    keep: bool,
    identity: &Identity,
    backends: Vec<SocketAddr>,
    room: &Room,
) -> Result<Started, Stop> {
    let scratch = std::env::temp_dir().join(format!("plimsoll-lab-{}", std::process::id()));
    let plan = GuardPlan { scratch_dir: Some(scratch.clone()), keep, children: vec![] };
    let mut warden =
        Warden::start(&AgentCommand::this_program(), plan).map_err(|error| fleet_stop(&error))?;
    let (port, listen) = reserve_port()?;
    let plan = ProxyPlan {
        listen,
        backends,
        certificate_pem_path: scratch.join("certificate.pem"),
        connections_max: room.connections + CONNECTIONS_SPARE,
        timeout: room.timeout,
        threads: room.cpus.len().max(1) as u32,
        cpus: room.cpus.clone(),
        tls_sessions_max: None,
        tls: room.tls,
        resumes: room.resumes,
        stats_socket: scratch.join("stats.sock"),
        stub_status: false,
        scratch: scratch.clone(),
    };
    let pem = format!("{}{}", identity.chain_pem, identity.key_pem);
    write(&plan.certificate_pem_path, &pem)?;
    let (prepared, mut timers) = match program {
        Program::Haproxy(path) => (prepare_haproxy(path, &plan, room)?, haproxy::timers(&plan)),
        Program::Nginx(path) => (prepare_nginx(path, &plan, room)?, nginx::timers(&plan)),
        Program::Embedded => return start_embedded(identity, room),
    };
    for batch in prepared.children.chunks(STARTS_AT_ONCE) {
        warden.guard(batch.to_vec()).map_err(|error| fleet_stop(&error))?;
    }
    let mut notes = prepared.notes;
    if keep {
        notes.push(format!("the generated configuration stays in {}", scratch.display()));
    }
    timers.extend(lab::server_timers(Owner::Backend, "backend"));
    let (name, keeper) = (prepared.name, Keeper::Warden { warden, _port: port });
    Ok(Started { address: plan.listen, name, notes, timers, keeper, counts: prepared.counts })
}

/// Programs whose configuration is written and checked.
struct Prepared {
    name: String,
    children: Vec<GuardedChild>,
    notes: Vec<String>,
    counts: Option<CountSource>,
}

/// As many HAProxy processes on one port as descriptors require, each with a configuration and a
/// statistics socket of its own.
fn prepare_haproxy(path: &Path, plan: &ProxyPlan, room: &Room) -> Result<Prepared, Stop> {
    let cannot = |error: plimsoll_tune::CheckError| Stop::CannotRun(error.to_string());
    let fit = haproxy::connections_fit(plan, limits::raise_descriptor_limit());
    let processes = room.processes(fit);
    let version = haproxy::version(path).map_err(cannot)?;
    let mut children = Vec::new();
    for number in 1..=processes {
        let mut plan = plan.clone();
        let mut config = plan.scratch.join("haproxy.cfg");
        if processes > 1 {
            // All that one can have: which process a connection comes to is the kernel's choice.
            plan.connections_max = fit;
            plan.tls_sessions_max = Some(TLS_SESSIONS_OF_MANY);
            plan.stats_socket = plan.scratch.join(format!("stats-{number}.sock"));
            config = plan.scratch.join(format!("haproxy-{number}.cfg"));
        }
        check_descriptors("haproxy", haproxy::descriptors_needed(&plan))?;
        write(&config, &haproxy::render(&plan))?;
        if number == 1 {
            haproxy::check(path, &config).map_err(cannot)?;
        }
        let name = format!("haproxy {version}");
        children.push(GuardedChild {
            name: if processes == 1 { name } else { format!("{name} ({number})") },
            argv: haproxy::argv(path, &config),
            cpus: plan.cpus.clone(),
            ready: if processes == 1 {
                Readiness::Accepts(plan.listen)
            } else {
                // The port is open as soon as the first of them listens.
                Readiness::Exists(plan.stats_socket.clone())
            },
        });
    }
    let mut notes = Vec::new();
    if processes > 1 {
        notes.push(format!(
            "{processes} HAProxy processes share the port, maxconn {} each; tune.ssl.cachesize \
             {TLS_SESSIONS_OF_MANY}, every other tune.* as HAProxy has it",
            grouped(fit)
        ));
    }
    let name = several(processes, &format!("haproxy {version}"));
    // Each of several processes would count its own part.
    let counts = (processes == 1).then(|| CountSource::Haproxy(plan.stats_socket.clone()));
    Ok(Prepared { name, children, notes, counts })
}

/// One nginx with as many workers as descriptors require: each worker has a listening socket of
/// its own on the port.
fn prepare_nginx(path: &Path, plan: &ProxyPlan, room: &Room) -> Result<Prepared, Stop> {
    let cannot = |error: plimsoll_tune::CheckError| Stop::CannotRun(error.to_string());
    let have = limits::raise_descriptor_limit();
    let mut plan = plan.clone();
    while room.may_split && plan.threads < PROCESSES_MAX && nginx::descriptors_needed(&plan) > have
    {
        plan.threads += 1;
    }
    check_descriptors("nginx", nginx::descriptors_needed(&plan))?;
    plan.stub_status = nginx::has_stub_status(path)
        && plan.stats_socket.as_os_str().len() <= SOCKET_PATH_BYTES_MAX;
    let config = plan.scratch.join("nginx.conf");
    write(&config, &nginx::render(&plan))?;
    nginx::check(path, &config, &plan.scratch).map_err(cannot)?;
    let version = nginx::version(path).map_err(cannot)?;
    let name = format!("nginx {version}");
    let child = GuardedChild {
        name: name.clone(),
        argv: nginx::argv(path, &config, &plan.scratch),
        cpus: plan.cpus.clone(),
        ready: Readiness::Accepts(plan.listen),
    };
    let notes = match plan.threads > room.cpus.len().max(1) as u32 {
        true => vec![format!("nginx has {} workers on one port", plan.threads)],
        false => Vec::new(),
    };
    let counts = plan.stub_status.then(|| CountSource::NginxSocket(plan.stats_socket.clone()));
    Ok(Prepared { name, children: vec![child], notes, counts })
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

/// A port of loopback and its address. HAProxy and nginx cannot be asked which port they got, so
/// it is chosen here and kept; both share their ports.
fn reserve_port() -> Result<(ReservedPort, SocketAddr), Stop> {
    let reserved = ReservedPort::bind(([127, 0, 0, 1], 0).into());
    reserved
        .and_then(|port| port.local_address().map(|address| (port, address)))
        .map_err(|error| Stop::CannotRun(format!("no free port on loopback: {error}")))
}

fn write(path: &Path, text: &str) -> Result<(), Stop> {
    fs::write(path, text)
        .map_err(|error| Stop::CannotRun(format!("cannot write {}: {error}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_started_for_descriptors_and_none_is_planned_full() {
        let room = |connections, may_split| Room {
            connections,
            timeout: Nanos::ZERO,
            cpus: Vec::new(),
            may_split,
            tls_state: TlsState::Compact,
            tls: true,
            resumes: true,
        };
        for (connections, fit, processes) in [
            (9_000, 9_964, 1),
            // No room for the spare ones.
            (9_900, 9_964, 2),
            (300, 164, 3),
            (1_000_000, 9_964, 112),
            (1, 0, 1),
        ] {
            assert_eq!(room(connections, true).processes(fit), processes, "{connections}");
        }
        // A search's SUT is one process, or is refused for its descriptors.
        assert_eq!(room(1_000_000, false).processes(9_964), 1);
    }
}
