//! A valid trial as evidence, and first conclusions from several trials.
//!
//! [`Trial::of`] turns a measurement and its judgement into a [`Trial`] with one [`Role`]; INVALID trials are never
//! passed to it. Loads and carried rates are in operations per second, and a window below 250 ms has no carried rate.
//! [`MissedBelow::of`] detects misses far below a bound, and [`rose`] a server that warms up. Start reading at
//! [`Trial::of`], then at [`Trial::shown`].

use plimsoll_model::Nanos;
use plimsoll_model::slo::Slo;
use plimsoll_model::trial::{Judgement, Phase, TrialMeasurement};

use super::conditions::Conditions;
use super::rare::{Bad, Pooled, bad_of, misses_rare_goals_alone};

/// A server that carries more than this share of the load may be able to carry all of it, too late.
pub(super) const SATURATED: f64 = 0.98;

/// Loads below this share of a bound are far below it: what is missed there does not depend on the load.
pub(super) const FAR_BELOW: f64 = 0.9;
/// A bound is refuted if this number of trials far below it, and this share of them, miss the objective.
const MISSED_MIN: usize = 2;
const MISSED: f64 = 0.2;

/// Shorter windows than this do not show what a trial carried.
pub(super) const CARRIED_WINDOW_MIN: Nanos = Nanos::from_millis(250);

/// The role of a trial as evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// A verdict: its load meets the objective or does not.
    Verdict,
    /// A verdict over a confirmation's length.
    Confirmation,
    /// A verdict on random arrivals at its load.
    Safe,
    /// BAD for a few operations that may as well be chance: no verdict.
    Undecided,
    /// The rate of a short overload.
    Sentinel,
    /// The rate of an overload of another length, at the end of the search: not compared with sentinels, because
    /// some servers carry less the longer they are overloaded.
    Overload,
}

/// One valid trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Trial {
    /// Operations per second.
    pub(crate) load: f64,
    pub(crate) good: bool,
    /// Middle of the trial, on the clock of trial and rest time, seconds.
    pub(crate) at_s: f64,
    /// Duration of the trial, seconds.
    pub(crate) window_s: f64,
    /// Number of the trial, and its planned duration.
    pub(crate) number: u32,
    pub(crate) planned: Nanos,
    /// Late, failed and unsent over scheduled operations, 0 to 1.
    pub(crate) loss_ratio: f64,
    /// Good answers, operations per second, if the trial was long enough to measure them.
    pub(crate) carried: Option<f64>,
    /// Bad operations by the goals on few of them.
    pub(crate) bad: Bad,
    pub(crate) scheduled: u64,
    /// `true` if it missed only goals on few operations.
    pub(crate) rarely_missed: bool,
    pub(crate) role: Role,
    pub(crate) conditions: Conditions,
}

impl Trial {
    /// Creates a valid trial that was `pooled` with the others at its load, with its middle at `at_s`.
    pub(super) fn of(
        measurement: &TrialMeasurement,
        judgement: &Judgement,
        slo: &Slo,
        pooled: Pooled,
        at_s: f64,
    ) -> Self {
        let carried = measurement.carried_per_s();
        let is_long = measurement.window >= CARRIED_WINDOW_MIN;
        Self {
            load: measurement.request.rate.get(),
            good: pooled == Pooled::Met,
            at_s,
            window_s: measurement.window.as_secs_f64(),
            number: measurement.request.number,
            planned: measurement.request.duration,
            loss_ratio: judgement.loss_ratio,
            carried: Some(carried).filter(|carried| is_long && *carried > 0.0),
            bad: bad_of(slo, measurement),
            scheduled: measurement.tally.scheduled,
            rarely_missed: misses_rare_goals_alone(judgement),
            role: match (pooled, measurement.request.phase) {
                (Pooled::Undecided, _) => Role::Undecided,
                (_, Phase::Sentinel) => Role::Sentinel,
                (_, Phase::Overload) => Role::Overload,
                (_, Phase::Safe) => Role::Safe,
                (_, Phase::Confirm) => Role::Confirmation,
                _ => Role::Verdict,
            },
            conditions: Conditions::of(measurement, carried),
        }
    }

    /// Returns the trial at `times` the load.
    pub(crate) fn scaled(&self, times: f64) -> Self {
        let carried = self.carried.map(|carried| carried * times);
        Self { load: self.load * times, carried, ..*self }
    }

    /// Returns the rate that the server carried when it could not carry all.
    pub(crate) fn saturated(&self) -> Option<f64> {
        self.carried.filter(|carried| !self.good && *carried < SATURATED * self.load)
    }

    /// Returns the rate that the server is known to have carried: its load, or less if it could not carry all.
    pub(crate) fn shown(&self) -> Option<f64> {
        if self.good { Some(self.load) } else { self.saturated() }
    }

    /// Reports whether the server was overloaded on purpose.
    pub(crate) const fn is_overload(&self) -> bool {
        matches!(self.role, Role::Sentinel | Role::Overload)
    }

    /// Reports whether it shows if its load meets the objective.
    pub(crate) const fn is_verdict(&self) -> bool {
        matches!(self.role, Role::Verdict | Role::Confirmation)
    }
}

