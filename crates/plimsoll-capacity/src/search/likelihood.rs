//! One likelihood over all trials: where is the capacity, and how much does it differ from trial
//! to trial?
//!
//! Model: in each trial the server has a capacity whose logarithm is normal around `mu` with the
//! standard deviation `sd`. A trial at the load x is GOOD where that capacity lies above x; besides,
//! a share `lapse` of the trials is BAD for reasons that have nothing to do with the load (a stalled
//! disk, a cron job), and one in [`GOOD_LAPSES`] is GOOD although it should not be.
//!
//! A trial deep in overload tells no verdict of interest, but a reading: the rate of good answers.
//! The mean of the readings lies near the capacity ([`LEVEL_SD`]) or, with the prior weight
//! [`LEVEL_TRUSTED`] for the former, anywhere, because overload may cost a server its capacity and
//! an objective may be missed far below it. The differences between readings say how large `sd` is.
//!
//! Prior: `mu` is flat in its logarithm over the loads that were offered and a little beyond; `sd`
//! has the same weight in each octave up to [`SD_USUAL`] and falls with 1/sd beyond; `lapse` is one
//! of [`LAPSES`]. The posterior is laid out on a grid that zooms in on where its weight is.

use crate::median::median;

/// Shares of trials that are BAD whatever the load, and their prior weights.
const LAPSES: [(f64, f64); 3] = [(0.01, 0.6), (0.05, 0.3), (0.15, 0.1)];
/// Share of trials that are GOOD although their capacity lies below the load.
const GOOD_LAPSES: f64 = 0.005;
/// Standard deviations looked at: from this one up by [`SD_STEP`].
const SD_LEAST: f64 = 0.002;
const SD_STEP: f64 = 1.6;
const SDS: usize = 11;
/// Larger spreads are less likely beforehand.
const SD_USUAL: f64 = 0.02;
/// Goodput under overload and the capacity under the objective differ by so much.
const LEVEL_SD: f64 = 0.02;
const LEVEL_TRUSTED: f64 = 0.5;
/// Otherwise the readings lie anywhere within so much, logarithmic.
const LEVEL_RANGE: f64 = 1.5;
/// Share of the readings that say nothing of the spread: a pause in the middle of them.
const READING_LAPSES: f64 = 0.05;
/// How far beyond the loads offered the capacity may lie, logarithmic.
const BEYOND: f64 = 0.25;
/// Centres looked at in each pass.
const CENTERS: usize = 48;
/// Passes, each on the part of the range that has weight.
const PASSES_MAX: usize = 5;
/// Weight, relative to the largest, below which a point is of no interest.
const NEGLIGIBLE: f64 = 1e-5;

/// Verdicts at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
struct VerdictAt {
    /// Logarithm of the load.
    x: f64,
    good: u32,
    bad: u32,
}

/// All that is known, as seen from one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Evidence {
    verdicts: Vec<VerdictAt>,
    /// Logarithms of the goodput under deep overload, and what each may be off by itself.
    pub(crate) readings: Vec<f64>,
    pub(crate) reading_sd: f64,
}

impl Evidence {
    /// One more trial, at the logarithm `x` of its load.
    pub(crate) fn add(&mut self, x: f64, good: bool) {
        let index = self.verdicts.iter().position(|at| (at.x - x).abs() < 1e-9);
        let index = index.unwrap_or_else(|| {
            self.verdicts.push(VerdictAt { x, good: 0, bad: 0 });
            self.verdicts.len() - 1
        });
        self.verdicts[index].good += u32::from(good);
        self.verdicts[index].bad += u32::from(!good);
    }
}

/// One point of the grid.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Point {
    /// Index of the centre.
    center: usize,
    /// Index of the standard deviation.
    index: usize,
    mu: f64,
    sd: f64,
    lapse: f64,
    weight: f64,
}

