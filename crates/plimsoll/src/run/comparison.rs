//! The sinks of one comparison. Its measurements are runs of their own; here goes what stands
//! above them: progress in plain lines, the archive, the report.

use std::io;
use std::io::Write;
use std::path::{Path, PathBuf};

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::summary::Summary;
use plimsoll_report::archive::{ComparisonHead, Manifest};
use plimsoll_report::{ArchiveWriter, ReportError, terminal, time_text};
use plimsoll_sys::clock;

use super::{archive_place, now, report_stream, show, write_json};
use crate::exit::Stop;
use crate::flags::values::OutputFile;
use crate::hosts::archived_host;
use crate::plan::compare::CompareJob;

/// A comparison under way.
pub(crate) struct ComparisonRun {
    /// RFC 3339.
    pub(crate) started_at: String,
    began: Nanos,
    dir: PathBuf,
    archive: ArchiveWriter,
    /// Why the archive is not whole.
    archive_error: Option<ReportError>,
    json: Option<OutputFile>,
    ui: bool,
}

impl ComparisonRun {
    /// Makes the archive's directory, below which every measurement gets its own.
    pub(crate) fn begin(job: &CompareJob) -> Result<Self, Stop> {
        let unix_s = clock::unix_seconds();
        let started_at = time_text::rfc3339(unix_s);
        let dir = job.out.clone().unwrap_or_else(|| archive_place("compare", unix_s));
        let manifest = Manifest::of_comparison(ComparisonHead {
            plimsoll_version: env!("CARGO_PKG_VERSION"),
            args: &job.args_redacted(std::env::args()),
            target: &job.target_name(),
            started_at: &started_at,
            host: archived_host(),
            seed: job.seed,
            settings: job.settings(),
        });
        let archive = ArchiveWriter::create(&dir, &manifest)
            .map_err(|error| Stop::CannotRun(error.to_string()))?;
        Ok(Self {
            started_at,
            began: now(),
            dir,
            archive,
            archive_error: None,
            json: job.json.clone(),
            ui: job.ui,
        })
    }

    /// Time since the comparison began.
    pub(crate) fn elapsed(&self) -> Nanos {
        now().since(self.began)
    }

    /// The archive's directory.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The same for a summary, while the archive holds everything.
    pub(crate) fn archive_dir(&self) -> Option<String> {
        self.archive_error.is_none().then(|| self.dir.display().to_string())
    }

    /// Shows and stores a line.
    pub(crate) fn note(&mut self, line: String) {
        self.show(&line);
        if let Err(error) = self.archive.handle_event(&Event::Note(line)) {
            self.show(&format!("{error}; the comparison continues without it"));
            self.archive_error = Some(error);
        }
    }

    fn show(&self, line: &str) {
        if self.ui {
            // Nobody may be listening any more; the comparison goes on.
            let _ = writeln!(io::stderr(), "{line}");
        }
    }

    /// Writes summary, JSON and the report. With `--json -` the report goes to standard error.
    pub(crate) fn finish(self, summary: &Summary) -> Result<(), Stop> {
        let mut summary = summary.clone();
        let archived = self.archive.finish(&summary).err().or(self.archive_error);
        if archived.is_some() {
            summary.archive = None;
        }
        let stream = report_stream(self.json.as_ref());
        let mut text = Vec::new();
        terminal::render(&summary, &[], stream.style(), &mut text)
            .map_err(|error| Stop::CannotRun(format!("cannot draw the report: {error}")))?;
        // One sink that cannot be written keeps none of the others from it.
        let shown = show(stream, &text);
        let json = self.json.as_ref().map_or(Ok(()), |place| write_json(place, &summary));
        let archived = archived.map_or(Ok(()), |error| {
            Err(Stop::CannotRun(format!("{error}; the archive is not whole")))
        });
        shown.and(json).and(archived)
    }
}