/// Trials at loads far below an interval that missed the objective, and all of those trials.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct MissedBelow {
    pub(crate) bad: usize,
    pub(crate) all: usize,
    /// The highest load that was missed.
    pub(crate) highest: f64,
}

impl MissedBelow {
    /// Fits `trials` below `lower`; `None` if no more missed it than accidents explain.
    pub(crate) fn of(trials: &[Trial], lower: f64) -> Option<Self> {
        let below = || trials.iter().filter(|t| t.is_verdict() && t.load < FAR_BELOW * lower);
        let highest = below().filter(|t| !t.good).map(|t| t.load).reduce(f64::max)?;
        let (bad, all) = (below().filter(|t| !t.good).count(), below().count());
        let is_more = bad >= MISSED_MIN && bad as f64 > MISSED * all as f64;
        is_more.then_some(Self { bad, all, highest })
    }
}

/// A server that warms up carries more in one overload than in one before it at no higher load: by at least this, and
/// by this in all, logarithmic.
const RISE_STEP: f64 = 0.08;
const RISE: f64 = 0.2;
/// Such steps: a server that goes from one speed to another makes one.
const RISES_MIN: usize = 2;
/// Overloads after the last step that show that there is none any more.
const STAYED_MIN: usize = 3;
/// The tolerance for noise: the server never carried less than before by more.
const RISE_NOISE: f64 = 0.05;

/// Returns the rates that the server carried in the first overload and in the last, per second, if it carried more and
/// more up to the end.
pub(super) fn rose(trials: &[Trial]) -> Option<(f64, f64)> {
    // The highest load so far, with what was carried at most.
    let mut most: Option<(f64, f64)> = None;
    for trial in trials {
        let Some(carried) = trial.shown() else { continue };
        let is_less = |(load, before): (f64, f64)| {
            trial.load <= load && carried < before * (-RISE_NOISE).exp() && !trial.good
        };
        if most.is_some_and(is_less) {
            return None;
        }
        if most.is_none_or(|(_, before)| carried > before) {
            most = Some((trial.load, carried));
        }
    }
    let mut overloads = trials.iter().filter_map(|trial| Some((trial.load, trial.saturated()?)));
    let first = overloads.next()?;
    let (mut last, mut rises, mut stayed) = (first, 0, 0);
    for (load, carried) in overloads {
        if load >= last.0 && (carried / last.1).ln() >= RISE_STEP {
            (last, rises, stayed) = ((load, carried), rises + 1, 0);
        } else {
            stayed += 1;
        }
    }
    (stayed < STAYED_MIN && rises >= RISES_MIN && (last.1 / first.1).ln() >= RISE)
        .then_some((first.1, last.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overload(at_s: f64, good: bool, starved: f64) -> Trial {
        Trial {
            load: 2_000.0,
            good,
            at_s,
            window_s: 3.0,
            number: 1,
            planned: Nanos::from_secs(3),
            loss_ratio: 0.5,
            carried: Some(1_000.0),
            bad: Bad::default(),
            rarely_missed: false,
            scheduled: 6_000,
            role: Role::Sentinel,
            conditions: Conditions::starved(starved),
        }
    }

    fn verdict(load: f64, carried: f64) -> Trial {
        let good = carried >= load;
        Trial {
            load,
            good,
            carried: Some(carried),
            role: Role::Verdict,
            ..overload(1.0, false, 0.0)
        }
    }

    #[test]
    fn a_server_that_warms_up_carries_more_and_more() {
        let of = |pairs: &[(f64, f64)]| {
            let trials: Vec<Trial> =
                pairs.iter().map(|(load, carried)| verdict(*load, *carried)).collect();
            rose(&trials)
        };
        let warms = [(900.0, 500.0), (700.0, 700.0), (1_000.0, 800.0), (1_200.0, 1_000.0)];
        assert_eq!(of(&warms), Some((500.0, 1_000.0)));
        // It has become warm.
        assert_eq!(of(&[&warms[..], &[(1_200.0, 1_010.0); 3]].concat()), None);
        // One step up is another speed.
        assert_eq!(of(&[(900.0, 500.0), (900.0, 800.0), (1_200.0, 820.0)]), None);
        // It carried less again.
        assert_eq!(of(&[&warms[..], &[(700.0, 600.0)]].concat()), None);
        // Overloads cost it more the higher they are.
        assert_eq!(of(&[(2_000.0, 500.0), (1_500.0, 700.0), (1_200.0, 1_000.0)]), None);
    }

    #[test]
    fn one_trial_in_five_may_miss_the_objective_by_accident() {
        let usual = [verdict(400.0, 400.0), verdict(800.0, 800.0), verdict(980.0, 980.0)];
        let of = |odd: &[Trial], repeats: usize| {
            let all: Vec<Trial> = odd.iter().copied().chain(usual.repeat(repeats)).collect();
            MissedBelow::of(&all, 1_000.0)
        };
        let below = [verdict(700.0, 690.0), verdict(600.0, 590.0)];
        let missed = MissedBelow { bad: 2, all: 8, highest: 700.0 };
        assert_eq!(of(&below, 3), Some(missed));
        // Two of ten.
        assert_eq!(of(&below, 4), None);
    }
}
