//! Was it our own delay? Of the operations that the kernel stamped it is known what their latency
//! would at least have been without us, so that nothing has to be concluded from how busy the
//! generator was.
//!
//! Operations that are late without their own delays, too, may still be our fault: if earlier operations were
//! sent late, the server received them together with it. So there are two counts. What came in time
//! but for its own delays is ours; what is late in every case is the server's; what lies between
//! settles nothing, and there the check of the send lag decides, which knows of every operation.

use plimsoll_model::slo::Goal;
use plimsoll_model::trial::{Check, CheckId, Level, Measure};
use plimsoll_model::{Histogram, Nanos};

use super::subject::Subject;
use crate::stats::{Z_95, wilson};

/// The share of its connections' time that a pool may spend waiting for the server, and is not full
/// because of it.
const POOL_FREE_MAX: f64 = 0.8;
/// The share from which on it is full, with what we took to read and to send again.
const POOL_FULL_MIN: f64 = 0.85;
/// Our time over the server's from which on a full pool is always ours: sent in
/// bursts, as we come to it, operations wait for each other at the server, too.
const POOL_OURS_MIN: f64 = 0.5;
/// The end of a backlog that rises evenly from nothing, over its mean.
const RISE_EVEN: f64 = 2.0;
/// The end of one that begins to rise half-way, over its mean.
const RISE_LATE: f64 = 4.0;

/// The effect of our own delay on a load that missed its SLO.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OwnDelay {
    /// No operation was stamped, or no missed goal is about latency.
    Unknown,
    /// A goal is missed without it, too.
    Harmless,
    /// The figures leave both possible.
    Unsettled,
    /// Without it every goal would be met.
    Decides,
}

/// A share that is known from a sample.
#[derive(Clone, Copy, Debug)]
struct Estimate {
    low: f64,
    seen: f64,
    high: f64,
}

impl Estimate {
    /// Estimates a share from `hits` of `sample`, drawn from `all` (Wilson's interval; a
    /// sample of all is no sample).
    fn of(hits: u64, sample: u64, all: u64) -> Self {
        if sample == 0 {
            return Self { low: 0.0, seen: 0.0, high: if all == 0 { 0.0 } else { 1.0 } };
        }
        let n = sample as f64;
        let seen = hits.min(sample) as f64 / n;
        let left = 1.0 - (n / all.max(sample) as f64);
        let (low, high) = wilson(seen, n, Z_95 * Z_95 * left);
        Self { low, seen, high }
    }

    /// Combines two estimates of the same share, the second one the closest.
    fn and(self, other: Self) -> Self {
        let low = self.low.max(other.low);
        Self { low, seen: other.seen, high: self.high.min(other.high).max(low) }
    }

    fn times(self, factor: f64) -> Self {
        Self { low: self.low * factor, seen: self.seen * factor, high: self.high * factor }
    }
}

/// One missed goal: by how much, and what of it is late only because of us.
struct Missed {
    by: f64,
    ours: Estimate,
}

impl Missed {
    fn verdict(&self) -> OwnDelay {
        // What is equal to the limit passes.
        if self.by - self.ours.high > 1e-12 {
            OwnDelay::Harmless
        } else if self.by - self.ours.low <= 1e-12 {
            OwnDelay::Decides
        } else {
            OwnDelay::Unsettled
        }
    }
}

