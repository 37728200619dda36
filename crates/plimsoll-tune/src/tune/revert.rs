//! Restores the settings from before an apply, from its journal.
//!
//! [`revert`] checks the journal first: a path that `apply` never writes is refused before any change, and so is
//! another host's journal unless `force` is set. Then it undoes the entries from the last to the first and records
//! each one in the journal. A value that is neither the old nor the new one belongs to somebody else and stays, again
//! unless forced. Kernel settings of an earlier boot count as gone. Each entry gives a [`Reverted`] with its
//! [`Reversal`]. Start with [`revert`].

use std::io;
use std::path::{Component, Path, PathBuf};

use super::apply::{boot_id, machine};
use super::disk::Disk;
use super::error::TuneError;
use super::journal::{Item, Journal, Record};
use super::{kept, normalised};

/// The result of one reversal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reversal {
    /// The old value is back.
    Restored,
    /// The setting had the old value already.
    WasThere,
    /// The setting ended with the boot that it was made in, or the kernel no longer has it.
    Gone,
    /// Somebody else has changed it since: it was left as it is.
    ChangedByOthers {
        /// Present value.
        present: String,
        /// Value before the apply.
        old: String,
    },
    /// The setting could not be written.
    Failed(String),
}

/// One change and what became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reverted {
    /// The file of the setting, or the file that was written.
    pub path: PathBuf,
    /// The result.
    pub outcome: Reversal,
}

impl Reverted {
    /// Reports whether the value from before the apply is back, or has no meaning any more.
    pub fn is_settled(&self) -> bool {
        matches!(self.outcome, Reversal::Restored | Reversal::WasThere | Reversal::Gone)
    }
}

/// Takes back every change of `journal` below `root` (`/`), the last one first. With `force` also what
/// somebody else has changed since, and what another host has changed.
///
/// # Errors
///
/// If the journal is another host's, or names a file that `apply` does not change: then nothing is changed.
pub fn revert(
    disk: &mut dyn Disk,
    root: &Path,
    mut journal: Journal,
    force: bool,
) -> Result<Vec<Reverted>, TuneError> {
    let ours = machine(disk, root);
    if !journal.machine.is(&ours) && !force {
        let (path, theirs) = (journal.path().to_owned(), journal.machine.host);
        return Err(TuneError::OtherHost { path, theirs, ours: ours.host });
    }
    if let Some(entry) = journal.entries.iter().find(|entry| !is_ours(root, &entry.change)) {
        let (path, changed) = (journal.path().to_owned(), entry.change.path().to_owned());
        return Err(TuneError::NotOurs { path, changed });
    }
    let same_boot = journal.boot_id == boot_id(disk, root);
    let mut all = Vec::new();
    for item in (0..journal.entries.len()).rev() {
        let entry = journal.entries[item].clone();
        if entry.is_settled {
            continue;
        }
        let outcome = match &entry.change {
            Item::Sysctl { .. } if !same_boot => Reversal::Gone,
            Item::Sysctl { path, old, new } => {
                let new = entry.read_back.as_deref().unwrap_or(new);
                restore_setting(disk, path, old, &normalised(new), force)
            }
            Item::File { path, old, new } => restore_file(disk, path, old.as_deref(), new, force),
        };
        let reverted = Reverted { path: entry.change.path().to_owned(), outcome };
        if reverted.is_settled() {
            journal.push(disk, Record::Reverted { item })?;
        }
        all.push(reverted);
    }
    if journal.is_settled() {
        journal.push(disk, Record::Closed)?;
    }
    Ok(all)
}

/// Reports whether `apply` makes such a change: a setting of the kernel, or one of the files of `--persist`.
fn is_ours(root: &Path, change: &Item) -> bool {
    let Ok(below) = change.path().strip_prefix(root) else { return false };
    if !below.components().all(|part| matches!(part, Component::Normal(_))) {
        return false;
    }
    match change {
        Item::Sysctl { .. } => below.starts_with("proc/sys"),
        Item::File { .. } => kept::is_kept_file(below),
    }
}

fn restore_setting(
    disk: &mut dyn Disk,
    path: &Path,
    old: &str,
    new: &str,
    force: bool,
) -> Reversal {
    let present = match disk.read(path) {
        Ok(present) => normalised(&present),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Reversal::Gone,
        Err(error) => return Reversal::Failed(error.to_string()),
    };
    if present == old {
        return Reversal::WasThere;
    }
    if present != new && !force {
        return Reversal::ChangedByOthers { present, old: old.to_owned() };
    }
    match disk.write_setting(path, old).and_then(|()| disk.read(path)) {
        Ok(text) if normalised(&text) == old => Reversal::Restored,
        Ok(text) => Reversal::Failed(format!("the kernel made {} of {old}", normalised(&text))),
        Err(error) => Reversal::Failed(error.to_string()),
    }
}

fn restore_file(
    disk: &mut dyn Disk,
    path: &Path,
    old: Option<&str>,
    new: &str,
    force: bool,
) -> Reversal {
    let present = match kept::read_existing(disk, path) {
        Ok(present) => present,
        Err(error) => return Reversal::Failed(error.to_string()),
    };
    if present.as_deref() == old {
        return Reversal::WasThere;
    }
    if present.as_deref() != Some(new) && !force {
        let (present, old) = (present.unwrap_or_default(), old.unwrap_or_default().to_owned());
        return Reversal::ChangedByOthers { present, old };
    }
    match disk.replace(path, old) {
        Ok(()) => Reversal::Restored,
        Err(error) => Reversal::Failed(error.to_string()),
    }
}
