//! The safe load: what random arrivals leave of the capacity.
//!
//! Model: with random arrivals a server meets the objective up to a load that lies below its capacity
//! by a gap, which depends on the rate, the deadline and the server, and is the same in all trials
//! but for [`GAP_SPREAD`] of it. Prior: what all trials with even arrivals say of the capacity; every
//! octave of the gap is as likely as the next. Trials with random arrivals, as long as a confirmation,
//! say which gap it is. Each is made at the load that is the safe one as far as is known: half of the
//! weight lies above it.

use plimsoll_model::Rate;

use super::likelihood::Posterior;
use super::trials::{Role, Trial};

/// Gaps looked at: so many from this one up, logarithmic, each so many times the one before.
const GAP_LEAST: f64 = 0.002;
const GAP_STEP: f64 = 1.5;
const GAPS: i32 = 14;
/// Relative standard deviation of a gap from trial to trial.
const GAP_SPREAD: f64 = 0.3;
/// The safe load is met by so many trials, and it is so sure.
const SHARE: f64 = 0.9;
const CONFIDENCE: f64 = 0.9;

/// What the capacity is with random arrivals, by the trials that had them.
fn with_random_arrivals(even: &Posterior, trials: &[(f64, bool)]) -> Posterior {
    let gaps: Vec<(f64, f64)> = (0..GAPS)
        .map(|step| GAP_LEAST * GAP_STEP.powi(step))
        .map(|gap| (gap, GAP_SPREAD * gap))
        .collect();
    even.below(&gaps, trials)
}

/// Trials with random arrivals among those at the current level: logarithms of loads, and verdicts.
fn random_trials(current: &[Trial]) -> Vec<(f64, bool)> {
    let random = current.iter().filter(|trial| trial.role == Role::Safe);
    random.map(|trial| (trial.load.ln(), trial.good)).collect()
}

/// The load at which the next trial with random arrivals says most, operations per second.
pub(super) fn next_load(current: &[Trial], even: &Posterior) -> Option<f64> {
    let middle = with_random_arrivals(even, &random_trials(current)).safe(SHARE, 0.5)?;
    Some(middle.exp())
}

/// The load of which it is [`CONFIDENCE`] sure that [`SHARE`] of the loads of a confirmation's length
/// meet the objective with random arrivals.
pub(super) fn safe_load(current: &[Trial], even: &Posterior) -> Option<Rate> {
    let trials = random_trials(current);
    // Without a trial that met it, it would be a guess.
    trials.iter().find(|(_, good)| *good)?;
    let load = with_random_arrivals(even, &trials).safe(SHARE, CONFIDENCE)?;
    Rate::per_second(load.exp())
}
