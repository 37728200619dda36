//! Queueing disciplines of the interfaces of this network namespace, from the kernel over netlink
//! (rtnetlink(7)). It needs no privilege.

use rustix::io::Errno;
use rustix::net::netdevice;

use crate::netlink;
use crate::netlink::attribute;

/// RTM_GETQDISC, include/uapi/linux/rtnetlink.h.
const GET: u16 = 38;
/// struct tcmsg.
const MESSAGE_BYTES: usize = 20;
/// TCA_KIND, TCA_OPTIONS and TCA_STATS2; in them TCA_TBF_PARMS, TCA_TBF_RATE64 and TCA_STATS_QUEUE.
const KIND: u16 = 1;
const OPTIONS: u16 = 2;
const STATISTICS: u16 = 7;
const BUCKET: u16 = 1;
const BUCKET_RATE: u16 = 4;
const QUEUE: u16 = 3;
/// The most that are returned.
const QDISCS_MAX: usize = 1_024;

/// A queueing discipline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// The interface that it belongs to.
    pub device: String,
    /// Rate limit, bytes per second; `None` without one.
    pub bytes_per_s: Option<u64>,
    /// Packets that it has dropped.
    pub drops: u32,
}

/// Returns the queueing disciplines of all interfaces, at most 1,024.
pub fn qdiscs() -> Result<Vec<Qdisc>, Errno> {
    let socket = netlink::socket(None)?;
    let mut found = Vec::new();
    netlink::dump(&socket, GET, &[0; MESSAGE_BYTES], &mut |body| {
        if found.len() < QDISCS_MAX {
            found.extend(of_message(body));
        }
    })?;
    let named = |(index, bytes_per_s, drops)| {
        let device = netdevice::index_to_name(&socket, index).ok()?;
        Some(Qdisc { device, bytes_per_s, drops })
    };
    Ok(found.into_iter().filter_map(named).collect())
}

/// Interface, rate and drops.
fn of_message(body: &[u8]) -> Option<(u32, Option<u64>, u32)> {
    let index = u32::from_ne_bytes(*body.get(4..8)?.first_chunk()?);
    let attributes = body.get(MESSAGE_BYTES..)?;
    let word =
        |bytes: &[u8], at: usize| Some(u32::from_ne_bytes(*bytes.get(at..at + 4)?.first_chunk()?));
    let is_bucket = attribute(attributes, KIND).is_some_and(|kind| kind.starts_with(b"tbf\0"));
    let rate = attribute(attributes, OPTIONS).filter(|_| is_bucket).and_then(|options| {
        let large = attribute(options, BUCKET_RATE).and_then(|rate| rate.first_chunk());
        // struct tc_ratespec: the rate is its last word.
        let small = || word(attribute(options, BUCKET)?, 8).map(u64::from);
        large.map(|rate| u64::from_ne_bytes(*rate)).or_else(small)
    });
    // struct gnet_stats_queue: length, backlog, drops, …
    let queue = attribute(attributes, STATISTICS).and_then(|all| attribute(all, QUEUE));
    let drops = queue.and_then(|queue| word(queue, 8)).unwrap_or(0);
    Some((index, rate, drops))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn attribute_of(kind: u16, value: &[u8]) -> Vec<u8> {
        let mut bytes = ((value.len() + 4) as u16).to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(value);
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        bytes
    }

    fn message(kind: &[u8], options: &[u8]) -> Vec<u8> {
        let mut body = vec![0; MESSAGE_BYTES];
        body[4..8].copy_from_slice(&3u32.to_ne_bytes());
        body.extend(attribute_of(KIND, kind));
        body.extend(attribute_of(OPTIONS | 0x8000, options));
        let queue: Vec<u8> =
            [1u32, 2, 9, 0, 5].iter().flat_map(|word| word.to_ne_bytes()).collect();
        body.extend(attribute_of(STATISTICS, &attribute_of(QUEUE, &queue)));
        body
    }

    #[test]
    fn a_token_bucket_has_a_rate() {
        let mut parameters = vec![0; 36];
        parameters[8..12].copy_from_slice(&2_500_000u32.to_ne_bytes());
        let small = attribute_of(BUCKET, &parameters);
        assert_eq!(of_message(&message(b"tbf\0", &small)), Some((3, Some(2_500_000), 9)));
        let large =
            [small.clone(), attribute_of(BUCKET_RATE, &(1u64 << 33).to_ne_bytes())].concat();
        assert_eq!(of_message(&message(b"tbf\0", &large)), Some((3, Some(1 << 33), 9)));
        // Of any other kind these numbers mean something else.
        assert_eq!(of_message(&message(b"fq\0", &small)), Some((3, None, 9)));
    }

    #[test]
    fn damaged_messages_have_nothing() {
        let whole = message(b"tbf\0", &attribute_of(BUCKET, &[0; 36]));
        for length in 0..whole.len() {
            // Whatever is missing, nothing is read beyond the end.
            let _ = of_message(&whole[..length]);
        }
        assert_eq!(of_message(&[]), None);
    }

    #[test]
    fn every_interface_is_asked_for() {
        // Loopback needs no discipline; whatever is there has a name.
        assert!(qdiscs().unwrap().iter().all(|qdisc| !qdisc.device.is_empty()));
    }
}
