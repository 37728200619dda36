//! Reads a host, processes on it and servers, all at once, as often as it is asked to.
//!
//! Files whose cost grows with the number of connections (`/proc/net/tcp`, listings of
//! `/proc/PID/fd`) are never read. A reading of a host and one process costs less than 1 ms of CPU.

use std::fs;
use std::path::{Path, PathBuf};

use plimsoll_model::Nanos;
use plimsoll_model::host::{Label, LimitId, Metric, Reading, SourceKind};
use plimsoll_sys::clock;

use crate::memory::FileCaches;
use crate::server_counters::CounterSource;
use crate::yardstick::Totals;
use cgroup::GroupsRead;
use network::{HostWide, Owners, Place};
use sources::{Followed, Outages};

mod cgroup;
mod disk;
mod kernel;
pub mod mosquitto;
mod network;
pub mod nginx;
mod process;
mod servers;
mod sources;

/// The entry of `/proc` that is in the calling thread's network namespace.
const THIS_THREAD: &str = "thread-self";
/// Readings between two of what takes the kernel milliseconds: a process's Pss, for which it walks page tables, and
/// the caches of files.
const SLOW_EVERY: u64 = 5;

/// The role of a process in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It is the server under test, or one of its processes.
    Server,
    /// It answers from behind the server.
    Backend,
    /// It makes the load.
    Client,
}

impl Role {
    const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Backend => "backend",
            Self::Client => "client",
        }
    }
}

/// A process to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchedProcess {
    /// Name in the series: no process id, which would be new with each start.
    pub name: String,
    /// Process id.
    pub pid: u32,
    /// Role of the process.
    pub role: Role,
}

/// The subjects of a reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scope {
    /// Processes on this host. The network is that of the first one, also after its end.
    pub processes: Vec<WatchedProcess>,
    /// Servers that report figures of their own.
    pub servers: Vec<CounterSource>,
    /// The network is that of the reading thread, whatever that of the processes is.
    pub own_network: bool,
    /// CPUs of the host, where it has only some of this kernel's; empty means all.
    pub cpus: Vec<u32>,
}

impl Scope {
    /// Adds process `pid` by the name that the kernel knows it by; the second of a name becomes
    /// `nginx-2`.
    pub fn add_process(&mut self, pid: u32, role: Role) {
        let comm = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.add_named(comm.trim(), pid, role);
    }

    fn add_named(&mut self, name: &str, pid: u32, role: Role) {
        let name = if name.is_empty() { "process" } else { name };
        let is_alike = |other: &&WatchedProcess| {
            let rest = other.name.strip_prefix(name).unwrap_or("x");
            rest.is_empty() || rest.starts_with('-')
        };
        let alike = self.processes.iter().filter(is_alike).count();
        let name = if alike > 0 { format!("{name}-{}", alike + 1) } else { name.to_owned() };
        self.processes.push(WatchedProcess { name, pid, role });
    }
}

/// Reads a host once for each call.
#[derive(Debug)]
pub struct Sampler {
    root: PathBuf,
    scope: Scope,
    processes: Vec<Followed>,
    outages: Outages,
    place: Place,
    host_wide: HostWide,
    yardstick: Totals,
    /// Caches in the last slow reading.
    caches: FileCaches,
    owners: Owners,
    readings: u64,
    cost: Nanos,
    missed: u64,
}

impl Sampler {
    /// Reads what `scope` names, on this host.
    pub fn new(scope: Scope) -> Self {
        Self::below(Path::new("/"), scope)
    }

    /// Adds the sums of a yardstick to each reading.
    pub fn with_yardstick(self, yardstick: Totals) -> Self {
        Self { yardstick, ..self }
    }

    fn below(root: &Path, scope: Scope) -> Self {
        let host_wide = HostWide::read(root);
        let (caches, yardstick) = (FileCaches::default(), Totals::default());
        let (root, cost) = (root.to_owned(), Nanos::ZERO);
        let mut sampler = Self {
            root,
            scope: Scope::default(),
            processes: Vec::new(),
            outages: Outages::default(),
            place: Place::default(),
            host_wide,
            yardstick,
            caches,
            owners: Owners::new(),
            readings: 0,
            cost,
            missed: 0,
        };
        sampler.rescope(scope);
        sampler
    }

