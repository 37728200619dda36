//! The control group of a process, in both versions of their file system: CPU quota, memory, tasks.

use std::path::{Path, PathBuf};

use plimsoll_model::host::{Label, LimitId, LimitKind, Metric, Reading, Sample};

use super::disk;
use super::entry::add_limit;
use crate::file;
use crate::limits::{Allowance, CgroupLimits, CpuQuota, figure, first_number, groups_of};

/// Placeholder for the group's displayed name in figures that are read once for all processes in the group.
const NAME: &str = "";

/// Control groups in one reading. Processes of one program are in the same ones, which are read once.
#[derive(Debug, Default)]
pub(super) struct GroupsRead(Vec<GroupRead>);

#[derive(Debug)]
struct GroupRead {
    memberships: String,
    samples: Vec<Sample>,
    memory_bytes: Option<Allowance>,
}

impl GroupsRead {
    /// Adds the groups of `process` (an entry of `/proc`), shown as `name`. A host without control groups misses
    /// nothing. Returns their memory limit.
    pub(super) fn add(
        &mut self,
        root: &Path,
        process: &str,
        name: &str,
        reading: &mut Reading,
    ) -> Option<Allowance> {
        let file = root.join("proc").join(process).join("cgroup");
        let memberships = file::text(file).unwrap_or_default();
        let known = self.0.iter().position(|group| group.memberships == memberships);
        let known = known.unwrap_or_else(|| {
            let mut of_group = Reading::default();
            let memory_bytes = read(root, process, NAME, &mut of_group);
            disk::add(root, process, NAME, &mut of_group);
            self.0.push(GroupRead { memberships, samples: of_group.samples, memory_bytes });
            self.0.len() - 1
        });
        let GroupRead { samples, memory_bytes, .. } = &self.0[known];
        reading.samples.extend(samples.iter().cloned().map(|mut sample| {
            let labels = sample.series.labels.iter_mut();
            labels.filter(|(_, text)| text == NAME).for_each(|(_, text)| name.clone_into(text));
            sample
        }));
        *memory_bytes
    }
}

/// Returns the number of `name`, for a reading.
fn value(text: &str, name: &str) -> Option<f64> {
    figure(text, name).map(|number| number as f64)
}

/// The groups from the nearest one on that has one of `files`: a group without a controller is counted
/// in one above it.
fn counted(root: &Path, process: &str, controller: &str, files: &[&str]) -> Vec<PathBuf> {
    let has_none = |group: &PathBuf| !files.iter().any(|file| group.join(file).exists());
    groups_of(root, process, controller).into_iter().skip_while(has_none).collect()
}

/// The texts of `file` of the first group, and of the nearest one that has one of `limits`: kernels
/// count an event in the group that met a limit, or in the one that has it.
fn events(groups: &[PathBuf], file: &str, limits: &[&str]) -> Vec<String> {
    // `max` is no number.
    let has_limit =
        |group: &PathBuf| limits.iter().any(|limit| first_number(&group.join(limit)).is_some());
    let limited = groups.iter().position(has_limit);
    let read = |group: &PathBuf| file::text(group.join(file)).ok();
    let of = groups.iter().enumerate().filter(|(at, _)| *at == 0 || Some(*at) == limited);
    of.filter_map(|(_, group)| read(group)).collect()
}

/// Returns the count of `name`.
fn times(events: &[String], name: &str) -> Option<f64> {
    events.iter().filter_map(|text| value(text, name)).reduce(f64::max)
}

/// Reads the groups of `process`; returns their memory limit.
fn read(root: &Path, process: &str, name: &str, reading: &mut Reading) -> Option<Allowance> {
    let labels = [(Label::Cgroup, name)];
    let limits = CgroupLimits::of_process(root, process);
    let groups = groups_of(root, process, "cpu");
    // The least quota is used up first, whichever group has it.
    let limited = groups.iter().filter_map(|group| Some((CpuQuota::read(group)?.cpus(), group)));
    let limited = limited.min_by(|(a, _), (b, _)| a.total_cmp(b));
    if let Some(group) = limited.map(|(_, group)| group).or_else(|| groups.first()) {
        let stat = file::text(group.join("cpu.stat")).unwrap_or_default();
        let us = |field| value(&stat, field).map(|us| us / 1e6);
        reading.add_some(Metric::CgroupCpuSeconds, &labels, us("usage_usec"));
        reading.add_some(Metric::CgroupPeriods, &labels, value(&stat, "nr_periods"));
        reading.add_some(Metric::CgroupThrottledPeriods, &labels, value(&stat, "nr_throttled"));
        // Version 1 counts nanoseconds under another name.
        let throttled =
            us("throttled_usec").or_else(|| value(&stat, "throttled_time").map(|ns| ns / 1e9));
        reading.add_some(Metric::CgroupThrottledSeconds, &labels, throttled);
        reading.add_some(Metric::CgroupCpuLimit, &labels, limited.map(|(limit, _)| limit));
    }
    let used = ["memory.current", "memory.usage_in_bytes"];
    let groups = counted(root, process, "memory", &used);
    if let Some(group) = groups.first() {
        let bytes = used.iter().find_map(|file| first_number(&group.join(file)));
        reading.add_some(Metric::CgroupMemoryBytes, &labels, bytes.map(|bytes| bytes as f64));
        let events = events(&groups, "memory.events", &["memory.max", "memory.high"]);
        for event in ["high", "max", "oom", "oom_kill"] {
            let labels = [(Label::Cgroup, name), (Label::Event, event)];
            reading.add_some(Metric::CgroupMemoryEvents, &labels, times(&events, event));
        }
    }
    let groups = counted(root, process, "pids", &["pids.current"]);
    if let Some(group) = groups.first() {
        let tasks = first_number(&group.join("pids.current")).map(|tasks| tasks as f64);
        reading.add_some(Metric::CgroupTasks, &labels, tasks);
        let events = events(&groups, "pids.events", &["pids.max"]);
        reading.add_some(Metric::CgroupPidsRefused, &labels, times(&events, "max"));
        // A group above it may be the tighter one.
        let max = tasks.zip(limits.tasks).map(|(tasks, allowed)| tasks + allowed.left as f64);
        add_limit(reading, &LimitId::of(LimitKind::CgroupThreads, name), tasks, max);
    }
    limits.memory_bytes
}
