//! The speed of server and host from second to second, and the evidence of trials of different lengths for one
//! capacity.
//!
//! The search looks for the load that half of the runs as long as a confirmation meet. A shorter trial may miss the
//! slow stretch that such a run meets. The depth of the stretch is not known: some depths are tried
//! ([`Speeds::depths`]), and those that explain short and long trials at once weigh most. The seconds of overloads show
//! the server's rate at its usual speed and in slow seconds, and so the possible depths; a search that observed no slow
//! second may have missed them.

use plimsoll_model::Nanos;

use super::likelihood::{MIXED, Mixture};
use super::second::{Second, readings};
use super::trials::Trial;
use crate::stats::upper_median;

/// Fewer seconds say nothing of how they differ.
const SECONDS_MIN: usize = 6;
/// A second with a smaller share of the usual answers is a pause, and no speed.
const PAUSE: f64 = 0.4;
/// Smallest loss of slow seconds against the usual one, logarithmic; less may be chance.
const DEPTH_MIN: f64 = 0.08;
/// Depths, as shares of how much less slow seconds carry than usual ones: a run may meet only with short ones, or
/// with slower ones than were observed.
const OBSERVED_DEPTHS: [f64; 5] = [0.4, 0.7, 1.0, 1.3, 1.6];
/// Depths if no slow second was observed, logarithmic, and the probability of each.
const UNOBSERVED_DEPTHS: [(f64, f64); 4] = [(0.0, 0.8), (0.06, 0.08), (0.14, 0.06), (0.3, 0.06)];
/// The depth, as such a share, that a prediction is made by.
const USUAL: f64 = 0.7;

/// The evidence of the seconds of overloads.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Speeds {
    /// Loss of slow seconds against the median one: one in ten, a logarithm of 0 or more.
    pub(crate) depth: f64,
    /// Share of the seconds that are nearer to those.
    pub(crate) share_of_slow: f64,
    /// Length of a run.
    run: Nanos,
}

impl Speeds {
    /// Reads the seconds of `trials`; `level` is the logarithm of what an overload carries at an instant, as far
    /// as the capacity went from one level to another.
    pub(crate) fn of(
        seconds: &[Second],
        trials: &[Trial],
        level: impl Fn(f64) -> f64,
        run: Nanos,
    ) -> Self {
        let log = |second: &Second| second.ok.ln() - level(second.at_s);
        let readings: Vec<Second> = readings(seconds, trials).collect();
        let mut sorted: Vec<f64> = readings.iter().map(log).collect();
        let steady = Self { run, ..Self::default() };
        let Some(usual) = upper_median(sorted.iter().copied()) else { return steady };
        sorted.retain(|log| *log > usual + PAUSE.ln());
        sorted.sort_by(f64::total_cmp);
        let depth = usual - sorted[sorted.len() / 10];
        if sorted.len() < SECONDS_MIN || depth < DEPTH_MIN {
            return steady;
        }
        let (slow_from, pause) = (usual - 0.5 * depth, usual + PAUSE.ln());
        let is_slow = |second: &Second| log(second) < slow_from;
        let pairs = readings.windows(2).filter(|pair| pair[0].trial == pair[1].trial);
        let mut switches = pairs.filter(|pair| is_slow(&pair[0]) != is_slow(&pair[1]));
        let mut falls = readings.iter().filter(|second| second.is_fall && is_slow(second));
        if switches.next().is_none() && !falls.any(|second| log(second) > pause) {
            // It differs from trial to trial: a longer one meets with no more than a short one.
            return steady;
        }
        let slow = sorted.iter().filter(|log| **log < slow_from).count();
        Self { depth, share_of_slow: slow as f64 / sorted.len() as f64, run }
    }

    /// Reports whether slow seconds were observed.
    pub(crate) fn have_slow_seconds(&self) -> bool {
        self.depth > 0.0
    }

    /// Returns the losses of runs against trials that miss the slow stretches, logarithmic, and the prior probability
    /// beforehand.
    pub(crate) fn depths(&self) -> Vec<(f64, f64)> {
        if self.have_slow_seconds() {
            return OBSERVED_DEPTHS
                .map(|share| (share * self.depth, 1.0 / OBSERVED_DEPTHS.len() as f64))
                .to_vec();
        }
        UNOBSERVED_DEPTHS.to_vec()
    }

    /// Returns the excess of a trial of `length` over a run, if slow stretches are this deep: one that is half as
    /// long misses half of them.
    pub(crate) fn mixture(&self, depth: f64, length: Nanos) -> Mixture {
        let missed = 1.0 - (length.as_secs_f64() / self.run.as_secs_f64()).min(1.0);
        let missed = (missed * MIXED as f64).round() as usize;
        let mut more = Mixture::default();
        more[MIXED - missed..].fill(depth);
        more
    }

