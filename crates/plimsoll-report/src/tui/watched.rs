//! The state of the screen of `watch`: points of the graphs, and limits, processes and events.
//!
//! [`Watched::handle_reading`] takes the newest interval of a [`History`] and makes a [`Point`] for the graphs and a
//! [`Now`] with the details; `tui/graphs.rs` draws both. At most 300 points, 64 limits and 100 lines of events and of
//! notes are stored. A value that was not read is `None`; the functions at the end of the file show it as `-`. Start
//! reading at [`Watched::handle_reading`].

use std::collections::VecDeque;

use plimsoll_model::Nanos;
use plimsoll_model::host::{
    Change, Label, LimitId, LimitKind, LimitUse, Metric, Reading, fullest_limits,
};
use plimsoll_model::units::grouped;

use super::state::{push, push_line};
use crate::state::HostRow;
use crate::terminal::layout::{Tone, bytes, clean, cpu_percent, span};
use crate::view::{Panel, link, panel_of};
use crate::watch::{
    Cpu, History, Traffic, busiest_thread, cost, cpus, cpus_now, events, limit_text, limit_tone,
    missing, rate_text, servers, sources_down, sources_lost, traffic,
};

/// Readings that a graph shows at most.
const POINTS_MAX: usize = 300;
/// Limits that are listed at most, the fullest first.
const LIMITS_MAX: usize = 64;

/// The state of a watched host: as of the last reading, of bounded size.
#[derive(Clone, Debug, Default)]
pub struct Watched {
    pub(super) host: String,
    pub(super) interval: Nanos,
    /// Until it is stopped, where there is none.
    pub(super) planned: Option<Nanos>,
    /// One for each interval, the oldest first.
    pub(super) points: VecDeque<Point>,
    pub(super) now: Option<Now>,
    /// The latest last.
    pub(super) events: VecDeque<String>,
    pub(super) notes: VecDeque<String>,
}

/// The graphs' values of one interval. A value that was not read is `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct Point {
    /// Traffic is of all interfaces, loopback among them.
    pub(super) row: HostRow,
    /// Busy share of each CPU, percent.
    pub(super) cpus: Vec<u8>,
}

/// The last interval in more detail.
#[derive(Clone, Debug, Default)]
pub(super) struct Now {
    pub(super) opened_per_s: Option<f64>,
    pub(super) loopback: Traffic,
    /// Share of its rate that the fullest interface takes in and sends.
    pub(super) link: [Option<f64>; 2],
    pub(super) memory_total: Option<f64>,
    pub(super) memory_available: Option<f64>,
    pub(super) memory_slab: Option<f64>,
    pub(super) cpus: Vec<Cpu>,
    /// CPUs that a control group of what is watched may use.
    pub(super) cpu_quota: Option<f64>,
    /// The fullest first, each with what is said of it.
    pub(super) limits: Vec<(LimitUse, String)>,
    pub(super) processes: Vec<Process>,
    pub(super) busiest_thread: Option<String>,
    /// Figures that servers report of themselves, a line each.
    pub(super) servers: Vec<String>,
    /// Sources that cannot be read, a line each.
    pub(super) sources_down: Vec<String>,
    /// Events of the interval that should not happen.
    pub(super) events: Vec<String>,
    /// Values that could not be read, and the cost of reading.
    pub(super) remarks: Vec<String>,
}

/// A process that is watched.
#[derive(Clone, Debug, Default)]
pub(super) struct Process {
    pub(super) name: String,
    /// CPUs that its threads used, and had to wait for.
    pub(super) cpu: Option<f64>,
    pub(super) waited: Option<f64>,
    pub(super) threads: Option<f64>,
    pub(super) resident: Option<f64>,
    /// Open files, and how many it may have.
    pub(super) files: Option<(f64, f64)>,
}

impl Watched {
    /// Creates the state before the first reading.
    pub fn new(host: &str, interval: Nanos, planned: Option<Nanos>) -> Self {
        Self { host: clean(host), interval, planned, ..Self::default() }
    }

    /// Takes the latest reading of `history`; `elapsed` since watching began.
    pub fn handle_reading(&mut self, history: &History, elapsed: Nanos) {
        let Some(change) = history.change() else { return };
        push(&mut self.points, POINTS_MAX, point(&change));
        let now = now(&change, history);
        let at = span(elapsed.as_secs_f64().floor());
        for lost in sources_lost(change.after()) {
            push_line(&mut self.events, format!("{at}: {lost}"));
        }
        if !now.events.is_empty() {
            push_line(&mut self.events, format!("{at}: {}", now.events.join("; ")));
        }
        self.now = Some(now);
    }

