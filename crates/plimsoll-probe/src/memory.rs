//! Memory of processes and of the kernel: smaps_rollup, meminfo, slabinfo, sockstat and file-nr below `/proc`.
//!
//! Each function reads one or two files below a root directory, which tests replace, and returns `None` for a value
//! that is unavailable. [`HostMemory`] corrects MemAvailable: inodes and dentries of open sockets count as
//! reclaimable but are not. Without permission for slabinfo, their size is estimated from the number of sockets.
//! Values are bytes, except [`TcpSockets::buffer_pages`]. Start reading at `HostMemory::read_with`.

use std::path::Path;

use crate::file;
use crate::lines;

/// Memory of the whole host, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostMemory {
    /// MemTotal.
    pub total_bytes: Option<u64>,
    /// Memory that programs can still allocate without swapping: MemAvailable, less the inodes and dentries
    /// of open sockets. The kernel counts those as reclaimable (SReclaimable), but they live as long
    /// as their sockets: 1 kB each, 2 GB with a million connections, both ends. When they were
    /// counted as available, the kernel killed a HAProxy for lack of memory.
    pub available_bytes: Option<u64>,
    /// Slab: the kernel's objects, sockets among them.
    pub slab_bytes: Option<u64>,
    /// The part of the slab that lookups in `/proc` leave behind: an inode and a dentry, 0.9 kB, for
    /// each file that was listed, such as every descriptor in `/proc/PID/fd`. Monitoring does that;
    /// the kernel reclaims it when memory runs low. `None` without the right to read slabinfo.
    pub proc_lookups_bytes: Option<u64>,
}

impl HostMemory {
    /// Reads `meminfo` and `slabinfo` below `proc_root` (`/proc`), and `net/sockstat` if `slabinfo` is not readable.
    pub fn read(proc_root: &Path) -> Self {
        Self::read_with(proc_root, FileCaches::read(proc_root))
    }

    /// Reads `meminfo`, with the memory of file caches already known; `net/sockstat` if the sockets' memory is not.
    pub(crate) fn read_with(proc_root: &Path, caches: FileCaches) -> Self {
        let text = file::text(proc_root.join("meminfo")).unwrap_or_default();
        // Without the right to read slabinfo: their size on Linux 6.18.
        let of_sockets = caches
            .sockets_bytes
            .or_else(|| sockets(proc_root)?.checked_mul(SOCKET_FILE_BYTES))
            .unwrap_or(0);
        let reclaimable = lines::bytes(&text, "SReclaimable:").unwrap_or(0);
        let available = lines::bytes(&text, "MemAvailable:");
        Self {
            total_bytes: lines::bytes(&text, "MemTotal:"),
            available_bytes: available.map(|all| all.saturating_sub(of_sockets.min(reclaimable))),
            slab_bytes: lines::bytes(&text, "Slab:"),
            proc_lookups_bytes: caches.proc_lookups_bytes,
        }
    }

    /// Returns the slab without the part that lookups in `/proc` left behind.
    pub fn slab_of_work_bytes(&self) -> Option<u64> {
        let lookups = self.proc_lookups_bytes.unwrap_or(0);
        self.slab_bytes.map(|slab| slab.saturating_sub(lookups))
    }
}

/// Memory of inodes and dentries, by `slabinfo`, which takes the kernel 5 ms to write. `None` without the right to
/// read it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileCaches {
    sockets_bytes: Option<u64>,
    proc_lookups_bytes: Option<u64>,
}

impl FileCaches {
    pub(crate) fn read(proc_root: &Path) -> Self {
        let slabinfo = file::text(proc_root.join("slabinfo")).ok();
        let of = |inode_cache: &str| files_bytes(slabinfo.as_deref()?, inode_cache);
        Self { sockets_bytes: of("sock_inode_cache"), proc_lookups_bytes: of("proc_inode_cache") }
    }
}

/// An inode and a dentry of an open socket.
const SOCKET_FILE_BYTES: u64 = 832 + 192;

