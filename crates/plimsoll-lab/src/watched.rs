//! A server that is observed under load: one of a laboratory, or an existing one
//! and the user named.

use std::path::Path;

use plimsoll_fleet::ReadingSink;
use plimsoll_model::cliff::KnownTimer;
use plimsoll_model::host::{EndStatus, LimitUse, Role};
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::trial::Stopped;
use plimsoll_probe::processes::end_status;
use plimsoll_probe::server_counters::{CounterSource, ServerCounters};
use plimsoll_probe::server_limits;
use plimsoll_probe::server_timers;
use plimsoll_sys::namespace::Namespace;
use plimsoll_sys::process;
use plimsoll_sys::process_handle::ProcessHandle;

use crate::controls::Controls;
use crate::error::LabError;
use crate::isolated::Isolated;

/// A server that is observed besides its answers. By default nothing is known of it.
pub trait WatchedServer {
    /// Returns its processes on this host; none when it is elsewhere or was not named.
    fn pids(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Returns the processes behind the server on this host.
    fn backend_pids(&self) -> Vec<u32> {
        Vec::new()
    }

    /// Returns its end, if it has ended. Never waits.
    fn ended(&mut self) -> Option<ServerEnd> {
        None
    }

    /// Returns the counts of what it has served, without the readings themselves; `None` if it
    /// reports nothing.
    fn counters(&mut self) -> Option<ServerCounters> {
        None
    }

    /// Returns the source of its figures.
    fn statistics(&self) -> Option<CounterSource> {
        None
    }

    /// Returns the limits of the server's configuration, and how much of each is in use.
    fn limits(&self) -> Vec<LimitUse> {
        Vec::new()
    }

    /// Returns the timers of the server and its backends that a load by `plan` can meet.
    fn timers(&self, plan: &LoadPlan) -> Vec<KnownTimer> {
        let _ = plan;
        Vec::new()
    }

    /// Returns the hosts of a laboratory that are network namespaces; `None` if servers and clients share this
    /// host's network.
    fn isolated(&self) -> Option<Isolated> {
        None
    }

    /// Returns the ways in which it can be disturbed.
    fn controls(&self) -> Controls {
        Controls::of_processes(self.pids())
    }

    /// Returns its hosts if they are network namespaces, with their names and processes; without the clients'.
    fn hosts(&self) -> Vec<HostView> {
        Vec::new()
    }

    /// Has its hosts, where they are other machines, read what they do once a second; `sink` gets it.
    fn watch(&self, sink: &ReadingSink) {
        let _ = sink;
    }

    /// Reports whether our own backend answers, itself or from behind the server.
    fn backend_is_ours(&self) -> bool {
        false
    }
}

/// One host of a server.
#[derive(Clone, Debug)]
pub struct HostView {
    /// Name in archives.
    pub name: String,
    /// Network of the host.
    pub network: Namespace,
    /// Processes on it, with their roles.
    pub processes: Vec<(u32, Role)>,
}

/// The end of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServerEnd {
    /// The server exited without being stopped: a finding.
    Server(String),
    /// The process that kept it running ended, and the server with it: not the server's fault.
    Laboratory(String),
}

impl ServerEnd {
    /// Returns the reason in words.
    pub fn reason(&self) -> &str {
        match self {
            Self::Server(reason) | Self::Laboratory(reason) => reason,
        }
    }
}

impl From<ServerEnd> for Stopped {
    fn from(end: ServerEnd) -> Self {
        match end {
            ServerEnd::Server(how) => Self::ServerEnded { how },
            ServerEnd::Laboratory(how) => Self::LaboratoryEnded { how },
        }
    }
}

/// An existing server, as far as the flags name it.
#[derive(Debug, Default)]
pub struct NamedServer {
    /// The processes that the user named: the server ends with them.
    pids: Vec<u32>,
    /// For each of them; `None` if it had ended before.
    handles: Vec<Option<ProcessHandle>>,
    backends: Vec<u32>,
    statistics: Option<Statistics>,
}

impl NamedServer {
    /// Creates one with these processes on this host, others behind it, and these statistics, which are read once as a
    /// check.
    pub fn new(
        pids: Vec<u32>,
        backends: Vec<u32>,
        statistics: Option<CounterSource>,
    ) -> Result<Self, LabError> {
        let mut statistics = statistics.map(Statistics::new);
        if let Some(Statistics { source, .. }) = &mut statistics {
            source.read().map_err(|error| LabError::Statistics {
                source_name: source.to_string(),
                reason: error.to_string(),
            })?;
        }
        let handles = pids.iter().map(|pid| ProcessHandle::open(*pid).ok()).collect();
        Ok(Self { pids, handles, backends, statistics })
    }
}

/// Returns the processes of a server on this host: the ones that the user `named`, or else the ones that HAProxy
/// reports, which a reload replaces.
pub fn processes_of(named: &[u32], counts: Option<&CounterSource>) -> Vec<u32> {
    match counts {
        Some(CounterSource::Haproxy(socket)) if named.is_empty() => {
            server_limits::haproxy_processes(socket)
        }
        _ => named.to_vec(),
    }
}

/// Returns these processes and those that they have started.
fn with_workers(pids: &[u32]) -> Vec<u32> {
    process::with_descendants(pids).unwrap_or_else(|_| pids.to_vec())
}

