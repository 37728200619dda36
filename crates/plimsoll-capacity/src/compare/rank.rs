//! The signed-rank test, and the interval of all differences that it does not reject.
//!
//! If A and B are the same, the sign of every difference is a toss of a coin, whatever the noise
//! looks like: the order within each round was one. The test flips the signs of ranks, so that one round in
//! which a neighbour took the CPU counts as one round and not as its size.

use crate::stats::median;

/// The estimate of the difference behind `differences`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Estimate {
    /// The median of the means of all pairs (Hodges and Lehmann).
    pub(crate) middle: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
    /// Confidence that the interval contains the truth; at least the requested one.
    pub(crate) confidence: f64,
    /// Probability of a result at least as one-sided at random.
    pub(crate) p: f64,
}

/// Estimates the shift with an interval that is wrong with a probability of at most `error`; `None` for too few
/// differences.
pub(crate) fn estimate(differences: &[f64], error: f64) -> Option<Estimate> {
    let means = means_of_pairs(differences);
    let chance = Chance::of(differences.len());
    let (rank, outside) = chance.rank_within(error / 2.0)?;
    Some(Estimate {
        middle: median(&means)?,
        low: means[rank],
        high: means[means.len() - 1 - rank],
        confidence: 1.0 - 2.0 * outside,
        p: chance.two_sided(&means),
    })
}

/// The means of every two differences, and of each with itself, ascending (Walsh's averages). As
/// many of them are positive as the positive differences have ranks.
fn means_of_pairs(differences: &[f64]) -> Vec<f64> {
    let with_later = |first: usize| differences[first..].iter().map(move |last| (first, last));
    let pairs = (0..differences.len()).flat_map(with_later);
    let mut means: Vec<f64> =
        pairs.map(|(first, last)| (differences[first] + last) / 2.0).collect();
    means.sort_by(f64::total_cmp);
    means
}

/// The distribution of the sum of the positive ranks of 1 to n, each with a random sign.
struct Chance(Vec<f64>);

impl Chance {
    fn of(n: usize) -> Self {
        let mut sums = vec![0.0; n * (n + 1) / 2 + 1];
        sums[0] = 1.0;
        for rank in 1..=n {
            for sum in (0..sums.len()).rev() {
                let with = if sum >= rank { sums[sum - rank] } else { 0.0 };
                sums[sum] = (sums[sum] + with) / 2.0;
            }
        }
        Self(sums)
    }

    /// Returns the largest sum that is reached or undercut with at most a given probability, and that probability.
    fn rank_within(&self, share: f64) -> Option<(usize, f64)> {
        let mut below = 0.0;
        let cumulated = self.0.iter().map(|often| {
            below += often;
            below
        });
        cumulated.enumerate().take_while(|(_, below)| *below <= share).last()
    }

    /// The two-sided p of these means; means of zero count half.
    fn two_sided(&self, means: &[f64]) -> f64 {
        let positive = means.iter().filter(|mean| **mean > 0.0).count();
        let zero = means.iter().filter(|mean| **mean == 0.0).count();
        let fewer = positive.min(means.len() - zero - positive) + zero / 2;
        (2.0 * self.0[..=fewer].iter().sum::<f64>()).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn critical_sums_of_the_standard_table() {
        // Wilcoxon's signed ranks, two-sided 2 %.
        for (n, sum) in [(7, 0), (8, 1), (9, 3), (10, 5), (12, 9), (15, 19), (20, 43), (24, 69)] {
            let (rank, share) = Chance::of(n).rank_within(0.01).expect("seven or more");
            assert_eq!(rank, sum, "{n}");
            assert!(share <= 0.01, "{n}: {share}");
        }
        assert!(Chance::of(6).rank_within(0.01).is_none());
        assert!(Chance::of(200).rank_within(0.01).is_some());
    }

    #[test]
    fn one_sided_differences_reach_the_smallest_p_there_is() {
        for n in [7usize, 9] {
            let differences: Vec<f64> = (1..=n).map(|nth| nth as f64 / 100.0).collect();
            let found = estimate(&differences, 0.02).expect("seven or more");
            assert_eq!(found.p, 2.0 / 2f64.powi(n as i32));
            let opposite: Vec<f64> = differences.iter().map(|one| -one).collect();
            assert_eq!(estimate(&opposite, 0.02).expect("seven or more").p, found.p);
        }
    }

    #[test]
    fn the_interval_excludes_zero_where_the_test_rejects_it() {
        let mut rng = fastrand::Rng::with_seed(1);
        for _ in 0..300 {
            let n = rng.usize(7..14);
            let shift = rng.f64() - 0.5;
            let differences: Vec<f64> = (0..n).map(|_| rng.f64() - 0.5 + shift).collect();
            let found = estimate(&differences, 0.02).expect("seven or more");
            let is_outside = found.low > 0.0 || found.high < 0.0;
            assert_eq!(is_outside, found.p <= 0.02, "{found:?}");
            assert!(found.low <= found.middle && found.middle <= found.high, "{found:?}");
        }
    }

    #[test]
    fn balanced_differences_prove_nothing() {
        assert_eq!(estimate(&[0.01; 6], 0.02), None);
        for balanced in [[0.0; 8], [0.01, -0.01, 0.02, -0.02, 0.03, -0.03, 0.04, -0.04]] {
            let found = estimate(&balanced, 0.02).expect("seven or more");
            assert!(found.p > 0.9 && found.middle.abs() < 1e-9, "{found:?}");
        }
    }
}
