//! Readings of hosts in a file: `hosts.jsonl`.
//!
//! A line that names the series of a host, then a line of values for each reading, in the order of
//! that list; `null` if a series had no value. A series that appears later begins a new list.

use std::collections::BTreeMap;
use std::iter;
use std::path::Path;

use plimsoll_model::Nanos;
use plimsoll_model::host::{HostSummary, Missing, Reading, Sample, Series, Source};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::reader::{Lines, REMOVE_LINE};
use super::writer::LineFile;
use crate::error::Result;

/// The file's name in an archive.
pub(super) const HOSTS: &str = "hosts.jsonl";

/// Hosts of a file at most, which may be from several runs that were merged.
const HOSTS_MAX: usize = 4_096;
/// Fault of more hosts.
const TOO_MANY_HOSTS: &str = "it has more than 4,096 hosts";
/// Most values that are stored of all readings at once. A value has about 60 bytes besides its labels; a forged line of
/// 2 MB may have a million.
const SAMPLES_MAX: usize = 60_000_000;
/// Fault of more readings.
const TOO_MANY_SAMPLES: &str = "its readings take too much memory";

/// One line of the file, with series as they are written, or as they are read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum HostLine<S> {
    /// The series that the following values belong to.
    List { host: String, series: Vec<S> },
    /// One reading.
    Values {
        host: String,
        begin: Nanos,
        end: Nanos,
        values: Vec<Option<f64>>,
        /// Values that could not be read, if they differ from the line before.
        #[serde(skip_serializing_if = "Option::is_none")]
        missing: Option<Vec<Missing>>,
        /// The states of its sources, likewise.
        #[serde(skip_serializing_if = "Option::is_none")]
        sources: Option<Vec<Source>>,
    },
}

/// A series that may be one of a newer version.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum ReadSeries {
    Known(Series),
    Newer(IgnoredAny),
}

/// The series of a host, and the rest of its last line.
#[derive(Debug)]
struct Known<S> {
    series: Vec<S>,
    missing: Vec<Missing>,
    sources: Vec<Source>,
}

impl<S> Known<S> {
    const NOTHING: Self = Self { series: Vec::new(), missing: Vec::new(), sources: Vec::new() };
}

/// Writes readings as they come.
#[derive(Debug)]
pub struct HostWriter {
    file: LineFile,
    hosts: BTreeMap<String, Known<Series>>,
}

impl HostWriter {
    /// Makes the file in `dir`, which exists.
    pub fn create(dir: &Path) -> Result<Self> {
        Ok(Self { file: LineFile::create(dir.join(HOSTS))?, hosts: BTreeMap::new() })
    }

    /// Adds a reading, which is sorted.
    pub fn push(&mut self, host: &str, reading: &Reading) -> Result<()> {
        let last = self.hosts.entry(host.to_owned()).or_insert(Known::NOTHING);
        let all = &mut last.series;
        let is_known = |sample: &Sample| all.binary_search(&sample.series).is_ok();
        if !reading.samples.iter().all(is_known) {
            all.extend(reading.samples.iter().map(|sample| sample.series.clone()));
            all.sort();
            all.dedup();
            self.file.push(&HostLine::List { host: host.to_owned(), series: all.clone() })?;
        }
        let value = |series: &Series| {
            let at = reading.samples.binary_search_by(|sample| sample.series.cmp(series)).ok()?;
            Some(reading.samples[at].value)
        };
        let missing = (last.missing != reading.missing).then(|| reading.missing.clone());
        last.missing.clone_from(&reading.missing);
        let sources = (last.sources != reading.sources).then(|| reading.sources.clone());
        last.sources.clone_from(&reading.sources);
        self.file.push(&HostLine::<Series>::Values {
            host: host.to_owned(),
            begin: reading.begin,
            end: reading.end,
            values: all.iter().map(value).collect(),
            missing,
            sources,
        })
    }
}

/// Reads the file in `dir` as a whole: each host's readings, in order. An archive without the file has none; a last
/// line that a killed run left half-written is left out.
///
/// # Errors
///
/// For a file that cannot be read, and for more readings than memory should hold.
pub fn read_hosts(dir: &Path) -> Result<BTreeMap<String, Vec<Reading>>> {
    read_within(dir, SAMPLES_MAX)
}

fn read_within(dir: &Path, samples_max: usize) -> Result<BTreeMap<String, Vec<Reading>>> {
    let mut hosts: BTreeMap<String, Vec<Reading>> = BTreeMap::new();
    let Some(mut readings) = Readings::open(dir)? else { return Ok(hosts) };
    let mut samples = 0;
    while let Some((host, reading)) = readings.read()? {
        samples += reading.samples.len();
        if samples > samples_max {
            return Err(readings.lines.refuse(TOO_MANY_SAMPLES, REMOVE_LINE));
        }
        hosts.entry(host).or_default().push(reading);
    }
    Ok(hosts)
}

