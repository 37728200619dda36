//! Does this machine take so many connections? Asked before the first packet, limit by limit.
//!
//! Pure but for [`Host::read`]; what it prints is [`Stop::TooMany`].

use std::fs;
use std::path::Path;

use plimsoll_model::units::grouped;
use plimsoll_probe::limits::HostLimits;
use plimsoll_probe::memory;
use plimsoll_probe::memory::HostMemory;
use plimsoll_sys::limits::raise_descriptor_limit;

use crate::exit::Stop;
use crate::flags::values::Processes;
use crate::hosts::DESCRIPTOR_RESERVE;

/// Kernel memory of one held TCP socket, bytes, as measured with epoll on Linux 6.18.
const KERNEL_BYTES_PER_SOCKET: u64 = 4_100;
/// Memory of our client for one held TLS connection, bytes.
const CLIENT_BYTES: u64 = 450;
/// Memory of our server for one held TLS connection, bytes; other servers take more.
const SERVER_BYTES: u64 = 600;
/// Share of the memory that is left alone, in percent.
const MEMORY_RESERVE_PERCENT: u64 = 5;
/// Most agent processes that are started without being asked for.
const PROCESSES_MAX: u64 = 1024;

/// What is to be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    /// Connections.
    pub(crate) connections: u64,
    /// Processes that hold them.
    pub(crate) processes: Processes,
    /// The server's sockets are on this host, too.
    pub(crate) both_ends_here: bool,
    /// Source addresses; at least 1.
    pub(crate) sources: u64,
    /// Server addresses and ports; each can be reached from the same port. At least 1.
    pub(crate) destinations: u64,
    /// Whether memory is watched on the way up, so that it need not be known before.
    pub(crate) watches_memory: bool,
}

/// What this host has. `None` where it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Host {
    /// Files that one process may have open.
    pub(crate) descriptors: u64,
    /// Ports that outgoing connections may use on each address.
    pub(crate) ports: u64,
    /// All memory, and what of it is available, bytes.
    pub(crate) memory: Option<(u64, u64)>,
    /// Files open on the whole host, and the most there may be.
    pub(crate) files: Option<(u64, u64)>,
    /// Sockets that one user may watch with epoll.
    pub(crate) watches: Option<u64>,
}

impl Host {
    /// Reads this host.
    pub(crate) fn read() -> Self {
        let root = Path::new("/proc");
        let seen = HostMemory::read(root);
        let limits = HostLimits::read(Path::new("/"));
        let number = |path: &str| fs::read_to_string(root.join(path)).ok()?.trim().parse().ok();
        Self {
            descriptors: raise_descriptor_limit(),
            ports: port_count(root).unwrap_or(28_232),
            memory: seen.total_bytes.zip(seen.available_bytes),
            // The kernel lets a privileged process open more.
            files: memory::open_files(root).filter(|_| !limits.may_exceed_file_max),
            watches: number("sys/fs/epoll/max_user_watches"),
        }
    }
}

/// Ports in `ip_local_port_range`.
fn port_count(proc_root: &Path) -> Option<u64> {
    let text = fs::read_to_string(proc_root.join("sys/net/ipv4/ip_local_port_range")).ok()?;
    let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
    let (first, last) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some((last + 1).saturating_sub(first))
}

/// One limit: what is needed, what there is, and how to lift it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    /// Its name.
    pub(crate) limit: &'static str,
    /// Units needed, in words.
    pub(crate) need: String,
    /// Units there are, in words.
    pub(crate) have: String,
    /// What lifts it.
    pub(crate) fix: String,
    /// Connections that fit.
    pub(crate) fits: u64,
}

/// Every limit that counts, whether it suffices or not.
pub(crate) fn needs(ask: &Ask, host: &Host) -> Vec<Need> {
    let mut needs = vec![descriptors(ask, host), ports(ask, host)];
    needs.extend(host.memory.filter(|_| !ask.watches_memory).map(|has| memory(ask, has)));
    let sockets = sockets(ask);
    needs.extend(host.files.map(|(open, max)| Need {
        limit: "open files of the host",
        need: grouped(open.saturating_add(sockets)),
        have: grouped(max),
        fix: format!("sysctl -w fs.file-max={}", open.saturating_add(sockets)),
        fits: max.saturating_sub(open) / per_connection(ask),
    }));
    needs.extend(host.watches.map(|max| Need {
        limit: "epoll watches of a user",
        need: grouped(sockets),
        have: grouped(max),
        fix: format!("sysctl -w fs.epoll.max_user_watches={sockets}"),
        fits: max / per_connection(ask),
    }));
    needs
}

/// How many connections this machine takes: those that were asked for, or with `up_to` as many as
/// fit. Refused otherwise, with every limit that is short.
pub(crate) fn check(ask: &Ask, host: &Host, up_to: bool) -> Result<u64, Stop> {
    let needs = needs(ask, host);
    let fits = needs.iter().map(|need| need.fits).min().unwrap_or(u64::MAX);
    if fits >= ask.connections {
        return Ok(ask.connections);
    }
    if up_to && fits > 0 {
        return Ok(fits);
    }
    let mut lines = vec![format!(
        "this machine does not take {} connections; {} fit{}",
        grouped(ask.connections),
        grouped(fits),
        if fits > 0 { ", and --up-to holds them" } else { "" }
    )];
    let short = needs.iter().filter(|need| need.fits < ask.connections);
    lines.extend(short.map(|need| {
        format!("{}: needs {}, has {}; {}", need.limit, need.need, need.have, need.fix)
    }));
    Err(Stop::TooMany(lines))
}

const fn per_connection(ask: &Ask) -> u64 {
    if ask.both_ends_here { 2 } else { 1 }
}

