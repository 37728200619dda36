//! Files that are written whole or not at all: under another name beside their place, then renamed.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::{fs, io, process};

/// The mode of a new file: its owner alone reads it.
pub(crate) const OWNER_ONLY: u32 = 0o600;

/// A file that takes its name when it is complete. Dropped before that, it leaves nothing behind, and what
/// was there before stays.
///
/// A pipe, a device or `/dev/null` is written to directly: it has no name to give away.
#[derive(Debug)]
pub struct WholeFile {
    out: BufWriter<File>,
    /// Where it is written, and its name; `None` where it is written in its place.
    part: Option<(PathBuf, PathBuf)>,
}

impl WholeFile {
    /// The whole file at once.
    pub fn write(path: &Path, text: &[u8]) -> io::Result<()> {
        let mut file = Self::create(path)?;
        file.write_all(text)?;
        file.finish()
    }

    /// Begins the file.
    pub fn create(path: &Path) -> io::Result<Self> {
        // A link stays one: what it leads to is replaced.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let found = fs::metadata(&place);
        if found.as_ref().is_ok_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(&place)?;
            return Ok(Self { out: BufWriter::new(file), part: None });
        }
        let part = part_of(&place)?;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(OWNER_ONLY);
        let file = match options.open(&part) {
            // A file that may be written in a folder that may not.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && found.is_ok() => {
                let file = OpenOptions::new().write(true).truncate(true).open(&place)?;
                return Ok(Self { out: BufWriter::new(file), part: None });
            }
            created => created?,
        };
        let begun = Self { out: BufWriter::new(file), part: Some((part, place)) };
        if let (Ok(found), Some((part, _))) = (found, &begun.part) {
            fs::set_permissions(part, found.permissions())?;
        }
        Ok(begun)
    }

    /// The file is complete and takes its name.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        match &self.part {
            None => Ok(()),
            Some((part, place)) => {
                fs::rename(part, place)?;
                self.part = None;
                Ok(())
            }
        }
    }
}

impl Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if let Some((part, _)) = &self.part {
            // What a full disk has left of it is of no use; the error that ended it is the news.
            let _ = fs::remove_file(part);
        }
    }
}

/// `.report.csv.4711.part` beside `report.csv`: two processes that write one file do not mix.
fn part_of(place: &Path) -> io::Result<PathBuf> {
    let Some(name) = place.file_name() else {
        return Err(io::Error::new(ErrorKind::IsADirectory, "it is a directory"));
    };
    let name = format!(".{}.{}.part", name.to_string_lossy(), process::id());
    Ok(place.with_file_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_is_there_when_it_is_complete() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        fs::write(&path, "before").unwrap();
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"after").unwrap();
        file.flush().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "before");
        file.finish().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "after");
        assert_eq!(names(dir.path()), ["a.csv"]);
    }

    #[test]
    fn one_that_is_given_up_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.csv");
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        drop(file);
        assert_eq!(names(dir.path()), Vec::<String>::new());
        assert!(WholeFile::create(&dir.path().join("no/such")).is_err());
        assert!(WholeFile::create(dir.path()).is_err());
    }

    #[test]
    fn a_device_stays_a_device_and_a_link_a_link() {
        let mut null = WholeFile::create(Path::new("/dev/null")).unwrap();
        null.write_all(b"nothing").unwrap();
        null.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let mut full = WholeFile::create(Path::new("/dev/full")).unwrap();
        full.write_all(b"too much").unwrap();
        assert_eq!(full.finish().unwrap_err().kind(), ErrorKind::StorageFull);
        let dir = tempfile::tempdir().unwrap();
        let (target, link) = (dir.path().join("target"), dir.path().join("link"));
        fs::write(&target, "before").unwrap();
        std::os::unix::fs::symlink(&target, &link).unwrap();
        let mut file = WholeFile::create(&link).unwrap();
        file.write_all(b"after").unwrap();
        file.finish().unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(&target).unwrap(), "after");
    }
}
