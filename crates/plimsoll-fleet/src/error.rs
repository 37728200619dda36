//! Failures of a coordinator or an agent.

use std::io;
use std::time::Duration;

use thiserror::Error;

use crate::frame::FrameError;
use crate::message::{AgentFault, ProgramExit};

/// The result of what may fail with a [`FleetError`].
pub(crate) type Result<T, E = FleetError> = std::result::Result<T, E>;

/// Why a command could not be carried out. A SUT that misbehaves is never one of these: that is a
/// result.
#[derive(Debug, Error)]
pub enum FleetError {
    /// A process could not be started.
    #[error("cannot start {name}: {source}")]
    Start {
        /// The agent or thread.
        name: String,
        /// The system's reason.
        source: io::Error,
    },
    /// One process may not open enough files for even one connection.
    #[error(
        "a process may open {have} files here, and plimsoll itself needs {reserve}; raise the \
         limit, for example: ulimit -n 20000"
    )]
    DescriptorLimit {
        /// Descriptors per process.
        have: u64,
        /// Descriptors that no connection can use.
        reserve: u64,
    },
    /// An agent of another version.
    #[error(
        "{agent} is plimsoll {theirs}, this is plimsoll {ours}; install the same version on both \
         ends"
    )]
    Version {
        /// Name of the agent.
        agent: String,
        /// Version of the agent.
        theirs: String,
        /// This program's version.
        ours: String,
    },
    /// The server allows less than the load asks for.
    #[error("{what}")]
    Refused {
        /// The limit, and an alternative.
        what: String,
    },
    /// An agent could not carry out a command, and reported why.
    #[error("{agent}: {message}")]
    Failed {
        /// Name of the agent.
        agent: String,
        /// Side at fault.
        fault: AgentFault,
        /// The fault and its remedy.
        message: String,
    },
    /// An agent's process ended unexpectedly.
    #[error("{agent} {how}")]
    Lost {
        /// Name of the agent.
        agent: String,
        /// End of the agent, and its last output.
        how: String,
    },
    /// An agent did not answer.
    #[error("{agent} did not {what} within {} s; the host may be overloaded", waited.as_secs())]
    Slow {
        /// Name of the agent.
        agent: String,
        /// The missing action, completing *did not*.
        what: &'static str,
        /// Time that it was given.
        waited: Duration,
    },
    /// A coordinator on another host fell silent.
    #[error("the coordinator sent nothing for {} s", lease.as_secs_f64())]
    Silence {
        /// The longest silence that an agent bears.
        lease: Duration,
    },
    /// Hosts cannot take part.
    #[error("{}", lines.join("; "))]
    Hosts {
        /// A line for each host, or for those with the same trouble.
        lines: Vec<String>,
    },
    /// The user stopped it while agents were waited for.
    #[error("it was stopped while agents were waited for")]
    Interrupted,
    /// An agent sent a message that is not expected at this point.
    #[error("{agent} sent an unexpected message ({message}); this is a bug in plimsoll")]
    Unexpected {
        /// Name of the agent.
        agent: String,
        /// The message, shortened.
        message: String,
    },
    /// A supervised program ended before it was ready.
    #[error("{} ended before it was ready: {}{}", .0.name, .0.reason, indented(&.0.output))]
    ProgramEnded(ProgramExit),
    /// A frame could not be read or written.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

impl FleetError {
    /// Returns the side at fault; decides the exit code.
    pub const fn fault(&self) -> AgentFault {
        match self {
            Self::Failed { fault, .. } => *fault,
            Self::Version { .. } | Self::Refused { .. } => AgentFault::Usage,
            Self::Unexpected { .. } => AgentFault::Bug,
            Self::Start { .. }
            | Self::DescriptorLimit { .. }
            | Self::Lost { .. }
            | Self::Slow { .. }
            | Self::Silence { .. }
            | Self::Hosts { .. }
            | Self::Interrupted
            | Self::ProgramEnded(_)
            | Self::Frame(_) => AgentFault::Host,
        }
    }
}

/// Indents the lines of the program, so that they differ from ours.
fn indented(output: &str) -> String {
    output.lines().fold(String::new(), |text, line| text + "\n  " + line)
}
