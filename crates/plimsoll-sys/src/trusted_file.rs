//! Files that are trusted, because only root and the current user can have written them.
//!
//! [`check_dir`] verifies a directory and every directory above it. [`open`] opens a file in such a directory without
//! following a link, then judges the descriptor, so the file cannot be swapped in between. The owner must be root or
//! the effective user, and group and others must have no write permission; a sticky directory above is exempt.
//! [`open_secret`] also rejects a file that others can read. Start reading at `judge`, which all checks share.

use std::fs;
use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::process::geteuid;
use thiserror::Error;

const STICKY: u32 = 0o1000;
const OTHERS_WRITE: u32 = 0o022;
/// Permissions that a key must not have; `OTHERS_OF_ROOTS` for a key of root's, which a group may read, as in a volume
/// with a secret of Kubernetes.
const OTHERS: u32 = 0o077;
const OTHERS_OF_ROOTS: u32 = 0o037;

/// Why a file or directory is not believed.
#[derive(Debug, Error)]
pub enum TrustError {
    /// The path could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The path is a link, or no file or no directory if one is expected.
    #[error("{} is a symbolic link, or not a {expected}", path.display())]
    Kind {
        /// Path of the file.
        path: PathBuf,
        /// The kind of file that it should be.
        expected: &'static str,
    },
    /// Another user owns it.
    #[error("{} belongs to the user {uid}, who can forge what is in it; chown it to root", path.display())]
    Owner {
        /// Path of the file.
        path: PathBuf,
        /// Owner of the file.
        uid: u32,
    },
    /// Other users can write the file.
    #[error("{} has mode {mode:04o}, so others can forge what is in it; chmod go-w it", path.display())]
    Writable {
        /// Path of the file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
    },
    /// Other users can read a secret.
    #[error("{}: others can read this key (mode {mode:03o}); chmod 600 it", path.display())]
    Readable {
        /// Path of the file.
        path: PathBuf,
        /// Permissions of the file.
        mode: u32,
    },
}

impl TrustError {
    fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { path, source }
    }
}

/// Checks that only root and this user can put anything into the directory `path`, or put another one in its place.
///
/// # Errors
///
/// If it is a link, or if another user owns it or can write it, or one of the directories above it.
pub fn check_dir(path: &Path) -> Result<(), TrustError> {
    check_one_dir(path, false)?;
    let whole = fs::canonicalize(path).map_err(TrustError::io(path))?;
    whole.ancestors().skip(1).try_for_each(|above| check_one_dir(above, true))
}

/// Checks the directory `path` alone, in a directory that was checked.
///
/// # Errors
///
/// As of [`check_dir`].
pub fn check_entry(path: &Path) -> Result<(), TrustError> {
    check_one_dir(path, false)
}

fn check_one_dir(path: &Path, is_above: bool) -> Result<(), TrustError> {
    let found = fs::symlink_metadata(path).map_err(TrustError::io(path))?;
    if !found.is_dir() {
        return Err(TrustError::Kind { path: path.to_owned(), expected: "directory" });
    }
    // In a sticky directory only the owner of an entry can replace it.
    let is_sticky = is_above && found.mode() & STICKY != 0;
    judge(path, &found, geteuid().as_raw(), is_sticky)
}

/// Opens the file `path` for reading, in a directory that was checked.
///
/// # Errors
///
/// If it is a link or not a file, or if another user owns it or can write it.
pub fn open(path: &Path) -> Result<File, TrustError> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let kind = || TrustError::Kind { path: path.to_owned(), expected: "file" };
    let file = File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path);
    let file = file.map_err(|error| match error.raw_os_error() {
        Some(libc::ELOOP) => kind(),
        _ => TrustError::io(path)(error),
    })?;
    let found = file.metadata().map_err(TrustError::io(path))?;
    if !found.is_file() {
        return Err(kind());
    }
    judge(path, &found, geteuid().as_raw(), false)?;
    Ok(file)
}

/// Opens a file of keys for reading. A link is followed, since volumes of Kubernetes consist of links; the checks apply
/// to the file behind it.
///
/// # Errors
///
/// The errors of [`open`].
pub fn open_linked(path: &Path) -> Result<File, TrustError> {
    open(&fs::canonicalize(path).map_err(TrustError::io(path))?)
}

