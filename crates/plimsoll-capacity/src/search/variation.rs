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
/// Switches that are taken to have been seen before any was.
const SWITCHES_BEFORE: f64 = 0.1;
/// Stretches that begin in each second.
const ROUNDS: usize = 2;
/// A slow stretch begins and ends within seconds, which show it less deep than it is. So the queue that is let
/// pass is so many times shorter than the deadline allows: by simulated stretches of 2 to 8 s.
const BLURRED: f64 = 3.0;

/// What the strictest quantile goal allows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Allowed {
    /// A queue of this length in whole seconds makes operations late: a part of the deadline, see [`BLURRED`].
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
        Some(Self { deadline_s: deadline.as_secs_f64() / BLURRED, late: goal.bad_ratio_max() })
    }
}

/// What the seconds of overloads say.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Variation {
    /// Capacity of each second in order of time, relative to the median.
    seconds: Vec<f64>,
    /// Where each overload ends among them.
    ends: Vec<usize>,
    /// Seconds that are slower than this are of a slow stretch.
    border: f64,
    /// How likely a second is followed by one on the other side of the border.
    switches: f64,
    allowed: Option<Allowed>,
}

/// A figure of all stretches of one length: logarithms relative to the median second's capacity.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Stretches {
    pub(crate) median: f64,
    /// Values that stand for a fifth of the stretches each, ascending.
    pub(crate) fifths: Mixture,
    /// One in ten is less.
    pub(crate) least: f64,
    /// Standard deviation from stretch to stretch.
    pub(crate) sd: f64,
}

impl Stretches {
    pub(crate) fn of(values: &[f64]) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |part: usize| sorted.get((2 * part + 1) * sorted.len() / (2 * MIXED)).copied();
        let fifths = std::array::from_fn(|part| at(part).unwrap_or_default());
        let least = sorted.get(sorted.len() / 10).copied().unwrap_or_default();
        Self { median: fifths[MIXED / 2], fifths, least, sd: variance.sqrt() }
    }
}

impl Variation {
    /// Of the answers in each second of overloads: the number of the trial, and the answers, in order of time.
    pub(crate) fn of(answers: &[(u32, f64)], allowed: Option<Allowed>) -> Self {
        let median = median_of(answers.iter().map(|(_, ok)| *ok)).filter(|median| *median > 0.0);
        let (Some(median), Some(_)) = (median, allowed) else { return Self::default() };
        if answers.len() < SECONDS_MIN {
            return Self::default();
        }
        let seconds: Vec<f64> = answers.iter().map(|(_, ok)| ok / median).collect();
        let is_end = |index: &usize| {
            answers.get(index + 1).is_none_or(|(trial, _)| *trial != answers[*index].0)
        };
        let ends: Vec<usize> = (0..answers.len()).filter(is_end).collect();
        let mut sorted = seconds.clone();
        sorted.sort_by(f64::total_cmp);
        let border = 0.5 * (sorted[sorted.len() / 10] + sorted[9 * sorted.len() / 10]);
        // Only within one overload do seconds follow each other.
        let pairs = || (1..seconds.len()).filter(|index| !ends.contains(&(index - 1)));
        let is_switch = |index: &usize| (seconds[*index] < border) != (seconds[index - 1] < border);
        let switched = pairs().filter(is_switch).count() as f64;
        let switches = (switched + SWITCHES_BEFORE) / (pairs().count() as f64 + 1.0);
        Self { seconds, ends, border, switches, allowed }
    }

    /// Share of the seconds with a smaller capacity, relative to the median.
    pub(crate) fn share_below(&self, capacity: f64) -> f64 {
        let below = self.seconds.iter().filter(|second| **second < capacity).count();
        below as f64 / self.seconds.len().max(1) as f64
    }

