//! Limits of a process's control groups, in both versions of their file system.
//!
//! `memberships` parses `/proc/PID/cgroup`, and `groups` lists a group with all groups above it, because each of them
//! may have a limit. [`CgroupLimits::read`] returns the tightest memory and task limit among them; memory in use
//! excludes reclaimable page cache. [`CpuQuota`] and [`throttled_periods`] cover CPU time. Paths are resolved below a
//! root directory, which tests replace. Start reading at `CgroupLimits::of_process`.

use std::path::{Path, PathBuf};

use super::number::{Allowance, first_number};
use crate::file;

/// Values from here on mean "no limit" in version 1, which prints the largest multiple of a page.
const UNLIMITED_BYTES: u64 = 1 << 62;

/// The tightest limits among the groups that a process is in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupLimits {
    /// Bytes, kernel memory of sockets included; `None` without limit.
    pub memory_bytes: Option<Allowance>,
    /// Threads; `None` without limit.
    pub tasks: Option<Allowance>,
}

/// A group's files for one resource.
struct Files {
    max: &'static str,
    used: &'static str,
    /// In `memory.stat`: page cache that is reclaimed before an allocation fails.
    reclaimable: Option<&'static str>,
}

const MEMORY_V2: Files =
    Files { max: "memory.max", used: "memory.current", reclaimable: Some("inactive_file") };
const MEMORY_V1: Files = Files {
    max: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    reclaimable: Some("total_inactive_file"),
};
const TASKS: Files = Files { max: "pids.max", used: "pids.current", reclaimable: None };

impl CgroupLimits {
    /// Reads the groups of this process below `root` (`/`).
    pub fn read(root: &Path) -> Self {
        Self::of_process(root, "self")
    }

    /// Reads the groups of `process`, an entry of `proc` below `root`.
    pub(crate) fn of_process(root: &Path, process: &str) -> Self {
        let mount = root.join("sys/fs/cgroup");
        let mut limits = Self::default();
        for (controller, path) in memberships(root, process) {
            match controller.as_str() {
                "" => {
                    for mount in [mount.clone(), mount.join("unified")] {
                        tighten(&mut limits.memory_bytes, &mount, &path, &MEMORY_V2);
                        tighten(&mut limits.tasks, &mount, &path, &TASKS);
                    }
                }
                "memory" => {
                    let mount = mount.join("memory");
                    tighten(&mut limits.memory_bytes, &mount, &path, &MEMORY_V1);
                }
                "pids" => tighten(&mut limits.tasks, &mount.join("pids"), &path, &TASKS),
                _ => {}
            }
        }
        limits
    }
}

/// Replaces `known` by what the group at `path`, or one above it, allows, if that is less.
fn tighten(known: &mut Option<Allowance>, mount: &Path, path: &str, files: &Files) {
    let found = groups(mount, path).filter_map(|group| allowance(&group, files));
    *known = known.iter().copied().chain(found).min_by_key(|allowed| allowed.left);
}

/// The controllers and the path of each group that `process` is in: `0::/path` is version 2 (no
/// controller is named), `4:memory:/path` version 1; a host may have both.
fn memberships(root: &Path, process: &str) -> Vec<(String, String)> {
    let text = file::text(root.join("proc").join(process).join("cgroup")).unwrap_or_default();
    let mut groups = Vec::new();
    for line in text.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        let path = path.trim_start_matches('/');
        groups.extend(controllers.split(',').map(|name| (name.to_owned(), path.to_owned())));
    }
    groups
}

/// Returns the throttled periods of the control groups of this process and of all groups above them, added up, since
/// those groups were created; below `root` (`/`). `None` if no group reports them.
pub fn throttled_periods(root: &Path) -> Option<u64> {
    let mount = root.join("sys/fs/cgroup");
    let mut periods = None;
    for (controller, path) in memberships(root, "self") {
        let mounts = match controller.as_str() {
            "" => vec![mount.clone(), mount.join("unified")],
            "cpu" => vec![mount.join("cpu")],
            _ => continue,
        };
        for group in mounts.iter().flat_map(|mount| groups(mount, &path)) {
            if let Some(seen) = stat(&group.join("cpu.stat"), "nr_throttled") {
                periods = Some(seen.saturating_add(periods.unwrap_or(0)));
            }
        }
    }
    periods
}

