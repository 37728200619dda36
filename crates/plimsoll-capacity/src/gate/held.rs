//! Memory of held connections, compared by the slopes between the levels of each hold.

use plimsoll_model::gate::{
    Estimate, Gate, GateFinding, GateMethod, GateMetric, Incomparable, Side,
};
use plimsoll_model::hold::PlateauSummary;
use plimsoll_model::summary::Summary;

use super::edge_to_edge;
use crate::stats::{slope_interval, sorted_slopes};

/// Levels, the empty one included, from which a slope has an interval of 95 %: of four, even the lowest and the highest
/// slope only hold it with 92 %.
const LEVELS_MIN: usize = 5;

pub(super) fn compare(
    gate: Gate,
    baseline: &Summary,
    run: &Summary,
) -> Result<GateFinding, Incomparable> {
    let a = cost(Side::Baseline, gate.metric, baseline)?;
    let b = cost(Side::Run, gate.metric, run)?;
    let change = edge_to_edge(&a, &b);
    Ok(GateFinding::new(gate, (a.value, b.value), change, GateMethod::Slopes))
}

/// Estimates the cost of a connection.
fn cost(side: Side, metric: GateMetric, summary: &Summary) -> Result<Estimate, Incomparable> {
    let none = |why| Incomparable::NoInterval { side, metric, why };
    let hold = summary.result.hold().ok_or_else(|| Incomparable::no_interval(side, metric))?;
    let of_level = |level: &PlateauSummary| match metric {
        GateMetric::SutBytes => level.per_connection.sut,
        GateMetric::KernelBytes => level.per_connection.kernel,
        GateMetric::UserBytes => level.per_connection.user,
        _ => level.per_connection.machine,
    };
    let levels = hold.plateaus.iter().filter(|level| level.held > 0);
    let levels = levels.filter_map(|level| Some((level.held as f64, of_level(level)?)));
    let used: Vec<(f64, f64)> =
        std::iter::once((0.0, 0.0)).chain(levels.map(|(held, each)| (held, each * held))).collect();
    let top = hold.plateaus.iter().max_by_key(|level| level.held);
    let value = top.and_then(of_level).ok_or_else(|| none("it was not measured"))?;
    if used.len() < LEVELS_MIN {
        return Err(none("it was measured at fewer than four levels"));
    }
    let slopes = sorted_slopes(&used);
    if slopes.is_empty() {
        return Err(none("its levels are all alike"));
    }
    let (low, high) = slope_interval(&slopes, used.len());
    if low <= 0.0 || value <= 0.0 {
        return Err(none(
            "other programs took or gave memory meanwhile: a level needed less than the one before",
        ));
    }
    Ok(Estimate { value, low: low.min(value), high: high.max(value) })
}
