//! The exchange on one connection: bytes in, requests to the service, answers out.
//!
//! [`Exchange::drive`] is the only entry. It continues until the connection has to wait for the socket, a timer or its
//! next turn, and never holds more than one read's worth of input and one piece of output for it, however slow the peer
//! is.

mod output;

use std::sync::Arc;

use plimsoll_model::Nanos;
use plimsoll_model::plan::{ServePlan, Spoken};
use plimsoll_proto::http1::{BodyLength, Request, RequestProgress, encode};
use plimsoll_proto::proxy_header;
use plimsoll_proto::websocket::Opening;
use plimsoll_sys::poll::Ready;
use plimsoll_sys::socket::Socket;
use plimsoll_sys::{Errno, clock};
use plimsoll_tls::{HandshakeKind, Session};

use super::acknowledgements::MqttRules;
use super::conn::{
    Active, BLOCKED, BODILESS, CHUNKED, HEAD_SENT, HTTP2, IN_BODY, KEEP_ALIVE, LINGER, PEER_DONE,
    PROXY_DUE, Phase, QUEUED, READ_TO_END, READABLE, WEBSOCKET,
};
use super::connections::Connections;
use super::counters::WorkerCounters;
use super::service::{Answer, Service};
use crate::pump::Pump;

/// One read returns at most this much.
const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Body bytes written at a time: one TLS record.
const FILL_BYTES: usize = 16 * 1024;

/// Bytes that one connection may move before the others get their turn.
const TURN_BYTES: usize = 1 << 20;
/// Answer bytes are handed to the kernel when this number has gathered, or when there is nothing else to do.
pub(super) const OUT_BYTES: usize = 32 * 1024;
/// Memory of messages that are incomplete, or wait to be sent back, in all workers together; tests fill it.
const KEPT_BYTES_MAX: usize = if cfg!(test) { 8 << 20 } else { 1 << 30 };
/// Time for which a closed connection still reads what the peer sends.
const LINGER_TIMEOUT: Nanos = Nanos::from_secs(1);

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// There may be more to do at once; this number of bytes was moved.
    More(usize),
    /// The connection waits for an event of the socket or a timer.
    Wait,
    /// The answer is complete: close once it is sent.
    Finish,
    /// Close now.
    Drop,
}

/// The result of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flushed {
    All(usize),
    Blocked,
    Broken,
}

pub(super) struct Timeouts {
    /// Time that each acknowledgement of a publish waits.
    pub(super) acknowledgement: Nanos,
    pub(super) request: Nanos,
    pub(super) idle: Nanos,
}

/// The connections of one worker and the state for serving them.
pub(super) struct Exchange<S: Service> {
    pub(super) service: S,
    pub(super) timeouts: Timeouts,
    pub(super) mqtt: MqttRules,
    /// Connections begin with a header of the PROXY protocol.
    accept_proxy: bool,
    /// This worker's part of [`KEPT_BYTES_MAX`].
    kept_bytes_max: usize,
    /// Identifier of the CLOCK_MONOTONIC that this process reads.
    pub(super) clock: u32,
    pub(super) counters: Arc<WorkerCounters>,
    pub(super) conns: Connections<S::Notes>,
    /// A connection has closed since this was last cleared: descriptors may be free.
    pub(super) has_closed: bool,
    /// Tokens of connections that used up their turn and have more to do.
    queue: Vec<u64>,
    queue_spare: Vec<u64>,
    // ---- scratch, empty between connections
    read_buffer: Box<[u8]>,
    /// Answer bytes of the current connection, before encryption.
    pub(super) out: Vec<u8>,
    /// Payload of the current message, unmasked; of MQTT the packet that is delivered.
    pub(super) payload: Vec<u8>,
    /// Bytes at the end of `out` that are body bytes and can be made again.
    out_tail_body: usize,
    pub(super) pump: Pump,
    /// The service's pattern, repeated over FILL_BYTES and one pattern more.
    pub(super) fill: Box<[u8]>,
}

