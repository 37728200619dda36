//! Reads a host, processes on it and servers, all at once, as often as it is asked to.
//!
//! Files whose cost grows with the number of connections (`/proc/net/tcp`, listings of
//! `/proc/PID/fd`) are never read. A reading of a host and one process costs less than 1 ms of CPU.

use std::path::{Path, PathBuf};

use plimsoll_model::Nanos;
use plimsoll_model::host::{Label, Metric, Reading, Role, SourceKind};
use plimsoll_sys::clock;

use crate::memory::FileCaches;
use crate::yardstick::Totals;
use cgroup::GroupsRead;
use network::{HostWide, Owners, Place};
use sources::{Followed, Outages};

mod cgroup;
mod disk;
mod entry;
mod kernel;
pub mod mosquitto;
mod network;
pub mod nginx;
mod process;
mod scope;
mod servers;
mod sources;

pub use scope::{Scope, WatchedProcess};

/// Readings between two of what takes the kernel milliseconds: a process's private memory, for which it walks page
/// tables, and the caches of files.
const SLOW_EVERY: u64 = 5;

/// Reads a host once for each call.
#[derive(Debug, Default)]
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
    /// Reads what `scope` names, on this host, and the sums of a yardstick.
    pub fn new(scope: Scope, yardstick: Totals) -> Self {
        Self { yardstick, ..Self::below(Path::new("/"), scope) }
    }

    fn below(root: &Path, scope: Scope) -> Self {
        let (root, host_wide) = (root.to_owned(), HostWide::read(root));
        let mut sampler = Self { root, host_wide, ..Self::default() };
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

    /// Returns the sockets of servers and backends, which may listen.
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

/// Reads CPU and memory pressure of the host below `root` (`/`), for the checks of a load.
pub fn read_cpu(root: &Path) -> Reading {
    reading_of(|reading| kernel::read_cpu(root, &["memory"], &[], reading))
}

/// Reads TCP segments, interfaces and input queues of this thread's network namespace, for the checks of a load.
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

#[cfg(test)]
mod tests;
