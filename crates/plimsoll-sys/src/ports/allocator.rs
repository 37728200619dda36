//! The allocator of (source, port) pairs.
//!
//! [`PortAllocator`] has a [`Ring`] for each route; a slot is the number of a pair within the slice of this shard.
//! [`PortAllocator::take`] offers unused slots first, then freed ones, those whose TIME_WAIT of 60 s has ended, those
//! that were refused a minute ago, and last those still in TIME_WAIT. Each [`Candidate`] must be answered by
//! `connected`, `refused` or `unused`, else its pair is lost for the run. Nothing here makes a system call or reads a
//! clock. Start reading at [`Ring::take`].

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

use super::delay_queue::DelayQueue;
use super::error::{PortCounts, PortError, PortShortage};
use super::host::HostPorts;
use super::sources::Sources;

/// Time for which a pair that may be in TIME_WAIT is left alone: the kernel's, which cannot be changed.
const TIME_WAIT_NS: u64 = super::TIME_WAIT_S as u64 * 1_000_000_000;
/// Age from which a pair in TIME_WAIT is tried if no other is left: the kernel may reuse it after 1 s (tcp_tw_reuse, on
/// loopback by default, with TCP timestamps only).
const EARLY_NS: u64 = 1_100_000_000;
/// Delay before the next attempt after one has failed.
const EARLY_PAUSE_NS: u64 = 10_000_000_000;
/// Refusals in a row that are reported instead of skipped: at 2 us each, a stall of 10 ms. Up to this many connections
/// that an earlier run left in TIME_WAIT are tolerated.
const REFUSALS_IN_A_ROW_MAX: u32 = 4096;

/// The ports of a load, and the part of one shard.
#[derive(Clone, Debug)]
pub struct PortPlan {
    /// The host's ports.
    pub host: Arc<HostPorts>,
    /// Destinations, each remote address once. Every one has all the ports for itself.
    pub routes: Vec<Route>,
    /// Part of each route's pairs that may be used. The parts of all slices are disjoint and cover the whole as long as
    /// range, reserved ports, routes and seed are the same.
    pub slice: Slice,
    /// Decides with which port the load begins; the same for all slices.
    pub seed: u64,
}

/// One remote address, and the addresses that connections to it come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// Remote address.
    pub remote: SocketAddr,
    /// Source addresses; of the same family.
    pub sources: Sources,
}

/// Part `index` of `of` parts, 0 <= index < of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// Number of the part.
    pub index: u32,
    /// Number of parts; at least 1.
    pub of: u32,
}

impl Slice {
    /// Everything.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// Returns the count of the numbers 0..total in this part: every `of`th from `index` on.
    const fn count(self, total: u64) -> u64 {
        let (index, of) = (self.index as u64, self.of as u64);
        if total > index { (total - index).div_ceil(of) } else { 0 }
    }

    /// Returns the `nth` number of this part.
    const fn nth(self, nth: u32) -> u64 {
        self.index as u64 + nth as u64 * self.of as u64
    }
}

/// A pair that a connection holds, to be given back when it is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Lease(NonZeroU32);

const _: () = assert!(size_of::<Option<Lease>>() == 4);

/// A pair to try next. Report the result to the allocator: [`PortAllocator::connected`], [`PortAllocator::refused`] or
/// [`PortAllocator::unused`].
#[derive(Debug)]
#[must_use = "a pair that is not answered for is lost for the run"]
pub struct Candidate {
    /// The address to connect from; `None` leaves it to the kernel.
    pub source: Option<IpAddr>,
    /// The port to connect from.
    pub port: u16,
    route: u32,
    slot: u32,
    origin: Origin,
}

/// Why a pair is thought to be free.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    /// No reason against the pair is known.
    Unsuspected,
    /// The pair is in TIME_WAIT, but there is no other.
    Early,
    /// The pair was refused a minute ago.
    Refused,
}

/// The end of a connection, which decides when its pair is free again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// By a RST of either side, or before it was established: free at once.
    Reset,
    /// The peer sent its FIN first, so TIME_WAIT is the peer's: free at once.
    PeerFirst,
    /// This end sent its FIN first: the pair is in TIME_WAIT for a minute.
    HereFirst,
}

