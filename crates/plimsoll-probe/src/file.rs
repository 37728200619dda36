//! Files of `/proc` and `/sys`, which do not say how long they are, and those that processes name.

use std::fmt::Display;
use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Nearly all are shorter, so that two calls read one. `std::fs::read_to_string` begins with 32 bytes and doubles them:
/// four calls in the mean.
const USUAL_BYTES: usize = 8 << 10;
/// More is not read.
const BYTES_MAX: u64 = 16 << 20;

/// Returns the place below `root` of a file that a process names by an absolute path.
pub(crate) fn below(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}

/// Lists the files of `folder` whose names end in `ending`, sorted.
pub(crate) fn listed(folder: &Path, ending: &str) -> io::Result<Vec<PathBuf>> {
    let mut files: Vec<_> = fs::read_dir(folder)?.flatten().map(|entry| entry.path()).collect();
    files.retain(|file| file.extension().is_some_and(|own| own == ending));
    files.sort();
    Ok(files)
}

/// Reads the command line of process `pid` below `root`: words that end with NUL, or the title that it gave itself.
/// Empty if there is none.
pub(crate) fn command_line(root: &Path, pid: impl Display) -> String {
    let bytes = fs::read(root.join(format!("proc/{pid}/cmdline"))).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Returns the working directory of process `pid` below `root`.
pub(crate) fn working_directory(root: &Path, pid: u32) -> PathBuf {
    fs::read_link(root.join(format!("proc/{pid}/cwd"))).unwrap_or_else(|_| PathBuf::from("/"))
}

/// Reads the text of a file.
pub(crate) fn text(path: impl AsRef<Path>) -> io::Result<String> {
    let mut text = String::with_capacity(USUAL_BYTES);
    File::open(path)?.take(BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
