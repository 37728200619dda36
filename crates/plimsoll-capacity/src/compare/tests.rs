//! Rules of the comparison on pairs made by hand; how often it errs is simulated in
//! `tests/sim_compare.rs`.

use proptest::prelude::*;

use super::*;

const QUIET: Noise = Noise { of_pair: 0.0, pairs: 3 };

fn pairs(ratios: &[f64]) -> Vec<Pair> {
    ratios.iter().map(|ratio| Pair::new(100.0, 100.0 * ratio).unwrap()).collect()
}

fn of(ratios: &[f64], noise: Noise, tolerance: Tolerance) -> Comparison {
    compare(&pairs(ratios), noise, tolerance).unwrap()
}

#[test]
fn six_rounds_are_the_fewest() {
    assert!(compare(&pairs(&[1.1; 5]), QUIET, Tolerance::default()).is_none());
    let found = of(&[1.08, 1.09, 1.1, 1.1, 1.11, 1.12], QUIET, Tolerance::default());
    assert_eq!(found.finding, Finding::Higher);
    assert!((found.ratio - 1.1).abs() < 1e-9, "{found:?}");
    assert!((found.low - 1.08).abs() < 1e-9 && (found.high - 1.12).abs() < 1e-9, "{found:?}");
    assert!((found.difference_max - 0.12).abs() < 1e-9, "{found:?}");
}

#[test]
fn what_a_differs_from_itself_is_no_difference() {
    let ratios = [1.01, 1.011, 1.012, 1.012, 1.013, 1.014];
    assert_eq!(of(&ratios, QUIET, Tolerance::default()).finding, Finding::Higher);
    let noisy = Noise::of(&pairs(&[1.03, 0.98, 1.02])).unwrap();
    let found = of(&ratios, noisy, Tolerance::default());
    assert_eq!(found.finding, Finding::NoDifference);
    // The pairs agree, but A does not agree with itself: only the larger of both can be claimed.
    assert!((found.difference_max - noisy.half_width(6)).abs() < 1e-12, "{found:?}");
    let coarse = Tolerance { threshold: 0.02, resolution: 0.0 };
    assert_eq!(of(&ratios, QUIET, coarse).finding, Finding::NoDifference);
}

#[test]
fn one_step_of_a_grid_is_no_difference_and_two_are() {
    let searched = Tolerance { threshold: 0.0, resolution: 0.05 };
    let one = of(&[1.05; 10], QUIET, searched);
    assert_eq!(one.finding, Finding::NoDifference);
    assert!((one.difference_max - (1.05 * 1.05 - 1.0)).abs() < 1e-9, "{one:?}");
    let two = of(&[1.05 * 1.05; 10], QUIET, searched);
    assert_eq!(two.finding, Finding::Higher);
    // Anything from one step to three may be true.
    assert!((two.low - 1.05).abs() < 1e-9 && (two.high - 1.05f64.powi(3)).abs() < 1e-9);
}

#[test]
fn noise_is_that_of_neighbours_and_shrinks_with_rounds() {
    assert_eq!(Noise::of(&pairs(&[1.01])), None);
    let noise = Noise::of(&pairs(&[1.02, 0.98, 1.02])).unwrap();
    assert!((noise.variation() - 0.02 / 2.0f64.sqrt()).abs() < 2e-4, "{noise:?}");
    // Student's 3.182 for three pairs.
    assert!((noise.half_width(9) - 3.182 * 0.02 / 3.0).abs() < 1e-3, "{noise:?}");
    assert!(noise.half_width(10) < noise.half_width(6));
    assert!(noise.half_width(10) < noise.detectable(10, 0.0));
    assert!(noise.detectable(10, 0.0) < noise.detectable(10, 0.05));
    // A host that gets faster all the time is no noise between neighbours.
    let drifting = [(1.0, 1.0), (2.0, 2.0), (3.0, 3.0)].map(|(a, b)| Pair::new(a, b).unwrap());
    assert_eq!(Noise::of(&drifting).unwrap().variation(), 0.0);
}

#[test]
fn values_without_a_logarithm_make_no_pair() {
    for (a, b) in [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (f64::NAN, 1.0), (1.0, f64::INFINITY)] {
        assert_eq!(Pair::new(a, b), None);
    }
}

proptest! {
    #[test]
    fn exchanging_the_two_turns_the_answer_around(
        values in prop::collection::vec((1.0f64..1e6, 1.0f64..1e6), 6..30),
        resolution in 0.0f64..0.1,
    ) {
        let tolerance = Tolerance { threshold: 0.01, resolution };
        let there: Vec<_> = values.iter().filter_map(|(a, b)| Pair::new(*a, *b)).collect();
        let back: Vec<_> = values.iter().filter_map(|(a, b)| Pair::new(*b, *a)).collect();
        prop_assert!((chance_alone(&there) - chance_alone(&back)).abs() < 1e-9);
        let there = compare(&there, QUIET, tolerance).unwrap();
        let back = compare(&back, QUIET, tolerance).unwrap();
        let turned = match there.finding {
            Finding::Higher => Finding::Lower,
            Finding::Lower => Finding::Higher,
            same => same,
        };
        prop_assert_eq!(back.finding, turned);
        prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
        prop_assert!((there.low * back.high - 1.0).abs() < 1e-9);
        prop_assert!(there.low <= there.ratio && there.ratio <= there.high);
        // Whatever is claimed to be the largest difference covers the interval.
        prop_assert!(there.high - 1.0 <= there.difference_max + 1e-9);
        prop_assert!(1.0 / there.low - 1.0 <= there.difference_max + 1e-9);
    }
}
