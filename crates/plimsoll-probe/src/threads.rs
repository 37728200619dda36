//! CPU time of every thread of a process, from `/proc/PID/task/*/stat`.
//!
//! A proxy with one thread is saturated at 100 % of that thread, whatever the other cores do: the
//! busiest thread counts, not the sum.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use plimsoll_model::Nanos;

use crate::file;

/// Length of a clock tick in `/proc`: USER_HZ is 100 on every Linux that Rust supports.
const TICK: Nanos = Nanos::from_millis(10);

/// CPU time of each thread of some processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes(BTreeMap<(u32, u32), CpuTime>);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTime {
    total: Nanos,
    /// The part of it in the kernel.
    system: Nanos,
}

impl ThreadTimes {
    /// Reads the threads of `pids` below `proc_root` (`/proc`). A process that has ended is
    /// left out.
    pub fn read(proc_root: &Path, pids: &[u32]) -> Self {
        let mut times = BTreeMap::new();
        for pid in pids {
            let tasks = proc_root.join(pid.to_string()).join("task");
            let Ok(entries) = fs::read_dir(tasks) else { continue };
            for entry in entries.flatten() {
                let thread = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
                let stat = file::text(entry.path().join("stat")).ok();
                if let (Some(thread), Some(time)) = (thread, stat.as_deref().and_then(cpu_time)) {
                    times.insert((*pid, thread), time);
                }
            }
        }
        Self(times)
    }

    /// Returns the thread that used most since `earlier`, `wall` ago: its process, its number, and the fraction of one
    /// core that it used.
    pub fn busiest_thread_since(&self, earlier: &Self, wall: Nanos) -> Option<(u32, u32, f64)> {
        let spent = |(key, time): (&(u32, u32), &CpuTime)| {
            earlier.0.get(key).map(|before| (*key, time.total.since(before.total)))
        };
        let ((pid, thread), most) =
            self.0.iter().filter_map(spent).max_by_key(|(_, spent)| *spent)?;
        (wall > Nanos::ZERO).then(|| (pid, thread, most.as_secs_f64() / wall.as_secs_f64()))
    }

    /// Returns the fraction of one core that the busiest thread used since `earlier`, `wall` ago; 0 to 1. `None` when
    /// no thread is in both readings.
    pub fn busiest_since(&self, earlier: &Self, wall: Nanos) -> Option<f64> {
        let (_, _, busiest) = self.busiest_thread_since(earlier, wall)?;
        Some(busiest.min(1.0))
    }

    /// Returns the time in the kernel since `earlier`, of the threads in both readings. Counted in ticks of 10 ms,
    /// which most kernels scale to the exact sum.
    pub fn system_since(&self, earlier: &Self) -> Nanos {
        let spent = self.0.iter().filter_map(|(key, time)| {
            earlier.0.get(key).map(|before| time.system.since(before.system).0)
        });
        Nanos(spent.sum())
    }
}

/// Times for which all threads of some processes ran, and were ready to run and did not; from
/// `/proc/PID/task/*/schedstat`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// On a CPU.
    pub ran: Nanos,
    /// Ready, and not on a CPU.
    pub waited: Nanos,
}

impl RunTimes {
    /// Reads the threads of `pids` below `proc_root` (`/proc`); `None` if no thread can be read.
    pub fn read(proc_root: &Path, pids: &[u32]) -> Option<Self> {
        let mut sum = None;
        for pid in pids {
            let tasks = proc_root.join(pid.to_string()).join("task");
            for task in fs::read_dir(tasks).into_iter().flatten().flatten() {
                let text = file::text(task.path().join("schedstat")).unwrap_or_default();
                let mut fields =
                    text.split_ascii_whitespace().map_while(|field| field.parse().ok());
                if let (Some(ran), Some(waited)) = (fields.next(), fields.next()) {
                    let Self { ran: before, waited: before_waited } = sum.unwrap_or_default();
                    let (ran, waited) = (before + Nanos(ran), before_waited + Nanos(waited));
                    sum = Some(Self { ran, waited });
                }
            }
        }
        sum
    }

