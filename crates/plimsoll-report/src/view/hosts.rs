//! Rows of the hosts of a run: rates between two readings, gauges of the later one.
//!
//! [`Host::add`] compares a reading with the previous one and appends a [`HostPoint`] if about one column of time (at
//! least three quarters) lies between them. A reading before the first load gives no row, but the first rates start
//! from it. [`Host::columns`] turns the rows into one list per field. `speed` compares a row with the median of all
//! rows so far, so `columns` computes it again at the end. Start reading at [`Host::add`].

use std::collections::BTreeMap;

use plimsoll_model::host::{Change, Label, LimitKind, Metric, Reading, limits};
use plimsoll_model::{Histogram, Nanos};
use serde::Serialize;
use serde_json::Value;

use super::columns::columns;
use super::number::{instant, short};
use crate::state::HostRow;

/// Counters that stand still while all is well.
const TROUBLE: [Metric; 16] = [
    Metric::TcpListenOverflows,
    Metric::TcpListenDrops,
    Metric::TcpSynQueueFull,
    Metric::TcpSyncookiesSent,
    Metric::TcpRetransmitted,
    Metric::TcpTimeouts,
    Metric::TcpAttemptFails,
    Metric::TcpBacklogDrops,
    Metric::TcpReceiveQueueDrops,
    Metric::TcpMemoryPressures,
    Metric::TcpAborts,
    Metric::TcpTimeWaitOverflows,
    Metric::NetworkDrops,
    Metric::SoftnetDropped,
    Metric::ConntrackDrops,
    Metric::OomKills,
];

/// A host, from reading to reading. What was not read is `None`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[expect(missing_docs, reason = "docs/reference/json.md describes the fields")]
pub struct HostPoint {
    /// Time of the reading, in seconds since the run's first second.
    pub t: f64,
    pub established: Option<f64>,
    pub packets_in: Option<f64>,
    pub packets_out: Option<f64>,
    pub bytes_in: Option<f64>,
    pub bytes_out: Option<f64>,
    pub memory_used: Option<f64>,
    pub memory_available: Option<f64>,
    /// Use of the busiest interface, share of its rate.
    pub link_in: Option<f64>,
    pub link_out: Option<f64>,
    pub cpu_busiest: Option<f64>,
    pub cpu: Option<f64>,
    pub softirq: Option<f64>,
    pub steal: Option<f64>,
    /// Speed of the yardstick's piece of work, 1 for the median of the run so far.
    pub speed: Option<f64>,
    pub cpu_hertz: Option<f64>,
    #[serde(skip)]
    yardstick_us: Option<f64>,
    /// Busy share of each CPU.
    pub cores: BTreeMap<String, Option<f64>>,
    /// Growth of the counters that moved.
    pub trouble: BTreeMap<&'static str, f64>,
}

/// A graph that has limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Panel {
    /// Established TCP connections.
    Established,
    /// Memory in use.
    Memory,
}

/// Returns the graph that shows the use of a limit; `None` for limits that are only listed.
pub(crate) const fn panel_of(limit: LimitKind) -> Option<Panel> {
    match limit {
        LimitKind::OpenFiles
        | LimitKind::TrackedConnections
        | LimitKind::WorkerConnections
        | LimitKind::MaxConnections
        | LimitKind::Maxconn => Some(Panel::Established),
        LimitKind::Memory | LimitKind::TcpMemory | LimitKind::CgroupMemory => Some(Panel::Memory),
        LimitKind::Threads
        | LimitKind::CgroupThreads
        | LimitKind::Orphans
        | LimitKind::TimeWait
        | LimitKind::AcceptQueue
        | LimitKind::EpollWatches
        | LimitKind::Ports
        | LimitKind::MaxSslConn
        | LimitKind::FrontendMaxconn
        | LimitKind::ServerMaxconn
        | LimitKind::ServerPorts
        | LimitKind::ConnectionRate
        | LimitKind::SessionRate
        | LimitKind::TlsRate
        | LimitKind::FrontendRate
        | LimitKind::AddressSpace => None,
    }
}

/// A limit that a graph shows as a line.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Limit {
    /// The graph.
    pub panel: Panel,
    /// Identifier of the limit.
    pub name: String,
    /// Value of the limit, in the unit of the graph.
    pub max: f64,
}

/// The lists of a host.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HostColumns {
    /// A list for each field of [`HostPoint`].
    #[serde(flatten)]
    pub columns: Value,
    /// Limits that the graphs show.
    pub limits: Vec<Limit>,
}

/// The readings of one host as they come.
#[derive(Debug, Default)]
pub(super) struct Host {
    rows: Vec<HostPoint>,
    last: Option<Reading>,
    limits: Vec<Limit>,
    /// CPU time of the yardstick's piece of work in each row.
    pieces: Histogram,
}

