//! The speed of this host's CPUs: a fixed piece of work, timed by the thread's CPU clock.
//!
//! A virtual CPU becomes slower for seconds when neighbours use the shared cache. Clock frequency, steal and integer
//! work show nothing of it; system calls and memory accesses do, and servers consist of both. The piece of work sends
//! and receives on a socket pair and follows pointers through 256 kB. One thread per CPU repeats it twice a second, or
//! less often on a CPU so slow that it would take more than 0.2 % of it, and adds up the CPU time. Readers take
//! differences of the sums, so that each gets the mean of its own interval.
//!
//! The threads use `SCHED_BATCH`: they do not interrupt the server when they wake, and run to the end of a piece once
//! it is their turn. Lower priorities measure something else. With `SCHED_IDLE`, a fifth of the pieces ran beside a
//! busy loop. At nice 19 all did, but each wake-up of a server or client displaced them, which took two to four times
//! the CPU time in the same work.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_model::Nanos;
use plimsoll_sys::{affinity, clock, thread};

/// Repetitions per second and CPU.
const PIECES_PER_S: u32 = 2;
/// The most of its CPU that a thread takes: one part of this number, 0.2 %.
const SHARE_MAX: u32 = 500;
/// The most CPUs that are measured; of more, these are spread evenly.
const CPUS_MAX: usize = 16;
/// Longest wall time of a piece that counts: a longer one belongs to no single second.
const WALL_MAX: Nanos = Nanos::from_millis(800);
/// The working set: lines of 64 bytes, 256 kB.
const LINES: usize = 4_096;
const LINE_WORDS: usize = 16;
/// Parts of a piece. The second fastest of them counts: interrupts, which the kernel accounts to the thread, and
/// caches that another thread displaced in between lengthen single parts.
const PARTS: usize = 7;
/// Lines visited per part.
const VISITS: usize = 1_024;
/// Messages sent and received per part.
const MESSAGES: usize = 16;
const MESSAGE_BYTES: usize = 512;

/// Measures CPUs until dropped.
#[derive(Debug)]
pub struct Yardstick {
    totals: Totals,
    threads: Vec<(Sender<()>, JoinHandle<()>)>,
}

impl Yardstick {
    /// Starts a thread on each of `cpus`, or on some of them when there are more than 16. A CPU whose thread
    /// cannot be started has no totals.
    pub fn start(cpus: &[u32]) -> Self {
        let every = cpus.len().div_ceil(CPUS_MAX).max(1);
        let totals: Vec<CpuTotal> = cpus.iter().step_by(every).copied().map(CpuTotal::of).collect();
        let totals = Totals(totals.into());
        let start = |(index, total): (usize, &CpuTotal)| {
            let (stop, stopped) = mpsc::channel();
            let of = totals.clone();
            let work = move || run(&of.0[index], &stopped);
            Some((stop, thread::spawn("yardstick", Some(total.cpu), work).ok()?))
        };
        let threads = totals.0.iter().enumerate().filter_map(start).collect();
        Self { totals, threads }
    }

    /// Returns the sums so far; they stay readable after the end.
    pub fn totals(&self) -> Totals {
        self.totals.clone()
    }
}

impl Drop for Yardstick {
    fn drop(&mut self) {
        let threads = std::mem::take(&mut self.threads);
        // Dropping the sender is the message.
        let threads: Vec<_> = threads.into_iter().map(|(_, thread)| thread).collect();
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }
}

/// CPU time of all pieces so far, CPU by CPU.
#[derive(Clone, Debug, Default)]
pub struct Totals(Arc<[CpuTotal]>);

#[derive(Debug)]
struct CpuTotal {
    cpu: u32,
    pieces: AtomicU64,
    took_ns: AtomicU64,
}

impl CpuTotal {
    const fn of(cpu: u32) -> Self {
        Self { cpu, pieces: AtomicU64::new(0), took_ns: AtomicU64::new(0) }
    }
}

/// Pieces of work on one CPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pieces {
    /// Number of pieces.
    pub count: u64,
    /// CPU time of all of them.
    pub took: Nanos,
}

impl Pieces {
    /// Returns the pieces since `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        let count = self.count.saturating_sub(earlier.count);
        Self { count, took: self.took.since(earlier.took) }
    }

    /// Returns the mean CPU time of a piece; `None` if there is none.
    pub fn mean(self) -> Option<Nanos> {
        self.took.0.checked_div(self.count).map(Nanos)
    }
}

impl Totals {
    /// Returns the sums of every CPU in `cpus`, or of all measured CPUs if `cpus` is empty.
    pub fn read<'a>(&'a self, cpus: &'a [u32]) -> impl Iterator<Item = (u32, Pieces)> + 'a {
        let wanted = |total: &&CpuTotal| cpus.is_empty() || cpus.contains(&total.cpu);
        self.0.iter().filter(wanted).map(|total| {
            let count = total.pieces.load(Ordering::Relaxed);
            let took = Nanos(total.took_ns.load(Ordering::Relaxed));
            (total.cpu, Pieces { count, took })
        })
    }
}