/// What is known of the capacity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Posterior {
    points: Vec<Point>,
    /// Weight of each centre, and their spacing.
    centers: Vec<f64>,
    from: f64,
    step: f64,
}

/// The standard normal distribution function, to about 1e-2 (a logistic with the same slope), with
/// heavier tails.
fn normal_share(z: f64) -> f64 {
    1.0 / (1.0 + (-1.702 * z).exp())
}

fn good_share(mu: f64, sd: f64, lapse: f64, x: f64) -> f64 {
    GOOD_LAPSES + (1.0 - GOOD_LAPSES - lapse) * normal_share((mu - x) / sd)
}

/// Entropy of a yes or no, bits.
fn entropy(p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 { 0.0 } else { -(p * p.log2() + (1.0 - p) * (1.0 - p).log2()) }
}

fn density(off: f64, sd: f64) -> f64 {
    (-0.5 * (off / sd).powi(2)).exp() / (sd * std::f64::consts::TAU.sqrt())
}

fn sd_at(index: usize) -> f64 {
    SD_LEAST * SD_STEP.powi(index as i32)
}

/// Readings as far as they do not depend on `mu`: their middle, and how likely their differences
/// are at each standard deviation.
struct Readings {
    middle: Option<f64>,
    count: f64,
    spread: [f64; SDS],
}

impl Readings {
    fn of(readings: &[f64], own_sd: f64) -> Self {
        let mut sorted = readings.to_vec();
        sorted.sort_by(f64::total_cmp);
        let middle = median(&sorted);
        let mut spread = [0.0; SDS];
        if let Some(middle) = middle {
            let mut off: Vec<f64> = readings.iter().map(|y| y - middle).collect();
            off.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            for (index, value) in spread.iter_mut().enumerate() {
                let sd = sd_at(index).hypot(own_sd);
                // The one in the middle fixed the level; only the others differ from it.
                *value = off
                    .iter()
                    .skip(1)
                    .map(|off| {
                        let alike = density(*off, sd);
                        ((1.0 - READING_LAPSES) * alike + READING_LAPSES / LEVEL_RANGE).ln()
                    })
                    .sum();
            }
        }
        Self { middle, count: readings.len() as f64, spread }
    }

    fn log_likelihood(&self, mu: f64, index: usize) -> f64 {
        let Some(middle) = self.middle else { return 0.0 };
        // A median is a little less certain than a mean.
        let sd = LEVEL_SD.hypot(1.25 * sd_at(index) / self.count.sqrt());
        let level = LEVEL_TRUSTED * density(middle - mu, sd) + (1.0 - LEVEL_TRUSTED) / LEVEL_RANGE;
        level.ln() + self.spread[index]
    }
}

fn log_prior(index: usize, weight: f64) -> f64 {
    weight.ln() - (sd_at(index) / SD_USUAL).max(1.0).ln()
}

/// Every point of a grid of centres, with its logarithmic weight.
fn lay_out(
    evidence: &Evidence,
    readings: &Readings,
    from: f64,
    step: f64,
    is_coarse: bool,
) -> Vec<Point> {
    let (skip, lapses) = if is_coarse { (2, &LAPSES[1..2]) } else { (1, &LAPSES[..]) };
    let mut points = Vec::with_capacity(CENTERS * SDS * LAPSES.len());
    for center in 0..CENTERS {
        let mu = from + (center as f64 + 0.5) * step;
        for index in (0..SDS).step_by(skip) {
            // A spread below the grid's spacing cannot be told from none.
            let sd = sd_at(index).hypot(0.3 * step);
            let told = readings.log_likelihood(mu, index);
            for &(lapse, prior) in lapses {
                let mut weight = log_prior(index, prior) + told;
                for at in &evidence.verdicts {
                    let p = good_share(mu, sd, lapse, at.x);
                    // Most loads have verdicts of one kind only, and logarithms are what costs.
                    if at.good > 0 {
                        weight += f64::from(at.good) * p.ln();
                    }
                    if at.bad > 0 {
                        weight += f64::from(at.bad) * (1.0 - p).ln();
                    }
                }
                points.push(Point { center, index, mu, sd, lapse, weight });
            }
        }
    }
    points
}

