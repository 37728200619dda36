//! Scripted servers: what the search asks for, and what it concludes.

use proptest::prelude::*;

use plimsoll_model::ErrorClass;
use plimsoll_model::observation::{HalfWindow, Observations};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Confirmations, Recovery, Stopped, Unsettled};

use super::policy::{OVERSHOOT_MAX, SLOW_EXTENSION};
use super::*;

mod changing;

fn rate(per_s: f64) -> Rate {
    Rate::per_second(per_s).expect("finite")
}

/// A measurement of a whole trial, of which nothing is known but `tally`.
pub(super) fn measured(request: TrialRequest, tally: Tally) -> TrialMeasurement {
    TrialMeasurement {
        seconds: Vec::new(),
        request,
        window: request.duration,
        aborted: false,
        tally,
        sut_busiest_thread: None,
        split: request.split,
        observations: Observations::default(),
    }
}

/// A measurement with the asked verdict and nothing else of interest.
fn answer(request: TrialRequest, verdict: Verdict) -> TrialMeasurement {
    let ops = (request.rate.get() * request.duration.as_secs_f64()).round() as u64;
    let mut tally = Tally { scheduled: ops, ok: ops, ..Tally::default() };
    let latency_ms = if verdict == Verdict::Bad { 200 } else { 1 };
    tally.spans.corrected.record_n(Nanos::from_millis(latency_ms), ops);
    tally.spans.uncorrected.record_n(Nanos::from_millis(1), ops);
    if verdict == Verdict::Invalid {
        tally.ok -= 1;
    }
    measured(request, tally)
}

/// Every trial with its verdict, and the end.
struct Run {
    trials: Vec<(TrialRequest, Verdict)>,
    tipping: TippingPoint,
    spent: Nanos,
}

fn run(settings: SearchSettings, mut world: impl FnMut(&TrialRequest) -> Verdict) -> Run {
    let mut search = RateSearch::new(settings, Slo::default());
    let mut trials = Vec::new();
    let mut spent = Nanos::ZERO;
    loop {
        match search.next_step() {
            SearchStep::Trial(request) => {
                assert_eq!(
                    search.next_step(),
                    SearchStep::Trial(request),
                    "asking twice changes nothing"
                );
                spent = spent + search.rest() + request.duration;
                let verdict = world(&request);
                let record = search.handle_result(answer(request, verdict));
                assert_eq!(record.judgement.verdict, verdict);
                trials.push((request, verdict));
            }
            SearchStep::Done(tipping) => {
                assert_eq!(search.next_step(), SearchStep::Done(tipping.clone()));
                assert_eq!(search.handle_stop(Stopped::LoadEnded), tipping);
                return Run { trials, tipping, spent };
            }
        }
    }
}

fn knee(at: f64) -> impl FnMut(&TrialRequest) -> Verdict {
    move |request| if request.rate.get() <= at { Verdict::Good } else { Verdict::Bad }
}

#[test]
fn a_sharp_knee_is_found_in_every_mode() {
    for (mode, trials_max) in [(Mode::Quick, 40), (Mode::Standard, 50), (Mode::Strict, 75)] {
        let Run { trials, tipping, spent } = run(SearchSettings::new(mode), knee(12_345.0));
        assert_eq!(tipping.outcome, Outcome::Regular, "{mode}: {tipping:?}");
        let (lower, upper) = (tipping.lower.expect("found"), tipping.upper.expect("found"));
        assert!(lower.get() <= 12_345.0 && 12_345.0 < upper.get(), "{mode} {lower} {upper}");
        // A budget is promised, not a width.
        assert!(tipping.width().expect("both") <= 2.0 * mode.limits().width_max, "{mode}");
        assert!(trials.len() <= trials_max, "{mode} took {} trials", trials.len());
        assert!(spent <= mode.limits().budget, "{mode} took {spent}");
        assert_eq!(tipping.conditional_throughput, Some(lower));
        assert_eq!((tipping.trials, tipping.invalid_trials), (trials.len() as u32, 0));
        // From below: nothing above the first BAD load, which is less than twice the knee.
        let highest = trials.iter().map(|(request, _)| request.rate.get()).fold(0.0, f64::max);
        assert!(highest < 2.0 * 12_345.0);
    }
}

