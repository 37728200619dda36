//! HTTP/2 on one connection: requests on many streams at once, each answered at the time and with the size that the
//! service decides; gRPC calls are answered with their own message.
//!
//! The connection stays in [`Phase::Idle`], so that it continues to read while answers wait for their delays, for
//! windows of flow control, or for their turn. Its one timer is due with the first of them.

use plimsoll_model::Nanos;
use plimsoll_proto::http1::Request;
use plimsoll_proto::http2::{FRAME_BYTES_MAX, Incoming, Server};

use super::answering::{Answering, Head, Source, State};
use super::conn::{BLOCKED, HTTP2, LINGER, Phase};
use super::exchange::{Exchange, OUT_BYTES, Step};
use super::service::{Answer, Service};

/// Statuses of gRPC.
const INVALID_ARGUMENT: &str = "3";
const UNIMPLEMENTED: &str = "12";
const INTERNAL: &str = "13";
/// Before the message of a call: whether it is compressed, and its length.
const MESSAGE_HEAD_BYTES: usize = 5;

impl<S: Service> Exchange<S> {
    pub(super) fn is_http2(&self, index: u32) -> bool {
        self.conns.slab[index].flags.has(HTTP2)
    }

    /// Begins HTTP/2 on a connection that speaks it from its first byte on.
    pub(super) fn begin_http2(&mut self, index: u32) {
        self.conns.slab.begin_http2(index);
        Server::<Answering<S::Notes>>::write_opening(&mut self.out);
    }

    /// Handles decrypted bytes, and keeps those that have to wait for room.
    pub(super) fn handle_http2(&mut self, index: u32, input: &[u8]) {
        let mut active = self.conns.take_active(index);
        let server = active.http2.get_or_insert_default();
        let mut rest = input;
        while !rest.is_empty() && self.out.len() < OUT_BYTES {
            let (mut notes, service) = (None, &mut self.service);
            let handled =
                server.handle_bytes(rest, self.conns.now, &mut self.out, &mut |name, value| {
                    let notes = notes.get_or_insert_with(S::Notes::default);
                    service.handle_header(notes, name, value);
                });
            let incoming = match handled {
                Ok((consumed, incoming)) => {
                    rest = rest.get(consumed..).unwrap_or_default();
                    incoming
                }
                Err(_) => {
                    self.counters.requests_malformed.add(1);
                    let conn = &mut self.conns.slab[index];
                    conn.flags.set(LINGER);
                    conn.phase = Phase::Closing;
                    break;
                }
            };
            let (Some(Incoming::Begun(id) | Incoming::Complete(id)), place) =
                (incoming, server.streams.len().saturating_sub(1))
            else {
                if incoming == Some(Incoming::Reset) {
                    self.counters.requests_malformed.add(1);
                }
                continue;
            };
            // A new one is the last.
            let is_last = server.streams.get(place).is_some_and(|stream| stream.id == id);
            let place = match is_last {
                true => Some(place),
                false => server.streams.iter().position(|stream| stream.id == id),
            };
            let Some(place) = place else { continue };
            let answer = &mut server.streams[place].answer;
            answer.notes = notes.or_else(|| answer.notes.take());
            if matches!(incoming, Some(Incoming::Complete(_))) {
                self.begin_stream_answer(server, place);
                self.write_stream(server, place);
            }
        }
        self.compare_kept(index, &mut active, |active, out| {
            active.http2.get_or_insert_default().refuse_excess(out);
        });
        self.keep_rest(index, active, rest);
        self.watch_streams(index);
    }

    /// Puts the complete request of a stream to the service.
    fn begin_stream_answer(&mut self, server: &mut Server<Answering<S::Notes>>, place: usize) {
        let stream = &mut server.streams[place];
        self.counters.request_body_bytes.add(stream.body_bytes);
        let request = Request {
            head_method: stream.is_head_method,
            keep_alive: true,
            http10: false,
            body_bytes: stream.body_bytes,
        };
        let notes = stream.answer.notes.take().unwrap_or_default();
        let answer = &mut stream.answer;
        match self.service.handle_request(&notes, &request) {
            Answer::Refusal { status, text } => {
                self.counters.requests_refused.add(1);
                answer.state = State::Writing(Head::Due(status));
                answer.body = Source::Text((text + "\n").into_bytes());
            }
            Answer::Body(body) => {
                answer.body = match stream.is_grpc {
                    true => Source::Message { from: 0 },
                    false => Source::Pattern { body, piece_left: body.piece_bytes },
                };
                answer.state = State::Writing(Head::Due(200));
                if stream.is_grpc && body.pieces_further > 0 {
                    // A unary call has one message.
                    answer.state = State::Writing(Head::Due(501));
                } else if body.delay > Nanos::ZERO {
                    // Work since the event may have taken longer than a short sleep.
                    self.conns.read_clock();
                    let due = self.conns.now + body.delay;
                    answer.state = State::Waiting(due, Head::Due(200));
                }
            }
        }
    }

