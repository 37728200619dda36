//! A control group of our own that takes CPU time from processes, in both versions of the file system.
//!
//! The group is always removed, also after a SIGKILL of this process: a supervisor creates and removes it, and moves
//! its processes back to their former group.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_fleet::message::{OwnControlGroup, SupervisorPlan};
use plimsoll_fleet::{AgentCommand, Supervisor};
use plimsoll_probe::limits::{CpuQuota, group_of};
use plimsoll_sys::{output_file, process};

use crate::error::{LabError, Result};

/// Short, so that a thread that has used up its share waits for milliseconds, not for a tenth of a second. Where there
/// is a quota already, its period is taken: another one would change more than the quota.
const PERIOD_US: u64 = 10_000;
/// The least quota that the kernel accepts.
const QUOTA_MIN_US: u64 = 1_000;
const ROOT: &str = "/";
/// Prefix of a group's name, before the process that made it: `plimsoll-4711-0`.
const NAME: &str = "plimsoll-";
/// The group in it that has one thread.
const THREAD: &str = "thread";
/// Linux: no such process.
const ESRCH: i32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// A control group with some of a server's processes, or with one of its threads.
#[derive(Debug)]
pub(crate) struct ControlGroup {
    /// The group that has the quota.
    dir: PathBuf,
    version: Version,
    period_us: u64,
    /// The quota that the processes had before, and have within this group no longer; a group within theirs has
    /// theirs, too.
    usual: Option<CpuQuota>,
    /// Removes it.
    _supervisor: Supervisor,
}

impl ControlGroup {
    /// Creates a group with these processes, without a quota.
    pub(crate) fn of_processes(pids: &[u32]) -> Result<Self> {
        let first = pids.first().ok_or_else(|| impossible("no process of it is known"))?;
        let group = Self::beside(*first)?;
        let procs = group.dir.join("cgroup.procs");
        let mut moved = 0;
        for pid in pids {
            match output_file::write_setting(&procs, &pid.to_string()) {
                // A worker may have ended since they were listed.
                Err(error) if error.raw_os_error() == Some(ESRCH) => {}
                written => {
                    written.map_err(denied(&procs))?;
                    moved += 1;
                }
            }
        }
        if moved == 0 {
            return Err(impossible("its processes have ended"));
        }
        Ok(group)
    }

    /// Creates a group with one thread of process `pid`.
    pub(crate) fn of_thread(pid: u32, thread: u32) -> Result<Self> {
        let mut group = Self::beside(pid)?;
        if group.version == Version::Two {
            // Only groups within one that has the whole process can have single threads.
            write(&group.dir.join("cgroup.procs"), &pid.to_string())?;
            group.limit(None)?;
            group.usual = None;
            let inner = group.dir.join(THREAD);
            fs::create_dir(&inner).map_err(denied(&inner))?;
            write(&inner.join("cgroup.type"), "threaded")?;
            write(&group.dir.join("cgroup.subtree_control"), "+cpu")?;
            write(&inner.join("cgroup.threads"), &thread.to_string())?;
            group.dir = inner;
        } else {
            write(&group.dir.join("tasks"), &thread.to_string())?;
        }
        Ok(group)
    }

    /// Creates an empty group, below the group of process `pid` if that may have groups.
    fn beside(pid: u32) -> Result<Self> {
        let home = group_of(Path::new(ROOT), &pid.to_string(), "cpu")
            .ok_or_else(|| impossible("this host has no control groups"))?;
        let version = if home.join("cpu.cfs_quota_us").exists() || home.join("cpu.shares").exists()
        {
            Version::One
        } else {
            Version::Two
        };
        let (parent, passes_on) = lender(version, &home)
            .ok_or_else(|| impossible("no control group here may have CPU quotas"))?;
        remove_left(&parent);
        let lost = home.ancestors().take_while(|group| *group != parent);
        let usual = tightest(lost);
        let period_us = tightest(home.ancestors()).map_or(PERIOD_US, |quota| quota.period_us);
        let dir = parent.join(name());
        let control_group = Some(OwnControlGroup { dir: dir.clone(), home, lend_cpu: !passes_on });
        let plan = SupervisorPlan { control_group, ..SupervisorPlan::default() };
        let supervisor = Supervisor::start(&AgentCommand::supervisor(), None, plan)
            .map_err(|error| impossible(&error.to_string()))?;
        Ok(Self { dir, version, period_us, usual, _supervisor: supervisor })
    }

    /// Limits the group to the time of `cpus` CPUs; `None` restores the former limit.
    pub(crate) fn limit(&self, cpus: Option<f64>) -> Result<()> {
        let quota = cpus.map(|cpus| quota_of(cpus, self.period_us)).or(self.usual);
        let quota_us = |without: &str| {
            quota.map_or_else(|| without.to_owned(), |quota| quota.quota_us.to_string())
        };
        let period_us = quota.map_or(self.period_us, |quota| quota.period_us);
        match self.version {
            Version::One => {
                write(&self.dir.join("cpu.cfs_period_us"), &period_us.to_string())?;
                write(&self.dir.join("cpu.cfs_quota_us"), &quota_us("-1"))
            }
            Version::Two => {
                write(&self.dir.join("cpu.max"), &format!("{} {period_us}", quota_us("max")))
            }
        }
    }
}

/// Returns the quota of `cpus` CPUs.
fn quota_of(cpus: f64, period_us: u64) -> CpuQuota {
    let quota_us = ((cpus * period_us as f64).round() as u64).max(QUOTA_MIN_US);
    CpuQuota { quota_us, period_us }
}

