//! The curves against the world that follows every operation, and each anomaly by itself.

use plimsoll_model::trial::Phase;
use plimsoll_model::{ErrorClass, Rate};

use super::*;
use crate::anomalies::{Course, HiddenTimer, HostSpeed, Jitter, Leak, Metastable, Rival};
use crate::sut::Stalls;
use crate::world::World;

fn request(per_s: f64) -> TrialRequest {
    TrialRequest {
        number: 1,
        phase: Phase::Narrow,
        rate: Rate::per_second(per_s).expect("finite"),
        duration: Nanos::from_secs(10),
        split: 1,
    }
}

fn run(world: &mut Fluid, per_s: f64) -> Tally {
    let measurement = world.run(request(per_s), None);
    let tally = measurement.tally;
    assert!(tally.balances(), "{tally:?}");
    assert_eq!(tally.spans.corrected.count(), tally.ok);
    assert_eq!(tally.spans.uncorrected.count(), tally.ok);
    assert_eq!(tally.outstanding.len(), 100);
    tally
}

/// Returns both worlds, the other one with equal gaps too.
fn both(sut: Sut, generator: Generator, per_s: f64) -> [Tally; 2] {
    let mut fluid = Fluid::new(sut, 1);
    fluid.generator = generator;
    let mut world = World::new(sut, 1);
    world.generator = generator;
    world.arrivals = plimsoll_model::pace::Arrivals::Uniform;
    [run(&mut fluid, per_s), world.run(request(per_s), None).tally]
}

#[track_caller]
fn assert_near(name: &str, a: f64, b: f64, relative: f64, absolute: f64) {
    assert!((a - b).abs() <= relative * a.max(b) + absolute, "{name}: {a} against {b}");
}

#[test]
fn curves_and_single_operations_give_the_same_figures() {
    let slow = Generator { capacity_per_s: 990.0, ..Generator::default() };
    let small = Generator { connections: 5, ..Generator::default() };
    let far = Sut { base: Nanos::from_millis(10), ..Sut::with_capacity(10_000.0) };
    let reject = Sut { overload: Overload::Reject(20), ..Sut::with_capacity(1_000.0) };
    for (name, sut, generator, per_s) in [
        ("idle", Sut::with_capacity(1_000.0), Generator::default(), 500.0),
        ("barely over", Sut::with_capacity(1_000.0), Generator::default(), 1_006.0),
        ("over", Sut::with_capacity(1_000.0), Generator::default(), 1_300.0),
        ("refusing", reject, Generator::default(), 1_200.0),
        ("slow generator", Sut::with_capacity(5_000.0), slow, 1_000.0),
        ("small pool", far, small, 700.0),
    ] {
        let [fluid, world] = both(sut, generator, per_s);
        let ops = world.scheduled as f64;
        assert_eq!(fluid.scheduled, world.scheduled, "{name}");
        let counts = |t: &Tally| [t.ok - t.late, t.bad()].map(|n| n as f64);
        for (a, b) in counts(&fluid).into_iter().zip(counts(&world)) {
            assert_near(name, a, b, 0.0, 0.01 * ops + 25.0);
        }
        let spans = |t: &Tally| {
            let q =
                |h: &plimsoll_model::Histogram, q| h.quantile(q).unwrap_or_default().as_secs_f64();
            let s = &t.spans;
            [q(&s.corrected, 0.5), q(&s.corrected, 0.99), q(&s.uncorrected, 0.5)]
        };
        for (a, b) in spans(&fluid).into_iter().zip(spans(&world)) {
            assert_near(name, a, b, 0.05, 0.003);
        }
        let last = |t: &Tally| f64::from(*t.outstanding.last().expect("samples"));
        assert_near(name, last(&fluid), last(&world), 0.03, 8.0);
    }
}

