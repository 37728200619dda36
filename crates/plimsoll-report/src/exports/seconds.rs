//! The seconds of a run as one table: the same columns for every format.

use plimsoll_model::host::{Change, HostFigures, Label, Metric, Reading};
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::{Histogram, Nanos};

use crate::archive::{Archive, IntervalLine, Lines, Loads, each_reading};
use crate::error::ReportError;
use crate::{settings, time_text};

/// The columns of the load; those of the hosts follow.
pub(super) const COLUMNS: [&str; 29] = [
    "run",
    "t",
    "wall",
    "trial",
    "offered",
    "sent",
    "ok",
    "late",
    "errors",
    "unsent",
    "count",
    "p50_ms",
    "p90_ms",
    "p99_ms",
    "p999_ms",
    "max_ms",
    "u_p50_ms",
    "u_p90_ms",
    "u_p99_ms",
    "u_p999_ms",
    "u_max_ms",
    "send_lag_p99_ms",
    "held",
    "opened",
    "failed",
    "lost",
    "backlog",
    "bytes_in",
    "bytes_out",
];
/// The columns of each host: `host.NAME.established`, ….
const HOST_COLUMNS: [&str; 8] = [
    "established",
    "cpu",
    "busiest_cpu",
    "memory_bytes",
    "packets_in_per_s",
    "packets_out_per_s",
    "bytes_in_per_s",
    "bytes_out_per_s",
];
/// A reading belongs to a second when it ended so long after the second's end, or before, at most.
const READING_OFF_MAX: Nanos = Nanos::from_millis(600);

/// One value of a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Cell {
    Text(String),
    Count(u64),
    Real(f64),
    /// Not measured.
    None,
}

impl From<Option<f64>> for Cell {
    fn from(value: Option<f64>) -> Self {
        value.map_or(Self::None, Self::Real)
    }
}

impl From<Option<Nanos>> for Cell {
    fn from(span: Option<Nanos>) -> Self {
        span.map(Nanos::as_millis_f64).into()
    }
}

/// One second of one load, and where it lies.
pub(super) struct Second {
    pub(super) trial: Option<u32>,
    pub(super) interval: Interval,
    /// Since the first operation of the run was due; in an archive without instants the pauses between loads are left out.
    pub(super) since_begin: Nanos,
    /// When it began, on CLOCK_MONOTONIC.
    began: Option<Nanos>,
}

/// Places the seconds of a run one after another.
pub(super) struct Timeline {
    loads: Loads,
    /// The load and the second of the last line.
    last: Option<(usize, u32)>,
    /// Seconds of the loads before.
    seconds_before: u64,
}

impl Timeline {
    pub(super) fn of(archive: &Archive) -> Self {
        Self { loads: Loads::of(archive.events()), last: None, seconds_before: 0 }
    }

    /// When the first operation of the run was due, on CLOCK_MONOTONIC.
    pub(super) fn first_epoch(archive: &Archive) -> Option<Nanos> {
        Self::of(archive).loads.epoch(0)
    }

    /// Places the next line.
    pub(super) fn place(&mut self, line: IntervalLine) -> Second {
        let load = self.loads.place(&line);
        let IntervalLine { trial, interval, .. } = line;
        if let Some((_, last)) = self.last.filter(|(number, _)| *number != load) {
            self.seconds_before += u64::from(last) + 1;
        }
        self.last = Some((load, interval.second));
        let into = Nanos::from_secs(u64::from(interval.second));
        let began = self.loads.epoch(load).map(|epoch| epoch + into);
        let since_begin = match (began, self.loads.epoch(0)) {
            (Some(began), Some(first)) => began.since(first),
            _ => Nanos::from_secs(self.seconds_before) + into,
        };
        Second { trial, interval, since_begin, began }
    }
}

/// The figures of a host around an instant.
struct HostRow {
    at: Nanos,
    cells: [Cell; HOST_COLUMNS.len()],
}

/// What is known of the hosts, by name, in the order of their columns.
struct Hosts(Vec<(String, Vec<HostRow>)>);

impl Hosts {
    fn of(archive: &Archive) -> Result<Self, ReportError> {
        let mut hosts: Vec<(String, Vec<HostRow>, Reading)> = Vec::new();
        each_reading(archive.dir(), &mut |host, reading| match hosts
            .iter_mut()
            .find(|(name, ..)| name == host)
        {
            Some((_, rows, before)) => {
                rows.push(HostRow::between(before, &reading));
                *before = reading;
            }
            None => hosts.push((host.to_owned(), Vec::new(), reading)),
        })?;
        hosts.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Self(hosts.into_iter().map(|(name, rows, _)| (name, rows)).collect()))
    }

    fn columns(&self) -> impl Iterator<Item = String> {
        self.0.iter().flat_map(|(host, _)| {
            HOST_COLUMNS.iter().map(move |column| format!("host.{host}.{column}"))
        })
    }

    fn cells(&self, second: &Second) -> impl Iterator<Item = Cell> {
        let ends = second.began.map(|began| began + Nanos::from_secs(1));
        self.0.iter().flat_map(move |(_, rows)| {
            let near = ends.and_then(|ends| nearest(rows, ends));
            near.map_or([const { Cell::None }; HOST_COLUMNS.len()], |row| row.cells.clone())
        })
    }
}

