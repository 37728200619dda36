//! Output files: created, or opened for writing, so that nothing that somebody else has planted at their paths is
//! written to.
//!
//! A new file is created exclusively and only its owner can read it. An existing file keeps its mode and its owner. A
//! symbolic link is refused, wherever it leads: in a directory that others can write, it may be theirs. So is a FIFO of
//! another user. A device, a FIFO of this user, and the process's own descriptors (`/dev/stdout`, `/dev/fd/3`) are
//! written to directly.

use std::fs::{File, Metadata, OpenOptions};
use std::io::{Error, ErrorKind, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::{fs, io};

use rustix::fs::OFlags;
use rustix::process::geteuid;

/// The mode of a file that only its owner can read.
pub(crate) const PRIVATE: u32 = 0o600;
/// Links to files that this process has open.
const OWN_STREAMS: [&str; 2] = ["/dev/stdout", "/dev/stderr"];
const OWN_DESCRIPTORS: [&str; 2] = ["/dev/fd", "/proc/self/fd"];

/// The kind of thing at the path of an output.
#[derive(Debug)]
pub(crate) enum Found {
    Nothing,
    File(Metadata),
    /// A device, a FIFO, or a descriptor of this process: it has no content to replace.
    Stream,
}

/// Reports what is at `path`.
///
/// # Errors
///
/// If it must not be written to.
pub(crate) fn look(path: &Path) -> io::Result<Found> {
    if is_own_descriptor(path) {
        return Ok(Found::Stream);
    }
    let found = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Found::Nothing),
        found => found?,
    };
    let kind = found.file_type();
    if kind.is_file() {
        Ok(Found::File(found))
    } else if kind.is_symlink() {
        Err(Error::other("it is a symbolic link; name the file itself"))
    } else if kind.is_dir() {
        Err(Error::new(ErrorKind::IsADirectory, "it is a directory"))
    } else if kind.is_fifo() && !is_own(&found) {
        Err(Error::other("it is a FIFO of another user"))
    } else if kind.is_fifo() || kind.is_char_device() {
        Ok(Found::Stream)
    } else {
        Err(Error::other("it is neither a file, a FIFO nor a character device"))
    }
}

fn is_own_descriptor(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::to_str).unwrap_or_default();
    OWN_STREAMS.iter().any(|stream| path == Path::new(stream)) || OWN_DESCRIPTORS.contains(&folder)
}

/// Reports whether this user or root owns it.
fn is_own(found: &Metadata) -> bool {
    [0, geteuid().as_raw()].contains(&found.uid())
}

/// Creates a file that only its owner can read.
///
/// # Errors
///
/// If there is anything at `path`, also a link to nothing.
pub fn create_new(path: &Path) -> io::Result<File> {
    create_with_mode(path, PRIVATE)
}

pub(crate) fn create_with_mode(path: &Path, mode: u32) -> io::Result<File> {
    writing().create_new(true).mode(mode).open(path)
}

/// Opens the regular file at `path` for writing; its content stays.
///
/// # Errors
///
/// If there is none, or something else.
pub fn open_existing(path: &Path) -> io::Result<File> {
    checked(writing().open(path)?)
}

/// Writes a value to a file of the kernel, such as one of a control group, in one piece.
///
/// # Errors
///
/// As of [`open_existing`], and if the kernel refuses the value.
pub fn write_setting(path: &Path, value: &str) -> io::Result<()> {
    open_existing(path)?.write_all(value.as_bytes())
}

/// Opens an output whose content is written as it comes: an existing file is emptied.
///
/// # Errors
///
/// If there is something at `path` that must not be written to, see the module.
pub fn rewrite(path: &Path) -> io::Result<File> {
    match look(path)? {
        Found::Nothing => create_new(path),
        Found::Stream => open_stream(path),
        Found::File(_) => {
            let file = open_existing(path)?;
            file.set_len(0)?;
            Ok(file)
        }
    }
}

/// Opens an output that is written at its end: the content of an existing file stays.
///
/// # Errors
///
/// As of [`rewrite`].
pub fn append(path: &Path) -> io::Result<File> {
    match look(path)? {
        Found::Nothing => writing().append(true).create_new(true).mode(PRIVATE).open(path),
        Found::Stream => open_stream(path),
        Found::File(_) => checked(writing().append(true).open(path)?),
    }
}

