//! The files of an archive, which anybody may have written: regular files only, with bounds on what is read at once.

use std::fs::File;
use std::io::{BufRead, BufReader, Error, Read};
use std::path::Path;

use plimsoll_sys::input_file;

/// The longest line that is read. The rows of a thread's second have up to 13 MB, its histograms less.
pub(super) const LINE_BYTES_MAX: usize = 32 << 20;
/// The largest manifest or summary that is read.
const WHOLE_BYTES_MAX: u64 = 64 << 20;

/// Memory of the trials that are kept at once, with their histograms. Those of a trial have some MB, and a forged line of
/// 25 kB has 16 MB.
pub(super) const TRIAL_BYTES_MAX: u64 = 2 << 30;
/// Fault of more trials.
pub(super) const TOO_MANY: &str = "all trials take too much memory";

/// Text of the events that are kept at once: a search writes some kB for each trial.
pub(super) const EVENT_BYTES_MAX: u64 = 256 << 20;
/// Fault of more events.
pub(super) const TOO_MANY_EVENTS: &str = "the events have more than 256 MiB";

/// Opens a file of lines.
pub(super) fn open(path: &Path) -> Result<BufReader<File>, Error> {
    input_file::open_regular(path).map(BufReader::new)
}

/// Reads a file that is one document.
pub(super) fn read_whole(path: &Path) -> Result<Vec<u8>, Error> {
    input_file::read_regular(path, WHOLE_BYTES_MAX)
}

/// The result of [`read_line`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextLine {
    /// A line with its end.
    Whole,
    /// The end of the file, or a line that a killed run left without its end.
    None,
    /// A line of more than [`LINE_BYTES_MAX`].
    TooLong,
}

/// Fault of such a line.
pub(super) const TOO_LONG: &str = "it has more than 32 MiB";

/// Reads the next line into `line`.
pub(super) fn read_line(input: &mut impl BufRead, line: &mut Vec<u8>) -> Result<NextLine, Error> {
    line.clear();
    input.by_ref().take(LINE_BYTES_MAX as u64 + 1).read_until(b'\n', line)?;
    Ok(match line.last() {
        _ if line.len() > LINE_BYTES_MAX => NextLine::TooLong,
        Some(b'\n') => NextLine::Whole,
        _ => NextLine::None,
    })
}