    /// Shows a line, and keeps it for after the end.
    pub fn note(&mut self, text: &str) {
        push_line(&mut self.notes, clean(text));
    }

    /// Notes, the oldest first.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.notes.iter().map(String::as_str)
    }
}

impl Now {
    /// Returns the fullest limit of what `panel` shows.
    pub(super) fn limit(&self, panel: Panel) -> Option<&LimitUse> {
        let mut limits = self.limits.iter().map(|(limit, _)| limit);
        limits.find(|limit| panel_of(limit.id.kind) == Some(panel))
    }

    /// Returns the limits that are nearly reached.
    pub(super) fn near_limits(&self) -> impl Iterator<Item = &str> {
        let is_near = |limit: &LimitUse| matches!(limit_tone(limit), Tone::Warn | Tone::Bad);
        let near = self.limits.iter().filter(move |(limit, _)| is_near(limit));
        near.map(|(_, text)| text.as_str())
    }
}

fn point(change: &Change<'_>) -> Point {
    Point {
        row: HostRow::of(change),
        cpus: cpus(change).iter().map(|cpu| (cpu.busy * 100.0).round() as u8).collect(),
    }
}

fn now(change: &Change<'_>, history: &History) -> Now {
    let reading = change.after();
    let gauge = |metric| reading.sum(metric, &[]);
    let said = |limit: LimitUse| {
        let text = limit_text(&limit, history).replace('\u{a0}', " ");
        (limit, text)
    };
    let quotas = reading.of(Metric::CgroupCpuLimit, &[]).map(|sample| sample.value);
    let server = |(name, items): (&str, Vec<String>)| format!("{name}  {}", items.join("; "));
    let thread = |(name, busy, waited): (String, f64, f64)| {
        format!("{} {} %, waits {} %", clean(&name), cpu_percent(busy), cpu_percent(waited))
    };
    let mut remarks = missing(reading);
    remarks.push(cost(change));
    Now {
        opened_per_s: change.rate(Metric::TcpOpens, &[]),
        loopback: traffic(change, true),
        link: ["receive", "transmit"].map(|direction| link(*change, direction)),
        memory_total: gauge(Metric::MemoryTotalBytes),
        memory_available: gauge(Metric::MemoryAvailableBytes),
        memory_slab: gauge(Metric::MemorySlabBytes),
        cpus: cpus_now(history),
        cpu_quota: quotas.reduce(f64::min),
        limits: fullest_limits(reading, LIMITS_MAX).into_iter().map(said).collect(),
        processes: processes(change, reading),
        busiest_thread: busiest_thread(change).map(thread),
        servers: servers(change).into_iter().map(server).collect(),
        sources_down: sources_down(reading)
            .iter()
            .map(|text| text.replace('\u{a0}', " "))
            .collect(),
        events: events(change),
        remarks,
    }
}

fn processes(change: &Change<'_>, reading: &Reading) -> Vec<Process> {
    let names = reading.of(Metric::ProcessInfo, &[]);
    let names = names.filter_map(|info| info.series.label(Label::Process));
    let process = |name: &str| {
        let rate = |metric| change.rate(metric, &[(Label::Process, name)]);
        let gauge = |metric| reading.sum(metric, &[(Label::Process, name)]);
        let files = LimitId::of(LimitKind::OpenFiles, name);
        let max = reading.sum(Metric::LimitMax, &files.labels());
        Process {
            name: clean(name),
            cpu: rate(Metric::ProcessCpuSeconds),
            waited: rate(Metric::ProcessRunDelaySeconds),
            threads: gauge(Metric::ProcessThreads),
            resident: gauge(Metric::ProcessResidentBytes),
            files: gauge(Metric::ProcessOpenFds).zip(max),
        }
    };
    names.map(process).collect()
}

/// Returns `4,000`, or `-` where it was not read.
pub(super) fn count(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| grouped(value as u64))
}

/// Returns `1.21 MB`, or `-` where it was not read.
pub(super) fn size(value: Option<f64>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| bytes(value as u64).replace('\u{a0}', " "))
}

/// Returns `45 %`, or `-` where it was not read.
pub(super) fn percent(share: Option<f64>) -> String {
    share.map_or_else(|| "-".to_owned(), |share| format!("{} %", cpu_percent(share)))
}

/// Returns `12/s`, or `-` where it was not read.
pub(super) fn per_s(rate: Option<f64>) -> String {
    rate.map_or_else(|| "-".to_owned(), |rate| format!("{}/s", rate_text(rate)))
}
