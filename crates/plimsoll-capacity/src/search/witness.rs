//! The host's speed beside the trials, by a yardstick: which seconds were slow.
//!
//! A yardstick says when the host was slow, and for how long; the overloads say what the server carries in
//! slow seconds and in others. Both together say what a trial of any length meets, and what each trial that
//! was made has met.

use plimsoll_model::Nanos;

use super::second::Second;
use super::variation::{Allowed, Chance, Stretches, met_by};

/// Speeds of the host that differ by less are one, logarithmic: a yardstick has noise of its own.
const HOST_APART: f64 = 0.08;
/// A server that carries so much less in slow seconds feels its host, logarithmic.
const FELT: f64 = 0.03;
/// It does not if the difference is smaller than so many standard errors.
const SURE: f64 = 2.0;
/// Overload seconds of each kind that say what the server carries in it.
const READINGS_MIN: usize = 2;
/// Ways in which a trial's seconds are filled with what the server carries.
const FILLINGS: usize = 10;

/// Slow and other seconds of a host, and what the server carries in them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Witness {
    /// Of every second of the trials, in order of time: the trial's number, and whether it was slow.
    seconds: Vec<(u32, bool)>,
    /// What the server carries in the others and in the slow ones, relative to the median overload second.
    carries: [Vec<f64>; 2],
    allowed: Allowed,
}

/// Logarithms of what some seconds carry.
struct Logs {
    mean: f64,
    /// Standard error of the mean.
    error: f64,
}

impl Logs {
    fn of(carries: &[f64]) -> Self {
        let count = carries.len() as f64;
        let mean = carries.iter().map(|ok| ok.ln()).sum::<f64>() / count;
        let squares: f64 = carries.iter().map(|ok| (ok.ln() - mean).powi(2)).sum();
        Self { mean, error: (squares / (count - 1.0).max(1.0) / count).sqrt() }
    }
}

impl Witness {
    /// `level` is the logarithm of what an overload carries at an instant, `median` what the median
    /// overload second carries, and `pause` the share of that below which a second is a pause. `None` if
    /// nobody looked, or the server does not feel what was seen.
    pub(crate) fn of(
        seconds: &[Second],
        level: impl Fn(f64) -> f64,
        median: f64,
        pause: f64,
        allowed: Allowed,
    ) -> Option<Self> {
        let mut sorted: Vec<f64> =
            seconds.iter().filter_map(|second| second.yardstick_us).collect();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (*sorted.get(sorted.len() / 10)?, *sorted.get(9 * sorted.len() / 10)?);
        if (most / least).ln() < HOST_APART {
            return None;
        }
        let border_us = (least * most).sqrt();
        let mut carries = [Vec::new(), Vec::new()];
        let mut seen = Vec::with_capacity(seconds.len());
        for second in seconds {
            let Some(yardstick_us) = second.yardstick_us else { continue };
            let is_slow = yardstick_us > border_us;
            seen.push((second.trial, is_slow));
            if second.is_reading() {
                let carried = second.ok / level(second.at_s).exp() / median;
                carries[usize::from(is_slow)]
                    .extend(Some(carried).filter(|carried| *carried > pause));
            }
        }
        let [usual, slow] = &carries;
        if usual.len() < READINGS_MIN || slow.len() < READINGS_MIN {
            return None;
        }
        let (usual, slow) = (Logs::of(usual), Logs::of(slow));
        let apart = usual.mean - slow.mean;
        (apart > FELT.max(SURE * usual.error.hypot(slow.error))).then_some(Self {
            seconds: seen,
            carries,
            allowed,
        })
    }

    fn filled<'a>(
        &self,
        seconds: impl Iterator<Item = &'a (u32, bool)>,
        chance: &mut Chance,
    ) -> Vec<f64> {
        let carried = |(_, is_slow): &(u32, bool)| {
            let pool = &self.carries[usize::from(*is_slow)];
            pool[((chance.draw() * pool.len() as f64) as usize).min(pool.len() - 1)]
        };
        seconds.map(carried).collect()
    }

    /// A figure of every stretch of `length` that was seen.
    pub(crate) fn stretches(&self, length: Nanos, figure: impl Fn(&[f64]) -> f64) -> Stretches {
        let whole = (length.as_secs_f64().round() as usize).clamp(1, self.seconds.len());
        let mut chance = Chance::default();
        let windows = self.seconds.windows(whole);
        Stretches::of(
            &windows.map(|of| figure(&self.filled(of.iter(), &mut chance))).collect::<Vec<_>>(),
        )
    }

    /// What a trial met, by its own seconds; `None` if none was seen.
    pub(crate) fn met_in(&self, trial: u32) -> Option<Stretches> {
        let own = || self.seconds.iter().filter(|(number, _)| *number == trial);
        own().next()?;
        let mut chance = Chance::default();
        let met =
            (0..FILLINGS).map(|_| met_by(&self.filled(own(), &mut chance), self.allowed).ln());
        Some(Stretches::of(&met.collect::<Vec<_>>()))
    }

    /// Share of the seconds that were slow.
    pub(crate) fn share_of_slow(&self) -> f64 {
        let slow = self.seconds.iter().filter(|(_, is_slow)| *is_slow).count();
        slow as f64 / self.seconds.len().max(1) as f64
    }
}
