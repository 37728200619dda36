//! The processes to run on a host: their kinds, their memory, and the addresses from which they connect.
//!
//! A [`Shape`] has a number of connections, a [`Part`] per kind of process and a [`Hop`] per leg on which this host
//! connects. The methods compute the use of each resource by that number: sockets, threads, descriptors, and bytes.
//! The constants are measured sizes per socket, connection or process. A part without a fixed count of processes gets
//! the number that its descriptor limit requires. The file only computes; `limits` compares the results with the
//! host. Start with [`Shape`].

use plimsoll_probe::limits::HostLimits;

/// Kernel memory of one idle TCP socket with its file and its epoll watch, bytes. Measured on
/// Linux 6.18: TCP 2520, inode 862, file 195, dentry 189, epoll 217, and smaller objects.
pub const SOCKET_KERNEL_BYTES: u64 = 4100;
/// Memory of HAProxy with OpenSSL 3 for one idle TLS connection, bytes: 15,600 to 16,200 as
/// measured; nginx needs 14,900.
pub const PROXY_BYTES: u64 = 16_500;
/// Descriptors that a process needs besides its connections: pollers, listeners, pipes, libraries.
pub const PROCESS_DESCRIPTORS: u64 = 64;
/// Descriptors of the process that starts plimsoll's own ones, besides those for each of them. Measured,
/// as what follows is, with 20 of them: 9 descriptors, 3 threads, 4.5 MB.
const COORDINATOR_DESCRIPTORS: u64 = 20;
/// Descriptors of the coordinator for each process: the pipes to standard input, output and error.
const COORDINATOR_DESCRIPTORS_EACH: u64 = 3;
/// Threads of the coordinator besides those for each process.
const COORDINATOR_THREADS: u64 = 4;
/// Threads of the coordinator for each process: one at each pipe.
const COORDINATOR_THREADS_EACH: u64 = 3;
/// Memory of the coordinator, bytes.
const COORDINATOR_BYTES: u64 = 6_000_000;
/// The most processes of a part that are started because of the descriptor limit.
const PROCESSES_MAX: u64 = 1024;
/// The most loopback addresses that a load uses.
const LOOPBACK_SOURCES_MAX: u64 = 65_536;

/// The processes and connections of this host.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Connections of the clients.
    pub connections: u64,
    /// The kinds of process that run on this host and take part in each connection.
    pub parts: Vec<Part>,
    /// Hops on which processes of this host connect.
    pub hops: Vec<Hop>,
    /// Connections that are being opened at once.
    pub opening_max: u64,
    /// Connections that are opened, and others closed, each second while the number is held.
    pub opened_per_s: u64,
    /// Connections are closed by RST, which leaves no TIME_WAIT and no orphans.
    pub closes_by_reset: bool,
    /// The host's memory is watched while connections are opened, and opening stops before memory
    /// runs out: too little memory is a warning, not a refusal.
    pub memory_is_watched: bool,
}

/// Processes of one kind: clients, a proxy, backends.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// Name in reports: `clients`.
    pub name: String,
    /// Sockets for each connection of the clients: 1 for clients and backends, 2 for a proxy.
    pub sockets: u64,
    /// Memory for each connection of the clients, bytes.
    pub user_bytes: u64,
    /// Number of processes.
    pub processes: Processes,
    /// Memory of each process without connections, bytes.
    pub process_bytes: u64,
    /// Threads of each process.
    pub threads: u64,
    /// `true` if the processes accept connections.
    pub listens: bool,
    /// `true` if the processes keep the capabilities of this process; a proxy that changes its user does not.
    pub is_privileged: bool,
    /// The processes are plimsoll's own, which another one of plimsoll starts and listens to.
    pub is_coordinated: bool,
}

/// The number of processes that share a part's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// The number that the descriptor limit of each process requires, but at least this one.
    AtLeast(u64),
    /// This many.
    Exactly(u64),
    /// They run already, with limits of their own; what they use without connections is in use
    /// already.
    Running,
}

/// Connections from this host to the next server; each needs a source port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Name in reports: `clients`.
    pub name: String,
    /// Source addresses; `None` for as many of 127.0.0.0/8 as are needed.
    pub sources: Option<u64>,
    /// Pairs of address and port that are connected to; at least 1.
    pub destinations: u64,
    /// `true` if the kernel chooses the ports, in `connect`; plimsoll's clients choose theirs.
    pub by_kernel: bool,
}

impl Shape {
    /// Returns the number of sockets on this host for each connection of the clients.
    pub fn sockets_each(&self) -> u64 {
        self.parts.iter().map(|part| part.sockets).sum()
    }

    /// Returns the number of connections that begin or end on this host for each connection of the clients: both sides
    /// of a proxy, also where their other ends are here.
    pub(super) fn connections_each(&self) -> u64 {
        self.parts.iter().map(|part| part.sockets).max().unwrap_or(1).max(1)
    }

    /// Returns the number of closed connections that rest for `seconds` at this side.
    pub(super) const fn time_wait(&self, seconds: u64) -> u64 {
        if self.closes_by_reset { 0 } else { self.opened_per_s.saturating_mul(seconds) }
    }

    /// Returns the parts whose processes are still to be started.
    pub(super) fn started(&self) -> impl Iterator<Item = &Part> {
        self.parts.iter().filter(|part| part.processes != Processes::Running)
    }

