//! The recorder, which reads the hosts of a run once per second for its archive and for displays.
//!
//! A thread in the network namespace of each host reads it, so that the coordinator and the readings never wait for
//! each other. A reading costs less than 1 ms of CPU. Hosts of agents elsewhere are read by these, in the same way, and
//! their readings come over the links.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_fleet::{LoadAgents, ReadingSink};
use plimsoll_lab::{HostView, WatchedServer};
use plimsoll_model::host::{Reading, Role};
use plimsoll_probe::host::cpus_allowed;
use plimsoll_probe::sampler::{Sampler, Scope};
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_probe::yardstick::Totals;
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
/// Name of the system under test, whose statistics are read.
const SUT: &str = "sut";
/// Readings that wait for the session: 16 s of at least four hosts. Later readings are dropped and counted.
const WAITING_EACH_MAX: usize = 16;
const HOSTS_MIN: usize = 4;

/// Reads the hosts of a run until dropped.
pub(super) struct Recorders {
    threads: Vec<Recorder>,
    sink: Sink,
    readings: Receiver<(String, Reading)>,
}

/// The processes that make the load.
pub(super) enum Clients<'a> {
    /// These processes, on this host or on the clients' host of a laboratory.
    Here(Vec<u32>),
    /// Agents on other hosts, which read these.
    There(&'a LoadAgents),
}

/// Returns the CPUs of this host that the processes of `server`, of its backends and of `clients` use.
pub(super) fn cpus_of_run(server: &dyn WatchedServer, clients: &Clients<'_>) -> Vec<u32> {
    let mut pids = server.pids();
    pids.extend(server.backend_pids());
    if let Clients::Here(agents) = clients {
        pids.extend(agents);
    }
    cpus_allowed(Path::new("/proc"), &pids).into_iter().collect()
}

/// Reads the hosts of `server` and of the load's clients: this one, those of a laboratory, or others. Readings go to
/// the archive at `dir`, and to [`Recorders::next`]. Those of this machine have the sums of `yardstick`. A host that
/// cannot be read is no reason not to measure.
pub(super) fn record(
    dir: Option<&Path>,
    server: &dyn WatchedServer,
    clients: Clients<'_>,
    yardstick: &Totals,
) -> Recorders {
    let writer = dir.and_then(|dir| HostWriter::create(dir).ok());
    let hosts = match &clients {
        Clients::Here(_) => 0,
        Clients::There(agents) => agents.count(),
    };
    let (waiting, readings) = mpsc::sync_channel(WAITING_EACH_MAX * hosts.max(HOSTS_MIN));
    let sink = Sink { writer: Arc::new(Mutex::new(writer)), waiting, dropped: Arc::default() };
    let all = Recorders { threads: Vec::new(), sink: sink.clone(), readings };
    let far = {
        let sink = sink.clone();
        ReadingSink::new(move |host, reading| sink.push(host, reading))
    };
    server.watch(&far);
    let agents = match clients {
        Clients::Here(agents) => agents,
        Clients::There(agents) => {
            // The loss of an agent is reported elsewhere.
            let _ = agents.watch(far);
            if server.pids().is_empty() && server.statistics().is_none() {
                return all;
            }
            Vec::new()
        }
    };
    let with = |role| move |pid: u32| (pid, role);
    let clients = agents.into_iter().map(with(Role::Client));
    // The processes of a host stay the same.
    let start = |name: String, network: Option<Namespace>, scope: Scope| {
        let (sampler, sink) = (Sampler::new(scope, yardstick.clone()), sink.clone());
        Recorder::start(network, sampler, |_| {}, move |reading| sink.push(&name, reading))
    };
    let threads = match server.isolated() {
        None => {
            let backends = server.backend_pids().into_iter().map(with(Role::Backend));
            let processes = server.pids().into_iter().map(with(Role::Server)).chain(backends);
            let scope = scope(processes.chain(clients), server.statistics());
            start(host_name(), None, scope).into_iter().collect()
        }
        Some(isolated) => {
            let of = |host: HostView| {
                let statistics = server.statistics().filter(|_| host.name == SUT);
                let pids: Vec<u32> = host.processes.iter().map(|(pid, _)| *pid).collect();
                let cpus = cpus_allowed(Path::new("/proc"), &pids).into_iter().collect();
                let scope = Scope { own_network: true, cpus, ..scope(host.processes, statistics) };
                start(host.name, Some(host.network), scope)
            };
            let network = isolated.clients;
            let processes = clients.collect();
            let clients = HostView { name: CLIENTS.to_owned(), network, processes };
            std::iter::once(clients).chain(server.hosts()).filter_map(of).collect()
        }
    };
    Recorders { threads, ..all }
}

