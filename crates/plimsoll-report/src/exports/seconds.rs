//! The seconds of a run as one table: the same columns for every format.

use std::collections::BTreeMap;

use plimsoll_model::Nanos;
use plimsoll_model::host::{Change, Reading};
use plimsoll_model::tally::Tally;

use crate::archive::{Archive, IntervalLine, Lines, Loads, Place, each_reading};
use crate::error::Result;
use crate::state::HostRow;
use crate::time_text;

/// A column of the load: its name, and the value of a row.
type Column = (&'static str, fn(&Row<'_>) -> Cell);
/// A column of a host.
type HostColumn = (&'static str, fn(&HostRow) -> Cell);

/// The columns of the load; those of the hosts follow.
pub(super) const COLUMNS: [Column; 29] = [
    ("run", |row| Cell::Text(row.table.run.clone())),
    ("t", |row| Some(row.place.since_begin.as_secs_f64()).into()),
    ("wall", |row| wall(row.table.archive, row.place.began)),
    ("trial", |row| row.line.trial.map(u64::from).into()),
    ("offered", |row| Cell::Count(row.tally().scheduled)),
    ("sent", |row| match row.table.is_open {
        true => Cell::Count(row.tally().spans.send_lag.count()),
        // In a closed loop an operation comes due by being sent.
        false => Cell::Count(row.tally().scheduled),
    }),
    ("ok", |row| Cell::Count(row.tally().ok)),
    ("late", |row| Cell::Count(row.tally().late)),
    ("errors", |row| Cell::Count(row.tally().errors_total())),
    ("unsent", |row| Cell::Count(row.tally().unsent)),
    ("count", |row| Cell::Count(row.tally().spans.corrected.count())),
    ("p50_ms", |row| row.tally().spans.corrected.quantile(0.5).into()),
    ("p90_ms", |row| row.tally().spans.corrected.quantile(0.9).into()),
    ("p99_ms", |row| row.tally().spans.corrected.quantile(0.99).into()),
    ("p999_ms", |row| row.tally().spans.corrected.quantile(0.999).into()),
    ("max_ms", |row| row.tally().spans.corrected.max().into()),
    ("u_p50_ms", |row| row.tally().spans.uncorrected.quantile(0.5).into()),
    ("u_p90_ms", |row| row.tally().spans.uncorrected.quantile(0.9).into()),
    ("u_p99_ms", |row| row.tally().spans.uncorrected.quantile(0.99).into()),
    ("u_p999_ms", |row| row.tally().spans.uncorrected.quantile(0.999).into()),
    ("u_max_ms", |row| row.tally().spans.uncorrected.max().into()),
    ("send_lag_p99_ms", |row| row.tally().spans.send_lag.quantile(0.99).into()),
    ("held", |row| Cell::Count(row.tally().connections.held_end)),
    ("opened", |row| Cell::Count(row.tally().connections.opened)),
    ("failed", |row| Cell::Count(row.tally().connections.failed)),
    ("lost", |row| Cell::Count(row.tally().lost())),
    ("backlog", |row| row.tally().outstanding.last().copied().map(u64::from).into()),
    ("bytes_in", |row| Cell::Count(row.tally().bytes.received)),
    ("bytes_out", |row| Cell::Count(row.tally().bytes.sent)),
];
/// The columns of each host: `host.NAME.established`, ….
const HOST_COLUMNS: [HostColumn; 8] = [
    ("established", |row| row.figures.established.into()),
    ("cpu", |row| row.figures.cpu.map(thousandths).into()),
    ("busiest_cpu", |row| row.figures.busiest_cpu.map(thousandths).into()),
    ("memory_bytes", |row| row.figures.memory_bytes.into()),
    ("packets_in_per_s", |row| row.packets_in.map(thousandths).into()),
    ("packets_out_per_s", |row| row.packets_out.map(thousandths).into()),
    ("bytes_in_per_s", |row| row.bytes_in.map(thousandths).into()),
    ("bytes_out_per_s", |row| row.bytes_out.map(thousandths).into()),
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

impl From<Option<u64>> for Cell {
    fn from(count: Option<u64>) -> Self {
        count.map_or(Self::None, Self::Count)
    }
}

impl From<Option<Nanos>> for Cell {
    fn from(span: Option<Nanos>) -> Self {
        span.map(Nanos::as_millis_f64).into()
    }
}

/// Readings of the hosts, by name, in the order of their columns.
struct Hosts(BTreeMap<String, Vec<HostRow>>);

impl Hosts {
    fn of(archive: &Archive) -> Result<Self> {
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
        self.0.keys().flat_map(|host| {
            HOST_COLUMNS.iter().map(move |(name, _)| format!("host.{host}.{name}"))
        })
    }

    /// Returns the figures at the end of the second that `began` then.
    fn cells(&self, began: Option<Nanos>) -> impl Iterator<Item = Cell> {
        let ends = began.map(|began| began + Nanos::from_secs(1));
        self.0.values().flat_map(move |rows| {
            let near = ends.and_then(|ends| nearest(rows, ends));
            HOST_COLUMNS.map(|(_, cell)| near.map_or(Cell::None, cell))
        })
    }
}

fn nearest(rows: &[HostRow], at: Nanos) -> Option<&HostRow> {
    let after = rows.partition_point(|row| row.at < at);
    let candidates = rows[after.saturating_sub(1)..].iter().take(2);
    let off = |row: &&HostRow| row.at.since(at).max(at.since(row.at));
    candidates.min_by_key(off).filter(|row| off(row) <= READING_OFF_MAX)
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

/// A second of the table.
pub(super) struct Row<'a> {
    table: &'a Table<'a>,
    line: &'a IntervalLine,
    place: Place,
}

impl Row<'_> {
    const fn tally(&self) -> &Tally {
        &self.line.interval.tally
    }
}

impl<'a> Table<'a> {
    pub(super) fn of(archive: &'a Archive) -> Result<Self> {
        let hosts = Hosts::of(archive)?;
        let names =
            COLUMNS.iter().map(|(name, _)| (*name).to_owned()).chain(hosts.columns()).collect();
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
        let row = Row { table: self, line: &line, place };
        let cells = COLUMNS.iter().map(|(_, cell)| cell(&row));
        cells.chain(self.hosts.cells(place.began)).collect()
    }
}

impl Iterator for Table<'_> {
    type Item = Result<Vec<Cell>>;

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
    !archive.manifest().settings.is_closed_loop()
}

fn wall(archive: &Archive, began: Option<Nanos>) -> Cell {
    let clock = archive.manifest().clock;
    let text = |began| Cell::Text(time_text::rfc3339_ms(clock.unix_ns_at(began)));
    began.map_or(Cell::None, text)
}
