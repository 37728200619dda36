//! The gate: is a run worse than a baseline by more than is allowed? The two runs were not interleaved.
//!
//! A change is a finding only if the whole interval of the difference is beyond the limit. The interval covers the
//! variation within each run, and the speed of the server's host in both (`host.rs`). Other differences between two
//! runs an hour apart are not covered, and a comparison by rounds is the better test if one is possible.

use plimsoll_model::Rate;
use plimsoll_model::gate::{
    Estimate, Gate, GateFinding, GateMethod, GateMetric, GateResult, Incomparable, Side,
};
use plimsoll_model::summary::{FindSummary, Summary};
use plimsoll_model::trial::Outcome;

mod comparable;
mod held;
mod host;
mod seconds;
#[cfg(test)]
mod tests;

use comparable::comparable;
pub use host::RunSpeed;
pub use seconds::Stretches;

/// One run of a gate.
#[derive(Clone, Copy, Debug)]
pub struct GateRun<'a> {
    /// The run's summary.
    pub summary: &'a Summary,
    /// The load in stretches; empty for other runs.
    pub stretches: &'a Stretches,
    /// Speed of the server's host, if it was measured. Only speeds of one host compare: `None` in both runs if
    /// they were made on different ones.
    pub speed: Option<RunSpeed>,
}

/// Judges `run` against `baseline`, which are comparable by the gate.
pub fn judge(
    gate: Gate,
    baseline: GateRun<'_>,
    run: GateRun<'_>,
) -> Result<GateFinding, Incomparable> {
    comparable(gate.metric, baseline.summary, run.summary)?;
    let found = match gate.metric {
        GateMetric::Safe | GateMetric::TippingPoint => of_searches(gate, baseline, run),
        GateMetric::MachineBytes
        | GateMetric::SutBytes
        | GateMetric::KernelBytes
        | GateMetric::UserBytes => held::compare(gate, baseline.summary, run.summary),
        _ => seconds::compare(gate, baseline.stretches, run.stretches),
    };
    let summaries = [baseline.summary, run.summary];
    found.map(|found| host::at_like_speed(found, summaries, [baseline.speed, run.speed]))
}

/// Searches state an interval of their own.
fn of_searches(
    gate: Gate,
    baseline: GateRun<'_>,
    run: GateRun<'_>,
) -> Result<GateFinding, Incomparable> {
    let of = |side, run: GateRun<'_>| {
        let find = run.summary.result.find();
        let found = find.and_then(|find| stated(gate.metric, find));
        found.ok_or_else(|| Incomparable::no_interval(side, gate.metric))
    };
    let a = of(Side::Baseline, baseline)?;
    let finding = |b: Estimate| {
        let change = edge_to_edge(&a, &b);
        GateFinding::new(gate, (a.value, b.value), change, GateMethod::Stated)
    };
    // A server that fails at the lowest load has no interval, and yet is below that load.
    if let Some(below) = run.summary.result.find().and_then(below_minimum) {
        let finding = finding(below);
        let is_shown = gate.is_below && finding.result == GateResult::Fail;
        let why = "the server missed the SLO even at the lowest load";
        let none = Incomparable::NoInterval { side: Side::Run, metric: gate.metric, why };
        return if is_shown { Ok(finding) } else { Err(none) };
    }
    of(Side::Run, run).map(finding)
}

/// Returns the interval that a search states of its figure.
fn stated(metric: GateMetric, find: &FindSummary) -> Option<Estimate> {
    // Bounds without a confidence are loads that were tried, and no interval.
    let found = &find.found;
    let (low, high) = (found.lower?.get(), found.upper?.get());
    if !(low > 0.0 && high >= low)
        || found.confidence.is_none()
        || found.outcome != Outcome::Regular
    {
        return None;
    }
    match metric {
        // It is stated as what can be relied on; it is no more than the tipping point.
        GateMetric::Safe => {
            let safe = found.safe.map(Rate::get).filter(|safe| *safe > 0.0)?;
            Some(Estimate { value: safe, low: safe.min(low), high })
        }
        _ => Some(Estimate { value: (low * high).sqrt(), low, high }),
    }
}

/// Estimates a search in which even the lowest load missed the SLO.
fn below_minimum(find: &FindSummary) -> Option<Estimate> {
    let upper = find.found.upper.filter(|_| find.found.outcome == Outcome::FailsAtMinimum)?.get();
    Some(Estimate { value: upper, low: 0.0, high: upper })
}

/// Returns the relative change from one interval to another.
fn edge_to_edge(from: &Estimate, to: &Estimate) -> Estimate {
    Estimate {
        value: to.value / from.value - 1.0,
        low: to.low / from.high - 1.0,
        high: to.high / from.low - 1.0,
    }
}