impl Subject<'_> {
    /// Returns the effect of our own delay on the verdict.
    pub(super) fn own_delay(&self) -> OwnDelay {
        let spans = &self.tally.spans;
        let Some(slo) = self.slo.filter(|_| self.missed && !spans.wire.is_empty()) else {
            return OwnDelay::Unknown;
        };
        let missed = slo.goals.iter().filter(|goal| self.losses.misses(goal, 0.0));
        let verdicts = missed.map(|goal| match *goal {
            Goal::Latency { limit, .. } => self.missed_by(goal, limit).verdict(),
            // An operation was only given up after its socket was looked at.
            Goal::Errors { .. } => OwnDelay::Harmless,
        });
        verdicts.chain(self.backlog()).fold(OwnDelay::Unknown, |worst, next| match (worst, next) {
            (OwnDelay::Unknown, other) => other,
            (OwnDelay::Harmless, _) | (_, OwnDelay::Harmless) => OwnDelay::Harmless,
            (OwnDelay::Decides, OwnDelay::Decides) => OwnDelay::Decides,
            _ => OwnDelay::Unsettled,
        })
    }

    /// Reports whether our own delay explains how far the backlog has grown: by Little's law it keeps the
    /// rate times itself in flight on average.
    fn backlog(&self) -> Option<OwnDelay> {
        let spans = &self.tally.spans;
        let mean_s = |span: Option<Nanos>| span.unwrap_or_default().as_secs_f64();
        let without = if self.fills_pool() { &spans.wire } else { &spans.undelayed_min };
        let ours_s = (mean_s(spans.stamped.mean()) - mean_s(without.mean())).max(0.0);
        let rate = self.tally.scheduled as f64 / self.window.as_secs_f64().max(1e-3);
        (self.backlog_growth > 0.0).then_some(match self.backlog_growth / (ours_s * rate) {
            rise if rise <= RISE_EVEN => OwnDelay::Decides,
            rise if rise <= RISE_LATE => OwnDelay::Unsettled,
            _ => OwnDelay::Harmless,
        })
    }

    /// Reports whether operations waited for a connection because of us: with our delays none was free, and
    /// the server's own time would have left some, or was not much longer than ours.
    fn fills_pool(&self) -> bool {
        let (tally, spans) = (self.tally, &self.tally.spans);
        let mean_s = |span: Option<Nanos>| span.unwrap_or_default().as_secs_f64();
        let server_s = mean_s(spans.wire.mean());
        let ours_s = mean_s(spans.receive_lag.mean()) + mean_s(spans.send_lag.mean());
        let time_s = tally.slots_max() as f64 * self.window.as_secs_f64();
        let is_ours = tally.scheduled as f64 * server_s < POOL_FREE_MAX * time_s
            || ours_s > POOL_OURS_MIN * server_s;
        let is_full = tally.ok as f64 * (server_s + ours_s) > POOL_FULL_MIN * time_s;
        tally.pool_exhausted > 0 && is_full && is_ours
    }

    fn missed_by(&self, goal: &Goal, limit: Nanos) -> Missed {
        let spans = &self.tally.spans;
        let on_wire = spans.wire.count_above(limit);
        let most = if self.fills_pool() { on_wire } else { u64::MAX };
        let late_without = |without: &Histogram| without.count_above(limit).min(most);
        let least = self.late_because_of_us(limit, late_without(&spans.undelayed));
        let utmost = self.late_because_of_us(limit, late_without(&spans.undelayed_min));
        Missed {
            by: self.losses.bad_share(goal) - goal.bad_ratio_max(),
            ours: Estimate { high: utmost.high, ..least },
        }
    }

    /// Returns the share of operations that missed `limit` only because of us; `without` stamped operations miss it
    /// without us.
    fn late_because_of_us(&self, limit: Nanos, without: u64) -> Estimate {
        let (tally, spans) = (self.tally, &self.tally.spans);
        let late = spans.stamped.count_above(limit);
        let ours = late.saturating_sub(without);
        // Of all answers, and of the late ones, whose number is known: both hold.
        let late_of_all = spans.corrected.count_above(limit);
        let of_answers = Estimate::of(ours, spans.wire.count(), tally.ok);
        let of_late = Estimate::of(ours, late, late_of_all);
        let answered = of_answers
            .times(self.losses.share(tally.ok))
            .and(of_late.times(self.losses.share(late_of_all)));
        // What was not sent in time, or was not answered when the trial was cut short, waited for
        // the same reasons as what was late.
        let waiting = of_late.times(self.losses.share(tally.unsent + self.losses.outstanding()));
        Estimate {
            low: answered.low + waiting.low,
            seen: answered.seen + waiting.seen,
            high: answered.high + waiting.high,
        }
    }
}

/// Checks that no latency goal is missed only because of us; only if operations were stamped.
pub(super) fn own_delay(subject: &Subject<'_>) -> Option<Check> {
    if subject.tally.spans.wire.is_empty() {
        return None;
    }
    let latencies = subject.goals().iter().filter_map(|goal| match *goal {
        Goal::Latency { limit, .. } => Some(subject.missed_by(goal, limit)),
        Goal::Errors { .. } => None,
    });
    // The one that is missed by most without us.
    let worst = latencies.max_by(|a, b| (a.by - a.ours.seen).total_cmp(&(b.by - b.ours.seen)))?;
    let spans = &subject.tally.spans;
    let p99 = spans.receive_lag.quantile(0.99).unwrap_or_default();
    let most = Some(worst.by).filter(|by| *by > 0.0);
    let measures = [
        Measure::ratio("late only because of plimsoll", worst.ours.seen).at_most(most),
        Measure::span("receive lag p99", p99),
        Measure::count("stamped", spans.wire.count()),
    ];
    let verdict = subject.own_delay();
    let level = Level::of(verdict == OwnDelay::Decides, verdict == OwnDelay::Unsettled);
    Some(Check::new(CheckId::OwnDelay, level, measures))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_of_all_is_exact_and_a_small_one_is_not() {
        let all = Estimate::of(10, 1_000, 1_000);
        assert_eq!((all.low, all.high), (all.seen, all.seen));
        let none = Estimate::of(0, 1_000, 10_000_000);
        assert!(none.low == 0.0 && (0.002..0.003).contains(&none.high), "{none:?}");
        let some = Estimate::of(20, 1_000, 10_000_000);
        assert!(some.low > 0.013 && some.high < 0.03, "{some:?}");
        let nothing = Estimate::of(0, 0, 1_000);
        assert_eq!((nothing.low, nothing.high), (0.0, 1.0));
        assert_eq!(Estimate::of(0, 0, 0).high, 0.0);
    }
}
