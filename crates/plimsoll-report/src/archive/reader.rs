//! The reader of an archive, also of a run that was killed.
//!
//! [`Archive::open`] reads manifest, trials, events and summary into memory; the intervals and rows are too large for
//! that and are read one line at a time through [`Lines`]. Single lines and everything that is kept in memory have
//! upper bounds in bytes. A last line without its end and a missing summary are no errors. An event of an unknown
//! kind is counted as newer and left out; any other damage is reported with file, line and remedy (`unread`). Start
//! reading at [`Archive::open`].

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::marker::PhantomData;
use std::path::{Path, PathBuf};

use plimsoll_model::event::Event;
use plimsoll_model::row::RowBatch;
use plimsoll_model::summary::Summary;
use plimsoll_model::tally::Interval;
use plimsoll_model::trial::TrialRecord;
use plimsoll_sys::input_file;
use serde::de::{DeserializeOwned, Error as _, IgnoredAny};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::files;
use super::manifest::{EVENTS, INTERVALS, MANIFEST, Manifest, ROWS, SCHEMA, SUMMARY, TRIALS};
use crate::error::{ReportError, Result};
use crate::json;
use crate::terminal::layout::clean;

/// One second of one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct IntervalLine<I = Interval> {
    /// Number of the trial; `None` for a plain load.
    pub trial: Option<u32>,
    /// Connections that a hold was to reach then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<u64>,
    /// Counts of the second.
    pub interval: I,
}

/// An archive on disk.
#[derive(Debug)]
pub struct Archive {
    /// The directory.
    pub dir: PathBuf,
    /// The manifest.
    pub manifest: Manifest,
    /// The judged trials in the order in which they ended.
    pub trials: Vec<TrialRecord>,
    /// Every event that is neither an interval nor a judged trial, in order.
    pub events: Vec<Event>,
    /// Lines of events that this program does not know.
    newer: u64,
    /// The run's own summary; `None` when it was killed before it wrote one.
    pub summary: Option<Summary>,
}

impl Archive {
    /// Reads everything but the intervals, which are large and read on demand. A last line that
    /// was cut off is left out; a missing summary is not an error.
    pub fn open(dir: &Path) -> Result<Self> {
        Self::open_within(dir, files::TRIAL_BYTES_MAX)
    }

    pub(super) fn open_within(dir: &Path, trial_bytes_max: u64) -> Result<Self> {
        let manifest = read_manifest(dir)?;
        let trials = read_trials(dir.join(TRIALS), trial_bytes_max)?;
        let (events, newer) = read_events(dir.join(EVENTS))?;
        let summary = read_summary(&dir.join(SUMMARY))?;
        Ok(Self { dir: dir.to_owned(), manifest, trials, events, newer, summary })
    }

    /// Returns one line about the records of a newer version, which were left out.
    pub fn newer_records(&self) -> Option<String> {
        let records = if self.newer == 1 { "record is" } else { "records are" };
        let version = &self.manifest.plimsoll_version;
        (self.newer > 0).then(|| {
            format!(
                "written by plimsoll {version}: {} {records} newer than this program and left out",
                self.newer
            )
        })
    }

    /// Returns the seconds of all loads, read one at a time: an hour of them would fill gigabytes.
    pub fn intervals(&self) -> Result<Lines<IntervalLine>> {
        Lines::open(self.dir.join(INTERVALS))
    }

    /// Returns the number of seconds, without reading their content.
    pub fn interval_count(&self) -> Result<u64> {
        let mut lines = Lines::<IgnoredAny>::open(self.dir.join(INTERVALS))?;
        let mut count = 0;
        while lines.read_line()? {
            count += 1;
        }
        Ok(count)
    }

    /// Returns single operations, read one batch at a time; `None` if none were recorded.
    pub fn rows(&self) -> Result<Option<Lines<RowBatch>>> {
        Lines::open_existing(self.dir.join(ROWS))
    }
}

fn read_trials(path: PathBuf, trial_bytes_max: u64) -> Result<Vec<TrialRecord>> {
    let mut trials = Vec::new();
    let mut bytes = 0;
    let mut lines = Lines::<TrialRecord>::open(path)?;
    while let Some(trial) = lines.next().transpose()? {
        bytes += lines.line.len() as u64 + trial.measurement.tally.histogram_bytes();
        if bytes > trial_bytes_max {
            return Err(lines.refuse(files::TOO_MANY, RESTORE));
        }
        trials.push(trial);
    }
    Ok(trials)
}

/// Returns the events, and how many lines are of a newer version.
fn read_events(path: PathBuf) -> Result<(Vec<Event>, u64)> {
    let mut events = Vec::new();
    let (mut newer, mut bytes) = (0, 0);
    let mut lines = Lines::open(path)?;
    while let Some(line) = lines.next().transpose()? {
        bytes += lines.line.len() as u64;
        if bytes > files::EVENT_BYTES_MAX {
            return Err(lines.refuse(files::TOO_MANY_EVENTS, RESTORE));
        }
        match line {
            EventLine::Known(event) => events.push(event),
            EventLine::Newer => newer += 1,
        }
    }
    Ok((events, newer))
}

/// One line of the events.
enum EventLine {
    Known(Event),
    /// The archive holds a name that this program does not know.
    Newer,
}

