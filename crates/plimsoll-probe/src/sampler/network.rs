//! Network of one namespace: TCP, interfaces, input queues of the CPUs, connection tracking, and
//! accept queues.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::parent_id;
use std::path::Path;

use plimsoll_model::Nanos;
use plimsoll_model::host::{Label, LimitId, LimitKind, Metric, Reading};
use plimsoll_sys::namespace::Namespace;
use plimsoll_sys::{clock, qdisc, sock_diag};

use super::entry::{THIS_THREAD, add_limit, text};
use crate::host::link_bytes_per_s;
use crate::{file, limits, lines, memory};

/// Bytes of a page that sockstat counts in, on the machines that plimsoll is built for by default.
const PAGE_BYTES: f64 = 4096.0;

/// The listening sockets of watched servers and backends, by number, with the name of the process.
pub(super) type Owners = BTreeMap<u32, String>;

/// Descriptors of a process that are looked at, the lowest: a server listens before it accepts.
const DESCRIPTORS_MAX: u32 = 256;

/// Returns the numbers of the sockets among the lowest descriptors of process `pid`. The folder is not listed: the
/// kernel takes 3 us for each entry, of which one call returns 1,365.
pub(super) fn sockets_of(root: &Path, pid: u32) -> Vec<u32> {
    let folder = root.join("proc").join(pid.to_string()).join("fd");
    let number = |descriptor: u32| {
        let target = fs::read_link(folder.join(descriptor.to_string())).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    };
    (0..DESCRIPTORS_MAX).filter_map(number).collect()
}

/// Limits of TCP that hold for the whole host, and that only its first network namespace shows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct HostWide {
    memory_pages: Option<u64>,
    orphans: Option<u64>,
}

impl HostWide {
    /// Reads the figures of the host below `root` (`/`), also if this thread is in another namespace. The process that
    /// started this program, or an ancestor of it, is in the first namespace.
    pub(super) fn read(root: &Path) -> Self {
        let here = || {
            let sysctl = |name| limits::sysctl_last(root, name);
            let memory_pages = sysctl("net/ipv4/tcp_mem");
            Self { memory_pages, orphans: sysctl("net/ipv4/tcp_max_orphans") }
        };
        let seen = here();
        if seen.memory_pages.is_some() || root != Path::new("/") {
            return seen;
        }
        let look = |pid: u32| {
            let found = Namespace::of_process(pid).and_then(|other| other.run(here)).ok()?;
            found.memory_pages.map(|_| found)
        };
        ancestors().find_map(look).unwrap_or(seen)
    }
}

/// Returns the parent of this process, the parent's parent, and so on.
pub(super) fn ancestors() -> impl Iterator<Item = u32> {
    let parent = |pid: &u32| {
        let status = file::text(format!("/proc/{pid}/status")).ok()?;
        lines::number(&status, "PPid:")?.try_into().ok().filter(|parent| *parent > 0)
    };
    std::iter::successors(Some(parent_id()), parent)
}

/// A field of `net/snmp` or `net/netstat`: the line's name, the column's, and what it is.
type Field = (&'static str, &'static str, Metric, &'static [(Label, &'static str)]);

const SNMP: &[Field] = &[
    ("Tcp", "ActiveOpens", Metric::TcpOpens, &[(Label::Direction, "active")]),
    ("Tcp", "PassiveOpens", Metric::TcpOpens, &[(Label::Direction, "passive")]),
    ("Tcp", "AttemptFails", Metric::TcpAttemptFails, &[]),
    ("Tcp", "EstabResets", Metric::TcpEstablishedResets, &[]),
    ("Tcp", "CurrEstab", Metric::TcpEstablished, &[]),
    ("Tcp", "InSegs", Metric::TcpSegments, &[(Label::Direction, "receive")]),
    ("Tcp", "OutSegs", Metric::TcpSegments, &[(Label::Direction, "transmit")]),
    ("Tcp", "RetransSegs", Metric::TcpRetransmitted, &[]),
    ("Tcp", "OutRsts", Metric::TcpResetsSent, &[]),
];

