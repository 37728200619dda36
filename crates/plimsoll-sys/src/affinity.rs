//! CPU affinity of threads, and their scheduling priority and latency.
//!
//! [`usable_cpus`] and [`by_core`] list CPUs, [`pin_thread`] and [`move_threads`] set them and return errors.
//! [`prefer_latency`] sets timer slack and scheduling slice of the calling thread. The other functions set nice
//! values or the scheduling policy; they are best effort, and a refusal by the kernel changes nothing. On Linux all
//! of these belong to a thread, so a function for a process walks `/proc/PID/task`. Start reading at
//! [`prefer_latency`].

use std::path::Path;
use std::{fs, io};

use rustix::io::Errno;
use rustix::thread::{CpuSet, Pid, sched_getaffinity, sched_setaffinity};

/// Returns the CPUs the calling thread may run on, ascending.
pub fn usable_cpus() -> Vec<u32> {
    match sched_getaffinity(None) {
        Ok(set) => {
            (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).map(|cpu| cpu as u32).collect()
        }
        Err(_) => vec![0],
    }
}

/// Sorts `cpus` so that the threads of one core are adjacent. CPUs whose core the kernel does not report are sorted by
/// number.
pub fn by_core(mut cpus: Vec<u32>) -> Vec<u32> {
    cpus.sort_by_cached_key(|cpu| (first_of_core(*cpu).unwrap_or(*cpu), *cpu));
    cpus
}

/// The first CPU of the core that `cpu` is a thread of.
fn first_of_core(cpu: u32) -> Option<u32> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    // `0,4` or `0-1`.
    fs::read_to_string(path).ok()?.split([',', '-', '\n']).next()?.parse().ok()
}

/// Keeps the calling thread on `cpus`.
pub fn pin_thread(cpus: &[u32]) -> Result<(), Errno> {
    sched_setaffinity(None, &set_of(cpus.iter().copied()))
}

/// Moves the threads of process `pid` to other CPUs: a thread may run where `moved` sends the CPUs on which it
/// could run before. Threads that have ended meanwhile are no error.
pub fn move_threads(pid: u32, moved: impl Fn(u32) -> u32) -> io::Result<()> {
    for entry in fs::read_dir(Path::new("/proc").join(pid.to_string()).join("task"))? {
        let name = entry?.file_name();
        let thread = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        let Some(thread) = thread else { continue };
        let move_one = || {
            let now = sched_getaffinity(Some(thread))?;
            let cpus = (0..CpuSet::MAX_CPU).filter(|cpu| now.is_set(*cpu));
            sched_setaffinity(Some(thread), &set_of(cpus.map(|cpu| moved(cpu as u32))))
        };
        match move_one() {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn set_of(cpus: impl Iterator<Item = u32>) -> CpuSet {
    let mut set = CpuSet::new();
    for cpu in cpus.filter(|cpu| (*cpu as usize) < CpuSet::MAX_CPU) {
        set.set(cpu as usize);
    }
    set
}

/// Asks the kernel to wake the calling thread on time: timer slack of 1 ns instead of 50 us, and
/// a short scheduling slice, so that on a shared core it is picked soon after it wakes (EEVDF,
/// Linux 6.12 and later). Keeps its nice value. Needs no privilege; a kernel that knows neither is
/// no worse off.
pub fn prefer_latency() {
    // SAFETY: PR_SET_TIMERSLACK takes a number and touches no memory of ours.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1) };
    let mut attributes = SchedAttr { size: size_of::<SchedAttr>() as u32, ..SchedAttr::default() };
    // The call sets everything that it is given, so what is there is read first: policy and nice
    // value are the user's.
    // SAFETY: `attributes` has the size that is named and outlives the call; 0 is this thread.
    let read = unsafe {
        libc::syscall(libc::SYS_sched_getattr, 0, &raw mut attributes, attributes.size, 0)
    };
    let is_fair = [libc::SCHED_OTHER, libc::SCHED_BATCH].contains(&attributes.policy.cast_signed());
    if read != 0 || !is_fair {
        return;
    }
    // 0.1 ms, the smallest slice that the kernel accepts.
    attributes.runtime = 100_000;
    // SAFETY: as above.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

/// Runs `work` with a higher share of the CPU than other processes, if the user may ask for that
/// (root, or `RLIMIT_NICE`); otherwise as before. Threads that `work` starts are preferred, too.
pub fn with_preference<T>(work: impl FnOnce() -> T) -> T {
    // On Linux, a nice value belongs to a thread, and number 0 is the calling one.
    // SAFETY: all three calls take numbers and touch no memory of ours.
    let before = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, before.saturating_sub(PREFERENCE)) };
    let result = work();
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, before) };
    result
}

