//! Rounds corrected to an equally fast host in both blocks.
//!
//! The dependence of a figure on the host's speed is the slope of the rounds' ratios over their ratios of speed: the
//! median of the slopes between every two rounds, weighted by how far apart their speeds are (Theil and Sen). Noise of
//! the yardstick makes the slope smaller, so that a yardstick without information corrects nothing.

use super::{Pair, estimate};
use crate::stats::{median_of, weighted_quantile};

/// Logarithms of the rounds' ratios.
pub(super) struct LikeSpeed {
    /// Logarithms of B to A.
    pub(super) logs: Vec<f64>,
    /// Half the interval of A against itself; `None` for too few rounds.
    pub(super) floor: Option<f64>,
    /// `true` if the speed of the host was taken out.
    pub(super) is_corrected: bool,
}

impl LikeSpeed {
    /// Adjusts `rounds`, with intervals that are wrong in at most `error` of all cases. The speed counts only if it was
    /// measured in every block.
    pub(super) fn of(rounds: &[Pair], error: f64) -> Self {
        let raw: Vec<f64> = rounds.iter().map(|pair| pair.log_ratio()).collect();
        let expected: Option<Vec<[f64; 2]>> = rounds.iter().map(|pair| pair.expected).collect();
        let Some(expected) = expected else {
            let a = rounds.iter().map(|pair| pair.a.ln());
            return Self { logs: raw, floor: floor(a, error), is_corrected: false };
        };
        let ratios: Vec<f64> = expected.iter().map(|[a, b]| b - a).collect();
        let felt = slope(&ratios, &raw);
        let residuals = raw.iter().zip(&ratios).map(|(log, ratio)| log - felt * ratio).collect();
        let logs = widened(residuals);
        let a = rounds.iter().zip(&expected).map(|(pair, [a, _])| pair.a.ln() - felt * a);
        Self { logs, floor: floor(a, error), is_corrected: true }
    }
}

/// `logs` as far apart as they would be around a slope that does not come from themselves: one degree of freedom less.
fn widened(logs: Vec<f64>) -> Vec<f64> {
    let Some(middle) = median_of(logs.iter().copied()).filter(|_| logs.len() > 2) else {
        return logs;
    };
    let count = logs.len() as f64;
    let factor = ((count - 1.0) / (count - 2.0)).sqrt();
    logs.into_iter().map(|log| middle + factor * (log - middle)).collect()
}

/// The slope of `y` over `x`, from 0 (nothing is felt) to 1 (all is).
fn slope(x: &[f64], y: &[f64]) -> f64 {
    let between = |first: usize| {
        (first + 1..x.len()).filter_map(move |last| {
            let apart = x[last] - x[first];
            (apart != 0.0).then(|| ((y[last] - y[first]) / apart, apart.abs()))
        })
    };
    let mut slopes: Vec<(f64, f64)> = (0..x.len()).flat_map(between).collect();
    slopes.sort_by(|one, other| one.0.total_cmp(&other.0));
    let half = slopes.iter().map(|(_, weight)| weight).sum::<f64>() / 2.0;
    weighted_quantile(slopes, half).map_or(0.0, |slope| slope.clamp(0.0, 1.0))
}

/// Half the interval of A against itself, from its figures in neighbouring rounds. Every second difference has its sign
/// changed, so that what changes evenly cancels out.
fn floor(a: impl Iterator<Item = f64>, error: f64) -> Option<f64> {
    let a: Vec<f64> = a.collect();
    let signs = [1.0, -1.0].into_iter().cycle();
    let differences: Vec<f64> =
        a.windows(2).zip(signs).map(|(two, sign)| sign * (two[1] - two[0])).collect();
    estimate(&differences, error).map(|found| (found.high - found.low) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slope_is_the_part_that_is_felt() {
        let x = [0.0, 0.1, -0.2, 0.3, 0.05, -0.1, 0.2, 0.15];
        let of = |felt: f64| slope(&x, &x.map(|x| 0.01 + felt * x));
        assert!((of(0.4) - 0.4).abs() < 1e-9);
        // Nothing is faster on a slower host, nor feels more than all of it.
        assert_eq!((of(-0.5), of(3.0)), (0.0, 1.0));
        assert_eq!(slope(&[0.1; 8], &x), 0.0);
        assert_eq!(slope(&[], &[]), 0.0);
    }

    #[test]
    fn one_block_without_a_yardstick_leaves_all_as_measured() {
        let pair = |b: f64| Pair::new(100.0, b).expect("usable");
        let mut rounds: Vec<Pair> =
            (0..8).map(|nth| pair(100.0 + f64::from(nth)).expecting(1.0, 1.1)).collect();
        assert!(LikeSpeed::of(&rounds, 0.02).is_corrected);
        rounds[3] = pair(103.0).expecting(1.0, 0.0);
        let found = LikeSpeed::of(&rounds, 0.02);
        assert!(!found.is_corrected);
        assert_eq!(found.logs[3], rounds[3].log_ratio());
        // A's figures are all the same.
        assert_eq!(found.floor, Some(0.0));
    }
}