/// Memory of the inodes in this cache, each with a dentry.
fn files_bytes(slabinfo: &str, inode_cache: &str) -> Option<u64> {
    // name, active objects, objects, bytes of an object, ...
    let cache = |name: &str| {
        let mut lines = slabinfo.lines();
        let line = lines.find(|line| line.split_ascii_whitespace().next() == Some(name))?;
        let mut fields = line.split_ascii_whitespace().skip(2).map(str::parse::<u64>);
        Some((fields.next()?.ok()?, fields.next()?.ok()?))
    };
    let (inodes, inode_bytes) = cache(inode_cache)?;
    let (_, dentry_bytes) = cache("dentry")?;
    inodes.checked_mul(inode_bytes.checked_add(dentry_bytes)?)
}

/// Open sockets of every kind in this network namespace.
fn sockets(proc_root: &Path) -> Option<u64> {
    let text = file::text(proc_root.join("net/sockstat")).ok()?;
    pair(&text, "sockets:", "used")
}

/// TCP of this network namespace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSockets {
    /// Sockets in use, IPv4 and IPv6; TIME_WAIT is not among them.
    pub in_use: Option<u64>,
    /// In TIME_WAIT.
    pub time_wait: Option<u64>,
    /// Memory in socket buffers, pages of the kernel (4 KiB on x86-64).
    pub buffer_pages: Option<u64>,
}

impl TcpSockets {
    /// Reads `net/sockstat` and `net/sockstat6` below `proc_root`.
    pub fn read(proc_root: &Path) -> Self {
        let text = |name: &str| file::text(proc_root.join("net").join(name)).ok();
        let v4 = text("sockstat").unwrap_or_default();
        // A kernel without IPv6 has no such file, and no such sockets.
        let v6 = text("sockstat6").unwrap_or_default();
        let in_use_v6 = pair(&v6, "TCP6:", "inuse").unwrap_or(0);
        Self {
            in_use: pair(&v4, "TCP:", "inuse").map(|in_use| in_use.saturating_add(in_use_v6)),
            time_wait: pair(&v4, "TCP:", "tw"),
            buffer_pages: pair(&v4, "TCP:", "mem"),
        }
    }
}

/// Reads the number of open files of the host and its limit: `sys/fs/file-nr` below `proc_root`.
pub fn open_files(proc_root: &Path) -> Option<(u64, u64)> {
    let text = file::text(proc_root.join("sys/fs/file-nr")).ok()?;
    let mut fields = text.split_ascii_whitespace().map(str::parse::<u64>);
    // The field between them has been 0 since Linux 2.6.
    let (open, _, max) = (fields.next()?, fields.next()?, fields.next()?);
    Some((open.ok()?, max.ok()?))
}

/// Returns the private memory of `pids` together, bytes: anonymous pages, with swapped ones, and shared memory divided
/// among its users. Pages of programs and libraries are not in it: the share of one process changes with every other
/// program that maps them. A process that has ended counts as 0; `None` when none could be read.
///
/// Walks the processes' page tables: about a millisecond for each gigabyte.
pub fn private_bytes(proc_root: &Path, pids: &[u32]) -> Option<u64> {
    let of_process = |pid: &u32| {
        let path = proc_root.join(pid.to_string()).join("smaps_rollup");
        let text = file::text(path).ok()?;
        let of = |name: &str| lines::bytes(&text, name);
        // Linux before 5.3 has the whole of it alone.
        let anonymous = of("Pss_Anon:").or_else(|| of("Pss:"))?;
        Some(anonymous + of("Pss_Shmem:").unwrap_or(0) + of("SwapPss:").unwrap_or(0))
    };
    pids.iter().filter_map(of_process).reduce(u64::saturating_add)
}

