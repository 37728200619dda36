//! Operations that share connections: streams of HTTP/2, and publishes of MQTT in a window.
//!
//! Each operation on a shared connection has a lane, a slot without a socket. [`Worker::begin_stream`] hands it to
//! the connection's parser, and [`Worker::flush_streams`] sends the gathered output. A connection with room is in its
//! pool's ring exactly once ([`Worker::offer_room`]). [`Worker::handle_stream`] handles what the server did;
//! operations that it did not begin are sent again, at most [`AGAIN_MAX`] times. Start reading at
//! [`Worker::handle_stream`].

use plimsoll_model::ending::Closer;
use plimsoll_model::reason::Reason;
use plimsoll_model::row::RowEnd;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::conversation::{Answer, Expected, Gathered, Shared, StreamProgress};
use plimsoll_proto::http2::{Http2Error, StreamFault};
use plimsoll_proto::mqtt;

use super::conn::{Op, Peer, State};
use super::reasons::Why as _;
use super::sending::SENDS_PER_TURN;
use super::streams::AGAIN_MAX;
use super::worker::Worker;

impl Worker {
    // ---- room for streams

    /// Notes how many operations the server allows on a connection, and how large their heads may be.
    pub(super) fn note_allowed(&mut self, connection: u32, now: Nanos) {
        if !self.streams.do_gather {
            return;
        }
        let Some(client) = self.client(connection) else { return };
        let (allowed, header_bytes_max) = (client.allowed(), client.header_bytes_max());
        self.streams.allowed = allowed.min(self.streams.allowed);
        if let Some(most) = header_bytes_max
            && !std::mem::replace(&mut self.streams.has_compared_headers, true)
        {
            let bytes = self.requests.header_bytes_max();
            if bytes > most.into() {
                let why = format_args!(
                    "the header fields of a request have {bytes} bytes as HTTP/2 counts them, and the server accepts \
                     {most} (SETTINGS_MAX_HEADER_LIST_SIZE)"
                )
                .reason();
                // A server may answer such a request with 431.
                self.meter.note(&self.conns, connection, ErrorClass::Status4xx, why, now);
            }
        }
    }

