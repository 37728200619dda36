//! `plimsoll watch`: shows what this host does, until a signal stops it.

use std::fs;
use std::fs::File;
use std::io;
use std::io::Write;
use std::time::Duration;

use plimsoll_model::Nanos;
use plimsoll_model::host::Reading;
use plimsoll_probe::sampler::Sampler;
use plimsoll_report::archive::HostWriter;
use plimsoll_report::watch::{History, json_line, line, page};
use plimsoll_sys::signal::Interrupts;
use plimsoll_sys::{affinity, clock};

use crate::exit::Stop;
use crate::flags::WatchFlags;
use crate::flags::values::OutputFile;
use crate::hosts::host_name;
use crate::plan::Inputs;
use crate::plan::host_watch::{self, WatchJob};
use crate::publish::Publisher;
use crate::run;
use crate::screen::Stream;

mod statsd;

use statsd::Receiver;

/// The longest wait in which a signal is not noticed.
const NOTICE_WITHIN: Duration = Duration::from_millis(100);
/// Moves to the first column of the first line, and clears what is below.
const TOP: &str = "\x1b[H\x1b[J";

pub(crate) fn run(flags: &WatchFlags) -> Result<(), Stop> {
    let mut stdin = io::stdin();
    let job = host_watch::build(flags, &Inputs::of_host(&mut stdin))?;
    let interrupts = run::install_interrupts()?;
    Publisher::during(&job.publish, &interrupts, |publisher| {
        let mut watch = Watch::begin(&job, publisher)?;
        // A busy host must not delay the readings that show how busy it is.
        affinity::prefer_latency();
        watch.run(&job, &interrupts)
    })
}

/// Readings, and the places they go to.
struct Watch<'a> {
    host: String,
    sampler: Sampler,
    history: History,
    archive: Option<HostWriter>,
    json: Option<Box<dyn Write>>,
    publisher: &'a Publisher,
    receiver: Option<Receiver>,
    screen: Screen,
}

/// What is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Screen {
    Nothing,
    Lines,
    Page,
}

impl<'a> Watch<'a> {
    fn begin(job: &WatchJob, publisher: &'a Publisher) -> Result<Self, Stop> {
        let host = host_name();
        let json = match &job.json {
            None => None,
            Some(OutputFile::Stdout) => Some(Box::new(io::stdout()) as Box<dyn Write>),
            Some(OutputFile::File(path)) => {
                let cannot =
                    |error| Stop::CannotRun(format!("cannot write {}: {error}", path.display()));
                Some(Box::new(File::create(path).map_err(cannot)?) as Box<dyn Write>)
            }
        };
        let archive = job.out.as_ref().map(|dir| {
            let cannot = |why: String| {
                Stop::CannotRun(format!("cannot archive to {}: {why}", dir.display()))
            };
            fs::create_dir_all(dir).map_err(|error| cannot(error.to_string()))?;
            HostWriter::create(dir).map_err(|error| cannot(error.to_string()))
        });
        let screen = match (job.ui, Stream::Out.draws()) {
            (false, _) => Screen::Nothing,
            (true, _) if job.json == Some(OutputFile::Stdout) => Screen::Nothing,
            (true, true) => Screen::Page,
            (true, false) => Screen::Lines,
        };
        let receiver = job.statsd_listen.map(Receiver::start).transpose()?;
        if let Some(receiver) = &receiver {
            let _ = writeln!(io::stderr(), "receiving StatsD on {}", receiver.address());
        }
        Ok(Self {
            host,
            sampler: Sampler::new(job.scope.clone()),
            history: History::default(),
            archive: archive.transpose()?,
            json,
            publisher,
            receiver,
            screen,
        })
    }

    /// Reads at whole intervals after the beginning. A stop signal is its regular end.
    fn run(&mut self, job: &WatchJob, interrupts: &Interrupts) -> Result<(), Stop> {
        let began = now();
        let end = job.duration.map(|duration| Nanos(began.0.saturating_add(duration.0)));
        let mut due = began;
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
            due = Nanos(due.0.saturating_add(job.interval.0));
            // A reading that would be late by a whole interval is left out.
            while now() > Nanos(due.0.saturating_add(job.interval.0)) {
                due = Nanos(due.0.saturating_add(job.interval.0));
                self.sampler.miss();
            }
            if end.is_some_and(|end| due > end) {
                return Ok(());
            }
        }
    }

    /// Writes a reading to every output; false when standard output was closed.
    fn show(&mut self, reading: Reading) -> Result<bool, Stop> {
        let cannot = |error: plimsoll_report::ReportError| Stop::CannotRun(error.to_string());
        if let Some(archive) = &mut self.archive {
            archive.push(&self.host, &reading).map_err(cannot)?;
        }
        self.publisher.handle_reading(&self.host, &reading);
        while let Some(note) = self.publisher.note() {
            let _ = writeln!(io::stderr(), "{note}");
        }
        self.history.push(reading);
        let unix_s = clock::unix_seconds();
        if let Some(json) = &mut self.json
            && let Some(line) = json_line(&self.host, &self.history, unix_s).map_err(cannot)?
            && writeln!(json, "{line}").and_then(|()| json.flush()).is_err()
        {
            return Ok(false);
        }
        let mut out = io::stdout();
        let shown = match self.screen {
            Screen::Nothing => Ok(()),
            Screen::Lines => match line(&self.history, unix_s) {
                Some(line) => writeln!(out, "{line}"),
                None => Ok(()),
            },
            Screen::Page => {
                let mut text = TOP.as_bytes().to_vec();
                page(&mut text, Stream::Out.style(), &self.host, &self.history)
                    .and_then(|()| out.write_all(&text))
            }
        };
        Ok(shown.and_then(|()| out.flush()).is_ok())
    }
}

/// False when a signal came first.
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

fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}
