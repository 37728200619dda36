//! Limits of this host and this process, and how much of each is in use.
//!
//! Read once, before a load, from `/proc` and the control groups. What a kernel does not report
//! stays `None`: nothing is guessed.

use std::ops::RangeInclusive;
use std::path::Path;

use plimsoll_sys::ports::{HostPorts, parse_range};

use crate::memory::HostMemory;

mod cgroup;
mod number;
mod user;

pub use cgroup::{CgroupLimits, CpuQuota, group_of, throttled_periods};
pub(crate) use cgroup::{figure, groups_of};
pub use number::Allowance;
pub(crate) use number::first_number;

use crate::file;
use number::last_number;
use user::Privilege;

/// Time after which a port in TIME_WAIT may be used again by default, milliseconds: `tcp_tw_reuse_delay`, a constant
/// before Linux 6.14.
const REUSE_DELAY_MS: u64 = 1_000;
/// The page size that `tcp_mem` counts in, on the machines that plimsoll is built for by default.
const PAGE_BYTES: u64 = 4096;

/// The limits of a host, and of a process on it, that bound the number of connections.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostLimits {
    /// RLIMIT_NOFILE, the hard limit: descriptors of each process.
    pub descriptors_per_process: Option<u64>,
    /// `fs.nr_open`: what RLIMIT_NOFILE can be raised to.
    pub nr_open: Option<u64>,
    /// `fs.file-max`: open files of the whole host.
    pub file_max: Option<u64>,
    /// Files that are open now, from `fs.file-nr`.
    pub files_in_use: Option<u64>,
    /// The process may exceed `file_max`.
    pub may_exceed_file_max: bool,
    /// `fs.epoll.max_user_watches`, for all processes of one user together. The kernel does not
    /// report how many are in use.
    pub epoll_watches_max: Option<u64>,
    /// Source ports of one address: the range without reserved ports and ports of listeners.
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
    /// Buckets of the table of connections; of the host's table if a namespace shares it.
    pub connection_buckets: Option<u64>,
    /// `net.netfilter.nf_conntrack_max`; `None` if connections are not tracked.
    pub conntrack_max: Option<u64>,
    /// Connections that are tracked now. 0 usually means that no rule asks for tracking.
    pub conntrack_in_use: Option<u64>,
    /// `nf_conntrack_tcp_timeout_time_wait`: how long a closed connection is tracked, seconds.
    pub conntrack_time_wait_s: Option<u64>,
    /// Milliseconds after which a port in TIME_WAIT may be used again, to any host; `None` if `net.ipv4.tcp_tw_reuse`
    /// does not allow it.
    pub reuse_delay_ms: Option<u64>,
    /// MemTotal, bytes.
    pub memory_total_bytes: Option<u64>,
    /// See [`HostMemory::available_bytes`].
    pub memory_available_bytes: Option<u64>,
    /// The smaller of `kernel.pid_max` and `kernel.threads-max`: threads of the whole host.
    pub tasks_max: Option<u64>,
    /// Threads that exist now.
    pub tasks_in_use: Option<u64>,
    /// Threads of the user, of RLIMIT_NPROC, the soft limit; `None` if it does not hold.
    pub user_tasks: Option<Allowance>,
    /// Limits of the control groups of the process.
    pub cgroup: CgroupLimits,
}

impl HostLimits {
    /// Reads them below `root` (`/`), for this process.
    pub fn read(root: &Path) -> Self {
        Self::of_process(root, "self")
    }

    /// Reads them for `process`, an entry of `proc` below `root`. The network is this process's.
    pub fn of_process(root: &Path, process: &str) -> Self {
        let proc_root = root.join("proc");
        let sysctl = |name: &str| first_number(&proc_root.join("sys").join(name));
        let ports = HostPorts::read(&proc_root).ok();
        let conntrack = conntrack(root);
        let memory = HostMemory::read(&proc_root);
        let own = proc_root.join(process);
        let privilege = Privilege::read(&own);
        Self {
            descriptors_per_process: descriptors(&own.join("limits")),
            nr_open: sysctl("fs/nr_open"),
            file_max: sysctl("fs/file-max"),
            files_in_use: sysctl("fs/file-nr"),
            may_exceed_file_max: privilege.may_exceed_file_max(),
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
            conntrack_time_wait_s: sysctl("net/netfilter/nf_conntrack_tcp_timeout_time_wait"),
            reuse_delay_ms: reuse_delay_ms(&sysctl),
            memory_total_bytes: memory.total_bytes,
            memory_available_bytes: memory.available_bytes,
            tasks_max: tasks_max(&proc_root),
            tasks_in_use: tasks_in_use(&proc_root),
            user_tasks: privilege.tasks(&proc_root, &own),
            cgroup: CgroupLimits::of_process(root, process),
        }
    }
}

/// 2, the default, allows loopback only; without timestamps nothing is reused.
fn reuse_delay_ms(sysctl: &dyn Fn(&str) -> Option<u64>) -> Option<u64> {
    let allows = sysctl("net/ipv4/tcp_tw_reuse") == Some(1);
    let allows = allows && sysctl("net/ipv4/tcp_timestamps") != Some(0);
    allows.then(|| sysctl("net/ipv4/tcp_tw_reuse_delay").unwrap_or(REUSE_DELAY_MS))
}

/// Returns the smaller of `kernel.pid_max` and `kernel.threads-max`, below `proc_root`.
pub(crate) fn tasks_max(proc_root: &Path) -> Option<u64> {
    let sysctl = |name: &str| first_number(&proc_root.join("sys/kernel").join(name));
    [sysctl("pid_max"), sysctl("threads-max")].into_iter().flatten().min()
}

/// Reads the number of threads that exist now, below `proc_root`: of `0.10 0.20 0.30 2/150 4711`, the 150.
pub(crate) fn tasks_in_use(proc_root: &Path) -> Option<u64> {
    let text = file::text(proc_root.join("loadavg")).ok()?;
    text.split_once('/')?.1.split_ascii_whitespace().next()?.parse().ok()
}

/// Reads the last number of the sysctl `name`, below `root` (`/`): its upper bound, if it has three.
pub(crate) fn sysctl_last(root: &Path, name: &str) -> Option<u64> {
    last_number(&root.join("proc/sys").join(name))
}

/// Reads the number of tracked connections and its limit, below `root` (`/`); `None` if connections are not tracked.
pub fn conntrack(root: &Path) -> Option<(u64, u64)> {
    let of = root.join("proc/sys/net/netfilter");
    Some((
        first_number(&of.join("nf_conntrack_count"))?,
        first_number(&of.join("nf_conntrack_max"))?,
    ))
}

/// Returns the number of buckets, negative if a network namespace shares the host's table.
fn buckets(path: &Path) -> Option<u64> {
    let text = file::text(path).ok()?;
    text.trim().parse::<i64>().ok().map(i64::unsigned_abs)
}

/// Reads the first and the last port from which connections are made.
pub(crate) fn port_range(path: &Path) -> Option<(u16, u16)> {
    parse_range(&file::text(path).ok()?).map(RangeInclusive::into_inner)
}

/// The hard limit of `Max open files            1024                 524288               files`.
fn descriptors(limits: &Path) -> Option<u64> {
    let text = file::text(limits).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_ascii_whitespace().nth(1)? {
        "unlimited" => Some(u64::MAX),
        hard => hard.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
