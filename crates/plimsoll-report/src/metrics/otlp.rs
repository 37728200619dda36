//! OTLP over HTTP, with the JSON encoding of its protocol buffers: a POST to a collector.
//!
//! Cumulative sums, gauges, and histograms with explicit bounds.

use std::io;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Buckets, Family, Labels, PREFIX, Points};

/// A collector has so long to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The protocol's number for sums since the beginning.
const CUMULATIVE: u8 = 2;
/// So much of an answer is read: its first line is all that matters.
const ANSWER_BYTES_MAX: usize = 4_096;

/// A collector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    /// Host and port to connect to.
    pub(crate) address: String,
    /// The value of the Host header.
    pub(crate) host: String,
    /// `/v1/metrics`, unless the user knows better.
    pub(crate) path: String,
}

/// When the counters began and when they were read, nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begun: u64,
    pub(crate) now: u64,
}

/// Sends `families`.
pub(crate) async fn post(
    target: &Target,
    version: &str,
    families: &[Family],
    span: Span,
) -> io::Result<()> {
    let body = request(version, families, span).to_string();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         User-Agent: plimsoll/{version}\r\nConnection: close\r\n\r\n",
        target.path,
        target.host,
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(&target.address).await?;
        stream.write_all(head.as_bytes()).await?;
        stream.write_all(body.as_bytes()).await?;
        let mut answer = Vec::new();
        stream.take(ANSWER_BYTES_MAX as u64).read_to_end(&mut answer).await?;
        Ok::<_, io::Error>(answer)
    };
    let answer = timeout(TIMEOUT, exchange).await.map_err(|_| io::ErrorKind::TimedOut)??;
    let line = answer.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    match line.split(' ').nth(1) {
        Some(status) if status.starts_with('2') => Ok(()),
        Some(_) => Err(io::Error::other(format!("it answered {line:?}"))),
        None => Err(io::Error::other("it does not speak HTTP/1.1")),
    }
}

/// `ExportMetricsServiceRequest`; whole numbers of 64 bits are texts in its JSON.
pub(super) fn request(version: &str, families: &[Family], span: Span) -> Value {
    let metrics: Vec<Value> = families.iter().map(|family| metric(family, span)).collect();
    let resource = attributes(&[
        ("service.name", "plimsoll".to_owned()),
        ("service.version", version.to_owned()),
    ]);
    json!({ "resourceMetrics": [{
        "resource": { "attributes": resource },
        "scopeMetrics": [{ "scope": { "name": "plimsoll", "version": version }, "metrics": metrics }],
    }]})
}

fn metric(family: &Family, span: Span) -> Value {
    let number = |(labels, value): &(Labels, f64)| {
        let mut point = at(span, labels);
        point["asDouble"] = json!(value);
        point
    };
    let numbers = |points: &[(Labels, f64)]| points.iter().map(number).collect::<Vec<_>>();
    let (kind, content) = match &family.points {
        Points::Gauge(points) => ("gauge", json!({ "dataPoints": numbers(points) })),
        Points::Counter(points) => (
            "sum",
            json!({
                "aggregationTemporality": CUMULATIVE,
                "isMonotonic": true,
                "dataPoints": numbers(points),
            }),
        ),
        Points::Histogram(buckets) => (
            "histogram",
            json!({
                "aggregationTemporality": CUMULATIVE,
                "dataPoints": [histogram(buckets, span)],
            }),
        ),
    };
    let mut metric = json!({
        "name": format!("{PREFIX}{}", family.name),
        "description": family.help,
        "unit": unit(family.name),
    });
    metric[kind] = content;
    metric
}

fn histogram(buckets: &Buckets, span: Span) -> Value {
    let Buckets { at_most, count, sum } = buckets;
    let ends = at_most.iter().map(|(_, count)| *count).chain([*count]);
    let begins = std::iter::once(0).chain(at_most.iter().map(|(_, count)| *count));
    let counts: Vec<String> =
        ends.zip(begins).map(|(end, begin)| end.saturating_sub(begin).to_string()).collect();
    let mut point = at(span, &[]);
    point["count"] = json!(count.to_string());
    point["sum"] = json!(sum);
    point["bucketCounts"] = json!(counts);
    point["explicitBounds"] = at_most.iter().map(|(edge, _)| *edge).collect();
    point
}

fn at(span: Span, labels: &[(&str, String)]) -> Value {
    json!({
        "attributes": attributes(labels),
        "startTimeUnixNano": span.begun.to_string(),
        "timeUnixNano": span.now.to_string(),
    })
}

fn attributes(labels: &[(&str, String)]) -> Vec<Value> {
    let attribute =
        |(key, value): &(&str, String)| json!({ "key": key, "value": { "stringValue": value } });
    labels.iter().map(attribute).collect()
}

/// In the notation of UCUM, as the protocol wants it.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "1",
    }
}
