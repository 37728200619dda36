//! Ports for servers that cannot be asked which one the kernel gave them.
//!
//! Ports in use are read from the kernel's tables and not tried by listening: another
//! thread may fork just then, and its child would listen on until it executes its program.

use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU16, Ordering};

/// Below these, ports belong to well-known services.
const LOWEST: u16 = 10_000;
/// The kernel's default, where it cannot be read.
const EPHEMERAL_FROM: u16 = 32_768;

/// Number of ports that this process has tried.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// Returns a free port on 127.0.0.1; see [`free_on`].
pub fn free() -> SocketAddr {
    free_on(Ipv4Addr::LOCALHOST.into())
}

/// Returns a port of `ip` that no socket has.
///
/// The port is below the ports from which the kernel connects: between our look and the server's bind,
/// no connection of a test that runs beside this one can take it.
pub fn free_on(ip: IpAddr) -> SocketAddr {
    SocketAddr::new(ip, free_row(1))
}

/// Returns the first of `count` successive ports that are all free.
pub fn free_row(count: u16) -> u16 {
    let span = ephemeral_from().saturating_sub(LOWEST).saturating_sub(count).max(1);
    // Test processes begin far apart and each uses the next ones.
    let first = (std::process::id() % u32::from(span)) as u16;
    let taken = taken();
    for _ in 0..span {
        let step = TRIED.fetch_add(count, Ordering::Relaxed);
        let offset = (u32::from(first) * 31 + u32::from(step)) % u32::from(span);
        let port = LOWEST + offset as u16;
        if !(port..port + count).any(|port| taken.contains(&port)) {
            return port;
        }
    }
    panic!("no {count} free ports in a row from {LOWEST} up")
}

/// Returns the ports that sockets of this host have at their own end. The kernel needs 10 ms for these tables, however
/// few sockets there are.
fn taken() -> HashSet<u16> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"]
        .map(|table| fs::read_to_string(table).unwrap_or_default());
    let own_end = |line: &str| {
        let (_, port) = line.split_ascii_whitespace().nth(1)?.rsplit_once(':')?;
        u16::from_str_radix(port, 16).ok()
    };
    tables.iter().flat_map(|table| table.lines().skip(1)).filter_map(own_end).collect()
}

/// Returns the lowest port from which the kernel connects.
fn ephemeral_from() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let lowest = range.split_ascii_whitespace().next().and_then(|text| text.parse().ok());
    lowest.filter(|lowest| *lowest > LOWEST + 1_000).unwrap_or(EPHEMERAL_FROM)
}
