//! Servers that change while they are searched: they drift, become slower, or differ from trial to trial.

use super::*;

/// A world of one knee in which confirmations may drift or be INVALID, by their number from 1;
/// their lengths, the number of the first of them, and the end.
fn run_drifting(
    settings: SearchSettings,
    drifts: fn(u32) -> bool,
    invalid: fn(u32) -> bool,
) -> (Vec<Nanos>, u32, TippingPoint) {
    let mut search = RateSearch::new(settings, Slo::default());
    let mut world = knee(1_000.0);
    let mut lengths = Vec::new();
    let mut first = 0;
    loop {
        match search.next_step() {
            SearchStep::Done(tipping) => return (lengths, first, tipping),
            SearchStep::Trial(request) => {
                let verdict = world(&request);
                if request.phase != Phase::Confirm {
                    search.handle_result(answer(request, verdict));
                    continue;
                }
                lengths.push(request.duration);
                first = if first == 0 { request.number } else { first };
                let number = lengths.len() as u32;
                let verdict = if invalid(number) { Verdict::Invalid } else { verdict };
                let mut seen = answer(request, verdict);
                let half = |ms| HalfWindow { p50: Nanos::from_millis(ms), completed: request.rate };
                seen.observations.halves =
                    Some([half(10), half(if drifts(number) { 13 } else { 12 })]);
                search.handle_result(seen);
            }
        }
    }
}

/// A search of a server whose capacity changes: what it carries beyond that is late.
fn run_changing(
    settings: SearchSettings,
    capacity: impl Fn(Nanos) -> f64,
) -> (TippingPoint, Nanos) {
    let mut search = RateSearch::new(settings, Slo::default());
    let mut spent = Nanos::ZERO;
    loop {
        match search.next_step() {
            SearchStep::Trial(request) => {
                spent = spent + search.rest() + request.duration;
                let most = capacity(spent) * request.duration.as_secs_f64();
                let mut measurement = answer(request, Verdict::Good);
                let tally = &mut measurement.tally;
                let lost = tally.scheduled.saturating_sub(most as u64);
                if lost > 0 {
                    let ok = tally.scheduled - lost;
                    *tally = Tally { scheduled: tally.scheduled, ok, ..Tally::default() };
                    tally.failures.operations.add(ErrorClass::Timeout, lost);
                    tally.spans.corrected.record_n(Nanos::from_millis(200), tally.ok);
                    tally.spans.uncorrected.record_n(Nanos::from_millis(1), tally.ok);
                }
                search.handle_result(measurement);
            }
            SearchStep::Done(tipping) => return (tipping, spent),
        }
    }
}

#[test]
fn a_server_that_changed_has_an_interval_of_one_of_its_speeds_or_none() {
    let budget = SearchSettings::new(Mode::Quick).budget;
    for after_s in (20..100).step_by(12) {
        for share in [0.5, 0.7, 0.85, 1.2] {
            let changed = |at: Nanos| if at > Nanos::from_secs(after_s) { share } else { 1.0 };
            let settings = SearchSettings::new(Mode::Quick);
            let (tipping, spent) = run_changing(settings, |at| 20_000.0 * changed(at));
            let all_spent = spent.0 > budget.0 * 4 / 5;
            match &tipping.outcome {
                Outcome::Undecided { .. } => {
                    assert!(all_spent, "{share} after {after_s} s: {spent}")
                }
                Outcome::Unstable { .. } | Outcome::Bounds { .. } => {}
                // What it says holds for the server as it was at first, or as it is now.
                outcome => {
                    assert_eq!(*outcome, Outcome::Regular);
                    let bounds = tipping.lower.zip(tipping.upper).expect("bounds");
                    let holds = |at: f64| bounds.0.get() <= at && at <= bounds.1.get() * 1.001;
                    assert!(holds(20_000.0) || holds(20_000.0 * share), "{bounds:?}");
                }
            }
        }
    }
}

