//! Makes the changes of a plan.

use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::error::TuneError;
use super::journal::{Item, Journal, Machine, Record};
use super::kept::keep;
use super::normalised;
use super::plan::Plan;

/// What became of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The settings that were changed: name and value as read back.
    pub changed: Vec<(String, String)>,
    /// The settings that could not be changed, and why.
    pub failed: Vec<(String, String)>,
    /// The files that keep them and the limits, where that was asked for.
    pub kept_in: Vec<PathBuf>,
}

/// Makes every change of `plan` below `root` (`/`), with a journal called `name` in `dir`. With
/// `persist` they are kept over a reboot, and its limits are for processes that start later. A setting
/// that cannot be written is noted, and the rest goes on; a journal that cannot be written ends everything
/// before the next change.
pub fn apply(
    disk: &mut dyn Disk,
    root: &Path,
    plan: &Plan,
    dir: &Path,
    name: &str,
    persist: bool,
) -> Result<Applied, TuneError> {
    let mut applied = Applied::default();
    if plan.is_empty(persist) {
        return Ok(applied);
    }
    let head = Record::Begin {
        machine: machine(disk, root),
        boot_id: boot_id(disk, root),
        version: env!("CARGO_PKG_VERSION").to_owned(),
    };
    let mut journal = Journal::begin(disk, dir, name, head)?;
    for (item, change) in plan.changes.iter().enumerate() {
        let path = setting_path(root, &change.name);
        // Read again: the plan may be older than a change that somebody else made.
        let old = disk.read(&path).map(|text| normalised(&text)).unwrap_or_default();
        let new = change.wanted.clone();
        let intended = Item::Sysctl { path: path.clone(), old, new: new.clone() };
        journal.push(disk, Record::Intend { item, change: intended })?;
        let written = disk.write_setting(&path, &new).and_then(|()| disk.read(&path));
        let record = match written {
            Ok(read_back) => {
                let read_back = normalised(&read_back);
                applied.changed.push((change.name.clone(), read_back.clone()));
                Record::Done { item, read_back }
            }
            Err(error) => {
                applied.failed.push((change.name.clone(), error.to_string()));
                Record::Failed { item, error: error.to_string() }
            }
        };
        journal.push(disk, record)?;
    }
    if persist {
        keep(disk, root, plan, &mut journal, &mut applied)?;
    }
    if applied.changed.is_empty() && applied.kept_in.is_empty() {
        journal.push(disk, Record::Closed)?;
    }
    Ok(applied)
}

/// `net.core.somaxconn` is `proc/sys/net/core/somaxconn` below `root`.
pub(super) fn setting_path(root: &Path, name: &str) -> PathBuf {
    root.join("proc/sys").join(name.replace('.', "/"))
}

/// The host below `root`.
pub(super) fn machine(disk: &dyn Disk, root: &Path) -> Machine {
    let word = |path| disk.read(&root.join(path)).unwrap_or_default().trim().to_owned();
    Machine { host: word("proc/sys/kernel/hostname"), machine_id: word("etc/machine-id") }
}

pub(super) fn boot_id(disk: &dyn Disk, root: &Path) -> String {
    disk.read(&root.join("proc/sys/kernel/random/boot_id")).unwrap_or_default().trim().to_owned()
}
