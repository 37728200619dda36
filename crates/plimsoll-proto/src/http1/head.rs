//! Heads for both halves: a bounded place for an incomplete one, and the tokens of
//! the few fields that decide where a message ends.

use std::mem::MaybeUninit;

use httparse::{Header, ParserConfig, Response, Status};

use super::RESPONSE_HEADERS_MAX;

/// Room for the headers of a response.
type Room<'a> = [MaybeUninit<Header<'a>>; RESPONSE_HEADERS_MAX];

/// Parses the head of a response from its first byte and passes the head and its length to `read`. Returns `None` while
/// the end of the head is missing.
///
/// Folded lines (RFC 9112, 5.2) are replaced first, and further white space before a colon or in the status line is
/// accepted. A head without either is parsed where it lies.
#[inline]
pub(crate) fn read_response<T>(
    bytes: &[u8],
    read: impl FnOnce(usize, &Response<'_, '_>) -> T,
) -> Result<Option<T>, httparse::Error> {
    let config = ParserConfig::default();
    // Left uninitialized: 4 KiB to clear would cost more than to parse a short head.
    let mut room: Room<'_> = [MaybeUninit::uninit(); RESPONSE_HEADERS_MAX];
    let mut response = Response::new(&mut []);
    match config.parse_response_with_uninit_headers(&mut response, bytes, &mut room) {
        Ok(Status::Complete(length)) => Ok(Some(read(length, &response))),
        Ok(Status::Partial) => Ok(None),
        Err(httparse::Error::HeaderName | httparse::Error::Status) => {
            read_odd_response(bytes, read)
        }
        Err(error) => Err(error),
    }
}

#[cold]
fn read_odd_response<T>(
    bytes: &[u8],
    read: impl FnOnce(usize, &Response<'_, '_>) -> T,
) -> Result<Option<T>, httparse::Error> {
    let mut unfolded = bytes.to_vec();
    unfold(&mut unfolded)?;
    let mut config = ParserConfig::default();
    config.allow_spaces_after_header_name_in_responses(true);
    config.allow_multiple_spaces_in_response_status_delimiters(true);
    let mut room: Room<'_> = [MaybeUninit::uninit(); RESPONSE_HEADERS_MAX];
    let mut response = Response::new(&mut []);
    match config.parse_response_with_uninit_headers(&mut response, &unfolded, &mut room)? {
        Status::Complete(length) => Ok(Some(read(length, &response))),
        Status::Partial => Ok(None),
    }
}

/// Replaces each line end before a folded line with spaces, up to the end of the head. A folded line counts as a
/// header line. Only values are folded: a line without a colon is judged when it comes, whatever follows.
fn unfold(head: &mut [u8]) -> Result<(), httparse::Error> {
    let (mut start, mut lines, mut is_named) = (0, 0, false);
    while let Some(length) = head.iter().skip(start).position(|byte| *byte == b'\n') {
        let end = start + length;
        let returns = usize::from(end > start && head[end - 1] == b'\r');
        if length == returns {
            return Ok(());
        }
        // The status line is not continued.
        is_named = lines > 0 && (is_named || head[start..end].contains(&b':'));
        let is_folded = matches!(head.get(end + 1), Some(b' ' | b'\t'));
        if is_named && is_folded {
            head[end - returns..=end].fill(b' ');
        }
        is_named &= is_folded;
        lines += 1;
        if lines > RESPONSE_HEADERS_MAX + 1 {
            return Err(httparse::Error::TooManyHeaders);
        }
        start = end + 1;
    }
    Ok(())
}

/// Skips empty lines before a message. Some peers send one behind a body that their Content-Length does not
/// cover (RFC 9112, 2.2 and 9.2).
#[inline]
pub(crate) fn skip_empty_lines(input: &[u8]) -> &[u8] {
    let empty = input.iter().take_while(|byte| matches!(byte, b'\r' | b'\n')).count();
    input.get(empty..).unwrap_or_default()
}

/// The bytes of a head whose end has not come yet; exists only until it comes.
#[derive(Debug)]
pub(crate) struct PartialHead {
    /// 0 < bytes.len() <= bytes.capacity() <= the limit given to [`feed`].
    bytes: Vec<u8>,
}

