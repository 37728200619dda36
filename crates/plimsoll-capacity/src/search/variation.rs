//! How the server's speed changes from second to second, and what trials of different lengths see of it.
//!
//! A server that is overloaded is its own yardstick: what it answers in each second is its capacity in that
//! second. A trial meets a quantile goal where no slow stretch is long enough for the queue that it leaves, so
//! that longer trials meet the objective at lower loads only. The seconds of the overloads say by how much:
//! each run of consecutive seconds is followed as a queue, and the highest load that it meets is looked for.
//!
//! Only overloads on purpose are looked at. A trial that was BAD at another load is BAD because its seconds
//! were slow, and would say that all are.

use plimsoll_model::Nanos;
use plimsoll_model::slo::{Goal, Slo};

use crate::median::median_of;

use super::likelihood::{MIXED, Mixture};

/// Fewer seconds say nothing of how they differ.
const SECONDS_MIN: usize = 6;
/// Halvings of the range in which the load that a stretch meets is looked for: to 0.02 % of it.
const HALVINGS: u32 = 12;
/// A second with a smaller share of the usual answers is a pause, and no speed.
const SPEED_LEAST: f64 = 0.05;

/// What the strictest quantile goal allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Allowed {
    /// An operation that waits longer is late, seconds.
    pub(crate) deadline_s: f64,
    /// Share of the operations that may be late.
    pub(crate) late: f64,
}

impl Allowed {
    /// By the goal with the strictest deadline; `None` of an objective on errors alone.
    pub(crate) fn of(slo: &Slo) -> Option<Self> {
        let deadline = slo.deadline()?;
        let goal = slo
            .goals
            .iter()
            .find(|goal| matches!(goal, Goal::Latency { limit, .. } if *limit == deadline))?;
        Some(Self { deadline_s: deadline.as_secs_f64(), late: goal.bad_ratio_max() })
    }
}

/// What the seconds of overloads say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Variation {
    /// Capacity of each second in order of time, relative to the median.
    seconds: Vec<f64>,
    allowed: Option<Allowed>,
}

/// A figure of all stretches of one length: logarithms relative to the median second's capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stretches {
    pub(crate) median: f64,
    /// Values that stand for a fifth of the stretches each, ascending.
    pub(crate) fifths: Mixture,
    /// Standard deviation from stretch to stretch.
    pub(crate) sd: f64,
}

impl Stretches {
    fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted.get((2 * part + 1) * sorted.len() / (2 * MIXED)).copied();
        let fifths = std::array::from_fn(|part| at(part).unwrap_or_default());
        Self { median: fifths[MIXED / 2], fifths, sd: variance.sqrt() }
    }
}

impl Variation {
    /// Of the answers in each second of overloads, in order of time.
    pub(crate) fn of(answers: &[f64], allowed: Option<Allowed>) -> Self {
        let median = median_of(answers.iter().copied()).filter(|median| *median > 0.0);
        match median {
            Some(median) if answers.len() >= SECONDS_MIN && allowed.is_some() => {
                let seconds = answers.iter().map(|ok| (ok / median).max(SPEED_LEAST)).collect();
                Self { seconds, allowed }
            }
            _ => Self::default(),
        }
    }

    /// Capacity of each second, relative to the median.
    pub(crate) fn seconds(&self) -> &[f64] {
        &self.seconds
    }

    fn stretches(&self, length: Nanos, figure: impl Fn(&[f64]) -> f64) -> Stretches {
        let whole = (length.as_secs_f64().round() as usize).max(1);
        let count = self.seconds.len();
        let stretch = |from: usize| -> Vec<f64> {
            (0..whole).map(|second| self.seconds[(from + second) % count]).collect()
        };
        let values: Vec<f64> = (0..count).map(|from| figure(&stretch(from))).collect();
        Stretches::of(&values)
    }

    /// Loads that trials of `length` meet, over what they would meet of a steady server.
    pub(crate) fn meets(&self, length: Nanos) -> Stretches {
        let Some(allowed) = self.allowed else { return Stretches::default() };
        self.stretches(length, |seconds| met_by(seconds, allowed).ln())
    }

    /// What overloads of `length` carry in the mean.
    pub(crate) fn carries(&self, length: Nanos) -> Stretches {
        self.stretches(length, |seconds| (seconds.iter().sum::<f64>() / seconds.len() as f64).ln())
    }
}

/// The median, and the lower of two: what lies between two speeds is none that the server has.
pub(crate) fn lower_median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// The highest load, relative, that a server of the given capacity in each second meets, over what it would
/// meet if its capacity were 1 in each of them.
pub(crate) fn met_by(seconds: &[f64], allowed: Allowed) -> f64 {
    let whole = seconds.len().max(1) as f64;
    // A queue that grows evenly needs so much more than the capacity before it is late for long enough.
    let unnoticed = 1.0 + allowed.deadline_s / ((1.0 - allowed.late) * whole);
    let mut low = seconds.iter().copied().fold(f64::INFINITY, f64::min);
    let mut high = unnoticed * seconds.iter().copied().fold(0.0, f64::max);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if late_share(seconds, middle, allowed.deadline_s) <= allowed.late {
            low = middle;
        } else {
            high = middle;
        }
    }
    low / unnoticed
}

/// Share of the operations that wait longer than `deadline_s`, where `load` comes in each second.
fn late_share(seconds: &[f64], load: f64, deadline_s: f64) -> f64 {
    let (mut queue, mut late_s) = (0.0_f64, 0.0);
    for served in seconds {
        let before = queue / served;
        let grows = load - served;
        queue = (queue + grows).max(0.0);
        let after = queue / served;
        late_s += match (before > deadline_s, after > deadline_s) {
            (true, true) => 1.0,
            (false, false) => 0.0,
            // The wait goes evenly, and stays at nothing once the queue is empty.
            _ => {
                let over = before.max(after) - deadline_s;
                (over / (grows.abs() / served).max(1e-9)).min(1.0)
            }
        };
    }
    late_s / seconds.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const P99: Allowed = Allowed { deadline_s: 0.05, late: 0.01 };

    #[test]
    fn steady_seconds_make_no_difference() {
        let steady = Variation::of(&[5_000.0; 9], Some(P99));
        for seconds in [1, 5, 15, 60] {
            let meets = steady.meets(Nanos::from_secs(seconds));
            assert!(meets.median.abs() < 2e-3 && meets.sd < 1e-3, "{seconds} s: {meets:?}");
        }
        let few = Variation::of(&[5_000.0; 5], Some(P99));
        assert_eq!(few.meets(Nanos::from_secs(5)), Stretches::default());
        let errors_alone = Variation::of(&[5_000.0; 9], None);
        assert_eq!(errors_alone.meets(Nanos::from_secs(5)), Stretches::default());
    }

    #[test]
    fn a_longer_trial_meets_what_the_slow_stretches_carry() {
        // Two slow seconds in each ten.
        let seconds: Vec<f64> =
            (0..40).map(|second| if second % 10 < 2 { 4_000.0 } else { 5_000.0 }).collect();
        let seen = Variation::of(&seconds, Some(P99));
        let [short, long] = [2, 15].map(|length| seen.meets(Nanos::from_secs(length)));
        assert!(short.median > -0.02 && short.sd > 0.05, "{short:?}");
        let slow = 0.8_f64.ln();
        assert!((slow..slow + 0.04).contains(&long.median) && long.sd < 0.03, "{long:?}");
        let carries = seen.carries(Nanos::from_secs(10));
        assert!((carries.median - 0.96_f64.ln()).abs() < 0.01 && carries.sd < 1e-6, "{carries:?}");
    }
}