/// Returns the value after `name` in a line such as `TCP: inuse 12 orphan 0 tw 3 alloc 15 mem 1`.
pub(crate) fn pair(text: &str, line: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|candidate| candidate.strip_prefix(line))?;
    let mut words = rest.split_ascii_whitespace();
    words.find(|word| *word == name)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::tree as root;

    #[test]
    fn the_files_of_a_host_are_understood() {
        let root = root(&[
            (
                "meminfo",
                "MemTotal:       24576000 kB\nMemFree:         1000 kB\n\
                 MemAvailable:   20480000 kB\nSlab:             512000 kB\n\
                 SReclaimable:     12000 kB\n",
            ),
            (
                "net/sockstat",
                "sockets: used 300\nTCP: inuse 12 orphan 1 tw 3 alloc 15 mem 70\n\
                 UDP: inuse 2 mem 1\n",
            ),
            ("net/sockstat6", "TCP6: inuse 5\nUDP6: inuse 1\n"),
            (
                "slabinfo",
                "slabinfo - version: 2.1\n# name <active_objs> <num_objs> <objsize>\n\
                 sock_inode_cache 280 300 832 19 4 : tunables 0 0 0\n\
                 proc_inode_cache 900 1000 696 23 4 : tunables 0 0 0\n\
                 dentry 5000 6000 192 21 1 : tunables 0 0 0\n",
            ),
            ("sys/fs/file-nr", "1632\t0\t9223372036854775807\n"),
        ]);
        let memory = HostMemory::read(root.path());
        let expected = HostMemory {
            total_bytes: Some(24_576_000 * 1024),
            available_bytes: Some(20_480_000 * 1024 - 300 * 1024),
            slab_bytes: Some(512_000 * 1024),
            proc_lookups_bytes: Some(1000 * (696 + 192)),
        };
        assert_eq!(memory, expected);
        assert_eq!(memory.slab_of_work_bytes(), Some(512_000 * 1024 - 888_000));
        let tcp = TcpSockets::read(root.path());
        let expected = TcpSockets { in_use: Some(17), time_wait: Some(3), buffer_pages: Some(70) };
        assert_eq!(tcp, expected);
        assert_eq!(open_files(root.path()), Some((1_632, i64::MAX as u64)));
    }

    #[test]
    fn what_sockets_hold_is_not_available() {
        let meminfo = "MemAvailable:   9000 kB\nSReclaimable:   2000 kB\n";
        for (sockets, available_kib) in [(100, 8_900), (3_000, 7_000)] {
            let sockstat = format!("sockets: used {sockets}\nTCP: inuse 12\n");
            let root = root(&[("meminfo", meminfo), ("net/sockstat", &sockstat)]);
            let memory = HostMemory::read(root.path());
            assert_eq!(memory.available_bytes, Some(available_kib * 1024), "{sockets}");
        }
    }

    #[test]
    fn the_shares_of_processes_add_up_without_the_pages_of_files() {
        let root = root(&[
            (
                "7/smaps_rollup",
                "55d0-7ffe ---p 0 00:00 0 [rollup]\nRss: 900 kB\nPss: 620 kB\nPss_Anon: 90 kB\n\
                 Pss_File: 500 kB\nPss_Shmem: 20 kB\nSwapPss: 10 kB\n",
            ),
            ("8/smaps_rollup", "55d0-7ffe ---p 0 00:00 0 [rollup]\nRss: 900 kB\nPss: 80 kB\n"),
        ]);
        assert_eq!(private_bytes(root.path(), &[7, 8, 9]), Some(200 * 1024));
        assert_eq!(private_bytes(root.path(), &[9]), None);
        assert_eq!(private_bytes(root.path(), &[]), None);
    }

    #[test]
    fn what_is_broken_or_missing_stays_missing() {
        let root = root(&[
            ("meminfo", "MemTotal: much kB\nMemAvailable:\nSlab: 99999999999999999999 kB\n"),
            ("net/sockstat", "TCP: inuse\n"),
            ("sys/fs/file-nr", "1 0"),
        ]);
        assert_eq!(HostMemory::read(root.path()), HostMemory::default());
        assert_eq!(TcpSockets::read(root.path()), TcpSockets::default());
        assert_eq!(open_files(root.path()), None);
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(TcpSockets::read(nothing.path()), TcpSockets::default());
    }

    #[test]
    fn this_host_is_readable() {
        let root = Path::new("/proc");
        let memory = HostMemory::read(root);
        assert!(memory.available_bytes <= memory.total_bytes && memory.slab_bytes > Some(0));
        assert!(private_bytes(root, &[std::process::id()]) > Some(100_000));
        assert!(TcpSockets::read(root).in_use.is_some() && open_files(root).is_some());
    }
}
