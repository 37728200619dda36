//! Every check on the observations beside the tally: just inside its limit and just beyond it, in a trial that met its
//! goals and in one that missed one.

use plimsoll_model::observation::{
    ArrivalSpread, HalfWindow, MemoryUse, NetworkUse, Observations, PeerCounts, Scheduling,
};
use plimsoll_model::slo::Slo;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{CheckId, Level, Phase, TrialMeasurement, TrialRequest, Verdict};
use plimsoll_model::{ErrorClass, Nanos, Rate};

use crate::losses::{Context, Unloaded};
use crate::verdict::judge;

const OPS: u64 = 10_000;

fn per_s(rate: f64) -> Rate {
    Rate::per_second(rate).expect("finite")
}

/// 10,000 operations in 5 s, `late` of them after 100 ms and the others after 1 ms.
fn measurement(late: u64, observations: Observations) -> TrialMeasurement {
    let mut tally = Tally { scheduled: OPS, ok: OPS, late, ..Tally::default() };
    for (ms, ops) in [(1, OPS - late), (100, late)] {
        tally.spans.corrected.record_n(Nanos::from_millis(ms), ops);
        tally.spans.uncorrected.record_n(Nanos::from_millis(ms), ops);
    }
    tally.spans.send_lag.record_n(Nanos(20_000), OPS);
    tally.outstanding = vec![2; 50];
    TrialMeasurement {
        seconds: Vec::new(),
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
        observations,
    }
}

/// The level of one check, and the verdict.
fn judged(name: &str, late: u64, observations: Observations) -> (Level, Verdict) {
    let judgement = judge(&measurement(late, observations), &Slo::default(), &Context::default());
    let check = judgement.reasons.iter().find(|check| check.id.name() == name);
    let check = check.unwrap_or_else(|| panic!("{name} was not checked"));
    assert!(check.deciding().is_some(), "{name} has no figure");
    (check.level, judgement.verdict)
}

/// Passes, warns and fails: what makes latency worse fails only if a goal was missed.
fn spoils_bad_trials_only(name: &str, pass: Observations, warn: Observations, fail: Observations) {
    assert_eq!(judged(name, 0, pass), (Level::Pass, Verdict::Good));
    assert_eq!(judged(name, 0, warn), (Level::Warn, Verdict::Good));
    assert_eq!(judged(name, 0, fail), (Level::Warn, Verdict::Good), "a GOOD trial stays GOOD");
    assert_eq!(judged(name, 500, pass), (Level::Pass, Verdict::Bad));
    assert_eq!(judged(name, 500, warn), (Level::Warn, Verdict::Bad));
    assert_eq!(judged(name, 500, fail), (Level::Fail, Verdict::Invalid));
}

fn none() -> Observations {
    Observations::default()
}

#[test]
fn what_nobody_saw_is_not_checked() {
    let judgement = judge(&measurement(0, none()), &Slo::default(), &Context::default());
    let names: Vec<_> = judgement.reasons.iter().map(|check| check.id.name()).collect();
    for name in ["arrivals", "peer-counters", "host-cpu", "scheduling", "generator-network"] {
        assert!(!names.iter().any(|made| made == name), "{name}");
    }
    assert!(names.iter().any(|made| made == "littles-law"), "{names:?}");
}

#[test]
fn another_arrival_process_is_another_load() {
    let arrivals = |gap_distance, narrow: (f64, f64), wide: (f64, f64)| Observations {
        arrivals: Some(ArrivalSpread {
            gap_distance,
            dispersion_10ms: narrow.0,
            displaced_10ms: narrow.1,
            dispersion_100ms: wide.0,
            displaced_100ms: wide.1,
        }),
        ..none()
    };
    let (fine, even) = ((1.0, 0.0), (1.2, 0.5));
    for as_asked in [
        arrivals(0.01, fine, fine),
        // Late, but as even as it should be.
        arrivals(0.0, even, even),
        // Uneven, but hardly anything was started at another time.
        arrivals(0.0, (90.0, 0.01), (90.0, 0.01)),
    ] {
        assert_eq!(judged("arrivals", 0, as_asked), (Level::Pass, Verdict::Good));
    }
    spoils_bad_trials_only(
        "arrivals",
        arrivals(0.01, fine, fine),
        arrivals(0.0, fine, (9.0, 0.03)),
        arrivals(0.0, fine, (9.0, 0.06)),
    );
    for other in [
        arrivals(0.04, fine, fine),
        arrivals(0.0, (0.7, 0.3), fine),
        arrivals(0.0, (1.3, 0.3), fine),
        arrivals(0.0, fine, (1.3, 0.06)),
    ] {
        assert_eq!(judged("arrivals", 500, other), (Level::Fail, Verdict::Invalid));
    }
    // It misses its goal for another reason: no one was so late that all of these are.
    let missed = judged("arrivals", 9_000, arrivals(0.04, fine, fine));
    assert_eq!(missed, (Level::Warn, Verdict::Bad));
}

