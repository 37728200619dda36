//! The distribution of latency: the points of a percentile plot.

use plimsoll_model::Histogram;
use plimsoll_model::spans::Spans;
use serde::Serialize;

use super::number::ms;

/// Points from each quantile to half way to 1, as `.hgrm` files have.
const TICKS: u32 = 5;
/// Quantiles whose intervals are stated.
const STATED: [f64; 4] = [0.5, 0.9, 0.99, 0.999];
/// Operations that must lie above a quantile before its interval is stated.
const ABOVE_MIN: f64 = 10.0;

/// `[quantile, milliseconds, operations up to it]`.
pub type Point = (f64, Option<f64>, u64);

/// The distributions; empty if nothing was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Spectrum {
    /// From the intended start.
    pub corrected: Vec<Point>,
    /// From the actual send.
    pub uncorrected: Vec<Point>,
    /// Actual send to the arrival: server and path.
    pub wire: Vec<Point>,
    /// `[quantile, from, to]`, milliseconds: 95 % intervals of the corrected latency by order statistics.
    pub intervals: Vec<(f64, f64, f64)>,
}

impl Spectrum {
    pub(super) fn of(spans: &Spans) -> Self {
        let intervals = STATED.iter().filter_map(|q| {
            let (low, high) = interval(&spans.corrected, *q)?;
            Some((*q, low, high))
        });
        Self {
            corrected: points(&spans.corrected),
            uncorrected: points(&spans.uncorrected),
            wire: points(&spans.wire),
            intervals: intervals.collect(),
        }
    }
}

fn points(histogram: &Histogram) -> Vec<Point> {
    let steps = histogram.quantile_steps(TICKS);
    steps.map(|step| (step.quantile, ms(step.value), step.count)).collect()
}

/// Returns the interval of the quantile `q`, milliseconds. `None` if too few operations lie above it.
pub(super) fn interval(histogram: &Histogram, q: f64) -> Option<(f64, f64)> {
    if histogram.count() as f64 * (1.0 - q) < ABOVE_MIN {
        return None;
    }
    let (low, high) = histogram.quantile_interval(q)?;
    ms(low).zip(ms(high))
}
