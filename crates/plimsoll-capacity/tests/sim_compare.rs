//! Errors of comparisons: a thousand and more of each kind, simulated from seeds on a host whose speed
//! moves, where the truth is known.

use fastrand::Rng;
use plimsoll_capacity::compare::{Pair, compare, turns};
use plimsoll_model::compare::{Difference, Finding};

const COMPARISONS: u64 = 1_000;
/// The interval's nominal confidence, less what a thousand tosses vary by.
const COVERAGE_MIN: f64 = 0.97;
/// A difference where there is none. Chance moves the 2 % of a thousand by 0.4 %.
const FALSE_MAX: f64 = 0.03;

/// The host's effect on the blocks that run on it, one after the other. In logarithms.
#[derive(Clone, Copy, Debug, Default)]
struct Host {
    /// Noise of a block by itself.
    block: f64,
    /// Noise that neighbouring blocks have in common: most of it is still there in the next one.
    shared: f64,
    /// From the first block to the last.
    drift: f64,
    /// A step in the middle, and back at three quarters.
    step: f64,
    /// Probability that a neighbour takes a third of the CPU from a block on, for one to four blocks.
    bursts: f64,
}

const HOSTS: [Host; 6] = [
    Host { block: 0.02, shared: 0.0, drift: 0.0, step: 0.0, bursts: 0.0 },
    Host { block: 0.02, shared: 0.05, drift: -0.1, step: 0.0, bursts: 0.0 },
    Host { block: 0.02, shared: 0.0, drift: 0.0, step: -0.3, bursts: 0.0 },
    Host { block: 0.01, shared: 0.02, drift: 0.0, step: 0.0, bursts: 0.05 },
    Host { block: 0.005, shared: 0.08, drift: 0.3, step: -0.1, bursts: 0.0 },
    Host { block: 0.0, shared: 0.0, drift: -0.5, step: 0.0, bursts: 0.0 },
];

fn normal(rng: &mut Rng) -> f64 {
    (-2.0 * (1.0 - rng.f64()).ln()).sqrt() * (std::f64::consts::TAU * rng.f64()).cos()
}

/// Returns the speed of the host in each of `blocks`, in logarithms.
fn weather(host: Host, blocks: usize, rng: &mut Rng) -> Vec<f64> {
    let (mut shared, mut busy) = (0.0, 0);
    let block = |index: usize| {
        let at = index as f64 / blocks as f64;
        shared = 0.9 * shared + (1.0 - 0.9f64.powi(2)).sqrt() * host.shared * normal(rng);
        busy =
            if rng.f64() < host.bursts { rng.usize(1..5) } else { usize::saturating_sub(busy, 1) };
        let stepped = if (0.5..0.75).contains(&at) { host.step } else { 0.0 };
        let burst = if busy > 0 { -0.4 } else { 0.0 };
        host.drift * at + stepped + shared + burst + host.block * normal(rng)
    };
    (0..blocks).map(block).collect()
}

/// A comparison of two servers whose true ratio is `ratio`.
fn simulate(seed: u64, host: Host, rounds: usize, ratio: f64) -> Difference {
    let mut rng = Rng::with_seed(seed);
    let weather = weather(host, rounds * 2, &mut rng);
    let round = |(turn, blocks): (Vec<usize>, &[f64])| {
        let (a, b) = if turn[0] == 0 { (0, 1) } else { (1, 0) };
        let figure = |block: usize| 10_000.0 * blocks[block].exp();
        Pair::new(figure(a), ratio * figure(b)).expect("both are positive")
    };
    let pairs: Vec<Pair> =
        turns(2, rounds, seed).into_iter().zip(weather.chunks(2)).map(round).collect();
    compare(&pairs, 0.0).expect("eight rounds or more")
}

/// Returns the share of a thousand comparisons for which `is` holds.
fn share(host: Host, rounds: usize, ratio: f64, is: impl Fn(&Difference) -> bool) -> f64 {
    let found = (0..COMPARISONS).map(|seed| simulate(seed, host, rounds, ratio));
    found.filter(is).count() as f64 / COMPARISONS as f64
}

#[test]
fn the_interval_holds_the_truth_as_often_as_it_says() {
    for host in HOSTS {
        for (rounds, ratio) in [(8, 1.0), (12, 1.04), (24, 0.7)] {
            let held = share(host, rounds, ratio, |found| {
                (found.ratio_low - 1e-9..=found.ratio_high + 1e-9).contains(&ratio)
            });
            assert!(held >= COVERAGE_MIN, "{host:?}, {rounds} rounds: {held}");
        }
    }
}

#[test]
fn a_server_seldom_differs_from_itself() {
    for host in HOSTS.into_iter().filter(|host| host.block > 0.0) {
        for rounds in [8, 12, 24] {
            let differ = share(host, rounds, 1.0, |found| found.finding != Finding::NoDifference);
            assert!(differ <= FALSE_MAX, "{host:?}, {rounds} rounds: {differ}");
        }
    }
}

