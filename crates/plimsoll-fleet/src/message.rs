//! The messages between a coordinator and its agents.
//!
//! ```text
//! load    Prepare -> Ready -> Start -> Interval… Rows… Draining -> Ended        any number of times
//!         on other hosts                 Start -> Armed -> Go, or Start again with a later instant
//! hold    as load, and between Start and Ended: Steer -> Steered                any number of times
//! serve   Serve -> Listening, then ServeCounters periodically, and after each Count
//! watch   Watch -> Reading once per second, during any load
//! sut     StartSut -> SutStarted, then SutStatus once a second, and after each CountSut
//! ```
//!
//! A supervisor is a child of its coordinator and understands [`ToSupervisor`] alone:
//!
//! ```text
//! run     Supervise -> ProgramsReady, then ProgramExited when one ends; Supervise again adds more
//! ```
//!
//! An agent sends [`FromAgent::Hello`] first. [`ToAgent::Exit`], or the end of its input, ends it. On another
//! host, so does the lack of any message for some time: [`ToAgent::Ping`] comes every second.

use std::net::{IpAddr, SocketAddr};
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::{fmt, fs};

use plimsoll_model::cliff::KnownTimer;
use plimsoll_model::event::LoadEvent;
use plimsoll_model::host::{LimitUse, Reading};
use plimsoll_model::plan::{Identity, Listener, LoadPlan, ServePlan, Steer, TlsState};
use plimsoll_model::target::Protocol;
use plimsoll_model::{Nanos, SutKind};
use plimsoll_sys::affinity;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::hosts;

/// A text of an agent is cut to this many characters.
const TEXT_CHARS_MAX: usize = 2_000;

/// This program's version: both ends must have the same.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// From a coordinator.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToAgent {
    /// Compare this host with its part of a load; answered by [`FromAgent::Surveyed`].
    Survey(Box<HostPart>),
    /// Read this host once a second from now on: [`FromAgent::Reading`].
    Watch,
    /// The next plan has large bodies, which are here. Handled by the fleet itself.
    Bodies {
        /// Number of the set of bodies.
        number: u32,
        /// Total length of the bodies.
        bytes: u64,
        /// Source of the bodies.
        from: BodiesFrom,
    },
    /// Get ready to make this load: open the pool where the plan says so, then answer
    /// [`LoadEvent::Ready`].
    Prepare(#[serde(with = "plimsoll_model::framed")] Box<LoadPlan>),
    /// Begin the load that was prepared. On another host this only names the instant, and [`FromAgent::Armed`] is
    /// the answer.
    Start {
        /// The schedule's first instant on the CLOCK_MONOTONIC of the agent's host. The link to another
        /// host translates it; nothing else depends on the clock.
        epoch_monotonic: Nanos,
    },
    /// Every host knows the instant of the start in time: begin then.
    Go,
    /// Change what a hold does.
    Steer {
        /// Repeated in the answer; ascending.
        id: u32,
        /// The order.
        steer: Steer,
    },
    /// Start no more operations; what is in flight may finish.
    Stop {
        /// For this long; operations that are open then are counted as interrupted.
        grace: Nanos,
    },
    /// Serve until [`ToAgent::Exit`].
    Serve(#[serde(with = "plimsoll_model::framed")] Box<ServePlan>),
    /// Report the servers' counters at once: [`FromAgent::ServeCounters`].
    Count,
    /// Run this server under test, whose program is one of this host.
    StartSut(Box<SutPlan>),
    /// Report the status of the server under test at once: [`FromAgent::SutStatus`].
    CountSut,
    /// Answered by [`FromAgent::Pong`] at once, by the fleet itself.
    Ping {
        /// Time of sending on the clock of the sender; repeated in the answer.
        sent: Nanos,
    },
    /// Stop everything and end.
    Exit,
}

/// From a coordinator to a supervisor, over the pipes of a child. Nothing of it is in [`ToAgent`], because an agent may
/// have its coordinator on another host: that one names no program, path or control group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToSupervisor {
    /// Start these programs and report when they end.
    Supervise(Box<SupervisorPlan>),
    /// End every program, start it again, and report when all are ready.
    Restart,
    /// Stop everything and end; written like [`ToAgent::Exit`].
    Exit,
}

/// The source of the large bodies of a plan.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BodiesFrom {
    /// An earlier plan has them.
    Earlier,
    /// A sealed memory file of a process of this host; refused where the coordinator is on another one.
    Path(String),
    /// The raw frames that follow.
    Parts,
}