    /// Returns the number of plimsoll's own processes, which another one starts; `None` if there are none.
    fn coordinated(&self, connections: u64, descriptors: u64) -> Option<u64> {
        let parts = self.started().filter(|part| part.is_coordinated);
        let processes = parts.map(|part| part.processes_for(connections, descriptors));
        processes.reduce(u64::saturating_add)
    }

    /// Returns the descriptors of the process that starts them; `None` if there are none.
    pub(super) fn coordinator_descriptors(&self, connections: u64, each: u64) -> Option<u64> {
        let processes = self.coordinated(connections, each)?;
        Some(COORDINATOR_DESCRIPTORS + COORDINATOR_DESCRIPTORS_EACH * processes)
    }

    /// Returns the number of threads of all processes that are still to be started.
    pub(super) fn threads_for(&self, connections: u64, descriptors: u64) -> u64 {
        let threads =
            |part: &Part| part.processes_for(connections, descriptors).saturating_mul(part.threads);
        let coordinator = self
            .coordinated(connections, descriptors)
            .map(|processes| COORDINATOR_THREADS + COORDINATOR_THREADS_EACH * processes);
        let parts = self.parts.iter().map(threads).chain(coordinator);
        parts.fold(0, u64::saturating_add)
    }

    /// Returns the memory of all processes, and of the kernel for their sockets, bytes.
    pub(super) fn bytes_for(&self, connections: u64, descriptors: u64) -> u64 {
        let bytes = |part: &Part| {
            let sockets = part.sockets.saturating_mul(SOCKET_KERNEL_BYTES);
            let each = part.user_bytes.saturating_add(sockets);
            let processes = part.processes_for(connections, descriptors);
            let fixed = processes.saturating_mul(part.process_bytes);
            connections.saturating_mul(each).saturating_add(fixed)
        };
        let coordinator = self.coordinated(connections, descriptors).map(|_| COORDINATOR_BYTES);
        let parts = self.parts.iter().map(bytes).chain(coordinator);
        parts.fold(0, u64::saturating_add)
    }

    /// Reports whether all parts may open files past `fs.file-max`, as CAP_SYS_ADMIN allows
    /// (fs/file_table.c); all other processes get ENFILE there.
    pub fn may_exceed_file_max(&self, limits: &HostLimits) -> bool {
        limits.may_exceed_file_max && self.parts.iter().all(|part| part.is_privileged)
    }
}

impl Hop {
    /// Returns the number of connections for which there are source ports; `None` if that is
    /// unknown.
    pub fn connections_max(&self, limits: &HostLimits) -> Option<u64> {
        limits.ports_per_source.map(|ports| ports.saturating_mul(self.tuples()))
    }

    /// Pairs of a source address and a destination; each port can be used once in each pair.
    pub(super) fn tuples(&self) -> u64 {
        let sources = self.sources.unwrap_or(LOOPBACK_SOURCES_MAX);
        sources.saturating_mul(self.destinations.max(1))
    }
}

impl Part {
    /// Returns the client half: `user_bytes` as measured, one thread that makes load and five beside it.
    pub fn clients(user_bytes: u64) -> Self {
        Self {
            name: "clients".to_owned(),
            sockets: 1,
            user_bytes,
            processes: Processes::AtLeast(1),
            process_bytes: 3_000_000,
            threads: 6,
            listens: false,
            is_privileged: true,
            is_coordinated: true,
        }
    }

    /// Returns the server half of `serve`.
    pub fn servers(user_bytes: u64) -> Self {
        Self { name: "servers".to_owned(), listens: true, ..Self::clients(user_bytes) }
    }

    /// Creates a proxy between both, run by another user.
    pub fn proxy(user_bytes: u64, processes: Processes) -> Self {
        Self {
            name: "proxy".to_owned(),
            sockets: 2,
            processes,
            process_bytes: 20_000_000,
            is_privileged: false,
            is_coordinated: false,
            ..Self::servers(user_bytes)
        }
    }

    /// Returns the number of processes for `connections`, where each may have this many descriptors.
    pub(super) fn processes_for(&self, connections: u64, descriptors: u64) -> u64 {
        match self.processes {
            Processes::Exactly(count) => count.max(1),
            Processes::AtLeast(count) => {
                let each = descriptors.saturating_sub(PROCESS_DESCRIPTORS).max(1);
                let needed = self.sockets_for(connections).div_ceil(each);
                needed.min(PROCESSES_MAX).max(count).max(1)
            }
            Processes::Running => 0,
        }
    }

    /// Descriptors that the fullest of `processes` needs for `connections`.
    pub(super) fn descriptors_for(&self, connections: u64, processes: u64) -> u64 {
        self.sockets_for(connections).div_ceil(processes.max(1)) + PROCESS_DESCRIPTORS
    }

    pub(super) const fn sockets_for(&self, connections: u64) -> u64 {
        connections.saturating_mul(self.sockets)
    }
}

/// Descriptors that a process may have here; 1,024, the traditional default, where that is unknown.
pub(super) fn descriptors_per_process(limits: &HostLimits) -> u64 {
    let hard = limits.descriptors_per_process.unwrap_or(1024);
    hard.min(limits.nr_open.unwrap_or(u64::MAX))
}
