//! One JSON object for one interval: `plimsoll.watch/1`.

use std::collections::BTreeMap;

use plimsoll_model::host::{Metric, MetricKind, Missing};
use serde::Serialize;

use super::history::History;
use crate::error::ReportError;
use crate::metrics::series_name;
use crate::time_text::rfc3339;

/// Name and version of the format.
const SCHEMA: &str = "plimsoll.watch/1";

#[derive(Serialize)]
struct WatchLine<'a> {
    schema: &'static str,
    host: &'a str,
    time: String,
    /// Seconds since the reading before.
    interval_s: f64,
    /// Gauges as they are, by series.
    values: BTreeMap<String, f64>,
    /// Growth of counters, by series.
    per_second: BTreeMap<String, f64>,
    missing: &'a [Missing],
}

/// The last interval of `history`, one line without its end; `None` before the second reading.
///
/// # Errors
///
/// Never in practice: everything in it can be written as JSON.
pub fn json_line(
    host: &str,
    history: &History,
    unix_s: u64,
) -> Result<Option<String>, ReportError> {
    let Some(change) = history.change() else { return Ok(None) };
    let reading = change.after();
    let gauges = reading.samples.iter().filter(|s| s.series.metric.kind() == MetricKind::Gauge);
    let counters = Metric::ALL.iter().filter(|metric| metric.kind() == MetricKind::Counter);
    let line = WatchLine {
        schema: SCHEMA,
        host,
        time: rfc3339(unix_s),
        interval_s: change.seconds(),
        values: gauges.map(|sample| (series_name(&sample.series), sample.value)).collect(),
        per_second: counters
            .flat_map(|metric| change.rates(*metric, &[]))
            .map(|(series, rate)| (series_name(series), rate))
            .collect(),
        missing: &reading.missing,
    };
    Ok(Some(serde_json::to_string(&line)?))
}
