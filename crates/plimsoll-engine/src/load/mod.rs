//! The client role: worker threads that make one load together.
//!
//! [`Load::prepare`] starts the threads, which open the pool; [`Load::start`] names the instant of
//! the first operation; [`Load::steer`] tells a hold how far to go; [`Load::next_event`] yields
//! whole seconds, merged over the threads, until the load has ended. Nothing here decides whether
//! a result is good.

use std::collections::BTreeMap;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::AtomicU8;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

use plimsoll_model::Nanos;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::plan::Steer;
use plimsoll_model::plan::TlsOptions;
use plimsoll_model::plan::TlsState;
use plimsoll_model::tally::GeneratorUse;
use plimsoll_model::tally::Interval;
use plimsoll_model::tally::Tally;
use plimsoll_sys::Errno;
use plimsoll_sys::clock;
use plimsoll_sys::limits;
use plimsoll_sys::thread;
use plimsoll_tls::ClientContext;

mod classify;
mod closed;
mod conn;
mod endings;
mod exchange;
mod handshake;
mod hold;
mod meter;
mod opening;
mod origin;
mod pacer;
mod pool;
mod session;
mod starts;
mod sweep;
mod timers;
mod trim;
mod worker;

use worker::Worker;

/// Why a load could not begin.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The TLS settings do not work.
    #[error("{0}")]
    Tls(#[from] plimsoll_tls::ConfigError),
    /// A worker could not be set up.
    #[error("cannot start a worker thread: {0}")]
    Worker(String),
    /// The plan has no target or no destination for one.
    #[error("the plan names no target")]
    NoTarget,
}

/// What a worker says.
pub(crate) enum WorkerEvent {
    Ready {
        opened: u64,
        failed: u64,
        first_error: Option<String>,
    },
    Interval {
        worker: u32,
        interval: Box<Interval>,
    },
    /// Done; what it did is in the seconds up to and including `second`.
    Steered {
        worker: u32,
        id: u32,
        second: u32,
    },
    Draining {
        in_flight: u64,
    },
    Ended {
        worker: u32,
        window: Nanos,
    },
}

/// What a load says.
#[derive(Debug)]
pub enum LoadEvent {
    /// The pool is open, as far as it could be.
    Ready {
        /// Usable connections.
        opened: u64,
        /// Connections that could not be opened.
        failed: u64,
        /// What the first failure was.
        first_error: Option<String>,
    },
    /// One second, all threads.
    Interval(Box<Interval>),
    /// A hold has done what it was told, and every second in which it did so has been yielded.
    Steered {
        /// The number that was given to [`Load::steer`].
        id: u32,
    },
    /// No more operations are started; so many are still in flight.
    Draining {
        /// Operations awaiting an answer.
        in_flight: u64,
    },
    /// Every operation has ended, the connections are closed.
    Ended {
        /// Epoch to the last instant at which operations were started.
        window: Nanos,
    },
}

/// How a load is told to end before its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Stop {
    /// Go on.
    No,
    /// Start nothing more; wait for what is in flight until the grace ends.
    Soon,
    /// Give up what is in flight, too.
    Now,
}

/// What the owner tells the workers.
#[derive(Debug)]
pub(crate) struct Control {
    /// CLOCK_MONOTONIC ns of the first intended start; 0 until it is known.
    epoch_ns: AtomicU64,
    stop: AtomicU8,
    /// CLOCK_MONOTONIC ns after which nothing is waited for once stopped.
    grace_ends_ns: AtomicU64,
    /// Length of `steers`; workers look at it between events, and at the list when it has grown.
    steers_given: AtomicUsize,
    steers: Mutex<Vec<(u32, Steer)>>,
}

impl Control {
    fn steer(&self, id: u32, steer: Steer) {
        // A list is whole also when a thread panicked beside it.
        let mut steers = self.steers.lock().unwrap_or_else(PoisonError::into_inner);
        steers.push((id, steer));
        self.steers_given.store(steers.len(), Ordering::Release);
    }

    fn steers_from(&self, first: usize) -> Vec<(u32, Steer)> {
        let steers = self.steers.lock().unwrap_or_else(PoisonError::into_inner);
        steers.get(first..).unwrap_or_default().to_vec()
    }
}

/// A load in progress.
#[derive(Debug)]
pub struct Load {
    control: Arc<Control>,
    events: Receiver<WorkerEvent>,
    workers: Vec<JoinHandle<()>>,
    merge: Merge,
}

