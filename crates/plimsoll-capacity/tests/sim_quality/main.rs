//! How good is the search? Thousands of whole searches against simulated servers whose capacity is
//! known, with the very code that judges real ones. `cargo xtask simulate` writes the tables.

mod faults;
mod kinds;
mod methods;
mod score;
mod table;

use plimsoll_capacity::Mode;
use plimsoll_model::Nanos;
use plimsoll_model::trial::Recovery;
use testkit::{Generator, Sut};

use faults::{false_alarms, fault_score};
use kinds::{CAPACITY_PER_S, Kind};
use methods::{Method, plimsoll};
use score::{quantile, scores};

const STANDARD: Method = Method::Plimsoll(Mode::Standard);

fn kind(name: &str) -> Kind {
    kinds::servers().into_iter().find(|kind| kind.name == name).expect("a kind of that name")
}

/// 1,000 searches: how many percent within one width at least, and trials in the median at most.
#[track_caller]
fn check(name: &str, contained_percent: f64, near_percent: f64, trials: u32) {
    let [score] = scores(&kind(name), [STANDARD], 1_000);
    let text = format!(
        "{name}: {:.1} % contained, {:.1} % within one width, median {} trials, error {:.4}, \
         width {:.3}, {} of trial time",
        score.contained_percent(),
        score.near_percent(),
        quantile(&score.trials, 0.5),
        quantile(&score.errors, 0.5),
        quantile(&score.widths, 0.5),
        quantile(&score.spent, 0.5),
    );
    assert!(score.contained_percent() >= contained_percent, "{text}");
    assert!(score.near_percent() >= near_percent, "{text}");
    assert!(quantile(&score.trials, 0.5) <= trials, "{text}");
    assert!(quantile(&score.spent, 0.9) <= Nanos::from_secs(600), "{text}");
}

#[test]
fn a_hard_cap_is_found_however_overload_shows() {
    check("hard cap", 93.0, 100.0, 22);
    check("hard cap, 503 beyond", 93.0, 100.0, 22);
    check("hard cap, silent drops", 93.0, 100.0, 22);
}

#[test]
fn a_lower_bound_is_never_a_tenth_of_a_percent_too_high() {
    let [score] = scores(&kind("hard cap"), [STANDARD], 1_000);
    assert!(score.over_max < 0.001, "{}", score.over_max);
}

#[test]
fn capacity_that_differs_from_trial_to_trial_is_found_within_its_noise() {
    check("noise 1 % by trial", 70.0, 99.0, 25);
    check("noise 5 % by trial", 80.0, 95.0, 25);
    check("noise 10 % by trial", 80.0, 95.0, 25);
}

#[test]
fn capacity_that_wanders_within_a_trial_is_found() {
    check("noise 1 % within", 90.0, 99.0, 25);
    check("noise 5 % within", 80.0, 99.0, 25);
    check("noise 10 % within", 75.0, 99.0, 25);
}

#[test]
fn stalls_leaks_and_timers_do_not_lead_astray() {
    check("stall in 1 of 10 trials", 85.0, 95.0, 25);
    check("leak by time", 60.0, 99.0, 25);
    check("leak by requests", 50.0, 99.0, 25);
    check("hidden timer 30 s", 93.0, 100.0, 25);
}

#[test]
fn a_server_that_stays_slow_after_an_overload_is_waited_for() {
    check("metastable", 90.0, 98.0, 25);
}

#[test]
fn interval_and_truth_in_the_other_modes() {
    for (mode, near) in [(Mode::Quick, 95.0), (Mode::Strict, 99.0)] {
        for name in ["hard cap", "noise 1 % by trial"] {
            let [score] = scores(&kind(name), [Method::Plimsoll(mode)], 200);
            let text = format!("{mode}, {name}: {score:?}");
            assert!(score.near_percent() >= near, "{text}");
            if name == "hard cap" {
                assert!(quantile(&score.widths, 1.0) <= mode.limits().width_max + 1e-9, "{text}");
            }
            assert!(quantile(&score.spent, 0.99) <= mode.limits().budget, "{text}");
        }
    }
}

