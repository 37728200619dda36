//! A limit on operations at once, as trials of a search show it, and what is not one.

use plimsoll_model::cause::{Cause, Finding, Grade, Missing};
use plimsoll_model::host::{Label, Metric};

use super::{LOADS, Moves, SEARCH, Search, TIP, World, diagnosed_by, free};

/// The time in service at a share of the tipping point.
type ServiceAt = fn(f64) -> f64;

/// The search of a server that tips at `at`, which takes `service_at` for each operation.
fn found(world: World, at: f64, service_at: ServiceAt) -> Finding {
    found_at(world, at, service_at, &LOADS)
}

fn found_at(world: World, at: f64, service_at: fn(f64) -> f64, loads: &[(f64, bool)]) -> Finding {
    let world = World { service_at: Some(service_at), ..world };
    diagnosed_by(Search { at, ..SEARCH }, &world, 1, loads).expect("a trial below").swap_remove(0)
}

fn events() -> World {
    free().workers("python3", "server", 1, 1.2)
}

/// Another program keeps a CPU busy at every load.
fn beside_others() -> World {
    let of = |mode| [(Label::Cpu, "2"), (Label::Mode, mode)];
    events().with(Metric::CpuSeconds, &of("user"), Moves::Rate(0.98, 0.0, 1.0)).with(
        Metric::CpuSeconds,
        &of("idle"),
        Moves::Rate(0.02, 0.0, 1.0),
    )
}

/// 8 at a time for 25 ms, evenly paced: there is a queue near the capacity, which the goal leaves room for.
fn eight_at_once(load: f64) -> f64 {
    match load {
        load if load <= 0.86 => 0.0252,
        load if load <= 0.92 => 0.029,
        load if load < 1.0 => 0.065,
        _ => 0.4,
    }
}

#[test]
fn a_queue_near_the_capacity_hides_no_limit_on_operations_at_once() {
    let found = found(events(), 317.0, eight_at_once);
    assert_eq!((found.cause, found.grade), (Cause::ConcurrencyLimit, Grade::Predicted));
    assert_eq!(found.resource.name, "operations at once, about 8");
    assert_eq!(found.evidence[0].limit, Some(8.0));
    let projected = found.predicted_at.expect("predicted");
    assert!((projected.at - 8.0 / 0.0252).abs() < 0.1, "{projected:?}");
}

#[test]
fn other_programs_that_keep_a_cpu_busy_at_every_load_hide_no_limit() {
    let found = found(beside_others(), 317.0, eight_at_once);
    assert_eq!((found.cause, found.grade), (Cause::ConcurrencyLimit, Grade::Predicted));
}

#[test]
fn a_pool_of_a_runtime_that_has_few_threads_is_named_with_its_number() {
    let found = found(events(), 2_500.0, |load| if load < 0.95 { 0.0092 } else { 0.0131 });
    assert_eq!((found.cause, found.grade), (Cause::ConcurrencyLimit, Grade::Predicted));
    assert_eq!(found.resource.name, "operations at once, about 23");
}

#[test]
fn the_middle_of_a_wide_interval_is_next_to_the_number() {
    let named = |at, world: &World| {
        let search = Search { at, off: 0.08, ..SEARCH };
        diagnosed_by(search, world, 1, &LOADS).expect("a trial below").swap_remove(0)
    };
    let pool =
        World { service_at: Some(|load| if load < 0.95 { 0.0092 } else { 0.0131 }), ..events() };
    assert_eq!(named(2_467.0, &pool).resource.name, "operations at once, about 23");
    // 7.5 at once, by a limited rate: an interval of 16 % holds 7 and 8.
    let bucket = World { service_at: Some(|_| 0.025), ..events() };
    assert_eq!(named(300.0, &bucket).cause, Cause::Unknown);
}

#[test]
fn without_a_trial_that_a_shared_cpu_would_slow_down_no_limit_is_named() {
    let loads = [(0.1, true), (0.2, true), (0.96, true), (1.02, false), (1.2, false)];
    let found = found_at(events(), 317.0, eight_at_once, &loads);
    assert_eq!(found.cause, Cause::Unknown);
    let loads = [(0.1, true), (0.5, true), (0.96, true), (1.02, false), (1.2, false)];
    let found = found_at(events(), 317.0, eight_at_once, &loads);
    assert_eq!(found.cause, Cause::ConcurrencyLimit);
}

#[test]
fn what_is_no_limit_on_operations_at_once_is_not_named_so() {
    // CPUs elsewhere, which are not read: operations share them, and take longer from low loads on.
    let shared = |load: f64| 0.025 / (1.0 - load.min(0.97));
    // A limited rate before a server that answers at once, and before one that sleeps without a limit: the product with
    // its time is no whole number.
    let at_once = |_: f64| 0.0004;
    let slow = |load: f64| if load < 1.0 { 0.025 } else { 0.4 };
    let cases: [(f64, ServiceAt); 4] =
        [(320.0, shared), (300.0, at_once), (300.0, slow), (340.0, slow)];
    for (at, service_at) in cases {
        assert_eq!(found(events(), at, service_at).cause, Cause::Unknown, "{at}");
    }
}

#[test]
fn a_server_whose_cpu_is_full_is_not_limited_by_operations_at_once() {
    let busy = free().thread("python3", "server", "python3/0", 0.01, 317.0);
    let found = found(busy, 317.0, eight_at_once);
    assert_eq!((found.cause, found.grade), (Cause::ServerCpu, Grade::Predicted));
    // A server that sleeps without limit, beside others that fill the CPUs.
    let crowded = events().cpu("2", 317.0);
    let named = self::found(crowded, 317.0, eight_at_once);
    assert_eq!(named.cause, Cause::NoisyNeighbour);
}

#[test]
fn what_a_backend_lacks_to_be_predicted_is_stated_or_read_from_its_time() {
    let behind = || events().slow_backend(0.0);
    // 10 workers of 30 ms behind HAProxy, and a limited rate of 300/s there.
    let workers = found(behind(), 333.0, |load| if load < 0.95 { 0.0302 } else { 0.06 });
    assert_eq!((workers.cause, workers.grade), (Cause::BackendCapacity, Grade::Predicted));
    assert_eq!(workers.resource.name, "requests with the backends, about 10 at once");
    assert_eq!((workers.missing, workers.evidence.len()), (None, 2));
    let bucket = found(behind(), 300.0, |_| 0.0004);
    assert_eq!((bucket.cause, bucket.grade), (Cause::BackendCapacity, Grade::Correlated));
    assert_eq!(bucket.missing, Some(Missing::BackendLimit));
}

#[test]
fn a_limit_that_is_only_correlated_says_what_it_lacks() {
    let lacks = |world: World, loads| {
        let found = diagnosed_by(SEARCH, &world, 1, loads).expect("a trial below").swap_remove(0);
        assert_eq!(found.grade, Grade::Correlated, "{found:?}");
        found.missing
    };
    let maxconn = free().limit("maxconn of frontend f", TIP, 500.0);
    assert_eq!(lacks(maxconn, &LOADS[..6]), Some(Missing::FullAbove));
    // Sessions of clients that keep their connections: no line over the load.
    let kept = free().limit_that("maxconn of frontend f", Moves::Rise(300.0, 500.0), 500.0);
    assert_eq!(lacks(kept, &LOADS), Some(Missing::Line));
    let overflows = free().with(Metric::TcpListenOverflows, &[], Moves::Above(80.0));
    assert_eq!(lacks(overflows, &LOADS), Some(Missing::Use));
}
