//! Many searches against one kind of server, and what they come to.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;

use fastrand::Rng;

use plimsoll_capacity::{Context, judge};
use plimsoll_model::slo::Slo;
use plimsoll_model::trial::{Outcome, Phase, TrialRequest, Verdict};
use plimsoll_model::{Nanos, Rate};

use crate::kinds::Kind;
use crate::methods::{Found, Method, Sut, usual};

/// The figures of a table's row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Score {
    pub(crate) searches: usize,
    /// An interval is stated.
    pub(crate) stated: usize,
    pub(crate) unstable: usize,
    pub(crate) undecided: usize,
    /// An interval is stated, and it is off by more than its width.
    pub(crate) wrong: usize,
    /// The truth lies within the bounds.
    pub(crate) contained: usize,
    pub(crate) trials: Vec<u32>,
    /// Trials that were INVALID.
    pub(crate) invalid: u32,
    pub(crate) spent: Vec<Nanos>,
    /// |middle - truth| / truth.
    pub(crate) errors: Vec<f64>,
    pub(crate) widths: Vec<f64>,
    /// The most by which a lower bound exceeded the truth, relative.
    pub(crate) over_max: f64,
    /// A load that met the SLO is stated, with a confidence or without.
    pub(crate) bounded: usize,
    /// Both bounds are stated, with a confidence or without, and differ by a factor of
    /// [`BRACKET`] at most.
    pub(crate) bracketed: usize,
    /// A safe load is stated.
    pub(crate) safe: usize,
    /// Safe loads over the lower bounds of their intervals. Sorted.
    pub(crate) safe_shares: Vec<f64>,
    /// For each safe load where further runs were made: the share of them that meet the SLO. Sorted.
    pub(crate) safe_met: Vec<f64>,
}

/// Ratio of the bounds that a search of 30 s must reach.
const BRACKET: f64 = 1.5;
/// Further runs at a safe load, within [`FURTHER`] of the server's life.
const FURTHER_RUNS: u32 = 20;
const FURTHER: Nanos = Nanos::from_secs(600);
/// A safe load that fewer runs meet promises too much: it is meant for nine runs of ten.
const SAFE_MET_MIN: f64 = 0.8;

impl Score {
    pub(crate) fn add(&mut self, found: &Found, truths: &[f64], safe_met: Option<f64>) {
        self.searches += 1;
        self.trials.push(found.trials);
        self.spent.push(found.spent);
        if let Some(tipping) = &found.tipping {
            self.invalid += tipping.invalid_trials;
            self.unstable += usize::from(matches!(tipping.outcome, Outcome::Unstable { .. }));
            self.undecided += usize::from(matches!(tipping.outcome, Outcome::Undecided { .. }));
        }
        self.bounded += usize::from(found.lower.is_some());
        let bracket = found.lower.zip(found.upper);
        self.bracketed += usize::from(bracket.is_some_and(|(a, b)| b / a <= BRACKET));
        self.safe += usize::from(found.safe().is_some());
        self.safe_met.extend(safe_met);
        let Some((lower, upper)) = found.interval() else { return };
        self.stated += 1;
        let width = upper / lower;
        let holds = |factor: f64| {
            let ends = lower / factor..=upper * factor;
            truths.iter().any(|truth| ends.contains(truth))
        };
        self.wrong += usize::from(!holds(width));
        self.contained += usize::from(holds(1.0));
        let middle = (lower * upper).sqrt();
        let off = |truth: &f64| (middle / truth - 1.0).abs();
        let nearest = truths.iter().copied().min_by(|a, b| off(a).total_cmp(&off(b)));
        let truth = nearest.unwrap_or(f64::NAN);
        self.over_max = self.over_max.max(lower / truth - 1.0);
        self.errors.push(off(&truth));
        self.widths.push(width - 1.0);
        self.safe_shares.extend(found.safe().map(|safe| safe.get() / lower));
    }

    pub(crate) fn sort(&mut self) {
        self.trials.sort_unstable();
        self.spent.sort_unstable();
        self.errors.sort_by(f64::total_cmp);
        self.widths.sort_by(f64::total_cmp);
        self.safe_shares.sort_by(f64::total_cmp);
        self.safe_met.sort_by(f64::total_cmp);
    }

