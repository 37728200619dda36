//! The fit: what all trials that count say of the capacity at the server's slowest level. A pure function of
//! the evidence.

use plimsoll_model::Nanos;

use crate::stability::GROWTH_OPS_MIN;
use crate::stats::{MEDIAN_ERROR, Z_95, median_of, squares_around};

use super::change::{Drift, Reading, drift, reading_sd};
use super::evidence::Evidence;
use super::grid::Grid;
use super::levels::{Levels, Paces, reading};
use super::likelihood::{Mixture, Posterior, Sample};
use super::safe::with_random_arrivals;
use super::speeds::Speeds;
use super::task::Task;
use super::trials::{FAR_BELOW, Role, Trial};

/// A trial of a few seconds meets the objective up to this far above the capacity: its queue has no time to grow enough
/// to be noticed.
const TOLERATED: f64 = 0.003;

/// The capacity by all trials that count.
#[derive(Clone, Debug)]
pub(super) struct Fit {
    /// By the trials in even arrivals, and what it was made of: a sample for each depth of slow stretches.
    even: Posterior,
    samples: Vec<Sample>,
    pub(super) posterior: Posterior,
    /// The capacity with random arrivals.
    pub(super) random: Posterior,
    /// The trials that count, each as if it had been made at the slowest level.
    pub(super) trials: Vec<Trial>,
    pub(super) speeds: Speeds,
    pub(super) paces: Paces,
    pub(super) drift: Drift,
    /// Change of the capacity within half of a confirmation, logarithmic, if it drifts.
    pub(super) drift_error: f64,
    /// Ends of the interval, operations per second: loads that were measured, unless the server
    /// drifted.
    pub(super) lower: Option<f64>,
    pub(super) upper: Option<f64>,
    /// Ends of the interval, whatever was measured.
    pub(super) ends: (f64, f64),
}

impl Fit {
    /// Returns the relative width; infinite without both ends.
    pub(super) fn width(&self) -> f64 {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) => upper / lower - 1.0,
            _ => f64::INFINITY,
        }
    }

    /// Returns the [`Posterior::surprise`]; only answers need it, and it takes a quarter of the time of the fit.
    pub(super) fn surprise(&self) -> f64 {
        let surprises = self.samples.iter().map(|sample| self.even.surprise(sample));
        surprises.reduce(f64::min).unwrap_or_default()
    }

    /// Returns the probability that a trial of `length` at `load` has this verdict.
    pub(super) fn expects(&self, load: f64, length: Nanos, good: bool) -> f64 {
        let mixture = self.speeds.expected(length);
        let predicted = self.posterior.predicts_good(load.ln(), &mixture);
        if good { predicted } else { 1.0 - predicted }
    }
}

/// The last fit that was made, so that each is made once.
#[derive(Clone, Debug, Default)]
pub(super) struct Fitted {
    /// The number of trials it is of.
    of: usize,
    fit: Option<Fit>,
}

impl Fitted {
    /// Makes the fit to the evidence, unless it is there already.
    pub(super) fn update(
        &mut self,
        evidence: &Evidence,
        levels: &Levels,
        task: &Task,
        grid: &Grid,
    ) {
        if self.of != evidence.len() {
            *self = Self { of: evidence.len(), fit: fit(evidence, levels, task, grid) };
        }
    }

    /// Returns the fit to the evidence; `None` if it was not made, or there is none.
    pub(super) fn get(&self, evidence: &Evidence) -> Option<&Fit> {
        self.fit.as_ref().filter(|_| self.of == evidence.len())
    }
}

/// Returns the spreads from trial to trial by the verdicts alone, with their weights.
pub(super) fn spreads(evidence: &Evidence) -> Vec<(f64, f64)> {
    let mut sample = Sample::default();
    for trial in evidence.verdicts() {
        sample.add(trial.load.ln(), Mixture::default(), trial.good);
    }
    Posterior::of(&[sample]).map(|posterior| posterior.spreads()).unwrap_or_default()
}

/// Fits the trials that count; `None` if there is no verdict among them.
pub(super) fn fit(evidence: &Evidence, levels: &Levels, task: &Task, grid: &Grid) -> Option<Fit> {
    let counted = levels.counted(evidence);
    let paces = levels.paces(evidence);
    let level = |at_s: f64| paces.over_slowest(at_s);
    let run = task.limits.confirm_trial;
    let speeds = Speeds::of(&evidence.seconds, &counted, level, run);
    let at_slowest = |trial: &Trial| match level(trial.at_s) {
        0.0 => *trial,
        over => trial.scaled((-over).exp()),
    };
    let trials: Vec<Trial> = counted.iter().map(at_slowest).collect();
    // What is left when the last of them ends.
    let now_s = trials.last().map(|trial| trial.at_s + 0.5 * trial.window_s)?;
    let readings = readings(&trials, &speeds);
    let drift = match readings.len() {
        0 => Drift::default(),
        _ => drift(&readings, &spreads(evidence)),
    };
    let since = |at_s: f64| drift.per_min / 60.0 * (at_s - now_s);
    let has_pauses = evidence.period.is_some();
    let sample = |(depth, share): (f64, f64)| {
        let mut sample = sample(&trials, &readings, &speeds, since, depth, has_pauses);
        sample.prior = share.ln();
        sample
    };
    let samples: Vec<Sample> = speeds.depths().into_iter().map(sample).collect();
    let even = Posterior::of(&samples)?;
    let (random, posterior) = with_random_arrivals(&even, &trials, &task.slo);
    let drift_error = if drift.is_significant { drift.per_min.abs() / 60.0 } else { 0.0 };
    let drift_error = drift_error * 0.5 * task.limits.confirm_trial.as_secs_f64();
    let (lower, upper, ends) = (None, None, (0.0, 0.0));
    let mut fit = Fit {
        even,
        samples,
        posterior,
        random,
        trials,
        speeds,
        paces,
        drift,
        drift_error,
        lower,
        upper,
        ends,
    };
    let offered: Vec<f64> = counted.iter().filter(|t| t.is_verdict()).map(|t| t.load).collect();
    find_ends(&mut fit, &offered, task, grid);
    Some(fit)
}