/// From an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FromAgent {
    /// The first message. Its format never changes, so that two versions can detect that they
    /// differ.
    Hello {
        /// See [`VERSION`].
        version: String,
        /// Process id.
        pid: u32,
        /// Limit of open files.
        descriptors_max: u64,
        /// The machine of the agent. Optional, so that the version of an agent that does not send it can be read.
        #[serde(default)]
        machine: Machine,
    },
    /// The answer to a [`ToAgent::Ping`].
    Pong {
        /// The time in the ping.
        sent: Nanos,
        /// Time of arrival on the clock of the agent's host.
        arrived: Nanos,
        /// Time at which this answer was made, on the same clock.
        answered: Nanos,
    },
    /// The host's lacks for its part.
    Surveyed(Box<HostSurvey>),
    /// A reading of this host, on its clock. The link to another host translates the times.
    Reading(Box<Reading>),
    /// A report of the load: `Ready` answers [`ToAgent::Prepare`], `Steered` answers [`ToAgent::Steer`], and `Ended` is
    /// the last.
    Load(LoadEvent),
    /// The instant of the start is known, and so far ahead; zero if it has passed.
    Armed {
        /// On the clock of the agent's host.
        margin: Nanos,
    },
    /// A line for the reader.
    Note(String),
    /// One of the processes that made this host's part is lost; a note says how.
    PartLost,
    /// The servers accept connections.
    Listening(
        /// In the order of the plan, with the ports that they got.
        Vec<Listener>,
    ),
    /// The servers' counters so far.
    ServeCounters(ServeCounters),
    /// The server under test accepts connections.
    SutStarted(Box<SutStarted>),
    /// The status of the server under test.
    SutStatus(Box<SutStatus>),
    /// The programs of the last plan are ready.
    ProgramsReady {
        /// Process ids of the programs, in the order of the plan.
        pids: Vec<u32>,
    },
    /// A supervised program ended.
    ProgramExited(ProgramExit),
    /// The last command failed; a load that was running is over.
    Failed {
        /// Side at fault.
        fault: AgentFault,
        /// The fault and its remedy.
        message: String,
    },
}

impl FromAgent {
    /// Returns the message with texts of a bounded length.
    pub(crate) fn shortened(mut self) -> Self {
        if let Self::Load(
            LoadEvent::Ready { first_error: Some(text), .. } | LoadEvent::Refused(text),
        )
        | Self::Note(text)
        | Self::Failed { message: text, .. } = &mut self
            && let Some((end, _)) = text.char_indices().nth(TEXT_CHARS_MAX)
        {
            text.truncate(end);
        }
        self
    }

    /// Returns its name in frames.
    pub(crate) fn kind(&self) -> String {
        let written = match self {
            Self::Load(event) => serde_json::to_value(event),
            other => serde_json::to_value(other),
        };
        match written {
            Ok(Value::String(name)) => name,
            Ok(Value::Object(fields)) => fields.keys().next().cloned().unwrap_or_default(),
            _ => String::new(),
        }
    }
}

/// The machine of an agent, as far as a coordinator must know it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The build of the program: see [`crate::hosts::identity`].
    pub build: String,
    /// Drawn by the kernel at its start: two names of one machine show the same.
    pub boot_id: String,
    /// Network namespace: containers of one machine have the same `boot_id`.
    pub network: String,
    /// CPUs that the agent may use.
    pub cpus: u32,
}

impl Machine {
    /// Returns the machine of this process.
    pub(crate) fn here() -> Self {
        let boot_id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let network = fs::read_link("/proc/self/ns/net").unwrap_or_default();
        Self {
            build: hosts::identity().to_owned(),
            boot_id: boot_id.trim().to_owned(),
            network: network.display().to_string(),
            cpus: affinity::usable_cpus().len() as u32,
        }
    }

    /// Reports whether two agents share CPUs and ports, under whichever names.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        !self.boot_id.is_empty() && self.boot_id == other.boot_id && self.network == other.network
    }
}

/// The part of a host in a load, as far as limits of hosts matter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPart {
    /// Connections at once.
    pub connections: u64,
    /// Connections that are being opened at once, at most.
    pub opening_max: u64,
    /// `true` if the load is a hold, whose connections are closed by RST at the end.
    pub is_hold: bool,
    /// No other run is to make load there meanwhile.
    pub is_alone: bool,
    /// Destinations of the load.
    pub destinations: Vec<SocketAddr>,
}

/// A host compared with its part.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostSurvey {
    /// Limits that are too low for its part; the one first that allows the fewest connections.
    pub short: Vec<HostNeed>,
    /// Shortages that would stop the load with any number of connections.
    pub missing: Vec<HostNeed>,
    /// Limits that may be reached, and stop nothing.
    pub tight: Vec<HostNeed>,
    /// Connections that it has room for, which may be more than its part.
    pub fits: u64,
    /// Connections for which it has source ports.
    pub fits_ports: u64,
    /// Ports of one of its addresses that connections may come from.
    pub ports_per_source: u64,
    /// Address on the way to the first destination.
    pub address: Option<IpAddr>,
    /// CLOCK_REALTIME, and CLOCK_MONOTONIC at the same instant.
    pub realtime: Nanos,
    /// See `realtime`.
    pub at: Nanos,
}

/// Something that a host has too little of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct HostNeed {
    /// A limit by its documented name, or a route.
    pub what: String,
    /// Amount needed.
    pub needs: String,
    /// Amount available.
    pub has: String,
    /// Way to raise it.
    pub fix: String,
}

