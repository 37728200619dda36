//! The cost of a hold on this host: memory of clients and SUT, the kernel's part, and the limits that
//! end it.

use std::path::Path;

use plimsoll_capacity::staircase::Gauge;
use plimsoll_fleet::LoadAgents;
use plimsoll_lab::WatchedServer;
use plimsoll_model::cycles::{Kept, KeptPart};
use plimsoll_model::hold::{MemoryReading, Side, memory_reserve_bytes};
use plimsoll_model::host::{LimitId, LimitKind};
use plimsoll_probe::limits::conntrack;
use plimsoll_probe::memory;
use plimsoll_probe::memory::{HostMemory, TcpSockets};
use plimsoll_probe::processes::ProcessUse;
use plimsoll_probe::sampler;

use super::holders::Holders;
use crate::hosts::DESCRIPTOR_RESERVE;

/// The unit of a socket buffer's account on x86-64 and on most ARM kernels.
const PAGE_BYTES: u64 = 4_096;
/// A limit above this means unlimited: the kernel reports a value close to 2^63.
const UNLIMITED: u64 = 1 << 50;

/// The depth of reading /proc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// The counters that the kernel keeps; cheap, for use several times per second.
    Host,
    /// Page tables of every process as well: milliseconds per gigabyte, so at levels only.
    Processes,
}

/// Reads this host.
pub(crate) struct Memory<'a> {
    /// The agents that hold the connections.
    pub(crate) clients: Vec<u32>,
    /// The SUT.
    pub(crate) sut: &'a dyn WatchedServer,
    /// Other hosts hold the connections: the memory of this one says nothing of them.
    pub(crate) is_elsewhere: bool,
}

impl Memory<'_> {
    /// Returns the memory and counters now; nothing if other hosts hold the connections.
    pub(crate) fn read(&self, depth: Depth) -> MemoryReading {
        if self.is_elsewhere {
            return MemoryReading::default();
        }
        let root = Path::new("/proc");
        let host = HostMemory::read(root);
        let tcp = TcpSockets::read(root);
        let of = |pids: &[u32]| match depth {
            Depth::Host => None,
            Depth::Processes => memory::private_bytes(root, pids),
        };
        MemoryReading {
            client_bytes: of(&self.clients),
            sut_bytes: of(&self.sut.pids()),
            kernel_bytes: host.slab_of_work_bytes(),
            socket_buffer_bytes: tcp.buffer_pages.map(|pages| pages.saturating_mul(PAGE_BYTES)),
            available_bytes: host.available_bytes,
            total_bytes: host.total_bytes,
            tcp_sockets: tcp.in_use,
            open_files: memory::open_files(root).map(|(open, _)| open),
        }
    }
}

/// The bounds of a hold besides memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bounds {
    /// Connections for which the agents have descriptors; `None` on other hosts, which start as many processes as
    /// are needed.
    pub(crate) descriptors: Option<u64>,
    /// Connections for which there are source ports.
    pub(crate) ports: Option<u64>,
    /// Sockets that one user may watch.
    pub(crate) watches: Option<u64>,
    /// Files that the host may have open; `None` where every process may exceed it.
    pub(crate) files: Option<u64>,
    /// Bytes that all socket buffers together may hold; above that, the kernel drops data.
    pub(crate) tcp_memory_bytes: Option<u64>,
    /// Sockets of each connection on this host: 2 when both ends are here.
    pub(crate) sockets_each: u64,
    /// Every process that uses memory for the connections is known: clients and SUT, beside the kernel.
    pub(crate) is_all_ours: bool,
}