/// Returns the readings of the overloads.
fn readings(trials: &[Trial], speeds: &Speeds) -> Vec<Reading> {
    // If the speed changes within seconds, one that was met shows how fast the server is at times.
    let is_told = |trial: &&Trial| {
        trial.saturated().is_some() || speeds.have_slow_seconds() && trial.role == Role::Sentinel
    };
    trials.iter().filter(is_told).filter_map(reading).collect()
}

/// All verdicts and readings, if slow stretches are so deep: a logarithm.
fn sample(
    trials: &[Trial],
    readings: &[Reading],
    speeds: &Speeds,
    since: impl Fn(f64) -> f64,
    depth: f64,
    has_pauses: bool,
) -> Sample {
    let mut sample = Sample::default();
    // An overload that was met is a verdict, unless it met a fast moment, or no pause; any other was BAD on
    // purpose.
    let is_varied = speeds.have_slow_seconds() || has_pauses;
    let is_verdict = |t: &&Trial| t.is_verdict() || t.good && t.is_overload() && !is_varied;
    for t in trials.iter().filter(is_verdict) {
        let mixture = speeds.mixture(depth, t.planned);
        sample.add(t.load.ln() - since(t.at_s), mixture, t.good);
    }
    sample.readings = readings.iter().map(|r| r.y - since(r.at_s) - depth).collect();
    sample.reading_sd = reading_sd(readings);
    sample.varied = speeds.depth;
    if speeds.have_slow_seconds()
        && let Some(middle) = median_of(sample.readings.iter().copied())
    {
        // They differ because the speed does, and not as runs do.
        let count = sample.readings.len() as f64;
        let spread = squares_around(middle, &sample.readings).sqrt();
        sample.level_sd = MEDIAN_ERROR * spread / count;
        sample.readings = vec![middle];
    }
    sample
}

/// The interval: its ends are loads of the grid that were measured, if such are near.
fn find_ends(fit: &mut Fit, offered: &[f64], task: &Task, grid: &Grid) {
    let trials = &fit.trials[..];
    let tail = 0.5 * (1.0 - task.settings.confidence);
    let loads = || offered.iter().copied();
    // What the drift is off by moves what was measured in the middle of the trials.
    let half_s = trials.last().map_or(0.0, |t| t.at_s) - trials.first().map_or(0.0, |t| t.at_s);
    let unsure = Z_95 * fit.drift.sd / 60.0 * 0.5 * half_s;
    let middle = fit.posterior.quantile(0.5);
    let low = middle - unsure.hypot(middle - fit.posterior.quantile(tail)) - fit.drift_error;
    let high = middle + unsure.hypot(fit.posterior.quantile(1.0 - tail) - middle) + fit.drift_error;
    let (low, high) = (low.exp() / (1.0 + tolerated(low.exp(), trials, task)), high.exp());
    fit.ends = (low, high);
    let (least, most) = (
        loads().reduce(f64::min).unwrap_or_default(),
        loads().reduce(f64::max).unwrap_or_default(),
    );
    if low >= least {
        let on_grid = grid.step(low, 0);
        let measured = loads().filter(|load| *load <= low).reduce(f64::max);
        let near = |load: &f64| *load > grid.step(on_grid, -2);
        fit.lower = Some(measured.filter(near).unwrap_or(on_grid));
    }
    if high <= most {
        let on_grid = grid.ceil(high);
        let measured = loads().filter(|load| *load >= high).reduce(f64::min);
        let near = |load: &f64| *load < grid.step(on_grid, 2);
        fit.upper = Some(measured.filter(near).unwrap_or(on_grid));
    }
}

/// Returns the excess over the capacity at which trials at `load` and higher may have met the objective: with few
/// operations per second, the queue takes long to grow enough to be noticed.
fn tolerated(load: f64, trials: &[Trial], task: &Task) -> f64 {
    let met = trials.iter().filter(|t| t.is_verdict() && t.good && t.load >= FAR_BELOW * load);
    let Some(longest_s) = met.map(|t| t.window_s).reduce(f64::max) else { return TOLERATED };
    let deadline_s = task.slo.deadline().map_or(f64::INFINITY, Nanos::as_secs_f64);
    let unnoticed_ops = GROWTH_OPS_MIN.min(deadline_s * load);
    TOLERATED.max(unnoticed_ops / (load * longest_s))
}