impl<S: Service> Exchange<S> {
    pub(super) fn new(service: S, plan: &ServePlan, counters: Arc<WorkerCounters>) -> Self {
        let fill = S::PATTERN.iter().copied().cycle().take(FILL_BYTES + S::PATTERN.len()).collect();
        Self {
            service,
            timeouts: Timeouts {
                acknowledgement: plan.acknowledgement_delay,
                request: plan.request_timeout,
                idle: plan.idle_timeout,
            },
            mqtt: MqttRules::new(plan),
            accept_proxy: plan.accept_proxy,
            kept_bytes_max: KEPT_BYTES_MAX / plan.threads.max(1) as usize,
            clock: clock::monotonic_clock(),
            counters,
            conns: Connections::new(Nanos(clock::monotonic_ns())),
            has_closed: false,
            queue: Vec::new(),
            queue_spare: Vec::new(),
            read_buffer: vec![0; READ_BUFFER_BYTES].into_boxed_slice(),
            out: Vec::new(),
            payload: Vec::new(),
            out_tail_body: 0,
            // Clients may open any number of connections.
            pump: Pump::new(u64::MAX, READ_BUFFER_BYTES),
            fill,
        }
    }

    // ---- what the worker's loop brings

    /// Begins the exchange on a connection that was just accepted.
    pub(super) fn begin(
        &mut self,
        socket: Socket,
        session: Option<Session>,
        spoken: Spoken,
    ) -> u32 {
        let (phase, timeout) = match &session {
            Some(_) => (Phase::Handshaking, self.timeouts.request),
            // Its CONNECT is due.
            None if spoken == Spoken::Mqtt => (Phase::Idle, self.timeouts.request),
            None => (Phase::Idle, self.timeouts.idle),
        };
        let index = self.conns.slab.insert(socket, session);
        self.counters.conns_accepted.add(1);
        self.counters.conns_open.add(1);
        self.conns.slab[index].phase = phase;
        self.conns.slab[index].spoken = spoken;
        self.conns.slab[index].flags.put(PROXY_DUE, self.accept_proxy);
        self.conns.set_deadline(index, timeout);
        index
    }

    pub(super) fn handle_ready(&mut self, ready: Ready) {
        let Some(index) = self.conns.slab.index_of(ready.token) else { return };
        let conn = &mut self.conns.slab[index];
        if ready.is_broken() && conn.phase == Phase::Sleeping {
            // The client is gone, and does not wait for the answer.
            self.counters.conns_reset.add(1);
            self.close(index);
            return;
        }
        if ready.is_readable() {
            conn.flags.set(READABLE);
        }
        if ready.is_closing() {
            conn.flags.set(READ_TO_END);
        }
        if ready.is_writable() {
            conn.flags.clear(BLOCKED);
        }
        self.drive(index);
    }

    pub(super) fn handle_timers(&mut self) {
        // What comes due meanwhile has to wait until events had their turn.
        let until = self.conns.now;
        while let Some(index) = self.conns.poll_expired(until) {
            self.handle_deadline(index);
        }
    }

    /// Does what is due once the events were handled.
    pub(super) fn handle_turns(&mut self) {
        self.conns.read_clock();
        self.handle_timers();
        let mut queue = std::mem::replace(&mut self.queue, std::mem::take(&mut self.queue_spare));
        for token in queue.drain(..) {
            if let Some(index) = self.conns.slab.index_of(token) {
                self.conns.slab[index].flags.clear(QUEUED);
                self.conns.read_clock();
                self.drive(index);
            }
        }
        self.queue_spare = queue;
        self.conns.renew_wheel();
    }

    /// Returns the time at which there is something to do without an event; a time that has passed is now.
    pub(super) fn poll_timeout(&self) -> Option<Nanos> {
        if self.queue.is_empty() { self.conns.poll_timeout() } else { Some(Nanos::ZERO) }
    }

    pub(super) fn close(&mut self, index: u32) {
        self.counters.conns_open.subtract(1);
        self.conns.remove(index);
        self.has_closed = true;
    }

    /// Gives the connection another turn after the others had theirs.
    fn enqueue(&mut self, index: u32) {
        if !self.conns.slab[index].flags.has(QUEUED) {
            self.conns.slab[index].flags.set(QUEUED);
            self.queue.push(self.conns.slab.token(index));
        }
    }

