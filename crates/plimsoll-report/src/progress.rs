//! What is going on, while it goes on: one live line on a terminal, a few plain lines elsewhere.
//!
//! Shows the last second, keeps no record. A terminal that cannot be written to is ignored: the
//! run matters more than its progress.

use std::collections::BTreeMap;
use std::io::Write;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use plimsoll_model::compare::BlockStart;
use plimsoll_model::event::Event;
use plimsoll_model::host::{HostFigures, Reading};
use plimsoll_model::tally::Interval;
use plimsoll_model::trial::{TrialRecord, TrialRequest, Verdict};
use plimsoll_model::units::grouped;
use plimsoll_model::{Histogram, Nanos, Rate};

use crate::terminal::layout::{clean, cpu_percent, ms_text, percent};
use crate::terminal::{level_line, plateau_line, render_trial_line};

mod holding;

use holding::Holding;

/// Draws per second at most; more cannot be read.
const DRAWS_PER_S: u8 = 10;
/// Opening connections for longer than this looks like a hang.
const WAIT_TOLD_AFTER: Nanos = Nanos::from_secs(5);
/// Seconds of a load between two plain lines.
const LINE_EVERY_S: u32 = 10;

/// How progress is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressMode {
    /// One line of a terminal, redrawn in place on stderr.
    Bar,
    /// Plain lines: every 10 s of a load, one per trial of a search.
    Lines,
    /// Nothing: `--no-ui`.
    Silent,
}

/// The sink that shows progress.
#[derive(Debug)]
pub struct Progress {
    mode: ProgressMode,
    bar: ProgressBar,
    state: State,
    drawn_at: Option<Nanos>,
}

impl Progress {
    /// Nothing is shown before the first event.
    pub fn new(mode: ProgressMode) -> Self {
        let bar = match mode {
            ProgressMode::Bar => {
                let target = ProgressDrawTarget::stderr_with_hz(DRAWS_PER_S);
                let style = ProgressStyle::with_template("{wide_msg}")
                    .expect("the template is a constant that indicatif accepts");
                ProgressBar::with_draw_target(None, target).with_style(style)
            }
            ProgressMode::Lines | ProgressMode::Silent => ProgressBar::hidden(),
        };
        Self { mode, bar, state: State::default(), drawn_at: None }
    }

    /// Takes an event; `elapsed` since any fixed instant of the run. `out` gets the plain lines
    /// and should be stderr; the live line always goes to stderr.
    pub fn handle_event(&mut self, event: &Event, elapsed: Nanos, out: &mut dyn Write) {
        if self.mode == ProgressMode::Silent {
            return;
        }
        let lines = self.state.handle_event(event, elapsed);
        match self.mode {
            ProgressMode::Bar => {
                for line in lines.iter().filter(|line| line.kept) {
                    self.bar.println(&line.text);
                }
                // A permanent change is shown at once, however recently the line was drawn.
                if !matches!(event, Event::Interval(_)) {
                    self.drawn_at = None;
                }
                self.draw(elapsed);
            }
            ProgressMode::Lines | ProgressMode::Silent => {
                for line in lines {
                    // Nobody may be listening any more; the run goes on.
                    let _ = writeln!(out, "{}", line.text);
                }
            }
        }
    }

    /// Whether readings of hosts are shown.
    pub fn wants_readings(&self) -> bool {
        self.mode == ProgressMode::Bar
    }

    /// Takes a reading of `host`.
    pub fn handle_reading(&mut self, host: &str, reading: &Reading) {
        if self.wants_readings() {
            self.state.handle_reading(host, reading);
        }
    }

    /// Lets time go on between events; call as often as is convenient. `out` as with events.
    pub fn handle_tick(&mut self, elapsed: Nanos, out: &mut dyn Write) {
        match self.mode {
            ProgressMode::Bar => self.draw(elapsed),
            ProgressMode::Lines => {
                if let Some(text) = self.state.handle_wait(elapsed) {
                    let _ = writeln!(out, "{text}");
                }
            }
            ProgressMode::Silent => {}
        }
    }

