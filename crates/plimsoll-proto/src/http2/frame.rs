//! HTTP/2 frames: heads, the rules for each kind, and a reader and writers for byte streams.
//!
//! `FrameReader::read` returns whole frames, borrowed from the input if they are complete there; DATA is passed
//! through in pieces and never stored. `Head::check` validates length and stream of a frame before its payload
//! arrives. `OpenBlock` joins HEADERS and CONTINUATION within bounds, and `raise_window` and `move_windows` hold the
//! window arithmetic. Payloads are at most 16,384 bytes. Errors are a `Fault` with the code for GOAWAY. Start reading
//! at `FrameReader::read`.

/// First bytes of a client (RFC 9113, 3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Longest payload of a frame that either side may send here; larger ones would have to be allowed by a
/// setting, which we do not send.
pub const FRAME_BYTES_MAX: usize = 16_384;
/// Highest number of a stream, and the largest flow-control window.
pub(super) const MAX_31: u32 = (1 << 31) - 1;

pub(super) const HEAD_BYTES: usize = 9;

pub(super) const END_STREAM: u8 = 0x1;
pub(super) const ACK: u8 = 0x1;
pub(super) const END_HEADERS: u8 = 0x4;
pub(super) const PADDED: u8 = 0x8;
pub(super) const PRIORITY: u8 = 0x20;

pub(super) const SETTING_HEADER_TABLE_SIZE: u16 = 1;
pub(super) const SETTING_ENABLE_PUSH: u16 = 2;
pub(super) const SETTING_MAX_CONCURRENT_STREAMS: u16 = 3;
pub(super) const SETTING_INITIAL_WINDOW_SIZE: u16 = 4;
pub(super) const SETTING_MAX_FRAME_SIZE: u16 = 5;
pub(super) const SETTING_MAX_HEADER_LIST_SIZE: u16 = 6;

/// Why a stream or a connection ends (RFC 9113, 7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub u32);

impl Code {
    /// A graceful end.
    pub const NO_ERROR: Self = Self(0);
    /// The peer broke the protocol.
    pub const PROTOCOL_ERROR: Self = Self(1);
    /// Flow control was broken.
    pub const FLOW_CONTROL_ERROR: Self = Self(3);
    /// A frame came for a stream that has ended.
    pub const STREAM_CLOSED: Self = Self(5);
    /// A frame has a wrong length.
    pub const FRAME_SIZE_ERROR: Self = Self(6);
    /// The stream was not begun: it may be tried again.
    pub const REFUSED_STREAM: Self = Self(7);
    /// The stream is no longer wanted.
    pub const CANCEL: Self = Self(8);
    /// A header block cannot be decoded.
    pub const COMPRESSION_ERROR: Self = Self(9);
    /// The peer asks for too much.
    pub const ENHANCE_YOUR_CALM: Self = Self(11);

    /// Returns the name in the standard.
    pub const fn name(self) -> &'static str {
        match self.0 {
            0 => "NO_ERROR",
            1 => "PROTOCOL_ERROR",
            2 => "INTERNAL_ERROR",
            3 => "FLOW_CONTROL_ERROR",
            4 => "SETTINGS_TIMEOUT",
            5 => "STREAM_CLOSED",
            6 => "FRAME_SIZE_ERROR",
            7 => "REFUSED_STREAM",
            8 => "CANCEL",
            9 => "COMPRESSION_ERROR",
            10 => "CONNECT_ERROR",
            11 => "ENHANCE_YOUR_CALM",
            12 => "INADEQUATE_SECURITY",
            13 => "HTTP_1_1_REQUIRED",
            _ => "unknown code",
        }
    }
}

/// A connection cannot go on: the code to say so with, and what was wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) code: Code,
    pub(super) why: &'static str,
}

pub(super) const fn fault<T>(code: Code, why: &'static str) -> Result<T, Fault> {
    Err(Fault { code, why })
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    Data = 0,
    Headers = 1,
    Priority = 2,
    RstStream = 3,
    Settings = 4,
    PushPromise = 5,
    Ping = 6,
    GoAway = 7,
    WindowUpdate = 8,
    Continuation = 9,
    /// To be ignored (RFC 9113, 4.1).
    Unknown = 0xFF,
}