#[test]
fn the_servers_count_has_to_agree() {
    let counts = |sent, answered, received| Observations {
        peer: Some(PeerCounts { sent, answered, received }),
        ..none()
    };
    let peer = |received| counts(OPS, OPS, received);
    assert_eq!(judged("peer-counters", 0, peer(OPS - 10)).0, Level::Pass);
    // Five health checks a second.
    assert_eq!(judged("peer-counters", 0, peer(OPS + 25)).0, Level::Pass);
    assert_eq!(judged("peer-counters", 0, peer(OPS + 45)).0, Level::Warn);
    assert_eq!(judged("peer-counters", 0, peer(OPS + 127)), (Level::Fail, Verdict::Invalid));
    assert_eq!(judged("peer-counters", 0, peer(0)), (Level::Fail, Verdict::Invalid));
    // What was sent to a full server and not answered may never have been read by it.
    let queued = |received| counts(OPS, 4_000, received);
    for received in [4_000, 7_000, OPS] {
        assert_eq!(judged("peer-counters", 0, queued(received)).0, Level::Pass);
    }
    assert_eq!(judged("peer-counters", 0, queued(3_000)), (Level::Fail, Verdict::Invalid));
}

#[test]
fn a_busy_host_or_a_thread_that_waits_spoils_bad_trials() {
    let cpu = |host_cpu| Observations { host_cpu: Some(host_cpu), ..none() };
    spoils_bad_trials_only("host-cpu", cpu(0.8), cpu(0.9), cpu(0.96));
    let delay = |run_delay| Observations {
        scheduling: Some(Scheduling { run_delay: Some(run_delay), ..Scheduling::default() }),
        ..none()
    };
    spoils_bad_trials_only("scheduling", delay(0.009), delay(0.015), delay(0.021));
    let steal = |steal| Observations {
        scheduling: Some(Scheduling { steal: Some(steal), ..Scheduling::default() }),
        ..none()
    };
    spoils_bad_trials_only("scheduling", steal(0.02), steal(0.05), steal(0.11));
}

#[test]
fn throttling_spoils_what_it_can_explain() {
    let throttled = |periods| Observations {
        scheduling: Some(Scheduling { throttled_periods: Some(periods), ..Scheduling::default() }),
        ..none()
    };
    // One period of 100 ms in 5 s is usual under a quota.
    assert_eq!(judged("scheduling", 500, throttled(1)), (Level::Warn, Verdict::Bad));
    assert_eq!(judged("scheduling", 500, throttled(5)), (Level::Fail, Verdict::Invalid));
    // Nearly all operations are late: that were not five periods.
    assert_eq!(judged("scheduling", 9_000, throttled(5)), (Level::Warn, Verdict::Bad));
    assert_eq!(judged("scheduling", 0, throttled(5)), (Level::Warn, Verdict::Good));
}

