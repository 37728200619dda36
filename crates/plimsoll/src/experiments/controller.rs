//! Carries out the steps of a procedure on a running hold: orders, waits and readings.
//!
//! [`ProcedureController`] is between a [`HoldProcedure`], which decides the next [`Step`], and the coordinator,
//! which polls it with a [`HoldView`] and gets at most one order back. `begin` starts a step, `advance` checks
//! whether its order is done and all seconds up to that moment have arrived, and `conclude` hands the result to the
//! procedure. During a ramp it reads memory and attempts every 500 ms (in a storm its counts), so that the procedure
//! can stop early. Start with `poll`.

use std::cell::RefCell;

use plimsoll_capacity::staircase::{Attempts, Done, Gauge, HoldProcedure, Step};
use plimsoll_fleet::coordinator::{HoldController, HoldView, LoadOutcome, Order};
use plimsoll_model::Nanos;
use plimsoll_model::cycles::Kept;
use plimsoll_model::event::Event;
use plimsoll_model::hold::{HoldStep, MemoryReading, Swept};
use plimsoll_model::plan::Steer;
use plimsoll_model::storm::{Reconnect, StormClients, StormCounts};
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{TrialRecord, TrialRequest};

use super::memory::{Bounds, Depth, memory_gauge};

/// Period of reading the host's memory during a ramp: 4,000 connections a second use 20 MB in this
/// time, far less than the reserve.
const GUARD_EVERY: Nanos = Nanos::from_millis(500);
/// Period of reporting memory to displays and the archive.
const REPORT_EVERY: Nanos = Nanos::from_secs(2);
/// Time to wait for the seconds of an agent after another has delivered them.
const COVER_WAIT: Nanos = Nanos::from_secs(5);
/// Shortest sweep.
const SWEEP_MIN: Nanos = Nanos::from_millis(500);

/// The event that the step is waiting for.
#[derive(Debug)]
enum Progress {
    /// No event: the next step begins now.
    Nothing,
    /// The completion of every order up to `id`.
    Order { id: u32, began: Nanos },
    /// The order was done after `took`. Every agent must deliver its seconds up to `until`, which needs
    /// milliseconds, before `given_up`.
    Cover { took: Nanos, until: Nanos, given_up: Nanos },
    /// The end of a pause of the ramp. `seen` is the time of the last look; each pause moves `began`, so that the time
    /// between the two has no pauses in it.
    Paused { began: Nanos, seen: Nanos },
    /// A point in time.
    Wait { began: Nanos, until: Nanos },
}

/// The action after a look at the hold.
enum Turn {
    /// Wait for the event.
    Wait,
    /// The next step.
    Begin,
    /// An order within this step.
    Give(Steer),
}

/// The readings of a controller, and the receiver of its events.
#[derive(Clone, Copy)]
pub(crate) struct HoldContext<'a> {
    /// This host's memory.
    pub(crate) read: &'a dyn Fn(Depth) -> MemoryReading,
    /// The parts that the server still uses once its connections are closed.
    pub(crate) kept: &'a dyn Fn() -> Kept,
    /// The limits of the server's own processes.
    pub(crate) server: &'a dyn Fn() -> Vec<Gauge>,
    /// Sends an event to every sink of the run.
    pub(crate) emit: &'a dyn Fn(Event),
    /// Counts since the last step.
    pub(crate) counted: &'a RefCell<Tally>,
    /// Reports whether somebody wants ramps to be paused.
    pub(crate) is_paused: &'a dyn Fn() -> bool,
}

/// The rates of a hold, and the conduct of its clients.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Speed {
    /// New connections per second.
    pub(crate) connections_per_s: f64,
    /// Requests of a sweep per second.
    pub(crate) sweep_per_s: f64,
    /// Conduct of the clients in storms.
    pub(crate) storm: StormClients,
    /// Time from the order of a storm to the cut: every agent has it by then.
    pub(crate) notice: Nanos,
}

/// A hold that a procedure has steered to its end.
pub(crate) struct Driven<S> {
    pub(crate) load: LoadOutcome,
    /// Connections held at the end.
    pub(crate) held: u64,
    /// Time for which the highest level was held.
    pub(crate) hold: Nanos,
    /// Time for which ramps were paused.
    pub(crate) paused: Nanos,
    /// The levels that were judged.
    pub(crate) trials: Vec<TrialRecord>,
    pub(crate) procedure: S,
}