const NETSTAT: &[Field] = &[
    ("TcpExt", "TCPTimeouts", Metric::TcpTimeouts, &[]),
    ("TcpExt", "TCPSynRetrans", Metric::TcpSynRetransmitted, &[]),
    ("TcpExt", "ListenOverflows", Metric::TcpListenOverflows, &[]),
    ("TcpExt", "ListenDrops", Metric::TcpListenDrops, &[]),
    ("TcpExt", "SyncookiesSent", Metric::TcpSyncookiesSent, &[]),
    ("TcpExt", "TCPReqQFullDoCookies", Metric::TcpSynQueueFull, &[(Label::Action, "cookie")]),
    ("TcpExt", "TCPReqQFullDrop", Metric::TcpSynQueueFull, &[(Label::Action, "drop")]),
    ("TcpExt", "TCPBacklogDrop", Metric::TcpBacklogDrops, &[]),
    ("TcpExt", "TCPRcvQDrop", Metric::TcpReceiveQueueDrops, &[]),
    ("TcpExt", "TCPToZeroWindowAdv", Metric::TcpZeroWindows, &[]),
    ("TcpExt", "TCPMemoryPressures", Metric::TcpMemoryPressures, &[]),
    ("TcpExt", "TCPTimeWaitOverflow", Metric::TcpTimeWaitOverflows, &[]),
    ("TcpExt", "TCPAbortOnMemory", Metric::TcpAborts, &[(Label::Reason, "memory")]),
    ("TcpExt", "TCPAbortOnTimeout", Metric::TcpAborts, &[(Label::Reason, "timeout")]),
    ("TcpExt", "TCPAbortOnLinger", Metric::TcpAborts, &[(Label::Reason, "linger")]),
    ("TcpExt", "TCPAbortOnClose", Metric::TcpAborts, &[(Label::Reason, "close")]),
];

/// Words of the line `TCP:` of sockstat.
const SOCKET_STATES: [(&str, &str); 4] =
    [("inuse", "inuse"), ("orphan", "orphan"), ("tw", "time_wait"), ("alloc", "allocated")];

/// The network that is read.
#[derive(Debug, Default)]
pub(super) enum Place {
    /// The one of the thread that reads.
    #[default]
    Here,
    /// Another one. It is held, so that it does not end with the processes in it.
    Elsewhere(Namespace),
    /// The network of the reading thread instead of this process's, for this reason.
    NotOf(u32, String),
}

impl Place {
    /// Returns the network of process `pid`, or this thread's if that cannot be entered.
    pub(super) fn of(root: &Path, pid: Option<u32>) -> Self {
        let Some(pid) = pid else { return Self::Here };
        // Every network namespace has separate files, which everybody may look at; only the owner may read links of
        // `ns`.
        let file = |process: &str| {
            let path = root.join("proc").join(process).join("net/snmp");
            fs::metadata(path).map(|file| file.ino()).ok()
        };
        match file(&pid.to_string()).zip(file(THIS_THREAD)) {
            Some((there, here)) if there != here => {}
            _ => return Self::Here,
        }
        let entered = Namespace::of_process(pid).and_then(|network| {
            network.run(|| ())?;
            Ok(network)
        });
        match entered {
            Ok(network) => Self::Elsewhere(network),
            Err(error) => Self::NotOf(pid, error.to_string()),
        }
    }
}

/// Reads the network at `place`. Returns the CPU time of other threads that this took.
pub(super) fn read(
    root: &Path,
    place: &Place,
    host_wide: HostWide,
    owners: &Owners,
    reading: &mut Reading,
) -> Nanos {
    match place {
        Place::Here => read_here(root, true, host_wide, owners, reading),
        Place::NotOf(pid, why) => {
            read_here(root, true, host_wide, owners, reading);
            reading.miss(
                format!("network namespace of process {pid}"),
                format!("{why}; figures of the network are those of this program's namespace"),
            );
        }
        Place::Elsewhere(network) => {
            let took = network.run(|| {
                read_here(root, false, host_wide, owners, reading);
                clock::thread_cpu_ns()
            });
            match took {
                Ok(took_ns) => return Nanos(took_ns),
                Err(error) => reading.miss("network namespace of the processes", error),
            }
        }
    }
    Nanos::ZERO
}

/// Reads this thread's namespace; `has_sysfs` if `/sys/class/net` lists its interfaces.
fn read_here(
    root: &Path,
    has_sysfs: bool,
    host_wide: HostWide,
    owners: &Owners,
    reading: &mut Reading,
) {
    let net = |name: &str| format!("proc/{THIS_THREAD}/net/{name}");
    read_traffic(root, reading);
    if let Some(netstat) = text(root, &net("netstat"), reading) {
        add_fields(&netstat, NETSTAT, reading);
    }
    if let Some(sockstat) = text(root, &net("sockstat"), reading) {
        add_sockstat(root, &sockstat, host_wide, reading);
    }
    add_conntrack(root, &net("stat/nf_conntrack"), reading);
    add_listeners(owners, reading);
    add_speeds(root, has_sysfs, reading);
}

