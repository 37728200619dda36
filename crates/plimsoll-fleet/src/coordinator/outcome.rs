//! The control of a load, and its outcome.

use plimsoll_model::Nanos;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::TrialRequest;

use crate::hosts::{HostName, LoadHosts};
use crate::message::{HostPart, HostSurvey};

/// A host that has compared itself with its part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SurveyedHost {
    /// Name of the host.
    pub name: HostName,
    /// Threads of the host, and threads of all hosts: its share of the load.
    pub threads: (u32, u64),
    /// Survey of the host.
    pub survey: HostSurvey,
    /// The instant of `survey.at` on the clock here.
    pub read_at: Nanos,
}

/// Hosts that somebody adds to a hold while it runs.
pub trait Newcomers {
    /// Returns the hosts that were named since the last call and are not among `known`; an error completes *cannot …*.
    fn poll(&self, known: &[HostName]) -> Result<Option<LoadHosts>, String>;

    /// Returns the part of a host with this number of all threads.
    fn part(&self, threads: u32, all: u64) -> HostPart;

    /// Returns the host's lack for its part; `None` if it lacks nothing.
    fn lacks(&self, host: &SurveyedHost) -> Option<String>;
}

/// The control of a load, besides its plan.
#[derive(Clone, Copy)]
pub struct LoadControl<'a> {
    /// Reports whether the user interrupted; called every 50 ms.
    pub interrupted: &'a dyn Fn() -> bool,
    /// The trial that the load belongs to; `None` for a plain load.
    pub trial: Option<TrialRequest>,
    /// Timeout of operations in flight after an interrupt or an abort.
    pub stop_grace: Nanos,
    /// Time for which an agent may be overdue before it is killed.
    pub overrun: Nanos,
    /// The loss of an agent ends the load.
    pub stops_at_loss: bool,
    /// Hosts that join a hold over other hosts while it runs.
    pub newcomers: Option<&'a dyn Newcomers>,
}

impl<'a> LoadControl<'a> {
    /// Returns the defaults: 1 s of grace, 10 s of overrun, and the loss of an agent does not end the load.
    pub fn new(interrupted: &'a dyn Fn() -> bool) -> Self {
        Self {
            interrupted,
            trial: None,
            stop_grace: Nanos::from_secs(1),
            overrun: Nanos::from_secs(10),
            stops_at_loss: false,
            newcomers: None,
        }
    }
}

/// Connections that all agents have opened in advance.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Opened {
    pub(super) connections: u64,
    pub(super) failed: u64,
    pub(super) first_error: Option<String>,
}

/// The outcome of a load.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadOutcome {
    /// All agents and seconds.
    pub tally: Tally,
    /// Wall time from the epoch to the end of sending.
    pub window: Nanos,
    /// Ended early because more operations were bad than the plan allows.
    pub aborted: bool,
    /// Ended early because the user interrupted it.
    pub interrupted: bool,
    /// Agents that ended early or had to be killed.
    pub lost_agents: u32,
    /// Lines for the reader; each was an event, too.
    pub notes: Vec<String>,
}

impl LoadOutcome {
    /// Reports whether the figures are only a part of what was asked for. An aborted trial is not: its
    /// verdict is complete.
    pub const fn is_partial(&self) -> bool {
        self.interrupted || self.lost_agents > 0
    }
}
