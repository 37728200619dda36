//! Drawing of archives of `watch --out`: a page for each host.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_model::Nanos;
use plimsoll_model::host::Reading;
use plimsoll_model::units::grouped;

use super::history::{History, READINGS_MAX};
use super::page::page;
use crate::archive::readings;
use crate::error::{ReportError, Result};
use crate::terminal::Style;
use crate::terminal::layout::span;

/// Draws the readings in `dir`: the state after the last one, and graphs over the whole time. A watch may have gone on
/// for weeks, so the file is read twice: once to count, and once for the readings that are drawn.
pub fn render_watched(dir: &Path, style: Style) -> Result<String> {
    let mut hosts: BTreeMap<String, Watched> = BTreeMap::new();
    for reading in readings(dir)? {
        let (host, reading) = reading?;
        hosts.entry(host).or_default().count(&reading);
    }
    if hosts.is_empty() {
        return Err(ReportError::NotAnArchive { dir: dir.to_owned() });
    }
    for reading in readings(dir)? {
        let (host, reading) = reading?;
        if let Some(watched) = hosts.get_mut(&host) {
            watched.add(reading);
        }
    }
    let pages = hosts.iter().map(|(host, watched)| {
        let seconds = watched.last.since(watched.first).as_secs_f64();
        let count = grouped(watched.readings as u64);
        let title = format!("{host}: {count} readings in {}", span(seconds));
        page(style, &title, &watched.history)
    });
    Ok(pages.collect::<Vec<_>>().join("\n"))
}

/// A host over the whole time.
#[derive(Default)]
struct Watched {
    readings: usize,
    first: Nanos,
    last: Nanos,
    /// Readings that [`Watched::add`] was given.
    offered: usize,
    /// One reading per column of a graph, evenly over all readings, including the first and the last one.
    history: History,
}

impl Watched {
    fn count(&mut self, reading: &Reading) {
        if self.readings == 0 {
            self.first = reading.begin;
        }
        self.last = reading.begin;
        self.readings += 1;
    }

    /// Stores the next reading if it is drawn.
    fn add(&mut self, reading: Reading) {
        let columns = self.readings.min(READINGS_MAX);
        let place = |column: usize| column * (self.readings - 1) / (columns - 1).max(1);
        if (0..columns).any(|column| place(column) == self.offered) {
            self.history.push(reading);
        }
        self.offered += 1;
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::host::Metric;

    use super::*;
    use crate::archive::HostWriter;

    fn archived(seconds: u64) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = HostWriter::create(dir.path()).unwrap();
        for second in 0..seconds {
            let at = Nanos::from_secs(second);
            let mut reading = Reading { begin: at, end: at, ..Reading::default() };
            reading.add(Metric::TcpEstablished, &[], second as f64);
            reading.sort();
            writer.push("web1", &reading).unwrap();
        }
        drop(writer);
        dir
    }

    fn drawn(dir: &Path) -> Result<String> {
        // Numbers are kept together with their units.
        Ok(render_watched(dir, Style::default())?.replace('\u{a0}', " "))
    }

    #[test]
    fn a_long_watch_is_drawn_as_a_whole() {
        let dir = archived(3_601);
        let text = drawn(dir.path()).unwrap();
        assert!(
            text.contains("web1: 3,601 readings in 3600 s") && text.contains("3,600"),
            "{text}"
        );
        let mut watched = Watched::default();
        let readings = || readings(dir.path()).unwrap().map(|reading| reading.unwrap().1);
        readings().for_each(|reading| watched.count(&reading));
        readings().for_each(|reading| watched.add(reading));
        let history = watched.history;
        assert_eq!(history.changes().count(), READINGS_MAX - 1);
        assert_eq!(history.change().unwrap().after().begin, Nanos::from_secs(3_600));
    }

    #[test]
    fn short_ones_and_none_are_no_crash() {
        for seconds in [1, 2, 61, 62] {
            assert!(drawn(archived(seconds).path()).unwrap().contains("web1: "), "{seconds}");
        }
        let empty = tempfile::tempdir().unwrap();
        let error = drawn(empty.path()).unwrap_err().to_string();
        assert!(error.contains("is not a run archive"), "{error}");
    }
}
