//! The sources of a reading, and whether each of them can be read.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Nanos;

/// Signals that end processes, as signal(7) names them.
const SIGNALS: [(i32, &str); 15] = [
    (1, "SIGHUP"),
    (2, "SIGINT"),
    (3, "SIGQUIT"),
    (4, "SIGILL"),
    (5, "SIGTRAP"),
    (6, "SIGABRT"),
    (7, "SIGBUS"),
    (8, "SIGFPE"),
    (9, "SIGKILL"),
    (11, "SIGSEGV"),
    (13, "SIGPIPE"),
    (14, "SIGALRM"),
    (15, "SIGTERM"),
    (24, "SIGXCPU"),
    (31, "SIGSYS"),
];

named! {
    /// The kind of a source.
    #[derive(PartialOrd, Ord)]
    pub enum SourceKind {
        /// The kernel of the host.
        Host = "host",
        /// A process that was named.
        Process = "process",
        /// HAProxy's statistics socket.
        Haproxy = "haproxy",
        /// nginx's stub_status page.
        Nginx = "nginx",
        /// Datagrams that other programs send.
        Statsd = "statsd",
    }
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EndStatus {
    /// The process exited with this status.
    Exited(i32),
    /// This signal killed it.
    Killed(i32),
    /// The kernel reports it to the parent only.
    Unknown,
}

/// `exit status 3`, `killed by SIGKILL`.
impl fmt::Display for EndStatus {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(formatter, "exit status {code}"),
            Self::Killed(number) => match SIGNALS.iter().find(|(known, _)| known == number) {
                Some((_, name)) => write!(formatter, "killed by {name}"),
                None => write!(formatter, "killed by signal {number}"),
            },
            Self::Unknown => formatter.write_str("its exit status is unknown"),
        }
    }
}

/// The state of a source: readable, or the reason why not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum SourceState {
    /// The source is read.
    Reading,
    /// The source cannot be read.
    Missing {
        /// CLOCK_MONOTONIC of the first reading without it.
        since: Nanos,
        /// Why: one line for people.
        reason: String,
    },
    /// The process has ended.
    Ended {
        /// CLOCK_MONOTONIC of the first reading after its end.
        since: Nanos,
        /// The process's end.
        status: EndStatus,
    },
}

/// A source of a reading.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The kind of a source.
    pub kind: SourceKind,
    /// The name of a process in the series, else where it is read, as in the flag `--watch`.
    pub name: String,
    /// The id of a process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Readable, or the reason why not.
    #[serde(flatten)]
    pub state: SourceState,
}

impl Source {
    /// Returns `true` if the latest reading has it.
    pub fn is_up(&self) -> bool {
        self.state == SourceState::Reading
    }

    /// Returns the instant of the first reading without it.
    pub const fn since(&self) -> Option<Nanos> {
        match self.state {
            SourceState::Reading => None,
            SourceState::Missing { since, .. } | SourceState::Ended { since, .. } => Some(since),
        }
    }
}

/// `process haproxy (4711)`, or where it is read: `haproxy:/run/haproxy/admin.sock`.
impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.kind, self.pid) {
            (SourceKind::Process, Some(pid)) => write!(formatter, "process {} ({pid})", self.name),
            (SourceKind::Process, None) => write!(formatter, "process {}", self.name),
            _ => formatter.write_str(&self.name),
        }
    }
}
