//! How a hold stands, in one line.

use plimsoll_model::hold::{HoldStep, MemoryReading, Plateau};
use plimsoll_model::tally::Tally;
use plimsoll_model::units::grouped;
use plimsoll_model::{Nanos, Rate};

use crate::terminal::layout::bytes;

/// The state of progress of a hold; pure.
#[derive(Clone, Debug)]
pub(crate) struct Holding {
    step: HoldStep,
    began: Nanos,
    baseline: Option<MemoryReading>,
    memory: MemoryReading,
    /// Levels that ended.
    pub(crate) plateaus: Vec<Plateau>,
    held: u64,
    /// Opened in the last second.
    opened: u64,
    failed: u64,
    lost: u64,
}

impl Holding {
    /// A hold before its first step.
    pub(crate) fn new(elapsed: Nanos) -> Self {
        Self {
            step: HoldStep::Settle,
            began: elapsed,
            baseline: None,
            memory: MemoryReading::default(),
            plateaus: Vec::new(),
            held: 0,
            opened: 0,
            failed: 0,
            lost: 0,
        }
    }

    pub(crate) fn handle_step(&mut self, step: HoldStep, elapsed: Nanos) {
        self.step = step;
        self.began = elapsed;
    }

    /// The first reading is what there was before anything was held.
    pub(crate) fn handle_memory(&mut self, memory: MemoryReading) {
        self.baseline.get_or_insert(memory);
        self.memory = memory;
    }

    pub(crate) fn baseline(&self) -> MemoryReading {
        self.baseline.unwrap_or_default()
    }

    pub(crate) fn handle_second(&mut self, tally: &Tally) {
        self.held = tally.connections.held_end;
        self.opened = tally.connections.opened;
        self.failed += tally.connections.failed;
        self.lost += tally.lost();
    }

    /// How many connections the current step is to reach.
    pub(crate) const fn asked(&self) -> Option<u64> {
        self.step.aim()
    }

    /// `ramp to 10,000: 3,412 held, 1,998/s, 0 failed, 4 s left, 9.31 kB per connection`.
    pub(crate) fn line(&self, elapsed: Nanos) -> String {
        let held = grouped(self.held);
        let mut parts = match self.step {
            HoldStep::Ramp { connections, .. } => {
                let mut parts = vec![
                    format!("ramp to {}: {held} held", grouped(connections)),
                    Rate::per_second(self.opened as f64).unwrap_or_default().to_string(),
                    format!("{} failed", grouped(self.failed)),
                ];
                parts.extend(self.left(connections).map(|left| format!("{left} s left")));
                parts
            }
            HoldStep::Trim { connections } => {
                vec![format!("{held} held, closing down to {}", grouped(connections))]
            }
            HoldStep::Pause => vec![format!("{held} held, ramp paused")],
            HoldStep::Settle => vec![format!("{held} held, reading memory")],
            HoldStep::Sweep { connections, .. } => {
                vec![format!("a request on each of {} connections", grouped(connections))]
            }
            HoldStep::Hold { span } => {
                let into = elapsed.since(self.began).as_secs_f64().floor();
                vec![format!("{held} held for {into} s of {} s", span.as_secs_f64().ceil())]
            }
        };
        if self.lost > 0 {
            parts.push(format!("{} lost", grouped(self.lost)));
        }
        parts.extend(self.cost());
        parts.join(", ")
    }

    /// Seconds until a ramp's end at the pace of the last second.
    fn left(&self, connections: u64) -> Option<u64> {
        let missing = connections.saturating_sub(self.held + self.failed + self.lost);
        (self.opened > 0).then(|| missing.div_ceil(self.opened))
    }

    /// What is no longer available, over the connections that are held.
    fn cost(&self) -> Option<String> {
        let used = |at: MemoryReading| Some(at.total_bytes?.saturating_sub(at.available_bytes?));
        let grown = used(self.memory)?.saturating_sub(used(self.baseline?)?);
        let each = grown.checked_div(self.held).filter(|each| *each > 0)?;
        Some(format!("{} per connection", bytes(each).replace('\u{a0}', " ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(held: u64, opened: u64, failed: u64) -> Tally {
        let mut tally = Tally::default();
        tally.connections.held_end = held;
        tally.connections.opened = opened;
        tally.connections.failed = failed;
        tally
    }

    #[test]
    fn each_step_has_its_line() {
        let at = Nanos::from_secs;
        let memory = |available_bytes| MemoryReading {
            total_bytes: Some(24_000_000_000),
            available_bytes: Some(available_bytes),
            ..MemoryReading::default()
        };
        let mut holding = Holding::new(at(0));
        holding.handle_memory(memory(20_000_000_000));
        holding.handle_step(HoldStep::Ramp { connections: 10_000, per_s: 2_000.0 }, at(1));
        holding.handle_second(&second(1_500, 1_500, 0));
        holding.handle_second(&second(3_400, 1_900, 100));
        holding.handle_memory(memory(19_968_700_000));
        assert_eq!(
            holding.line(at(3)),
            "ramp to 10,000: 3,400 held, 1,900/s, 100 failed, 4 s left, 9.21 kB per connection"
        );
        let mut lossy = second(9_898, 0, 0);
        lossy.losses.add(plimsoll_model::ErrorClass::ResetByPeer, 2);
        holding.handle_second(&lossy);
        holding.handle_step(HoldStep::Hold { span: at(60) }, at(7));
        let line = holding.line(at(12));
        assert!(line.starts_with("9,898 held for 5 s of 60 s, 2 lost, "), "{line}");
        holding.handle_step(HoldStep::Sweep { connections: 9_898, over: at(1) }, at(70));
        let line = holding.line(at(70));
        assert!(line.starts_with("a request on each of 9,898 connections"), "{line}");
    }
}
