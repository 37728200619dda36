//! Staircases on simulated machines, whose memory grows by a known law.

use plimsoll_model::hold::{Confidence, ServerFailure, Side};
use plimsoll_model::host::LimitKind;
use plimsoll_model::trial::Unit;
use proptest::prelude::*;

use super::*;

const GB: f64 = 1e9;

/// A machine: memory in use with a number of connections, and its total memory.
struct Machine {
    limit: f64,
    used: Box<dyn Fn(u64) -> f64>,
    /// Connections that the SUT keeps, at most.
    keeps: u64,
    /// A shard of connections that never answer.
    silent: u64,
}

impl Machine {
    fn new(limit: f64, used: impl Fn(u64) -> f64 + 'static) -> Self {
        Self { limit, used: Box::new(used), keeps: u64::MAX, silent: 0 }
    }

    fn gauges(&self, held: u64) -> Vec<Gauge> {
        let ports = Gauge {
            resource: LimitId::of(LimitKind::Ports, "clients"),
            side: Side::Generator,
            used: held as f64,
            limit: 5e6,
            per_connection: Some(1.0),
        };
        let used = (self.used)(held);
        let memory = Gauge {
            resource: LimitId::host(LimitKind::Memory),
            side: Side::Host,
            used,
            limit: self.limit,
            per_connection: None,
        };
        vec![memory, ports]
    }

    /// Runs a staircase to its end; returns the levels of its ramps.
    fn ramp_all(&self, staircase: &mut Staircase) -> Vec<u64> {
        let mut ramps = Vec::new();
        let mut held = 0;
        for _ in 0..200 {
            let done = match staircase.step() {
                Step::End => return ramps,
                Step::Ramp { connections } => {
                    let reached = connections.min(self.keeps);
                    // Looked at on the way, as a guard does.
                    let full = (held..=reached)
                        .step_by(1_000)
                        .find(|held| (self.used)(*held) >= self.limit);
                    if let Some(at) = full.filter(|_| connections > 0) {
                        staircase.handle_guard(&self.gauges(at));
                        assert_eq!(staircase.step(), Step::Ramp { connections: 0 });
                        held = at;
                        ramps.push(at);
                        continue;
                    }
                    if connections > 0 {
                        held = reached;
                        ramps.push(connections);
                    }
                    Done::Ramped { held, took: Nanos::from_secs(1) }
                }
                Step::Baseline | Step::Measure => {
                    let available = self.limit - (self.used)(held);
                    let memory = MemoryReading {
                        available_bytes: Some(available as u64),
                        ..MemoryReading::default()
                    };
                    Done::Read { memory, gauges: self.gauges(held) }
                }
                Step::Sweep => {
                    let answered = held.saturating_sub(self.silent);
                    Done::Swept(Swept { connections: held, answered })
                }
                Step::Settle(_) | Step::Hold(_) => Done::Waited,
                Step::Trim { .. } | Step::Storm { .. } | Step::ReadKept => {
                    panic!("this staircase only goes up")
                }
            };
            staircase.handle(done, Nanos::ZERO);
        }
        panic!("no end after 200 steps: {staircase:?}")
    }
}

fn staircase(levels: &[u64]) -> Staircase {
    Staircase::new(StaircaseSettings {
        levels: levels.to_vec(),
        settle: Nanos::from_secs(1),
        hold: Nanos::from_secs(10),
        ends_at_losses: true,
        ends_when_empty: true,
        cycles: 0,
        reconnects: Vec::new(),
    })
}

fn linear(bytes: f64) -> impl Fn(u64) -> f64 {
    move |held| 2.0 * GB + bytes * held as f64
}

const MILLION: [u64; 5] = [100_000, 250_000, 500_000, 750_000, 1_000_000];

