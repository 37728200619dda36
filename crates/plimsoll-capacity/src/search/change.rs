//! Did the server change during the search? Read from what it carries in overload, time and again
//! at the same load.
//!
//! Three explanations of the readings so far are compared by their marginal likelihoods: one level
//! with a spread, a level that drifts evenly, and a step from one level to another. A step is
//! believed at odds of [`ODDS`] to one over both others, if it is at least [`STEP_LEAST`] large
//! and two readings lie behind it.

use crate::stats::{log_sum, mean, median_of, squares_around};

/// Odds at which a step is believed.
const ODDS: f64 = 50.0;
/// Smaller steps are left to the spread and the drift, relative.
const STEP_LEAST: f64 = 0.05;
/// Prior range of a level: anywhere within it, logarithmic.
const LEVELS: f64 = 1.5;
/// Error of one reading, besides the chance of a count.
const READING_SD: f64 = 0.0015;
/// Drifts looked at: this many on either side of none, of so much per minute.
const DRIFTS: i32 = 16;
const DRIFT_STEP: f64 = 0.0025;
/// Steps of the finer grid around the likeliest drift: this many on
/// either side, each so much of a step from the next. A drift of 0.2 % a minute is 0.3 % off after a
/// search of a quarter of an hour if only multiples of a step are looked at.
const FINE_DRIFTS: i32 = 12;
const FINE: f64 = 0.125;
/// Beforehand a drift is about so large, per minute.
const DRIFT_SD: f64 = 0.012;
/// Prior probability of a drift, and the probability from which on it is reported.
const DRIFT_PRIOR: f64 = 0.3;
const DRIFT_SEEN: f64 = 0.9;

/// A rate that the server carried in overload.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Reading {
    pub(crate) at_s: f64,
    /// Logarithm of operations per second.
    pub(crate) y: f64,
    /// Good answers that it is made of.
    pub(crate) count: f64,
}

/// Returns the error of a reading: service times may be random. A standard deviation.
pub(crate) fn reading_sd(readings: &[Reading]) -> f64 {
    let each = readings.iter().map(|r| 1.0 / r.count.max(1.0));
    READING_SD.hypot(mean(each).unwrap_or(0.0).sqrt())
}

/// The meaning of the last readings of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// One level explains all.
    None,
    /// The last reading is unlike the others: one more has to show whether that stays so.
    Suspected,
    /// From the reading with this index on the level is another one.
    At(usize),
}

/// Returns the errors for constant and for random service times; the readings show which applies.
fn reading_sds(readings: &[Reading]) -> [f64; 2] {
    [READING_SD, reading_sd(readings)]
}

/// Returns the logarithm of the marginal likelihood of segments that share their spread.
fn marginal(segments: &[&[f64]], own_sds: [f64; 2], spreads: &[(f64, f64)]) -> f64 {
    let segments: Vec<Segment> = segments.iter().map(|values| Segment::of(values)).collect();
    let each = own_sds.into_iter().flat_map(|own| {
        let segments = &segments;
        spreads.iter().map(move |(sd, weight)| {
            let logs = segments.iter().map(|segment| segment.log_likelihood(sd.hypot(own)));
            (0.5 * weight).ln() + logs.sum::<f64>()
        })
    });
    log_sum(&each.collect::<Vec<_>>())
}

/// Values at one level that is not known.
struct Segment {
    count: f64,
    /// Sum of the squares of their distances from their mean.
    squares: f64,
}

impl Segment {
    fn of(values: &[f64]) -> Self {
        let centre = mean(values.iter().copied()).unwrap_or_default();
        Self { count: values.len() as f64, squares: squares_around(centre, values) }
    }

    fn log_likelihood(&self, sd: f64) -> f64 {
        let (n, var) = (self.count, sd * sd);
        let tau = std::f64::consts::TAU;
        -0.5 * n * (tau * var).ln() - 0.5 * self.squares / var + 0.5 * (tau * var / n).ln()
            - LEVELS.ln()
    }
}

