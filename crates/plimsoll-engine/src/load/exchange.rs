//! The exchange of requests and answers on usable connections.
//!
//! [`Worker::send_op`] attaches an operation to an idle connection and sends its request. [`Worker::handle_ready`]
//! takes an event of the poller and reads at most [`READS_PER_TURN`] times; bytes pass TLS and
//! [`Worker::handle_part`], which acts on the parser's progress. [`Worker::handle_answer`] counts the operation and
//! reuses or closes the connection. Any of these calls may free the slot, so callers compare its generation
//! afterwards. Start reading at [`Worker::send_op`].

use plimsoll_model::ending::Closer;
use plimsoll_model::reason::Reason;
use plimsoll_model::row::RowEnd;
use plimsoll_model::target::Filling;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::conversation::{Answer, Expected, Progress, StreamProgress};
use plimsoll_proto::websocket::WebSocketError;
use plimsoll_sys::Errno;
use plimsoll_sys::poll::Ready;

use super::classify::{exchange_error, opening_error};
use super::conn::{Op, Peer, State};
use super::control::WorkerEvent;
use super::reasons::{Refusal, Why};
use super::stamps::us;
use super::worker::Worker;
use crate::pump::{SendOutcome, Sent};

/// Reads of one connection before the schedule, the timers and other connections are served:
/// 256 KiB, about 0.1 ms.
const READS_PER_TURN: u32 = 4;

/// A close frame without a code (RFC 6455 7.4.1).
const NO_CLOSE_CODE: u16 = 1005;

/// Returns `true` if `bytes` are line ends only.
fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|byte| matches!(byte, b'\r' | b'\n'))
}

/// The extent to which a connection is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// The socket is empty; the next byte is a new event.
    Emptied,
    /// To the end of the stream, or until the socket is empty.
    End,
    /// Until the kernel's stamps show that nothing more had arrived by this instant.
    Arrived(Nanos),
}

impl Worker {
    // ---- operations begin

    /// Sends `op` on an idle connection that was free since `free_since`.
    pub(super) fn send_op(&mut self, index: u32, op: Op, free_since: Nanos, now: Nanos) {
        let could_start = op.intended.max(free_since);
        self.meter.tally().spans.send_lag.record(now.since(could_start));
        let index = match self.streams.are_shared() {
            true => self.conns.slab.take_lane(index, op.again),
            false => index,
        };
        self.meter.stamps.count_sent(index, &self.conns[index], op.intended, free_since, now);
        self.attach_op(index, op);
        self.conns[index].since = now;
        self.begin_request(index, now);
    }

    /// Sends the request of the operation that is attached to the connection.
    pub(super) fn begin_request(&mut self, index: u32, now: Nanos) {
        let hot = &mut self.conns[index];
        hot.state = State::Busy;
        hot.answer_begun = false;
        hot.request_sent_bytes = 0;
        let (target, do_gather) = (hot.target, self.streams.do_gather);
        let expected = self.requests.get(target).outgoing.expected;
        if expected != Expected::Nothing && !do_gather {
            if self.protocol.is_scripted {
                let filling = self.filling(index, now);
                self.conns.slab.parser(index).fill_with(filling);
            }
            self.conns.slab.parser(index).expect(expected);
        }
        self.conns.arm(index, now + self.answer_timeout());
        let leaves = self.meter.time_of_sending(index, &self.conns[index], now);
        let hot = &mut self.conns[index];
        hot.offset_us = us(leaves.since(hot.since));
        if do_gather {
            return self.begin_stream(index);
        }
        if !self.requests.has_own_bytes(target) {
            return self.push(index, now);
        }
        let own = self.take_own_bytes(index, now);
        let sent = self.conns.send_aside(index, &own);
        self.buffers.own_bytes = own;
        let request = self.requests.get(target);
        self.conns[index].request_sent_bytes = (request.len() - request.streamed_bytes()) as u32;
        if self.handle_sent(index, sent, now) {
            match self.request_is_sent(index) {
                true => self.note_sent(index),
                false => self.push(index, now),
            }
        }
    }