/// The controller of `hold`, `lab hold` and the searches for held connections.
pub(crate) struct ProcedureController<'a, S> {
    procedure: S,
    bounds: Bounds,
    speed: Speed,
    context: HoldContext<'a>,
    progress: Progress,
    /// The current step.
    step: Step,
    /// The tally when a sweep began, and the connections held then.
    before_sweep: Option<(Box<Tally>, u64)>,
    /// Counts of earlier storms' clients, when a storm began.
    before_storm: StormCounts,
    guarded_at: Nanos,
    reported_at: Nanos,
    plateaus_reported: usize,
    /// Connections held at the last poll.
    held: u64,
    /// Time for which the highest level was held.
    hold: Nanos,
    /// The part of it before the present stretch.
    held_before: Nanos,
    /// Attempts that had failed before the ramp in progress.
    failed_before: u64,
    /// The trial that was reported last.
    trial_reported: Option<TrialRequest>,
    /// The levels that were judged.
    trials: Vec<TrialRecord>,
    /// Time for which ramps were paused.
    paused: Nanos,
}

impl<'a, S: HoldProcedure> ProcedureController<'a, S> {
    pub(crate) fn new(
        procedure: S,
        bounds: Bounds,
        speed: Speed,
        context: HoldContext<'a>,
    ) -> Self {
        let step = procedure.step();
        Self {
            procedure,
            bounds,
            speed,
            context,
            progress: Progress::Nothing,
            step,
            before_sweep: None,
            before_storm: StormCounts::default(),
            guarded_at: Nanos::ZERO,
            reported_at: Nanos::ZERO,
            plateaus_reported: 0,
            held: 0,
            hold: Nanos::ZERO,
            held_before: Nanos::ZERO,
            failed_before: 0,
            trial_reported: None,
            trials: Vec::new(),
            paused: Nanos::ZERO,
        }
    }

    /// Ends the procedure of a hold that has ended as `load`.
    pub(crate) fn end(mut self, load: LoadOutcome) -> Driven<S> {
        if self.procedure.step() != Step::End {
            self.procedure.handle_stop();
        }
        self.report_plateaus(true);
        self.report_records();
        let Self { held, hold, paused, trials, procedure, .. } = self;
        Driven { load, held, hold, paused, trials, procedure }
    }

    /// Gives the procedure the result of its step.
    fn hand_over(&mut self, done: Done, view: &HoldView<'_>) {
        let tally = self.context.counted.take();
        self.procedure.handle_tally(tally, view.held);
        self.procedure.handle(done, view.now);
        self.report_records();
    }

    /// Begins the next step of the procedure.
    fn begin(&mut self, view: &HoldView<'_>) -> Option<Order> {
        self.step = self.procedure.step();
        self.report_trial();
        match self.step {
            Step::Baseline | Step::Measure => {
                let memory = (self.context.read)(Depth::Processes);
                (self.context.emit)(Event::Memory(Box::new(memory)));
                let mut gauges = self.bounds.gauges(view.held, &memory);
                gauges.extend((self.context.server)());
                self.hand_over(Done::Read { memory, gauges }, view);
                None
            }
            Step::ReadKept => {
                let kept = (self.context.kept)();
                self.hand_over(Done::Kept(kept), view);
                if let Some(cycles) = self.procedure.cycles() {
                    (self.context.emit)(Event::CycleEnded(Box::new(cycles)));
                }
                None
            }
            Step::Ramp { connections } => {
                self.failed_before = view.total.connections.failed;
                if self.is_to_pause(view) {
                    self.pause(view.now, view.now);
                    return None;
                }
                if connections > 0 {
                    let per_s = self.speed.connections_per_s;
                    self.report_step(HoldStep::Ramp { connections, per_s });
                }
                Some(Order::Steer(self.give(Steer::Ramp { connections }, view.now, view)))
            }
            Step::Trim { connections } => {
                self.report_step(HoldStep::Trim { connections });
                Some(Order::Steer(self.give(Steer::Trim { connections }, view.now, view)))
            }
            Step::Storm { cut, jitter } => {
                self.report_step(HoldStep::Storm { cut, jitter });
                self.before_storm = view.total.storm.clone();
                let asked = self.speed.storm;
                let reconnect = jitter.map_or(asked.reconnect, Reconnect::jittered);
                let began = view.now + self.speed.notice;
                let (at, clients) = (began.since(view.epoch), StormClients { reconnect, ..asked });
                Some(Order::Steer(self.give(Steer::Storm { cut, at, clients }, began, view)))
            }
            Step::Settle(span) => {
                self.report_step(HoldStep::Settle);
                self.wait(view.now, span)
            }
            Step::Sweep => {
                let connections = view.held;
                let over = Nanos::from_secs_f64(connections as f64 / self.speed.sweep_per_s);
                let over = over.max(SWEEP_MIN);
                self.report_step(HoldStep::Sweep { connections, over });
                self.before_sweep = Some((Box::new(view.total.clone()), connections));
                Some(Order::Steer(self.give(Steer::Sweep { over }, view.now, view)))
            }
            Step::Hold(span) => {
                self.report_step(HoldStep::Hold { span });
                self.held_before = self.hold;
                self.wait(view.now, span)
            }
            Step::End => Some(Order::Finish),
        }
    }