/// Gives all threads of this process, and the threads and processes that they start from now on, a higher share of
/// the CPU than other processes: a nice value of -10, if the user may ask for that (root, or `RLIMIT_NICE`).
/// Returns the nice value of the calling thread.
pub fn prefer_process() -> i32 {
    for entry in fs::read_dir("/proc/self/task").into_iter().flatten().flatten() {
        let Some(thread) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        // SAFETY: both calls take numbers and touch no memory of ours. A thread that has ended is no error.
        unsafe {
            if libc::getpriority(libc::PRIO_PROCESS, thread) > -PREFERENCE {
                libc::setpriority(libc::PRIO_PROCESS, thread, -PREFERENCE);
            }
        }
    }
    // SAFETY: as above; 0 is this thread.
    unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
}

/// Gives the calling thread, and those that it starts, the lowest share of a CPU that others want, too: 1.5 % of
/// one of them. Not none, as idle scheduling would: what it answers is waited for.
pub fn prefer_others() {
    // SAFETY: takes numbers; 0 is this thread.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICE_MAX) };
}

/// Has the calling thread wait for the end of another one's turn when it wakes (`SCHED_BATCH`). Its share of the CPU
/// stays. Needs no privilege.
pub fn wait_for_turns() {
    let none = libc::sched_param { sched_priority: 0 };
    // SAFETY: `none` outlives the call, which only reads it; 0 is this thread.
    unsafe { libc::sched_setscheduler(0, libc::SCHED_BATCH, &raw const none) };
}

/// The lowest priority there is.
const NICE_MAX: i32 = 19;
/// Nice levels; ten are the weight of ten others.
const PREFERENCE: i32 = 10;

/// The kernel's `struct sched_attr`, first version (48 bytes).
#[derive(Default)]
#[repr(C)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
}

const _: () = assert!(size_of::<SchedAttr>() == 48);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_sees_its_cpu_only() {
        let first = usable_cpus()[0];
        let seen = std::thread::spawn(move || {
            pin_thread(&[first]).unwrap();
            prefer_latency();
            usable_cpus()
        });
        assert_eq!(seen.join().unwrap(), [first]);
    }

    #[test]
    fn threads_of_a_process_are_moved() {
        let cpus = usable_cpus();
        let (first, last) = (cpus[0], cpus[cpus.len() - 1]);
        let mut child = std::thread::spawn(move || {
            pin_thread(&[first]).unwrap();
            std::process::Command::new("sleep").arg("60").spawn().unwrap()
        })
        .join()
        .unwrap();
        let moved = move_threads(child.id(), |cpu| if cpu == first { last } else { cpu });
        let seen = sched_getaffinity(Pid::from_raw(child.id() as i32)).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        moved.unwrap();
        let seen: Vec<u32> =
            (0..CpuSet::MAX_CPU).filter(|cpu| seen.is_set(*cpu)).map(|cpu| cpu as u32).collect();
        assert_eq!(seen, [last]);
        assert!(move_threads(child.id(), |cpu| cpu).is_err(), "it has ended");
    }

    #[test]
    fn threads_of_a_core_stand_together() {
        let mut cpus = usable_cpus();
        let ordered = by_core(cpus.clone());
        let cores: Vec<_> = ordered.iter().map(|cpu| first_of_core(*cpu).unwrap_or(*cpu)).collect();
        assert!(cores.is_sorted(), "{ordered:?}");
        cpus.sort_unstable();
        let mut sorted = ordered;
        sorted.sort_unstable();
        assert_eq!(sorted, cpus);
    }

    fn nice() -> i32 {
        // SAFETY: takes and returns numbers.
        unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) }
    }

    #[test]
    fn the_nice_value_outlives_a_wish_for_promptness() {
        let seen = std::thread::spawn(|| {
            let wanted = nice() + 5;
            // SAFETY: takes numbers; 0 is this thread, which ends with the test.
            unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, wanted) };
            prefer_latency();
            (nice(), wanted)
        });
        let (nice, wanted) = seen.join().unwrap();
        assert_eq!(nice, wanted);
    }

    #[test]
    fn a_thread_can_step_back_alone() {
        let before = nice();
        let seen = std::thread::spawn(|| {
            prefer_others();
            nice()
        });
        assert_eq!((seen.join().unwrap(), nice()), (NICE_MAX, before));
    }

    #[test]
    fn a_preference_ends_with_its_work() {
        let before = nice();
        let within = with_preference(nice);
        assert!(within == before || within == before - PREFERENCE, "{within} within {before}");
        assert_eq!(nice(), before);
    }
}