    /// Writes what is due of the answers of a connection, as far as it fits one flush.
    pub(super) fn write_streams(&mut self, index: u32) -> Step {
        let Some(mut active) = self.conns.slab[index].active.take() else { return Step::Wait };
        let Some(server) = &mut active.http2 else { return Step::Wait };
        let before = self.out.len();
        let mut idle_turns = 0;
        while self.out.len() < OUT_BYTES && idle_turns < server.streams.len() {
            let place = server.turn % server.streams.len();
            let written = self.out.len();
            let is_over = self.write_stream(server, place);
            idle_turns = if self.out.len() > written { 0 } else { idle_turns + 1 };
            // Another one has the place of a stream that is over.
            server.turn = if is_over { place } else { place + 1 };
        }
        self.conns.count_kept(&mut active);
        self.conns.slab[index].active = Some(active);
        self.watch_streams(index);
        if self.out.len() > before { Step::More(self.out.len() - before) } else { Step::Wait }
    }

    /// Writes one frame of the body of an answer, and its head and its end if they are due; returns
    /// whether the stream is over.
    fn write_stream(&mut self, server: &mut Server<Answering<S::Notes>>, place: usize) -> bool {
        let stream = &mut server.streams[place];
        let head = match stream.answer.state {
            State::Receiving => return false,
            State::Waiting(due, _) if due > self.conns.now => return false,
            State::Waiting(_, head) | State::Writing(head) => head,
        };
        stream.answer.state = State::Writing(head);
        if stream.is_grpc {
            return self.write_call(server, place, head);
        }
        if let Head::Due(status) = head {
            let length = stream.answer.body.length();
            let is_end = stream.is_head_method || length == Some(0);
            let digits = length.unwrap_or_default().to_string();
            let fields: &[_] = match length {
                Some(_) => &[("content-length", digits.as_str())],
                None => &[],
            };
            self.write_stream_head(stream.id, status, fields, is_end);
            stream.answer.state = State::Writing(Head::Sent);
            if is_end {
                return self.finish_stream(server, place);
            }
        }
        let room = server.room(place).min(FRAME_BYTES_MAX);
        let stream = &mut server.streams[place];
        match &mut stream.answer.body {
            Source::Message { .. } => true,
            Source::Text(text) => {
                // Refusals are short: they go out whole, or wait for the window.
                if room < text.len() {
                    return false;
                }
                let text = std::mem::take(text);
                server.write_data(&mut self.out, place, &text, true);
                self.finish_stream(server, place)
            }
            Source::Pattern { body, piece_left } => {
                let written = (body.piece_bytes - *piece_left) as usize;
                let count = room.min(*piece_left as usize);
                if count == 0 && *piece_left > 0 {
                    return false;
                }
                *piece_left -= count as u32;
                let piece_over = *piece_left == 0;
                let is_end = piece_over && body.pieces_further == 0;
                if piece_over && !is_end {
                    body.pieces_further -= 1;
                    *piece_left = body.piece_bytes;
                    let delay = self.service.next_delay(body.token);
                    if delay > Nanos::ZERO {
                        self.conns.read_clock();
                        stream.answer.state = State::Waiting(self.conns.now + delay, Head::Sent);
                    }
                }
                let from = written % S::PATTERN.len();
                let bytes = &self.fill[from..from + count];
                server.write_data(&mut self.out, place, bytes, is_end);
                is_end && self.finish_stream(server, place)
            }
        }
    }

