//! What is known of a run while it goes on.

use std::collections::{BTreeMap, VecDeque};

use plimsoll_model::event::Event;
use plimsoll_model::host::{Change, HostFigures, Metric, Reading};
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::{TrialRecord, Verdict};
use plimsoll_model::{ErrorClass, Histogram, Nanos};

use crate::state::{RunState, Said};
use crate::view::Quantiles;
use crate::watch::{Traffic, traffic};

/// Seconds that the chart shows at most.
const SECONDS_MAX: usize = 300;
/// Trials that are drawn at most; the oldest go first.
const TRIALS_MAX: usize = 400;
/// Notes and lines that are kept.
const LINES_MAX: usize = 100;
/// Hosts that are shown at most.
const HOSTS_MAX: usize = 16;

/// The most time that a run takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// Of its trials together.
    Trials(Nanos),
    /// From its first load on.
    Elapsed(Nanos),
}

/// What a run is, before its first event.
#[derive(Clone, Debug, Default)]
pub struct Head {
    /// `load`, `find`, `lab hold`.
    pub command: String,
    /// What reports call the target.
    pub target: String,
    /// As `--slo` spells it.
    pub slo: Option<String>,
    /// An answer after this is late.
    pub deadline: Option<Nanos>,
    /// The most time that it takes, where there is a limit.
    pub budget: Option<Budget>,
    /// Where a browser finds the page of the run while it goes on, its token included.
    pub page: Option<String>,
}

/// Everything that is drawn: as of the last event, of bounded size.
#[derive(Clone, Debug, Default)]
pub struct State {
    pub(super) head: Head,
    pub(super) run: RunState,
    pub(super) seconds: VecDeque<Second>,
    /// The last second of the current load.
    pub(super) last: Option<Spans>,
    /// The current load: of a search its trial.
    pub(super) whole: Whole,
    pub(super) trials: VecDeque<TrialMark>,
    pub(super) trials_ended: u32,
    /// How long all trials were.
    pub(super) tried: Nanos,
    /// When the first load began.
    pub(super) first_load: Option<Nanos>,
    /// The answer of a search after its last trial.
    pub(super) answer: Option<String>,
    /// Of trials, levels and rounds, the oldest first.
    pub(super) lines: VecDeque<String>,
    pub(super) notes: VecDeque<String>,
    pub(super) hosts: BTreeMap<String, Host>,
    /// Somebody has asked for an end.
    pub(super) stopping: bool,
    /// The answer to a key, and when it was given.
    pub(super) said: Option<(String, Nanos)>,
}

/// One second of a load.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Second {
    pub(super) offered: u64,
    pub(super) ended: u64,
    pub(super) corrected: Quantiles,
    pub(super) uncorrected: Quantiles,
    /// Connections at its end.
    pub(super) held: u64,
    /// Connections that became usable in it.
    pub(super) opened: u64,
    /// Connections that the peer or the network ended in it.
    pub(super) lost: u64,
}

/// Latencies of a stretch of time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Spans {
    pub(super) corrected: Quantiles,
    pub(super) uncorrected: Quantiles,
    pub(super) wire: Quantiles,
    pub(super) send_lag_p99: Option<f64>,
}

/// Counts of a load so far.
#[derive(Clone, Debug, Default)]
pub(super) struct Whole {
    pub(super) scheduled: u64,
    pub(super) ok: u64,
    pub(super) late: u64,
    pub(super) unsent: u64,
    pub(super) failed: u64,
    /// By class, the most first: operations, or attempts at connections where those are more.
    pub(super) errors: Vec<(ErrorClass, u64)>,
    pub(super) opened: u64,
    pub(super) held: u64,
    pub(super) connections_failed: u64,
    pub(super) lost: u64,
    pub(super) spans: Spans,
}

/// A trial that was judged.
#[derive(Clone, Copy, Debug)]
pub(super) struct TrialMark {
    pub(super) per_s: f64,
    pub(super) p99_ms: Option<f64>,
    pub(super) verdict: Verdict,
}

/// What a host did in its last second.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Host {
    pub(super) figures: HostFigures,
    pub(super) available_bytes: Option<f64>,
    pub(super) traffic: Traffic,
}

/// Makes the state from what happens. Histograms stay here: the state is copied several times a second.
#[derive(Debug, Default)]
pub struct Tracker {
    state: State,
    corrected: Histogram,
    uncorrected: Histogram,
    wire: Histogram,
    send_lag: Histogram,
    /// Of operations and losses, and of attempts at connections.
    errors: BTreeMap<ErrorClass, [u64; 2]>,
    readings: BTreeMap<String, Reading>,
}

impl State {
    /// The most time that is left, where there is a limit.
    pub(super) fn left(&self, elapsed: Nanos) -> Option<Nanos> {
        let (budget, spent) = match self.head.budget? {
            Budget::Trials(budget) => (budget, self.tried),
            Budget::Elapsed(budget) => (budget, elapsed.since(self.first_load.unwrap_or(elapsed))),
        };
        Some(budget.since(spent))
    }
}

impl Tracker {
    /// A run before its first event.
    pub fn new(head: Head) -> Self {
        Self { state: State { head, ..State::default() }, ..Self::default() }
    }

    /// What is drawn.
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Notes, the oldest first: they are worth reading after the screen is gone.
    pub fn notes(&self) -> impl Iterator<Item = &str> {
        self.state.notes.iter().map(String::as_str)
    }

    /// Somebody has asked for an end, which comes once open operations have ended.
    pub fn handle_stop(&mut self) {
        self.state.stopping = true;
    }

