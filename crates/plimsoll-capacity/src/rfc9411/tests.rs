//! Criteria on hand-made seconds, and whole procedures against simulated servers.

use std::convert::Infallible;

use plimsoll_model::criterion::Criterion;
use plimsoll_model::observation::{Observations, PeerCounts, SutCpu};
use plimsoll_model::rfc9411::{Case, Ending, Kind, OtherKpi, Step};
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::{
    Check, CheckId, Judgement, Level, Phase, Stopped, TrialMeasurement, TrialRequest, Verdict,
};
use plimsoll_model::{ErrorClass, Nanos, Rate};

use super::*;

/// A second in which `ok` sessions of one transaction went well.
fn second(second: u32, ok: u64) -> Interval {
    let mut tally = Tally { scheduled: ok, ok, ..Tally::default() };
    tally.answers.status.add(200, ok);
    tally.bytes.received = ok * 1_200;
    tally.bytes.sent = ok * 50;
    (tally.connections.opened, tally.connections.finished) = (ok, ok);
    for _ in 0..ok {
        tally.spans.corrected.record(Nanos::from_millis(2));
        tally.spans.uncorrected.record(Nanos::from_millis(2));
        tally.spans.syn_to_first_byte.record(Nanos::from_millis(1));
        tally.spans.syn_to_last_byte.record(Nanos::from_millis(3));
    }
    tally.outstanding = vec![40; 10];
    Interval { second, tally }
}

/// A ramp of one second, three at 1,000/s, a ramp down.
fn steady() -> Vec<Interval> {
    vec![second(0, 500), second(1, 1_000), second(2, 1_000), second(3, 1_000), second(4, 500)]
}

fn judged(case: Case, step: Step, intervals: &[Interval], aborted: bool) -> JudgedIteration {
    observed(case, step, intervals, aborted, &Observations::default())
}

fn observed(
    case: Case,
    step: Step,
    intervals: &[Interval],
    aborted: bool,
    observations: &Observations,
) -> JudgedIteration {
    let mut whole = Tally::default();
    intervals.iter().for_each(|interval| whole.merge_following(&interval.tally));
    let request = TrialRequest {
        number: 1,
        phase: Phase::Confirm,
        rate: Rate::per_second(1_000.0).unwrap(),
        duration: Nanos::from_secs(3),
        split: 1,
    };
    let measurement = TrialMeasurement {
        seconds: Vec::new(),
        request,
        window: Nanos::from_secs(5),
        aborted,
        tally: whole,
        sut_busiest_thread: None,
        split: 1,
        observations: *observations,
    };
    judge(&IterationRecord {
        case,
        step,
        measurement,
        intervals: intervals.to_vec(),
        ramp_up: Nanos::from_secs(1),
        sustain_from: 1,
        planned_ops: None,
        transactions: 1,
    })
}

fn find<'a>(judged: &'a JudgedIteration, letter: &str) -> &'a Check {
    let found = judged.criteria.iter().find(|check| check.id.name().starts_with(letter));
    found.unwrap_or_else(|| panic!("no {letter} in {:?}", judged.criteria))
}

#[test]
fn what_was_seen_beside_an_iteration_is_judged_as_in_every_trial() {
    let verdict = |observations| {
        let judged = observed(Case::HttpThroughput, Step::Target, &steady(), false, &observations);
        let failed = judged.checks.iter().filter(|check| check.level == Level::Fail);
        (judged.judgement.verdict, failed.map(|check| check.id.clone()).collect::<Vec<_>>())
    };
    assert_eq!(verdict(Observations::default()), (Verdict::Good, vec![]));
    let all = PeerCounts { sent: 4_000, answered: 4_000, received: 4_000 };
    let counted = Observations { peer: Some(all), ..Observations::default() };
    assert_eq!(verdict(counted), (Verdict::Good, vec![]));
    // The server has received half of what was sent and answered: one of the counts is wrong.
    let half = PeerCounts { received: 2_000, ..all };
    let lost = Observations { peer: Some(half), ..Observations::default() };
    assert_eq!(verdict(lost), (Verdict::Invalid, vec![CheckId::PeerCounters]));
}