fn prior_of_drift(per_min: f64) -> f64 {
    (-0.5 * (per_min / DRIFT_SD).powi(2)).exp()
}

/// Mean and mean square of the drift per minute, if there is one, and the logarithm of the marginal
/// likelihood over all drifts.
fn drifting(readings: &[Reading], spreads: &[(f64, f64)]) -> (f64, f64, f64) {
    let own_sds = reading_sds(readings);
    let steps = |count: i32| (-count..=count).map(f64::from);
    let all: f64 = steps(DRIFTS).map(|step| prior_of_drift(step * DRIFT_STEP)).sum();
    // The drift, and the logarithm of its weight; `share` is the part of a step that it represents.
    let weighed = |per_min: f64, share: f64| {
        let level: Vec<f64> = readings.iter().map(|r| r.y - per_min * r.at_s / 60.0).collect();
        let prior = prior_of_drift(per_min) / all * share;
        (per_min, prior.ln() + marginal(&[&level], own_sds, spreads))
    };
    let coarse: Vec<(f64, f64)> =
        steps(DRIFTS).map(|step| weighed(step * DRIFT_STEP, 1.0)).collect();
    let (mean, square, sum) = moments(&coarse);
    let likeliest = coarse.iter().max_by(|a, b| a.1.total_cmp(&b.1));
    match likeliest {
        Some((near, _)) if (square - mean * mean).max(0.0).sqrt() < DRIFT_STEP => {
            let fine = |step: f64| weighed(near + step * FINE * DRIFT_STEP, FINE);
            moments(&steps(FINE_DRIFTS).map(fine).collect::<Vec<_>>())
        }
        _ => (mean, square, sum),
    }
}

/// Mean and mean square of values, and the logarithm of the sum of their weights, which are given as
/// logarithms.
fn moments(weighed: &[(f64, f64)]) -> (f64, f64, f64) {
    let sum = log_sum(&weighed.iter().map(|(_, log)| *log).collect::<Vec<_>>());
    let mean = |power: i32| -> f64 {
        weighed.iter().map(|(value, log)| value.powi(power) * (log - sum).exp()).sum()
    };
    (mean(1), mean(2), sum)
}

/// An even drift of one level.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Drift {
    /// Relative, per minute: what is expected of it, the chance that there is none included.
    pub(crate) per_min: f64,
    /// Standard deviation of that.
    pub(crate) sd: f64,
    /// `true` if chance alone does not explain it.
    pub(crate) is_significant: bool,
}

/// Returns the drift that the readings of one level show.
pub(crate) fn drift(readings: &[Reading], spreads: &[(f64, f64)]) -> Drift {
    if readings.is_empty() || spreads.is_empty() {
        return Drift::default();
    }
    let level: Vec<f64> = readings.iter().map(|r| r.y).collect();
    let none = (1.0 - DRIFT_PRIOR).ln() + marginal(&[&level], reading_sds(readings), spreads);
    let (mean, square, log_likelihood) = drifting(readings, spreads);
    let some = DRIFT_PRIOR.ln() + log_likelihood;
    let share = (some - log_sum(&[none, some])).exp();
    let per_min = share * mean;
    let sd = (share * square - per_min * per_min).max(0.0).sqrt();
    Drift { per_min, sd, is_significant: share > DRIFT_SEEN }
}

