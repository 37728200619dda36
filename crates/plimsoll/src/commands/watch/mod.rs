//! `plimsoll watch`: shows readings of this host until a signal stops it.
//!
//! [`Watch`] owns the sampler and every output. [`Watch::run`] reads the host at whole intervals after the start and
//! leaves out readings that would be late by an interval. [`Watch::show`] hands each reading to the archive, the
//! publisher, the JSON lines and the display. An output that fails is dropped with a note while the others continue;
//! the command then ends with that error. A closed standard output ends the command. Start with [`Watch::run`].

use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use std::{fmt, io};

use plimsoll_model::Nanos;
use plimsoll_model::host::Reading;
use plimsoll_probe::sampler::Sampler;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_probe::yardstick::Yardstick;
use plimsoll_report::archive::HostWriter;
use plimsoll_report::clean;
use plimsoll_report::tui::Watched;
use plimsoll_report::watch::{History, json_line, line, page};
use plimsoll_sys::signal::Interrupts;
use plimsoll_sys::{affinity, clock, output_file, private_dir};

use crate::clock::now;
use crate::display::Display;
use crate::exit::{Result, Stop};
use crate::flags::WatchFlags;
use crate::flags::values::OutputFile;
use crate::hosts::host_name;
use crate::plan::Inputs;
use crate::plan::host_watch::{self, WatchJob};
use crate::publish::Publisher;
use crate::run;
use crate::screen::{Stream, takes_screen};

mod statsd;

use statsd::Receiver;

/// The longest wait in which a signal is not noticed.
const NOTICE_WITHIN: Duration = Duration::from_millis(100);

pub(crate) fn run(flags: &WatchFlags) -> Result<()> {
    let job = host_watch::build(flags, &Inputs::of_host(io::stdin()))?;
    let interrupts = run::install_interrupts()?;
    Publisher::during(&job.publish, &interrupts, |publisher| {
        let mut watch = Watch::begin(&job, publisher, &interrupts)?;
        // A busy host must not delay the readings that show how busy it is.
        affinity::prefer_latency();
        let watched = watch.run(&job, &interrupts);
        let ended = watch.end();
        watched.and(ended)
    })
}

/// Readings, and the places they go to.
struct Watch<'a> {
    host: String,
    sampler: Sampler,
    /// Measures the CPUs until the end.
    _yardstick: Yardstick,
    history: History,
    archive: Option<HostWriter>,
    json: Option<Json>,
    /// Why an output has ended before the others.
    lost: Option<Stop>,
    publisher: &'a Publisher,
    receiver: Option<Receiver>,
    began: Nanos,
    shown: Shown,
}

/// The output of JSON lines.
struct Json {
    out: Box<dyn Write>,
    /// `None` for standard output.
    path: Option<PathBuf>,
}

/// The display of readings.
enum Shown {
    Nothing,
    /// In lines on standard output.
    Lines,
    /// On a screen of the terminal.
    Screen(Display<Watched>, Box<Watched>),
}

impl Shown {
    /// Creates a screen where standard output is the terminal that one can be drawn on, else lines.
    fn start(job: &WatchJob, host: &str, began: Nanos, interrupts: &Interrupts) -> Self {
        let WatchFlags { interval, duration, ref json, no_ui, .. } = job.flags;
        if no_ui || *json == Some(OutputFile::Stdout) {
            return Self::Nothing;
        }
        let watched = Watched::new(host, interval, duration);
        if Stream::Out.draws()
            && takes_screen()
            && let Ok(display) = Display::start(watched.clone(), began, interrupts)
        {
            return Self::Screen(display, Box::new(watched));
        }
        Self::Lines
    }

    /// Shows what is no reading.
    fn note(&mut self, text: &str) {
        if let Self::Screen(display, watched) = self {
            watched.note(text);
            display.show(watched);
        } else {
            let _ = writeln!(io::stderr(), "{}", clean(text));
        }
    }
}

impl Json {
    fn create(place: &OutputFile) -> Result<Self> {
        let OutputFile::File(path) = place else {
            return Ok(Self { out: Box::new(io::stdout()), path: None });
        };
        let cannot = |error| Stop::CannotRun(format!("cannot write {}: {error}", path.display()));
        let out = Box::new(output_file::rewrite(path).map_err(cannot)?);
        Ok(Self { out, path: Some(path.clone()) })
    }

    fn write(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.out, "{line}")?;
        self.out.flush()
    }
}