    /// Returns the share of the stated intervals that contain the truth.
    pub(crate) fn contained_percent(&self) -> f64 {
        100.0 * self.contained as f64 / self.stated.max(1) as f64
    }

    /// Returns, for the stated safe loads, the mean share of further runs that meet the SLO, and the share of
    /// many loads too few of them meet, in percent.
    pub(crate) fn safe_percent(&self) -> Option<(f64, f64)> {
        let count = self.safe_met.len() as f64;
        let too_few = self.safe_met.iter().filter(|share| **share < SAFE_MET_MIN).count() as f64;
        let mean = self.safe_met.iter().sum::<f64>() / count;
        (count > 0.0).then(|| (100.0 * mean, 100.0 * too_few / count))
    }

    /// Returns the share of all searches.
    pub(crate) fn percent(&self, count: usize) -> f64 {
        100.0 * count as f64 / self.searches.max(1) as f64
    }
}

/// The value at a quantile of a sorted list.
pub(crate) fn quantile<T: Copy + Default>(sorted: &[T], q: f64) -> T {
    let index = (q * sorted.len() as f64) as usize;
    sorted.get(index.min(sorted.len().saturating_sub(1))).copied().unwrap_or_default()
}

/// Calls `work` for every seed, on as many threads as there are CPUs; the results in the order of the
/// seeds.
pub(crate) fn each_seed<T: Send>(seeds: Range<u64>, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let next = AtomicU64::new(seeds.start);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..available_parallelism().map_or(1, NonZero::get) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let result = work(seed);
                    done.lock().expect("no panic holds it").push((seed, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no panic held it");
    done.sort_by_key(|(seed, _)| *seed);
    done.into_iter().map(|(_, result)| result).collect()
}

/// Runs a search by `method` for each seed against one kind of server. With `tests_safe_loads`, further runs at each
/// safe load, which take as long as the search.
pub(crate) fn score(
    kind: &Kind,
    method: Method,
    seeds: Range<u64>,
    tests_safe_loads: bool,
) -> Score {
    let limits = method.limits();
    let long_run = kind.long_run_per_s(&limits);
    let mut score = Score::default();
    let found = each_seed(seeds, |seed| {
        let seeded = seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x51A1;
        let mut world = kind.world(seeded, usual(method.mode()));
        let begin = world.age();
        let found = method.search(&mut world, seed, &kind.slo());
        let truths = kind.true_per_s(begin, &world, long_run, limits.confirm_trial);
        // To follow further runs operation by operation would take longer than the searches.
        let safe = found.safe().filter(|_| tests_safe_loads && !kind.is_random);
        // As long as those that the search speaks of.
        let run = found.tipping.as_ref().and_then(|tipping| tipping.run);
        let run = run.unwrap_or(limits.confirm_trial);
        let safe_met = safe.map(|rate| share_met(&mut world, rate, run, &kind.slo(), seed));
        (found, truths, safe_met)
    });
    for (found, truths, safe_met) in &found {
        score.add(found, truths, *safe_met);
    }
    score.sort();
    score
}

/// The share of runs of `duration` at `rate`, with random arrivals and at random instants of the server's further life,
/// that meet `slo`.
fn share_met(world: &mut Sut, rate: Rate, duration: Nanos, slo: &Slo, seed: u64) -> f64 {
    let mut rng = Rng::with_seed(seed ^ 0x5AFE);
    // Runs of a minute follow each other at once.
    let pause_s = FURTHER.as_secs_f64() / f64::from(FURTHER_RUNS) - duration.as_secs_f64();
    let pause_s = pause_s.max(1.0);
    let good = (0..FURTHER_RUNS).filter(|_| {
        world.idle(Nanos::from_secs_f64(2.0 * pause_s * rng.f64()));
        let request = TrialRequest { number: 1, phase: Phase::Safe, rate, duration, split: 1 };
        let trial = world.run(request, None);
        let verdict = judge(&trial, slo, &Context::default()).verdict;
        world.recycle(trial.tally);
        verdict == Verdict::Good
    });
    good.count() as f64 / f64::from(FURTHER_RUNS)
}