#[test]
fn seconds_add_up_to_the_tally_and_agree_with_single_operations() {
    for per_s in [500.0, 1_006.0, 1_090.0] {
        let mut fluid = Fluid::new(Sut::with_capacity(1_000.0), 1);
        let curves = fluid.run(request(per_s), None);
        let mut world = World::new(Sut::with_capacity(1_000.0), 1);
        world.arrivals = plimsoll_model::pace::Arrivals::Uniform;
        let single = world.run(request(per_s), None);
        assert_eq!((curves.seconds.len(), single.seconds.len()), (10, 10));
        for (a, b) in curves.seconds.iter().zip(&single.seconds) {
            assert_near("sent", a.sent as f64, b.sent as f64, 0.0, 2.0);
            assert_near("ok", a.ok as f64, b.ok as f64, 0.0, 2.0);
            assert_near("bad", a.bad as f64, b.bad as f64, 0.01, 12.0);
        }
        let sent: u64 = curves.seconds.iter().map(|second| second.sent).sum();
        assert!(sent.abs_diff(curves.tally.scheduled) <= 1);
        assert!(curves.seconds.iter().all(|second| second.sut_cpu.is_none()));
    }
}

#[test]
fn an_aborted_trial_has_the_seconds_up_to_its_cut() {
    let mut world = Fluid::new(Sut::with_capacity(1_000.0), 2);
    let measurement = world.run(request(1_050.0), Some(2_000));
    assert!(measurement.aborted);
    let window_s = measurement.window.as_secs_f64();
    let (whole, part_s) = (window_s as usize, window_s.fract());
    assert!((2..10).contains(&whole));
    assert_eq!(measurement.seconds.len(), whole + usize::from(part_s > 0.2));
    assert!(measurement.seconds[..whole].iter().all(|second| second.sent == 1_050));
}

/// Returns a server of 1,000/s on a host with two speeds.
fn two_speeds(seed: u64, felt: f64) -> Fluid {
    let mut world = Fluid::new(Sut::with_capacity(1_000.0), seed);
    let (slow_mean, fast_mean) = (Nanos::from_secs(6), Nanos::from_secs(12));
    let course = Course::TwoSpeeds { slow: 0.8, slow_mean, fast_mean };
    world.anomalies.speed = Some(HostSpeed { course, felt });
    // What is answered is ok, however late.
    world.linger = Nanos::from_secs(20);
    world.observed = true;
    world
}

#[test]
fn a_host_is_slow_for_its_share_of_the_time_whatever_the_load() {
    let mut world = two_speeds(3, 1.0);
    for _ in 0..500 {
        world.idle(Nanos::from_secs(10));
        run(&mut world, 400.0);
    }
    let stretches = world.host_speeds(Nanos::ZERO, world.age());
    let total = |speeds: &[(f64, Nanos)]| speeds.iter().map(|s| s.1.as_secs_f64()).sum::<f64>();
    assert_near("all", total(&stretches), 10_000.0, 1e-6, 0.0);
    let slow: Vec<_> = stretches.into_iter().filter(|(speed, _)| *speed == 0.8).collect();
    assert_near("slow", total(&slow), 10_000.0 / 3.0, 0.08, 0.0);
    assert_near("mean", total(&slow) / slow.len() as f64, 6.0, 0.1, 0.0);
}

#[test]
fn the_witnesses_of_a_slow_second_show_it_and_disturb_nothing() {
    for felt in [1.0, 0.5] {
        let (mut world, mut unobserved) = (two_speeds(5, felt), two_speeds(5, felt));
        unobserved.observed = false;
        for _ in 0..20 {
            let begin = world.age();
            let trial = world.run(request(1_100.0), None);
            assert_eq!(unobserved.run(request(1_100.0), None).tally, trial.tally);
            for (index, second) in trial.seconds.iter().enumerate() {
                let from = begin + Nanos::from_secs(index as u64);
                let speeds = world.host_speeds(from, from + Nanos::from_secs(1));
                let [(speed, _)] = speeds[..] else { continue };
                let cpu = second.sut_cpu.expect("observed");
                let cost_us = cpu.ran.as_secs_f64() * 1e6 / second.ok as f64;
                assert_near("cost", cost_us, 1_000.0 / speed.powf(felt), 0.06, 0.0);
                assert_near("ok", second.ok as f64, 1_000.0 * speed.powf(felt), 0.03, 0.0);
                let yardstick = second.yardstick.expect("observed");
                assert_near("yardstick", yardstick.as_millis_f64(), 2.0 / speed, 0.08, 0.0);
                assert_eq!(cpu.waited, Nanos::ZERO);
            }
        }
    }
}

