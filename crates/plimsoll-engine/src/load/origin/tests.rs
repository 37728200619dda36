//! Tests of a load's ports, and of the spread of its connections, on loopback.

use std::collections::HashSet;

use plimsoll_model::Rate;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{HoldPlan, Timeouts};
use plimsoll_sys::ports::PortSet;
use plimsoll_sys::socket::ListenSocket;

use super::*;

const HOLD: Pacing = Pacing::Hold(HoldPlan {
    connections_per_s: 100.0,
    opening_max: 10,
    heartbeat: None,
    replace: false,
});
pub(in crate::load) const CLOSED: Pacing = Pacing::Closed { duration: None, ops_total: Some(1) };

pub(in crate::load) fn plan(
    pacing: Pacing,
    connections: u64,
    destinations: &[&[SocketAddr]],
) -> LoadPlan {
    let timeouts = Timeouts { linger: Nanos::ZERO, ..Timeouts::default() };
    LoadPlan { connections, timeouts, ..LoadPlan::plain(destinations, pacing) }
}

fn host(count: u16) -> HostPorts {
    let all = HostPorts::read(Path::new("/proc")).unwrap().usable;
    // Two runs of these tests at a time should not meet.
    let first = all.nth(std::process::id() % (all.len() - u32::from(count))).unwrap();
    HostPorts { usable: PortSet::new(first..=first + (count - 1), &[]), listening: vec![] }
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

#[test]
fn a_small_load_leaves_ports_to_the_kernel_and_a_hold_never_does() {
    let (one, other) = (address("127.0.0.1:80"), address("127.0.0.1:81"));
    let table: [(LoadPlan, bool); 6] = [
        (plan(CLOSED, 50, &[&[one]]), false),
        (plan(CLOSED, 51, &[&[one]]), true),
        // Two addresses have twice the ports,
        (plan(CLOSED, 100, &[&[one, other]]), false),
        (plan(CLOSED, 100, &[&[one], &[other]]), false),
        // unless both names mean the same address.
        (plan(CLOSED, 100, &[&[one], &[one]]), true),
        (plan(HOLD, 1, &[&[one]]), true),
    ];
    for (row, (plan, owns)) in table.iter().enumerate() {
        let origins = Origins::with_host(plan, Shard::WHOLE, Some(host(100)));
        assert_eq!(origins.ports.is_some(), *owns, "row {row}");
        assert!(Origins::with_host(plan, Shard::WHOLE, None).ports.is_none());
    }
}

#[test]
fn sources_are_as_many_as_needed_and_of_the_right_family() {
    let (v4, v6) = (address("127.0.0.1:80"), address("[::1]:80"));
    let far = address("192.0.2.1:80");
    let sources = |plan: &LoadPlan| -> Vec<Sources> {
        let plan = port_plan(plan, Shard::WHOLE, host(1000), &Remotes::of(plan));
        plan.routes.into_iter().map(|route| route.sources).collect()
    };
    // 10,000 connections at 750 ports and one pair more.
    assert_eq!(sources(&plan(HOLD, 10_000, &[&[v4]])), [Sources::Loopback(14)]);
    let churning = LoadPlan { keepalive: false, ..plan(CLOSED, 10_000, &[&[v4]]) };
    assert_eq!(sources(&churning), [Sources::Loopback(2014)]);
    let mixed = plan(HOLD, 10_000, &[&[v4, v6, far]]);
    assert_eq!(sources(&mixed), [Sources::Loopback(5), Sources::Routed, Sources::Routed]);
    let given = LoadPlan { sources: vec!["127.0.0.9".parse().unwrap()], ..mixed };
    let own: Arc<[IpAddr]> = given.sources.clone().into();
    assert_eq!(
        sources(&given),
        [Sources::Given(Arc::clone(&own)), Sources::Routed, Sources::Given(own)]
    );
}

#[test]
fn connections_go_to_every_address_from_pairs_of_their_own() {
    let listen = || ListenSocket::bind(address("127.0.0.1:0"), 256).unwrap();
    let servers = [listen(), listen()];
    let addresses = servers.each_ref().map(|server| server.local_address().unwrap());
    let plan = plan(HOLD, 120, &[&addresses]);
    let mut held = Vec::new();
    let mut froms = HashSet::new();
    // Three workers, as in three agents; their parts add up to what each address offers.
    for index in 0..3 {
        let mut origins = Origins::with_host(&plan, Shard { index, of: 3 }, Some(host(50)));
        for _ in 0..40 {
            let begun = origins.connect(&[], 0, FirstBytes::Later, Nanos::ZERO).unwrap();
            assert!(begun.lease.is_some());
            held.push(begun);
        }
        let in_use = [0, 1].map(|route| origins.ports.as_ref().unwrap().counts(route).in_use);
        assert_eq!(in_use, [20, 20]);
    }
    for begun in &held {
        let from = begun.socket.local_address().unwrap();
        let usable = host(50).usable;
        assert!(usable.contains(from.port()), "{from}");
        froms.insert(from);
    }
    // Two addresses, so each pair serves twice, but for those that only one of them was refused.
    assert_eq!(held.len(), 120);
    assert!(froms.len() < 80, "{}", froms.len());
}

#[test]
fn an_address_without_ports_is_passed_over_and_the_lack_is_a_local_fault() {
    let listen = || ListenSocket::bind(address("127.0.0.1:0"), 256).unwrap();
    let servers = [listen(), listen()];
    let addresses = servers.each_ref().map(|server| server.local_address().unwrap());
    let own = "127.9.0.1".parse().unwrap();
    let plan = LoadPlan { sources: vec![own], ..plan(HOLD, 20, &[&addresses]) };
    let mut origins = Origins::with_host(&plan, Shard::WHOLE, Some(host(8)));
    let mut held = Vec::new();
    let error = loop {
        match origins.connect(&plan.sources, 0, FirstBytes::Later, Nanos::ZERO) {
            Ok(begun) => held.push(begun),
            Err(error) => break error,
        }
    };
    let ports = origins.ports.as_ref().unwrap();
    let refused: u32 = [0, 1].map(|route| ports.counts(route).refused).iter().sum();
    assert_eq!(held.len() as u32 + refused, 16);
    assert_eq!(error.class(), ErrorClass::LocalPorts);
    // What is given back is used again.
    let begun = held.pop().unwrap();
    begun.socket.reset_on_close().unwrap();
    let (lease, from) = (begun.lease.unwrap(), begun.socket.local_address().unwrap());
    drop(begun.socket);
    origins.give_back(lease, Closed::Reset, Nanos::ZERO);
    let again = origins.connect(&plan.sources, 0, FirstBytes::Later, Nanos::ZERO).unwrap();
    assert_eq!(again.socket.local_address().unwrap(), from);
}

#[test]
fn reset_only_where_ports_would_run_out() {
    let rate = |per_s, s| {
        let rate = Rate::per_second(per_s).unwrap();
        let profile = Profile::constant(rate, Nanos::from_secs(s));
        Pacing::Open { profile, arrivals: Arrivals::Uniform }
    };
    let closed = |ops_total| Pacing::Closed { duration: None, ops_total };
    for (pacing, servers, sources, resets) in [
        (rate(300.0, 3600), 1, 0, false), // 18,000 ports rest at a time
        (rate(400.0, 3600), 1, 0, true),  // 24,000
        (rate(400.0, 3600), 2, 0, false), // 12,000 towards each server address
        (rate(400.0, 3600), 1, 2, false), // 12,000 from each source
        (rate(5000.0, 4), 1, 0, false),   // fast, but no more than 20,000 in all
        (rate(5000.0, 5), 1, 0, true),    // 25,000
        (closed(Some(20_000)), 1, 0, false),
        (closed(Some(20_001)), 1, 0, true),
        (closed(None), 1, 0, true), // nobody knows how many
    ] {
        let what = format!("{pacing:?}, {servers} servers, {sources} sources");
        assert_eq!(ports_run_out(&pacing, servers, sources), resets, "{what}");
    }
}
