//! Statistics that more than one judgement needs. All functions are pure and take values in any unit.
//!
//! The functions are independent of each other: trends after Theil and Sen (`pair_slopes`, `slope_interval`),
//! shares (`wilson`, `binomial_at_least`, `poisson_at_most`) and medians (`median_interval`). Callers meet
//! the preconditions: `variance` needs two values, `slope_interval` one slope, `wilson` a positive `n`. Results
//! are in the unit of the values or are probabilities. Start reading at `median_interval`.

use std::f64::consts::TAU;

pub(crate) use plimsoll_model::stats::Z_975;
pub use plimsoll_model::stats::{mean, median, median_of, upper_median};

/// The 95th percentile of the standard normal distribution: one-sided 95 %, or the ends of an interval of 90 %.
pub(crate) const Z_95: f64 = 1.645;
/// The 99.5th percentile of the same distribution: a two-sided test at 1 %.
pub(crate) const Z_995: f64 = 2.576;

/// Standard error of the median over the standard error of the mean, for a normal distribution.
pub(crate) const MEDIAN_ERROR: f64 = 1.25;
/// Standard deviations per median absolute deviation, of a normal distribution.
pub(crate) const MAD: f64 = 1.482_6;
/// Scale at which a logistic distribution is closest to the standard normal one.
pub(crate) const LOGISTIC: f64 = 1.702;
/// Nominal confidence of [`median_interval`].
const CONFIDENCE: f64 = 0.95;
/// Means from which on a Poisson variable is taken for a normal one.
const POISSON_MEAN_MAX: f64 = 500.0;

/// Returns the first of ascending values, each with its weight, at which the weights add up to `least`.
pub(crate) fn weighted_quantile(
    sorted: impl IntoIterator<Item = (f64, f64)>,
    least: f64,
) -> Option<f64> {
    let mut below = 0.0;
    let reaches = |(_, weight): &(f64, f64)| {
        below += weight;
        below >= least
    };
    sorted.into_iter().find(reaches).map(|(value, _)| value)
}

/// Returns the logarithm of the sum of numbers that are given as logarithms.
pub(crate) fn log_sum(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let sum: f64 = logs.iter().map(|log| (log - most).exp()).sum();
    if most == f64::NEG_INFINITY { most } else { most + sum.ln() }
}

/// Returns the sum of the squared distances from `centre`.
pub(crate) fn squares_around(centre: f64, values: &[f64]) -> f64 {
    values.iter().map(|value| (value - centre).powi(2)).sum()
}

/// Returns the sample variance, with n - 1 degrees of freedom, of at least two values.
pub(crate) fn variance(values: &[f64]) -> f64 {
    let centre = mean(values.iter().copied()).unwrap_or_default();
    squares_around(centre, values) / (values.len() - 1) as f64
}

/// Returns the slopes between all pairs of points whose `x` ascends, in no order. The median is the
/// slope of Theil and Sen, which up to 29 % of outliers leave as it is.
pub(crate) fn pair_slopes(points: &[(f64, f64)]) -> impl Iterator<Item = f64> {
    let apart = |(i, (x, y)): (usize, &(f64, f64))| {
        let (x, y) = (*x, *y);
        let later = points[i + 1..].iter().filter(move |later| later.0 > x);
        later.map(move |(later_x, later_y)| (later_y - y) / (later_x - x))
    };
    points.iter().enumerate().flat_map(apart)
}

/// Returns the slopes between all pairs of points whose `x` ascends, ascending.
pub(crate) fn sorted_slopes(points: &[(f64, f64)]) -> Vec<f64> {
    let mut slopes: Vec<f64> = pair_slopes(points).collect();
    slopes.sort_by(f64::total_cmp);
    slopes
}

/// Returns Sen's interval of 95 % of the slope through `points` points, from their pair slopes, ascending; all of them
/// if the points are fewer than five (Sen 1968). At least one slope is needed.
pub(crate) fn slope_interval(sorted: &[f64], points: usize) -> (f64, f64) {
    let n = points as f64;
    let width = Z_975 * (kendall_weight(n) / 18.0).sqrt();
    let out = ((sorted.len() as f64 - width) / 2.0).max(0.0) as usize;
    let last = sorted.len() - 1;
    (sorted[out.min(last)], sorted[last - out.min(last)])
}

/// Returns 18 times the variance of Kendall's statistic of `n` values without ties.
pub(crate) fn kendall_weight(n: f64) -> f64 {
    n * (n - 1.0) * (2.0 * n + 5.0)
}

/// Returns Wilson's interval, 0 to 1, of a share that was `share` in `n` > 0 independent cases; `z2` is the square of
/// the normal quantile of its confidence (Wilson 1927).
pub(crate) fn wilson(share: f64, n: f64, z2: f64) -> (f64, f64) {
    let centre = (share + z2 / (2.0 * n)) / (1.0 + z2 / n);
    let spread = (z2 * (share * (1.0 - share) / n + z2 / (4.0 * n * n))).sqrt() / (1.0 + z2 / n);
    ((centre - spread).max(0.0), (centre + spread).min(1.0))
}

