//! Opening of files for reading that a user names, or that another program wrote.
//!
//! Every file is opened with `O_NONBLOCK`, so that no open waits for the writer of a FIFO. [`open`] accepts anything
//! but a directory; a FIFO without a writer is an error after `wait`. [`open_regular`], [`read_regular`] and
//! [`read_text`] accept regular files only, and check the type before and after the open; the last two also have a
//! bound in bytes. Start reading at [`open`].

use std::fs;
use std::fs::File;
use std::io::{Cursor, Error, ErrorKind, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

/// Opens a file for reading.
///
/// A FIFO is opened without waiting for a writer; if none comes within `wait`, that is the error.
///
/// # Errors
///
/// As of [`File::open`], and for a directory.
pub fn open(path: &Path, wait: Duration) -> Result<impl Read, Error> {
    let mut file = open_at_once(path)?;
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a directory"));
    }
    let first = if kind.is_fifo() { first_byte(&mut file, wait)? } else { Vec::new() };
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags.difference(OFlags::NONBLOCK))?;
    Ok(Cursor::new(first).chain(file))
}

/// Opens a regular file for reading. Anything else is an error: a FIFO would wait for a writer, and a device has no
/// end.
///
/// # Errors
///
/// As of [`File::open`], and for what is no regular file.
pub fn open_regular(path: &Path) -> Result<File, Error> {
    let is_other = || Error::new(ErrorKind::InvalidInput, "it is not a regular file");
    // Opening a device may already have an effect.
    if !fs::metadata(path)?.is_file() {
        return Err(is_other());
    }
    let file = open_at_once(path)?;
    // The name may belong to another file by now.
    if file.metadata()?.is_file() { Ok(file) } else { Err(is_other()) }
}

/// Opens a file for reading without waiting for a writer, as a FIFO would.
fn open_at_once(path: &Path) -> Result<File, Error> {
    File::options().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)
}

/// Reads a regular file of up to `bytes_max` bytes.
///
/// # Errors
///
/// As of [`open_regular`], and for a larger file.
pub fn read_regular(path: &Path, bytes_max: u64) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    open_regular(path)?.take(bytes_max + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > bytes_max {
        let what = format!("it has more than {} MiB", bytes_max >> 20);
        return Err(Error::new(ErrorKind::FileTooLarge, what));
    }
    Ok(bytes)
}

/// Reads a text file of up to `bytes_max` bytes.
///
/// # Errors
///
/// As of [`read_regular`], and for what is no UTF-8.
pub fn read_text(path: &Path, bytes_max: u64) -> Result<String, Error> {
    String::from_utf8(read_regular(path, bytes_max)?)
        .map_err(|error| Error::new(ErrorKind::InvalidData, error))
}

/// Returns the first byte of a FIFO; none if its writer has written nothing so far, or nothing at all.
fn first_byte(fifo: &mut File, wait: Duration) -> Result<Vec<u8>, Error> {
    let wait = Timespec::try_from(wait).map_err(|_| ErrorKind::InvalidInput)?;
    let is_ready = poll(&mut [PollFd::new(fifo, PollFlags::IN)], Some(&wait))? > 0;
    let mut first = [0];
    match fifo.read(&mut first) {
        Ok(1..) => Ok(first.to_vec()),
        Ok(0) if is_ready => Ok(Vec::new()),
        Ok(0) => Err(Error::new(ErrorKind::TimedOut, "it is a FIFO, and nothing writes to it")),
        // There is a writer.
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    const SHORT: Duration = Duration::from_millis(20);
    const LONG: Duration = Duration::from_secs(60);

    fn text(path: &Path, wait: Duration) -> Result<String, Error> {
        let mut text = String::new();
        open(path, wait)?.read_to_string(&mut text)?;
        Ok(text)
    }

    #[test]
    fn a_regular_file_is_opened_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let (file, fifo) = (folder.path().join("file"), folder.path().join("fifo"));
        fs::write(&file, "a").unwrap();
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(open_regular(&file).is_ok());
        for other in [&fifo, folder.path(), Path::new("/dev/zero")] {
            assert_eq!(
                open_regular(other).unwrap_err().kind(),
                ErrorKind::InvalidInput,
                "{other:?}"
            );
        }
        let missing = open_regular(&folder.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_file_is_read_as_a_whole_up_to_a_bound() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "ab").unwrap();
        assert_eq!(read_text(file.path(), 2).unwrap(), "ab");
        let large = read_text(file.path(), 1).unwrap_err();
        assert_eq!(large.kind(), ErrorKind::FileTooLarge);
        fs::write(file.path(), [0xFF]).unwrap();
        assert_eq!(read_text(file.path(), 2).unwrap_err().kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn files_and_fifos_are_read_and_nothing_else_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        fs::write(&file, "a").unwrap();
        assert_eq!(text(&file, SHORT).unwrap(), "a");
        assert_eq!(text(folder.path(), SHORT).unwrap_err().kind(), ErrorKind::IsADirectory);
        let fifo = folder.path().join("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        assert_eq!(text(&fifo, SHORT).unwrap_err().kind(), ErrorKind::TimedOut);
        let writer = {
            let fifo = fifo.clone();
            std::thread::spawn(move || {
                File::options().write(true).open(fifo).unwrap().write_all(b"from a writer")
            })
        };
        assert_eq!(text(&fifo, LONG).unwrap(), "from a writer");
        writer.join().unwrap().unwrap();
        // One that writes nothing for now: read_to_string would wait for it.
        let reader = File::options().read(true).write(true).open(&fifo).unwrap();
        assert!(open(&fifo, SHORT).is_ok());
        drop(reader);
    }
}