impl Bounds {
    /// Computes those of a hold by these agents; memory and files of other hosts are not read.
    pub(crate) fn of(holders: &Holders, agents: &LoadAgents) -> Self {
        let Holders { shape, limits, room, is_all_ours } = holders;
        let each = agents.descriptors_max().saturating_sub(DESCRIPTOR_RESERVE);
        Self {
            descriptors: room.is_none().then(|| each.saturating_mul(agents.count() as u64)),
            ports: match room {
                None => shape.hops.iter().filter_map(|hop| hop.connections_max(limits)).min(),
                Some(room) => Some(room.ports).filter(|ports| *ports < UNLIMITED),
            },
            watches: limits.epoll_watches_max,
            files: limits.file_max.filter(|_| !shape.may_exceed_file_max(limits)),
            tcp_memory_bytes: limits.tcp_memory_max_bytes,
            sockets_each: shape.sockets_each(),
            is_all_ours: *is_all_ours,
        }
    }

    /// Returns every resource at a level with `held` connections.
    pub(crate) fn gauges(&self, held: u64, memory: &MemoryReading) -> Vec<Gauge> {
        let known = |resource, side, used: u64, limit: u64, each: u64| Gauge {
            resource,
            side,
            used: used as f64,
            limit: limit as f64,
            per_connection: Some(each as f64),
        };
        let each = self.sockets_each;
        let memory_used = match self.is_all_ours {
            true => attributed_gauge(memory).or_else(|| memory_gauge(memory)),
            false => memory_gauge(memory),
        };
        let mut gauges: Vec<_> = memory_used.into_iter().collect();
        for (kind, limit) in
            [(LimitKind::OpenFiles, self.descriptors), (LimitKind::Ports, self.ports)]
        {
            let of_clients = LimitId::of(kind, "clients");
            gauges.extend(limit.map(|limit| known(of_clients, Side::Generator, held, limit, 1)));
        }
        let watches = self.watches.filter(|limit| *limit < UNLIMITED);
        let host = LimitId::host;
        gauges.extend(watches.map(|limit| {
            known(host(LimitKind::EpollWatches), Side::Host, held * each, limit, each)
        }));
        let files = self.files.filter(|limit| *limit < UNLIMITED).zip(memory.open_files);
        gauges.extend(
            files.map(|(limit, open)| {
                known(host(LimitKind::OpenFiles), Side::Host, open, limit, each)
            }),
        );
        let tcp_memory = memory.socket_buffer_bytes.zip(self.tcp_memory_bytes);
        gauges.extend(tcp_memory.map(|of| measured(host(LimitKind::TcpMemory), Side::Host, of)));
        gauges
    }
}

/// Returns the memory of the processes that hold connections. What other programs allocate between two levels
/// is no cost of the connections, so it only lowers the limit.
fn attributed_gauge(memory: &MemoryReading) -> Option<Gauge> {
    let parts = [memory.client_bytes, memory.kernel_bytes, memory.socket_buffer_bytes];
    let known = parts.into_iter().sum::<Option<u64>>()?;
    let used = known + memory.sut_bytes.unwrap_or(0);
    let reserve = memory_reserve_bytes(memory.total_bytes?);
    let limit = used + memory.available_bytes?.saturating_sub(reserve);
    Some(measured(LimitId::host(LimitKind::Memory), Side::Host, (used, limit)))
}

/// Returns the memory of the whole host: the resource that must never run out.
pub(crate) fn memory_gauge(memory: &MemoryReading) -> Option<Gauge> {
    let (total, available) = (memory.total_bytes?, memory.available_bytes?);
    let limit = total - memory_reserve_bytes(total);
    let used = total.saturating_sub(available);
    Some(measured(LimitId::host(LimitKind::Memory), Side::Host, (used, limit)))
}

/// Returns a resource whose use by each connection is measured from level to level.
fn measured(resource: LimitId, side: Side, (used, limit): (u64, u64)) -> Gauge {
    let (used, limit) = (used as f64, limit as f64);
    Gauge { resource, side, used, limit, per_connection: None }
}

