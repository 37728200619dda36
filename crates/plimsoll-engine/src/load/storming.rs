//! A worker's part in a storm: connections that are cut, and clients that come back.
//!
//! [`StormRun`] decides when each client tries again; this file carries that out on connections.
//! [`Worker::storm_due`] cuts this worker's share of the connections, [`BATCH`] slots per call, and then begins the
//! attempts that are due. A client is back once its first request is answered ([`Worker::rest_in_storm`]); its
//! recovery counts from the cut. [`Worker::end_storm`] resumes heartbeats. Start reading at [`Worker::storm_due`].

use plimsoll_model::storm::{Cut, StormClients};
use plimsoll_model::{ErrorClass, Nanos};

use super::conn::{Op, Purpose, State};
use super::hold::BATCH;
use super::storm::StormRun;
use super::worker::Worker;

impl Worker {
    /// Prepares a storm that cuts this worker's share of `cut` connections `at` this time from the load's epoch on.
    pub(super) fn begin_storm(
        &mut self,
        id: u32,
        cut: u64,
        at: Nanos,
        clients: StormClients,
        now: Nanos,
    ) {
        let began = (self.phases.epoch + at).max(now);
        let seed = self.plan.seed;
        let Some(hold) = self.demand.hold_mut() else { return };
        let (shard, cut) = (hold.shard, hold.shard.share(cut));
        hold.storm = Some(Box::new(StormRun::new(id, clients, cut, began, shard, seed)));
    }

    /// Has a share of the clients that are not back stop trying.
    pub(super) fn withdraw(&mut self, share: f64) {
        let left = self.demand.storm().map_or(0, |storm| storm.withdraw(share));
        self.meter.tally().storm.withdrawn += left;
    }

    /// Continues the storm in progress; `false` if there may be more to do now.
    pub(super) fn storm_due(&mut self, now: Nanos) -> bool {
        for _ in 0..BATCH {
            let slots = self.conns.slab.len() as u32;
            let Some(storm) = self.demand.storm().filter(|storm| now >= storm.began) else {
                return true;
            };
            if storm.to_cut == 0 {
                return self.end_storm_if_over(now) || self.make_attempts(now);
            }
            let next = storm.cursor.unwrap_or(slots).checked_sub(1);
            storm.cursor = next;
            match next {
                Some(index) => self.cut_slot(index, now),
                // Fewer were held than were to be cut.
                None => storm.to_cut = 0,
            }
        }
        false
    }

    fn cut_slot(&mut self, index: u32, now: Nanos) {
        if !matches!(self.conns[index].state, State::Idle | State::Busy) {
            return;
        }
        let Some(storm) = self.demand.storm() else { return };
        let how = storm.clients.cut;
        storm.add_client(now);
        self.meter.tally().storm.cut += 1;
        self.fail_op(index, ErrorClass::Interrupted, now);
        self.leave_sweep(index, false, now);
        if how == Cut::Silent {
            let left = self.conns.leave_open(index);
            if let Some(storm) = self.demand.storm() {
                storm.left.extend(left);
            }
        }
        self.close(index, how == Cut::Rst);
    }

    /// Begins the attempts that are due; false when there may be more.
    fn make_attempts(&mut self, now: Nanos) -> bool {
        for _ in 0..BATCH {
            let Some(storm) = self.demand.storm() else { return true };
            let Some(due) = storm.poll_attempt(now) else { return true };
            let is_retry = storm.opening > 0;
            let counts = &mut self.meter.tally().storm;
            counts.attempts += 1;
            counts.retries += u64::from(is_retry);
            counts.lag_max = counts.lag_max.max(now.since(due));
            if let Some(hold) = self.demand.hold_mut() {
                hold.purpose = Purpose::Storm;
            }
            let destination = self.next_destination();
            self.open(destination, None, now);
        }
        false
    }

    /// Notes that the connection in the slot is the attempt of a storm's client.
    pub(super) fn note_storm_attempt(&mut self, index: u32, now: Nanos) {
        if self.conns[index].purpose == Purpose::Storm
            && let Some(storm) = self.demand.storm()
        {
            storm.begin_attempt(index, now);
        }
    }

