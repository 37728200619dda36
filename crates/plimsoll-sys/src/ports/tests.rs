//! The allocator against a model of the kernel.

use std::collections::{HashMap, HashSet};

use proptest::prelude::*;

use super::*;

const SECOND_NS: u64 = 1_000_000_000;
const TIME_WAIT_NS: u64 = 60 * SECOND_NS;

fn host(first: u16, count: u16) -> HostPorts {
    HostPorts { usable: PortSet::new(first..=first + (count - 1), &[]), listening: Vec::new() }
}

fn routes(count: u16, sources: u32) -> Vec<Route> {
    let route = |port| Route {
        remote: ([127, 0, 0, 1], 1 + port).into(),
        sources: Sources::Loopback(sources),
    };
    (0..count).map(route).collect()
}

fn allocator(host: HostPorts, routes: Vec<Route>, slice: Slice, seed: u64) -> PortAllocator {
    PortAllocator::new(PortPlan { host: host.into(), routes, slice, seed })
}

/// A kernel with a number of bound ports.
struct Kernel {
    bound: HashSet<u16>,
    open: HashSet<(u32, Pair)>,
    /// Since when.
    time_wait: HashMap<(u32, Pair), u64>,
    /// Time for which others must wait for a pair in TIME_WAIT.
    reuse_after_ns: u64,
    attempts: u64,
    /// Refusals because of TIME_WAIT.
    too_early: u64,
}

type Pair = (Option<std::net::IpAddr>, u16);

impl Default for Kernel {
    fn default() -> Self {
        Self {
            bound: HashSet::new(),
            open: HashSet::new(),
            time_wait: HashMap::new(),
            reuse_after_ns: TIME_WAIT_NS,
            attempts: 0,
            too_early: 0,
        }
    }
}

impl Kernel {
    fn connect(&mut self, route: u32, pair: Pair, now_ns: u64) -> bool {
        self.attempts += 1;
        assert!(!self.open.contains(&(route, pair)), "{pair:?} was handed out twice");
        let since = self.time_wait.get(&(route, pair));
        let waits = since.is_some_and(|since| since + self.reuse_after_ns > now_ns);
        self.too_early += u64::from(waits && !self.bound.contains(&pair.1));
        let free = !self.bound.contains(&pair.1) && !waits;
        if free {
            self.open.insert((route, pair));
        }
        free
    }

    fn close(&mut self, route: u32, pair: Pair, closed: Closed, now_ns: u64) {
        assert!(self.open.remove(&(route, pair)));
        if closed == Closed::HereFirst {
            self.time_wait.insert((route, pair), now_ns);
        }
    }
}

/// Tries candidates until one connects.
fn open(
    ports: &mut PortAllocator,
    kernel: &mut Kernel,
    route: u32,
    now_ns: u64,
) -> Result<(Lease, Pair), PortError> {
    loop {
        let candidate = ports.take(route, now_ns)?;
        let pair = (candidate.source, candidate.port);
        if kernel.connect(route, pair, now_ns) {
            return Ok((ports.connected(candidate), pair));
        }
        ports.refused(candidate, now_ns)?;
    }
}

#[derive(Clone, Debug)]
enum Step {
    Open { route: u32 },
    Close { nth: usize, closed: Closed },
    Wait { seconds: u64 },
}

fn step() -> impl Strategy<Value = Step> {
    let closed = prop_oneof![Just(Closed::Reset), Just(Closed::PeerFirst), Just(Closed::HereFirst)];
    prop_oneof![
        6 => (0_u32..2).prop_map(|route| Step::Open { route }),
        3 => (any::<prop::sample::Index>(), closed)
            .prop_map(|(nth, closed)| Step::Close { nth: nth.index(1 << 16), closed }),
        1 => (1_u64..40).prop_map(|seconds| Step::Wait { seconds }),
    ]
}