    /// Records that the step, which began at `began`, waits for `steer`, and returns it.
    fn give(&mut self, steer: Steer, began: Nanos, view: &HoldView<'_>) -> Steer {
        self.progress = Progress::Order { id: view.given + 1, began };
        steer
    }

    fn wait(&mut self, now: Nanos, span: Nanos) -> Option<Order> {
        self.progress = Progress::Wait { began: now, until: now + span };
        None
    }

    /// Checks whether the wait is over.
    fn advance(&mut self, view: &HoldView<'_>) -> Turn {
        if let Progress::Order { id, began } = self.progress {
            if view.done < id {
                if self.is_to_pause(view) {
                    self.pause(began, view.now);
                    // Nothing more is opened; what is being opened ends, and with it the order of the ramp.
                    return Turn::Give(Steer::Ramp { connections: 0 });
                }
                return self.guard(view, began);
            }
            self.progress = Progress::Cover {
                took: view.now.since(began),
                until: view.delivered,
                given_up: view.now + COVER_WAIT,
            };
        }
        match self.progress {
            Progress::Nothing => return Turn::Begin,
            Progress::Cover { took, until, given_up }
                if view.covered >= until || view.now >= given_up =>
            {
                self.conclude(view, took);
            }
            Progress::Wait { began, until } => {
                let is_hold = matches!(self.step, Step::Hold(_));
                if is_hold {
                    self.hold = self.held_before + view.now.since(began);
                }
                let is_over = is_hold && view.held == 0 && self.procedure.ends_when_empty();
                if view.now < until && !is_over {
                    return Turn::Wait;
                }
                self.hand_over(Done::Waited, view);
            }
            Progress::Paused { began, seen } => {
                let more = view.now.since(seen);
                self.paused = self.paused + more;
                return self.stay_paused(view, began + more);
            }
            Progress::Order { .. } | Progress::Cover { .. } => return Turn::Wait,
        }
        self.progress = Progress::Nothing;
        Turn::Begin
    }

    /// Reports whether the ramp is to pause: the user has paused the opening of connections, and some are still to be
    /// opened.
    fn is_to_pause(&self, view: &HoldView<'_>) -> bool {
        matches!(self.step, Step::Ramp { connections } if connections > view.held)
            && (self.context.is_paused)()
    }

    fn pause(&mut self, began: Nanos, now: Nanos) {
        self.progress = Progress::Paused { began, seen: now };
        self.report_step(HoldStep::Pause);
    }

    /// Continues the ramp if the user has ended the pause; `began` is the start of the ramp, moved by all pauses.
    fn stay_paused(&mut self, view: &HoldView<'_>, began: Nanos) -> Turn {
        self.progress = Progress::Paused { began, seen: view.now };
        if let Step::Ramp { connections } = self.step
            && !(self.context.is_paused)()
        {
            let per_s = self.speed.connections_per_s;
            self.report_step(HoldStep::Ramp { connections, per_s });
            return Turn::Give(self.give(Steer::Ramp { connections }, began, view));
        }
        self.guard(view, began)
    }

