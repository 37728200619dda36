//! Reads the hosts of a run once a second, for its archive.
//!
//! Each from a thread of its own, in the host's network namespace: what the coordinator waits for does not delay a
//! reading, and a reading delays nobody. One costs less than 1 ms of CPU.

use std::path::Path;
use std::sync::mpsc::RecvTimeoutError;
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

/// Records the hosts of `server` and of the load's `agents` in the archive at `dir`: this one, or those of a
/// laboratory. A host that cannot be recorded is no reason not to measure: the archive goes without.
pub(super) fn record(dir: &Path, server: &dyn WatchedServer, agents: Vec<u32>) -> Vec<Recorder> {
    let Ok(writer) = HostWriter::create(dir) else { return Vec::new() };
    let writer = Arc::new(Mutex::new(writer));
    let with = |role| move |pid: u32| (pid, role);
    let clients = agents.into_iter().map(with(Role::Client));
    let Some(isolated) = server.isolated() else {
        let processes = server.pids().into_iter().map(with(Role::Server));
        let processes = processes.chain(server.backend_pids().into_iter().map(with(Role::Backend)));
        let scope = scope(processes.chain(clients), server.statistics());
        return Recorder::start(host_name(), None, scope, &writer).into_iter().collect();
    };
    let start = |host: HostView| {
        let statistics = server.statistics().filter(|_| host.name == SUT);
        let pids: Vec<u32> = host.processes.iter().map(|(pid, _)| *pid).collect();
        let cpus = cpus_allowed(Path::new("/proc"), &pids).into_iter().collect();
        let scope = Scope { own_network: true, cpus, ..scope(host.processes, statistics) };
        Recorder::start(host.name, Some(host.network), scope, &writer)
    };
    let network = isolated.clients;
    let clients = HostView { name: CLIENTS.to_owned(), network, processes: clients.collect() };
    std::iter::once(clients).chain(server.hosts()).filter_map(start).collect()
}

/// Records one host. Ends with its value, after a last reading.
pub(super) struct Recorder {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    fn start(
        name: String,
        network: Option<Namespace>,
        scope: Scope,
        writer: &Arc<Mutex<HostWriter>>,
    ) -> Option<Self> {
        let mut sampler = Sampler::new(scope);
        let (stop, stopped) = mpsc::channel();
        let writer = Arc::clone(writer);
        let push = move |reading: &Reading| {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            writer.push(&name, reading).is_ok()
        };
        let work = move || {
            if network.is_some_and(|network| network.enter().is_err()) {
                return;
            }
            let mut due = clock::monotonic_ns();
            // A full disk ends the recording, not the run.
            while push(&sampler.read()) {
                due += INTERVAL_NS;
                while clock::monotonic_ns() > due + INTERVAL_NS {
                    due += INTERVAL_NS;
                    sampler.miss();
                }
                let left = Duration::from_nanos(due.saturating_sub(clock::monotonic_ns()));
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    push(&sampler.read());
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