#[test]
fn a_server_whose_cpu_others_had_is_not_judged_by_a_figure_that_changed() {
    // The server stood still in one second: C5, N10 and T fail.
    let mut seconds = steady();
    seconds[2] = second(2, 400);
    let cpu = |ran_ms, waited_ms| {
        let (ran, waited) = (Nanos::from_millis(ran_ms), Nanos::from_millis(waited_ms));
        Some(SutCpu { ran, system: Nanos::ZERO, waited })
    };
    let starved = cpu(80, 650);
    let verdict = |seconds: &[Interval], host_cpu, sut_cpu| {
        let observations = Observations { host_cpu, sut_cpu, ..Observations::default() };
        let case = Case::HttpConnections;
        let judged = observed(case, Step::Target, seconds, false, &observations);
        let is_of_host = judged
            .checks
            .iter()
            .any(|check| check.id == CheckId::HostCpu && check.level == Level::Fail);
        assert_eq!(is_of_host, judged.judgement.verdict == Verdict::Invalid);
        judged.judgement.verdict
    };
    assert_eq!(verdict(&seconds, Some(0.95), starved), Verdict::Invalid);
    // The criteria hold, however busy the host was.
    assert_eq!(verdict(&steady(), Some(0.95), starved), Verdict::Good);
    // It waited for a CPU on an idle host: it has a quota.
    assert_eq!(verdict(&seconds, Some(0.3), starved), Verdict::Bad);
    // Its own threads wait for each other, or it hardly waited, or nothing is known of it.
    for own in [cpu(4_000, 12_000), cpu(80, 20), None] {
        assert_eq!(verdict(&seconds, Some(0.95), own), Verdict::Bad);
    }
    // No other program makes a server reset connections.
    seconds[1].tally.connections.reset_by_peer = 10;
    assert_eq!(verdict(&seconds, Some(0.95), starved), Verdict::Bad);
}

fn figures(check: &Check) -> Vec<f64> {
    check.measures.iter().map(|measure| measure.value).collect()
}

#[test]
fn kpis_are_of_the_sustain_phase() {
    let judged = judged(Case::HttpConnections, Step::Target, &steady(), false);
    assert_eq!(judged.judgement.verdict, Verdict::Good, "{:?}", judged.judgement);
    let kpis = judged.observed.kpis;
    assert_eq!(kpis.tcp_connections_per_second, 1_000.0);
    assert_eq!(kpis.application_transactions_per_second, 1_000.0);
    assert_eq!(kpis.inspected_throughput_bit_s, 1_250.0 * 8.0 * 1_000.0);
    assert_eq!(kpis.concurrent_tcp_connections, 40.0);
    for (ms, expected) in [(kpis.ttfb_rfc9411_ms.min, 1.0), (kpis.ttlb_rfc9411_ms.max, 3.0)] {
        // Histograms keep three digits.
        assert!(ms.is_some_and(|ms| (ms - expected).abs() < 0.002), "{ms:?}, not {expected}");
    }
    assert_eq!(judged.observed.series.len(), 3);
    assert_eq!(judged.observed.series[2].second, 2);
}

#[test]
fn nothing_seen_is_not_nothing() {
    let judged = judged(Case::HttpConnections, Step::Target, &steady(), false);
    // Three seconds and the ramp down.
    let failed = find(&judged, "F ");
    assert_eq!(figures(failed), [0.0, 0.0, 3_500.0, 3.0 / 3_500.0, 300_000.0]);
    assert_eq!(failed.level, Level::Pass);
}

#[test]
fn a_failure_is_one_too_many_up_to_a_hundred_thousand() {
    for (transactions, level) in [(99_999, Level::Fail), (100_001, Level::Pass)] {
        let mut seconds = steady();
        let tally = &mut seconds[4].tally;
        *tally = Tally { scheduled: transactions - 3_000, ..Tally::default() };
        tally.ok = tally.scheduled - 1;
        tally.answers.status.add(200, tally.ok);
        tally.failures.operations.count(ErrorClass::Timeout);
        let judged = judged(Case::HttpThroughput, Step::Initial, &seconds, false);
        let failed = find(&judged, "F ");
        assert_eq!(failed.level, level, "{failed:?}");
        assert_eq!(figures(failed)[1], 1.0, "{failed:?}");
        // Step 1 of the throughput cases asks for nothing else.
        assert_eq!(judged.criteria.len(), 1);
    }
}

