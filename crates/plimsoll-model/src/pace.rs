//! The intended start of the n-th operation: a pure function of the plan and the seed.
//!
//! ```text
//! rate
//!  |        ____     L(t) = area under the rate up to t   (operations)
//!  |      /          N    = L(end), rounded               (operations scheduled in all)
//!  |____/            uniform: the n-th start is t with L(t) = n
//!  +----------- t    poisson: N points, uniform over [0, L(end)), sorted, mapped the same way
//! ```
//!
//! The second is a Poisson process *given its total*: gaps are exponential in any window much shorter than the run, and
//! the number of operations is exactly what was asked for.

use serde::{Deserialize, Serialize};

use crate::{Nanos, Rate};

named! {
    /// The spread of intended starts.
    #[derive(Default)]
    pub enum Arrivals {
        /// Independent users: exponential gaps.
        #[default]
        Poisson = "poisson",
        /// Equal gaps over all agents and threads together.
        Uniform = "uniform",
    }
}

/// A stretch in which the rate goes linearly from one value to another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stage {
    /// Length of the stage.
    pub duration: Nanos,
    /// Rate at its start.
    pub from: Rate,
    /// Rate at its end.
    pub to: Rate,
}

impl Stage {
    /// Operations in the whole stage.
    fn ops(&self) -> f64 {
        0.5 * (self.from.get() + self.to.get()) * self.duration.as_secs_f64()
    }

    /// Seconds into the stage at which `ops` operations are due; 0 <= ops <= self.ops().
    fn time_at(&self, ops: f64) -> f64 {
        let span_s = self.duration.as_secs_f64();
        let (from, to) = (self.from.get(), self.to.get());
        // Solve from*t + slope/2*t^2 = ops without cancellation.
        let slope = (to - from) / span_s;
        let root = (from * from + 2.0 * slope * ops).max(0.0).sqrt();
        let denominator = from + root;
        if denominator > 0.0 { (2.0 * ops / denominator).min(span_s) } else { 0.0 }
    }

    /// The part of the stage in which its first `ops` operations are due; 0 <= ops <= self.ops().
    fn first(&self, ops: f64) -> Self {
        let time_s = self.time_at(ops);
        let (from, to) = (self.from.get(), self.to.get());
        let reached = from + (to - from) * time_s / self.duration.as_secs_f64();
        Self {
            duration: Nanos::from_secs_f64(time_s),
            from: self.from,
            to: Rate::per_second(reached).unwrap_or(self.to),
        }
    }
}

/// The whole rate profile of a load, before it is shared out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// Stages in order; none is longer than the run.
    pub stages: Vec<Stage>,
    /// Operations in all; the stages' area, unless `--requests` cut it.
    pub ops_total: u64,
}

impl Profile {
    /// Creates a profile with one rate for `duration`.
    pub fn constant(rate: Rate, duration: Nanos) -> Self {
        Self::from_stages(vec![Stage { duration, from: rate, to: rate }])
    }

    /// Creates a profile with one rate until `ops_total` operations have been scheduled.
    pub fn constant_ops(rate: Rate, ops_total: u64) -> Self {
        let duration = Nanos::from_secs_f64(ops_total as f64 / rate.get().max(1e-9));
        Self { stages: vec![Stage { duration, from: rate, to: rate }], ops_total }
    }

    /// Creates a profile whose stages each ramp linearly from the previous rate to their own.
    pub fn from_stages(stages: Vec<Stage>) -> Self {
        let ops: f64 = stages.iter().map(Stage::ops).sum();
        Self { stages, ops_total: ops.round() as u64 }
    }

    /// Limits the profile to `ops` operations: it is cut, not squeezed, and ends when the last is due.
    #[must_use]
    pub fn limited_to(mut self, ops: u64) -> Self {
        if ops >= self.ops_total {
            return self;
        }
        self.ops_total = ops;
        let mut left = ops as f64;
        for (index, stage) in self.stages.iter_mut().enumerate() {
            if left <= stage.ops() {
                *stage = stage.first(left);
                self.stages.truncate(index + 1);
                break;
            }
            left -= stage.ops();
        }
        self
    }

    /// Returns the length of all stages.
    pub fn duration(&self) -> Nanos {
        self.stages.iter().fold(Nanos::ZERO, |sum, stage| sum + stage.duration)
    }

    /// Returns the mean rate over the profile.
    pub fn mean_rate(&self) -> Rate {
        let seconds = self.duration().as_secs_f64();
        Rate::per_second(if seconds > 0.0 { self.ops_total as f64 / seconds } else { 0.0 })
            .unwrap_or_default()
    }

    /// Operations under the whole profile, before rounding and cutting.
    fn area(&self) -> f64 {
        self.stages.iter().map(Stage::ops).sum()
    }
}

