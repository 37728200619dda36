//! MLRsearch (RFC 9971): what the trials at one load say about it, and its conditional throughput.
//!
//! It does not judge trials and does not choose loads. INVALID trials must not be passed in.

use plimsoll_model::{Nanos, Rate};

/// What a load has to show; durations are planned measured windows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SearchGoal {
    /// A trial at least this long is full-length.
    pub final_trial: Nanos,
    /// Trial time at one load that decides for good; at least `final_trial`.
    pub duration_sum: Nanos,
    /// Share of that time that may be bad, 0 to below 1; 0.5 is a majority.
    pub exceed_ratio: f64,
}

/// One valid trial at a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TrialOutcome {
    /// Planned measured window; an aborted trial counts with what was planned.
    pub duration: Nanos,
    /// Whether every objective was met.
    pub good: bool,
    /// Late, failed and unsent over scheduled operations, 0 to 1.
    pub loss_ratio: f64,
}

/// What is known of a load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadClass {
    /// The goal is certain to be met here.
    Lower,
    /// The goal can no longer be met here.
    Upper,
    /// More trials are needed.
    Undecided,
}

/// Classifies a load by RFC 9971's rule.
///
/// With `exceed_ratio` 0.5 and `duration_sum` three times `final_trial` this is a majority of
/// three that stops after two equal verdicts. Short good trials alone never make a lower bound;
/// short bad ones alone can make an upper bound.
pub fn classify(trials: &[TrialOutcome], goal: &SearchGoal) -> LoadClass {
    let seconds = |full: bool, good: bool| -> f64 {
        trials
            .iter()
            .filter(|t| (t.duration >= goal.final_trial) == full && t.good == good)
            .map(|t| t.duration.as_secs_f64())
            .sum()
    };
    let exceed = goal.exceed_ratio;
    let full_good = seconds(true, true);
    // Bad short trials count only beyond what good short ones offset.
    let offset = seconds(false, true) * exceed / (1.0 - exceed);
    let high_loss = seconds(true, false) + (seconds(false, false) - offset).max(0.0);
    // The whole includes time that has not been measured yet.
    let whole = (full_good + high_loss).max(goal.duration_sum.as_secs_f64());
    let optimistic = high_loss <= exceed * whole;
    let pessimistic = whole - full_good <= exceed * whole;
    match (optimistic, pessimistic) {
        (true, true) => LoadClass::Lower,
        (false, false) => LoadClass::Upper,
        _ => LoadClass::Undecided,
    }
}