/// Reads the traffic of this thread's namespace.
pub(super) fn read_traffic(root: &Path, reading: &mut Reading) {
    let net = |name: &str| format!("proc/{THIS_THREAD}/net/{name}");
    if let Some(snmp) = text(root, &net("snmp"), reading) {
        add_fields(&snmp, SNMP, reading);
    }
    if let Some(devices) = text(root, &net("dev"), reading) {
        add_devices(&devices, reading);
    }
    // The queues of the CPUs belong to the whole host.
    if let Some(softnet) = text(root, "proc/net/softnet_stat", reading) {
        add_softnet(&softnet, reading);
    }
}

/// Pairs of lines: `Tcp: ActiveOpens PassiveOpens …` and below it `Tcp: 24 2 …`. Columns are found by
/// name; kernels differ.
fn add_fields(text: &str, fields: &[Field], reading: &mut Reading) {
    let mut lines = text.lines();
    while let (Some(names), Some(values)) = (lines.next(), lines.next()) {
        let (mut names, mut values) =
            (names.split_ascii_whitespace(), values.split_ascii_whitespace());
        let line = names.next().and_then(|name| name.strip_suffix(':')).unwrap_or_default();
        values.next();
        for (name, value) in names.zip(values) {
            let field = fields.iter().find(|field| field.0 == line && field.1 == name);
            if let (Some((_, _, metric, labels)), Ok(value)) = (field, value.parse::<f64>()) {
                reading.add(*metric, labels, value);
            }
        }
    }
}

/// `TCP: inuse 12 orphan 0 tw 3 alloc 15 mem 1`.
fn add_sockstat(root: &Path, sockstat: &str, host_wide: HostWide, reading: &mut Reading) {
    let value = |name: &str| memory::pair(sockstat, "TCP:", name).map(|value| value as f64);
    for (name, state) in SOCKET_STATES {
        reading.add_some(Metric::TcpSockets, &[(Label::State, state)], value(name));
    }
    let memory = value("mem").map(|pages| pages * PAGE_BYTES);
    reading.add_some(Metric::TcpMemoryBytes, &[], memory);
    let max = |name: &str, elsewhere: Option<u64>| {
        let here = limits::sysctl_last(root, &format!("net/ipv4/{name}"));
        here.or(elsewhere).map(|value| value as f64)
    };
    let memory_max = max("tcp_mem", host_wide.memory_pages).map(|pages| pages * PAGE_BYTES);
    add_limit(reading, &LimitId::host(LimitKind::TcpMemory), memory, memory_max);
    let orphans_max = max("tcp_max_orphans", host_wide.orphans);
    add_limit(reading, &LimitId::host(LimitKind::Orphans), value("orphan"), orphans_max);
    let time_wait_max = max("tcp_max_tw_buckets", None);
    add_limit(reading, &LimitId::host(LimitKind::TimeWait), value("tw"), time_wait_max);
}

/// `  eth0: bytes packets errs drop fifo frame compressed multicast bytes packets errs drop …`.
fn add_devices(devices: &str, reading: &mut Reading) {
    for line in devices.lines() {
        let Some((name, numbers)) = line.split_once(':') else { continue };
        let numbers: Vec<f64> =
            numbers.split_ascii_whitespace().filter_map(|number| number.parse().ok()).collect();
        for (direction, at) in [("receive", 0), ("transmit", 8)] {
            let labels = [(Label::Device, name.trim()), (Label::Direction, direction)];
            let number = |offset: usize| numbers.get(at + offset).copied();
            reading.add_some(Metric::NetworkBytes, &labels, number(0));
            reading.add_some(Metric::NetworkPackets, &labels, number(1));
            reading.add_some(Metric::NetworkDrops, &labels, number(3));
        }
    }
}

