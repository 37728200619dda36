//! The sink that writes the archive of a run while the run is in progress.
//!
//! [`ArchiveWriter::create`] makes the directory and its files, the manifest last. [`ArchiveWriter::handle_event`]
//! then appends each event as one JSON line: seconds to the intervals, judged trials to the trials, batches of
//! operations to the rows, everything else to the events. Lines are not buffered, so a killed run loses at most the
//! line that was being written. The first failure is returned; after it, only [`ArchiveWriter::finish`] still tries
//! to write the summary. Start reading at `ArchiveWriter::store`.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::{fs, io};

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::{Judgement, TrialMeasurement};
use plimsoll_sys::whole_file::WholeFile;
use plimsoll_sys::{output_file, private_dir};
use serde::Serialize;

use super::manifest::{EVENTS, INTERVALS, MANIFEST, Manifest, ROWS, SUMMARY, TRIALS};
use super::reader::IntervalLine;
use crate::error::{ReportError, Result};
use crate::json;
use crate::state::RunState;
use crate::terminal::findings::worded;

/// Writes the events of one run into a directory.
#[derive(Debug)]
pub struct ArchiveWriter {
    dir: PathBuf,
    intervals: LineFile,
    trials: LineFile,
    events: LineFile,
    /// Made with the first row.
    rows: Option<LineFile>,
    /// The state by the events of that file, without seconds and judged trials.
    run: RunState,
    /// An error was reported: nothing more is written, and no further error is raised.
    failed: bool,
}

/// A judged trial with the words of its checks.
#[derive(Serialize)]
struct TrialOut<'a> {
    measurement: &'a TrialMeasurement,
    judgement: Judgement,
}

impl ArchiveWriter {
    /// Creates `dir` and its parents and writes the manifest; a directory that is not empty is refused, and so is a
    /// link. Only the user can read the files, and enter a directory that is created here.
    pub fn create(dir: &Path, manifest: &Manifest) -> Result<Self> {
        Self::begin(dir, manifest).map_err(|error| match error {
            ReportError::Write { source, .. } | ReportError::Read { source, .. } => {
                ReportError::Create { dir: dir.to_owned(), source }
            }
            other => other,
        })
    }

    fn begin(dir: &Path, manifest: &Manifest) -> Result<Self> {
        private_dir::create_missing(dir).map_err(ReportError::write(dir))?;
        let mut entries = fs::read_dir(dir).map_err(ReportError::read(dir))?;
        if entries.next().is_some() {
            return Err(ReportError::NotEmpty { dir: dir.to_owned() });
        }
        let out = Self {
            dir: dir.to_owned(),
            intervals: LineFile::create(dir.join(INTERVALS))?,
            trials: LineFile::create(dir.join(TRIALS))?,
            events: LineFile::create(dir.join(EVENTS))?,
            rows: None,
            run: RunState::default(),
            failed: false,
        };
        // The manifest is written last: if it exists, the other files exist, too.
        let mut text = serde_json::to_vec_pretty(manifest)?;
        text.push(b'\n');
        write_whole(dir, MANIFEST, &text)?;
        Ok(out)
    }

    /// Stores an event. The first failure is returned; after it the archive stays as it is, and
    /// every further call does nothing and succeeds.
    pub fn handle_event(&mut self, event: &Event) -> Result<()> {
        if self.failed {
            return Ok(());
        }
        let stored = self.store(event);
        self.failed = stored.is_err();
        stored
    }

    fn store(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Interval(interval) => {
                let (trial, asked, interval) = (self.run.number(), self.run.asked, &**interval);
                self.intervals.push(&IntervalLine { trial, asked, interval })
            }
            Event::Rows(batch) => match &mut self.rows {
                Some(rows) => rows.push(batch),
                none => none.insert(LineFile::create(self.dir.join(ROWS))?).push(batch),
            },
            Event::TrialEnded(record) => {
                let judgement = worded(&record.judgement);
                self.trials.push(&TrialOut { measurement: &record.measurement, judgement })
            }
            other => {
                self.run.handle_event(other, Nanos::ZERO);
                self.events.push(other)
            }
        }
    }

    /// Writes the summary, whole or not at all. Tried also after a failure, in case it fits; then
    /// its own failure is not reported again.
    pub fn finish(self, summary: &Summary) -> Result<()> {
        let mut text = Vec::new();
        let written = json::write_summary(summary, &mut text)
            .and_then(|()| write_whole(&self.dir, SUMMARY, &text));
        if self.failed { Ok(()) } else { written }
    }
}

fn write_whole(dir: &Path, name: &str, text: &[u8]) -> Result<()> {
    let path = dir.join(name);
    WholeFile::write(&path, text).map_err(ReportError::write(&path))
}

/// A file of JSON lines.
#[derive(Debug)]
pub(super) struct LineFile {
    path: PathBuf,
    file: File,
    line: Vec<u8>,
}

impl LineFile {
    pub(super) fn create(path: PathBuf) -> Result<Self> {
        let file = output_file::create_new(&path).map_err(ReportError::write(&path))?;
        Ok(Self { path, file, line: Vec::new() })
    }

    /// Writes a line without buffering: there is about one per second, and a killed run keeps them all.
    pub(super) fn push<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, value)
            .map_err(io::Error::other)
            .and_then(|()| {
                self.line.push(b'\n');
                self.file.write_all(&self.line)
            })
            .map_err(ReportError::write(&self.path))
    }
}

#[cfg(test)]
impl ArchiveWriter {
    /// Lets further intervals go to another file.
    pub(crate) fn replace_intervals_for_test(&mut self, path: &Path) {
        let file = output_file::rewrite(path).expect("the test's file opens");
        self.intervals = LineFile { path: path.to_owned(), file, line: Vec::new() };
    }
}
