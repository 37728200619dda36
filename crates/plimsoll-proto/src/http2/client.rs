//! The client half: many requests on one connection, each on its own stream.
//!
//! It begins no stream before the server's SETTINGS have arrived, so the number of streams is never guessed. Output
//! gathers in [`Client::take_output`], so that all effects of one event leave together.

mod outcome;

pub use outcome::{Http2Error, StreamFault};

use super::answer::{GRPC_INTERNAL, GRPC_UNKNOWN, Malformation, read_head};
use super::frame::{
    self, ACK, Code, END_HEADERS, END_STREAM, FRAME_BYTES_MAX, Fault, FrameReader, Head, Item,
    Kind, MAX_31, OpenBlock, SETTING_ENABLE_PUSH, SETTING_HEADER_TABLE_SIZE,
    SETTING_INITIAL_WINDOW_SIZE, SETTING_MAX_CONCURRENT_STREAMS, SETTING_MAX_FRAME_SIZE,
    SETTING_MAX_HEADER_LIST_SIZE, fault,
};
use super::{BLOCK_BYTES_MAX, PREFACE};
use crate::conversation::{Answer, Progress, StreamProgress};
use crate::{BODY_BYTES_AHEAD, READS_NO_ANSWERS, REPLIES_BYTES_MAX};

/// Window of the server on each stream and on the connection: a load is never to
/// wait for us.
const WINDOW: u32 = (1 << 30) - 1;
/// Received bytes are given back to the server when this number has gathered.
const CREDIT_BYTES: u32 = 1 << 29;
/// Bytes of a failing answer that are stored, for one stream of a connection at a time.
const SAID_BYTES_MAX: usize = 1024;
/// A window before SETTINGS and WINDOW_UPDATE (RFC 9113, 6.9.2).
const WINDOW_DEFAULT: u32 = 65_535;
/// Most 1xx answers before the final one.
const INTERIM_MAX: u8 = 32;
/// The header table of either side before SETTINGS (RFC 9113, 6.5.2).
const HEADER_TABLE_DEFAULT: u32 = 4_096;
/// Bytes at the start of a header block that set the table's size to 0 from now on (RFC 7541, 6.3).
const NO_HEADER_TABLE: &[u8] = &[0x20];
/// Payload of our pings.
const PING: &[u8; 8] = b"plimsoll";

/// Appends what a client opens a connection with.
pub fn write_opening(out: &mut Vec<u8>) {
    out.extend_from_slice(PREFACE);
    let settings = [
        (SETTING_HEADER_TABLE_SIZE, 0),
        (SETTING_ENABLE_PUSH, 0),
        (SETTING_INITIAL_WINDOW_SIZE, WINDOW),
        (SETTING_MAX_HEADER_LIST_SIZE, BLOCK_BYTES_MAX as u32),
    ];
    frame::write_settings(out, &settings);
    frame::write_window_update(out, 0, WINDOW - WINDOW_DEFAULT);
}

/// Appends what a client says before it closes.
pub fn write_farewell(out: &mut Vec<u8>) {
    frame::write_goaway(out, 0, Code::NO_ERROR);
}

/// All that a connection is while nothing moves on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rest {
    /// Number of the next stream; odd.
    next_stream: u32,
    /// Bytes that we may send on the connection.
    send_window: i32,
    /// Received and not given back; below [`CREDIT_BYTES`].
    uncredited: u32,
    /// Bytes that we may send on a stream that begins.
    initial_window: u32,
    /// Streams that the server allows.
    streams_max: u32,
    is_greeted: bool,
    /// No stream may begin any more.
    is_draining: bool,
    table: HeaderTable,
}

/// The header table that the server decodes our blocks with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum HeaderTable {
    /// The size without a setting.
    #[default]
    Default,
    /// The server has made it smaller, which the next block must confirm (RFC 7541, 4.2).
    Lowered,
    /// The body is empty.
    None,
}

const _: () = assert!(size_of::<Rest>() == 24);

impl Default for Rest {
    fn default() -> Self {
        Self {
            next_stream: 1,
            send_window: WINDOW_DEFAULT as i32,
            uncredited: 0,
            initial_window: WINDOW_DEFAULT,
            // Without a limit of the server's (RFC 9113, 6.5.2).
            streams_max: MAX_31,
            is_greeted: false,
            is_draining: false,
            table: HeaderTable::Default,
        }
    }
}

