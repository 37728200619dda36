//! Many searches against one kind of server, and what they come to.

use std::num::NonZero;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::available_parallelism;

use plimsoll_model::Nanos;
use plimsoll_model::trial::Outcome;

use crate::kinds::Kind;
use crate::methods::{Found, Method, usual};

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
    /// How far a lower bound lay above the truth at most, relative.
    pub(crate) over_max: f64,
}

impl Score {
    pub(crate) fn add(&mut self, found: &Found, truth: f64) {
        self.searches += 1;
        self.trials.push(found.trials);
        self.spent.push(found.spent);
        if let Some(tipping) = &found.tipping {
            self.invalid += tipping.invalid_trials;
            self.unstable += usize::from(matches!(tipping.outcome, Outcome::Unstable { .. }));
            self.undecided += usize::from(matches!(tipping.outcome, Outcome::Undecided { .. }));
        }
        let (Some(lower), Some(upper)) = (found.lower, found.upper) else { return };
        self.stated += 1;
        let width = upper / lower;
        self.wrong += usize::from(!(lower / width..=upper * width).contains(&truth));
        self.over_max = self.over_max.max(lower / truth - 1.0);
        self.contained += usize::from((lower..=upper).contains(&truth));
        self.errors.push(((lower * upper).sqrt() / truth - 1.0).abs());
        self.widths.push(width - 1.0);
    }

    pub(crate) fn sort(&mut self) {
        self.trials.sort_unstable();
        self.spent.sort_unstable();
        self.errors.sort_by(f64::total_cmp);
        self.widths.sort_by(f64::total_cmp);
    }

    /// Of the intervals that were stated.
    pub(crate) fn contained_percent(&self) -> f64 {
        100.0 * self.contained as f64 / self.stated.max(1) as f64
    }

    /// Of all searches.
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

/// A search by `method` for each seed against one kind of server.
pub(crate) fn score(kind: &Kind, method: Method, seeds: Range<u64>) -> Score {
    let long_run = kind.long_run_per_s(method.mode());
    let mut score = Score::default();
    let found = each_seed(seeds, |seed| {
        let seeded = seed.wrapping_mul(0x2545_F491_4F6C_DD1D) ^ 0x51A1;
        let mut world = kind.world(seeded, usual(method.mode()));
        let found = method.search(&mut world, seed, &kind.slo());
        let truth = kind.true_per_s(&world, long_run);
        (found, truth)
    });
    for (found, truth) in &found {
        score.add(found, *truth);
    }
    score.sort();
    score
}
