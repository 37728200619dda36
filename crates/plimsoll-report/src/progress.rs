//! What is going on, while it goes on, in plain lines: where no screen can be drawn.
//!
//! Keeps no record. A stream that cannot be written to is ignored: the run matters more than its progress.

use std::io::Write;

use plimsoll_model::compare::BlockStart;
use plimsoll_model::event::Event;
use plimsoll_model::tally::Interval;
use plimsoll_model::trial::{TrialBounds, TrialRequest};
use plimsoll_model::units::grouped;
use plimsoll_model::{Histogram, Nanos, Rate};

use crate::reasons;
use crate::terminal::layout::{clean, ms_text, percent};
use crate::terminal::{level_line, plateau_line, render_answer_line, render_trial_line};

pub(crate) mod holding;

use holding::Holding;

/// Opening connections for longer than this looks like a hang.
const WAIT_TOLD_AFTER: Nanos = Nanos::from_secs(5);

/// The sink that shows progress in plain lines: one per trial, and one every few seconds of a load.
#[derive(Debug)]
pub struct Progress {
    every_s: u32,
    state: State,
}

impl Progress {
    /// A line every `every_s` seconds of a load; nothing is shown before the first event.
    pub fn new(every_s: u32) -> Self {
        Self { every_s, state: State::default() }
    }

    /// Takes an event; `elapsed` since any fixed instant of the run. `out` gets the lines and should be stderr.
    pub fn handle_event(&mut self, event: &Event, elapsed: Nanos, out: &mut dyn Write) {
        if let Some(line) = self.state.handle_event(event, elapsed, self.every_s) {
            // Nobody may be listening any more; the run goes on.
            let _ = writeln!(out, "{line}");
        }
    }

