//! Files that keep settings over a reboot, and limits for processes that start later.
//!
//! `keep` writes two files at most: one of sysctls, and one of process limits for the parent that [`StartedBy`] names
//! (a systemd unit or a login). Each write replaces a whole file. Lines of an earlier apply stay with their comments
//! unless the new ones have their key. The journal has the intended text before the file changes and a record of
//! completion after it, so that `revert` can restore the old file. Start with `keep`.

use std::io;
use std::path::Path;

use super::apply::Applied;
use super::disk::{Disk, is_of_unit};
use super::error::TuneError;
use super::journal::{Item, Journal, Record};
use super::plan::{Change, Plan};
use crate::doctor::{SYSCTL_FILE, UNIT_FILE};

/// First line of each file that [`keep`] writes.
const HEAD: &str = "# Written by plimsoll tune apply --persist; plimsoll tune revert removes it.\n";
/// File of the limits of processes that a login starts (pam_limits).
const LOGIN_FILE: &str = "/etc/security/limits.d/60-plimsoll.conf";

/// The parent of the processes whose limits are raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartedBy {
    /// systemd, as this unit: `haproxy`, without `.service`.
    Unit(String),
    /// A person's login.
    Login,
}

impl StartedBy {
    /// Finds the parent of process `pid`, by the control group that it is in; a login if it is in no unit of the
    /// system.
    pub fn of(disk: &dyn Disk, root: &Path, pid: Option<u32>) -> Self {
        let groups = pid.and_then(|pid| disk.read(&root.join(format!("proc/{pid}/cgroup"))).ok());
        let groups = groups.unwrap_or_default();
        let unit = groups.lines().filter_map(systemd_group).find_map(system_unit);
        unit.map_or(Self::Login, |unit| Self::Unit(unit.to_owned()))
    }

    /// Returns the file that keeps limits.
    pub(super) fn file(&self) -> String {
        match self {
            Self::Unit(unit) => UNIT_FILE.replace("UNIT", unit),
            Self::Login => LOGIN_FILE.to_owned(),
        }
    }

    /// Returns the time from which the limits apply, in words.
    pub(super) fn holds(&self) -> String {
        match self {
            Self::Unit(unit) => {
                format!("from its next start: systemctl daemon-reload; systemctl restart {unit}")
            }
            Self::Login => {
                "from the next login; of a service, name a process with --pid".to_owned()
            }
        }
    }

    /// Returns the lines for a limit, which is `name` in a unit; none if a login has no such limit.
    pub(super) fn lines(&self, name: &str, value: &str) -> Vec<String> {
        match self {
            Self::Unit(_) => vec![format!("{name}={value}")],
            Self::Login => {
                let item = match name {
                    "LimitNOFILE" => "nofile",
                    "LimitNPROC" => "nproc",
                    _ => return Vec::new(),
                };
                // The first is not for root.
                ["*", "root"].map(|whose| format!("{whose} hard {item} {value}")).to_vec()
            }
        }
    }
}

/// Returns the group of a line of `/proc/PID/cgroup` if it is of a hierarchy that systemd manages; in others, a user
/// may have groups of any name.
fn systemd_group(line: &str) -> Option<&str> {
    let mut fields = line.splitn(3, ':');
    let (hierarchy, controllers, group) = (fields.next()?, fields.next()?, fields.next()?);
    let is_systemd = controllers == "name=systemd" || (hierarchy == "0" && controllers.is_empty());
    is_systemd.then_some(group)
}

/// Returns the unit of the system that a control group belongs to, as `haproxy` for `/system.slice/haproxy.service`.
fn system_unit(group: &str) -> Option<&str> {
    let mut names = group.trim_end().split('/').filter(|name| !name.is_empty());
    let is_slice = |name: &&str| name.ends_with(".slice");
    // A unit is the first group below the slices; it and its processes may have any groups below it. Those of a
    // user's slice belong to that user's systemd, whose units have any name, too.
    let unit = names.clone().find(|name| !is_slice(name))?.strip_suffix(".service")?;
    let is_users = names.any(|name| name == "user.slice");
    Some(unit).filter(|unit| !is_users && is_unit_name(unit))
}

