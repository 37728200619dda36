//! CPU use of the host, steal and throttled time, and memory pressure.
//! Counters since boot: a figure is the difference of two readings.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use plimsoll_model::Nanos;
use procfs_core::{FromRead, MemoryPressure};

pub use crate::limits::throttled_periods;

/// Ticks of all CPUs together, from `/proc/stat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTicks {
    /// All ticks.
    pub total: u64,
    /// Idle, or waiting for a disk.
    pub idle: u64,
    /// Stolen: a task was ready and the hypervisor ran something else.
    pub stolen: u64,
}

impl CpuTicks {
    /// Reads `stat` below `proc_root` (`/proc`).
    pub fn read(proc_root: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(proc_root.join("stat")).ok()?)
    }

    /// The first line: `cpu  user nice system idle iowait irq softirq steal guest guest_nice`.
    fn parse(stat: &str) -> Option<Self> {
        let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Result<Vec<u64>, _> = fields.split_ascii_whitespace().map(str::parse).collect();
        let ticks = ticks.ok()?;
        // Guest time is part of user and nice already.
        let total = ticks.get(..8)?.iter().try_fold(0u64, |sum, part| sum.checked_add(*part))?;
        Some(Self { total, idle: ticks[3].checked_add(ticks[4])?, stolen: ticks[7] })
    }

    /// Fraction of the CPU time since `earlier` that was not idle, stolen time included; `None` when
    /// no tick has passed.
    pub fn busy_since(&self, earlier: &Self) -> Option<f64> {
        let total = self.total.checked_sub(earlier.total).filter(|ticks| *ticks > 0)?;
        // The kernel sometimes corrects idle time downwards.
        let idle = self.idle.saturating_sub(earlier.idle).min(total);
        Some((total - idle) as f64 / total as f64)
    }

    /// Fraction of the CPU time since `earlier` that was stolen.
    pub fn stolen_since(&self, earlier: &Self) -> Option<f64> {
        let total = self.total.checked_sub(earlier.total).filter(|ticks| *ticks > 0)?;
        Some(self.stolen.saturating_sub(earlier.stolen).min(total) as f64 / total as f64)
    }
}

/// For how long all tasks that were not idle waited for memory, since boot: the `full` line of
/// `pressure/memory` below `proc_root`. `None` on kernels without pressure information.
pub fn memory_full_stall(proc_root: &Path) -> Option<Nanos> {
    let pressure = MemoryPressure::from_file(proc_root.join("pressure/memory")).ok()?;
    pressure.full.total.checked_mul(1_000).map(Nanos)
}

/// CPUs that any thread of `pids` may run on, below `proc_root`. What cannot be read is left out.
pub fn cpus_allowed(proc_root: &Path, pids: &[u32]) -> BTreeSet<u32> {
    let mut cpus = BTreeSet::new();
    for pid in pids {
        let tasks = proc_root.join(pid.to_string()).join("task");
        for task in fs::read_dir(tasks).into_iter().flatten().flatten() {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            cpus.extend(allowed(&status).into_iter().flatten());
        }
    }
    cpus
}

/// The line `Cpus_allowed_list: 0-3,8`.
fn allowed(status: &str) -> Option<Vec<u32>> {
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let mut cpus = Vec::new();
    for range in list.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        cpus.extend(first.parse::<u32>().ok()?..=last.parse::<u32>().ok()?);
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Linux 6.18, a virtual machine with two CPUs.
    const STAT: &str = "cpu  42744 0 6727 28497 894 0 209 2347 0 0\n\
         cpu0 20720 0 3088 15611 98 0 129 1072 0 0\n\
         cpu1 22024 0 3639 12885 795 0 79 1274 0 0\n\
         intr 530962 0 0\nctxt 1\n";
    const STAT_LATER: &str = "cpu  42844 0 6777 28527 904 0 209 2357 0 0\n";

    #[test]
    fn ticks_of_all_cpus_make_shares() {
        let before = CpuTicks::parse(STAT).expect("golden");
        assert_eq!(before, CpuTicks { total: 81_418, idle: 29_391, stolen: 2_347 });
        let after = CpuTicks::parse(STAT_LATER).expect("golden");
        // 200 ticks, of which 40 idle and 10 stolen.
        assert_eq!(after.busy_since(&before), Some(0.8));
        assert_eq!(after.stolen_since(&before), Some(0.05));
        assert_eq!(before.busy_since(&before), None);
        for broken in ["", "cpu  1 2 3", "cpu  a b c d e f g h i j", "cpu0 1 2 3 4 5 6 7 8"] {
            assert_eq!(CpuTicks::parse(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn pressure_and_affinity_are_understood() {
        let root = tempfile::tempdir().unwrap();
        assert_eq!(memory_full_stall(root.path()), None);
        fs::create_dir(root.path().join("pressure")).unwrap();
        let text = "some avg10=0.00 avg60=0.20 avg300=1.03 total=8995482\n\
             full avg10=0.00 avg60=0.08 avg300=0.72 total=6687922\n";
        fs::write(root.path().join("pressure/memory"), text).unwrap();
        assert_eq!(memory_full_stall(root.path()), Some(Nanos(6_687_922_000)));
        let status = "Name:\tx\nCpus_allowed:\t10f\nCpus_allowed_list:\t0-3,8\nMems_allowed:\t1\n";
        assert_eq!(allowed(status), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(allowed("Cpus_allowed_list:\tall\n"), None);
    }

    #[test]
    fn this_host_is_readable() {
        let root = Path::new("/proc");
        assert!(CpuTicks::read(root).is_some_and(|ticks| ticks.total > ticks.idle));
        assert!(!cpus_allowed(root, &[std::process::id()]).is_empty());
        assert!(cpus_allowed(root, &[]).is_empty());
    }
}
