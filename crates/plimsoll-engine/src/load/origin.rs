//! Source addresses and ports of connections. A small load leaves the source port to the kernel; a load that
//! needs a good part of the ports, and every hold, owns its (source address, port) pairs. One load
//! does only one of the two.

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::Errno;
use plimsoll_sys::outgoing::{Outgoing, OutgoingError};
use plimsoll_sys::ports::{
    Closed, HostPorts, Lease, PORTS_RESTING_MAX, PortAllocator, PortError, PortPlan, Route, Slice,
    Sources, TIME_WAIT_S,
};
use plimsoll_sys::socket::{Connecting, FirstBytes, Socket};

use super::classify::opening_error;

/// Most loopback source addresses that a load uses by itself. With 28,000 ports each, they allow
/// more connections than any host has memory for.
const LOOPBACK_SOURCES_MAX: u64 = 65_536;
/// Pairs that are in TIME_WAIT when a load opens connections all the time: 60 s at the 25,000
/// connections/s that two cores make with both ends here. Loopback addresses are free.
const LOOPBACK_RESTING: u64 = 1_500_000;

/// The sources and destinations of one worker's connections.
pub(super) struct Origins {
    /// `None` leaves ports to the kernel.
    ports: Option<PortAllocator>,
    remotes: Remotes,
    /// Unix socket that all connections go to.
    unix: Option<PathBuf>,
    /// The next connection's number among the connections of all workers: its place in the source and the destination
    /// addresses.
    next: u64,
    /// Workers of the whole load.
    workers: u64,
}

/// The destination addresses of all connections.
struct Remotes {
    /// Each address once; the index is the allocator's route.
    all: Vec<Remote>,
    /// For each destination its addresses, as indices into `all`.
    of_destination: Vec<Box<[u32]>>,
}

struct Remote {
    address: SocketAddr,
    /// Connections of the whole load that are meant for it.
    connections: u64,
}

/// A connection that has begun.
pub(super) struct Begun {
    pub(super) socket: Socket,
    pub(super) progress: Connecting,
    /// The other end is on this host, so that no round trip is waited for.
    pub(super) is_local: bool,
    /// Returned to the allocator once the connection is closed.
    pub(super) lease: Option<Lease>,
}

