//! What trials at different times and of different lengths say of one capacity.
//!
//! The capacity that is looked for is the load that half of the runs as long as a confirmation meet. A
//! shorter trial may miss the slow stretches of such a run, which the seconds of the overloads show
//! ([`Variation`]); where a yardstick was read beside the trials, each trial's own seconds say what it met
//! with ([`Witness`]).

use plimsoll_model::Nanos;

use crate::median::median_of;

use super::likelihood::Mixture;
use super::second::Second;
use super::trials::Trial;
use super::variation::{Allowed, Stretches, Variation, met_by};
use super::witness::Witness;

/// A second with a smaller share of the usual answers is a pause, and no speed.
const PAUSE: f64 = 0.4;
/// A run that meets so much less than the median second carries, logarithmic, met with slow stretches; less may
/// be chance.
const VARIED_MIN: f64 = 0.04;
/// Differences that are smaller are none.
const MIXED_MIN: f64 = 0.01;
/// A trial that may meet so much more than a run says little, logarithmic.
const LENGTH_MATTERS: f64 = 0.03;

/// How the speed of server and host went.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Speeds {
    variation: Variation,
    witness: Option<Witness>,
    allowed: Option<Allowed>,
    /// What runs of the stated length meet.
    run: Stretches,
    /// What the median second carries: a logarithm.
    usual: f64,
    /// What trials of each length that was asked for may meet more than a run.
    lengths: Vec<(Nanos, Mixture)>,
}

impl Speeds {
    /// Of the seconds of `trials`; `level` is the logarithm of what an overload carries at an instant, as far
    /// as the capacity went from one level to another.
    pub(crate) fn of(
        seconds: &[Second],
        trials: &[Trial],
        level: impl Fn(f64) -> f64,
        allowed: Option<Allowed>,
        run: Nanos,
    ) -> Self {
        let is_counted = |second: &&Second| trials.iter().any(|trial| trial.number == second.trial);
        let seconds: Vec<Second> = seconds.iter().filter(is_counted).copied().collect();
        let carried = |second: &Second| second.ok / level(second.at_s).exp();
        let readings = seconds.iter().filter(|second| second.is_reading());
        let readings: Vec<(u32, f64)> =
            readings.map(|second| (second.trial, carried(second))).collect();
        let median = median_of(readings.iter().map(|(_, ok)| *ok));
        let pause = PAUSE * median.unwrap_or_default();
        let readings: Vec<(u32, f64)> =
            readings.into_iter().filter(|(_, ok)| *ok > pause).collect();
        let witness = median
            .zip(allowed)
            .and_then(|(median, allowed)| Witness::of(&seconds, &level, median, PAUSE, allowed));
        let variation = Variation::of(&readings, allowed);
        let mut speeds = Self { variation, witness, allowed, ..Self::default() };
        speeds.run = speeds.meets(run);
        speeds.usual = speeds.carries(Nanos::from_secs(1)).median;
        if speeds.run.median > speeds.usual - VARIED_MIN {
            return Self::default();
        }
        for length in trials.iter().map(|trial| trial.planned) {
            if !speeds.lengths.iter().any(|(known, _)| *known == length) {
                speeds.lengths.push((length, speeds.by_length(length)));
            }
        }
        speeds
    }

    /// What trials of `length` meet.
    fn meets(&self, length: Nanos) -> Stretches {
        match (&self.witness, self.allowed) {
            (_, None) => Stretches::default(),
            (Some(witness), Some(allowed)) => {
                witness.stretches(length, |seconds| met_by(seconds, allowed).ln())
            }
            (None, Some(_)) => self.variation.meets(length),
        }
    }

    /// What overloads of `length` carry in the mean.
    fn carries(&self, length: Nanos) -> Stretches {
        let mean = |seconds: &[f64]| (seconds.iter().sum::<f64>() / seconds.len() as f64).ln();
        match &self.witness {
            Some(witness) => witness.stretches(length, mean),
            None => self.variation.carries(length),
        }
    }

    /// What trials of `length` meet more than runs of the stated length.
    fn by_length(&self, length: Nanos) -> Mixture {
        if let Some((_, known)) = self.lengths.iter().find(|(known, _)| *known == length) {
            return *known;
        }
        self.over_run(&self.meets(length))
    }

    fn over_run(&self, met: &Stretches) -> Mixture {
        let more = met.fifths.map(|met| met - self.run.median);
        let is_small = more.iter().all(|more| more.abs() < MIXED_MIN);
        if is_small { Mixture::default() } else { more }
    }

    /// Whether a trial of `length` may miss what a run of the stated length meets with.
    pub(crate) fn misses(&self, length: Nanos) -> bool {
        self.by_length(length).iter().any(|more| *more > LENGTH_MATTERS)
    }

    /// How much more than a run of the stated length the trial may have met: by its own seconds if a yardstick
    /// was read in them, by what is known of all trials of `length` otherwise. A trial that has not been made
    /// has no number.
    pub(crate) fn mixture(&self, trial: Option<u32>, length: Nanos) -> Mixture {
        let own = trial.and_then(|trial| self.witness.as_ref()?.met_in(trial));
        own.map_or_else(|| self.by_length(length), |met| self.over_run(&met))
    }

    /// How much more an overload of `length` carries than a run of the stated length meets: a logarithm.
    pub(crate) fn reading_offset(&self, length: Nanos) -> f64 {
        self.carries(length).median - self.run.median
    }

    /// The spread of runs from one to another over that of overloads of the length `reading`.
    pub(crate) fn spread_ratio(&self, reading: Nanos) -> f64 {
        let reading = self.carries(reading).sd;
        if reading > 1e-3 { (self.run.sd / reading).clamp(0.2, 2.0) } else { 1.0 }
    }

    /// Share of the usual capacity that is left in the slowest seconds: one in ten.
    pub(crate) fn slow(&self) -> f64 {
        (self.carries(Nanos::from_secs(1)).least - self.usual).min(0.0).exp()
    }

    /// Share of the seconds that are nearer to what a run meets than to the median.
    pub(crate) fn share_of_slow(&self) -> f64 {
        match &self.witness {
            Some(witness) => witness.share_of_slow(),
            None => self.variation.share_below((self.usual + 0.5 * self.below_median()).exp()),
        }
    }

    /// How much less a run meets than the median second carries: a logarithm, 0 or less.
    pub(crate) fn below_median(&self) -> f64 {
        (self.run.median - self.usual).min(0.0)
    }
}