    /// Lets time go on between events; call as often as is convenient. `out` as with events.
    pub fn handle_tick(&mut self, elapsed: Nanos, out: &mut dyn Write) {
        if let Some(text) = self.state.handle_wait(elapsed) {
            let _ = writeln!(out, "{text}");
        }
    }
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
    since_line: Stretch,
    bounds: TrialBounds,
    /// Of a hold.
    holding: Option<Holding>,
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
    /// The line that is due, without its end.
    fn handle_event(&mut self, event: &Event, elapsed: Nanos, every_s: u32) -> Option<String> {
        match event {
            Event::LoadStarted { trial, planned, .. } => {
                self.trial = *trial;
                self.planned = *planned;
                self.started_at = Some(elapsed);
                self.draining = None;
                self.since_line = Stretch::default();
                None
            }
            Event::Interval(interval) => self.handle_interval(interval, elapsed, every_s),
            Event::HoldStep(step) => {
                self.hold(elapsed).handle_step(*step, elapsed);
                None
            }
            Event::Memory(memory) => {
                self.hold(elapsed).handle_memory(**memory);
                None
            }
            Event::PlateauEnded(plateau) => {
                let baseline = self.hold(elapsed).baseline();
                Some(plateau_line(plateau, &baseline))
            }
            Event::Draining { in_flight } => {
                self.draining = Some(*in_flight);
                let is_shown = self.trial.is_none() && self.block.is_none() && *in_flight > 0;
                is_shown.then(|| draining(*in_flight))
            }
            Event::TrialEnded(record) => {
                self.bounds.add(record);
                if self.holding.is_some() {
                    // The load goes on.
                    return Some(level_line(record));
                }
                self.started_at = None;
                Some(render_trial_line(record))
            }
            Event::Answer(answer) => answer.has_bounds().then(|| render_answer_line(answer)),
            Event::BlockStarted(block) => {
                self.block = Some(*block);
                None
            }
            Event::TrialStarted(_)
            | Event::TimersProbed(_)
            | Event::SearchEnded(_)
            | Event::Rows(_) => None,
            Event::FirstFailure { class, reason } => Some(reasons::first_failure(*class, reason)),
            Event::Note(text) => Some(clean(text)),
        }
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

    fn hold(&mut self, elapsed: Nanos) -> &mut Holding {
        self.holding.get_or_insert_with(|| Holding::new(elapsed))
    }

    fn handle_interval(
        &mut self,
        interval: &Interval,
        elapsed: Nanos,
        every_s: u32,
    ) -> Option<String> {
        if let Some(holding) = &mut self.holding {
            holding.handle_second(&interval.tally);
        }
        let ended = self.since_line.ended;
        self.since_line.add(interval);
        // The second in which sending ended has earlier answers in it: this is an upper bound.
        let ended = self.since_line.ended - ended;
        self.draining = self.draining.map(|left| left.saturating_sub(ended));
        if self.since_line.seconds < every_s {
            return None;
        }
        let stretch = std::mem::take(&mut self.since_line);
        if let Some(holding) = &self.holding {
            return Some(holding.line(elapsed));
        }
        Some(self.line(interval.second, &stretch))
    }

    /// `trial 7 at 18,200/s, 3 s of 5 s: …`; `10 s of 25 s: …` of a load by itself.
    fn line(&self, second: u32, stretch: &Stretch) -> String {
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
            _ => self.place(Nanos::from_secs(u64::from(second) + 1)),
        });
        let bounds = self.trial.and_then(|_| self.bounds()).map(|bounds| format!("; {bounds}"));
        format!("{}: {stretch}{}", parts.join(", "), bounds.unwrap_or_default())
    }

    /// `4 s of 10 s`.
    fn place(&self, into_load: Nanos) -> String {
        let seconds = into_load.as_secs_f64().floor();
        match self.planned {
            Some(planned) => {
                let planned = planned.as_secs_f64().ceil();
                match seconds > planned {
                    true => format!("{planned} s of {planned} s, answers awaited"),
                    false => format!("{seconds} s of {planned} s"),
                }
            }
            None => format!("{seconds} s"),
        }
    }

    fn bounds(&self) -> Option<String> {
        match (self.bounds.good_max, self.bounds.bad_min) {
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
    use plimsoll_model::trial::{Phase, Verdict};

    use super::*;
    use crate::fixtures;

    fn lines_of(every_s: u32, events: &[Event]) -> String {
        let mut progress = Progress::new(every_s);
        let mut out = Vec::new();
        for (event, s) in events.iter().zip(0..) {
            progress.handle_event(event, Nanos::from_secs(s), &mut out);
        }
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
        insta::assert_snapshot!(lines_of(10, &events), @r"
        10 s of 25 s: 1,000/s, 100 % ok, p99 34.0 ms, 100 connections
        20 s of 25 s: 1,000/s, 100 % ok, p99 34.0 ms, 100 connections
        sending finished, waiting for 1 answer
        ");
    }

    #[test]
    fn no_second_is_beyond_the_planned_ones() {
        let lines = lines_of(10, &load_events(40));
        let places: Vec<_> = lines.lines().filter_map(|line| line.split_once(':')).collect();
        let places: Vec<_> = places.into_iter().map(|(place, _)| place).collect();
        let awaited = "25 s of 25 s, answers awaited";
        assert_eq!(places, ["10 s of 25 s", "20 s of 25 s", awaited, awaited]);
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
        let text = lines_of(30, &events);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert_eq!(lines_of(10, &events).lines().count(), 6, "{text}");
    }

    #[test]
    fn a_line_says_where_the_search_stands() {
        let mut events: Vec<Event> = fixtures::trials()
            .into_iter()
            .map(|trial| Event::TrialEnded(Box::new(trial)))
            .collect();
        let request = fixtures::trials()[6].measurement.request;
        let planned = Some(request.duration);
        events.push(Event::LoadStarted { trial: Some(request), planned, epoch: None });
        let interval = Interval { second: 0, tally: fixtures::tally(18_200, 2_000, 1) };
        events.push(Event::Interval(Box::new(interval)));
        assert_eq!(
            lines_of(1, &events).lines().last(),
            Some(
                "trial 7 at 18,200/s, 1 s of 5 s: 18,200/s, 100 % ok, p99 6.00 ms, 100 connections; \
                 good at 18,200/s, bad at 18,900/s"
            )
        );
    }

    #[test]
    fn a_long_wait_for_connections_is_told_once() {
        let mut progress = Progress::new(10);
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
        let bounds = |phase, good, bad| {
            let mut state = State::default();
            for (per_s, verdict) in [(good, Verdict::Good), (bad, Verdict::Bad)] {
                let trial = fixtures::trial(1, phase, per_s, 1, verdict);
                state.handle_event(&Event::TrialEnded(Box::new(trial)), Nanos::ZERO, 1);
            }
            state.bounds()
        };
        let narrow = |good, bad| bounds(Phase::Narrow, good, bad).unwrap();
        assert_eq!(narrow(100, 200), "good at 100/s, bad at 200/s");
        assert_eq!(narrow(200, 100), "both good and bad from 100/s to 200/s");
        // Neither says where the tipping point is.
        assert_eq!(bounds(Phase::Sentinel, 100, 200), None);
        assert_eq!(bounds(Phase::Safe, 100, 200), None);
    }

    #[test]
    fn what_is_waited_for_counts_down() {
        let mut events = load_events(1);
        events.push(Event::Draining { in_flight: 1_500 });
        let tallies = [fixtures::tally(1_000, 1_000, 1), plimsoll_model::tally::Tally::default()];
        for (tally, second) in tallies.into_iter().zip(1..) {
            events.push(Event::Interval(Box::new(Interval { second, tally })));
        }
        let text = lines_of(1, &events);
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines[1], "sending finished, waiting for 1,500 answers");
        assert!(
            lines[2].starts_with("sending finished, waiting for 500 answers: 1,000/s"),
            "{text}"
        );
        assert!(lines[3].ends_with("500 answers: no answers, 0 connections"), "{text}");
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
        let mut progress = Progress::new(10);
        for event in load_events(20) {
            progress.handle_event(&event, Nanos::ZERO, &mut Closed);
        }
    }
}
