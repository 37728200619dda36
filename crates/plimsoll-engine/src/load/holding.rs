//! A worker's part in a hold: steers, openings that are due, and the life of a connection.
//!
//! [`Worker::handle_steer`] stores an order of the controller in [`Hold`]. [`Worker::advance_hold`] carries out what
//! is due (trim, openings, storm, sweep) in batches of [`BATCH`] and sets the time of the next call. [`Worker::rest`]
//! decides what a held connection does next. [`Worker::beat`] sends a heartbeat on an idle connection and counts
//! beats that were missed meanwhile as unsent. Start reading at [`Worker::advance_hold`].

use plimsoll_model::plan::Steer;
use plimsoll_model::{ErrorClass, Nanos};

use super::conn::{Op, Purpose, State, Sweep};
use super::hold::{BATCH, Hold};
use super::phases::Phase;
use super::storm::StormRun;
use super::sweep::SweepRun;
use super::worker::Worker;

impl Worker {
    // ---- steering

    pub(super) fn handle_steer(&mut self, id: u32, steer: Steer, now: Nanos) {
        let Some(hold) = self.demand.hold_mut() else { return };
        match steer {
            Steer::Ramp { connections } => hold.begin_ramp(id, connections),
            Steer::Trim { connections } => hold.begin_trim(id, connections),
            Steer::Sweep { over } => hold.sweeps.push_back((id, over)),
            Steer::Storm { cut, at, clients } => self.begin_storm(id, cut, at, clients, now),
            Steer::Withdraw { share } => {
                self.withdraw(share);
                self.report_steered(id);
            }
            Steer::Spread { of } => {
                hold.spread_over(of);
                self.report_steered(id);
            }
        }
        self.advance_hold(now);
    }

    /// Does what is due in a hold, and notes when it must be called next.
    pub(super) fn advance_hold(&mut self, now: Nanos) {
        let trimmed_all = self.trim_due(now);
        // Not before: the trim has passed this slot already and would miss a new connection in it.
        let opened_all = trimmed_all && self.open_due(now) && self.storm_due(now);
        let swept_all = self.sweep_due(now);
        self.end_ramps();
        let Some(hold) = self.demand.hold() else { return };
        let sweep = hold.sweep.as_ref().and_then(SweepRun::next_due);
        let storm = hold.storm.as_deref().and_then(StormRun::next_due);
        self.phases.next_due = match opened_all && swept_all {
            true => hold.next_open().into_iter().chain(sweep).chain(storm).min(),
            false => Some(now),
        };
    }

    /// Opens what is due; false when there may be more.
    fn open_due(&mut self, now: Nanos) -> bool {
        for _ in 0..BATCH {
            if !self.demand.hold_mut().is_some_and(|hold| hold.poll_open(now)) {
                return true;
            }
            let destination = self.next_destination();
            self.open(destination, None, now);
        }
        false
    }

    /// Returns the next destination. Each destination is used as many times in succession as it has addresses, because
    /// addresses are used in turn as well, and each destination must use all of its own.
    pub(super) fn next_destination(&self) -> u32 {
        let destinations = &self.plan.destinations;
        let most = destinations.iter().map(|one| one.addresses.len()).max().unwrap_or(1);
        (self.conns.transport.turn() / most.max(1) as u64 % destinations.len().max(1) as u64) as u32
    }

    fn end_ramps(&mut self) {
        let Some(hold) = self.demand.hold_mut() else { return };
        let done = hold.take_ramps_done();
        if done.is_empty() {
            return;
        }
        for id in done {
            self.report_steered(id);
        }
        self.conns.free_unused();
    }

    /// Ends the hold: steers that are not finished are dropped.
    pub(super) fn end_steers(&mut self) {
        let Some(hold) = self.demand.hold_mut() else { return };
        for id in hold.end() {
            self.report_steered(id);
        }
    }

    // ---- the life of a held connection

