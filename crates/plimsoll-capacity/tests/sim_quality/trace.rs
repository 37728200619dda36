//! A hash of every decision of simulated searches: a change of the code that is to change no decision
//! leaves all hashes as they are.

use std::fmt::Write;
use std::hash::{DefaultHasher, Hash, Hasher};

use plimsoll_capacity::{GoalSearch, Mode, SearchSettings, SearchStep};
use plimsoll_model::slo::Slo;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Outcome, Stopped, TippingPoint};
use plimsoll_model::{ErrorClass, Nanos, Rate};
use testkit::{Anomalies, Fluid};

use crate::kinds;
use crate::methods::{Sut, lowest_of, usual};
use crate::score::each_seed;

/// Trials after which every fifth search is stopped.
const STOP_AFTER: u32 = 12;
/// The first trial of every fifth search in which the server is away, for up to six trials.
const AWAY_FROM: u32 = 8;

const fn name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Unstable { .. } => "Unstable",
        Outcome::Undecided { .. } => "Undecided",
        Outcome::Regular => "Regular",
        Outcome::FailsAtMinimum => "FailsAtMinimum",
        Outcome::NotReached { .. } => "NotReached",
        Outcome::GeneratorLimited { .. } => "GeneratorLimited",
        Outcome::Unfinished { .. } => "Unfinished",
        Outcome::Unconfirmed { .. } => "Unconfirmed",
        _ => "other",
    }
}

fn answer(text: &mut String, tipping: &TippingPoint) {
    // The reason has a separate line, so that traces from before and after a change of its text can be compared.
    let _ = writeln!(text, "why {:?}", tipping.outcome);
    let bits = |rate: Option<Rate>| rate.map(|rate| rate.get().to_bits());
    let _ = writeln!(
        text,
        "{} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {:?} {} {} {:?} {:?} {:?} {:?} {}",
        name(&tipping.outcome),
        bits(tipping.lower),
        bits(tipping.upper),
        bits(tipping.safe),
        tipping.confidence,
        tipping.spread.map(f64::to_bits),
        tipping.drift_per_min.map(f64::to_bits),
        bits(tipping.conditional_throughput),
        tipping.recovery,
        tipping.trials,
        tipping.invalid_trials,
        bits(tipping.confirmed),
        tipping.confirmations,
        tipping.noise.map(f64::to_bits),
        tipping.notes,
        tipping.goals.len(),
    );
    for goal in tipping.goals.iter().map(|goal| &goal.found) {
        let _ = writeln!(
            text,
            "goal {} {:?} {:?} {:?} {:?} {:?}",
            name(&goal.outcome),
            bits(goal.lower),
            bits(goal.upper),
            bits(goal.safe),
            bits(goal.confirmed),
            goal.confirmations
        );
    }
}

/// Every decision of one search, in text.
fn trace(mut world: Sut, settings: &SearchSettings, slos: &[Slo], seed: u64) -> String {
    let mut search = GoalSearch::new(settings, slos[0].clone(), slos[1..].to_vec());
    let mut text = String::new();
    loop {
        match search.next_step() {
            SearchStep::Trial(request) if seed % 5 == 4 && request.number > STOP_AFTER => {
                answer(&mut text, &search.handle_stop(&Stopped::Interrupted));
                return text;
            }
            SearchStep::Trial(request) => {
                let (rest, abort) = (search.rest(), search.abort_bad_ops(&request));
                world.idle(rest);
                let mut measurement = world.run(request, Some(abort));
                if seed % 5 == 3
                    && (AWAY_FROM..AWAY_FROM + seed as u32 % 7).contains(&request.number)
                {
                    let scheduled = measurement.tally.scheduled;
                    measurement.tally = Tally { scheduled, ..Tally::default() };
                    measurement
                        .tally
                        .failures
                        .operations
                        .add(ErrorClass::ConnectRefused, scheduled);
                }
                let record = search.handle_result(measurement);
                let _ = writeln!(
                    text,
                    "{} {:?} {:x} {} x{} rest {} abort {abort} {}",
                    request.number,
                    request.phase,
                    request.rate.get().to_bits(),
                    request.duration.0,
                    request.split,
                    rest.0,
                    record.judgement.verdict.name()
                );
                world.recycle(record.measurement.tally);
            }
            SearchStep::Done(tipping) => {
                answer(&mut text, &tipping);
                return text;
            }
        }
    }
}

