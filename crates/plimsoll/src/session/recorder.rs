//! Reads the hosts of a run once a second, for its archive and for who looks on.
//!
//! Each from a thread of its own, in the host's network namespace: what the coordinator waits for does not delay a
//! reading, and a reading delays nobody. One costs less than 1 ms of CPU.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_lab::{HostView, WatchedServer};
use plimsoll_model::host::Reading;
use plimsoll_probe::host::cpus_allowed;
use plimsoll_probe::sampler::{Role, Sampler, Scope};
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_report::archive::HostWriter;
use plimsoll_sys::clock;
use plimsoll_sys::namespace::Namespace;
use plimsoll_sys::thread;

use crate::hosts::host_name;

/// Time from one reading to the next.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The most processes of a host whose threads are read; a laboratory of millions has more.
const PROCESSES_MAX: usize = 16;
/// The host of the clients, where it is one of its own.
const CLIENTS: &str = "clients";
/// That of the system under test, whose statistics it is.
const SUT: &str = "sut";
/// Readings that wait for the session: those of four hosts in 16 s. Later ones are dropped and counted.
const WAITING_MAX: usize = 64;

/// Reads the hosts of a run until dropped.
pub(super) struct Recorders {
    threads: Vec<Recorder>,
    readings: Receiver<(String, Reading)>,
    dropped: Arc<AtomicU64>,
}

/// Reads the hosts of `server` and of the load's `agents`: this one, or those of a laboratory. Readings go to the
/// archive at `dir`, and to [`Recorders::next`]. A host that cannot be read is no reason not to measure.
pub(super) fn record(
    dir: Option<&Path>,
    server: &dyn WatchedServer,
    agents: Vec<u32>,
) -> Recorders {
    let writer = dir.and_then(|dir| HostWriter::create(dir).ok()).map(Mutex::new);
    let (waiting, readings) = mpsc::sync_channel(WAITING_MAX);
    let sink = Sink { writer: writer.map(Arc::new), waiting, dropped: Arc::default() };
    let dropped = Arc::clone(&sink.dropped);
    let with = |role| move |pid: u32| (pid, role);
    let clients = agents.into_iter().map(with(Role::Client));
    let threads = match server.isolated() {
        None => {
            let backends = server.backend_pids().into_iter().map(with(Role::Backend));
            let processes = server.pids().into_iter().map(with(Role::Server)).chain(backends);
            let scope = scope(processes.chain(clients), server.statistics());
            Recorder::start(host_name(), None, scope, sink).into_iter().collect()
        }
        Some(isolated) => {
            let start = |host: HostView| {
                let statistics = server.statistics().filter(|_| host.name == SUT);
                let pids: Vec<u32> = host.processes.iter().map(|(pid, _)| *pid).collect();
                let cpus = cpus_allowed(Path::new("/proc"), &pids).into_iter().collect();
                let scope = Scope { own_network: true, cpus, ..scope(host.processes, statistics) };
                Recorder::start(host.name, Some(host.network), scope, sink.clone())
            };
            let network = isolated.clients;
            let processes = clients.collect();
            let clients = HostView { name: CLIENTS.to_owned(), network, processes };
            std::iter::once(clients).chain(server.hosts()).filter_map(start).collect()
        }
    };
    Recorders { threads, readings, dropped }
}

impl Recorders {
    /// The oldest reading that was not taken yet, and its host; never waits.
    pub(super) fn next(&self) -> Option<(String, Reading)> {
        self.readings.try_recv().ok()
    }

    /// Reads every host for the last time. What is left can still be taken.
    pub(super) fn stop(&mut self) {
        self.threads.clear();
    }

    /// Readings that nobody took in time. Those in the archive are complete.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

/// Where readings go.
#[derive(Clone)]
struct Sink {
    writer: Option<Arc<Mutex<HostWriter>>>,
    waiting: SyncSender<(String, Reading)>,
    dropped: Arc<AtomicU64>,
}

impl Sink {
    fn push(&mut self, host: &str, reading: Reading) {
        if let Some(writer) = &self.writer {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            if writer.push(host, &reading).is_err() {
                // A full disk ends the recording, not the run.
                drop(writer);
                self.writer = None;
            }
        }
        if self.waiting.try_send((host.to_owned(), reading)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Reads one host. Ends with its value, after a last reading.
struct Recorder {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    fn start(
        name: String,
        network: Option<Namespace>,
        scope: Scope,
        mut sink: Sink,
    ) -> Option<Self> {
        let mut sampler = Sampler::new(scope);
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            if network.is_some_and(|network| network.enter().is_err()) {
                return;
            }
            let mut due = clock::monotonic_ns();
            loop {
                sink.push(&name, sampler.read());
                due += INTERVAL_NS;
                while clock::monotonic_ns() > due + INTERVAL_NS {
                    due += INTERVAL_NS;
                    sampler.miss();
                }
                let left = Duration::from_nanos(due.saturating_sub(clock::monotonic_ns()));
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    sink.push(&name, sampler.read());
                    return;
                }
            }
        };
        let thread = thread::spawn("recorder", None, work).ok();
        thread.is_some().then_some(Self { stop: Some(stop), thread })
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // Dropping the sender is the message.
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The server's processes first: the network namespace is that of the first one.
fn scope(
    processes: impl IntoIterator<Item = (u32, Role)>,
    statistics: Option<CounterSource>,
) -> Scope {
    let mut scope = Scope::default();
    let processes = processes.into_iter().take(PROCESSES_MAX);
    processes.for_each(|(pid, role)| scope.add_process(pid, role));
    // nginx counts each reading as a request, which the check of its counters must know.
    let is_silent = |source: &CounterSource| !source.counts_readings();
    scope.servers.extend(statistics.filter(is_silent));
    scope
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readings_that_nobody_takes_are_dropped_and_counted() {
        let (waiting, readings) = mpsc::sync_channel(WAITING_MAX);
        let mut sink = Sink { writer: None, waiting, dropped: Arc::default() };
        let dropped = Arc::clone(&sink.dropped);
        let recorders = Recorders { threads: Vec::new(), readings, dropped };
        for _ in 0..WAITING_MAX + 3 {
            sink.push("proxy", Reading::default());
        }
        assert_eq!(recorders.dropped(), 3);
        let taken = std::iter::from_fn(|| recorders.next()).count();
        assert_eq!(taken, WAITING_MAX);
    }

    #[test]
    fn this_host_is_read_without_an_archive() {
        let mut recorders = record(None, &plimsoll_lab::NamedServer::default(), Vec::new());
        recorders.stop();
        let (host, reading) = recorders.next().unwrap();
        assert_eq!(host, host_name());
        assert!(!reading.samples.is_empty());
    }
}
