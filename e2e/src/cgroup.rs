//! Control groups of a test's own, in either version of their file system.

use std::fs;
use std::path::{Path, PathBuf};

use crate::wait;

const ROOT: &str = "/sys/fs/cgroup";
/// The largest values of cpu.shares and cpu.weight. A group counts as one task beside others, whatever the priority
/// of what is in it.
const SHARES_MOST: &str = "262144";
const WEIGHT_MOST: &str = "10000";

/// The limit of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupLimit {
    /// Nothing: it gets the CPU that it wants before others do.
    CpuFirst,
    /// Microseconds of CPU in each 100 ms, on one CPU.
    CpuUs(u32),
    /// Bytes of memory.
    MemoryBytes(u64),
    /// Number of threads.
    Threads(u32),
    /// Writes per second to the disk of this folder.
    WritesPerS(u32),
}

/// A control group; it is removed with its handle, once nothing runs in it.
#[derive(Debug)]
pub struct Group {
    folder: PathBuf,
}

impl Group {
    /// Creates an empty one called `name`; an error says what this host lacks.
    pub fn new(name: &str, limit: GroupLimit) -> Result<Self, String> {
        let controller = match limit {
            GroupLimit::CpuFirst | GroupLimit::CpuUs(_) => "cpu",
            GroupLimit::MemoryBytes(_) => "memory",
            GroupLimit::Threads(_) => "pids",
            GroupLimit::WritesPerS(_) => "blkio",
        };
        let first = Path::new(ROOT).join(controller);
        let is_first = first.is_dir();
        let parent = if is_first { first } else { PathBuf::from(ROOT) };
        let folder = parent.join(format!("plimsoll-e2e-{}-{name}", std::process::id()));
        let made = Self { folder };
        fs::create_dir(&made.folder).map_err(|error| format!("{:?}: {error}", made.folder))?;
        if !is_first {
            let name = if controller == "blkio" { "io" } else { controller };
            let _ = fs::write(Path::new(ROOT).join("cgroup.subtree_control"), format!("+{name}"));
        }
        made.limit(limit)?;
        Ok(made)
    }

    /// Changes what it is limited to.
    pub fn limit(&self, limit: GroupLimit) -> Result<(), String> {
        let is_first = !self.folder.join("cgroup.controllers").exists();
        let disk = disk().unwrap_or_default();
        let files: Vec<(&str, String)> = match (limit, is_first) {
            (GroupLimit::CpuFirst, true) => vec![("cpu.shares", SHARES_MOST.to_owned())],
            (GroupLimit::CpuFirst, false) => vec![("cpu.weight", WEIGHT_MOST.to_owned())],
            (GroupLimit::CpuUs(us), true) => vec![
                ("cpu.cfs_period_us", "100000".to_owned()),
                ("cpu.cfs_quota_us", us.to_string()),
                ("cpu.shares", SHARES_MOST.to_owned()),
            ],
            (GroupLimit::CpuUs(us), false) => {
                vec![("cpu.max", format!("{us} 100000")), ("cpu.weight", WEIGHT_MOST.to_owned())]
            }
            (GroupLimit::MemoryBytes(bytes), true) => {
                vec![("memory.limit_in_bytes", bytes.to_string())]
            }
            (GroupLimit::MemoryBytes(bytes), false) => vec![("memory.max", bytes.to_string())],
            (GroupLimit::Threads(threads), _) => vec![("pids.max", threads.to_string())],
            (GroupLimit::WritesPerS(writes), true) => {
                vec![("blkio.throttle.write_iops_device", format!("{disk} {writes}"))]
            }
            (GroupLimit::WritesPerS(writes), false) => {
                vec![("io.max", format!("{disk} wiops={writes}"))]
            }
        };
        for (file, value) in files {
            fs::write(self.folder.join(file), &value)
                .map_err(|error| format!("{file} of {:?}: {error}", self.folder))?;
        }
        Ok(())
    }

    /// Returns the file into which a process writes its id to join the group.
    pub fn procs(&self) -> PathBuf {
        self.folder.join("cgroup.procs")
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // What was killed just now may still be counted.
        let mut remove = || fs::remove_dir(&self.folder).ok();
        let _ = wait::within(wait::PATIENCE, &mut remove);
    }
}

/// Returns the disk of the temporary directory, `major:minor`.
fn disk() -> Option<String> {
    let folder = std::env::temp_dir();
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    let on = |line: &str| {
        let mut words = line.split(' ').skip(2);
        let (device, mount) = (words.next()?.to_owned(), words.nth(1)?.to_owned());
        folder.starts_with(&mount).then_some((mount.len(), device))
    };
    mounts.lines().filter_map(on).max().map(|(_, device)| device)
}
