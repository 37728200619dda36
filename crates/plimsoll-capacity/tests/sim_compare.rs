//! How often a comparison errs: thousands of them, simulated from seeds, where the truth is known.

use fastrand::Rng;
use plimsoll_capacity::compare::{Comparison, Noise, Pair, SAME_RUNS, Tolerance, compare};
use plimsoll_model::compare::Finding;

const COMPARISONS: u64 = 2_000;
/// The interval's nominal confidence less two percent.
const COVERAGE_MIN: f64 = 0.93;

/// How one measurement deviates from the truth, in logarithms.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Normal(f64),
    /// Normal, and ten times as wide in one measurement of ten.
    HeavyTails(f64),
    /// Only ever too low, as by a neighbour that takes the CPU.
    OneSided(f64),
}

const SHAPES: [Shape; 3] = [Shape::Normal(0.03), Shape::HeavyTails(0.01), Shape::OneSided(0.03)];

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

impl Shape {
    fn deviation(self, rng: &mut Rng) -> f64 {
        match self {
            Self::Normal(sd) => sd * normal(rng),
            Self::HeavyTails(sd) => {
                let tail = if rng.f64() < 0.1 { 10.0 } else { 1.0 };
                sd * tail * normal(rng)
            }
            Self::OneSided(mean) => mean * (1.0 - rng.f64()).ln(),
        }
    }
}

/// A comparison of two servers whose true ratio is `ratio`, over `rounds`. Both are slower or
/// faster together from round to round, as on a shared host.
fn simulate(seed: u64, shape: Shape, rounds: usize, ratio: f64, step: f64) -> Comparison {
    let mut rng = Rng::with_seed(seed);
    let measure = |truth: f64, rng: &mut Rng| {
        let value = truth * shape.deviation(rng).exp();
        if step > 0.0 { down_to_grid(value, step) } else { value }
    };
    let mut round = |ratio: f64| {
        let host = 10_000.0 * (0.1 * normal(&mut rng)).exp();
        let a = measure(host, &mut rng);
        Pair::new(a, measure(host * ratio, &mut rng)).expect("both are positive")
    };
    let same: Vec<Pair> = (0..SAME_RUNS / 2).map(|_| round(1.0)).collect();
    let noise = Noise::of(&same).expect("three pairs");
    let pairs: Vec<Pair> = (0..rounds).map(|_| round(ratio)).collect();
    let tolerance = Tolerance { threshold: 0.0, resolution: step };
    compare(&pairs, noise, tolerance).expect("six rounds or more")
}

/// The lower bound that a search with this width finds.
fn down_to_grid(value: f64, step: f64) -> f64 {
    (1.0 + step).powf((value.ln() / (1.0 + step).ln()).floor())
}

fn share(count: usize) -> f64 {
    count as f64 / COMPARISONS as f64
}

#[test]
fn the_interval_holds_the_truth_as_often_as_it_says() {
    for shape in SHAPES {
        for (rounds, ratio) in [(6, 1.0), (10, 1.04), (15, 0.7)] {
            let held = (0..COMPARISONS)
                .map(|seed| simulate(seed, shape, rounds, ratio, 0.0))
                .filter(|found| (found.low..=found.high).contains(&ratio))
                .count();
            assert!(share(held) >= COVERAGE_MIN, "{shape:?}, {rounds} rounds: {}", share(held));
        }
    }
}

#[test]
fn a_server_seldom_differs_from_itself() {
    for shape in SHAPES {
        for rounds in [6, 10, 15] {
            for step in [0.0, 0.05] {
                let differ = (0..COMPARISONS)
                    .map(|seed| simulate(seed, shape, rounds, 1.0, step))
                    .filter(|found| found.finding != Finding::NoDifference)
                    .count();
                let what = format!("{shape:?}, {rounds} rounds, step {step}");
                assert!(share(differ) <= 0.05, "{what}: {}", share(differ));
            }
        }
    }
}

#[test]
fn what_is_excluded_is_excluded_with_reason() {
    // "No difference larger than X" errs only where the interval does.
    for ratio in [0.97, 1.0, 1.02] {
        let wrong = (0..COMPARISONS)
            .map(|seed| simulate(seed, Shape::Normal(0.03), 10, ratio, 0.0))
            .filter(|found| f64::max(ratio, 1.0 / ratio) - 1.0 > found.difference_max)
            .count();
        assert!(share(wrong) <= 0.05, "{ratio}: {}", share(wrong));
    }
}

#[test]
fn a_coarse_grid_does_not_break_the_interval() {
    for ratio in [1.0, 1.02, 1.07, 1.3] {
        let held = (0..COMPARISONS)
            .map(|seed| simulate(seed, Shape::Normal(0.01), 10, ratio, 0.05))
            .filter(|found| (found.low..=found.high).contains(&ratio))
            .count();
        assert!(share(held) >= COVERAGE_MIN, "{ratio}: {}", share(held));
    }
}

#[test]
fn a_detectable_difference_is_found_four_times_in_five() {
    for rounds in [6, 10, 20] {
        let sd = 0.03;
        // What a comparison would call detectable if it knew the noise exactly.
        let apart = Pair::new(1.0, (sd * 2.0f64.sqrt()).exp()).expect("both are positive");
        let known = Noise::of(&[apart; 3]).expect("three pairs");
        let ratio = 1.0 + known.detectable(rounds, 0.0);
        let found = (0..COMPARISONS)
            .map(|seed| simulate(seed, Shape::Normal(sd), rounds, ratio, 0.0))
            .filter(|found| found.finding == Finding::Higher)
            .count();
        assert!((0.75..=0.9).contains(&share(found)), "{rounds} rounds: {}", share(found));
    }
}
