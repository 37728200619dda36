//! Each limit: what the connections need, what the host allows, and how to raise it.

use plimsoll_model::hold::memory_reserve_bytes;
use plimsoll_model::units::grouped;
use plimsoll_probe::limits::HostLimits;

use super::need::{CONNECTIONS_MAX, Fix, Need, Unit, Verdict};
use super::shape::{
    Hop, PROCESS_DESCRIPTORS, Part, Processes, SOCKET_KERNEL_BYTES, Shape, descriptors_per_process,
};

/// Connections in one bucket of the kernel's table above which a lookup costs noticeable time: at 48 another flow was 10 % slower (Linux commit d1e5e6408b).
const CONNECTIONS_PER_BUCKET_MAX: u64 = 16;
/// A small packet in a receive queue uses at most a page.
const QUEUED_PACKET_BYTES: u64 = 4096;
/// Ports of one address with the widest range that needs no privilege: 1024 to 65535.
const PORTS_PER_SOURCE_MAX: u64 = 64_512;
/// How long a port rests after a close by FIN, seconds: TCP_TIMEWAIT_LEN, include/net/tcp.h.
const TIME_WAIT_S: u64 = 60;
/// How long a closed connection is tracked, seconds: nf_conntrack_tcp_timeout_time_wait.
const CONNTRACK_TIME_WAIT_S: u64 = 120;

/// What is compared, before the comparison.
struct Limit<'a> {
    name: String,
    unit: Unit,
    have: Option<u64>,
    /// For a number of connections; never falls as they grow.
    need: &'a dyn Fn(u64) -> u64,
    /// The verdict when it is too low.
    if_short: Verdict,
    /// How to raise it to a given need.
    fix: &'a dyn Fn(u64) -> Fix,
}

impl Limit<'_> {
    fn judge(self, connections: u64) -> Need {
        let need = (self.need)(connections);
        let verdict = match self.have {
            None => Verdict::Unknown,
            Some(have) if need <= have => Verdict::Ok,
            Some(_) => self.if_short,
        };
        let is_low = matches!(verdict, Verdict::Short | Verdict::Warn);
        Need {
            limit: self.name,
            unit: self.unit,
            need,
            have: self.have,
            verdict,
            stops: self.if_short == Verdict::Short,
            fix: is_low.then(|| (self.fix)(need)),
            fits: match (self.have, self.if_short) {
                // A limit that fails no connection allows any number of them.
                (Some(have), Verdict::Short) => largest_fitting(have, self.need),
                _ => CONNECTIONS_MAX,
            },
        }
    }
}

/// Every limit, in the order in which a ramp reaches them.
pub(super) fn lines(shape: &Shape, limits: &HostLimits) -> Vec<Need> {
    let mut lines: Vec<_> = shape.started().map(|part| descriptors(part, shape, limits)).collect();
    lines.push(files(shape, limits));
    lines.push(watches(shape, limits));
    lines.extend(shape.hops.iter().map(|hop| ports(hop, shape, limits)));
    lines.push(memory(shape, limits));
    lines.extend(group_memory(shape, limits));
    lines.push(tasks(shape, limits));
    lines.extend(conntrack(shape, limits));
    lines.push(accept_queue(shape, limits));
    lines.push(buckets(shape, limits));
    lines.push(queued_data(shape, limits));
    lines.extend(closing(shape, limits));
    lines
}

fn descriptors(part: &Part, shape: &Shape, limits: &HostLimits) -> Need {
    let have = descriptors_per_process(limits);
    let nr_open = limits.nr_open.unwrap_or(u64::MAX);
    let name = &part.name;
    Limit {
        name: format!("open files of a process ({name})"),
        unit: Unit::Count,
        have: limits.descriptors_per_process.map(|hard| hard.min(nr_open)),
        need: &|connections| {
            part.descriptors_for(connections, part.processes_for(connections, have))
        },
        if_short: Verdict::Short,
        fix: &|need| {
            let raise = Fix::open_files(need);
            let raise = match part.processes {
                Processes::Exactly(_) if have > PROCESS_DESCRIPTORS => {
                    let sockets = part.sockets_for(shape.connections);
                    let needed = sockets.div_ceil(have - PROCESS_DESCRIPTORS);
                    raise.or(&format!(", or {} processes", grouped(needed)))
                }
                _ => raise,
            };
            if need > nr_open {
                Fix::sysctl("fs.nr_open", need).then("; then ", raise)
            } else {
                raise
            }
        },
    }
    .judge(shape.connections)
}

fn files(shape: &Shape, limits: &HostLimits) -> Need {
    let exempt = shape.may_exceed_file_max(limits);
    let in_use = limits.files_in_use.unwrap_or(0);
    Limit {
        name: "fs.file-max".to_owned(),
        unit: Unit::Count,
        have: limits.file_max,
        need: &|connections| sockets(shape, connections).saturating_add(in_use),
        if_short: if exempt { Verdict::Warn } else { Verdict::Short },
        fix: &|need| {
            let raise = Fix::sysctl("fs.file-max", rounded_up(need));
            if exempt { raise.after("root may exceed it, other users get ENFILE: ") } else { raise }
        },
    }
    .judge(shape.connections)
}

