//! WebSocket on one connection: every message is sent back as it came, after the delay that the request
//! of the upgrade asked for. One that asked for pushes gets those, too.

use plimsoll_model::Nanos;
use plimsoll_model::target::{Filling, STAMP_BYTES};
use plimsoll_proto::http1::Request;
use plimsoll_proto::websocket::{FrameError, Opcode, Opening, Progress, write_frame};

use super::conn::{Active, BLOCKED, LINGER, Phase, WEBSOCKET};
use super::exchange::{Exchange, OUT_BYTES};
use super::service::{Answer, Service};

/// Closed by us without having been asked to (RFC 6455 7.4.1): nothing was said.
const NORMAL_CLOSURE: u16 = 1000;
/// We end the connection.
const GOING_AWAY: u16 = 1001;
/// Multiples of it, cut to 32 bits, are evenly spread.
const GOLDEN_RATIO_32: u32 = 0x9E37_79B9;

impl<S: Service> Exchange<S> {
    pub(super) fn is_switched(&self, index: u32) -> bool {
        self.conns.slab[index].flags.has(WEBSOCKET)
    }

    /// Answers a request that asks for WebSocket.
    pub(super) fn switch(
        &mut self,
        index: u32,
        opening: &Opening,
        notes: &S::Notes,
        request: Request,
    ) {
        let answer = self.service.handle_request(notes, &request);
        let Answer::Body(body) = answer else {
            return self.begin_answer(index, answer, request);
        };
        if let Err(refusal) = opening.accept(&mut self.out) {
            self.counters.requests_malformed.add(1);
            return self.refuse(index, 400, &refusal.to_string());
        }
        self.counters.requests.add(1);
        self.counters.conns_upgraded.add(1);
        let conn = &mut self.conns.slab[index];
        conn.flags.set(WEBSOCKET);
        conn.token = body.token;
        conn.phase = Phase::Idle;
        // The fields of an answer in pieces, which this connection has no more.
        (conn.piece_bytes, conn.pieces_further) = (body.piece_bytes, body.push_every_ms);
        self.await_message(index);
    }

    /// Handles decrypted bytes; keeps those that must wait until the current message is answered.
    pub(super) fn handle_frames(&mut self, index: u32, input: &[u8]) {
        let mut active = self.conns.take_active(index);
        let mut rest = input;
        self.await_message(index);
        while !rest.is_empty()
            && self.out.len() < OUT_BYTES
            && self.conns.slab[index].phase == Phase::Idle
        {
            match self.handle_frame(index, rest, &mut active) {
                Ok(consumed) => rest = rest.get(consumed..).unwrap_or_default(),
                Err(error) => {
                    self.counters.requests_malformed.add(1);
                    self.conns.slab[index].flags.set(LINGER);
                    self.end_messages(index, error.close_code());
                }
            }
        }
        self.keep_rest(index, active, rest);
    }

    /// Handles bytes up to the end of a message or of a control frame; returns how many.
    fn handle_frame(
        &mut self,
        index: u32,
        input: &[u8],
        active: &mut Active<S::Notes>,
    ) -> Result<usize, FrameError> {
        // A part of the message that went back already.
        let has_begun = active.messages.has_begun();
        let mut payload = std::mem::take(&mut self.payload);
        payload.clear();
        let read = active.messages.handle_bytes(input, &mut |bytes| {
            payload.extend_from_slice(bytes);
        });
        if let Ok((_, progress)) = read {
            let is_text = match progress {
                Progress::Message { is_text, .. } => is_text,
                _ => active.messages.is_in_text(),
            };
            let opcode = match (has_begun, is_text) {
                (true, _) => Opcode::Continuation,
                (false, true) => Opcode::Text,
                (false, false) => Opcode::Binary,
            };
            match progress {
                Progress::Message { .. } => self.answer_message(index, opcode, &payload, active),
                _ if payload.is_empty() => {}
                _ => write_frame(&mut self.out, false, opcode, &payload, None),
            }
            match progress {
                Progress::Ping => {
                    let payload = active.messages.control_payload();
                    write_frame(&mut self.out, true, Opcode::Pong, payload, None);
                }
                Progress::Close(code) => self.end_messages(index, code.unwrap_or(NORMAL_CLOSURE)),
                Progress::NeedMore | Progress::Pong | Progress::Message { .. } => {}
            }
        }
        self.payload = payload;
        read.map(|(consumed, _)| consumed)
    }

