//! One likelihood over all trials: where is the capacity, and how much does it differ from trial
//! to trial?
//!
//! Model: in each trial the server has a capacity whose logarithm is normal around `mu` with the
//! standard deviation `sd`. A trial at the load x is GOOD where that capacity lies above x; besides,
//! a share `lapse` of the trials is BAD for reasons that have nothing to do with the load (a stalled
//! disk, a cron job), and one in [`GOOD_LAPSES`] is GOOD although it should not be.
//!
//! A trial deep in overload gives no useful verdict, but a reading: the rate of good answers. The mean of the readings
//! lies near the capacity ([`LEVEL_SD`]) or, with the prior weight
//! [`LEVEL_TRUSTED`] for the former, anywhere, because overload may cost a server its capacity and
//! an objective may be missed far below it. The differences between readings say how large `sd` is.
//!
//! Prior: `mu` is flat in its logarithm over the loads that were offered and a little beyond; `sd`
//! has the same weight in each octave up to [`SD_USUAL`] and falls with 1/sd beyond; `lapse` is one
//! of [`LAPSES`]. The posterior is laid out on a grid that zooms in on where its weight is.

use crate::stats::{
    LOGISTIC, MEDIAN_ERROR, log_sum, median_of, normal_density as density, normal_share,
    weighted_quantile,
};

/// Shares of trials that are BAD whatever the load, and their prior weights.
const LAPSES: [(f64, f64); 3] = [(0.01, 0.6), (0.05, 0.3), (0.15, 0.1)];
/// Prior weights of [`LAPSES`] if the speed of the host is known to change. Slow stretches then explain most BAD trials
/// far below the capacity.
const LAPSES_OF_VARIED: [f64; 3] = [0.96, 0.02, 0.02];
/// Share of trials that are GOOD although their capacity lies below the load.
const GOOD_LAPSES: f64 = 0.005;
/// Standard deviations looked at: from this one up by [`SD_STEP`].
const SD_LEAST: f64 = 0.002;
const SD_STEP: f64 = 1.6;
const SDS: usize = 11;
/// Larger spreads are less likely beforehand.
const SD_USUAL: f64 = 0.02;
/// Runs differ by so much of how far the speed goes within them.
const VARIED_SPREAD: f64 = 0.15;
/// Goodput under overload and the capacity under the objective differ by this standard deviation.
const LEVEL_SD: f64 = 0.02;
const LEVEL_TRUSTED: f64 = 0.5;
/// Otherwise the readings lie anywhere within this distance, logarithmic.
const LEVEL_RANGE: f64 = 1.5;
/// Share of the readings that say nothing of the spread: a pause in the middle of them.
const READING_LAPSES: f64 = 0.05;
/// Distance beyond the offered loads within which the capacity may lie, logarithmic.
const BEYOND: f64 = 0.25;
/// The share of lapses that passes look at which only find where the weight is.
const COARSE_LAPSE: usize = 1;
/// Centres looked at in each pass.
const CENTERS: usize = 48;
/// Passes, each on the part of the range that has weight.
const PASSES_MAX: usize = 5;
/// Weight, relative to the largest, below which a point is of no interest.
const NEGLIGIBLE: f64 = 1e-5;
/// Exponents beyond this make no difference to a share, and their product with another one is finite.
const FAR: f64 = 300.0;
/// A product of probabilities below this is carried on as its logarithm.
const TINY: f64 = 1e-200;

/// Number of speeds that represent the speeds of a trial.
pub(crate) const MIXED: usize = 5;
/// Excesses over the capacity that a trial may have met, all equally likely: logarithms, all of them 0 for a
/// server of one speed.
pub(crate) type Mixture = [f64; MIXED];

/// Verdicts at one load.
#[derive(Clone, Copy, Debug, PartialEq)]
struct VerdictAt {
    /// Logarithm of the load.
    x: f64,
    mixture: Mixture,
    good: u32,
    bad: u32,
}

fn is_mixed(mixture: &Mixture) -> bool {
    mixture.iter().any(|more| *more != mixture[0])
}