/// Seconds that some workers have not delivered yet.
#[derive(Debug)]
struct Merge {
    workers: usize,
    ready: usize,
    opened: u64,
    failed: u64,
    first_error: Option<String>,
    /// Ascending by their seconds.
    pending: VecDeque<Box<Interval>>,
    /// Of each worker: every second below this one has been delivered or never will be.
    delivered: Vec<u64>,
    /// By number: how many workers have done it, and the last second in which one did.
    steered: BTreeMap<u32, (usize, u32)>,
    draining: usize,
    in_flight: u64,
    ended: usize,
    window: Nanos,
    cpu_ns: (u64, u64),
    done: bool,
}

impl Load {
    /// Starts the workers; they begin to open connections at once if the plan says so.
    pub fn prepare(plan: LoadPlan) -> Result<Self, LoadError> {
        if plan.targets.is_empty() || plan.destinations.is_empty() {
            return Err(LoadError::NoTarget);
        }
        limits::raise_descriptor_limit();
        let needs_tls = plan.destinations.iter().any(|destination| destination.tls.is_some());
        let tls = if needs_tls { Some(ClientContext::new(&tls_options(&plan))?) } else { None };
        let tls = tls.map(Arc::new);
        let plan = Arc::new(plan);
        let control = Arc::new(Control {
            epoch_ns: AtomicU64::new(0),
            stop: AtomicU8::new(Stop::No as u8),
            grace_ends_ns: AtomicU64::new(u64::MAX),
            steers_given: AtomicUsize::new(0),
            steers: Mutex::new(Vec::new()),
        });
        let (sender, events) = mpsc::channel();
        let mut workers = Vec::new();
        for index in 0..plan.threads.max(1) {
            let worker = Worker::new(
                Arc::clone(&plan),
                index,
                tls.clone(),
                Arc::clone(&control),
                sender.clone(),
            )
            .map_err(|errno: Errno| LoadError::Worker(errno.to_string()))?;
            let cpu = match plan.cpus.len() {
                0 => None,
                cpus => plan.cpus.get(index as usize % cpus).copied(),
            };
            let handle = thread::spawn(&format!("load-{index}"), cpu, move || worker.run())
                .map_err(|error| LoadError::Worker(error.to_string()))?;
            workers.push(handle);
        }
        let merge = Merge::new(workers.len());
        Ok(Self { control, events, workers, merge })
    }

    /// Names the instant of the first intended start, on CLOCK_MONOTONIC.
    pub fn start(&self, epoch: Nanos) {
        self.stopper().start(epoch);
    }

    /// Tells a hold what to do; [`LoadEvent::Steered`] with the same `id` says that it is done. A
    /// stop ends what has begun, and so does the end of the load.
    pub fn steer(&self, id: u32, steer: Steer) {
        self.stopper().steer(id, steer);
    }

    /// Starts no more operations; what is in flight is waited for at most `grace`.
    pub fn stop(&self, grace: Nanos) {
        self.stopper().stop(grace);
    }

    /// Gives up everything.
    pub fn stop_now(&self) {
        self.stopper().stop_now();
    }

    /// A handle that starts and stops the load from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(Arc::clone(&self.control))
    }

    /// Waits for the next event; `None` after [`LoadEvent::Ended`].
    pub fn next_event(&mut self) -> Option<LoadEvent> {
        loop {
            if let Some(event) = self.merge.poll_event() {
                if let LoadEvent::Ended { .. } = event {
                    for worker in self.workers.drain(..) {
                        // A worker that panicked has already printed why; its counts are lost.
                        let _ = worker.join();
                    }
                }
                return Some(event);
            }
            if self.merge.done {
                return None;
            }
            match self.events.recv() {
                Ok(event) => self.merge.handle_event(event),
                // Every worker is gone without a word: end rather than wait for ever.
                Err(_) => self.merge.handle_loss(),
            }
        }
    }
}

/// Starts, steers and stops a load from another thread than the one that takes its events.
#[derive(Clone, Debug)]
pub struct Stopper(Arc<Control>);

/// A connection that carries one operation is not worth parking: the check and the keys would cost
/// some 2 % of its handshake, and it is gone before memory matters.
fn tls_options(plan: &LoadPlan) -> TlsOptions {
    let state = if plan.keepalive { plan.tls.state } else { TlsState::Rustls };
    TlsOptions { state, ..plan.tls.clone() }
}

impl Stopper {
    /// As [`Load::start`].
    pub fn start(&self, epoch: Nanos) {
        self.0.epoch_ns.store(epoch.0.max(1), Ordering::Release);
    }

    /// As [`Load::steer`].
    pub fn steer(&self, id: u32, steer: Steer) {
        self.0.steer(id, steer);
    }