    /// Sends the last or only frame of a message back, at once or when its delay has ended.
    fn answer_message(
        &mut self,
        index: u32,
        opcode: Opcode,
        payload: &[u8],
        active: &mut Active<S::Notes>,
    ) {
        self.counters.messages.add(1);
        let delay = self.service.next_delay(self.conns.slab[index].token);
        if delay == Nanos::ZERO {
            return write_frame(&mut self.out, true, opcode, payload, None);
        }
        write_frame(&mut active.delayed, true, opcode, payload, None);
        self.sleep(index, delay);
    }

    /// Sends the last message, whose delay has ended.
    pub(super) fn send_delayed(&mut self, index: u32) {
        let conn = &mut self.conns.slab[index];
        conn.phase = Phase::Idle;
        if let Some(active) = &mut conn.active {
            self.out.append(&mut active.delayed);
        }
        self.await_message(index);
    }

    /// Sets the timer to the next push or, if none was asked for, to the longest silence.
    pub(super) fn await_message(&mut self, index: u32) {
        let span = match self.pushes_every(index) {
            None => self.timeouts.idle,
            Some(every) => self.next_push(index, every).since(self.conns.now),
        };
        self.conns.set_deadline(index, span);
    }

    fn pushes_every(&self, index: u32) -> Option<Nanos> {
        let conn = &self.conns.slab[index];
        let asked = conn.flags.has(WEBSOCKET) && conn.pieces_further > 0;
        asked.then(|| Nanos::from_millis(conn.pieces_further.into()))
    }

    /// Returns the time of the next push. The connections of a worker are spread over the time between two pushes.
    fn next_push(&self, index: u32, every: Nanos) -> Nanos {
        let place = u64::from(index.wrapping_mul(GOLDEN_RATIO_32));
        let phase = ((u128::from(place) * u128::from(every.0)) >> 32) as u64;
        let passed = self.conns.now.0.saturating_sub(phase) / every.0;
        Nanos((passed + 1) * every.0 + phase)
    }

    /// Handles the timer of a connection that awaits a message.
    pub(super) fn handle_silence(&mut self, index: u32) {
        let Some(every) = self.pushes_every(index) else {
            return self.end_messages(index, GOING_AWAY);
        };
        self.conns.read_clock();
        let due = Nanos(self.next_push(index, every).0.saturating_sub(every.0));
        let conn = &self.conns.slab[index];
        // A peer that does not read gets no more; a message that goes back in parts is not interrupted.
        let is_within = conn.active.as_ref().is_some_and(|active| active.messages.has_begun());
        if !conn.flags.has(BLOCKED) && !conn.has_unsent() && !is_within {
            let sequence = due.0 / every.0;
            let filling = Filling {
                run: self.clock,
                connection: index,
                operation: sequence as u32,
                intended: due,
                began: self.conns.now,
            };
            let bytes = (conn.piece_bytes as usize).max(STAMP_BYTES);
            let mut payload = std::mem::take(&mut self.payload);
            payload.clear();
            payload.extend_from_slice(&filling.stamp());
            payload.extend(S::PATTERN.iter().cycle().take(bytes - STAMP_BYTES));
            write_frame(&mut self.out, true, Opcode::Binary, &payload, None);
            self.payload = payload;
            self.counters.pushes.add(1);
        }
        self.await_message(index);
    }

    /// Sends a close frame, then closes.
    fn end_messages(&mut self, index: u32, code: u16) {
        write_frame(&mut self.out, true, Opcode::Close, &code.to_be_bytes(), None);
        self.conns.slab[index].phase = Phase::Closing;
    }
}
