//! Restores what was there before an apply, from its journal.

use std::path::{Path, PathBuf};

use super::apply::{boot_id, host_name};
use super::disk::Disk;
use super::error::TuneError;
use super::journal::{Entry, Item, Journal, Record};
use super::normalised;

/// What became of one change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The old value is back.
    Restored,
    /// It was there already.
    WasThere,
    /// The setting ended with the boot that it was made in, or the kernel no longer has it.
    Gone,
    /// Somebody else has changed it since: it was left as it is.
    ChangedByOthers {
        /// What it is now.
        present: String,
        /// What it was before the apply.
        old: String,
    },
    /// It could not be written.
    Failed(String),
}

/// One change and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// The file of the setting, or the file that was written.
    pub path: PathBuf,
    /// What became of it.
    pub outcome: Outcome,
}

impl Reverted {
    /// Whether the value from before the apply is back, or has no meaning any more.
    pub fn is_settled(&self) -> bool {
        matches!(self.outcome, Outcome::Restored | Outcome::WasThere | Outcome::Gone)
    }
}

/// Takes back every change of `journal` below `root` (`/`), the last one first. With `force` also what
/// somebody else has changed since.
pub fn revert(
    disk: &mut dyn Disk,
    root: &Path,
    mut journal: Journal,
    force: bool,
) -> Result<Vec<Reverted>, TuneError> {
    let ours = host_name(disk, root);
    if journal.host != ours {
        let (path, theirs) = (journal.path().to_owned(), journal.host);
        return Err(TuneError::OtherHost { path, theirs, ours });
    }
    let same_boot = journal.boot_id == boot_id(disk, root);
    let mut all = Vec::new();
    for item in (0..journal.entries.len()).rev() {
        let entry = journal.entries[item].clone();
        if entry.is_settled {
            continue;
        }
        let outcome = match &entry.change {
            Item::Sysctl { .. } if !same_boot => Outcome::Gone,
            Item::Sysctl { path, old, new } => {
                let new = entry.read_back.as_deref().unwrap_or(new);
                restore_setting(disk, path, old, &normalised(new), force)
            }
            Item::File { path, old, new } => restore_file(disk, path, old.as_deref(), new, force),
        };
        let reverted = Reverted { path: path_of(&entry), outcome };
        if reverted.is_settled() {
            journal.push(disk, Record::Reverted { item })?;
        }
        all.push(reverted);
    }
    if journal.entries.iter().all(|entry| entry.is_settled) {
        journal.push(disk, Record::Closed)?;
    }
    Ok(all)
}

fn path_of(entry: &Entry) -> PathBuf {
    entry.change.path().to_owned()
}

fn restore_setting(disk: &mut dyn Disk, path: &Path, old: &str, new: &str, force: bool) -> Outcome {
    let Ok(present) = disk.read(path) else { return Outcome::Gone };
    let present = normalised(&present);
    if present == old {
        return Outcome::WasThere;
    }
    if present != new && !force {
        return Outcome::ChangedByOthers { present, old: old.to_owned() };
    }
    match disk.write_setting(path, old).and_then(|()| disk.read(path)) {
        Ok(text) if normalised(&text) == old => Outcome::Restored,
        Ok(text) => Outcome::Failed(format!("the kernel made {} of {old}", normalised(&text))),
        Err(error) => Outcome::Failed(error.to_string()),
    }
}

fn restore_file(
    disk: &mut dyn Disk,
    path: &Path,
    old: Option<&str>,
    new: &str,
    force: bool,
) -> Outcome {
    let present = disk.read(path).ok();
    if present.as_deref() == old {
        return Outcome::WasThere;
    }
    if present.as_deref() != Some(new) && !force {
        let (present, old) = (present.unwrap_or_default(), old.unwrap_or_default().to_owned());
        return Outcome::ChangedByOthers { present, old };
    }
    match disk.replace(path, old) {
        Ok(()) => Outcome::Restored,
        Err(error) => Outcome::Failed(error.to_string()),
    }
}