impl Kind {
    const fn of(number: u8) -> Self {
        match number {
            0 => Self::Data,
            1 => Self::Headers,
            2 => Self::Priority,
            3 => Self::RstStream,
            4 => Self::Settings,
            5 => Self::PushPromise,
            6 => Self::Ping,
            7 => Self::GoAway,
            8 => Self::WindowUpdate,
            9 => Self::Continuation,
            _ => Self::Unknown,
        }
    }
}

/// A frame's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) length: u32,
    pub(super) kind: Kind,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl Head {
    fn parse(bytes: &[u8; HEAD_BYTES]) -> Self {
        let [a, b, c, kind, flags, stream @ ..] = *bytes;
        Self {
            length: u32::from_be_bytes([0, a, b, c]),
            kind: Kind::of(kind),
            flags,
            stream: u32::from_be_bytes(stream) & MAX_31,
        }
    }

    pub(super) const fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// Checks a frame before its payload is here.
    fn check(&self) -> Result<(), Fault> {
        if self.length as usize > FRAME_BYTES_MAX {
            return fault(Code::FRAME_SIZE_ERROR, "a frame is longer than 16,384 bytes");
        }
        let of_stream = self.stream != 0;
        let wrong_length =
            fault(Code::FRAME_SIZE_ERROR, "a frame has a length that its kind forbids");
        match self.kind {
            Kind::RstStream if self.length != 4 => return wrong_length,
            Kind::WindowUpdate if self.length != 4 => return wrong_length,
            Kind::Settings if !self.length.is_multiple_of(6) => return wrong_length,
            Kind::Settings if self.has(ACK) && self.length != 0 => return wrong_length,
            Kind::Ping if self.length != 8 => return wrong_length,
            Kind::GoAway if self.length < 8 => return wrong_length,
            _ => {}
        }
        let is_placed = match self.kind {
            Kind::Data | Kind::Headers | Kind::Priority | Kind::RstStream | Kind::Continuation => {
                of_stream
            }
            Kind::Settings | Kind::Ping | Kind::GoAway => !of_stream,
            Kind::PushPromise | Kind::WindowUpdate | Kind::Unknown => true,
        };
        if is_placed {
            return Ok(());
        }
        fault(Code::PROTOCOL_ERROR, "a frame is on a stream that its kind forbids")
    }
}

/// Appends a frame's head; the caller appends the payload of `length` bytes.
pub(super) fn write_head(out: &mut Vec<u8>, length: usize, kind: Kind, flags: u8, stream: u32) {
    debug_assert!(length <= FRAME_BYTES_MAX);
    let [_, a, b, c] = (length as u32).to_be_bytes();
    let [d, e, f, g] = stream.to_be_bytes();
    out.extend_from_slice(&[a, b, c, kind as u8, flags, d, e, f, g]);
}

pub(super) fn write_rst(out: &mut Vec<u8>, stream: u32, code: Code) {
    write_head(out, 4, Kind::RstStream, 0, stream);
    out.extend_from_slice(&code.0.to_be_bytes());
}

pub(super) fn write_window_update(out: &mut Vec<u8>, stream: u32, bytes: u32) {
    write_head(out, 4, Kind::WindowUpdate, 0, stream);
    out.extend_from_slice(&bytes.to_be_bytes());
}

pub(super) fn write_ping(out: &mut Vec<u8>, flags: u8, payload: &[u8]) {
    write_head(out, 8, Kind::Ping, flags, 0);
    out.extend_from_slice(payload);
}

pub(super) fn write_goaway(out: &mut Vec<u8>, last_stream: u32, code: Code) {
    write_head(out, 8, Kind::GoAway, 0, 0);
    out.extend_from_slice(&last_stream.to_be_bytes());
    out.extend_from_slice(&code.0.to_be_bytes());
}

pub(super) fn write_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    write_head(out, settings.len() * 6, Kind::Settings, 0, 0);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

pub(super) fn write_settings_ack(out: &mut Vec<u8>) {
    write_head(out, 0, Kind::Settings, ACK, 0);
}

/// Appends a header block as HEADERS and, if it is long, CONTINUATION.
pub(super) fn write_block(out: &mut Vec<u8>, stream: u32, block: &[u8], is_end: bool) {
    let mut flags = if is_end { END_STREAM } else { 0 };
    let mut kind = Kind::Headers;
    let mut rest = block;
    loop {
        let (part, further) = rest.split_at(rest.len().min(FRAME_BYTES_MAX));
        if further.is_empty() {
            flags |= END_HEADERS;
        }
        write_head(out, part.len(), kind, flags, stream);
        out.extend_from_slice(part);
        if further.is_empty() {
            return;
        }
        (rest, kind, flags) = (further, Kind::Continuation, 0);
    }
}

