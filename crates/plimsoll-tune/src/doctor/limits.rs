//! Each limit: the need of the connections, the value on the host, and the way to raise it.
//!
//! Input is a [`Shape`] (processes and connections to run) and the [`HostLimits`] that were read; output is one
//! [`Need`] per limit. Each function of this file describes one limit as a `Limit`: a need that never falls with the
//! number of connections, a present value, and a fix. `Limit::judge` compares both and finds the most connections
//! that fit by bisection. Start with `lines`, which has all limits in the order in which a ramp reaches them.

use plimsoll_model::hold::memory_reserve_bytes;
use plimsoll_model::units::grouped;
use plimsoll_probe::limits::{Allowance, HostLimits};
use plimsoll_sys::ports::TIME_WAIT_S;

use super::need::{CONNECTIONS_MAX, Fix, Need, Unit, Verdict};
use super::shape::{Hop, PROCESS_DESCRIPTORS, Part, Processes, Shape, descriptors_per_process};

/// Connections in one bucket of the kernel's table above which a lookup costs noticeable time: at 48 another flow was
/// 10 % slower (Linux commit d1e5e6408b).
const CONNECTIONS_PER_BUCKET_MAX: u64 = 16;
/// A small packet in a receive queue uses at most a page.
const QUEUED_PACKET_BYTES: u64 = 4096;
/// Ports of one address with the widest range that needs no privilege: 1024 to 65535.
const PORTS_PER_SOURCE_MAX: u64 = 64_512;
/// Time in TIME_WAIT with `net.ipv4.tcp_tw_reuse` of 1, seconds.
const REUSE_DELAY_S: u64 = 1;
/// Time for which a closed connection is tracked by default, seconds: nf_conntrack_tcp_timeout_time_wait.
const CONNTRACK_TIME_WAIT_S: u64 = 120;

/// A limit and its need, before the comparison.
struct Limit<'a> {
    name: String,
    unit: Unit,
    have: Option<u64>,
    /// For a number of connections; never falls as they grow.
    need: &'a dyn Fn(u64) -> u64,
    /// The verdict when it is too low.
    if_short: Verdict,
    /// Returns the way to raise it to a given need.
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

/// Returns every limit, in the order in which a ramp reaches them.
pub(super) fn lines(shape: &Shape, limits: &HostLimits) -> Vec<Need> {
    let mut lines: Vec<_> = shape.started().map(|part| descriptors(part, shape, limits)).collect();
    lines.extend(coordinator(shape, limits));
    lines.push(files(shape, limits));
    lines.push(watches(shape, limits));
    lines.extend(shape.hops.iter().map(|hop| ports(hop, shape, limits)));
    let by_kernel = shape.hops.iter().filter(|hop| hop.by_kernel);
    lines.extend(by_kernel.map(|hop| half_of_ports(hop, shape, limits)));
    lines.push(memory(shape, limits));
    lines.extend(group_memory(shape, limits));
    lines.extend(tasks(shape, limits));
    lines.extend(conntrack(shape, limits));
    lines.push(accept_queue(shape, limits));
    lines.push(buckets(shape, limits));
    lines.push(queued_data(shape, limits));
    lines.extend(closing(shape, limits));
    lines
}

fn descriptors(part: &Part, shape: &Shape, limits: &HostLimits) -> Need {
    let have = descriptors_per_process(limits);
    let need =
        |connections| part.descriptors_for(connections, part.processes_for(connections, have));
    let more_processes = || match part.processes {
        Processes::Exactly(_) if have > PROCESS_DESCRIPTORS => {
            let sockets = part.sockets_for(shape.connections);
            let needed = sockets.div_ceil(have - PROCESS_DESCRIPTORS);
            format!(", or {} processes", grouped(needed))
        }
        _ => String::new(),
    };
    descriptors_of(&part.name, shape, limits, &need, &more_processes)
}