#[test]
fn the_search_is_better_than_those_that_people_write() {
    for name in ["noise 5 % by trial", "stall in 1 of 10 trials", "metastable"] {
        let methods =
            [STANDARD, Method::Bisection(Mode::Standard), Method::Staircase(Mode::Standard, 25)];
        let [ours, bisection, staircase] = scores(&kind(name), methods, 300);
        for other in [bisection, staircase] {
            assert!(ours.contained > other.contained && ours.near > other.near, "{name}");
        }
    }
}

#[test]
fn a_generator_that_is_the_limit_is_never_taken_for_the_server() {
    for fault in kinds::generators() {
        let score = fault_score(&fault, STANDARD, 500);
        assert_eq!(score.blamed, 0, "{score:?}");
        if fault.limit_per_s.is_finite() {
            assert_eq!(score.owned, score.searches, "{}", score.name);
        } else {
            // The server is the limit; the disturbance spoils a search now and then.
            assert!(score.owned * 100 <= 20 * score.searches, "{} {}", score.name, score.owned);
        }
        if let Some(share) = score.lower_share() {
            assert!((0.90..1.01).contains(&share), "{}: {share}", score.name);
        }
    }
}

#[test]
fn a_split_test_proves_that_the_generator_was_the_limit_and_lifts_it() {
    for seed in 0..50 {
        let mut world = kind("hard cap").world(seed);
        world.generator = Generator { capacity_per_s: 3_000.0, splits: true, ..world.generator };
        let mut splits = 0;
        let found = plimsoll(&mut world, Mode::Standard, seed, &mut |record| {
            splits += u32::from(record.measurement.split > 1);
        });
        let (lower, upper) = (found.lower.expect("found"), found.upper.expect("found"));
        assert!(lower <= 1.02 * CAPACITY_PER_S && CAPACITY_PER_S <= 1.02 * upper, "{found:?}");
        assert!(splits > 0);
        let tipping = found.tipping.expect("ours");
        assert!(tipping.notes.iter().any(|note| note.contains("over 2 times the threads")));
    }
}

#[test]
fn fewer_than_one_trial_in_a_hundred_is_a_false_alarm() {
    let far = Kind {
        name: "hard cap, 20 ms away",
        sut: Sut { base: Nanos::from_millis(20), ..Sut::with_capacity(CAPACITY_PER_S) },
        ..kind("hard cap")
    };
    for kind in kinds::servers().into_iter().chain([far]) {
        let (invalid, trials) = false_alarms(&kind, STANDARD, 200);
        assert!(invalid * 100 < trials, "{}: {invalid} of {trials} trials", kind.name);
    }
}

#[test]
fn the_way_back_from_an_overload_is_reported() {
    let recovery = |name: &str, seed| {
        let found = plimsoll(&mut kind(name).world(seed), Mode::Standard, seed, &mut |_| ());
        found.tipping.expect("ours").recovery
    };
    for seed in 0..50 {
        assert_eq!(recovery("hard cap", seed), Some(Recovery::Yes));
        let slow = recovery("metastable", seed);
        assert!(
            matches!(slow, Some(Recovery::After(span)) if span > Nanos::from_secs(5)),
            "{slow:?}"
        );
    }
}

/// Prints the tables between markers, for `cargo xtask simulate`.
#[test]
#[ignore = "prints tables; cargo xtask simulate runs it"]
#[expect(clippy::disallowed_macros, reason = "its output is what it is for")]
fn tables() {
    const SEEDS: u64 = 1_000;
    println!("<!-- servers -->\n{}<!-- end -->", table::servers(&kinds::servers(), SEEDS));
    let mut scores = Vec::new();
    for fault in kinds::generators() {
        for method in [STANDARD, Method::Bisection(Mode::Standard)] {
            scores.push(fault_score(&fault, method, SEEDS));
        }
    }
    println!("<!-- generators -->\n{}<!-- end -->", table::generators(&scores));
    let (mut invalid, mut trials) = (0, 0);
    for kind in kinds::servers() {
        let alarms = false_alarms(&kind, STANDARD, SEEDS);
        invalid += alarms.0;
        trials += alarms.1;
    }
    println!(
        "<!-- alarms -->\nTrials of a generator without faults that were called INVALID: \
         {invalid} of {trials}.\n<!-- end -->"
    );
}