/// A server under test that a host is to run. The host finds the program itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SutPlan {
    /// Kind of the server.
    pub kind: SutKind,
    /// Listening address.
    pub listen: SocketAddr,
    /// Certificate and key.
    #[serde(with = "plimsoll_model::framed")]
    pub identity: Identity,
    /// Servers behind it.
    pub backends: Vec<SocketAddr>,
    /// Client connections at once.
    pub connections: u64,
    /// The longest time that a client waits for anything.
    pub longest_wait: Nanos,
    /// State that our own server keeps per TLS connection.
    pub tls_state: TlsState,
    /// Protocol of the clients.
    pub protocol: Protocol,
    /// `true` if they speak it over TLS.
    pub tls: bool,
    /// `true` if TLS sessions can be resumed.
    pub resumes: bool,
    /// `true` if the generated configuration stays.
    pub keep_config: bool,
    /// `true` if the server is one process with a thread on each CPU of the host; otherwise it has as many processes as
    /// its connections need.
    pub is_pinned: bool,
}

/// A server under test that has been started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SutStarted {
    /// Program and version.
    pub name: String,
    /// Lines for the report.
    pub notes: Vec<String>,
    /// Timers of the server.
    pub timers: Vec<KnownTimer>,
}

/// The status of a server under test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SutStatus {
    /// Requests, the incomplete ones among them, and client connections since it started, where it counts them.
    pub counted: Option<(u64, u64, u64)>,
    /// Limits of its configuration.
    pub limits: Vec<LimitUse>,
    /// End of the server, once it has ended.
    pub ended: Option<String>,
}

/// The side at fault for a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AgentFault {
    /// The request cannot be carried out.
    Usage,
    /// This host refused: a limit, a port in use, no memory.
    Host,
    /// plimsoll itself.
    Bug,
}

/// Counters of servers since they started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServeCounters {
    /// Connections open now.
    pub conns_open: u64,
    /// Connections accepted.
    pub conns_total: u64,
    /// Complete requests.
    pub requests_total: u64,
    /// WebSocket messages and MQTT publishes received completely.
    pub messages_total: u64,
    /// MQTT messages that were delivered, once or twice.
    pub deliveries_total: u64,
    /// MQTT messages that were not delivered, on purpose.
    pub deliveries_lost_total: u64,
    /// MQTT messages that were delivered twice, on purpose.
    pub deliveries_repeated_total: u64,
}

impl ServeCounters {
    /// Adds the counters of another thread or process.
    pub const fn merge(&mut self, other: &Self) {
        self.conns_open += other.conns_open;
        self.conns_total += other.conns_total;
        self.requests_total += other.requests_total;
        self.messages_total += other.messages_total;
        self.deliveries_total += other.deliveries_total;
        self.deliveries_lost_total += other.deliveries_lost_total;
        self.deliveries_repeated_total += other.deliveries_repeated_total;
    }
}

/// The programs that a supervisor starts and ends.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupervisorPlan {
    /// A directory that the supervisor creates, which must not exist yet, and removes at its end.
    pub scratch_dir: Option<PathBuf>,
    /// Leave the directory behind.
    pub keep: bool,
    /// A control group that the supervisor creates, and removes at its end.
    pub control_group: Option<OwnControlGroup>,
    /// Programs to start now; more can follow in later plans.
    pub children: Vec<SupervisedProgram>,
}

/// A control group that exists as long as its supervisor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnControlGroup {
    /// Directory of the group, which must not exist yet.
    pub dir: PathBuf,
    /// The group that its processes come from, and go back to.
    pub home: PathBuf,
    /// The parent passes no CPU quotas on, and shall until the group's end (version 2).
    pub lend_cpu: bool,
}

/// A program that a supervisor starts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SupervisedProgram {
    /// Name in reports.
    pub name: String,
    /// Program and arguments; not empty. It must stay in the foreground.
    pub argv: Vec<String>,
    /// CPUs it may run on; empty leaves them all.
    pub cpus: Vec<u32>,
    /// The sign that the program is ready.
    pub ready: Readiness,
}

/// The sign by which the supervisor detects that a program is ready.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Readiness {
    /// The program runs.
    Started,
    /// A TCP connection to this address succeeds.
    Accepts(SocketAddr),
    /// This file or socket exists.
    Exists(PathBuf),
}

/// The end of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitReason {
    /// The process exited with this code.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

/// A program that ended unexpectedly.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramExit {
    /// The program's name in the plan.
    pub name: String,
    /// End of the program.
    pub reason: ExitReason,
    /// The end of what it wrote on stdout and stderr.
    pub output: String,
}

impl From<ExitStatus> for ExitReason {
    fn from(status: ExitStatus) -> Self {
        match status.signal() {
            Some(signal) => Self::Signal(signal),
            None => Self::Code(status.code().unwrap_or(-1)),
        }
    }
}

/// `exit code 1`, `killed by signal 9`.
impl fmt::Display for ExitReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(f, "exit code {code}"),
            Self::Signal(signal) => write!(f, "killed by signal {signal}"),
        }
    }
}
