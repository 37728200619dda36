//! Handshake-only loads against the engine's own server: one connection for each operation, and
//! nothing on it.
#![expect(clippy::unwrap_used, reason = "a failure to set a test up is a failed test")]

#[path = "hold/served.rs"]
mod served;

use std::net::SocketAddr;

use plimsoll_engine::load::Load;
use plimsoll_model::event::LoadEvent;
use plimsoll_model::pace::{Arrivals, Profile};
use plimsoll_model::plan::{LoadPlan, Pacing, ServerName, Timeouts, TlsOptions, TlsVersion, Trust};
use plimsoll_model::tally::Tally;
use plimsoll_model::{ErrorClass, Nanos, Rate};
use plimsoll_sys::clock;
use plimsoll_sys::socket::ListenSocket;
use served::serve;

fn plan(address: SocketAddr, tls: bool, pacing: Pacing) -> LoadPlan {
    let mut plan = LoadPlan {
        connections: 16,
        keepalive: false,
        handshake_only: true,
        timeouts: Timeouts {
            deadline: None,
            linger: Nanos::from_secs(30),
            connect: Nanos::from_secs(30),
        },
        tls: TlsOptions { trust: Trust::Insecure, ..TlsOptions::default() },
        threads: 2,
        ..LoadPlan::plain(&[&[address]], pacing)
    };
    plan.targets[0].url.tls = tls;
    plan.destinations[0].tls = tls.then(|| ServerName("localhost".to_owned()));
    plan
}

/// 100 operations, on a schedule and one after another.
fn pacings() -> [Pacing; 2] {
    let profile = Profile::constant(Rate::per_second(400.0).unwrap(), Nanos::from_millis(250));
    [
        Pacing::Open { profile, arrivals: Arrivals::Poisson },
        Pacing::Closed { duration: None, ops_total: Some(100) },
    ]
}

fn run(plan: LoadPlan) -> Tally {
    let mut load = Load::prepare(plan).unwrap();
    let mut whole = Tally::default();
    while let Some(event) = load.next_event() {
        match event {
            LoadEvent::Ready { opened, .. } => {
                assert_eq!(opened, 0, "there is no pool to open");
                load.start(Nanos(clock::monotonic_ns()));
            }
            LoadEvent::Interval(interval) => whole.merge_following(&interval.tally),
            LoadEvent::Rows(_)
            | LoadEvent::Steered { .. }
            | LoadEvent::Refused(_)
            | LoadEvent::Draining { .. }
            | LoadEvent::Ended { .. } => {}
        }
    }
    assert!(whole.balances(), "{whole:?}");
    whole
}

#[test]
fn each_operation_is_a_handshake_and_nothing_else() {
    for pacing in pacings() {
        let (server, address) = serve(true);
        let tally = run(plan(address, true, pacing));
        assert_eq!((tally.scheduled, tally.ok, tally.connections.opened), (100, 100, 100));
        assert_eq!((tally.handshakes.full, tally.spans.tls.count()), (100, 100));
        assert_eq!(tally.spans.corrected.count(), 100);
        assert_eq!((tally.answers.status.iter().count(), tally.spans.ttfb.count()), (0, 0));
        assert_eq!(tally.connections.held_end, 0);
        // TCP's part of an operation is within it, and so is the wire's.
        assert!(tally.spans.connect.max() <= tally.spans.uncorrected.max());
        assert!(tally.spans.wire.max() <= tally.spans.uncorrected.max());
        let every = u64::from(tally.stamps.every);
        assert_eq!(every == 1, tally.spans.wire.count() + tally.stamps.missing == 100);
        // Every handshake is complete on the server's side, too: it was closed, not reset.
        let begun = Nanos(clock::monotonic_ns());
        while server.counters().handshakes_full < 100 {
            let waited = Nanos(clock::monotonic_ns()).since(begun);
            assert!(waited < Nanos::from_secs(30), "{:?}", server.counters());
            std::thread::yield_now();
        }
        assert_eq!(server.counters().requests, 0);
    }
}

#[test]
fn resumption_gets_its_tickets_although_nothing_is_sent() {
    for version in [TlsVersion::V1_2, TlsVersion::V1_3] {
        let (_server, address) = serve(true);
        let pacing = Pacing::Closed { duration: None, ops_total: Some(100) };
        let mut plan = LoadPlan { connections: 1, threads: 1, ..plan(address, true, pacing) };
        plan.tls.version = Some(version);
        plan.tls.resume_ratio = 0.8;
        let tally = run(plan);
        assert_eq!((tally.scheduled, tally.ok), (100, 100));
        // Every fifth is full; the first that would resume may have no ticket yet.
        assert!(
            (78..=80).contains(&tally.handshakes.resumed),
            "{version:?} {:?}",
            tally.handshakes
        );
    }
}

#[test]
fn without_tls_an_operation_is_a_connection() {
    for pacing in pacings() {
        let (_server, address) = serve(false);
        let tally = run(plan(address, false, pacing));
        assert_eq!((tally.scheduled, tally.ok, tally.connections.opened), (100, 100, 100));
        assert_eq!(tally.handshakes.full, 0);
    }
}

#[test]
fn handshakes_that_fail_are_errors() {
    for pacing in pacings() {
        // It speaks no TLS.
        let (_server, address) = serve(false);
        let tally = run(plan(address, true, pacing));
        assert_eq!((tally.ok, tally.errors_total(), tally.handshakes.failed), (0, 100, 100));
        assert_eq!(
            tally.failures.operations.get(ErrorClass::TlsHandshake),
            100,
            "{:?}",
            tally.failures.operations
        );
    }
}

#[test]
fn a_server_that_never_answers_is_given_up() {
    let [pacing, _] = pacings();
    let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 4096).unwrap();
    let plan = LoadPlan {
        timeouts: Timeouts { connect: Nanos::from_millis(200), ..Timeouts::default() },
        connections: 1000,
        ..plan(listener.local_address().unwrap(), true, pacing)
    };
    let tally = run(plan);
    assert_eq!(
        tally.failures.operations.get(ErrorClass::Timeout),
        100,
        "{:?}",
        tally.failures.operations
    );
}