impl WatchedServer for NamedServer {
    fn pids(&self) -> Vec<u32> {
        let counts = self.statistics.as_ref().map(|statistics| &statistics.source);
        with_workers(&processes_of(&self.pids, counts))
    }

    fn backend_pids(&self) -> Vec<u32> {
        with_workers(&self.backends)
    }

    fn ended(&mut self) -> Option<ServerEnd> {
        let status = |handle: &Option<ProcessHandle>| match handle {
            Some(handle) => handle.ended().map(end_status),
            None => Some(EndStatus::Unknown),
        };
        let mut ends = self.pids.iter().zip(&self.handles);
        let (pid, status) = ends.find_map(|(pid, handle)| Some((pid, status(handle)?)))?;
        Some(ServerEnd::Server(format!("process {pid} has ended: {status}")))
    }

    fn counters(&mut self) -> Option<ServerCounters> {
        self.statistics.as_mut()?.read()
    }

    fn statistics(&self) -> Option<CounterSource> {
        self.statistics.as_ref().map(|statistics| statistics.source.clone())
    }

    fn limits(&self) -> Vec<LimitUse> {
        self.statistics.as_ref().map(Statistics::limits).unwrap_or_default()
    }

    fn timers(&self, _: &LoadPlan) -> Vec<KnownTimer> {
        let mut timers: Vec<KnownTimer> = Vec::new();
        for timer in self.pids().iter().flat_map(|pid| server_timers::read(Path::new("/"), *pid)) {
            // Several processes of one configuration.
            if !timers.contains(&timer) {
                timers.push(timer);
            }
        }
        timers
    }
}

/// A server's own counters, less our readings where it counts them, too.
#[derive(Debug)]
pub(crate) struct Statistics {
    pub(crate) source: CounterSource,
    /// Readings that were counted.
    readings: u64,
}

impl Statistics {
    pub(crate) const fn new(source: CounterSource) -> Self {
        Self { source, readings: 0 }
    }

    pub(crate) fn read(&mut self) -> Option<ServerCounters> {
        let counted = self.source.read().ok()?;
        self.readings += u64::from(self.source.counts_readings());
        let of_readings = ServerCounters {
            requests: self.readings,
            connections: self.readings,
            ..ServerCounters::default()
        };
        counted.since(&of_readings)
    }

    pub(crate) fn limits(&self) -> Vec<LimitUse> {
        server_limits::read(&self.source)
    }
}

#[cfg(test)]
mod tests {
    use plimsoll_sys::thread;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixListener;
    use std::process::Command;

    use super::*;

    #[test]
    fn counters_leave_our_readings_out() {
        let scratch = tempfile::tempdir().expect("a folder");
        let socket = scratch.path().join("status.sock");
        let listener = UnixListener::bind(&socket).expect("a socket");
        // An nginx that has served 40 requests, and since then only our readings.
        let nginx = thread::spawn("nginx", None, move || {
            for total in 41..44 {
                let (mut stream, _) = listener.accept().expect("a reading");
                let _ = stream.read(&mut [0; 256]);
                let _ = write!(
                    stream,
                    "HTTP/1.0 200 OK\r\n\r\nActive connections: 1 \nserver accepts handled requests\n \
                     {total} {total} {total} \nReading: 0 Writing: 1 Waiting: 0 \n"
                );
            }
        })
        .expect("a thread");
        let source = CounterSource::NginxSocket(socket);
        let mut server =
            NamedServer::new(Vec::new(), Vec::new(), Some(source)).expect("it answers");
        let (before, after) = (server.counters(), server.counters());
        let none = ServerCounters::default();
        assert_eq!(after.expect("counted").since(&before.expect("counted")), Some(none));
        nginx.join().expect("three readings");
        // The listener is closed.
        assert_eq!(server.counters(), None);
    }

    #[test]
    fn the_end_of_a_named_process_is_noticed() {
        let mut child =
            Command::new("cat").stdin(std::process::Stdio::piped()).spawn().expect("cat");
        let mut server =
            NamedServer::new(vec![child.id()], Vec::new(), None).expect("nothing to read");
        assert_eq!((server.pids(), server.ended()), (vec![child.id()], None));
        drop(child.stdin.take());
        while process::is_alive(child.id()) {
            std::thread::yield_now();
        }
        let gone = format!("process {} has ended: exit status 0", child.id());
        assert_eq!(server.ended(), Some(ServerEnd::Server(gone)));
        child.wait().expect("it ended with its input");
        // A process behind the server is none of the server.
        let me = std::process::id();
        let server = NamedServer::new(Vec::new(), vec![me], None).expect("nothing to read");
        assert_eq!((server.pids(), server.backend_pids().first()), (vec![], Some(&me)));
        // Nothing is known of a server of which nothing was named.
        let mut unknown = NamedServer::default();
        assert_eq!((unknown.pids(), unknown.ended(), unknown.counters()), (vec![], None, None));
    }

    #[test]
    fn statistics_that_cannot_be_read_are_refused_by_name() {
        let source = CounterSource::Haproxy(Path::new("/nowhere/haproxy.sock").into());
        let refused =
            NamedServer::new(Vec::new(), Vec::new(), Some(source)).unwrap_err().to_string();
        assert!(refused.starts_with("--watch haproxy:/nowhere/haproxy.sock: "), "{refused}");
    }
}