    /// Takes the live line away, before a report is printed.
    pub fn finish(&mut self) {
        self.bar.finish_and_clear();
    }

    fn draw(&mut self, elapsed: Nanos) {
        let pause = Nanos(1_000_000_000 / u64::from(DRAWS_PER_S));
        if self.drawn_at.is_some_and(|drawn_at| elapsed.since(drawn_at) < pause) {
            return;
        }
        self.drawn_at = Some(elapsed);
        self.bar.set_message(self.state.live_line(elapsed));
    }
}

/// A line to print.
#[derive(Debug, PartialEq, Eq)]
struct Line {
    text: String,
    /// Whether it also belongs above a live line, which shows the rest by itself.
    kept: bool,
}

/// The state of progress; pure.
#[derive(Debug, Default)]
struct State {
    trial: Option<TrialRequest>,
    /// Of a comparison.
    block: Option<BlockStart>,
    planned: Option<Nanos>,
    started_at: Option<Nanos>,
    draining: Option<u64>,
    /// Whether a long wait for the first load was reported.
    wait_told: bool,
    last: Option<Stretch>,
    since_line: Stretch,
    good_max: Option<Rate>,
    bad_min: Option<Rate>,
    /// Of a hold.
    holding: Option<Holding>,
    /// The last reading of each host, and what it did until then.
    hosts: BTreeMap<String, (Reading, HostFigures)>,
}

/// Some seconds of a load.
#[derive(Clone, Debug, Default)]
struct Stretch {
    ok: u64,
    ended: u64,
    seconds: u32,
    connections: u64,
    corrected: Histogram,
}

impl Stretch {
    fn add(&mut self, interval: &Interval) {
        let tally = &interval.tally;
        self.ok += tally.ok;
        self.ended += tally.ok + tally.errors_total();
        self.seconds += 1;
        self.connections = tally.connections.held_end;
        self.corrected.merge(&tally.spans.corrected);
    }
}

/// `4,998/s, 100 % ok, p99 3.21 ms, 100 connections`.
impl std::fmt::Display for Stretch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let per_s = self.ended as f64 / f64::from(self.seconds.max(1));
        if self.ended == 0 {
            return write!(f, "no answers, {} connections", grouped(self.connections));
        }
        let p99 = self.corrected.quantile(0.99).map(Nanos::as_millis_f64);
        write!(
            f,
            "{}, {} % ok, p99 {}, {} connections",
            Rate::per_second(per_s).unwrap_or_default(),
            percent(self.ok, self.ended),
            ms_text(p99).replace('\u{a0}', " "),
            grouped(self.connections)
        )
    }
}

impl State {
    fn handle_event(&mut self, event: &Event, elapsed: Nanos) -> Vec<Line> {
        match event {
            Event::LoadStarted { trial, planned, .. } => {
                self.trial = *trial;
                self.planned = *planned;
                self.started_at = Some(elapsed);
                self.draining = None;
                self.last = None;
                self.since_line = Stretch::default();
                Vec::new()
            }
            Event::Interval(interval) => {
                self.handle_interval(interval, elapsed).into_iter().collect()
            }
            Event::HoldStep(step) => {
                self.hold(elapsed).handle_step(*step, elapsed);
                Vec::new()
            }
            Event::Memory(memory) => {
                self.hold(elapsed).handle_memory(**memory);
                Vec::new()
            }
            Event::PlateauEnded(plateau) => {
                let baseline = self.hold(elapsed).baseline();
                vec![Line { text: plateau_line(plateau, &baseline), kept: true }]
            }
            Event::Draining { in_flight } => {
                self.draining = Some(*in_flight);
                let shown = self.is_plain_load() && *in_flight > 0;
                shown
                    .then(|| Line { text: draining(*in_flight), kept: false })
                    .into_iter()
                    .collect()
            }
            Event::TrialEnded(record) => {
                self.handle_trial(record);
                if self.holding.is_some() {
                    // The load goes on.
                    return vec![Line { text: level_line(record), kept: true }];
                }
                self.started_at = None;
                self.last = None;
                vec![Line { text: render_trial_line(record), kept: true }]
            }
            Event::BlockStarted(block) => {
                self.block = Some(*block);
                Vec::new()
            }
            Event::TrialStarted(_)
            | Event::TimersProbed(_)
            | Event::SearchEnded(_)
            | Event::Rows(_) => Vec::new(),
            Event::Note(text) => vec![Line { text: clean(text), kept: true }],
        }
    }