#[test]
fn an_answer_can_be_asked_for_after_every_trial() {
    let mut search = RateSearch::new(SearchSettings::new(Mode::Quick), Slo::default());
    let mut world = knee(700.0);
    let mut answers = Vec::new();
    let found = loop {
        match search.next_step() {
            SearchStep::Done(tipping) => break tipping,
            SearchStep::Trial(request) => {
                search.handle_result(answer(request, world(&request)));
                let so_far = search.answer();
                assert_eq!(so_far.trials, request.number);
                answers.push((request.phase, so_far));
            }
        }
    };
    let (_, first) = &answers[0];
    assert_eq!(first.outcome, Outcome::Undecided { why: Unsettled::OneBound });
    let narrowed = answers.iter().rev().find(|(phase, _)| *phase == Phase::Narrow);
    let lacking = Outcome::Bounds { why: Unsettled::NotConfirmed { good: 0, bad: 0 } };
    assert_eq!(narrowed.map(|(_, so_far)| &so_far.outcome), Some(&lacking));
    let confirmed = answers.iter().find(|(phase, _)| *phase == Phase::Confirm).expect("confirmed");
    assert_eq!(confirmed.1.outcome, Outcome::Regular);
    assert!(confirmed.1.confirmed.is_some() && confirmed.1.confirmations.good == 1);
    assert_eq!(answers.last().map(|(_, so_far)| so_far), Some(&found));
    assert_eq!(search.answer(), found);
}

#[test]
fn the_answer_so_far_reaches_up_to_the_highest_load_that_held() {
    let limits = SearchSettings::new(Mode::Quick);
    let mut search = RateSearch::new(limits, Slo::default());
    let mut world = knee(50_000.0);
    let (mut highest, mut lowest_missed) = (0.0_f64, f64::INFINITY);
    while let SearchStep::Trial(request) = search.next_step()
        && request.phase != Phase::Confirm
    {
        let verdict = world(&request);
        search.handle_result(answer(request, verdict));
        let load = request.rate.get();
        match verdict {
            Verdict::Good => highest = highest.max(load),
            _ => lowest_missed = lowest_missed.min(load),
        }
        let so_far = search.answer();
        if so_far.confidence.is_none() {
            assert_eq!(so_far.lower.map(Rate::get), Some(highest), "{:?}", so_far.outcome);
            // Time makes an interval narrower, and not the distance of two loads.
            assert_eq!(so_far.outlook.expect("a search in progress").width, None);
        }
    }
    assert!(highest < lowest_missed && lowest_missed.is_finite());
    let stopped = search.handle_stop(Stopped::Interrupted);
    assert!(stopped.lower.is_some_and(|lower| lower.get() > 0.9 * highest), "{stopped:?}");
}

#[test]
fn two_searches_use_the_same_loads() {
    let loads = |at| {
        let trials = run(SearchSettings::new(Mode::Quick), knee(at)).trials;
        trials.iter().map(|(request, _)| request.rate.get()).collect::<Vec<_>>()
    };
    assert_eq!(loads(5_000.0), loads(5_001.0));
}

#[test]
fn the_phases_follow_each_other() {
    let trials = run(SearchSettings::new(Mode::Quick), knee(700.0)).trials;
    let loads = |phase| -> Vec<f64> {
        let of_phase = trials.iter().filter(|(request, _)| request.phase == phase);
        of_phase.map(|(request, _)| request.rate.get()).collect()
    };
    assert_eq!(loads(Phase::Qualify), [100.0]);
    // The first BAD load is tried once more.
    assert_eq!(loads(Phase::Expand), [200.0, 400.0, 800.0, 800.0]);
    assert_eq!(loads(Phase::Confirm).len(), 1);
    let numbers: Vec<u32> = trials.iter().map(|(request, _)| request.number).collect();
    assert_eq!(numbers, (1..=trials.len() as u32).collect::<Vec<_>>());
}

#[test]
fn an_idle_server_is_approached_in_larger_steps() {
    let mut search = RateSearch::new(SearchSettings::new(Mode::Quick), Slo::default());
    let mut loads = Vec::new();
    while let SearchStep::Trial(request) = search.next_step() {
        if loads.len() == 5 {
            break;
        }
        loads.push(request.rate.get());
        let mut measurement = answer(request, Verdict::Good);
        measurement.sut_busiest_thread = Some(request.rate.get() / 20_000.0);
        search.handle_result(measurement);
    }
    assert_eq!(loads, [100.0, 400.0, 1_600.0, 6_400.0, 12_800.0]);
}