impl Host {
    /// Takes a reading; the row that ends with it, when it is at least `apart` after the one before.
    pub(super) fn add(
        &mut self,
        reading: &Reading,
        origin: Nanos,
        apart: Nanos,
    ) -> Option<&HostPoint> {
        let Some(last) = &self.last else {
            self.last = Some(reading.clone());
            return None;
        };
        // A reading that came a little early ends a row, too.
        if reading.end.since(last.end).0 < apart.0 - apart.0 / 4 {
            return None;
        }
        // What was before the load has no row.
        let row = (reading.end >= origin).then(|| row(last, reading, origin));
        self.limits = limits_of(reading);
        self.last = Some(reading.clone());
        let mut row = row?;
        if let Some(us) = row.yardstick_us {
            self.pieces.record(Nanos((1e3 * us) as u64));
        }
        row.speed = self.speed_of(&row);
        self.rows.push(row);
        self.rows.last()
    }

    fn speed_of(&self, row: &HostPoint) -> Option<f64> {
        let median = self.pieces.quantile(0.5)?;
        let speed = median.0 as f64 / 1e3 / row.yardstick_us?;
        // The histogram has three digits.
        short((100.0 * speed).round() / 100.0)
    }

    pub(super) fn columns(&self) -> HostColumns {
        let nothing = Reading::default();
        let template = row(&nothing, &nothing, Nanos::ZERO);
        let of_run = |row: &HostPoint| HostPoint { speed: self.speed_of(row), ..row.clone() };
        let rows: Vec<HostPoint> = self.rows.iter().map(of_run).collect();
        let columns = columns(&rows, &template, &["trouble"]);
        HostColumns { columns, limits: self.limits.clone() }
    }

    /// Forgets the oldest rows beyond `most`.
    pub(super) fn keep(&mut self, most: usize) {
        let over = self.rows.len().saturating_sub(most);
        self.rows.drain(..over);
    }
}

fn row(before: &Reading, after: &Reading, origin: Nanos) -> HostPoint {
    let change = Change::new(before, after);
    let HostRow { figures, memory_available, packets_in, packets_out, bytes_in, bytes_out, .. } =
        HostRow::of(&change);
    let busy = change.busy_cpus();
    let trouble = TROUBLE.into_iter().filter_map(|metric| {
        let grown = change.grown(metric, &[]).filter(|grown| *grown > 0.0)?;
        Some((metric.name(), grown))
    });
    HostPoint {
        t: instant(after.end.since(origin).as_secs_f64()),
        established: figures.established,
        packets_in: packets_in.and_then(short),
        packets_out: packets_out.and_then(short),
        bytes_in: bytes_in.and_then(short),
        bytes_out: bytes_out.and_then(short),
        memory_used: figures.memory_bytes.and_then(short),
        memory_available: memory_available.and_then(short),
        link_in: link(change, "receive"),
        link_out: link(change, "transmit"),
        cpu_busiest: figures.busiest_cpu.and_then(short),
        cpu: figures.cpu.and_then(short),
        softirq: figures.softirq.and_then(short),
        steal: figures.steal.and_then(short),
        speed: None,
        cpu_hertz: figures.cpu_hertz,
        yardstick_us: figures.yardstick_us,
        cores: busy.into_iter().map(|(cpu, busy)| (cpu.to_owned(), short(busy))).collect(),
        trouble: trouble.collect(),
    }
}

/// Returns the share of its rate that the interface carries which is used most; loopback has no rate.
pub(crate) fn link(change: Change<'_>, direction: &str) -> Option<f64> {
    let shares = change.after().of(Metric::NetworkSpeed, &[]).filter_map(|speed| {
        let device = speed.series.label(Label::Device)?;
        let wanted = [(Label::Device, device), (Label::Direction, direction)];
        let bytes_per_s = change.rate(Metric::NetworkBytes, &wanted)?;
        (speed.value > 0.0).then(|| bytes_per_s / speed.value)
    });
    shares.reduce(f64::max).and_then(short)
}

fn limits_of(reading: &Reading) -> Vec<Limit> {
    let drawn = limits(reading).filter_map(|limit| {
        let panel = panel_of(limit.id.kind)?;
        Some(Limit { panel, name: limit.id.to_string(), max: limit.max })
    });
    drawn.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_relative_to_the_median_row() {
        let mut host = Host::default();
        let mut sum_s = 0.0;
        for (second, us) in [400.0, 500.0, 400.0, 400.0].into_iter().enumerate() {
            sum_s += 2.0 * us / 1e6;
            let at = Nanos::from_secs(second as u64);
            let mut reading = Reading { begin: at, end: at, ..Reading::default() };
            let cpu = [(Label::Cpu, "0")];
            reading.add(Metric::YardstickSeconds, &cpu, sum_s);
            reading.add(Metric::YardstickPieces, &cpu, 2.0 * second as f64);
            reading.sort();
            host.add(&reading, Nanos::ZERO, Nanos::from_secs(1));
        }
        let columns = host.columns().columns;
        // The first row was 1 when it came.
        assert_eq!(columns["speed"], serde_json::json!([0.8, 1.0, 1.0]));
        assert!(columns.get("yardstick_us").is_none());
    }
}
