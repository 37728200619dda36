//! The end of a message's body: by length, by chunks, or with the connection. Bytes are counted
//! and dropped. The chunked coding is read strictly (CRLF only), because a lenient reader behind a
//! strict proxy is how requests are smuggled.

use super::{CHUNK_LINE_BYTES_MAX, TRAILER_BYTES_MAX};

/// The framing of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Framing {
    Fixed(u64),
    Chunked,
    UntilClose,
}

/// A body that is being read.
#[derive(Debug)]
pub(super) struct Body {
    /// Bytes left of the whole body (`Fixed`) or of the chunk (`Data`); in `Size` the size so far.
    left: u64,
    /// Payload bytes received, without chunk framing.
    received: u64,
    /// Bytes of the current chunk-size line, or of the trailer section.
    line_bytes: u32,
    step: Step,
}

/// The next expected byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Fixed,
    UntilClose,
    Size,
    SizeSpace,
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// Before the first trailer.
    TrailerStart,
    /// Behind a trailer, which may be continued.
    TrailerNext,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
}

/// Why a body cannot be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BodyError {
    Malformed(&'static str),
    TooLarge(&'static str),
}

impl Body {
    pub(super) const fn new(framing: Framing) -> Self {
        let (left, step) = match framing {
            Framing::Fixed(bytes) => (bytes, Step::Fixed),
            Framing::Chunked => (0, Step::Size),
            Framing::UntilClose => (0, Step::UntilClose),
        };
        Self { left, received: 0, line_bytes: 0, step }
    }

    /// Returns the payload bytes received so far.
    pub(super) const fn received(&self) -> u64 {
        self.received
    }

    /// Reports whether the end of the connection is the end of this body.
    pub(super) fn ends_with_connection(&self) -> bool {
        self.step == Step::UntilClose
    }

    /// Takes bytes; returns how many belong to the body and whether it is complete.
    pub(super) fn handle_bytes(&mut self, input: &[u8]) -> Result<(usize, bool), BodyError> {
        match self.step {
            Step::Fixed => Ok((self.take(input.len()), self.left == 0)),
            Step::UntilClose => {
                self.received = self.received.saturating_add(input.len() as u64);
                Ok((input.len(), false))
            }
            _ => self.handle_chunked(input),
        }
    }

    /// Counts up to `available` payload bytes, never more than are left.
    fn take(&mut self, available: usize) -> usize {
        let taken = usize::try_from(self.left).map_or(available, |left| left.min(available));
        self.left -= taken as u64;
        self.received = self.received.saturating_add(taken as u64);
        taken
    }

    fn handle_chunked(&mut self, input: &[u8]) -> Result<(usize, bool), BodyError> {
        let mut rest = input;
        while let Some((&byte, after)) = rest.split_first() {
            if self.step == Step::Data {
                let taken = self.take(rest.len());
                rest = rest.get(taken..).unwrap_or_default();
                if self.left == 0 {
                    self.step = Step::DataCr;
                }
                continue;
            }
            rest = after;
            if self.step == Step::LastLf && byte == b'\n' {
                return Ok((input.len() - rest.len(), true));
            }
            self.step = self.after_byte(byte)?;
        }
        Ok((input.len(), false))
    }

    /// Returns the step that follows a byte of chunk framing.
    fn after_byte(&mut self, byte: u8) -> Result<Step, BodyError> {
        use BodyError::Malformed;
        self.count_line_byte()?;
        match (self.step, byte) {
            (Step::Size, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') => self.push_digit(byte),
            (Step::Size, _) if self.line_bytes == 1 => Err(Malformed("a chunk without a size")),
            (Step::Size | Step::SizeSpace, b' ' | b'\t') => Ok(Step::SizeSpace),
            (Step::Size | Step::SizeSpace, b';') => Ok(Step::Extension),
            (Step::Size | Step::SizeSpace | Step::Extension, b'\r') => Ok(Step::SizeLf),
            (Step::Extension, byte) if is_text(byte) => Ok(Step::Extension),
            (Step::SizeLf, b'\n') => {
                self.line_bytes = 0;
                Ok(if self.left == 0 { Step::TrailerStart } else { Step::Data })
            }
            (Step::DataCr, b'\r') => Ok(Step::DataLf),
            (Step::DataLf, b'\n') => {
                self.line_bytes = 0;
                Ok(Step::Size)
            }
            (Step::DataCr | Step::DataLf, _) => Err(Malformed("a chunk longer than its size")),
            (Step::TrailerStart | Step::TrailerNext, b'\r') => Ok(Step::LastLf),
            (Step::TrailerStart | Step::TrailerNext | Step::TrailerName, byte)
                if is_token(byte) =>
            {
                Ok(Step::TrailerName)
            }
            (Step::TrailerNext, b' ' | b'\t') => Ok(Step::TrailerValue),
            (Step::TrailerName, b':') => Ok(Step::TrailerValue),
            (Step::TrailerValue, b'\r') => Ok(Step::TrailerLf),
            (Step::TrailerValue, byte) if is_text(byte) => Ok(Step::TrailerValue),
            (Step::TrailerLf, b'\n') => Ok(Step::TrailerNext),
            (Step::Size | Step::SizeSpace | Step::Extension | Step::SizeLf, _) => {
                Err(Malformed("a bad chunk size"))
            }
            _ => Err(Malformed("a bad trailer")),
        }
    }

    fn push_digit(&mut self, byte: u8) -> Result<Step, BodyError> {
        if self.left.leading_zeros() < 4 {
            return Err(BodyError::Malformed("a chunk size over 64 bits"));
        }
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            _ => (byte | 0x20).wrapping_sub(b'a').wrapping_add(10),
        };
        self.left = self.left << 4 | u64::from(digit);
        Ok(Step::Size)
    }

    /// Bounds the size line and the trailers; what is not buffered could still go on forever.
    fn count_line_byte(&mut self) -> Result<(), BodyError> {
        self.line_bytes = self.line_bytes.saturating_add(1);
        let in_trailers = matches!(
            self.step,
            Step::TrailerStart
                | Step::TrailerNext
                | Step::TrailerName
                | Step::TrailerValue
                | Step::TrailerLf
        );
        if in_trailers && self.line_bytes > TRAILER_BYTES_MAX {
            return Err(BodyError::TooLarge("trailers over 16 KiB"));
        }
        if !in_trailers && self.step != Step::LastLf && self.line_bytes > CHUNK_LINE_BYTES_MAX {
            return Err(BodyError::TooLarge("a chunk-size line over 4 KiB"));
        }
        Ok(())
    }
}

/// Reports whether `byte` is allowed in a field value or a chunk extension.
const fn is_text(byte: u8) -> bool {
    byte == b'\t' || (byte >= b' ' && byte != 0x7f)
}

/// Reports whether `byte` is allowed in a field name (RFC 9110, 5.6.2).
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(byte, b'!' | b'#'..=b'\'' | b'*' | b'+' | b'-' | b'.')
        || matches!(byte, b'^' | b'_' | b'`' | b'|' | b'~')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunked(text: &[u8]) -> Result<(usize, bool, u64), BodyError> {
        let mut body = Body::new(Framing::Chunked);
        let (consumed, done) = body.handle_bytes(text)?;
        Ok((consumed, done, body.received()))
    }

    #[test]
    fn chunks() {
        // the body, bytes after it, complete, payload bytes
        for (text, surplus, done, payload) in [
            ("0\r\n\r\n", "", true, 0),
            ("3\r\nabc\r\n0\r\n\r\n", "HTTP", true, 3),
            ("a\r\n0123456789\r\n00\r\n\r\n", "", true, 10),
            ("A;name=\"v;w\"\r\n0123456789\r\n0;x\r\n\r\n", "", true, 10),
            ("3 \t;x\r\nabc\r\n0 \r\n\r\n", "", true, 3),
            ("0\r\nExpires: never\r\nX:\r\n\r\n", "+", true, 0),
            ("0\r\nX: y\r\n z\r\n\t\r\nY: z\r\n\r\n", "+", true, 0),
            ("00000000000000000003\r\nabc\r\n000000000000000000000\r\n\r\n", "", true, 3),
            ("3\r\nabc\r\n0\r\n\r", "", false, 3),
            ("ffffffffffffffff\r\nabc", "", false, 3),
            ("", "", false, 0),
        ] {
            let input = [text, surplus].concat();
            assert_eq!(chunked(input.as_bytes()), Ok((text.len(), done, payload)), "{input:?}");
        }
    }

    #[test]
    fn bad_chunks() {
        for text in [
            "\r\n",
            ";x\r\n",
            " 3\r\n",
            "x\r\n",
            "-1\r\n",
            "0x3\r\n",
            "3\nabc\n",
            "3\r\r",
            "3;a\nb\r\n",
            "3 3\r\n",
            "3\r\nabcd\r\n",
            "3\r\nabc\n0",
            "3\r\nabc\rx",
            "10000000000000000\r\n",
            "00010000000000000000\r\n",
            "0\r\n x: y\r\n",
            "0\r\nx\r\n",
            "0\r\nx: \0\r\n",
            "0\r\n:\r\n",
            "0\r\n\rx",
        ] {
            let error = chunked(text.as_bytes());
            assert!(matches!(error, Err(BodyError::Malformed(_))), "{text:?} gave {error:?}");
        }
    }

    #[test]
    fn lines_are_bounded_at_the_documented_byte() {
        let line = |bytes: u32| format!("1;{}\r\n", "x".repeat(bytes as usize - 4));
        assert!(chunked(line(CHUNK_LINE_BYTES_MAX).as_bytes()).is_ok());
        let over = chunked(line(CHUNK_LINE_BYTES_MAX + 1).as_bytes());
        assert!(matches!(over, Err(BodyError::TooLarge(_))));

        let trailers = |bytes: u32| format!("0\r\nx:{}\r\n\r\n", "y".repeat(bytes as usize - 4));
        assert_eq!(chunked(trailers(TRAILER_BYTES_MAX - 1).as_bytes()).map(|at| at.1), Ok(true));
        let over = chunked(trailers(TRAILER_BYTES_MAX + 1).as_bytes());
        assert!(matches!(over, Err(BodyError::TooLarge(_))));
    }
}