/// Why a connection could not begin.
#[derive(Debug, thiserror::Error)]
pub(super) enum OriginError {
    #[error(transparent)]
    NoPort(#[from] PortError),
    #[error(transparent)]
    System(#[from] Errno),
    #[error("{}", unix_words(*.0))]
    Unix(Errno),
}

/// A connect to a Unix socket names a full queue by an error of many meanings.
fn unix_words(errno: Errno) -> String {
    match errno {
        Errno::AGAIN => "the accept queue of the Unix socket is full".to_owned(),
        errno => format!("Unix socket: {errno}"),
    }
}

impl OriginError {
    pub(super) fn class(&self) -> ErrorClass {
        match self {
            Self::NoPort(_) => ErrorClass::LocalPorts,
            Self::System(errno) => opening_error(*errno),
            Self::Unix(Errno::AGAIN | Errno::NOENT | Errno::NOTDIR | Errno::ACCESS) => {
                ErrorClass::ConnectRefused
            }
            Self::Unix(errno) => opening_error(*errno),
        }
    }
}

impl Origins {
    /// Creates the origins of the worker that makes `shard` of the load.
    pub(super) fn new(plan: &LoadPlan, shard: Shard) -> Self {
        // Without /proc there is nothing to plan with.
        Self::with_host(plan, shard, HostPorts::read(Path::new("/proc")).ok())
    }

    fn with_host(plan: &LoadPlan, shard: Shard, host: Option<HostPorts>) -> Self {
        let remotes = Remotes::of(plan);
        let unix = plan.unix_socket.clone();
        let ports = host
            .filter(|_| unix.is_none())
            .filter(|host| owns_ports(plan, host, &remotes))
            .map(|host| PortAllocator::new(port_plan(plan, shard, host, &remotes)));
        let (next, workers) = (u64::from(shard.index), u64::from(shard.of.max(1)));
        Self { ports, remotes, unix, next, workers }
    }

    /// Begins a connection to `destination`, at the address whose turn it is or, when that has no
    /// port left, at another of the destination's. `sources` are the plan's.
    pub(super) fn connect(
        &mut self,
        sources: &[IpAddr],
        destination: u32,
        first_bytes: FirstBytes,
        now: Nanos,
    ) -> Result<Begun, OriginError> {
        let (nth, turn) = (self.next, self.turn() as usize);
        self.next += self.workers;
        if let Some(path) = &self.unix {
            let socket = Socket::connect_unix(path).map_err(OriginError::Unix)?;
            return Ok(Begun { socket, progress: Connecting::Done, is_local: true, lease: None });
        }
        let routes = &self.remotes.of_destination[destination as usize];
        let in_turn = routes.iter().cycle().skip(turn % routes.len().max(1)).take(routes.len());
        let mut outcome = Err(OriginError::System(Errno::DESTADDRREQ));
        for route in in_turn {
            let remote = self.remotes.all[*route as usize].address;
            outcome = match &mut self.ports {
                Some(ports) => connect_owned(ports, *route, remote, first_bytes, now),
                None => connect_any(remote, nth_of_family(sources, remote, nth), first_bytes),
            };
            if !matches!(outcome, Err(OriginError::NoPort(_))) {
                break;
            }
        }
        outcome
    }

    /// Returns the next connection's place among the addresses. All workers together use them in turn, as if they
    /// opened alternately, and so does each of them, because each has only its part of an address's ports.
    pub(super) const fn turn(&self) -> u64 {
        self.next % self.workers + self.next / self.workers
    }

    /// Gives back the port of a closed connection that held `lease`.
    pub(super) fn give_back(&mut self, lease: Lease, closed: Closed, now: Nanos) {
        if let Some(ports) = &mut self.ports {
            ports.give_back(lease, closed, now.0);
        }
    }

    /// Returns the number of ports towards the first address that are known here to be in TIME_WAIT.
    #[cfg(test)]
    pub(super) fn time_wait(&self) -> u32 {
        self.ports.as_ref().map_or(0, |ports| ports.counts(0).time_wait)
    }
}

/// Leaves the port to the kernel.
fn connect_any(
    remote: SocketAddr,
    source: Option<IpAddr>,
    first_bytes: FirstBytes,
) -> Result<Begun, OriginError> {
    let (socket, progress) = Socket::connect_to(remote, source, first_bytes)?;
    Ok(Begun { socket, progress, is_local: remote.ip().is_loopback(), lease: None })
}

/// Returns the source whose turn it is among those that can reach `remote`.
fn nth_of_family(sources: &[IpAddr], remote: SocketAddr, nth: u64) -> Option<IpAddr> {
    let fitting = |source: &&IpAddr| source.is_ipv4() == remote.is_ipv4();
    let count = sources.iter().filter(fitting).count();
    sources.iter().filter(fitting).nth(nth as usize % count.max(1)).copied()
}

/// Tries one pair after the other on one socket.
fn connect_owned(
    ports: &mut PortAllocator,
    route: u32,
    remote: SocketAddr,
    first_bytes: FirstBytes,
    now: Nanos,
) -> Result<Begun, OriginError> {
    let mut candidate = ports.take(route, now.0)?;
    let mut outgoing = match Outgoing::new(remote, first_bytes) {
        Ok(outgoing) => outgoing,
        Err(errno) => {
            ports.unused(candidate);
            return Err(errno.into());
        }
    };
    loop {
        match outgoing.connect_from(candidate.source, candidate.port) {
            Ok(progress) => {
                let lease = Some(ports.connected(candidate));
                let is_local = remote.ip().is_loopback();
                return Ok(Begun { socket: outgoing.into_socket(), progress, is_local, lease });
            }
            Err(OutgoingError::Taken) => {
                ports.refused(candidate, now.0)?;
                candidate = ports.take(route, now.0)?;
            }
            Err(OutgoingError::Failed(errno)) => {
                ports.unused(candidate);
                return Err(errno.into());
            }
        }
    }
}

impl Remotes {
    fn of(plan: &LoadPlan) -> Self {
        let mut remotes = Self { all: Vec::new(), of_destination: Vec::new() };
        let destinations = plan.destinations.len().max(1) as u64;
        for destination in &plan.destinations {
            let addresses = &destination.addresses;
            let each = plan.connections.div_ceil(destinations * addresses.len().max(1) as u64);
            let of = addresses.iter().map(|address| remotes.add(*address, each)).collect();
            remotes.of_destination.push(of);
        }
        remotes
    }

    /// Two destinations with one address share its ports.
    fn add(&mut self, address: SocketAddr, connections: u64) -> u32 {
        let at = self.all.iter().position(|known| known.address == address);
        let at = at.unwrap_or_else(|| {
            self.all.push(Remote { address, connections: 0 });
            self.all.len() - 1
        });
        self.all[at].connections += connections;
        at as u32
    }

    /// Connections to the address that gets most of them.
    fn busiest(&self) -> u64 {
        self.all.iter().map(|remote| remote.connections).max().unwrap_or(0)
    }
}

/// The kernel finds a free port quickly as long as half of them are free, and reuses one in
/// TIME_WAIT on loopback after a second; so it is left to it below that. The same for all shards.
fn owns_ports(plan: &LoadPlan, host: &HostPorts, remotes: &Remotes) -> bool {
    let is_hold = matches!(plan.pacing, Pacing::Hold(_));
    !host.usable.is_empty() && (is_hold || remotes.busiest() > u64::from(host.usable.len() / 2))
}

fn port_plan(plan: &LoadPlan, shard: Shard, host: HostPorts, remotes: &Remotes) -> PortPlan {
    let loopback = loopback_sources(plan, &host, remotes, shard);
    let v4 = given(plan, IpAddr::is_ipv4);
    let v6 = given(plan, IpAddr::is_ipv6);
    let route = |remote: &Remote| {
        let remote = remote.address;
        let given = if remote.is_ipv4() { &v4 } else { &v6 };
        let sources = if !given.is_empty() {
            Sources::Given(Arc::clone(given))
        } else if remote.is_ipv4() && remote.ip().is_loopback() {
            Sources::Loopback(loopback)
        } else {
            Sources::Routed
        };
        Route { remote, sources }
    };
    let Shard { index, of } = plan.ports_of_thread(shard);
    PortPlan {
        host: Arc::new(host),
        routes: remotes.all.iter().map(route).collect(),
        slice: Slice { index, of },
        seed: plan.seed,
    }
}

/// Loopback addresses of which three quarters of the ports are enough; some pair is left over for
/// every shard. As many for each remote address, so that they share pairs.
fn loopback_sources(plan: &LoadPlan, host: &HostPorts, remotes: &Remotes, shard: Shard) -> u32 {
    let is_lasting = plan.keepalive && plan.requests_per_connection.is_none();
    let time_wait = if is_lasting { 0 } else { LOOPBACK_RESTING };
    let pairs = (remotes.busiest() + time_wait).saturating_mul(4).div_ceil(3) + u64::from(shard.of);
    let sources = pairs.div_ceil(u64::from(host.usable.len().max(1)));
    sources.clamp(1, LOOPBACK_SOURCES_MAX) as u32
}

fn given(plan: &LoadPlan, family: fn(&IpAddr) -> bool) -> Arc<[IpAddr]> {
    plan.sources.iter().filter(|address| family(address)).copied().collect()
}

/// Reports whether closing by FIN would use up the source ports of the whole load.
pub(super) fn must_reset(plan: &LoadPlan) -> bool {
    let servers = plan.destinations.iter().map(|one| one.addresses.len()).sum();
    let has_ports = plan.unix_socket.is_none();
    has_ports && plan.handshake_only && ports_run_out(&plan.pacing, servers, plan.sources.len())
}

fn ports_run_out(pacing: &Pacing, servers: usize, sources: usize) -> bool {
    let within_time_wait = match pacing {
        Pacing::Open { profile, .. } => {
            let stages = profile.stages.iter();
            let peak = stages.map(|stage| stage.from.get().max(stage.to.get())).fold(0.0, f64::max);
            (peak * f64::from(TIME_WAIT_S)).min(profile.ops_total as f64)
        }
        // A closed loop without a count has no bound: it makes what the server answers.
        Pacing::Closed { ops_total, .. } => ops_total.map_or(f64::INFINITY, |ops| ops as f64),
        Pacing::Hold(_) => 0.0,
    };
    let pairs = servers.max(1) * sources.max(1);
    within_time_wait > f64::from(PORTS_RESTING_MAX) * pairs as f64
}

#[cfg(test)]
pub(super) mod tests;
