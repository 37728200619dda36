//! Files that are written whole or not at all: under another name beside their place, then renamed.
//!
//! [`WholeFile::create`] opens an unused name in the directory of the target, [`WholeFile::finish`] renames it, and
//! dropping the value before that removes it. A replaced file passes on its mode and its owner. Three targets are
//! written in place: a FIFO or device, a file whose directory is not writable, and a file whose owner or mode cannot
//! be set on the new one. Start reading at `WholeFile::begin`.

use std::fs::{File, Metadata, Permissions};
use std::io::{BufWriter, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};
use std::{fs, io};

use crate::output_file;
use crate::output_file::{Found, PRIVATE};
use crate::private_dir::{create_unused, unused_beside};

/// The mode of a new file that other programs and users read.
const SHARED: u32 = 0o644;
/// The part of its mode that a replaced file passes on.
const PERMISSIONS: u32 = 0o777;

/// A file that takes its name when it is complete. Dropped before that, it leaves nothing behind, and an existing file
/// stays as it is.
///
/// The rules of [`output_file`] hold: a new file is private, a replaced one passes on its mode and its owner, and a
/// FIFO or a device is written to directly.
#[derive(Debug)]
pub struct WholeFile {
    out: BufWriter<File>,
    /// `None` if it is written in its place.
    part: Option<Part>,
}

impl WholeFile {
    /// Writes the whole file at once.
    pub fn write(path: &Path, text: &[u8]) -> io::Result<()> {
        let mut file = Self::create(path)?;
        file.write_all(text)?;
        file.finish()
    }

    /// Begins a file; if it is new, only its owner can read it.
    pub fn create(path: &Path) -> io::Result<Self> {
        Self::begin(path, PRIVATE)
    }

    /// Begins a file; if it is new, every user can read it.
    pub fn create_shared(path: &Path) -> io::Result<Self> {
        Self::begin(path, SHARED)
    }

    fn begin(path: &Path, mode: u32) -> io::Result<Self> {
        let in_place = |file: File| Self { out: BufWriter::new(file), part: None };
        let found = match output_file::look(path)? {
            Found::Stream => return output_file::open_stream(path).map(in_place),
            Found::File(found) => Some(found),
            Found::Nothing => None,
        };
        let (part, file) = match Part::create(path, mode) {
            // The file can be written, and its directory cannot.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && found.is_some() => {
                return output_file::rewrite(path).map(in_place);
            }
            created => created?,
        };
        match found {
            // Only root gives files away: this one can be written, and must stay its owner's.
            Some(found) if resemble(&file, &found).is_err() => {
                drop(part);
                output_file::rewrite(path).map(in_place)
            }
            _ => Ok(Self { out: BufWriter::new(file), part: Some(part) }),
        }
    }

    /// Gives the complete file its name.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        self.part.take().map_or(Ok(()), Part::rename)
    }

    /// Gives the complete file its name and waits until both are on the disk.
    pub fn finish_on_disk(mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        let Some(part) = self.part.take() else { return Ok(()) };
        let dir = part.place.parent().filter(|dir| !dir.as_os_str().is_empty());
        let dir = dir.unwrap_or_else(|| Path::new(".")).to_owned();
        part.rename()?;
        File::open(dir)?.sync_all()
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

/// The name under which a file is written, and its own; dropping it removes the file.
#[derive(Debug)]
struct Part {
    path: PathBuf,
    place: PathBuf,
    is_renamed: bool,
}

impl Part {
    fn create(place: &Path, mode: u32) -> io::Result<(Self, File)> {
        let create = |path: &Path| output_file::create_with_mode(path, mode);
        let (path, file) = create_unused(|| unused_beside(place), create)?;
        Ok((Self { path, place: place.to_owned(), is_renamed: false }, file))
    }

    fn rename(mut self) -> io::Result<()> {
        fs::rename(&self.path, &self.place)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.is_renamed {
            // What a full disk has left of it is of no use; the error that ended it is the news.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Gives `file` owner and mode of the one that it will replace.
fn resemble(file: &File, found: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (found.uid(), found.gid()) {
        fchown(file, Some(found.uid()), Some(found.gid()))?;
    }
    file.set_permissions(Permissions::from_mode(found.mode() & PERMISSIONS))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use rustix::process::geteuid;

    use super::*;

    fn names(dir: &Path) -> Vec<String> {
        let entries = fs::read_dir(dir).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
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
        let mut file = WholeFile::create(&path).unwrap();
        file.write_all(b"at last").unwrap();
        file.finish_on_disk().unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "at last");
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
    fn a_device_stays_a_device() {
        let mut null = WholeFile::create(Path::new("/dev/null")).unwrap();
        null.write_all(b"nothing").unwrap();
        null.finish().unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
        let mut full = WholeFile::create(Path::new("/dev/full")).unwrap();
        full.write_all(b"too much").unwrap();
        assert_eq!(full.finish().unwrap_err().kind(), ErrorKind::StorageFull);
    }

    #[test]
    fn a_new_file_is_private_and_a_replaced_one_passes_on_mode_and_owner() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.json");
        WholeFile::write(&path, b"new").unwrap();
        assert_eq!(mode(&path), 0o600);
        fs::set_permissions(&path, Permissions::from_mode(0o4640)).unwrap();
        WholeFile::write(&path, b"replaced").unwrap();
        assert_eq!(mode(&path), 0o640);
        let shared = dir.path().join("b.conf");
        WholeFile::create_shared(&shared).unwrap().finish().unwrap();
        assert_eq!(mode(&shared) & 0o700, 0o600);
        fs::set_permissions(&shared, Permissions::from_mode(0o600)).unwrap();
        WholeFile::create_shared(&shared).unwrap().finish().unwrap();
        assert_eq!(mode(&shared), 0o600);
        // Only root can give a file to another user.
        if geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(12_345), Some(23_456)).unwrap();
            WholeFile::write(&path, b"again").unwrap();
            let found = fs::metadata(&path).unwrap();
            assert_eq!((found.uid(), found.gid()), (12_345, 23_456));
            assert_eq!(mode(&path), 0o640);
        }
    }

    #[test]
    fn what_was_planted_is_untouched() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("target"), "untouched").unwrap();
        symlink(at("target"), at("link")).unwrap();
        // The name that a part had when it was predictable.
        symlink(at("target"), at(&format!(".a.csv.{}.part", std::process::id()))).unwrap();
        assert!(WholeFile::write(&at("link"), b"stolen").is_err());
        WholeFile::write(&at("a.csv"), b"written").unwrap();
        assert_eq!(fs::read_to_string(at("target")).unwrap(), "untouched");
        assert_eq!(fs::read_to_string(at("a.csv")).unwrap(), "written");
        assert!(fs::symlink_metadata(at("a.csv")).unwrap().is_file());
    }
}
