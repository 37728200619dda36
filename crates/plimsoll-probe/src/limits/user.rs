//! Limits of the user of a process: privileges, and the threads of all its processes.

use std::fs;
use std::path::Path;

use super::number::Allowance;
use crate::file;
use crate::lines;

/// include/uapi/linux/capability.h.
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_RESOURCE: u32 = 24;

/// The kernel's identity of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Privilege {
    /// The real user.
    user: Option<u32>,
    /// Effective capabilities; none in a user namespace, whose capabilities lift no limit of the host.
    capabilities: u64,
    /// `true` if the user is the host's own user 0.
    is_root: bool,
}

impl Privilege {
    /// Reads the process whose entry of `/proc` is `process`.
    pub(super) fn read(process: &Path) -> Self {
        let status = file::text(process.join("status")).unwrap_or_default();
        let map = file::text(process.join("uid_map")).unwrap_or_default();
        // The namespace of the host maps every user to itself.
        let is_host = map.split_ascii_whitespace().eq(["0", "0", "4294967295"]);
        let user = lines::word(&status, "Uid:").and_then(|user| user.parse().ok());
        let mask =
            lines::word(&status, "CapEff:").and_then(|mask| u64::from_str_radix(mask, 16).ok());
        Self {
            user,
            capabilities: mask.filter(|_| is_host).unwrap_or(0),
            is_root: is_host && user == Some(0),
        }
    }

    /// Reports whether it may exceed `fs.file-max`.
    pub(super) const fn may_exceed_file_max(&self) -> bool {
        self.has(CAP_SYS_ADMIN)
    }

    /// Returns the number of the user's threads, and the limit that the process has for them; `None` if there is none,
    /// or if the kernel does not apply it (kernel/fork.c).
    pub(super) fn tasks(&self, proc_root: &Path, process: &Path) -> Option<Allowance> {
        let limits = file::text(process.join("limits")).ok()?;
        let max = lines::number(&limits, "Max processes")?;
        if self.is_root || self.has(CAP_SYS_ADMIN) || self.has(CAP_SYS_RESOURCE) {
            return None;
        }
        let user = self.user?.to_string();
        let mut used = 0;
        for entry in fs::read_dir(proc_root).ok()?.flatten() {
            if !entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit) {
                continue;
            }
            let status = file::text(entry.path().join("status")).unwrap_or_default();
            if lines::word(&status, "Uid:") == Some(user.as_str()) {
                used += lines::number(&status, "Threads:").unwrap_or(1);
            }
        }
        Some(Allowance::of(used, max))
    }

    const fn has(&self, capability: u32) -> bool {
        self.capabilities >> capability & 1 == 1
    }
}