    /// Returns the time at which the client of the storm in the slot gives up its attempt; `None` once it is back.
    pub(super) fn storm_patience_ends(&self, index: u32) -> Option<Nanos> {
        let storm = self.demand.hold()?.storm.as_deref()?;
        let began = self.conns[index].is_trying().then(|| storm.attempt_began(index))?;
        Some(began + self.plan.timeouts.connect)
    }

    /// Ends the attempt of a storm's client, which failed for `class`; `index` is its slot, if it had one.
    pub(super) fn end_storm_attempt(&mut self, index: Option<u32>, class: ErrorClass, now: Nanos) {
        let is_patience = class == ErrorClass::Timeout;
        let counts = &mut self.meter.tally().storm;
        match class {
            // A trim: the storm is ended.
            ErrorClass::Interrupted => {}
            ErrorClass::Timeout => counts.gave_up += 1,
            _ => {
                counts.refused += 1;
                self.meter.count_failed_attempt(class);
            }
        }
        if self.demand.storm().is_some_and(|storm| storm.end_attempt(index, !is_patience, now)) {
            self.meter.tally().storm.withdrawn += 1;
        }
        self.phases.wake(now);
    }

    /// Notes that a client gives up after it has sent bytes, which the server may still process.
    pub(super) fn count_sent_in_vain(&mut self, index: u32, class: ErrorClass) {
        let has_sent = self.conns[index].state != State::Connecting;
        if class == ErrorClass::Timeout && has_sent {
            self.meter.tally().storm.gave_up_sent += 1;
        }
    }

    /// Handles a connection of a storm's client that has become usable, or whose first request was answered.
    pub(super) fn rest_in_storm(&mut self, index: u32, now: Nanos) {
        let hot = &self.conns[index];
        if hot.beat_due != Nanos::ZERO {
            return;
        }
        if hot.reused {
            self.conns[index].beat_due = Nanos::MAX;
            let Some(storm) = self.demand.storm() else { return };
            let took = storm.count_back(now);
            let counts = &mut self.meter.tally().storm;
            counts.back += 1;
            counts.recovery.record(took);
            // For pings of the protocol: heartbeats wait until all are back.
            self.arm_next(index);
            return self.phases.wake(now);
        }
        let destination = hot.destination;
        let target = self.requests.take_for(destination);
        let patience_ends = self.storm_patience_ends(index).unwrap_or(now);
        self.conns.rearm(index, patience_ends);
        let op = Op { intended: now, target, is_recorded: false, again: 0 };
        self.send_op(index, op, now, now);
    }

    /// Handles the coming close of a usable connection of a storm's client, for `loss`.
    pub(super) fn lose_in_storm(&mut self, index: u32, loss: Option<ErrorClass>, now: Nanos) {
        if self.conns[index].is_trying() {
            let class = loss.unwrap_or(ErrorClass::ClosedByPeer);
            self.count_sent_in_vain(index, class);
            return self.end_storm_attempt(Some(index), class, now);
        }
        self.meter.tally().storm.lost_again += 1;
        if let Some(storm) = self.demand.storm() {
            storm.lose_again(now);
        }
        self.phases.wake(now);
    }

    /// Ends the storm once every client is back; returns whether it has ended.
    fn end_storm_if_over(&mut self, now: Nanos) -> bool {
        let is_over = self.demand.storm().is_some_and(|storm| storm.is_over());
        if is_over {
            self.end_storm(now);
        }
        is_over
    }

    /// Ends the storm: clients that are back send heartbeats again, and those that wait give up.
    pub(super) fn end_storm(&mut self, now: Nanos) {
        let Some(hold) = self.demand.hold_mut() else { return };
        let Some(mut storm) = hold.storm.take() else { return };
        storm.left.drain(..).for_each(|left| self.conns.transport.reset_left(left, now));
        for index in 0..self.conns.slab.len() as u32 {
            let hot = &mut self.conns[index];
            if hot.purpose != Purpose::Storm {
                continue;
            }
            hot.purpose = Purpose::Ramp;
            if !matches!(hot.state, State::Idle | State::Busy) {
                continue;
            }
            if let Some(hold) = self.demand.hold_mut() {
                self.conns[index].beat_due = hold.first_beat(now);
            }
            self.arm_next(index);
        }
        self.report_steered(storm.id);
    }
}
