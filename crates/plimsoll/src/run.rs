//! One invocation: hands every event to every sink, and writes the report at the end.
//!
//! [`Run::begin`] creates the archive's directory first, so that an error ends the command before any load, then
//! starts the display and the rows. [`Run::handle_event`] passes each event to all of them; a failed archive becomes
//! a note, and the run continues without it. [`Run::finish`] stores the summary, draws the page, and writes the JSON,
//! the rows and the report; one failed sink does not stop the others, and their first error ends the command. Start
//! with [`Run::handle_event`].

use std::io;
use std::io::Write;
use std::mem;
use std::path::{Path, PathBuf};

use plimsoll_model::Nanos;
use plimsoll_model::disruption::Disruption;
use plimsoll_model::event::Event;
use plimsoll_model::host::Reading;
use plimsoll_model::reason::ErrorReasons;
use plimsoll_model::result::RunKind;
use plimsoll_model::settings::{PlannedEvent, Settings};
use plimsoll_model::summary::{RowSummary, Summary};
use plimsoll_model::trial::TrialRecord;
use plimsoll_report::archive::{ArchivedPlan, ClockPair, Manifest, SCHEMA, SearchHead};
use plimsoll_report::terminal::Style;
use plimsoll_report::tui::{Budget, Head, State, Tracker};
use plimsoll_report::view::View;
use plimsoll_report::{
    Archive, ArchiveWriter, Progress, ReportError, json, live, page, terminal, time_text,
};
use plimsoll_sys::clock;
use plimsoll_sys::signal::Interrupts;
use plimsoll_sys::whole_file::WholeFile;

use crate::clock::now;
use crate::display::Display;
use crate::exit::{INTERRUPTED, Result, Stop, TERMINATED};
use crate::flags::values::OutputFile;
use crate::hosts::archived_host;
use crate::output;
use crate::plan::load::LoadJob;
use crate::publish::Publisher;
use crate::rows::RowSink;
use crate::screen;

/// Default directory of archives.
const ARCHIVES: &str = "plimsoll-runs";
/// The page of a run in its archive.
const PAGE: &str = "report.html";
/// Seconds from one line to the next, where no screen can be drawn.
const LINE_EVERY_S: u32 = 1;
/// Period of lines in a log that is stored.
const LINE_EVERY_S_IN_CI: u32 = 10;

/// The name of a run and where its results are written.
pub(crate) struct RunHead<'a> {
    /// `load`, `find`, `lab`.
    pub(crate) command: &'static str,
    /// The kind of the run.
    pub(crate) kind: RunKind,
    /// The command line as archives have it.
    pub(crate) command_line: Vec<String>,
    /// Job of the run.
    pub(crate) job: &'a LoadJob,
    /// Settings that shape the measurement.
    pub(crate) settings: Settings,
    /// Settings of the search.
    pub(crate) search: Option<SearchHead>,
    /// The most time that it takes.
    pub(crate) budget: Option<Budget>,
    /// `true` if an archive is written even without --out.
    pub(crate) always_archive: bool,
    /// Publisher of the run.
    pub(crate) publisher: Publisher,
    /// Interrupts that keys of its screen raise; `None` if its parts have screens of their own.
    pub(crate) interrupts: Option<&'a Interrupts>,
}

/// The sinks of one invocation.
pub(crate) struct Run {
    /// RFC 3339.
    pub(crate) started_at: String,
    began: Nanos,
    shown: Shown,
    archive: Option<(ArchiveWriter, PathBuf)>,
    /// `true` if the archive gets a page, as archives of searches and of the laboratory do.
    draws_page: bool,
    /// Why the archive is incomplete.
    archive_error: Option<ReportError>,
    json: Option<OutputFile>,
    /// The whole report is shown.
    details: bool,
    rows: Option<RowSink>,
    /// Reasons of failures in all loads, by time from the first one's epoch.
    pub(crate) reasons: ErrorReasons,
    /// Epochs of the first load and of the present one.
    epochs: Option<(Nanos, Nanos)>,
    publisher: Publisher,
    /// `true` if its ramps are to be paused; `None` where they cannot be.
    pause: Option<bool>,
}