/// The request of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    /// The header block.
    pub block: &'a [u8],
    /// The body, in two parts; an empty one is not sent.
    pub body: [&'a [u8]; 2],
    /// Number of the body, for [`Client::send_bodies`].
    pub body_number: u32,
    /// `true` if it is a call of gRPC.
    pub is_grpc: bool,
    /// `true` if its method is HEAD, whose answers have no body.
    pub is_head: bool,
}

/// A stream that is not over.
#[derive(Clone, Copy, Debug)]
struct Flight {
    stream: u32,
    key: u32,
    send_window: i32,
    body_number: u32,
    /// Body bytes that are written, and in all.
    sent: u32,
    body: u32,
    /// Received and not given back.
    uncredited: u32,
    received: u64,
    /// Bytes that the body must have; [`ANY_LENGTH`] if it may have any number.
    length: u64,
    /// Length of the message of a gRPC answer: its first five bytes, once they are here.
    message_bytes: u32,
    status: u16,
    flags: u8,
    prefix_bytes: u8,
    interim: u8,
    grpc_status: u8,
}

const _: () = assert!(size_of::<Flight>() == 56);

const IS_GRPC: u8 = 1;
/// The final head of the answer is here.
const HAS_HEAD: u8 = 1 << 1;
const IS_HEAD: u8 = 1 << 2;
/// Set if its message is compressed.
const IS_COMPRESSED: u8 = 1 << 3;

const ANY_LENGTH: u64 = u64::MAX;

/// No `grpc-status`.
const NO_STATUS: u8 = u8::MAX;

/// One connection while something moves on it.
#[derive(Debug, Default)]
pub struct Client {
    rest: Rest,
    flights: Vec<Flight>,
    reader: FrameReader,
    block: Option<OpenBlock>,
    out: Vec<u8>,
    /// Bodies that wait for a window or for room in `out`.
    blocked: u32,
    is_pong_awaited: bool,
    /// The highest stream that the server will answer, once it has said so.
    last_stream: Option<u32>,
    ended_by: Option<Code>,
    /// Size of the header fields that the server accepts, once it has said so.
    header_bytes_max: Option<u32>,
    /// For decoding texts; empty between calls, or not.
    scratch: Vec<u8>,
    /// The beginning of a failing answer's body, or a `grpc-message` as it came.
    said: Vec<u8>,
    /// The key of its stream.
    said_by: Option<u32>,
}

impl Client {
    /// Resumes the stored state of a connection.
    pub fn resume(&mut self, rest: Rest) {
        self.rest = rest;
    }

    /// Returns the state in which the connection is left.
    pub const fn rest(&self) -> Rest {
        self.rest
    }

    /// Makes it one for another connection.
    pub fn clear(&mut self) {
        self.rest = Rest::default();
        self.flights.clear();
        self.reader.clear();
        self.block = None;
        self.out.clear();
        if self.out.capacity() > BODY_BYTES_AHEAD {
            self.out = Vec::new();
        }
        self.blocked = 0;
        self.is_pong_awaited = false;
        self.last_stream = None;
        self.ended_by = None;
        self.header_bytes_max = None;
        self.said_by = None;
    }

    /// Returns the server's explanation for the failure of the stream of `key`, which has just ended: the first bytes
    /// of its body, or the `grpc-message` of a gRPC call. Empty if there is none, or if another stream was failing
    /// meanwhile.
    pub fn said(&self, key: u32) -> &[u8] {
        if self.said_by == Some(key) { &self.said } else { &[] }
    }

    fn store_said(&mut self, key: u32, bytes: &[u8]) {
        if self.said_by != Some(key) {
            let is_open = |other: u32| self.flights.iter().any(|flight| flight.key == other);
            if self.said_by.is_some_and(is_open) {
                return;
            }
            self.said.clear();
            self.said_by = Some(key);
        }
        let room = SAID_BYTES_MAX.saturating_sub(self.said.len());
        self.said.extend_from_slice(bytes.get(..room).unwrap_or(bytes));
    }