    // ---- turns

    /// Does all that can be done on a connection now.
    pub(super) fn drive(&mut self, index: u32) {
        let mut turn_left = TURN_BYTES;
        loop {
            if self.conns.slab[index].flags.has(BLOCKED) {
                return;
            }
            let step = match self.conns.slab[index].has_unsent() {
                true => Step::More(0),
                false => self.step(index),
            };
            if step == Step::Drop {
                self.abandon_output();
                return self.close(index);
            }
            let must_flush = !matches!(step, Step::More(_)) || self.out.len() >= OUT_BYTES;
            let flushed = match must_flush || self.conns.slab[index].has_unsent() {
                true => self.flush(index, step == Step::Finish),
                false => Flushed::All(0),
            };
            let sent = match flushed {
                Flushed::All(sent) => sent,
                Flushed::Blocked => return,
                Flushed::Broken => {
                    self.counters.conns_reset.add(1);
                    return self.close(index);
                }
            };
            match step {
                Step::More(moved) => turn_left = turn_left.saturating_sub(moved.max(sent)),
                Step::Wait => return self.conns.settle(index),
                Step::Finish if self.conns.slab[index].flags.has(LINGER) => {
                    self.begin_linger(index)
                }
                Step::Finish | Step::Drop => return self.close(index),
            }
            if turn_left == 0 {
                self.flush_before_turn_ends(index);
                return;
            }
        }
    }

    fn flush_before_turn_ends(&mut self, index: u32) {
        match self.flush(index, false) {
            Flushed::All(_) => self.enqueue(index),
            // The poller reports when there is room.
            Flushed::Blocked => {}
            Flushed::Broken => {
                self.counters.conns_reset.add(1);
                self.close(index);
            }
        }
    }

    fn step(&mut self, index: u32) -> Step {
        let conn = &self.conns.slab[index];
        match conn.phase {
            Phase::Free | Phase::Sleeping => Step::Wait,
            Phase::Sending => self.write_answer(index),
            Phase::Closing => Step::Finish,
            Phase::Lingering => self.discard(index),
            Phase::Idle if conn.has_answers() && self.out.len() < OUT_BYTES => {
                match self.write_streams(index) {
                    Step::Wait => self.step_input(index),
                    step => step,
                }
            }
            Phase::Handshaking | Phase::Idle | Phase::Reading => self.step_input(index),
        }
    }

    /// Takes the next input.
    fn step_input(&mut self, index: u32) -> Step {
        let conn = &self.conns.slab[index];
        if conn.has_stash() {
            self.handle_stash(index)
        } else if conn.flags.has(PEER_DONE) && self.is_acknowledging(index) {
            // It may still be reading what is due later.
            Step::Wait
        } else if conn.flags.has(PEER_DONE) {
            if conn.phase != Phase::Idle {
                self.counters.conns_truncated.add(1);
            }
            // It may still be reading the answers to what it sent before.
            if self.out.is_empty() { Step::Drop } else { Step::Finish }
        } else if conn.flags.has(READABLE) {
            self.receive(index)
        } else {
            Step::Wait
        }
    }

    // ---- input

    fn receive(&mut self, index: u32) -> Step {
        let mut buffer = std::mem::take(&mut self.read_buffer);
        let conn = &mut self.conns.slab[index];
        let received = match &conn.socket {
            Some(socket) => socket.recv(&mut buffer),
            None => Err(Errno::BADF),
        };
        let step = match received {
            Ok(0) => {
                conn.flags.set(PEER_DONE);
                Step::More(0)
            }
            Ok(count) => {
                // Less than was asked for means that there is no more, unless the end is near.
                if count < buffer.len() && !conn.flags.has(READ_TO_END) {
                    conn.flags.clear(READABLE);
                }
                self.counters.rx_bytes.add(count as u64);
                match self.conns.slab[index].flags.has(PROXY_DUE) {
                    true => self.handle_first_bytes(index, &buffer[..count]),
                    false => self.handle_bytes(index, &buffer[..count]),
                }
            }
            Err(Errno::AGAIN) => {
                conn.flags.clear(READABLE);
                Step::Wait
            }
            Err(_) => {
                self.counters.conns_reset.add(1);
                Step::Drop
            }
        };
        self.read_buffer = buffer;
        step
    }