fn nearest(rows: &[HostRow], at: Nanos) -> Option<&HostRow> {
    let after = rows.partition_point(|row| row.at < at);
    let candidates = rows[after.saturating_sub(1)..].iter().take(2);
    let off = |row: &&HostRow| row.at.since(at).max(at.since(row.at));
    candidates.min_by_key(off).filter(|row| off(row) <= READING_OFF_MAX)
}

impl HostRow {
    fn between(before: &Reading, after: &Reading) -> Self {
        let figures = HostFigures::between(before, after);
        let change = Change::new(before, after);
        let rate = |metric, direction| -> Cell {
            change.rate(metric, &[(Label::Direction, direction)]).map(thousandths).into()
        };
        let cells = [
            figures.established.into(),
            figures.cpu.map(thousandths).into(),
            figures.busiest_cpu.map(thousandths).into(),
            figures.memory_bytes.into(),
            rate(Metric::NetworkPackets, "receive"),
            rate(Metric::NetworkPackets, "transmit"),
            rate(Metric::NetworkBytes, "receive"),
            rate(Metric::NetworkBytes, "transmit"),
        ];
        Self { at: after.end, cells }
    }
}

fn thousandths(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

/// The table, read a row at a time.
pub(super) struct Table<'a> {
    archive: &'a Archive,
    /// The names of the columns.
    pub(super) names: Vec<String>,
    run: String,
    is_open: bool,
    hosts: Hosts,
    timeline: Timeline,
    lines: Lines<IntervalLine>,
}

impl<'a> Table<'a> {
    pub(super) fn of(archive: &'a Archive) -> Result<Self, ReportError> {
        let hosts = Hosts::of(archive)?;
        let names = COLUMNS.iter().map(|name| (*name).to_owned()).chain(hosts.columns()).collect();
        Ok(Self {
            archive,
            names,
            run: run_name(archive),
            is_open: is_open_loop(archive),
            hosts,
            timeline: Timeline::of(archive),
            lines: archive.intervals()?,
        })
    }

    fn row(&mut self, line: IntervalLine) -> Vec<Cell> {
        let second = self.timeline.place(line);
        let wall = wall(self.archive, &second);
        let mut row = cells(&self.run, wall, &second, self.is_open);
        row.extend(self.hosts.cells(&second));
        row
    }
}

impl Iterator for Table<'_> {
    type Item = Result<Vec<Cell>, ReportError>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next()?;
        Some(line.map(|line| self.row(line)))
    }
}

/// The name of a run: that of its directory.
pub(super) fn run_name(archive: &Archive) -> String {
    let dir = archive.dir();
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned());
    // `.` has no name of its own.
    name.or_else(|| Some(dir.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| archive.manifest().started_at.clone())
}

fn is_open_loop(archive: &Archive) -> bool {
    !settings::is_closed_loop(&archive.manifest().settings)
}

fn wall(archive: &Archive, second: &Second) -> Cell {
    let clock = archive.manifest().clock;
    let text = |began| Cell::Text(time_text::rfc3339_ms(clock.unix_ns_at(began)));
    second.began.map_or(Cell::None, text)
}

fn cells(run: &str, wall: Cell, second: &Second, is_open: bool) -> Vec<Cell> {
    let tally: &Tally = &second.interval.tally;
    // In a closed loop an operation comes due by being sent.
    let sent = if is_open { tally.spans.send_lag.count() } else { tally.scheduled };
    let connections = &tally.connections;
    let mut row = vec![
        Cell::Text(run.to_owned()),
        Cell::Real(second.since_begin.as_secs_f64()),
        wall,
        second.trial.map_or(Cell::None, |trial| Cell::Count(trial.into())),
        Cell::Count(tally.scheduled),
        Cell::Count(sent),
        Cell::Count(tally.ok),
        Cell::Count(tally.late),
        Cell::Count(tally.errors_total()),
        Cell::Count(tally.unsent),
        Cell::Count(tally.spans.corrected.count()),
    ];
    row.extend(quantiles(&tally.spans.corrected));
    row.extend(quantiles(&tally.spans.uncorrected));
    row.extend([
        tally.spans.send_lag.quantile(0.99).into(),
        Cell::Count(connections.held_end),
        Cell::Count(connections.opened),
        Cell::Count(connections.failed),
        Cell::Count(connections.reset_by_peer + connections.closed_by_peer),
        tally.outstanding.last().map_or(Cell::None, |waiting| Cell::Count((*waiting).into())),
        Cell::Count(tally.bytes.received),
        Cell::Count(tally.bytes.sent),
    ]);
    row
}

fn quantiles(hist: &Histogram) -> [Cell; 5] {
    let of = |q| hist.quantile(q).into();
    [of(0.5), of(0.9), of(0.99), of(0.999), hist.max().into()]
}
