//! Bounds without a confidence: what was observed, if the trials do not add up to an interval.

use plimsoll_model::trial::Met;
use plimsoll_model::{Nanos, Rate};

use super::trials::Trial;

/// A load holds although so large a share of the trials at it and below missed the objective: accidents.
const ACCIDENTS: f64 = 0.15;

/// A load that met the objective in every trial at it, and the lowest load above it that missed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ObservedBounds {
    pub(crate) lower: Rate,
    pub(crate) met: Met,
    pub(crate) upper: Option<Rate>,
}

impl ObservedBounds {
    /// Finds the highest load that was met for a total of `long`, by trials between it and the lowest load above it
    /// that was missed; `None` if no load held.
    pub(crate) fn of(trials: &[Trial], long: Nanos) -> Option<Self> {
        let verdicts = || trials.iter().filter(|trial| trial.is_verdict());
        let missed_above = |load: f64| {
            let above = verdicts().filter(move |trial| !trial.good && trial.load > load);
            above.map(|trial| trial.load).reduce(f64::min)
        };
        let met_from = |load: f64| {
            let most = missed_above(load).unwrap_or(f64::INFINITY);
            verdicts().filter(move |t| t.good && (load..most).contains(&t.load))
        };
        let is_long = |load: f64| {
            met_from(load).map(|trial| trial.window_s).sum::<f64>() >= long.as_secs_f64()
        };
        let met = verdicts().filter(|trial| trial.good).map(|trial| trial.load);
        let load = met.filter(|load| holds(trials, *load) && is_long(*load)).reduce(f64::max)?;
        Some(Self {
            lower: Rate::per_second(load)?,
            met: Met {
                trials: met_from(load).count() as u32,
                longest: met_from(load).map(|trial| trial.planned).max().unwrap_or_default(),
            },
            upper: missed_above(load).and_then(Rate::per_second),
        })
    }
}

/// Reports whether every trial at `load` met the objective, and all but accidents below it.
fn holds(trials: &[Trial], load: f64) -> bool {
    let up_to = || trials.iter().filter(|trial| trial.is_verdict() && trial.load <= load);
    let missed = up_to().filter(|trial| !trial.good);
    let is_met = missed.clone().all(|trial| trial.load < load);
    is_met && missed.count() as f64 <= ACCIDENTS * up_to().count() as f64
}