/// Reads what the server uses now, part by part; a part that cannot be read is left out.
pub(crate) fn kept_by(server: &dyn WatchedServer) -> Kept {
    let (proc, mut pids) = (Path::new("/proc"), server.pids());
    pids.truncate(SERVER_PROCESSES_MAX);
    let uses: Vec<ProcessUse> =
        pids.iter().map(|pid| ProcessUse::read(Path::new("/"), *pid)).collect();
    let bytes: Vec<Option<u64>> =
        pids.iter().map(|pid| memory::private_bytes(proc, &[*pid])).collect();
    let sum = |of: fn(&ProcessUse) -> Option<u64>| {
        uses.iter().map(of).sum::<Option<u64>>().filter(|_| !uses.is_empty())
    };
    let pools = server.statistics().and_then(|source| source.pools());
    let buffers = TcpSockets::read(proc).buffer_pages;
    let whole = [
        (KeptPart::Processes, bytes.iter().flatten().copied().reduce(u64::saturating_add)),
        (KeptPart::PoolsUsed, pools.map(|pools| pools.used_bytes)),
        (KeptPart::PoolsAllocated, pools.map(|pools| pools.allocated_bytes)),
        (KeptPart::OpenFiles, sum(|process| Some(process.files?.0))),
        (KeptPart::Threads, sum(|process| process.threads)),
        (KeptPart::Slab, HostMemory::read(proc).slab_of_work_bytes()),
        (KeptPart::SocketBuffers, buffers.map(|pages| pages.saturating_mul(PAGE_BYTES))),
    ];
    let whole =
        whole.into_iter().filter_map(|(part, value)| Some((part.name().to_owned(), value?)));
    let each = pids.iter().zip(bytes).filter(|_| pids.len() > 1);
    let each = each.filter_map(|(pid, bytes)| Some((KeptPart::of_process(*pid), bytes?)));
    whole.chain(each).collect()
}

/// At most this many processes of a server are read, the first ones.
const SERVER_PROCESSES_MAX: usize = 64;

/// Returns the limits of the server's own processes and of its configuration, as far as it reports them, and
/// those that the kernel sets for all; each process has its own, and the fullest one
/// ends first.
pub(crate) fn server_gauges(server: &dyn WatchedServer) -> Vec<Gauge> {
    let root = Path::new("/");
    let pids = server.pids();
    let own = ProcessUse::read(root, std::process::id()).group_bytes;
    let mut gauges = Vec::new();
    for pid in pids.iter().take(SERVER_PROCESSES_MAX) {
        let seen = ProcessUse::read(root, *pid);
        let whose = if pids.len() > 1 { format!(" (pid {pid})") } else { String::new() };
        let group = seen.group_bytes.filter(|(_, limit)| own.is_none_or(|own| own.1 != *limit));
        let limited = |figures: Option<(u64, u64)>| figures.filter(|(_, max)| *max < UNLIMITED);
        let open = seen.files.map(|(open, _)| open);
        for (kind, program, figures) in [
            (LimitKind::OpenFiles, "server", limited(seen.files)),
            (LimitKind::AddressSpace, "server", limited(seen.address_space_bytes)),
            (LimitKind::CgroupMemory, "server", limited(group)),
            (LimitKind::WorkerConnections, "nginx", sampler::nginx::connections(root, *pid, open)),
            (
                LimitKind::MaxConnections,
                "mosquitto",
                sampler::mosquitto::connections(root, *pid, open),
            ),
        ] {
            let id = LimitId::of(kind, format!("{program}{whose}"));
            gauges.extend(figures.map(|figures| measured(id, Side::Server, figures)));
        }
    }
    gauges.extend(own_gauges(server));
    // A server that does not use this table leaves it empty.
    let tracked = conntrack(root).filter(|(in_use, _)| *in_use > 0);
    gauges.extend(
        tracked.map(|of| measured(LimitId::host(LimitKind::TrackedConnections), Side::Host, of)),
    );
    if let Some((used, limit)) = own {
        let limit = limit - memory_reserve_bytes(limit);
        gauges.push(measured(LimitId::host(LimitKind::CgroupMemory), Side::Host, (used, limit)));
    }
    gauges
}