/// Returns the name and value of each setting in a payload.
pub(super) fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    payload.as_chunks::<6>().0.iter().map(|[a, b, c, d, e, f]| {
        (u16::from_be_bytes([*a, *b]), u32::from_be_bytes([*c, *d, *e, *f]))
    })
}

/// Returns the 32 bits at the start of a payload.
pub(super) fn first_u32(payload: &[u8]) -> u32 {
    payload.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

/// Fault of a window that would be larger than [`MAX_31`].
const TOO_LARGE: Fault = Fault { code: Code::FLOW_CONTROL_ERROR, why: "a window is too large" };

/// Moves the windows of all streams as a new initial window does; both sides of RFC 9113, 6.9.2.
pub(super) fn move_windows<'a>(
    windows: impl Iterator<Item = &'a mut i32>,
    initial: &mut u32,
    setting: u32,
) -> Result<(), Fault> {
    if setting > MAX_31 {
        return Err(TOO_LARGE);
    }
    for window in windows {
        *window = moved_window(*window, *initial, setting).ok_or(TOO_LARGE)?;
    }
    *initial = setting;
    Ok(())
}

fn moved_window(window: i32, before: u32, setting: u32) -> Option<i32> {
    i32::try_from(i64::from(window) - i64::from(before) + i64::from(setting)).ok()
}

/// Raises a window, of a stream or of the connection.
pub(super) fn raise_window(window: &mut i32, by: u32) -> Result<(), Fault> {
    if by == 0 {
        return fault(Code::PROTOCOL_ERROR, "a window is raised by nothing");
    }
    *window = window.checked_add_unsigned(by).ok_or(TOO_LARGE)?;
    Ok(())
}

/// Returns the header block in a HEADERS frame, without padding and priority.
pub(super) fn block_of(head: Head, payload: &[u8]) -> Result<&[u8], Fault> {
    let mut rest = payload;
    let mut padding = 0;
    if head.has(PADDED) {
        let Some((first, further)) = rest.split_first() else { return short() };
        (padding, rest) = (usize::from(*first), further);
    }
    if head.has(PRIORITY) {
        let Some((priority, further)) = rest.split_at_checked(5) else { return short() };
        if first_u32(priority) & MAX_31 == head.stream {
            return fault(Code::PROTOCOL_ERROR, "a stream depends on itself");
        }
        rest = further;
    }
    match rest.len().checked_sub(padding) {
        Some(length) => Ok(&rest[..length]),
        None => fault(Code::PROTOCOL_ERROR, "a frame's padding is longer than the frame"),
    }
}

const fn short<T>() -> Result<T, Fault> {
    fault(Code::FRAME_SIZE_ERROR, "a frame is shorter than its flags say")
}

/// An item read from the peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item<'a> {
    /// A whole frame, other than DATA.
    Frame(Head, &'a [u8]),
    /// Some or all of a DATA frame: `bytes` of a body. `flow` is what the frame takes from the windows, once
    /// for each frame.
    Data { stream: u32, bytes: &'a [u8], flow: u32, is_end: bool },
}

/// The rest of a DATA frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct DataRest {
    stream: u32,
    body_left: u32,
    padding_left: u32,
    ends_stream: bool,
}

/// Reads frames from bytes as they come. It keeps a frame only while its end has not come, and never the
/// payload of DATA.
#[derive(Debug, Default)]
pub(super) struct FrameReader {
    /// The beginning of a frame; at most `HEAD_BYTES + FRAME_BYTES_MAX`.
    partial: Vec<u8>,
    /// `partial` was given out as a whole frame.
    is_used: bool,
    data: Option<DataRest>,
}

impl FrameReader {
    /// Reports whether it is between frames.
    pub(super) fn is_idle(&self) -> bool {
        (self.partial.is_empty() || self.is_used) && self.data.is_none()
    }

    /// Forgets everything, and gives back what a large frame needed.
    pub(super) fn clear(&mut self) {
        self.partial.clear();
        if self.partial.capacity() > 1024 {
            self.partial = Vec::new();
        }
        (self.is_used, self.data) = (false, None);
    }