#[test]
fn a_machine_that_is_large_enough_is_climbed_to_the_top() {
    let mut staircase = staircase(&MILLION);
    let ramps = Machine::new(22.0 * GB, linear(9_300.0)).ramp_all(&mut staircase);
    assert_eq!(ramps, MILLION);
    assert_eq!(staircase.end(), HoldEnd::Complete);
    assert_eq!(staircase.last_sweep(), Some(Swept { connections: 1_000_000, answered: 1_000_000 }));
    let projections = staircase.projections();
    let [memory, ports] = &projections[..] else { panic!("{projections:?}") };
    assert_eq!((memory.resource.kind, memory.points), (LimitKind::Memory, 6));
    assert!((memory.per_connection - 9_300.0).abs() < 0.1, "{memory:?}");
    assert_eq!(memory.ends_at, Some(20_000_000_000 / 9_300));
    assert_eq!((memory.confidence, memory.superlinear), (Confidence::Good, false));
    assert_eq!((ports.ends_at, ports.confidence), (Some(5_000_000), Confidence::Exact));
}

#[test]
fn a_small_machine_is_filled_to_the_projection_and_never_past_it() {
    let machine = Machine::new(8.0 * GB, linear(9_300.0));
    let mut staircase = staircase(&MILLION);
    let ramps = machine.ramp_all(&mut staircase);
    // 6 GB at 9.3 kB each.
    let fits = 645_161;
    let last = *ramps.last().unwrap();
    assert!(last <= fits && last as f64 >= 0.95 * fits as f64, "{ramps:?}");
    let HoldEnd::CutShort { why } = staircase.end() else { panic!("{:?}", staircase.end()) };
    assert!(why.contains("memory runs out at about 645,16"), "{why}");
    // It was held and swept at the last level all the same.
    assert_eq!(staircase.last_sweep().unwrap().connections, last);
}

#[test]
fn one_jump_does_not_bend_the_line() {
    // A hash table that is allocated once, on the way to the third level.
    let jump = |held: u64| linear(9_000.0)(held) + if held > 300_000 { 0.2 * GB } else { 0.0 };
    let mut staircase = staircase(&MILLION);
    let ramps = Machine::new(22.0 * GB, jump).ramp_all(&mut staircase);
    assert_eq!(ramps, MILLION);
    let memory = &staircase.projections()[0];
    assert!((memory.per_connection / 9_000.0 - 1.0).abs() < 0.05, "{memory:?}");
    assert!(!memory.superlinear && memory.ends_at_min < memory.ends_at);
}

#[test]
fn what_leaks_is_projected_by_its_last_levels() {
    let leak = |held: u64| 2.0 * GB + 4_000.0 * held as f64 + 0.012 * (held as f64).powi(2);
    let mut staircase = staircase(&MILLION);
    let ramps = Machine::new(15.0 * GB, leak).ramp_all(&mut staircase);
    let memory = &staircase.projections()[0];
    assert!(memory.superlinear && memory.confidence == Confidence::Low, "{memory:?}");
    assert!(matches!(staircase.end(), HoldEnd::CutShort { .. }), "{ramps:?}");
    // The true end: 4,000 n + 0.012 n^2 = 13e9, and the guard looks every thousand connections.
    assert!(*ramps.last().unwrap() <= 887_600 + 1_000, "{ramps:?}");
}

#[test]
fn the_guard_ends_a_ramp_that_no_projection_foresaw() {
    let cliff = |held: u64| if held < 90_000 { 2.0 * GB } else { 9.0 * GB };
    let machine = Machine::new(8.0 * GB, cliff);
    let mut staircase = staircase(&[10_000, 100_000]);
    let ramps = machine.ramp_all(&mut staircase);
    assert_eq!(ramps, [10_000, 90_000]);
    let why = "memory ran out during the ramp".to_owned();
    assert_eq!(staircase.end(), HoldEnd::CutShort { why });
}