#[test]
fn a_capacity_that_differs_from_trial_to_trial_leaves_time_for_a_safe_load() {
    let searched = |seed: u64| {
        let differs = |at: Nanos| {
            let mut random = fastrand::Rng::with_seed(at.0.wrapping_mul(2 * seed + 1));
            // About normal, 8 %.
            let sum: f64 = (0..12).map(|_| random.f64()).sum();
            (0.08 * (sum - 6.0)).exp()
        };
        run_changing(SearchSettings::new(Mode::Quick), |at| 20_000.0 * differs(at)).0
    };
    let stated: Vec<_> =
        (0..40).map(searched).filter(|found| found.outcome == Outcome::Regular).collect();
    let safe = stated.iter().filter(|found| found.safe.is_some()).count();
    assert!(stated.len() > 10 && safe * 10 >= stated.len() * 9, "{safe} of {}", stated.len());
}

#[test]
fn a_confirmation_that_drifts_is_repeated_over_twice_the_time_and_then_flagged() {
    let run = |drifts| run_drifting(SearchSettings::new(Mode::Quick), drifts, |_| false);
    let notes_of = |tipping: &TippingPoint| {
        tipping.notes.iter().filter(|note| note.contains("is not steady there")).count()
    };
    let usual = Mode::Quick.limits().confirm_trial;
    let longer = Nanos(2 * usual.0);
    let (lengths, _, tipping) = run(|_| false);
    assert_eq!((&lengths[..], notes_of(&tipping)), (&[usual][..], 0));
    assert_eq!(tipping.confirmations.good, 1);
    let (lengths, _, tipping) = run(|number| number == 1);
    assert_eq!((&lengths[..], notes_of(&tipping)), (&[usual, longer][..], 0));
    let (lengths, _, tipping) = run(|_| true);
    assert_eq!((&lengths[..], notes_of(&tipping)), (&[usual, longer][..], 1));
    assert_eq!((tipping.outcome, tipping.confirmations.good), (Outcome::Regular, 2));
}

#[test]
fn a_drifting_confirmation_counts_where_no_longer_one_can_be_had() {
    let usual = Mode::Quick.limits().confirm_trial;
    let whole = SearchSettings::new(Mode::Quick);
    let (lengths, first, tipping) = run_drifting(whole.clone(), |_| true, |_| false);
    assert_eq!(lengths, [usual, Nanos(2 * usual.0)]);
    assert_eq!(tipping.outcome, Outcome::Regular);

    // No trial is left for it.
    let short = SearchSettings { trials_max: first, ..whole.clone() };
    let (lengths, _, tipping) = run_drifting(short, |_| true, |_| false);
    assert_eq!((lengths, &tipping.outcome), (vec![usual], &Outcome::Regular));
    assert_eq!(tipping.confirmations, Confirmations { good: 1, bad: 0, invalid: 0 });
    let [note] = &tipping.notes[..] else { panic!("{:?}", tipping.notes) };
    assert!(note.contains("left no room for a longer trial: the server is not steady"), "{note}");

    // No budget ends the search regularly without a confirmation.
    let mut both = 0;
    for seconds in (60..=210).step_by(5) {
        let budget = Nanos::from_secs(seconds);
        let (lengths, _, tipping) =
            run_drifting(SearchSettings { budget, ..whole.clone() }, |_| true, |_| false);
        let finished = tipping.outcome == Outcome::Regular;
        assert!(!finished || !lengths.is_empty(), "{seconds} s: {:?}", tipping.outcome);
        both += u32::from(lengths.len() == 2);
    }
    assert!(both > 0);

    // The longer ones are INVALID.
    let ample = SearchSettings { budget: Nanos::from_secs(1_000), ..whole };
    let (_, _, tipping) = run_drifting(ample, |_| true, |number| number > 1);
    assert_eq!(tipping.outcome, Outcome::Regular);
    assert_eq!(tipping.confirmations, Confirmations { good: 1, bad: 0, invalid: 4 });
    assert!(tipping.notes[0].contains("no longer trial was valid"), "{:?}", tipping.notes);
}
