//! Everything that a change does to a host: four operations, so that a test can end the process
//! before, within and after each of them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use plimsoll_sys::output_file;
use plimsoll_sys::whole_file::WholeFile;

/// Reports whether a folder has further files of a unit of systemd.
pub(super) fn is_of_unit(dir: &Path) -> bool {
    dir.to_string_lossy().ends_with(".service.d")
}

/// The host's files.
pub trait Disk {
    /// Reads the text of a file.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Writes a file of `/proc/sys`, at once.
    fn write_setting(&mut self, path: &Path, value: &str) -> io::Result<()>;
    /// Adds a line to the journal and waits until it is on the disk.
    fn append(&mut self, path: &Path, line: &str) -> io::Result<()>;
    /// Puts `text` in the place of a file so that either the old or the new text is there at any time;
    /// `None` removes the file. A file that is replaced keeps its mode and its owner.
    fn replace(&mut self, path: &Path, text: Option<&str>) -> io::Result<()>;
}

/// This host.
#[derive(Clone, Copy, Debug, Default)]
pub struct HostDisk;

impl Disk for HostDisk {
    fn read(&self, path: &Path) -> io::Result<String> {
        fs::read_to_string(path)
    }

    fn write_setting(&mut self, path: &Path, value: &str) -> io::Result<()> {
        // Without O_CREAT: a setting that the kernel does not have is not made.
        output_file::write_setting(path, &format!("{value}\n"))
    }

    fn append(&mut self, path: &Path, line: &str) -> io::Result<()> {
        let mut file = output_file::append(path)?;
        file.write_all(line.as_bytes())?;
        file.sync_all()
    }

    fn replace(&mut self, path: &Path, text: Option<&str>) -> io::Result<()> {
        let dir = path.parent().unwrap_or_else(|| Path::new("/"));
        match text {
            Some(text) => {
                fs::create_dir_all(dir)?;
                let mut file = WholeFile::create_shared(path)?;
                file.write_all(text.as_bytes())?;
                file.finish_on_disk()
            }
            None => match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                // The folder of a unit's files was made for this one, unless others are in it.
                _ if is_of_unit(dir) && fs::remove_dir(dir).is_ok() => Ok(()),
                _ => File::open(dir)?.sync_all(),
            },
        }
    }
}