#[test]
fn irregular_ends_say_what_was_reached() {
    let quick = || SearchSettings::new(Mode::Quick);
    let fails = run(SearchSettings { floor: rate(100.0), ..quick() }, knee(50.0)).tipping;
    assert_eq!(fails.outcome, Outcome::FailsAtMinimum);
    assert_eq!((fails.lower, fails.upper), (None, Some(rate(100.0))));

    let capped = run(SearchSettings { cap: Some(rate(500.0)), ..quick() }, knee(9e9)).tipping;
    assert_eq!(capped.outcome, Outcome::NotReached { cap: "--max (500/s)".to_owned() });
    assert_eq!((capped.lower, capped.upper), (Some(rate(500.0)), None));
    // What the generator reaches alone caps the search, too, and then it is said to be the limit.
    let alone = |per_s| SearchSettings { reference: Some(rate(per_s)), ..quick() };
    let limited = run(alone(1_000.0), knee(9e9)).tipping;
    let Outcome::GeneratorLimited { why } = &limited.outcome else { panic!("{limited:?}") };
    assert!(why.contains("80 % of the 1,000/s"), "{why}");
    assert_eq!((limited.lower, limited.upper), (Some(rate(800.0)), None));
    let below = SearchSettings { cap: Some(rate(500.0)), ..alone(1_000.0) };
    assert!(matches!(run(below, knee(9e9)).tipping.outcome, Outcome::NotReached { .. }));
    let found = run(alone(1_000.0), knee(700.0));
    assert_eq!(found.tipping.outcome, Outcome::Regular);
    assert!(found.trials.iter().all(|(request, _)| request.rate <= rate(800.0)));

    let limited =
        run(
            quick(),
            |request| {
                if request.rate.get() > 1_000.0 { Verdict::Invalid } else { Verdict::Good }
            },
        );
    let Outcome::GeneratorLimited { why } = &limited.tipping.outcome else {
        panic!("{:?}", limited.tipping)
    };
    assert_eq!(why, "accounting");
    let lower = limited.tipping.lower.expect("found").get();
    assert!((900.0..=1_000.0).contains(&lower) && limited.tipping.upper.is_none(), "{lower}");
    assert!(limited.tipping.invalid_trials % 2 == 0);

    let unusable = run(quick(), |_| Verdict::Invalid).tipping;
    assert!(matches!(unusable.outcome, Outcome::GeneratorLimited { .. }));
    assert_eq!((unusable.lower, unusable.invalid_trials), (None, 4));

    let short = SearchSettings { trials_max: 5, ..quick() };
    let tipping = run(short, knee(9e9)).tipping;
    // The highest load that was met is known, and nothing above it.
    assert_eq!(tipping.outcome, Outcome::Bounds { why: Unsettled::Trials { most: 5 } });
    assert!(tipping.met.is_some() && tipping.upper.is_none() && tipping.confidence.is_none());
}

#[test]
fn the_highest_load_is_met_only_by_operations_enough_for_every_goal() {
    let capped = |budget_s| {
        let settings = SearchSettings {
            cap: Some(rate(20.0)),
            budget: Nanos::from_secs(budget_s),
            ..SearchSettings::new(Mode::Quick)
        };
        let Run { trials, tipping, .. } = run(settings, knee(9e9));
        let at_cap = trials.iter().filter(|(request, _)| request.rate == rate(20.0));
        let ops: f64 = at_cap.map(|(request, _)| 20.0 * request.duration.as_secs_f64()).sum();
        (tipping, ops)
    };
    let (met, ops) = capped(1_000);
    assert!(matches!(met.outcome, Outcome::NotReached { .. }), "{met:?}");
    assert!((3_000.0..3_500.0).contains(&ops), "{ops}");
    let (open, _) = capped(100);
    let Outcome::Bounds { why } = &open.outcome else { panic!("{open:?}") };
    assert!(matches!(why, Unsettled::GoalOpen { bad: 0, is_cap: true, .. }), "{why:?}");
    assert_eq!((open.lower, open.confidence), (Some(rate(20.0)), None));
}

#[test]
fn a_tipping_point_just_below_the_generators_ceiling_is_found() {
    let Run { tipping, .. } =
        run(SearchSettings::new(Mode::Quick), |request| match request.rate.get() {
            ..=1_000.0 => Verdict::Good,
            ..=1_300.0 => Verdict::Bad,
            _ => Verdict::Invalid,
        });
    assert_eq!(tipping.outcome, Outcome::Regular);
    assert!(tipping.lower <= Some(rate(1_000.0)) && Some(rate(1_000.0)) < tipping.upper);
}

