//! Limits of this host and this process, and how much of each is in use.
//!
//! Read once, before a load, from `/proc` and the control groups. What a kernel does not report
//! stays `None`: nothing is guessed.

use std::fs;
use std::path::Path;

use plimsoll_sys::ports::HostPorts;

use crate::memory::HostMemory;

mod cgroup;
mod number;

pub use cgroup::{CgroupLimits, throttled_periods};
pub(crate) use cgroup::{figure, group_of};
pub(crate) use number::first_number;

use number::last_number;

/// CAP_SYS_ADMIN, include/uapi/linux/capability.h: its holder may exceed `fs.file-max`.
const CAP_SYS_ADMIN: u32 = 21;
/// The page size that `tcp_mem` counts in, on the machines that plimsoll is built for by default.
const PAGE_BYTES: u64 = 4096;

/// The limits of a host that bound the number of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLimits {
    /// RLIMIT_NOFILE of this process, the hard limit: descriptors of each process.
    pub descriptors_per_process: Option<u64>,
    /// `fs.nr_open`: what RLIMIT_NOFILE can be raised to.
    pub nr_open: Option<u64>,
    /// `fs.file-max`: open files of the whole host.
    pub file_max: Option<u64>,
    /// Files that are open now, from `fs.file-nr`.
    pub files_in_use: Option<u64>,
    /// This process may exceed `file_max`.
    pub may_exceed_file_max: bool,
    /// `fs.epoll.max_user_watches`, for all processes of one user together. The kernel does not
    /// report how many are in use.
    pub epoll_watches_max: Option<u64>,
    /// Source ports of one address: the range without reserved ports and without those of
    /// listeners.
    pub ports_per_source: Option<u64>,
    /// First and last port of `net.ipv4.ip_local_port_range`.
    pub port_range: Option<(u16, u16)>,
    /// The upper bound of `net.ipv4.tcp_mem`, bytes: data in all socket buffers together.
    pub tcp_memory_max_bytes: Option<u64>,
    /// `net.ipv4.tcp_max_orphans`.
    pub orphans_max: Option<u64>,
    /// `net.ipv4.tcp_max_tw_buckets`.
    pub time_wait_max: Option<u64>,
    /// `net.core.somaxconn`: the limit of an accept queue.
    pub accept_queue_max: Option<u64>,
    /// Buckets of the table of connections; of the host's table where a namespace shares it.
    pub connection_buckets: Option<u64>,
    /// `net.netfilter.nf_conntrack_max`; `None` where connections are not tracked.
    pub conntrack_max: Option<u64>,
    /// Connections that are tracked now. 0 usually means that no rule asks for tracking.
    pub conntrack_in_use: Option<u64>,
    /// MemTotal, bytes.
    pub memory_total_bytes: Option<u64>,
    /// See [`HostMemory::available_bytes`].
    pub memory_available_bytes: Option<u64>,
    /// The smaller of `kernel.pid_max` and `kernel.threads-max`: threads of the whole host.
    pub tasks_max: Option<u64>,
    /// Threads that exist now.
    pub tasks_in_use: Option<u64>,
    /// Limits of the control groups of this process.
    pub cgroup: CgroupLimits,
}

impl HostLimits {
    /// Reads them below `root` (`/`).
    pub fn read(root: &Path) -> Self {
        let proc_root = root.join("proc");
        let sysctl = |name: &str| first_number(&proc_root.join("sys").join(name));
        let ports = HostPorts::read(&proc_root).ok();
        let conntrack = conntrack(root);
        let memory = HostMemory::read(&proc_root);
        Self {
            descriptors_per_process: descriptors(&proc_root.join("self/limits")),
            nr_open: sysctl("fs/nr_open"),
            file_max: sysctl("fs/file-max"),
            files_in_use: sysctl("fs/file-nr"),
            may_exceed_file_max: has_capability(&proc_root.join("self/status"), CAP_SYS_ADMIN),
            epoll_watches_max: sysctl("fs/epoll/max_user_watches"),
            ports_per_source: ports.map(|ports| u64::from(ports.available())),
            port_range: port_range(&proc_root.join("sys/net/ipv4/ip_local_port_range")),
            tcp_memory_max_bytes: last_number(&proc_root.join("sys/net/ipv4/tcp_mem"))
                .map(|pages| pages.saturating_mul(PAGE_BYTES)),
            orphans_max: sysctl("net/ipv4/tcp_max_orphans"),
            time_wait_max: sysctl("net/ipv4/tcp_max_tw_buckets"),
            accept_queue_max: sysctl("net/core/somaxconn"),
            connection_buckets: buckets(&proc_root.join("sys/net/ipv4/tcp_ehash_entries")),
            conntrack_max: conntrack.map(|(_, max)| max),
            conntrack_in_use: conntrack.map(|(in_use, _)| in_use),
            memory_total_bytes: memory.total_bytes,
            memory_available_bytes: memory.available_bytes,
            tasks_max: tasks_max(&proc_root),
            tasks_in_use: tasks_in_use(&proc_root),
            cgroup: CgroupLimits::read(root),
        }
    }
}

/// The smaller of `kernel.pid_max` and `kernel.threads-max`, below `proc_root`.
pub(crate) fn tasks_max(proc_root: &Path) -> Option<u64> {
    let sysctl = |name: &str| first_number(&proc_root.join("sys/kernel").join(name));
    [sysctl("pid_max"), sysctl("threads-max")].into_iter().flatten().min()
}

/// Threads that exist now, below `proc_root`: of `0.10 0.20 0.30 2/150 4711`, the 150.
pub(crate) fn tasks_in_use(proc_root: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc_root.join("loadavg")).ok()?;
    text.split_once('/')?.1.split_ascii_whitespace().next()?.parse().ok()
}

/// The last number of the sysctl `name`, below `root` (`/`): its upper bound, where it has three.
pub(crate) fn sysctl_last(root: &Path, name: &str) -> Option<u64> {
    last_number(&root.join("proc/sys").join(name))
}

/// Connections that are tracked now and their limit, below `root` (`/`); `None` where
/// connections are not tracked.
pub fn conntrack(root: &Path) -> Option<(u64, u64)> {
    let of = root.join("proc/sys/net/netfilter");
    Some((
        first_number(&of.join("nf_conntrack_count"))?,
        first_number(&of.join("nf_conntrack_max"))?,
    ))
}

/// Negative where a network namespace shares the host's table.
fn buckets(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    text.trim().parse::<i64>().ok().map(i64::unsigned_abs)
}

/// First and last port from which connections are made.
pub(crate) fn port_range(path: &Path) -> Option<(u16, u16)> {
    let text = fs::read_to_string(path).ok()?;
    let mut ends = text.split_ascii_whitespace().map(str::parse);
    Some((ends.next()?.ok()?, ends.next()?.ok()?))
}

/// The hard limit of `Max open files            1024                 524288               files`.
fn descriptors(limits: &Path) -> Option<u64> {
    let text = fs::read_to_string(limits).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        hard => hard.parse().ok(),
    }
}

/// Whether the `CapEff` of a status file has `capability`.
fn has_capability(status: &Path, capability: u32) -> bool {
    let text = fs::read_to_string(status).unwrap_or_default();
    let mask = text.lines().find_map(|line| line.strip_prefix("CapEff:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .is_some_and(|mask| mask >> capability & 1 == 1)
}

#[cfg(test)]
mod tests;