#[test]
fn operations_that_hang_until_the_end_agree_with_littles_law() {
    let trial = measurement(0, none());
    // 30 by rate and latency, and up to 20 more that hang.
    let level = |seen: u32, hang: u64| {
        let mut trial = trial.clone();
        trial.tally.ok -= hang;
        trial.tally.failures.operations.add(ErrorClass::Timeout, hang);
        trial.tally.spans.corrected.clear();
        trial.tally.spans.corrected.record_n(Nanos::from_millis(15), OPS - hang);
        trial.tally.outstanding = vec![seen; 50];
        let judgement = judge(&trial, &"p99<50ms".parse().expect("goals"), &Context::default());
        let mut checks = judgement.reasons.iter();
        checks.find(|check| check.id == CheckId::LittlesLaw).map(|check| check.level)
    };
    assert_eq!(level(30, 4), Some(Level::Pass));
    assert_eq!(level(49, 40), Some(Level::Pass));
    assert_eq!(level(49, 4), Some(Level::Fail));
    assert_eq!(level(90, 40), Some(Level::Fail));
}

#[test]
fn short_waits_for_a_shared_cpu_do_no_harm() {
    let waits = |share, us: u64| Observations {
        scheduling: Some(Scheduling {
            run_delay: Some(share),
            wait_mean: Some(Nanos(us * 1_000)),
            ..Scheduling::default()
        }),
        ..none()
    };
    // The deadline is 50 ms.
    spoils_bad_trials_only("scheduling", waits(0.15, 200), waits(0.15, 400), waits(0.15, 600));
    // Starved in short turns.
    spoils_bad_trials_only("scheduling", waits(0.19, 10), waits(0.3, 10), waits(0.34, 10));
    assert_eq!(judged("scheduling", 500, waits(0.005, 5_000)), (Level::Pass, Verdict::Bad));
}

#[test]
fn a_server_on_the_same_host_may_fill_it() {
    let full = Observations { host_cpu: Some(1.0), shared_cpus: Some(0.0), ..none() };
    assert_eq!(judged("host-cpu", 500, full), (Level::Pass, Verdict::Bad));
}

#[test]
fn no_server_fails_requests_because_the_client_is_busy() {
    let busy = Observations { host_cpu: Some(0.99), ..none() };
    let mut measurement = measurement(500, busy);
    measurement.tally.ok -= 100;
    measurement.tally.failures.operations.add(ErrorClass::ConnectRefused, 100);
    measurement.tally.spans.corrected.clear();
    measurement.tally.spans.corrected.record_n(Nanos::from_millis(1), OPS - 100);
    let judgement = judge(&measurement, &Slo::default(), &Context::default());
    assert_eq!(judgement.verdict, Verdict::Bad);
}

#[test]
fn a_load_without_goals_has_only_its_figures() {
    let measurement = measurement(0, Observations { host_cpu: Some(0.96), ..none() });
    let judged = |slo: Option<&Slo>, open| {
        let (tally, seen) = (&measurement.tally, &measurement.observations);
        crate::judge_load(tally, measurement.window, slo, open, seen).verdict
    };
    assert_eq!(judged(None, true), Verdict::Invalid);
    assert_eq!(judged(None, false), Verdict::Good);
    assert_eq!(judged(Some(&Slo::default()), true), Verdict::Good);
}

#[test]
fn network_memory_and_reference_spoil_bad_trials() {
    let network = |drops, retransmits, link| Observations {
        network: Some(NetworkUse { drops, retransmits, sent_again: 0, link: Some(link) }),
        ..none()
    };
    let fine = network(0, 0.0005, 0.5);
    // Dropped by an interface that counts packets that no socket here listens to.
    assert_eq!(judged("generator-network", 500, network(7, 0.0, 0.5)).0, Level::Pass);
    spoils_bad_trials_only(
        "generator-network",
        fine,
        network(0, 0.002, 0.5),
        network(1, 0.002, 0.5),
    );
    // Another program's packets are dropped here, and ours are lost on the path: 500 for each drop.
    let lost_further_on = NetworkUse { drops: 1, retransmits: 0.02, sent_again: 500, link: None };
    let decoy = Observations { network: Some(lost_further_on), ..none() };
    assert_eq!(judged("generator-network", 500, decoy), (Level::Warn, Verdict::Bad));
    spoils_bad_trials_only(
        "generator-network",
        fine,
        network(0, 0.002, 0.9),
        network(0, 0.0, 0.91),
    );
    // Segments of ours that found no room in a full accept queue on this host: no interface dropped them.
    let refused = NetworkUse { drops: 0, retransmits: 0.3, sent_again: 3_000, link: None };
    let decoy = Observations { network: Some(refused), ..none() };
    assert_eq!(judged("generator-network", 500, decoy), (Level::Warn, Verdict::Bad));
    let memory = |resident, stalled| Observations {
        memory: Some(MemoryUse { resident, stalled }),
        ..none()
    };
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
    let reference = |rate| Observations { reference: Some(per_s(rate)), ..none() };
    spoils_bad_trials_only("reference", reference(4_100.0), reference(3_000.0), reference(2_400.0));
}