/// Adds to `total` until `stopped` is closed.
fn run(total: &CpuTotal, stopped: &Receiver<()>) {
    affinity::wait_for_turns();
    let Ok(mut work) = Work::new() else { return };
    let mut spent = Duration::ZERO;
    while stopped.recv_timeout(pause(spent)) == Err(RecvTimeoutError::Timeout) {
        let (began, cpu_began) = (clock::monotonic_ns(), clock::thread_cpu_ns());
        let Ok(took) = work.piece() else { return };
        spent = Duration::from_nanos(clock::thread_cpu_ns() - cpu_began);
        if clock::monotonic_ns() - began <= WALL_MAX.0 {
            total.took_ns.fetch_add(took.0, Ordering::Relaxed);
            total.pieces.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The pause behind a piece that took `spent` of CPU time.
fn pause(spent: Duration) -> Duration {
    (spent * SHARE_MAX).max(Duration::from_secs(1) / PIECES_PER_S)
}

/// The fixed piece of work.
struct Work {
    /// The first word of each line names the next line: one cycle through all of them, in an order that no
    /// prefetcher follows.
    next: Vec<[u32; LINE_WORDS]>,
    at: usize,
    near: UnixStream,
    far: UnixStream,
}

impl Work {
    fn new() -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        let mut order: Vec<u32> = (0..LINES as u32).collect();
        // The same order in every run, so that runs compare.
        fastrand::Rng::with_seed(1).shuffle(&mut order);
        let mut next = vec![[0; LINE_WORDS]; LINES];
        for (index, line) in order.iter().enumerate() {
            next[*line as usize][0] = order[(index + 1) % LINES];
        }
        Ok(Self { next, at: 0, near, far })
    }

    /// Does the piece once; its CPU time. Lines and code are loaded into the caches first: how much of them other
    /// threads displaced depends on the load, not on the host's speed.
    fn piece(&mut self) -> io::Result<Nanos> {
        self.visit(LINES);
        self.exchange(1)?;
        let mut parts = [0; PARTS];
        for took in &mut parts {
            let began = clock::thread_cpu_ns();
            self.visit(VISITS);
            self.exchange(MESSAGES)?;
            *took = clock::thread_cpu_ns() - began;
        }
        parts.sort_unstable();
        Ok(Nanos(parts[1] * PARTS as u64))
    }

    fn visit(&mut self, lines: usize) {
        for _ in 0..lines {
            self.at = self.next[self.at][0] as usize;
        }
        std::hint::black_box(self.at);
    }

    fn exchange(&mut self, messages: usize) -> io::Result<()> {
        let mut message = [0; MESSAGE_BYTES];
        for _ in 0..messages {
            self.near.write_all(&message)?;
            self.far.read_exact(&mut message)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_lines_are_one_cycle() {
        let mut work = Work::new().unwrap();
        let mut visited = vec![false; LINES];
        for _ in 0..LINES {
            work.visit(1);
            visited[work.at] = true;
        }
        assert_eq!((work.at, visited.iter().all(|line| *line)), (0, true));
    }

    #[test]
    fn pieces_take_cpu_time_and_add_up() {
        let mut work = Work::new().unwrap();
        let total = CpuTotal::of(3);
        let took = work.piece().unwrap();
        assert!(took > Nanos::ZERO);
        let totals = Totals(Arc::new([total, CpuTotal::of(5)]));
        let before = totals.read(&[3]).next().unwrap().1;
        totals.0[0].pieces.fetch_add(2, Ordering::Relaxed);
        totals.0[0].took_ns.fetch_add(900, Ordering::Relaxed);
        let (cpu, now) = totals.read(&[3, 9]).next().unwrap();
        assert_eq!((cpu, now.since(before).mean()), (3, Some(Nanos(450))));
        assert_eq!(totals.read(&[]).map(|(cpu, _)| cpu).collect::<Vec<_>>(), [3, 5]);
        assert_eq!(before.mean(), None);
    }

    #[test]
    fn a_slow_cpu_is_measured_less_often() {
        let pause_ms = |spent_us| pause(Duration::from_micros(spent_us)).as_millis();
        assert_eq!([0, 1_000, 1_500, 4_000].map(pause_ms), [500, 500, 750, 2_000]);
    }

    #[test]
    fn at_most_sixteen_cpus_are_measured() {
        let cpus: Vec<u32> = (0..100).collect();
        let yardstick = Yardstick::start(&cpus);
        let measured: Vec<u32> = yardstick.totals().read(&[]).map(|(cpu, _)| cpu).collect();
        assert_eq!((measured.len(), measured[1] - measured[0]), (15, 7));
    }
}
