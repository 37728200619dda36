//! One invocation: hands every event to every sink, and writes the report at the end.

use std::io::IsTerminal;
use std::io::Write;
use std::path::PathBuf;

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::summary::Summary;
use plimsoll_model::trial::TrialRecord;
use plimsoll_report::ArchiveWriter;
use plimsoll_report::Progress;
use plimsoll_report::ProgressMode;
use plimsoll_report::Style;
use plimsoll_report::archive::Manifest;
use plimsoll_report::archive::ManifestHead;
use plimsoll_report::archive::SearchHead;
use plimsoll_report::json;
use plimsoll_report::terminal;
use plimsoll_report::time_text;
use plimsoll_sys::clock;
use plimsoll_sys::signal::Interrupts;

use crate::exit::Stop;
use crate::flags::values::OutputFile;
use crate::hosts::archived_host;
use crate::plan::load::LoadJob;

/// Where archives go that nobody named a place for.
const ARCHIVES: &str = "plimsoll-runs";

/// What a run is called and where its results go.
pub(crate) struct RunHead<'a> {
    /// `load`, `find`, `lab`.
    pub(crate) command: &'static str,
    /// What is run.
    pub(crate) job: &'a LoadJob,
    /// What is searched for.
    pub(crate) search: Option<SearchHead>,
    /// Whether an archive is written even if no place for it was named.
    pub(crate) always_archive: bool,
}

/// The sinks of one invocation.
pub(crate) struct Run {
    /// Whether the user wants to stop.
    pub(crate) interrupts: Interrupts,
    /// RFC 3339.
    pub(crate) started_at: String,
    began: Nanos,
    progress: Progress,
    archive: Option<(ArchiveWriter, PathBuf)>,
    json: Option<OutputFile>,
}

impl Run {
    /// Opens the sinks; the archive's directory is made now, so that a bad place is known first.
    pub(crate) fn begin(head: RunHead<'_>, interrupts: Interrupts) -> Result<Self, Stop> {
        let unix_s = clock::unix_seconds();
        let started_at = time_text::rfc3339(unix_s);
        let job = head.job;
        let place = job.out.clone().or_else(|| {
            let stamp = time_text::compact(unix_s);
            let name = format!("{stamp}-{}-{}", head.command, std::process::id());
            head.always_archive.then(|| PathBuf::from(ARCHIVES).join(name))
        });
        let archive = match place {
            None => None,
            Some(dir) => {
                let args: Vec<String> = std::env::args().collect();
                let manifest = Manifest::new(ManifestHead {
                    plimsoll_version: env!("CARGO_PKG_VERSION"),
                    command: head.command,
                    args: &args,
                    target: &job.target_name,
                    started_at: &started_at,
                    host: archived_host(),
                    settings: settings(job, &job.plan),
                    search: head.search,
                    plan: &job.plan,
                });
                let writer = ArchiveWriter::create(&dir, &manifest)
                    .map_err(|error| Stop::CannotRun(error.to_string()))?;
                Some((writer, dir))
            }
        };
        let mode = match (job.ui, std::io::stderr().is_terminal()) {
            (false, _) => ProgressMode::Silent,
            (true, true) => ProgressMode::Bar,
            (true, false) => ProgressMode::Lines,
        };
        Ok(Self {
            interrupts,
            started_at,
            began: now(),
            progress: Progress::new(mode),
            archive,
            json: job.json.clone(),
        })
    }

    /// Time since the run began.
    pub(crate) fn elapsed(&self) -> Nanos {
        now().since(self.began)
    }

    /// Hands an event to every sink.
    pub(crate) fn handle_event(&mut self, event: &Event) {
        let elapsed = self.elapsed();
        self.progress.handle_event(event, elapsed, &mut std::io::stderr());
        if let Some((archive, _)) = &mut self.archive
            && let Err(error) = archive.handle_event(event)
        {
            let _ = writeln!(std::io::stderr(), "plimsoll: {error}; the run goes on without it");
        }
    }

    /// Lets live displays move on.
    pub(crate) fn handle_tick(&mut self) {
        let elapsed = self.elapsed();
        self.progress.handle_tick(elapsed);
    }

    /// The archive's directory.
    pub(crate) fn archive_dir(&self) -> Option<String> {
        self.archive.as_ref().map(|(_, dir)| dir.display().to_string())
    }

    /// Writes summary, JSON and the report. With `--json -` the report goes to standard error.
    pub(crate) fn finish(mut self, summary: &Summary, trials: &[TrialRecord]) -> Result<(), Stop> {
        self.progress.finish();
        let archived = match self.archive.take() {
            Some((archive, _)) => archive.finish(summary),
            None => Ok(()),
        };
        let json_to_stdout = self.json == Some(OutputFile::Stdout);
        let text = report_text(summary, trials, json_to_stdout)?;
        let shown = if json_to_stdout {
            std::io::stderr().write_all(&text)
        } else {
            std::io::stdout().write_all(&text)
        };
        // A reader that has gone away must not keep the JSON from being written.
        drop(shown);
        if let Some(place) = &self.json {
            write_json(place, summary)?;
        }
        archived.map_err(|error| Stop::CannotRun(error.to_string()))
    }
}

fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}

fn report_text(
    summary: &Summary,
    trials: &[TrialRecord],
    to_stderr: bool,
) -> Result<Vec<u8>, Stop> {
    let mut text = Vec::new();
    terminal::render(summary, trials, style(to_stderr), &mut text)
        .map_err(|error| Stop::CannotRun(format!("cannot draw the report: {error}")))?;
    Ok(text)
}

/// Colours only on a terminal, and never against NO_COLOR.
pub(crate) fn style(stderr: bool) -> Style {
    let terminal =
        if stderr { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
    Style { color: terminal && std::env::var_os("NO_COLOR").is_none(), ..Style::default() }
}

/// Writes the summary object to where `--json` says.
pub(crate) fn write_json(place: &OutputFile, summary: &Summary) -> Result<(), Stop> {
    let written = match place {
        OutputFile::Stdout => json::write_summary(summary, &mut std::io::stdout()),
        OutputFile::File(path) => {
            let mut file = std::fs::File::create(path).map_err(|error| {
                Stop::CannotRun(format!("cannot write --json {}: {error}", path.display()))
            })?;
            json::write_summary(summary, &mut file)
        }
    };
    written.map_err(|error| Stop::CannotRun(format!("cannot write the JSON: {error}")))
}

/// The settings that shape the measurement: what the plan says, and what was typed that it no
/// longer tells.
pub(crate) fn settings(
    job: &LoadJob,
    plan: &LoadPlan,
) -> std::collections::BTreeMap<String, String> {
    let mut settings = plimsoll_report::settings::from_plan(plan);
    settings.extend(job.settings.clone());
    settings
}

/// Takes over SIGINT and SIGTERM.
pub(crate) fn install_interrupts() -> Result<Interrupts, Stop> {
    Interrupts::install().map_err(|error| Stop::CannotRun(format!("cannot take signals: {error}")))
}

/// How an interrupted command ends.
pub(crate) fn interrupted_stop(interrupts: &Interrupts) -> Stop {
    match interrupts.exit_code() {
        Some(143) => Stop::Terminated,
        _ => Stop::Interrupted,
    }
}
