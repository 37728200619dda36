//! What holding connections needs of this host, limit by limit, and how many connections the host
//! can hold.
//!
//! [`Needs::of`] compares a [`Shape`] (what will run here) with the [`HostLimits`] that a probe
//! read. Nothing is changed: each limit that is too low names the command that raises it.

use plimsoll_probe::limits::HostLimits;

mod limits;
mod table;

/// Kernel memory of one idle TCP socket with its file and its epoll watch, bytes. Measured on
/// Linux 6.18: TCP 2520, inode 862, file 195, dentry 189, epoll 217, and smaller objects.
pub const SOCKET_KERNEL_BYTES: u64 = 4100;
/// Descriptors that a process needs besides its connections: pollers, listeners, pipes, libraries.
pub const PROCESS_DESCRIPTORS: u64 = 64;
/// The most processes of a part that are started because of the descriptor limit.
const PROCESSES_MAX: u64 = 1024;
/// No host has memory for more: the upper bound of what is searched for.
const CONNECTIONS_MAX: u64 = 1 << 32;

/// What is to run on this host.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Connections of the clients.
    pub connections: u64,
    /// The kinds of process that run on this host and take part in each connection.
    pub parts: Vec<Part>,
    /// Where processes of this host connect from.
    pub hops: Vec<Hop>,
    /// Connections that are being opened at once.
    pub opening_max: u64,
    /// Connections are closed by RST, which leaves no TIME_WAIT and no orphans.
    pub closes_by_reset: bool,
    /// The host's memory is watched while connections are opened, and opening stops before memory
    /// runs out: too little memory is a warning, not a refusal.
    pub memory_is_watched: bool,
}

/// Processes of one kind: clients, a proxy, backends.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// As reports call it: `clients`.
    pub name: String,
    /// Its sockets for each connection of the clients: 1 for clients and backends, 2 for a proxy.
    pub sockets: u64,
    /// Its own memory for each connection of the clients, bytes.
    pub user_bytes: u64,
    /// How many processes.
    pub processes: Processes,
    /// Memory of each process without connections, bytes.
    pub process_bytes: u64,
    /// Threads of each process.
    pub threads: u64,
    /// It accepts connections.
    pub listens: bool,
    /// It keeps the capabilities of this process; a proxy that changes its user does not.
    pub is_privileged: bool,
}

/// How many processes share a part's connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Processes {
    /// As many as the descriptor limit of each process requires, but at least this many.
    AtLeast(u64),
    /// This many.
    Exactly(u64),
    /// They run already, with limits of their own; what they use without connections is in use
    /// already.
    Running,
}

/// Connections from this host to the next server; each takes a source port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// As reports call it: `clients`.
    pub name: String,
    /// Source addresses; `None` for as many of 127.0.0.0/8 as are needed.
    pub sources: Option<u64>,
    /// Pairs of address and port that are connected to; at least 1.
    pub destinations: u64,
}

impl Shape {
    /// Sockets on this host for each connection of the clients.
    pub fn sockets_each(&self) -> u64 {
        self.parts.iter().map(|part| part.sockets).sum()
    }

    /// Whether all parts may open files past `fs.file-max`, as CAP_SYS_ADMIN allows
    /// (fs/file_table.c); everybody else gets ENFILE there.
    pub fn may_exceed_file_max(&self, limits: &HostLimits) -> bool {
        limits.may_exceed_file_max && self.parts.iter().all(|part| part.is_privileged)
    }
}

impl Hop {
    /// Connections for which there are source ports; `None` where that is
    /// unknown.
    pub fn connections_max(&self, limits: &HostLimits) -> Option<u64> {
        limits.ports_per_source.map(|ports| ports.saturating_mul(self.tuples()))
    }

    /// Pairs of a source address and a destination; each port can be used once in each pair.
    fn tuples(&self) -> u64 {
        let sources = self.sources.unwrap_or(limits::LOOPBACK_SOURCES_MAX);
        sources.saturating_mul(self.destinations.max(1))
    }
}

impl Part {
    /// The client half: `user_bytes` as measured, two threads.
    pub fn clients(user_bytes: u64) -> Self {
        Self {
            name: "clients".to_owned(),
            sockets: 1,
            user_bytes,
            processes: Processes::AtLeast(1),
            process_bytes: 3_000_000,
            threads: 5,
            listens: false,
            is_privileged: true,
        }
    }

    /// The server half of `serve`.
    pub fn servers(user_bytes: u64) -> Self {
        Self { name: "servers".to_owned(), listens: true, ..Self::clients(user_bytes) }
    }

