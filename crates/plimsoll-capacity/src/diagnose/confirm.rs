//! The confirmation of a cause: its limit was lowered in pairs of loads, and the capacity followed by
//! the size that was predicted, or did not.
//!
//! Every limit moves the capacity when it is lowered enough. So the change is small, and its effect must
//! have the predicted size: a resource with headroom shows less of it, or nothing.

use plimsoll_model::compare::Difference;
use plimsoll_model::confirmation::ConfirmationResult;

use crate::compare::{Pair, difference};
use crate::stats::median_of;

/// Pairs that count, fixed before the first: six coins show the same side in 3.1 % of all cases, five in
/// 6.3 %.
pub const PAIRS: u32 = 6;
/// Pairs that count at most if the first [`PAIRS`] are undecided. The interval of six reaches from the least to the
/// greatest; the interval of twelve tolerates one outlier.
pub const PAIRS_MAX: u32 = 12;
/// Invalid pairs that are repeated.
pub const INVALID_PAIRS_MAX: u32 = 2;
/// Share by which a limit is lowered: a small change, which little headroom already hides.
pub const DOSE: f64 = 0.2;
/// Use of a resource from which on it is its capacity.
const FULL: f64 = 0.85;
/// The most often that a resource which is not the limit may be confirmed.
const ERROR: f64 = 0.05;
/// The measured shift over the predicted one that confirms a cause.
const FITS: std::ops::RangeInclusive<f64> = 0.75..=1.25;
/// Below this, the limit is another resource.
const HALF: f64 = 0.5;
/// Part of the shift that the shams may differ from loads without any step.
const SHAM_MAX: f64 = 0.25;

/// The result of the pairs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct JudgedPairs {
    /// The result of the pairs.
    pub result: ConfirmationResult,
    /// Shift of the capacity; `None` with too few pairs.
    pub shift: Option<Difference>,
    /// Capacity of the shams over the capacity of the loads without any step.
    pub sham_ratio: Option<f64>,
}

/// Judges pairs of a sham (A) and a change (B) that was predicted to change the capacity by the factor
/// `predicted`; `untouched` are loads without any step.
pub fn judge(predicted: f64, pairs: &[Pair], untouched: &[f64]) -> JudgedPairs {
    let (result, shift) = judge_pairs(predicted, pairs);
    let sham_ratio = sham_ratio(pairs, untouched);
    let sham_stands = sham_ratio.is_some_and(|ratio| {
        ratio.ln().abs() <= SHAM_MAX * predicted.ln().abs() || is_among_shams(pairs, untouched)
    });
    let result = match result {
        ConfirmationResult::Confirmed | ConfirmationResult::Moved if !sham_stands => {
            ConfirmationResult::Undecided
        }
        result => result,
    };
    JudgedPairs { result, shift, sham_ratio }
}

/// Reports whether further pairs are made after these.
pub fn wants_more(predicted: f64, pairs: &[Pair]) -> bool {
    let made = pairs.len() as u32;
    let (result, _) = judge_pairs(predicted, pairs);
    let is_open = matches!(result, ConfirmationResult::Undecided | ConfirmationResult::Moved);
    made < PAIRS || (made < PAIRS_MAX && is_open)
}

fn judge_pairs(predicted: f64, pairs: &[Pair]) -> (ConfirmationResult, Option<Difference>) {
    let found = difference(pairs, 0.0, ERROR).filter(|_| pairs.len() >= PAIRS as usize);
    let Some(found) = found else { return (ConfirmationResult::Undecided, None) };
    // As parts of the prediction, whichever its sign is.
    let of_predicted = |ratio: f64| ratio.ln() / predicted.ln();
    let ends = [of_predicted(found.ratio_low), of_predicted(found.ratio_high)];
    let (least, most) = (ends[0].min(ends[1]), ends[0].max(ends[1]));
    let result = if most < HALF {
        ConfirmationResult::Refuted
    } else if least <= HALF || found.p >= ERROR {
        ConfirmationResult::Undecided
    } else if FITS.contains(&of_predicted(found.ratio)) {
        ConfirmationResult::Confirmed
    } else {
        ConfirmationResult::Moved
    };
    (result, Some(found))
}

