//! Comparison of B with A over rounds that measured both in turn: their difference, its certainty, and the smallest
//! difference that would have been detected.
//!
//! A round is a block of A and a block of B, one right after the other; every two rounds are A B B A or
//! B A A B, so that what changes evenly favours neither. The round is the unit of replication, never
//! the request: what happens within a block is not independent. Rounds are compared by the logarithm
//! of B/A, so that "twice" and "half" are equally far from "the same".
//!
//! Neighbours slow a host for seconds, so that one block of a round may be slower than the other. Where a
//! yardstick timed the host in every block, rounds are compared at like speed (`like_speed.rs`).

mod blocks;
mod like_speed;
mod rank;
mod rounds;

use plimsoll_model::compare::{Difference, Finding, NoiseSummary};

use like_speed::LikeSpeed;
use rank::{Estimate, estimate};

use crate::stats::{median_of, variance};

pub use blocks::{BUDGET_MIN, Blocks};
pub use rounds::turns;

/// The most often that a server which is compared with itself is found different: of twenty comparisons more
/// than one in 6 % of all cases, where 5 % would make it 26 %.
const ERROR: f64 = 0.02;
/// Fewest rounds that support a statement about two figures, which share the error: eight coins show
/// the same side in 0.8 % of all cases, seven in 1.6 %.
pub const ROUNDS_MIN: usize = 8;
/// Rounds by default.
pub const ROUNDS_DEFAULT: u32 = 24;
/// The difference that is detected in 80 % of comparisons, in half widths of the interval. Simulated in
/// `tests/sim_compare.rs`.
const DETECTABLE: f64 = 1.4;

/// One round: both figures, positive and finite.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pair {
    /// A's figure.
    pub a: f64,
    /// B's, in the same unit.
    pub b: f64,
    /// Logarithms of what the figures of A and B are in proportion to if they follow the speed of the host as a whole.
    expected: Option<[f64; 2]>,
}

impl Pair {
    /// Creates a usable pair; `None` when either value has no logarithm.
    pub fn new(a: f64, b: f64) -> Option<Self> {
        let usable = |value: f64| value.is_finite() && value > 0.0;
        (usable(a) && usable(b)).then_some(Self { a, b, expected: None })
    }

    /// Adds the figures that the speed of the host lets expect, in any unit: the CPU time of a fixed piece of work for
    /// a cost or a latency, its reciprocal for a rate. Without effect if either value has no logarithm.
    #[must_use]
    pub fn expecting(self, a: f64, b: f64) -> Self {
        let expected = Self::new(a, b).map(|usable| [usable.a.ln(), usable.b.ln()]);
        Self { expected, ..self }
    }

    fn log_ratio(self) -> f64 {
        (self.b / self.a).ln()
    }
}

/// Compares several figures of the same rounds, each at its part of the error. Returns the figure that decides, with
/// its place: the one that shows a difference most clearly, or else the one that would have detected the smallest.
/// `None` if no figure has [`ROUNDS_MIN`] usable rounds.
pub fn compare_any(figures: &[Vec<Pair>], threshold: f64) -> Option<(usize, Difference)> {
    let error = ERROR / figures.len().max(1) as f64;
    let compared = figures.iter().map(|rounds| compare_within(rounds, threshold, error));
    let compared = compared.enumerate().filter_map(|(place, found)| Some((place, found?)));
    let rank = |found: &Difference| match found.finding {
        Finding::NoDifference => (1, found.noise.detectable),
        _ => (0, found.p),
    };
    compared.min_by(|(_, one), (_, other)| {
        let (one, other) = (rank(one), rank(other));
        one.0.cmp(&other.0).then(one.1.total_cmp(&other.1))
    })
}

/// Compares the usable rounds; `None` when there are fewer than [`ROUNDS_MIN`].
///
/// ```
/// use plimsoll_capacity::compare::{Pair, compare};
/// use plimsoll_model::compare::Finding;
///
/// // B is a tenth slower in each round, whatever the host does meanwhile.
/// let pair = |round: u32| Pair::new(f64::from(10 + round % 3), 1.1 * f64::from(10 + round % 3));
/// let rounds: Vec<Pair> = (0..12).filter_map(pair).collect();
/// let difference = compare(&rounds, 0.02).expect("twelve rounds");
/// assert_eq!(difference.finding, Finding::Higher);
/// assert_eq!((difference.ratio * 100.0).round(), 110.0);
/// assert_eq!(compare(&rounds[..7], 0.02), None);
/// ```
pub fn compare(rounds: &[Pair], threshold: f64) -> Option<Difference> {
    compare_within(rounds, threshold, ERROR)
}

/// Returns the difference, if there are enough rounds. It is one if the interval excludes "the same" and the estimate
/// is beyond `threshold`, a relative difference that does not matter to the user.
fn compare_within(rounds: &[Pair], threshold: f64, error: f64) -> Option<Difference> {
    difference(rounds, threshold, error).filter(|_| rounds.len() >= ROUNDS_MIN)
}

/// Returns the difference over any pairs, with an interval that is wrong with a probability of at most `error`; `None`
/// for too few pairs.
pub(crate) fn difference(rounds: &[Pair], threshold: f64, error: f64) -> Option<Difference> {
    let raw: Vec<f64> = rounds.iter().map(|pair| pair.log_ratio()).collect();
    let LikeSpeed { logs, floor, is_corrected } = LikeSpeed::of(rounds, error);
    let Estimate { middle, low, high, confidence, p } = estimate(&logs, error)?;
    let observed = estimate(&raw, error).filter(|_| is_corrected);
    let matters = middle.abs() > threshold.ln_1p();
    let finding = if matters && low > 0.0 {
        Finding::Higher
    } else if matters && high < 0.0 {
        Finding::Lower
    } else {
        Finding::NoDifference
    };
    let half = (high - low) / 2.0;
    let noise = NoiseSummary {
        cv: relative(variance(&logs).sqrt() / std::f64::consts::SQRT_2),
        half_width: relative(half),
        floor: floor.map(relative),
        detectable: relative(DETECTABLE * half).max(threshold),
    };
    Some(Difference {
        finding,
        ratio: middle.exp(),
        ratio_low: low.exp(),
        ratio_high: high.exp(),
        ratio_observed: observed.map(|observed| observed.middle.exp()),
        confidence,
        p,
        difference_max: relative(low.abs().max(high.abs())).max(threshold),
        noise,
        a: median_of(rounds.iter().map(|pair| pair.a))?,
        b: median_of(rounds.iter().map(|pair| pair.b))?,
    })
}

/// Returns a logarithm of a ratio as a relative difference.
fn relative(log: f64) -> f64 {
    log.exp_m1()
}

#[cfg(test)]
mod tests;