/// Returns the need of the process that starts many others, and has pipes to each.
fn coordinator(shape: &Shape, limits: &HostLimits) -> Option<Need> {
    let have = descriptors_per_process(limits);
    shape.coordinator_descriptors(0, have)?;
    let need = |connections| shape.coordinator_descriptors(connections, have).unwrap_or(0);
    Some(descriptors_of("coordinator", shape, limits, &need, &String::new))
}

/// Returns the need of open files of one process; `or` returns another remedy.
fn descriptors_of(
    whose: &str,
    shape: &Shape,
    limits: &HostLimits,
    need: &dyn Fn(u64) -> u64,
    or: &dyn Fn() -> String,
) -> Need {
    let nr_open = limits.nr_open.unwrap_or(u64::MAX);
    Limit {
        name: format!("open files of a process ({whose})"),
        unit: Unit::Count,
        have: limits.descriptors_per_process.map(|hard| hard.min(nr_open)),
        need,
        if_short: Verdict::Short,
        fix: &|need| {
            let now = format!("ulimit -Hn {need} as root");
            let raise = Fix::service(now, "LimitNOFILE", need).or(&or());
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
    let have = hop.connections_max(limits);
    let rest_s =
        limits.reuse_delay_ms.map_or_else(|| u64::from(TIME_WAIT_S), |ms| ms.div_ceil(1_000));
    let reused = shape.connections.saturating_add(shape.time_wait(rest_s.min(REUSE_DELAY_S)));
    let widen = || Fix::sysctl("net.ipv4.ip_local_port_range", "1024 65535");
    let fits_widest = |need| need <= tuples.saturating_mul(PORTS_PER_SOURCE_MAX * 99 / 100);
    let more_addresses = |need: u64| {
        let each = if widest { limits.ports_per_source } else { None };
        let each = each.unwrap_or(PORTS_PER_SOURCE_MAX).max(1);
        let needed = grouped(need.div_ceil(each * hop.destinations.max(1)));
        let more =
            Fix::advice(format!("{needed} source addresses (--source), or more server ports"));
        if widest { more } else { widen().then(" and ", more) }
    };
    Limit {
        name: format!("source ports ({})", hop.name),
        unit: Unit::Count,
        have,
        need: &|connections| connections.saturating_add(shape.time_wait(rest_s)),
        if_short: Verdict::Short,
        fix: &|need| {
            if !widest && fits_widest(need) {
                return widen();
            }
            if reused >= need {
                return more_addresses(need);
            }
            let reuse = Fix::sysctl("net.ipv4.tcp_tw_reuse", 1);
            match have {
                Some(have) if reused <= have => reuse,
                _ if !widest && fits_widest(reused) => reuse.then("; ", widen()),
                _ => reuse.then("; ", more_addresses(reused)),
            }
        },
    }
    .judge(shape.connections)
}

/// Returns the need of half of the source ports. The kernel tries every second port of the range first, and the others
/// once all of these are taken: above half of the range each `connect` of HAProxy took 19 ms, with 14,116 ports taken
/// (docs/journal/2026-11-24-ports-of-a-proxy.md).
fn half_of_ports(hop: &Hop, shape: &Shape, limits: &HostLimits) -> Need {
    let have = hop.connections_max(limits).map(|ports| ports / 2);
    Limit {
        name: format!("source ports ({}), half of them", hop.name),
        unit: Unit::Count,
        have,
        need: &|connections| connections,
        if_short: Verdict::Warn,
        fix: &|need| {
            let each = limits.ports_per_source.map_or(1, |ports| (ports / 2).max(1));
            let pairs = grouped(need.div_ceil(each));
            Fix::advice(format!(
                "above half of them each connect is slow; {pairs} pairs of a source address and a server's \
                 port need no more"
            ))
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

/// Returns the need of the control group, whose limit includes the kernel memory of its sockets.
fn group_memory(shape: &Shape, limits: &HostLimits) -> Option<Need> {
    let Allowance { left, max } = limits.cgroup.memory_bytes?;
    let limit = Limit {
        name: "memory of the control group".to_owned(),
        unit: Unit::Bytes,
        have: Some(usable_memory(left, max)),
        need: &|connections| memory_bytes(shape, limits, connections),
        if_short: memory_if_short(shape),
        fix: &|need| {
            // At most a twentieth of the group's memory is reserved.
            let wanted = (need + max - left).saturating_mul(20) / 19;
            let mib = (wanted >> 20) + 1;
            let now = format!("set memory.max (--memory, resources.limits.memory) to {mib} MiB");
            Fix::service(now, "MemoryMax", format_args!("{mib}M"))
        },
    };
    Some(limit.judge(shape.connections))
}

/// Returns the needs of threads, which the host, the control group and the user limit.
fn tasks(shape: &Shape, limits: &HostLimits) -> Vec<Need> {
    let descriptors = descriptors_per_process(limits);
    let line = |name: &str, left: Option<u64>, fix: &dyn Fn(u64) -> Fix| {
        Limit {
            name: format!("threads ({name})"),
            unit: Unit::Count,
            have: left,
            need: &|connections| shape.threads_for(connections, descriptors),
            if_short: Verdict::Short,
            fix,
        }
        .judge(shape.connections)
    };
    let in_use = limits.tasks_in_use.unwrap_or(0);
    let free = limits.tasks_max.map(|max| max.saturating_sub(in_use));
    let host = line("kernel.pid_max", free, &|need| {
        let need = need + in_use;
        Fix::sysctl("kernel.pid_max", need).then("; ", Fix::sysctl("kernel.threads-max", need))
    });
    let group = limits.cgroup.tasks.map(|Allowance { left, max }| {
        line("pids.max", Some(left), &|need| {
            let max = max - left + need;
            Fix::service(format_args!("set pids.max to {max}"), "TasksMax", max)
        })
    });
    let user = limits.user_tasks.map(|Allowance { left, max }| {
        line("ulimit -u", Some(left), &|need| {
            let max = max - left + need;
            Fix::service(format_args!("ulimit -u {max}"), "LimitNPROC", max)
        })
    });
    [Some(host), group, user].into_iter().flatten().collect()
}

fn conntrack(shape: &Shape, limits: &HostLimits) -> Option<Need> {
    let max = limits.conntrack_max?;
    let in_use = limits.conntrack_in_use.unwrap_or(0);
    let rest_s = limits.conntrack_time_wait_s.unwrap_or(CONNTRACK_TIME_WAIT_S);
    let limit = Limit {
        name: "nf_conntrack_max".to_owned(),
        unit: Unit::Count,
        have: Some(max),
        need: &|connections| {
            let tracked = connections.saturating_add(shape.time_wait(rest_s));
            tracked.saturating_mul(shape.connections_each()).saturating_add(in_use)
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

/// Returns the needs that closing all connections at once by FIN may exceed.
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

/// Returns the number of sockets on this host.
fn sockets(shape: &Shape, connections: u64) -> u64 {
    connections.saturating_mul(shape.sockets_each())
}

fn memory_bytes(shape: &Shape, limits: &HostLimits, connections: u64) -> u64 {
    shape.bytes_for(connections, descriptors_per_process(limits))
}

/// Returns the part of the `left` bytes that may be used on a host with `total`.
fn usable_memory(left: u64, total: u64) -> u64 {
    left.saturating_sub(memory_reserve_bytes(total))
}

const fn memory_if_short(shape: &Shape) -> Verdict {
    if shape.memory_is_watched { Verdict::Warn } else { Verdict::Short }
}

/// Returns a round number with 5 % to spare, for a command.
const fn rounded_up(count: u64) -> u64 {
    count.saturating_add(count / 20).next_multiple_of(10_000)
}

/// Returns the largest number of connections for which `need`, which never falls, is at most `have`.
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