    /// Answers a key that the run cannot follow.
    pub fn say(&mut self, what: impl Into<String>, elapsed: Nanos) {
        self.state.said = Some((what.into(), elapsed));
    }

    /// Takes an event; `elapsed` since the run began.
    pub fn handle_event(&mut self, event: &Event, elapsed: Nanos) {
        let state = &mut self.state;
        state.run.handle_event(event, elapsed);
        match state.run.said(event) {
            Some(Said::Result(line)) => push(&mut state.lines, line),
            Some(Said::Answer(line)) => state.answer = Some(line),
            Some(Said::Note(line)) => push(&mut state.notes, line),
            None => {}
        }
        match event {
            Event::LoadStarted { .. } => self.begin_load(elapsed),
            Event::Interval(interval) => self.handle_interval(interval),
            Event::TrialEnded(record) => self.handle_trial(record),
            _ => {}
        }
    }

    /// Takes a reading of `host`.
    pub fn handle_reading(&mut self, host: &str, reading: &Reading) {
        if let Some(before) = self.readings.get(host) {
            let change = Change::new(before, reading);
            let [all, lo] = [false, true].map(|loopback| traffic(&change, loopback));
            let seen = Host {
                figures: HostFigures::between(before, reading),
                available_bytes: reading.sum(Metric::MemoryAvailableBytes, &[]),
                traffic: all.plus(lo),
            };
            self.state.hosts.insert(host.to_owned(), seen);
        }
        if self.readings.len() < HOSTS_MAX || self.readings.contains_key(host) {
            self.readings.insert(host.to_owned(), reading.clone());
        }
    }

    fn begin_load(&mut self, elapsed: Nanos) {
        let state = &mut self.state;
        state.first_load.get_or_insert(elapsed);
        state.last = None;
        state.whole = Whole::default();
        self.errors.clear();
        for latencies in
            [&mut self.corrected, &mut self.uncorrected, &mut self.wire, &mut self.send_lag]
        {
            latencies.clear();
        }
    }

    fn handle_interval(&mut self, interval: &Interval) {
        let tally = &interval.tally;
        let spans = &tally.spans;
        for (whole, latencies) in [
            (&mut self.corrected, &spans.corrected),
            (&mut self.uncorrected, &spans.uncorrected),
            (&mut self.wire, &spans.wire),
            (&mut self.send_lag, &spans.send_lag),
        ] {
            whole.merge(latencies);
        }
        let of = |corrected, uncorrected, wire, send_lag: &Histogram| Spans {
            corrected: Quantiles::of(corrected),
            uncorrected: Quantiles::of(uncorrected),
            wire: Quantiles::of(wire),
            send_lag_p99: send_lag.quantile(0.99).map(Nanos::as_millis_f64),
        };
        let last = of(&spans.corrected, &spans.uncorrected, &spans.wire, &spans.send_lag);
        let whole = of(&self.corrected, &self.uncorrected, &self.wire, &self.send_lag);
        let ended = tally.errors.iter().chain(tally.losses.iter()).map(|one| (0, one));
        let attempts = tally.connection_errors.iter().map(|one| (1, one));
        for (kind, (class, count)) in ended.chain(attempts) {
            self.errors.entry(class).or_default()[kind] += count;
        }
        let state = &mut self.state;
        state.whole.add(tally, whole);
        state.whole.errors = self
            .errors
            .iter()
            .map(|(class, [ended, attempts])| (*class, *ended.max(attempts)))
            .collect();
        state.whole.errors.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        state.last = Some(last);
        if state.seconds.len() == SECONDS_MAX {
            state.seconds.pop_front();
        }
        state.seconds.push_back(Second {
            offered: tally.scheduled,
            ended: tally.ok + tally.errors_total(),
            corrected: last.corrected,
            uncorrected: last.uncorrected,
            held: tally.connections.held_end,
            opened: tally.connections.opened,
            lost: lost(tally),
        });
    }

    fn handle_trial(&mut self, record: &TrialRecord) {
        let state = &mut self.state;
        let verdict = record.judgement.verdict;
        let rate = record.measurement.request.rate;
        let p99 = record.measurement.tally.spans.corrected.quantile(0.99);
        if state.trials.len() == TRIALS_MAX {
            state.trials.pop_front();
        }
        state.trials_ended += 1;
        state.tried = state.tried + record.measurement.window;
        state.trials.push_back(TrialMark {
            per_s: rate.get(),
            p99_ms: p99.map(Nanos::as_millis_f64),
            verdict,
        });
    }
}

impl Whole {
    fn add(&mut self, tally: &Tally, spans: Spans) {
        self.scheduled += tally.scheduled;
        self.ok += tally.ok;
        self.late += tally.late;
        self.unsent += tally.unsent;
        self.failed += tally.errors_total();
        self.opened += tally.connections.opened;
        self.held = tally.connections.held_end;
        self.connections_failed += tally.connections.failed;
        self.lost += lost(tally);
        self.spans = spans;
    }
}

/// Connections that were lost. Those of a hold are counted by class, and by who ended them where that was the peer.
fn lost(tally: &Tally) -> u64 {
    let by_peer = tally.connections.reset_by_peer + tally.connections.closed_by_peer;
    by_peer.max(tally.losses.total())
}

/// Adds a line; the oldest goes where there are too many.
pub(super) fn push(lines: &mut VecDeque<String>, line: String) {
    if lines.len() == LINES_MAX {
        lines.pop_front();
    }
    lines.push_back(line.replace('\u{a0}', " "));
}