/// Returns the standard normal distribution function within 0.01: a logistic of the same slope, with heavier tails.
pub(crate) fn normal_share(z: f64) -> f64 {
    1.0 / (1.0 + (-LOGISTIC * z).exp())
}

/// Returns the density at a distance of `off` from the mean of a normal distribution with standard deviation `sd` > 0.
pub(crate) fn normal_density(off: f64, sd: f64) -> f64 {
    (-0.5 * (off / sd).powi(2)).exp() / (sd * TAU.sqrt())
}

/// Returns the probability that at least `count` of `trials` succeed, if each does with probability `p`.
pub(crate) fn binomial_at_least(count: usize, trials: usize, p: f64) -> f64 {
    let term = |successes: usize| {
        let ways = (1..=successes).map(|k| (trials - successes + k) as f64 / k as f64);
        ways.product::<f64>()
            * p.powi(successes as i32)
            * (1.0 - p).powi((trials - successes) as i32)
    };
    (count..=trials).map(term).sum()
}

/// Returns the probability that a Poisson variable of this mean is at most `count`.
pub(crate) fn poisson_at_most(count: u64, mean: f64) -> f64 {
    if mean > POISSON_MEAN_MAX {
        return normal_share((count as f64 + 0.5 - mean) / mean.sqrt());
    }
    let mut term = (-mean).exp();
    let mut sum = term;
    for k in 1..=count.min(2_000) {
        term *= mean / k as f64;
        sum += term;
    }
    sum.min(1.0)
}

/// Returns the narrowest symmetric interval of ranks, from 0, that contains the median of any distribution with at
/// least 95 % confidence, and that confidence; `None` for fewer than six values or more than 1,000.
///
/// The median lies below the value of rank r when at most r of n values are below the median:
/// heads of n tosses of a coin.
pub(crate) fn median_interval(n: usize) -> Option<((usize, usize), f64)> {
    // 2^-1074 is the smallest number there is.
    if n > 1000 {
        return None;
    }
    let mut tosses = 0.5f64.powi(n as i32);
    let mut below = 0.0;
    let mut found = None;
    for rank in 0..n / 2 {
        below += tosses;
        let confidence = 1.0 - 2.0 * below;
        if confidence < CONFIDENCE {
            break;
        }
        found = Some(((rank, n - 1 - rank), confidence));
        tosses *= (n - rank) as f64 / (rank + 1) as f64;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_resist_outliers() {
        let mut points: Vec<(f64, f64)> = (0..9).map(f64::from).map(|x| (x, 3.0 * x)).collect();
        points[4].1 = 500.0;
        assert_eq!(median_of(pair_slopes(&points)), Some(3.0));
        assert_eq!(pair_slopes(&[(1.0, 2.0), (1.0, 5.0)]).count(), 0);
        assert_eq!(slope_interval(&[1.0, 2.0, 3.0], 3), (1.0, 3.0));
    }

    #[test]
    fn wilson_of_the_standard_example() {
        // 10 of 100 at 95 %.
        let (low, high) = wilson(0.1, 100.0, Z_975 * Z_975);
        assert!((low - 0.0552).abs() < 1e-4 && (high - 0.1744).abs() < 1e-4, "{low} {high}");
        assert_eq!(wilson(0.0, 20.0, Z_975 * Z_975).0, 0.0);
    }

    #[test]
    fn variances_and_tails() {
        assert_eq!(variance(&[1.0, 2.0, 6.0]), 7.0);
        assert!((binomial_at_least(2, 3, 0.25) - 0.15625).abs() < 1e-9);
        assert_eq!((binomial_at_least(0, 0, 0.25), binomial_at_least(4, 4, 1.0)), (1.0, 1.0));
        assert!((poisson_at_most(0, 1.0) - 0.3679).abs() < 1e-3);
        assert!((poisson_at_most(2, 3.0) - 0.4232).abs() < 1e-4);
        assert!((poisson_at_most(1_000, 1_000.0) - 0.508).abs() < 0.02);
        assert!((poisson_at_most(600, 600.0) - 0.5).abs() < 0.02);
        assert!((normal_share(Z_95) - 0.95).abs() < 0.01);
        assert!((normal_density(0.0, 2.0) - 0.199_471).abs() < 1e-6);
    }

    #[test]
    fn intervals_of_the_standard_table() {
        assert_eq!(median_interval(5), None);
        // Ranks from 1, and the coverage in percent.
        for (n, low, high, percent) in [
            (6, 1, 6, 96.9),
            (8, 1, 8, 99.2),
            (9, 2, 8, 96.1),
            (10, 2, 9, 97.9),
            (12, 3, 10, 96.1),
            (15, 4, 12, 96.5),
        ] {
            let (ranks, confidence) = median_interval(n).unwrap();
            assert_eq!((ranks.0 + 1, ranks.1 + 1), (low, high), "{n}");
            assert!((confidence * 100.0 - percent).abs() < 0.05, "{n}: {confidence}");
        }
    }
}
