//! Is a backlog growing? A loose latency limit hides overload for as long as the queue is short;
//! the number of unfinished operations does not.
//!
//! It looks at samples only and decides nothing about the latency goals.

use plimsoll_model::tally::OUTSTANDING_SAMPLE;
use plimsoll_model::{Nanos, Rate};

use crate::stats::{Z_995, kendall_weight, mean, pair_slopes, upper_median};

/// Growth below this share of the offered rate, per second, is not called overload. A queue that
/// grows so fast makes answers 10 ms slower in 10 s, far below most deadlines.
const SLOPE_SHARE_MAX: f64 = 0.001;
/// Share of the second half's arrivals that has to be completed in it.
const COMPLETED_SHARE_MIN: f64 = 0.995;
/// A backlog this small is never overload: a handful of connections being opened looks the same.
pub(crate) const GROWTH_OPS_MIN: f64 = 10.0;
/// Standard deviations of a random walk with the observed steps that growth must exceed: a healthy queue near
/// saturation wanders at random, and how much depends on the arrivals and on the server.
const WALK_SIGMAS: f64 = 2.0;
/// One blip is two large steps of the count, up and down.
const BLIP_STEPS: usize = 2;
/// More points than this are averaged together: pairs grow with the square.
const POINTS_MAX: usize = 120;
/// Fewer points than this say nothing.
const POINTS_MIN: usize = 10;

/// The course of unfinished operations over the measured window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Backlog {
    /// Theil-Sen slope, operations per second.
    pub slope_per_s: f64,
    /// Mann-Kendall's statistic; above 2.576 a rise is significant at 1 %.
    pub kendall_z: f64,
    /// Slope times the time looked at, operations.
    pub growth_ops: f64,
    /// Completions over arrivals in the second half.
    pub completed_share: f64,
    /// Growth that chance can make, operations.
    pub growth_ops_chance: f64,
    /// The slope that is tolerated, operations per second.
    pub slope_per_s_max: f64,
}

impl Backlog {
    /// Looks at the samples within `window`; `settle` is how long the first operations take at no
    /// load, until when a growing number is only the pipeline filling. `None` when there are too
    /// few samples to say anything.
    pub fn observe(outstanding: &[u32], window: Nanos, settle: Nanos, rate: Rate) -> Option<Self> {
        let samples = (window.0 / OUTSTANDING_SAMPLE.0) as usize;
        let samples = outstanding.iter().take(samples).map(|ops| f64::from(*ops));
        let samples: Vec<f64> = samples.collect();
        // One second of a 5 s trial may go; past half of it the trend is all there is to see.
        let skip = (settle.0.div_ceil(OUTSTANDING_SAMPLE.0) as usize)
            .max(samples.len() / 10)
            .min(samples.len() / 2);
        let samples = &samples[skip..];
        if samples.len() < POINTS_MIN {
            return None;
        }
        let group = samples.len().div_ceil(POINTS_MAX);
        let of_group = |group: &[f64]| mean(group.iter().copied());
        let points: Vec<f64> = samples.chunks_exact(group).filter_map(of_group).collect();
        let point_s = OUTSTANDING_SAMPLE.as_secs_f64() * group as f64;
        let span_s = OUTSTANDING_SAMPLE.as_secs_f64() * samples.len() as f64;
        let slope_per_s = theil_sen(&points) / point_s;
        let half = samples.len() / 2;
        let near = (samples.len() / 10).max(2);
        // Medians of short stretches, so that one pause at the very end is not a trend.
        let middle = upper_median(samples[half - near..half + near].iter().copied())?;
        let end = upper_median(samples[samples.len() - 2 * near..].iter().copied())?;
        // Between the centres of the two stretches.
        let between_s = OUTSTANDING_SAMPLE.as_secs_f64() * (samples.len() - near - half) as f64;
        let arrivals = rate.get() * between_s;
        Some(Self {
            slope_per_s,
            kendall_z: kendall_z(&points),
            growth_ops: slope_per_s * span_s,
            completed_share: if arrivals > 0.0 { 1.0 - (end - middle) / arrivals } else { 1.0 },
            growth_ops_chance: GROWTH_OPS_MIN.max(WALK_SIGMAS * walk_sd(samples)),
            slope_per_s_max: SLOPE_SHARE_MAX * rate.get(),
        })
    }

    /// Reports whether the SUT falls behind.
    pub fn grows(&self) -> bool {
        let trend = self.slope_per_s > self.slope_per_s_max && self.kendall_z > Z_995;
        // The second half's share alone is two short stretches compared, so both need the floor.
        (trend || self.completed_share < COMPLETED_SHARE_MIN)
            && self.growth_ops > self.growth_ops_chance
    }
}

/// The slope of Theil and Sen, per point.
fn theil_sen(points: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> =
        points.iter().enumerate().map(|(at, value)| (at as f64, *value)).collect();
    upper_median(pair_slopes(&points)).unwrap_or(0.0)
}

