//! Which addresses are this host's.

use std::net::{IpAddr, Ipv6Addr, UdpSocket};

/// RTF_LOCAL, include/uapi/linux/ipv6_route.h: packets to it end here.
const LOCAL_ROUTE: u32 = 0x8000_0000;

/// Whether a connection may come from `address`: it is configured here, or it lies in an IPv6
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

/// Whether a line of `/proc/net/ipv6_route` (destination, its prefix length, source, its prefix
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
    fn loopback_is_ours_and_documentation_is_not() {
        assert!(is_own("127.1.2.3".parse().unwrap()));
        // RFC 5737, RFC 3849.
        assert!(!is_own("192.0.2.1".parse().unwrap()));
        assert!(!is_own("2001:db8::1".parse().unwrap()));
    }
}