    /// Takes the header of the PROXY protocol from the first bytes. One that comes in parts is refused, as
    /// its specification allows.
    fn handle_first_bytes(&mut self, index: u32, bytes: &[u8]) -> Step {
        let Ok(header) = proxy_header::header_bytes(bytes) else {
            self.counters.requests_malformed.add(1);
            return Step::Drop;
        };
        self.conns.slab[index].flags.clear(PROXY_DUE);
        match bytes.get(header..).unwrap_or_default() {
            [] => Step::More(header),
            rest => self.handle_bytes(index, rest),
        }
    }

    fn handle_bytes(&mut self, index: u32, bytes: &[u8]) -> Step {
        let (conn, session) = self.conns.slab.with_tls(index);
        let Some(session) = session else {
            self.handle_input(index, bytes);
            return Step::More(bytes.len());
        };
        let mut begins_http2 = false;
        let (plaintext, outcome) = self.pump.receive(session, bytes);
        let step = match outcome {
            Ok(received) => {
                if received.handshake_finished {
                    let resumed = session
                        .handshake()
                        .is_some_and(|handshake| handshake.kind == HandshakeKind::Resumed);
                    let is_http2 = session.handshake().is_some_and(|handshake| handshake.is_http2);
                    conn.phase = Phase::Idle;
                    if is_http2 && conn.spoken == Spoken::Http {
                        begins_http2 = true;
                    }
                    match resumed {
                        true => self.counters.handshakes_resumed.add(1),
                        false => self.counters.handshakes_full.add(1),
                    }
                    // The CONNECT of MQTT is due.
                    let is_mqtt = conn.spoken == Spoken::Mqtt;
                    let timeout = if is_mqtt { self.timeouts.request } else { self.timeouts.idle };
                    self.conns.set_deadline(index, timeout);
                }
                if received.peer_closed {
                    self.conns.slab[index].flags.set(PEER_DONE);
                }
                if begins_http2 {
                    self.begin_http2(index);
                }
                self.handle_input(index, &plaintext);
                Step::More(bytes.len())
            }
            Err(_) => {
                self.counters.tls_failed.add(1);
                conn.flags.set(LINGER);
                conn.phase = Phase::Closing;
                Step::Finish
            }
        };
        self.pump.give_back(plaintext);
        step
    }

    fn handle_stash(&mut self, index: u32) -> Step {
        let Some(active) = &mut self.conns.slab[index].active else { return Step::Wait };
        let stash = std::mem::take(&mut active.stash);
        self.handle_input(index, &stash);
        Step::More(stash.len())
    }

