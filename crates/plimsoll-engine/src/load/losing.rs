//! Connections that end: the server closes or resets them, a system call fails, or received bytes end them.
//!
//! [`Worker::handle_end_of_stream`] handles a FIN, [`Worker::handle_lost`] an errno and [`Worker::fail`] any other
//! fault. Each branches on [`State`]: an opening connection fails its attempt, an idle one is counted as lost, and a
//! busy one ends its operation in exactly one class. An end before the first byte of an answer on a reused connection
//! is [`ErrorClass::KeepaliveRace`]. Start reading at [`Worker::handle_end_of_stream`], then at
//! [`Worker::close_and_refill`].

use plimsoll_model::ending::Closer;
use plimsoll_model::row::RowEnd;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::Errno;

use super::classify::{exchange_error, opening_error};
use super::conn::{Peer, State};
use super::reasons::Why;
use super::worker::Worker;

impl Worker {
    /// Ends a connection that cannot continue, for `class`.
    pub(super) fn fail(&mut self, index: u32, class: ErrorClass, why: &dyn Why, now: Nanos) {
        match self.conns[index].state {
            State::Free | State::Closing => {}
            State::Connecting | State::Handshaking | State::Greeting => {
                self.fail_opening(index, class, why, now);
            }
            State::Idle | State::Busy => {
                self.meter.note(&self.conns, index, class, why.reason(), now);
                self.fail_op_and_close(index, class, now);
            }
        }
    }

    /// Ends an idle connection for what the server sent on it.
    pub(super) fn end_idle(&mut self, index: u32, class: ErrorClass, now: Nanos) {
        if self.end_listening(index) {
            return;
        }
        self.meter.count_lifetime(&self.conns, index, Closer::PeerAnswer, now);
        self.meter.count_lost(class, false);
        self.close_and_refill(index, Some(class), now);
    }

    pub(super) fn handle_end_of_stream(&mut self, index: u32, now: Nanos) {
        if self.end_listening(index) {
            return;
        }
        let (class, why) = match self.conns[index].state {
            State::Free => return,
            State::Closing => {
                // Our FIN was first: the port stays in TIME_WAIT here.
                self.meter.tally().connections.finished += 1;
                return self.close_and_refill(index, None, now);
            }
            State::Connecting => (ErrorClass::ConnectReset, "closed while connecting"),
            State::Handshaking => (ErrorClass::TlsClosed, "the server closed during the handshake"),
            State::Greeting => (
                self.protocol.refused,
                "the server closed without an answer to the connection's first message",
            ),
            State::Idle => {
                self.meter.count_lifetime(&self.conns, index, Closer::PeerFin, now);
                self.meter.tally().connections.closed_by_peer += 1;
                let is_in_use = self.has_open_operations(index);
                self.meter.count_lost(ErrorClass::ClosedByPeer, is_in_use);
                return self.close_and_refill(index, Some(ErrorClass::ClosedByPeer), now);
            }
            State::Busy => {
                self.meter.tally().connections.closed_by_peer += 1;
                let outcome = self.conns.slab.parser(index).handle_eof();
                // A body that runs until the end may have been cut off (RFC 8446 6.1).
                let is_whole =
                    self.conns.slab.tls.get(index).is_none_or(|session| session.has_peer_closed());
                let class = match outcome {
                    Ok(response) if is_whole => {
                        return self.handle_answer(index, &response, false, now);
                    }
                    Ok(_) => ErrorClass::ClosedByPeer,
                    Err(_) if self.conns[index].is_in_race() => ErrorClass::KeepaliveRace,
                    Err(error) => error.class(),
                };
                self.meter.count_lifetime(&self.conns, index, Closer::PeerFin, now);
                self.meter.note_cut_off(&self.conns, index, class, false, now);
                return self.fail_op_and_close(index, class, now);
            }
        };
        self.fail_opening(index, class, &why, now);
    }

    /// Handles the failure of a system call on the socket.
    pub(super) fn handle_lost(&mut self, index: u32, errno: Errno, now: Nanos) {
        if self.end_listening(index) {
            return;
        }
        let is_reset = exchange_error(errno) == ErrorClass::ResetByPeer;
        self.conns[index].peer = if is_reset { Peer::Reset } else { Peer::Ended };
        match self.conns[index].state {
            State::Free => {}
            State::Connecting | State::Handshaking | State::Greeting => {
                self.fail_opening(index, opening_error(errno), &errno, now);
            }
            State::Closing => {
                if is_reset {
                    self.meter.tally().connections.reset_by_peer += 1;
                }
                self.close_and_refill(index, None, now);
            }
            State::Idle | State::Busy => {
                if is_reset {
                    self.meter.count_lifetime(&self.conns, index, Closer::PeerReset, now);
                    self.meter.tally().connections.reset_by_peer += 1;
                }
                let class = match is_reset && self.conns[index].is_in_race() {
                    true => ErrorClass::KeepaliveRace,
                    false => exchange_error(errno),
                };
                match is_reset {
                    true if self.conns[index].has_op => {
                        self.meter.note_cut_off(&self.conns, index, class, true, now);
                    }
                    true => {}
                    false => self.meter.note(&self.conns, index, class, errno.reason(), now),
                }
                self.fail_op_and_close(index, class, now);
            }
        }
    }

    /// Ends the current operation, if any, in `class`, and the connection with it.
    pub(super) fn fail_op_and_close(&mut self, index: u32, class: ErrorClass, now: Nanos) {
        let is_in_use = self.has_open_operations(index);
        if !self.conns[index].is_trying() && !self.conns.slab.is_lane(index) {
            self.meter.count_lost(class, is_in_use);
        }
        self.fail_op(index, class, now);
        self.close_and_refill(index, Some(class), now);
    }

    /// The current operation of the slot, if it has one, ends in `class`. The request of a client that is not back is
    /// no operation of the load.
    pub(super) fn fail_op(&mut self, index: u32, class: ErrorClass, now: Nanos) {
        if !self.conns[index].has_op {
            return;
        }
        self.end_op(index, false, now);
        if !self.conns[index].is_trying() {
            self.meter.count_error(class);
            self.meter.count_failed_operation(&self.conns, index, class, now);
            self.meter.record(&self.conns, index, RowEnd::Failed(class), 0, 0, now);
        }
    }

    /// Closes a usable connection and opens another if an operation needs it. `loss` is why it
    /// ended, `None` if we ended it; only holds use it.
    pub(super) fn close_and_refill(&mut self, index: u32, loss: Option<ErrorClass>, now: Nanos) {
        if self.conns.slab.is_lane(index) {
            return self.reset_lane(index, now);
        }
        if let Some(class) = loss {
            self.note_loss(index, class, now);
            self.lose_streams(index, class, now);
        }
        self.handle_held_end(index, loss, now);
        let destination = self.conns[index].destination;
        self.close(index, false);
        self.open_for_waiting(destination, now);
        self.reopen_closed_loop(destination, now);
    }
}