/// 10,000 operations, of which some took so long, on a path that loses segments at low loads.
fn on_a_path(slow: &[(u64, u64)], sent_again: u64, unloaded: f64) -> (Level, Verdict) {
    let observations = Observations {
        network: Some(NetworkUse { sent_again, ..NetworkUse::default() }),
        loss_unloaded: Some(unloaded),
        ..none()
    };
    let mut measurement = measurement(0, observations);
    let late = slow.iter().map(|(_, ops)| ops).sum();
    measurement.tally.late = late;
    for spans in [&mut measurement.tally.spans.corrected, &mut measurement.tally.spans.uncorrected]
    {
        spans.clear();
        spans.record_n(Nanos::from_millis(1), OPS - late);
        slow.iter().for_each(|(ms, ops)| spans.record_n(Nanos::from_millis(*ms), *ops));
    }
    let judgement = judge(&measurement, &Slo::default(), &Context::default());
    let check = judgement.reasons.iter().find(|check| check.id == CheckId::PathLoss);
    (check.expect("checked").level, judgement.verdict)
}

#[test]
fn two_percent_of_loss_are_not_the_servers() {
    let lost = [(202, 330), (206, 40), (405, 8), (610, 4)];
    assert_eq!(on_a_path(&lost, 400, 0.04), (Level::Fail, Verdict::Invalid));
    // Retransmissions of the far end are not visible.
    assert_eq!(on_a_path(&lost, 200, 0.02), (Level::Fail, Verdict::Invalid));
    // A server that pauses for 200 ms. Another program's segments are sent again all the time, and none of ours.
    assert_eq!(on_a_path(&lost, 0, 0.0), (Level::Pass, Verdict::Bad));
    // Nothing was lost at low loads: an overload drops segments, too.
    assert_eq!(on_a_path(&lost, 400, 0.0), (Level::Pass, Verdict::Bad));
    // Far more are late than are lost at low loads.
    assert_eq!(on_a_path(&[(202, 3_300)], 3_300, 0.02), (Level::Warn, Verdict::Bad));
    // The server is slow besides.
    assert_eq!(on_a_path(&[(90, 300), (202, 330)], 400, 0.04), (Level::Warn, Verdict::Bad));
    assert_eq!(on_a_path(&[(300, 380)], 400, 0.04), (Level::Pass, Verdict::Bad));
    // Few are late, and the SLO is met.
    assert_eq!(on_a_path(&[(202, 90)], 100, 0.01), (Level::Warn, Verdict::Good));
}

#[test]
fn what_is_not_the_generators_doing_only_warns() {
    let half = |ms, rate| HalfWindow { p50: Nanos::from_millis(ms), completed: per_s(rate) };
    let halves = |second| Observations { halves: Some([half(10, 2_000.0), second]), ..none() };
    assert_eq!(judged("stationarity", 500, halves(half(10, 2_100.0))).0, Level::Pass);
    assert_eq!(judged("stationarity", 500, halves(half(20, 2_000.0))), (Level::Warn, Verdict::Bad));
    assert_eq!(judged("stationarity", 500, halves(half(10, 1_000.0))), (Level::Warn, Verdict::Bad));
    // Few operations differ at random, and medians by less than a millisecond mean nothing.
    let few = |us: u64, rate| HalfWindow { p50: Nanos(us * 1_000), completed: per_s(rate) };
    let halves = Observations { halves: Some([few(100, 20.0), few(900, 23.0)]), ..none() };
    assert_eq!(judged("stationarity", 500, halves).0, Level::Pass);
    let gap = |ms| Observations { monitor_gap: Some(Nanos::from_millis(ms)), ..none() };
    assert_eq!(judged("monitor", 500, gap(2_000)).0, Level::Pass);
    assert_eq!(judged("monitor", 500, gap(2_001)), (Level::Warn, Verdict::Bad));
    let shared = Observations { shared_cpus: Some(0.5), ..none() };
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
        let check = judgement.reasons.iter().find(|check| check.id == CheckId::LittlesLaw);
        (check.expect("checked").level, judgement.verdict)
    };
    assert_eq!(little(41), (Level::Pass, Verdict::Good));
    assert_eq!(little(46), (Level::Warn, Verdict::Good));
    assert_eq!(little(60), (Level::Fail, Verdict::Invalid));
    assert_eq!(little(0), (Level::Fail, Verdict::Invalid));
}