    fn handle_reading(&mut self, host: &str, reading: &Reading) {
        let before = self.hosts.get(host).map(|(before, _)| before);
        let figures = before
            .map_or_else(HostFigures::default, |before| HostFigures::between(before, reading));
        self.hosts.insert(host.to_owned(), (reading.clone(), figures));
    }

    /// The line for a wait that may look like a hang.
    fn handle_wait(&mut self, elapsed: Nanos) -> Option<&'static str> {
        let waits = self.started_at.is_none() && self.trial.is_none() && !self.wait_told;
        if !waits || elapsed < WAIT_TOLD_AFTER {
            return None;
        }
        self.wait_told = true;
        Some("still opening connections; --connect-timeout ends the wait for each")
    }

    /// Whether the load is reported on its own, not as a part of a search or a comparison.
    const fn is_plain_load(&self) -> bool {
        self.trial.is_none() && self.block.is_none()
    }

    fn hold(&mut self, elapsed: Nanos) -> &mut Holding {
        self.holding.get_or_insert_with(|| Holding::new(elapsed))
    }

    fn handle_interval(&mut self, interval: &Interval, elapsed: Nanos) -> Option<Line> {
        if let Some(holding) = &mut self.holding {
            holding.handle_second(&interval.tally);
        }
        let mut last = Stretch::default();
        last.add(interval);
        // The second in which sending ended has earlier answers in it: this is an upper bound.
        self.draining = self.draining.map(|left| left.saturating_sub(last.ended));
        self.last = Some(last);
        self.since_line.add(interval);
        if !self.is_plain_load() || self.since_line.seconds < LINE_EVERY_S {
            return None;
        }
        let stretch = std::mem::take(&mut self.since_line);
        if let Some(holding) = &self.holding {
            return Some(Line { text: holding.line(elapsed), kept: false });
        }
        let place = self.place(Nanos::from_secs(u64::from(interval.second) + 1));
        Some(Line { text: format!("{place}: {stretch}"), kept: false })
    }

    fn handle_trial(&mut self, record: &TrialRecord) {
        let rate = record.measurement.request.rate;
        match record.judgement.verdict {
            Verdict::Good if self.good_max.is_none_or(|good| good < rate) => {
                self.good_max = Some(rate);
            }
            Verdict::Bad if self.bad_min.is_none_or(|bad| bad > rate) => {
                self.bad_min = Some(rate);
            }
            Verdict::Good | Verdict::Bad | Verdict::Invalid => {}
        }
    }

    fn live_line(&self, elapsed: Nanos) -> String {
        if let Some(holding) = &self.holding {
            return holding.line(elapsed);
        }
        let Some(started_at) = self.started_at else {
            let what = if self.trial.is_some() { "between trials" } else { "opening connections" };
            return std::iter::once(what.to_owned())
                .chain(self.bounds())
                .collect::<Vec<_>>()
                .join(" | ");
        };
        let mut parts = Vec::new();
        if let Some(trial) = &self.trial {
            parts.push(format!("trial {} at {}", trial.number, trial.rate));
        }
        if let Some(block) = &self.block {
            let of = if block.round == 0 {
                "first loads".to_owned()
            } else {
                format!("round {}", block.round)
            };
            parts.push(format!("{of}, {}", block.arm.name()));
        }
        parts.push(match self.draining {
            Some(in_flight) if in_flight > 0 => draining(in_flight),
            _ => self.place(elapsed.since(started_at)),
        });
        // The line is cut at the terminal's width: what matters most comes first.
        if self.trial.is_some() {
            parts.extend(self.bounds());
        }
        parts.extend(self.last.as_ref().map(Stretch::to_string));
        let busiest = self.hosts.iter().filter_map(|(host, (_, figures))| {
            Some(format!("{} CPU {} %", clean(host), cpu_percent(figures.busiest_cpu?)))
        });
        parts.extend(busiest);
        parts.join(" | ")
    }

    /// `4 s of 10 s`.
    fn place(&self, into_load: Nanos) -> String {
        let seconds = into_load.as_secs_f64().floor();
        match self.planned {
            Some(planned) => format!("{seconds} s of {} s", planned.as_secs_f64().ceil()),
            None => format!("{seconds} s"),
        }
    }

    fn bounds(&self) -> Option<String> {
        match (self.good_max, self.bad_min) {
            // Trials may contradict each other; the search weighs them, this line does not.
            (Some(good), Some(bad)) if bad <= good => {
                Some(format!("both good and bad from {bad} to {good}"))
            }
            (Some(good), Some(bad)) => Some(format!("good at {good}, bad at {bad}")),
            (Some(good), None) => Some(format!("good at {good}")),
            (None, Some(bad)) => Some(format!("bad at {bad}")),
            (None, None) => None,
        }
    }
}