impl Run {
    /// Opens the sinks; the archive's directory is made now, so that an error ends the command early.
    pub(crate) fn begin(head: RunHead<'_>) -> Result<Self> {
        let clock = ClockPair { monotonic: now(), unix_ns: clock::realtime_ns() };
        let unix_s = clock.unix_ns / 1_000_000_000;
        let started_at = time_text::rfc3339(unix_s);
        let job = head.job;
        let place = job
            .output
            .out
            .clone()
            .or_else(|| head.always_archive.then(|| archive_place(head.command, unix_s)));
        let manifest = Manifest {
            schema: SCHEMA.to_owned(),
            plimsoll_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: head.command.to_owned(),
            kind: head.kind,
            command_line: head.command_line,
            target: job.target_name.clone(),
            started_at: started_at.clone(),
            clock,
            host: archived_host(),
            seed: job.plan.seed,
            settings: head.settings,
            search: head.search,
            plan: ArchivedPlan::of(&job.plan),
            merged_from: Vec::new(),
        };
        let create =
            |dir: PathBuf| ArchiveWriter::create(&dir, &manifest).map(|writer| (writer, dir));
        let archive = place.map(create).transpose().map_err(Stop::cannot_run)?;
        let name = archive.as_ref().and_then(|(_, dir)| dir.file_name());
        let run =
            name.map_or_else(|| started_at.clone(), |name| name.to_string_lossy().into_owned());
        head.publisher.begin(|| live::RunHead {
            run,
            manifest,
            deadline: job.plan.timeouts.deadline,
        });
        let began = now();
        let tracked = Head {
            command: head.command.to_owned(),
            target: job.target_name.clone(),
            slo: job.slo.as_ref().map(ToString::to_string),
            deadline: job.plan.timeouts.deadline,
            budget: head.budget,
            page: head.publisher.page.clone(),
        };
        let shown = if job.output.no_ui {
            Shown::Nothing
        } else {
            Shown::start(Tracker::new(tracked), began, head.interrupts)
        };
        Ok(Self {
            started_at,
            began,
            shown,
            archive,
            draws_page: head.always_archive,
            archive_error: None,
            reasons: ErrorReasons::default(),
            epochs: None,
            json: job.output.json.clone(),
            details: job.output.details,
            rows: job.rows.clone().map(|rows| RowSink::new(rows, &job.plan, clock)),
            publisher: head.publisher,
            pause: None,
        })
    }

    /// Allows a key to pause the ramps from now on.
    pub(crate) const fn let_pause(&mut self) {
        self.pause = Some(false);
    }

    /// Reports whether somebody wants ramps to be paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.pause == Some(true)
    }

    /// Returns the time since the run began.
    pub(crate) fn elapsed(&self) -> Nanos {
        now().since(self.began)
    }

    /// Hands an event to every sink.
    pub(crate) fn handle_event(&mut self, event: &Event) {
        self.note_reasons(event);
        self.show_event(event);
        self.publisher.handle_event(event);
        if let Some(rows) = &mut self.rows {
            rows.handle_event(event);
        }
        if let Some((archive, _)) = &mut self.archive
            && let Err(error) = archive.handle_event(event)
        {
            self.show_event(&Event::Note(format!("{error}; the run continues without it")));
            self.archive_error = Some(error);
        }
    }

    /// Reports whether a sink shows what hosts do; the archive is written where they are read.
    pub(crate) fn wants_readings(&self) -> bool {
        matches!(self.shown, Shown::Screen(..)) || self.publisher.is_asked()
    }

    /// Hands a reading of `host` to every sink that shows it.
    pub(crate) fn handle_reading(&mut self, host: &str, reading: &Reading) {
        if let Shown::Screen(display, tracker) = &mut self.shown {
            tracker.handle_reading(host, reading);
            display.show(tracker.state());
        }
        self.publisher.handle_reading(host, reading);
    }

    fn show_event(&mut self, event: &Event) {
        let elapsed = self.elapsed();
        match &mut self.shown {
            Shown::Screen(display, tracker) => {
                tracker.handle_event(event, elapsed);
                display.show(tracker.state());
            }
            Shown::Lines(progress) => progress.handle_event(event, elapsed, &mut io::stderr()),
            Shown::Nothing => {}
        }
    }

    /// Lets time go on between events, and passes on what the publisher has to say.
    pub(crate) fn handle_tick(&mut self) {
        while let Some(note) = self.publisher.note() {
            self.handle_event(&Event::Note(note));
        }
        let elapsed = self.elapsed();
        match &mut self.shown {
            Shown::Screen(display, tracker) => {
                while display.poll_pause() {
                    self.pause = self.pause.map(|is_paused| !is_paused);
                    let said = match self.pause {
                        None => "not paused: what is sent, and when, is fixed before it begins",
                        Some(true) => "paused: nothing more is opened until p is pressed again",
                        Some(false) => "connections are opened again",
                    };
                    tracker.say(said, elapsed);
                    display.show(tracker.state());
                }
            }
            Shown::Lines(progress) => progress.handle_tick(elapsed, &mut io::stderr()),
            Shown::Nothing => {}
        }
    }

    /// Records that the run is being ended.
    pub(crate) fn handle_stop(&mut self) {
        if let Shown::Screen(display, tracker) = &mut self.shown {
            tracker.handle_stop();
            display.show(tracker.state());
        }
    }

    /// Returns the archive's directory, if the archive is complete.
    pub(crate) fn archive_dir(&self) -> Option<String> {
        let whole = self.archive_error.is_none();
        self.archive.as_ref().filter(|_| whole).map(|(_, dir)| dir.display().to_string())
    }

    fn note_reasons(&mut self, event: &Event) {
        match event {
            Event::LoadStarted { epoch, .. } => {
                let first = self.epochs.map_or(*epoch, |(first, _)| first);
                self.epochs = Some((first, *epoch));
            }
            Event::Interval(interval) => {
                let (first, present) = self.epochs.unwrap_or_default();
                self.reasons.merge(&interval.tally.failures.reasons, present.since(first));
            }
            _ => {}
        }
    }

    /// Returns the number of single operations that were recorded, if they were to be.
    pub(crate) fn rows(&self) -> Option<RowSummary> {
        self.rows.as_ref().map(RowSink::summary)
    }

    /// Writes summary, JSON, rows and the report, which goes to standard error where something else goes to
    /// standard output.
    pub(crate) fn finish(mut self, summary: &Summary, trials: &[TrialRecord]) -> Result<()> {
        let (json, rows, details) = (self.json.take(), self.rows.take(), self.details);
        let mut summary = summary.clone();
        let archived = self.store(&mut summary);
        let rows_place = rows.as_ref().map(|rows| &rows.job.place);
        let stream = output::report_stream(json.iter().chain(rows_place));
        let style = Style { details, ..stream.style() };
        let text = terminal::render(&summary, trials, style);
        // A sink that fails does not stop the others.
        let shown = output::show(stream, text.as_bytes());
        let json = json.map_or(Ok(()), |place| write_json(&place, &summary));
        let rows = rows.map_or(Ok(()), RowSink::finish);
        shown.and(json).and(rows).and(archived)
    }

    /// Writes the archive alone, which the summary no longer names if it is not whole.
    pub(crate) fn store(mut self, summary: &mut Summary) -> Result<()> {
        if let Some((archive, dir)) = self.archive.take() {
            match archive.finish(summary) {
                Ok(()) if self.draws_page && self.archive_error.is_none() => {
                    if let Err(error) = write_page(&dir, summary) {
                        self.show_event(&Event::Note(format!("no {PAGE}: {error}")));
                    }
                }
                Ok(()) => {}
                Err(error) => {
                    summary.archive = None;
                    self.archive_error = Some(error);
                }
            }
        }
        mem::take(&mut self.shown).end();
        self.publisher.end(summary);
        self.archive_error.map_or(Ok(()), |error| {
            Err(Stop::CannotRun(format!("{error}; the archive is not whole")))
        })
    }
}

