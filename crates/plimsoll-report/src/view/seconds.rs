//! The columns of a view over time: seconds of a run, or stretches of some seconds in a long run.
//!
//! [`Stretch::add`] merges the tallies of consecutive seconds and [`Stretch::row`] makes one [`Second`] of them.
//! Rates are means over the seconds in which operations came due all the time ([`is_whole`]), percentiles come from
//! the merged histograms, and errors and connections are counts of the whole stretch. Latencies are milliseconds with
//! four significant digits; `None` was not measured. Start reading at [`Stretch::row`].

use std::collections::BTreeMap;

use plimsoll_model::Nanos;
use plimsoll_model::summary::FullQuantiles;
use plimsoll_model::tally::{Interval, Tally};
use serde::Serialize;

use super::heat::{self, Cells};
use super::number::{instant, short};
use crate::state;

/// Percentiles, milliseconds with four significant digits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
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
    pub(super) fn of(all: FullQuantiles) -> Self {
        let [p50, p90, p99, p999, max] = all.from_median().map(|value| value.and_then(short));
        Self { p50, p90, p99, p999, max }
    }
}

/// Our own delay, milliseconds.
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
    /// End of the column, seconds since the run's first second.
    pub t: f64,
    /// Number of the trial it belongs to.
    pub trial: Option<u32>,
    /// Operations that came due; `None` in a second in which fewer were to come due than in a whole one.
    pub offered: Option<f64>,
    /// Operations that were sent.
    pub sent: Option<f64>,
    /// Good answers, late ones included.
    pub ok: Option<f64>,
    /// Operations among them that were later than the deadline.
    pub late: Option<f64>,
    /// Came due and never sent.
    pub unsent: u64,
    /// Failed operations by class.
    pub errors: BTreeMap<&'static str, u64>,
    /// Connections at the end.
    pub held: u64,
    /// Connections that a hold was to reach.
    pub asked: Option<u64>,
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
    tally: Tally,
    trial: Option<u32>,
    /// Seconds that are in it.
    pub(super) seconds: u32,
    whole: Whole,
    /// Connections to be held in its last second.
    pub(super) asked: Option<u64>,
    /// End of the column.
    end_s: f64,
}

/// The seconds of a stretch in which operations came due all the time, and what was counted in them.
#[derive(Clone, Copy, Debug, Default)]
struct Whole {
    seconds: u32,
    scheduled: u64,
    sent: u64,
    ok: u64,
    late: u64,
}

impl Stretch {
    /// Adds a second, which ends at `end_s`.
    pub(super) fn add(&mut self, tally: &Tally, trial: Option<u32>, is_whole: bool, end_s: f64) {
        (self.trial, self.end_s) = (trial, end_s);
        self.seconds += 1;
        if is_whole {
            self.whole.seconds += 1;
            self.whole.scheduled += tally.scheduled;
            self.whole.sent += tally.scheduled.saturating_sub(tally.unsent);
            self.whole.ok += tally.ok;
            self.whole.late += tally.late;
        }
        self.tally.merge_following(tally);
    }

    /// Returns the row of these seconds.
    pub(super) fn row(&self) -> Second {
        let (tally, whole) = (&self.tally, &self.whole);
        let rate = |ops: u64| match whole.seconds {
            0 => None,
            seconds => short(ops as f64 / f64::from(seconds)),
        };
        let second = state::Second::of(tally);
        let send_lag = second.send_lag;
        Second {
            t: instant(self.end_s),
            trial: self.trial,
            offered: rate(whole.scheduled),
            sent: rate(whole.sent),
            ok: rate(whole.ok),
            late: rate(whole.late),
            unsent: tally.unsent,
            errors: tally
                .failures
                .operations
                .iter()
                .map(|(class, ops)| (class.name(), ops))
                .collect(),
            held: second.held,
            asked: self.asked,
            opened: second.opened,
            lost: second.lost,
            backlog: tally.outstanding.iter().copied().max().unwrap_or_default(),
            corrected: Quantiles::of(second.corrected),
            uncorrected: Quantiles::of(second.uncorrected),
            send_lag: Lag { p99: send_lag.p99.and_then(short), max: send_lag.max.and_then(short) },
            heat: Some(HeatColumn {
                corrected: heat::cells(&tally.spans.corrected),
                uncorrected: heat::cells(&tally.spans.uncorrected),
            }),
        }
    }

    /// Reports whether no operation was due and none ended in this second.
    pub(super) fn is_empty(&self) -> bool {
        let tally = &self.tally;
        let ended = tally.ok + tally.errors_total() + tally.unsent + tally.lost();
        let held = tally.connections.held_end + tally.connections.opened;
        self.whole.scheduled + ended + held == 0
    }
}

/// Reports whether operations came due all through the second `number` of a load that makes them for `planned`, or
/// until a count is reached; `next` is the second after it.
pub(super) fn is_whole(number: u32, planned: Option<Nanos>, next: Option<&Interval>) -> bool {
    let end = Nanos::from_secs(u64::from(number) + 1);
    match planned {
        // A load that was cut short has no second after its last one.
        Some(planned) => end == planned || end < planned && next.is_some(),
        None => next.is_some_and(|next| next.tally.scheduled > 0),
    }
}