fn draining(in_flight: u64) -> String {
    let plural = if in_flight == 1 { "" } else { "s" };
    format!("sending finished, waiting for {} answer{plural}", grouped(in_flight))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixtures;

    fn lines_of(mode: ProgressMode, events: &[Event]) -> String {
        let mut progress = Progress::new(mode);
        let mut out = Vec::new();
        for (event, s) in events.iter().zip(0..) {
            progress.handle_event(event, Nanos::from_secs(s), &mut out);
        }
        progress.finish();
        String::from_utf8(out).unwrap()
    }

    fn load_events(seconds: u32) -> Vec<Event> {
        let mut events = vec![Event::LoadStarted {
            trial: None,
            planned: Some(Nanos::from_secs(25)),
            epoch: None,
        }];
        for second in 0..seconds {
            // The last second of each ten is slow: its p99 must not be forgotten or averaged.
            let typical_us = if second % 10 == 9 { 20_000 } else { 1_000 };
            let tally = fixtures::tally(1_000, typical_us, 1);
            events.push(Event::Interval(Box::new(Interval { second, tally })));
        }
        events
    }

    #[test]
    fn a_load_prints_a_line_every_ten_seconds() {
        let mut events = load_events(25);
        events.push(Event::Draining { in_flight: 1 });
        insta::assert_snapshot!(lines_of(ProgressMode::Lines, &events), @r"
        10 s of 25 s: 1,000/s, 100 % ok, p99 34.0 ms, 100 connections
        20 s of 25 s: 1,000/s, 100 % ok, p99 34.0 ms, 100 connections
        sending finished, waiting for 1 answer
        ");
    }

    #[test]
    fn a_search_prints_a_line_per_trial() {
        let trials = fixtures::trials();
        let mut events = Vec::new();
        for trial in &trials[..2] {
            let request = trial.measurement.request;
            events.push(Event::LoadStarted { trial: Some(request), planned: None, epoch: None });
            events.extend(load_events(20).into_iter().skip(1));
            events.push(Event::TrialEnded(Box::new(trial.clone())));
        }
        let text = lines_of(ProgressMode::Lines, &events);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert_eq!(lines_of(ProgressMode::Silent, &events), "");
        // The live line writes to the terminal itself, never to the writer for plain lines.
        assert_eq!(lines_of(ProgressMode::Bar, &events), "");
    }

    #[test]
    fn the_live_line_says_where_the_search_stands() {
        let mut state = State::default();
        assert_eq!(state.live_line(Nanos::ZERO), "opening connections");
        for trial in fixtures::trials() {
            state.handle_event(&Event::TrialEnded(Box::new(trial)), Nanos::ZERO);
        }
        let request = fixtures::trials()[6].measurement.request;
        let planned = Some(request.duration);
        let started = Event::LoadStarted { trial: Some(request), planned, epoch: None };
        state.handle_event(&started, Nanos::from_secs(60));
        let interval = Interval { second: 0, tally: fixtures::tally(18_200, 2_000, 1) };
        state.handle_event(&Event::Interval(Box::new(interval)), Nanos::from_secs(61));
        assert_eq!(
            state.live_line(Nanos::from_millis(63_700)),
            "trial 7 at 18,200/s | 3 s of 5 s | good at 18,200/s, bad at 18,900/s | \
             18,200/s, 100 % ok, p99 6.00 ms, 100 connections"
        );
        state.handle_event(&Event::Draining { in_flight: 1_200 }, Nanos::from_secs(65));
        let line = state.live_line(Nanos::from_secs(65));
        assert!(line.contains("waiting for 1,200 answers"), "{line}");
    }

    #[test]
    fn a_long_wait_for_connections_is_told_once() {
        let mut progress = Progress::new(ProgressMode::Lines);
        let mut out = Vec::new();
        for s in [1, 5, 6] {
            progress.handle_tick(Nanos::from_secs(s), &mut out);
        }
        for event in load_events(3) {
            progress.handle_event(&event, Nanos::from_secs(7), &mut out);
            progress.handle_tick(Nanos::from_secs(20), &mut out);
        }
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "still opening connections; --connect-timeout ends the wait for each\n");
    }

    #[test]
    fn bounds_that_cross_are_not_shown_as_bounds() {
        let bounds = |good, bad| {
            let mut state = State::default();
            for (per_s, verdict) in [(good, Verdict::Good), (bad, Verdict::Bad)] {
                let trial =
                    fixtures::trial(1, plimsoll_model::trial::Phase::Narrow, per_s, 1, verdict);
                state.handle_event(&Event::TrialEnded(Box::new(trial)), Nanos::ZERO);
            }
            state.bounds().unwrap()
        };
        assert_eq!(bounds(100, 200), "good at 100/s, bad at 200/s");
        assert_eq!(bounds(200, 100), "both good and bad from 100/s to 200/s");
    }

    #[test]
    fn what_is_waited_for_counts_down() {
        let mut state = State::default();
        let at = Nanos::from_secs(9);
        for event in load_events(1) {
            state.handle_event(&event, at);
        }
        state.handle_event(&Event::Draining { in_flight: 1_500 }, at);
        let some = Interval { second: 1, tally: fixtures::tally(1_000, 1_000, 1) };
        let none = Interval { second: 2, tally: plimsoll_model::tally::Tally::default() };
        for (interval, expected) in [
            (some, "sending finished, waiting for 500 answers | 1,000/s, 100 % ok, p99 "),
            (none, "sending finished, waiting for 500 answers | no answers, 0 connections"),
        ] {
            state.handle_event(&Event::Interval(Box::new(interval)), at);
            let line = state.live_line(at);
            assert!(line.starts_with(expected), "{line}");
        }
    }

    #[test]
    fn a_closed_stderr_stops_nothing() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Err(std::io::ErrorKind::BrokenPipe.into())
            }
        }
        let mut progress = Progress::new(ProgressMode::Lines);
        for event in load_events(20) {
            progress.handle_event(&event, Nanos::ZERO, &mut Closed);
        }
    }
}
