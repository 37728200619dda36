//! Actual starts of operations beside their due times: counts that threads keep and that add up over threads, agents
//! and seconds.
//!
//! Each thread compares its starts with its own part of the schedule, so that the superposition of the threads'
//! processes need not be known, and ramps need no model. Both sides are the same draw: any difference between them
//! comes from the generator, never from chance.

use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::observation::ArrivalSpread;

/// Width of a narrow bin.
pub const NARROW_BIN: Nanos = Nanos::from_millis(10);
/// Width of a wide bin.
pub const WIDE_BIN: Nanos = Nanos::from_millis(100);
/// Fewer gaps or bins than this are not evaluated.
const SAMPLES_MIN: u64 = 30;

/// Returns the largest lag that does not affect the verdict: a twentieth of the deadline, at least 1 ms. Without a
/// deadline it is 10 ms, which is far above any latency of interest.
pub fn lag_tolerance(deadline: Option<Nanos>) -> Nanos {
    deadline.map_or(Nanos::from_millis(10), |d| Nanos(d.0 / 20).max(Nanos::from_millis(1)))
}

/// Starts in consecutive bins of time, of one timeline of one thread; merged as sums.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinSums {
    /// Bins that have passed, empty ones included.
    pub bins: u64,
    /// Starts in them.
    pub ops: u64,
    /// Sum of the squares of the starts per bin.
    pub squares: u64,
}

impl BinSums {
    /// Adds a bin with `ops` starts, and `empty` ones without any.
    pub const fn add(&mut self, ops: u64, empty: u64) {
        self.bins += 1 + empty;
        self.ops += ops;
        self.squares = self.squares.saturating_add(ops.saturating_mul(ops));
    }

    const fn merge(&mut self, other: &Self) {
        self.bins += other.bins;
        self.ops += other.ops;
        self.squares = self.squares.saturating_add(other.squares);
    }

    fn mean(&self) -> f64 {
        self.ops as f64 / self.bins.max(1) as f64
    }

    fn variance(&self) -> f64 {
        self.squares as f64 / self.bins.max(1) as f64 - self.mean().powi(2)
    }
}

/// Both timelines in bins of one width.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinnedStarts {
    /// By when they were due.
    pub due: BinSums,
    /// By when they were made.
    pub made: BinSums,
    /// Starts made in a later bin than the one they were due in.
    pub displaced: u64,
}

impl BinnedStarts {
    const fn merge(&mut self, other: &Self) {
        self.due.merge(&other.due);
        self.made.merge(&other.made);
        self.displaced += other.displaced;
    }

    /// Returns the variance over the mean of the actual starts, less the same ratio of the due starts, plus 1.
    fn dispersion(&self) -> f64 {
        let mean = self.due.mean();
        if mean > 0.0 { 1.0 + (self.made.variance() - self.due.variance()) / mean } else { 1.0 }
    }
}

/// Counts of the starts of an open loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StartCounts {
    /// Starts.
    pub starts: u64,
    /// Gaps between two neighbouring starts of one thread.
    pub gaps: u64,
    /// Gaps that were longer or shorter than the schedule's by more than [`lag_tolerance`].
    pub gaps_off: u64,
    /// In bins of [`NARROW_BIN`].
    pub narrow: BinnedStarts,
    /// In bins of [`WIDE_BIN`].
    pub wide: BinnedStarts,
}

impl StartCounts {
    /// Reports whether nothing was started on a schedule.
    pub const fn is_empty(&self) -> bool {
        self.starts == 0
    }

    /// Adds the counts of another thread, agent or second.
    pub const fn merge(&mut self, other: &Self) {
        self.starts += other.starts;
        self.gaps += other.gaps;
        self.gaps_off += other.gaps_off;
        self.narrow.merge(&other.narrow);
        self.wide.merge(&other.wide);
    }

    /// Statistics of the arrival process; `None` when there are too few.
    pub fn spread(&self) -> Option<ArrivalSpread> {
        if self.gaps < SAMPLES_MIN || self.narrow.made.bins < SAMPLES_MIN {
            return None;
        }
        let share = |ops: u64| ops as f64 / self.starts as f64;
        Some(ArrivalSpread {
            gap_distance: self.gaps_off as f64 / self.gaps as f64,
            dispersion_10ms: self.narrow.dispersion(),
            dispersion_100ms: self.wide.dispersion(),
            displaced_10ms: share(self.narrow.displaced),
            displaced_100ms: share(self.wide.displaced),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(counts: &[u64]) -> BinSums {
        let mut sums = BinSums::default();
        counts.iter().for_each(|ops| sums.add(*ops, 0));
        sums
    }

    #[test]
    fn a_stall_disperses_and_displaces() {
        let due = sums(&[10; 100]);
        let counts = |made: BinSums, displaced| StartCounts {
            starts: 1_000,
            gaps: 999,
            gaps_off: 1,
            narrow: BinnedStarts { due, made, displaced },
            wide: BinnedStarts::default(),
        };
        let spread = counts(due, 0).spread().expect("enough");
        assert_eq!((spread.dispersion_10ms, spread.displaced_10ms), (1.0, 0.0));
        // Ten bins in which nothing was started, and all of it in the one after them.
        let mut made = [10; 100];
        made[20..30].fill(0);
        made[30] = 110;
        let spread = counts(sums(&made), 100).spread().expect("enough");
        // (110^2 + 89 * 100) / 100 - 10^2 = 110 over a mean of 10.
        assert!((spread.dispersion_10ms - 12.0).abs() < 1e-9, "{spread:?}");
        assert!((spread.displaced_10ms - 0.1).abs() < 1e-9);
        assert!((spread.gap_distance - 1.0 / 999.0).abs() < 1e-9);
    }

    #[test]
    fn counts_add_up_and_few_say_nothing() {
        let mut sums = BinSums::default();
        sums.add(4, 2);
        assert_eq!(sums, BinSums { bins: 3, ops: 4, squares: 16 });
        let mut all = StartCounts { starts: 20, gaps: 19, ..StartCounts::default() };
        all.narrow.made.bins = 20;
        assert_eq!(all.spread(), None);
        let same = all;
        all.merge(&same);
        assert_eq!((all.starts, all.gaps, all.narrow.made.bins), (40, 38, 40));
        assert!(all.spread().is_some());
    }

    #[test]
    fn the_tolerance_follows_the_deadline() {
        for (deadline, tolerance_us) in
            [(None, 10_000), (Some(1), 1_000), (Some(20), 1_000), (Some(50), 2_500)]
        {
            let tolerance = lag_tolerance(deadline.map(Nanos::from_millis));
            assert_eq!(tolerance, Nanos(tolerance_us * 1_000));
        }
    }
}
