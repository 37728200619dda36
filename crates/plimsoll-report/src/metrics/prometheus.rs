//! The text format of Prometheus, version 0.0.4, which every scraper accepts.

use std::fmt::Write;

use plimsoll_model::host::{Label, Series};

use super::{Buckets, Family, PREFIX, Points};

/// The content type of [`exposition`].
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns all series of `families`.
pub(crate) fn exposition<'a>(families: impl IntoIterator<Item = &'a Family>) -> String {
    let mut text = String::new();
    for Family { name, help, points } in families {
        let kind = match points {
            Points::Counter(_) => "counter",
            Points::Gauge(_) => "gauge",
            Points::Histogram(_) => "histogram",
        };
        // A String takes any text.
        let _ = writeln!(text, "# HELP {PREFIX}{name} {help}");
        let _ = writeln!(text, "# TYPE {PREFIX}{name} {kind}");
        match points {
            Points::Counter(points) | Points::Gauge(points) => {
                for (labels, value) in points {
                    let labels = braces(labels.iter().map(|(name, text)| (*name, text.as_str())));
                    let _ = writeln!(text, "{PREFIX}{name}{labels} {value}");
                }
            }
            Points::Histogram(buckets) => histogram(&mut text, name, buckets),
        }
    }
    text
}

fn histogram(text: &mut String, name: &str, buckets: &Buckets) {
    for (edge, count) in &buckets.at_most {
        let _ = writeln!(text, "{PREFIX}{name}_bucket{{le=\"{edge}\"}} {count}");
    }
    let Buckets { count, sum, .. } = buckets;
    let _ = writeln!(text, "{PREFIX}{name}_bucket{{le=\"+Inf\"}} {count}");
    let _ = writeln!(text, "{PREFIX}{name}_sum {sum}");
    let _ = writeln!(text, "{PREFIX}{name}_count {count}");
}

/// Returns `cpu_seconds_total{cpu="0",mode="user"}`.
pub(crate) fn series_name(series: &Series) -> String {
    let labels =
        series.labels.iter().map(|(label, value): &(Label, String)| (label.name(), value.as_str()));
    format!("{}{}", series.metric.name(), braces(labels))
}

fn braces<'a>(labels: impl Iterator<Item = (&'static str, &'a str)>) -> String {
    let pairs: Vec<String> =
        labels.map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
    if pairs.is_empty() { String::new() } else { format!("{{{}}}", pairs.join(",")) }
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