const fn sockets(ask: &Ask) -> u64 {
    ask.connections.saturating_mul(per_connection(ask))
}

fn descriptors(ask: &Ask, host: &Host) -> Need {
    let usable = host.descriptors.saturating_sub(DESCRIPTOR_RESERVE);
    let needed = ask.connections.div_ceil(usable.max(1));
    let (processes, fix) = match ask.processes {
        Processes::Exactly(count) => {
            (u64::from(count), format!("--processes {needed}, or ulimit -n with a larger number"))
        }
        Processes::Auto => {
            (PROCESSES_MAX, "raise the limit of each process with ulimit -n".to_owned())
        }
    };
    Need {
        limit: "descriptors",
        need: format!("{} processes of {}", grouped(needed), grouped(host.descriptors)),
        have: grouped(processes),
        fix,
        fits: usable.saturating_mul(processes),
    }
}

fn ports(ask: &Ask, host: &Host) -> Need {
    let each = host.ports.saturating_mul(ask.destinations);
    let sources = ask.connections.div_ceil(each.max(1));
    Need {
        limit: "source ports",
        need: format!("{} addresses of {} ports", grouped(sources), grouped(host.ports)),
        have: grouped(ask.sources),
        fix: "name more addresses with --source, or: sysctl -w \
              net.ipv4.ip_local_port_range='1024 65535'"
            .to_owned(),
        fits: each.saturating_mul(ask.sources),
    }
}

fn memory(ask: &Ask, (total, available): (u64, u64)) -> Need {
    let server = if ask.both_ends_here { SERVER_BYTES } else { 0 };
    let each = KERNEL_BYTES_PER_SOCKET * per_connection(ask) + CLIENT_BYTES + server;
    let usable = available.saturating_sub(total / 100 * MEMORY_RESERVE_PERCENT);
    let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
    Need {
        limit: "memory",
        need: format!("{} at {each} B each", gigabytes(ask.connections.saturating_mul(each))),
        have: format!("{} available", gigabytes(usable)),
        fix: "end other programs, or hold fewer".to_owned(),
        fits: usable / each,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MILLION: Ask = Ask {
        connections: 1_000_000,
        processes: Processes::Auto,
        both_ends_here: true,
        sources: 50,
        destinations: 1,
        watches_memory: false,
    };
    const LARGE: Host = Host {
        descriptors: 20_000,
        ports: 28_232,
        memory: Some((24_000_000_000, 22_000_000_000)),
        files: Some((2_000, u64::MAX)),
        watches: Some(5_000_000),
    };

    fn short(ask: &Ask, host: &Host) -> Vec<&'static str> {
        let needs = needs(ask, host);
        needs.iter().filter(|n| n.fits < ask.connections).map(|n| n.limit).collect()
    }

    #[test]
    fn a_large_machine_takes_a_million() {
        assert_eq!(check(&MILLION, &LARGE, false), Ok(1_000_000));
        let two = Ask { connections: 2_000_000, sources: 100, ..MILLION };
        assert_eq!(check(&two, &LARGE, false), Ok(2_000_000));
    }

    #[test]
    fn each_limit_is_named_with_what_it_needs_and_what_lifts_it() {
        let small = Host {
            descriptors: 1_024,
            ports: 1_000,
            memory: Some((4_000_000_000, 1_200_000_000)),
            files: Some((2_000, 100_000)),
            watches: Some(400_000),
        };
        let ask = Ask { processes: Processes::Exactly(2), sources: 1, ..MILLION };
        let Err(Stop::TooMany(lines)) = check(&ask, &small, false) else { panic!("it fits") };
        assert_eq!(
            lines,
            [
                "this machine does not take 1,000,000 connections; 1,000 fit, and --up-to holds \
                 them",
                "descriptors: needs 1,042 processes of 1,024, has 2; --processes 1042, or ulimit \
                 -n with a larger number",
                "source ports: needs 1,000 addresses of 1,000 ports, has 1; name more addresses \
                 with --source, or: sysctl -w net.ipv4.ip_local_port_range='1024 65535'",
                "memory: needs 9.2 GB at 9250 B each, has 1.0 GB available; end other programs, \
                 or hold fewer",
                "open files of the host: needs 2,002,000, has 100,000; sysctl -w \
                 fs.file-max=2002000",
                "epoll watches of a user: needs 2,000,000, has 400,000; sysctl -w \
                 fs.epoll.max_user_watches=2000000",
            ]
        );
        assert_eq!(check(&ask, &small, true), Ok(1_000));
    }

    #[test]
    fn a_server_elsewhere_takes_half_and_what_is_unknown_refuses_nothing() {
        let tight = Host { watches: Some(1_000_000), ..LARGE };
        assert_eq!(short(&MILLION, &tight), ["epoll watches of a user"]);
        let remote = Ask { both_ends_here: false, ..MILLION };
        assert!(short(&remote, &tight).is_empty());
        let unknown = Host { memory: None, files: None, watches: None, ..LARGE };
        assert!(short(&MILLION, &unknown).is_empty());
        let poor = Host { memory: Some((1_000_000_000, 1_000)), ..LARGE };
        assert_eq!(short(&MILLION, &poor), ["memory"]);
        assert!(short(&Ask { watches_memory: true, ..MILLION }, &poor).is_empty());
    }

    #[test]
    fn nothing_fits_is_refused_even_up_to() {
        let none = Host { descriptors: 64, ..LARGE };
        assert!(check(&MILLION, &none, true).is_err());
    }

    #[test]
    fn this_host_is_readable() {
        let host = Host::read();
        assert!(host.descriptors > 0 && host.ports > 0 && host.memory.is_some());
    }
}