fn settings(mode: Mode, seed: u64) -> SearchSettings {
    let lowest = Rate::per_second(lowest_of(seed)).expect("finite");
    SearchSettings { lowest, ..SearchSettings::new(mode) }
}

fn fluid(capacity: f64, anomalies: Anomalies, seed: u64) -> Sut {
    let mut world = Fluid::new(testkit::Sut::with_capacity(capacity), seed);
    world.anomalies = anomalies;
    Sut::Fluid(Box::new(world))
}

/// Hashes of a name and of the traces by mode: with the reasons, and without.
fn line(report: &mut dyn FnMut(&str, &str), name: &str, traces: &[String]) {
    let all: String = traces.concat();
    let mut hashers = [DefaultHasher::new(), DefaultHasher::new()];
    for line in all.lines() {
        line.hash(&mut hashers[0]);
        if !line.starts_with("why ") {
            line.hash(&mut hashers[1]);
        }
    }
    let [whole, decisions] = hashers.map(|hasher| hasher.finish());
    report(&format!("{decisions:016x} {whole:016x} {:6} {name}", all.lines().count()), &all);
}

/// Hands a line to `report` for each kind of search, with the whole trace.
pub(crate) fn traces(only: &str, report: &mut dyn FnMut(&str, &str)) {
    let quick = Mode::Quick;
    let slo = |text: &str| -> Slo { text.parse().expect("an objective") };
    for (mode, seeds) in [(quick, 0..30), (Mode::Standard, 0..5)] {
        for kind in kinds::servers().iter().filter(|kind| kind.name.contains(only)) {
            let of = |seed: u64| {
                let seeded = seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x51A1;
                let world = kind.world(seeded, usual(mode));
                trace(world, &settings(mode, seed), &[kind.slo()], seed)
            };
            line(report, &format!("{mode} {}", kind.name), &each_seed(seeds.clone(), of));
        }
        for fault in kinds::generators().iter().filter(|fault| fault.name.contains(only)) {
            let of =
                |seed| trace(fault.world(seed), &settings(mode, seed), &[Slo::default()], seed);
            line(report, &format!("{mode} {}", fault.name), &each_seed(seeds.clone(), of));
        }
    }
    // Goals on few operations.
    let cases = [
        (40.0, 0.0008, 0, "p99<50ms,errors<0.1%"),
        (40.0, 0.0012, 0, "p99<50ms,errors<0.1%"),
        (40.0, 0.0, 0, "p99<50ms,errors<0.1%"),
        (5_000.0, 0.0008, 50, "p99<50ms,errors<0.1%"),
        (5_000.0, 0.0013, 0, "p99<50ms,errors<0.1%"),
        (40.0, 0.0008, 0, "p99.9<50ms"),
        (5_000.0, 0.0008, 0, "p99.9<50ms"),
    ];
    for (capacity, errors, errors_together, goals) in cases {
        let name = format!("{capacity}/s, errors {errors} by {errors_together}, {goals}");
        let of = |seed: u64| {
            let lowest = Rate::per_second(capacity / (7.0 + seed as f64 / 20.0)).expect("finite");
            // Some are capped below the capacity.
            let cap = (seed % 4 == 3).then(|| Rate::per_second(0.8 * capacity).expect("finite"));
            let settings = SearchSettings { lowest, cap, ..SearchSettings::new(quick) };
            let anomalies = Anomalies { errors, errors_together, ..Anomalies::default() };
            trace(fluid(capacity, anomalies, seed), &settings, &[slo(goals)], seed)
        };
        if name.contains(only) {
            line(report, &name, &each_seed(0..30, of));
        }
    }
    // Several objectives.
    let slos = [slo("p99<50ms"), slo("p99<20ms"), slo("p99.9<100ms,errors<0.1%")];
    for kind in kinds::servers().iter().filter(|kind| kind.name.contains(only)) {
        let of = |seed: u64| {
            let world = kind.world(seed ^ 0x60A1, Nanos(2 * usual(quick).0));
            trace(world, &settings(quick, seed), &slos, seed)
        };
        line(report, &format!("3 objectives, {}", kind.name), &each_seed(0..10, of));
    }
}
