//! Figures of loads, compared by stretches of the seconds that they are made of.
//!
//! Requests of one load depend on each other: a stall makes thousands of them slow. The order statistics of all
//! of them give an interval that is far too narrow. So each load is cut into six stretches, and the interval of the change is
//! that of Mann and Whitney's test over the 36 changes from a stretch of the baseline to one of the run, whatever their distribution is. It is
//! wider than 95 %, because neighbouring stretches are not quite independent (tests.rs measures how often alike loads fail), and never narrower than chance within independent requests.

use std::collections::BTreeMap;

use plimsoll_model::gate::{
    Estimate, Gate, GateFinding, GateMethod, GateMetric, Incomparable, Side,
};
use plimsoll_model::hist::quantile_ranks;
use plimsoll_model::tally::Tally;

use crate::stats::{Z_975, wilson};

/// Stretches that a load is cut into.
const STRETCHES: usize = 6;
/// Of the 36 changes between the stretches of two loads, in order, the interval leaves out so many at each end: 99.1 %.
const LEFT_OUT: usize = 2;
/// In shorter loads a stretch has too much to do with its neighbours, and none is left out.
const SECONDS_OF_LONG: usize = 60;
/// A stretch of less than two seconds says nothing.
const SECONDS_MIN: usize = 2 * STRETCHES;
/// Longer loads are looked at in steps of more than a second.
const STEPS_MAX: usize = 600;

/// One second, as far as gates look at it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SecondRecord {
    pub(super) scheduled: u64,
    /// Answers in time.
    in_time: u64,
    /// Failed and unsent operations.
    bad: u64,
    /// Corrected latencies of the others: number of the bucket, and how many. Once in [`Seconds`], by place.
    latencies: Vec<(u64, u64)>,
}

impl SecondRecord {
    /// Of what was counted.
    pub fn of(tally: &Tally) -> Self {
        let latencies = tally.spans.corrected.buckets().map(|(value, count)| (value.0, count));
        Self {
            scheduled: tally.scheduled,
            in_time: tally.ok.saturating_sub(tally.late),
            bad: tally.errors_total() + tally.unsent,
            latencies: latencies.collect(),
        }
    }

    fn add(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.in_time += other.in_time;
        self.bad += other.bad;
        self.latencies.extend_from_slice(&other.latencies);
    }
}

/// The seconds of a load in which operations were started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seconds {
    /// Latencies by their places in `values`.
    pub(super) steps: Vec<SecondRecord>,
    /// Ends of the buckets, ns, ascending.
    values: Vec<u64>,
    /// Length of a step.
    pub(super) step_s: usize,
}

impl Seconds {
    /// Of a load whose operations were started within `seconds`. What ended later belongs to the last of them.
    pub fn new(records: Vec<SecondRecord>, seconds: f64) -> Self {
        let whole = (seconds + 0.05).floor().max(0.0) as usize;
        let step_s = whole.div_ceil(STEPS_MAX).max(1);
        let count = whole / step_s;
        let mut steps = vec![SecondRecord::default(); count];
        if count > 0 {
            for (second, record) in records.iter().enumerate() {
                steps[(second / step_s).min(count - 1)].add(record);
            }
        }
        let mut seconds = Self { steps, values: Vec::new(), step_s };
        seconds.place_latencies();
        seconds
    }

    fn place_latencies(&mut self) {
        let all = self.steps.iter().flat_map(|step| &step.latencies).map(|(value, _)| *value);
        self.values = all.collect();
        self.values.sort_unstable();
        self.values.dedup();
        for step in &mut self.steps {
            let mut merged: BTreeMap<u64, u64> = BTreeMap::new();
            for (value, count) in &step.latencies {
                let place = self.values.partition_point(|known| known < value) as u64;
                *merged.entry(place).or_default() += count;
            }
            step.latencies = merged.into_iter().collect();
        }
    }

    pub(super) fn seconds(&self) -> usize {
        self.steps.len() * self.step_s
    }

    /// The figure of so many steps from one on; `None` where there is nothing to say.
    fn stretch(&self, metric: GateMetric, from: usize, steps: usize) -> Option<f64> {
        let steps = &self.steps[from..from + steps];
        let sum = |of: fn(&SecondRecord) -> u64| steps.iter().map(of).sum::<u64>();
        let (scheduled, bad) = (sum(|step| step.scheduled), sum(|step| step.bad));
        match metric.quantile() {
            Some(q) => self.quantile(&self.counts(steps), bad, q),
            None if metric == GateMetric::Errors => {
                (scheduled > 0).then(|| bad as f64 / scheduled as f64)
            }
            None => {
                let seconds = (steps.len() * self.step_s) as f64;
                (seconds > 0.0).then(|| sum(|step| step.in_time) as f64 / seconds)
            }
        }
    }

    fn whole(&self, metric: GateMetric) -> Option<f64> {
        self.stretch(metric, 0, self.steps.len())
    }