/// The verdicts and readings for a posterior, relative to one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample {
    verdicts: Vec<VerdictAt>,
    /// Logarithms of the goodput under deep overload, and what each may be off by itself.
    pub(crate) readings: Vec<f64>,
    pub(crate) reading_sd: f64,
    /// Prior probability, over the likeliest: a logarithm.
    pub(crate) prior: f64,
    /// Variation of the speed from second to second, logarithmic; 0 if unknown.
    pub(crate) varied: f64,
    /// Uncertainty of their middle, if their differences do not show the spread.
    pub(crate) level_sd: f64,
}

impl Sample {
    /// Adds one more trial, at the logarithm `x` of its load.
    pub(crate) fn add(&mut self, x: f64, mixture: Mixture, good: bool) {
        let is_alike = |at: &VerdictAt| (at.x - x).abs() < 1e-9 && at.mixture == mixture;
        let index = self.verdicts.iter().position(is_alike);
        let index = index.unwrap_or_else(|| {
            self.verdicts.push(VerdictAt { x, mixture, good: 0, bad: 0 });
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
    /// For each share of lapses; logarithms until they are normalised.
    weights: [f64; LAPSES.len()],
}

impl Point {
    fn weight(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// Share of the trials whose capacity lies above the load `x`.
    fn above(&self, x: f64, mixture: &Mixture) -> f64 {
        if !is_mixed(mixture) {
            return normal_share((self.mu + mixture[0] - x) / self.sd);
        }
        let each = mixture.iter().map(|more| normal_share((self.mu + more - x) / self.sd));
        each.sum::<f64>() / MIXED as f64
    }

    /// Returns the weight of the trials at the load `x` that are GOOD.
    fn good(&self, x: f64, mixture: &Mixture) -> f64 {
        let share = self.above(x, mixture);
        let each = self.weights.iter().zip(LAPSES);
        each.map(|(weight, (lapse, _))| weight * good_share(share, lapse)).sum()
    }
}

/// The distance of a capacity below another one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Gap {
    /// Logarithmic.
    pub(crate) size: f64,
    /// Standard deviation from trial to trial.
    pub(crate) sd: f64,
    /// Prior probability, over the likeliest.
    pub(crate) weight: f64,
}

/// The posterior of the capacity.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Posterior {
    points: Vec<Point>,
    /// Weight of each centre, and their spacing.
    centers: Vec<f64>,
    from: f64,
    step: f64,
}

/// Share of the trials that are GOOD where the capacity of `share` of them lies above the load.
const fn good_share(share: f64, lapse: f64) -> f64 {
    GOOD_LAPSES + (1.0 - GOOD_LAPSES - lapse) * share
}

/// Returns the entropy of a yes or no, bits.
fn entropy(p: f64) -> f64 {
    if p <= 0.0 || p >= 1.0 { 0.0 } else { -(p * p.log2() + (1.0 - p) * (1.0 - p).log2()) }
}

fn sd_at(index: usize) -> f64 {
    SD_LEAST * SD_STEP.powi(index as i32)
}

/// Readings as far as they do not depend on `mu`: their middle, and how likely their differences
/// are at each standard deviation.
struct Readings {
    middle: Option<f64>,
    /// Distance of their middle from the capacity: a standard deviation for each of the spreads.
    level_sd: [f64; SDS],
    spread: [f64; SDS],
}

impl Readings {
    fn of(sample: &Sample) -> Self {
        let Sample { readings, reading_sd: own_sd, level_sd, .. } = sample;
        let middle = median_of(readings.iter().copied());
        let mut spread = [0.0; SDS];
        if let Some(middle) = middle {
            let mut off: Vec<f64> = readings.iter().map(|y| y - middle).collect();
            off.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
            for (index, value) in spread.iter_mut().enumerate() {
                let sd = sd_at(index).hypot(*own_sd);
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
        let count = readings.len() as f64;
        let of_median = |index| MEDIAN_ERROR * sd_at(index) / count.sqrt();
        let level_sd = |index| LEVEL_SD.hypot(*level_sd).hypot(of_median(index));
        Self { middle, level_sd: std::array::from_fn(level_sd), spread }
    }

    fn log_likelihood(&self, mu: f64, index: usize) -> f64 {
        let Some(middle) = self.middle else { return 0.0 };
        let near = density(middle - mu, self.level_sd[index]);
        let level = LEVEL_TRUSTED * near + (1.0 - LEVEL_TRUSTED) / LEVEL_RANGE;
        level.ln() + self.spread[index]
    }
}

/// Larger spreads than usual are less likely; smaller ones are too if the speed is known to change by
/// `varied`, a part of which runs differ by.
fn log_prior(index: usize, weight: f64, varied: f64) -> f64 {
    let sd = sd_at(index);
    let usual = SD_USUAL.max(VARIED_SPREAD * varied);
    let less = if varied > 0.0 { (usual / sd).max(1.0).ln() } else { 0.0 };
    weight.ln() - (sd / usual).max(1.0).ln() - less
}

/// The points of one standard deviation, as far as they do not depend on the centre.
struct Row {
    index: usize,
    sd: f64,
    /// The logistic function's argument per unit of the logarithmic load.
    slope: f64,
    /// Logarithms, for each share of lapses.
    priors: [f64; LAPSES.len()],
    /// For each load with verdicts the exponentials of how far it lies from the grid's middle: one where
    /// the trials at it met one speed.
    loads: Vec<(Mixture, usize)>,
}

impl Row {
    fn new(sample: &Sample, index: usize, step: f64, middle: f64) -> Self {
        // A spread below the grid's spacing cannot be distinguished from none.
        let sd = sd_at(index).hypot(0.3 * step);
        let slope = LOGISTIC / sd;
        let far = |at: &VerdictAt| {
            let each =
                at.mixture.map(|more| (slope * (at.x - more - middle)).clamp(-FAR, FAR).exp());
            (each, if is_mixed(&at.mixture) { MIXED } else { 1 })
        };
        let loads = sample.verdicts.iter().map(far).collect();
        let is_varied = sample.varied > 0.0;
        let lapses = if is_varied { LAPSES_OF_VARIED } else { LAPSES.map(|(_, prior)| prior) };
        Self {
            index,
            sd,
            slope,
            priors: lapses.map(|prior| log_prior(index, prior, sample.varied)),
            loads,
        }
    }

    /// Returns the probability of the verdicts for the shares `lapses` of lapses: logarithms. `center` is the
    /// exponential of how far the centre lies below the grid's middle.
    fn log_likelihoods<const N: usize>(
        &self,
        verdicts: &[VerdictAt],
        center: f64,
        lapses: [f64; N],
    ) -> [f64; N] {
        let (mut logs, mut likely) = ([0.0; N], [1.0; N]);
        for (at, (loads, count)) in verdicts.iter().zip(&self.loads) {
            // An exponential for each load and centre would be most of the cost of a search.
            let each = loads[..*count].iter().map(|load| 1.0 / (1.0 + load * center));
            let share = each.sum::<f64>() / *count as f64;
            for ((log, likely), lapse) in logs.iter_mut().zip(&mut likely).zip(lapses) {
                let p = good_share(share, lapse);
                for (count, p) in [(at.good, p), (at.bad, 1.0 - p)] {
                    for _ in 0..count {
                        *likely *= p;
                        if *likely < TINY {
                            *log += likely.ln();
                            *likely = 1.0;
                        }
                    }
                }
            }
        }
        std::array::from_fn(|index| logs[index] + likely[index].ln())
    }
}

/// Every point of a grid of centres, with its logarithmic weights; a coarse one looks at one share of
/// lapses and at every other spread.
fn lay_out(sample: &Sample, from: f64, step: f64, is_coarse: bool) -> Vec<Point> {
    let readings = Readings::of(sample);
    let middle = from + 0.5 * CENTERS as f64 * step;
    let rows: Vec<Row> = (0..SDS)
        .step_by(if is_coarse { 2 } else { 1 })
        .map(|index| Row::new(sample, index, step, middle))
        .collect();
    let verdicts = &sample.verdicts[..];
    let mut points = Vec::with_capacity(CENTERS * rows.len());
    for center in 0..CENTERS {
        let mu = from + (center as f64 + 0.5) * step;
        for row in &rows {
            let below = (row.slope * (middle - mu)).exp();
            let mut weights = if is_coarse {
                let [log] = row.log_likelihoods(verdicts, below, [LAPSES[COARSE_LAPSE].0]);
                let mut only = [f64::NEG_INFINITY; LAPSES.len()];
                only[COARSE_LAPSE] = log;
                only
            } else {
                row.log_likelihoods(verdicts, below, LAPSES.map(|(lapse, _)| lapse))
            };
            let told = readings.log_likelihood(mu, row.index) + sample.prior;
            weights.iter_mut().zip(row.priors).for_each(|(weight, prior)| *weight += prior + told);
            points.push(Point { center, index: row.index, mu, sd: row.sd, weights });
        }
    }
    points
}

/// Lays out all readings of each sample: points of one layout have the sum of the weights.
fn lay_out_all(samples: &[Sample], from: f64, step: f64, is_coarse: bool) -> Vec<Point> {
    let each = samples.iter().map(|sample| lay_out(sample, from, step, is_coarse));
    each.reduce(|mut all, points| {
        let both = all.iter_mut().zip(points);
        both.for_each(|(all, point)| {
            let weights = all.weights.iter_mut().zip(point.weights);
            weights.for_each(|(sum, more)| *sum = log_sum(&[*sum, more]));
        });
        all
    })
    .unwrap_or_default()
}

impl Posterior {
    /// Creates the posterior of a sample that was read in several ways, each as likely beforehand; `None` without a
    /// verdict in it.
    pub(crate) fn of(readings: &[Sample]) -> Option<Self> {
        let loads = || readings.iter().flat_map(|sample| &sample.verdicts).map(|at| at.x);
        let mut from = loads().reduce(f64::min)? - BEYOND;
        let mut to = loads().reduce(f64::max)? + BEYOND;
        for _ in 0..PASSES_MAX {
            let step = (to - from) / CENTERS as f64;
            let coarse = lay_out_all(readings, from, step, true);
            let (low, high) = Self::normalised(coarse, from, step).hull()?;
            let (low, high) = (from + (low - 1.0) * step, from + (high + 2.0) * step);
            if high - low > 0.6 * (to - from) {
                break;
            }
            (from, to) = (low, high);
        }
        let step = (to - from) / CENTERS as f64;
        Some(Self::normalised(lay_out_all(readings, from, step, false), from, step))
    }

    fn normalised(mut points: Vec<Point>, from: f64, step: f64) -> Self {
        let all = points.iter().flat_map(|point| point.weights);
        let most = all.fold(f64::NEG_INFINITY, f64::max);
        let least = NEGLIGIBLE.ln();
        let relative = |log: f64| if log - most > least { (log - most).exp() } else { 0.0 };
        let mut centers = vec![0.0; CENTERS];
        points.retain_mut(|point| {
            point.weights = point.weights.map(relative);
            centers[point.center] += point.weight();
            point.weight() > 0.0
        });
        let sum: f64 = centers.iter().sum();
        points.iter_mut().flat_map(|point| &mut point.weights).for_each(|weight| *weight /= sum);
        centers.iter_mut().for_each(|center| *center /= sum);
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

    /// Returns the logarithm of the capacity below which the share `q` of the weight lies.
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

    /// Returns the probability that the next trial at the load `x` is GOOD.
    pub(crate) fn predicts_good(&self, x: f64, mixture: &Mixture) -> f64 {
        self.points.iter().map(|point| point.good(x, mixture)).sum()
    }

    /// Returns the probability that the next trial's capacity lies above `x`, without lapses.
    pub(crate) fn exceeds(&self, x: f64) -> f64 {
        self.points.iter().map(|p| p.weight() * p.above(x, &Mixture::default())).sum()
    }

    /// Returns the information of a verdict at `x` about the capacity, bits.
    pub(crate) fn information(&self, x: f64) -> f64 {
        let mut by_center = vec![0.0; self.centers.len()];
        for p in &self.points {
            by_center[p.center] += p.good(x, &Mixture::default());
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

    /// Returns the standard deviations by which the verdicts are less likely than this posterior expects of verdicts at
    /// the same loads.
    pub(crate) fn surprise(&self, sample: &Sample) -> f64 {
        let (mut off, mut variance) = (0.0, 0.0);
        for at in &sample.verdicts {
            let p = self.predicts_good(at.x, &at.mixture).clamp(1e-6, 1.0 - 1e-6);
            let n = f64::from(at.good + at.bad);
            let told = f64::from(at.good) * p.ln() + f64::from(at.bad) * (1.0 - p).ln();
            off += n * (p * p.ln() + (1.0 - p) * (1.0 - p).ln()) - told;
            variance += n * p * (1.0 - p) * (p / (1.0 - p)).ln().powi(2);
        }
        off / variance.sqrt().max(1.0)
    }

    /// Returns the standard deviation of the capacity from trial to trial, relative: the median.
    pub(crate) fn spread(&self) -> f64 {
        let mut points: Vec<(f64, f64)> = self.points.iter().map(|p| (p.sd, p.weight())).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let last = points.last().map_or(0.0, |(sd, _)| *sd);
        weighted_quantile(points, 0.5).unwrap_or(last)
    }

    /// Returns every standard deviation with its weight.
    pub(crate) fn spreads(&self) -> Vec<(f64, f64)> {
        let mut weights = [0.0; SDS];
        for point in &self.points {
            weights[point.index] += point.weight();
        }
        let told = weights.into_iter().enumerate().filter(|(_, weight)| *weight > NEGLIGIBLE);
        told.map(|(index, weight)| (sd_at(index), weight)).collect()
    }

    /// Returns the posterior of a capacity that lies below this one by one of `gaps`, by the weight of each before any
    /// of its `trials` (logarithms of loads, and verdicts); and this posterior as those trials change it.
    pub(crate) fn below(&self, gaps: &[Gap], trials: &[(f64, bool)]) -> (Self, Self) {
        let mut points = Vec::with_capacity(self.points.len() * gaps.len());
        let mut above = self.points.clone();
        for p in &mut above {
            let mut sums = [0.0; LAPSES.len()];
            for gap in gaps {
                let weights = p.weights.map(|weight| weight * gap.weight);
                let mut point =
                    Point { mu: p.mu - gap.size, sd: p.sd.hypot(gap.sd), weights, ..*p };
                for (x, good) in trials {
                    let share = point.above(*x, &Mixture::default());
                    for (weight, (lapse, _)) in point.weights.iter_mut().zip(LAPSES) {
                        let p = good_share(share, lapse);
                        *weight *= if *good { p } else { 1.0 - p };
                    }
                }
                sums.iter_mut().zip(point.weights).for_each(|(sum, weight)| *sum += weight);
                points.push(point);
            }
            p.weights = sums;
        }
        (self.with_points(points), self.with_points(above))
    }

    /// Replaces the points of the grid; their weights become shares.
    fn with_points(&self, mut points: Vec<Point>) -> Self {
        let sum: f64 = points.iter().map(Point::weight).sum();
        let mut centers = vec![0.0; self.centers.len()];
        for point in &mut points {
            point.weights = point.weights.map(|weight| weight / sum);
            centers[point.center] += point.weight();
        }
        Self { points, centers, ..self.clone() }
    }

    /// Returns the logarithm of the load that `share` of the trials meet, with the given confidence; `None` if
    /// accidents, which occur at any load, leave none.
    pub(crate) fn safe(&self, share: f64, confidence: f64) -> Option<f64> {
        // The logit of the share that a load must meet but for accidents; where these alone are more than the share
        // allows, no load is met so often.
        let logits = LAPSES.map(|(lapse, _)| {
            let wanted = (share - GOOD_LAPSES) / (1.0 - GOOD_LAPSES - lapse);
            if wanted >= 1.0 { f64::INFINITY } else { (wanted / (1.0 - wanted)).ln() }
        });
        let mut loads: Vec<(f64, f64)> = Vec::with_capacity(self.points.len() * LAPSES.len());
        for p in &self.points {
            let each = logits.iter().zip(p.weights).filter(|(_, weight)| *weight > 0.0);
            let each = each.filter(|(logit, _)| logit.is_finite());
            loads.extend(each.map(|(logit, weight)| (p.mu - p.sd * logit / LOGISTIC, weight)));
        }
        loads.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
        let all: f64 = loads.iter().map(|(_, weight)| weight).sum();
        weighted_quantile(loads, (1.0 - confidence) * all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_and_products_give_the_likelihood_of_the_model() {
        let mut sample = Sample::default();
        // Also far beyond the grid, and more verdicts than a product has digits for.
        for (x, good, bad) in
            [(0.0, 20, 300), (6.9, 3, 1), (7.0, 1, 1), (7.1, 0, 4), (12.0, 200, 9)]
        {
            (0..good).for_each(|_| sample.add(x, Mixture::default(), true));
            (0..bad).for_each(|_| sample.add(x, Mixture::default(), false));
        }
        let points = lay_out(&sample, 6.5, 0.02, false);
        assert_eq!(points.len(), CENTERS * SDS);
        for point in points {
            for ((lapse, prior), weight) in LAPSES.into_iter().zip(point.weights) {
                let verdict = |at: &VerdictAt| {
                    let p = good_share(normal_share((point.mu - at.x) / point.sd), lapse);
                    f64::from(at.good) * p.ln() + f64::from(at.bad) * (1.0 - p).ln()
                };
                let all: f64 = sample.verdicts.iter().map(verdict).sum();
                let direct = log_prior(point.index, prior, 0.0) + all;
                assert!((weight - direct).abs() < 1e-9 * direct.abs(), "{weight} {direct}");
            }
        }
    }

    fn sample(verdicts: &[(f64, bool, usize)], more: Mixture) -> Sample {
        let mut sample = Sample::default();
        for (x, good, count) in verdicts {
            (0..*count).for_each(|_| sample.add(*x, more, *good));
        }
        sample
    }

    #[test]
    fn short_trials_that_may_have_met_more_do_not_contradict_long_ones() {
        let long = [(6.9, true, 3), (6.96, false, 3)];
        let both = |more: f64| {
            let mut sample = sample(&long, Mixture::default());
            (0..4).for_each(|_| sample.add(7.1, [0.0, 0.0, more, more, more], true));
            sample
        };
        let alone = Posterior::of(&[both(0.0)]).expect("verdicts");
        let either = Posterior::of(&[both(0.0), both(0.25)]).expect("verdicts");
        assert!((6.9..6.97).contains(&either.quantile(0.5)), "{}", either.quantile(0.5));
        assert!(either.spread() < alone.spread(), "{} {}", either.spread(), alone.spread());
    }

    #[test]
    fn a_load_that_random_arrivals_meet_lies_below_the_capacity() {
        let even = sample(&[(6.9, true, 2), (7.1, false, 2)], Mixture::default());
        let even = Posterior::of(&[even]).expect("verdicts");
        let gaps = [0.005, 0.02].map(|size| Gap { size, sd: 0.3 * size, weight: 1.0 });
        let (random, met) = even.below(&gaps, &[(7.0, true); 3]);
        assert!(met.quantile(0.05) > even.quantile(0.05) + 0.02);
        assert!(random.safe(0.5, 0.5) < met.safe(0.5, 0.5));
        let (_, missed) = even.below(&gaps, &[(6.95, false); 3]);
        assert!(missed.quantile(0.95) < even.quantile(0.95) - 0.02);
    }
}
