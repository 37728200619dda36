//! A trim of a hold: what is being opened is given up, and what is held beyond a number is closed.

use plimsoll_model::{ErrorClass, Nanos};

use super::conn::State;
use super::worker::Worker;

/// Slots that are looked at before the answers that came meanwhile are: a reset takes about 20 us.
const BATCH: usize = 64;

impl Worker {
    /// Continues the trim in progress and begins the next one when it is done; `false` if there may be more to do.
    pub(super) fn trim_due(&mut self, now: Nanos) -> bool {
        for _ in 0..BATCH {
            let slots = self.conns.slab.len() as u32;
            let Some(hold) = self.demand.hold_mut() else { return true };
            let Some(trim) = hold.trims.front_mut() else { return true };
            let (id, keep) = (trim.id, trim.keep);
            // From the last slot down: the connections that were opened last go first.
            let next = trim.cursor.unwrap_or(slots).checked_sub(1);
            trim.cursor = next;
            match next {
                Some(index) => self.trim_slot(index, keep, now),
                None => {
                    hold.trims.pop_front();
                    self.end_storm(now);
                    let held = self.pools.held;
                    if let Some(hold) = self.demand.hold_mut() {
                        hold.forget_attempts(held);
                    }
                    self.report_steered(id);
                }
            }
        }
        false
    }

    fn trim_slot(&mut self, index: u32, keep: u64, now: Nanos) {
        match self.conns[index].state {
            State::Connecting | State::Handshaking | State::Greeting => {
                let why = "given up by a trim";
                self.fail_opening(index, ErrorClass::Interrupted, &why, now);
            }
            State::Idle | State::Busy if self.conns[index].is_trying() => {
                self.fail_op(index, ErrorClass::Interrupted, now);
                self.end_storm_attempt(Some(index), ErrorClass::Interrupted, now);
                self.close(index, true);
            }
            State::Idle | State::Busy if self.pools.held > keep => {
                self.fail_op(index, ErrorClass::Interrupted, now);
                self.leave_sweep(index, false, now);
                self.close(index, true);
            }
            // What is closing ends by itself.
            State::Free | State::Idle | State::Busy | State::Closing => {}
        }
    }
}