    /// As [`Load::stop`].
    pub fn stop(&self, grace: Nanos) {
        let ends = clock::monotonic_ns().saturating_add(grace.0);
        self.0.grace_ends_ns.store(ends, Ordering::Release);
        self.0.stop.fetch_max(Stop::Soon as u8, Ordering::AcqRel);
    }

    /// As [`Load::stop_now`].
    pub fn stop_now(&self) {
        self.0.stop.store(Stop::Now as u8, Ordering::Release);
    }
}

impl Merge {
    fn new(workers: usize) -> Self {
        Self {
            workers,
            ready: 0,
            opened: 0,
            failed: 0,
            first_error: None,
            pending: VecDeque::new(),
            delivered: vec![0; workers],
            steered: BTreeMap::new(),
            draining: 0,
            in_flight: 0,
            ended: 0,
            window: Nanos::ZERO,
            cpu_ns: clock::process_cpu_ns(),
            done: false,
        }
    }

    /// Takes a worker's word.
    fn handle_event(&mut self, event: WorkerEvent) {
        match event {
            WorkerEvent::Ready { opened, failed, first_error } => {
                self.ready += 1;
                self.opened += opened;
                self.failed += failed;
                self.first_error = self.first_error.take().or(first_error);
            }
            WorkerEvent::Draining { in_flight } => {
                self.draining += 1;
                self.in_flight += in_flight;
            }
            WorkerEvent::Steered { worker, id, second } => {
                // A worker that hands a second over and then finishes a steer in the same one
                // has more of it to say.
                debug_assert!(u64::from(second) >= self.delivered[worker as usize]);
                let (workers, last) = self.steered.entry(id).or_default();
                *workers += 1;
                *last = second.max(*last);
            }
            WorkerEvent::Ended { worker, window } => {
                self.ended += 1;
                self.delivered[worker as usize] = u64::MAX;
                self.window = self.window.max(window);
            }
            WorkerEvent::Interval { worker, interval } => {
                self.delivered[worker as usize] = u64::from(interval.second) + 1;
                self.add(interval)
            }
        }
    }

    fn add(&mut self, interval: Box<Interval>) {
        let at = self.pending.partition_point(|other| other.second < interval.second);
        match self.pending.get_mut(at) {
            Some(merged) if merged.second == interval.second => {
                merged.tally.merge_parallel(&interval.tally);
            }
            _ => self.pending.insert(at, interval),
        }
    }

    fn poll_event(&mut self) -> Option<LoadEvent> {
        if self.ready == self.workers {
            self.ready = usize::MAX;
            let (opened, failed) = (self.opened, self.failed);
            return Some(LoadEvent::Ready { opened, failed, first_error: self.first_error.take() });
        }
        let everyone_ended = self.ended == self.workers;
        let complete_below = self.delivered.iter().copied().min().unwrap_or(u64::MAX);
        if self.pending.front().is_some_and(|first| u64::from(first.second) < complete_below) {
            let interval = self.pending.pop_front()?;
            return Some(LoadEvent::Interval(self.with_process_use(interval)));
        }
        let all = self.workers;
        let is_done =
            |(workers, last): &(usize, u32)| *workers == all && u64::from(*last) < complete_below;
        let done = self.steered.iter().find(|(_, so_far)| is_done(so_far)).map(|(id, _)| *id);
        if let Some(id) = done {
            self.steered.remove(&id);
            return Some(LoadEvent::Steered { id });
        }
        if self.draining == self.workers {
            self.draining = usize::MAX;
            return Some(LoadEvent::Draining { in_flight: self.in_flight });
        }
        if everyone_ended && !self.done {
            self.done = true;
            return Some(LoadEvent::Ended { window: self.window });
        }
        None
    }

    /// Every worker is gone: what they delivered is all there will be.
    fn handle_loss(&mut self) {
        self.ended = self.workers;
        self.delivered.fill(u64::MAX);
    }

    /// Adds what only the process as a whole knows: its CPU since the last second, its memory.
    fn with_process_use(&mut self, mut interval: Box<Interval>) -> Box<Interval> {
        let before = std::mem::replace(&mut self.cpu_ns, clock::process_cpu_ns());
        let tally: &mut Tally = &mut interval.tally;
        tally.generator = GeneratorUse {
            cpu_user: Nanos(self.cpu_ns.0.saturating_sub(before.0)),
            cpu_system: Nanos(self.cpu_ns.1.saturating_sub(before.1)),
            rss_bytes_max: limits::resident_bytes(),
            processes: 1,
            threads: self.workers as u32,
            ..tally.generator
        };
        interval
    }
}
