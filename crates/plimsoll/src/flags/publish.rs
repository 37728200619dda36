//! Flags of publishing while a command runs.

use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_model::units::parse_duration;
use plimsoll_report::live::Collector;

use super::values::{ListenAt, listen_at};

/// Flags of publishing while a command runs.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Output")]
pub(crate) struct PublishFlags {
    /// Serve metrics as /metrics for Prometheus; a bare port listens on 127.0.0.1 only
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_at)]
    pub(crate) prometheus: Option<ListenAt>,

    /// Time to serve the last metrics after the end, until they were scraped twice [default: 60s; watch 0]
    #[arg(long, value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) metrics_linger: Option<Nanos>,

    /// Send metrics as StatsD gauges and counters to this address, over UDP
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) statsd: Option<String>,

    /// Send metrics to this OpenTelemetry collector every 10 s (OTLP over HTTP, JSON)
    #[arg(long, value_name = "URL", value_parser = Collector::parse)]
    pub(crate) otlp: Option<Collector>,
}

impl PublishFlags {
    /// Reports whether figures go anywhere.
    pub(crate) fn is_asked(&self) -> bool {
        self.prometheus.is_some() || self.statsd.is_some() || self.otlp.is_some()
    }
}
