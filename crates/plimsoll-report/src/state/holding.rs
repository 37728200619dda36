//! The state of a hold, in one line.

use plimsoll_model::Nanos;
use plimsoll_model::cycles::CyclesSummary;
use plimsoll_model::hold::{HoldStep, MemoryReading, Plateau};
use plimsoll_model::tally::Tally;
use plimsoll_model::units::grouped;

use crate::terminal::layout::{bytes, per_s};

/// The state of progress of a hold; pure.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holding {
    step: HoldStep,
    began: Nanos,
    /// Memory before anything was held.
    pub(crate) baseline: Option<MemoryReading>,
    memory: MemoryReading,
    /// Levels that ended.
    pub(crate) plateaus: Vec<Plateau>,
    /// The answer of the cycles that ended.
    pub(crate) cycles: Option<Box<CyclesSummary>>,
}

impl Holding {
    pub(crate) fn handle_step(&mut self, step: HoldStep, elapsed: Nanos) {
        self.step = step;
        self.began = elapsed;
    }

    pub(crate) fn handle_memory(&mut self, memory: MemoryReading) {
        self.baseline.get_or_insert(memory);
        self.memory = memory;
    }

    /// Returns the line of a step: `ramp to 10,000: 3,412 held, 1,998/s, 0 failed, 4 s left, 9.31 kB per connection`,
    /// of a load so far that opened `opened` connections in its last second.
    pub(super) fn line(&self, load: &Tally, opened: u64, elapsed: Nanos) -> String {
        let counts = &load.connections;
        let held = grouped(counts.held_end);
        let mut parts = vec![match self.step {
            HoldStep::Ramp { connections, .. } => {
                let (pace, failed) = (per_s(opened as f64), grouped(counts.failed));
                let text = format!(
                    "ramp to {}: {held} held, {pace}, {failed} failed",
                    grouped(connections)
                );
                let missing =
                    connections.saturating_sub(counts.held_end + counts.failed + load.lost());
                match opened {
                    0 => text,
                    // At the pace of the last second.
                    opened => format!("{text}, {} s left", missing.div_ceil(opened)),
                }
            }
            HoldStep::Trim { connections } => {
                format!("{held} held, closing down to {}", grouped(connections))
            }
            HoldStep::Pause => format!("{held} held, ramp paused"),
            HoldStep::Settle => format!("{held} held, reading memory"),
            HoldStep::Storm { cut, jitter } => {
                let jitter =
                    jitter.map_or_else(String::new, |jitter| format!(" with jitter {jitter}"));
                format!("storm of {}{jitter}: {held} held", grouped(cut))
            }
            HoldStep::Sweep { connections, .. } => {
                format!("a request on each of {} connections", grouped(connections))
            }
            HoldStep::Hold { span } => {
                let into = elapsed.since(self.began).as_secs_f64().floor();
                format!("{held} held for {into} s of {} s", span.as_secs_f64().ceil())
            }
        }];
        if load.lost() > 0 {
            parts.push(format!("{} lost", grouped(load.lost())));
        }
        parts.extend(self.cost(counts.held_end));
        parts.join(", ")
    }

    /// Returns the memory that is no longer available, over the connections that are held.
    fn cost(&self, held: u64) -> Option<String> {
        let used = |at: MemoryReading| Some(at.total_bytes?.saturating_sub(at.available_bytes?));
        let grown = used(self.memory)?.saturating_sub(used(self.baseline?)?);
        let each = grown.checked_div(held).filter(|each| *each > 0)?;
        Some(format!("{} per connection", bytes(each).replace('\u{a0}', " ")))
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_model::ErrorClass;
    use plimsoll_model::event::Event;
    use plimsoll_model::tally::Interval;

    use super::*;
    use crate::state::RunState;

    fn second(held: u64, opened: u64, failed: u64, lost: u64) -> Event {
        let mut tally = Tally::default();
        tally.connections.held_end = held;
        tally.connections.opened = opened;
        tally.connections.failed = failed;
        tally.failures.lost_held.add(ErrorClass::ResetByPeer, lost);
        Event::Interval(Box::new(Interval { second: 0, tally }))
    }

    #[test]
    fn each_step_has_its_line() {
        let at = Nanos::from_secs;
        let memory = |available_bytes| {
            Event::Memory(Box::new(MemoryReading {
                total_bytes: Some(24_000_000_000),
                available_bytes: Some(available_bytes),
                ..MemoryReading::default()
            }))
        };
        let mut state = RunState::default();
        let mut line = |events: &[Event], now, shown| {
            events.iter().for_each(|event| state.handle_event(event, at(now)));
            state.hold_line(at(shown)).expect("a hold")
        };
        let ramp = HoldStep::Ramp { connections: 10_000, per_s: 2_000.0 };
        let ramped = [
            memory(20_000_000_000),
            Event::HoldStep(ramp),
            second(1_500, 1_500, 0, 0),
            second(3_400, 1_900, 100, 0),
            memory(19_968_700_000),
        ];
        assert_eq!(
            line(&ramped, 1, 3),
            "ramp to 10,000: 3,400 held, 1,900/s, 100 failed, 4 s left, 9.21 kB per connection"
        );
        let hold = Event::HoldStep(HoldStep::Hold { span: at(60) });
        let text = line(&[second(9_898, 0, 0, 2), hold], 7, 12);
        assert!(text.starts_with("9,898 held for 5 s of 60 s, 2 lost, "), "{text}");
        let sweep = HoldStep::Sweep { connections: 9_898, over: at(1) };
        let text = line(&[Event::HoldStep(sweep)], 70, 70);
        assert!(text.starts_with("a request on each of 9,898 connections"), "{text}");
    }
}
