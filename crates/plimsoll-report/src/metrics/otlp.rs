//! OTLP over HTTP, with the JSON encoding of its protocol buffers: a POST to a collector.
//!
//! Cumulative sums, gauges, and histograms with explicit bounds.

use std::time::Duration;
use std::{fmt, io};

use axum::http::Uri;
use plimsoll_model::target::shown_url;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Buckets, Family, Labels, PREFIX, Points};

/// A collector has so long to answer.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The path of the protocol, where the URL has none.
const PATH: &str = "/v1/metrics";
/// The port of the protocol, where the URL has none.
const PORT: u16 = 4_318;
/// The protocol's number for sums since the beginning.
const CUMULATIVE: u8 = 2;
/// So much of an answer is read: its first line is all that matters.
const ANSWER_BYTES_MAX: usize = 4_096;

/// A collector of OTLP over plain HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collector {
    /// Host and port to connect to.
    address: String,
    /// The value of the Host header.
    host: String,
    /// `/v1/metrics`, unless the user knows better.
    path: String,
}

/// Why a URL names no collector.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum CollectorError {
    /// The URL is https, and only plain HTTP is supported.
    #[error(
        "OTLP is sent over plain HTTP only; name a collector on this host or network, such as http://127.0.0.1:4318"
    )]
    Tls,
    /// The text is no URL of a collector.
    #[error("write it like http://127.0.0.1:4318")]
    NoUrl,
}

impl Collector {
    /// Returns the collector at `url`.
    pub fn parse(url: &str) -> Result<Self, CollectorError> {
        let uri: Uri = url.parse().map_err(|_| CollectorError::NoUrl)?;
        let authority = uri.authority().ok_or(CollectorError::NoUrl)?;
        match uri.scheme_str() {
            Some("http") if !authority.as_str().contains('@') => {}
            Some("https") => return Err(CollectorError::Tls),
            _ => return Err(CollectorError::NoUrl),
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        Ok(Self {
            address: format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(PORT)),
            host: authority.as_str().to_owned(),
            path: if path == "/" { PATH.to_owned() } else { path.to_owned() },
        })
    }
}

/// Shows the URL as it may be shown.
impl fmt::Display for Collector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&shown_url(&format!("http://{}{}", self.host, self.path)))
    }
}

/// The times at which the counters began and were read, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span {
    pub(crate) begun: u64,
    pub(crate) now: u64,
}

/// Sends `families`.
pub(crate) async fn post(
    collector: &Collector,
    version: &str,
    families: &[Family],
    span: Span,
) -> io::Result<()> {
    let body = request(version, families, span).to_string();
    let head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
         User-Agent: plimsoll/{version}\r\nConnection: close\r\n\r\n",
        collector.path,
        collector.host,
        body.len()
    );
    let exchange = async {
        let mut stream = TcpStream::connect(&collector.address).await?;
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

/// Returns `ExportMetricsServiceRequest`; whole numbers of 64 bits are texts in its JSON.
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

/// Returns the unit in the notation of UCUM, which the protocol requires.
fn unit(name: &str) -> &'static str {
    let name = name.strip_suffix("_total").unwrap_or(name);
    match name.rsplit('_').next() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        _ => "1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_names_a_collector() {
        for (url, address, shown) in [
            ("http://127.0.0.1:4318", "127.0.0.1:4318", "http://127.0.0.1:4318/v1/metrics"),
            ("http://otel/", "otel:4318", "http://otel/v1/metrics"),
            ("http://[::1]:80/push?x=1", "[::1]:80", "http://[::1]:80/push?<redacted>"),
        ] {
            let collector = Collector::parse(url).unwrap();
            assert_eq!(
                (collector.address.as_str(), collector.to_string()),
                (address, shown.to_owned())
            );
        }
        assert_eq!(Collector::parse("https://otel:4318"), Err(CollectorError::Tls));
        for url in
            ["otel:4318", "http://", "", "http://user:secret@otel/", "ftp://otel/", "/v1/metrics"]
        {
            assert_eq!(Collector::parse(url), Err(CollectorError::NoUrl), "{url}");
        }
    }
}