/// Looks at the readings of what was one level so far. `spreads` is what the verdicts say of how much
/// the capacity differs from trial to trial: standard deviations with their weights.
pub(crate) fn change(readings: &[Reading], spreads: &[(f64, f64)]) -> Change {
    let level: Vec<f64> = readings.iter().map(|r| r.y).collect();
    if level.len() < 2 {
        return Change::None;
    }
    let own_sds = reading_sds(readings);
    let steady = marginal(&[&level], own_sds, spreads).max(drifting(readings, spreads).2);
    let middle = |values: &[f64]| median_of(values.iter().copied()).unwrap_or_default();
    let mut best = (f64::NEG_INFINITY, 0);
    for at in 1..level.len() {
        let (before, after) = level.split_at(at);
        let log_likelihood = marginal(&[before, after], own_sds, spreads);
        let is_large = (middle(after) - middle(before)).abs() > STEP_LEAST;
        if is_large && log_likelihood > best.0 {
            best = (log_likelihood, at);
        }
    }
    let (log_likelihood, at) = best;
    if log_likelihood - steady < ODDS.ln() {
        // Two readings far apart: nothing says yet which of them is the rule.
        let apart = (level[level.len() - 1] - middle(&level[..level.len() - 1])).abs();
        let is_last = level.len() == 2 && apart > 2.0 * STEP_LEAST;
        return if is_last { Change::Suspected } else { Change::None };
    }
    if at + 1 == level.len() { Change::Suspected } else { Change::At(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPREADS: [(f64, f64); 5] =
        [(0.002, 0.25), (0.005, 0.25), (0.012, 0.2), (0.03, 0.2), (0.08, 0.1)];

    fn readings(values: &[f64]) -> Vec<Reading> {
        let each = |(index, y): (usize, &f64)| Reading {
            at_s: 20.0 * index as f64,
            y: y.ln(),
            count: 1e6,
        };
        values.iter().enumerate().map(each).collect()
    }

    #[test]
    fn a_step_is_told_from_noise_and_from_drift() {
        let of = |values: &[f64]| change(&readings(values), &SPREADS);
        assert_eq!(of(&[100.0]), Change::None);
        assert_eq!(of(&[100.0, 100.1, 99.9, 100.0]), Change::None);
        assert_eq!(of(&[100.0, 99.6, 99.3, 98.9, 98.5, 98.2]), Change::None);
        assert_eq!(of(&[100.0, 108.0, 95.0, 99.0, 106.0, 93.0]), Change::None);
        assert_eq!(of(&[100.0, 100.1, 70.0]), Change::Suspected);
        assert_eq!(of(&[100.0, 100.1, 70.0, 70.1]), Change::At(2));
        assert_eq!(of(&[100.0, 70.0]), Change::Suspected);
        assert_eq!(of(&[100.0, 70.0, 70.2]), Change::At(1));
        assert_eq!(of(&[100.0, 100.1, 99.9, 93.0, 92.9]), Change::At(3));
    }

    #[test]
    fn an_even_drift_is_regressed_on_time() {
        let of = |values: &[f64]| drift(&readings(values), &SPREADS);
        assert_eq!(of(&[]), Drift::default());
        let steady = of(&[100.0, 100.1, 99.9, 100.0, 100.1, 99.9]);
        assert!(
            !steady.is_significant && steady.per_min.abs() < 0.001 && steady.sd < 0.002,
            "{steady:?}"
        );
        let noisy = of(&[100.0, 108.0, 95.0, 99.0, 106.0, 93.0]);
        assert!(!noisy.is_significant && noisy.per_min.abs() < 0.005, "{noisy:?}");
        // 1 % a minute, a reading each 20 s.
        let falling = |readings: i32| -> Vec<f64> {
            (0..readings).map(|i| 100.0 * (1.0 - 0.01 * f64::from(i) / 3.0)).collect()
        };
        let seen = of(&falling(8));
        assert!(seen.is_significant && (seen.per_min + 0.01).abs() < 0.002, "{seen:?}");
        // 0.2 % a minute is not a multiple of a step.
        let slow: Vec<f64> = (0..45).map(|i| 100.0 * (1.0 - 0.002 * f64::from(i) / 3.0)).collect();
        let seen = of(&slow);
        assert!(seen.is_significant && (seen.per_min + 0.002).abs() < 0.0001, "{seen:?}");
        // Counts that are small enough for chance, and do not look like it.
        let mut even = readings(&falling(6));
        even.iter_mut().for_each(|reading| reading.count = 15_000.0);
        let seen = drift(&even, &SPREADS);
        assert!(seen.is_significant && (seen.per_min + 0.01).abs() < 0.003, "{seen:?}");
    }
}