/// The result of feeding bytes of a head.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Fed<T> {
    /// The head ended after `consumed` bytes of the input.
    Complete { consumed: usize, head: T },
    /// All of the input was kept; more is needed.
    Partial,
    /// No end within the limit.
    TooLarge,
}

/// Feeds `input` to `parse`, together with what `slot` keeps of the head. `parse` sees the head
/// from its first byte, at most `limit` bytes of it, and returns its length once it is complete.
///
/// A head in one piece is neither copied nor allocated for. Bytes that hold no newline cannot end a
/// head and are kept unparsed, so a head sent byte by byte costs one parse per line, not per byte.
pub(crate) fn feed<T, E>(
    slot: &mut Option<Box<PartialHead>>,
    input: &[u8],
    limit: usize,
    parse: impl FnOnce(&[u8]) -> Result<Option<(usize, T)>, E>,
) -> Result<Fed<T>, E> {
    if input.is_empty() {
        return Ok(Fed::Partial);
    }
    let Some(partial) = slot.as_deref_mut() else {
        let window = input.get(..limit).unwrap_or(input);
        if let Some((consumed, head)) = parse(window)? {
            return Ok(Fed::Complete { consumed, head });
        }
        if window.len() >= limit {
            return Ok(Fed::TooLarge);
        }
        *slot = Some(Box::new(PartialHead { bytes: window.to_vec() }));
        return Ok(Fed::Partial);
    };
    let kept = partial.bytes.len();
    let fresh = input.get(..limit.saturating_sub(kept)).unwrap_or(input);
    partial.extend(fresh, limit);
    if fresh.contains(&b'\n')
        && let Some((length, head)) = parse(&partial.bytes)?
    {
        *slot = None;
        return Ok(Fed::Complete { consumed: length.saturating_sub(kept), head });
    }
    Ok(if partial.bytes.len() >= limit { Fed::TooLarge } else { Fed::Partial })
}

impl PartialHead {
    /// Doubles like a `Vec`, but never past `limit`.
    fn extend(&mut self, fresh: &[u8], limit: usize) {
        let needed = self.bytes.len() + fresh.len();
        if needed > self.bytes.capacity() {
            let capacity = needed.max(self.bytes.capacity() * 2).min(limit.max(needed));
            self.bytes.reserve_exact(capacity - self.bytes.len());
        }
        self.bytes.extend_from_slice(fresh);
    }
}

/// The fields that decide about framing and persistence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Connection,
    ContentLength,
    Expect,
    Host,
    KeepAlive,
    TransferEncoding,
    Other,
}

impl Field {
    /// Finds the field by the length of its name first: most names need no comparison at all.
    #[inline]
    pub(super) fn of(name: &str) -> Self {
        let name = name.as_bytes();
        let (same, field) = match name.len() {
            4 => (is(name, b"host"), Self::Host),
            6 => (is(name, b"expect"), Self::Expect),
            10 if is(name, b"keep-alive") => return Self::KeepAlive,
            10 => (is(name, b"connection"), Self::Connection),
            14 => (is(name, b"content-length"), Self::ContentLength),
            17 => (is(name, b"transfer-encoding"), Self::TransferEncoding),
            _ => return Self::Other,
        };
        if same { field } else { Self::Other }
    }
}

/// Reports whether `word` is `lower` in any case. `lower` has only small letters and `-`. With its length
/// known to the compiler this is a few wide instructions, on every header of every response; a
/// carriage return would pass for `-`, and none can be inside a parsed name or value.
#[inline]
pub(crate) fn is<const N: usize>(word: &[u8], lower: &[u8; N]) -> bool {
    <&[u8; N]>::try_from(word).is_ok_and(|word| {
        word.iter().zip(lower).fold(0, |diff, (w, l)| diff | ((w | 0x20) ^ l)) == 0
    })
}

/// Returns the elements of a comma-separated list, trimmed, without empty ones.
pub(crate) fn tokens(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|token| !token.is_empty())
}

/// Returns the seconds of `timeout=5, max=100`, a `Keep-Alive` field; 0 if it announces none.
pub(super) fn keep_alive_s(value: &[u8]) -> u16 {
    let timeout = tokens(value).find_map(|token| {
        let (name, seconds) = token.split_at_checked(8)?;
        name.eq_ignore_ascii_case(b"timeout=").then(|| decimal(seconds))?
    });
    timeout.map_or(0, |seconds| u16::try_from(seconds).unwrap_or(u16::MAX))
}