    /// Handles decrypted bytes; keeps those that must wait until the current answer is sent.
    fn handle_input(&mut self, index: u32, input: &[u8]) {
        if input.is_empty() {
            return;
        }
        if self.conns.slab[index].flags.has(WEBSOCKET) {
            return self.handle_frames(index, input);
        }
        match self.conns.slab[index].spoken {
            Spoken::Http => {}
            Spoken::Mqtt => return self.handle_packets(index, input),
            Spoken::Echo => return self.send_back(index, input),
        }
        if self.conns.slab[index].begins_http2(input) {
            self.begin_http2(index);
        }
        if self.is_http2(index) {
            return self.handle_http2(index, input);
        }
        let mut active = self.conns.take_active(index);
        let mut rest = input;
        while !rest.is_empty() && self.out.len() < OUT_BYTES {
            let (mut saw_head, mut opening) = (false, Opening::default());
            let (notes, service) = (&mut active.notes, &mut self.service);
            let parsed = active.parser.handle_bytes(rest, &mut |name, value| {
                saw_head = true;
                opening.handle_header(name, value);
                service.handle_header(notes, name, value);
            });
            if saw_head {
                self.conns.slab[index].flags.set(IN_BODY);
            }
            match parsed {
                Ok((consumed, progress)) => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    match progress {
                        RequestProgress::NeedMore => break,
                        RequestProgress::ExpectContinue => encode::continue_100(&mut self.out),
                        RequestProgress::Complete(request) => {
                            match opening.is_asked_for() {
                                true => self.switch(index, &opening, &active.notes, request),
                                false => {
                                    let answer =
                                        self.service.handle_request(&active.notes, &request);
                                    self.begin_answer(index, answer, request);
                                }
                            }
                            active.notes = S::Notes::default();
                        }
                    }
                }
                Err(error) => {
                    self.counters.requests_malformed.add(1);
                    self.refuse(index, error.status(), &error.to_string());
                }
            }
            match self.conns.slab[index].phase {
                Phase::Sending => {
                    self.write_answer(index);
                }
                Phase::Idle | Phase::Reading if !self.is_switched(index) => continue,
                _ => {}
            }
            if self.conns.slab[index].phase != Phase::Idle || self.is_switched(index) {
                break;
            }
        }
        let incomplete = !active.parser.is_idle();
        self.keep_rest(index, active, rest);
        self.watch_request(index, incomplete);
    }

    /// Counts what a connection keeps. If all connections keep too much, this one ends: `refuse` appends why.
    pub(super) fn compare_kept(
        &mut self,
        index: u32,
        active: &mut Active<S::Notes>,
        refuse: impl FnOnce(&mut Active<S::Notes>, &mut Vec<u8>),
    ) {
        self.conns.count_kept(active);
        if self.conns.kept_bytes <= self.kept_bytes_max {
            return;
        }
        self.counters.conns_overfull.add(1);
        refuse(active, &mut self.out);
        self.conns.count_kept(active);
        let conn = &mut self.conns.slab[index];
        conn.flags.set(LINGER);
        conn.phase = Phase::Closing;
    }

    /// Gives back what was taken to handle input, with the bytes that have to wait.
    pub(super) fn keep_rest(&mut self, index: u32, mut active: Box<Active<S::Notes>>, rest: &[u8]) {
        let conn = &mut self.conns.slab[index];
        if conn.phase != Phase::Closing {
            active.stash.extend_from_slice(rest);
        } else if !rest.is_empty() {
            // What came behind a last request is not answered, but it must not become a reset.
            conn.flags.set(LINGER);
        }
        conn.active = Some(active);
    }

    /// Sets the timer of a request that is arriving: one for its whole head, then one for each
    /// stretch of its body.
    fn watch_request(&mut self, index: u32, incomplete: bool) {
        let conn = &mut self.conns.slab[index];
        match conn.phase {
            Phase::Idle if incomplete => conn.phase = Phase::Reading,
            Phase::Reading if conn.flags.has(IN_BODY) => {}
            _ => return,
        }
        self.conns.set_deadline(index, self.timeouts.request);
    }

    /// Reads and forgets, until the peer is done.
    fn discard(&mut self, index: u32) -> Step {
        let conn = &mut self.conns.slab[index];
        if !conn.flags.has(READABLE) {
            return Step::Wait;
        }
        let received = match &conn.socket {
            Some(socket) => socket.recv(&mut self.read_buffer),
            None => Err(Errno::BADF),
        };
        match received {
            Ok(1..) => Step::More(received.unwrap_or_default()),
            Err(Errno::AGAIN) => {
                conn.flags.clear(READABLE);
                Step::Wait
            }
            Ok(0) | Err(_) => Step::Drop,
        }
    }

    /// Sends bytes back as they came; keeps those that must wait until the others are sent.
    fn send_back(&mut self, index: u32, input: &[u8]) {
        let now = input.len().min(OUT_BYTES.saturating_sub(self.out.len()));
        self.out.extend_from_slice(&input[..now]);
        self.conns.set_deadline(index, self.timeouts.idle);
        if now < input.len() {
            let active = self.conns.take_active(index);
            self.keep_rest(index, active, &input[now..]);
        }
    }

    // ---- answers

    pub(super) fn begin_answer(&mut self, index: u32, answer: Answer, request: Request) {
        self.counters.request_body_bytes.add(request.body_bytes);
        let conn = &mut self.conns.slab[index];
        conn.flags.clear(IN_BODY | HEAD_SENT);
        conn.flags.put(KEEP_ALIVE, request.keep_alive);
        conn.flags.put(BODILESS, request.head_method);
        match answer {
            Answer::Refusal { status, text } => {
                self.counters.requests_refused.add(1);
                self.write_text(index, status, &text);
                self.finish_answer(index);
            }
            Answer::Body(body) => {
                conn.flags.put(CHUNKED, body.chunked && !request.http10);
                conn.token = body.token;
                conn.piece_bytes = body.piece_bytes;
                conn.piece_left = body.piece_bytes;
                conn.pieces_further = body.pieces_further;
                conn.phase = Phase::Sending;
                if body.delay > Nanos::ZERO {
                    self.sleep(index, body.delay);
                } else {
                    self.conns.set_deadline(index, self.timeouts.idle);
                }
            }
        }
    }

    pub(super) fn sleep(&mut self, index: u32, delay: Nanos) {
        // Work since the event may have taken longer than a short sleep.
        self.conns.read_clock();
        self.conns.slab[index].phase = Phase::Sleeping;
        self.conns.set_deadline(index, delay);
    }

    /// Answers what is not an acceptable request, and ends the connection.
    pub(super) fn refuse(&mut self, index: u32, status: u16, text: &str) {
        let flags = &mut self.conns.slab[index].flags;
        flags.clear(KEEP_ALIVE | BODILESS);
        flags.set(LINGER);
        self.write_text(index, status, text);
        self.finish_answer(index);
    }

    fn write_text(&mut self, index: u32, status: u16, text: &str) {
        let flags = self.conns.slab[index].flags;
        let length = BodyLength::Fixed(text.len() as u64 + 1);
        encode::response_head(&mut self.out, status, length, flags.has(KEEP_ALIVE));
        if !flags.has(BODILESS) {
            self.out.extend_from_slice(text.as_bytes());
            self.out.push(b'\n');
        }
        self.out_tail_body = 0;
    }

    fn begin_linger(&mut self, index: u32) {
        let conn = &mut self.conns.slab[index];
        conn.phase = Phase::Lingering;
        conn.flags.set(READABLE);
        if let Some(socket) = &conn.socket {
            // Fails only on a closed connection, which the next read shows.
            let _ = socket.shutdown_write();
        }
        self.conns.set_deadline(index, LINGER_TIMEOUT);
    }

    /// Handles the end of the phase's time.
    fn handle_deadline(&mut self, index: u32) {
        let is_acknowledging = self.is_acknowledging(index);
        let conn = &mut self.conns.slab[index];
        match conn.phase {
            Phase::Free => return,
            Phase::Idle if conn.flags.has(HTTP2) => {
                return self.handle_http2_deadline(index);
            }
            Phase::Idle if is_acknowledging => {
                self.send_acknowledgements(index);
            }
            Phase::Sleeping if conn.flags.has(WEBSOCKET) => self.send_delayed(index),
            Phase::Idle
                if conn.flags.has(WEBSOCKET)
                    && (!conn.flags.has(BLOCKED) || conn.pieces_further > 0) =>
            {
                self.handle_silence(index);
            }
            Phase::Sleeping => {
                conn.phase = Phase::Sending;
                self.conns.set_deadline(index, self.timeouts.idle);
            }
            Phase::Idle if !conn.flags.has(BLOCKED) => conn.phase = Phase::Closing,
            Phase::Reading if !conn.flags.has(BLOCKED) => {
                self.counters.conns_timed_out.add(1);
                self.refuse(index, 408, "the request did not arrive in time");
            }
            Phase::Lingering => return self.close(index),
            _ => {
                // A handshake that does not end, or a peer that does not read.
                self.counters.conns_timed_out.add(1);
                if let Some(socket) = &conn.socket {
                    let _ = socket.reset_on_close();
                }
                return self.close(index);
            }
        }
        self.drive(index);
    }
}
