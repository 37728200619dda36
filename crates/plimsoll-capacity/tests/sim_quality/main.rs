//! Quality of the search: thousands of whole searches against simulated servers whose capacity is
//! known, with the very code that judges real ones. `cargo xtask simulate` writes the tables.

mod faults;
mod kinds;
mod methods;
mod score;
mod speeds;
mod table;
mod trace;

use plimsoll_capacity::{Context, Mode, SearchSettings, judge};
use plimsoll_model::Nanos;
use plimsoll_model::slo::Slo;
use plimsoll_model::trial::{Phase, Recovery, TrialRequest, Verdict};
use testkit::Generator;

use faults::fault_score;
use kinds::{CAPACITY_PER_S, Kind, Truth};
use methods::{Method, Sut, plimsoll, usual};
use score::{Score, quantile, score};
use table::Alarms;

const STANDARD: Method = Method::Plimsoll(Mode::Standard);

fn kind(name: &str) -> Kind {
    let mut all = kinds::servers().into_iter().chain(speeds::hosts());
    all.find(|kind| kind.name == name).expect("a kind of that name")
}

/// Searches of each kind in a test; docs/explanation/search-quality.md rests on a thousand.
const SEEDS: u64 = 20;

#[test]
fn a_stated_interval_holds_the_truth_and_is_hardly_ever_far_off() {
    let (mut stated, mut contained, mut wrong, mut steady, mut unsettled) = (0, 0, 0, 0, 0);
    for kind in kinds::servers() {
        let score = score(&kind, Method::Plimsoll(Mode::Quick), 0..SEEDS, false);
        let text = format!(
            "{}: {} of {SEEDS} stated, {} hold the truth; {} wrong, {} unstable, {} undecided",
            kind.name, score.stated, score.contained, score.wrong, score.unstable, score.undecided,
        );
        // One in five intervals lies between the capacities of a server that has two.
        let missed_max = if kind.truth == Truth::AnyRegime { 4 } else { 3 };
        assert!(score.wrong <= 1 && score.contained + missed_max >= score.stated, "{text}");
        let settings = SearchSettings::new(Mode::Quick);
        // A slow server gets the time that its operations take.
        let slow = Nanos::from_secs(if kind.capacity_per_s < 100.0 { 300 } else { 0 });
        let most = settings.budget + settings.extension.max(slow);
        assert!(quantile(&score.spent, 1.0) <= most, "{text}");
        assert_few_alarms(&kind, &score);
        stated += score.stated;
        contained += score.contained;
        wrong += score.wrong;
        if kind.is_steady {
            steady += score.searches;
            unsettled += score.unstable + score.undecided;
            assert!(score.unstable + score.undecided <= 3, "{text}");
        }
    }
    assert!(contained * 100 >= 88 * stated, "{contained} of {stated} hold the truth");
    assert!(wrong * 100 < stated, "{wrong} of {stated} are wrong");
    assert!(unsettled * 100 <= 5 * steady, "{unsettled} of {steady} state no interval");
}

#[test]
fn a_search_of_a_minute_keeps_its_promise() {
    let all = kinds::servers().into_iter().chain(speeds::hosts());
    let kinds: Vec<Kind> = all
        .filter(|kind| {
            [
                "hard cap",
                "noise 5 % by trial",
                "warm-up within 15 s of load",
                "metastable",
                "a neighbour takes half for 10 s of 30",
            ]
            .contains(&&*kind.name)
        })
        .collect();
    assert_eq!(kinds.len(), 5);
    for kind in kinds {
        let score = score(&kind, Method::Within(Nanos::from_secs(60)), 0..SEEDS, false);
        let text = format!(
            "{}: {} of {SEEDS} stated, {} hold the truth, {} wrong; {} with bounds",
            kind.name, score.stated, score.contained, score.wrong, score.bounded
        );
        assert!(score.wrong == 0 && score.bounded == score.searches, "{text}");
        if kind.is_steady {
            assert!(score.stated == score.searches, "{text}");
            assert!(score.contained * 100 >= 88 * score.stated, "{text}");
        }
    }
}