#[test]
fn a_stop_keeps_the_bounds() {
    let mut search = RateSearch::new(SearchSettings::new(Mode::Quick), Slo::default());
    for _ in 0..3 {
        let SearchStep::Trial(request) = search.next_step() else { panic!("not so soon") };
        search.handle_result(answer(request, Verdict::Good));
    }
    let SearchStep::Trial(_) = search.next_step() else { panic!("not so soon") };
    let tipping = search.handle_stop(Stopped::Interrupted);
    assert_eq!(tipping.outcome, Outcome::Unfinished { why: Stopped::Interrupted });
    assert_eq!((tipping.lower, tipping.upper), (Some(rate(400.0)), None));
    assert_eq!(search.next_step(), SearchStep::Done(tipping));
}

/// A search of a server that answers `carries` operations a second, and fails the rest.
fn run_shedding(carries: f64) -> (f64, TippingPoint) {
    // At 30/s, 3,000 operations without a failure take longer than a quick search.
    let budget = Nanos::from_secs(1_000);
    let settings = SearchSettings { budget, ..SearchSettings::new(Mode::Quick) };
    let mut search = RateSearch::new(settings, Slo::default());
    let mut least = f64::MAX;
    loop {
        match search.next_step() {
            SearchStep::Done(tipping) => return (least, tipping),
            SearchStep::Trial(request) => {
                least = least.min(request.rate.get());
                let mut seen = answer(request, Verdict::Good);
                let ok = (carries * request.duration.as_secs_f64()) as u64;
                let failed = seen.tally.scheduled.saturating_sub(ok);
                seen.tally.ok -= failed;
                seen.tally.failures.operations.add(ErrorClass::Status5xx, failed);
                seen.tally.answers.status.add(503, failed);
                seen.tally.answers.status.add(200, seen.tally.ok);
                for span in [&mut seen.tally.spans.corrected, &mut seen.tally.spans.uncorrected] {
                    span.clear();
                    span.record_n(Nanos::from_millis(1), seen.tally.ok);
                }
                search.handle_result(seen);
            }
        }
    }
}

#[test]
fn a_first_load_that_is_missed_is_left_downwards_where_that_helps() {
    let (least, found) = run_shedding(30.0);
    assert_eq!(found.outcome, Outcome::Regular, "{found:?}");
    let (lower, upper) = (found.lower.expect("found"), found.upper.expect("found"));
    assert!(lower <= rate(30.0) && rate(30.0) < upper && least == 25.0, "{lower} {upper}");
    let (least, fails) = run_shedding(0.5);
    assert_eq!((least, fails.outcome), (1.0, Outcome::FailsAtMinimum));
    // Every operation is late at any load: a second load shows that.
    let late = run(SearchSettings::new(Mode::Quick), |_| Verdict::Bad);
    assert_eq!((late.tipping.outcome, late.trials.len()), (Outcome::FailsAtMinimum, 6));
}

/// An answer after `ms` in the mean, with halves that differ if it is warming up.
fn warming(request: TrialRequest, verdict: Verdict, ms: u64) -> TrialMeasurement {
    let mut seen = answer(request, verdict);
    seen.tally.spans.uncorrected.clear();
    seen.tally.spans.uncorrected.record_n(Nanos::from_millis(ms), seen.tally.ok);
    let half = |ms| HalfWindow { p50: Nanos::from_millis(ms), completed: request.rate };
    seen.observations.halves = Some([half(ms), half(if ms > 1 { ms / 2 } else { ms })]);
    seen
}

#[test]
fn a_cold_server_is_loaded_until_its_halves_agree_and_is_not_the_unloaded_one() {
    let mut search = RateSearch::new(SearchSettings::new(Mode::Quick), Slo::default());
    let mut qualified = 0;
    let mut own_ms = 40;
    loop {
        let SearchStep::Trial(request) = search.next_step() else { panic!("over") };
        if request.rate > rate(1_000.0) {
            // Its queue is full, and so is the pool.
            let mut seen = warming(request, Verdict::Bad, 30);
            seen.observations.halves = None;
            seen.tally.pool_exhausted = 1_000;
            let judgement = search.handle_result(seen).judgement;
            assert_eq!(judgement.verdict, Verdict::Bad, "{judgement:?}");
            break;
        }
        qualified += u32::from(request.phase == Phase::Qualify);
        search.handle_result(warming(request, Verdict::Good, own_ms));
        own_ms = (own_ms / 2).max(1);
    }
    // 40, 20, 10, 5 ms, and then no more.
    assert_eq!(qualified, 5);
}

/// No operation is answered any more.
fn silence(request: TrialRequest) -> TrialMeasurement {
    let ops = (request.rate.get() * request.duration.as_secs_f64()).round() as u64;
    let mut tally = Tally { scheduled: ops, ..Tally::default() };
    tally.failures.operations.add(ErrorClass::ConnectRefused, ops);
    TrialMeasurement { tally, ..answer(request, Verdict::Bad) }
}