    /// Handles a failed attempt to open a connection of a hold. `index` is its slot, if it had one.
    pub(super) fn handle_attempt_failed(
        &mut self,
        purpose: Purpose,
        index: Option<u32>,
        class: ErrorClass,
        now: Nanos,
    ) {
        if purpose == Purpose::Storm {
            return self.end_storm_attempt(index, class, now);
        }
        let Some(hold) = self.demand.hold_mut() else { return };
        hold.end_opening(purpose);
        hold.count_loss();
        self.phases.wake(now);
    }

    /// Decides what a connection does next that has become usable, or whose operation has ended.
    pub(super) fn rest(&mut self, index: u32, now: Nanos) {
        if self.conns[index].is_in_storm() {
            return self.rest_in_storm(index, now);
        }
        let hot = &mut self.conns[index];
        let Some(hold) = self.demand.hold_mut() else { return };
        if hot.beat_due == Nanos::ZERO {
            hot.beat_due = hold.first_beat(now);
            hold.end_opening(hot.purpose);
            let is_replacement = hot.purpose == Purpose::Replacement;
            self.meter.tally().connections.replaced += u64::from(is_replacement);
            self.phases.wake(now);
        }
        let hot = &self.conns[index];
        match hot.sweep {
            Sweep::Awaited | Sweep::Sent => self.end_swept(index, now),
            Sweep::No | Sweep::Planned => {}
        }
        let hot = &mut self.conns[index];
        if !hot.timer_armed && hot.beat_due < Nanos::MAX && self.phases.is(Phase::Running) {
            let beat_due = hot.beat_due;
            self.conns.rearm(index, beat_due);
        }
    }

    /// Handles the coming close of a usable connection of a hold; `loss` is `None` if we close it.
    pub(super) fn handle_held_end(&mut self, index: u32, loss: Option<ErrorClass>, now: Nanos) {
        if self.conns[index].is_in_storm() {
            return self.lose_in_storm(index, loss, now);
        }
        let Some(hold) = self.demand.hold_mut() else { return };
        if let Some(class) = loss {
            self.meter.tally().failures.lost_held.count(class);
        }
        hold.count_loss();
        self.leave_sweep(index, loss.is_some(), now);
        self.phases.wake(now);
    }

    // ---- heartbeats

    /// Handles the timer of a held connection. Beats that came due while an answer was awaited are counted as unsent;
    /// one that is due on an idle connection is sent. A sweep's request replaces the beat of its period.
    pub(super) fn beat(&mut self, index: u32, now: Nanos) {
        let period = self.demand.hold().and_then(Hold::heartbeat);
        let is_silent = self.conns[index].is_in_storm() || !self.phases.is(Phase::Running);
        let hot = &mut self.conns[index];
        let due = hot.beat_due;
        if due > now || is_silent {
            return;
        }
        let period = period.unwrap_or(Nanos::MAX);
        let beats = now.since(due).0 / period.0 + 1;
        hot.beat_due = due + Nanos(period.0.saturating_mul(beats));
        let had = hot.ops_total + u32::from(hot.has_op);
        if self.plan.session.is_some_and(|session| had >= session.transactions) {
            hot.beat_due = Nanos::MAX;
            return;
        }
        let is_free = hot.state == State::Idle;
        let is_swept = hot.sweep == Sweep::Sent && due < hot.intended.saturating_add(period);
        let beats = beats - u64::from(is_swept);
        let tally = self.meter.tally();
        tally.scheduled += beats;
        tally.unsent += beats - u64::from(is_free);
        if is_free {
            self.send_held(index, due, now);
        } else {
            self.ping_instead_of_beat(index, now);
        }
    }

    /// Sends a request that came due at `due` on an idle held connection.
    pub(super) fn send_held(&mut self, index: u32, due: Nanos, now: Nanos) {
        let destination = self.conns[index].destination;
        let target = self.requests.take_for(destination);
        let hot = &mut self.conns[index];
        let free_since = hot.since;
        // The timer may be armed for the next heartbeat, which is later than the answer's deadline.
        let beat_due = hot.beat_due;
        let next = beat_due.min(self.keep_alive.next(index));
        self.conns.rearm(index, next.min(now + self.answer_timeout()));
        let op = Op { intended: due, target, is_recorded: false, again: 0 };
        self.send_op(index, op, free_since, now);
    }
}
