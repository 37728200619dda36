//! Pings that keep idle connections open.

use plimsoll_model::reason::Reason;
use plimsoll_model::{ErrorClass, Nanos};

use super::conn::{Peer, State};
use super::exchange::Until;
use super::timers::TURNS_MAX;
use super::worker::Worker;

impl Worker {
    /// Starts the keep-alive of a connection that has become usable, with the value that its broker states, if any.
    pub(super) fn begin_keep_alive(&mut self, index: u32, stated_s: Option<u16>, now: Nanos) {
        if let Some(stated_s) = stated_s {
            self.meter.tally().answers.pings.note_stated(stated_s);
        }
        if self.keep_alive.begin(index, stated_s, now) {
            self.arm_next(index);
        }
    }

    /// Handles the connection's timer: pings if the connection was silent, or closes it if an earlier ping is not
    /// answered. Returns whether the connection still exists.
    pub(super) fn keep_connection_alive(&mut self, index: u32, now: Nanos) -> bool {
        if self.keep_alive.next(index) > now {
            return true;
        }
        let generation = self.conns[index].generation;
        if self.is_ping_lost(index, now) {
            // The answer may have come, and only we have not looked.
            let mut turns_left = TURNS_MAX;
            while turns_left > 0 && self.read_until(index, Until::Emptied, now) {
                turns_left -= 1;
            }
            if self.conns[index].generation != generation {
                return false;
            }
            if self.is_ping_lost(index, now) {
                let why = "the broker did not answer a PINGREQ within the keep-alive";
                self.meter.note(&self.conns, index, ErrorClass::Timeout, Reason::other(&why), now);
                self.fail_op_and_close(index, ErrorClass::Timeout, now);
                return false;
            }
        }
        if self.keep_alive.pings_at(index).is_some_and(|at| at <= now) {
            self.ping(index, now);
        }
        self.conns[index].generation == generation
    }

    fn is_ping_lost(&self, index: u32, now: Nanos) -> bool {
        self.keep_alive.gives_up_at(index).is_some_and(|at| at <= now)
    }

    /// Sends a PINGREQ that is no operation, unless bytes of another packet are still to be sent.
    pub(super) fn ping(&mut self, index: u32, now: Nanos) {
        let hot = &self.conns[index];
        let is_usable = matches!(hot.state, State::Idle | State::Busy) && hot.peer == Peer::Open;
        let is_sending = hot.state == State::Busy && !self.request_is_sent(index);
        if !is_usable || is_sending || self.conns.has_unsent(index) {
            return self.keep_alive.note_sent(index, now);
        }
        let mut bytes = std::mem::take(&mut self.buffers.reply);
        self.conns.slab.parser(index).ping_aside(&mut bytes);
        self.meter.tally().answers.pings.sent += 1;
        self.keep_alive.note_ping(index, now);
        if bytes.is_empty() {
            self.note_output(index);
        } else {
            let sent = self.conns.send_aside(index, &bytes);
            bytes.clear();
            self.handle_sent(index, sent, now);
        }
        self.buffers.reply = bytes;
    }

    /// Counts the answer to a PINGREQ that is no operation.
    pub(super) fn count_pong(&mut self, index: u32, now: Nanos) {
        self.meter.tally().answers.pings.answered += 1;
        self.keep_alive.note_answer(index, now);
        if self.conns[index].state == State::Idle {
            self.conns.slab.return_idle_parser(index);
        }
    }

    /// Pings if a heartbeat of a hold is due and the previous one is not answered: the broker must be sent something
    /// all the same.
    pub(super) fn ping_instead_of_beat(&mut self, index: u32, now: Nanos) {
        if self.protocol.has_keep_alive {
            self.ping(index, now);
        }
    }
}