#[test]
fn a_redirect_is_no_transaction() {
    let mut seconds = steady();
    seconds[2].tally.ok += 1;
    seconds[2].tally.scheduled += 1;
    seconds[2].tally.answers.status.add(302, 1);
    seconds[2].tally.spans.corrected.record(Nanos::from_millis(2));
    let judged = judged(Case::HttpConnections, Step::Target, &seconds, false);
    assert_eq!(find(&judged, "F ").level, Level::Fail);
    assert_eq!(judged.judgement.verdict, Verdict::Bad);
}

#[test]
fn only_7_6_is_watched_during_the_ramp() {
    let mut seconds = steady();
    seconds[0].tally.scheduled += 1;
    seconds[0].tally.failures.operations.count(ErrorClass::ConnectReset);
    seconds[0].tally.failures.attempts.count(ErrorClass::ConnectReset);
    for (case, level) in
        [(Case::HttpConnections, Level::Pass), (Case::HttpsConnections, Level::Fail)]
    {
        let judged = judged(case, Step::Target, &seconds, false);
        assert_eq!(find(&judged, "F ").level, level, "{case}");
        assert_eq!(find(&judged, "R ").level, level, "{case}");
    }
}

#[test]
fn deviations_are_of_the_worst_second() {
    for (middle, c5) in [(1_000, Level::Pass), (930, Level::Pass), (900, Level::Fail)] {
        let mut seconds = steady();
        seconds[2] = second(2, middle);
        let judged = judged(Case::HttpThroughput, Step::Target, &seconds, false);
        // 930 is 4.8 % below the mean of the three.
        assert_eq!(find(&judged, "C5").level, c5, "{middle}: {:?}", find(&judged, "C5"));
    }
    for (open, n10) in [(40, Level::Pass), (46, Level::Pass), (60, Level::Fail)] {
        let mut seconds = steady();
        seconds[2].tally.outstanding = vec![open; 10];
        let judged = judged(Case::HttpThroughput, Step::Target, &seconds, false);
        // 10 connections, 1 % of a second's, are chance; 60 is 13 above the mean.
        assert_eq!(find(&judged, "N10").level, n10, "{open}: {:?}", find(&judged, "N10"));
    }
}

#[test]
fn counting_whole_transactions_is_no_deviation() {
    let slow = |n, ok| second(n, ok);
    let mut seconds = vec![slow(0, 5), slow(1, 10), slow(2, 9), slow(3, 11), slow(4, 5)];
    let judged_slow = judged(Case::HttpConnections, Step::Target, &seconds, false);
    let c5 = find(&judged_slow, "C5");
    let seen = c5.deciding().expect("a figure");
    assert!((seen.value - 0.1).abs() < 1e-9 && seen.at_most > Some(0.1), "{seen:?}");
    assert_eq!((c5.level, c5.measures[1].value), (Level::Pass, 1.5));
    seconds[2] = slow(2, 7);
    assert_eq!(
        find(&judged(Case::HttpConnections, Step::Target, &seconds, false), "C5").level,
        Level::Fail
    );
}

#[test]
fn a_rate_is_kept_in_every_second() {
    for case in [Case::TrafficMix, Case::HttpConnections, Case::HttpThroughput, Case::HttpsLatency]
    {
        let mut seconds = steady();
        let kept = judged(case, Step::Target, &seconds, false);
        assert_eq!(find(&kept, "T ").level, Level::Pass, "{case}");
        seconds[3] = second(3, 940);
        let missed = judged(case, Step::Target, &seconds, false);
        let below = find(&missed, "T ").deciding().expect("a figure").value;
        assert!((below - 0.06).abs() < 1e-9, "{case}: {below}");
        assert_eq!(find(&missed, "T ").level, Level::Fail, "{case}");
    }
}

#[test]
fn a_constant_rate_below_the_target_is_not_the_target() {
    let half = |number| second(number, 580);
    let seconds = [second(0, 290), half(1), half(2), half(3), second(4, 290)];
    let judged = judged(Case::HttpThroughput, Step::Target, &seconds, false);
    assert_eq!(find(&judged, "C5").level, Level::Pass);
    assert_eq!(find(&judged, "T ").level, Level::Fail);
    assert_eq!(judged.judgement.verdict, Verdict::Bad);
}