    /// Returns the values that distinguish the current operation of the slot from all others.
    fn filling(&mut self, index: u32, now: Nanos) -> Filling {
        let hot = &self.conns[index];
        let connection = self.conns.slab.connection_of(index);
        let number = self.meter.number_of_publish(connection).unwrap_or(hot.ops_total);
        self.requests.filling(connection, number, hot.intended, now)
    }

    /// Takes the bytes of the current operation of the slot; to be given back to `own_bytes`.
    pub(super) fn take_own_bytes(&mut self, index: u32, now: Nanos) -> Vec<u8> {
        let filling = self.filling(index, now);
        let mut own = std::mem::take(&mut self.buffers.own_bytes);
        own.clear();
        self.requests.write_own_bytes(self.conns[index].target, &filling, &mut own);
        own
    }

    /// Sends what makes the connection usable in its protocol.
    pub(super) fn begin_greeting(&mut self, index: u32, now: Nanos) {
        self.conns[index].state = State::Greeting;
        let needs = self.requests.needs(index);
        let filling = self.requests.filling(index, 0, now, now);
        self.conns.slab.parser(index).fill_with(filling);
        self.conns.slab.parser(index).expect(Expected::Greeting(needs));
        let destination = self.conns[index].destination;
        let greeting = self.requests.greeting(&self.plan, destination, index, now);
        let generation = self.conns[index].generation;
        let sent = self.conns.send_aside(index, &greeting);
        self.handle_sent(index, sent, now);
        // A script that only sends awaits nothing more.
        if self.protocol.is_scripted && self.conns[index].generation == generation {
            self.handle_part(index, &[], now);
        }
    }

    /// Notes that all bytes of the operation are sent. If it has no answer, it ends, but not within the call that began
    /// it: the next one would begin within that call.
    pub(super) fn note_sent(&mut self, index: u32) {
        let hot = &self.conns[index];
        let expected = self.requests.get(hot.target).outgoing.expected;
        if hot.state == State::Busy && expected == Expected::Nothing {
            self.later.unanswered.push(self.conns.slab.token(index));
        }
    }

    /// Ends the operations that nothing answers and that are sent.
    pub(super) fn end_unanswered(&mut self, now: Nanos) {
        if self.later.unanswered.is_empty() {
            return;
        }
        for token in std::mem::take(&mut self.later.unanswered) {
            if let Some(index) = self.conns.slab.index_of(token)
                && self.conns[index].state == State::Busy
            {
                self.handle_answer(index, &Answer::plain(0, None), true, now);
            }
        }
    }

    /// Sends what TLS itself has queued: handshake messages, alerts.
    pub(super) fn transmit_tls(&mut self, index: u32, now: Nanos) {
        let sent = self.conns.transmit(index);
        self.handle_sent(index, sent, now);
    }

    /// Returns whether the kernel took all of it.
    pub(super) fn handle_sent(&mut self, index: u32, sent: Sent, now: Nanos) -> bool {
        self.meter.tally().bytes.sent += sent.bytes as u64;
        self.keep_alive.note_sent(index, now);
        match sent.outcome {
            SendOutcome::All => return true,
            SendOutcome::Blocked => {}
            SendOutcome::Refused(error) => self.fail(index, error.class(), &error, now),
            // A connection that was reset may hold an answer that arrived before the reset: 408,
            // 413. The event of the reset reads it.
            SendOutcome::Failed(errno) if exchange_error(errno) == ErrorClass::ResetByPeer => {
                self.conns[index].peer = Peer::Reset;
            }
            SendOutcome::Failed(errno) => self.handle_lost(index, errno, now),
        }
        false
    }

    // ---- events

    pub(super) fn handle_ready(&mut self, index: u32, ready: Ready, now: Nanos) {
        let hot = &mut self.conns[index];
        if ready.is_closing() && hot.peer != Peer::Reset {
            hot.peer = Peer::Ended;
        }
        if hot.state == State::Connecting {
            if ready.is_broken()
                && let Err(errno) = self.conns.take_error(index)
            {
                return self.fail_opening(index, opening_error(errno), &errno, now);
            }
            if !ready.is_writable() {
                return;
            }
            self.handle_connected(index, now);
        } else if ready.is_writable() && self.has_more_to_send(index) {
            self.push(index, now);
            self.note_output(index);
        }
        // The connection may have ended above, and its slot may have a new owner.
        if ready.is_readable() && self.conns.slab.index_of(ready.token).is_some() {
            self.read(index, ready, now);
        }
    }

