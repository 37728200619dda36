//! Peaks: durations that pile up within a percent of one value. A timer leaves them in a histogram, and
//! what work never does.

use plimsoll_model::{Histogram, Nanos};

use super::HORIZON_MAX;
use super::constants::SAME;

/// Values in a pile, at least: fewer occur at random.
const COUNT_MIN: f64 = 20.0;
/// Share of the values from half of the pile's own on, at least: a smaller pile is harmless. Faster values are left
/// out: an overload's queue fills a tail with any number.
const SHARE_MIN: f64 = 0.10;
/// Density relative to the neighbourhood.
const CONTRAST_MIN: f64 = 5.0;
/// Half the width of the window that counts a pile, in natural logarithms: 1 %.
const WINDOW: f64 = 0.01;
/// Scale of all widths for the timers of programs, which are precise within 1 %.
pub(super) const FINE: f64 = 1.0;
/// Scale of all widths for the timers of a kernel: Linux rounds the 1 s of a first SYN retransmission up by as much as
/// 36 ms, and the 4 s of a third by 256 ms (250 Hz).
pub(super) const COARSE: f64 = 2.5;
/// Scale of all widths for the shortest timers of a kernel: 40 ms come after 40 to 45 ms at 250 Hz.
pub(super) const TICK: f64 = 6.0;
/// Half the width within which a pile has to be narrow.
const CLUSTER: f64 = 0.05;
/// Share of the cluster, less the background, that lies in the window. For a normal spread this
/// means that p10 and p90 are within 2 % of each other, which is what a timer does that is noticed
/// a little late; a busy loop's sleeps and a cache's misses spread wider.
const NARROW_MIN: f64 = 0.80;
/// The neighbourhood: windows as wide as the pile's own from 3 % to 19 % off, on both sides.
const NEIGHBOURS: [f64; 16] = [
    -0.18, -0.16, -0.14, -0.12, -0.10, -0.08, -0.06, -0.04, 0.04, 0.06, 0.08, 0.10, 0.12, 0.14,
    0.16, 0.18,
];

/// One pile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Peak {
    /// Middle of the peak.
    pub(super) at: Nanos,
    /// Values in it.
    pub(super) count: u64,
    /// Share of the values above the floor, 0 to 1.
    pub(super) share: f64,
}

/// Reports whether two piles this near to each other are one timer.
pub(super) fn is_same(a: Nanos, b: Nanos) -> bool {
    (a.0.max(1) as f64 / b.0.max(1) as f64).ln().abs() <= SAME
}

/// Values about `at`.
pub(super) fn near(hist: &Histogram, at: Nanos) -> u64 {
    let above = |factor: f64| hist.count_above(Nanos((at.0 as f64 * factor) as u64));
    above(1.0 - SAME) - above(1.0 + SAME)
}

/// Returns every pile above `floor`, the largest first; `scale` is the timers' precision.
pub(super) fn peaks(hist: &Histogram, floor: Nanos, scale: f64) -> Vec<Peak> {
    let tail = hist.count_above(floor) as f64;
    if tail < COUNT_MIN {
        return Vec::new();
    }
    let density = Density::of(hist, scale);
    let floor_ln = (floor.0.max(1) as f64).ln();
    let mut centres: Vec<(f64, f64)> = density
        .points
        .iter()
        // Histograms count everything that is longer as this, so that a pile there is none.
        .filter(|at| **at > floor_ln && at.exp() < HORIZON_MAX.0 as f64)
        .map(|at| (density.around(*at, WINDOW), *at))
        .filter(|(count, _)| *count >= COUNT_MIN)
        .collect();
    centres.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.total_cmp(&b.1)));
    let mut looked_at: Vec<f64> = Vec::new();
    let mut found = Vec::new();
    for (_, near) in centres {
        // The slopes of a pile that was looked at already are no piles of their own.
        if looked_at.iter().any(|other| (other - near).abs() < CLUSTER * density.scale) {
            continue;
        }
        let at = density.median_around(near);
        looked_at.push(at);
        if let Some(excess) = density.pile_at(at)
            && excess >= SHARE_MIN * slower(hist, floor, at)
        {
            found.push(Peak {
                at: Nanos(at.exp().round() as u64),
                count: excess.round() as u64,
                share: (excess / tail).min(1.0),
            });
        }
    }
    found
}

/// Values from half of `at` (a logarithm) on, those above `floor`.
fn slower(hist: &Histogram, floor: Nanos, at: f64) -> f64 {
    hist.count_above(Nanos((at.exp() / 2.0) as u64).max(floor)) as f64
}

