//! The text format of Prometheus, version 0.0.4.
//!
//! Kernel counters stay cumulative; rates are made by the query. Units are seconds and bytes.

use std::fmt::Write;

use plimsoll_model::host::{Label, MetricKind, Reading, Series};

/// The content type of [`exposition`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";
/// Before every name: `node_exporter` often runs on the same host.
const PREFIX: &str = "plimsoll_";

/// All samples of `reading`, which is sorted.
pub fn exposition(host: &str, reading: &Reading) -> String {
    let mut text = String::new();
    let mut before = None;
    for sample in &reading.samples {
        let metric = sample.series.metric;
        if before != Some(metric) {
            let kind = match metric.kind() {
                MetricKind::Counter => "counter",
                MetricKind::Gauge => "gauge",
            };
            let name = metric.name();
            // A String takes any text.
            let _ = writeln!(text, "# HELP {PREFIX}{name} {}", metric.help());
            let _ = writeln!(text, "# TYPE {PREFIX}{name} {kind}");
            before = Some(metric);
        }
        let labels = [("host", host)].into_iter().chain(labels(&sample.series));
        let _ = writeln!(text, "{PREFIX}{}{} {}", metric.name(), braces(labels), sample.value);
    }
    text
}

/// `cpu_seconds_total{cpu="0",mode="user"}`.
pub(super) fn series_name(series: &Series) -> String {
    let labels = braces(labels(series));
    format!("{}{labels}", series.metric.name())
}

fn labels(series: &Series) -> impl Iterator<Item = (&'static str, &str)> {
    series.labels.iter().map(|(label, value): &(Label, String)| (label.name(), value.as_str()))
}

fn braces<'a>(labels: impl Iterator<Item = (&'static str, &'a str)>) -> String {
    let pairs: Vec<String> =
        labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
