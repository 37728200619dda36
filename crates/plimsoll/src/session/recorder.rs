//! Reads this host once a second while a run goes on, for its archive.
//!
//! From a thread of its own: what the coordinator waits for does not delay a reading, and a reading
//! delays nobody. One costs less than 1 ms of CPU.

use std::path::Path;
use std::sync::mpsc;
use std::sync::mpsc::RecvTimeoutError;
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_lab::WatchedServer;
use plimsoll_probe::sampler::{Role, Sampler, Scope};
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_report::archive::HostWriter;
use plimsoll_sys::clock;
use plimsoll_sys::thread;

use crate::hosts::host_name;

/// Time from one reading to the next.
const INTERVAL_NS: u64 = 1_000_000_000;
/// The most processes whose threads are read; a laboratory of millions has more.
const PROCESSES_MAX: usize = 16;

/// Ends with its value, after a last reading.
pub(super) struct Recorder {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Records this host, what is known of `server` and the processes `clients` in the archive at `dir`. A host that cannot be
    /// recorded is no reason not to measure: the archive goes without.
    pub(super) fn start(dir: &Path, server: &dyn WatchedServer, clients: &[u32]) -> Option<Self> {
        let mut writer = HostWriter::create(dir).ok()?;
        let mut sampler = Sampler::new(scope(server, clients));
        let host = host_name();
        let (stop, stopped) = mpsc::channel();
        let work = move || {
            let mut due = clock::monotonic_ns();
            loop {
                // A full disk ends the recording, not the run.
                if writer.push(&host, &sampler.read()).is_err() {
                    return;
                }
                due += INTERVAL_NS;
                while clock::monotonic_ns() > due + INTERVAL_NS {
                    due += INTERVAL_NS;
                    sampler.miss();
                }
                let left = Duration::from_nanos(due.saturating_sub(clock::monotonic_ns()));
                if stopped.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                    let _ = writer.push(&host, &sampler.read());
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
fn scope(server: &dyn WatchedServer, clients: &[u32]) -> Scope {
    let mut scope = Scope::default();
    let of = |role| move |pid: u32| (pid, role);
    let pids = server.pids().into_iter().map(of(Role::Server));
    let pids = pids.chain(server.backend_pids().into_iter().map(of(Role::Backend)));
    let pids = pids.chain(clients.iter().copied().map(of(Role::Client)));
    pids.take(PROCESSES_MAX).for_each(|(pid, role)| scope.add_process(pid, role));
    // nginx counts each reading as a request, which the check of its counters must know.
    let is_silent = |source: &CounterSource| !source.counts_readings();
    scope.servers.extend(server.statistics().filter(is_silent));
    scope
}
