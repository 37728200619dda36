//! Figures of loads, compared by stretches.
//!
//! Requests of one load depend on each other: a stall makes thousands of them slow. The order statistics of all
//! requests give an interval that is far too narrow. So each load is cut into six stretches, and the interval of the
//! change is the one of Mann and Whitney's test over the 36 changes from a stretch of the baseline to a stretch of the
//! run, whatever their distribution is. It is wider than 95 %, because neighbouring stretches are not quite independent
//! (tests.rs measures how often equal loads fail), and never narrower than chance within independent requests.

use plimsoll_model::Histogram;
use plimsoll_model::gate::{
    Estimate, Gate, GateFinding, GateMethod, GateMetric, Incomparable, Side,
};
use plimsoll_model::hist::quantile_ranks;
use plimsoll_model::tally::Tally;

use crate::stats::{Z_975, wilson};

/// Stretches that a load is cut into.
pub(super) const STRETCHES: usize = 6;
/// Changes that the interval leaves out at each end, of the 36 between the stretches of two loads, in order: 99.1 %.
const LEFT_OUT: usize = 2;
/// Length from which on [`LEFT_OUT`] applies: in shorter loads stretches depend too much on their neighbours.
const SECONDS_OF_LONG: u64 = 60;
/// A stretch of less than two seconds says nothing.
const SECONDS_MIN: u64 = 2 * STRETCHES as u64;

/// Operations that were started in some seconds of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stretch {
    pub(super) seconds: u64,
    pub(super) scheduled: u64,
    /// Answers in time.
    in_time: u64,
    /// Failed and unsent operations.
    bad: u64,
    /// Corrected latencies of the others.
    latencies: Histogram,
}

/// A load, cut into stretches of the same length to a second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stretches(pub(super) [Stretch; STRETCHES]);

impl Stretches {
    /// Creates a load whose operations were started within `seconds`, without any operation.
    pub fn new(seconds: f64) -> Self {
        let whole = (seconds + 0.05).floor().max(0.0) as u64;
        let bound = |stretch: usize| stretch as u64 * whole / STRETCHES as u64;
        let empty = |stretch| Stretch {
            seconds: bound(stretch + 1) - bound(stretch),
            ..Stretch::default()
        };
        Self(std::array::from_fn(empty))
    }

    /// Adds what was counted in a second. Operations that ended after the last start belong to the last stretch.
    pub fn add(&mut self, second: usize, tally: &Tally) {
        let mut left = second as u64;
        let within = self.0.iter().position(|stretch| {
            let is_within = left < stretch.seconds;
            left = left.saturating_sub(stretch.seconds);
            is_within
        });
        let stretch = &mut self.0[within.unwrap_or(STRETCHES - 1)];
        stretch.scheduled += tally.scheduled;
        stretch.in_time += tally.ok.saturating_sub(tally.late);
        stretch.bad += tally.errors_total() + tally.unsent;
        stretch.latencies.merge(&tally.spans.corrected);
    }

    /// Returns all stretches as one.
    pub(super) fn whole(&self) -> Stretch {
        self.0.iter().fold(Stretch::default(), |mut whole, stretch| {
            whole.seconds += stretch.seconds;
            whole.scheduled += stretch.scheduled;
            whole.in_time += stretch.in_time;
            whole.bad += stretch.bad;
            whole.latencies.merge(&stretch.latencies);
            whole
        })
    }
}

impl Stretch {
    /// `None` without operations or without time. Quantiles are in seconds, and infinite if they are among the failed.
    fn figure(&self, metric: GateMetric) -> Option<f64> {
        let per = |part: u64, all: u64| (all > 0).then(|| part as f64 / all as f64);
        match metric.quantile() {
            Some(q) => {
                let rank = (q * self.ended() as f64).ceil().max(1.0) as u64;
                (self.ended() > 0).then(|| self.value_at_rank(rank))
            }
            None if metric == GateMetric::Errors => per(self.bad, self.scheduled),
            None => per(self.in_time, self.seconds),
        }
    }

    /// Operations of which quantiles are: what failed is slower than any answer.
    fn ended(&self) -> u64 {
        self.latencies.count() + self.bad
    }