fn watches(shape: &Shape, limits: &HostLimits) -> Need {
    Limit {
        name: "fs.epoll.max_user_watches".to_owned(),
        unit: Unit::Count,
        have: limits.epoll_watches_max,
        need: &|connections| sockets(shape, connections),
        if_short: Verdict::Short,
        fix: &|need| Fix::sysctl("fs.epoll.max_user_watches", rounded_up(need)),
    }
    .judge(shape.connections)
}

fn ports(hop: &Hop, shape: &Shape, limits: &HostLimits) -> Need {
    let tuples = hop.tuples();
    let widest = limits.port_range == Some((1024, u16::MAX));
    Limit {
        name: format!("source ports ({})", hop.name),
        unit: Unit::Count,
        have: hop.connections_max(limits),
        need: &|connections| connections.saturating_add(shape.time_wait(TIME_WAIT_S)),
        if_short: Verdict::Short,
        fix: &|need| {
            let widen = Fix::sysctl("net.ipv4.ip_local_port_range", "1024 65535");
            if !widest && need <= tuples.saturating_mul(PORTS_PER_SOURCE_MAX * 99 / 100) {
                return widen;
            }
            let each = if widest { limits.ports_per_source } else { None };
            let each = each.unwrap_or(PORTS_PER_SOURCE_MAX).max(1);
            let needed = grouped(need.div_ceil(each * hop.destinations.max(1)));
            let more = format!("{needed} source addresses (--source), or more server ports");
            if widest { Fix::advice(more) } else { widen.or(&format!(" and {more}")) }
        },
    }
    .judge(shape.connections)
}

fn memory(shape: &Shape, limits: &HostLimits) -> Need {
    let total = limits.memory_total_bytes;
    Limit {
        name: "memory of the host".to_owned(),
        unit: Unit::Bytes,
        have: limits.memory_available_bytes.map(|left| usable_memory(left, total.unwrap_or(left))),
        need: &|connections| memory_bytes(shape, limits, connections),
        if_short: memory_if_short(shape),
        fix: &|need| match total {
            _ if shape.memory_is_watched => Fix::advice("opening stops before memory runs out"),
            Some(total) if need > total => {
                Fix::advice("use a host with more memory, or hold fewer connections")
            }
            _ => Fix::advice("stop other programs, or hold fewer connections"),
        },
    }
    .judge(shape.connections)
}

/// The group's limit includes the kernel memory of its sockets.
fn group_memory(shape: &Shape, limits: &HostLimits) -> Option<Need> {
    let left = limits.cgroup.memory_left_bytes?;
    let max = limits.cgroup.memory_max_bytes.unwrap_or(left);
    let limit = Limit {
        name: "memory of the control group".to_owned(),
        unit: Unit::Bytes,
        have: Some(usable_memory(left, max)),
        need: &|connections| memory_bytes(shape, limits, connections),
        if_short: memory_if_short(shape),
        fix: &|need| {
            let used = max.saturating_sub(left);
            // At most a twentieth of the group's memory is reserved.
            let wanted = (need + used).saturating_mul(20) / 19;
            let wanted = format!("{} MiB", wanted >> 20);
            Fix::advice(format!("set memory.max (--memory, resources.limits.memory) to {wanted}"))
        },
    };
    Some(limit.judge(shape.connections))
}

fn tasks(shape: &Shape, limits: &HostLimits) -> Need {
    let descriptors = descriptors_per_process(limits);
    let free = limits.tasks_max.map(|max| max.saturating_sub(limits.tasks_in_use.unwrap_or(0)));
    let group = limits.cgroup.tasks_left;
    let by_group = group.is_some_and(|left| free.is_none_or(|free| left < free));
    Limit {
        name: if by_group { "threads (pids.max)" } else { "threads (kernel.pid_max)" }.to_owned(),
        unit: Unit::Count,
        have: [free, group].into_iter().flatten().min(),
        need: &|connections| {
            let threads = |part: &Part| {
                part.processes_for(connections, descriptors).saturating_mul(part.threads)
            };
            shape.parts.iter().map(threads).fold(0, u64::saturating_add)
        },
        if_short: Verdict::Short,
        fix: &|need| {
            if by_group {
                return Fix::advice(format!("raise pids.max by {}", grouped(need)));
            }
            let need = need + limits.tasks_in_use.unwrap_or(0);
            Fix::sysctl("kernel.pid_max", need).then("; ", Fix::sysctl("kernel.threads-max", need))
        },
    }
    .judge(shape.connections)
}

