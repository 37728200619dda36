//! Named threads, pinned if asked; locks that outlive a panic; how long a thread waits for its CPU.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::{fs, io};

use crate::affinity;

/// Starts a thread called `name`, pinned to `cpu` if one is given. A CPU that does not exist
/// leaves the thread unpinned.
pub fn spawn<T: Send + 'static>(
    name: &str,
    cpu: Option<u32>,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<JoinHandle<T>> {
    Builder::new().name(name.to_owned()).spawn(move || {
        if let Some(cpu) = cpu {
            let _ = affinity::pin_thread(&[cpu]);
        }
        work()
    })
}

/// Locks `mutex`, even if a thread has panicked while it held the lock.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Time of a thread in the run queues since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunQueue {
    /// Time that it was ready to run and did not, nanoseconds.
    pub waited_ns: u64,
    /// Turns that it had on a CPU.
    pub turns: u64,
}

/// Reads the calling thread's; `None` if the kernel does not report it. Costs some microseconds.
pub fn run_queue() -> Option<RunQueue> {
    parse(&fs::read_to_string("/proc/thread-self/schedstat").ok()?)
}

/// CPU time, time in run queues, turns.
fn parse(schedstat: &str) -> Option<RunQueue> {
    let mut fields = schedstat.split_ascii_whitespace().skip(1).map(str::parse);
    let (waited_ns, turns) = (fields.next()?.ok()?, fields.next()?.ok()?);
    Some(RunQueue { waited_ns, turns })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_of_a_thread_is_understood() {
        // Linux 6.18.
        assert_eq!(parse("61204 73803 1\n"), Some(RunQueue { waited_ns: 73_803, turns: 1 }));
        for broken in ["", "1 2", "a b c"] {
            assert_eq!(parse(broken), None, "{broken:?}");
        }
        assert!(run_queue().is_none_or(|own| own.turns > 0));
    }
}
