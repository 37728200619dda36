//! The seconds of a run, or stretches of some seconds where there are many.

use std::collections::BTreeMap;

use plimsoll_model::tally::Tally;
use plimsoll_model::{Histogram, Nanos};
use serde::Serialize;

use super::heat::{self, Cells};
use super::number::{instant, ms, short};

/// Percentiles, milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Median.
    pub p50: Option<f64>,
    /// 90th percentile.
    pub p90: Option<f64>,
    /// 99th percentile.
    pub p99: Option<f64>,
    /// 99.9th percentile.
    pub p999: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

impl Quantiles {
    pub(super) fn of(histogram: &Histogram) -> Self {
        let at = |q| histogram.quantile(q).and_then(ms);
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max().and_then(ms),
        }
    }
}

/// What our own delay was, milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Lag {
    /// 99th percentile.
    pub p99: Option<f64>,
    /// The longest.
    pub max: Option<f64>,
}

/// Cells of both kinds of latency.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HeatColumn {
    /// From the intended start.
    pub corrected: Cells,
    /// From the actual send.
    pub uncorrected: Cells,
}

/// One second, or the mean of some. Rates are per second, counts of errors and connections are of the whole stretch.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Second {
    /// Its end, seconds since the run's first second.
    pub t: f64,
    /// Number of the trial it belongs to.
    pub trial: Option<u32>,
    /// Operations that came due; `None` in a second in which fewer were to come due than in a whole one.
    pub offered: Option<f64>,
    /// Those that were sent.
    pub sent: Option<f64>,
    /// Good answers, late ones included.
    pub ok: Option<f64>,
    /// Of those, later than the deadline.
    pub late: Option<f64>,
    /// Came due and never sent.
    pub unsent: u64,
    /// Failed operations by class.
    pub errors: BTreeMap<&'static str, u64>,
    /// Connections at the end.
    pub held: u64,
    /// Connections that were opened.
    pub opened: u64,
    /// Connections that ended without our doing.
    pub lost: u64,
    /// Most operations that were due and not finished.
    pub backlog: u32,
    /// From the intended start.
    pub corrected: Quantiles,
    /// From the actual send.
    pub uncorrected: Quantiles,
    /// Actual minus intended send.
    pub send_lag: Lag,
    /// The column of the heat map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat: Option<HeatColumn>,
}

/// Seconds that are being made one.
#[derive(Clone, Debug, Default)]
pub(super) struct Stretch {
    pub(super) tally: Tally,
    pub(super) trial: Option<u32>,
    /// Seconds that are in it.
    pub(super) seconds: u32,
    /// Of those, the ones in which operations came due all the time.
    pub(super) whole: u32,
    /// Its end.
    pub(super) end_s: f64,
}

impl Stretch {
    /// The row of these seconds.
    pub(super) fn row(&self) -> Second {
        let tally = &self.tally;
        let is_whole = self.whole > 0;
        let rate = |ops: u64| {
            let seconds = f64::from(self.whole.max(1));
            if is_whole { short(ops as f64 / seconds) } else { None }
        };
        let lag = &tally.spans.send_lag;
        Second {
            t: instant(self.end_s),
            trial: self.trial,
            offered: rate(tally.scheduled),
            sent: rate(tally.scheduled.saturating_sub(tally.unsent)),
            ok: rate(tally.ok),
            late: rate(tally.late),
            unsent: tally.unsent,
            errors: tally.errors.iter().map(|(class, ops)| (class.name(), ops)).collect(),
            held: tally.connections.held_end,
            opened: tally.connections.opened,
            lost: tally.losses.total(),
            backlog: tally.outstanding.iter().copied().max().unwrap_or_default(),
            corrected: Quantiles::of(&tally.spans.corrected),
            uncorrected: Quantiles::of(&tally.spans.uncorrected),
            send_lag: Lag { p99: lag.quantile(0.99).and_then(ms), max: lag.max().and_then(ms) },
            heat: Some(HeatColumn {
                corrected: heat::cells(&tally.spans.corrected),
                uncorrected: heat::cells(&tally.spans.uncorrected),
            }),
        }
    }

    /// Nothing came due in it, and nothing ended.
    pub(super) fn is_empty(&self) -> bool {
        let tally = &self.tally;
        self.whole == 0
            && tally.ok + tally.errors_total() + tally.unsent + tally.losses.total() == 0
    }
}

/// Whether operations came due all through the second `number` of a load that makes them for `planned`.
pub(super) fn is_whole(number: u32, planned: Option<Nanos>) -> bool {
    planned.is_none_or(|planned| Nanos::from_secs(u64::from(number) + 1) <= planned)
}