    /// A proxy between both, run by another user.
    pub fn proxy(user_bytes: u64, processes: Processes) -> Self {
        Self {
            name: "proxy".to_owned(),
            sockets: 2,
            processes,
            process_bytes: 20_000_000,
            is_privileged: false,
            ..Self::servers(user_bytes)
        }
    }

    /// Processes for `connections`, where each may have this many descriptors.
    fn processes_for(&self, connections: u64, descriptors: u64) -> u64 {
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
    fn descriptors_for(&self, connections: u64, processes: u64) -> u64 {
        self.sockets_for(connections).div_ceil(processes.max(1)) + PROCESS_DESCRIPTORS
    }

    const fn sockets_for(&self, connections: u64) -> u64 {
        connections.saturating_mul(self.sockets)
    }
}

/// Whether a limit is high enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// High enough.
    Ok,
    /// It may be reached; no connection fails because of it.
    Warn,
    /// Too low: connections would fail.
    Short,
    /// The kernel does not report the limit.
    Unknown,
}

/// The unit of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Items: files, ports, threads.
    Count,
    /// Bytes.
    Bytes,
}

/// One limit against what is needed of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    /// The limit, by its documented name.
    pub limit: String,
    /// The unit of `need` and `have`.
    pub unit: Unit,
    /// What the connections need; for limits of the whole host, including what is in use already.
    pub need: u64,
    /// The limit; `None` where the kernel does not report it.
    pub have: Option<u64>,
    /// The comparison.
    pub verdict: Verdict,
    /// How to raise the limit; `None` where that is not necessary.
    pub fix: Option<String>,
    /// The most connections that it allows.
    pub fits: u64,
}

/// How many processes a part will have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartProcesses {
    /// The part's name.
    pub part: String,
    /// Processes.
    pub processes: u64,
    /// Descriptors that each of them needs.
    pub descriptors: u64,
}

/// All limits for one shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Needs {
    /// The connections asked for.
    pub connections: u64,
    /// One line for each limit.
    pub lines: Vec<Need>,
    /// One for each part.
    pub processes: Vec<PartProcesses>,
}

impl Needs {
    /// What `shape` needs of a host with `limits`.
    pub fn of(shape: &Shape, limits: &HostLimits) -> Self {
        let descriptors = descriptors_per_process(limits);
        let processes = |part: &Part| {
            let processes = part.processes_for(shape.connections, descriptors);
            PartProcesses {
                part: part.name.clone(),
                processes,
                descriptors: part.descriptors_for(shape.connections, processes),
            }
        };
        Self {
            connections: shape.connections,
            lines: limits::lines(shape, limits),
            processes: started(shape).map(processes).collect(),
        }
    }

    /// Whether no limit is too low.
    pub fn are_met(&self) -> bool {
        self.short().next().is_none()
    }

    /// The limits that are too low.
    pub fn short(&self) -> impl Iterator<Item = &Need> {
        self.lines.iter().filter(|line| line.verdict == Verdict::Short)
    }

    /// The most connections that the host can hold, which may be more than were asked for. Limits
    /// that fail no connection do not count.
    pub fn fits(&self) -> u64 {
        let hard = |line: &&Need| matches!(line.verdict, Verdict::Ok | Verdict::Short);
        self.lines.iter().filter(hard).map(|line| line.fits).min().unwrap_or(CONNECTIONS_MAX)
    }

    /// The table `limit | need | have | fix`, plain text, each line ended.
    pub fn render(&self) -> String {
        table::table(self)
    }
}

/// The parts whose processes are still to be started.
fn started(shape: &Shape) -> impl Iterator<Item = &Part> {
    shape.parts.iter().filter(|part| part.processes != Processes::Running)
}

/// Descriptors that a process may have here; 1,024, the traditional default, where that is unknown.
fn descriptors_per_process(limits: &HostLimits) -> u64 {
    let hard = limits.descriptors_per_process.unwrap_or(1024);
    hard.min(limits.nr_open.unwrap_or(u64::MAX))
}

/// The largest number of connections for which `need`, which never falls, is at most `have`.
fn largest_fitting(have: u64, need: impl Fn(u64) -> u64) -> u64 {
    let (mut fits, mut too_many) = (0, CONNECTIONS_MAX + 1);
    while too_many - fits > 1 {
        let middle = fits + (too_many - fits) / 2;
        if need(middle) <= have {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    fits
}

#[cfg(test)]
mod tests;
