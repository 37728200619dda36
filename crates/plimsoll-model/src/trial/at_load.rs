//! Observations of all trials at one load.

use super::{Phase, TrialRecord, Verdict};
use crate::tally::Tally;
use crate::{Nanos, Rate};

/// The highest load, at most `lower`, at which a trial met the objective: the ends of an interval are
/// loads that were measured or lie between such.
fn load_at_lower_bound(trials: &[TrialRecord], lower: Rate) -> Option<Rate> {
    let good = trials.iter().filter(|trial| trial.judgement.verdict == Verdict::Good);
    let loads = good.map(|trial| trial.measurement.request.rate);
    let below = loads.filter(|load| *load <= lower || same_load(*load, lower));
    below.max_by(|a, b| a.get().total_cmp(&b.get()))
}

/// Returns the trial that shows the SUT at the lower bound: a GOOD one at that load, a confirming one before others,
/// then the longest, then the latest.
pub fn trial_at_lower_bound(trials: &[TrialRecord], lower: Rate) -> Option<&TrialRecord> {
    let load = load_at_lower_bound(trials, lower)?;
    trials
        .iter()
        .filter(|trial| trial.judgement.verdict == Verdict::Good)
        .filter(|trial| same_load(trial.measurement.request.rate, load))
        .max_by_key(|trial| {
            let m = &trial.measurement;
            (m.request.phase == Phase::Confirm, m.window, m.request.number)
        })
}

/// Observations of all trials at one load.
#[derive(Clone, Debug, Default)]
pub struct TrialsAtLoad {
    /// Operations per second.
    pub load: Rate,
    /// Number of trials.
    pub trials: usize,
    /// Merged tallies of the trials.
    pub tally: Tally,
    /// Measured time of the trials.
    pub window: Nanos,
    /// CPU of the busiest SUT thread, 0 to 1: the most.
    pub sut_busiest_thread: Option<f64>,
}

impl TrialsAtLoad {
    /// Merges the trials at the lower bound, GOOD and BAD ones, so that the result is not the best of them.
    pub fn at_lower_bound(trials: &[TrialRecord], lower: Rate) -> Option<Self> {
        Some(Self::at(trials, load_at_lower_bound(trials, lower)?))
    }

    /// Merges the valid trials at `load` that asked whether it meets the SLO in the search's own arrivals.
    pub fn at(trials: &[TrialRecord], load: Rate) -> Self {
        let mut all = Self { load, ..Self::default() };
        for TrialRecord { measurement: m, judgement, .. } in trials {
            let is_one = same_load(m.request.rate, load)
                && judgement.verdict != Verdict::Invalid
                && m.request.phase.moves_bounds();
            if is_one {
                all.trials += 1;
                all.tally.merge_following(&m.tally);
                all.window = all.window + m.window;
                let busiest = [all.sut_busiest_thread, m.sut_busiest_thread];
                all.sut_busiest_thread = busiest.into_iter().flatten().reduce(f64::max);
            }
        }
        all
    }
}

/// Equal but for what arithmetic on bounds may have rounded.
fn same_load(a: Rate, b: Rate) -> bool {
    (a.get() - b.get()).abs() <= 1e-6 * a.get().max(b.get())
}