/// Reports whether a load without any step carried as much as some of the shams: then the difference of their medians
/// is no larger than between equal loads.
fn is_among_shams(pairs: &[Pair], untouched: &[f64]) -> bool {
    let shams = || pairs.iter().map(|pair| pair.a);
    let (least, most) = (shams().fold(f64::INFINITY, f64::min), shams().fold(0.0, f64::max));
    median_of(untouched.iter().copied()).is_some_and(|value| (least..=most).contains(&value))
}

fn sham_ratio(pairs: &[Pair], untouched: &[f64]) -> Option<f64> {
    let shams = median_of(pairs.iter().map(|pair| pair.a))?;
    let untouched = median_of(untouched.iter().copied()).filter(|value| *value > 0.0)?;
    Some(shams / untouched)
}

/// Returns a capacity lowered by a fifth; a saturating load uses `used` of it and is ready to use `wanted`.
///
/// A resource that is wanted all the time can do no more than it does: a host takes a part of a CPU. One
/// that is not has headroom, which a fifth less of its use would hide: then it is its capacity that is lowered.
pub fn lowered(used: f64, wanted: f64, capacity: f64) -> f64 {
    let of = if wanted >= FULL * capacity { used.min(capacity) } else { capacity };
    (1.0 - DOSE) * of
}

/// Loads on which a quota is measured before the pairs, at most.
pub const CALIBRATIONS_MAX: u32 = 3;
/// The most by which the CPU time under a quota may differ from the plan.
const STRENGTH_OFF: f64 = 0.03;
/// The largest correction of a quota in one step.
const CORRECTION: std::ops::RangeInclusive<f64> = 0.8..=1.25;

/// The largest quota that is tried, of what the work uses without one: a larger one changes nothing.
const QUOTA_MAX: f64 = 0.95;

/// The effect of a quota on the work, from a load with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Strength {
    /// The quota leaves the intended part of the CPU time; the value is that part.
    Right(f64),
    /// The quota leaves too much or too little: the quota to try next, in CPUs.
    Correct(f64),
}

