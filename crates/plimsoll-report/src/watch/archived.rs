//! What `watch --out` has archived, drawn again: a page for each host.

use std::io::Write;
use std::path::Path;

use plimsoll_model::host::Reading;
use plimsoll_model::units::grouped;

use super::history::{History, READINGS_MAX};
use super::page::page;
use crate::archive::read_hosts;
use crate::error::ReportError;
use crate::terminal::Style;
use crate::terminal::layout::span;

/// Draws the readings in `dir`: the state after the last one, and graphs over the whole time.
pub fn render_watched(dir: &Path, style: Style, out: &mut dyn Write) -> Result<(), ReportError> {
    let hosts = read_hosts(dir)?;
    if hosts.is_empty() {
        return Err(ReportError::NotAnArchive { dir: dir.to_owned() });
    }
    for (index, (host, readings)) in hosts.iter().enumerate() {
        if index > 0 {
            writeln!(out)?;
        }
        let (first, last) = (readings.first(), readings.last());
        let seconds = first
            .zip(last)
            .map_or(0.0, |(first, last)| last.begin.since(first.begin).as_secs_f64());
        let title =
            format!("{host}: {} readings in {}", grouped(readings.len() as u64), span(seconds));
        page(out, style, &title, &whole(readings))?;
    }
    Ok(())
}

/// As many readings as a graph has columns, evenly over all of them, the first and the last included.
fn whole(readings: &[Reading]) -> History {
    let mut history = History::default();
    let count = readings.len().min(READINGS_MAX);
    for column in 0..count {
        let at = column * (readings.len() - 1) / (count - 1).max(1);
        history.push(readings[at].clone());
    }
    history
}

#[cfg(test)]
mod tests {
    use plimsoll_model::Nanos;
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

    fn drawn(dir: &Path) -> Result<String, ReportError> {
        let mut text = Vec::new();
        render_watched(dir, Style::default(), &mut text)?;
        // Numbers are kept together with their units.
        Ok(String::from_utf8(text).unwrap().replace('\u{a0}', " "))
    }

    #[test]
    fn a_long_watch_is_drawn_as_a_whole() {
        let dir = archived(3_601);
        let text = drawn(dir.path()).unwrap();
        assert!(
            text.contains("web1: 3,601 readings in 3600 s") && text.contains("3,600"),
            "{text}"
        );
        let history = whole(&read_hosts(dir.path()).unwrap()["web1"]);
        assert_eq!(history.changes().count(), READINGS_MAX - 1);
        assert_eq!(history.last().unwrap().begin, Nanos::from_secs(3_600));
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
