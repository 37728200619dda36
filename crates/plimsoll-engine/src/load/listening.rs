//! Unrequested messages.

use plimsoll_model::Nanos;
use plimsoll_proto::websocket::Push;

use super::conn::State;
use super::control::Stop;
use super::exchange::Until;
use super::transport::Transport;
use super::unrequested::{LISTEN_MAX, LISTEN_MIN};
use super::worker::Worker;

impl Worker {
    /// Counts a message that is no answer. Its delay is known if the server reads the clock of this host.
    pub(super) fn count_push(&mut self, index: u32, push: &Push) {
        self.unrequested.has_come = true;
        let tally = self.meter.tally();
        tally.answers.pushed.messages += 1;
        tally.answers.pushed.bytes += u64::from(push.bytes);
        if push.clock != 0 && push.clock == self.unrequested.clock {
            let now = Transport::now();
            tally.spans.pushed.record(now.since(push.sent));
        }
        if self.conns[index].state == State::Idle {
            self.conns.slab.return_idle_parser(index);
        }
    }

    /// Counts a message that would have been an answer if one had been awaited.
    pub(super) fn count_surplus(&mut self, index: u32, bytes: u32) {
        if self.unrequested.is_judged {
            self.unrequested.has_surplus = true;
            self.meter.tally().answers.pushed.surplus += 1;
        }
        self.count_push(index, &Push { bytes, clock: 0, sent: Nanos::ZERO });
    }

    /// Reads what has come on an idle connection that is about to have an operation, once messages are known to come
    /// unasked. Returns whether it is still idle.
    pub(super) fn read_unrequested(&mut self, index: u32, now: Nanos) -> bool {
        if !self.unrequested.has_come {
            return true;
        }
        let token = self.conns.slab.token(index);
        self.read_until(index, Until::Emptied, now);
        self.conns.slab.index_of(token).is_some() && self.conns[index].state == State::Idle
    }

    /// Keeps a connection open that is done, if none listens yet. Another may have its place in the pool.
    pub(super) fn listen(&mut self, index: u32, now: Nanos) -> bool {
        let unrequested = &mut self.unrequested;
        let is_wanted = unrequested.is_judged && !unrequested.has_surplus;
        if !is_wanted || unrequested.listener.is_some() {
            return false;
        }
        unrequested.listener = Some(self.conns.slab.token(index));
        let hot = &mut self.conns[index];
        hot.state = State::Idle;
        let destination = hot.destination;
        self.pools.close(destination, true);
        self.conns.slab.return_idle_parser(index);
        self.open_for_waiting(destination, now);
        self.reopen_closed_loop(destination, now);
        true
    }

    /// Reports whether the connection only listens.
    pub(super) fn is_listener(&self, index: u32) -> bool {
        self.unrequested.listener == Some(self.conns.slab.token(index))
    }

    /// Closes a connection that only listens; returns whether it was one.
    pub(super) fn end_listening(&mut self, index: u32) -> bool {
        let is_listener = self.is_listener(index);
        if is_listener {
            self.close(index, false);
        }
        is_listener
    }

    /// Reports whether the wait for further messages has ended; called when the last operation has.
    pub(super) fn have_messages_settled(&mut self, now: Nanos) -> bool {
        let held = self.pools.held;
        let unrequested = &mut self.unrequested;
        let can_hear = held > 0 || unrequested.listener.is_some();
        let is_done = !unrequested.is_judged || unrequested.has_surplus || !can_hear;
        if is_done || unrequested.slowest == Nanos::ZERO {
            return true;
        }
        let time = (unrequested.slowest + unrequested.slowest).clamp(LISTEN_MIN, LISTEN_MAX);
        let at = *unrequested.settles_at.get_or_insert(now + time);
        now >= at || self.owner.control.asked_to_stop(now) != Stop::No
    }
}
