//! Sessions: connections with a planned number of transactions, which end with our FIN.
//!
//! A socket that is closed while the peer still sends (a close_notify, a session ticket) answers
//! with a RST, and the server would see a connection that was reset. So only the sending half is
//! closed at first, and the socket when the peer's FIN has arrived.

use plimsoll_model::plan::Session;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::conversation::Answer;

use super::conn::{Op, Peer, State};
use super::worker::Worker;

/// Time for which the peer's FIN is waited for; a server that has not closed by then may never do so.
pub(super) const FIN_WAIT: Nanos = Nanos::from_secs(2);

impl Worker {
    /// Starts the next transaction, or ends the session, after an answer that is complete and counted.
    pub(super) fn advance_session(
        &mut self,
        index: u32,
        session: Session,
        answer: &Answer,
        exact: bool,
        now: Nanos,
    ) {
        self.conns.slab.return_parser(index);
        let hot = &self.conns[index];
        if !exact || !self.request_is_sent(index) {
            let loss = (!exact).then_some(ErrorClass::UnrequestedAnswer);
            self.close_and_refill(index, loss, now);
        } else if answer.keep_alive
            && hot.peer == Peer::Open
            && hot.ops_total < session.transactions
        {
            self.send_next_of_session(index, now);
        } else {
            self.begin_closing(index, now);
        }
    }

    /// Sends the next request of a session. It is due when the previous answer is complete, and sent in the same
    /// instant.
    fn send_next_of_session(&mut self, index: u32, now: Nanos) {
        let target = self.requests.after(self.conns[index].target);
        let is_recorded = self.meter.rows.choose();
        let op = Op { intended: now, target, is_recorded, again: 0 };
        self.meter.tally().scheduled += 1;
        self.send_op(index, op, now, now);
    }

    fn begin_closing(&mut self, index: u32, now: Nanos) {
        let generation = self.conns[index].generation;
        let sent = self.conns.send_last(index);
        self.handle_sent(index, sent, now);
        if self.conns[index].generation != generation {
            return;
        }
        if self.conns.has_unsent(index) {
            // The peer does not read: it would wait for a FIN behind bytes that never leave.
            return self.close_and_refill(index, None, now);
        }
        self.conns.end_sending(index);
        let hot = &mut self.conns[index];
        hot.state = State::Closing;
        hot.since = now;
        // The timer in the wheel is the answer's, and may be due later.
        self.conns.rearm(index, now + FIN_WAIT);
    }
}
