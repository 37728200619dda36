//! Directories that only their owner can enter: scratch directories under unpredictable names, and directories that a
//! user names.

use std::collections::hash_map::RandomState;
use std::env;
use std::fs;
use std::fs::DirBuilder;
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Error, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The mode of a directory that only its owner can enter.
const PRIVATE: u32 = 0o700;
/// The mode of missing directories above one that a user names.
const PARENT: u32 = 0o755;
/// Names that are tried before a name that exists is an error: a second one is needed about never.
const ATTEMPTS_MAX: u32 = 8;

/// Creates the directory `path`, which only its owner can enter.
///
/// # Errors
///
/// If there is anything at `path`, also a link.
pub fn create(path: &Path) -> io::Result<()> {
    DirBuilder::new().mode(PRIVATE).create(path)
}

/// Creates the directory `path` unless it exists, with the missing ones above it. An existing one stays as it is.
///
/// # Errors
///
/// If there is something else at `path`, also a link to a directory.
pub fn create_missing(path: &Path) -> io::Result<()> {
    match create(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            create_parents(path)?;
            create(path)
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let kind = fs::symlink_metadata(path)?.file_type();
            match (kind.is_dir(), kind.is_symlink()) {
                (true, _) => Ok(()),
                (_, true) => Err(Error::other("it is a symbolic link; name the directory itself")),
                _ => Err(Error::new(ErrorKind::NotADirectory, "it is not a directory")),
            }
        }
        created => created,
    }
}

fn create_parents(path: &Path) -> io::Result<()> {
    match path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        Some(dir) => DirBuilder::new().recursive(true).mode(PARENT).create(dir),
        None => Ok(()),
    }
}

/// Returns a path in the directory for temporary files, for a directory that another process [creates](create).
pub fn unused_path(prefix: &str) -> PathBuf {
    env::temp_dir().join(format!("{prefix}-{}", unforeseen()))
}

/// Returns a path in the same directory as `path`.
pub(crate) fn unused_beside(path: &Path) -> io::Result<PathBuf> {
    if path.file_name().is_none() {
        return Err(Error::new(ErrorKind::IsADirectory, "it is a directory"));
    }
    Ok(path.with_file_name(format!(".plimsoll-{}.part", unforeseen())))
}

/// Creates something at a name that is unused, and tries others if somebody takes it first.
pub(crate) fn create_unused<T>(
    unused: impl Fn() -> io::Result<PathBuf>,
    create: impl Fn(&Path) -> io::Result<T>,
) -> io::Result<(PathBuf, T)> {
    let mut attempts_left = ATTEMPTS_MAX;
    loop {
        let path = unused()?;
        attempts_left -= 1;
        match create(&path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && attempts_left > 0 => {}
            created => return created.map(|created| (path, created)),
        }
    }
}

/// Sixteen digits that another user cannot foresee. Whatever is created by such a name is created exclusively, so a
/// guess delays and gains nothing.
fn unforeseen() -> String {
    // Its keys are the system's random bytes.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// A directory for files that are needed for a while. Dropping it removes it.
#[derive(Debug)]
pub struct ScratchDir {
    path: PathBuf,
    is_renamed: bool,
}

impl ScratchDir {
    /// Creates one in the directory for temporary files; its name begins with `prefix`.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::create_at(|| Ok(unused_path(prefix)))
    }

    /// Creates one in the same directory as `path`, with the missing directories above it, for content that
    /// [becomes](Self::rename) `path` once it is complete.
    pub fn beside(path: &Path) -> io::Result<Self> {
        create_parents(path)?;
        Self::create_at(|| unused_beside(path))
    }

    fn create_at(unused: impl Fn() -> io::Result<PathBuf>) -> io::Result<Self> {
        let (path, ()) = create_unused(unused, create)?;
        Ok(Self { path, is_renamed: false })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Gives it the name `to`, where nothing is, or an empty directory.
    pub fn rename(mut self, to: &Path) -> io::Result<()> {
        fs::rename(&self.path, to)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if !self.is_renamed {
            // A leftover in a directory for temporary files is harmless.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt, symlink};

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_scratch_directory_is_private_new_and_removed() {
        let (one, other) = (ScratchDir::new("test").unwrap(), ScratchDir::new("test").unwrap());
        assert_ne!(one.path(), other.path());
        assert_eq!(mode(one.path()), 0o700);
        let path = one.path().to_owned();
        fs::write(path.join("file"), "x").unwrap();
        drop(one);
        assert!(!path.exists());
    }

    #[test]
    fn it_takes_a_name_once_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join("runs/run.2");
        // A result whose name only resembles the part's.
        fs::create_dir_all(folder.path().join("runs/run.part")).unwrap();
        let scratch = ScratchDir::beside(&place).unwrap();
        fs::write(scratch.path().join("file"), "x").unwrap();
        scratch.rename(&place).unwrap();
        drop(ScratchDir::beside(&place).unwrap());
        let mut names: Vec<_> = fs::read_dir(folder.path().join("runs"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        names.sort();
        assert_eq!(names, ["run.2", "run.part"]);
        assert!(place.join("file").exists());
        assert!(ScratchDir::beside(Path::new("/")).is_err());
    }

    #[test]
    fn planted_directories_links_and_files_are_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("theirs")).unwrap();
        fs::write(at("file"), "x").unwrap();
        symlink(at("theirs"), at("link")).unwrap();
        symlink(at("nothing"), at("dangling")).unwrap();
        for name in ["theirs", "file", "link", "dangling"] {
            assert_eq!(create(&at(name)).unwrap_err().kind(), ErrorKind::AlreadyExists, "{name}");
        }
        for name in ["file", "link", "dangling"] {
            assert!(create_missing(&at(name)).is_err(), "{name}");
        }
        create_missing(&at("theirs")).unwrap();
        create_missing(&at("new/inner")).unwrap();
        assert_eq!((mode(&at("new/inner")), at("nothing").exists()), (0o700, false));
        assert_eq!(fs::read_dir(at("theirs")).unwrap().count(), 0);
        // The names that are taken are passed over, up to a bound.
        let names = std::cell::RefCell::new(vec![at("free"), at("theirs"), at("link")]);
        let next = || names.borrow_mut().pop().ok_or_else(|| Error::other("no more"));
        assert_eq!(ScratchDir::create_at(next).unwrap().path(), at("free"));
        let taken = ScratchDir::create_at(|| Ok(at("link"))).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AlreadyExists);
        assert!(at("theirs").exists());
    }
}