proptest! {
    #[test]
    fn no_pair_is_handed_out_twice_and_none_is_lost(
        steps in proptest::collection::vec(step(), 1..400),
        bound in proptest::collection::hash_set(40_000_u16..40_016, 0..4),
        listening in proptest::collection::btree_set(40_000_u16..40_016, 0..3),
        sources in 1_u32..4,
        seed in any::<u64>(),
    ) {
        let mut host = host(40_000, 16);
        host.listening = listening.iter().copied().collect();
        let blocked: HashSet<_> = bound.iter().chain(&listening).copied().collect();
        let mut kernel = Kernel { bound: blocked, ..Kernel::default() };
        let mut ports = allocator(host, routes(2, sources), Slice::WHOLE, seed);
        let mut held = Vec::new();
        let mut now_ns = 0;
        let mut opened = 0;
        for step in steps {
            match step {
                Step::Open { route } => match open(&mut ports, &mut kernel, route, now_ns) {
                    Ok((lease, pair)) => {
                        opened += 1;
                        held.push((route, lease, pair));
                    }
                    Err(error) => {
                        // Nothing that the kernel would allow may be held back, but for pairs in
                        // their TIME_WAIT and those that were bound when they were tried.
                        let PortCounts { fresh, free, .. } = error.counts;
                        prop_assert_eq!((fresh, free), (0, 0));
                        let exhausted = matches!(error.shortage, PortShortage::Exhausted { .. });
                        prop_assert!(exhausted, "{}", error);
                    }
                },
                Step::Close { nth, closed } if !held.is_empty() => {
                    let (route, lease, pair) = held.swap_remove(nth % held.len());
                    kernel.close(route, pair, closed, now_ns);
                    ports.give_back(lease, closed, now_ns);
                }
                Step::Close { .. } => {}
                Step::Wait { seconds } => now_ns += seconds * SECOND_NS,
            }
            for route in 0..2 {
                let counts = ports.counts(route);
                let PortCounts { fresh, free, in_use, time_wait, refused, foreign, pairs } = counts;
                prop_assert_eq!(fresh + free + in_use + time_wait + refused + foreign, pairs);
                let open = held.iter().filter(|(of, ..)| *of == route).count();
                prop_assert_eq!(in_use as usize, open);
            }
        }
        // A pair that somebody bound is refused at most twice, and one in TIME_WAIT is tried only
        // when there is no other, once in ten seconds for each route.
        let refusals = kernel.attempts - opened - kernel.too_early;
        prop_assert!(refusals <= 2 * 2 * u64::from(sources) * bound.len() as u64);
        prop_assert!(kernel.too_early <= 2 * (1 + now_ns / (10 * SECOND_NS)));
    }

    #[test]
    fn slices_are_disjoint_and_cover_everything(
        of in 1_u32..40,
        sources in 1_u32..5,
        count in 1_u16..60,
        reserved in 40_000_u16..40_060,
        seed in any::<u64>(),
    ) {
        let usable = PortSet::new(40_000..=40_000 + (count - 1), &[reserved..=reserved]);
        let whole = usable.len() * sources;
        let (mut seen, mut skipped) = (HashSet::new(), 0);
        for index in 0..of {
            // What one shard knows of listeners must not move the others' pairs.
            let listening = if index == 0 { vec![40_000] } else { vec![] };
            let host = HostPorts { usable: usable.clone(), listening };
            let mut ports = allocator(host, routes(1, sources), Slice { index, of }, seed);
            while let Ok(candidate) = ports.take(0, 0) {
                prop_assert!(seen.insert((candidate.source, candidate.port)));
                ports.connected(candidate);
            }
            let counts = ports.counts(0);
            prop_assert_eq!(counts.pairs, counts.in_use + counts.foreign);
            prop_assert!(counts.pairs == whole / of || counts.pairs == whole / of + 1);
            skipped += counts.foreign;
        }
        prop_assert_eq!(seen.len() as u32 + skipped, whole);
    }
}

#[test]
fn a_full_range_costs_one_attempt_a_connection() {
    const PORTS: u16 = 20_000;
    let mut host = host(40_000, PORTS);
    host.listening = vec![40_100, 59_999];
    let mut kernel = Kernel::default();
    kernel.bound.extend([40_100, 59_999, 41_000, 42_000, 43_000]);
    let mut ports = allocator(host, routes(1, 1), Slice::WHOLE, 7);
    let mut held: Vec<_> =
        (0..PORTS / 100 * 99).map(|_| open(&mut ports, &mut kernel, 0, 0).unwrap()).collect();
    // At 99 % connections come and go; the three bound ports have been met once by then.
    let before = kernel.attempts;
    for turn in 0..100_000_usize {
        let (lease, pair) = held.swap_remove(turn * 7919 % held.len());
        kernel.close(0, pair, Closed::Reset, 0);
        ports.give_back(lease, Closed::Reset, 0);
        held.push(open(&mut ports, &mut kernel, 0, 0).unwrap());
    }
    assert!(kernel.attempts - before <= 100_003, "{}", kernel.attempts - before);
    let counts = ports.counts(0);
    assert_eq!((counts.refused, counts.foreign), (3, 2));
}

