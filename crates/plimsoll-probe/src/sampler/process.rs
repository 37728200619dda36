//! One process: its threads, descriptors and memory, its control group.

use std::fs;
use std::path::Path;

use plimsoll_model::host::{Label, LimitId, LimitKind, Metric, Reading};

use super::cgroup::GroupsRead;
use super::entry::add_limit;
use super::nginx;
use super::scope::WatchedProcess;
use crate::processes::{ProcessUse, resident_bytes};
use crate::{file, lines, memory};

/// The most threads that are read one by one; the rest is left out, and said to be missing.
const THREADS_MAX: usize = 256;
/// Threads whose waits are read: threads of a pool are alike.
const WAITS_READ_MAX: usize = 32;
/// Waits of a thread, by the function of the kernel that it sleeps in.
const WAITS: [(&str, &str); 6] = [
    ("pipe_write", "pipe"),
    ("unix_wait_for_peer", "socket"),
    ("sock_alloc_send", "socket"),
    ("sk_stream_wait_memory", "socket"),
    ("futex", "lock"),
    ("io_schedule", "disk"),
];
/// Every state that is counted, so that a state without threads is 0 and not missing.
const WAIT_STATES: [&str; 4] = ["disk", "lock", "pipe", "socket"];

pub(super) fn read(
    root: &Path,
    watched: &WatchedProcess,
    reads_private: bool,
    groups: &mut GroupsRead,
    reading: &mut Reading,
) {
    let WatchedProcess { name, pid, role } = watched;
    let proc_root = root.join("proc");
    let directory = proc_root.join(pid.to_string());
    let labels = [(Label::Process, name.as_str()), (Label::Role, role.name())];
    reading.add(Metric::ProcessInfo, &labels, 1.0);
    add_threads(&directory, watched, reading);
    let labels = [(Label::Process, name.as_str())];
    let of = |kind| LimitId::of(kind, name.as_str());
    let used = ProcessUse::without_group(root, *pid);
    match used.files {
        Some((open, max)) => {
            reading.add(Metric::ProcessOpenFds, &labels, open as f64);
            add_limit(reading, &of(LimitKind::OpenFiles), Some(open as f64), Some(max as f64));
        }
        None => reading.miss(format!("/proc/{pid}/fd"), "only its user and root may count them"),
    }
    let both = |(used, max): (u64, u64)| (Some(used as f64), Some(max as f64));
    if let Some((used, max)) = used.address_space_bytes.map(both) {
        add_limit(reading, &of(LimitKind::AddressSpace), used, max);
    }
    let written = file::text(directory.join("io")).ok();
    let written = written.and_then(|io| lines::number(&io, "write_bytes:"));
    reading.add_some(Metric::ProcessWrittenBytes, &labels, written.map(|bytes| bytes as f64));
    if let Some((open, max)) = nginx::connections(root, *pid, used.files.map(|files| files.0)) {
        let limit = of(LimitKind::WorkerConnections);
        add_limit(reading, &limit, Some(open as f64), Some(max as f64));
    }
    let resident = resident_bytes(root, *pid).map(|bytes| bytes as f64);
    reading.add_some(Metric::ProcessResidentBytes, &labels, resident);
    if reads_private {
        match memory::private_bytes(&proc_root, &[*pid]) {
            Some(bytes) => reading.add(Metric::ProcessPrivateBytes, &labels, bytes as f64),
            None => reading
                .miss(format!("/proc/{pid}/smaps_rollup"), "only its user and root may read it"),
        }
    }
    if let Some(memory) = groups.add(root, &pid.to_string(), name, reading) {
        let (used, max) = (memory.used() as f64, memory.max as f64);
        add_limit(reading, &of(LimitKind::CgroupMemory), Some(used), Some(max));
    }
}

/// Adds the threads, numbered in the order of their ids, so that a series continues as long as no thread exits.
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
        let Ok(schedstat) = file::text(task.join("schedstat")) else { continue };
        let numbers: Vec<f64> =
            schedstat.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        let [running_ns, waiting_ns, slices] = numbers[..] else { continue };
        let comm = file::text(task.join("comm")).unwrap_or_default();
        let thread = format!("{}/{number}", comm.trim());
        let labels = [(Label::Process, watched.name.as_str()), (Label::Thread, thread.as_str())];
        reading.add(Metric::ProcessCpuSeconds, &labels, running_ns / 1e9);
        reading.add(Metric::ProcessRunDelaySeconds, &labels, waiting_ns / 1e9);
        reading.add(Metric::ProcessTimeslices, &labels, slices);
    }
    let first = &threads[..count.min(WAITS_READ_MAX)];
    add_waits(directory, first, &watched.name, reading);
}

/// Adds the current waits of the threads, and their counts.
fn add_waits(directory: &Path, threads: &[u32], name: &str, reading: &mut Reading) {
    let (mut switches, mut are_known) = (None, false);
    let mut waiting = WAIT_STATES.map(|state| (state, 0.0));
    for thread in threads {
        let task = directory.join("task").join(thread.to_string());
        let text = |file: &str| file::text(task.join(file)).ok();
        let status = text("status").unwrap_or_default();
        if let Some(count) = lines::number(&status, "voluntary_ctxt_switches:") {
            switches = Some(switches.unwrap_or(0.0) + count as f64);
        }
        let Some(state) = lines::word(&status, "State:") else { continue };
        are_known = true;
        let found = if state.starts_with('D') {
            Some("disk")
        } else if state.starts_with('S') {
            let wchan = text("wchan").unwrap_or_default();
            WAITS.iter().find(|(function, _)| wchan.contains(function)).map(|(_, state)| *state)
        } else {
            None
        };
        if let Some((_, count)) = waiting.iter_mut().find(|(state, _)| Some(*state) == found) {
            *count += 1.0;
        }
    }
    let labels = [(Label::Process, name)];
    reading.add_some(Metric::ProcessVoluntarySwitches, &labels, switches);
    for (state, waiting) in waiting.into_iter().filter(|_| are_known) {
        let labels = [(Label::Process, name), (Label::State, state)];
        reading.add(Metric::ProcessWaiting, &labels, waiting);
    }
}
