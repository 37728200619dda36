//! Limits of one process and how much of each is in use: files, address space, its control group's
//! memory. At these limits a server stops accepting connections, or is killed.

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;

use plimsoll_model::host::EndStatus;

use crate::file;
use crate::limits::CgroupLimits;
use crate::lines;

/// The most descriptors that are listed if the kernel does not count them (before Linux 6.2):
/// listing one leaves an inode behind.
const LISTED_MAX: usize = 4096;

/// Use and limit of each resource; `None` if there is no limit, or it cannot be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessUse {
    /// Descriptors in use, and RLIMIT_NOFILE, the soft limit.
    pub files: Option<(u64, u64)>,
    /// Virtual memory, and RLIMIT_AS, the soft limit; bytes.
    pub address_space_bytes: Option<(u64, u64)>,
    /// Memory of its control group, and the group's limit; bytes.
    pub group_bytes: Option<(u64, u64)>,
    /// Threads.
    pub threads: Option<u64>,
}

/// Returns how a process ended, from its status if the kernel reported one.
pub fn end_status(status: Option<ExitStatus>) -> EndStatus {
    let exited = status.and_then(|status| status.code()).map(EndStatus::Exited);
    let killed = status.and_then(|status| status.signal()).map(EndStatus::Killed);
    exited.or(killed).unwrap_or(EndStatus::Unknown)
}

impl ProcessUse {
    /// Reads process `pid` below `root` (`/`).
    pub fn read(root: &Path, pid: u32) -> Self {
        let group = CgroupLimits::of_process(root, &pid.to_string());
        let group_bytes = group.memory_bytes.map(|memory| (memory.used(), memory.max));
        Self { group_bytes, ..Self::without_group(root, pid) }
    }

    /// Reads process `pid` without its control group.
    pub(crate) fn without_group(root: &Path, pid: u32) -> Self {
        let process = root.join("proc").join(pid.to_string());
        // The first number of a line is the soft limit.
        let limits = file::text(process.join("limits")).unwrap_or_default();
        let status = file::text(process.join("status")).unwrap_or_default();
        Self {
            files: open_files(&process.join("fd")).zip(lines::number(&limits, "Max open files")),
            address_space_bytes: lines::bytes(&status, "VmSize:")
                .zip(lines::number(&limits, "Max address space")),
            group_bytes: None,
            threads: lines::number(&status, "Threads:"),
        }
    }
}

/// Returns the resident memory of process `pid` below `root` (`/`), bytes.
pub(crate) fn resident_bytes(root: &Path, pid: u32) -> Option<u64> {
    let status = root.join("proc").join(pid.to_string()).join("status");
    lines::bytes(&file::text(status).ok()?, "VmRSS:")
}

/// Counts the open files. Since Linux 6.2 the size of the directory is the number of descriptors.
fn open_files(directory: &Path) -> Option<u64> {
    match fs::metadata(directory).ok()?.len() {
        0 => {
            let listed = fs::read_dir(directory).ok()?.take(LISTED_MAX).count();
            (listed < LISTED_MAX).then_some(listed as u64)
        }
        count => Some(count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::tree;

    #[test]
    fn a_capped_process_is_read_from_its_files() {
        let root = tree(&[
            (
                "proc/7/limits",
                "Limit                     Soft Limit           Hard Limit           Units\n\
                 Max open files            1024                 20000                files\n\
                 Max address space         104857600            unlimited            bytes\n",
            ),
            ("proc/7/status", "Name:\thaproxy\nVmSize:\t   51200 kB\nVmRSS:\t 8 kB\n"),
            ("proc/7/cgroup", "0::/sut\n"),
            ("sys/fs/cgroup/sut/memory.max", "1000000\n"),
            ("sys/fs/cgroup/sut/memory.current", "300000\n"),
            ("sys/fs/cgroup/sut/memory.stat", "inactive_file 50000\n"),
        ]);
        let read = ProcessUse::read(root.path(), 7);
        assert_eq!(read.address_space_bytes, Some((51_200 * 1024, 104_857_600)));
        assert_eq!(read.group_bytes, Some((250_000, 1_000_000)));
        // The fixture has no descriptors to count.
        assert_eq!(read.files, None);
    }

    #[test]
    fn what_has_no_limit_or_is_gone_has_no_figure() {
        let root = tree(&[
            ("proc/7/limits", "Max address space         unlimited            unlimited   bytes\n"),
            ("proc/7/status", "VmSize:\t   51200 kB\n"),
        ]);
        assert_eq!(ProcessUse::read(root.path(), 7), ProcessUse::default());
        assert_eq!(ProcessUse::read(root.path(), 8), ProcessUse::default());
    }

    #[test]
    fn this_process_is_readable() {
        let (used, limit) = ProcessUse::read(Path::new("/"), std::process::id()).files.unwrap();
        assert!(used > 2 && used < limit);
    }
}