/// A line for each CPU, hexadecimal: processed, dropped, time_squeeze, …, length, CPU.
fn add_softnet(softnet: &str, reading: &mut Reading) {
    for (line_number, line) in softnet.lines().enumerate() {
        let numbers: Vec<u64> = line
            .split_ascii_whitespace()
            .map_while(|word| u64::from_str_radix(word, 16).ok())
            .collect();
        // The CPU's number is there since Linux 5.10; before, offline CPUs have no line.
        let cpu = numbers.get(12).map_or(line_number as u64, |cpu| *cpu).to_string();
        let labels = [(Label::Cpu, cpu.as_str())];
        let number = |at: usize| numbers.get(at).map(|number| *number as f64);
        reading.add_some(Metric::SoftnetProcessed, &labels, number(0));
        reading.add_some(Metric::SoftnetDropped, &labels, number(1));
        reading.add_some(Metric::SoftnetSqueezed, &labels, number(2));
    }
}

/// Reads the table of tracked connections; a host without the module misses nothing.
fn add_conntrack(root: &Path, stat: &str, reading: &mut Reading) {
    let Some((used, max)) = limits::conntrack(root) else { return };
    let limit = LimitId::host(LimitKind::TrackedConnections);
    add_limit(reading, &limit, Some(used as f64), Some(max as f64));
    let Some(stat) = text(root, stat, reading) else { return };
    let mut lines = stat.lines();
    let names: Vec<&str> = lines.next().unwrap_or_default().split_ascii_whitespace().collect();
    let mut drops = 0;
    for line in lines {
        for (name, value) in names.iter().zip(line.split_ascii_whitespace()) {
            if ["drop", "early_drop", "insert_failed"].contains(name) {
                drops += u64::from_str_radix(value, 16).unwrap_or(0);
            }
        }
    }
    reading.add(Metric::ConntrackDrops, &[], drops as f64);
}

/// Reads the most that interfaces send: the speed of hardware interfaces (others invent theirs), or the rate that a
/// token bucket passes.
fn add_speeds(root: &Path, has_sysfs: bool, reading: &mut Reading) {
    let directory = has_sysfs.then(|| fs::read_dir(root.join("sys/class/net")).ok()).flatten();
    let interfaces = directory.into_iter().flatten().flatten();
    let mut speeds: Vec<(String, f64)> = interfaces
        .filter_map(|interface| {
            let device = interface.file_name().into_string().ok()?;
            let speed = link_bytes_per_s(root, &device)?;
            Some((device, speed))
        })
        .collect();
    let qdiscs = match qdisc::qdiscs() {
        Ok(qdiscs) => qdiscs,
        Err(errno) => return reading.miss("queueing disciplines (rtnetlink)", errno),
    };
    let mut drops = BTreeMap::<String, f64>::new();
    for qdisc in qdiscs {
        speeds.extend(qdisc.bytes_per_s.map(|rate| (qdisc.device.clone(), rate as f64)));
        *drops.entry(qdisc.device).or_default() += f64::from(qdisc.drops);
    }
    for (device, drops) in drops {
        reading.add(Metric::NetworkQueueDrops, &[(Label::Device, &device)], drops);
    }
    // The slowest of them counts.
    speeds.sort_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
    speeds.dedup_by(|later, first| later.0 == first.0);
    for (device, speed) in speeds {
        reading.add(Metric::NetworkSpeed, &[(Label::Device, &device)], speed);
    }
}

/// Sockets that share a port are added up: their queues fill alike.
fn add_listeners(owners: &Owners, reading: &mut Reading) {
    let mut queues = match sock_diag::listen_queues() {
        Ok(queues) => queues,
        Err(errno) => return reading.miss("accept queues (sock_diag)", errno),
    };
    queues.sort_by_key(|queue| queue.address);
    for alike in queues.chunk_by(|a, b| a.address == b.address) {
        let sum = |of: fn(&sock_diag::ListenQueue) -> u32| {
            alike.iter().map(|queue| f64::from(of(queue))).sum::<f64>()
        };
        let listener = alike[0].address.to_string();
        let labels = [(Label::Listener, listener.as_str())];
        let (waiting, length) = (sum(|queue| queue.waiting), sum(|queue| queue.limit));
        reading.add(Metric::ListenQueue, &labels, waiting);
        reading.add(Metric::ListenQueueLimit, &labels, length);
        let owner = alike.iter().find_map(|queue| owners.get(&queue.inode));
        let owner = owner.map(|process| (Label::Process, process.as_str()));
        let labels: Vec<_> = labels.into_iter().chain(owner).collect();
        reading.add(Metric::TcpListenerDrops, &labels, sum(|queue| queue.dropped));
        let limit = LimitId::of(LimitKind::AcceptQueue, listener.as_str());
        add_limit(reading, &limit, Some(waiting), Some(length));
    }
}
