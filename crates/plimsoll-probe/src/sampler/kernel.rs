//! CPU, pressure, memory, files and tasks of the whole host.

use std::path::Path;

use plimsoll_model::host::{Label, LimitId, LimitKind, Metric, Reading};

use super::entry::{add_limit, text};
use crate::memory::{FileCaches, HostMemory};
use crate::{file, limits, memory};

/// Length of a tick in `/proc/stat`: USER_HZ is 100 on every Linux that Rust supports.
const TICKS_PER_S: f64 = 100.0;
/// The columns of a CPU in `/proc/stat`. Guest time is part of user and nice.
const MODES: [&str; 8] = ["user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal"];
const RESOURCES: [&str; 3] = ["cpu", "memory", "io"];

/// Reads the kernel's figures, only for `cpus` unless it is empty.
pub(super) fn read(root: &Path, cpus: &[u32], caches: FileCaches, reading: &mut Reading) {
    read_cpu(root, &RESOURCES, cpus, reading);
    if let Some(vmstat) = text(root, "proc/vmstat", reading) {
        add_vmstat(&vmstat, reading);
    }
    add_memory(root, caches, reading);
    add_limits(root, reading);
}

/// Reads the CPU time, and the pressure on `resources`.
pub(super) fn read_cpu(root: &Path, resources: &[&str], cpus: &[u32], reading: &mut Reading) {
    if let Some(stat) = text(root, "proc/stat", reading) {
        add_stat(&stat, cpus, reading);
    }
    for resource in resources {
        if let Some(pressure) = text(root, &format!("proc/pressure/{resource}"), reading) {
            add_pressure(&pressure, resource, reading);
        }
    }
}

fn add_stat(stat: &str, wanted: &[u32], reading: &mut Reading) {
    let mut cpus = 0;
    let is_wanted =
        |cpu: &str| wanted.is_empty() || cpu.parse().is_ok_and(|cpu: u32| wanted.contains(&cpu));
    for line in stat.lines() {
        let mut words = line.split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        let first = |mut words: std::str::SplitAsciiWhitespace<'_>| words.next()?.parse().ok();
        match name {
            "ctxt" => reading.add_some(Metric::ContextSwitches, &[], first(words)),
            "procs_running" => reading.add_some(Metric::RunnableTasks, &[], first(words)),
            _ => {
                // The line `cpu` is their sum.
                let Some(cpu) = name.strip_prefix("cpu").filter(|cpu| !cpu.is_empty()) else {
                    continue;
                };
                if !is_wanted(cpu) {
                    continue;
                }
                cpus += 1;
                for (mode, ticks) in MODES.iter().zip(words) {
                    let seconds = ticks.parse::<f64>().ok().map(|ticks| ticks / TICKS_PER_S);
                    let labels = [(Label::Cpu, cpu), (Label::Mode, *mode)];
                    reading.add_some(Metric::CpuSeconds, &labels, seconds);
                }
            }
        }
    }
    reading.add(Metric::HostCpus, &[], f64::from(cpus));
}

/// Reads the clock frequency of a CPU, hertz; `None` if the kernel does not report it, as in most virtual machines.
pub(super) fn frequency(root: &Path, cpu: &str) -> Option<f64> {
    let path = format!("sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq");
    let khz: f64 = file::text(root.join(path)).ok()?.trim().parse().ok()?;
    Some(1e3 * khz)
}

/// `some avg10=0.00 avg60=0.20 avg300=1.03 total=8995482`, in microseconds.
fn add_pressure(pressure: &str, resource: &str, reading: &mut Reading) {
    for line in pressure.lines() {
        let kind = line.split_ascii_whitespace().next().unwrap_or_default();
        // Of the whole host, `full` of the CPU is always 0.
        if !["some", "full"].contains(&kind) || (resource, kind) == ("cpu", "full") {
            continue;
        }
        let total = line.rsplit_once("total=").and_then(|(_, total)| total.parse::<f64>().ok());
        let labels = [(Label::Resource, resource), (Label::Kind, kind)];
        reading.add_some(Metric::PressureSeconds, &labels, total.map(|us| us / 1e6));
    }
}

fn add_vmstat(vmstat: &str, reading: &mut Reading) {
    let mut stalls = None;
    for line in vmstat.lines() {
        let Some((name, value)) = line.split_once(' ') else { continue };
        let Ok(value) = value.trim().parse::<f64>() else { continue };
        match name {
            "oom_kill" => reading.add(Metric::OomKills, &[], value),
            "pgmajfault" => reading.add(Metric::MajorFaults, &[], value),
            "pswpin" => reading.add(Metric::SwapIns, &[], value),
            // One for each zone of memory.
            _ if name.starts_with("allocstall") => stalls = Some(stalls.unwrap_or(0.0) + value),
            _ => {}
        }
    }
    reading.add_some(Metric::AllocationStalls, &[], stalls);
}

fn add_memory(root: &Path, caches: FileCaches, reading: &mut Reading) {
    let memory = HostMemory::read_with(&root.join("proc"), caches);
    let bytes = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64);
    reading.add_some(Metric::MemoryTotalBytes, &[], bytes(memory.total_bytes));
    reading.add_some(Metric::MemoryAvailableBytes, &[], bytes(memory.available_bytes));
    reading.add_some(Metric::MemorySlabBytes, &[], bytes(memory.slab_bytes));
    match (memory.total_bytes, memory.available_bytes) {
        (Some(total), Some(available)) => {
            let used = total.saturating_sub(available) as f64;
            add_limit(reading, &LimitId::host(LimitKind::Memory), Some(used), Some(total as f64));
        }
        _ => reading.miss("/proc/meminfo", "MemTotal or MemAvailable is missing"),
    }
}

fn add_limits(root: &Path, reading: &mut Reading) {
    let proc_root = root.join("proc");
    match memory::open_files(&proc_root) {
        // 2^63 is no limit.
        Some((open, max)) if max < i64::MAX as u64 => {
            let limit = LimitId::host(LimitKind::OpenFiles);
            add_limit(reading, &limit, Some(open as f64), Some(max as f64));
        }
        Some(_) => {}
        None => reading.miss("/proc/sys/fs/file-nr", "not readable"),
    }
    let [used, max] = [limits::tasks_in_use, limits::tasks_max].map(|read| read(&proc_root));
    let number = |count: Option<u64>| count.map(|count| count as f64);
    add_limit(reading, &LimitId::host(LimitKind::Threads), number(used), number(max));
}
