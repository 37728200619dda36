//! Ports for servers that cannot be asked which one the kernel gave them.

use std::fs;
use std::net::IpAddr;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::sync::atomic::AtomicU16;
use std::sync::atomic::Ordering;

/// Below these, ports belong to well-known services.
const LOWEST: u16 = 10_000;
/// The kernel's default, where it does not say.
const EPHEMERAL_FROM: u16 = 32_768;

/// How many ports this process has tried.
static TRIED: AtomicU16 = AtomicU16::new(0);

/// A free port on 127.0.0.1; see [`free_on`].
pub fn free() -> SocketAddr {
    free_on(Ipv4Addr::LOCALHOST.into())
}

/// A port of `ip` on which nobody listens.
///
/// It lies below the ports from which the kernel connects: between our look and the server's bind,
/// no connection of a test that runs beside this one can take it.
pub fn free_on(ip: IpAddr) -> SocketAddr {
    let span = ephemeral_from().saturating_sub(LOWEST).max(1);
    // Test processes begin far apart and each takes the next one.
    let first = (std::process::id() % u32::from(span)) as u16;
    for _ in 0..span {
        let step = TRIED.fetch_add(1, Ordering::Relaxed);
        let offset = (u32::from(first) * 31 + u32::from(step)) % u32::from(span);
        let address = SocketAddr::new(ip, LOWEST + offset as u16);
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
    panic!("no free port from {LOWEST} up on {ip}")
}

/// The lowest port from which the kernel connects.
fn ephemeral_from() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let lowest = range.split_ascii_whitespace().next().and_then(|text| text.parse().ok());
    lowest.filter(|lowest| *lowest > LOWEST + 1_000).unwrap_or(EPHEMERAL_FROM)
}
