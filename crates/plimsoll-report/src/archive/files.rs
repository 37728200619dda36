//! The files of an archive, which anybody may have written: regular files only, with bounds on what is read at once.

use std::io::Error;
use std::path::Path;

use plimsoll_sys::input_file;

/// The longest line that is read. The rows of a thread's second have up to 13 MB, its histograms less.
pub(super) const LINE_BYTES_MAX: usize = 32 << 20;
/// Fault of a longer line.
pub(super) const TOO_LONG: &str = "it has more than 32 MiB";
/// The largest manifest or summary that is read.
const WHOLE_BYTES_MAX: u64 = 64 << 20;

/// Memory of the trials that are kept at once, with their histograms. Those of a trial have some MB, and a forged line
/// of 25 kB has 16 MB.
pub(super) const TRIAL_BYTES_MAX: u64 = 2 << 30;
/// Fault of more trials.
pub(super) const TOO_MANY: &str = "all trials take too much memory";

/// Text of the events that are kept at once: a search writes some kB for each trial.
pub(super) const EVENT_BYTES_MAX: u64 = 256 << 20;
/// Fault of more events.
pub(super) const TOO_MANY_EVENTS: &str = "the events have more than 256 MiB";

/// Reads a file that is one document.
pub(super) fn read_whole(path: &Path) -> Result<Vec<u8>, Error> {
    input_file::read_regular(path, WHOLE_BYTES_MAX)
}
