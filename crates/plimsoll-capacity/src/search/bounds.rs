//! Bounds without a confidence: what was observed, where the trials do not add up to an interval.

use plimsoll_model::trial::Met;
use plimsoll_model::{Nanos, Rate};

use super::trials::Trial;

/// A load holds although so large a share of the trials at it and below missed the objective: accidents.
const ACCIDENTS: f64 = 0.15;

/// A load that met the objective in every trial at it, and the lowest load above it that missed it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observed {
    pub(crate) lower: Rate,
    pub(crate) met: Met,
    pub(crate) upper: Option<Rate>,
}

impl Observed {
    /// The highest such load: of trials at least as long as `long` where there are any, of the others
    /// otherwise; `None` where no load held.
    pub(crate) fn of(trials: &[Trial], long: Nanos) -> Option<Self> {
        let verdicts = || trials.iter().filter(|trial| trial.is_verdict());
        let longest = [long, Nanos::ZERO].into_iter();
        let load = longest
            .filter_map(|least| {
                let met = verdicts().filter(|trial| trial.good && trial.planned >= least);
                met.map(|trial| trial.load).filter(|load| holds(trials, *load)).reduce(f64::max)
            })
            .next()?;
        let at = || verdicts().filter(|trial| trial.load == load);
        let above = verdicts().filter(|trial| !trial.good && trial.load > load);
        Some(Self {
            lower: Rate::per_second(load)?,
            met: Met {
                trials: at().count() as u32,
                longest: at().map(|trial| trial.planned).max().unwrap_or_default(),
            },
            upper: above.map(|trial| trial.load).reduce(f64::min).and_then(Rate::per_second),
        })
    }
}

/// Whether every trial at `load` met the objective, and all but accidents below it.
fn holds(trials: &[Trial], load: f64) -> bool {
    let up_to = || trials.iter().filter(|trial| trial.is_verdict() && trial.load <= load);
    let missed = up_to().filter(|trial| !trial.good);
    let is_met = missed.clone().all(|trial| trial.load < load);
    is_met && missed.count() as f64 <= ACCIDENTS * up_to().count() as f64
}