/// Summarises every host of the archive in `dir`, without its figures at single loads. Of a run of days, one reading is
/// kept at a time.
pub fn summarise_hosts(dir: &Path) -> Result<BTreeMap<String, HostSummary>> {
    let mut hosts: BTreeMap<String, (HostSummary, Option<Reading>)> = BTreeMap::new();
    for reading in readings(dir)? {
        let (host, reading) = reading?;
        let (summary, before) = hosts.entry(host).or_default();
        summary.add(before.as_ref(), &reading);
        *before = Some(reading);
    }
    Ok(hosts.into_iter().map(|(host, (summary, _))| (host, summary.finish())).collect())
}

/// Reports whether the archive in `dir` has a reading of any host.
pub fn has_readings(dir: &Path) -> bool {
    readings(dir).is_ok_and(|mut readings| matches!(readings.next(), Some(Ok(_))))
}

/// Returns the readings as they stand in the file, each with its host, read one at a time.
pub(crate) fn readings(dir: &Path) -> Result<impl Iterator<Item = Result<(String, Reading)>>> {
    let mut readings = Readings::open(dir)?;
    Ok(iter::from_fn(move || readings.as_mut()?.read().transpose()))
}

/// The readings of a file in order, of which one is stored at a time.
struct Readings {
    lines: Lines<HostLine<ReadSeries>>,
    known: BTreeMap<String, Known<ReadSeries>>,
}

impl Readings {
    /// Opens the file; returns `None` if the archive has none.
    fn open(dir: &Path) -> Result<Option<Self>> {
        let lines = Lines::open_existing(dir.join(HOSTS))?;
        Ok(lines.map(|lines| Self { lines, known: BTreeMap::new() }))
    }

    /// Returns the next reading and its host; `None` at the end.
    fn read(&mut self) -> Result<Option<(String, Reading)>> {
        while let Some(line) = self.lines.next().transpose()? {
            match line {
                HostLine::List { host, series } => self.known_of(&host)?.series = series,
                HostLine::Values { host, begin, end, values, missing, sources } => {
                    let last = self.known_of(&host)?;
                    let samples = last.series.iter().zip(values).filter_map(sample).collect();
                    if let Some(missing) = missing {
                        last.missing = missing;
                    }
                    if let Some(sources) = sources {
                        last.sources = sources;
                    }
                    let (missing, sources) = (last.missing.clone(), last.sources.clone());
                    let mut reading = Reading { begin, end, samples, missing, sources };
                    // The order of series changes with the versions that wrote them.
                    reading.sort();
                    return Ok(Some((host, reading)));
                }
            }
        }
        Ok(None)
    }

    /// Returns the state of a host so far.
    fn known_of(&mut self, host: &str) -> Result<&mut Known<ReadSeries>> {
        if !self.known.contains_key(host) && self.known.len() >= HOSTS_MAX {
            return Err(self.lines.refuse(TOO_MANY_HOSTS, REMOVE_LINE));
        }
        Ok(self.known.entry(host.to_owned()).or_insert(Known::NOTHING))
    }
}