    /// Returns the difference to `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self { ran: self.ran.since(earlier.ran), waited: self.waited.since(earlier.waited) }
    }
}

/// utime + stime, and stime, of a `stat` line. The name in parentheses may hold spaces and parentheses.
fn cpu_time(stat: &str) -> Option<CpuTime> {
    let (_, after_name) = stat.rsplit_once(')')?;
    // Fields 14 and 15 of proc(5); the first one after the name is field 3.
    let mut fields = after_name.split_ascii_whitespace().skip(11);
    let user = fields.next()?.parse::<u64>().ok()?;
    let system = fields.next()?.parse::<u64>().ok()?;
    let time = |ticks: u64| ticks.checked_mul(TICK.0).map(Nanos);
    Some(CpuTime { total: time(user.checked_add(system)?)?, system: time(system)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write_thread(root: &Path, pid: u32, thread: u32, user: u64, system: u64) {
        let dir = root.join(pid.to_string()).join("task").join(thread.to_string());
        fs::create_dir_all(&dir).unwrap();
        let line = format!("{thread} (a) b) S 1 2 3 4 5 6 7 8 9 10 {user} {system} 0 0 20 0\n");
        fs::write(dir.join("stat"), line).unwrap();
    }

    #[test]
    fn the_busiest_thread_counts() {
        let root = tempfile::tempdir().unwrap();
        write_thread(root.path(), 7, 7, 100, 0);
        write_thread(root.path(), 7, 8, 0, 50);
        let before = ThreadTimes::read(root.path(), &[7, 99]);
        write_thread(root.path(), 7, 7, 110, 0);
        write_thread(root.path(), 7, 8, 20, 60);
        let after = ThreadTimes::read(root.path(), &[7, 99]);
        // Thread 8: 20 + 10 ticks = 300 ms of 1 s.
        let share = after.busiest_since(&before, Nanos::from_secs(1)).unwrap();
        assert!((share - 0.3).abs() < 1e-9, "{share}");
        let busiest = after.busiest_thread_since(&before, Nanos::from_secs(1)).unwrap();
        assert_eq!((busiest.0, busiest.1), (7, 8));
        assert_eq!(after.system_since(&before), Nanos::from_millis(100));
    }

    #[test]
    fn threads_that_ran_and_waited_are_added_up() {
        let root = tempfile::tempdir().unwrap();
        for (thread, text) in [(7, "5000 700 3\n"), (8, "20 1 1\n"), (9, "broken")] {
            let dir = root.path().join("7/task").join(thread.to_string());
            fs::create_dir_all(&dir).unwrap();
            fs::write(dir.join("schedstat"), text).unwrap();
        }
        let seen = RunTimes::read(root.path(), &[7, 99]).unwrap();
        assert_eq!(seen, RunTimes { ran: Nanos(5_020), waited: Nanos(701) });
        let before = RunTimes { ran: Nanos(20), waited: Nanos(1) };
        assert_eq!(seen.since(&before), RunTimes { ran: Nanos(5_000), waited: Nanos(700) });
        assert_eq!(RunTimes::read(root.path(), &[99]), None);
    }

    #[test]
    fn what_cannot_be_read_is_missing() {
        let root = tempfile::tempdir().unwrap();
        let nothing = ThreadTimes::read(root.path(), &[1]);
        assert_eq!(nothing.busiest_since(&nothing, Nanos::from_secs(1)), None);
        assert_eq!(cpu_time("1 (x) S 1"), None);
    }

    #[test]
    fn this_process_is_readable() {
        let own = std::process::id();
        let times = ThreadTimes::read(Path::new("/proc"), &[own]);
        assert!(times.busiest_since(&times, Nanos::from_secs(1)).is_some());
    }
}