    /// Reports whether [`Self::rest`] is all that there is.
    pub fn is_idle(&self) -> bool {
        self.rest.is_greeted
            && self.flights.is_empty()
            && self.reader.is_idle()
            && self.block.is_none()
            && self.out.is_empty()
            && !self.is_pong_awaited
    }

    // ---- sending

    /// Reports whether another stream may begin where we want at most `wanted`.
    pub fn has_room(&self, wanted: u32) -> bool {
        let most = wanted.min(self.rest.streams_max);
        self.rest.is_greeted && !self.rest.is_draining && self.flights.len() < most as usize
    }

    /// Returns the most streams at once that the server allows.
    pub const fn allowed(&self) -> u32 {
        self.rest.streams_max
    }

    /// Returns the size of a request's header fields, as RFC 9113, 6.5.2 counts it, that the server accepts, if it
    /// states one.
    pub const fn header_bytes_max(&self) -> Option<u32> {
        self.header_bytes_max
    }

    /// Reports whether the body of the stream of `key` waits for the server's flow-control windows.
    pub fn awaits_window(&self, key: u32) -> bool {
        let flight = self.flights.iter().find(|flight| flight.key == key);
        flight.is_some_and(|flight| {
            !flight.is_sent() && (flight.send_window <= 0 || self.rest.send_window <= 0)
        })
    }

    /// Streams that are not over.
    pub const fn open_streams(&self) -> usize {
        self.flights.len()
    }

    /// Reports whether no stream may begin any more.
    pub const fn is_draining(&self) -> bool {
        self.rest.is_draining
    }

    /// Lets no further stream begin.
    pub const fn drain(&mut self) {
        self.rest.is_draining = true;
    }

    /// Begins a stream, which events name by `key`. Call it only where [`Self::has_room`].
    pub fn begin(&mut self, key: u32, request: &Request<'_>) {
        debug_assert!(self.has_room(u32::MAX), "a stream begins that the server does not allow");
        let stream = self.rest.next_stream;
        self.rest.next_stream += 2;
        if self.said_by == Some(key) {
            self.said_by = None;
        }
        if self.rest.next_stream > MAX_31 {
            self.rest.is_draining = true;
        }
        let body_bytes = request.body[0].len() + request.body[1].len();
        let is_end = body_bytes == 0;
        if self.rest.table == HeaderTable::Lowered {
            self.rest.table = HeaderTable::None;
            let block = [NO_HEADER_TABLE, request.block].concat();
            frame::write_block(&mut self.out, stream, &block, is_end);
        } else {
            frame::write_block(&mut self.out, stream, request.block, is_end);
        }
        let mut flight = Flight {
            stream,
            key,
            send_window: self.rest.initial_window as i32,
            body_number: request.body_number,
            sent: 0,
            body: body_bytes as u32,
            uncredited: 0,
            received: 0,
            length: ANY_LENGTH,
            message_bytes: 0,
            status: 0,
            flags: if request.is_grpc { IS_GRPC } else { 0 }
                | if request.is_head { IS_HEAD } else { 0 },
            prefix_bytes: 0,
            interim: 0,
            grpc_status: NO_STATUS,
        };
        if body_bytes > 0 {
            send_body(&mut self.out, &mut self.rest.send_window, &mut flight, request.body);
            self.blocked += u32::from(!flight.is_sent());
        }
        self.flights.push(flight);
    }

    /// Reports whether bodies may go on that waited for room: call [`Self::send_bodies`].
    pub const fn has_bodies(&self) -> bool {
        self.blocked > 0
    }

