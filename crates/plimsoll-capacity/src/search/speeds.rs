//! What trials at different times and of different lengths say of one capacity.
//!
//! The capacity that is looked for is the load that half of the runs as long as a confirmation meet. A
//! shorter trial may miss the slow stretches of such a run ([`Variation`]), and a trial may have met a fast or
//! a slow host. Where a yardstick was read beside the trials, its seconds say which: the speed of a server
//! follows that of its host by an exponent between 0 and 1, which the overloads show.

use plimsoll_model::Nanos;

use crate::median::median_of;

use super::likelihood::Mixture;
use super::second::Second;
use super::trials::SATURATED;
use super::variation::{Allowed, Variation, lower_median, met_by};

/// Overload seconds with a yardstick before they tell how the server follows its host.
const FOLLOWED_MIN: usize = 6;
/// A yardstick's own noise, standard deviation: what moves less says nothing.
const YARDSTICK_SD: f64 = 0.03;
/// Differences that are smaller are none.
const MIXED_MIN: f64 = 0.01;
/// A trial that may meet so much more than a run says little, logarithmic.
const LENGTH_MATTERS: f64 = 0.03;
/// Windows of fewer seconds do not show what a longer run meets.
const WINDOW_MIN: usize = 6;

/// How the speed of server and host went.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Speeds {
    variation: Variation,
    /// The host's, as far as the server follows it: the trial's number, and the speed relative to the median.
    host: Vec<(u32, f64)>,
    allowed: Option<Allowed>,
    /// What runs of the stated length meet, by the variation of the seconds and by the host alone: medians,
    /// logarithms.
    run: f64,
    run_by_host: Option<f64>,
    /// Standard deviation of that from run to run.
    run_sd: f64,
    /// What trials of these lengths meet more than a run.
    lengths: Vec<(Nanos, Mixture)>,
}

impl Speeds {
    /// `level` is the logarithm of what an overload carries at an instant, as far as the capacity went from
    /// one level to another.
    pub(crate) fn of(
        seconds: &[Second],
        level: impl Fn(f64) -> f64,
        lengths: impl Iterator<Item = Nanos>,
        allowed: Option<Allowed>,
        run: Nanos,
    ) -> Self {
        let usual_us = median_of(seconds.iter().filter_map(|second| second.yardstick_us));
        let slowness = |second: &Second| Some((second.yardstick_us? / usual_us?).ln());
        let follows = follows(seconds, &level, slowness);
        let speed = |second: &Second| Some((-follows * slowness(second)?).exp());
        let host: Vec<(u32, f64)> =
            seconds.iter().filter_map(|second| Some((second.trial, speed(second)?))).collect();
        // What the yardstick explains is not chance.
        let own =
            |second: &Second| second.ok / level(second.at_s).exp() / speed(second).unwrap_or(1.0);
        let overloads = seconds.iter().filter(|second| second.is_overload && second.ok > 0.0);
        let variation = Variation::of(&overloads.map(own).collect::<Vec<_>>(), allowed);
        let run_by_host = allowed.and_then(|allowed| run_by_host(&host, allowed, run));
        let met = variation.meets(run);
        let mut speeds = Self {
            variation,
            host,
            allowed,
            run: met.median,
            run_by_host,
            run_sd: met.sd,
            lengths: Vec::new(),
        };
        for length in lengths {
            if !speeds.lengths.iter().any(|(known, _)| *known == length) {
                speeds.lengths.push((length, speeds.by_length(length)));
            }
        }
        speeds
    }

    /// Speeds of the host in the seconds of a trial.
    fn in_trial(&self, trial: u32) -> Vec<f64> {
        self.host.iter().filter(|(number, _)| *number == trial).map(|(_, speed)| *speed).collect()
    }

    /// What trials of `length` meet more than runs of the stated length, by what is known of all seconds.
    fn by_length(&self, length: Nanos) -> Mixture {
        if let Some((_, known)) = self.lengths.iter().find(|(known, _)| *known == length) {
            return *known;
        }
        let more = self.variation.meets(length).fifths.map(|met| met - self.run);
        let is_small = more.iter().all(|more| more.abs() < MIXED_MIN);
        if is_small { Mixture::default() } else { more }
    }