/// Returns the limits of a server whose clients are on this host, or `is_elsewhere`.
pub(crate) fn gauges_of(server: &dyn WatchedServer, is_elsewhere: bool) -> Vec<Gauge> {
    match is_elsewhere && server.pids().is_empty() {
        true => own_gauges(server),
        false => server_gauges(server),
    }
}

/// Returns the limits of a server's configuration, as far as it reports them.
pub(crate) fn own_gauges(server: &dyn WatchedServer) -> Vec<Gauge> {
    let limits = server.limits().into_iter();
    limits.map(|of| measured(of.id, Side::Server, (of.used as u64, of.max as u64))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_or_has_no_limit_is_no_gauge() {
        let bounds = Bounds {
            descriptors: Some(19_936),
            ports: Some(28_232),
            watches: Some(5_000_000),
            files: Some(u64::MAX),
            tcp_memory_bytes: Some(300),
            sockets_each: 2,
            is_all_ours: false,
        };
        let memory = MemoryReading {
            total_bytes: Some(1_000),
            available_bytes: Some(400),
            open_files: Some(7),
            ..MemoryReading::default()
        };
        let gauges = bounds.gauges(100, &memory);
        let seen: Vec<_> =
            gauges.iter().map(|g| (g.resource.to_string(), g.used, g.limit)).collect();
        let seen: Vec<_> = seen.iter().map(|(name, used, max)| (&**name, *used, *max)).collect();
        assert_eq!(
            seen,
            [
                ("memory", 600.0, 950.0),
                ("open files of clients", 100.0, 19_936.0),
                ("ports of clients", 100.0, 28_232.0),
                ("epoll watches", 200.0, 5_000_000.0),
            ]
        );
        // Of 400 available, 50 are the reserve.
        let ours = Bounds { is_all_ours: true, ..bounds };
        let attributed = MemoryReading {
            client_bytes: Some(30),
            sut_bytes: Some(20),
            kernel_bytes: Some(10),
            socket_buffer_bytes: Some(0),
            ..memory
        };
        let gauge = &ours.gauges(100, &attributed)[0];
        assert_eq!((gauge.used, gauge.limit), (60.0, 410.0));
        // Without attribution, memory of the whole host is used.
        assert_eq!(ours.gauges(100, &memory)[0].used, 600.0);
        // Buffered bytes are measured; their limit is tcp_mem.
        let buffers = ours.gauges(100, &MemoryReading { socket_buffer_bytes: Some(12), ..memory });
        let tcp_memory =
            buffers.iter().find(|gauge| gauge.resource.kind == LimitKind::TcpMemory).unwrap();
        assert_eq!((tcp_memory.used, tcp_memory.limit), (12.0, 300.0));
        let unknown = Bounds { ports: None, watches: None, ..bounds };
        assert_eq!(unknown.gauges(0, &MemoryReading::default()).len(), 1);
    }

    struct Processes(Vec<u32>);

    impl WatchedServer for Processes {
        fn pids(&self) -> Vec<u32> {
            self.0.clone()
        }
    }

    #[test]
    fn each_process_of_the_server_has_its_own_limits() {
        let own = std::process::id();
        let names = |pids: &[u32]| -> Vec<String> {
            let server = Processes(pids.to_vec());
            server_gauges(&server).into_iter().map(|gauge| gauge.resource.to_string()).collect()
        };
        assert!(names(&[own]).contains(&"open files of server".to_owned()), "{:?}", names(&[own]));
        let two = names(&[own, own]);
        assert!(two.contains(&format!("open files of server (pid {own})")), "{two:?}");
    }

    #[test]
    fn this_host_and_this_process_are_readable() {
        let own = std::process::id();
        let memory =
            Memory { clients: vec![own], sut: &Processes(Vec::new()), is_elsewhere: false };
        let deep = memory.read(Depth::Processes);
        assert!(deep.client_bytes > Some(0) && deep.sut_bytes.is_none());
        assert!(memory.read(Depth::Host).client_bytes.is_none());
    }
}