/// A share of a load: shard `index` out of `of`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// 0 <= index < of.
    pub index: u32,
    /// Number of shards; at least 1.
    pub of: u32,
}

impl Shard {
    /// The whole.
    pub const WHOLE: Self = Self { index: 0, of: 1 };

    /// This shard's part of `total`; the parts of all shards add up to it exactly.
    pub const fn share(self, total: u64) -> u64 {
        let of = self.of as u64;
        total / of + if (self.index as u64) < total % of { 1 } else { 0 }
    }
}

/// The intended starts of one shard, in order. Clone it to look ahead.
#[derive(Clone, Debug)]
pub struct Schedule {
    profile: std::sync::Arc<Profile>,
    arrivals: Arrivals,
    shard: Shard,
    /// Operations of this shard not yet returned.
    left: u64,
    /// Operations of this shard already returned.
    taken: u64,
    /// Last point drawn, in operations; 0 <= drawn <= area. Poisson only.
    drawn: f64,
    area: f64,
    rng: fastrand::Rng,
    // The stage under the cursor and the area before it: starts only move forward.
    stage: usize,
    stage_ops_before: f64,
    stage_time_before: Nanos,
}

impl Schedule {
    /// Creates the schedule of one shard; the same arguments give the same starts.
    ///
    /// ```
    /// use plimsoll_model::pace::{Arrivals, Profile, Schedule, Shard};
    /// use plimsoll_model::{Nanos, Rate};
    ///
    /// let rate = Rate::per_second(100.0).expect("a rate");
    /// let profile = Profile::constant(rate, Nanos::from_secs(1));
    /// assert_eq!(profile.ops_total, 100);
    /// // The second of four threads has every fourth start.
    /// let second = Shard { index: 1, of: 4 };
    /// let mut starts = Schedule::new(profile.into(), Arrivals::Uniform, second, 7);
    /// assert_eq!(starts.left(), 25);
    /// assert_eq!(starts.next(), Some(Nanos::from_millis(10)));
    /// assert_eq!(starts.next(), Some(Nanos::from_millis(50)));
    /// ```
    pub fn new(
        profile: std::sync::Arc<Profile>,
        arrivals: Arrivals,
        shard: Shard,
        seed: u64,
    ) -> Self {
        // A profile cut by --requests keeps its pace: only the first part of its area is used.
        let area = profile.area().min(profile.ops_total as f64 + 0.5);
        Self {
            left: shard.share(profile.ops_total),
            profile,
            arrivals,
            shard,
            taken: 0,
            drawn: 0.0,
            area,
            // Odd multiplier: neighbouring shards get unrelated streams (SplitMix64's constant).
            rng: fastrand::Rng::with_seed(
                seed ^ u64::from(shard.index).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15),
            ),
            stage: 0,
            stage_ops_before: 0.0,
            stage_time_before: Nanos::ZERO,
        }
    }

    /// Returns the number of operations not yet returned.
    pub const fn left(&self) -> u64 {
        self.left
    }

    fn next_point(&mut self) -> f64 {
        match self.arrivals {
            Arrivals::Uniform => {
                (self.taken * u64::from(self.shard.of) + u64::from(self.shard.index)) as f64
            }
            Arrivals::Poisson => {
                // The smallest of `left` uniform points in what remains of the area.
                let share = -((1.0 - self.rng.f64()).ln() / self.left as f64).exp_m1();
                self.drawn += (self.area - self.drawn) * share;
                self.drawn
            }
        }
    }

    fn time_of(&mut self, ops: f64) -> Nanos {
        while let Some(stage) = self.profile.stages.get(self.stage) {
            let stage_ops = stage.ops();
            let inside = ops - self.stage_ops_before;
            if inside < stage_ops || self.stage + 1 == self.profile.stages.len() {
                let span = Nanos::from_secs_f64(stage.time_at(inside.clamp(0.0, stage_ops)));
                return self.stage_time_before + span;
            }
            self.stage_ops_before += stage_ops;
            self.stage_time_before = self.stage_time_before + stage.duration;
            self.stage += 1;
        }
        self.stage_time_before
    }
}

impl Iterator for Schedule {
    /// Since the run's epoch.
    type Item = Nanos;

