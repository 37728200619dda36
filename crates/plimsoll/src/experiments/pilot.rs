//! Carries out the steps of a staircase on a running hold: orders, waits and readings.

use std::cell::RefCell;

use plimsoll_capacity::staircase::{Attempts, Done, Gauge, Stairs, Step};
use plimsoll_fleet::coordinator::{HoldView, Order, Pilot};
use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::hold::{HoldStep, MemoryReading, Swept};
use plimsoll_model::plan::Steer;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::TrialRequest;

use super::memory::{Bounds, Depth, memory_gauge};

/// How often the host's memory is looked at during a ramp: 4,000 connections a second take 20 MB
/// in such a time, far less than the reserve.
const GUARD_EVERY: Nanos = Nanos::from_millis(500);
/// How often memory is told to displays and the archive.
const TELL_EVERY: Nanos = Nanos::from_secs(2);
/// Seconds that an agent does not deliver so long after others did are not waited for.
const COVER_WAIT: Nanos = Nanos::from_secs(5);
/// Shortest sweep.
const SWEEP_MIN: Nanos = Nanos::from_millis(500);

/// What was ordered, and what is waited for.
#[derive(Debug)]
enum Doing {
    /// The next step begins now.
    Nothing,
    /// Every order up to this number must be done.
    Order { id: u32, began: Nanos },
    /// Done after `took`; the seconds up to `until` must be delivered by every agent, which takes
    /// them milliseconds, or `given_up` must come.
    Cover { took: Nanos, until: Nanos, given_up: Nanos },
    /// Time must pass.
    Wait { began: Nanos, until: Nanos },
}

/// What a look at the hold calls for.
enum Turn {
    /// Nothing yet.
    Wait,
    /// The next step.
    Begin,
    /// An order within this step.
    Give(Steer),
}

/// Where a pilot looks, and whom it tells.
#[derive(Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// This host's memory.
    pub(crate) read: &'a dyn Fn(Depth) -> MemoryReading,
    /// The limits of the server's own processes.
    pub(crate) server: &'a dyn Fn() -> Vec<Gauge>,
    /// Everybody who listens to the run.
    pub(crate) tell: &'a dyn Fn(Event),
    /// What was counted since somebody last looked.
    pub(crate) heard: &'a RefCell<Tally>,
}

/// How fast a hold goes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Speed {
    /// New connections per second.
    pub(crate) connections_per_s: f64,
    /// Requests of a sweep per second.
    pub(crate) sweep_per_s: f64,
}

/// The pilot of `hold`, `lab hold` and the searches for held connections.
pub(crate) struct StairPilot<'a, S> {
    stairs: S,
    bounds: Bounds,
    speed: Speed,
    around: Surroundings<'a>,
    doing: Doing,
    /// The step that is being done.
    step: Step,
    /// The tally when a sweep began, and the connections held then.
    before_sweep: Option<(Box<Tally>, u64)>,
    guarded_at: Nanos,
    told_at: Nanos,
    plateaus_told: usize,
    /// Connections held when last asked.
    held: u64,
    /// How long the top was held.
    hold: Nanos,
    /// Attempts that had failed before the ramp in progress.
    failed_before: u64,
    /// The trial that was told last.
    trial_told: Option<TrialRequest>,
}

impl<'a, S: Stairs> StairPilot<'a, S> {
    pub(crate) fn new(stairs: S, bounds: Bounds, speed: Speed, around: Surroundings<'a>) -> Self {
        let step = stairs.step();
        Self {
            stairs,
            bounds,
            speed,
            around,
            doing: Doing::Nothing,
            step,
            before_sweep: None,
            guarded_at: Nanos::ZERO,
            told_at: Nanos::ZERO,
            plateaus_told: 0,
            held: 0,
            hold: Nanos::ZERO,
            failed_before: 0,
            trial_told: None,
        }
    }

    /// Connections held at the end, how long the top was held, and the stairs.
    pub(crate) fn into_parts(mut self) -> (u64, Nanos, S) {
        if self.stairs.step() != Step::End {
            self.stairs.handle_stop();
        }
        self.tell_plateaus(true);
        self.tell_records();
        (self.held, self.hold, self.stairs)
    }

    /// Hands the stairs what came of their step.
    fn hand_over(&mut self, done: Done, view: &HoldView<'_>) {
        let tally = self.around.heard.take();
        self.stairs.handle_tally(&tally, view.held);
        self.stairs.handle(done, view.now);
        self.tell_records();
    }

    /// Begins the step that the stairs ask for.
    fn begin(&mut self, view: &HoldView<'_>) -> Option<Order> {
        self.step = self.stairs.step();
        self.tell_trial();
        let order = |pilot: &mut Self, steer| {
            pilot.doing = Doing::Order { id: view.given + 1, began: view.now };
            Some(Order::Steer(steer))
        };
        match self.step {
            Step::Baseline | Step::Measure => {
                let memory = (self.around.read)(Depth::Processes);
                (self.around.tell)(Event::Memory(Box::new(memory)));
                let mut gauges = self.bounds.gauges(view.held, &memory);
                gauges.extend((self.around.server)());
                self.hand_over(Done::Read { memory, gauges }, view);
                None
            }
            Step::Ramp { connections } => {
                self.failed_before = view.total.connections.failed;
                if connections > 0 {
                    let per_s = self.speed.connections_per_s;
                    self.tell_step(HoldStep::Ramp { connections, per_s });
                }
                order(self, Steer::Ramp { connections })
            }
            Step::Trim { connections } => {
                self.tell_step(HoldStep::Trim { connections });
                order(self, Steer::Trim { connections })
            }
            Step::Settle(span) => {
                self.tell_step(HoldStep::Settle);
                self.wait(view.now, span)
            }
            Step::Sweep => {
                let connections = view.held;
                let over = Nanos::from_secs_f64(connections as f64 / self.speed.sweep_per_s);
                let over = over.max(SWEEP_MIN);
                self.tell_step(HoldStep::Sweep { connections, over });
                self.before_sweep = Some((Box::new(view.total.clone()), connections));
                order(self, Steer::Sweep { over })
            }
            Step::Hold(span) => {
                self.tell_step(HoldStep::Hold { span });
                self.wait(view.now, span)
            }
            Step::End => Some(Order::Finish),
        }
    }

