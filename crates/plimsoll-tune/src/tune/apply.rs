//! Makes the changes of a plan.

use std::path::{Path, PathBuf};

use super::disk::Disk;
use super::error::TuneError;
use super::journal::{Item, Journal, Machine, Record};
use super::kept::keep;
use super::normalised;
use super::plan::{Change, Plan};

/// The result of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// The settings that were changed as planned: name and value as read back.
    pub changed: Vec<(String, String)>,
    /// The settings that were not changed, or not as planned, and why.
    pub failed: Vec<(String, String)>,
    /// The files that keep them and the limits, where that was asked for.
    pub kept_in: Vec<PathBuf>,
    /// `true` if a revert has something to take back.
    pub is_revertible: bool,
}

/// Makes every change of `plan` below `root` (`/`), with a journal called `name` in `dir`. With `persist` the changes
/// outlive a reboot, and the limits of the plan apply to processes that start later. A setting that differs from its
/// value in the plan is left alone: another program may have raised it. A setting that cannot be written is noted, and
/// the others are still changed. A journal that cannot be written ends `apply` before the next change.
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
    for change in &plan.changes {
        match make(disk, root, change, &mut journal)? {
            Ok(read_back) => applied.changed.push((change.name.clone(), read_back)),
            Err(why) => applied.failed.push((change.name.clone(), why)),
        }
    }
    if persist {
        keep(disk, root, plan, &mut journal, &mut applied)?;
    }
    applied.is_revertible = !journal.is_settled();
    if !applied.is_revertible {
        journal.push(disk, Record::Closed)?;
    }
    Ok(applied)
}

/// Makes one change and returns the value that the kernel reports afterwards, or why it is not the planned one.
fn make(
    disk: &mut dyn Disk,
    root: &Path,
    change: &Change,
    journal: &mut Journal,
) -> Result<Result<String, String>, TuneError> {
    let (path, wanted) = (setting_path(root, &change.name), &change.wanted);
    let old = match disk.read(&path) {
        Ok(text) => normalised(&text),
        Err(error) => return Ok(Err(format!("cannot be read: {error}"))),
    };
    if old != change.present {
        return Ok(Err(format!(
            "left alone: it was {} when the plan was made, and somebody has set it to {old} since; plan again",
            change.present
        )));
    }
    let item = journal.entries.len();
    let intended = Item::Sysctl { path: path.clone(), old: old.clone(), new: wanted.clone() };
    journal.push(disk, Record::Intend { item, change: intended })?;
    let written = disk.write_setting(&path, wanted);
    let read_back = disk.read(&path).map(|text| normalised(&text));
    let made = match (written, read_back) {
        (Err(error), Ok(now)) if now == old => {
            let error = error.to_string();
            journal.push(disk, Record::Failed { item, error: error.clone() })?;
            Err(error)
        }
        (written, Ok(now)) => {
            journal.push(disk, Record::Done { item, read_back: now.clone() })?;
            match written {
                Err(error) => Err(format!("{error}; it is {now} now")),
                Ok(()) if !is_reached(&old, wanted, &now) => {
                    Err(format!("the kernel made {now} of {wanted}"))
                }
                Ok(()) => Ok(now),
            }
        }
        // No record says how it ended, so a revert restores it if it can.
        (Ok(()), Err(error)) => Err(format!("written, but it cannot be read back: {error}")),
        (Err(error), Err(_)) => Err(error.to_string()),
    };
    Ok(made)
}

/// Reports whether `now` is the wanted value. A limit that is raised may be rounded up.
fn is_reached(old: &str, wanted: &str, now: &str) -> bool {
    let numbers = || Some((old.parse().ok()?, wanted.parse().ok()?, now.parse().ok()?));
    let is_raised = |(old, wanted, now): (u64, u64, u64)| wanted > old && now >= wanted;
    now == wanted || numbers().is_some_and(is_raised)
}

/// Returns the path of a setting: `net.core.somaxconn` is `proc/sys/net/core/somaxconn` below `root`.
pub(super) fn setting_path(root: &Path, name: &str) -> PathBuf {
    root.join("proc/sys").join(name.replace('.', "/"))
}

/// Returns the host below `root`.
pub(super) fn machine(disk: &dyn Disk, root: &Path) -> Machine {
    let word = |path| disk.read(&root.join(path)).unwrap_or_default().trim().to_owned();
    Machine { host: word("proc/sys/kernel/hostname"), machine_id: word("etc/machine-id") }
}

pub(super) fn boot_id(disk: &dyn Disk, root: &Path) -> String {
    disk.read(&root.join("proc/sys/kernel/random/boot_id")).unwrap_or_default().trim().to_owned()
}
