//! A host of a run, and its figures between two readings.

use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_model::host::{Change, HostFigures, Label, Metric, Reading};

/// A host as of its last reading.
#[derive(Clone, Debug)]
pub(crate) struct Host {
    pub(crate) reading: Arc<Reading>,
    /// `None` before its second reading.
    pub(crate) row: Option<HostRow>,
}

/// Figures of a host between two readings, which screen, page and tables show. What was not read is `None`.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct HostRow {
    /// The end of the later reading, on CLOCK_MONOTONIC.
    pub(crate) at: Nanos,
    pub(crate) figures: HostFigures,
    pub(crate) memory_available: Option<f64>,
    /// Per second, like the three that follow.
    pub(crate) packets_in: Option<f64>,
    pub(crate) packets_out: Option<f64>,
    pub(crate) bytes_in: Option<f64>,
    pub(crate) bytes_out: Option<f64>,
}

impl HostRow {
    pub(crate) fn of(change: &Change<'_>) -> Self {
        let after = change.after();
        let rate = |metric, direction| change.rate(metric, &[(Label::Direction, direction)]);
        Self {
            at: after.end,
            figures: HostFigures::between(change.before(), after),
            memory_available: after.sum(Metric::MemoryAvailableBytes, &[]),
            packets_in: rate(Metric::NetworkPackets, "receive"),
            packets_out: rate(Metric::NetworkPackets, "transmit"),
            bytes_in: rate(Metric::NetworkBytes, "receive"),
            bytes_out: rate(Metric::NetworkBytes, "transmit"),
        }
    }
}
