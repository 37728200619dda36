//! Messages of WebSocket that answer nothing.
//!
//! A message that the server sends on its own while an operation awaits its answer cannot be distinguished from the
//! answer, unless the plan says what an answer is. It is taken for one, the answer itself for that to the next operation,
//! and so on: what is left of it is that more messages come than were sent. So that the last message is not missed, a
//! load listens for a moment after its last answer. Where each operation has a connection of its own, the first
//! connection of each thread stays open and listens until then.

use plimsoll_model::Nanos;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::target::Protocol;
use plimsoll_proto::websocket::Push;
use plimsoll_sys::clock;

use super::conn::State;
use super::control::Stop;
use super::exchange::Until;
use super::worker::Worker;

/// Bounds of the time for which a load listens after its last answer: twice the longest time that an answer took, since a message that was
/// taken for an answer halves the time of one at most; within these bounds.
const LISTEN_MIN: Nanos = Nanos::from_millis(100);
const LISTEN_MAX: Nanos = Nanos::from_secs(1);

/// One worker's part of it.
pub(super) struct Unrequested {
    /// Whether messages are answers at all.
    is_judged: bool,
    /// Whether a message has come that nothing awaited.
    has_come: bool,
    /// Whether one of them would have been an answer: there is nothing left to find out.
    has_surplus: bool,
    /// The longest time from an operation's sending to its answer.
    slowest: Nanos,
    /// Token of the connection that stays open after its answer.
    listener: Option<u64>,
    settles_at: Option<Nanos>,
}

impl Unrequested {
    pub(super) fn new(plan: &LoadPlan) -> Self {
        let is_hold = matches!(plan.pacing, Pacing::Hold(_));
        Self {
            is_judged: plan.protocol() == Protocol::WebSocket && !is_hold,
            has_come: false,
            has_surplus: false,
            slowest: Nanos::ZERO,
            listener: None,
            settles_at: None,
        }
    }

    /// An operation has its answer, so long after it was sent.
    #[inline]
    pub(super) fn note_answer(&mut self, took: Nanos) {
        if self.is_judged {
            self.slowest = self.slowest.max(took);
        }
    }
}

impl Worker {
    /// Counts a message that is no answer. Its delay is known if the server reads the clock of this host.
    pub(super) fn count_push(&mut self, index: u32, push: &Push) {
        self.unrequested.has_come = true;
        let clock = self.clock;
        let tally = self.meter.tally();
        tally.pushed.messages += 1;
        tally.pushed.bytes += u64::from(push.bytes);
        if push.clock != 0 && push.clock == clock {
            let now = Nanos(clock::monotonic_ns());
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
            self.meter.tally().pushed.surplus += 1;
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

    /// The last operation has ended: whether no more messages are listened for.
    pub(super) fn have_messages_settled(&mut self, now: Nanos) -> bool {
        let held = self.pools.held();
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