// ---- our own delay, where the kernel stamped arrivals

/// Like [`measurement`], with every `every`th operation stamped: `without` of all are late without our delay, too.
fn stamped(late: u64, without: u64, every: u64, observations: Observations) -> TrialMeasurement {
    let mut measurement = measurement(late, observations);
    let spans = &mut measurement.tally.spans;
    let (ops, late, without) = (OPS / every, late / every, without / every);
    let without = [(&mut spans.undelayed, without), (&mut spans.undelayed_min, without)];
    for (hist, late) in without.into_iter().chain([(&mut spans.stamped, late)]) {
        hist.record_n(Nanos::from_millis(1), ops - late);
        hist.record_n(Nanos::from_millis(100), late);
    }
    spans.wire.record_n(Nanos::from_millis(1), ops);
    spans.receive_lag.record_n(Nanos(30_000), ops);
    measurement
}

/// A generator in every kind of trouble.
fn starved() -> Observations {
    let scheduling = Scheduling {
        run_delay: Some(0.6),
        wait_mean: Some(Nanos::from_millis(20)),
        steal: Some(0.4),
        throttled_periods: Some(30),
    };
    let arrivals = ArrivalSpread {
        gap_distance: 0.4,
        dispersion_10ms: 50.0,
        displaced_10ms: 0.5,
        dispersion_100ms: 50.0,
        displaced_100ms: 0.5,
    };
    Observations {
        scheduling: Some(scheduling),
        arrivals: Some(arrivals),
        host_cpu: Some(1.0),
        memory: Some(MemoryUse { resident: 0.99, stalled: 0.1 }),
        ..none()
    }
}

fn in_trouble(mut measurement: TrialMeasurement) -> TrialMeasurement {
    measurement.tally.generator.busiest_thread = 1.0;
    measurement.tally.spans.send_lag.record_n(Nanos::from_millis(8), OPS / 10);
    measurement
}

/// The verdict, and the checks that made it.
fn decided(measurement: &TrialMeasurement) -> (Verdict, String) {
    let judgement = judge(measurement, &Slo::default(), &Context::default());
    (judgement.verdict, judgement.why())
}

#[test]
fn a_trial_is_judged_by_what_our_delay_did_to_its_operations() {
    let judged = |late, without, every| {
        let calm = decided(&stamped(late, without, every, none()));
        let trouble = decided(&in_trouble(stamped(late, without, every, starved())));
        assert_eq!(calm, trouble, "{late} late, {without} of them without us, 1 of {every}");
        calm
    };
    let (good, bad) = ((Verdict::Good, String::new()), (Verdict::Bad, "p99<50ms".to_owned()));
    let invalid = (Verdict::Invalid, "own-delay".to_owned());
    for every in [1, 10] {
        assert_eq!(judged(0, 0, every), good);
        assert_eq!(judged(100, 0, every), good);
        assert_eq!(judged(500, 500, every), bad);
        // Late because of us, and enough of them because of the server.
        assert_eq!(judged(2_000, 1_000, every), bad);
        assert_eq!(judged(2_000, 0, every), invalid);
    }
    // All were stamped: there is no chance in it.
    assert_eq!(judged(101, 101, 1), bad);
    assert_eq!(judged(500, 101, 1), bad);
    assert_eq!(judged(500, 100, 1), invalid);
}

