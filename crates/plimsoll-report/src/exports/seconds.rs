//! The seconds of a run as one table: the same columns for every format.

use std::collections::BTreeMap;

use plimsoll_model::host::{Change, Reading};
use plimsoll_model::summary::FullQuantiles;
use plimsoll_model::{Histogram, Nanos};

use crate::archive::{Archive, IntervalLine, Lines, Loads, Place, each_reading};
use crate::error::ReportError;
use crate::state::HostRow;
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

/// What is known of the hosts, by name, in the order of their columns.
struct Hosts(BTreeMap<String, Vec<HostRow>>);

impl Hosts {
    fn of(archive: &Archive) -> Result<Self, ReportError> {
        let mut hosts = BTreeMap::<String, Vec<HostRow>>::new();
        let mut last = BTreeMap::<String, Reading>::new();
        each_reading(archive.dir(), &mut |host, reading| {
            let rows = hosts.entry(host.to_owned()).or_default();
            let row = |before: &Reading| HostRow::of(&Change::new(before, &reading));
            rows.extend(last.get(host).map(row));
            last.insert(host.to_owned(), reading);
        })?;
        Ok(Self(hosts))
    }

    fn columns(&self) -> impl Iterator<Item = String> {
        self.0
            .keys()
            .flat_map(|host| HOST_COLUMNS.iter().map(move |column| format!("host.{host}.{column}")))
    }

    /// Returns the figures at the end of the second that `began` then.
    fn cells(&self, began: Option<Nanos>) -> impl Iterator<Item = Cell> {
        let ends = began.map(|began| began + Nanos::from_secs(1));
        self.0.values().flat_map(move |rows| {
            let near = ends.and_then(|ends| nearest(rows, ends));
            near.map_or([const { Cell::None }; HOST_COLUMNS.len()], host_cells)
        })
    }
}

fn nearest(rows: &[HostRow], at: Nanos) -> Option<&HostRow> {
    let after = rows.partition_point(|row| row.at < at);
    let candidates = rows[after.saturating_sub(1)..].iter().take(2);
    let off = |row: &&HostRow| row.at.since(at).max(at.since(row.at));
    candidates.min_by_key(off).filter(|row| off(row) <= READING_OFF_MAX)
}

fn host_cells(row: &HostRow) -> [Cell; HOST_COLUMNS.len()] {
    let figures = &row.figures;
    [
        figures.established.into(),
        figures.cpu.map(thousandths).into(),
        figures.busiest_cpu.map(thousandths).into(),
        figures.memory_bytes.into(),
        row.packets_in.map(thousandths).into(),
        row.packets_out.map(thousandths).into(),
        row.bytes_in.map(thousandths).into(),
        row.bytes_out.map(thousandths).into(),
    ]
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
    loads: Loads,
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
            loads: Loads::of(archive.events()),
            lines: archive.intervals()?,
        })
    }

    fn row(&mut self, line: IntervalLine) -> Vec<Cell> {
        let place = self.loads.place(&line);
        let wall = wall(self.archive, place.began);
        let mut row = cells(&self.run, wall, &line, place, self.is_open);
        row.extend(self.hosts.cells(place.began));
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
    let arrivals = archive.manifest().settings.get(settings::ARRIVALS);
    arrivals.is_none_or(|arrivals| arrivals != settings::CLOSED)
}

fn wall(archive: &Archive, began: Option<Nanos>) -> Cell {
    let clock = archive.manifest().clock;
    let text = |began| Cell::Text(time_text::rfc3339_ms(clock.unix_ns_at(began)));
    began.map_or(Cell::None, text)
}

fn cells(run: &str, wall: Cell, line: &IntervalLine, place: Place, is_open: bool) -> Vec<Cell> {
    let tally = &line.interval.tally;
    // In a closed loop an operation comes due by being sent.
    let sent = if is_open { tally.spans.send_lag.count() } else { tally.scheduled };
    let connections = &tally.connections;
    let mut row = vec![
        Cell::Text(run.to_owned()),
        Cell::Real(place.since_begin.as_secs_f64()),
        wall,
        line.trial.map_or(Cell::None, |trial| Cell::Count(trial.into())),
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
        Cell::Count(tally.lost()),
        tally.outstanding.last().map_or(Cell::None, |waiting| Cell::Count((*waiting).into())),
        Cell::Count(tally.bytes.received),
        Cell::Count(tally.bytes.sent),
    ]);
    row
}

fn quantiles(hist: &Histogram) -> [Cell; 5] {
    FullQuantiles::from(hist).from_median().map(Cell::from)
}
