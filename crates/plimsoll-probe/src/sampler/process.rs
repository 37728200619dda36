//! One process: its threads, descriptors and memory, its control group.

use std::fs;
use std::path::Path;

use plimsoll_model::host::{Label, Metric, Reading};

use super::{WatchedProcess, add_limit, cgroup};
use crate::memory;
use crate::processes::{ProcessUse, resident_bytes};

/// The most threads that are read one by one; the rest is left out, and said to be missing.
const THREADS_MAX: usize = 256;

pub(super) fn read(root: &Path, watched: &WatchedProcess, reads_pss: bool, reading: &mut Reading) {
    let WatchedProcess { name, pid, role } = watched;
    let proc_root = root.join("proc");
    let directory = proc_root.join(pid.to_string());
    if !directory.exists() {
        return reading.miss(format!("{name} (process {pid})"), "it has ended");
    }
    let labels = [(Label::Process, name.as_str()), (Label::Role, role.name())];
    reading.add(Metric::ProcessInfo, &labels, 1.0);
    add_threads(&directory, watched, reading);
    let labels = [(Label::Process, name.as_str())];
    let used = ProcessUse::read(root, *pid);
    match used.files {
        Some((open, max)) => {
            reading.add(Metric::ProcessOpenFds, &labels, open as f64);
            add_limit(reading, "open files", name, Some(open as f64), Some(max as f64));
        }
        None => reading.miss(format!("/proc/{pid}/fd"), "only its user and root may count them"),
    }
    let both = |(used, max): (u64, u64)| (Some(used as f64), Some(max as f64));
    if let Some((used, max)) = used.address_space_bytes.map(both) {
        add_limit(reading, "address space", name, used, max);
    }
    if let Some((used, max)) = used.group_bytes.map(both) {
        add_limit(reading, "memory of the control group", name, used, max);
    }
    let resident = resident_bytes(root, *pid).map(|bytes| bytes as f64);
    reading.add_some(Metric::ProcessResidentBytes, &labels, resident);
    if reads_pss {
        match memory::proportional_bytes(&proc_root, &[*pid]) {
            Some(bytes) => reading.add(Metric::ProcessPssBytes, &labels, bytes as f64),
            None => reading
                .miss(format!("/proc/{pid}/smaps_rollup"), "only its user and root may read it"),
        }
    }
    cgroup::read(root, &pid.to_string(), name, reading);
}

/// Threads are numbered in the order of their ids, so that a series goes on while none ends.
fn add_threads(directory: &Path, watched: &WatchedProcess, reading: &mut Reading) {
    let entries = fs::read_dir(directory.join("task")).into_iter().flatten().flatten();
    let mut threads: Vec<u32> =
        entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    threads.sort_unstable();
    let count = threads.len();
    reading.add(Metric::ProcessThreads, &[(Label::Process, &watched.name)], count as f64);
    if count > THREADS_MAX {
        let reason = format!("only {THREADS_MAX} of {count} are read");
        reading.miss(format!("threads of {}", watched.name), reason);
    }
    for (number, thread) in threads.iter().take(THREADS_MAX).enumerate() {
        let task = directory.join("task").join(thread.to_string());
        let Ok(schedstat) = fs::read_to_string(task.join("schedstat")) else { continue };
        let numbers: Vec<f64> =
            schedstat.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        let [running_ns, waiting_ns, slices] = numbers[..] else { continue };
        let comm = fs::read_to_string(task.join("comm")).unwrap_or_default();
        let thread = format!("{}/{number}", comm.trim());
        let labels = [(Label::Process, watched.name.as_str()), (Label::Thread, thread.as_str())];
        reading.add(Metric::ProcessCpuSeconds, &labels, running_ns / 1e9);
        reading.add(Metric::ProcessRunDelaySeconds, &labels, waiting_ns / 1e9);
        reading.add(Metric::ProcessTimeslices, &labels, slices);
    }
}