/// Reports whether a unit of systemd can have this name.
fn is_unit_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b":_.\\@-".contains(&byte);
    !name.is_empty() && name.bytes().all(is_allowed)
}

/// Reports whether [`keep`] writes this file, named without the `/` in front.
pub(super) fn is_kept_file(path: &Path) -> bool {
    let Some(path) = path.to_str().map(|path| format!("/{path}")) else { return false };
    let unit = UNIT_FILE
        .split_once("UNIT")
        .and_then(|(before, after)| path.strip_prefix(before)?.strip_suffix(after));
    path == SYSCTL_FILE || path == LOGIN_FILE || unit.is_some_and(is_unit_name)
}

/// Returns the text of a file, `None` if there is no such file.
pub(super) fn read_existing(disk: &dyn Disk, path: &Path) -> io::Result<Option<String>> {
    match disk.read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

/// Writes the changed settings and the limits of `plan` to files that outlive a reboot. Other lines of an earlier apply
/// stay.
pub(super) fn keep(
    disk: &mut dyn Disk,
    root: &Path,
    plan: &Plan,
    journal: &mut Journal,
    applied: &mut Applied,
) -> Result<(), TuneError> {
    let is_changed = |name: &str| applied.changed.iter().any(|(changed, _)| changed == name);
    let changes = plan.changes.iter().filter(|change| is_changed(&change.name));
    let setting = |change: &Change| vec![format!("{} = {}", change.name, change.wanted)];
    let settings: Vec<_> =
        changes.map(|change| (change.reason.as_str(), setting(change))).collect();
    let limits = plan.limits.iter().map(|limit| (limit.reason.as_str(), limit.lines.clone()));
    let limit_file = plan.limits.first().map_or("", |limit| limit.file.as_str());
    let files = [(SYSCTL_FILE, settings), (limit_file, limits.collect())];
    for (file, all) in files.into_iter().filter(|(_, all)| !all.is_empty()) {
        let path = root.join(file.trim_start_matches('/'));
        write(disk, &path, &all, journal)?;
        applied.kept_in.push(path);
    }
    Ok(())
}

/// Writes a file of these lines, each after a comment with its reason.
fn write(
    disk: &mut dyn Disk,
    path: &Path,
    all: &[(&str, Vec<String>)],
    journal: &mut Journal,
) -> Result<(), TuneError> {
    let old = read_existing(disk, path).map_err(TuneError::io(path))?;
    let is_new =
        |line: &str| all.iter().flat_map(|(_, lines)| lines).any(|new| key(new) == key(line));
    let is_of_unit = path.parent().is_some_and(is_of_unit);
    let mut text = format!("{HEAD}{}", if is_of_unit { "[Service]\n" } else { "" });
    let mut comments = String::new();
    for line in old.iter().flat_map(|old| old.lines()).filter(|line| !line.trim().is_empty()) {
        if line.starts_with('#') && line != HEAD.trim_end() {
            comments.push_str(&format!("{line}\n"));
        } else if !line.starts_with(['#', '[']) {
            let comments = std::mem::take(&mut comments);
            if !is_new(line) {
                text.push_str(&format!("{comments}{line}\n"));
            }
        }
    }
    for (reason, lines) in all {
        text.push_str(&format!("# {reason}\n{}\n", lines.join("\n")));
    }
    let item = journal.entries.len();
    let change = Item::File { path: path.to_owned(), old, new: text.clone() };
    journal.push(disk, Record::Intend { item, change })?;
    disk.replace(path, Some(&text)).map_err(TuneError::io(path))?;
    journal.push(disk, Record::Done { item, read_back: text })
}

/// Returns the key of a line: all before its `=`, or before its last word.
fn key(line: &str) -> &str {
    let line = line.trim();
    line.split_once('=').or_else(|| line.rsplit_once(' ')).map_or(line, |(key, _)| key.trim())
}