    /// Reads up to the end of a frame, or what there is of DATA; returns how many bytes that were. Without
    /// an item all of `input` was consumed.
    pub(super) fn read<'a>(
        &'a mut self,
        input: &'a [u8],
    ) -> Result<(usize, Option<Item<'a>>), Fault> {
        if self.is_used {
            self.partial.clear();
            self.is_used = false;
        }
        if input.is_empty() {
            return Ok((0, None));
        }
        if let Some(data) = self.data {
            let (consumed, item) = self.read_data(data, input, 0);
            return Ok((consumed, Some(item)));
        }
        if self.partial.is_empty()
            && let Some(bytes) = input.first_chunk::<HEAD_BYTES>()
        {
            let head = Head::parse(bytes);
            head.check()?;
            if head.kind != Kind::Data {
                let end = HEAD_BYTES + head.length as usize;
                if let Some(payload) = input.get(HEAD_BYTES..end) {
                    return Ok((end, Some(Item::Frame(head, payload))));
                }
            }
        }
        self.read_partial(input)
    }

    /// Adds to a frame that has begun, or begins one.
    fn read_partial<'a>(&'a mut self, input: &'a [u8]) -> Result<(usize, Option<Item<'a>>), Fault> {
        let mut consumed = self.fill(input, HEAD_BYTES);
        let Some(bytes) = self.partial.first_chunk::<HEAD_BYTES>() else {
            return Ok((consumed, None));
        };
        let head = Head::parse(bytes);
        head.check()?;
        if head.kind == Kind::Data {
            let mut padding = None;
            if head.has(PADDED) {
                if head.length == 0 {
                    return short();
                }
                consumed += self.fill(&input[consumed..], HEAD_BYTES + 1);
                let Some(byte) = self.partial.get(HEAD_BYTES) else { return Ok((consumed, None)) };
                padding = Some(u32::from(*byte));
            }
            let body = head.length - u32::from(padding.is_some());
            let Some(body_left) = body.checked_sub(padding.unwrap_or(0)) else {
                return fault(Code::PROTOCOL_ERROR, "a frame's padding is longer than the frame");
            };
            self.partial.clear();
            let rest = DataRest {
                stream: head.stream,
                body_left,
                padding_left: padding.unwrap_or(0),
                ends_stream: head.has(END_STREAM),
            };
            let (read, item) = self.read_data(rest, &input[consumed..], head.length);
            return Ok((consumed + read, Some(item)));
        }
        let end = HEAD_BYTES + head.length as usize;
        consumed += self.fill(&input[consumed..], end);
        if self.partial.len() < end {
            return Ok((consumed, None));
        }
        self.is_used = true;
        Ok((consumed, Some(Item::Frame(head, &self.partial[HEAD_BYTES..]))))
    }

    /// Copies from `input` until `partial` has `bytes`; returns how many were copied.
    fn fill(&mut self, input: &[u8], bytes: usize) -> usize {
        let count = bytes.saturating_sub(self.partial.len()).min(input.len());
        self.partial.extend_from_slice(&input[..count]);
        count
    }

    fn read_data<'a>(
        &mut self,
        mut rest: DataRest,
        input: &'a [u8],
        flow: u32,
    ) -> (usize, Item<'a>) {
        let body = (rest.body_left as usize).min(input.len());
        let padding = (rest.padding_left as usize).min(input.len() - body);
        rest.body_left -= body as u32;
        rest.padding_left -= padding as u32;
        let is_whole = rest.body_left == 0 && rest.padding_left == 0;
        self.data = (!is_whole).then_some(rest);
        let is_end = is_whole && rest.ends_stream;
        let item = Item::Data { stream: rest.stream, bytes: &input[..body], flow, is_end };
        (body + padding, item)
    }
}

/// A header block whose frames have not all come.
#[derive(Debug)]
pub(super) struct OpenBlock {
    pub(super) stream: u32,
    pub(super) ends_stream: bool,
    pub(super) bytes: Vec<u8>,
    continuations: u8,
}

impl OpenBlock {
    pub(super) fn begin(head: Head, part: &[u8]) -> Self {
        let ends_stream = head.has(END_STREAM);
        Self { stream: head.stream, ends_stream, bytes: part.to_vec(), continuations: 0 }
    }