#[test]
fn a_neighbour_that_comes_and_goes_makes_the_server_wait() {
    let mut world = Fluid::new(Sut::with_capacity(1_000.0), 1);
    let s = Nanos::from_secs;
    world.anomalies.rival = Some(Rival { from: s(2), to: s(5), every: s(7), left: 0.5 });
    world.observed = true;
    let seconds = world.run(request(900.0), None).seconds;
    let waits = |second: &plimsoll_model::trial::TrialSecond| {
        second.sut_cpu.is_some_and(|cpu| cpu.waited.as_millis_f64() > 300.0)
    };
    let there: Vec<bool> = seconds.iter().map(waits).collect();
    assert_eq!(there[..5], [false, false, true, true, true]);
    assert!(there[9], "it is back");
    assert!(seconds[2].yardstick < Some(Nanos::from_millis(3)), "the CPU itself is as fast");
}

#[test]
fn a_request_may_cost_more_where_there_is_little_to_do() {
    let mut world = Fluid::new(Sut::with_capacity(1_000.0), 1);
    (world.anomalies.idle_cost, world.observed) = (0.4, true);
    for (per_s, us) in [(100.0, 1_360.0), (990.0, 1_004.0)] {
        let trial = world.run(request(per_s), None);
        assert_eq!(trial.tally.late, 0);
        let cpu = trial.observations.sut_cpu.expect("observed");
        let cost_us = 1e6 * cpu.ran.as_secs_f64() / trial.tally.ok as f64;
        assert_near("cost", cost_us, us, 0.01, 0.0);
    }
}

#[test]
fn random_arrivals_and_a_slow_host_compose() {
    let mut world = Fluid::new(Sut::with_capacity(1_000.0), 3);
    let step = Course::Step { at: Nanos::from_secs(5), to: 0.5 };
    world.anomalies.speed = Some(HostSpeed { course: step, felt: 1.0 });
    let seconds = world.run(TrialRequest { phase: Phase::Safe, ..request(900.0) }, None).seconds;
    assert_near("fast", seconds[3].ok as f64, 900.0, 0.1, 0.0);
    assert_near("slow", seconds[8].ok as f64, 500.0, 0.1, 0.0);
    assert_ne!(seconds[7].ok, seconds[8].ok);
}

#[test]
fn the_late_share_of_a_small_overload_is_the_one_of_arithmetic() {
    // 2 % over: the queue passes 48.5 ms of work after 0.0485 / 0.02 * 1.02 s of starts.
    let tally = run(&mut Fluid::new(Sut::with_capacity(1_000.0), 1), 1_020.0);
    let on_time_s = 0.0485 / 0.02;
    let late = 10_200.0 * (1.0 - on_time_s / 10.0);
    assert_near("late", tally.late as f64, late, 0.01, 5.0);
}

#[test]
fn an_aborted_trial_stops_at_its_count() {
    let mut world = Fluid::new(Sut::with_capacity(500.0), 2);
    let measurement = world.run(request(1_000.0), Some(100));
    assert!(measurement.aborted && measurement.window < Nanos::from_secs(1));
    let tally = &measurement.tally;
    assert!(tally.scheduled > tally.ok + tally.errors_total());
    let due = (1_000.0 * measurement.window.as_secs_f64()) as u64;
    assert!(tally.scheduled.abs_diff(due) <= 1);
    // The 101st late operation reached its deadline just then.
    let late_and_open = tally.scheduled - (tally.ok - tally.late);
    assert!((100..=160).contains(&late_and_open), "{late_and_open}");
}

#[test]
fn a_stall_delays_what_comes_during_it() {
    let stalls = Stalls { trials_share: 1.0, length: Nanos::from_secs(1) };
    let sut = Sut { stalls: Some(stalls), ..Sut::with_capacity(10_000.0) };
    let late = (0..20).map(|seed| run(&mut Fluid::new(sut, seed), 1_000.0).late).max();
    assert!((950..1_200).contains(&late.expect("twenty")), "{late:?}");
}

#[test]
fn jitter_needs_a_queue_to_be_felt() {
    let mut world = Fluid::new(Sut::with_capacity(1_000.0), 3);
    world.anomalies.jitter = Some(Jitter { sd: 0.05, slice: Nanos::from_millis(100) });
    assert_eq!(run(&mut world, 700.0).late, 0);
    let busy = run(&mut world, 980.0).spans.corrected;
    assert!(busy.quantile(0.99) > Some(Nanos::from_millis(3)), "{busy:?}");
}

