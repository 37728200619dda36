//! The allocator and connections against this host's kernel, on loopback. Every test has separate source addresses and
//! ports. A listener of any other program may still occupy some port, so the tests count what was refused instead of
//! presuming it.
#![expect(clippy::unwrap_used, reason = "a failure to set a test up is a failed test")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use plimsoll_sys::outgoing::{Outgoing, OutgoingError, PortChoice};
use plimsoll_sys::poll::Poller;
use plimsoll_sys::ports::{
    Closed, HostPorts, Lease, PortAllocator, PortCounts, PortPlan, PortSet, PortShortage, Route,
    Slice, Sources,
};
use plimsoll_sys::socket::{FirstBytes, ListenSocket, Socket};
use plimsoll_sys::{Errno, clock};

const WAIT_NS: u64 = 5_000_000_000;

/// A loopback address that no other test uses: 127, a number of the test, the process.
fn own_address(test: u8) -> IpAddr {
    let [low, high, ..] = std::process::id().to_le_bytes();
    // 127.0.x.x is where everything else happens.
    IpAddr::V4(Ipv4Addr::new(127, 100 + test, high, low.clamp(1, 254)))
}

fn host_ports() -> PortSet {
    HostPorts::read(Path::new("/proc")).unwrap().usable
}

/// Ports from the host's range that no other test uses, and other runs of these tests hardly ever,
/// because an explicitly bound port is taken for all addresses. 64 for each number of a test.
fn own_ports(test: u8, count: u16) -> PortSet {
    const EACH_RUN: u32 = 64 * 20;
    let all = host_ports();
    let run = std::process::id() % (all.len() / EACH_RUN);
    let first = all.nth(run * EACH_RUN + u32::from(test) * 64).unwrap();
    let ports = PortSet::new(first..=first + (count - 1), &[]);
    assert!((0..ports.len()).all(|place| all.contains(ports.nth(place).unwrap())));
    ports
}

/// A server whose accepted ends are kept, and a client that owns its ports.
struct Pair {
    listener: ListenSocket,
    poller: Poller,
    ports: PortAllocator,
    choice: PortChoice,
    refusals: u32,
    server_ends: Vec<Socket>,
}

struct Opened {
    client: Socket,
    lease: Lease,
}

impl Pair {
    fn new(local: &str, sources: Vec<IpAddr>, ports: PortSet, choice: PortChoice) -> Self {
        let listener = ListenSocket::bind(local.parse().unwrap(), 512).unwrap();
        let poller = Poller::new(64).unwrap();
        poller.add_listener(&listener, 0).unwrap();
        let remote = listener.local_address().unwrap();
        let routes = vec![Route { remote, sources: Sources::Given(sources.into()) }];
        // Listeners are left out on purpose: the allocator is to find them out.
        let host = Arc::new(HostPorts { usable: ports, listening: Vec::new() });
        let plan = PortPlan { host, routes, slice: Slice::WHOLE, seed: 3 };
        let ports = PortAllocator::new(plan);
        Self { listener, poller, ports, choice, refusals: 0, server_ends: Vec::new() }
    }

    fn remote(&self) -> SocketAddr {
        self.listener.local_address().unwrap()
    }

    /// Opens a connection and accepts it.
    fn open(&mut self, now_ns: u64) -> Result<Opened, PortShortage> {
        let mut socket =
            Outgoing::with_choice(self.remote(), self.choice, FirstBytes::Later).unwrap();
        let (lease, wanted) = loop {
            let candidate = self.ports.take(0, now_ns).map_err(|error| error.shortage)?;
            let wanted = (candidate.source, candidate.port);
            match socket.connect_from(candidate.source, candidate.port) {
                Ok(_) => break (self.ports.connected(candidate), wanted),
                Err(OutgoingError::Taken) => {
                    self.refusals += 1;
                    self.ports.refused(candidate, now_ns).map_err(|error| error.shortage)?;
                }
                Err(OutgoingError::Failed(errno)) => panic!("{wanted:?}: {errno}"),
            }
        };
        let client = socket.into_socket();
        let local = client.local_address().unwrap();
        assert_eq!((Some(local.ip()), local.port()), wanted);
        self.accept();
        client.take_error().unwrap();
        Ok(Opened { client, lease })
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok(end) => return self.server_ends.push(end),
                Err(Errno::AGAIN) => assert!(self.poller.wait(Some(WAIT_NS)).unwrap() > 0),
                Err(errno) => panic!("accept: {errno}"),
            }
        }
    }

    fn reset(&mut self, opened: Opened, now_ns: u64) {
        opened.client.reset_on_close().unwrap();
        drop(opened.client);
        self.ports.give_back(opened.lease, Closed::Reset, now_ns);
    }

    fn counts(&self) -> PortCounts {
        self.ports.counts(0)
    }
}

