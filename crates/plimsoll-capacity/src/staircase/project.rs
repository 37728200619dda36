//! Projections: a robust line through the use of a resource at each level.
//!
//! Theil-Sen: the slope is the median of the slopes between all pairs of levels, its interval comes
//! from their ranks (Sen 1968), so that one level that jumped does not bend the line.

use crate::stats::{median, slope_interval, sorted_slopes};
use plimsoll_model::hold::{Confidence, Projection, Side};
use plimsoll_model::host::LimitId;

/// One resource at one level.
#[derive(Clone, Debug, PartialEq)]
pub struct Gauge {
    /// The resource; gauges of the same resource belong together.
    pub resource: LimitId,
    /// The owner of the resource.
    pub side: Side,
    /// Units in use.
    pub used: f64,
    /// The most that may be used, without any reserve.
    pub limit: f64,
    /// Units per connection, if that is known and needs no fit.
    pub per_connection: Option<f64>,
}

/// One slope has no interval; a margin of 10 % replaces it.
const MARGIN_OF_ONE: f64 = 0.10;
/// Slopes that lie so close together agree.
const AGREEMENT: f64 = 0.10;
/// Beyond this multiple of the largest level measured, a line is a guess.
const EXTRAPOLATION_MAX: f64 = 4.0;
/// The cost per connection rises when the last levels need this much more than the first.
const SUPERLINEAR: f64 = 1.15;

/// Returns the gauges of one resource, each with the connections held at its level.
pub(crate) fn gauges_of<'a>(
    levels: &'a [(u64, Vec<Gauge>)],
    resource: &LimitId,
) -> Vec<(u64, &'a Gauge)> {
    let of_level = |(held, gauges): &'a (u64, Vec<Gauge>)| {
        Some((*held, gauges.iter().find(|gauge| gauge.resource == *resource)?))
    };
    levels.iter().filter_map(of_level).collect()
}

/// Projects one resource from its levels, `(connections held, gauge)` in ascending order, each
/// with the same name. `None` without levels.
pub fn project(levels: &[(u64, &Gauge)]) -> Option<Projection> {
    let (held, last) = *levels.last()?;
    let fit = match last.per_connection {
        Some(slope) => SlopeFit { slope, high: slope, spread: 0.0, superlinear: false },
        None => fit(levels),
    };
    let end = |slope: f64| {
        let left = (last.limit - last.used).max(0.0);
        (slope > 0.0).then(|| held.saturating_add((left / slope) as u64))
    };
    let ends_at = end(fit.slope);
    Some(Projection {
        resource: last.resource.clone(),
        unit: last.resource.kind.unit(),
        per_connection: fit.slope.max(0.0),
        limit: last.limit,
        ends_at,
        ends_at_min: end(fit.high),
        points: u32::try_from(levels.len()).unwrap_or(u32::MAX),
        confidence: confidence(levels.len(), held, ends_at, &fit, last.per_connection),
        superlinear: fit.superlinear,
    })
}

/// A line's slope, the high end of its interval, and the relative spread of the slopes.
struct SlopeFit {
    slope: f64,
    high: f64,
    spread: f64,
    superlinear: bool,
}

fn fit(levels: &[(u64, &Gauge)]) -> SlopeFit {
    let points: Vec<(f64, f64)> =
        levels.iter().map(|(held, gauge)| (*held as f64, gauge.used)).collect();
    let slopes = sorted_slopes(&points);
    let Some(slope) = median(&slopes) else {
        return SlopeFit { slope: 0.0, high: 0.0, spread: f64::INFINITY, superlinear: false };
    };
    if slopes.len() == 1 {
        let high = slope * (1.0 + MARGIN_OF_ONE);
        return SlopeFit { slope, high, spread: f64::INFINITY, superlinear: false };
    }
    let (low, high) = slope_interval(&slopes, levels.len());
    let spread = if slope > 0.0 { (high - low) / slope } else { f64::INFINITY };
    match bend(&points) {
        Some(late) if slope > 0.0 => {
            SlopeFit { slope: late, high: late.max(high), spread, superlinear: true }
        }
        _ => SlopeFit { slope, high, spread, superlinear: false },
    }
}

/// Returns the slope of the last three levels, if it is clearly above the slope of the first three: a resource grows
/// faster than the connections, or leaks. Two halves need four levels.
fn bend(levels: &[(f64, f64)]) -> Option<f64> {
    if levels.len() < 4 {
        return None;
    }
    let early = median(&sorted_slopes(&levels[..3]))?;
    let late = median(&sorted_slopes(&levels[levels.len() - 3..]))?;
    (early > 0.0 && late / early > SUPERLINEAR).then_some(late)
}

fn confidence(
    points: usize,
    held: u64,
    ends_at: Option<u64>,
    fit: &SlopeFit,
    known: Option<f64>,
) -> Confidence {
    if known.is_some() {
        return Confidence::Exact;
    }
    let is_near = ends_at.is_some_and(|end| end as f64 <= held as f64 * EXTRAPOLATION_MAX);
    match points {
        0..=2 => Confidence::Low,
        _ if fit.superlinear || fit.spread > 0.5 => Confidence::Low,
        3 => Confidence::Fair,
        _ if fit.spread <= AGREEMENT && is_near => Confidence::Good,
        _ => Confidence::Fair,
    }
}