/// Opens a file with a private key for reading.
///
/// # Errors
///
/// As of [`open_linked`], and if other users can read it.
pub fn open_secret(path: &Path) -> Result<File, TrustError> {
    let file = open_linked(path)?;
    let found = file.metadata().map_err(TrustError::io(path))?;
    let (path, mode) = (path.to_owned(), found.mode() & 0o777);
    let others = if found.uid() == 0 { OTHERS_OF_ROOTS } else { OTHERS };
    if mode & others == 0 { Ok(file) } else { Err(TrustError::Readable { path, mode }) }
}

fn judge(path: &Path, found: &Metadata, own: u32, is_sticky: bool) -> Result<(), TrustError> {
    let (path, uid, mode) = (path.to_owned(), found.uid(), found.mode() & 0o7777);
    if uid != 0 && uid != own {
        return Err(TrustError::Owner { path, uid });
    }
    if mode & OTHERS_WRITE != 0 && !is_sticky {
        return Err(TrustError::Writable { path, mode });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn directories_that_others_can_write_are_refused_with_all_below_them() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("above/dir")).unwrap();
        set_mode(&at("above/dir"), 0o755);
        check_dir(&at("above/dir")).unwrap();
        for mode in [0o775, 0o757, 0o1777] {
            set_mode(&at("above/dir"), mode);
            let error = check_dir(&at("above/dir")).unwrap_err();
            assert!(matches!(error, TrustError::Writable { .. }), "{mode:o} {error}");
        }
        set_mode(&at("above/dir"), 0o700);
        set_mode(&at("above"), 0o777);
        let error = check_dir(&at("above/dir")).unwrap_err();
        assert!(error.to_string().contains("above has mode 0777"), "{error}");
        // Entries of a sticky directory stay their owner's.
        set_mode(&at("above"), 0o1777);
        check_dir(&at("above/dir")).unwrap();
        check_dir(&at("above/../above/dir")).unwrap();
        symlink(at("above/dir"), at("link")).unwrap();
        assert!(matches!(check_dir(&at("link")), Err(TrustError::Kind { .. })));
        assert!(matches!(check_entry(&at("nothing")), Err(TrustError::Io { .. })));
    }

    #[test]
    fn links_fifos_and_files_that_others_can_write_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::write(at("file"), "x").unwrap();
        set_mode(&at("file"), 0o644);
        open(&at("file")).unwrap();
        symlink(at("file"), at("link")).unwrap();
        mkfifoat(CWD, at("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
        for name in ["link", "fifo"] {
            assert!(matches!(open(&at(name)), Err(TrustError::Kind { .. })), "{name}");
        }
        set_mode(&at("file"), 0o664);
        assert!(matches!(open(&at("file")), Err(TrustError::Writable { .. })));
    }

    #[test]
    fn a_key_is_read_through_a_link_but_only_if_others_cannot_read_it() {
        let folder = tempfile::tempdir().unwrap();
        let (key, link) = (folder.path().join("key"), folder.path().join("link"));
        fs::write(&key, "x").unwrap();
        symlink(&key, &link).unwrap();
        // A group may read what is root's.
        let of_root = fs::metadata(&key).unwrap().uid() == 0;
        for (mode, is_read) in [(0o600, true), (0o400, true), (0o440, of_root), (0o604, false)] {
            set_mode(&key, mode);
            assert_eq!(open_secret(&link).is_ok(), is_read, "{mode:o}");
            assert!(open_linked(&link).is_ok());
        }
        set_mode(&key, 0o620);
        assert!(matches!(open_linked(&link), Err(TrustError::Writable { .. })));
    }

    #[test]
    fn the_files_of_another_user_are_refused_and_those_of_root_are_not() {
        const ANOTHER: u32 = 12_345;
        let root = fs::metadata("/").unwrap();
        assert!(judge(Path::new("/"), &root, ANOTHER, false).is_ok());
        let file = tempfile::NamedTempFile::new().unwrap();
        let found = fs::metadata(file.path()).unwrap();
        // Root's own file is everybody's to believe, so that root gives it away first.
        if found.uid() == 0 {
            chown(file.path(), Some(ANOTHER), None).unwrap();
            assert!(matches!(open(file.path()), Err(TrustError::Owner { uid: ANOTHER, .. })));
        } else {
            assert!(judge(file.path(), &found, ANOTHER, false).is_err());
        }
    }
}
