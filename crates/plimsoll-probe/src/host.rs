//! Resources of the host that processes may use: CPUs, and the rate of a link.

use crate::file;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

pub use crate::limits::throttled_periods;

/// Reads the most bytes per second that the interface `device` sends, below `root` (`/`); `None` if it is not hardware,
/// whose speed is invented, or does not report it.
pub fn link_bytes_per_s(root: &Path, device: &str) -> Option<f64> {
    let interface = root.join("sys/class/net").join(device);
    if !interface.join("device").exists() {
        return None;
    }
    // -1 where the hardware does not say.
    let megabits: u32 = file::text(interface.join("speed")).ok()?.trim().parse().ok()?;
    (megabits > 0).then(|| f64::from(megabits) * 1e6 / 8.0)
}

/// Returns `device` and the interfaces below it: the members of a bridge, a bond, or a VLAN.
pub fn with_lower_devices(root: &Path, device: &str) -> BTreeSet<String> {
    let mut all = BTreeSet::from([device.to_owned()]);
    let mut next = vec![device.to_owned()];
    while let Some(device) = next.pop() {
        let entries = fs::read_dir(root.join("sys/class/net").join(device));
        let names = entries.into_iter().flatten().flatten().map(|entry| entry.file_name());
        let lower =
            names.filter_map(|name| Some(name.to_str()?.strip_prefix("lower_")?.to_owned()));
        next.extend(lower.filter(|name| all.insert(name.clone())));
    }
    all
}

/// Returns the CPUs that any thread of `pids` may run on, below `proc_root`. Unreadable threads are left out.
pub fn cpus_allowed(proc_root: &Path, pids: &[u32]) -> BTreeSet<u32> {
    let mut cpus = BTreeSet::new();
    for pid in pids {
        let tasks = proc_root.join(pid.to_string()).join("task");
        for task in fs::read_dir(tasks).into_iter().flatten().flatten() {
            let status = file::text(task.path().join("status")).unwrap_or_default();
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
    use crate::fixture::tree;

    #[test]
    fn affinity_and_line_rates_are_understood() {
        let status = "Name:\tx\nCpus_allowed:\t10f\nCpus_allowed_list:\t0-3,8\nMems_allowed:\t1\n";
        assert_eq!(allowed(status), Some(vec![0, 1, 2, 3, 8]));
        assert_eq!(allowed("Cpus_allowed_list:\tall\n"), None);
        let root = tree(&[
            ("sys/class/net/eth0/device/vendor", "0x1af4\n"),
            ("sys/class/net/eth0/speed", "1000\n"),
            ("sys/class/net/eth1/device/vendor", "0x1af4\n"),
            ("sys/class/net/eth1/speed", "-1\n"),
            ("sys/class/net/veth/speed", "10000\n"),
            ("sys/class/net/bond0/lower_eth0/speed", "1000\n"),
            ("sys/class/net/bond0/lower_eth1/speed", "1000\n"),
            ("sys/class/net/bond0/speed", "2000\n"),
            ("sys/class/net/vlan7/lower_bond0/speed", "2000\n"),
        ]);
        let speed = |device| link_bytes_per_s(root.path(), device);
        assert_eq!(speed("eth0"), Some(125e6));
        assert_eq!((speed("eth1"), speed("veth"), speed("missing")), (None, None, None));
        let below = |device| Vec::from_iter(with_lower_devices(root.path(), device));
        assert_eq!(below("vlan7"), ["bond0", "eth0", "eth1", "vlan7"]);
        assert_eq!(
            (below("eth1"), below("missing")),
            (vec!["eth1".to_owned()], vec!["missing".to_owned()])
        );
    }

    #[test]
    fn this_host_is_readable() {
        let root = Path::new("/proc");
        assert!(!cpus_allowed(root, &[std::process::id()]).is_empty());
        assert!(cpus_allowed(root, &[]).is_empty());
    }
}