/// Simulates a comparison on a host whose speed has two levels: the server is 16 % slower in stretches of 2 to 8 s,
/// blocks last 5 s. With a witness, a yardstick that feels more of it than the server (`felt` is the server's part) and
/// is off by 2 %.
fn simulate_stretches(
    seed: u64,
    rounds: usize,
    ratio: f64,
    felt: f64,
    witness: bool,
) -> Difference {
    const BLOCK_S: usize = 5;
    let mut rng = Rng::with_seed(seed);
    let mut seconds = Vec::new();
    while seconds.len() < 2 * rounds * BLOCK_S {
        let speed = if rng.bool() { 0.84f64 } else { 1.0 };
        seconds.extend(std::iter::repeat_n(speed, rng.usize(2..=8)));
    }
    seconds.truncate(2 * rounds * BLOCK_S);
    let blocks: Vec<(f64, f64)> = seconds
        .chunks(BLOCK_S)
        .map(|block| {
            let mean = |of: &dyn Fn(f64) -> f64| {
                block.iter().map(|speed| of(*speed)).sum::<f64>() / block.len() as f64
            };
            let goodput = mean(&|speed| speed) * (0.01 * normal(&mut rng)).exp();
            let piece = mean(&|speed| speed.powf(-1.0 / felt)) * (0.02 * normal(&mut rng)).exp();
            (10_000.0 * goodput, 1.0 / piece)
        })
        .collect();
    let round = |(turn, blocks): (Vec<usize>, &[(f64, f64)])| {
        let (a, b) = if turn[0] == 0 { (blocks[0], blocks[1]) } else { (blocks[1], blocks[0]) };
        let pair = Pair::new(a.0, ratio * b.0).expect("both are positive");
        if witness { pair.expecting(a.1, b.1) } else { pair }
    };
    let pairs: Vec<Pair> =
        turns(2, rounds, seed).into_iter().zip(blocks.chunks(2)).map(round).collect();
    compare(&pairs, 0.0).expect("eight rounds or more")
}

#[test]
fn at_like_speed_smaller_differences_are_seen_and_no_more_are_made_up() {
    for felt in [0.4, 1.0] {
        let share = |rounds, ratio, witness, is: &dyn Fn(&Difference) -> bool| {
            let found =
                (0..COMPARISONS).map(|seed| simulate_stretches(seed, rounds, ratio, felt, witness));
            found.filter(is).count() as f64 / COMPARISONS as f64
        };
        for rounds in [8, 12, 24] {
            let differ = |found: &Difference| found.finding != Finding::NoDifference;
            let (without, with) =
                (share(rounds, 1.0, false, &differ), share(rounds, 1.0, true, &differ));
            // Stretches that last as long as a round make rounds depend on each other.
            let most = FALSE_MAX.max(without) + 0.01;
            assert!(with <= most, "felt {felt}, {rounds} rounds: {with}, {without} without");
        }
        let held =
            share(12, 1.04, true, &|found| (found.ratio_low..=found.ratio_high).contains(&1.04));
        assert!(held >= COVERAGE_MIN - 0.01, "felt {felt}: {held}");
        let lower = |found: &Difference| found.finding == Finding::Lower;
        let (without, with) = (share(24, 0.97, false, &lower), share(24, 0.97, true, &lower));
        assert!(with >= 0.8 && with >= without + 0.2, "felt {felt}: {with}, {without} without");
    }
}

#[test]
fn the_noise_floor_is_the_interval_of_a_against_itself() {
    let middle = |of: &dyn Fn(&Difference) -> f64| {
        let mut all: Vec<f64> =
            (0..201).map(|seed| of(&simulate(seed, HOSTS[0], 24, 1.0))).collect();
        all.sort_by(f64::total_cmp);
        all[100]
    };
    let floor = middle(&|found| found.noise.floor.expect("enough rounds"));
    let half_width = middle(&|found| found.noise.half_width);
    assert!((0.8..1.25).contains(&(floor / half_width)), "{floor} {half_width}");
}

#[test]
fn three_percent_less_are_seen_in_five_minutes() {
    for host in HOSTS {
        let seen = share(host, 24, 0.97, |found| found.finding == Finding::Lower);
        assert!(seen >= 0.8, "{host:?}: {seen}");
        let wrong = share(host, 24, 0.97, |found| found.finding == Finding::Higher);
        assert!(wrong <= 0.01, "{host:?}: {wrong}");
    }
}

#[test]
fn what_is_excluded_is_excluded_with_reason() {
    // "No difference larger than X" errs only if the interval does.
    for ratio in [0.97, 1.0, 1.02] {
        let wrong = share(HOSTS[0], 10, ratio, |found| {
            f64::max(ratio, 1.0 / ratio) - 1.0 > found.difference_max
        });
        assert!(wrong <= 0.03, "{ratio}: {wrong}");
    }
}

#[test]
fn a_detectable_difference_is_seen_four_times_in_five() {
    for rounds in [8, 12, 24] {
        // What a comparison would call detectable, at the median.
        let mut said: Vec<f64> =
            (0..201).map(|seed| simulate(seed, HOSTS[0], rounds, 1.0).noise.detectable).collect();
        said.sort_by(f64::total_cmp);
        let seen =
            share(HOSTS[0], rounds, 1.0 + said[100], |found| found.finding == Finding::Higher);
        assert!((0.7..=0.9).contains(&seen), "{rounds} rounds: {seen}");
    }
}
