//! Rules of the comparison on rounds made by hand; how often it errs is simulated in
//! `tests/sim_compare.rs`.

use proptest::prelude::*;

use super::*;

fn pairs(ratios: &[f64]) -> Vec<Pair> {
    ratios.iter().map(|ratio| Pair::new(100.0, 100.0 * ratio).unwrap()).collect()
}

fn of(ratios: &[f64], threshold: f64) -> Difference {
    compare(&pairs(ratios), threshold).unwrap()
}

#[test]
fn eight_rounds_are_the_fewest() {
    assert!(compare(&pairs(&[1.1; 7]), 0.0).is_none());
    let found = of(&[1.08, 1.09, 1.1, 1.1, 1.1, 1.1, 1.11, 1.12], 0.0);
    assert_eq!(found.finding, Finding::Higher);
    assert!((found.ratio - 1.1).abs() < 1e-3, "{found:?}");
    assert!((1.08..1.09).contains(&found.ratio_low), "{found:?}");
    assert!((found.difference_max - (found.ratio_high - 1.0)).abs() < 1e-9, "{found:?}");
    assert!((found.p - 2.0 / 256.0).abs() < 1e-12, "{found:?}");
    assert_eq!((found.a, found.b.round()), (100.0, 110.0));
}

#[test]
fn what_does_not_matter_is_no_difference() {
    let ratios = [1.01, 1.011, 1.012, 1.012, 1.012, 1.012, 1.013, 1.014];
    assert_eq!(of(&ratios, 0.0).finding, Finding::Higher);
    let found = of(&ratios, 0.02);
    assert_eq!(found.finding, Finding::NoDifference);
    // The threshold is the least that can be claimed.
    assert!(found.difference_max >= 0.02 && found.noise.detectable >= 0.02, "{found:?}");
}

#[test]
fn one_round_with_a_neighbour_in_it_hides_nothing() {
    let mut ratios = [0.97; 16];
    ratios[5] = 0.975;
    let quiet = of(&ratios, 0.0);
    ratios[3] = 1.6;
    let found = of(&ratios, 0.0);
    assert_eq!(found.finding, Finding::Lower);
    assert!((found.ratio - quiet.ratio).abs() < 0.002, "{found:?}");
}

#[test]
fn the_figure_that_shows_a_difference_decides() {
    let hidden = pairs(&[0.9, 1.1, 1.05, 0.95, 1.2, 0.8, 1.0, 1.02, 0.98, 1.1]);
    let shown = pairs(&[1.03, 1.031, 1.029, 1.03, 1.032, 1.028, 1.03, 1.03, 1.031, 1.029]);
    let same = pairs(&[1.001, 0.999, 1.0, 1.0, 1.001, 0.999, 1.0, 1.0, 1.002, 0.998]);
    let (place, found) = compare_any(&[hidden.clone(), shown.clone()], 0.0).unwrap();
    assert_eq!((place, found.finding), (1, Finding::Higher));
    // Two figures may not err twice as often.
    assert!(found.confidence >= 0.99, "{found:?}");
    assert!(
        found.ratio_high - found.ratio_low
            >= compare(&shown, 0.0).map(|f| f.ratio_high - f.ratio_low).unwrap()
    );
    let (place, found) = compare_any(&[hidden.clone(), same], 0.0).unwrap();
    assert_eq!((place, found.finding), (1, Finding::NoDifference));
    // A figure that was not read decides nothing.
    assert_eq!(compare_any(&[hidden, Vec::new()], 0.0).map(|(place, _)| place), Some(0));
    assert_eq!(compare_any(&[], 0.0), None);
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
        values in prop::collection::vec((1.0f64..1e6, 1.0f64..1e6), 8..30),
    ) {
        let there: Vec<_> = values.iter().filter_map(|(a, b)| Pair::new(*a, *b)).collect();
        let back: Vec<_> = values.iter().filter_map(|(a, b)| Pair::new(*b, *a)).collect();
        let there = compare(&there, 0.01).unwrap();
        let back = compare(&back, 0.01).unwrap();
        let turned = match there.finding {
            Finding::Higher => Finding::Lower,
            Finding::Lower => Finding::Higher,
            same => same,
        };
        prop_assert_eq!(back.finding, turned);
        prop_assert!((there.p - back.p).abs() < 1e-9);
        prop_assert!((there.ratio * back.ratio - 1.0).abs() < 1e-9);
        prop_assert!((there.ratio_low * back.ratio_high - 1.0).abs() < 1e-9);
        prop_assert!(there.ratio_low <= there.ratio && there.ratio <= there.ratio_high);
        // Whatever is claimed to be the largest difference covers the interval.
        prop_assert!(there.ratio_high - 1.0 <= there.difference_max + 1e-9);
        prop_assert!(1.0 / there.ratio_low - 1.0 <= there.difference_max + 1e-9);
    }
}
