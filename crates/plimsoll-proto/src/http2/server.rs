//! The server half of HTTP/2: the requests of one connection, one stream each.
//!
//! [`Server::handle_bytes`] reads frames and reports when a request begins, completes or is reset; the caller then
//! writes the answer with `write_head`, `write_data` and `write_trailers` within both flow-control windows. An idle
//! connection is stored as a [`ServerRest`] of 40 bytes; [`Server::resume`] and [`Server::leave`] lend the large
//! state. Resets and frames that ask for nothing are limited per 10 s (CVE-2023-44487). Start reading at
//! `Server::handle_frames`.

use plimsoll_model::Nanos;
use thiserror::Error;

use super::frame::{
    self, ACK, Code, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, Fault, FrameReader, Head, Item,
    Kind, MAX_31, OpenBlock, SETTING_ENABLE_PUSH, SETTING_INITIAL_WINDOW_SIZE,
    SETTING_MAX_CONCURRENT_STREAMS, SETTING_MAX_FRAME_SIZE, SETTING_MAX_HEADER_LIST_SIZE, fault,
};
use super::hpack::{self, Decoder};
use super::request::is_grpc_type;
use super::{BLOCK_BYTES_MAX, PREFACE};

/// Requests that a client may have open at once on one connection.
pub const SERVER_STREAMS_MAX: u32 = 100;
/// Largest message of gRPC that is kept, to be sent back.
pub const MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Window of a client on each stream and on the connection.
const WINDOW: u32 = 1 << 20;
const WINDOW_DEFAULT: u32 = 65_535;
/// Period of the limits below, on resets that a client causes and on frames that ask for nothing. A well-behaved client
/// stays far below them, and an attacker gains nothing (CVE-2023-44487, CVE-2019-9512).
const CALM_PERIOD_S: u32 = 10;
const RESETS_MAX: u16 = 1_000;
const IDLE_FRAMES_MAX: u16 = 10_000;
/// The answer of `grpc.health.v1.Health/Check`: SERVING.
const SERVING: [u8; 7] = [0, 0, 0, 0, 2, 8, 1];
const HEALTH_PATH: &[u8] = b"/grpc.health.v1.Health/Check";

/// The client broke the protocol: the connection ends.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("{}: {why}", .code.name())]
pub struct ServerError {
    /// Error code for the client.
    pub code: Code,
    /// The fault in words.
    pub why: &'static str,
}

/// An item that a client's bytes brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// The fields of a new stream's request were handed over; its body may follow.
    Begun(u32),
    /// The request of a stream is complete.
    Complete(u32),
    /// A stream is gone without an answer: the client gave it up, or its request was not acceptable.
    Reset,
}

/// A stream on which the answer is not complete.
#[derive(Debug)]
pub struct Stream<T> {
    /// Number of the stream.
    pub id: u32,
    /// The server's answer.
    pub answer: T,
    /// `true` if it answers a HEAD request.
    pub is_head_method: bool,
    /// `true` if it is a gRPC call.
    pub is_grpc: bool,
    /// Bytes of the request's body.
    pub body_bytes: u64,
    /// `true` if it is a call of the health service.
    is_health: bool,
    /// Message of a call of gRPC as it is sent back, with the five bytes before it.
    pub message: Vec<u8>,
    send_window: i32,
    uncredited: u32,
    /// By `content-length`.
    announced_bytes: Option<u64>,
    is_received: bool,
}

/// All that a connection is while nothing moves on it.
#[derive(Debug)]
pub struct ServerRest {
    /// Decoder, once the client has added to its table.
    decoder: Option<Box<Decoder>>,
    last_stream: u32,
    /// The highest stream for which RST_STREAM was sent.
    last_reset: u32,
    send_window: i32,
    initial_window: u32,
    uncredited: u32,
    /// Start of the present period of the defence, in s.
    calm_since_s: u32,
    resets: u16,
    idle_frames: u16,
    /// Bytes of the preface that have come.
    preface_bytes: u8,
    is_greeted: bool,
}

const _: () = assert!(size_of::<ServerRest>() == 40);

impl Default for ServerRest {
    fn default() -> Self {
        Self {
            decoder: None,
            last_stream: 0,
            last_reset: 0,
            send_window: WINDOW_DEFAULT as i32,
            initial_window: WINDOW_DEFAULT,
            uncredited: 0,
            calm_since_s: 0,
            resets: 0,
            idle_frames: 0,
            preface_bytes: 0,
            is_greeted: false,
        }
    }
}