    fn next(&mut self) -> Option<Nanos> {
        if self.left == 0 {
            return None;
        }
        let point = self.next_point();
        self.left -= 1;
        self.taken += 1;
        Some(self.time_of(point))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use proptest::prelude::*;

    use super::*;

    fn rate(per_s: f64) -> Rate {
        Rate::per_second(per_s).expect("finite")
    }

    fn starts(profile: Profile, arrivals: Arrivals, shards: u32, seed: u64) -> Vec<Nanos> {
        let profile = Arc::new(profile);
        let mut all: Vec<_> = (0..shards)
            .flat_map(|index| {
                Schedule::new(profile.clone(), arrivals, Shard { index, of: shards }, seed)
            })
            .collect();
        all.sort();
        all
    }

    #[test]
    fn uniform_is_exact() {
        // 4 ops/s for 1 s over 3 shards: 0, 250, 500, 750 ms.
        let profile = Profile::constant(rate(4.0), Nanos::from_secs(1));
        let expected: Vec<_> = [0, 250, 500, 750].map(Nanos::from_millis).into();
        assert_eq!(starts(profile, Arrivals::Uniform, 3, 1), expected);
    }

    #[test]
    fn ramp_from_zero_follows_the_square_root() {
        // 0 to 10 ops/s in 2 s: 10 ops, the n-th at sqrt(n / 2.5) s.
        let stage = Stage { duration: Nanos::from_secs(2), from: rate(0.0), to: rate(10.0) };
        let got = starts(Profile::from_stages(vec![stage]), Arrivals::Uniform, 1, 1);
        assert_eq!(got.len(), 10);
        for (n, at) in got.iter().enumerate() {
            assert!((at.as_secs_f64() - (n as f64 / 2.5).sqrt()).abs() < 1e-6);
        }
    }

    #[test]
    fn a_cut_profile_ends_with_its_last_operation() {
        // 0 to 10 ops/s in 2 s, then 10/s for an hour: 10 + 36,000 operations.
        let ramp = Stage { duration: Nanos::from_secs(2), from: rate(0.0), to: rate(10.0) };
        let flat = Stage { duration: Nanos::from_secs(3600), from: rate(10.0), to: rate(10.0) };
        for (ops, stages, end_ms) in [
            (100_000, 2, 3_602_000), // more than there are: nothing is cut
            (25, 2, 3_500),          // 10 in the ramp, 15 in 1.5 s
            (10, 1, 2_000),          // exactly the ramp
            (5, 1, 1_414),           // t with 2.5 t^2 = 5
        ] {
            let whole = Profile::from_stages(vec![ramp, flat]);
            let pace = starts(whole.clone(), Arrivals::Uniform, 1, 1);
            let cut = whole.limited_to(ops);
            assert_eq!((cut.stages.len(), cut.duration().0 / 1_000_000), (stages, end_ms));
            let kept = starts(cut, Arrivals::Uniform, 1, 1);
            assert_eq!(kept.len() as u64, ops.min(36_010));
            for (at, before) in kept.iter().zip(&pace) {
                assert!(at.0.abs_diff(before.0) < 1_000, "{at} was due at {before}");
            }
        }
    }

    #[test]
    fn poisson_gaps_are_exponential() {
        let profile = Profile::constant(rate(1000.0), Nanos::from_secs(100));
        let got = starts(profile, Arrivals::Poisson, 4, 7);
        assert_eq!(got.len(), 100_000);
        let gaps: Vec<f64> =
            got.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect();
        // Share of gaps above the mean: 1/e; the bound is five standard deviations.
        let above = gaps.iter().filter(|gap| **gap > 1e-3).count() as f64 / gaps.len() as f64;
        assert!((above - (-1.0f64).exp()).abs() < 5.0 * (0.37f64 * 0.63 / 1e5).sqrt(), "{above}");
    }

    proptest! {
        #[test]
        fn shards_add_up_and_starts_stay_inside(
            stages in prop::collection::vec((1u64..5_000, 0.0f64..500.0), 1..4),
            shards in 1u32..9,
            seed in any::<u64>(),
            uniform in any::<bool>(),
            limit in prop::option::of(0u64..500),
        ) {
            let mut from = Rate::ZERO;
            let stages: Vec<_> = stages.into_iter().map(|(ms, to)| {
                let stage = Stage { duration: Nanos::from_millis(ms), from, to: rate(to) };
                from = stage.to;
                stage
            }).collect();
            let mut profile = Profile::from_stages(stages);
            if let Some(limit) = limit {
                profile = profile.limited_to(limit);
            }
            let arrivals = if uniform { Arrivals::Uniform } else { Arrivals::Poisson };
            let total = profile.ops_total;
            let end = profile.duration();
            for index in 0..shards {
                let shard = Shard { index, of: shards };
                let one: Vec<_> =
                    Schedule::new(Arc::new(profile.clone()), arrivals, shard, seed).collect();
                prop_assert!(one.is_sorted());
            }
            let all = starts(profile, arrivals, shards, seed);
            prop_assert_eq!(all.len() as u64, total);
            prop_assert!(all.iter().all(|at| *at <= end));
        }

        #[test]
        fn shares_add_up(total in 0u64..1_000_000, of in 1u32..100) {
            let sum: u64 = (0..of).map(|index| Shard { index, of }.share(total)).sum();
            prop_assert_eq!(sum, total);
        }
    }
}
