//! A control group of our own that takes CPU time from processes, in both versions of the file system.
//!
//! It is removed in every case, with a SIGKILL of this process too: a supervisor creates and removes it,
//! and moves what is in it back to where it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use plimsoll_fleet::message::{OwnControlGroup, SupervisorPlan};
use plimsoll_fleet::{AgentCommand, Supervisor};
use plimsoll_probe::limits::group_of;

use crate::error::LabError;

/// Short, so that a thread that has used up its share waits for milliseconds, not for a tenth of a second. Where there is
/// a quota already, its period is taken: another one would change more than the quota.
const PERIOD_US: u64 = 10_000;
/// The least quota that the kernel accepts.
const QUOTA_MIN_US: u64 = 1_000;
const ROOT: &str = "/";
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
    /// What the processes had before, in the words of version 2; in version 1 a group within theirs has
    /// their limits, too.
    usual: String,
    /// Removes it.
    _supervisor: Supervisor,
}

impl ControlGroup {
    /// A new one with these processes, without a quota.
    pub(crate) fn of_processes(pids: &[u32]) -> Result<Self, LabError> {
        let first = pids.first().ok_or_else(|| impossible("no process of it is known"))?;
        let group = Self::beside(*first)?;
        let procs = group.dir.join("cgroup.procs");
        let mut moved = 0;
        for pid in pids {
            match fs::write(&procs, pid.to_string()) {
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

    /// A new one with one thread of process `pid`.
    pub(crate) fn of_thread(pid: u32, thread: u32) -> Result<Self, LabError> {
        let mut group = Self::beside(pid)?;
        if group.version == Version::Two {
            // Only groups within one that has the whole process can have single threads.
            write(&group.dir.join("cgroup.procs"), &pid.to_string())?;
            let inner = group.dir.join("thread");
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

    /// An empty one, below the group of process `pid` where that may have groups.
    fn beside(pid: u32) -> Result<Self, LabError> {
        let home = group_of(Path::new(ROOT), &pid.to_string(), "cpu")
            .ok_or_else(|| impossible("this host has no control groups"))?;
        let version = if home.join("cpu.cfs_quota_us").exists() || home.join("cpu.shares").exists()
        {
            Version::One
        } else {
            Version::Two
        };
        let parent = match version {
            Version::One => home.clone(),
            Version::Two => lends_cpu(&home)
                .ok_or_else(|| impossible("no control group here passes CPU quotas on"))?,
        };
        let dir = parent.join(name());
        let period_us = home.ancestors().find_map(period_us).unwrap_or(PERIOD_US);
        // The root has no such file.
        let usual = fs::read_to_string(home.join("cpu.max")).unwrap_or_else(|_| "max".to_owned());
        let control_group = Some(OwnControlGroup { dir: dir.clone(), home });
        let plan = SupervisorPlan { control_group, ..SupervisorPlan::default() };
        let supervisor = Supervisor::start(&AgentCommand::this_program(), None, plan)
            .map_err(|error| impossible(&error.to_string()))?;
        Ok(Self { dir, version, period_us, usual, _supervisor: supervisor })
    }

    /// Lets it use so many CPUs; `None` is as many as before.
    pub(crate) fn limit(&self, cpus: Option<f64>) -> Result<(), LabError> {
        let quota = cpus.map(|cpus| quota_us(cpus, self.period_us));
        match self.version {
            Version::One => {
                write(&self.dir.join("cpu.cfs_period_us"), &self.period_us.to_string())?;
                let quota = quota.map_or_else(|| "-1".to_owned(), |quota| quota.to_string());
                write(&self.dir.join("cpu.cfs_quota_us"), &quota)
            }
            Version::Two => {
                let both = quota.map(|quota| format!("{quota} {}", self.period_us));
                write(
                    &self.dir.join("cpu.max"),
                    both.as_deref().unwrap_or_else(|| self.usual.trim()),
                )
            }
        }
    }
}

/// Microseconds in each period.
fn quota_us(cpus: f64, period_us: u64) -> u64 {
    ((cpus * period_us as f64).round() as u64).max(QUOTA_MIN_US)
}

/// The period of the quota of `group`, in either version; `None` where it has no quota.
fn period_us(group: &Path) -> Option<u64> {
    let text = |file: &str| fs::read_to_string(group.join(file)).ok();
    let both = text("cpu.max").or_else(|| {
        // Version 1 writes -1 without a quota, which is no number here.
        Some(format!("{} {}", text("cpu.cfs_quota_us")?.trim(), text("cpu.cfs_period_us")?))
    })?;
    let (quota, period) = both.trim().split_once(' ')?;
    quota.parse::<u64>().ok()?;
    period.parse().ok()
}

/// The nearest group, from `home` up, whose groups may have CPU quotas.
fn lends_cpu(home: &Path) -> Option<PathBuf> {
    let passes_on = |group: &&Path| {
        let control = fs::read_to_string(group.join("cgroup.subtree_control"));
        control.is_ok_and(|text| text.split_ascii_whitespace().any(|name| name == "cpu"))
    };
    home.ancestors().find(passes_on).map(Path::to_owned)
}

/// One for each group of this process.
fn name() -> String {
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    format!("plimsoll-{}-{number}", std::process::id())
}

fn write(path: &Path, value: &str) -> Result<(), LabError> {
    fs::write(path, value).map_err(denied(path))
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
            assert_eq!(quota_us(cpus, PERIOD_US), us, "{cpus}");
        }
        assert_eq!(quota_us(0.16, 100_000), 16_000);
    }

    #[test]
    fn a_quota_that_is_there_has_a_period() {
        let group = tempfile::tempdir().expect("a folder");
        let period = |files: &[(&str, &str)]| {
            for (file, text) in files {
                fs::write(group.path().join(file), text).expect("a file");
            }
            period_us(group.path())
        };
        assert_eq!(period(&[]), None);
        assert_eq!(period(&[("cpu.cfs_quota_us", "-1\n"), ("cpu.cfs_period_us", "50000\n")]), None);
        assert_eq!(period(&[("cpu.cfs_quota_us", "20000\n")]), Some(50_000));
        assert_eq!(period(&[("cpu.max", "max 100000\n")]), None);
        assert_eq!(period(&[("cpu.max", "20000 100000\n")]), Some(100_000));
    }

    #[test]
    fn groups_are_made_where_quotas_are_passed_on() {
        let root = tempfile::tempdir().expect("a folder");
        let inner = root.path().join("system.slice/sut.service");
        fs::create_dir_all(&inner).expect("folders");
        fs::write(inner.join("cgroup.subtree_control"), "").expect("a file");
        assert_eq!(lends_cpu(&inner), None);
        fs::write(root.path().join("cgroup.subtree_control"), "cpuset cpu memory\n")
            .expect("a file");
        assert_eq!(lends_cpu(&inner), Some(root.path().to_owned()));
    }
}