#[test]
fn a_search_that_its_user_stops_keeps_its_promise() {
    let (mut stated, mut contained) = (0, 0);
    for name in
        ["noise 5 % by trial", "two speeds, 16 % slower for 2 s of 10", "recorded speed, rough"]
    {
        let score = score(&kind(name), Method::Stopped, 0..SEEDS, false);
        let text = format!("{name}: {} of {SEEDS} stated, {} wrong", score.stated, score.wrong);
        assert!(score.wrong <= 1 && score.stated * 2 > score.searches, "{text}");
        stated += score.stated;
        contained += score.contained;
    }
    // 93 % of 400 searches of each do; three standard deviations fewer of these 42.
    assert!(contained * 100 >= 81 * stated, "{contained} of {stated} hold the truth");
}

#[test]
fn a_neighbour_that_takes_the_servers_cpu_costs_time_and_no_interval() {
    let all = kinds::servers().into_iter().chain(speeds::hosts());
    // One that is there for most of the time is a part of the machine.
    let comes_and_goes = |kind: &Kind| kind.is_observed && kind.truth == Truth::Capacity;
    for kind in all.filter(comes_and_goes) {
        let score = score(&kind, Method::Plimsoll(Mode::Quick), 0..SEEDS, false);
        let text = format!(
            "{}: {} of {SEEDS} stated, {} hold the truth",
            kind.name, score.stated, score.contained
        );
        assert!(score.stated * 10 >= 9 * score.searches, "{text}");
        assert!(score.contained * 10 >= 9 * score.stated, "{text}");
    }
}

#[test]
fn a_safe_load_is_met_by_nine_loads_of_ten_in_random_arrivals() {
    for name in ["hard cap", "hard cap, 503 beyond", "noise 1 % by trial", "noise 5 % by trial"] {
        let kind = kind(name);
        let (mut stated, mut met) = (0, 0);
        for seed in 0..12 {
            let mut world = kind.world(seed, usual(Mode::Quick));
            let found = plimsoll(&mut world, Mode::Quick, seed, &Slo::default(), &mut |_| ())
                .tipping
                .expect("ours");
            let Some(rate) = found.safe else { continue };
            assert!(found.upper.is_some_and(|upper| rate < upper), "{found:?}");
            stated += 1;
            met += (0..10)
                .filter(|seed| {
                    let duration = Mode::Quick.limits().confirm_trial;
                    let request =
                        TrialRequest { number: 1, phase: Phase::Safe, rate, duration, split: 1 };
                    let trial = kind.world(0x5AFE + seed, Nanos::MAX).run(request, None);
                    let judgement = judge(&trial, &Slo::default(), &Context::default());
                    judgement.verdict == Verdict::Good
                })
                .count();
        }
        assert!(stated >= 10 && met >= 9 * stated, "{name}: {met} of 10 * {stated}");
    }
}

#[test]
fn a_safe_load_is_found_at_slow_and_pausing_and_disturbed_servers() {
    for (name, least_percent) in [
        ("holds 20/s", 70),
        ("pause of 120 ms each 10 s", 70),
        ("a neighbour takes half for 10 s of 30, CPU times read", 85),
    ] {
        let score = score(&kind(name), Method::Plimsoll(Mode::Quick), 0..SEEDS, false);
        let text = format!("{name}: {} of {SEEDS} have a safe load", score.safe);
        assert!(score.safe * 100 >= least_percent * score.searches, "{text}");
    }
}

