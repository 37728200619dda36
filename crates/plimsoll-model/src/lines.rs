//! The lines of text files that users write: targets, users, hosts, scripts.
//!
//! There is one reader, so that marks, line ends and encodings mean the same in each of them.

use thiserror::Error;

/// The mark that some editors write at the beginning of a text in UTF-8.
const MARK: char = '\u{feff}';
/// The marks of UTF-16 and UTF-32 in both byte orders begin so.
const OTHER_MARKS: [&[u8]; 3] = [b"\xFF\xFE", b"\xFE\xFF", b"\0\0\xFE\xFF"];

/// Why a text has no lines.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("line {line}: {problem}")]
pub struct LineError {
    /// Number of the line, from 1.
    pub line: usize,
    /// The fault of the line.
    pub problem: LineProblem,
}

/// A fault in the bytes of a line.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum LineProblem {
    /// The input is text in another encoding of Unicode.
    #[error("the text is UTF-16 or UTF-32; save it as UTF-8")]
    OtherUnicode,
    /// The input is not UTF-8.
    #[error("not UTF-8; save the file as UTF-8 text")]
    NotUtf8,
    /// Text in UTF-8 has no such byte.
    #[error("a NUL byte; save the file as UTF-8 text")]
    Nul,
}

/// One line without its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Line<'a> {
    /// Number of the line, from 1.
    pub number: usize,
    /// Text of the line.
    pub text: &'a str,
}

impl Line<'_> {
    /// Reports whether nothing is to be read in it: it is blank, or a comment.
    pub fn is_blank(&self) -> bool {
        let text = self.text.trim_start();
        text.is_empty() || text.starts_with('#')
    }
}

/// The lines of a text. A line ends with LF, CR LF or CR; the last one may have no end.
#[derive(Clone, Copy, Debug)]
pub struct Lines<'a> {
    rest: &'a str,
    number: usize,
}

/// Returns the lines of a text.
pub fn lines(text: &[u8]) -> Result<Lines<'_>, LineError> {
    if OTHER_MARKS.iter().any(|mark| text.starts_with(mark)) {
        return Err(LineError { line: 1, problem: LineProblem::OtherUnicode });
    }
    let wrong_at = |end: usize, problem| {
        let before = String::from_utf8_lossy(text.get(..end).unwrap_or_default());
        // The line that is wrong has begun, also if no byte of it is right.
        let line = Lines { rest: &before, number: 0 }.count().max(1);
        let is_next = before.ends_with(['\n', '\r']);
        LineError { line: line + usize::from(is_next), problem }
    };
    let whole = std::str::from_utf8(text)
        .map_err(|error| wrong_at(error.valid_up_to(), LineProblem::NotUtf8))?;
    if let Some(end) = whole.find('\0') {
        return Err(wrong_at(end, LineProblem::Nul));
    }
    Ok(Lines { rest: whole, number: 0 })
}

impl<'a> Iterator for Lines<'a> {
    type Item = Line<'a>;

    fn next(&mut self) -> Option<Line<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let end = self.rest.find(['\n', '\r']).unwrap_or(self.rest.len());
        let (text, behind) = self.rest.split_at(end);
        let ends = ["\r\n", "\n", "\r"];
        self.rest = ends.into_iter().find_map(|end| behind.strip_prefix(end)).unwrap_or("");
        self.number += 1;
        // Files that were put together may have one within the text, too.
        Some(Line { number: self.number, text: text.strip_prefix(MARK).unwrap_or(text) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(text: &[u8]) -> Vec<(usize, &str)> {
        let lines = lines(text).unwrap();
        lines.map(|line| (line.number, line.text)).collect()
    }

    #[test]
    fn marks_and_ends_are_no_part_of_a_line() {
        for (text, expected) in [
            (&b""[..], &[][..]),
            (b"a", &[(1, "a")]),
            (b"a\n", &[(1, "a")]),
            (b"a\r\nb\rc\n\nd", &[(1, "a"), (2, "b"), (3, "c"), (4, ""), (5, "d")]),
            (b"\xEF\xBB\xBFa\r", &[(1, "a")]),
            (b"a\n\xEF\xBB\xBFb", &[(1, "a"), (2, "b")]),
            (b"\xEF\xBB\xBF", &[(1, "")]),
            (b"\r\r\n", &[(1, ""), (2, "")]),
            (" a \u{e9}".as_bytes(), &[(1, " a \u{e9}")]),
        ] {
            assert_eq!(read(text), expected, "{text:?}");
        }
    }

    #[test]
    fn other_encodings_are_named_with_their_line() {
        use LineProblem::{NotUtf8, Nul, OtherUnicode};
        for (text, line, problem) in [
            (&b"\xFF\xFEa\0"[..], 1, OtherUnicode),
            (b"\xFE\xFF\0a", 1, OtherUnicode),
            (b"\xFF\xFE\0\0a\0\0\0", 1, OtherUnicode),
            (b"\0\0\xFE\xFF\0\0\0a", 1, OtherUnicode),
            (b"\xFF", 1, NotUtf8),
            (b"a\n\xE9", 2, NotUtf8),
            (b"a\r\nb\rc\xC3", 3, NotUtf8),
            (b"a\0\n\0", 1, Nul),
            (b"a\n\nb\0", 3, Nul),
        ] {
            assert_eq!(lines(text).unwrap_err(), LineError { line, problem }, "{text:?}");
        }
    }

    #[test]
    fn comments_and_blank_lines_are_skipped() {
        let is_blank = |text| Line { number: 1, text }.is_blank();
        assert!(["", " \t", "#", "  # a"].into_iter().all(is_blank));
        assert!(!["a # b", " a"].into_iter().any(is_blank));
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(text in prop::collection::vec(any::<u8>(), 0..100)) {
            if let Ok(lines) = lines(&text) {
                prop_assert!(lines.count() <= text.len());
            }
        }
    }
}