/// Parses a non-negative decimal number of digits only; `None` if it is anything else or exceeds u64.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |sum, byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        sum.checked_mul(10)?.checked_add(digit)
    })
}

/// The persistence that `Connection` fields request.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Persistence {
    close: bool,
    keep_alive: bool,
}

impl Persistence {
    #[inline]
    pub(super) fn add(&mut self, value: &[u8]) {
        // Nearly always the whole value is one token.
        match value.len() {
            10 if is(value, b"keep-alive") => self.keep_alive = true,
            5 if is(value, b"close") => self.close = true,
            _ => tokens(value).for_each(|token| {
                self.close |= is(token, b"close");
                self.keep_alive |= is(token, b"keep-alive");
            }),
        }
    }

    /// Reports whether the connection outlives the message (RFC 9112, 9.3).
    pub(super) const fn keeps_alive(self, http11: bool) -> bool {
        !self.close && (http11 || self.keep_alive)
    }
}

/// The value of all `Transfer-Encoding` fields, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    Absent,
    /// `chunked` alone.
    Chunked,
    /// `chunked` after other codings.
    OtherThenChunked,
    /// Only codings other than `chunked`.
    Other,
    /// `chunked`, and other codings after it.
    ChunkedNotLast,
    /// `chunked` twice, or an empty field.
    Broken,
}

impl Coding {
    pub(super) fn add(&mut self, value: &[u8]) {
        let before = *self;
        for token in tokens(value) {
            *self = match (*self, token.eq_ignore_ascii_case(b"chunked")) {
                (Self::Absent, true) => Self::Chunked,
                (Self::Absent | Self::Other, false) => Self::Other,
                (Self::Other, true) => Self::OtherThenChunked,
                (Self::Chunked | Self::OtherThenChunked | Self::ChunkedNotLast, false) => {
                    Self::ChunkedNotLast
                }
                _ => Self::Broken,
            };
        }
        if before == Self::Absent && *self == Self::Absent {
            *self = Self::Broken;
        }
    }
}

