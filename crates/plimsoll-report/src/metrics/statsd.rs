//! StatsD: once a second what was counted in it, gauges, and quantiles of the second in milliseconds.
//!
//! Not a timer for each operation: at 20,000 operations a second that would be another load.

use std::io;
use std::net::{SocketAddr, UdpSocket};

use cadence::{BufferedUdpMetricSink, Counted, Gauged, StatsdClient};
use plimsoll_model::Histogram;
use plimsoll_model::event::Event;
use plimsoll_model::host::{Change, Metric, MetricKind, Series};
use plimsoll_model::summary::ShortQuantiles;
use plimsoll_model::tally::Tally;

/// Sends to one address; UDP promises nothing, and what is lost is lost.
#[derive(Debug)]
pub(crate) struct Statsd(StatsdClient);

impl Statsd {
    /// Sends to `to` from `socket`, which does not block.
    pub(crate) fn new(socket: UdpSocket, to: SocketAddr) -> io::Result<Self> {
        // Several lines in each datagram.
        let sink = BufferedUdpMetricSink::from(to, socket).map_err(io::Error::other)?;
        Ok(Self(StatsdClient::from_sink("plimsoll", sink)))
    }

    /// Sends what an event has counted.
    pub(crate) fn handle_event(&self, event: &Event) {
        match event {
            Event::Interval(interval) => self.send_second(&interval.tally),
            Event::TrialEnded(record) => {
                self.count(&format!("trials.{}", record.judgement.verdict.name()), 1);
            }
            _ => return,
        }
        self.flush();
    }

    fn send_second(&self, second: &Tally) {
        let counts = [
            ("ops.scheduled", second.scheduled),
            ("ops.ok", second.ok),
            ("ops.late", second.late),
            ("ops.unsent", second.unsent),
            ("bytes.sent", second.bytes.sent),
            ("bytes.received", second.bytes.received),
            ("connections.opened", second.connections.opened),
            ("connections.failed", second.connections.failed),
            ("handshakes.full", second.handshakes.full),
            ("handshakes.resumed", second.handshakes.resumed),
            ("handshakes.failed", second.handshakes.failed),
        ];
        counts.into_iter().for_each(|(name, count)| self.count(name, count));
        for (class, count) in second.failures.operations.iter() {
            self.count(&format!("ops.error.{}", class.name()), count);
        }
        self.gauge("connections.held", second.connections.held_end as f64);
        self.quantiles("latency", &second.spans.corrected);
        self.quantiles("latency_uncorrected", &second.spans.uncorrected);
        self.quantiles("send_lag", &second.spans.send_lag);
    }

    /// Sends how a host has changed, under its name: gauges as they are and counters as what they grew by.
    pub(crate) fn send_host(&self, host: &str, change: &Change<'_>) {
        let name = |series: &Series| {
            let labels = series.labels.iter().map(|(_, value)| format!(".{}", clean(value)));
            format!("{}.{}{}", clean(host), series.metric.name(), labels.collect::<String>())
        };
        let gauges = change.after().samples.iter();
        for sample in gauges.filter(|sample| sample.series.metric.kind() == MetricKind::Gauge) {
            self.gauge(&name(&sample.series), sample.value);
        }
        for metric in Metric::ALL.iter().filter(|metric| metric.kind() == MetricKind::Counter) {
            for (series, grown) in change.growth(*metric, &[]) {
                self.count(&name(series), grown.round() as u64);
            }
        }
        self.flush();
    }

    fn quantiles(&self, of: &str, histogram: &Histogram) {
        for (name, ms) in ShortQuantiles::from(histogram).named() {
            if let Some(ms) = ms {
                self.gauge(&format!("{of}.{name}_ms"), ms);
            }
        }
    }

    /// Adds `count` to a counter, unless it is 0.
    fn count(&self, name: &str, count: u64) {
        if count > 0 {
            let _ = self.0.count(name, count);
        }
    }

    fn gauge(&self, name: &str, value: f64) {
        if value < 0.0 {
            // A sign means "add"; so it is set to 0 before.
            let _ = self.0.gauge(name, 0_u64);
        }
        let _ = self.0.gauge(name, value);
    }

    fn flush(&self) {
        let _ = self.0.flush();
    }
}

/// Replaces characters that StatsD names cannot have: they consist of letters, digits, `_`, `-` and `.`, the separator.
fn clean(text: &str) -> String {
    let allowed = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    text.chars().map(|c| if allowed(c) { c } else { '_' }).collect()
}