    fn wait(&mut self, now: Nanos, span: Nanos) -> Option<Order> {
        self.doing = Doing::Wait { began: now, until: now + span };
        None
    }

    /// Looks whether what is waited for has come.
    fn advance(&mut self, view: &HoldView<'_>) -> Turn {
        if let Doing::Order { id, began } = self.doing {
            if view.done < id {
                return self.guard(view, began);
            }
            self.doing = Doing::Cover {
                took: view.now.since(began),
                until: view.delivered,
                given_up: view.now + COVER_WAIT,
            };
        }
        match self.doing {
            Doing::Nothing => return Turn::Begin,
            Doing::Cover { took, until, given_up }
                if view.covered >= until || view.now >= given_up =>
            {
                self.conclude(view, took);
            }
            Doing::Wait { began, until } => {
                let is_hold = matches!(self.step, Step::Hold(_));
                if is_hold {
                    self.hold = view.now.since(began);
                }
                // Nobody waits when there is nothing left to hold.
                if view.now < until && !(is_hold && view.held == 0) {
                    return Turn::Wait;
                }
                self.hand_over(Done::Waited, view);
            }
            Doing::Order { .. } | Doing::Cover { .. } => return Turn::Wait,
        }
        self.doing = Doing::Nothing;
        Turn::Begin
    }

    /// The order of the step is done, and counted.
    fn conclude(&mut self, view: &HoldView<'_>, took: Nanos) {
        match self.step {
            Step::Ramp { .. } => self.hand_over(Done::Ramped { held: view.held, took }, view),
            Step::Trim { .. } => self.hand_over(Done::Trimmed, view),
            Step::Sweep => {
                let (before, connections) = self.before_sweep.take().unwrap_or_default();
                let swept = Swept::between(&before, view.total, connections);
                self.hand_over(Done::Swept(swept), view);
                self.tell_plateaus(false);
            }
            Step::Baseline | Step::Settle(_) | Step::Measure | Step::Hold(_) | Step::End => {}
        }
    }

    /// Looks after the machine and the server while connections are opened, since `began`.
    fn guard(&mut self, view: &HoldView<'_>, began: Nanos) -> Turn {
        if !matches!(self.step, Step::Ramp { .. }) || view.now < self.guarded_at + GUARD_EVERY {
            return Turn::Wait;
        }
        self.guarded_at = view.now;
        let gauge = memory_gauge(&(self.around.read)(Depth::Host));
        self.stairs.handle_guard(gauge.as_slice());
        let connections = &view.total.connections;
        self.stairs.handle_attempts(Attempts {
            opened: connections.opened,
            failed: connections.failed,
            failed_in_ramp: connections.failed.saturating_sub(self.failed_before),
            held: view.held,
        });
        match self.stairs.step() {
            Step::Ramp { connections } if self.stairs.step() != self.step => {
                // The ramp is to end where it is.
                self.step = self.stairs.step();
                self.doing = Doing::Order { id: view.given + 1, began };
                Turn::Give(Steer::Ramp { connections })
            }
            _ => Turn::Wait,
        }
    }

    fn tell_step(&self, step: HoldStep) {
        (self.around.tell)(Event::HoldStep(step));
    }

    /// Tells a level that begins, where levels are trials.
    fn tell_trial(&mut self) {
        let trial = self.stairs.trial();
        if trial != self.trial_told {
            self.trial_told = trial;
            trial.into_iter().for_each(|trial| (self.around.tell)(Event::TrialStarted(trial)));
        }
    }

    fn tell_records(&mut self) {
        while let Some(record) = self.stairs.poll_record() {
            (self.around.tell)(Event::TrialEnded(Box::new(record)));
        }
    }

    fn tell_memory(&mut self, now: Nanos) {
        // The first reading that is told must be the baseline's.
        let is_due = now >= self.told_at + TELL_EVERY && self.step != Step::Baseline;
        if is_due && !matches!(self.doing, Doing::Nothing) {
            self.told_at = now;
            (self.around.tell)(Event::Memory(Box::new((self.around.read)(Depth::Host))));
        }
    }

    /// Tells each level once, when it was swept, or at the end when it never was.
    fn tell_plateaus(&mut self, all: bool) {
        let plateaus = self.stairs.plateaus();
        for plateau in &plateaus[self.plateaus_told..] {
            if all || plateau.swept.is_some() {
                (self.around.tell)(Event::PlateauEnded(Box::new(*plateau)));
                self.plateaus_told += 1;
            }
        }
    }
}

impl<S: Stairs> Pilot for StairPilot<'_, S> {
    fn poll(&mut self, view: &HoldView<'_>) -> Option<Order> {
        self.held = view.held;
        self.tell_memory(view.now);
        loop {
            match self.advance(view) {
                Turn::Wait => return None,
                Turn::Give(steer) => return Some(Order::Steer(steer)),
                Turn::Begin => {
                    if let Some(order) = self.begin(view) {
                        return Some(order);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
