//! Metrics during a run: counters, gauges and histograms with stable names, as text for Prometheus, lines of StatsD
//! and OTLP.
//!
//! Counters only grow while the program runs; rates are made by the query. Units are seconds and bytes. The
//! exact histograms are in the archive: those here have the edges 1, 2 and 5 of each decade and the deadline.

use std::collections::BTreeMap;

use plimsoll_model::host::{Metric, MetricKind, Sample};

use crate::state::Host;

mod otlp;
mod prometheus;
mod run;
mod statsd;
#[cfg(test)]
mod tests;

pub use otlp::{Collector, CollectorError};
pub(crate) use otlp::{Span, post};
pub(crate) use prometheus::{CONTENT_TYPE, exposition, series_name};
pub(crate) use run::RunMetrics;
pub(crate) use statsd::Statsd;

/// Before every name: `node_exporter` often runs on the same host.
const PREFIX: &str = "plimsoll_";

/// All series of one name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Family {
    /// Without [`PREFIX`].
    name: &'static str,
    help: &'static str,
    points: Points,
}

#[derive(Clone, Debug, PartialEq)]
enum Points {
    Counter(Vec<(Labels, f64)>),
    Gauge(Vec<(Labels, f64)>),
    Histogram(Buckets),
}

type Labels = Vec<(&'static str, String)>;

/// A histogram with few edges.
#[derive(Clone, Debug, PartialEq)]
struct Buckets {
    /// Upper edges in seconds, ascending, and how many values are at most that. The last edge is exceeded by
    /// what is missing to `count`.
    at_most: Vec<(f64, u64)>,
    count: u64,
    /// Seconds.
    sum: f64,
}

/// Returns the families of the last reading of each host, with the names of `watch`.
pub(crate) fn of_hosts(hosts: &BTreeMap<String, Host>) -> Vec<Family> {
    let family = |metric: &Metric| {
        let of_host = |(name, host): (&String, &Host)| -> Vec<(Labels, f64)> {
            let point = |sample: &Sample| {
                let labels = sample.series.labels.iter();
                let labels = labels.map(|(label, value)| (label.name(), value.clone()));
                let name = std::iter::once(("host", name.clone()));
                (name.chain(labels).collect(), sample.value)
            };
            host.reading.of(*metric, &[]).map(point).collect()
        };
        let points: Vec<_> = hosts.iter().flat_map(of_host).collect();
        let points = match metric.kind() {
            _ if points.is_empty() => return None,
            MetricKind::Counter => Points::Counter(points),
            MetricKind::Gauge => Points::Gauge(points),
        };
        Some(Family { name: metric.name(), help: metric.help(), points })
    };
    Metric::ALL.iter().filter_map(family).collect()
}