    /// Returns the excess for a trial that has not been made, by the likeliest depth.
    pub(crate) fn expected(&self, length: Nanos) -> Mixture {
        self.mixture(USUAL * self.depth, length)
    }

    /// Reports whether a trial of `length` may miss what a run meets with.
    pub(crate) fn misses(&self, length: Nanos) -> bool {
        self.have_slow_seconds() && length < self.run
    }
}

#[cfg(test)]
mod tests {
    use super::super::conditions::Conditions;
    use super::super::trials::Role;
    use super::*;

    const RUN: Nanos = Nanos::from_secs(15);

    /// Overloads of three seconds each, by what is answered in each second.
    fn of(answers: &[f64]) -> Speeds {
        of_seconds(answers, |_| false)
    }

    fn of_seconds(answers: &[f64], is_fall: impl Fn(f64) -> bool) -> Speeds {
        let seconds: Vec<Second> = answers
            .iter()
            .enumerate()
            .map(|(index, ok)| Second {
                trial: index as u32 / 3,
                at_s: index as f64,
                part: 1.0,
                ok: *ok,
                is_overload: true,
                is_fall: is_fall(*ok),
            })
            .collect();
        let trial = |number| Trial {
            load: 6_000.0,
            good: false,
            at_s: f64::from(3 * number) + 1.5,
            window_s: 3.0,
            number,
            planned: Nanos::from_secs(3),
            loss_ratio: 0.5,
            carried: Some(5_000.0),
            bad: Default::default(),
            rarely_missed: false,
            scheduled: 18_000,
            role: Role::Sentinel,
            conditions: Conditions::default(),
        };
        let trials: Vec<Trial> = (0..answers.len().div_ceil(3) as u32).map(trial).collect();
        Speeds::of(&seconds, &trials, |_| 0.0, RUN)
    }

    #[test]
    fn a_speed_varies_if_it_changes_within_overloads() {
        assert!(!of(&[5_000.0; 9]).have_slow_seconds());
        // From one to another, as a capacity does that is drawn for each trial.
        let by_trial = [[5_000.0; 3], [3_500.0; 3], [5_000.0; 3], [3_500.0; 3]].concat();
        assert!(!of(&by_trial).have_slow_seconds());
        // Unless it became slower within trials whose load was met up to then.
        assert!(of_seconds(&by_trial, |ok| ok < 4_000.0).have_slow_seconds());
        // Too few seconds, and too small a difference.
        assert!(!of(&[5_000.0, 4_000.0, 5_000.0, 4_000.0]).have_slow_seconds());
        assert!(!of(&[5_000.0, 4_800.0, 5_000.0, 4_800.0, 5_000.0, 4_800.0]).have_slow_seconds());
        let seen = of(&[5_000.0, 4_000.0, 5_000.0, 5_000.0, 5_000.0, 4_000.0]);
        assert!(seen.have_slow_seconds() && (seen.depth + 0.8_f64.ln()).abs() < 1e-9, "{seen:?}");
        assert!((seen.share_of_slow - 1.0 / 3.0).abs() < 1e-9, "{seen:?}");
        // A second without answers is a pause.
        let paused = of(&[5_000.0, 100.0, 5_000.0, 5_000.0, 5_000.0, 5_000.0, 5_000.0]);
        assert!(!paused.have_slow_seconds(), "{paused:?}");
    }

    #[test]
    fn a_short_trial_may_miss_what_a_run_meets_with() {
        let steady = of(&[5_000.0; 9]);
        assert_eq!(steady.expected(Nanos::from_secs(5)), Mixture::default());
        assert!(!steady.misses(Nanos::from_secs(5)));
        let likely: f64 = steady.depths().iter().map(|(_, share)| share).sum();
        assert!((likely - 1.0).abs() < 1e-9);
        // Two of three such trials miss the one slow stretch of a run.
        assert_eq!(steady.mixture(0.2, Nanos::from_secs(5)), [0.0, 0.0, 0.2, 0.2, 0.2]);
        assert_eq!(steady.mixture(0.2, RUN), Mixture::default());
        let varied = of(&[5_000.0, 4_000.0, 5_000.0, 5_000.0, 5_000.0, 4_000.0]);
        assert!(varied.misses(Nanos::from_secs(5)) && !varied.misses(RUN));
        let deepest = varied.depths().iter().map(|(depth, _)| *depth).fold(0.0, f64::max);
        assert!((deepest - 1.6 * varied.depth).abs() < 1e-9);
    }
}