    /// Stretches of `length`: each goes on through the overload that it begins in, and then with another one.
    fn stretches(&self, length: Nanos, figure: impl Fn(&[f64]) -> f64) -> Stretches {
        let whole = (length.as_secs_f64().round() as usize).max(1);
        let mut chance = Chance::default();
        let mut values = Vec::with_capacity(ROUNDS * self.seconds.len());
        for _ in 0..ROUNDS {
            for begin in 0..self.seconds.len() {
                let mut stretch = Vec::with_capacity(whole);
                let mut at = begin;
                while stretch.len() < whole {
                    stretch.push(self.seconds[at]);
                    at = if self.ends.contains(&at) {
                        self.follows(at, &mut chance)
                    } else {
                        at + 1
                    };
                }
                values.push(figure(&stretch));
            }
        }
        Stretches::of(&values)
    }

    /// A second that follows the last one of an overload: the beginning of the one that is most alike, or of any
    /// on the other side of the border if the speed switches.
    fn follows(&self, last: usize, chance: &mut Chance) -> usize {
        let speed = self.seconds[last];
        let starts = || std::iter::once(0).chain(self.ends.iter().map(|end| end + 1));
        let starts = || starts().filter(|start| *start < self.seconds.len());
        if chance.draw() < self.switches {
            let other =
                |start: &usize| (self.seconds[*start] < self.border) != (speed < self.border);
            let count = starts().filter(other).count();
            let pick = ((chance.draw() * count as f64) as usize).min(count.saturating_sub(1));
            if let Some(start) = starts().filter(other).nth(pick) {
                return start;
            }
        }
        let off = |start: &usize| (self.seconds[*start] - speed).abs();
        starts().min_by(|a, b| off(a).total_cmp(&off(b))).unwrap_or_default()
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

/// Numbers between 0 and 1 that are evenly spread and always the same: multiples of the golden ratio.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chance(f64);

impl Chance {
    pub(crate) fn draw(&mut self) -> f64 {
        self.0 = (self.0 + 0.618_033_988_749_894_8).fract();
        self.0
    }
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

    /// Overloads of three seconds each.
    fn overloads(answers: &[f64]) -> Vec<(u32, f64)> {
        answers.iter().enumerate().map(|(index, ok)| (index as u32 / 3, *ok)).collect()
    }

    fn of(answers: &[f64]) -> Variation {
        Variation::of(&overloads(answers), Some(P99))
    }

    #[test]
    fn steady_seconds_make_no_difference() {
        let steady = of(&[5_000.0; 9]);
        for seconds in [1, 5, 15, 60] {
            let meets = steady.meets(Nanos::from_secs(seconds));
            assert!(meets.median.abs() < 2e-3 && meets.sd < 1e-3, "{seconds} s: {meets:?}");
        }
        let few = of(&[5_000.0; 5]);
        assert_eq!(few.meets(Nanos::from_secs(5)), Stretches::default());
        let errors_alone = Variation::of(&overloads(&[5_000.0; 9]), None);
        assert_eq!(errors_alone.meets(Nanos::from_secs(5)), Stretches::default());
    }

    #[test]
    fn a_longer_trial_meets_what_the_slow_stretches_carry() {
        // Two slow seconds in each ten.
        let seconds: Vec<f64> =
            (0..60).map(|second| if second % 10 < 2 { 4_000.0 } else { 5_000.0 }).collect();
        let seen = of(&seconds);
        let [short, long] = [2, 15].map(|length| seen.meets(Nanos::from_secs(length)));
        assert!(short.median > -0.02 && short.sd > 0.05, "{short:?}");
        let slow = 0.8_f64.ln();
        assert!((slow..slow + 0.04).contains(&long.median) && long.sd < 0.06, "{long:?}");
    }

    #[test]
    fn a_speed_that_stays_through_each_overload_stays_through_longer_trials() {
        let seconds: Vec<f64> =
            (0..60).map(|second| if second / 3 % 2 == 0 { 4_000.0 } else { 5_000.0 }).collect();
        let long = of(&seconds).meets(Nanos::from_secs(15));
        let fast = long.fifths.iter().filter(|met| **met > -0.05).count();
        assert_eq!(fast, 2, "{long:?}");
    }
}