    pub(super) fn client(&mut self, connection: u32) -> Option<Shared<'_>> {
        self.conns.slab.parser(connection).shared()
    }

    /// Reports whether an operation is open on the connection.
    pub(super) fn has_open_operations(&mut self, connection: u32) -> bool {
        let is_shared = self.streams.are_shared();
        self.conns[connection].has_op
            || (is_shared && self.client(connection).is_some_and(|client| client.open() > 0))
    }

    fn has_room(&mut self, connection: u32) -> bool {
        let most = self.streams.most.unwrap_or(1);
        self.conns[connection].peer == Peer::Open
            && self.client(connection).is_some_and(|client| client.has_room(most))
    }

    /// Notes that the connection was taken from the ring; returns whether it may carry another operation.
    pub(super) fn leave_ring(&mut self, connection: u32) -> bool {
        if !self.streams.are_shared() {
            return true;
        }
        self.conns.slab.lane(connection).is_in_ring = false;
        self.has_room(connection)
    }

    /// Starts waiting operations on a shared connection while it has room. A connection with room left joins the ring.
    pub(super) fn offer_room(&mut self, connection: u32, now: Nanos) {
        let destination = self.conns[connection].destination;
        self.conns[connection].beat_due = Nanos::ZERO;
        while self.has_room(connection) {
            if let Some(op) = self.pools.take_waiting(destination) {
                self.send_op(connection, op, now, now);
            } else if !self.demand.is_closed() || !self.continue_closed_loop(connection, now) {
                if !self.conns.slab.lane(connection).is_in_ring {
                    self.conns[connection].since = now;
                }
                return self.join_ring(connection);
            }
        }
        self.note_starved(connection, now);
    }

    /// Notes that the server allows no operation on a connection of a closed loop. The operations that the connection
    /// would carry then wait, and fail when an answer to them would be given up.
    fn note_starved(&mut self, connection: u32, now: Nanos) {
        let is_starved = self.demand.is_closed()
            && self.conns[connection].peer == Peer::Open
            && self
                .client(connection)
                .is_some_and(|client| client.allowed() == 0 && client.open() == 0);
        if !is_starved {
            return;
        }
        let (most, destination) =
            (self.streams.most.unwrap_or(1), self.conns[connection].destination);
        while self.pools.of(destination).waits_for_fewer_than(most)
            && let Some(op) = self.take_closed_op(destination, now)
        {
            self.pools.push_waiting(destination, op);
        }
        if self.conns[connection].beat_due == Nanos::ZERO {
            let at = now + self.answer_timeout();
            self.conns[connection].beat_due = at;
            self.conns.rearm(connection, at);
        }
    }

    /// Makes the operations of a closed loop that begins wait on connections on which the server allows none.
    pub(super) fn feed_starved(&mut self, now: Nanos) {
        if !self.streams.are_shared() {
            return;
        }
        for index in 0..self.conns.slab.len() as u32 {
            let hot = &self.conns[index];
            if hot.state == State::Idle && hot.beat_due > Nanos::ZERO {
                self.note_starved(index, now);
            }
        }
    }

    /// Gives up a connection on which the server has allowed no operation for as long as an answer is awaited.
    pub(super) fn give_up_starved(&mut self, connection: u32, now: Nanos) {
        let class = self.note_fault(connection, StreamFault::NoneAllowed, now);
        let destination = self.conns[connection].destination;
        self.pools.of(destination).note_futile(now);
        for _ in 0..self.streams.most.unwrap_or(1) {
            let Some(op) = self.pools.take_waiting(destination) else { break };
            self.meter.count_error(class);
            self.meter.record_unattached(op, RowEnd::Failed(class), now);
        }
        self.close_and_refill(connection, Some(class), now);
    }

    /// Puts a connection with room into the ring.
    fn join_ring(&mut self, connection: u32) {
        if std::mem::replace(&mut self.conns.slab.lane(connection).is_in_ring, true) {
            return;
        }
        let (token, destination) =
            (self.conns.slab.token(connection), self.conns[connection].destination);
        self.pools.of(destination).idle.push_back(token);
    }

    // ---- sending

    /// Begins the operation of a slot on its connection.
    pub(super) fn begin_stream(&mut self, index: u32) {
        let connection = self.conns.slab.connection_of(index);
        debug_assert!(
            !self.conns.slab.is_lane(index) || self.has_room(connection),
            "an operation begins for which its connection has no room"
        );
        let target = self.conns[index].target;
        let has_own = self.requests.has_own_bytes(target);
        let own = match has_own {
            true => self.take_own_bytes(index, self.conns[index].since),
            false => Vec::new(),
        };
        let request = self.requests.get(target);
        let (head, body) = request.parts();
        let head = if has_own { &own[..] } else { head };
        let large = mqtt::LargeBody {
            number: target,
            from: request.sent_with_head(),
            bytes: request.streamed_bytes(),
        };
        let parser = self.conns.slab.parser(connection);
        parser.begin(index, request.outgoing.expected, &Gathered { head, body, large });
        self.conns[index].request_sent_bytes = request.len() as u32;
        if has_own {
            self.buffers.own_bytes = own;
        }
        self.note_output(connection);
        if self.conns.slab.is_lane(index) && self.has_room(connection) {
            self.join_ring(connection);
        }
    }

    /// Notes that the connection may have output to send.
    pub(super) fn note_output(&mut self, connection: u32) {
        if !self.streams.do_gather {
            return;
        }
        let token = self.conns.slab.token(connection);
        if self.streams.unflushed.last() != Some(&token) {
            self.streams.unflushed.push(token);
        }
    }

    /// Sends what has gathered on connections.
    pub(super) fn flush_streams(&mut self, now: Nanos) {
        while let Some(token) = self.streams.unflushed.pop() {
            if let Some(index) = self.conns.slab.index_of(token) {
                self.flush_connection(index, now);
            }
        }
    }

    /// Sends what has gathered on a connection.
    pub(super) fn flush_connection(&mut self, index: u32, now: Nanos) {
        if !self.conns.has_socket(index) || self.conns[index].peer == Peer::Reset {
            return;
        }
        let mut sends_left = SENDS_PER_TURN;
        // Bytes that the kernel does not accept now are sent when there is room.
        while !self.conns.has_unsent(index) {
            let Some(mut client) = self.conns.slab.parser(index).shared() else { return };
            let requests = &self.requests;
            client.send_bodies(|target| requests.get(target).parts().1);
            if !client.has_output() {
                break;
            }
            if sends_left == 0 {
                return self.later.unpushed.push(self.conns.slab.token(index));
            }
            sends_left -= 1;
            let mut output = std::mem::take(&mut self.streams.output);
            client.take_output(&mut output);
            let sent = self.conns.send_aside(index, &output);
            output.clear();
            self.streams.output = output;
            if !self.handle_sent(index, sent, now) {
                return;
            }
        }
        if !self.conns.has_unsent(index) {
            self.note_all_sent(index);
        }
        if self.conns[index].state == State::Idle {
            self.conns.slab.return_idle_parser(index);
        }
    }

    /// Notes that all output of a connection is sent: publishes at QoS 0 have ended, at the next turn.
    fn note_all_sent(&mut self, connection: u32) {
        while let Some(index) = self.client(connection).and_then(|mut client| client.take_sent()) {
            self.later.unanswered.push(self.conns.slab.token(index));
        }
    }

    // ---- what the server does

    pub(super) fn handle_stream(&mut self, connection: u32, progress: StreamProgress, now: Nanos) {
        match progress {
            StreamProgress::Began(key) => self.note_first_byte(key, now),
            StreamProgress::Ended(key, answer) => {
                self.note_first_byte(key, now);
                let keep_alive =
                    !self.client(connection).is_some_and(|client| client.is_draining());
                self.handle_answer(key, &Answer { keep_alive, ..answer }, true, now);
            }
            StreamProgress::Failed(key, fault) => self.fail_stream(key, fault, now),
            StreamProgress::Untouched(key) => self.requeue(key, now),
            StreamProgress::RoomChanged => {
                self.note_allowed(connection, now);
                if self.streams.are_shared() {
                    self.offer_room(connection, now);
                } else if self.awaits_stream(connection) {
                    self.begin_stream(connection);
                }
            }
            StreamProgress::Draining => self.handle_draining(connection, now),
        }
    }

    /// Ends the failed operation of a slot on a connection that continues.
    fn fail_stream(&mut self, index: u32, fault: StreamFault, now: Nanos) {
        let class = self.note_fault(index, fault, now);
        if matches!(fault, StreamFault::Reset(_)) {
            self.meter.tally().answers.streams.resets_received += 1;
        }
        let connection = self.conns.slab.connection_of(index);
        let keep_alive = !self.client(connection).is_some_and(|client| client.is_draining());
        let code = fault.grpc_status();
        let failed = Answer { keep_alive, code, ..Answer::plain(0, Some(class)) };
        self.handle_answer(index, &failed, true, now);
    }

    /// Notes the fault; returns the class in which the operation ends.
    pub(super) fn note_fault(&mut self, index: u32, fault: StreamFault, now: Nanos) -> ErrorClass {
        self.meter.note(&self.conns, index, fault.class(), fault.reason(), now);
        fault.class()
    }

    /// Reports whether the connection's operation, its only one, has no stream yet.
    pub(super) fn awaits_stream(&mut self, connection: u32) -> bool {
        let hot = &self.conns[connection];
        let is_call = hot.state == State::Busy
            && !self.streams.are_shared()
            && matches!(self.requests.get(hot.target).outgoing.expected, Expected::Stream { .. });
        is_call && self.client(connection).is_some_and(|client| client.open() == 0)
    }

    /// Counts an operation that is given up while its body waits for the server's windows.
    pub(super) fn note_blocked(&mut self, index: u32, now: Nanos) {
        let connection = self.conns.slab.connection_of(index);
        if self.protocol.has_streams
            && self.client(connection).is_some_and(|client| client.awaits_window(index))
        {
            self.meter.tally().answers.streams.blocked += 1;
            let what = "the server did not raise a flow-control window that the body of a request waited for";
            self.meter.note(&self.conns, index, ErrorClass::Timeout, Reason::other(&what), now);
        }
    }

    /// The first byte of the answer to a slot's operation is here.
    fn note_first_byte(&mut self, index: u32, now: Nanos) {
        let hot = &mut self.conns[index];
        if !std::mem::replace(&mut hot.answer_begun, true) {
            self.meter.tally().spans.ttfb.record(now.since(hot.request_began()));
        }
    }

    /// Ends the operation of a lane whose answer is counted.
    pub(super) fn end_lane(&mut self, index: u32, now: Nanos) {
        let connection = self.conns.slab.connection_of(index);
        self.conns.slab.release_lane(index);
        let hot = &mut self.conns[connection];
        if hot.state != State::Idle {
            // The connection ended after a publish had left on it that nothing answers.
            return;
        }
        hot.reused = true;
        hot.ops_total += 1;
        let ops_total = u64::from(hot.ops_total);
        let is_spent = self.plan.requests_per_connection.is_some_and(|most| ops_total >= most);
        if is_spent && let Some(mut client) = self.client(connection) {
            client.drain();
        }
        self.reuse_place(connection, now);
    }

    /// An operation has left the connection, which closes if it drains and has no other.
    fn reuse_place(&mut self, connection: u32, now: Nanos) {
        if !self.end_drained(connection, now) {
            self.offer_room(connection, now);
        }
    }

    /// Gives up the operation of a lane, which is counted.
    pub(super) fn drop_lane(&mut self, index: u32) {
        let connection = self.conns.slab.connection_of(index);
        if self.protocol.has_streams {
            self.meter.tally().answers.streams.resets_sent += 1;
        }
        if let Some(mut client) = self.client(connection) {
            client.give_up(index);
        }
        self.meter.lose_sight_of_deliveries(&self.conns, index);
        self.note_output(connection);
        self.conns.slab.release_lane(index);
    }

    /// Drops a lane like [`Self::drop_lane`], and lets another operation have its place.
    pub(super) fn reset_lane(&mut self, index: u32, now: Nanos) {
        let connection = self.conns.slab.connection_of(index);
        self.drop_lane(index);
        self.reuse_place(connection, now);
    }

    /// Queues the slot's operation again, which the server has not begun: any free connection may send it.
    fn requeue(&mut self, index: u32, now: Nanos) {
        let connection = self.conns.slab.connection_of(index);
        let again = self.conns.slab.lane(index).again;
        let destination = self.conns[index].destination;
        let is_refused = again >= AGAIN_MAX || self.pools.of(destination).pauses_longest();
        if !self.conns.slab.is_lane(index) || is_refused {
            return self.fail_stream(index, StreamFault::Refused, now);
        }
        let hot = &self.conns[index];
        let (intended, target) = (hot.intended, hot.target);
        let is_recorded = self.meter.rows.records(index);
        self.detach_op(index);
        self.conns.slab.release_lane(index);
        self.meter.tally().answers.streams.requeued += 1;
        let op = Op { intended, target, is_recorded, again: again + 1 };
        if let Some(other) = self.take_idle(destination, now) {
            self.send_op(other, op, now, now);
        } else {
            self.pools.push_waiting_first(destination, op);
            self.open_for_waiting(destination, now);
        }
        self.reuse_place(connection, now);
    }

    /// Handles the server's announcement that it begins no further stream.
    fn handle_draining(&mut self, connection: u32, now: Nanos) {
        self.meter.tally().answers.streams.goaways += 1;
        let hot = &mut self.conns[connection];
        let is_first = hot.peer == Peer::Open;
        hot.note_announced();
        let mut requests = u64::from(hot.ops_total);
        requests += self.client(connection).map_or(0, |client| client.open()) as u64;
        let error: Option<Http2Error> =
            self.client(connection).and_then(|client| client.ended_by());
        let token = self.conns.slab.token(connection);
        while self.conns.slab.index_of(token).is_some()
            && let Some(key) =
                self.client(connection).and_then(|mut client| client.take_untouched())
        {
            requests = requests.saturating_sub(1);
            self.requeue(key, now);
        }
        if is_first && error.is_none() {
            self.meter.tally().answers.announced.note_end(requests);
        }
        if self.conns.slab.index_of(token).is_none() {
            return;
        }
        if let Some(error) = error {
            self.meter.count_lifetime(&self.conns, connection, Closer::PeerAnswer, now);
            return self.fail(connection, error.class(), &error, now);
        }
        if self.conns[connection].state == State::Idle {
            self.end_drained(connection, now);
        }
    }

    /// Closes a connection on which no stream may begin any more and none is open; returns whether it did.
    fn end_drained(&mut self, connection: u32, now: Nanos) -> bool {
        let is_over = self
            .client(connection)
            .is_some_and(|client| client.is_draining() && client.open() == 0);
        if !is_over || self.conns[connection].state != State::Idle {
            return false;
        }
        let hot = &self.conns[connection];
        let (destination, by_peer, was_used) =
            (hot.destination, hot.peer != Peer::Open, hot.reused);
        if by_peer {
            self.meter.count_lifetime(&self.conns, connection, Closer::PeerAnswer, now);
        }
        let loss = by_peer.then_some(ErrorClass::ClosedByPeer);
        self.close_and_refill(connection, loss, now);
        // A server that ends every connection at once is not asked again without need.
        if was_used {
            self.keep_pool_full(destination, now);
        }
        true
    }

    /// Ends the operations on a connection that is lost for `class`.
    pub(super) fn lose_streams(&mut self, connection: u32, class: ErrorClass, now: Nanos) {
        if !self.streams.are_shared() {
            return;
        }
        let is_race = matches!(class, ErrorClass::ClosedByPeer | ErrorClass::ResetByPeer)
            && self.conns[connection].reused;
        while let Some((index, has_begun)) =
            self.client(connection).and_then(|mut client| client.take_lost())
        {
            let class = match is_race && !has_begun {
                true => ErrorClass::KeepaliveRace,
                false => class,
            };
            self.fail_op(index, class, now);
            self.meter.lose_sight_of_deliveries(&self.conns, index);
            self.conns.slab.release_lane(index);
        }
    }
}