/// The display of progress.
#[derive(Default)]
enum Shown {
    /// On a screen of the terminal.
    Screen(Display<State>, Box<Tracker>),
    /// In lines on standard error.
    Lines(Box<Progress>),
    #[default]
    Nothing,
}

impl Shown {
    /// Creates a screen where one can be drawn, else lines.
    fn start(tracker: Tracker, began: Nanos, interrupts: Option<&Interrupts>) -> Self {
        if let Some(interrupts) = interrupts.filter(|_| screen::takes_screen())
            && let Ok(display) = Display::start(tracker.state().clone(), began, interrupts)
        {
            return Self::Screen(display, Box::new(tracker));
        }
        let every_s = if screen::is_ci() { LINE_EVERY_S_IN_CI } else { LINE_EVERY_S };
        Self::Lines(Box::new(Progress::new(every_s)))
    }

    /// Leaves the screen; what was noted is worth reading beside the report.
    fn end(self) {
        if let Self::Screen(display, tracker) = self {
            drop(display);
            for note in tracker.notes() {
                let _ = writeln!(io::stderr(), "{note}");
            }
        }
    }
}

/// Draws the archived run for a browser, beside its other files.
fn write_page(dir: &Path, summary: &Summary) -> Result<(), ReportError> {
    let archive = Archive::open(dir)?;
    // As it was written, with the words of its checks: `report --html` is to give the same bytes.
    let view = View::of_archive(&archive, archive.summary.as_ref().unwrap_or(summary))?;
    let path = dir.join(PAGE);
    WholeFile::write(&path, page::render(&view).as_bytes())
        .map_err(|source| ReportError::Write { path, source })
}

/// Returns the default place of an archive.
fn archive_place(command: &str, unix_s: u64) -> PathBuf {
    let stamp = time_text::compact(unix_s);
    let command = command.replace(' ', "-");
    PathBuf::from(ARCHIVES).join(format!("{stamp}-{command}-{}", std::process::id()))
}

/// Writes the summary object to where `--json` says.
pub(crate) fn write_json(place: &OutputFile, summary: &Summary) -> Result<()> {
    output::write("--json", place, |out| json::write_summary(summary, out))
}

/// Returns the settings that shape the measurement: settings of the plan, and settings that only the flags have.
pub(crate) fn settings(job: &LoadJob) -> Settings {
    let event =
        |one: &Disruption| PlannedEvent { what: one.kind.to_string(), at_s: one.at.as_secs_f64() };
    let events = job.events.event.iter().map(event).collect();
    Settings { load: Some((&job.plan).into()), events, ..job.settings.clone() }
}

/// Takes over SIGINT and SIGTERM.
pub(crate) fn install_interrupts() -> Result<Interrupts> {
    Interrupts::install()
        .map_err(|error| Stop::CannotRun(format!("cannot install signal handlers: {error}")))
}

/// Returns the end of an interrupted command.
pub(crate) fn interrupted_stop(interrupts: &Interrupts) -> Stop {
    Stop::Reported(match interrupts.exit_code() {
        Some(143) => TERMINATED,
        _ => INTERRUPTED,
    })
}