#[test]
fn a_small_sample_does_not_decide() {
    // 2 % are late; of 50 operations that were stamped one is, because of us.
    let few = |observations| {
        let mut measurement = stamped(200, 200, 200, observations);
        let spans = &mut measurement.tally.spans;
        for without in [&mut spans.undelayed, &mut spans.undelayed_min] {
            without.clear();
            without.record_n(Nanos::from_millis(1), 50);
        }
        measurement
    };
    assert_eq!(decided(&few(none())), (Verdict::Bad, "p99<50ms".to_owned()));
    // What is known of every operation does; shares of CPU and waits do not.
    let mut busy = few(Observations { arrivals: None, ..starved() });
    busy.tally.generator.busiest_thread = 1.0;
    assert_eq!(decided(&busy), (Verdict::Bad, "p99<50ms".to_owned()));
    busy.tally.spans.send_lag.record_n(Nanos::from_millis(8), OPS / 10);
    assert_eq!(decided(&busy), (Verdict::Invalid, "send-lag".to_owned()));
    assert_eq!(decided(&few(starved())), (Verdict::Invalid, "arrivals".to_owned()));
}

#[test]
fn where_a_burst_of_ours_may_have_slowed_the_server_the_send_lag_decides() {
    // All are late by themselves, and none would be if the burst was to blame.
    let mut measurement = stamped(500, 500, 1, none());
    measurement.tally.spans.undelayed_min.clear();
    measurement.tally.spans.undelayed_min.record_n(Nanos::from_millis(1), OPS);
    assert_eq!(decided(&measurement), (Verdict::Bad, "p99<50ms".to_owned()));
    measurement.tally.spans.send_lag.record_n(Nanos::from_millis(8), OPS / 10);
    assert_eq!(decided(&measurement), (Verdict::Invalid, "send-lag".to_owned()));
}

#[test]
fn a_pool_that_is_full_because_of_us_is_not_the_servers() {
    // 2,000/s wait for one of 20 connections, which the server fills by itself if it takes 10 ms.
    let full = |server, ours| {
        let mut measurement = stamped(9_000, 9_000, 1, none());
        let tally = &mut measurement.tally;
        (tally.pool_exhausted, tally.connections.held_max) = (9_000, 20);
        for (hist, span) in [
            (&mut tally.spans.wire, Nanos::from_millis(server)),
            (&mut tally.spans.receive_lag, Nanos::from_millis(ours)),
        ] {
            hist.clear();
            hist.record_n(span, OPS);
        }
        decided(&measurement)
    };
    let (ours, bad) = ("own-delay".to_owned(), "p99<50ms".to_owned());
    assert_eq!(full(6, 4), (Verdict::Invalid, ours.clone()));
    // It stood still for a while: then they waited for it.
    assert_eq!(full(6, 0), (Verdict::Bad, bad.clone()));
    assert_eq!(full(12, 1), (Verdict::Bad, bad));
    // It looks slow, but sees them only in our bursts.
    assert_eq!(full(12, 10), (Verdict::Invalid, ours));
}

#[test]
fn what_was_not_answered_waited_like_what_was_late() {
    let unsent = |without| {
        let mut measurement = stamped(2_000, without, 1, none());
        let tally = &mut measurement.tally;
        (tally.ok, tally.unsent, tally.pool_exhausted) = (OPS - 500, 500, 500);
        tally.spans.corrected.clear();
        tally.spans.corrected.record_n(Nanos::from_millis(1), OPS - 2_500);
        tally.spans.corrected.record_n(Nanos::from_millis(100), 2_000);
        // The pool is not what they waited for.
        tally.connections.failed = 1;
        decided(&measurement).0
    };
    assert_eq!(unsent(2_000), Verdict::Bad);
    assert_eq!(unsent(0), Verdict::Invalid);
}

#[test]
fn errors_are_the_servers_however_busy_the_generator_is() {
    let mut measurement = in_trouble(stamped(2_000, 0, 1, starved()));
    measurement.tally.ok -= 20;
    measurement.tally.failures.operations.add(ErrorClass::Timeout, 20);
    let spans = &mut measurement.tally.spans;
    spans.corrected.clear();
    spans.corrected.record_n(Nanos::from_millis(1), OPS - 20);
    assert_eq!(decided(&measurement).0, Verdict::Bad);
}

