//! A worker's part in a sweep: turns, and the ends of its operations.

use plimsoll_model::Nanos;

use super::conn::{State, Sweep};
use super::hold::BATCH;
use super::sweep::{IN_FLIGHT_MAX, SweepRun};
use super::worker::Worker;

impl Worker {
    /// Sends the sweep's requests that are due and begins the next sweep when one is done; false
    /// when there may be more.
    pub(super) fn sweep_due(&mut self, now: Nanos) -> bool {
        for _ in 0..BATCH {
            let Some(hold) = self.demand.hold_mut() else { return true };
            let Some(sweep) = &mut hold.sweep else {
                let Some((id, over)) = hold.sweeps.pop_front() else { return true };
                self.begin_sweep(id, over, now);
                continue;
            };
            if sweep.is_done() {
                let id = sweep.id;
                hold.sweep = None;
                self.report_steered(id);
                continue;
            }
            if sweep.next_due().is_none_or(|due| due > now) {
                return true;
            }
            self.take_turn(now);
        }
        false
    }

    fn begin_sweep(&mut self, id: u32, over: Nanos, now: Nanos) {
        let mut conns = 0;
        for hot in &mut self.conns.slab.hot {
            if matches!(hot.state, State::Idle | State::Busy) {
                hot.sweep = Sweep::Planned;
                conns += 1;
            }
        }
        if let Some(hold) = self.demand.hold_mut() {
            let places = hold.shard.share(IN_FLIGHT_MAX);
            hold.sweep = Some(SweepRun::new(id, now, over, conns, hold.turn(), places));
        }
    }

    /// Gives the next connection its turn, since its request may be sent.
    fn take_turn(&mut self, now: Nanos) {
        let Some(sweep) = self.demand.sweep() else { return };
        let Some(intended) = sweep.intended() else { return };
        let free_since = sweep.places.free_at();
        let slots = self.conns.slab.hot.get(sweep.cursor as usize..).unwrap_or_default();
        let Some(ahead) = slots.iter().position(|hot| hot.sweep == Sweep::Planned) else {
            debug_assert!(false, "planned and not found: {sweep:?}");
            sweep.planned = 0;
            return;
        };
        let index = sweep.cursor + ahead as u32;
        sweep.take_turn(index);
        let hot = &mut self.conns[index];
        if hot.state == State::Idle {
            hot.sweep = Sweep::Sent;
            // Waiting for a place is the server's doing, and no lag of ours.
            hot.since = hot.since.max(free_since);
            sweep.places.take(now);
            self.meter.tally().scheduled += 1;
            self.send_held(index, intended, now);
        } else {
            hot.sweep = Sweep::Awaited;
        }
    }

    /// Ends the sweep's operation on the connection.
    pub(super) fn end_swept(&mut self, index: u32, now: Nanos) {
        let was = std::mem::replace(&mut self.conns[index].sweep, Sweep::No);
        if let Some(sweep) = self.demand.sweep() {
            sweep.end_one(was == Sweep::Sent, now);
            self.phases.wake(now);
        }
    }

    /// Ends the sweep's request on a connection that is about to be closed, or that `is_lost`.
    pub(super) fn leave_sweep(&mut self, index: u32, is_lost: bool, now: Nanos) {
        let tally = self.meter.tally();
        let Some(sweep) = self.demand.sweep() else { return };
        match self.conns[index].sweep {
            Sweep::No => return,
            Sweep::Planned => {
                sweep.planned -= 1;
                tally.scheduled += 1;
                tally.unsent += 1;
                tally.unsent_lost += u64::from(is_lost);
            }
            Sweep::Awaited | Sweep::Sent => {}
        }
        self.end_swept(index, now);
    }
}