impl Posterior {
    /// Of the evidence, which holds at least one verdict.
    pub(crate) fn of(evidence: &Evidence) -> Option<Self> {
        let loads = || evidence.verdicts.iter().map(|at| at.x);
        let mut from = loads().reduce(f64::min)? - BEYOND;
        let mut to = loads().reduce(f64::max)? + BEYOND;
        let readings = Readings::of(&evidence.readings, evidence.reading_sd);
        for _ in 0..PASSES_MAX {
            let step = (to - from) / CENTERS as f64;
            let coarse = lay_out(evidence, &readings, from, step, true);
            let (low, high) = Self::normalised(coarse, from, step).hull()?;
            let (low, high) = (from + (low - 1.0) * step, from + (high + 2.0) * step);
            if high - low > 0.6 * (to - from) {
                break;
            }
            (from, to) = (low, high);
        }
        let step = (to - from) / CENTERS as f64;
        Some(Self::normalised(lay_out(evidence, &readings, from, step, false), from, step))
    }

    fn normalised(mut points: Vec<Point>, from: f64, step: f64) -> Self {
        let most = points.iter().map(|p| p.weight).fold(f64::NEG_INFINITY, f64::max);
        let mut centers = vec![0.0; CENTERS];
        let mut sum = 0.0;
        for point in &mut points {
            point.weight = (point.weight - most).exp();
            sum += point.weight;
        }
        points.retain(|point| point.weight > NEGLIGIBLE);
        for point in &mut points {
            point.weight /= sum;
            centers[point.center] += point.weight;
        }
        let left: f64 = centers.iter().sum();
        for point in &mut points {
            point.weight /= left;
        }
        for center in &mut centers {
            *center /= left;
        }
        Self { points, centers, from, step }
    }

    /// First and last centre with weight.
    fn hull(&self) -> Option<(f64, f64)> {
        let most = self.centers.iter().copied().fold(0.0, f64::max);
        let told = |weight: &f64| *weight > NEGLIGIBLE * most;
        let first = self.centers.iter().position(told)?;
        let last = self.centers.iter().rposition(told)?;
        Some((first as f64, last as f64))
    }

    /// The logarithm of the capacity below which the share `q` of the weight lies.
    pub(crate) fn quantile(&self, q: f64) -> f64 {
        let mut below = 0.0;
        for (index, weight) in self.centers.iter().enumerate() {
            if *weight > 0.0 && below + weight >= q {
                return self.from + (index as f64 + (q - below) / weight) * self.step;
            }
            below += weight;
        }
        self.from + self.centers.len() as f64 * self.step
    }

    /// How likely the next trial at the load `x` is GOOD.
    pub(crate) fn predicts_good(&self, x: f64) -> f64 {
        self.points.iter().map(|p| p.weight * good_share(p.mu, p.sd, p.lapse, x)).sum()
    }

    /// How likely the next trial's capacity lies above `x`, lapses aside.
    pub(crate) fn exceeds(&self, x: f64) -> f64 {
        self.points.iter().map(|p| p.weight * normal_share((p.mu - x) / p.sd)).sum()
    }

    /// What a verdict at `x` would say of the capacity, bits.
    pub(crate) fn information(&self, x: f64) -> f64 {
        let mut by_center = vec![0.0; self.centers.len()];
        for p in &self.points {
            by_center[p.center] += p.weight * good_share(p.mu, p.sd, p.lapse, x);
        }
        let all: f64 = by_center.iter().sum();
        let known: f64 = by_center
            .iter()
            .zip(&self.centers)
            .filter(|(_, weight)| **weight > 0.0)
            .map(|(good, weight)| weight * entropy(good / weight))
            .sum();
        entropy(all) - known
    }