/// Hands out the pairs of one slice.
#[derive(Debug)]
pub struct PortAllocator {
    plan: PortPlan,
    rings: Vec<Ring>,
    /// Position in the range at which the load begins.
    start: u32,
}

/// The pairs of one route. A slot is a pair's number within the slice.
#[derive(Debug, Default)]
struct Ring {
    /// 0 <= next_fresh <= slots: those below have been handed out at least once, or are foreign.
    next_fresh: u32,
    slots: u32,
    /// The longest unused is first, so that the peer's state of the last connection has expired.
    free: VecDeque<u32>,
    time_wait: DelayQueue,
    /// Refused once.
    refused: DelayQueue,
    in_use: u32,
    foreign: u32,
    refusals_in_a_row: u32,
    /// Until then no pair is tried before its TIME_WAIT is over.
    early_again_ns: u64,
}

impl PortAllocator {
    /// Creates an allocator that has not handed out any pair yet.
    pub fn new(plan: PortPlan) -> Self {
        let ports = plan.host.usable.len();
        // Leases number the slots of all routes; one number is kept for "none".
        let slots_max = u64::from(u32::MAX - 1) / plan.routes.len().max(1) as u64;
        let ring = |route: &Route| {
            let pairs = u64::from(ports) * u64::from(route.sources.count());
            let slots = plan.slice.count(pairs).min(slots_max) as u32;
            Ring { slots, ..Ring::default() }
        };
        let rings = plan.routes.iter().map(ring).collect();
        let start = (splitmix(plan.seed) % u64::from(ports.max(1))) as u32;
        Self { plan, rings, start }
    }

    /// Returns the next pair to try for a connection to `route`.
    ///
    /// # Panics
    ///
    /// If the plan has no such route.
    pub fn take(&mut self, route: u32, now_ns: u64) -> Result<Candidate, PortError> {
        while let Some((slot, origin)) = self.rings[route as usize].take(now_ns) {
            let Some((source, port)) = self.pair(route, slot) else { break };
            if self.plan.host.listening.binary_search(&port).is_ok() {
                self.rings[route as usize].foreign += 1;
                continue;
            }
            self.rings[route as usize].in_use += 1;
            self.rings[route as usize].assert_balance();
            return Ok(Candidate { source, port, route, slot, origin });
        }
        let ring = &self.rings[route as usize];
        let next = [ring.time_wait.next_ready_ns(), ring.refused.next_ready_ns()];
        let ready_in_ns = next.into_iter().flatten().min().map(|at| at.saturating_sub(now_ns));
        Err(self.error(route, PortShortage::Exhausted { ready_in_ns }))
    }

    /// Notes that a connection has the pair now, also while that is only being established.
    pub fn connected(&mut self, candidate: Candidate) -> Lease {
        self.rings[candidate.route as usize].refusals_in_a_row = 0;
        let number = candidate.slot * self.rings.len() as u32 + candidate.route;
        // `slots_max` keeps the number below u32::MAX.
        Lease(NonZeroU32::MIN.saturating_add(number))
    }

    /// Notes that the kernel refused the pair: in TIME_WAIT after another program's connection, or in use. Fails if
    /// that happened too often in a row to continue.
    pub fn refused(&mut self, candidate: Candidate, now_ns: u64) -> Result<(), PortError> {
        let ring = &mut self.rings[candidate.route as usize];
        ring.in_use -= 1;
        match candidate.origin {
            Origin::Refused => ring.foreign += 1,
            Origin::Unsuspected | Origin::Early => {
                ring.refused.push(candidate.slot, now_ns.saturating_add(TIME_WAIT_NS));
            }
        }
        if candidate.origin == Origin::Early {
            ring.early_again_ns = now_ns.saturating_add(EARLY_PAUSE_NS);
        }
        ring.assert_balance();
        ring.refusals_in_a_row += 1;
        let in_a_row = ring.refusals_in_a_row;
        if in_a_row < REFUSALS_IN_A_ROW_MAX {
            return Ok(());
        }
        ring.refusals_in_a_row = 0;
        Err(self.error(candidate.route, PortShortage::Refused { in_a_row }))
    }