#[test]
fn a_backlog_that_our_delay_explains_is_not_the_servers() {
    // By 90 operations, which is 45 ms of the load.
    let growing = |ours: Nanos| {
        let mut measurement = stamped(0, 0, 1, none());
        measurement.tally.outstanding = (0..50).map(|at| at * 2).collect();
        let spans = &mut measurement.tally.spans;
        spans.stamped.clear();
        spans.stamped.record_n(Nanos::from_millis(1) + ours, OPS);
        measurement
    };
    let starving = |ours| {
        let measurement = in_trouble(growing(ours));
        decided(&TrialMeasurement { observations: starved(), ..measurement })
    };
    let bad = (Verdict::Bad, "stable".to_owned());
    for ours_ms in [0, 10] {
        assert_eq!(decided(&growing(Nanos::from_millis(ours_ms))), bad);
        assert_eq!(starving(Nanos::from_millis(ours_ms)), bad);
    }
    // It may have risen late, and then the times of sending decide.
    assert_eq!(decided(&growing(Nanos::from_millis(15))), bad);
    let times = (Verdict::Invalid, "send-lag, arrivals".to_owned());
    assert_eq!(starving(Nanos::from_millis(15)), times);
    let ours = (Verdict::Invalid, "own-delay".to_owned());
    assert_eq!(decided(&growing(Nanos::from_millis(40))), ours);
}

#[test]
fn a_closed_loop_and_a_load_without_goals() {
    let ours = in_trouble(stamped(2_000, 0, 1, starved()));
    let judged = |slo: Option<&Slo>, open| {
        crate::judge_load(&ours.tally, ours.window, slo, open, &ours.observations).verdict
    };
    let slo = Slo::default();
    assert_eq!(judged(Some(&slo), false), Verdict::Invalid);
    assert_eq!(judged(Some(&slo), true), Verdict::Invalid);
    // There is nothing to miss but the figures, and those are spoiled.
    assert_eq!((judged(None, true), judged(None, false)), (Verdict::Invalid, Verdict::Good));
    let theirs = in_trouble(stamped(2_000, 2_000, 1, starved()));
    let judgement =
        crate::judge_load(&theirs.tally, theirs.window, Some(&slo), true, &theirs.observations);
    assert_eq!(judgement.verdict, Verdict::Bad);
    assert!(
        judgement
            .reasons
            .iter()
            .any(|check| { (check.id == CheckId::Scheduling) && (check.level == Level::Warn) })
    );
}

#[test]
fn a_larger_pool_that_carries_no_more_was_not_what_was_missing() {
    let judged = |pool_grown_in_vain| {
        let observations = Observations { pool_grown_in_vain, ..Observations::default() };
        judged_with_a_full_pool(None, observations)
    };
    assert_eq!((judged(false), judged(true)), (Verdict::Invalid, Verdict::Bad));
}

#[test]
fn what_a_server_allows_on_so_many_connections_is_its_limit() {
    let judged = |allowed, connections_are_fixed| {
        let observations = Observations { connections_are_fixed, ..Observations::default() };
        judged_with_a_full_pool(allowed, observations)
    };
    assert_eq!(judged(None, true), Verdict::Invalid);
    assert_eq!(judged(Some(20), false), Verdict::Invalid);
    assert_eq!(judged(Some(20), true), Verdict::Bad);
}

/// All connections are busy while the server, which allows `allowed` operations on each, is as fast as ever.
fn judged_with_a_full_pool(allowed: Option<u32>, observations: Observations) -> Verdict {
    let mut measurement = measurement(500, observations);
    measurement.tally.pool_exhausted = 900;
    measurement.tally.answers.streams.allowed = allowed;
    measurement.tally.spans.uncorrected.clear();
    measurement.tally.spans.uncorrected.record_n(Nanos::from_millis(1), OPS);
    let unloaded = Unloaded { mean: Nanos::from_millis(1), p99: Nanos::from_millis(1) };
    let context = Context { unloaded: Some(unloaded) };
    judge(&measurement, &Slo::default(), &context).verdict
}
