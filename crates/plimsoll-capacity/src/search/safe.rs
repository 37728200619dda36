//! The safe load: what random arrivals leave of the capacity.
//!
//! Model: with random arrivals a server meets the objective up to a load that lies below its capacity
//! by a gap, which depends on the rate, the deadline and the server, and is the same in all trials
//! but for [`GAP_SPREAD`] of it. Prior: what all trials with even arrivals say of the capacity; a
//! gap is as likely as the next one from what a queue takes to some times that, and less likely beside it. Trials
//! with random arrivals, as long as a confirmation, show which gap it is, and where the capacity is: a load that they
//! meet lies below it, whatever the gap. Each is made at the present estimate of the safe load: half of the weight lies
//! above it.

use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::{Nanos, Rate};

use super::fit::Fit;
use super::likelihood::{Gap, Posterior};
use super::trials::{Role, Trial};

/// Gaps that are considered: this number of them, from this one up, logarithmic, each this multiple of the previous
/// one.
const GAP_LEAST: f64 = 0.002;
const GAP_STEP: f64 = 1.5;
const GAPS: i32 = 14;
/// Relative standard deviation of a gap from trial to trial.
const GAP_SPREAD: f64 = 0.3;
/// Share of the trials that meet the safe load, and its confidence.
const SHARE: f64 = 0.9;
const CONFIDENCE: f64 = 0.9;
/// The prior is flat, logarithmically, up to this multiple of the gap that a queue of random arrivals causes in front
/// of a server of even speed; a larger gap is less likely, by this power.
const USUAL: f64 = 24.0;
const BEYOND: i32 = 2;
/// A gap smaller than that queue's is less likely, by this power: only a server that refuses what would queue has it.
const WITHOUT_QUEUE: i32 = 1;

/// Returns the capacity with random arrivals, by the trials that had them; and what those imply for the `even` one,
/// which the others are of.
pub(super) fn with_random_arrivals(
    even: &Posterior,
    trials: &[Trial],
    slo: &Slo,
) -> (Posterior, Posterior) {
    // The wait before one server with even service times (M/D/1) is longer than the deadline for the share
    // `late` where exp(-2 (1 - load / capacity) capacity deadline) is.
    let capacity = even.quantile(0.5).exp();
    let queue = strictest(slo).map_or(GAP_LEAST, |(deadline, late)| {
        (1.0 / late.max(1e-6)).ln() / (2.0 * capacity * deadline.as_secs_f64())
    });
    let gaps: Vec<Gap> = (0..GAPS)
        .map(|step| GAP_LEAST * GAP_STEP.powi(step))
        .map(|size| {
            let weight = (USUAL * queue / size).min(1.0).powi(BEYOND)
                * (size / queue).min(1.0).powi(WITHOUT_QUEUE);
            Gap { size, sd: GAP_SPREAD * size, weight }
        })
        .collect();
    let random = trials.iter().filter(|trial| trial.role == Role::Safe);
    let random: Vec<(f64, bool)> = random.map(|trial| (trial.load.ln(), trial.good)).collect();
    even.below(&gaps, &random)
}

/// The goal with the strictest deadline: that, and the share of the operations that may be late; `None` of an
/// objective on errors alone.
fn strictest(slo: &Slo) -> Option<(Nanos, f64)> {
    let deadline = slo.deadline()?;
    let is_it = |goal: &&Goal| matches!(goal, Goal::Latency { limit, .. } if *limit == deadline);
    Some((deadline, slo.goals.iter().find(is_it)?.bad_ratio_max()))
}

/// Returns the load at which the next trial with random arrivals is most informative, operations per second.
pub(super) fn next_load(fit: &Fit) -> Option<f64> {
    Some(fit.random.safe(SHARE, 0.5)?.exp())
}

/// Returns the load of which [`SHARE`] of the runs of a confirmation's length meet the objective with random arrivals,
/// with a confidence of [`CONFIDENCE`].
pub(super) fn safe_load(fit: &Fit) -> Option<Rate> {
    // Without a trial that met it, it would be a guess.
    fit.trials.iter().find(|trial| trial.role == Role::Safe && trial.good)?;
    Rate::per_second(fit.random.safe(SHARE, CONFIDENCE)?.exp())
}
