//! The control group of a process, in both versions of their file system: CPU quota, memory, tasks.

use std::fs;
use std::path::Path;

use plimsoll_model::host::{Label, Metric, Reading};

use super::add_limit;
use crate::limits::{CgroupLimits, figure, first_number, group_of};

/// The number of `name`, for a reading.
fn value(text: &str, name: &str) -> Option<f64> {
    figure(text, name).map(|number| number as f64)
}

/// CPUs that a group may use; `None` without a quota.
fn cpu_limit(group: &Path) -> Option<f64> {
    let number = |file: &str| first_number(&group.join(file)).map(|number| number as f64);
    // `20000 100000`, or `max 100000`, in microseconds.
    if let Ok(text) = fs::read_to_string(group.join("cpu.max")) {
        let mut numbers = text.split_ascii_whitespace().map(str::parse::<f64>);
        let (quota, period) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        return Some(quota / period);
    }
    // Version 1 writes -1 without a quota, which is no number here.
    Some(number("cpu.cfs_quota_us")? / number("cpu.cfs_period_us")?)
}

/// Reads the group of `process` (an entry of `/proc`), shown as `name`. A host without control groups
/// misses nothing.
pub(super) fn read(root: &Path, process: &str, name: &str, reading: &mut Reading) {
    let labels = [(Label::Cgroup, name)];
    if let Some(group) = group_of(root, process, "cpu") {
        let stat = fs::read_to_string(group.join("cpu.stat")).unwrap_or_default();
        let us = |field| value(&stat, field).map(|us| us / 1e6);
        reading.add_some(Metric::CgroupCpuSeconds, &labels, us("usage_usec"));
        reading.add_some(Metric::CgroupPeriods, &labels, value(&stat, "nr_periods"));
        reading.add_some(Metric::CgroupThrottledPeriods, &labels, value(&stat, "nr_throttled"));
        // Version 1 counts nanoseconds under another name.
        let throttled =
            us("throttled_usec").or_else(|| value(&stat, "throttled_time").map(|ns| ns / 1e9));
        reading.add_some(Metric::CgroupThrottledSeconds, &labels, throttled);
        reading.add_some(Metric::CgroupCpuLimit, &labels, cpu_limit(&group));
    }
    if let Some(group) = group_of(root, process, "memory") {
        let used = ["memory.current", "memory.usage_in_bytes"];
        let used = used.iter().find_map(|file| first_number(&group.join(file)));
        reading.add_some(Metric::CgroupMemoryBytes, &labels, used.map(|bytes| bytes as f64));
        let events = fs::read_to_string(group.join("memory.events")).unwrap_or_default();
        for event in ["high", "max", "oom", "oom_kill"] {
            let labels = [(Label::Cgroup, name), (Label::Event, event)];
            reading.add_some(Metric::CgroupMemoryEvents, &labels, value(&events, event));
        }
    }
    if let Some(group) = group_of(root, process, "pids") {
        let tasks = first_number(&group.join("pids.current")).map(|tasks| tasks as f64);
        reading.add_some(Metric::CgroupTasks, &labels, tasks);
        let events = fs::read_to_string(group.join("pids.events")).unwrap_or_default();
        reading.add_some(Metric::CgroupPidsRefused, &labels, value(&events, "max"));
        // A group above it may be the tighter one.
        let allowed = CgroupLimits::of_process(root, process).tasks;
        let max = tasks.zip(allowed).map(|(tasks, allowed)| tasks + allowed.left as f64);
        add_limit(reading, "threads of the control group", name, tasks, max);
    }
}