/// CPU time that a group may use in each period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuQuota {
    /// Microseconds of CPU time.
    pub quota_us: u64,
    /// The period in microseconds.
    pub period_us: u64,
}

impl CpuQuota {
    /// Reads the quota of `group`, in either version; `None` if it has none.
    pub fn read(group: &Path) -> Option<Self> {
        let text = |file: &str| file::text(group.join(file)).ok();
        // `20000 100000`, or `max 100000`, in microseconds.
        let both = text("cpu.max").or_else(|| {
            // Version 1 writes -1 without a quota, which is no number here.
            Some(format!("{} {}", text("cpu.cfs_quota_us")?.trim(), text("cpu.cfs_period_us")?))
        })?;
        let (quota, period) = both.trim().split_once(' ')?;
        Some(Self { quota_us: quota.parse().ok()?, period_us: period.parse().ok()? })
    }

    /// Returns the quota in CPUs.
    pub fn cpus(self) -> f64 {
        self.quota_us as f64 / self.period_us as f64
    }
}

/// Returns the directory of the group that `process`, an entry of `proc` below `root` (`/`), is in for `controller`;
/// `None` if there is no such group.
pub fn group_of(root: &Path, process: &str, controller: &str) -> Option<PathBuf> {
    groups_of(root, process, controller).into_iter().next()
}

/// Returns that group and the groups above it, each of which may have the limit that is met first.
pub(crate) fn groups_of(root: &Path, process: &str, controller: &str) -> Vec<PathBuf> {
    let mount = root.join("sys/fs/cgroup");
    let memberships = memberships(root, process);
    let path_of = |wanted: &str| {
        memberships.iter().find(|(name, _)| name == wanted).map(|(_, path)| path.as_str())
    };
    // A controller of version 1 is not one of version 2.
    let (mount, path) = match (path_of(controller), path_of("")) {
        (Some(path), _) => (mount.join(controller), path),
        (None, Some(path)) => {
            // Beside version 1, version 2 is mounted within its directory.
            let unified = mount.join("unified");
            (if unified.is_dir() { unified } else { mount }, path)
        }
        (None, None) => return Vec::new(),
    };
    groups(&mount, path).filter(|group| group.is_dir()).collect()
}

/// The group at `path` and those above it, up to the mount. In a container the path may be the
/// host's; then only the mount itself is there, which is the container's own group.
fn groups(mount: &Path, path: &str) -> impl Iterator<Item = PathBuf> {
    let mount = mount.to_owned();
    let end = mount.clone();
    let path = mount.join(path);
    let within = move |group: &&Path| group.starts_with(&end);
    path.ancestors().take_while(within).map(Path::to_owned).collect::<Vec<_>>().into_iter()
}

/// Returns the memory that a group may still use; `None` without a limit.
fn allowance(group: &Path, files: &Files) -> Option<Allowance> {
    // `max` is no number.
    let max = first_number(&group.join(files.max)).filter(|max| *max < UNLIMITED_BYTES)?;
    let used = first_number(&group.join(files.used)).unwrap_or(0);
    let reclaimable = files.reclaimable.and_then(|name| stat(&group.join("memory.stat"), name));
    Some(Allowance::of(used.saturating_sub(reclaimable.unwrap_or(0)), max))
}

fn stat(path: &Path, name: &str) -> Option<u64> {
    figure(&file::text(path).ok()?, name)
}

/// Returns the number of `name` in lines of `name value`.
pub(crate) fn figure(text: &str, name: &str) -> Option<u64> {
    let values = text.lines().filter_map(|line| line.split_once(' '));
    values.filter(|(key, _)| *key == name).find_map(|(_, value)| value.trim().parse().ok())
}
