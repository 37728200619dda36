//! Source addresses of connections (`--source`), and their destinations.

use std::collections::HashSet;
use std::net::IpAddr;

use plimsoll_model::plan::Endpoint;

use super::Inputs;
use crate::exit::{Result, Stop};
use crate::flags::values::Cidr;

/// Most source addresses of a load. With 28,000 ports each, more than any host has memory for.
const SOURCES_MAX: usize = 65_536;

/// Returns the addresses of all ranges, in order and without repetition. Each range gets an equal part of
/// the bound, so that a wide one does not exclude the others.
pub(super) fn addresses(ranges: &[Cidr]) -> Vec<IpAddr> {
    let limit = (SOURCES_MAX / ranges.len().max(1)).max(1);
    let mut seen = HashSet::new();
    let all = ranges.iter().flat_map(|range| range.addresses(limit));
    all.filter(|address| seen.insert(*address)).take(SOURCES_MAX).collect()
}

/// Refuses addresses that no connection could come from.
pub(super) fn check_owned(sources: &[IpAddr], inputs: &Inputs) -> Result<()> {
    // All of 127.0.0.0/8 belongs to every host.
    let foreign = |address: &&IpAddr| !address.is_loopback() && !(inputs.owns)(**address);
    match sources.iter().find(foreign) {
        None => Ok(()),
        Some(address) => Err(Stop::CannotRun(format!(
            "--source {address} is no address of this host; drop it, or add it with: ip address \
             add {address} dev lo"
        ))),
    }
}

/// Leaves in each destination only the addresses that some source can reach.
pub(super) fn keep_reachable(destinations: &mut [Endpoint], sources: &[IpAddr]) -> Result<()> {
    if sources.is_empty() {
        return Ok(());
    }
    let v4 = sources.iter().any(IpAddr::is_ipv4);
    let v6 = sources.iter().any(IpAddr::is_ipv6);
    for destination in destinations {
        destination.addresses.retain(|address| if address.is_ipv4() { v4 } else { v6 });
        if destination.addresses.is_empty() {
            let family = if v4 { "IPv6" } else { "IPv4" };
            refuse!("--source has no {family} address to reach {}", destination.name; "add one");
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::values::cidr;

    #[test]
    fn a_wide_range_leaves_room_for_the_others() {
        let ranges = ["127.0.0.0/8", "10.0.0.5", "10.0.0.5"].map(|text| cidr(text).unwrap());
        let all = addresses(&ranges);
        assert_eq!(all.len(), SOURCES_MAX / 3 + 1);
        assert_eq!(all.last(), Some(&"10.0.0.5".parse().unwrap()));
        assert_eq!(addresses(&[cidr("fd00::/64").unwrap()]).len(), SOURCES_MAX);
    }
}