    pub(super) fn has_more_to_send(&self, index: u32) -> bool {
        let hot = &self.conns[index];
        let is_begun = self.conns.has_unsent(index)
            || (hot.state == State::Busy && !self.request_is_sent(index));
        is_begun && hot.peer != Peer::Reset
    }

    pub(super) fn request_is_sent(&self, index: u32) -> bool {
        let hot = &self.conns[index];
        hot.request_sent_bytes as usize >= self.requests.get(hot.target).len()
    }

    /// Reads what has arrived, up to the read budget.
    pub(super) fn read(&mut self, index: u32, ready: Ready, now: Nanos) {
        let until = if ready.is_closing() { Until::End } else { Until::Emptied };
        if self.read_until(index, until, now) {
            self.conns.transport.read_later(ready);
        }
    }

    /// Reads what has arrived; returns whether the read budget ended before the data did.
    pub(super) fn read_until(&mut self, index: u32, until: Until, now: Nanos) -> bool {
        let token = self.conns.slab.token(index);
        let mut buffer = std::mem::take(&mut self.conns.read_buffer);
        let mut reads_left = READS_PER_TURN;
        let mut has_more = false;
        while self.conns.has_socket(index) {
            if reads_left == 0 {
                has_more = true;
                break;
            }
            reads_left -= 1;
            let is_stamped = match until {
                Until::Arrived(_) => true,
                // The answer to any of its streams may be in it.
                _ if self.streams.are_shared() => true,
                Until::Emptied | Until::End => self.meter.stamps.awaits(index, &self.conns[index]),
            };
            let read = self.conns.recv(index, &mut buffer, is_stamped);
            if let Ok((_, arrival)) = &read {
                self.meter.stamps.arrival = *arrival;
            }
            match read {
                Ok((0, _)) if self.conns[index].peer == Peer::Reset => {
                    self.handle_lost(index, Errno::CONNRESET, now);
                    break;
                }
                Ok((0, _)) => {
                    self.conns[index].peer = Peer::Ended;
                    self.handle_end_of_stream(index, now);
                    break;
                }
                Ok((received, _)) => {
                    self.meter.tally().bytes.received += received as u64;
                    // What came too late for one operation is not read for it. On a shared connection
                    // it may be the answer to others, which go on.
                    if let Until::Arrived(by) = until
                        && !self.streams.are_shared()
                        && self.meter.stamps.arrival.is_some_and(|arrival| arrival > by)
                    {
                        break;
                    }
                    let bytes = &buffer[..received];
                    if self.conns[index].state == State::Closing {
                        // A close_notify or a late session ticket: ignored.
                    } else if self.conns.slab.tls.has(index) {
                        self.handle_ciphertext(index, bytes, now);
                    } else {
                        self.handle_bytes(index, bytes, now);
                    }
                    // A short read has emptied the socket; the next byte is a new event.
                    let emptied = received < buffer.len() && until == Until::Emptied;
                    if emptied || self.conns.slab.index_of(token).is_none() {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(errno) => {
                    self.handle_lost(index, errno, now);
                    break;
                }
            }
        }
        self.meter.stamps.arrival = None;
        self.conns.read_buffer = buffer;
        has_more
    }

    fn handle_ciphertext(&mut self, index: u32, bytes: &[u8], now: Nanos) {
        let generation = self.conns[index].generation;
        let Some((plaintext, received)) = self.conns.decrypt(index, bytes) else { return };
        let alive = |worker: &Self| worker.conns[index].generation == generation;
        match received {
            Err(error) => {
                self.transmit_tls_if_due(index, now);
                if alive(self) {
                    self.fail(index, error.class(), &error, now);
                }
            }
            Ok(received) => {
                let hot = &self.conns[index];
                let is_over = received.handshake_finished && self.plan.handshake_only;
                if hot.state == State::Handshaking && !is_over {
                    self.meter.stamps.count_handshake(index, hot, now);
                }
                if received.handshake_finished {
                    // The first request leaves with the handshake's last message.
                    self.handle_established(index, now);
                }
                if alive(self) {
                    self.transmit_tls_if_due(index, now);
                }
                let hot = &mut self.conns[index];
                if received.peer_closed && hot.generation == generation {
                    hot.note_announced();
                }
                if !plaintext.is_empty() && alive(self) {
                    self.handle_bytes(index, &plaintext, now);
                }
                if received.peer_closed && alive(self) {
                    self.handle_end_of_stream(index, now);
                }
                if !received.handshake_finished && alive(self) {
                    self.handle_tickets(index, now);
                }
            }
        }
        self.conns.return_plaintext(plaintext);
    }

    fn transmit_tls_if_due(&mut self, index: u32, now: Nanos) {
        if self.conns.slab.tls.get(index).is_some_and(|session| session.wants_transmit()) {
            self.transmit_tls(index, now);
        }
    }

    /// Parses what the server sent.
    pub(super) fn handle_bytes(&mut self, index: u32, bytes: &[u8], now: Nanos) {
        let generation = self.conns[index].generation;
        let mut rest = bytes;
        while !rest.is_empty() && self.conns[index].generation == generation {
            let consumed = self.handle_part(index, rest, now);
            rest = rest.get(consumed..).unwrap_or_default();
        }
        self.note_output(index);
    }

    fn record_first_byte(&mut self, index: u32, now: Nanos) {
        let hot = &mut self.conns[index];
        hot.answer_begun = true;
        let request_began = hot.request_began();
        let spans = &mut self.meter.tally().spans;
        spans.ttfb.record(now.since(request_began));
        if self.plan.session.is_some() && !self.demand.is_hold() && hot.ops_total == 0 {
            spans.syn_to_first_byte.record(now.since(hot.since));
        }
    }

    /// Parses up to the end of an answer; returns how many bytes that were, or all of them if the
    /// connection has ended.
    pub(super) fn handle_part(&mut self, index: u32, bytes: &[u8], now: Nanos) -> usize {
        let is_http = self.protocol.is_http1;
        let is_streamed = self.streams.do_gather;
        let hot = &self.conns[index];
        let (is_busy, is_reused) = (hot.state == State::Busy, hot.reused);
        // The end of a script's pause brings no bytes.
        let begins = is_busy && !hot.answer_begun && !is_streamed && !bytes.is_empty();
        // Empty lines between answers are allowed (RFC 9112, 9.2).
        if is_http && (begins || !is_busy) && is_blank(bytes) {
            return bytes.len();
        }
        if is_http && !is_busy {
            // No request is open, so this cannot be an answer.
            self.meter.note_unrequested(&self.conns, index, bytes, now);
            self.end_idle(index, ErrorClass::UnrequestedAnswer, now);
            return bytes.len();
        }
        let read = self.conns.slab.parser(index).handle_bytes(bytes, &mut self.buffers.reply);
        if begins
            && !matches!(
                read,
                Ok((_, Progress::Pushed(_) | Progress::Surplus(_) | Progress::Alive))
            )
        {
            self.record_first_byte(index, now);
        }
        if !self.buffers.reply.is_empty() && !self.send_reply(index, now) {
            return bytes.len();
        }
        match read {
            Ok((mut consumed, progress)) => {
                match progress {
                    Progress::NeedMore if self.conns[index].state == State::Idle => {
                        self.conns.slab.return_idle_parser(index);
                    }
                    Progress::NeedMore if is_http => {
                        self.meter.store_failing_part(&mut self.conns, index, bytes)
                    }
                    Progress::NeedMore => {}
                    Progress::Greeted => self.handle_greeted(index, now),
                    Progress::Complete(answer) => {
                        if is_http && is_blank(bytes.get(consumed..).unwrap_or_default()) {
                            consumed = bytes.len();
                        }
                        if is_http && answer.status >= 400 {
                            let part = bytes.get(..consumed).unwrap_or(bytes);
                            self.meter.store_failing(&self.conns, index, answer.status, part);
                        }
                        self.store_refusal(index, &answer, bytes, consumed);
                        let is_exact = consumed == bytes.len() || self.protocol.excess.is_none();
                        self.handle_answer(index, &answer, is_exact, now);
                    }
                    Progress::Pushed(push) => self.count_push(index, &push),
                    Progress::Surplus(bytes) => self.count_surplus(index, bytes),
                    Progress::Delivered => self.meter.count_delivery(&mut self.conns, index),
                    Progress::Alive => self.count_pong(index, now),
                    Progress::Closed(code) => self.handle_close_frame(index, code, now),
                    Progress::Stream(progress) => {
                        if let StreamProgress::Ended(key, answer) = progress {
                            self.store_refusal(key, &answer, bytes, consumed);
                        }
                        self.handle_stream(index, progress, now);
                    }
                    Progress::Sleeps(time) => self.begin_sleep(index, time, now),
                }
                consumed
            }
            Err(error) => {
                if is_streamed {
                    // It says why.
                    self.flush_connection(index, now);
                }
                let error = if begins && is_reused { error.behind_an_answer() } else { error };
                if let Some(limit) = error.broken_limit().filter(|_| !self.pools.has_opened) {
                    self.owner.send(WorkerEvent::Refused(limit.to_string()));
                }
                self.conns[index].note_announced();
                let why = Refusal { error: &error, bytes };
                match self.conns[index].state {
                    State::Idle => {
                        self.meter.note(&self.conns, index, error.class(), why.reason(), now);
                        self.end_idle(index, error.class(), now);
                    }
                    _ => self.fail(index, error.class(), &why, now),
                }
                bytes.len()
            }
        }
    }

    /// Stores the packets, the first ones of `bytes`, with which a broker refuses a publish.
    fn store_refusal(&mut self, index: u32, answer: &Answer, bytes: &[u8], consumed: usize) {
        if answer.mqtt_reason().is_some() {
            self.meter.store(&self.conns, index, bytes.get(..consumed).unwrap_or(bytes));
        }
    }

    /// The server has accepted the connection in its protocol's words.
    fn handle_greeted(&mut self, index: u32, now: Nanos) {
        let generation = self.conns[index].generation;
        let stated_s = self.conns.slab.parser(index).finish_greeting();
        self.handle_usable(index, now);
        if self.protocol.has_keep_alive && self.conns[index].generation == generation {
            self.begin_keep_alive(index, stated_s, now);
        }
    }

    /// The server closes a WebSocket, and has been answered.
    fn handle_close_frame(&mut self, index: u32, code: Option<u16>, now: Nanos) {
        if self.end_listening(index) {
            return;
        }
        self.meter.tally().answers.ws_close.add(code.unwrap_or(NO_CLOSE_CODE), 1);
        self.conns[index].note_announced();
        if self.conns[index].state != State::Busy {
            return self.handle_end_of_stream(index, now);
        }
        let fault = WebSocketError::Closed { code };
        self.meter.note(&self.conns, index, fault.class(), fault.reason(), now);
        self.meter.count_lifetime(&self.conns, index, Closer::PeerAnswer, now);
        self.meter.tally().connections.closed_by_peer += 1;
        self.fail_op_and_close(index, fault.class(), now);
    }

    /// Sends what the server must be answered at once; returns whether the connection is still there.
    fn send_reply(&mut self, index: u32, now: Nanos) -> bool {
        let generation = self.conns[index].generation;
        let reply = std::mem::take(&mut self.buffers.reply);
        self.send_behind_request(index, &reply, now);
        self.buffers.reply = reply;
        self.buffers.reply.clear();
        self.conns[index].generation == generation
    }

    // ---- operations end

    pub(super) fn handle_answer(&mut self, index: u32, answer: &Answer, exact: bool, now: Nanos) {
        if answer.status >= 400 {
            self.meter.count_failing_answer(&self.conns[index], answer.status, now);
        }
        self.end_op(index, answer.failed.is_none(), now);
        let stamped = if answer.failed.is_none() {
            self.meter.take_stamped(index, &self.conns[index], now)
        } else {
            None
        };
        let hot = &mut self.conns[index];
        let corrected = now.since(hot.intended);
        let uncorrected = now.since(hot.since);
        let is_first = !std::mem::replace(&mut hot.reused, true);
        hot.ops_total += 1;
        let (ops_total, destination) = (u64::from(hot.ops_total), hot.destination);
        if is_first {
            self.pools.note_first_answer(destination, now);
        }
        if answer.keep_alive_s > 0 {
            self.meter.tally().answers.announced.note_idle(answer.keep_alive_s.into());
        }
        if answer.status != 0 {
            self.meter.count_status(answer.status);
        }
        if let Some(status) = answer.grpc_status() {
            self.meter.tally().answers.grpc_status.add(status.into(), 1);
        }
        let failed = answer.failed;
        if self.conns[index].is_trying() {
            if let Some(class) = failed {
                return self.close_and_refill(index, Some(class), now);
            }
        } else if let Some(class) = failed {
            self.meter.count_error(class);
            let target = self.plan.targets.get(self.conns[index].target as usize);
            self.meter.note_failing_answer(target, &self.conns, index, class, answer, now);
            self.meter.lose_sight_of_deliveries(&self.conns, index);
        } else {
            self.meter.expect_deliveries(&self.conns, index);
            self.meter.count_ok(corrected, uncorrected, stamped, self.plan.timeouts.deadline);
            self.unrequested.note_answer(uncorrected);
            if self.plan.session.is_some() && !self.demand.is_hold() && ops_total == 1 {
                self.meter.tally().spans.syn_to_last_byte.record(uncorrected);
            }
        }
        let end = failed.map_or(RowEnd::Ok, RowEnd::Failed);
        self.meter.record(&self.conns, index, end, answer.status, answer.body_bytes, now);
        if self.conns.slab.is_lane(index) {
            return self.end_lane(index, now);
        }
        if !exact && answer.keep_alive {
            self.count_excess(index, now);
        }
        if let Some(session) = self.plan.session.filter(|_| !self.demand.is_hold()) {
            return self.advance_session(index, session, answer, exact, now);
        }
        // The request asked for the close.
        let closes = self.requests.get(self.conns[index].target).closes;
        let spent =
            closes || self.plan.requests_per_connection.is_some_and(|most| ops_total >= most);
        if self.plan.keepalive
            && answer.keep_alive
            && exact
            && !spent
            && self.request_is_sent(index)
        {
            match self.requests.rest {
                Nanos::ZERO => self.handle_free(index, now),
                rest => self.begin_rest(index, rest, now),
            }
        } else {
            if self.plan.keepalive && !answer.keep_alive && !closes {
                self.meter.tally().answers.announced.note_end(ops_total);
                self.meter.count_lifetime(&self.conns, index, Closer::PeerAnswer, now);
            }
            let destination = self.conns[index].destination;
            // The server ended it: it announced the close, or sent more than was asked for.
            let loss = match (answer.keep_alive, exact) {
                (false, _) if !closes => Some(ErrorClass::ClosedByPeer),
                (true, false) => Some(self.excess()),
                _ => None,
            };
            if loss.is_some() || !self.listen(index, now) {
                self.close_and_refill(index, loss, now);
            }
            self.keep_pool_full(destination, now);
        }
    }

    /// Returns the class of bytes behind a complete answer.
    fn excess(&self) -> ErrorClass {
        self.protocol.excess.unwrap_or(ErrorClass::UnrequestedAnswer)
    }

    /// Counts bytes behind a complete answer, which end the connection.
    fn count_excess(&mut self, index: u32, now: Nanos) {
        let class = self.excess();
        self.meter.count_lost(class, false);
        if class == ErrorClass::UnrequestedAnswer {
            self.meter.note(&self.conns, index, class, Reason::Surplus, now);
        }
    }

    /// Handles an idle connection: attaches the next waiting operation, or puts it into the idle ring.
    pub(super) fn handle_free(&mut self, index: u32, now: Nanos) {
        let hot = &mut self.conns[index];
        hot.state = State::Idle;
        hot.since = now;
        let (destination, is_open) = (hot.destination, hot.peer == Peer::Open);
        self.conns.slab.return_idle_parser(index);
        if self.demand.is_hold() {
            return self.rest(index, now);
        }
        if !is_open {
            // The end of its stream is handled next.
            return;
        }
        if self.streams.are_shared() {
            return self.offer_room(index, now);
        }
        if let Some(op) = self.pools.take_waiting(destination) {
            return self.send_op(index, op, now, now);
        }
        if self.demand.is_closed() && self.continue_closed_loop(index, now) {
            return;
        }
        let token = self.conns.slab.token(index);
        self.pools.of(destination).idle.push_back(token);
    }
}