fn conntrack(shape: &Shape, limits: &HostLimits) -> Option<Need> {
    let max = limits.conntrack_max?;
    let in_use = limits.conntrack_in_use.unwrap_or(0);
    let hops = shape.hops.len().max(1) as u64;
    let limit = Limit {
        name: "nf_conntrack_max".to_owned(),
        unit: Unit::Count,
        have: Some(max),
        need: &|connections| {
            let tracked = connections.saturating_add(shape.time_wait(CONNTRACK_TIME_WAIT_S));
            tracked.saturating_mul(hops).saturating_add(in_use)
        },
        // The module is loaded on many hosts where no rule uses it.
        if_short: if in_use > 0 { Verdict::Short } else { Verdict::Warn },
        fix: &|need| {
            let raise = Fix::sysctl("net.netfilter.nf_conntrack_max", rounded_up(need));
            raise.or(", or NOTRACK for these ports")
        },
    };
    Some(limit.judge(shape.connections))
}

fn accept_queue(shape: &Shape, limits: &HostLimits) -> Need {
    let listens = shape.parts.iter().any(|part| part.listens);
    let opening_max = if listens { shape.opening_max } else { 0 };
    Limit {
        name: "net.core.somaxconn".to_owned(),
        unit: Unit::Count,
        have: limits.accept_queue_max,
        need: &|connections| connections.min(opening_max),
        if_short: Verdict::Warn,
        fix: &|need| Fix::sysctl("net.core.somaxconn", need),
    }
    .judge(shape.connections)
}

fn buckets(shape: &Shape, limits: &HostLimits) -> Need {
    Limit {
        name: "net.ipv4.tcp_ehash_entries".to_owned(),
        unit: Unit::Count,
        have: limits.connection_buckets,
        need: &|connections| sockets(shape, connections).div_ceil(CONNECTIONS_PER_BUCKET_MAX),
        if_short: Verdict::Warn,
        fix: &|need| {
            let need = need.next_power_of_two();
            Fix::advice(format!(
                "boot with thash_entries={need}, or sysctl -w net.ipv4.tcp_child_ehash_entries=\
                 {need} and a new network namespace"
            ))
        },
    }
    .judge(shape.connections)
}

fn queued_data(shape: &Shape, limits: &HostLimits) -> Need {
    Limit {
        name: "net.ipv4.tcp_mem".to_owned(),
        unit: Unit::Bytes,
        have: limits.tcp_memory_max_bytes,
        need: &|connections| sockets(shape, connections).saturating_mul(QUEUED_PACKET_BYTES),
        if_short: Verdict::Warn,
        fix: &|need| {
            let pages = need.div_ceil(QUEUED_PACKET_BYTES);
            let (low, middle) = (pages / 2, pages / 4 * 3);
            Fix::sysctl("net.ipv4.tcp_mem", format!("{low} {middle} {pages}"))
                .after("reached only when all sockets queue data at once: ")
        },
    }
    .judge(shape.connections)
}

/// What closing all connections at once by FIN may exceed.
fn closing(shape: &Shape, limits: &HostLimits) -> Vec<Need> {
    if shape.closes_by_reset {
        return Vec::new();
    }
    let one = |name: &'static str, have: Option<u64>| {
        Limit {
            name: name.to_owned(),
            unit: Unit::Count,
            have,
            need: &|connections| connections,
            if_short: Verdict::Warn,
            fix: &|need| Fix::sysctl(name, rounded_up(need)).or(", or close by RST"),
        }
        .judge(shape.connections)
    };
    vec![
        one("net.ipv4.tcp_max_tw_buckets", limits.time_wait_max),
        one("net.ipv4.tcp_max_orphans", limits.orphans_max),
    ]
}

/// Sockets on this host.
fn sockets(shape: &Shape, connections: u64) -> u64 {
    connections.saturating_mul(shape.sockets_each())
}

fn memory_bytes(shape: &Shape, limits: &HostLimits, connections: u64) -> u64 {
    let descriptors = descriptors_per_process(limits);
    let part = |part: &Part| {
        let each = part.user_bytes.saturating_add(part.sockets.saturating_mul(SOCKET_KERNEL_BYTES));
        let processes = part.processes_for(connections, descriptors);
        let fixed = processes.saturating_mul(part.process_bytes);
        connections.saturating_mul(each).saturating_add(fixed)
    };
    shape.parts.iter().map(part).fold(0, u64::saturating_add)
}

/// How many of the `left` bytes may be used on a host with `total`.
fn usable_memory(left: u64, total: u64) -> u64 {
    left.saturating_sub(memory_reserve_bytes(total))
}

const fn memory_if_short(shape: &Shape) -> Verdict {
    if shape.memory_is_watched { Verdict::Warn } else { Verdict::Short }
}

/// A round number with 5 % to spare, for a command.
const fn rounded_up(count: u64) -> u64 {
    count.saturating_add(count / 20).next_multiple_of(10_000)
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