/// A search against a server with a knee at 700/s that dies in the trial `last`, at its end or in
/// the middle of it, and is away for `away` trials.
fn search_with_a_death(last: u32, in_the_middle: bool, away: u32) -> (RateSearch, TippingPoint) {
    let mut search = RateSearch::new(SearchSettings::new(Mode::Quick), Slo::default());
    loop {
        match search.next_step() {
            SearchStep::Done(tipping) => return (search, tipping),
            SearchStep::Trial(request) => {
                let number = request.number;
                let verdict = match knee(700.0)(&request) {
                    _ if number == last && in_the_middle => Verdict::Bad,
                    verdict => verdict,
                };
                let is_away = number > last && number - last <= away;
                let seen = if is_away { silence(request) } else { answer(request, verdict) };
                search.handle_result(seen);
            }
        }
    }
}

#[test]
fn a_server_that_vanishes_is_told_from_one_that_is_overloaded() {
    let whole = run(SearchSettings::new(Mode::Quick), knee(700.0));
    let described = |(request, _): &&(TrialRequest, Verdict)| request.phase.moves_bounds();
    let judged = whole.trials.iter().filter(described).count() as u32;
    for last in 1..judged {
        for in_the_middle in [false, last > 1] {
            let (search, tipping) = search_with_a_death(last, in_the_middle, u32::MAX);
            let what = format!("{last} {in_the_middle}: {tipping:?}");
            let Outcome::Unfinished { why } = &tipping.outcome else { panic!("{what}") };
            let Stopped::Silent { class, checks, checks_load, .. } = why else { panic!("{what}") };
            assert_eq!((*class, *checks), (Some(ErrorClass::ConnectRefused), 4), "{what}");
            assert_eq!(*checks_load, rate(100.0), "{what}");
            assert!(search.is_sut_gone(), "{what}");
            // What was known before it died, and nothing that its death made look BAD.
            assert!(tipping.lower.is_some_and(|lower| lower <= rate(700.0)), "{what}");
            assert!(tipping.upper.is_none_or(|upper| upper > rate(700.0)), "{what}");
        }
    }
}

#[test]
fn a_server_that_comes_back_is_searched_on() {
    for last in 2..12 {
        for away in 1..=4 {
            let (search, tipping) = search_with_a_death(last, false, away);
            assert_eq!(tipping.outcome, Outcome::Regular, "{last} {away}");
            assert!(!search.is_sut_gone(), "{last} {away}");
            let (lower, upper) = (tipping.lower.expect("found"), tipping.upper.expect("found"));
            assert!(lower <= rate(700.0) && rate(700.0) < upper, "{last} {away}: {tipping:?}");
        }
    }
}

#[test]
fn one_invalid_trial_is_repeated_and_changes_nothing_else() {
    // INVALID trials take time, too.
    let ample =
        SearchSettings { budget: Nanos::from_secs(1_000), ..SearchSettings::new(Mode::Quick) };
    let plain = run(ample.clone(), knee(3_000.0));
    let mut world = knee(3_000.0);
    let disturbed = run(ample, |request| {
        let described = !request.phase.moves_bounds();
        if request.number % 4 == 0 && !described { Verdict::Invalid } else { world(request) }
    });
    assert_eq!(disturbed.tipping.outcome, Outcome::Regular);
    assert_eq!(disturbed.tipping.lower, plain.tipping.lower);
    assert_eq!(disturbed.tipping.upper, plain.tipping.upper);
    let valid = disturbed.trials.iter().filter(|(_, verdict)| *verdict != Verdict::Invalid);
    let loads: Vec<_> = valid.map(|(request, _)| (request.rate, request.duration)).collect();
    let plain_loads: Vec<_> =
        plain.trials.iter().map(|(request, _)| (request.rate, request.duration)).collect();
    assert_eq!(loads, plain_loads);
}

#[test]
fn invalid_four_times_in_a_row_ends_the_search_and_the_repeat_is_a_split_test() {
    let Run { trials, tipping, .. } = run(SearchSettings::new(Mode::Standard), |request| {
        let narrow = request.phase == Phase::Narrow;
        if narrow { Verdict::Invalid } else { knee(950.0)(request) }
    });
    assert!(matches!(tipping.outcome, Outcome::GeneratorLimited { .. }), "{tipping:?}");
    assert_eq!((tipping.lower, tipping.invalid_trials), (Some(rate(800.0)), 4));
    let splits: Vec<u32> = trials.iter().rev().take(5).map(|(request, _)| request.split).collect();
    assert_eq!(splits, [2, 2, 2, 1, 1]);
    assert_eq!(trials[trials.len() - 1].0.rate, trials[trials.len() - 2].0.rate);
}

