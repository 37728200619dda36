//! Think time of scripts: within an operation, and behind it.

use plimsoll_model::Nanos;
use plimsoll_proto::conversation::Conversation;

use super::conn::State;
use super::worker::Worker;

impl Worker {
    /// Starts the sleep of the current operation's script. The time is part of no latency, as if the operation had been
    /// due, and sent, that much later.
    pub(super) fn begin_sleep(&mut self, index: u32, time: Nanos, now: Nanos) {
        let wakes = now + time;
        let hot = &mut self.conns[index];
        hot.intended = hot.intended + time;
        hot.since = hot.since + time;
        if let Conversation::Script(script) = self.conns.slab.parser(index) {
            script.sleep_until(wakes);
        }
        self.conns.rearm(index, wakes);
    }

    /// Starts the rest of the connection after an operation, as its script demands.
    pub(super) fn begin_rest(&mut self, index: u32, time: Nanos, now: Nanos) {
        if self.demand.is_hold() {
            // Its heartbeats are further apart.
            return self.handle_free(index, now);
        }
        let hot = &mut self.conns[index];
        hot.state = State::Idle;
        hot.since = now;
        hot.beat_due = now + time;
        self.conns.slab.return_idle_parser(index);
        self.conns.rearm(index, now + time);
    }

    /// Handles the timer of a script's connection; returns whether it was one of this module's.
    pub(super) fn end_sleep(&mut self, index: u32, now: Nanos) -> bool {
        let hot = &mut self.conns[index];
        match hot.state {
            State::Busy => {
                let script = self.conns.slab.script(index);
                if script.and_then(|script| script.sleeps_until()).is_none_or(|at| now < at) {
                    return false;
                }
                self.wake(index, now);
                true
            }
            State::Idle if hot.beat_due > Nanos::ZERO && !self.demand.is_hold() => {
                if now < hot.beat_due {
                    return false;
                }
                hot.beat_due = Nanos::ZERO;
                self.handle_free(index, now);
                true
            }
            _ => false,
        }
    }

    /// Continues the script, with the bytes that came while it slept.
    fn wake(&mut self, index: u32, now: Nanos) {
        let generation = self.conns[index].generation;
        let Conversation::Script(script) = self.conns.slab.parser(index) else { return };
        let early = script.wake();
        // The operation's own timer again.
        self.conns.rearm(index, now + self.answer_timeout());
        let consumed = self.handle_part(index, &early, now);
        let rest = early.get(consumed..).unwrap_or_default();
        if !rest.is_empty() && self.conns[index].generation == generation {
            self.handle_bytes(index, rest, now);
        }
    }
}
