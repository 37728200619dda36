//! One JSON object for one interval: `plimsoll.watch/1`.

use std::collections::BTreeMap;

use plimsoll_model::Nanos;
use plimsoll_model::host::{
    EndStatus, Metric, MetricKind, Missing, Source, SourceKind, SourceState,
};
use serde::Serialize;

use super::history::History;
use crate::error::Result;
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
    sources: Vec<SourceLine<'a>>,
}

/// The state of one source.
#[derive(Serialize)]
struct SourceLine<'a> {
    kind: SourceKind,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    /// `reading`, `missing` or `ended`.
    state: &'static str,
    /// Time of the first reading without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<EndStatus>,
}

/// Returns the state of `source`, as of a reading that began at `now`, which was `unix_s`.
fn source_line(source: &Source, now: Nanos, unix_s: u64) -> SourceLine<'_> {
    let (state, reason, status) = match &source.state {
        SourceState::Reading => ("reading", None, None),
        SourceState::Missing { reason, .. } => ("missing", Some(reason.as_str()), None),
        SourceState::Ended { status, .. } => ("ended", None, Some(*status)),
    };
    let ago_s = |since| now.since(since).as_secs_f64().round() as u64;
    let since = source.since().map(|since| rfc3339(unix_s.saturating_sub(ago_s(since))));
    let (kind, name, pid) = (source.kind, source.name.as_str(), source.pid);
    SourceLine { kind, name, pid, state, since, reason, status }
}

/// Returns the last interval of `history`, one line without its end; `None` before the second reading.
///
/// # Errors
///
/// Never in practice: everything in it can be written as JSON.
pub fn json_line(host: &str, history: &History, unix_s: u64) -> Result<Option<String>> {
    let Some(change) = history.change() else { return Ok(None) };
    let reading = change.after();
    let gauges = reading.samples.iter().filter(|s| s.series.metric.kind() == MetricKind::Gauge);
    let counters = Metric::ALL.iter().filter(|metric| metric.kind() == MetricKind::Counter);
    let sources = reading.sources.iter();
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
        sources: sources.map(|source| source_line(source, reading.begin, unix_s)).collect(),
    };
    Ok(Some(serde_json::to_string(&line)?))
}
