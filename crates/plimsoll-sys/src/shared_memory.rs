//! Memory that processes of one host share: written once, sealed, then mapped read-only.
//!
//! The seals keep its size and its content as they are, so that no process can make a mapped page
//! fail.

use std::fs::File;
use std::io;
use std::io::{BufReader, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::{fmt, process, ptr, slice};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, memfd_create};

/// The bytes that are copied at a time.
const COPIED_AT_ONCE: usize = 256 * 1024;

/// Returns the seals of a finished memory file.
fn seals() -> SealFlags {
    SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE
}

/// A memory file that is being written.
#[derive(Debug)]
pub struct Writer {
    file: File,
    bytes: u64,
}

impl Writer {
    /// Creates an empty shared memory, which `ls -l /proc/PID/fd` shows by this name.
    pub fn new(name: &str) -> io::Result<Self> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        Ok(Self { file: memfd_create(name, flags)?.into(), bytes: 0 })
    }

    /// Returns the number of bytes written so far.
    pub const fn len(&self) -> u64 {
        self.bytes
    }

    /// Reports whether nothing was written so far.
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Appends `bytes`.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Appends what is left in `from`, at most `most` bytes of it; returns how many there were.
    pub fn append_from(&mut self, from: &mut dyn Read, most: u64) -> io::Result<u64> {
        let mut from = BufReader::with_capacity(COPIED_AT_ONCE, from.take(most));
        let count = io::copy(&mut from, &mut self.file)?;
        self.bytes += count;
        Ok(count)
    }

    /// Seals it and maps it.
    pub fn seal(self) -> io::Result<SharedMemory> {
        fcntl_add_seals(&self.file, seals())?;
        SharedMemory::map(self.file)
    }
}

/// A sealed memory file, mapped read-only.
pub struct SharedMemory {
    file: File,
    start: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the mapping is read-only and its content never changes.
unsafe impl Send for SharedMemory {}
// SAFETY: as above.
unsafe impl Sync for SharedMemory {}

impl SharedMemory {
    /// Maps the one that another process names by [`Self::path`].
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or may still be changed.
    pub fn open(path: &str) -> io::Result<Self> {
        Self::map(File::open(path)?)
    }

    fn map(file: File) -> io::Result<Self> {
        if !fcntl_get_seals(file.as_fd())?.contains(seals()) {
            return Err(io::Error::other("the memory file is not sealed"));
        }
        let bytes = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
        if bytes == 0 {
            return Ok(Self { file, start: NonNull::dangling(), bytes });
        }
        // SAFETY: a new mapping at an address that the kernel chooses; the file's seals keep its
        // size, so that each page of it exists as long as the mapping does.
        let start = unsafe {
            let (access, kind) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(ptr::null_mut(), bytes, access, kind, file.as_raw_fd(), 0)
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { file, start, bytes })
    }

    /// Returns the path by which other processes of this host and user open it, as long as this one has it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", process::id(), self.file.as_raw_fd())
    }

    /// Returns the bytes.
    pub const fn bytes(&self) -> &[u8] {
        // SAFETY: `start` is the start of a mapping of `bytes` readable bytes, or dangling where
        // there are none; nothing changes them, see the seals.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.bytes) }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        if self.bytes > 0 {
            // SAFETY: the mapping is this object's alone, and nothing borrows from it any more.
            unsafe { libc::munmap(self.start.as_ptr().cast(), self.bytes) };
        }
    }
}

impl fmt::Debug for SharedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMemory({} bytes)", self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_shared_and_cannot_change() {
        let mut writer = Writer::new("test").unwrap();
        writer.append(b"head ").unwrap();
        let mut long = io::repeat(b'x').take(1_000_000);
        assert_eq!(writer.append_from(&mut long, 700_001).unwrap(), 700_001);
        assert_eq!(writer.append_from(&mut &b"tail"[..], 100).unwrap(), 4);
        assert_eq!(writer.len(), 700_010);
        let first = writer.seal().unwrap();
        let second = SharedMemory::open(&first.path()).unwrap();
        assert_eq!(first.bytes(), second.bytes());
        assert!(second.bytes().starts_with(b"head x") && second.bytes().ends_with(b"xtail"));
        // A sealed file cannot be truncated under the processes that have mapped it.
        let writable = File::options().write(true).open(first.path());
        assert!(writable.is_err() || writable.unwrap().set_len(0).is_err());
        drop(first);
        assert_eq!(second.bytes().len(), 700_010);
    }

    #[test]
    fn a_file_that_may_change_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(SharedMemory::open(file.path().to_str().unwrap()).is_err());
        let writer = Writer::new("open").unwrap();
        let path = format!("/proc/{}/fd/{}", process::id(), writer.file.as_raw_fd());
        assert!(SharedMemory::open(&path).is_err());
        assert_eq!(writer.seal().unwrap().bytes(), b"");
    }
}