    /// Whether a trial of `length` may miss what a run of the stated length meets with.
    pub(crate) fn misses(&self, length: Nanos) -> bool {
        self.by_length(length).iter().any(|more| *more > LENGTH_MATTERS)
    }

    /// How much more than a run of the stated length the trial may have met: by its own seconds of the host,
    /// and by what all seconds say of trials of `length`. A trial that has not been made has no number.
    pub(crate) fn mixture(&self, trial: Option<u32>, length: Nanos) -> Mixture {
        let by_host = trial.map_or(0.0, |trial| self.by_host(trial));
        self.by_length(length).map(|more| more + by_host)
    }

    /// How much more a trial met than a run does because its host was faster: a logarithm.
    fn by_host(&self, trial: u32) -> f64 {
        let seen = self.in_trial(trial);
        match (self.run_by_host, self.allowed) {
            (Some(run), Some(allowed)) if !seen.is_empty() => met_by(&seen, allowed).ln() - run,
            _ => 0.0,
        }
    }

    /// How much more an overload of `length` carries than a run of the stated length meets: a logarithm.
    pub(crate) fn reading_offset(&self, trial: u32, length: Nanos) -> f64 {
        let by_length = self.variation.carries(length).median - self.run;
        let seen = self.in_trial(trial);
        let mean = seen.iter().sum::<f64>() / seen.len().max(1) as f64;
        match self.run_by_host {
            Some(run) if !seen.is_empty() => by_length + mean.ln() - run,
            _ => by_length,
        }
    }

    /// The spread of runs from one to another over that of overloads of `reading`.
    pub(crate) fn spread_ratio(&self, reading: Nanos) -> f64 {
        let reading = self.variation.carries(reading).sd;
        if reading > 1e-3 { (self.run_sd / reading).clamp(0.2, 2.0) } else { 1.0 }
    }

    /// Share of the seconds that are nearer to what a run meets than to the median.
    pub(crate) fn share_of_slow(&self) -> f64 {
        let border = (0.5 * self.below_median()).exp();
        let host: Vec<f64> = self.host.iter().map(|(_, speed)| *speed).collect();
        let seconds = if host.is_empty() { self.variation.seconds() } else { &host };
        let slow = seconds.iter().filter(|speed| **speed < border).count();
        slow as f64 / seconds.len().max(1) as f64
    }

    /// How much less a run meets than the median second carries: a logarithm, 0 or less.
    pub(crate) fn below_median(&self) -> f64 {
        self.run.min(0.0) + self.run_by_host.unwrap_or_default().min(0.0)
    }
}

/// What runs of the stated length meet by the host's speed alone: the median, a logarithm.
fn run_by_host(host: &[(u32, f64)], allowed: Allowed, run: Nanos) -> Option<f64> {
    let whole = run.as_secs_f64().round() as usize;
    if host.len() < WINDOW_MIN.max(whole) {
        return None;
    }
    let speeds: Vec<f64> = host.iter().map(|(_, speed)| *speed).collect();
    let windows = speeds.windows(whole).map(|window| met_by(window, allowed).ln());
    lower_median(&windows.collect::<Vec<_>>())
}

/// The exponent with which the server's speed follows its host's, 0 to 1.
fn follows(
    seconds: &[Second],
    level: &impl Fn(f64) -> f64,
    slowness: impl Fn(&Second) -> Option<f64>,
) -> f64 {
    // A second in which all was carried only says that the server was able to.
    let is_full = |second: &&Second| second.ok < SATURATED * second.sent;
    let overloads = seconds.iter().filter(|second| second.is_overload && second.ok > 0.0);
    let overloads = overloads.filter(is_full);
    let points: Vec<(f64, f64)> = overloads
        .filter_map(|second| Some((slowness(second)?, second.ok.ln() - level(second.at_s))))
        .collect();
    let count = points.len() as f64;
    if points.len() < FOLLOWED_MIN {
        return 0.0;
    }
    let mean = |of: fn(&(f64, f64)) -> f64| points.iter().map(of).sum::<f64>() / count;
    let (x, y) = (mean(|point| point.0), mean(|point| point.1));
    let both: f64 = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum();
    let square: f64 = points.iter().map(|point| (point.0 - x).powi(2)).sum();
    // Where the yardstick hardly moved, its noise would be taken for the host's.
    (-both / (square + count * YARDSTICK_SD.powi(2))).clamp(0.0, 1.0)
}