    /// Continues to send the waiting bodies; `body_of` returns the body of a number.
    pub fn send_bodies<'a>(&mut self, body_of: impl Fn(u32) -> [&'a [u8]; 2]) {
        for flight in self.flights.iter_mut().filter(|flight| !flight.is_sent()) {
            if self.out.len() >= BODY_BYTES_AHEAD || self.rest.send_window <= 0 {
                return;
            }
            send_body(
                &mut self.out,
                &mut self.rest.send_window,
                flight,
                body_of(flight.body_number),
            );
            self.blocked -= u32::from(flight.is_sent());
        }
    }

    /// Gives up the stream of `key`.
    pub fn reset(&mut self, key: u32) {
        if let Some(place) = self.flights.iter().position(|flight| flight.key == key) {
            frame::write_rst(&mut self.out, self.flights[place].stream, Code::CANCEL);
            self.end(place);
        }
    }

    /// Asks the server for a sign of life.
    pub fn ping(&mut self) {
        frame::write_ping(&mut self.out, 0, PING);
        self.is_pong_awaited = true;
    }

    /// Reports whether there is something to send.
    pub fn has_output(&self) -> bool {
        !self.out.is_empty()
    }

    /// Takes what is to be sent; `buffer`, which is empty, takes its place.
    pub fn take_output(&mut self, buffer: &mut Vec<u8>) {
        std::mem::swap(&mut self.out, buffer);
    }

    // ---- receiving

    /// Returns a stream that the server will not answer, once it drains.
    pub fn take_untouched(&mut self) -> Option<u32> {
        let last = self.last_stream?;
        let place = self.flights.iter().position(|flight| flight.stream > last)?;
        Some(self.end(place).key)
    }

    /// Returns the error by which the server ended the connection, once it drains.
    pub fn ended_by(&self) -> Option<Http2Error> {
        self.ended_by.map(Http2Error::GoAway)
    }

    /// Removes a stream that has not ended, because the connection is lost. Returns its key and whether its answer had
    /// begun.
    pub fn take_lost(&mut self) -> Option<(u32, bool)> {
        let flight = self.end(self.flights.len().checked_sub(1)?);
        Some((flight.key, flight.has(HAS_HEAD) || flight.interim > 0))
    }

    /// Handles bytes from the server until an operation begins or ends. Returns the number of consumed bytes and the
    /// result. An error is reported to the server in the output.
    pub fn handle_bytes(&mut self, input: &[u8]) -> Result<(usize, Progress), Http2Error> {
        if !self.rest.is_greeted && self.reader.is_idle() && input.starts_with(b"HTTP/1") {
            return Err(Http2Error::Http1);
        }
        let mut reader = std::mem::take(&mut self.reader);
        let handled = self.handle_frames(&mut reader, input);
        self.reader = reader;
        handled.map_err(|fault| {
            frame::write_goaway(&mut self.out, 0, fault.code);
            fault.into()
        })
    }

    fn handle_frames(
        &mut self,
        reader: &mut FrameReader,
        input: &[u8],
    ) -> Result<(usize, Progress), Fault> {
        let mut consumed = 0;
        loop {
            let (read, item) = reader.read(&input[consumed..])?;
            consumed += read;
            let progress = match item {
                None => return Ok((consumed, Progress::NeedMore)),
                Some(Item::Frame(head, payload)) => self.handle_frame(head, payload)?,
                Some(Item::Data { stream, bytes, flow, is_end }) => {
                    self.handle_data(stream, bytes, flow, is_end)?
                }
            };
            if self.out.len() > REPLIES_BYTES_MAX + BODY_BYTES_AHEAD + BLOCK_BYTES_MAX {
                return fault(Code::ENHANCE_YOUR_CALM, READS_NO_ANSWERS);
            }
            if progress != Progress::NeedMore {
                return Ok((consumed, progress));
            }
        }
    }

    fn handle_frame(&mut self, head: Head, payload: &[u8]) -> Result<Progress, Fault> {
        if !self.rest.is_greeted && (head.kind != Kind::Settings || head.has(ACK)) {
            return fault(Code::PROTOCOL_ERROR, "the server begins without SETTINGS");
        }
        if let Some(mut block) = self.block.take() {
            if !block.add(head, payload)? {
                self.block = Some(block);
                return Ok(Progress::NeedMore);
            }
            return self.handle_block(block.stream, block.ends_stream, &block.bytes);
        }
        match head.kind {
            Kind::Headers => {
                let block = frame::block_of(head, payload)?;
                if head.has(END_HEADERS) {
                    return self.handle_block(head.stream, head.has(END_STREAM), block);
                }
                self.block = Some(OpenBlock::begin(head, block));
            }
            Kind::Settings => return self.handle_settings(head, payload),
            Kind::RstStream => {
                return self.handle_reset(head.stream, Code(frame::first_u32(payload)));
            }
            Kind::Ping if head.has(ACK) => {
                if std::mem::take(&mut self.is_pong_awaited) {
                    let keep_alive = !self.rest.is_draining;
                    return Ok(Progress::Complete(Answer { keep_alive, ..Answer::plain(0, None) }));
                }
            }
            Kind::Ping => frame::write_ping(&mut self.out, ACK, payload),
            Kind::GoAway => return Ok(self.handle_goaway(payload)),
            Kind::WindowUpdate => {
                return self.handle_window_update(head.stream, frame::first_u32(payload) & MAX_31);
            }
            Kind::PushPromise => {
                return fault(Code::PROTOCOL_ERROR, "the server pushes, which we do not allow");
            }
            Kind::Continuation => {
                return fault(Code::PROTOCOL_ERROR, "a CONTINUATION continues nothing");
            }
            Kind::Data | Kind::Priority | Kind::Unknown => {}
        }
        Ok(Progress::NeedMore)
    }

    fn handle_settings(&mut self, head: Head, payload: &[u8]) -> Result<Progress, Fault> {
        if head.has(ACK) {
            return Ok(Progress::NeedMore);
        }
        let streams_max = self.rest.streams_max;
        for (name, value) in frame::settings(payload) {
            match name {
                SETTING_MAX_CONCURRENT_STREAMS => self.rest.streams_max = value,
                SETTING_HEADER_TABLE_SIZE
                    if value < HEADER_TABLE_DEFAULT && self.rest.table == HeaderTable::Default =>
                {
                    self.rest.table = HeaderTable::Lowered;
                }
                SETTING_MAX_HEADER_LIST_SIZE => self.header_bytes_max = Some(value),
                SETTING_INITIAL_WINDOW_SIZE => {
                    let windows = self.flights.iter_mut().map(|stream| &mut stream.send_window);
                    frame::move_windows(windows, &mut self.rest.initial_window, value)?;
                }
                SETTING_ENABLE_PUSH if value != 0 => {
                    return fault(Code::PROTOCOL_ERROR, "a server may not allow itself to push");
                }
                SETTING_MAX_FRAME_SIZE if !(FRAME_BYTES_MAX as u32..1 << 24).contains(&value) => {
                    return fault(Code::PROTOCOL_ERROR, "a setting is out of its range");
                }
                _ => {}
            }
        }
        frame::write_settings_ack(&mut self.out);
        Ok(match std::mem::replace(&mut self.rest.is_greeted, true) {
            false => Progress::Greeted,
            true if streams_max != self.rest.streams_max => {
                Progress::Stream(StreamProgress::RoomChanged)
            }
            true => Progress::NeedMore,
        })
    }

    fn handle_reset(&mut self, stream: u32, code: Code) -> Result<Progress, Fault> {
        let Some(place) = self.place_of(stream)? else { return Ok(Progress::NeedMore) };
        let key = self.end(place).key;
        Ok(Progress::Stream(match code {
            Code::REFUSED_STREAM => StreamProgress::Untouched(key),
            code => StreamProgress::Failed(key, StreamFault::Reset(code)),
        }))
    }

    fn handle_goaway(&mut self, payload: &[u8]) -> Progress {
        self.rest.is_draining = true;
        self.last_stream = Some(frame::first_u32(payload) & MAX_31);
        let code = Code(frame::first_u32(payload.get(4..).unwrap_or_default()));
        self.ended_by = (code != Code::NO_ERROR).then_some(code);
        Progress::Stream(StreamProgress::Draining)
    }

    fn handle_window_update(&mut self, stream: u32, by: u32) -> Result<Progress, Fault> {
        if stream == 0 {
            frame::raise_window(&mut self.rest.send_window, by)?;
            return Ok(Progress::NeedMore);
        }
        let Some(place) = self.place_of(stream)? else { return Ok(Progress::NeedMore) };
        Ok(match frame::raise_window(&mut self.flights[place].send_window, by) {
            Ok(()) => Progress::NeedMore,
            Err(fault) => self.fail_stream(place, fault.code, Malformation::Window),
        })
    }

    fn handle_data(
        &mut self,
        stream: u32,
        bytes: &[u8],
        flow: u32,
        is_end: bool,
    ) -> Result<Progress, Fault> {
        if !self.rest.is_greeted {
            return fault(Code::PROTOCOL_ERROR, "the server begins without SETTINGS");
        }
        if self.block.is_some() {
            return fault(Code::PROTOCOL_ERROR, "a header block is interrupted by another frame");
        }
        self.rest.uncredited += flow;
        if self.rest.uncredited >= CREDIT_BYTES {
            frame::write_window_update(&mut self.out, 0, self.rest.uncredited);
            self.rest.uncredited = 0;
        }
        let Some(place) = self.place_of(stream)? else { return Ok(Progress::NeedMore) };
        let flight = &mut self.flights[place];
        if !flight.has(HAS_HEAD) {
            return Ok(self.malformed(place, Malformation::BodyFirst));
        }
        if flight.has(IS_GRPC) {
            flight.read_prefix(bytes);
        }
        flight.received += bytes.len() as u64;
        if flight.received > flight.length {
            return Ok(self.malformed(place, Malformation::BodyLength));
        }
        flight.uncredited += flow;
        if flight.uncredited >= CREDIT_BYTES {
            frame::write_window_update(&mut self.out, stream, flight.uncredited);
            flight.uncredited = 0;
        }
        if flight.status >= 400 {
            let key = flight.key;
            self.store_said(key, bytes);
        }
        Ok(if is_end { self.complete(place) } else { Progress::NeedMore })
    }

    fn handle_block(&mut self, stream: u32, is_end: bool, block: &[u8]) -> Result<Progress, Fault> {
        let mut message = Vec::new();
        let head = read_head(block, &mut self.scratch, &mut message)?;
        let Some(place) = self.place_of(stream)? else { return Ok(Progress::NeedMore) };
        if let Some(malformation) = head.malformed {
            return Ok(self.malformed(place, malformation));
        }
        if !message.is_empty() && self.flights[place].has(IS_GRPC) {
            self.said_by = None;
            self.store_said(self.flights[place].key, &message);
        }
        let flight = &mut self.flights[place];
        flight.grpc_status = head.grpc_status.unwrap_or(flight.grpc_status);
        if flight.has(HAS_HEAD) {
            return Ok(match (is_end, head.status) {
                (true, None) => self.complete(place),
                (false, None) => self.malformed(place, Malformation::Trailers),
                (_, Some(_)) => self.malformed(place, Malformation::PseudoField),
            });
        }
        match head.status {
            Some(100..200) if is_end => Ok(self.malformed(place, Malformation::EndsWithInterim)),
            // HTTP/2 switches to no other protocol (RFC 9113, 8.6).
            Some(101) => Ok(self.malformed(place, Malformation::Interim)),
            Some(100..200) if flight.interim < INTERIM_MAX => {
                flight.interim += 1;
                Ok(Progress::NeedMore)
            }
            Some(100..200) => Ok(self.malformed(place, Malformation::Interim)),
            Some(status) => {
                flight.status = status;
                flight.flags |= HAS_HEAD;
                flight.length = match (flight.has(IS_HEAD), status) {
                    (true, _) | (_, 204 | 304) => 0,
                    _ => head.content_length.unwrap_or(ANY_LENGTH),
                };
                let key = flight.key;
                Ok(if is_end {
                    self.complete(place)
                } else {
                    Progress::Stream(StreamProgress::Began(key))
                })
            }
            None => Ok(self.malformed(place, Malformation::Status)),
        }
    }

    /// The place of the stream's flight; `None` if it has ended.
    fn place_of(&self, stream: u32) -> Result<Option<usize>, Fault> {
        if stream.is_multiple_of(2) || stream >= self.rest.next_stream {
            return fault(Code::PROTOCOL_ERROR, "a frame is for a stream that we have not begun");
        }
        Ok(self.flights.iter().position(|flight| flight.stream == stream))
    }

    /// The answer is here.
    fn complete(&mut self, place: usize) -> Progress {
        let flight = self.flights[place];
        if !flight.is_sent() {
            // The server does not want the rest of the body.
            frame::write_rst(&mut self.out, flight.stream, Code::CANCEL);
        }
        self.end(place);
        let fault = match flight.length != ANY_LENGTH && flight.received != flight.length {
            true => Some(StreamFault::Malformed(Malformation::BodyLength)),
            false => flight.fault_of_message(),
        };
        Progress::Stream(match fault {
            Some(fault) => StreamProgress::Failed(flight.key, fault),
            None => {
                let grpc_status = flight.has(IS_GRPC).then(|| flight.judged());
                let answer = Answer::of_stream(flight.status, flight.received, grpc_status);
                StreamProgress::Ended(flight.key, answer)
            }
        })
    }

    fn malformed(&mut self, place: usize, malformation: Malformation) -> Progress {
        self.fail_stream(place, Code::PROTOCOL_ERROR, malformation)
    }

    fn fail_stream(&mut self, place: usize, code: Code, malformation: Malformation) -> Progress {
        frame::write_rst(&mut self.out, self.flights[place].stream, code);
        let fault = StreamFault::Malformed(malformation);
        Progress::Stream(StreamProgress::Failed(self.end(place).key, fault))
    }

    fn end(&mut self, place: usize) -> Flight {
        let flight = self.flights.swap_remove(place);
        self.blocked -= u32::from(!flight.is_sent());
        debug_assert!(self.blocked as usize <= self.flights.len(), "more wait than are open");
        flight
    }
}