    /// By how many standard deviations the verdicts are less likely than this posterior expects of
    /// verdicts at the same loads.
    pub(crate) fn surprise(&self, evidence: &Evidence) -> f64 {
        let (mut off, mut variance) = (0.0, 0.0);
        for at in &evidence.verdicts {
            let p = self.predicts_good(at.x).clamp(1e-6, 1.0 - 1e-6);
            let n = f64::from(at.good + at.bad);
            let told = f64::from(at.good) * p.ln() + f64::from(at.bad) * (1.0 - p).ln();
            off += n * (p * p.ln() + (1.0 - p) * (1.0 - p).ln()) - told;
            variance += n * p * (1.0 - p) * (p / (1.0 - p)).ln().powi(2);
        }
        off / variance.sqrt().max(1.0)
    }

    /// Standard deviation of the capacity from trial to trial, relative: the median.
    pub(crate) fn spread(&self) -> f64 {
        self.spread_quantile(0.5)
    }

    /// Every standard deviation with its weight.
    pub(crate) fn spreads(&self) -> Vec<(f64, f64)> {
        let mut weights = [0.0; SDS];
        for point in &self.points {
            weights[point.index] += point.weight;
        }
        let told = weights.into_iter().enumerate().filter(|(_, weight)| *weight > NEGLIGIBLE);
        told.map(|(index, weight)| (sd_at(index), weight)).collect()
    }

    /// The standard deviation below which the share `q` of the weight lies.
    pub(crate) fn spread_quantile(&self, q: f64) -> f64 {
        let mut points: Vec<(f64, f64)> = self.points.iter().map(|p| (p.sd, p.weight)).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut below = 0.0;
        for (sd, weight) in &points {
            below += weight;
            if below >= q {
                return *sd;
            }
        }
        points.last().map_or(0.0, |(sd, _)| *sd)
    }

    /// The same of a capacity that lies below this one by one of `gaps`, which are as likely before any
    /// of `trials` (logarithms of loads, and verdicts) and have a standard deviation each.
    pub(crate) fn below(&self, gaps: &[(f64, f64)], trials: &[(f64, bool)]) -> Self {
        let both = |p: &Point| gaps.iter().map(|gap| (*p, *gap)).collect::<Vec<_>>();
        let mut points: Vec<Point> = self
            .points
            .iter()
            .flat_map(both)
            .map(|(p, (gap, gap_sd))| {
                let (mu, sd) = (p.mu - gap, p.sd.hypot(gap_sd));
                let told = trials.iter().map(|(x, good)| {
                    let share = good_share(mu, sd, p.lapse, *x);
                    if *good { share } else { 1.0 - share }
                });
                Point { mu, sd, weight: p.weight * told.product::<f64>(), ..p }
            })
            .collect();
        let sum: f64 = points.iter().map(|p| p.weight).sum();
        points.iter_mut().for_each(|p| p.weight /= sum);
        Self { points, ..self.clone() }
    }

    /// The load that `share` of the trials meet, with the given confidence: its logarithm.
    pub(crate) fn safe(&self, share: f64, confidence: f64) -> Option<f64> {
        let mut loads: Vec<(f64, f64)> = self
            .points
            .iter()
            .map(|p| {
                let wanted = (share - GOOD_LAPSES) / (1.0 - GOOD_LAPSES - p.lapse);
                // More lapses than the share allows: no load is met so often.
                let z = if wanted < 1.0 {
                    (wanted / (1.0 - wanted)).ln() / 1.702
                } else {
                    f64::INFINITY
                };
                (p.mu - z * p.sd, p.weight)
            })
            .collect();
        loads.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut below = 0.0;
        for (load, weight) in loads {
            below += weight;
            if below >= 1.0 - confidence {
                return load.is_finite().then_some(load);
            }
        }
        None
    }
}