/// Returns the distance that a random walk with the steps of these samples goes: a standard deviation. Its
/// [`BLIP_STEPS`] largest steps count as the next one does, so that a blip raises nothing.
fn walk_sd(samples: &[f64]) -> f64 {
    let steps = samples.windows(2).map(|pair| pair[1] - pair[0]);
    let mut steps: Vec<f64> = steps.collect();
    steps.sort_by(f64::total_cmp);
    let usual = steps.get(BLIP_STEPS..steps.len().saturating_sub(BLIP_STEPS)).unwrap_or_default();
    let centre = mean(usual.iter().copied()).unwrap_or(0.0);
    let mut sizes: Vec<f64> = steps.iter().map(|step| (step - centre).abs()).collect();
    sizes.sort_by(|a, b| b.total_cmp(a));
    let most = sizes.get(BLIP_STEPS).copied().unwrap_or_default();
    sizes.iter().map(|size| size.min(most).powi(2)).sum::<f64>().sqrt()
}

/// Mann-Kendall's z with the correction for ties.
fn kendall_z(points: &[f64]) -> f64 {
    let mut balance = 0.0;
    for (i, early) in points.iter().enumerate() {
        for late in &points[i + 1..] {
            balance += f64::from(u8::from(late > early)) - f64::from(u8::from(late < early));
        }
    }
    let mut sorted = points.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 =
        sorted.chunk_by(|a, b| a == b).map(|equal| kendall_weight(equal.len() as f64)).sum();
    let variance = (kendall_weight(points.len() as f64) - ties) / 18.0;
    if variance <= 0.0 {
        return 0.0;
    }
    // Continuity correction.
    (balance - f64::signum(balance) * f64::from(u8::from(balance != 0.0))) / variance.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(per_s: f64) -> Rate {
        Rate::per_second(per_s).expect("finite")
    }

    fn observe(samples: &[u32], per_s: f64) -> Backlog {
        let window = Nanos(OUTSTANDING_SAMPLE.0 * samples.len() as u64);
        Backlog::observe(samples, window, Nanos::ZERO, rate(per_s)).expect("enough samples")
    }

    #[test]
    fn two_percent_overload_at_20_000_per_s_is_seen_in_5_s() {
        let samples: Vec<u32> = (0..50).map(|i| 100 + i * 40).collect();
        let backlog = observe(&samples, 20_000.0);
        assert!((backlog.slope_per_s - 400.0).abs() < 1.0);
        assert!((backlog.completed_share - 0.98).abs() < 1e-3, "{backlog:?}");
        assert!(backlog.grows());
    }

    #[test]
    fn level_backlogs_pauses_and_tiny_counts_are_stable() {
        let level: Vec<u32> = (0..50).map(|i| 1_000 + (i * 7) % 13).collect();
        assert!(!observe(&level, 20_000.0).grows());
        // A pause of 200 ms at the very end.
        let mut pause = level;
        pause[48] = 3_000;
        pause[49] = 5_000;
        assert!(!observe(&pause, 20_000.0).grows());
        let tiny: Vec<u32> = (0..50).map(|i| i / 7).collect();
        assert!(!observe(&tiny, 100.0).grows());
    }

    #[test]
    fn one_blip_does_not_hide_overload() {
        let mut samples: Vec<u32> = (0..50).map(|i| 100 + i * 40).collect();
        samples[20] += 1_500;
        let backlog = observe(&samples, 20_000.0);
        assert!(backlog.grows(), "{backlog:?}");
    }

    #[test]
    fn a_filling_pipeline_is_not_growth() {
        // Every answer takes 2 s: the count rises for 2 s, then stays.
        let samples: Vec<u32> = (0..50).map(|i| 1_000 * i.min(20) / 10).collect();
        let window = Nanos::from_secs(5);
        let observe = |settle| Backlog::observe(&samples, window, settle, rate(1_000.0));
        assert!(!observe(Nanos::from_secs(2)).expect("enough").grows());
        assert!(observe(Nanos::ZERO).expect("enough").grows());
    }

    #[test]
    fn samples_after_the_window_and_short_windows_are_left_out() {
        let samples: Vec<u32> = (0..200).collect();
        let window = Nanos::from_millis(900);
        assert_eq!(Backlog::observe(&samples, window, Nanos::ZERO, rate(10.0)), None);
        assert_eq!(Backlog::observe(&[], Nanos::from_secs(5), Nanos::ZERO, rate(10.0)), None);
    }

    #[test]
    fn kendall_agrees_with_a_table() {
        // n = 10, all pairs concordant: S = 45, variance 125, z = 44/sqrt(125).
        let rising: Vec<f64> = (0..10).map(f64::from).collect();
        assert!((kendall_z(&rising) - 44.0 / 125f64.sqrt()).abs() < 1e-9);
        assert_eq!(kendall_z(&[1.0; 10]), 0.0);
    }
}
