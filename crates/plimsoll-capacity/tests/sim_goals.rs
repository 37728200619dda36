//! Searches whose goals are on few operations, against servers that fail at random.

use plimsoll_capacity::{Mode, RateSearch, SearchSettings, SearchStep};
use plimsoll_model::slo::Slo;
use plimsoll_model::trial::{Outcome, TippingPoint, Unsettled};
use plimsoll_model::{Nanos, Rate};
use testkit::{Anomalies, Fluid, Sut};

const SEEDS: u64 = 30;

/// Searches at servers of this capacity that fail this share of the requests, each by itself.
fn searches(capacity: f64, errors: f64, slo: &str) -> Vec<TippingPoint> {
    searches_of(capacity, Anomalies { errors, ..Anomalies::default() }, slo)
}

/// The answers of searches that kept their budget.
fn searches_of(capacity: f64, anomalies: Anomalies, slo: &str) -> Vec<TippingPoint> {
    let slo: Slo = slo.parse().expect("an objective");
    let search = |seed| {
        let mut world = Fluid::new(Sut::with_capacity(capacity), seed);
        world.anomalies = anomalies;
        let lowest = Rate::per_second(capacity / (7.0 + seed as f64 / 20.0)).expect("finite");
        let settings = SearchSettings { lowest, ..SearchSettings::new(Mode::Quick) };
        // A slow server gets the time that its operations take.
        let slow = Nanos::from_secs(if capacity < 100.0 { 300 } else { 0 });
        let most = settings.budget + settings.extension.max(slow);
        let mut search = RateSearch::new(settings, slo.clone());
        let mut spent = Nanos::ZERO;
        loop {
            match search.next_step() {
                SearchStep::Trial(request) => {
                    let rest = search.rest();
                    world.idle(rest);
                    let abort = search.abort_bad_ops(&request);
                    let measurement = world.run(request, Some(abort).filter(|ops| *ops < u64::MAX));
                    spent = spent + rest + measurement.window;
                    world.recycle(search.handle_result(measurement).measurement.tally);
                }
                SearchStep::Done(tipping) => {
                    assert!(spent <= most, "{spent}");
                    return tipping;
                }
            }
        }
    };
    (0..SEEDS).map(search).collect()
}

fn regular(found: &[TippingPoint]) -> usize {
    found.iter().filter(|tipping| tipping.outcome == Outcome::Regular).count()
}

/// Searches that state an interval which does not hold the capacity.
fn wrong(found: &[TippingPoint], capacity: f64) -> usize {
    let is_wrong = |tipping: &&TippingPoint| {
        let ends = tipping.lower.zip(tipping.upper).filter(|_| tipping.outcome == Outcome::Regular);
        ends.is_some_and(|(low, high)| !(low.get()..=high.get()).contains(&capacity))
    };
    found.iter().filter(is_wrong).count()
}

#[test]
fn few_operations_do_not_decide_a_goal_of_one_in_a_thousand() {
    // 0.08 and 0.12 % of some thousand operations look alike. None at all among 3,000, which would
    // show the goal to be met, is had by 9 % and by 3 % of the searches.
    for (errors, most) in [(0.0008, 10), (0.0012, 3)] {
        let found = searches(40.0, errors, "p99<50ms,errors<0.1%");
        assert!(regular(&found) <= most, "{errors}: {} regular", regular(&found));
        let why = found.iter().find_map(|tipping| match &tipping.outcome {
            Outcome::Undecided { why } | Outcome::Bounds { why } => Some(why.clone()),
            _ => None,
        });
        let Some(Unsettled::GoalOpen { goal, .. }) = why else { panic!("{why:?}") };
        assert_eq!(goal.to_string(), "errors<0.1%");
        // It is the number of operations that is missing, not the bounds.
        let fails = |tipping: &&TippingPoint| tipping.outcome == Outcome::FailsAtMinimum;
        assert!(found.iter().filter(fails).count() <= 3, "{errors}");
    }
}

#[test]
fn a_group_of_failures_is_one_event() {
    // A group of 50 alone misses the goal in a trial of 5 s at any load, whichever share of all fails.
    // None in 120,000 operations, where four groups are expected, is had by 2 % of the searches.
    for (errors, most) in [(0.0008, SEEDS as usize), (0.0016, 3)] {
        let anomalies = Anomalies { errors, errors_together: 50, ..Anomalies::default() };
        let found = searches_of(5_000.0, anomalies, "p99<50ms,errors<0.1%");
        assert!(wrong(&found, 5_000.0) <= 1, "{errors}: {} wrong", wrong(&found, 5_000.0));
        assert!(regular(&found) <= most, "{errors}: {} regular", regular(&found));
        let in_groups =
            found.iter().any(|tipping| match &tipping.outcome {
                Outcome::Undecided { why }
                | Outcome::Unstable { why }
                | Outcome::Bounds { why } => {
                    let (Unsettled::GoalOpen { together, .. }
                    | Unsettled::GoalMissed { together, .. }) = why
                    else {
                        return false;
                    };
                    *together > 1.0
                }
                _ => false,
            });
        assert!(in_groups, "{errors}");
    }
}

#[test]
fn enough_operations_decide_it_either_way() {
    let met = searches(5_000.0, 0.0008, "p99<50ms,errors<0.1%");
    assert!(regular(&met) >= 25, "{} regular", regular(&met));
    assert!(wrong(&met, 5_000.0) <= 2, "{} wrong", wrong(&met, 5_000.0));
    let missed = searches(5_000.0, 0.0013, "p99<50ms,errors<0.1%");
    assert!(regular(&missed) <= 1, "{} regular", regular(&missed));
}

#[test]
fn a_high_quantile_is_treated_like_errors() {
    // Failed operations count as late.
    let few = searches(40.0, 0.0008, "p99.9<50ms");
    assert!(regular(&few) <= 10, "{} regular", regular(&few));
    let many = searches(5_000.0, 0.0008, "p99.9<50ms");
    assert!(regular(&many) >= 25, "{} regular", regular(&many));
    assert!(wrong(&many, 5_000.0) <= 2, "{} wrong", wrong(&many, 5_000.0));
}

#[test]
fn a_goal_that_nothing_speaks_against_is_settled_where_there_is_time() {
    let found = searches(40.0, 0.0, "p99<50ms,errors<0.1%");
    assert!(regular(&found) >= 27, "{} regular", regular(&found));
}