#[test]
fn a_port_that_is_refused_twice_is_given_up() {
    let mut kernel = Kernel::default();
    kernel.bound.insert(40_001);
    let mut ports = allocator(host(40_000, 3), routes(1, 1), Slice::WHOLE, 1);
    for _ in 0..2 {
        open(&mut ports, &mut kernel, 0, 0).unwrap();
    }
    let error = open(&mut ports, &mut kernel, 0, 0).unwrap_err();
    assert_eq!(error.shortage, PortShortage::Exhausted { ready_in_ns: Some(TIME_WAIT_NS) });
    assert_eq!(ports.counts(0).refused, 1);
    let error = open(&mut ports, &mut kernel, 0, TIME_WAIT_NS).unwrap_err();
    assert_eq!(error.shortage, PortShortage::Exhausted { ready_in_ns: None });
    assert_eq!((ports.counts(0).foreign, kernel.attempts), (1, 4));
}

#[test]
fn what_an_earlier_run_left_in_time_wait_is_survived() {
    let mut kernel = Kernel::default();
    let mut ports = allocator(host(40_000, 5000), routes(1, 1), Slice::WHOLE, 1);
    // The earlier run began at the same port and left 3,000 pairs.
    let mut earlier = allocator(host(40_000, 5000), routes(1, 1), Slice::WHOLE, 1);
    for _ in 0..3000 {
        let (_, pair) = open(&mut earlier, &mut kernel, 0, 0).unwrap();
        kernel.close(0, pair, Closed::HereFirst, 0);
    }
    for _ in 0..2000 {
        open(&mut ports, &mut kernel, 0, SECOND_NS).unwrap();
    }
    let error = open(&mut ports, &mut kernel, 0, SECOND_NS).unwrap_err();
    assert_eq!(error.counts.refused, 3000);
    for _ in 0..3000 {
        open(&mut ports, &mut kernel, 0, SECOND_NS + TIME_WAIT_NS).unwrap();
    }
    assert_eq!(ports.counts(0).foreign, 0);
}

#[test]
fn where_time_wait_is_short_the_oldest_is_used_early() {
    let mut kernel = Kernel { reuse_after_ns: SECOND_NS, ..Kernel::default() };
    let mut ports = allocator(host(40_000, 100), routes(1, 1), Slice::WHOLE, 1);
    let mut now_ns = 0;
    // With a minute of TIME_WAIT the second round would already lack ports.
    for _ in 0..100 {
        for _ in 0..90 {
            let (lease, pair) = open(&mut ports, &mut kernel, 0, now_ns).unwrap();
            kernel.close(0, pair, Closed::HereFirst, now_ns);
            ports.give_back(lease, Closed::HereFirst, now_ns);
        }
        now_ns += 2 * SECOND_NS;
    }
    assert_eq!(kernel.too_early, 0);
    let error = (0..200).find_map(|_| open(&mut ports, &mut kernel, 0, now_ns).err()).unwrap();
    assert_eq!(error.counts.in_use, 100);
}

#[test]
fn an_endless_row_of_refusals_is_named() {
    let mut kernel = Kernel { bound: (0..u16::MAX).collect(), ..Kernel::default() };
    let mut ports = allocator(host(40_000, 20_000), routes(1, 1), Slice::WHOLE, 1);
    let error = open(&mut ports, &mut kernel, 0, 0).unwrap_err();
    assert_eq!(error.shortage, PortShortage::Refused { in_a_row: 4096 });
    assert_eq!(
        error.to_string(),
        "the kernel refused 4096 source ports in a row for 127.0.0.1:1: of 20000 pairs (1 source \
         addresses x 20000 ports, this thread's part) 0 are in use, 0 are in TIME_WAIT, 4096 were \
         refused once, 0 belong to other programs; wait a minute for the kernel to release them, \
         or add addresses with --source"
    );
}

#[test]
fn a_ramp_stores_nothing_for_a_connection() {
    let mut ports = allocator(host(1024, 60_000), routes(4, 16), Slice::WHOLE, 1);
    for nth in 0..1_000_000_u32 {
        let candidate = ports.take(nth % 4, 0).unwrap();
        let _ = ports.connected(candidate);
    }
    assert_eq!(ports.returned_capacity(), 0);
}

#[test]
fn sources_are_used_evenly_by_all_slices_together() {
    let mut uses = HashMap::new();
    for index in 0..6 {
        let mut ports = allocator(host(40_000, 1000), routes(1, 4), Slice { index, of: 6 }, 1);
        for _ in 0..100 {
            let candidate = ports.take(0, 0).unwrap();
            *uses.entry(candidate.source).or_insert(0) += 1;
            ports.connected(candidate);
        }
    }
    let mut uses: Vec<i32> = uses.into_values().collect();
    uses.sort_unstable();
    assert_eq!(uses, [150; 4]);
}