#[test]
fn a_split_that_helps_is_kept_and_told() {
    let Run { trials, tipping, .. } = run(SearchSettings::new(Mode::Quick), |request| {
        let able = request.rate.get() <= 700.0 * f64::from(request.split);
        if able { knee(1_300.0)(request) } else { Verdict::Invalid }
    });
    assert_eq!((tipping.outcome, tipping.invalid_trials), (Outcome::Regular, 2));
    assert!(tipping.notes.iter().any(|note| note.contains("2 times the threads")));
    // 1,600/s needs four times as many; from then on all have them.
    assert_eq!(trials.last().map(|(request, _)| request.split), Some(4));
}

#[test]
fn bounds_that_no_valid_trial_confirmed_are_reported_as_such() {
    let run_with = |invalid: fn(u32) -> bool| {
        let mut confirmations = 0;
        run(SearchSettings::new(Mode::Standard), move |request| {
            if request.phase == Phase::Confirm {
                confirmations += 1;
                if invalid(confirmations) {
                    return Verdict::Invalid;
                }
            }
            knee(1_000.0)(request)
        })
        .tipping
    };
    let none = run_with(|_| true);
    assert!(matches!(&none.outcome, Outcome::Unconfirmed { why } if why.contains("accounting")));
    assert!(none.lower.is_some() && none.upper.is_some() && none.recovery.is_none());
    assert_eq!(none.confirmations, Confirmations { good: 0, bad: 0, invalid: 4 });
    // One valid trial is a confirmation, if a thin one.
    let one = run_with(|number| number > 1);
    assert_eq!(one.outcome, Outcome::Regular);
    assert_eq!(one.confirmations, Confirmations { good: 1, bad: 0, invalid: 4 });
    assert!(one.notes.iter().any(|note| note.contains("1 of 3 trials only")), "{one:?}");
}

#[test]
fn after_the_tip_the_server_is_overloaded_and_asked_whether_it_comes_back() {
    let recovery = |bad_trials: u32| {
        let mut asked = 0;
        let Run { trials, tipping, .. } = run(SearchSettings::new(Mode::Quick), |request| {
            if request.phase != Phase::Recover {
                return knee(1_000.0)(request);
            }
            asked += 1;
            if asked <= bad_trials { Verdict::Bad } else { Verdict::Good }
        });
        assert_eq!(tipping.outcome, Outcome::Regular);
        let (lower, upper) = (tipping.lower.expect("found"), tipping.upper.expect("found"));
        let load = |phase| {
            let of_phase = trials.iter().find(|(request, _)| request.phase == phase);
            of_phase.expect("asked for").0.rate.get()
        };
        let over = load(Phase::Overload) / upper.get();
        assert!((1.08..1.5).contains(&over), "{over}");
        assert!((load(Phase::Recover) / lower.get() - 0.5).abs() < 1e-9);
        tipping.recovery
    };
    assert_eq!(recovery(0), Some(Recovery::Yes));
    // 3 s of trial, 3 s of rest.
    assert_eq!(recovery(1), Some(Recovery::After(Nanos::from_secs(6))));
    assert!(matches!(recovery(9), Some(Recovery::No(span)) if span > Nanos::from_secs(12)));
}

#[test]
fn an_answer_is_not_given_up_for_lack_of_trials_to_describe_it() {
    let whole = run(SearchSettings::new(Mode::Quick), knee(1_000.0));
    let trials_max = whole.trials.len() as u32 - 1;
    let short = SearchSettings { trials_max, ..SearchSettings::new(Mode::Quick) };
    let Run { tipping, .. } = run(short, knee(1_000.0));
    assert_eq!((tipping.outcome, tipping.recovery), (Outcome::Regular, None));
    assert_eq!((tipping.lower, tipping.upper), (whole.tipping.lower, whole.tipping.upper));
}

#[test]
fn a_confirmation_that_fails_once_and_passes_once_is_continued() {
    // The first confirmation is bad luck.
    let mut seen = 0;
    let Run { tipping, trials, .. } = run(SearchSettings::new(Mode::Quick), |request| {
        if request.phase == Phase::Confirm {
            seen += 1;
            return if seen == 1 { Verdict::Bad } else { knee(1_000.0)(request) };
        }
        knee(1_000.0)(request)
    });
    assert_eq!(tipping.outcome, Outcome::Regular, "{tipping:?}");
    let first = trials.iter().position(|(request, _)| request.phase == Phase::Confirm);
    let load = trials[first.expect("confirmed")].0.rate;
    let after = trials[first.expect("confirmed") + 1..].iter();
    let good = after.filter(|(t, v)| t.phase == Phase::Confirm && *v == Verdict::Good);
    // A lower load than the one that failed, or the same one more than once.
    assert!(tipping.confirmed < Some(load) || good.count() >= 2, "{tipping:?}");
}