    /// Reads what `scope` names from now on. Processes that it named before stay the same ones.
    pub fn rescope(&mut self, scope: Scope) {
        let first = |scope: &Scope| {
            scope.processes.first().filter(|_| !scope.own_network).map(|process| process.pid)
        };
        if first(&scope) != first(&self.scope) {
            self.place = Place::of(&self.root, first(&scope));
        }
        let known = std::mem::take(&mut self.processes);
        self.processes = Followed::all(&self.root, &scope.processes, known);
        self.scope = scope;
    }

    /// Notes that a reading came more than one interval late.
    pub fn miss(&mut self) {
        self.missed += 1;
    }

    /// Reads everything. What cannot be read is named in the result.
    pub fn read(&mut self) -> Reading {
        reading_of(|reading| self.read_all(reading))
    }

    /// The sockets of servers and backends, which may listen.
    fn owners(&self) -> Owners {
        let processes = self.scope.processes.iter().filter(|one| one.role != Role::Client);
        let sockets = processes.flat_map(|process| {
            let numbers = network::sockets_of(&self.root, process.pid).into_iter();
            numbers.map(|number| (number, process.name.clone()))
        });
        sockets.collect()
    }

    fn read_all(&mut self, reading: &mut Reading) {
        let began = clock::thread_cpu_ns();
        let is_slow = self.readings.is_multiple_of(SLOW_EVERY);
        if is_slow {
            self.caches = FileCaches::read(&self.root.join("proc"));
            self.owners = self.owners();
        }
        kernel::read(&self.root, &self.scope.cpus, self.caches, reading);
        for (cpu, pieces) in self.yardstick.read(&self.scope.cpus) {
            let cpu = cpu.to_string();
            let labels = [(Label::Cpu, cpu.as_str())];
            reading.add(Metric::YardstickSeconds, &labels, pieces.took.as_secs_f64());
            reading.add(Metric::YardstickPieces, &labels, pieces.count as f64);
            reading.add_some(Metric::CpuFrequency, &labels, kernel::frequency(&self.root, &cpu));
        }
        let elsewhere =
            network::read(&self.root, &self.place, self.host_wide, &self.owners, reading);
        let mut groups = GroupsRead::default();
        groups.add(&self.root, "self", "plimsoll", reading);
        let unread = reading.missing.iter().find(|missing| missing.source == "/proc/stat");
        let unread = unread.map(|missing| missing.reason.clone());
        self.outages.add(SourceKind::Host, "host", unread, reading);
        for process in &mut self.processes {
            if process.add_to(&self.root, reading) {
                process::read(&self.root, &process.watched, is_slow, &mut groups, reading);
            }
        }
        for (index, source) in self.scope.servers.iter().enumerate() {
            let failed = servers::read(source, index, reading);
            self.outages.add(servers::kind(source), &source.to_string(), failed, reading);
        }
        self.readings += 1;
        let here = clock::thread_cpu_ns().saturating_sub(began);
        self.cost = Nanos(self.cost.0 + here + elsewhere.0);
        reading.add(Metric::WatchCostSeconds, &[], self.cost.as_secs_f64());
        reading.add(Metric::WatchMissed, &[], self.missed as f64);
    }
}

/// CPU and memory pressure of the host below `root` (`/`): of its readings, what the checks of a load compare.
pub fn read_cpu(root: &Path) -> Reading {
    reading_of(|reading| kernel::read_cpu(root, &["memory"], &[], reading))
}

/// TCP segments, interfaces and input queues as this thread's network namespace has them, for the same.
pub fn read_network(root: &Path) -> Reading {
    reading_of(|reading| network::read_traffic(root, reading))
}

fn reading_of(read: impl FnOnce(&mut Reading)) -> Reading {
    let mut reading = Reading { begin: Nanos(clock::monotonic_ns()), ..Reading::default() };
    read(&mut reading);
    reading.end = Nanos(clock::monotonic_ns());
    reading.sort();
    reading
}

/// The text of a file below `root`; a file that cannot be read is noted as missing.
fn text(root: &Path, path: &str, reading: &mut Reading) -> Option<String> {
    match fs::read_to_string(root.join(path)) {
        Ok(text) => Some(text),
        Err(error) => {
            reading.miss(format!("/{path}"), error);
            None
        }
    }
}

/// Adds a limit and how much of it is in use, if both are known.
fn add_limit(reading: &mut Reading, limit: &LimitId, used: Option<f64>, max: Option<f64>) {
    let (Some(used), Some(max)) = (used, max) else { return };
    reading.add(Metric::LimitUsed, &limit.labels(), used);
    reading.add(Metric::LimitMax, &limit.labels(), max);
}

#[cfg(test)]
mod tests;