fn sample((series, value): (&ReadSeries, Option<f64>)) -> Option<Sample> {
    match series {
        ReadSeries::Known(series) => Some(Sample { series: series.clone(), value: value? }),
        ReadSeries::Newer(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;

    use plimsoll_model::host::{EndStatus, Label, Metric, SourceKind, SourceState};

    use super::*;

    fn reading(second: u64, cpus: &[&str], missing: bool) -> Reading {
        let at = Nanos::from_secs(second);
        let mut reading = Reading { begin: at, end: at, ..Reading::default() };
        for (index, cpu) in cpus.iter().enumerate() {
            reading.add(
                Metric::CpuSeconds,
                &[(Label::Cpu, cpu)],
                second as f64 + index as f64 / 3.0,
            );
        }
        reading.add(Metric::TcpEstablished, &[], 5.0);
        if missing {
            reading.miss("/proc/vmstat", "gone");
        }
        let state = if missing {
            SourceState::Ended { since: Nanos::from_secs(2), status: EndStatus::Exited(1) }
        } else {
            SourceState::Reading
        };
        let (kind, name) = (SourceKind::Process, "haproxy".to_owned());
        reading.add_source(Source { kind, name, pid: Some(7), state });
        reading.sort();
        reading
    }

    #[test]
    fn what_was_written_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = HostWriter::create(dir.path()).unwrap();
        // A series comes and goes, another host is between.
        let readings = [
            reading(1, &["0"], false),
            reading(2, &["0", "1"], true),
            reading(3, &["1"], true),
            reading(4, &["0", "1"], false),
        ];
        for reading in &readings {
            writer.push("proxy", reading).unwrap();
            writer.push("client", &readings[0]).unwrap();
        }
        // Killed in the middle of a line.
        let mut file = OpenOptions::new().append(true).open(dir.path().join(HOSTS)).unwrap();
        file.write_all(b"{\"host\":\"proxy\",\"begin\":7,\"en").unwrap();
        let hosts = read_hosts(dir.path()).unwrap();
        assert_eq!(hosts["proxy"], readings);
        assert_eq!(hosts["client"].len(), readings.len());
    }

    #[test]
    fn an_archive_of_another_version_is_sorted_anew() {
        let dir = tempfile::tempdir().unwrap();
        let lines = concat!(
            r#"{"host":"web1","series":[{"metric":"tcp_established"},{"metric":"context_switches_total"}]}"#,
            "\n",
            r#"{"host":"web1","begin":1,"end":2,"values":[7.0,9.0]}"#,
            "\n"
        );
        std::fs::write(dir.path().join(HOSTS), lines).unwrap();
        let reading = &read_hosts(dir.path()).unwrap()["web1"][0];
        assert_eq!(reading.sum(Metric::ContextSwitches, &[]), Some(9.0));
        assert_eq!(reading.sum(Metric::TcpEstablished, &[]), Some(7.0));
    }

    #[test]
    fn series_of_a_newer_version_are_left_out_and_a_bad_line_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let lines = concat!(
            r#"{"host":"web1","series":[{"metric":"quantum_flux"},{"metric":"tcp_established"}]}"#,
            "\n",
            r#"{"host":"web1","begin":1,"end":2,"values":[7.0,9.0]}"#,
            "\n"
        );
        std::fs::write(dir.path().join(HOSTS), lines).unwrap();
        let reading = &read_hosts(dir.path()).unwrap()["web1"][0];
        assert_eq!(reading.samples.len(), 1);
        assert_eq!(reading.sum(Metric::TcpEstablished, &[]), Some(9.0));
        std::fs::write(dir.path().join(HOSTS), format!("{lines}garbage\n")).unwrap();
        let error = read_hosts(dir.path()).unwrap_err().to_string();
        assert!(error.contains("hosts.jsonl:3: damaged: "), "{error}");
    }

    #[test]
    fn hosts_are_summarised_one_by_one() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = HostWriter::create(dir.path()).unwrap();
        for second in 0..3 {
            writer.push("proxy", &reading(second, &["0"], false)).unwrap();
        }
        writer.push("client", &reading(0, &["0"], false)).unwrap();
        let hosts = summarise_hosts(dir.path()).unwrap();
        assert_eq!(hosts["proxy"].established_max, Some(5.0));
        // One reading is no stretch of time.
        assert_eq!(hosts["client"].established_max, None);
    }

    #[test]
    fn names_are_written_once() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = HostWriter::create(dir.path()).unwrap();
        for second in 0..50 {
            writer.push("proxy", &reading(second, &["0", "1"], true)).unwrap();
        }
        let text = std::fs::read_to_string(dir.path().join(HOSTS)).unwrap();
        assert_eq!(text.lines().count(), 51);
        assert_eq!(text.matches("cpu_seconds_total").count(), 2);
        assert_eq!(text.matches("vmstat").count(), 1);
        assert_eq!(text.matches("\"exited\"").count(), 1);
    }

    #[test]
    fn an_archive_without_hosts_has_none() {
        let dir = tempfile::tempdir().unwrap();
        assert!(read_hosts(dir.path()).unwrap().is_empty());
        assert!(!has_readings(dir.path()));
    }

    #[test]
    fn what_is_stored_of_a_file_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let mut writer = HostWriter::create(dir.path()).unwrap();
        for second in 0..4 {
            writer.push("proxy", &reading(second, &["0"], false)).unwrap();
        }
        assert!(has_readings(dir.path()));
        // Three values in each reading.
        assert!(read_within(dir.path(), 12).is_ok());
        let error = read_within(dir.path(), 11).unwrap_err().to_string();
        assert!(error.contains("hosts.jsonl:5: damaged: its readings take"), "{error}");
        let hosts = |count: usize| {
            let line = |host| format!("{{\"host\":\"{host}\",\"series\":[]}}\n");
            std::fs::write(dir.path().join(HOSTS), (0..count).map(line).collect::<String>())
                .unwrap();
            summarise_hosts(dir.path()).map(drop)
        };
        hosts(HOSTS_MAX).unwrap();
        let error = hosts(HOSTS_MAX + 1).unwrap_err().to_string();
        assert!(error.contains("hosts.jsonl:4097: damaged: it has more than"), "{error}");
    }
}