#[test]
fn bounds_that_are_never_confirmed_are_not_claimed() {
    let never = run(SearchSettings::new(Mode::Standard), |request| {
        if request.phase == Phase::Confirm { Verdict::Bad } else { knee(1_000.0)(request) }
    });
    let undecided = matches!(
        never.tipping.outcome,
        Outcome::Undecided { .. } | Outcome::Unstable { .. } | Outcome::FailsAtMinimum
    );
    assert!(undecided, "{:?}", never.tipping);
    assert!(never.tipping.confidence.is_none() && never.tipping.safe.is_none());
}

#[test]
fn trials_near_the_tipping_point_are_as_long_as_a_confirmation() {
    let Run { trials, .. } = run(SearchSettings::new(Mode::Quick), knee(1_000.0));
    let long = Mode::Quick.limits().confirm_trial;
    let narrow = trials.iter().filter(|(request, _)| request.phase == Phase::Narrow);
    assert!(narrow.filter(|(request, _)| request.duration == long).count() >= 2);
}

#[test]
fn a_slow_server_gets_the_time_that_its_operations_take() {
    let usual = SearchSettings { lowest: rate(2.0), ..SearchSettings::new(Mode::Quick) };
    let Run { tipping, spent, .. } = run(usual.clone(), knee(20.0));
    assert_eq!(tipping.outcome, Outcome::Regular, "{tipping:?}");
    assert!(spent > usual.budget && spent <= usual.budget + Nanos::from_secs(300), "{spent}");
    // A requested budget is never extended.
    let asked = SearchSettings { extension: Nanos::ZERO, ..usual };
    let Run { tipping, spent, .. } = run(asked.clone(), knee(20.0));
    assert!(matches!(tipping.outcome, Outcome::Bounds { .. }), "{tipping:?}");
    assert!(spent <= asked.budget, "{spent}");
}

#[test]
fn an_overload_that_is_good_reopens_the_search() {
    let mut overloads = 0;
    let Run { trials, .. } = run(SearchSettings::new(Mode::Quick), |request| {
        if request.phase == Phase::Overload {
            overloads += 1;
            return if overloads == 1 { Verdict::Good } else { Verdict::Bad };
        }
        knee(1_000.0)(request)
    });
    let first = trials.iter().position(|(request, _)| request.phase == Phase::Overload);
    let after = &trials[first.expect("overloaded") + 1..];
    assert!(after.iter().any(|(request, _)| request.phase == Phase::Sentinel), "{after:?}");
}

#[test]
fn a_first_bad_load_that_was_bad_luck_is_overturned_within_twice_its_rate() {
    // The first two verdicts at 800/s are wrong.
    let mut seen = 0;
    let Run { tipping, trials, .. } = run(SearchSettings::new(Mode::Standard), |request| {
        if request.rate.get() == 800.0 && seen < 2 {
            seen += 1;
            return Verdict::Bad;
        }
        knee(950.0)(request)
    });
    let highest = trials.iter().map(|(request, _)| request.rate.get()).fold(0.0, f64::max);
    assert!(highest <= 1_600.0);
    let (lower, upper) = (tipping.lower.expect("found"), tipping.upper.expect("found"));
    assert!(lower.get() < 950.0 * 1.02 && lower < upper, "{tipping:?}");
}

#[test]
fn abort_counts_leave_a_margin_and_need_the_strictest_limit() {
    let request = TrialRequest {
        number: 1,
        phase: Phase::Narrow,
        rate: rate(1_000.0),
        duration: Nanos::from_secs(5),
        split: 1,
    };
    let of = |slo: &str| {
        let slo = slo.parse().expect("an objective");
        RateSearch::new(SearchSettings::new(Mode::Quick), slo).abort_bad_ops(&request)
    };
    // A quarter of a second at least.
    assert_eq!(of("p99<50ms,p99.9<50ms"), 250);
    assert_eq!(of("p90<50ms,errors<0.1%"), 634);
    // Late at 10 ms says nothing about 50 ms.
    assert_eq!(of("p50<10ms,p99<50ms"), 3_135);
    assert_eq!(of("errors<0.1%"), u64::MAX);
}