/// Opens connections until no pair is left.
fn fill(pair: &mut Pair, now_ns: u64) -> Vec<Opened> {
    std::iter::from_fn(|| pair.open(now_ns).ok()).collect()
}

/// Fills a range with three listeners in the way, then replaces connections at 99 % of it.
fn fill_and_churn(choice: PortChoice, test: u8) {
    const PORTS: u16 = 200;
    let ports = own_ports(test, PORTS);
    let source = own_address(test);
    let listens_on = match choice {
        // A listener on any address blocks the port.
        PortChoice::Range => own_address(test + 1),
        // Explicit binds collide with a listener only on their own address.
        PortChoice::Bind => source,
    };
    let in_the_way: Vec<_> = (0..ports.len())
        .step_by(70)
        .filter_map(|place| ports.nth(place))
        .map(|port| ListenSocket::bind((listens_on, port).into(), 1).unwrap())
        .collect();
    let mut pair = Pair::new("127.0.0.1:0", vec![source], ports, choice);
    let now_ns = clock::monotonic_ns();
    let mut held = fill(&mut pair, now_ns);
    let usable = held.len();
    assert_eq!(pair.refusals as usize + usable, usize::from(PORTS));
    assert!(pair.refusals as usize >= in_the_way.len());
    for opened in held.drain(usable / 100 * 99..) {
        pair.reset(opened, now_ns);
    }
    for turn in 0..1000 {
        let opened = held.swap_remove(turn * 31 % held.len());
        pair.reset(opened, now_ns);
        held.push(pair.open(now_ns).unwrap());
    }
    // No pair was refused twice, and a thousand connects met only pairs that were free.
    assert_eq!(pair.counts().refused, pair.refusals);
    held.extend(fill(&mut pair, now_ns));
    let in_use = pair.counts().in_use;
    // The listeners go: their ports are tried again after the minute, and found free.
    let freed = in_the_way.len() as u32;
    drop(in_the_way);
    let later_ns = now_ns + 62_000_000_000;
    held.extend(fill(&mut pair, later_ns));
    let counts = pair.counts();
    assert!(counts.in_use >= in_use + freed, "{counts:?}");
    assert_eq!(counts.in_use + counts.foreign, u32::from(PORTS));
    for opened in held {
        pair.reset(opened, later_ns);
    }
    assert_eq!(pair.counts().free, counts.in_use);
}

#[test]
fn a_range_is_filled_with_listeners_in_the_way() {
    if PortChoice::of_kernel() == PortChoice::Range {
        fill_and_churn(PortChoice::Range, 0);
    }
}

#[test]
fn explicit_binds_fill_a_range_with_listeners_in_the_way() {
    fill_and_churn(PortChoice::Bind, 4);
}

#[test]
fn time_wait_is_survived() {
    let (source, ports) = (own_address(8), own_ports(8, 40));
    let choice = PortChoice::of_kernel();
    let mut pair = Pair::new("127.0.0.1:0", vec![source], ports.clone(), choice);
    let now_ns = clock::monotonic_ns();
    let held: Vec<_> = (0..10).map(|_| pair.open(now_ns).unwrap()).collect();
    for opened in held {
        drop(opened.client);
        pair.ports.give_back(opened.lease, Closed::HereFirst, now_ns);
    }
    pair.server_ends.clear();
    // This run does not touch them for a minute.
    let before = pair.refusals;
    let held: Vec<_> = (0..10).map(|_| pair.open(now_ns).unwrap()).collect();
    let met_since = pair.refusals - before;
    assert_eq!((pair.counts().time_wait, pair.counts().in_use), (10, 10));
    assert!(met_since <= pair.counts().refused);
    drop(held);
    // A run right after it knows nothing of them and begins with the same ports.
    let routes = vec![Route { remote: pair.remote(), sources: Sources::Given([source].into()) }];
    let host = Arc::new(HostPorts { usable: ports, listening: Vec::new() });
    pair.ports = PortAllocator::new(PortPlan { host, routes, slice: Slice::WHOLE, seed: 3 });
    pair.refusals = 0;
    let held: Vec<_> = (0..10).map(|_| pair.open(now_ns).unwrap()).collect();
    assert_eq!((pair.counts().in_use, pair.counts().refused), (10, pair.refusals));
    drop(held);
}