impl<'a> Watch<'a> {
    fn begin(job: &WatchJob, publisher: &'a Publisher, interrupts: &Interrupts) -> Result<Self> {
        let host = host_name();
        let json = job.flags.json.as_ref().map(Json::create).transpose()?;
        let archive = job.flags.out.as_ref().map(|dir| {
            let cannot = |error: &dyn fmt::Display| {
                Stop::CannotRun(format!("cannot archive to {}: {error}", dir.display()))
            };
            private_dir::create_missing(dir).map_err(|error| cannot(&error))?;
            HostWriter::create(dir).map_err(|error| cannot(&error))
        });
        let archive = archive.transpose()?;
        let receiver = job.statsd_listen.map(Receiver::start).transpose()?;
        let began = now();
        // All that can fail has failed before: the message stays on the screen on which the command was typed.
        let mut shown = Shown::start(job, &host, began, interrupts);
        if let Some(receiver) = &receiver {
            shown.note(&format!("receiving StatsD on {}", receiver.address));
        }
        for note in job.scope.servers.iter().filter_map(CounterSource::note) {
            shown.note(&note);
        }
        let yardstick = Yardstick::start(&affinity::usable_cpus());
        Ok(Self {
            host,
            sampler: Sampler::new(job.scope.clone(), yardstick.totals()),
            _yardstick: yardstick,
            history: History::default(),
            archive,
            json,
            lost: None,
            publisher,
            receiver,
            began,
            shown,
        })
    }

    /// Reads at whole intervals after the beginning. A stop signal is its regular end.
    fn run(&mut self, job: &WatchJob, interrupts: &Interrupts) -> Result<()> {
        let WatchFlags { interval, duration, .. } = job.flags;
        let end = duration.map(|duration| self.began.saturating_add(duration));
        let mut due = self.began;
        loop {
            if !wait_until(due, interrupts) {
                return Ok(());
            }
            let mut reading = self.sampler.read();
            if let Some(receiver) = &mut self.receiver {
                receiver.add_to(&mut reading);
            }
            if !self.show(reading)? {
                return Ok(());
            }
            due = due.saturating_add(interval);
            // A reading that would be late by a whole interval is left out.
            while now() > due.saturating_add(interval) {
                due = due.saturating_add(interval);
                self.sampler.miss();
            }
            if end.is_some_and(|end| due > end) {
                return Ok(());
            }
        }
    }

    /// Writes a reading to every output; returns `false` once the reader of standard output has exited.
    fn show(&mut self, reading: Reading) -> Result<bool> {
        if let Some(archive) = &mut self.archive
            && let Err(error) = archive.push(&self.host, &reading)
        {
            self.archive = None;
            self.lose(error.to_string());
        }
        self.publisher.handle_reading(&self.host, &reading);
        while let Some(note) = self.publisher.note() {
            self.shown.note(&note);
        }
        self.history.push(reading);
        let unix_s = clock::unix_seconds();
        if let Some(json) = &mut self.json {
            let line = json_line(&self.host, &self.history, unix_s).map_err(Stop::cannot_run)?;
            match (line.map_or(Ok(()), |line| json.write(&line)), &json.path) {
                (Ok(()), _) => {}
                (Err(error), Some(path)) => {
                    let why = format!("cannot write {}: {error}", path.display());
                    self.json = None;
                    self.lose(why);
                }
                (written, None) => return goes_on(written),
            }
        }
        match &mut self.shown {
            Shown::Nothing => {}
            Shown::Lines => {
                if let Some(line) = line(&self.history, unix_s) {
                    let mut out = io::stdout();
                    return goes_on(writeln!(out, "{line}").and_then(|()| out.flush()));
                }
            }
            Shown::Screen(display, watched) => {
                watched.handle_reading(&self.history, now().since(self.began));
                display.show(watched);
            }
        }
        Ok(true)
    }

    /// Reports an output that can no longer be written; watching continues with the others.
    fn lose(&mut self, why: String) {
        self.shown.note(&format!("{why}; watching continues without it"));
        self.lost.get_or_insert(Stop::CannotRun(why));
    }

    /// Leaves the screen; what it showed last, and what was noted, stays. An error where an output was lost.
    fn end(self) -> Result<()> {
        if let Shown::Screen(display, watched) = self.shown {
            drop(display);
            let text = page(Stream::Out.style(), &self.host, &self.history);
            let _ = io::stdout().write_all(text.as_bytes());
            for note in watched.notes() {
                let _ = writeln!(io::stderr(), "{}", clean(note));
            }
        }
        self.lost.map_or(Ok(()), Err)
    }
}

/// Reports whether anybody reads standard output; an error where it cannot be written for another reason.
fn goes_on(written: io::Result<()>) -> Result<bool> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Stop::CannotRun(format!("cannot write to standard output: {error}"))),
    }
}

/// Waits until `due`; returns `false` if a signal came first.
fn wait_until(due: Nanos, interrupts: &Interrupts) -> bool {
    loop {
        if interrupts.is_raised() {
            return false;
        }
        let left = Duration::from_nanos(due.0.saturating_sub(now().0));
        if left.is_zero() {
            return true;
        }
        std::thread::sleep(left.min(NOTICE_WITHIN));
    }
}
