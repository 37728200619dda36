//! The journal of changes, written before each change.
//!
//! One directory for each apply, with `journal.jsonl`: a record in each line, with its number and a
//! checksum. A last line that was not written to its end announces a change that was not begun.
//!
//! A revert does as root what a journal says, so a journal is read only if no other user can have written it: the
//! directory of journals, those above it, and every file in it are root's or this user's, and others cannot write
//! them.

use std::fs::{self, File};
use std::io;
use std::io::Read;
use std::path::{Path, PathBuf};

use plimsoll_sys::{file_lock, output_file, private_dir, trusted_file};
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::error::TuneError;

/// The journal's file in its directory.
const FILE: &str = "journal.jsonl";
/// Held while an apply or a revert is going on.
const LOCK: &str = "lock";
/// The largest journal: some hundred changes, with files that were there before.
const BYTES_MAX: u64 = 16 << 20;

/// The changed item: a setting of the running kernel, or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Item {
    /// A file below `/proc/sys`; gone with the next boot.
    Sysctl { path: PathBuf, old: String, new: String },
    /// A whole file; `None` if there was none.
    File { path: PathBuf, old: Option<String>, new: String },
}

impl Item {
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Sysctl { path, .. } | Self::File { path, .. } => path,
        }
    }
}

/// One line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub(super) enum Record {
    /// The first line.
    Begin {
        #[serde(flatten)]
        machine: Machine,
        boot_id: String,
        version: String,
    },
    /// Item `item` is about to be changed.
    Intend { item: usize, change: Item },
    /// The setting was changed, and has this value now.
    Done { item: usize, read_back: String },
    /// The setting could not be changed.
    Failed { item: usize, error: String },
    /// The setting has its former value, or is left alone for good.
    Reverted { item: usize },
    /// No change is left to revert.
    Closed,
}

/// The identity of a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Machine {
    /// Name of the host, which can change.
    pub(super) host: String,
    /// The host's `/etc/machine-id`, which does not; empty if it has none.
    pub(super) machine_id: String,
}