/// Judges a quota of `to` CPUs on work that used `before` without one and `left` with it. A quota takes more than its
/// size if a thread cannot make up for its pauses, and less if the work had room.
pub fn strength(to: f64, before: f64, left: f64, planned: f64) -> Strength {
    let target = planned.min(before);
    let is_right = (left / target - 1.0).abs() <= STRENGTH_OFF;
    let factor =
        (target / left.max(f64::MIN_POSITIVE)).clamp(*CORRECTION.start(), *CORRECTION.end());
    let corrected = (to * factor).min(to.max(QUOTA_MAX * before));
    if is_right { Strength::Right(left / before) } else { Strength::Correct(corrected) }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    const TRIES: u64 = 2_000;
    const PREDICTED: f64 = 1.0 - DOSE;

    fn normal(rng: &mut Rng) -> f64 {
        (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
    }

    /// Pairs whose change has the true factor `ratio`, with so much noise of each load and a drift over
    /// all of them.
    fn simulate(seed: u64, ratio: f64, noise: f64, drift: f64) -> JudgedPairs {
        let mut rng = Rng::with_seed(seed);
        let mut load = |at: f64, factor: f64| {
            30_000.0 * factor * drift.mul_add(at, noise * normal(&mut rng)).exp()
        };
        let untouched = [load(0.0, 1.0), load(1.0, 1.0)];
        let mut pairs = Vec::new();
        while wants_more(PREDICTED, &pairs) {
            let at = pairs.len() as f64 / f64::from(PAIRS);
            pairs.extend(Pair::new(load(at, 1.0), load(at, ratio)));
        }
        judge(PREDICTED, &pairs, &untouched)
    }

    fn share(ratio: f64, noise: f64, drift: f64, result: ConfirmationResult) -> f64 {
        let of = |seed: &u64| simulate(*seed, ratio, noise, drift).result == result;
        (0..TRIES).filter(of).count() as f64 / TRIES as f64
    }

    #[test]
    fn what_changes_nothing_is_not_confirmed() {
        for noise in [0.01, 0.02, 0.05, 0.1, 0.2] {
            for drift in [0.0, -0.1] {
                let confirmed = share(1.0, noise, drift, ConfirmationResult::Confirmed);
                assert!(confirmed <= 0.05, "{noise} {drift}: {confirmed}");
            }
        }
        // Another resource is the limit, and the noise is a quiet machine's.
        assert!(share(1.0, 0.02, 0.0, ConfirmationResult::Refuted) > 0.98);
    }

    #[test]
    fn the_limit_is_confirmed() {
        for (noise, least) in [(0.01, 0.99), (0.02, 0.98), (0.05, 0.9)] {
            let confirmed = share(PREDICTED, noise, 0.0, ConfirmationResult::Confirmed);
            assert!(confirmed >= least, "{noise}: {confirmed}");
        }
        // It is hardly ever refuted, however loud the machine.
        for noise in [0.02, 0.05, 0.1] {
            assert!(share(PREDICTED, noise, 0.0, ConfirmationResult::Refuted) < 0.02, "{noise}");
        }
    }

    #[test]
    fn a_move_of_another_size_is_told_from_noise() {
        // The change costs as much again as half of what it was to cost.
        for noise in [0.01, 0.02] {
            let moved = share(0.7, noise, 0.0, ConfirmationResult::Moved);
            assert!(moved >= 0.95, "{noise}: {moved}");
        }
        // Nothing moves, or the limit is another one.
        for noise in [0.01, 0.02, 0.05, 0.1, 0.2] {
            let moved = share(1.0, noise, 0.0, ConfirmationResult::Moved);
            assert!(moved <= 0.05, "{noise}: {moved}");
        }
    }

    #[test]
    fn headroom_is_not_confirmed() {
        // The resource would be full at 15 % more: a fifth less of it costs 8 %.
        for noise in [0.01, 0.02, 0.05] {
            let ratio = PREDICTED * 1.15;
            let confirmed = share(ratio, noise, 0.0, ConfirmationResult::Confirmed);
            assert!(confirmed <= 0.01, "{noise}: {confirmed}");
        }
    }

    #[test]
    fn steps_that_cost_something_by_themselves_prove_nothing() {
        let pair = |sham: f64| Pair::new(sham, 0.8 * sham).unwrap();
        let pairs: Vec<Pair> = (0..6).map(|nth| pair(1_000.0 + f64::from(nth))).collect();
        assert_eq!(judge(0.8, &pairs, &[1_010.0]).result, ConfirmationResult::Confirmed);
        assert_eq!(judge(0.8, &pairs, &[1_200.0]).result, ConfirmationResult::Undecided);
        assert_eq!(judge(0.8, &pairs, &[]).result, ConfirmationResult::Undecided);
        // A rise that was predicted to be a fall refutes; one pair less proves nothing.
        assert_eq!(judge(1.25, &pairs, &[1_000.0]).result, ConfirmationResult::Refuted);
        let judged = judge(0.8, &pairs[1..], &[1_010.0]);
        assert_eq!((judged.result, judged.shift), (ConfirmationResult::Undecided, None));
    }

    #[test]
    fn a_quota_that_costs_more_than_its_size_is_corrected_on_the_work() {
        // Of 80 ms in 100 the work gets 71: each pause costs it something.
        let left = |quota: f64| 0.71 / 0.8 * quota.min(1.0);
        let mut quota = 0.8;
        let mut found = strength(quota, 1.0, left(quota), 0.8);
        for _ in 1..CALIBRATIONS_MAX {
            let Strength::Correct(next) = found else { break };
            quota = next;
            found = strength(quota, 1.0, left(quota), 0.8);
        }
        let Strength::Right(share) = found else { panic!("{found:?}") };
        assert!((share - 0.8).abs() <= STRENGTH_OFF && quota > 0.85, "{share} {quota}");
        // One that takes too little.
        assert!(matches!(strength(0.8, 1.0, 0.9, 0.8), Strength::Correct(next) if next < 0.75));
        // A disturbed load does not raise it to where it changes nothing.
        assert_eq!(strength(0.8, 1.0, 0.4, 0.8), Strength::Correct(0.95));
        // Work with room is not held back until it feels the quota: that would confirm any resource.
        assert_eq!(strength(0.8, 0.5, 0.5, 0.8), Strength::Right(1.0));
    }

    #[test]
    fn a_fifth_less_is_of_what_can_be_had() {
        let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
        // Busy, and a neighbour takes a tenth of it.
        assert!(close(lowered(0.9, 0.99, 1.0), 0.72));
        // Half of it is free: a fifth less of its capacity changes nothing.
        assert!(close(lowered(0.5, 0.55, 1.0), 0.8));
        assert!(close(lowered(1.02, 1.0, 1.0), 0.8));
    }
}