/// The typical rate of good answers at `load`: its loss at the quantile that the goal tolerates.
pub fn conditional_throughput(load: Rate, trials: &[TrialOutcome], goal: &SearchGoal) -> Rate {
    let mut full: Vec<_> = trials.iter().filter(|t| t.duration >= goal.final_trial).collect();
    full.sort_by(|a, b| a.loss_ratio.total_cmp(&b.loss_ratio));
    let measured: f64 = full.iter().map(|t| t.duration.as_secs_f64()).sum();
    let mut left = goal.duration_sum.as_secs_f64().max(measured) * (1.0 - goal.exceed_ratio);
    let mut loss_ratio = None;
    for trial in full {
        if loss_ratio.is_some() && left <= 0.0 {
            break;
        }
        loss_ratio = Some(trial.loss_ratio);
        left -= trial.duration.as_secs_f64();
    }
    // Time that is missing counts as lost.
    let loss_ratio = if left > 0.0 { 1.0 } else { loss_ratio.unwrap_or(1.0) };
    Rate::per_second(load.get() * (1.0 - loss_ratio)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::LoadClass::{Lower, Undecided, Upper};
    use super::*;

    /// (final trial s, duration sum s, loss ratio, exceed ratio): goals A to D of the RFC's
    /// example search.
    const GOALS: [(u64, u64, f64, f64); 4] =
        [(60, 60, 0.0, 0.0), (60, 120, 0.0, 0.5), (1, 120, 0.005, 0.5), (60, 60, 0.005, 0.2)];

    /// (trials added: how many, seconds each, loss ratio; class for goals A to D).
    ///
    /// For goal D at the last two points the published table prints "Lower Bound", but its own
    /// exceed ratios there (42.857 % and 27.273 %) are above 20 %, and the published formula gives
    /// Upper Bound. The formula is what is tested.
    const POINTS: [((usize, u64, f64), [LoadClass; 4]); 6] = [
        ((59, 1, 0.0), [Undecided, Undecided, Undecided, Undecided]),
        ((1, 1, 0.01), [Upper, Undecided, Undecided, Undecided]),
        ((59, 1, 0.01), [Upper, Undecided, Undecided, Upper]),
        ((1, 1, 0.0), [Upper, Undecided, Lower, Upper]),
        ((1, 60, 0.001), [Upper, Undecided, Lower, Upper]),
        ((1, 60, 0.0), [Upper, Lower, Lower, Upper]),
    ];

    fn goal(final_s: u64, sum_s: u64, exceed_ratio: f64) -> SearchGoal {
        SearchGoal {
            final_trial: Nanos::from_secs(final_s),
            duration_sum: Nanos::from_secs(sum_s),
            exceed_ratio,
        }
    }

    fn trial(seconds: u64, loss_ratio: f64, limit: f64) -> TrialOutcome {
        TrialOutcome { duration: Nanos::from_secs(seconds), good: loss_ratio <= limit, loss_ratio }
    }

    #[test]
    fn golden_vectors_of_rfc_9971() {
        for (column, &(final_s, sum_s, loss_max, exceed)) in GOALS.iter().enumerate() {
            let mut trials = Vec::new();
            for (row, ((count, seconds, loss), classes)) in POINTS.iter().enumerate() {
                trials.extend(vec![trial(*seconds, *loss, loss_max); *count]);
                let got = classify(&trials, &goal(final_s, sum_s, exceed));
                assert_eq!(got, classes[column], "goal {column}, point {}", row + 1);
            }
        }
    }

    /// Classes after a row of equal-length trials with `k` of them in the duration sum.
    fn after(k: u64, verdicts: &str) -> LoadClass {
        let trials: Vec<_> =
            verdicts.bytes().map(|v| trial(5, if v == b'G' { 0.0 } else { 1.0 }, 0.5)).collect();
        classify(&trials, &goal(5, 5 * k, 0.5))
    }

    #[test]
    fn majorities() {
        for (k, verdicts, class) in [
            (1, "G", Lower),
            (1, "B", Upper),
            (2, "G", Lower),
            (2, "B", Undecided),
            (2, "BG", Lower),
            (2, "BB", Upper),
            (3, "G", Undecided),
            (3, "GG", Lower),
            (3, "GB", Undecided),
            (3, "GBB", Upper),
            (3, "BB", Upper),
            (5, "GGB", Undecided),
            (5, "GGBG", Lower),
            (5, "BBGB", Upper),
        ] {
            assert_eq!(after(k, verdicts), class, "k {k}, {verdicts}");
        }
    }

    #[test]
    fn conditional_throughput_is_the_tolerated_quantile() {
        let load = Rate::per_second(1_000.0).expect("finite");
        let goal = goal(5, 15, 0.5);
        let of = |losses: &[f64]| {
            let trials: Vec<_> = losses.iter().map(|loss| trial(5, *loss, 0.01)).collect();
            conditional_throughput(load, &trials, &goal).get().round()
        };
        // 15 s, half of it is 7.5 s: the second best of three trials.
        assert_eq!(of(&[0.30, 0.0, 0.01]), 990.0);
        assert_eq!(of(&[0.0, 0.002]), 998.0);
        // One trial of 5 s cannot fill half of the sum.
        assert_eq!(of(&[0.0]), 0.0);
        assert_eq!(of(&[]), 0.0);
    }

    proptest! {
        #[test]
        fn order_does_not_matter_and_good_trials_never_hurt(
            trials in prop::collection::vec((1u64..100, any::<bool>()), 0..12),
            k in 1u64..6,
        ) {
            let goal = goal(30, 30 * k, 0.5);
            let mut trials: Vec<_> = trials
                .into_iter()
                .map(|(s, good)| trial(s, f64::from(u8::from(!good)), 0.5))
                .collect();
            let before = classify(&trials, &goal);
            trials.reverse();
            prop_assert_eq!(classify(&trials, &goal), before);
            trials.push(trial(30, 0.0, 0.5));
            if before == Lower {
                prop_assert_eq!(classify(&trials, &goal), Lower);
            }
        }
    }
}