impl Flight {
    const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    const fn is_sent(&self) -> bool {
        self.sent == self.body
    }

    /// Reads the five bytes before a message of gRPC.
    fn read_prefix(&mut self, bytes: &[u8]) {
        for byte in bytes.iter().take(5 - usize::from(self.prefix_bytes)) {
            match (self.prefix_bytes, byte) {
                (0, 0) => {}
                (0, _) => self.flags |= IS_COMPRESSED,
                _ => self.message_bytes = self.message_bytes << 8 | u32::from(*byte),
            }
            self.prefix_bytes += 1;
        }
    }

    /// The fault of an answer to a call that ended with status 0: it has one message.
    fn fault_of_message(&self) -> Option<StreamFault> {
        if !self.has(IS_GRPC) || self.judged() != 0 {
            return None;
        }
        let whole = 5 + u64::from(self.message_bytes);
        match self.received {
            _ if self.has(IS_COMPRESSED) => Some(StreamFault::Compressed),
            received if self.prefix_bytes < 5 || received < whole => Some(StreamFault::NoMessage),
            received if received > whole => Some(StreamFault::Messages),
            _ => None,
        }
    }

    /// The status of a call (gRPC over HTTP/2, "Responses"; its http-grpc-status-mapping).
    const fn judged(&self) -> u8 {
        match (self.grpc_status, self.status) {
            (NO_STATUS, 400) => GRPC_INTERNAL,
            (NO_STATUS, 401) => 16,
            (NO_STATUS, 403) => 7,
            (NO_STATUS, 404) => 12,
            (NO_STATUS, 429 | 502 | 503 | 504) => 14,
            (NO_STATUS, _) => GRPC_UNKNOWN,
            (status, _) => status,
        }
    }
}

/// Appends as much of the body as the windows allow and as may wait here.
fn send_body(out: &mut Vec<u8>, window: &mut i32, flight: &mut Flight, body: [&[u8]; 2]) {
    let [first, second] = body;
    while !flight.is_sent() && out.len() < BODY_BYTES_AHEAD {
        let sent = flight.sent as usize;
        let rest = match sent.checked_sub(first.len()) {
            Some(sent) => second.get(sent..).unwrap_or_default(),
            None => &first[sent..],
        };
        let room = (*window).min(flight.send_window).max(0) as usize;
        let count = rest.len().min(room).min(FRAME_BYTES_MAX);
        if count == 0 {
            return;
        }
        flight.sent += count as u32;
        let flags = if flight.is_sent() { END_STREAM } else { 0 };
        frame::write_head(out, count, Kind::Data, flags, flight.stream);
        out.extend_from_slice(&rest[..count]);
        flight.send_window -= count as i32;
        *window -= count as i32;
    }
}

#[cfg(test)]
mod tests;