    /// Notes that the pair was not tried, or that the attempt failed for another reason than the port.
    pub fn unused(&mut self, candidate: Candidate) {
        let ring = &mut self.rings[candidate.route as usize];
        ring.in_use -= 1;
        ring.free.push_back(candidate.slot);
    }

    /// Takes back the pair of a connection that is closed.
    pub fn give_back(&mut self, lease: Lease, closed: Closed, now_ns: u64) {
        let number = lease.0.get() - 1;
        let routes = self.rings.len() as u32;
        let slot = number / routes;
        let ring = &mut self.rings[(number % routes) as usize];
        ring.in_use -= 1;
        match closed {
            Closed::Reset | Closed::PeerFirst => ring.free.push_back(slot),
            Closed::HereFirst => ring.time_wait.push(slot, now_ns.saturating_add(TIME_WAIT_NS)),
        }
        ring.assert_balance();
    }

    /// Returns the states of the pairs of `route`.
    ///
    /// # Panics
    ///
    /// If the plan has no such route.
    pub fn counts(&self, route: u32) -> PortCounts {
        self.rings[route as usize].counts()
    }

    /// Slots that the queues have room for.
    #[cfg(test)]
    pub(super) fn returned_capacity(&self) -> usize {
        let room = |ring: &Ring| {
            ring.free.capacity() + ring.time_wait.capacity() + ring.refused.capacity()
        };
        self.rings.iter().map(room).sum()
    }

    /// Sources change fastest, so that they are used evenly; every route goes through the same
    /// pairs in the same order, because connections from one pair share a kernel object of 128
    /// bytes whatever their destination.
    fn pair(&self, route: u32, slot: u32) -> Option<(Option<IpAddr>, u16)> {
        let sources = &self.plan.routes[route as usize].sources;
        let ports = u64::from(self.plan.host.usable.len());
        let number = self.plan.slice.nth(slot);
        let source = number % u64::from(sources.count());
        let place = (number / u64::from(sources.count()) + u64::from(self.start)) % ports;
        let port = self.plan.host.usable.nth(place as u32)?;
        Some((sources.nth(source as u32), port))
    }

    fn error(&self, route: u32, shortage: PortShortage) -> PortError {
        let Route { remote, sources } = &self.plan.routes[route as usize];
        PortError {
            remote: *remote,
            sources: sources.count(),
            ports: self.plan.host.usable.len(),
            shortage,
            counts: self.counts(route),
        }
    }
}

impl Ring {
    fn counts(&self) -> PortCounts {
        PortCounts {
            pairs: self.slots,
            fresh: self.slots - self.next_fresh,
            free: self.free.len() as u32,
            in_use: self.in_use,
            time_wait: self.time_wait.len() as u32,
            refused: self.refused.len() as u32,
            foreign: self.foreign,
        }
    }

    fn assert_balance(&self) {
        let PortCounts { pairs, fresh, free, in_use, time_wait, refused, foreign } = self.counts();
        let all = fresh + free + in_use + time_wait + refused + foreign;
        debug_assert_eq!(all, pairs, "a pair is in no state, or in two: {self:?}");
    }

    /// Returns a slot that may be tried now.
    fn take(&mut self, now_ns: u64) -> Option<(u32, Origin)> {
        if self.next_fresh < self.slots {
            self.next_fresh += 1;
            return Some((self.next_fresh - 1, Origin::Unsuspected));
        }
        if let Some(slot) = self.free.pop_front().or_else(|| self.time_wait.pop(now_ns)) {
            return Some((slot, Origin::Unsuspected));
        }
        if let Some(slot) = self.refused.pop(now_ns) {
            return Some((slot, Origin::Refused));
        }
        if now_ns < self.early_again_ns {
            return None;
        }
        let early_enough_ns = now_ns.saturating_add(TIME_WAIT_NS - EARLY_NS);
        self.time_wait.pop(early_enough_ns).map(|slot| (slot, Origin::Early))
    }
}

/// SplitMix64's finalizer: neighbouring seeds begin far from each other.
const fn splitmix(seed: u64) -> u64 {
    let mut z = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
