//! What was changed, written before it is changed.
//!
//! One directory for each apply, with `journal.jsonl`: a record in each line, with its number and a
//! checksum. A last line that was not written to its end announces a change that was not begun.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use plimsoll_sys::file_lock;
use serde::{Deserialize, Serialize};

use super::disk::Disk;
use super::error::TuneError;

/// The journal's file in its directory.
const FILE: &str = "journal.jsonl";
/// Held while an apply or a revert is going on.
const LOCK: &str = "lock";

/// What is changed: a setting of the running kernel, or a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(super) enum Item {
    /// A file below `/proc/sys`; gone with the next boot.
    Sysctl { path: PathBuf, old: String, new: String },
    /// A whole file; `None` where there was none.
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
    Begin { host: String, boot_id: String, version: String },
    /// Item `item` is about to be changed.
    Intend { item: usize, change: Item },
    /// It was changed, and reads like this now.
    Done { item: usize, read_back: String },
    /// It could not be changed.
    Failed { item: usize, error: String },
    /// It is as it was before, or is left alone for good.
    Reverted { item: usize },
    /// Nothing is left to revert.
    Closed,
}

#[derive(Serialize, Deserialize)]
struct Line {
    n: usize,
    crc: u32,
    #[serde(flatten)]
    record: Record,
}

impl Line {
    fn new(n: usize, record: Record) -> Self {
        let mut line = Self { n, crc: 0, record };
        line.crc = line.checksum();
        line
    }

    fn checksum(&self) -> u32 {
        let text = serde_json::to_string(&self.record).unwrap_or_default();
        crc32fast::hash(format!("{} {text}", self.n).as_bytes())
    }
}

/// One item as its records leave it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) change: Item,
    /// What it read like after the change; `None` where the process ended before it was read.
    pub(super) read_back: Option<String>,
    /// Nothing is to be reverted: it was never changed, or is reverted.
    pub(super) is_settled: bool,
}

/// One apply.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    lines: usize,
    pub(super) host: String,
    pub(super) boot_id: String,
    pub(super) entries: Vec<Entry>,
    pub(super) is_closed: bool,
}

/// Keeps every other apply and revert away from `dir` as long as it lives; makes `dir`.
pub fn lock(dir: &Path) -> Result<File, TuneError> {
    fs::create_dir_all(dir).map_err(TuneError::io(dir))?;
    let path = dir.join(LOCK);
    let file = File::create(&path).map_err(TuneError::io(&path))?;
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
        fs::create_dir_all(&place).map_err(TuneError::io(&place))?;
        let path = place.join(FILE);
        let (host, boot_id) = (String::new(), String::new());
        let entries = Vec::new();
        let mut journal = Self { path, lines: 0, host, boot_id, entries, is_closed: false };
        journal.push(disk, head)?;
        // The directory's entry for the file must be on the disk, too.
        File::open(&place).and_then(|dir| dir.sync_all()).map_err(TuneError::io(&place))?;
        Ok(journal)
    }

    /// The newest journal in `dir` that has something to revert.
    pub fn newest(disk: &dyn Disk, dir: &Path) -> Result<Self, TuneError> {
        let nothing = || TuneError::Nothing { dir: dir.to_owned() };
        let mut places: Vec<PathBuf> = match fs::read_dir(dir) {
            Ok(found) => found.flatten().map(|entry| entry.path().join(FILE)).collect(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err(nothing()),
            Err(error) => return Err(TuneError::io(dir)(error)),
        };
        places.retain(|path| path.is_file());
        places.sort();
        for path in places.into_iter().rev() {
            let journal = Self::read(disk, &path)?;
            // Without its first line, nothing was begun.
            if !journal.is_closed && journal.lines > 0 {
                return Ok(journal);
            }
        }
        Err(nothing())
    }

    fn read(disk: &dyn Disk, path: &Path) -> Result<Self, TuneError> {
        // A line that was not written to its end may end within a character.
        let text = disk.read_bytes(path).map_err(TuneError::io(path))?;
        let mut journal = Self {
            path: path.to_owned(),
            lines: 0,
            host: String::new(),
            boot_id: String::new(),
            entries: Vec::new(),
            is_closed: false,
        };
        let lines: Vec<&[u8]> = text.split_inclusive(|byte| *byte == b'\n').collect();
        for (index, line) in lines.iter().enumerate() {
            let parsed = serde_json::from_slice::<Line>(line).ok();
            let valid = parsed.filter(|line| line.n == index && line.crc == line.checksum());
            let is_first = |line: &Line| matches!(line.record, Record::Begin { .. });
            let valid = valid.filter(|line| is_first(line) == (index == 0));
            match valid.map(|line| journal.add(line.record)) {
                Some(true) => journal.lines += 1,
                // The process ended while it wrote this line: what it announces was not begun.
                _ if index + 1 == lines.len() && !line.ends_with(b"\n") => {
                    return journal.without_torn_line();
                }
                _ => return Err(TuneError::Damaged { path: path.to_owned(), line: index + 1 }),
            }
        }
        Ok(journal)
    }

    /// A torn line is cut off, so that the next record begins a line of its own.
    fn without_torn_line(self) -> Result<Self, TuneError> {
        let cut = || {
            let text = fs::read(&self.path)?;
            let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
            File::options().write(true).open(&self.path)?.set_len(whole as u64)
        };
        cut().map_err(TuneError::io(&self.path))?;
        Ok(self)
    }

    /// False for a record that cannot stand there.
    fn add(&mut self, record: Record) -> bool {
        let count = self.entries.len();
        match record {
            Record::Begin { host, boot_id, .. } => (self.host, self.boot_id) = (host, boot_id),
            Record::Intend { item, change } => {
                self.entries.push(Entry { change, read_back: None, is_settled: false });
                return item == count;
            }
            Record::Done { item, read_back } => match self.entries.get_mut(item) {
                Some(entry) => entry.read_back = Some(read_back),
                None => return false,
            },
            Record::Failed { item, .. } | Record::Reverted { item } => {
                match self.entries.get_mut(item) {
                    Some(entry) => entry.is_settled = true,
                    None => return false,
                }
            }
            Record::Closed => self.is_closed = true,
        }
        true
    }

    /// Writes a record and waits until it is on the disk.
    pub(super) fn push(&mut self, disk: &mut dyn Disk, record: Record) -> Result<(), TuneError> {
        let line = Line::new(self.lines, record);
        // Paths and text can always be written.
        let text = serde_json::to_string(&line).unwrap_or_default() + "\n";
        disk.append(&self.path, &text).map_err(TuneError::io(&self.path))?;
        self.lines += 1;
        self.add(line.record);
        Ok(())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