impl Recorders {
    /// Returns the oldest reading that was not taken yet, and its host; never waits.
    pub(super) fn next(&self) -> Option<(String, Reading)> {
        self.readings.try_recv().ok()
    }

    /// Reads every host for the last time. What is left can still be taken.
    pub(super) fn stop(&mut self) {
        self.threads.clear();
        // What other hosts have on their way comes too late.
        thread::lock(&self.sink.writer).take();
    }

    /// Returns the number of readings that displays did not take in time. The archive has all readings.
    pub(super) fn dropped(&self) -> u64 {
        self.sink.dropped.load(Ordering::Relaxed)
    }
}

/// The receiver of readings.
#[derive(Clone)]
struct Sink {
    writer: Arc<Mutex<Option<HostWriter>>>,
    waiting: SyncSender<(String, Reading)>,
    dropped: Arc<AtomicU64>,
}

impl Sink {
    fn push(&self, host: &str, reading: Reading) {
        let mut writer = thread::lock(&self.writer);
        // A full disk ends the recording, not the run.
        if writer.as_mut().is_some_and(|writer| writer.push(host, &reading).is_err()) {
            *writer = None;
        }
        drop(writer);
        if self.waiting.try_send((host.to_owned(), reading)).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Reads one host. Ends with its value, after a last reading.
pub(crate) struct Recorder {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Reads in `network`, or in this process's; `prepare` is called before each reading, and `push` gets it.
    fn start(
        network: Option<Namespace>,
        mut sampler: Sampler,
        prepare: impl Fn(&mut Sampler) + Send + 'static,
        push: impl Fn(Reading) + Send + 'static,
    ) -> Option<Self> {
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            if network.is_some_and(|network| network.enter().is_err()) {
                return;
            }
            let mut due = clock::monotonic_ns();
            loop {
                prepare(&mut sampler);
                push(sampler.read());
                due += INTERVAL_NS;
                while clock::monotonic_ns() > due + INTERVAL_NS {
                    due += INTERVAL_NS;
                    sampler.miss();
                }
                let left = Duration::from_nanos(due.saturating_sub(clock::monotonic_ns()));
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    push(sampler.read());
                    return;
                }
            }
        };
        let thread = thread::spawn("recorder", None, work).ok();
        thread.is_some().then_some(Self { stop: Some(stop), thread })
    }

    /// Reads this host for a coordinator elsewhere; `scope` says what takes part in the run here at the time.
    pub(crate) fn of_agent(
        scope: impl Fn() -> Scope + Send + 'static,
        push: impl Fn(Reading) + Send + 'static,
    ) -> Option<Self> {
        let prepare = move |sampler: &mut Sampler| sampler.rescope(scope());
        Self::start(None, Sampler::new(Scope::default(), Totals::default()), prepare, push)
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

/// Returns the scope of readings. The server's processes come first: the first one selects the network namespace.
pub(crate) fn scope(
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
        let (waiting, readings) = mpsc::sync_channel(WAITING_EACH_MAX);
        let sink = Sink { writer: Arc::default(), waiting, dropped: Arc::default() };
        let recorders = Recorders { threads: Vec::new(), sink, readings };
        for _ in 0..WAITING_EACH_MAX + 3 {
            recorders.sink.push("proxy", Reading::default());
        }
        assert_eq!(recorders.dropped(), 3);
        let taken = std::iter::from_fn(|| recorders.next()).count();
        assert_eq!(taken, WAITING_EACH_MAX);
    }

    #[test]
    fn this_host_is_read_without_an_archive() {
        let server = plimsoll_lab::NamedServer::default();
        let mut recorders = record(None, &server, Clients::Here(Vec::new()), &Totals::default());
        recorders.stop();
        let (host, reading) = recorders.next().unwrap();
        assert_eq!(host, host_name());
        assert!(!reading.samples.is_empty());
    }

    #[test]
    fn an_agent_reads_what_takes_part_at_the_time() {
        let (sender, readings) = mpsc::channel();
        let of = |reading: &Reading| reading.processes(Role::Client).count();
        let own = std::process::id();
        let recorder = Recorder::of_agent(
            move || scope([(own, Role::Client)], None),
            move |reading| {
                // The test may be over.
                let _ = sender.send(reading);
            },
        );
        drop(recorder.unwrap());
        let all: Vec<Reading> = readings.iter().collect();
        assert!(all.len() >= 2 && all.iter().all(|reading| of(reading) == 1), "{all:?}");
    }
}
