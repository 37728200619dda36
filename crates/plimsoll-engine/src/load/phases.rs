//! The phase of one worker in its load.

use plimsoll_model::Nanos;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    Prewarming,
    Ready,
    Running,
    /// No operation is started; waiting ones may still be sent until the grace ends.
    Draining,
}

/// The phase, and the instants that bound it.
#[derive(Debug)]
pub(super) struct Phases {
    pub(super) now_in: Phase,
    /// The instant from which operations are scheduled.
    pub(super) epoch: Nanos,
    /// End of the time over which the load's rate is counted: no operation starts later. [`Nanos::MAX`] while a
    /// closed loop with a count of operations has not ended the last one.
    pub(super) window_ends: Nanos,
    /// Time at which the next operation is to be started, or a hold has something to do.
    pub(super) next_due: Option<Nanos>,
    /// Time at which waiting operations are given up as unsent; set once draining.
    sending_ends: Nanos,
}

impl Phases {
    pub(super) const fn new() -> Self {
        let never = Nanos::MAX;
        let (epoch, window_ends, sending_ends) = (never, never, never);
        Self { now_in: Phase::Prewarming, epoch, window_ends, next_due: None, sending_ends }
    }

    pub(super) fn is(&self, phase: Phase) -> bool {
        self.now_in == phase
    }

    /// Reports whether operations may still be started at `now`.
    pub(super) fn may_start(&self, now: Nanos) -> bool {
        self.is(Phase::Running) && self.epoch <= now && now < self.window_ends
    }

    /// Reports whether something is to be started at `now`.
    pub(super) fn is_due(&self, now: Nanos) -> bool {
        self.next_due.is_some_and(|due| due <= now)
    }

    /// Has the next turn compute again what is due.
    pub(super) fn wake(&mut self, now: Nanos) {
        if self.is(Phase::Running) {
            self.next_due = Some(now);
        }
    }

    /// Returns the time at which a worker has something to start or a window to end.
    pub(super) fn next_deadline(&self) -> Nanos {
        let due = self.next_due.unwrap_or(Nanos::MAX);
        if self.is(Phase::Running) { due.min(self.window_ends) } else { due }
    }

    /// Reports whether what is draining and was not sent is given up.
    pub(super) fn is_sending_over(&self, now: Nanos) -> bool {
        self.is(Phase::Draining) && now >= self.sending_ends
    }

    /// Returns the time from the epoch to the end of the window.
    pub(super) fn window(&self, now: Nanos) -> Nanos {
        self.window_ends.min(now).since(self.epoch)
    }

    pub(super) fn start(&mut self, epoch: Nanos, window: Option<Nanos>) {
        self.now_in = Phase::Running;
        self.epoch = epoch;
        self.window_ends = window.map_or(Nanos::MAX, |window| epoch + window);
    }

    /// Lets no operation start from `now` on; waiting ones may be sent for `send_for`.
    pub(super) fn begin_draining(&mut self, now: Nanos, send_for: Nanos) {
        // A load that never began has no window.
        self.epoch = self.epoch.min(now);
        self.sending_ends = now + send_for;
        self.next_due = None;
        self.now_in = Phase::Draining;
    }

    /// Ends the window at `now`, if it has not ended before.
    pub(super) fn end_window(&mut self, now: Nanos) {
        self.window_ends = self.window_ends.min(now);
    }
}