    /// Completes a step whose order is done and whose seconds are counted.
    fn conclude(&mut self, view: &HoldView<'_>, took: Nanos) {
        match self.step {
            Step::Ramp { .. } => self.hand_over(Done::Ramped { held: view.held, took }, view),
            Step::Trim { .. } => self.hand_over(Done::Trimmed, view),
            Step::Storm { .. } => self.hand_over(Done::Stormed, view),
            Step::Sweep => {
                let (before, connections) = self.before_sweep.take().unwrap_or_default();
                let swept = Swept::between(&before, view.total, connections);
                self.hand_over(Done::Swept(swept), view);
                self.report_plateaus(false);
            }
            Step::Baseline
            | Step::Settle(_)
            | Step::Measure
            | Step::ReadKept
            | Step::Hold(_)
            | Step::End => {}
        }
    }

    /// Checks the host's memory and the server while connections are opened, since `began`.
    fn guard(&mut self, view: &HoldView<'_>, began: Nanos) -> Turn {
        let is_guarded = matches!(self.step, Step::Ramp { .. } | Step::Storm { .. });
        if !is_guarded || view.now < self.guarded_at + GUARD_EVERY {
            return Turn::Wait;
        }
        self.guarded_at = view.now;
        if matches!(self.step, Step::Storm { .. }) {
            return self.watch_storm(view, began);
        }
        let gauge = memory_gauge(&(self.context.read)(Depth::Host));
        self.procedure.handle_guard(gauge.as_slice());
        let connections = &view.total.connections;
        self.procedure.handle_attempts(Attempts {
            opened: connections.opened,
            failed: connections.failed,
            failed_in_ramp: connections.failed.saturating_sub(self.failed_before),
            held: view.held,
        });
        match self.procedure.step() {
            Step::Ramp { connections } if self.procedure.step() != self.step => {
                // The procedure ends the ramp at the current level.
                self.step = self.procedure.step();
                Turn::Give(self.give(Steer::Ramp { connections }, began, view))
            }
            _ => Turn::Wait,
        }
    }

    /// Lets the procedure look at a storm in progress, which it may end.
    fn watch_storm(&mut self, view: &HoldView<'_>, began: Nanos) -> Turn {
        let counts = view.total.storm.since(&self.before_storm);
        self.procedure.handle_storm(&counts, view.now.since(began));
        if let Some(share) = self.procedure.poll_withdrawal() {
            return Turn::Give(Steer::Withdraw { share });
        }
        match self.procedure.step() {
            Step::Trim { connections } => {
                self.step = self.procedure.step();
                self.report_step(HoldStep::Trim { connections });
                Turn::Give(self.give(Steer::Trim { connections }, began, view))
            }
            _ => Turn::Wait,
        }
    }

    fn report_step(&self, step: HoldStep) {
        (self.context.emit)(Event::HoldStep(step));
    }

    /// Reports the beginning of a level, where levels are trials.
    fn report_trial(&mut self) {
        let trial = self.procedure.trial();
        if trial != self.trial_reported {
            self.trial_reported = trial;
            trial.into_iter().for_each(|trial| (self.context.emit)(Event::TrialStarted(trial)));
        }
    }

    fn report_records(&mut self) {
        while let Some(record) = self.procedure.poll_record() {
            self.trials.push(record.clone());
            (self.context.emit)(Event::TrialEnded(Box::new(record)));
        }
    }

    fn report_memory(&mut self, now: Nanos) {
        // The first reading that is reported must be the baseline's.
        let is_due = now >= self.reported_at + REPORT_EVERY && self.step != Step::Baseline;
        if is_due && !matches!(self.progress, Progress::Nothing) {
            self.reported_at = now;
            (self.context.emit)(Event::Memory(Box::new((self.context.read)(Depth::Host))));
        }
    }

    /// Reports each level once: after its sweep, or at the end.
    fn report_plateaus(&mut self, all: bool) {
        let plateaus = self.procedure.plateaus();
        for plateau in &plateaus[self.plateaus_reported..] {
            if all || plateau.swept.is_some() {
                (self.context.emit)(Event::PlateauEnded(Box::new(*plateau)));
                self.plateaus_reported += 1;
            }
        }
    }
}

impl<S: HoldProcedure> HoldController for ProcedureController<'_, S> {
    fn poll(&mut self, view: &HoldView<'_>) -> Option<Order> {
        self.held = view.held;
        self.report_memory(view.now);
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
