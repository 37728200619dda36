//! A scripted server whose latency has two steps, searched for two objectives.

use plimsoll_model::Rate;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Outcome, Phase, Stopped};

use super::super::Mode;
use super::super::tests::measured;
use super::*;

const STRICT: &str = "p99<10ms,errors<1%";
const LOOSE: &str = "p99<100ms,errors<1%";

/// 5 ms up to the first load, 50 ms up to the second, 500 ms above.
fn answer(request: TrialRequest, steps: (f64, f64)) -> TrialMeasurement {
    let ops = (request.rate.get() * request.duration.as_secs_f64()).round() as u64;
    let ms = match request.rate.get() {
        load if load <= steps.0 => 5,
        load if load <= steps.1 => 50,
        _ => 500,
    };
    let mut tally = Tally { scheduled: ops, ok: ops, ..Tally::default() };
    tally.spans.corrected.record_n(Nanos::from_millis(ms), ops);
    tally.spans.uncorrected.record_n(Nanos::from_millis(ms), ops);
    measured(request, tally)
}

fn slo(text: &str) -> Slo {
    text.parse().expect("an objective")
}

struct Run {
    trials: Vec<TrialRecord>,
    tipping: TippingPoint,
    spent: Nanos,
}

fn run(mode: Mode, slos: &[&str], steps: (f64, f64)) -> Run {
    let further = slos[1..].iter().map(|text| slo(text)).collect();
    let mut search = GoalSearch::new(&SearchSettings::new(mode), slo(slos[0]), further);
    let (mut trials, mut spent) = (Vec::new(), Nanos::ZERO);
    loop {
        match search.next_step() {
            SearchStep::Trial(request) => {
                assert_eq!(request.number as usize, trials.len() + 1);
                assert_eq!(search.next_step(), SearchStep::Trial(request));
                spent = spent + search.rest() + request.duration;
                trials.push(search.handle_result(answer(request, steps)));
            }
            SearchStep::Done(tipping) => {
                assert_eq!(search.next_step(), SearchStep::Done(tipping.clone()));
                return Run { trials, tipping, spent };
            }
        }
    }
}

fn holds(goal: &SloFound, truth: f64) -> bool {
    let end = |rate: Option<Rate>| rate.map_or(f64::NAN, Rate::get);
    end(goal.found.lower) <= truth && truth < end(goal.found.upper)
}

#[test]
fn every_objective_gets_an_interval_of_its_own_from_one_set_of_trials() {
    let steps = (730.0, 2_950.0);
    let alone: usize =
        [STRICT, LOOSE].iter().map(|text| run(Mode::Quick, &[text], steps).trials.len()).sum();
    for slos in [[STRICT, LOOSE], [LOOSE, STRICT]] {
        let Run { trials, tipping, spent } = run(Mode::Quick, &slos, steps);
        let [first, second] = &tipping.goals[..] else { panic!("{tipping:?}") };
        assert_eq!(
            [&first.slo, &second.slo].map(|slo| slo.parse()),
            slos.map(|text| Ok(slo(text)))
        );
        for goal in [first, second] {
            let found = &goal.found;
            assert_eq!(found.outcome, Outcome::Regular, "{found:?}");
            assert!(found.confirmations.good >= 1 && found.confirmed <= found.lower, "{found:?}");
            let truth = if goal.slo.starts_with("p99<100ms") { steps.1 } else { steps.0 };
            assert!(holds(goal, truth), "{truth}: {found:?}");
        }
        // The outer fields are the first objective's.
        assert_eq!((tipping.lower, tipping.upper), (first.found.lower, first.found.upper));
        assert!(trials.len() < alone, "{} trials instead of {alone}", trials.len());
        assert!(spent <= Nanos::from_secs(320), "{spent}");
        // Each trial has a verdict by each objective.
        assert!(trials.iter().all(|trial| trial.further.len() == 1));
        let count = trials.iter().filter(|t| t.judgement.verdict != Verdict::Invalid).count();
        assert_eq!(tipping.trials as usize, count);
    }
}

#[test]
fn objectives_that_break_at_one_load_need_hardly_more_trials() {
    let steps = (990.0, 990.0);
    let both = run(Mode::Quick, &[STRICT, LOOSE], steps);
    let one = run(Mode::Quick, &[STRICT], steps);
    assert!(both.trials.len() <= one.trials.len() + 12, "{}", both.trials.len());
    let [first, second] = &both.tipping.goals[..] else { panic!("{:?}", both.tipping) };
    assert!(holds(first, 990.0) && holds(second, 990.0), "{:?}", both.tipping);
    // One confirmation speaks for both.
    let confirmed = |trial: &&TrialRecord| trial.measurement.request.phase == Phase::Confirm;
    assert_eq!(both.trials.iter().filter(confirmed).count(), 1);
}

#[test]
fn one_objective_that_is_never_met_leaves_the_other_its_interval() {
    let Run { tipping, .. } = run(Mode::Quick, &[LOOSE, STRICT], (10.0, 2_000.0));
    let [first, second] = &tipping.goals[..] else { panic!("{tipping:?}") };
    assert_eq!(first.found.outcome, Outcome::Regular);
    assert!(holds(first, 2_000.0), "{first:?}");
    let second = &second.found;
    assert_eq!((&second.outcome, second.lower), (&Outcome::FailsAtMinimum, None));
}

#[test]
fn a_single_objective_has_no_list_and_a_stop_ends_all() {
    assert!(run(Mode::Quick, &[STRICT], (500.0, 900.0)).tipping.goals.is_empty());
    let mut search =
        GoalSearch::new(&SearchSettings::new(Mode::Quick), slo(STRICT), vec![slo(LOOSE)]);
    for _ in 0..2 {
        let SearchStep::Trial(request) = search.next_step() else { panic!("not so soon") };
        search.handle_result(answer(request, (500.0, 900.0)));
    }
    let tipping = search.handle_stop(&Stopped::Interrupted);
    let unfinished = |found: &SloFound| matches!(found.found.outcome, Outcome::Unfinished { .. });
    assert!(tipping.goals.len() == 2 && tipping.goals.iter().all(unfinished), "{tipping:?}");
    assert_eq!(search.next_step(), SearchStep::Done(tipping));
}