impl Machine {
    /// Reports whether both are the same host. The name counts only if one of them has no machine ID.
    pub(super) fn is(&self, other: &Self) -> bool {
        if self.machine_id.is_empty() || other.machine_id.is_empty() {
            self.host == other.host
        } else {
            self.machine_id == other.machine_id
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Line {
    n: usize,
    crc: u32,
    #[serde(flatten)]
    record: Record,
}

impl Line {
    fn checksum(&self) -> u32 {
        let text = serde_json::to_string(&self.record).unwrap_or_default();
        crc32fast::hash(format!("{} {text}", self.n).as_bytes())
    }
}

/// One item as its records leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) change: Item,
    /// Value read after the change; `None` if it could not be read, or the process ended before.
    pub(super) read_back: Option<String>,
    /// `true` if the entry needs no reversal: the setting was never changed, or is reverted.
    pub(super) is_settled: bool,
}

/// One apply.
#[derive(Debug, Default)]
pub struct Journal {
    path: PathBuf,
    lines: usize,
    pub(super) machine: Machine,
    pub(super) boot_id: String,
    pub(super) entries: Vec<Entry>,
    pub(super) is_closed: bool,
}

/// Keeps every other apply and revert away from `dir` as long as it lives; creates `dir`.
///
/// # Errors
///
/// If another one is going on, or if other users can write `dir`.
pub fn lock(dir: &Path) -> Result<File, TuneError> {
    private_dir::create_missing(dir).map_err(TuneError::io(dir))?;
    trusted_file::check_dir(dir)?;
    let path = dir.join(LOCK);
    let file = file_lock::open(&path).map_err(TuneError::io(&path))?;
    match file_lock::try_lock(&file) {
        Ok(true) => Ok(file),
        Ok(false) => Err(TuneError::Busy { dir: dir.to_owned() }),
        Err(error) => Err(TuneError::io(&path)(error)),
    }
}

impl Journal {
    /// Begins the journal `name` in `dir`.
    pub(super) fn begin(
        disk: &mut dyn Disk,
        dir: &Path,
        name: &str,
        head: Record,
    ) -> Result<Self, TuneError> {
        let place = dir.join(name);
        private_dir::create_missing(dir).map_err(TuneError::io(dir))?;
        private_dir::create(&place).map_err(TuneError::io(&place))?;
        let mut journal = Self { path: place.join(FILE), ..Self::default() };
        journal.push(disk, head)?;
        // The entries for the file and its directory must be on the disk, too.
        for dir in [place.as_path(), dir] {
            File::open(dir).and_then(|dir| dir.sync_all()).map_err(TuneError::io(dir))?;
        }
        Ok(journal)
    }

    /// Returns the newest journal in `dir` that has something to revert.
    ///
    /// # Errors
    ///
    /// If there is none, or if another user can have written it.
    pub fn newest(dir: &Path) -> Result<Self, TuneError> {
        let nothing = || TuneError::Nothing { dir: dir.to_owned() };
        let found = match fs::read_dir(dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(nothing()),
            found => found.map_err(TuneError::io(dir))?,
        };
        trusted_file::check_dir(dir)?;
        let mut places = Vec::new();
        for entry in found {
            let entry = entry.map_err(TuneError::io(dir))?;
            let kind = entry.file_type().map_err(TuneError::io(dir))?;
            places.extend(Some(entry.path()).filter(|_| kind.is_dir()));
        }
        places.sort();
        for place in places.into_iter().rev() {
            trusted_file::check_entry(&place)?;
            let Some(journal) = Self::read(&place.join(FILE))? else { continue };
            // Without its first line, nothing was begun.
            if !journal.is_closed && journal.lines > 0 {
                return Ok(journal);
            }
        }
        Err(nothing())
    }

    /// Reads the journal at `path`; `None` if there is none.
    fn read(path: &Path) -> Result<Option<Self>, TuneError> {
        let text = match trusted_file::open(path).map_err(TuneError::from) {
            Err(error) if error.is_not_found() => return Ok(None),
            file => read_bounded(file?).map_err(TuneError::io(path))?,
        };
        let mut journal = Self { path: path.to_owned(), ..Self::default() };
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        for (index, line) in lines.iter().enumerate() {
            let is_whole = line.ends_with(b"\n");
            let parsed = serde_json::from_slice::<Line>(line).ok().filter(|_| is_whole);
            let valid = parsed.filter(|line| line.n == index && line.crc == line.checksum());
            let is_first = |line: &Line| matches!(line.record, Record::Begin { .. });
            let valid = valid.filter(|line| is_first(line) == (index == 0));
            match valid.map(|line| journal.add(line.record)) {
                Some(true) => journal.lines += 1,
                // The process ended while it wrote this line: what it announces was not begun.
                _ if index + 1 == lines.len() && !is_whole => {
                    // It is cut off, so that the next record begins a new line.
                    let whole = (text.len() - line.len()) as u64;
                    let cut = output_file::open_existing(path).and_then(|file| file.set_len(whole));
                    cut.map_err(TuneError::io(path))?;
                }
                _ => return Err(TuneError::Damaged { path: path.to_owned(), line: index + 1 }),
            }
        }
        Ok(Some(journal))
    }

    /// Adds a record; returns `false` if the record cannot be at this place.
    fn add(&mut self, record: Record) -> bool {
        let count = self.entries.len();
        match record {
            Record::Begin { machine, boot_id, .. } => {
                (self.machine, self.boot_id) = (machine, boot_id);
            }
            Record::Intend { item, change } => {
                self.entries.push(Entry { change, read_back: None, is_settled: false });
                return item == count;
            }
            Record::Done { item, read_back } => {
                let Some(entry) = self.entries.get_mut(item) else { return false };
                entry.read_back = Some(read_back);
            }
            Record::Failed { item, .. } | Record::Reverted { item } => {
                let Some(entry) = self.entries.get_mut(item) else { return false };
                entry.is_settled = true;
            }
            Record::Closed => self.is_closed = true,
        }
        true
    }

    /// Writes a record and waits until it is on the disk.
    pub(super) fn push(&mut self, disk: &mut dyn Disk, record: Record) -> Result<(), TuneError> {
        let mut line = Line { n: self.lines, crc: 0, record };
        line.crc = line.checksum();
        // Paths and text can always be written.
        let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
        disk.append(&self.path, &text).map_err(TuneError::io(&self.path))?;
        self.lines += 1;
        self.add(line.record);
        Ok(())
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reports whether nothing is left to revert.
    pub(super) fn is_settled(&self) -> bool {
        self.entries.iter().all(|entry| entry.is_settled)
    }
}

fn read_bounded(file: File) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let bytes = file.take(BYTES_MAX + 1).read_to_end(&mut text)? as u64;
    if bytes > BYTES_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "it is larger than 16 MiB"));
    }
    Ok(text)
}
