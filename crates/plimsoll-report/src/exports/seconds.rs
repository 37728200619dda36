//! The seconds of a run as one table: the same columns for every format.
//!
//! [`Table`] is an iterator: it reads the intervals of an archive one at a time and yields a row of JSON values, in
//! which `null` was not measured. [`COLUMNS`] pairs each name with a function of a [`Row`]; the columns of
//! [`HOST_COLUMNS`] follow for each host. A host's values come from the reading nearest to the end of the second, at
//! most 600 ms off. The readings are reduced to rows before the first second. Start reading at [`COLUMNS`].

use std::collections::BTreeMap;
use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_model::tally::Tally;
use serde_json::Value;

use crate::archive::{Archive, IntervalLine, Lines, Loads, Place, readings};
use crate::error::Result;
use crate::state::{HostRow, RunState, Second};
use crate::time_text;

/// A column of the load: its name, and the value of a row.
type Column = (&'static str, fn(&Row<'_>) -> Value);
/// A column of a host.
type HostColumn = (&'static str, fn(&HostRow) -> Value);

/// The columns of the load; the columns of the hosts follow.
pub(super) const COLUMNS: [Column; 29] = [
    ("run", |row| row.table.run.clone().into()),
    ("t", |row| row.place.since_begin.as_secs_f64().into()),
    ("wall", |row| wall(row.table.archive, row.place.began)),
    ("trial", |row| row.line.trial.into()),
    ("offered", |row| row.second.offered.into()),
    ("sent", |row| match row.table.is_open {
        true => row.tally().spans.send_lag.count().into(),
        // In a closed loop an operation comes due by being sent.
        false => row.tally().scheduled.into(),
    }),
    ("ok", |row| row.tally().ok.into()),
    ("late", |row| row.tally().late.into()),
    ("errors", |row| row.tally().errors_total().into()),
    ("unsent", |row| row.tally().unsent.into()),
    ("count", |row| row.tally().spans.corrected.count().into()),
    ("p50_ms", |row| row.second.corrected.p50.into()),
    ("p90_ms", |row| row.second.corrected.p90.into()),
    ("p99_ms", |row| row.second.corrected.p99.into()),
    ("p999_ms", |row| row.second.corrected.p999.into()),
    ("max_ms", |row| row.second.corrected.max.into()),
    ("u_p50_ms", |row| row.second.uncorrected.p50.into()),
    ("u_p90_ms", |row| row.second.uncorrected.p90.into()),
    ("u_p99_ms", |row| row.second.uncorrected.p99.into()),
    ("u_p999_ms", |row| row.second.uncorrected.p999.into()),
    ("u_max_ms", |row| row.second.uncorrected.max.into()),
    ("send_lag_p99_ms", |row| row.second.send_lag.p99.into()),
    ("held", |row| row.second.held.into()),
    ("opened", |row| row.second.opened.into()),
    ("failed", |row| row.tally().connections.failed.into()),
    ("lost", |row| row.second.lost.into()),
    ("backlog", |row| row.tally().outstanding.last().copied().into()),
    ("bytes_in", |row| row.tally().bytes.received.into()),
    ("bytes_out", |row| row.tally().bytes.sent.into()),
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

/// Readings of the hosts, by name, in the order of their columns.
struct Hosts(BTreeMap<String, Vec<HostRow>>);

impl Hosts {
    fn of(archive: &Archive) -> Result<Self> {
        let mut hosts = BTreeMap::<String, Vec<HostRow>>::new();
        let mut run = RunState::default();
        for reading in readings(&archive.dir)? {
            let (host, reading) = reading?;
            run.handle_reading(&host, Arc::new(reading));
            let row = run.hosts.get(&host).and_then(|host| host.row);
            hosts.entry(host).or_default().extend(row);
        }
        Ok(Self(hosts))
    }

    fn columns(&self) -> impl Iterator<Item = String> {
        self.0.keys().flat_map(|host| {
            HOST_COLUMNS.iter().map(move |(name, _)| format!("host.{host}.{name}"))
        })
    }

    /// Returns the figures at the end of the second that `began` then.
    fn cells(&self, began: Option<Nanos>) -> impl Iterator<Item = Value> {
        let ends = began.map(|began| began + Nanos::from_secs(1));
        self.0.values().flat_map(move |rows| {
            let near = ends.and_then(|ends| nearest(rows, ends));
            HOST_COLUMNS.map(|(_, cell)| near.map_or(Value::Null, cell))
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

/// The table, read a row at a time; what was not measured is `null`.
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
    second: Second,
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
            is_open: !archive.manifest.settings.is_closed_loop(),
            hosts,
            loads: Loads::of(&archive.events),
            lines: archive.intervals()?,
        })
    }

    fn row(&mut self, line: IntervalLine) -> Vec<Value> {
        let place = self.loads.place(&line);
        let second = Second::of(&line.interval.tally);
        let row = Row { table: self, line: &line, second, place };
        let cells = COLUMNS.iter().map(|(_, cell)| cell(&row));
        cells.chain(self.hosts.cells(place.began)).collect()
    }
}

impl Iterator for Table<'_> {
    type Item = Result<Vec<Value>>;

    fn next(&mut self) -> Option<Self::Item> {
        let line = self.lines.next()?;
        Some(line.map(|line| self.row(line)))
    }
}

/// Returns the name of a run, which is the name of its directory.
pub(super) fn run_name(archive: &Archive) -> String {
    let dir = &archive.dir;
    let name = dir.file_name().map(|name| name.to_string_lossy().into_owned());
    // `.` has no name of its own.
    name.or_else(|| Some(dir.canonicalize().ok()?.file_name()?.to_string_lossy().into_owned()))
        .unwrap_or_else(|| archive.manifest.started_at.clone())
}

/// Returns the instant at which the first operation was due, or the run began if no load did: ns since 1970, UTC.
pub(super) fn start_unix_ns(archive: &Archive) -> u64 {
    let clock = archive.manifest.clock;
    clock.unix_ns_at(Loads::of(&archive.events).epoch(0).unwrap_or(clock.monotonic))
}

fn wall(archive: &Archive, began: Option<Nanos>) -> Value {
    let clock = archive.manifest.clock;
    began.map(|began| time_text::rfc3339_ms(clock.unix_ns_at(began))).into()
}
