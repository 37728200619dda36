//! The sign-flip test: how often would chance alone make the pairs so one-sided?

use fastrand::Rng;

/// Up to this many pairs all of their sign patterns are tried: 4,096.
const EXACT_MAX: usize = 12;
/// Patterns drawn when there are more pairs.
const DRAWN: u32 = 10_000;

/// Share of the sign patterns of `logs` whose sum is at least as far from zero as the real one.
/// Two-sided; 1 when there is nothing to flip.
pub(super) fn sign_flip_p(logs: &[f64]) -> f64 {
    let sum: f64 = logs.iter().sum();
    // Equal sums may differ in their last bits, by the order of adding.
    let seen = sum.abs() * (1.0 - 1e-12);
    if logs.len() <= EXACT_MAX {
        let patterns = 1u32 << logs.len();
        let extreme = (0..patterns).filter(|pattern| flipped(logs, u64::from(*pattern)) >= seen);
        return extreme.count() as f64 / f64::from(patterns);
    }
    // The same pairs always give the same answer, and so do their opposites.
    let mut sizes: Vec<f64> = logs.iter().map(|log| log.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let mut rng = Rng::with_seed(logs.len() as u64);
    let mut extreme = 1;
    for _ in 0..DRAWN {
        extreme += u32::from(drawn(&sizes, &mut rng) >= seen);
    }
    f64::from(extreme) / f64::from(DRAWN + 1)
}

/// The sum, as a size, with the signs of `pattern`.
fn flipped(logs: &[f64], pattern: u64) -> f64 {
    let signed = |(index, log): (usize, &f64)| if pattern >> index & 1 == 1 { -log } else { *log };
    logs.iter().enumerate().map(signed).sum::<f64>().abs()
}

/// The same with signs by chance.
fn drawn(sizes: &[f64], rng: &mut Rng) -> f64 {
    sizes.iter().map(|log| if rng.bool() { -log } else { *log }).sum::<f64>().abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sided_pairs_reach_the_smallest_p_there_is() {
        for pairs in [5usize, 6, 8] {
            let logs: Vec<f64> = (1..=pairs).map(|nth| nth as f64 / 100.0).collect();
            assert_eq!(sign_flip_p(&logs), 2.0 / 2f64.powi(pairs as i32));
        }
    }

    #[test]
    fn balanced_pairs_and_none_prove_nothing() {
        assert_eq!(sign_flip_p(&[]), 1.0);
        assert_eq!(sign_flip_p(&[0.0; 7]), 1.0);
        assert_eq!(sign_flip_p(&[0.01, -0.01, 0.02, -0.02]), 1.0);
        assert!(sign_flip_p(&[0.01; 20]) < 0.001);
        let mixed: Vec<f64> = (0..20).map(|n| if n % 2 == 0 { 0.01 } else { -0.0101 }).collect();
        assert!(sign_flip_p(&mixed) > 0.5);
    }
}