#[test]
fn trials_are_as_long_as_the_objective_needs() {
    struct Lengths(RateSearch);
    impl Lengths {
        fn trial_length(&self, rate: f64, shortest: Nanos) -> Nanos {
            self.0.policy.trial_length(&self.0.known(), rate, shortest)
        }
    }
    let search = |slo: &str, mode| {
        Lengths(RateSearch::new(SearchSettings::new(mode), slo.parse().expect("an objective")))
    };
    let (initial, last) = (Nanos::from_secs(3), Nanos::from_secs(5));
    let quick = search("p99<50ms", Mode::Quick);
    assert_eq!(quick.trial_length(10_000.0, initial), initial);
    assert_eq!(quick.trial_length(10_000.0, last), last);
    // 500 operations at 50/s, and no more than 15 s of them at 10/s.
    assert_eq!(quick.trial_length(50.0, last), Nanos::from_secs(10));
    assert_eq!(quick.trial_length(10.0, last), Nanos::from_secs(15));
    // 20 deadlines, but no more than 8 s.
    assert_eq!(search("p99<300ms", Mode::Quick).trial_length(1e4, last), Nanos::from_secs(6));
    assert_eq!(search("p99<2s", Mode::Quick).trial_length(1e4, last), Nanos::from_secs(8));
    let standard = search("p99<50ms", Mode::Standard);
    assert!(standard.trial_length(500.0, Nanos::from_secs(10)) >= Nanos::from_secs(20));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn any_verdicts_end_within_bounds_and_invalid_ones_move_none(
        verdicts in prop::collection::vec(0u8..8, 300),
        mode in prop::sample::select(Mode::ALL),
        cap in prop::option::of(50.0f64..5_000.0),
        lowest in 10.0f64..200.0,
        bias in 0u8..3,
    ) {
        let settings = SearchSettings {
            cap: cap.and_then(Rate::per_second),
            lowest: rate(lowest),
            ..SearchSettings::new(mode)
        };
        let mut next = verdicts.into_iter().cycle();
        let Run { trials, tipping, spent } = run(settings.clone(), |_| match (next.next(), bias) {
            (Some(0), _) => Verdict::Invalid,
            (Some(1..=3), 0) | (Some(1), 1) | (Some(1..=5), _) => Verdict::Bad,
            _ => Verdict::Good,
        });
        prop_assert!(trials.len() as u32 <= settings.trials_max);
        let slow = if settings.extension > Nanos::ZERO { SLOW_EXTENSION } else { Nanos::ZERO };
        prop_assert!(spent <= settings.budget + settings.extension.max(slow));
        if let (Some(lower), Some(upper)) = (tipping.lower, tipping.upper) {
            prop_assert!(lower < upper, "{:?}", tipping);
        }
        // An interval is claimed with its confidence, or not at all.
        let claimed = tipping.confidence.is_some();
        let may_claim = matches!(tipping.outcome, Outcome::Regular | Outcome::Bounds { .. });
        prop_assert!(may_claim || !claimed);
        prop_assert!(claimed || tipping.outcome != Outcome::Regular);
        prop_assert!(!claimed || tipping.lower.is_some() && tipping.upper.is_some());
        let is_met = matches!(tipping.outcome, Outcome::Bounds { .. });
        prop_assert!(is_met == tipping.met.is_some() && (!is_met || tipping.lower.is_some()));
        // Any other bound is a load with a valid trial of its kind.
        for (bound, verdict) in [(tipping.lower, Verdict::Good), (tipping.upper, Verdict::Bad)] {
            if let Some(bound) = bound.filter(|_| !claimed) {
                prop_assert!(trials.iter().any(|(t, v)| t.rate == bound && *v == verdict));
            }
        }
        let first_bad = trials
            .iter()
            .find(|(t, v)| t.phase == Phase::Narrow || *v == Verdict::Bad && t.number > 2);
        if let Some((first_bad, _)) = first_bad {
            let highest_expand = trials
                .iter()
                .filter(|(t, _)| t.phase == Phase::Expand)
                .map(|(t, _)| t.rate.get())
                .fold(first_bad.rate.get(), f64::max);
            let highest = trials.iter().map(|(t, _)| t.rate.get()).fold(0.0, f64::max);
            prop_assert!(highest <= highest_expand * OVERSHOOT_MAX + 1e-6);
        }
        let valid = trials.iter().filter(|(_, v)| *v != Verdict::Invalid).count();
        prop_assert_eq!(tipping.trials as usize, valid);
        prop_assert_eq!(tipping.invalid_trials as usize, trials.len() - valid);
    }
}