/// The recorded values on a logarithmic axis, with running sums.
struct Density {
    /// ln ns of each recorded bucket, ascending.
    points: Vec<f64>,
    /// `sums[i]`: values in the first `i` buckets.
    sums: Vec<u64>,
    /// Scale of all widths.
    scale: f64,
}

impl Density {
    fn of(hist: &Histogram, scale: f64) -> Self {
        let (mut points, mut sums) = (Vec::new(), vec![0]);
        let mut sum = 0;
        for (value, count) in hist.buckets() {
            sum += count;
            points.push((value.0.max(1) as f64).ln());
            sums.push(sum);
        }
        Self { points, sums, scale }
    }

    fn range(&self, from: f64, to: f64) -> (usize, usize) {
        let first = self.points.partition_point(|at| *at < from);
        let end = self.points.partition_point(|at| *at <= to);
        (first, end.max(first))
    }

    /// Values within `half`, scaled, of `centre`.
    fn around(&self, centre: f64, half: f64) -> f64 {
        let half = half * self.scale;
        let (first, end) = self.range(centre - half, centre + half);
        (self.sums[end] - self.sums[first]) as f64
    }

    fn median_around(&self, centre: f64) -> f64 {
        let half = WINDOW * self.scale;
        let (first, end) = self.range(centre - half, centre + half);
        let middle = self.sums[first] + (self.sums[end] - self.sums[first]) / 2;
        let index = self.sums[first..=end].partition_point(|sum| *sum <= middle);
        self.points.get((first + index).saturating_sub(1)).copied().unwrap_or(centre)
    }

    /// Values of a pile at `at` beyond the background; `None` when it is no pile.
    fn pile_at(&self, at: f64) -> Option<f64> {
        let mut near = NEIGHBOURS.map(|off| self.around(at + off * self.scale, WINDOW));
        near.sort_by(f64::total_cmp);
        let background = f64::midpoint(near[7], near[8]);
        let count = self.around(at, WINDOW);
        let excess = count - background;
        // An empty neighbourhood may hide a background of almost one.
        let is_dense = count >= CONTRAST_MIN * background.max(1.0) && excess >= COUNT_MIN;
        let cluster = self.around(at, CLUSTER) - background * CLUSTER / WINDOW;
        (is_dense && excess >= NARROW_MIN * cluster).then_some(excess)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hist(values_ms: impl IntoIterator<Item = f64>) -> Histogram {
        let mut hist = Histogram::new();
        for ms in values_ms {
            hist.record(Nanos((ms * 1e6) as u64));
        }
        hist
    }

    const FLOOR: Nanos = Nanos::from_millis(100);

    #[test]
    fn a_timer_noticed_a_little_late_is_a_pile() {
        let found = peaks(&hist((0..200).map(|i| 3_000.0 + f64::from(i % 20))), FLOOR, FINE);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].count, 200);
        assert!((found[0].share - 1.0).abs() < 1e-9, "{found:?}");
        assert!((found[0].at.as_millis_f64() - 3_010.0).abs() < 10.0, "{found:?}");
    }

    #[test]
    fn too_few_too_wide_too_fast_and_saturated_are_none() {
        let table: [(&str, Vec<f64>); 5] = [
            ("19 values", vec![3_000.0; 19]),
            // 10 % of width, evenly.
            ("wide", (0..1_000).map(|i| 3_000.0 + 0.3 * f64::from(i)).collect()),
            ("below the floor", vec![99.0; 1_000]),
            ("above an hour", vec![4_000_000.0; 1_000]),
            (
                "9 % of what is as slow",
                (0..1_000)
                    .map(|i| if i < 90 { 3_000.0 } else { 1_500.0 * 1.0025_f64.powi(i - 90) })
                    .collect(),
            ),
        ];
        for (what, values) in table {
            assert_eq!(peaks(&hist(values), FLOOR, FINE), [], "{what}");
        }
    }

    #[test]
    fn what_a_kernel_rounds_up_is_a_coarse_pile_only() {
        let values = hist((0..200).map(|i| 1_000.0 + f64::from(i % 37)));
        assert_eq!(peaks(&values, FLOOR, FINE), []);
        let found = peaks(&values, FLOOR, COARSE);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].count, 200);
    }

    #[test]
    fn two_timers_eight_percent_apart_are_two() {
        let values = (0..300).map(|i| [60_000.0, 65_000.0][i % 2]);
        let found = peaks(&hist(values), FLOOR, FINE);
        let mut at: Vec<f64> = found.iter().map(|peak| peak.at.as_secs_f64()).collect();
        at.sort_by(f64::total_cmp);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!((at[0] - 60.0).abs() < 0.1 && (at[1] - 65.0).abs() < 0.1, "{at:?}");
    }
}
