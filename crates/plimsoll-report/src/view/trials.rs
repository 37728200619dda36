//! The trials of a search.

use plimsoll_model::search::Axis;
use plimsoll_model::slo::Slo;
use plimsoll_model::trial::{Phase, TrialRecord, Verdict};
use serde::Serialize;

use super::number::{instant, short};
use super::seconds::Quantiles;
use super::spectrum::interval;

/// One trial.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct TrialRow {
    /// 1 for the first.
    pub number: u32,
    /// Why it was made.
    pub phase: Phase,
    /// `true` if its verdict moves the bounds.
    pub moves_bounds: bool,
    /// Offered load: per second, or connections.
    pub load: f64,
    /// Seconds since the run's first second; `None` if no second of it is known.
    pub start_s: Option<f64>,
    /// Duration of the trial.
    pub seconds: f64,
    /// Verdict of the trial.
    pub verdict: Verdict,
    /// The checks that made the verdict; empty if it is GOOD.
    pub why: String,
    /// Quantiles of the corrected latency.
    pub quantiles: Quantiles,
    /// 95 % interval of the goal's quantile, milliseconds.
    pub interval: Option<(f64, f64)>,
    /// Good answers in time per second; of a level of connections, how many answered.
    pub goodput: Option<f64>,
    /// Answers per second, late ones included: what the server carried in an overload.
    pub carried: Option<f64>,
    /// Late, failed and unsent over scheduled operations.
    pub loss_ratio: Option<f64>,
    /// Operations that were sent.
    pub sent: u64,
    /// Most operations that were due and not finished.
    pub backlog: u32,
}

impl TrialRow {
    pub(super) fn new(
        record: &TrialRecord,
        start_s: Option<f64>,
        axis: Option<Axis>,
        slo: Option<&Slo>,
    ) -> Self {
        let measurement = &record.measurement;
        let (tally, request) = (&measurement.tally, &measurement.request);
        let seconds = measurement.window.as_secs_f64();
        let in_time = tally.ok.saturating_sub(tally.late) as f64;
        let goodput = match axis {
            Some(Axis::Connections) => (tally.ok as f64).min(request.rate.get()),
            Some(Axis::Storm) => tally.storm.back.saturating_sub(tally.storm.lost_again) as f64,
            _ => in_time / seconds,
        };
        let corrected = &tally.spans.corrected;
        Self {
            number: request.number,
            phase: request.phase,
            moves_bounds: request.phase.moves_bounds(),
            load: request.rate.get(),
            start_s: start_s.map(instant),
            seconds: instant(seconds),
            verdict: record.judgement.verdict,
            why: record.judgement.why(),
            quantiles: Quantiles::of(corrected.into()),
            interval: interval(corrected, slo.and_then(Slo::latency).map_or(0.99, |(_, q, _)| q)),
            goodput: short(goodput),
            carried: short(measurement.carried_per_s()),
            loss_ratio: short(record.judgement.loss_ratio),
            sent: tally.scheduled.saturating_sub(tally.unsent),
            backlog: tally.outstanding.iter().copied().max().unwrap_or_default(),
        }
    }
}
