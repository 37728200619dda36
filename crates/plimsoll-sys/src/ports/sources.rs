//! Source addresses, found by their place.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

/// The source addresses of connections to one destination.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sources {
    /// The one address that the kernel's routes give.
    Routed,
    /// A number of addresses from 127.0.0.1 on. All of 127.0.0.0/8 belongs to every host.
    Loopback(u32),
    /// These.
    Given(Arc<[IpAddr]>),
}

/// 127.0.0.1 to 127.255.255.254.
const LOOPBACK_ADDRESSES: u32 = 0x00FF_FFFE;

impl Sources {
    /// Returns the number of addresses.
    pub(super) fn count(&self) -> u32 {
        match self {
            Self::Routed => 1,
            Self::Loopback(count) => (*count).min(LOOPBACK_ADDRESSES),
            Self::Given(addresses) => u32::try_from(addresses.len()).unwrap_or(u32::MAX),
        }
    }

    /// Returns the address at `place`, which is below [`Self::count`]; `None` leaves it to the kernel.
    pub(super) fn nth(&self, place: u32) -> Option<IpAddr> {
        match self {
            Self::Routed => None,
            Self::Loopback(_) => {
                let host = 1 + place % LOOPBACK_ADDRESSES;
                Some(IpAddr::V4(Ipv4Addr::from(0x7F00_0000 | host)))
            }
            Self::Given(addresses) => addresses.get(place as usize).copied(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_has_neither_its_network_nor_its_broadcast_address() {
        let all = Sources::Loopback(u32::MAX);
        assert_eq!(all.nth(0), Some("127.0.0.1".parse().unwrap()));
        assert_eq!(all.nth(all.count() - 1), Some("127.255.255.254".parse().unwrap()));
    }
}