    /// Writes a gRPC call like [`Self::write_stream`]: its message comes back, followed by the status.
    fn write_call(
        &mut self,
        server: &mut Server<Answering<S::Notes>>,
        place: usize,
        head: Head,
    ) -> bool {
        let room = server.room(place).min(FRAME_BYTES_MAX);
        let stream = &mut server.streams[place];
        let message = &stream.message;
        let failed = match head {
            Head::Due(501) => Some((UNIMPLEMENTED, "times: a unary call has one message")),
            Head::Due(400..) => Some((INVALID_ARGUMENT, "a header is not as it should be")),
            Head::Due(_) if !is_one_message(message) => {
                Some((INTERNAL, "the body is not one message without compression"))
            }
            _ => None,
        };
        const TYPE: (&str, &str) = ("content-type", "application/grpc");
        if let Some((status, text)) = failed {
            let fields = [TYPE, ("grpc-status", status), ("grpc-message", text)];
            self.write_stream_head(stream.id, 200, &fields, true);
            return self.finish_stream(server, place);
        }
        if head != Head::Sent {
            self.write_stream_head(stream.id, 200, &[TYPE], false);
            stream.answer.state = State::Writing(Head::Sent);
        }
        let Source::Message { from } = &mut stream.answer.body else { return false };
        let message = std::mem::take(&mut stream.message);
        let piece = &message[*from..];
        let piece = &piece[..piece.len().min(room)];
        if piece.is_empty() {
            stream.message = message;
            return false;
        }
        *from += piece.len();
        let is_over = *from == message.len();
        server.write_data(&mut self.out, place, piece, false);
        let stream = &mut server.streams[place];
        stream.message = message;
        if is_over {
            let id = stream.id;
            Server::<Answering<S::Notes>>::write_trailers(
                &mut self.out,
                &mut self.payload,
                id,
                &[("grpc-status", "0")],
            );
            return self.finish_stream(server, place);
        }
        false
    }

    fn write_stream_head(&mut self, id: u32, status: u16, fields: &[(&str, &str)], is_end: bool) {
        let (out, scratch) = (&mut self.out, &mut self.payload);
        Server::<Answering<S::Notes>>::write_head(out, scratch, id, status, fields, is_end);
    }

    /// Ends a stream whose answer is written; returns `true`, since the stream has ended.
    fn finish_stream(&mut self, server: &mut Server<Answering<S::Notes>>, place: usize) -> bool {
        self.counters.requests.add(1);
        server.finish(place, &mut self.out);
        true
    }

    /// Sets the connection's timer: for the first answer that is due, else for what is awaited of the client.
    fn watch_streams(&mut self, index: u32) {
        let conn = &self.conns.slab[index];
        if conn.phase != Phase::Idle {
            return;
        }
        let server = conn.active.as_ref().and_then(|active| active.http2.as_ref());
        let due = server.and_then(|server| {
            let due = server.streams.iter().filter_map(|stream| match stream.answer.state {
                State::Waiting(due, _) => Some(due),
                State::Receiving | State::Writing(_) => None,
            });
            due.min()
        });
        let is_in_frame =
            server.is_some_and(|server| server.streams.is_empty() && !server.is_idle());
        let span = match due {
            Some(due) => due.since(self.conns.now).min(self.timeouts.idle),
            None if is_in_frame => self.timeouts.request,
            None => self.timeouts.idle,
        };
        self.conns.set_deadline(index, span);
    }

    /// Handles the deadline of the connection: an answer is due, or the client was silent for too long.
    pub(super) fn handle_http2_deadline(&mut self, index: u32) {
        let conn = &mut self.conns.slab[index];
        let is_blocked = conn.flags.has(BLOCKED);
        let now = self.conns.now;
        let mut server = conn.active.as_mut().and_then(|active| active.http2.as_mut());
        let (mut is_due, mut waits) = (false, false);
        for stream in server.iter_mut().flat_map(|server| &mut server.streams) {
            if let State::Waiting(due, head) = stream.answer.state {
                waits = true;
                if due <= now {
                    is_due = true;
                    stream.answer.state = State::Writing(head);
                }
            }
        }
        match (is_due, waits) {
            // It goes out when there is room, for which no longer is waited than for any answer.
            (true, _) if is_blocked => return self.conns.set_deadline(index, self.timeouts.idle),
            (true, _) => return self.drive(index),
            (false, true) => return self.watch_streams(index),
            (false, false) => {}
        }
        if server.as_ref().is_some_and(|server| !server.is_idle()) {
            self.counters.conns_timed_out.add(1);
        }
        if is_blocked {
            if let Some(socket) = &self.conns.slab[index].socket {
                // A peer that does not read.
                let _ = socket.reset_on_close();
            }
            return self.close(index);
        }
        match server {
            Some(server) => server.write_goaway(&mut self.out),
            None => self.conns.slab.write_http2_goaway(index, &mut self.out),
        }
        self.conns.slab[index].phase = Phase::Closing;
        self.drive(index);
    }
}

/// Reports whether a request's body is one message of gRPC, not compressed.
fn is_one_message(body: &[u8]) -> bool {
    let Some((head, message)) = body.split_first_chunk::<MESSAGE_HEAD_BYTES>() else {
        return false;
    };
    let [compressed, length @ ..] = *head;
    compressed == 0 && u32::from_be_bytes(length) as usize == message.len()
}