/// Checks that [`rewrite`] and a [`WholeFile`](crate::whole_file::WholeFile) would write to `path`. Leaves no trace.
///
/// # Errors
///
/// As of [`rewrite`].
pub fn check(path: &Path) -> io::Result<()> {
    match look(path)? {
        Found::Nothing => create_new(path).and_then(|_| fs::remove_file(path)),
        // Opening a FIFO would wait for its reader.
        Found::Stream => Ok(()),
        Found::File(_) => open_existing(path).map(drop),
    }
}

/// Opens what [`look`] found to be no file.
pub(crate) fn open_stream(path: &Path) -> io::Result<File> {
    if is_own_descriptor(path) {
        // At the end of what is written to it already, if it is a file.
        return OpenOptions::new().append(true).open(path);
    }
    // Without O_NONBLOCK: a FIFO waits for its reader.
    OpenOptions::new().write(true).custom_flags(flags(OFlags::NOFOLLOW)).open(path)
}

pub(crate) fn writing() -> OpenOptions {
    let mut options = OpenOptions::new();
    // O_NONBLOCK means nothing to a file, and does not wait for the reader of what has taken its place.
    options.write(true).custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK));
    options
}

const fn flags(flags: OFlags) -> i32 {
    flags.bits().cast_signed()
}

/// Refuses what has taken the place of a file.
pub(crate) fn checked(file: File) -> io::Result<File> {
    if file.metadata()?.is_file() { Ok(file) } else { Err(Error::other("it is not a file")) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o7777
    }

    #[test]
    fn new_files_are_private_and_existing_ones_keep_their_mode() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        for open in [create_new, rewrite, append] {
            drop(open(&path).unwrap());
            assert_eq!(mode(&path), 0o600);
            fs::remove_file(&path).unwrap();
        }
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        assert_eq!(create_new(&path).unwrap_err().kind(), ErrorKind::AlreadyExists);
        append(&path).unwrap().write_all(b" and after").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before and after");
        rewrite(&path).unwrap().write_all(b"new").unwrap();
        assert_eq!((fs::read_to_string(&path).unwrap().as_str(), mode(&path)), ("new", 0o640));
    }

    #[test]
    fn a_planted_link_is_refused_and_its_target_untouched() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("target"), "untouched").unwrap();
        symlink(at("target"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        symlink("/dev/null", at("device")).unwrap();
        for name in ["link", "dangling", "device"] {
            for open in [create_new, rewrite, append, open_existing] {
                assert!(open(&at(name)).is_err(), "{name}");
            }
            assert!(check(&at(name)).unwrap_err().to_string().contains("symbolic link"));
            assert!(fs::symlink_metadata(at(name)).unwrap().is_symlink());
        }
        assert_eq!(fs::read_to_string(at("target")).unwrap(), "untouched");
        assert!(!at("nothing").exists());
    }

    #[test]
    fn nothing_waits_at_a_fifo_that_took_the_place_of_a_file() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("fifo");
        mkfifoat(CWD, &fifo, Mode::RUSR | Mode::WUSR).unwrap();
        assert!(create_new(&fifo).is_err());
        assert!(open_existing(&fifo).is_err());
        // With a reader, too.
        let reader = File::options().read(true).write(true).open(&fifo).unwrap();
        assert!(open_existing(&fifo).is_err());
        // One of this user is an output.
        assert!(check(&fifo).is_ok());
        rewrite(&fifo).unwrap().write_all(b"x").unwrap();
        drop(reader);
    }

    #[test]
    fn devices_and_own_descriptors_are_written_to() {
        let folder = tempfile::tempdir().unwrap();
        rewrite(Path::new("/dev/null")).unwrap().write_all(b"x").unwrap();
        let path = folder.path().join("a");
        let mut file = create_new(&path).unwrap();
        file.write_all(b"first ").unwrap();
        let descriptor = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        rewrite(Path::new(&descriptor)).unwrap().write_all(b"second").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "first second");
        assert_eq!(rewrite(folder.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
    }
}
