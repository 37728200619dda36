//! The subjects of a reading.

use plimsoll_model::host::Role;

use crate::file;
use crate::server_counters::CounterSource;

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
    /// Processes on this host. The network is the first one's, also after its end.
    pub processes: Vec<WatchedProcess>,
    /// Servers that report their own figures.
    pub servers: Vec<CounterSource>,
    /// `true` if the network is the reading thread's, whatever the processes' network is.
    pub own_network: bool,
    /// CPUs of the host, if it has only some of this kernel's; empty means all.
    pub cpus: Vec<u32>,
}

impl Scope {
    /// Adds process `pid` by the name that the kernel knows it by; the second of a name becomes
    /// `nginx-2`.
    pub fn add_process(&mut self, pid: u32, role: Role) {
        let comm = file::text(format!("/proc/{pid}/comm")).unwrap_or_default();
        self.add_named(comm.trim(), pid, role);
    }

    pub(super) fn add_named(&mut self, name: &str, pid: u32, role: Role) {
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
