//! The addresses of this host: ownership, source addresses towards a remote, and their interfaces.
//!
//! Three sources give the answers. Binding a UDP socket shows that an address is configured; [`is_own`] also reads
//! local IPv6 prefixes from `/proc/net/ipv6_route`. Connecting a UDP socket, which sends no packet, shows the source
//! address that the kernel chooses. `getifaddrs` lists addresses with their interfaces. [`sources_towards`] combines
//! the last two. A failed system call gives an empty answer, never an error. Start reading at [`sources_towards`].

use std::ffi::CStr;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

/// RTF_LOCAL, include/uapi/linux/ipv6_route.h: packets to it end here.
const LOCAL_ROUTE: u32 = 0x8000_0000;

/// Returns an address and port of this host for a socket that is to reach `remote`: both are left to the kernel.
pub fn any_like(remote: SocketAddr) -> SocketAddr {
    let any = if remote.is_ipv4() { IpAddr::from([0; 4]) } else { Ipv6Addr::UNSPECIFIED.into() };
    SocketAddr::new(any, 0)
}

/// Reports whether a connection may come from `address`: it is configured here, or it lies in an IPv6
/// prefix that is routed to this host as a whole (`ip -6 route add local PREFIX dev lo`). An IPv4
/// prefix that is routed so counts as configured with the kernel.
pub fn is_own(address: IpAddr) -> bool {
    if UdpSocket::bind((address, 0)).is_ok() {
        return true;
    }
    let IpAddr::V6(address) = address else { return false };
    let routes = std::fs::read_to_string("/proc/net/ipv6_route").unwrap_or_default();
    is_routed_here(&routes, address)
}

/// Returns the addresses that connections to `remote` can come from: the kernel's choice first, then the addresses of
/// the same kind on its interface. Empty if there is no route.
pub fn sources_towards(remote: IpAddr) -> Vec<IpAddr> {
    let Some(chosen) = source_towards(remote) else { return Vec::new() };
    let all = interface_addresses();
    let interface = all.iter().find(|(_, address)| *address == chosen).map(|(name, _)| name);
    let beside = all.iter().filter(|(name, address)| {
        Some(name) == interface && *address != chosen && is_alike(*address, chosen)
    });
    [chosen].into_iter().chain(beside.map(|(_, address)| *address)).collect()
}

/// Returns the interface that has the address from which connections to `remote` come.
pub fn interface_towards(remote: IpAddr) -> Option<String> {
    let chosen = source_towards(remote)?;
    let (name, _) = interface_addresses().into_iter().find(|(_, address)| *address == chosen)?;
    String::from_utf8(name).ok()
}

/// Returns the address that the kernel chooses.
fn source_towards(remote: IpAddr) -> Option<IpAddr> {
    // Connecting a datagram socket sends nothing; the port does not matter.
    let remote = SocketAddr::new(remote, 9);
    let socket = UdpSocket::bind(any_like(remote)).ok()?;
    socket.connect(remote).ok()?;
    socket.local_addr().ok().map(|address| address.ip())
}

/// Reports whether two addresses have the same family and reach.
fn is_alike(one: IpAddr, other: IpAddr) -> bool {
    let is_link_local = |address: IpAddr| match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    one.is_ipv4() == other.is_ipv4() && is_link_local(one) == is_link_local(other)
}

/// Every address of every interface of this host, with the interface's name.
fn interface_addresses() -> Vec<(Vec<u8>, IpAddr)> {
    let mut first: *mut libc::ifaddrs = std::ptr::null_mut();
    // SAFETY: getifaddrs only writes where `first` is.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Vec::new();
    }
    let mut all = Vec::new();
    let mut next = first;
    // SAFETY: every entry of the list is valid until freeifaddrs.
    while let Some(entry) = unsafe { next.as_ref() } {
        if let Some(address) = address_of(entry.ifa_addr) {
            // SAFETY: the name of an entry is a C string.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) };
            all.push((name.to_bytes().to_vec(), address));
        }
        next = entry.ifa_next;
    }
    // SAFETY: `first` is what getifaddrs gave, and no entry is used any more.
    unsafe { libc::freeifaddrs(first) };
    all
}