impl ServerRest {
    /// Appends the announcement that nothing further will be answered.
    pub fn write_goaway(&self, out: &mut Vec<u8>) {
        frame::write_goaway(out, self.last_stream, Code::NO_ERROR);
    }
}

/// One connection while something moves on it.
#[derive(Debug)]
pub struct Server<T> {
    /// Open streams of the connection.
    pub streams: Vec<Stream<T>>,
    /// The place of the stream whose turn it is to send.
    pub turn: usize,
    rest: ServerRest,
    reader: FrameReader,
    block: Option<OpenBlock>,
    decoder: Decoder,
    scratch: Vec<u8>,
}

impl<T> Default for Server<T> {
    fn default() -> Self {
        Self {
            streams: Vec::new(),
            turn: 0,
            rest: ServerRest::default(),
            reader: FrameReader::default(),
            block: None,
            decoder: Decoder::default(),
            scratch: Vec::new(),
        }
    }
}

impl<T> Server<T> {
    /// Resumes the stored state of a connection.
    pub fn resume(&mut self, mut rest: ServerRest) {
        self.decoder = rest.decoder.take().map(|decoder| *decoder).unwrap_or_default();
        self.rest = rest;
    }

    /// Leaves the connection, which is idle, and becomes one for another.
    pub fn leave(&mut self) -> ServerRest {
        let mut rest = std::mem::take(&mut self.rest);
        let decoder = std::mem::take(&mut self.decoder);
        rest.decoder = decoder.is_used().then(|| Box::new(decoder));
        self.reader.clear();
        (self.block, self.turn) = (None, 0);
        self.streams.clear();
        rest
    }

    /// Reports whether the client is between frames and awaits no answer.
    pub fn is_idle(&self) -> bool {
        self.streams.is_empty()
            && usize::from(self.rest.preface_bytes) == PREFACE.len()
            && self.rest.is_greeted
            && self.reader.is_idle()
            && self.block.is_none()
    }
}

impl<T: Default> Server<T> {
    /// Appends what a server begins with.
    pub fn write_opening(out: &mut Vec<u8>) {
        let settings = [
            (SETTING_MAX_CONCURRENT_STREAMS, SERVER_STREAMS_MAX),
            (SETTING_INITIAL_WINDOW_SIZE, WINDOW),
            (SETTING_MAX_HEADER_LIST_SIZE, BLOCK_BYTES_MAX as u32),
        ];
        frame::write_settings(out, &settings);
        frame::write_window_update(out, 0, WINDOW - WINDOW_DEFAULT);
    }

    /// Handles bytes from the client up to what begins or ends something; returns how many were
    /// consumed. The fields of a request go to `on_field`; what must be answered at once is appended to
    /// `out`, also after an error: then the connection ends.
    pub fn handle_bytes(
        &mut self,
        input: &[u8],
        now: Nanos,
        out: &mut Vec<u8>,
        on_field: &mut dyn FnMut(&str, &[u8]),
    ) -> Result<(usize, Option<Incoming>), ServerError> {
        let mut reader = std::mem::take(&mut self.reader);
        let handled = self.handle_frames(&mut reader, input, now, out, on_field);
        self.reader = reader;
        handled.map_err(|Fault { code, why }| {
            frame::write_goaway(out, self.rest.last_stream, code);
            ServerError { code, why }
        })
    }

    fn handle_frames(
        &mut self,
        reader: &mut FrameReader,
        input: &[u8],
        now: Nanos,
        out: &mut Vec<u8>,
        on_field: &mut dyn FnMut(&str, &[u8]),
    ) -> Result<(usize, Option<Incoming>), Fault> {
        let mut consumed = self.take_preface(input)?;
        loop {
            let (read, item) = reader.read(&input[consumed..])?;
            consumed += read;
            let resets = self.rest.resets;
            let incoming = match item {
                None => return Ok((consumed, None)),
                Some(Item::Frame(head, payload)) => {
                    self.keep_calm(head, payload, now)?;
                    self.handle_frame(head, payload, out, on_field)?
                }
                Some(Item::Data { stream, bytes, flow, is_end }) => {
                    if bytes.is_empty() && !is_end {
                        self.count_idle_frame(now)?;
                    }
                    self.handle_data(stream, bytes, flow, is_end, out)?
                }
            };
            if self.rest.resets > resets {
                self.compare_resets(now)?;
            }
            if incoming.is_some() {
                return Ok((consumed, incoming));
            }
        }
    }

