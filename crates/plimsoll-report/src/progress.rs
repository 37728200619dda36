//! Progress in plain lines, where no screen can be drawn.
//!
//! Keeps no record. A stream that cannot be written to is ignored: the run matters more than its progress.

use std::io::Write;

use plimsoll_model::event::Event;
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use crate::state::{RunState, Said};
use crate::terminal::layout::{counted, ms_text, percent};

/// Opening connections for longer than this looks like a hang.
const WAIT_TOLD_AFTER: Nanos = Nanos::from_secs(5);

/// The sink that shows progress in plain lines: one per trial, and one every few seconds of a load.
#[derive(Debug)]
pub struct Progress {
    every_s: u32,
    run: RunState,
    /// `true` if a long wait for the first load was reported.
    wait_told: bool,
    /// The seconds since the last line, merged, and their number.
    since_line: (Tally, u32),
}

impl Progress {
    /// Creates a line every `every_s` seconds of a load; nothing is shown before the first event.
    pub fn new(every_s: u32) -> Self {
        let since_line = (Tally::default(), 0);
        Self { every_s, run: RunState::default(), wait_told: false, since_line }
    }

    /// Takes an event; `elapsed` since any fixed instant of the run. `out` gets the lines and should be stderr.
    pub fn handle_event(&mut self, event: &Event, elapsed: Nanos, out: &mut dyn Write) {
        if let Some(line) = self.line_of_event(event, elapsed) {
            // The reader may have exited; the run continues.
            let _ = writeln!(out, "{line}");
        }
    }

    /// Lets time go on between events; call as often as is convenient. `out` as with events.
    pub fn handle_tick(&mut self, elapsed: Nanos, out: &mut dyn Write) {
        let has_begun = self.run.started_at.is_some() || self.run.trial.is_some();
        if !has_begun && !self.wait_told && elapsed >= WAIT_TOLD_AFTER {
            self.wait_told = true;
            // It may look like a hang.
            let text = "still opening connections; --connect-timeout ends the wait for each";
            let _ = writeln!(out, "{text}");
        }
    }

    /// Returns the line that is due, without its end.
    fn line_of_event(&mut self, event: &Event, elapsed: Nanos) -> Option<String> {
        self.run.handle_event(event, elapsed);
        match event {
            Event::LoadStarted { .. } => {
                self.since_line = (Tally::default(), 0);
                None
            }
            Event::Interval(interval) => self.handle_interval(interval, elapsed),
            Event::Draining { in_flight } => {
                let is_trial = self.run.trial.is_some() && self.run.holding.is_none();
                let is_shown = !is_trial && self.run.block.is_none() && *in_flight > 0;
                is_shown.then(|| draining(*in_flight))
            }
            other => self.run.said(other).map(Said::into_text),
        }
    }

    fn handle_interval(&mut self, interval: &Interval, elapsed: Nanos) -> Option<String> {
        self.since_line.0.merge_following(&interval.tally);
        self.since_line.1 += 1;
        if self.since_line.1 < self.every_s {
            return None;
        }
        let answers = answers(&std::mem::take(&mut self.since_line));
        self.run.hold_line(elapsed).or_else(|| Some(self.line(interval.second, &answers)))
    }

    /// Returns `trial 7 at 18,200/s, 3 s of 5 s: …`; `10 s of 25 s: …` of a load by itself.
    fn line(&self, second: u32, answers: &str) -> String {
        let mut parts = Vec::new();
        if let Some(trial) = &self.run.trial {
            parts.push(format!("trial {} at {}", trial.number, trial.rate));
        }
        parts.extend(self.run.block_text());
        parts.push(match self.run.draining {
            Some(in_flight) if in_flight > 0 => draining(in_flight),
            _ => self.place(Nanos::from_secs(u64::from(second) + 1)),
        });
        let bounds =
            self.run.trial.and_then(|_| self.run.bounds_text()).map(|bounds| format!("; {bounds}"));
        format!("{}: {answers}{}", parts.join(", "), bounds.unwrap_or_default())
    }

    /// Returns `4 s of 10 s`.
    fn place(&self, into_load: Nanos) -> String {
        let seconds = into_load.as_secs_f64().floor();
        match self.run.planned.map(|planned| planned.as_secs_f64().ceil()) {
            Some(planned) if seconds > planned => {
                format!("{planned} s of {planned} s, answers awaited")
            }
            Some(planned) => format!("{seconds} s of {planned} s"),
            None => format!("{seconds} s"),
        }
    }
}

/// Returns `4,998/s, 100 % ok, p99 3.21 ms, 100 connections`.
fn answers((tally, seconds): &(Tally, u32)) -> String {
    let (ended, held) = (tally.ok + tally.errors_total(), grouped(tally.connections.held_end));
    if ended == 0 {
        return format!("no answers, {held} connections");
    }
    let p99 = tally.spans.corrected.quantile(0.99).map(Nanos::as_millis_f64);
    format!(
        "{}, {} % ok, p99 {}, {held} connections",
        Rate::per_second(ended as f64 / f64::from(*seconds)).unwrap_or_default(),
        percent(tally.ok, ended),
        ms_text(p99).replace('\u{a0}', " "),
    )
}

fn draining(in_flight: u64) -> String {
    format!("sending finished, waiting for {}", counted(in_flight, "answer"))
}

#[cfg(test)]
mod tests {
    use plimsoll_model::trial::TippingPoint;

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
            epoch: Nanos::ZERO,
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
            events.push(Event::LoadStarted {
                trial: Some(request),
                planned: None,
                epoch: Nanos::ZERO,
            });
            events.extend(load_events(20).into_iter().skip(1));
            events.push(Event::TrialEnded(Box::new(trial.clone())));
        }
        let text = lines_of(30, &events);
        assert_eq!(text.lines().count(), 2, "{text}");
        assert_eq!(lines_of(10, &events).lines().count(), 6, "{text}");
    }

    #[test]
    fn a_line_says_where_the_search_stands() {
        let last_line = |answer: Option<Event>| {
            let trials = fixtures::trials().into_iter();
            let mut events: Vec<Event> =
                trials.map(|trial| Event::TrialEnded(Box::new(trial))).chain(answer).collect();
            let request = fixtures::trials()[6].measurement.request;
            let planned = Some(request.duration);
            events.push(Event::LoadStarted { trial: Some(request), planned, epoch: Nanos::ZERO });
            let interval = Interval { second: 0, tally: fixtures::tally(18_200, 2_000, 1) };
            events.push(Event::Interval(Box::new(interval)));
            lines_of(1, &events).lines().last().unwrap_or_default().to_owned()
        };
        let place =
            "trial 7 at 18,200/s, 1 s of 5 s: 18,200/s, 100 % ok, p99 6.00 ms, 100 connections";
        let by_verdicts = "good at 18,200/s, bad at 18,900/s";
        assert_eq!(last_line(None), format!("{place}; {by_verdicts}"));
        // The bounds of the line that the answer gave.
        let (lower, upper) = (Rate::per_second(17_900.0), Rate::per_second(18_500.0));
        let answer = TippingPoint { lower, upper, ..fixtures::tipping_point() };
        let by_answer = "between 17,900/s and 18,500/s (90 % confidence)";
        assert_eq!(
            last_line(Some(Event::Answer(Box::new(answer)))),
            format!("{place}; {by_answer}")
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
    fn what_is_waited_for_counts_down() {
        let mut events = load_events(1);
        events.push(Event::Draining { in_flight: 1_500 });
        let tallies = [fixtures::tally(1_000, 1_000, 1), Tally::default()];
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