/// Returns the internet address in a socket address, which is null or as long as its family says.
fn address_of(address: *const libc::sockaddr) -> Option<IpAddr> {
    // SAFETY: not null, and every socket address begins with its family.
    let family = i32::from(unsafe { address.as_ref() }?.sa_family);
    match family {
        libc::AF_INET => {
            // SAFETY: the family says that it is one of IPv4.
            let address = unsafe { address.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: the family says that it is one of IPv6.
            let address = unsafe { address.cast::<libc::sockaddr_in6>().read_unaligned() };
            Some(Ipv6Addr::from(address.sin6_addr.s6_addr).into())
        }
        _ => None,
    }
}

/// Reports whether a line of `/proc/net/ipv6_route` (destination, its prefix length, source, its prefix
/// length, next hop, metric, references, uses, flags, interface) is a local route to `address`.
fn is_routed_here(routes: &str, address: Ipv6Addr) -> bool {
    routes.lines().any(|line| {
        let mut fields = line.split_ascii_whitespace();
        let (Some(prefix), Some(length)) = (fields.next(), fields.next()) else { return false };
        let (Ok(prefix), Ok(length)) =
            (u128::from_str_radix(prefix, 16), u32::from_str_radix(length, 16))
        else {
            return false;
        };
        let flags = fields.nth(6).and_then(|flags| u32::from_str_radix(flags, 16).ok());
        let mask = u128::MAX.checked_shl(128_u32.saturating_sub(length)).unwrap_or(0);
        flags.is_some_and(|flags| flags & LOCAL_ROUTE != 0)
            && (u128::from(address) ^ prefix) & mask == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
        fd000078000000000000000000000000 40 00000000000000000000000000000000 00 \
        00000000000000000000000000000000 00000400 00000001 00000000 00000001     eth0\n\
        00000000000000000000000000000001 80 00000000000000000000000000000000 00 \
        00000000000000000000000000000000 00000000 00000002 00000000 80200001       lo\n\
        fd000077000000000000000000000000 40 00000000000000000000000000000000 00 \
        00000000000000000000000000000000 00000400 00000001 00000000 80000001       lo\n\
        00000000000000000000000000000000 00 00000000000000000000000000000000 00 \
        00000000000000000000000000000000 ffffffff 00000001 00000000 00200200       lo\n";

    #[test]
    fn a_prefix_that_is_routed_here_is_ours() {
        let routed = |text: &str| is_routed_here(ROUTES, text.parse().unwrap());
        assert!(routed("fd00:77::1:2:3"));
        assert!(routed("::1"));
        assert!(!routed("::2"));
        assert!(!routed("fd00:77:0:1::1"));
        // A route out of this host, and the one that refuses everything else.
        assert!(!routed("fd00:78::1"));
        assert!(!routed("2001:db8::1"));
    }

    #[test]
    fn connections_come_from_the_interface_that_leads_there() {
        let here = "127.0.0.1".parse().unwrap();
        let sources = sources_towards(here);
        assert_eq!(sources.first(), Some(&here));
        assert!(sources.iter().all(|source| source.is_loopback() && source.is_ipv4()));
        // Each is this host's, wherever it leads.
        assert!(
            interface_addresses().iter().any(|(name, address)| name == b"lo" && *address == here)
        );
        let towards: IpAddr = "192.0.2.1".parse().unwrap();
        assert!(sources_towards(towards).into_iter().all(is_own));
    }

    #[test]
    fn a_link_local_address_reaches_only_its_link() {
        let [wide, other, local] =
            ["2001:db8::1", "2001:db8::2", "fe80::1"].map(|text| text.parse::<IpAddr>().unwrap());
        assert!(is_alike(wide, other) && !is_alike(wide, local));
        assert!(!is_alike(wide, "192.0.2.1".parse().unwrap()));
    }

    #[test]
    fn loopback_is_ours_and_documentation_is_not() {
        assert!(is_own("127.1.2.3".parse().unwrap()));
        // RFC 5737, RFC 3849.
        assert!(!is_own("192.0.2.1".parse().unwrap()));
        assert!(!is_own("2001:db8::1".parse().unwrap()));
    }
}
