//! Locks between processes, by flock(2).

use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::output_file::{PRIVATE, checked, writing};

/// Opens the file `path` to be locked, and creates it if it is missing. Its content stays.
///
/// # Errors
///
/// If it is a link or no file.
pub fn open(path: &Path) -> io::Result<File> {
    checked(writing().create(true).truncate(false).mode(PRIVATE).open(path)?)
}

/// Locks `file` until it is closed, also by the end of the process; false when another one holds it.
pub fn try_lock(file: &File) -> io::Result<bool> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn a_planted_link_or_fifo_is_no_lock() {
        let dir = tempfile::tempdir().unwrap();
        let (link, target) = (dir.path().join("link"), dir.path().join("target"));
        fs::write(&target, "untouched").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        assert!(open(&link).is_err());
        assert!(open(&target).is_ok());
        assert_eq!(fs::read_to_string(&target).unwrap(), "untouched");
        let fifo = dir.path().join("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        let _reader = File::options().read(true).write(true).open(&fifo).unwrap();
        assert!(open(&fifo).is_err());
    }

    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let open = || open(&dir.path().join("lock")).unwrap();
        let (first, second) = (open(), open());
        assert!(try_lock(&first).unwrap());
        assert!(!try_lock(&second).unwrap());
        drop(first);
        // A process that another test forks meanwhile holds a copy of `first` until its exec, so this waits.
        flock(&second, FlockOperation::LockExclusive).unwrap();
        assert!(!try_lock(&open()).unwrap());
    }
}