/// Describes the fault of a head, for people.
pub(super) const fn describe(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "a bad header name",
        httparse::Error::HeaderValue => "a bad header value",
        httparse::Error::NewLine => "a bad line end",
        httparse::Error::Status => "a bad status line",
        httparse::Error::Token => "a bad first line",
        httparse::Error::TooManyHeaders => "too many headers",
        httparse::Error::Version => "a version that is not HTTP/1.0 or HTTP/1.1",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head is complete at its first empty line.
    fn parse(bytes: &[u8]) -> Result<Option<(usize, ())>, ()> {
        Ok(bytes.windows(2).position(|pair| pair == b"\n\n").map(|at| (at + 2, ())))
    }

    #[test]
    fn memory_never_passes_the_limit() {
        let limit = 1000;
        for step in [1, 7, 333, 999] {
            let mut slot = None;
            let mut fed = 0;
            let verdict = loop {
                match feed(&mut slot, &vec![b'x'; step], limit, parse) {
                    Ok(Fed::Partial) => fed += step,
                    other => break other,
                }
                let partial = slot.as_ref().expect("an incomplete head is kept");
                assert_eq!(partial.bytes.len(), fed);
                assert!(partial.bytes.capacity() <= limit);
            };
            assert_eq!(verdict, Ok(Fed::TooLarge));
            assert!(slot.expect("still there").bytes.capacity() <= limit);
        }
    }

    #[test]
    fn a_head_in_one_piece_is_not_buffered() {
        let mut slot = None;
        let fed = feed(&mut slot, b"abc\n\nrest", 9, parse);
        assert_eq!(fed, Ok(Fed::Complete { consumed: 5, head: () }));
        assert!(slot.is_none());
        assert_eq!(feed(&mut slot, b"ab", 9, parse), Ok(Fed::Partial));
        let fed = feed(&mut slot, b"c\n\nrest", 9, parse);
        assert_eq!(fed, Ok(Fed::Complete { consumed: 3, head: () }));
        assert!(slot.is_none());
    }

    #[test]
    fn folded_lines_become_one() {
        for (head, unfolded) in [
            ("S\r\nA: b\r\n c\r\n\r\n", "S\r\nA: b   c\r\n\r\n"),
            ("S\nA:\n\tb\n \n\n", "S\nA: \tb  \n\n"),
            ("S\r\n A: b\r\n\r\n", "S\r\n A: b\r\n\r\n"),
            ("S\r\nA: b\r\n\r\n body\r\n x", "S\r\nA: b\r\n\r\n body\r\n x"),
            ("S\nA: b\n\n body\n x", "S\nA: b\n\n body\n x"),
            ("S\nA\n : b\nC:\n d\n\n", "S\nA\n : b\nC:  d\n\n"),
            ("S\r\nA: b\r\n", "S\r\nA: b\r\n"),
            ("", ""),
        ] {
            let mut bytes = head.as_bytes().to_vec();
            assert_eq!(unfold(&mut bytes), Ok(()));
            assert_eq!(String::from_utf8_lossy(&bytes), unfolded, "{head:?}");
        }
    }

    #[test]
    fn fields() {
        for (name, field) in [
            ("Host", Field::Host),
            ("EXPECT", Field::Expect),
            ("connection", Field::Connection),
            ("Keep-Alive", Field::KeepAlive),
            ("Content-Length", Field::ContentLength),
            ("transfer-Encoding", Field::TransferEncoding),
            ("Content_Length", Field::Other),
            ("ContentXLength", Field::Other),
            ("Content-Lengtk", Field::Other),
            ("Hos", Field::Other),
            ("", Field::Other),
        ] {
            assert_eq!(Field::of(name), field, "{name:?}");
        }
    }

    #[test]
    fn keep_alive_timeouts() {
        for (value, seconds) in [
            (&b"timeout=5, max=100"[..], 5),
            (b"max=100,Timeout=15", 15),
            (b"timeout=90000", u16::MAX),
            (b"timeout=", 0),
            (b"timeout=5s", 0),
            (b"max=100", 0),
            (b"", 0),
        ] {
            assert_eq!(keep_alive_s(value), seconds, "{}", String::from_utf8_lossy(value));
        }
    }

    #[test]
    fn decimals() {
        for (text, value) in [
            ("0", Some(0)),
            ("18446744073709551615", Some(u64::MAX)),
            ("007", Some(7)),
            ("18446744073709551616", None),
            ("", None),
            ("+1", None),
            ("-1", None),
            ("1 ", None),
            ("0x1", None),
            ("1,1", None),
        ] {
            assert_eq!(decimal(text.as_bytes()), value, "{text:?}");
        }
    }

    #[test]
    fn codings() {
        for (values, coding) in [
            (&["chunked"][..], Coding::Chunked),
            (&["Chunked "], Coding::Chunked),
            (&["gzip, chunked"], Coding::OtherThenChunked),
            (&["gzip", "chunked"], Coding::OtherThenChunked),
            (&["gzip"], Coding::Other),
            (&["identity"], Coding::Other),
            (&["xchunked"], Coding::Other),
            (&["chunked, gzip"], Coding::ChunkedNotLast),
            (&["gzip, chunked", "br"], Coding::ChunkedNotLast),
            (&["chunked, gzip, chunked"], Coding::Broken),
            (&["chunked", "chunked"], Coding::Broken),
            (&[""], Coding::Broken),
            (&[" , "], Coding::Broken),
        ] {
            let mut found = Coding::Absent;
            values.iter().for_each(|value| found.add(value.as_bytes()));
            assert_eq!(found, coding, "{values:?}");
        }
    }

    #[test]
    fn persistence() {
        // Connection, kept in HTTP/1.1, kept in HTTP/1.0
        for (value, http11, http10) in [
            ("", true, false),
            ("close", false, false),
            ("Keep-Alive", true, true),
            ("te, CLOSE ,x", false, false),
            ("keep-alive, close", false, false),
            ("closed", true, false),
        ] {
            let mut persistence = Persistence::default();
            persistence.add(value.as_bytes());
            assert_eq!(persistence.keeps_alive(true), http11, "{value:?}");
            assert_eq!(persistence.keeps_alive(false), http10, "{value:?}");
        }
    }
}