    /// Returns the latency of `rank` operations at most, in seconds.
    fn value_at_rank(&self, rank: u64) -> f64 {
        let mut below = 0;
        let mut buckets = self.latencies.buckets();
        let found = buckets.find(|(_, count)| {
            below += count;
            below >= rank
        });
        found.map_or(f64::INFINITY, |(value, _)| value.as_secs_f64())
    }

    /// Returns the interval that only chance within independent operations would leave: never narrower than this.
    pub(super) fn of_chance(&self, metric: GateMetric) -> Option<(f64, f64)> {
        match metric.quantile() {
            Some(q) => {
                let (low, high) = quantile_ranks(self.ended(), q)?;
                Some((self.value_at_rank(low), self.value_at_rank(high)))
            }
            None if metric == GateMetric::Errors => Some(match self.scheduled as f64 {
                0.0 => (0.0, 1.0),
                all => wilson(self.bad as f64 / all, all, Z_975 * Z_975),
            }),
            None => self.figure(metric).map(|value| (value, value)),
        }
    }
}

/// Compares two loads.
pub(super) fn compare(
    gate: Gate,
    baseline: &Stretches,
    run: &Stretches,
) -> Result<GateFinding, Incomparable> {
    let metric = gate.metric;
    let none = |side, why| Incomparable::NoInterval { side, metric, why };
    let whole = [baseline.whole(), run.whole()];
    let figure = |side, whole: &Stretch| {
        if whole.seconds < SECONDS_MIN {
            return Err(none(side, "a load of less than 12 s does not show how much it varies"));
        }
        whole.figure(metric).ok_or_else(|| none(side, "it has no operations"))
    };
    let (before, now) = (figure(Side::Baseline, &whole[0])?, figure(Side::Run, &whole[1])?);
    let is_base = before > 0.0 && before.is_finite();
    if !metric.is_in_points() && !is_base {
        let why = match metric.quantile() {
            Some(_) => "so many of its operations failed that the quantile is among them",
            None => "it is zero there, and nothing is a percentage of it",
        };
        return Err(none(Side::Baseline, why));
    }
    let is_long = whole.iter().all(|whole| whole.seconds >= SECONDS_OF_LONG);
    let drawn = between(metric, baseline, run, if is_long { LEFT_OUT } else { 0 });
    let chance = (whole[0].of_chance(metric), whole[1].of_chance(metric));
    let (Some(drawn), (Some(a), Some(b))) = (drawn, chance) else {
        return Err(Incomparable::no_interval(Side::Run, metric));
    };
    let value = change(metric, before, now);
    let least = change(metric, a.1, b.0);
    let most = change(metric, a.0, b.1);
    let low = value.min(drawn.0).min(least);
    let high = value.max(drawn.1).max(most);
    let estimate = Estimate { value, low, high };
    let method = GateMethod::Stretches { count: STRETCHES as u32 };
    Ok(GateFinding::new(gate, (before, now), estimate, method))
}

/// Returns the change from one figure to another: a difference in points, or relative. Not known between two infinite
/// ones.
fn change(metric: GateMetric, from: f64, to: f64) -> f64 {
    if metric.is_in_points() {
        return to - from;
    }
    match (from.is_finite(), to.is_finite()) {
        (true, _) if from > 0.0 => to / from - 1.0,
        (true, _) => f64::INFINITY,
        (false, true) => -1.0,
        (false, false) => 0.0,
    }
}

/// Returns the interval of the change over the stretches of both, without the `out` outermost changes at each end.
fn between(
    metric: GateMetric,
    baseline: &Stretches,
    run: &Stretches,
    out: usize,
) -> Option<(f64, f64)> {
    let figures = |of: &Stretches| -> Option<Vec<f64>> {
        of.0.iter().map(|stretch| stretch.figure(metric)).collect()
    };
    let (from, to) = (figures(baseline)?, figures(run)?);
    let pairs = from.iter().flat_map(|from| to.iter().map(move |to| change(metric, *from, *to)));
    let mut changes: Vec<f64> = pairs.collect();
    changes.sort_by(f64::total_cmp);
    Some((changes[out], changes[changes.len() - 1 - out]))
}