#[test]
fn what_was_cut_short_shows_nothing_unless_it_failed() {
    let seconds = &steady()[..2];
    let cut = judged(Case::HttpThroughput, Step::Initial, seconds, false);
    assert_eq!(cut.judgement.verdict, Verdict::Invalid);
    let samples = |judged: &JudgedIteration| {
        let found = judged.checks.iter().find(|check| check.id == CheckId::Samples);
        found.map(|check| (check.measures[0].value, check.level))
    };
    assert_eq!(samples(&cut), Some((1.0, Level::Fail)));
    let mut seconds = seconds.to_vec();
    seconds[0].tally.scheduled += 100;
    seconds[0].tally.unsent = 100;
    // No connection was free: that is not the generator's doing.
    seconds[0].tally.pool_exhausted = 1;
    let aborted = judged(Case::HttpThroughput, Step::Target, &seconds, true);
    assert_eq!(find(&aborted, "F ").level, Level::Fail);
    assert_eq!(samples(&aborted), Some((1.0, Level::Warn)));
    assert_eq!(aborted.judgement.verdict, Verdict::Bad);
}

#[test]
fn connections_that_are_not_held_have_failed() {
    let mut seconds = steady();
    let good = judged(Case::HttpConcurrency, Step::Target, &seconds, false);
    assert_eq!(find(&good, "F ").level, Level::Pass);
    // This operation was never attempted.
    seconds[2].tally.scheduled += 1;
    seconds[2].tally.unsent += 1;
    seconds[0].tally.connections.failed = 2;
    seconds[1].tally.failures.lost_held.count(ErrorClass::ClosedByPeer);
    let lost = judged(Case::HttpConcurrency, Step::Target, &seconds, false);
    let failed = find(&lost, "F ");
    assert_eq!((failed.level, &figures(failed)[1..]), (Level::Fail, &[3.0, 4_003.0][..]));
}

#[test]
fn isolation_is_lost_near_another_maximum() {
    assert!(isolation(OtherKpi::Throughput, 94.0, 100.0).holds);
    assert!(!isolation(OtherKpi::Throughput, 96.0, 100.0).holds);
    assert!(!isolation(OtherKpi::Throughput, 1.0, 0.0).holds);
}

// ---- procedures

fn settings(target: f64, kind: Kind) -> Settings {
    Settings { kind, target, sustain: Nanos::from_secs(300) }
}

fn judgement(verdict: Verdict) -> Judgement {
    let id = match verdict {
        Verdict::Invalid => CheckId::SendLag,
        _ => CheckId::Criterion(Criterion::Failed),
    };
    Judgement::of(vec![Check::new(id, Level::of(verdict != Verdict::Good, false), [])], 0.0)
}

/// Runs a procedure to its end; `server` gives the verdict on each iteration's load.
fn run(
    settings: Settings,
    mut server: impl FnMut(&Iterate) -> Verdict,
) -> (Conclusion, Vec<Iterate>) {
    let mut seen = Vec::new();
    let conclusion = proceed(settings, |asked| {
        let ops = (asked.load * asked.sustain.as_secs_f64()) as u64;
        let sustain = Tally { scheduled: ops, ok: ops, ..Tally::default() };
        seen.push(asked);
        assert!(seen.len() < 100, "it does not end: {seen:?}");
        let judgement = judgement(server(&asked));
        let observed = SustainFigures { sustain, ..SustainFigures::default() };
        let (criteria, checks) = (Vec::new(), Vec::new());
        Ok::<_, Infallible>(Ok(JudgedIteration { observed, criteria, checks, judgement }))
    });
    (conclusion.unwrap_or_else(|never| match never {}), seen)
}

