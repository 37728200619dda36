//! Comparing B with A over rounds that measured each once: how far apart they are, how sure that
//! is, and when "no difference larger than X" is all that can be said.
//!
//! The unit of replication is the round, never the request: what happens within one measurement is
//! not independent. Pairs are compared by the logarithm of B/A, so that "twice" and "half" are
//! equally far from "the same". The estimate is the median of the pairs and its interval is that
//! of order statistics, which holds whatever the noise looks like.

mod rank;
mod rounds;
mod signs;

use plimsoll_model::compare::Finding;

pub use rank::{median, median_interval};
pub use rounds::orders;

/// Fewest rounds that support a statement with 95 % confidence: the interval from the lowest to
/// the highest of six holds the median in 96.9 % of all cases, that of five in 93.8 %.
pub const ROUNDS_MIN: usize = 6;
/// Measurements of A against itself: three pairs.
pub const SAME_RUNS: usize = 6;
/// Fewest pairs of them that say anything about the noise.
pub const SAME_PAIRS_MIN: usize = 2;
/// Difference that is found in 80 % of comparisons, in standard deviations of a pair over the root
/// of the rounds. It is 2.8 for a mean of normal noise; the median's interval is wider, and three
/// pairs tell little of the noise. Simulated in `tests/sim_compare.rs`.
const DETECTABLE: f64 = 5.0;

/// One round: both values, positive and finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// A's figure.
    pub a: f64,
    /// B's, in the same unit.
    pub b: f64,
}

impl Pair {
    /// A usable pair; `None` when either value has no logarithm.
    pub fn new(a: f64, b: f64) -> Option<Self> {
        let usable = |value: f64| value.is_finite() && value > 0.0;
        (usable(a) && usable(b)).then_some(Self { a, b })
    }

    fn log_ratio(self) -> f64 {
        (self.b / self.a).ln()
    }
}

/// How much two measurements of one and the same configuration differ, one right after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noise {
    /// Standard deviation of a pair, in logarithms.
    of_pair: f64,
    pairs: usize,
}

impl Noise {
    /// From A measured against itself; `None` when there are fewer than [`SAME_PAIRS_MIN`].
    ///
    /// Pairs of neighbours, as in the rounds: what changes slowly moves both alike and is no noise
    /// of their ratio. The true difference is known to be none, so that no mean is taken off.
    pub fn of(same: &[Pair]) -> Option<Self> {
        let squares: f64 = same.iter().map(|pair| pair.log_ratio().powi(2)).sum();
        (same.len() >= SAME_PAIRS_MIN)
            .then(|| Self { of_pair: (squares / same.len() as f64).sqrt(), pairs: same.len() })
    }

    /// Standard deviation of one measurement, relative: nearly its coefficient of variation.
    pub fn variation(self) -> f64 {
        relative(self.of_pair / std::f64::consts::SQRT_2)
    }

    /// Half the 95 % interval that a comparison of A with A over `rounds` would have, relative.
    pub fn half_width(self, rounds: usize) -> f64 {
        relative(student_95(self.pairs) * self.of_pair / (rounds.max(1) as f64).sqrt())
    }

    /// Smallest difference that a comparison over `rounds` finds four times in five, relative.
    pub fn detectable(self, rounds: usize, resolution: f64) -> f64 {
        let chance = DETECTABLE * self.of_pair / (rounds.max(1) as f64).sqrt();
        relative(chance + (1.0 + resolution).ln())
    }
}

/// What is taken as the same beforehand.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tolerance {
    /// Relative differences up to this do not matter to the user.
    pub threshold: f64,
    /// A measurement tells its figure only within this, relative: the width of a search.
    pub resolution: f64,
}

/// B seen from A.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Comparison {
    /// Never [`Finding::Undecided`].
    pub finding: Finding,
    /// Median of B/A.
    pub ratio: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
    /// Share of comparisons whose interval holds the truth; at least 0.95.
    pub confidence: f64,
    /// The interval holds no difference larger than this, relative, in either direction.
    pub difference_max: f64,
}

/// Compares the usable rounds; `None` when there are fewer than [`ROUNDS_MIN`].
///
/// There is a difference when the interval excludes "the same" and the median is beyond both what
/// A differs from itself and what matters to the user. The resolution widens the interval at both
/// ends: two searches may differ by a whole step of their grid where the servers hardly do.
pub fn compare(pairs: &[Pair], noise: Noise, tolerance: Tolerance) -> Option<Comparison> {
    let mut logs: Vec<f64> = pairs.iter().map(|pair| pair.log_ratio()).collect();
    logs.sort_by(f64::total_cmp);
    let middle = median(&logs)?;
    let (ranks, confidence) = median_interval(logs.len())?;
    let blur = (1.0 + tolerance.resolution.max(0.0)).ln();
    let (low, high) = (logs[ranks.0] - blur, logs[ranks.1] + blur);
    let same = noise.half_width(pairs.len()).max(tolerance.threshold);
    let is_large = middle.abs() > (1.0 + same).ln();
    // What rounding leaves of a difference of one whole step is none.
    let finding = if is_large && low > 1e-9 {
        Finding::Higher
    } else if is_large && high < -1e-9 {
        Finding::Lower
    } else {
        Finding::NoDifference
    };
    Some(Comparison {
        finding,
        ratio: middle.exp(),
        low: low.exp(),
        high: high.exp(),
        confidence,
        difference_max: relative(low.abs().max(high.abs())).max(same),
    })
}

/// How often chance alone would make the pairs at least as one-sided as they are, if A and B were
/// the same: the two-sided sign-flip test.
pub fn chance_alone(pairs: &[Pair]) -> f64 {
    let logs: Vec<f64> = pairs.iter().map(|pair| pair.log_ratio()).collect();
    signs::sign_flip_p(&logs)
}

/// A logarithm of a ratio as a relative difference.
fn relative(log: f64) -> f64 {
    log.exp_m1()
}

/// 97.5 % quantile of Student's distribution: 95 % of it lies within. The values of any table.
fn student_95(freedom: usize) -> f64 {
    const TABLE: [f64; 10] =
        [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    match freedom {
        0 => f64::INFINITY,
        1..=10 => TABLE[freedom - 1],
        // Never too narrow: the value at the row before.
        _ => TABLE[9],
    }
}

#[cfg(test)]
mod tests;