#[test]
fn a_leak_takes_capacity_with_time_and_with_requests() {
    let mut world = Fluid::new(Sut::with_capacity(1_000.0), 3);
    world.anomalies.leak = Some(Leak { per_minute: 0.01, per_million: 1.0 });
    run(&mut world, 500.0);
    world.idle(Nanos::from_secs(50));
    // One minute and 5,000 requests.
    assert_near("capacity", world.capacity_now(), 1_000.0 * (1.0 - 0.01 - 0.005), 1e-3, 0.0);
}

#[test]
fn a_metastable_server_stays_slow_until_it_was_left_alone() {
    let mut world = Fluid::new(Sut::with_capacity(1_000.0), 3);
    world.anomalies.metastable = Some(Metastable {
        queue: Nanos::from_millis(100),
        slow: 0.5,
        calm: 0.3,
        calm_for: Nanos::from_secs(4),
    });
    assert_eq!(run(&mut world, 900.0).late, 0);
    assert!(run(&mut world, 1_100.0).bad() > 5_000);
    world.idle(Nanos::from_secs(1));
    assert!(run(&mut world, 900.0).bad() > 5_000, "still slow");
    // Four seconds of little load heal it in the middle of a trial.
    assert_eq!(run(&mut world, 200.0).bad(), 0);
    assert_eq!(run(&mut world, 900.0).bad(), 0);
    run(&mut world, 1_100.0);
    world.idle(Nanos::from_secs(5));
    assert_eq!(run(&mut world, 900.0).bad(), 0, "healed by rest");
}

#[test]
fn hidden_timers_end_what_hangs_or_our_patience_does() {
    let mut world = Fluid::new(Sut::with_capacity(1_000.0), 3);
    world.anomalies.timer = Some(HiddenTimer { share: 0.01, after: Nanos::from_secs(1) });
    assert_eq!(run(&mut world, 500.0).failures.operations.get(ErrorClass::Status5xx), 50);
    world.anomalies.timer = Some(HiddenTimer { share: 0.01, after: Nanos::from_secs(30) });
    assert_eq!(run(&mut world, 500.0).failures.operations.get(ErrorClass::Timeout), 50);
}

#[test]
fn a_faulty_generator_shows_in_its_own_figures() {
    let quiet = run(&mut Fluid::new(Sut::with_capacity(5_000.0), 1), 1_000.0);
    let lag = |tally: &Tally, q| tally.spans.send_lag.quantile(q).expect("values");
    assert!(lag(&quiet, 0.99) < Nanos::from_millis(1) && quiet.generator.busiest_thread < 0.1);
    let mut rival = Fluid::new(Sut::with_capacity(5_000.0), 1);
    rival.generator = Generator { capacity_per_s: 1_500.0, rival: 0.5, ..Generator::default() };
    let measurement = rival.run(request(1_000.0), None);
    assert!(lag(&measurement.tally, 0.5) > Nanos::from_secs(1));
    let scheduling = measurement.observations.scheduling.expect("observed");
    assert!(scheduling.run_delay > Some(0.4), "{scheduling:?}");
    let mut ports = Fluid::new(Sut::with_capacity(5_000.0), 1);
    ports.generator.ports_per_s_max = 800.0;
    assert_eq!(run(&mut ports, 1_000.0).failures.operations.get(ErrorClass::LocalPorts), 2_000);
    let mut paused = Fluid::new(Sut::with_capacity(5_000.0), 1);
    paused.generator.pauses_share = 1.0;
    paused.generator.pause = Nanos::from_millis(500);
    let tally = run(&mut paused, 1_000.0);
    assert!(tally.spans.send_lag.max() > Some(Nanos::from_millis(400)), "{tally:?}");
    // Twice the threads are twice the capacity, if they can be had.
    let mut split = Fluid::new(Sut::with_capacity(5_000.0), 1);
    split.generator = Generator { capacity_per_s: 700.0, splits: true, ..Generator::default() };
    let twice = split.run(TrialRequest { split: 2, ..request(1_000.0) }, None);
    assert_eq!((twice.split, twice.tally.late), (2, 0));
    assert!(split.run(request(1_000.0), None).tally.late > 0);
}