/// GOOD up to a capacity that differs by `noise` (relative) from iteration to iteration.
fn server(capacity: f64, noise: f64, mut rng: fastrand::Rng) -> impl FnMut(&Iterate) -> Verdict {
    move |asked| {
        // The sum of twelve uniform numbers is nearly normal.
        let normal: f64 = (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        let now = capacity * (1.0 + noise * normal);
        if asked.load <= now { Verdict::Good } else { Verdict::Bad }
    }
}

#[test]
fn a_target_that_is_met_takes_two_iterations() {
    for kind in [Kind::Throughput, Kind::Concurrency, Kind::Latency] {
        let (conclusion, seen) = run(settings(5_000.0, kind), |_| Verdict::Good);
        assert_eq!(conclusion.ending, Ending::TargetMet);
        assert_eq!((conclusion.load, conclusion.failed_load), (Some(5_000.0), None));
        let steps: Vec<_> = seen.iter().map(|one| (one.step, one.load)).collect();
        assert_eq!(steps, [(Step::Initial, 500.0), (Step::Target, 5_000.0)]);
        assert_eq!(seen[1].sustain, Nanos::from_secs(300));
    }
}

#[test]
fn a_case_that_fails_step_1_does_not_go_on() {
    let (conclusion, seen) = run(settings(5_000.0, Kind::Throughput), |_| Verdict::Bad);
    assert_eq!(seen.len(), 1);
    assert!(
        matches!(&conclusion.ending, Ending::Unqualified { why } if why.contains("failed transactions")),
        "{conclusion:?}"
    );
    assert_eq!((conclusion.load, conclusion.failed_load), (None, Some(500.0)));
}

#[test]
fn latency_has_no_step_3() {
    let (conclusion, seen) =
        run(settings(100.0, Kind::Latency), server(50.0, 0.0, fastrand::Rng::with_seed(1)));
    assert!(matches!(conclusion.ending, Ending::TargetMissed { .. }), "{conclusion:?}");
    assert_eq!((seen.len(), conclusion.load), (2, None));
}

#[test]
fn maxima_of_simulated_servers_are_found() {
    const SEEDS: u64 = 200;
    let mut near = 0;
    for seed in 0..SEEDS {
        let mut rng = fastrand::Rng::with_seed(seed);
        let target = 10f64.powf(2.0 + 4.0 * rng.f64());
        let capacity = target * (0.12 + 0.86 * rng.f64());
        let (conclusion, seen) =
            run(settings(target, Kind::Throughput), server(capacity, 0.01, rng.fork()));
        let Some(load) = conclusion.load else { continue };
        assert_eq!(conclusion.ending, Ending::Maximum, "{seed}");
        let last = seen.last().expect("something was run");
        // What is reported was held for the whole length.
        assert_eq!((last.step, last.load), (Step::Final, load), "{seed}");
        assert_eq!(last.sustain, Nanos::from_secs(300));
        let ratio = load / capacity;
        near += u64::from((0.88..=1.03).contains(&ratio));
    }
    assert!(near >= SEEDS * 95 / 100, "{near} of {SEEDS}");
}

#[test]
fn connections_are_counted_exactly() {
    for (target, capacity) in [(1_000.0, 731.0), (20.0, 7.0), (10.0, 1.0), (1e6, 999_999.0)] {
        let exact = server(capacity, 0.0, fastrand::Rng::with_seed(1));
        let (conclusion, seen) = run(settings(target, Kind::Concurrency), exact);
        let load = conclusion.load.unwrap_or_else(|| panic!("{capacity}: {conclusion:?}"));
        let failed = conclusion.failed_load.expect("the target failed");
        assert!(load <= capacity && failed > capacity, "{load} {failed}");
        assert!(failed <= load * 1.05 || failed - load <= 1.0, "{load} to {failed}");
        assert!(seen.iter().all(|one| one.load.fract() == 0.0), "{seen:?}");
    }
}

#[test]
fn a_generator_at_its_limit_is_said_and_never_blamed_on_the_sut() {
    let (conclusion, seen) = run(settings(100.0, Kind::Latency), |_| Verdict::Invalid);
    assert!(
        matches!(&conclusion.ending, Ending::GeneratorLimited { why } if why.contains("send-lag")),
        "{conclusion:?}"
    );
    assert_eq!((seen.len(), conclusion.load), (2, None));
    // INVALID at the target only: below it there is a load that can be judged.
    let limit = 430.0;
    let (conclusion, _) = run(settings(1_000.0, Kind::Throughput), |asked| {
        if asked.load > limit { Verdict::Invalid } else { Verdict::Good }
    });
    assert!(matches!(conclusion.ending, Ending::GeneratorLimited { .. }), "{conclusion:?}");
    let load = conclusion.load.expect("a load that was GOOD");
    assert!(load <= limit && load > limit * 0.9, "{load}");
}

#[test]
fn a_target_that_was_not_judged_has_not_failed() {
    // A busy host spoils the iterations of step 2, and those of the last step if `is_spoiled`.
    let run = |is_spoiled: fn(&Iterate) -> bool| {
        let (conclusion, _) = run(settings(1_000.0, Kind::Throughput), |asked| {
            let is_invalid = asked.step == Step::Target || is_spoiled(asked);
            if is_invalid { Verdict::Invalid } else { Verdict::Good }
        });
        assert_eq!(conclusion.failed_load, None, "{conclusion:?}");
        conclusion
    };
    let met = run(|_| false);
    assert_eq!((met.ending, met.load), (Ending::TargetMet, Some(1_000.0)));
    let spoiled = run(|asked| asked.step == Step::Final);
    assert!(matches!(spoiled.ending, Ending::GeneratorLimited { .. }), "{spoiled:?}");
}

#[test]
fn short_iterations_do_not_decide_what_the_long_one_refutes() {
    // It tires: what goes well for a minute fails in five.
    let (conclusion, seen) = run(settings(1_000.0, Kind::Throughput), |asked| {
        let capacity = if asked.sustain > Nanos::from_secs(60) { 600.0 } else { 640.0 };
        if asked.load <= capacity { Verdict::Good } else { Verdict::Bad }
    });
    assert_eq!(conclusion.ending, Ending::Maximum, "{conclusion:?}");
    assert!(conclusion.load.is_some_and(|load| load <= 600.0 && load > 540.0), "{conclusion:?}");
    assert!(seen.iter().filter(|one| one.step == Step::Final).count() > 1);
}

#[test]
fn a_stop_keeps_what_is_known() {
    let why = Stopped::Interrupted;
    let stopped = |_| Ok::<_, Infallible>(Err(why.clone()));
    let conclusion = proceed(settings(1_000.0, Kind::Throughput), stopped).unwrap();
    assert_eq!(conclusion.ending, Ending::Unfinished { why: why.clone() });
    assert_eq!((conclusion.load, conclusion.shown), (None, None));
    // The target failed before.
    let mut made = 0;
    let conclusion = proceed(settings(1_000.0, Kind::Throughput), |asked| {
        made += 1;
        let judgement = judgement(if made == 1 { Verdict::Good } else { Verdict::Bad });
        let (observed, criteria, checks) = (SustainFigures::default(), Vec::new(), Vec::new());
        let judged = JudgedIteration { observed, criteria, checks, judgement };
        Ok::<_, Infallible>(if asked.step == Step::Search { Err(why.clone()) } else { Ok(judged) })
    });
    let conclusion = conclusion.unwrap();
    assert_eq!(conclusion.ending, Ending::Unfinished { why: why.clone() });
    assert_eq!((conclusion.load, conclusion.failed_load), (None, Some(1_000.0)));
    let last = conclusion.shown.expect("the target's iteration");
    assert_eq!(last.judgement.verdict, Verdict::Bad);
}

#[test]
fn an_error_ends_the_procedure() {
    let error = proceed(settings(1_000.0, Kind::Throughput), |_| Err("no agent"));
    assert_eq!(error, Err("no agent"));
}

#[test]
fn a_rest_follows_what_failed_and_step_1_is_short() {
    let (_, seen) = run(settings(1_000.0, Kind::Concurrency), |asked| {
        if asked.load <= 500.0 { Verdict::Good } else { Verdict::Bad }
    });
    assert_eq!((seen[0].sustain, seen[0].rest), (Nanos::from_secs(60), Nanos::ZERO));
    assert_eq!((seen[1].step, seen[1].rest), (Step::Target, Nanos::ZERO));
    assert_eq!((seen[2].step, seen[2].rest), (Step::Search, Nanos::from_secs(5)));
}

#[test]
fn the_reported_load_shows_its_own_iteration() {
    let (conclusion, seen) = run(settings(1_000.0, Kind::Throughput), |asked| {
        if asked.load <= 600.0 { Verdict::Good } else { Verdict::Bad }
    });
    let last = seen.last().expect("iterations");
    let shown = conclusion.shown.expect("an iteration");
    let ops = (last.load * last.sustain.as_secs_f64()) as u64;
    assert_eq!(shown.observed.sustain.scheduled, ops);
}