/// Returns the quota of `groups` that is used up first.
fn tightest<'a>(groups: impl Iterator<Item = &'a Path>) -> Option<CpuQuota> {
    let quotas = groups.filter_map(CpuQuota::read);
    quotas.min_by(|one, other| one.cpus().total_cmp(&other.cpus()))
}

/// Returns the group, from `home` up, whose groups may have CPU quotas, and whether it passes them on; where none does,
/// the one that could. In version 1 each does.
fn lender(version: Version, home: &Path) -> Option<(PathBuf, bool)> {
    if version == Version::One {
        return Some((home.to_owned(), true));
    }
    let names_cpu = |file: &'static str| {
        move |group: &&Path| {
            let names = fs::read_to_string(group.join(file));
            names.is_ok_and(|text| text.split_ascii_whitespace().any(|name| name == "cpu"))
        }
    };
    let found = |file| home.ancestors().find(names_cpu(file)).map(Path::to_owned);
    let passes_on = found("cgroup.subtree_control").map(|group| (group, true));
    passes_on.or_else(|| found("cgroup.controllers").map(|group| (group, false)))
}

/// Returns a new name for a group of this process; see [`remove_left`].
fn name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    format!("{NAME}{}-{number}", std::process::id())
}

/// Removes the groups below `parent` whose process was killed together with its supervisor. One that is in use stays:
/// the kernel removes only empty ones.
fn remove_left(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix(NAME)?.split('-').next());
        let Some(pid) = number.and_then(|number| number.parse().ok()) else { continue };
        if !process::is_alive(pid) {
            // Another run may have removed it.
            let _ = fs::remove_dir(entry.path().join(THREAD));
            let _ = fs::remove_dir(entry.path());
        }
    }
}

fn write(path: &Path, value: &str) -> Result<()> {
    output_file::write_setting(path, value).map_err(denied(path))
}

fn denied(path: &Path) -> impl FnOnce(std::io::Error) -> LabError {
    let path = path.display().to_string();
    move |error| impossible(&format!("cannot change {path}: {error}"))
}

fn impossible(why: &str) -> LabError {
    LabError::Lever(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotas_are_parts_of_a_short_period() {
        for (cpus, us) in [(0.8, 8_000), (1.6, 16_000), (0.001, 1_000), (0.784_96, 7_850)] {
            assert_eq!(quota_of(cpus, PERIOD_US).quota_us, us, "{cpus}");
        }
        assert_eq!(quota_of(0.16, 100_000).quota_us, 16_000);
    }

    /// Folders with files.
    fn groups(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("a folder");
        for (file, text) in files {
            let path = root.path().join(file);
            fs::create_dir_all(path.parent().expect("below the root")).expect("folders");
            fs::write(path, text).expect("a file");
        }
        root
    }

    #[test]
    fn a_quota_that_is_there_has_a_period() {
        let period = |files: &[(&str, &str)]| {
            CpuQuota::read(groups(files).path()).map(|quota| quota.period_us)
        };
        assert_eq!(period(&[]), None);
        let one = |quota| [("cpu.cfs_quota_us", quota), ("cpu.cfs_period_us", "50000\n")];
        assert_eq!(period(&one("-1\n")), None);
        assert_eq!(period(&one("20000\n")), Some(50_000));
        assert_eq!(period(&[("cpu.max", "max 100000\n")]), None);
        assert_eq!(period(&[("cpu.max", "20000 100000\n")]), Some(100_000));
    }

    #[test]
    fn groups_of_killed_processes_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        // No process has a number above 2^22.
        let own = format!("plimsoll-{}-0", std::process::id());
        for dir in
            ["plimsoll-99999999-0/thread", "plimsoll-99999998-1", "plimsoll-x", "other", &own]
        {
            fs::create_dir_all(parent.path().join(dir)).unwrap();
        }
        remove_left(parent.path());
        let entries = fs::read_dir(parent.path()).unwrap();
        let mut left: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        left.sort();
        let mut expected = ["other", &own, "plimsoll-x"];
        expected.sort_unstable();
        assert_eq!(left, expected);
    }

    #[test]
    fn the_least_quota_counts() {
        let root = groups(&[
            ("cpu.max", "150000 100000\n"),
            ("web/cpu.max", "20000 50000\n"),
            ("web/sut/cpu.max", "max 100000\n"),
        ]);
        let least = tightest(root.path().join("web/sut").ancestors());
        assert_eq!(least, Some(CpuQuota { quota_us: 20_000, period_us: 50_000 }));
    }

    #[test]
    fn groups_are_made_where_quotas_are_passed_on_or_could_be() {
        const ROOT: &str = "cgroup.subtree_control";
        const INNER: &str = "system.slice/sut.service/cgroup.subtree_control";
        let lent = |files: &[(&str, &str)]| {
            let root = groups(files);
            let found = lender(Version::Two, &root.path().join("system.slice/sut.service"));
            found.map(|(group, passes_on)| (group == root.path(), passes_on))
        };
        assert_eq!(lent(&[(INNER, ""), (ROOT, "cpuset cpu memory\n")]), Some((true, true)));
        let all = ("cgroup.controllers", "cpuset cpu memory\n");
        assert_eq!(lent(&[(INNER, ""), (ROOT, "memory\n"), all]), Some((true, false)));
        assert_eq!(lent(&[(INNER, ""), (ROOT, "memory\n")]), None);
        let home = Path::new("/sys/fs/cgroup/cpu/sut");
        assert_eq!(lender(Version::One, home), Some((home.to_owned(), true)));
    }
}