    /// Adds what a CONTINUATION brings; true when the block is complete.
    pub(super) fn add(&mut self, head: Head, part: &[u8]) -> Result<bool, Fault> {
        if head.kind != Kind::Continuation || head.stream != self.stream {
            return fault(Code::PROTOCOL_ERROR, "a header block is interrupted by another frame");
        }
        self.continuations += 1;
        if self.continuations > super::CONTINUATIONS_MAX
            || self.bytes.len() + part.len() > super::BLOCK_BYTES_MAX
        {
            return fault(Code::ENHANCE_YOUR_CALM, "a header block is too long");
        }
        self.bytes.extend_from_slice(part);
        Ok(head.has(END_HEADERS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(pieces: &[&[u8]]) -> Result<Vec<String>, Fault> {
        let mut reader = FrameReader::default();
        let mut all = Vec::new();
        for piece in pieces {
            let mut rest = *piece;
            while !rest.is_empty() {
                let (consumed, item) = reader.read(rest)?;
                rest = &rest[consumed..];
                all.extend(item.map(|item| format!("{item:?}")));
            }
        }
        assert!(reader.is_idle());
        Ok(all)
    }

    #[test]
    fn a_frame_in_pieces_is_the_same_frame() {
        let mut bytes = Vec::new();
        write_ping(&mut bytes, ACK, b"12345678");
        write_settings(&mut bytes, &[(SETTING_ENABLE_PUSH, 0)]);
        let whole = items(&[&bytes]).expect("valid");
        assert_eq!(whole.len(), 2);
        for at in 1..bytes.len() {
            assert_eq!(items(&[&bytes[..at], &bytes[at..]]).expect("valid"), whole, "at {at}");
        }
    }

    #[test]
    fn padding_of_data_is_no_body() {
        let mut bytes = Vec::new();
        write_head(&mut bytes, 6, Kind::Data, PADDED | END_STREAM, 3);
        bytes.extend_from_slice(b"\x02abc\0\0");
        let item = Item::Data { stream: 3, bytes: b"abc", flow: 6, is_end: true };
        assert_eq!(items(&[&bytes]), Ok(vec![format!("{item:?}")]));
        let mut reader = FrameReader::default();
        let (mut body, mut flow, mut ends) = (0, 0, 0);
        for byte in &bytes {
            if let Ok((1, Some(Item::Data { bytes, flow: taken, is_end, .. }))) =
                reader.read(std::slice::from_ref(byte))
            {
                body += bytes.len();
                flow += taken;
                ends += u32::from(is_end);
            }
        }
        assert_eq!((body, flow, ends), (3, 6, 1));
    }

    #[test]
    fn frames_that_break_the_rules() {
        let frame = |length: usize, kind: u8, flags: u8, stream: u32| {
            let mut bytes = vec![0, (length >> 8) as u8, length as u8, kind, flags];
            bytes.extend_from_slice(&stream.to_be_bytes());
            bytes.resize(HEAD_BYTES + length, 9);
            bytes
        };
        for (bytes, code) in [
            (frame(16_385, 0, 0, 1), Code::FRAME_SIZE_ERROR),
            (frame(7, 6, 0, 0), Code::FRAME_SIZE_ERROR),
            (frame(5, 4, 0, 0), Code::FRAME_SIZE_ERROR),
            (frame(6, 4, ACK, 0), Code::FRAME_SIZE_ERROR),
            (frame(3, 3, 0, 1), Code::FRAME_SIZE_ERROR),
            (frame(0, 4, 0, 1), Code::PROTOCOL_ERROR),
            (frame(1, 0, 0, 0), Code::PROTOCOL_ERROR),
            (frame(3, 0, PADDED, 1), Code::PROTOCOL_ERROR),
            (frame(0, 0, PADDED, 1), Code::FRAME_SIZE_ERROR),
        ] {
            assert_eq!(
                items(&[&bytes]).map_err(|fault| fault.code),
                Err(code),
                "{:?}",
                &bytes[..9]
            );
        }
        // One of an unknown kind is ignored.
        assert_eq!(items(&[&frame(3, 77, 0xFF, 9)]).map(|items| items.len()), Ok(1));
    }

    #[test]
    fn windows_do_not_overflow() {
        let raised = |mut window, by| raise_window(&mut window, by).map(|()| window);
        assert_eq!(raised(-5, 5), Ok(0));
        assert_eq!(raised(1, MAX_31), Err(TOO_LARGE));
        assert_eq!(moved_window(10, 100, 50), Some(-40));
        assert_eq!(moved_window(i32::MAX, 0, 1), None);
    }
}