    /// How many operations each bucket has.
    fn counts(&self, steps: &[SecondRecord]) -> Vec<u64> {
        let mut counts = vec![0u64; self.values.len()];
        for (place, count) in steps.iter().flat_map(|step| &step.latencies) {
            counts[*place as usize] += count;
        }
        counts
    }

    /// In seconds; infinite where so many failed or were not sent that the quantile is among them.
    fn quantile(&self, counts: &[u64], bad: u64, q: f64) -> Option<f64> {
        let all = counts.iter().sum::<u64>() + bad;
        (all > 0).then(|| self.value_at_rank(counts, (q * all as f64).ceil().max(1.0) as u64))
    }

    /// The latency of so many operations at most, in seconds.
    fn value_at_rank(&self, counts: &[u64], rank: u64) -> f64 {
        let mut below = 0;
        for (value, count) in self.values.iter().zip(counts) {
            below += count;
            if below >= rank {
                return *value as f64 / 1e9;
            }
        }
        f64::INFINITY
    }

    /// The interval that only chance within independent operations would leave: never narrower than this.
    pub(super) fn of_chance(&self, metric: GateMetric) -> Option<(f64, f64)> {
        let scheduled: u64 = self.steps.iter().map(|step| step.scheduled).sum();
        let bad: u64 = self.steps.iter().map(|step| step.bad).sum();
        match metric.quantile() {
            Some(q) => self.order_statistics(bad, q),
            None if metric == GateMetric::Errors => Some(match scheduled as f64 {
                0.0 => (0.0, 1.0),
                all => wilson(bad as f64 / all, all, Z_975 * Z_975),
            }),
            None => self.whole(metric).map(|value| (value, value)),
        }
    }

    /// What failed is slower than any answer.
    fn order_statistics(&self, bad: u64, q: f64) -> Option<(f64, f64)> {
        let counts = self.counts(&self.steps);
        let (low, high) = quantile_ranks(counts.iter().sum::<u64>() + bad, q)?;
        Some((self.value_at_rank(&counts, low), self.value_at_rank(&counts, high)))
    }
}

/// What a gate says of two loads.
pub(super) fn compare(
    gate: Gate,
    baseline: &Seconds,
    run: &Seconds,
) -> Result<GateFinding, Incomparable> {
    let metric = gate.metric;
    let none = |side, why| Incomparable::NoInterval { side, metric, why };
    let sides = [(Side::Baseline, baseline), (Side::Run, run)];
    let mut figures = [0.0; 2];
    for ((side, seconds), figure) in sides.into_iter().zip(&mut figures) {
        if seconds.seconds() < SECONDS_MIN {
            return Err(none(side, "a load of less than 12 s does not show how much it varies"));
        }
        *figure = seconds.whole(metric).ok_or_else(|| none(side, "it has no operations"))?;
    }
    let is_base = figures[0] > 0.0 && figures[0].is_finite();
    if !metric.is_in_points() && !is_base {
        let why = match metric.quantile() {
            Some(_) => "so many of its operations failed that the quantile is among them",
            None => "it is zero there, and nothing is a percentage of it",
        };
        return Err(none(Side::Baseline, why));
    }
    let drawn = between(metric, baseline, run);
    let chance = (baseline.of_chance(metric), run.of_chance(metric));
    let (Some(drawn), (Some(a), Some(b))) = (drawn, chance) else {
        return Err(Incomparable::no_interval(Side::Run, metric));
    };
    let value = change(metric, figures[0], figures[1]);
    let least = change(metric, a.1, b.0);
    let most = change(metric, a.0, b.1);
    let low = value.min(drawn.0).min(least);
    let high = value.max(drawn.1).max(most);
    let estimate = Estimate { value, low, high };
    let method = GateMethod::Stretches { count: STRETCHES as u32 };
    Ok(GateFinding::new(gate, (figures[0], figures[1]), estimate, method))
}

/// From one figure to another: a difference in points, or relative. Of two that are infinite nothing is known.
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

/// The interval of the change over the stretches of both.
fn between(metric: GateMetric, baseline: &Seconds, run: &Seconds) -> Option<(f64, f64)> {
    let (from, to) = (stretches(metric, baseline)?, stretches(metric, run)?);
    let pairs = from.iter().flat_map(|from| to.iter().map(move |to| change(metric, *from, *to)));
    let mut changes: Vec<f64> = pairs.collect();
    changes.sort_by(f64::total_cmp);
    let is_long = baseline.seconds().min(run.seconds()) >= SECONDS_OF_LONG;
    let out = if is_long { LEFT_OUT } else { 0 };
    Some((changes[out], changes[changes.len() - 1 - out]))
}

/// The figures of the stretches, which are as long as each other.
fn stretches(metric: GateMetric, seconds: &Seconds) -> Option<Vec<f64>> {
    let steps = seconds.steps.len();
    let bound = |stretch: usize| stretch * steps / STRETCHES;
    let figure = |stretch: usize| {
        seconds.stretch(metric, bound(stretch), bound(stretch + 1) - bound(stretch))
    };
    (0..STRETCHES).map(figure).collect()
}
