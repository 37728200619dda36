//! Storms whose clients wait for a known resource.

use std::collections::BTreeMap;

use plimsoll_model::cause::{Cause, Finding, Grade, Missing};
use plimsoll_model::host::{Metric, Reading};
use plimsoll_model::observation::Observations;
use plimsoll_model::storm::StormCounts;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{
    Judgement, Phase, TrialMeasurement, TrialRecord, TrialRequest, Verdict,
};
use plimsoll_model::{Nanos, Rate};

use super::super::of_storms;
use super::{Moves, SECONDS, TIP, World, free};

/// The first reading in the storm.
const CUT_AT: Nanos = Nanos::from_secs(SECONDS + 1);

/// A storm of 800 connections, whose clients were back within six seconds, of the ten that it was watched for.
fn storm(verdict: Verdict) -> TrialRecord {
    let mut storm = StormCounts { cut: 800, back: 800, attempts: 800, ..StormCounts::default() };
    storm.recovery.record(Nanos::from_secs(SECONDS));
    let mut tally = Tally { storm, ..Tally::default() };
    tally.handshakes.full = 800;
    let measurement = TrialMeasurement {
        request: TrialRequest {
            number: 1,
            rate: Rate::per_second(800.0).expect("a number"),
            phase: Phase::Expand,
            duration: Nanos::ZERO,
            split: 1,
        },
        window: Nanos::from_secs(10),
        tally,
        observations: Observations { began: Some(CUT_AT), ..Observations::default() },
        aborted: false,
        sut_busiest_thread: None,
        split: 1,
        seconds: Vec::new(),
    };
    let judgement = Judgement { verdict, ..Judgement::of(Vec::new(), 0.0) };
    TrialRecord { measurement, judgement, further: Vec::new() }
}

/// The causes of a storm on `world`, which does nothing before it and is at its tipping point until all are back.
fn found(world: &World, verdict: Verdict) -> Option<Vec<Finding>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut readings: Vec<Reading> = world.readings(0.0, false, &mut random);
    let mut later = |load: f64, is_above: bool, from: Nanos| {
        let mut all = world.readings(load, is_above, &mut random);
        for reading in &mut all {
            (reading.begin, reading.end) = (reading.begin + from, reading.end + from);
        }
        all
    };
    readings.extend(later(TIP, true, CUT_AT));
    // The sweep behind it.
    readings.extend(later(0.0, false, CUT_AT + Nanos::from_secs(SECONDS + 1)));
    of_storms(&[storm(verdict)], &BTreeMap::from([("lab".to_owned(), readings)]))
}

fn first(world: &World) -> Finding {
    found(world, Verdict::Bad).expect("it was read").swap_remove(0)
}

/// The server's only thread is full.
fn busy() -> World {
    World::default()
        .thread("haproxy", "server", "haproxy/0", 0.01, TIP)
        .thread("agent", "client", "client/0", 0.01, 3.0 * TIP)
        .cpu("0", TIP)
        .cpu("1", 3.0 * TIP)
}

#[test]
fn a_storm_waits_for_the_handshakes_of_a_busy_server() {
    let found = first(&busy());
    assert_eq!((found.cause, found.grade), (Cause::TlsHandshakes, Grade::Correlated), "{found:#?}");
    assert_eq!(found.missing, Some(Missing::Storm));
}

#[test]
fn a_storm_waits_for_a_limit_on_new_connections() {
    let limited = free().limit_that("maxconnrate of HAProxy", Moves::GaugeAbove(400.0), 400.0);
    assert_eq!(first(&limited).cause, Cause::RateLimit);
    // One that is full without a storm is not filled by one.
    let full = free().limit_that("maxconnrate of HAProxy", Moves::Fixed(400.0), 400.0);
    assert_eq!(first(&full).cause, Cause::Unknown);
}

#[test]
fn an_accept_queue_overflows_because_of_who_is_to_empty_it() {
    let dropping = |world: World| world.with(Metric::TcpListenOverflows, &[], Moves::Above(50.0));
    assert_eq!(first(&dropping(busy())).cause, Cause::TlsHandshakes);
    assert_eq!(first(&dropping(free())).cause, Cause::AcceptQueue);
}

#[test]
fn storms_that_were_survived_have_no_cause() {
    assert_eq!(found(&free(), Verdict::Good), Some(Vec::new()));
    assert_eq!(of_storms(&[storm(Verdict::Bad)], &BTreeMap::new()), None);
}