#[test]
fn losses_are_the_end_of_the_stairs() {
    let mut full = Machine::new(22.0 * GB, linear(1_000.0));
    full.keeps = 300_000;
    let mut first = staircase(&MILLION);
    assert_eq!(full.ramp_all(&mut first), [100_000, 250_000, 500_000]);
    let why = ServerFailure::Missing { count: 200_000, asked: 500_000 };
    assert_eq!(first.end(), HoldEnd::ServerFailed { why });
    let mut mute = Machine::new(22.0 * GB, linear(1_000.0));
    mute.silent = 7;
    let mut second = staircase(&MILLION);
    assert_eq!(mute.ramp_all(&mut second), [100_000]);
    let why = ServerFailure::Silent { count: 7, asked: 100_000 };
    assert_eq!(second.end(), HoldEnd::ServerFailed { why });
    // A hold with one level continues with the connections it has, and its verdict counts the losses.
    let settings = StaircaseSettings { ends_at_losses: false, ..first.settings.clone() };
    let mut third = Staircase::new(StaircaseSettings { levels: vec![500_000], ..settings });
    full.ramp_all(&mut third);
    assert_eq!((third.end(), third.plateaus()[0].held), (HoldEnd::Complete, 300_000));
}

#[test]
fn nothing_held_and_a_stop_are_ends() {
    let mut nothing = Machine::new(22.0 * GB, linear(1_000.0));
    nothing.keeps = 0;
    let mut empty = staircase(&MILLION);
    nothing.ramp_all(&mut empty);
    assert_eq!((empty.end(), empty.plateaus().len()), (HoldEnd::NothingHeld, 0));
    let mut stopped = staircase(&MILLION);
    let read = Done::Read { memory: MemoryReading::default(), gauges: Vec::new() };
    stopped.handle(read, Nanos::ZERO);
    stopped.handle_stop();
    assert_eq!((stopped.step(), stopped.end()), (Step::End, HoldEnd::Unfinished));
    // An answer that comes too late changes nothing.
    stopped.handle(Done::Ramped { held: 5, took: Nanos::ZERO }, Nanos::ZERO);
    assert_eq!(stopped.step(), Step::End);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn no_linear_machine_is_overfilled_or_left_half_empty(
        bytes in 500.0f64..40_000.0,
        gigabytes in 3.0f64..64.0,
        asked in 10_000u64..3_000_000,
        noise in prop::collection::vec(-1.0f64..1.0, 16),
    ) {
        let levels: Vec<u64> = [10, 25, 50, 75, 100].map(|share| asked * share / 100).to_vec();
        // Noise of up to 2 MB, as other programs make it.
        let used = move |held: u64| {
            linear(bytes)(held) + 2e6 * noise[(held / 7) as usize % noise.len()]
        };
        let machine = Machine::new(gigabytes * GB, used);
        let fits = ((gigabytes - 2.0) * GB / bytes) as u64;
        let mut staircase = staircase(&levels);
        let ramps = machine.ramp_all(&mut staircase);
        let last = *ramps.last().unwrap();
        prop_assert!(last <= asked.max(1));
        match staircase.end() {
            HoldEnd::Complete => prop_assert_eq!(last, asked),
            HoldEnd::CutShort { .. } => {
                // A first level that is too large already is caught by the guard.
                prop_assert!(last as f64 <= fits as f64 * 1.01 + 5_000.0, "{:?} {}", ramps, fits);
                let plain = ramps.len() > 3 && bytes * asked as f64 > 1e9;
                prop_assert!(!plain || last as f64 >= 0.9 * fits as f64, "{:?} {}", ramps, fits);
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }
}

/// A server that accepts every connection and serves up to `limit` of them.
fn limited(levels: &[u64], limit: u64) -> HoldEnd {
    let mut staircase = Staircase::new(StaircaseSettings {
        levels: levels.to_vec(),
        settle: Nanos::ZERO,
        hold: Nanos::ZERO,
        ends_at_losses: levels.len() > 1,
        ends_when_empty: true,
        cycles: 0,
        reconnects: Vec::new(),
    });
    let mut held = 0;
    loop {
        let done = match staircase.step() {
            Step::End => return staircase.end(),
            Step::Ramp { connections } => {
                held = connections;
                Done::Ramped { held, took: Nanos::from_secs(1) }
            }
            Step::Baseline | Step::Measure => {
                let gauges = vec![Gauge {
                    resource: LimitId::host(LimitKind::Maxconn),
                    side: Side::Server,
                    used: held.min(limit) as f64,
                    limit: limit as f64,
                    per_connection: None,
                }];
                Done::Read { memory: MemoryReading::default(), gauges }
            }
            Step::Sweep => Done::Swept(Swept { connections: held, answered: held.min(limit) }),
            _ => Done::Waited,
        };
        staircase.handle(done, Nanos::ZERO);
    }
}

#[test]
fn a_full_limit_of_the_server_is_the_reason_for_silence_and_not_a_limit_of_this_host() {
    let full = |limit| HoldEnd::ServerFull {
        resource: LimitId::host(LimitKind::Maxconn),
        unit: Unit::Count,
        used: limit,
        limit,
    };
    assert_eq!(limited(&[40], 20), full(20));
    // Levels below the limit project it, and the next level is tried all the same.
    assert_eq!(limited(&[5, 10, 40], 20), full(20));
    // All are served.
    assert_eq!(limited(&[20], 20), HoldEnd::Complete);
}

/// The steps of a hold of 100 connections for 10 s, against a server that keeps 5 bytes of each cycle.
fn steps(cycles: u32, reconnects: &[(Nanos, f64)]) -> (Vec<Step>, Staircase) {
    let mut staircase = Staircase::new(StaircaseSettings {
        levels: vec![100],
        settle: Nanos::ZERO,
        hold: Nanos::from_secs(10),
        ends_at_losses: false,
        ends_when_empty: true,
        cycles,
        reconnects: reconnects.to_vec(),
    });
    let (mut steps, mut drains) = (Vec::new(), 0);
    while staircase.step() != Step::End {
        let step = staircase.step();
        steps.push(step);
        staircase.handle(
            match step {
                Step::Ramp { connections } => Done::Ramped { held: connections, took: Nanos(1) },
                Step::Trim { .. } => Done::Trimmed,
                Step::Storm { .. } => panic!("a hold makes no storms"),
                Step::Baseline | Step::Measure => {
                    Done::Read { memory: MemoryReading::default(), gauges: Vec::new() }
                }
                Step::Sweep => Done::Swept(Swept { connections: 100, answered: 100 }),
                Step::ReadKept => {
                    drains += 5;
                    Done::Kept(Kept::from([("processes".to_owned(), drains)]))
                }
                Step::Settle(_) | Step::Hold(_) | Step::End => Done::Waited,
            },
            Nanos::ZERO,
        );
    }
    (steps, staircase)
}

#[test]
fn cycles_fill_hold_drain_and_read() {
    let (steps, staircase) = steps(3, &[]);
    let count = |step: Step| steps.iter().filter(|one| **one == step).count();
    assert_eq!(count(Step::Ramp { connections: 100 }), 3);
    assert_eq!(count(Step::Trim { connections: 0 }), 3);
    assert_eq!(steps.last(), Some(&Step::ReadKept));
    let cycles = HoldProcedure::cycles(&staircase).expect("there were some");
    let kept: Vec<_> = cycles.readings.iter().map(|cycle| cycle.kept["processes"]).collect();
    assert_eq!((cycles.count, cycles.asked, kept), (3, 3, vec![5, 10, 15]));
    assert_eq!(staircase.end(), HoldEnd::Complete);
}

#[test]
fn a_part_of_the_connections_is_closed_and_opened_again_in_a_hold() {
    let at = Nanos::from_secs;
    let (steps, staircase) = steps(0, &[(at(4), 0.3), (at(9), 1.0), (at(10), 0.5)]);
    let held: Vec<Step> = steps
        .into_iter()
        .skip_while(|step| !matches!(step, Step::Hold(_)))
        .filter(|step| *step != Step::Sweep)
        .collect();
    let ramp = Step::Ramp { connections: 100 };
    // The last one is due when the hold is over.
    let expected = [
        Step::Hold(at(4)),
        Step::Trim { connections: 70 },
        ramp,
        Step::Hold(at(5)),
        Step::Trim { connections: 0 },
        ramp,
        Step::Hold(at(1)),
    ];
    assert_eq!(held, expected);
    assert_eq!(HoldProcedure::cycles(&staircase), None);
}