#[test]
fn one_port_serves_several_destinations() {
    let (source, ports) = (own_address(9), own_ports(9, 5));
    let choice = PortChoice::of_kernel();
    let mut held = Vec::new();
    let mut pairs = Vec::new();
    for _ in 0..3 {
        let mut pair = Pair::new("127.0.0.1:0", vec![source], ports.clone(), choice);
        held.extend(fill(&mut pair, 0));
        assert_eq!(pair.counts().in_use + pair.refusals, 5);
        pairs.push(pair);
    }
    let mut used: Vec<_> =
        held.iter().map(|opened| opened.client.local_address().unwrap()).collect();
    used.sort_unstable();
    used.dedup();
    assert!(used.len() <= 5 && held.len() > 5, "{} of {used:?}", held.len());
}

#[test]
fn a_socket_that_was_refused_moves_on_to_another_source() {
    for (choice, test) in [(PortChoice::of_kernel(), 10), (PortChoice::Bind, 12)] {
        let (first, second) = (own_address(test), own_address(test + 1));
        let mut one = Pair::new("127.0.0.1:0", vec![first], own_ports(test, 20), choice);
        let opened = one.open(0).unwrap();
        let port = opened.client.local_address().unwrap().port();
        let mut socket = Outgoing::with_choice(one.remote(), choice, FirstBytes::Later).unwrap();
        let refused = socket.connect_from(Some(first), port).unwrap_err();
        assert_eq!(refused, OutgoingError::Taken);
        socket.connect_from(Some(second), port).unwrap();
        let local = socket.into_socket().local_address().unwrap();
        assert_eq!(local, SocketAddr::new(second, port));
    }
}

#[test]
fn ipv6_sockets_get_the_port_that_was_asked_for() {
    let loopback: IpAddr = "::1".parse().unwrap();
    for (choice, test) in [(PortChoice::of_kernel(), 14), (PortChoice::Bind, 15)] {
        let mut pair = Pair::new("[::1]:0", vec![loopback], own_ports(test, 60), choice);
        let held: Vec<_> = (0..30).map(|_| pair.open(0).unwrap()).collect();
        for opened in held {
            pair.reset(opened, 0);
        }
        assert_eq!(pair.counts().free, 30);
    }
}

#[test]
fn without_a_source_the_routes_decide_the_address() {
    let remote = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 8).unwrap();
    for (choice, test) in [(PortChoice::of_kernel(), 16), (PortChoice::Bind, 17)] {
        let mut socket =
            Outgoing::with_choice(remote.local_address().unwrap(), choice, FirstBytes::Later)
                .unwrap();
        // Another program's load may have any number of ports, but not on all of them.
        let (first, all) = (own_ports(test, 1).nth(0).unwrap(), host_ports());
        let ports = (0..all.len()).filter_map(|place| all.nth(place));
        let port = ports
            .clone()
            .filter(|port| *port >= first)
            .chain(ports)
            .find(|port| socket.connect_from(None, *port).is_ok());
        let local = socket.into_socket().local_address().unwrap();
        assert_eq!((local.ip(), Some(local.port())), ("127.0.0.1".parse().unwrap(), port));
    }
}

#[test]
fn an_address_of_another_host_is_no_lack_of_ports() {
    // 192.0.2.0/24 is for documentation (RFC 5737).
    let remote = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 8).unwrap();
    let remote = remote.local_address().unwrap();
    for (choice, test) in [(PortChoice::of_kernel(), 18), (PortChoice::Bind, 19)] {
        let port = own_ports(test, 1).nth(0).unwrap();
        let mut socket = Outgoing::with_choice(remote, choice, FirstBytes::Later).unwrap();
        let foreign = Some("192.0.2.1".parse().unwrap());
        let error = socket.connect_from(foreign, port).unwrap_err();
        assert_eq!(error, OutgoingError::Failed(Errno::ADDRNOTAVAIL));
    }
}
