//! Every check on what was seen beside the tally: just inside its limit and just beyond it, in a
//! trial that met its goals and in one that missed one.

use plimsoll_model::trial::Phase;
use plimsoll_model::trial::TrialMeasurement;
use plimsoll_model::trial::TrialRequest;
use plimsoll_model::trial::Verdict;
use plimsoll_model::witness::ArrivalSpread;
use plimsoll_model::witness::HalfWindow;
use plimsoll_model::witness::MemoryUse;
use plimsoll_model::witness::NetworkUse;
use plimsoll_model::witness::PeerCounts;
use plimsoll_model::witness::Scheduling;

use super::*;
use crate::verdict::judge;

const OPS: u64 = 10_000;

fn per_s(rate: f64) -> Rate {
    Rate::per_second(rate).expect("finite")
}

/// 10,000 operations in 5 s, `late` of them after 100 ms and the others after 1 ms.
fn measurement(late: u64, witnesses: Witnesses) -> TrialMeasurement {
    let mut tally = Tally { scheduled: OPS, ok: OPS, late, ..Tally::default() };
    for (ms, ops) in [(1, OPS - late), (100, late)] {
        tally.spans.corrected.record_n(Nanos::from_millis(ms), ops);
        tally.spans.uncorrected.record_n(Nanos::from_millis(ms), ops);
    }
    tally.spans.send_lag.record_n(Nanos(20_000), OPS);
    tally.outstanding = vec![2; 50];
    TrialMeasurement {
        request: TrialRequest {
            number: 1,
            phase: Phase::Narrow,
            rate: per_s(2_000.0),
            duration: Nanos::from_secs(5),
            split: 1,
        },
        window: Nanos::from_secs(5),
        aborted: false,
        tally,
        sut_busiest_thread: None,
        split: 1,
        witnesses,
    }
}

/// The level of one check, and the verdict.
fn judged(name: &str, late: u64, witnesses: Witnesses) -> (Level, Verdict) {
    let judgement = judge(&measurement(late, witnesses), &Slo::default(), &Context::default());
    let check = judgement.reasons.iter().find(|check| check.check == name);
    let check = check.unwrap_or_else(|| panic!("{name} was not checked"));
    assert!(!check.value.is_empty() && !check.limit.is_empty());
    (check.level, judgement.verdict)
}

/// Passes, warns and fails: what makes latency worse fails only where a goal was missed.
fn spoils_bad_trials_only(name: &str, pass: Witnesses, warn: Witnesses, fail: Witnesses) {
    assert_eq!(judged(name, 0, pass), (Level::Pass, Verdict::Good));
    assert_eq!(judged(name, 0, warn), (Level::Warn, Verdict::Good));
    assert_eq!(judged(name, 0, fail), (Level::Warn, Verdict::Good), "a GOOD trial stays GOOD");
    assert_eq!(judged(name, 500, pass), (Level::Pass, Verdict::Bad));
    assert_eq!(judged(name, 500, warn), (Level::Warn, Verdict::Bad));
    assert_eq!(judged(name, 500, fail), (Level::Fail, Verdict::Invalid));
}

fn none() -> Witnesses {
    Witnesses::default()
}

#[test]
fn what_nobody_saw_is_not_checked() {
    let judgement = judge(&measurement(0, none()), &Slo::default(), &Context::default());
    let names: Vec<_> = judgement.reasons.iter().map(|check| check.check.as_str()).collect();
    for name in ["arrivals", "peer-counters", "host-cpu", "scheduling", "generator-network"] {
        assert!(!names.contains(&name), "{name}");
    }
    assert!(names.contains(&"littles-law"), "{names:?}");
}

#[test]
fn another_arrival_process_is_another_load() {
    let arrivals = |gap_distance, dispersion_10ms, dispersion_100ms| Witnesses {
        arrivals: Some(ArrivalSpread { gap_distance, dispersion_10ms, dispersion_100ms }),
        ..none()
    };
    assert_eq!(judged("arrivals", 0, arrivals(0.02, 1.0, 1.2)), (Level::Pass, Verdict::Good));
    for other in [arrivals(0.04, 1.0, 1.0), arrivals(0.0, 0.7, 1.0), arrivals(0.0, 1.0, 1.3)] {
        assert_eq!(judged("arrivals", 0, other), (Level::Fail, Verdict::Invalid));
    }
}

#[test]
fn the_servers_count_has_to_agree() {
    let peer = |received| Witnesses { peer: Some(PeerCounts { sent: OPS, received }), ..none() };
    assert_eq!(judged("peer-counters", 0, peer(OPS - 10)).0, Level::Pass);
    assert_eq!(judged("peer-counters", 0, peer(OPS + 20)).0, Level::Warn);
    assert_eq!(judged("peer-counters", 0, peer(OPS + 101)), (Level::Fail, Verdict::Invalid));
    assert_eq!(judged("peer-counters", 0, peer(0)), (Level::Fail, Verdict::Invalid));
}

