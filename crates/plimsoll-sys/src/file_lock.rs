//! Locks between processes, by flock(2).

use std::fs::File;
use std::io;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

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
    use super::*;

    #[test]
    fn one_holder_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let open = || File::create(dir.path().join("lock")).unwrap();
        let (first, second) = (open(), open());
        assert!(try_lock(&first).unwrap());
        assert!(!try_lock(&second).unwrap());
        drop(first);
        // A process that another test forks meanwhile holds a copy of `first` until its exec, so this waits.
        flock(&second, FlockOperation::LockExclusive).unwrap();
        assert!(!try_lock(&open()).unwrap());
    }
}