#[test]
fn a_safe_load_of_shorter_trials_says_so() {
    let name = "a neighbour takes half for 10 s of 30, CPU times read";
    let kind = kind(name);
    let full = Mode::Quick.limits().confirm_trial;
    let mut shorter = 0;
    for seed in 0..10 {
        let mut world = kind.world(seed, usual(Mode::Quick));
        let mut longest = Nanos::ZERO;
        let found = plimsoll(&mut world, Mode::Quick, seed, &kind.slo(), &mut |record| {
            let request = &record.measurement.request;
            if request.phase == Phase::Safe && record.judgement.verdict == Verdict::Good {
                longest = longest.max(request.duration);
            }
        });
        let tipping = found.tipping.expect("ours");
        let is_shorter = tipping.safe.is_some() && longest < full;
        let says_so = tipping.notes.iter().any(|note| note.contains(&format!("lasted {longest}")));
        assert_eq!(is_shorter, says_so, "{tipping:?}");
        shorter += u32::from(is_shorter);
    }
    assert!(shorter > 0);
}

#[test]
fn on_a_host_that_is_often_slow_half_of_the_runs_meet_little_more_than_its_slow_capacity() {
    for kind in speeds::hosts() {
        let Truth::Slow(share) = kind.truth else { continue };
        let of_runs = Kind { truth: Truth::HalfOfRuns, ..kind.clone() };
        let of_runs = of_runs.long_run_per_s(Mode::Quick.limits());
        let over = of_runs / (share * CAPACITY_PER_S) - 1.0;
        assert!((0.0..0.03).contains(&over), "{}: {over}", kind.name);
    }
}

#[test]
fn a_generator_that_is_the_limit_is_never_taken_for_the_server() {
    for fault in kinds::generators() {
        let score = fault_score(&fault, STANDARD, 0..SEEDS);
        assert_eq!(score.blamed, 0, "{score:?}");
        if fault.limit_per_s.is_finite() {
            assert_eq!(score.owned, score.searches, "{}", score.name);
        } else {
            // The server is the limit; the disturbance spoils a search now and then.
            assert!(score.owned <= 1, "{} {}", score.name, score.owned);
        }
        if let Some(share) = score.lower_share() {
            assert!((0.90..1.01).contains(&share), "{}: {share}", score.name);
        }
    }
}

#[test]
fn a_split_test_proves_that_the_generator_was_the_limit_and_lifts_it() {
    for seed in 0..20 {
        let mut world = kind("hard cap").world(seed, usual(Mode::Standard));
        if let Sut::Fluid(fluid) = &mut world {
            fluid.generator =
                Generator { capacity_per_s: 3_000.0, splits: true, ..fluid.generator };
        }
        let mut splits = 0;
        let found = plimsoll(&mut world, Mode::Standard, seed, &Slo::default(), &mut |record| {
            splits += u32::from(record.measurement.split > 1);
        });
        let (lower, upper) = (found.lower.expect("found"), found.upper.expect("found"));
        assert!(lower <= 1.02 * CAPACITY_PER_S && CAPACITY_PER_S <= 1.02 * upper, "{found:?}");
        assert!(splits > 0);
        let tipping = found.tipping.expect("ours");
        assert!(tipping.notes.iter().any(|note| note.contains("over 2 times the threads")));
    }
}

fn assert_few_alarms(kind: &Kind, score: &Score) {
    let trials: u32 = score.trials.iter().sum();
    assert!(score.invalid * 100 < trials, "{}: {} of {trials}", kind.name, score.invalid);
}

#[test]
fn fewer_than_one_trial_of_a_server_far_away_in_a_hundred_is_a_false_alarm() {
    let far = Kind {
        name: "hard cap, 20 ms away".to_owned(),
        sut: testkit::Sut {
            base: Nanos::from_millis(20),
            ..testkit::Sut::with_capacity(CAPACITY_PER_S)
        },
        ..kind("hard cap")
    };
    assert_few_alarms(&far, &score(&far, Method::Plimsoll(Mode::Quick), 0..SEEDS, false));
}