impl<'de> Deserialize<'de> for EventLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let value = Value::deserialize(deserializer)?;
        match Event::deserialize(value) {
            Ok(event) => Ok(Self::Known(event)),
            Err(error) if error.to_string().starts_with("unknown variant") => Ok(Self::Newer),
            Err(error) => Err(D::Error::custom(error)),
        }
    }
}

fn read_manifest(dir: &Path) -> Result<Manifest> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
        plimsoll_version: Option<String>,
    }
    let path = dir.join(MANIFEST);
    let text = match files::read_whole(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == ErrorKind::NotFound && dir.is_dir() => {
            return Err(ReportError::NotAnArchive { dir: dir.to_owned() });
        }
        Err(_) if dir.is_file() => return Err(ReportError::IsFile { path: dir.to_owned() }),
        Err(source) if dir.is_dir() => return Err(ReportError::Read { path, source }),
        Err(source) => return Err(ReportError::Read { path: dir.to_owned(), source }),
    };
    let damaged = |e: serde_json::Error| unread(&path, e.line(), &e.to_string(), RESTORE);
    let head: Head = serde_json::from_slice(&text).map_err(damaged)?;
    if head.schema != SCHEMA {
        let (found, by) = (head.schema, head.plimsoll_version);
        let by = by.unwrap_or_else(|| "(version unknown)".to_owned());
        return Err(ReportError::ArchiveSchema { dir: dir.to_owned(), found, by });
    }
    serde_json::from_slice(&text).map_err(damaged)
}

fn read_summary(path: &Path) -> Result<Option<Summary>> {
    match files::read_whole(path) {
        Ok(text) => match json::read_summary(&text) {
            Ok(summary) => Ok(Some(summary)),
            Err(ReportError::Json(e)) => {
                Err(unread(path, e.line(), &e.to_string(), REMOVE_SUMMARY))
            }
            Err(e) => Err(e),
        },
        Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
        Err(e) => Err(ReportError::read(path)(e)),
    }
}

/// Returns a line that cannot be read: what a newer program wrote, or what is damaged, and what to do then.
pub(super) fn unread(path: &Path, line: usize, why: &str, fix: &'static str) -> ReportError {
    let (path, line, why) = (path.to_owned(), line.max(1), clean(why));
    // serde has no other way to distinguish an unknown name from a value of the wrong type.
    if why.starts_with("unknown variant") {
        // All names that are known follow.
        let what = why.split(", expected").next().unwrap_or_default().to_owned();
        return ReportError::Newer { path, line, what };
    }
    ReportError::Damaged { path, line, why, fix }
}

pub(super) const RESTORE: &str = "restore it from a copy of the archive";
const REMOVE_SUMMARY: &str = "remove that file to have it rebuilt from the intervals";
pub(super) const REMOVE_LINE: &str = "remove that line to read the rest";

/// The lines of one file, parsed one at a time. Ends after its first error.
#[derive(Debug)]
pub struct Lines<T> {
    path: PathBuf,
    input: BufReader<File>,
    number: usize,
    line: Vec<u8>,
    ended: bool,
    kind: PhantomData<T>,
}

impl<T: DeserializeOwned> Lines<T> {
    fn open(path: PathBuf) -> Result<Self> {
        let file = input_file::open_regular(&path).map_err(ReportError::read(&path))?;
        let input = BufReader::new(file);
        Ok(Self { path, input, number: 0, line: Vec::new(), ended: false, kind: PhantomData })
    }

    /// Opens a file; returns `None` if it does not exist.
    pub(super) fn open_existing(path: PathBuf) -> Result<Option<Self>> {
        match Self::open(path) {
            Err(ReportError::Read { source, .. }) if source.kind() == ErrorKind::NotFound => {
                Ok(None)
            }
            opened => opened.map(Some),
        }
    }

    /// Returns the error for the last line that was read.
    pub(super) fn refuse(&self, why: &str, fix: &'static str) -> ReportError {
        unread(&self.path, self.number, why, fix)
    }

    /// Reads a line without parsing it; `false` at the end, also before a line that was being written when the run was
    /// killed.
    fn read_line(&mut self) -> Result<bool> {
        self.number += 1;
        self.line.clear();
        let mut input = self.input.by_ref().take(files::LINE_BYTES_MAX as u64 + 1);
        input.read_until(b'\n', &mut self.line).map_err(ReportError::read(&self.path))?;
        if self.line.len() > files::LINE_BYTES_MAX {
            return Err(self.refuse(files::TOO_LONG, REMOVE_LINE));
        }
        Ok(self.line.ends_with(b"\n"))
    }
}

/// Removes "at line 1 column N" from an error of serde_json, for which every line is line 1.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((text, _)) => format!("{text} at column {}", error.column()),
        None => text,
    }
}

impl<T: DeserializeOwned> Iterator for Lines<T> {
    type Item = Result<T>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ended {
            return None;
        }
        let item = match self.read_line() {
            Ok(false) => None,
            Ok(true) => Some(
                serde_json::from_slice(&self.line)
                    .map_err(|error| self.refuse(&without_place(&error), REMOVE_LINE)),
            ),
            Err(error) => Some(Err(error)),
        };
        self.ended = !matches!(item, Some(Ok(_)));
        item
    }
}