    fn take_preface(&mut self, input: &[u8]) -> Result<usize, Fault> {
        let left = PREFACE.get(usize::from(self.rest.preface_bytes)..).unwrap_or_default();
        let count = left.len().min(input.len());
        if left[..count] != input[..count] {
            return fault(Code::PROTOCOL_ERROR, "the client's preface is wrong");
        }
        self.rest.preface_bytes += count as u8;
        Ok(count)
    }

    // ---- defence

    fn keep_calm(&mut self, head: Head, payload: &[u8], now: Nanos) -> Result<(), Fault> {
        match head.kind {
            Kind::Ping | Kind::Settings | Kind::Priority | Kind::Unknown => {
                self.count_idle_frame(now)
            }
            Kind::Headers if payload.is_empty() => self.count_idle_frame(now),
            Kind::RstStream => {
                self.count_reset();
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn count_idle_frame(&mut self, now: Nanos) -> Result<(), Fault> {
        self.renew_calm(now);
        self.rest.idle_frames += 1;
        if self.rest.idle_frames > IDLE_FRAMES_MAX {
            return fault(Code::ENHANCE_YOUR_CALM, "too many frames that ask for nothing");
        }
        Ok(())
    }

    /// Counts a reset by the client, or one of ours that the client provoked (CVE-2025-8671).
    const fn count_reset(&mut self) {
        self.rest.resets = self.rest.resets.saturating_add(1);
    }

    fn compare_resets(&mut self, now: Nanos) -> Result<(), Fault> {
        self.renew_calm(now);
        if self.rest.resets > RESETS_MAX {
            return fault(Code::ENHANCE_YOUR_CALM, "too many streams were reset");
        }
        Ok(())
    }

    fn renew_calm(&mut self, now: Nanos) {
        let now_s = (now.0 / Nanos::from_secs(1).0) as u32;
        if now_s.wrapping_sub(self.rest.calm_since_s) >= CALM_PERIOD_S {
            self.rest.calm_since_s = now_s;
            (self.rest.resets, self.rest.idle_frames) = (0, 0);
        }
    }

    // ---- frames

    fn handle_frame(
        &mut self,
        head: Head,
        payload: &[u8],
        out: &mut Vec<u8>,
        on_field: &mut dyn FnMut(&str, &[u8]),
    ) -> Result<Option<Incoming>, Fault> {
        if !self.rest.is_greeted && (head.kind != Kind::Settings || head.has(ACK)) {
            return fault(Code::PROTOCOL_ERROR, "the client begins without SETTINGS");
        }
        if let Some(mut block) = self.block.take() {
            if !block.add(head, payload)? {
                self.block = Some(block);
                return Ok(None);
            }
            return self.handle_block(block.stream, block.ends_stream, &block.bytes, out, on_field);
        }
        match head.kind {
            Kind::Headers => {
                let block = frame::block_of(head, payload)?;
                self.check_new_block(head.stream)?;
                if head.has(END_HEADERS) {
                    let is_end = head.has(END_STREAM);
                    return self.handle_block(head.stream, is_end, block, out, on_field);
                }
                self.block = Some(OpenBlock::begin(head, block));
            }
            Kind::Settings => self.handle_settings(head, payload, out)?,
            Kind::Priority => return self.handle_priority(head, payload, out),
            Kind::RstStream => {
                self.check_begun(head.stream)?;
                let before = self.streams.len();
                self.streams.retain(|stream| stream.id != head.stream);
                return Ok((self.streams.len() < before).then_some(Incoming::Reset));
            }
            Kind::Ping if head.has(ACK) => {}
            Kind::Ping => frame::write_ping(out, ACK, payload),
            Kind::WindowUpdate => {
                return self.handle_window_update(head.stream, payload, out);
            }
            Kind::PushPromise => {
                return fault(Code::PROTOCOL_ERROR, "a client cannot push");
            }
            Kind::Continuation => {
                return fault(Code::PROTOCOL_ERROR, "a CONTINUATION continues nothing");
            }
            Kind::Data | Kind::GoAway | Kind::Unknown => {}
        }
        Ok(None)
    }

    fn check_begun(&self, stream: u32) -> Result<(), Fault> {
        if stream > self.rest.last_stream || stream.is_multiple_of(2) {
            return fault(Code::PROTOCOL_ERROR, "a frame is for a stream that was not begun");
        }
        Ok(())
    }

    /// A block begins a stream, or ends one whose request is not complete. One that crossed our RST_STREAM is ignored.
    fn check_new_block(&self, stream: u32) -> Result<(), Fault> {
        if stream.is_multiple_of(2) {
            return fault(Code::PROTOCOL_ERROR, "a client's streams have odd numbers");
        }
        if stream > self.rest.last_stream {
            return Ok(());
        }
        match self.streams.iter().find(|open| open.id == stream) {
            Some(open) if !open.is_received => Ok(()),
            // RFC 9113, 5.1. An earlier stream may have been reset, too.
            None if stream <= self.rest.last_reset => Ok(()),
            _ => fault(Code::STREAM_CLOSED, "a header block is for a stream that has ended"),
        }
    }

    fn handle_settings(
        &mut self,
        head: Head,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Fault> {
        if head.has(ACK) {
            return Ok(());
        }
        for (name, value) in frame::settings(payload) {
            match name {
                SETTING_INITIAL_WINDOW_SIZE => {
                    let windows = self.streams.iter_mut().map(|stream| &mut stream.send_window);
                    frame::move_windows(windows, &mut self.rest.initial_window, value)?;
                }
                SETTING_ENABLE_PUSH if value > 1 => {
                    return fault(Code::PROTOCOL_ERROR, "a setting is out of its range");
                }
                SETTING_MAX_FRAME_SIZE if !(FRAME_BYTES_MAX as u32..1 << 24).contains(&value) => {
                    return fault(Code::PROTOCOL_ERROR, "a setting is out of its range");
                }
                _ => {}
            }
        }
        self.rest.is_greeted = true;
        frame::write_settings_ack(out);
        Ok(())
    }

    /// Priorities are ignored, wrong ones are not.
    fn handle_priority(
        &mut self,
        head: Head,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Incoming>, Fault> {
        let code = match payload.len() {
            5 if frame::first_u32(payload) & MAX_31 != head.stream => return Ok(None),
            5 => Code::PROTOCOL_ERROR,
            _ => Code::FRAME_SIZE_ERROR,
        };
        if head.stream > self.rest.last_stream {
            return fault(code, "a PRIORITY is wrong");
        }
        Ok(self.reset(head.stream, code, out))
    }

    fn handle_window_update(
        &mut self,
        stream: u32,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<Option<Incoming>, Fault> {
        let by = frame::first_u32(payload) & MAX_31;
        if stream == 0 {
            frame::raise_window(&mut self.rest.send_window, by)?;
            return Ok(None);
        }
        self.check_begun(stream)?;
        let Some(open) = self.streams.iter_mut().find(|open| open.id == stream) else {
            return Ok(None);
        };
        Ok(match frame::raise_window(&mut open.send_window, by) {
            Ok(()) => None,
            Err(fault) => self.reset(stream, fault.code, out),
        })
    }

    fn handle_data(
        &mut self,
        stream: u32,
        bytes: &[u8],
        flow: u32,
        is_end: bool,
        out: &mut Vec<u8>,
    ) -> Result<Option<Incoming>, Fault> {
        if !self.rest.is_greeted || self.block.is_some() {
            return fault(Code::PROTOCOL_ERROR, "DATA comes where it may not");
        }
        self.check_begun(stream)?;
        self.rest.uncredited += flow;
        if self.rest.uncredited > WINDOW {
            return fault(Code::FLOW_CONTROL_ERROR, "the client sends more than the window allows");
        }
        if self.rest.uncredited > WINDOW / 2 {
            frame::write_window_update(out, 0, std::mem::take(&mut self.rest.uncredited));
        }
        let Some(open) = self.streams.iter_mut().find(|open| open.id == stream) else {
            // Once for each frame.
            if flow > 0 || is_end {
                frame::write_rst(out, stream, Code::STREAM_CLOSED);
            }
            return Ok(None);
        };
        if open.is_received {
            return Ok(self.reset(stream, Code::STREAM_CLOSED, out));
        }
        open.body_bytes += bytes.len() as u64;
        if open.is_grpc && !open.is_health {
            if open.message.len() + bytes.len() > MESSAGE_BYTES_MAX + 5 {
                return Ok(self.reset(stream, Code::CANCEL, out));
            }
            open.message.extend_from_slice(bytes);
        }
        open.uncredited += flow;
        if open.uncredited > WINDOW / 2 && !is_end {
            frame::write_window_update(out, stream, std::mem::take(&mut open.uncredited));
        }
        if is_end {
            return Ok(self.complete(stream, out));
        }
        Ok(None)
    }

    fn handle_block(
        &mut self,
        stream: u32,
        is_end: bool,
        block: &[u8],
        out: &mut Vec<u8>,
        on_field: &mut dyn FnMut(&str, &[u8]),
    ) -> Result<Option<Incoming>, Fault> {
        let is_new = stream > self.rest.last_stream;
        self.rest.last_stream = self.rest.last_stream.max(stream);
        let mut head = RequestHead { is_trailer: !is_new, ..RequestHead::default() };
        let mut scratch = std::mem::take(&mut self.scratch);
        let decoded = self.decoder.decode(block, &mut scratch, &mut |name, value| {
            if let Some(name) = head.take(name, value)
                && is_new
            {
                on_field(name, value);
            }
        });
        self.scratch = scratch;
        if decoded.is_err() {
            return fault(Code::COMPRESSION_ERROR, "a header block is malformed");
        }
        if !is_new {
            return Ok(match self.streams.iter().any(|open| open.id == stream) {
                false => None,
                true if is_end && !head.is_malformed => self.complete(stream, out),
                true => self.reset(stream, Code::PROTOCOL_ERROR, out),
            });
        }
        if self.streams.len() >= SERVER_STREAMS_MAX as usize {
            self.write_rst(stream, Code::REFUSED_STREAM, out);
            return Ok(Some(Incoming::Reset));
        }
        if !head.is_complete() {
            self.count_reset();
            self.write_rst(stream, Code::PROTOCOL_ERROR, out);
            return Ok(Some(Incoming::Reset));
        }
        self.streams.push(Stream {
            id: stream,
            answer: T::default(),
            is_head_method: head.is_head_method,
            is_grpc: head.is_grpc,
            body_bytes: 0,
            is_health: head.is_health,
            message: if head.is_health { SERVING.to_vec() } else { Vec::new() },
            send_window: self.rest.initial_window as i32,
            uncredited: 0,
            announced_bytes: head.content_length,
            is_received: false,
        });
        if is_end {
            // One event for both.
            return Ok(self.complete(stream, out));
        }
        Ok(Some(Incoming::Begun(stream)))
    }

    /// The request is here.
    fn complete(&mut self, stream: u32, out: &mut Vec<u8>) -> Option<Incoming> {
        let open = self.streams.iter_mut().find(|open| open.id == stream)?;
        if open.announced_bytes.is_some_and(|announced| announced != open.body_bytes) {
            return self.reset(stream, Code::PROTOCOL_ERROR, out);
        }
        open.is_received = true;
        Some(Incoming::Complete(stream))
    }

    fn write_rst(&mut self, stream: u32, code: Code, out: &mut Vec<u8>) {
        self.rest.last_reset = self.rest.last_reset.max(stream);
        frame::write_rst(out, stream, code);
    }

    fn reset(&mut self, stream: u32, code: Code, out: &mut Vec<u8>) -> Option<Incoming> {
        self.write_rst(stream, code, out);
        self.count_reset();
        let before = self.streams.len();
        self.streams.retain(|open| open.id != stream);
        (self.streams.len() < before).then_some(Incoming::Reset)
    }

    // ---- answers

    /// Appends the head of an answer: status, and further fields.
    pub fn write_head(
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        stream: u32,
        status: u16,
        fields: &[(&str, &str)],
        is_end: bool,
    ) {
        let mut digits = [b'0'; 3];
        for (digit, unit) in digits.iter_mut().zip([100, 10, 1]) {
            *digit += (status / unit % 10) as u8;
        }
        scratch.clear();
        hpack::write_field(scratch, ":status", std::str::from_utf8(&digits).unwrap_or("500"));
        Self::append_fields(scratch, fields);
        frame::write_block(out, stream, scratch, is_end);
    }

    /// Appends the fields behind a body, which end the stream.
    pub fn write_trailers(
        out: &mut Vec<u8>,
        scratch: &mut Vec<u8>,
        stream: u32,
        fields: &[(&str, &str)],
    ) {
        scratch.clear();
        Self::append_fields(scratch, fields);
        frame::write_block(out, stream, scratch, true);
    }

    fn append_fields(block: &mut Vec<u8>, fields: &[(&str, &str)]) {
        for (name, value) in fields {
            hpack::write_field(block, name, value);
        }
    }

    /// Returns the bytes that may be sent on the stream at `place` now.
    pub fn room(&self, place: usize) -> usize {
        let window = self.streams.get(place).map_or(0, |stream| stream.send_window);
        window.min(self.rest.send_window).max(0) as usize
    }

    /// Appends one DATA frame of the stream at `place`, at most as long as [`Self::room`] and
    /// [`FRAME_BYTES_MAX`] allow.
    pub fn write_data(&mut self, out: &mut Vec<u8>, place: usize, bytes: &[u8], is_end: bool) {
        let Some(stream) = self.streams.get_mut(place) else { return };
        let flags = if is_end { END_STREAM } else { 0 };
        frame::write_head(out, bytes.len(), Kind::Data, flags, stream.id);
        out.extend_from_slice(bytes);
        stream.send_window -= bytes.len() as i32;
        self.rest.send_window -= bytes.len() as i32;
    }

    /// Ends the stream whose answer at `place` is written. A request that is not complete is given up.
    pub fn finish(&mut self, place: usize, out: &mut Vec<u8>) {
        let stream = self.streams.swap_remove(place);
        if !stream.is_received {
            self.write_rst(stream.id, Code::NO_ERROR, out);
        }
    }

    /// Appends the announcement that nothing further will be answered.
    pub fn write_goaway(&self, out: &mut Vec<u8>) {
        self.rest.write_goaway(out);
    }

    /// Returns the memory of the messages of calls.
    pub fn kept_bytes(&self) -> usize {
        self.streams.iter().map(|stream| stream.message.capacity()).sum()
    }

    /// Appends that the client asks for too much, and forgets its streams.
    pub fn refuse_excess(&mut self, out: &mut Vec<u8>) {
        self.streams.clear();
        frame::write_goaway(out, self.rest.last_stream, Code::ENHANCE_YOUR_CALM);
    }
}

/// Fields of a request that are checked (RFC 9113, 8.2 and 8.3).
#[derive(Default)]
struct RequestHead {
    is_trailer: bool,
    is_malformed: bool,
    has_method: bool,
    has_scheme: bool,
    has_path: bool,
    has_authority: bool,
    has_regular: bool,
    is_head_method: bool,
    is_grpc: bool,
    is_health: bool,
    content_length: Option<u64>,
}

impl RequestHead {
    /// Notes a field; returns its name if it is an ordinary one.
    fn take<'a>(&mut self, name: &'a [u8], value: &[u8]) -> Option<&'a str> {
        let name = std::str::from_utf8(name).unwrap_or_default();
        if let Some(pseudo) = name.strip_prefix(':') {
            self.take_pseudo(pseudo, value);
            return None;
        }
        self.has_regular = true;
        let is_token = |byte: u8| byte > b' ' && byte < 0x7F && !byte.is_ascii_uppercase();
        let is_forbidden = matches!(
            name,
            "connection" | "keep-alive" | "proxy-connection" | "transfer-encoding" | "upgrade"
        ) || (name == "te" && value != b"trailers");
        if name.is_empty() || !name.bytes().all(is_token) || is_forbidden {
            self.is_malformed = true;
            return None;
        }
        match name {
            "content-length" if !self.is_trailer => {
                let length = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok());
                self.is_malformed |= length.is_none();
                self.content_length = length;
            }
            "content-type" => self.is_grpc = is_grpc_type(value),
            _ => {}
        }
        Some(name)
    }

    fn take_pseudo(&mut self, name: &str, value: &[u8]) {
        let seen = match name {
            "method" => {
                self.is_head_method = value == b"HEAD";
                &mut self.has_method
            }
            "scheme" => &mut self.has_scheme,
            "authority" => &mut self.has_authority,
            "path" => {
                self.is_malformed |= value.is_empty();
                self.is_health = value == HEALTH_PATH;
                &mut self.has_path
            }
            _ => {
                self.is_malformed = true;
                return;
            }
        };
        let is_second = std::mem::replace(seen, true);
        self.is_malformed |= is_second || self.has_regular || self.is_trailer;
    }

    const fn is_complete(&self) -> bool {
        !self.is_malformed && self.has_method && self.has_scheme && self.has_path
    }
}

#[cfg(test)]
mod tests;