#[test]
fn the_way_back_from_an_overload_is_reported() {
    let recovery = |name: &str, seed| {
        let found = plimsoll(
            &mut kind(name).world(seed, usual(Mode::Standard)),
            Mode::Standard,
            seed,
            &Slo::default(),
            &mut |_| (),
        );
        found.tipping.expect("ours").recovery
    };
    for seed in 0..20 {
        assert_eq!(recovery("hard cap", seed), Some(Recovery::Yes));
        let slow = recovery("metastable", seed);
        assert!(
            matches!(slow, Some(Recovery::After(span)) if span > Nanos::from_secs(5)),
            "{slow:?}"
        );
    }
}

/// Returns a setting of `cargo xtask simulate`.
#[expect(clippy::disallowed_methods, reason = "a test has no flags")]
fn asked(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Prints the tables between markers, for `cargo xtask simulate`.
#[test]
#[ignore = "prints tables; cargo xtask simulate runs it"]
#[expect(clippy::disallowed_macros, reason = "its output is what it is for")]
fn tables() {
    let number =
        |name, usual| asked(name).map_or(usual, |text| text.parse().expect("a whole number"));
    let first = number("SIMULATE_FIRST", 0);
    let seeds = first..first + number("SIMULATE_SEEDS", 1_000);
    let budgets = first..first + number("SIMULATE_BUDGET_SEEDS", 1_000);
    let standard = first..first + number("SIMULATE_STANDARD_SEEDS", 1_000);
    let only = asked("SIMULATE_ONLY").unwrap_or_default();
    let is_asked = |name: &str| only.split('|').any(|word| name.contains(word));
    let named = |kinds: Vec<Kind>| -> Vec<Kind> {
        kinds.into_iter().filter(|kind| is_asked(&kind.name)).collect()
    };
    let (kinds, hosts) = (named(kinds::servers()), named(speeds::hosts()));
    let mut alarms = Alarms::default();
    if !seeds.is_empty() {
        println!("<!-- quick -->\n{}<!-- end -->", table::quick(&kinds, &seeds, &mut alarms));
        println!("<!-- hosts -->\n{}<!-- end -->", table::quick(&hosts, &seeds, &mut alarms));
    }
    let stopped = first..first + number("SIMULATE_STOPPED_SEEDS", 1_000);
    let all = [&kinds[..], &hosts[..]].concat();
    if !stopped.is_empty() {
        let text = table::stopped(&all, &stopped, &mut alarms);
        println!("<!-- stopped -->\n{text}<!-- end -->");
    }
    if !budgets.is_empty() {
        let text = table::budgets(&all, &budgets, &mut alarms);
        println!("<!-- budgets -->\n{text}<!-- end -->");
    }
    if !standard.is_empty() {
        let text = table::standard(&kinds, &standard, &mut alarms);
        println!("<!-- standard -->\n{text}<!-- end -->");
    }
    println!(
        "<!-- alarms -->\nTrials of a generator without faults that were called INVALID: \
         {} of {}.\n<!-- end -->",
        alarms.invalid, alarms.trials
    );
    if standard.is_empty() {
        return;
    }
    let mut scores = Vec::new();
    for fault in kinds::generators().into_iter().filter(|fault| is_asked(fault.name)) {
        for method in [STANDARD, Method::Bisection(Mode::Standard)] {
            scores.push(fault_score(&fault, method, standard.clone()));
        }
    }
    println!("<!-- generators -->\n{}<!-- end -->", table::generators(&scores));
}

/// Prints a hash of all decisions for each kind of search: first without the reasons of the outcome,
/// then with them. `TRACE_DIR` names a directory for the traces themselves.
#[test]
#[ignore = "prints hashes to compare two versions of the search by"]
#[expect(clippy::disallowed_macros, reason = "its output is what it is for")]
fn decisions() {
    let directory = asked("TRACE_DIR");
    trace::traces(&asked("SIMULATE_ONLY").unwrap_or_default(), &mut |line, whole| {
        println!("{line}");
        if let Some(directory) = &directory {
            let name = line[42..].replace(['/', ' '], "_");
            std::fs::write(format!("{directory}/{name}"), whole).expect("a writable directory");
        }
    });
}