#[test]
fn a_busy_host_or_a_thread_that_waits_spoils_bad_trials() {
    let cpu = |host_cpu| Witnesses { host_cpu: Some(host_cpu), ..none() };
    spoils_bad_trials_only("host-cpu", cpu(0.8), cpu(0.9), cpu(0.96));
    let delay = |run_delay| Witnesses {
        scheduling: Some(Scheduling { run_delay: Some(run_delay), ..Scheduling::default() }),
        ..none()
    };
    spoils_bad_trials_only("scheduling", delay(0.009), delay(0.015), delay(0.021));
    let steal = |steal| Witnesses {
        scheduling: Some(Scheduling { steal: Some(steal), ..Scheduling::default() }),
        ..none()
    };
    spoils_bad_trials_only("scheduling", steal(0.0), steal(0.02), steal(0.03));
    let throttled = Witnesses {
        scheduling: Some(Scheduling { throttled_periods: Some(1), ..Scheduling::default() }),
        ..none()
    };
    assert_eq!(judged("scheduling", 500, throttled), (Level::Fail, Verdict::Invalid));
}

#[test]
fn network_memory_and_reference_spoil_bad_trials() {
    let network = |drops, retransmits, link| Witnesses {
        network: Some(NetworkUse { drops, retransmits, link: Some(link) }),
        ..none()
    };
    let fine = network(0, 0.0005, 0.5);
    spoils_bad_trials_only("generator-network", fine, network(0, 0.002, 0.5), network(1, 0.0, 0.5));
    spoils_bad_trials_only(
        "generator-network",
        fine,
        network(0, 0.002, 0.9),
        network(0, 0.0, 0.91),
    );
    let memory =
        |resident, stalled| Witnesses { memory: Some(MemoryUse { resident, stalled }), ..none() };
    spoils_bad_trials_only(
        "generator-memory",
        memory(0.7, 0.0),
        memory(0.8, 0.0),
        memory(0.91, 0.0),
    );
    spoils_bad_trials_only(
        "generator-memory",
        memory(0.1, 0.0),
        memory(0.8, 0.0),
        memory(0.1, 0.01),
    );
    let reference = |rate| Witnesses { reference: Some(per_s(rate)), ..none() };
    spoils_bad_trials_only("reference", reference(4_100.0), reference(3_000.0), reference(2_400.0));
}

#[test]
fn what_is_not_the_generators_doing_only_warns() {
    let half = |ms, rate| HalfWindow { p50: Nanos::from_millis(ms), completed: per_s(rate) };
    let halves = |second| Witnesses { halves: Some([half(10, 2_000.0), second]), ..none() };
    assert_eq!(judged("stationarity", 500, halves(half(10, 2_100.0))).0, Level::Pass);
    assert_eq!(judged("stationarity", 500, halves(half(20, 2_000.0))), (Level::Warn, Verdict::Bad));
    assert_eq!(judged("stationarity", 500, halves(half(10, 1_000.0))), (Level::Warn, Verdict::Bad));
    let gap = |ms| Witnesses { monitor_gap: Some(Nanos::from_millis(ms)), ..none() };
    assert_eq!(judged("monitor", 500, gap(2_000)).0, Level::Pass);
    assert_eq!(judged("monitor", 500, gap(2_001)), (Level::Warn, Verdict::Bad));
    let shared = Witnesses { shared_cpus: Some(0.5), ..none() };
    assert_eq!(judged("co-location", 500, shared), (Level::Warn, Verdict::Bad));
}

#[test]
fn gauge_and_histogram_have_to_agree() {
    let little = |in_flight: u32| {
        let mut measurement = measurement(0, none());
        // 10,000 operations of 20 ms in 5 s: 40 in flight.
        let spans = &mut measurement.tally.spans;
        spans.corrected.clear();
        spans.corrected.record_n(Nanos::from_millis(20), OPS);
        measurement.tally.outstanding = vec![in_flight; 50];
        let judgement = judge(&measurement, &Slo::default(), &Context::default());
        let check = judgement.reasons.iter().find(|check| check.check == "littles-law");
        (check.expect("checked").level, judgement.verdict)
    };
    assert_eq!(little(41), (Level::Pass, Verdict::Good));
    assert_eq!(little(46), (Level::Warn, Verdict::Good));
    assert_eq!(little(60), (Level::Fail, Verdict::Invalid));
    assert_eq!(little(0), (Level::Fail, Verdict::Invalid));
}
