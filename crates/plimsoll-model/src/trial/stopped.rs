//! Why a search or a procedure stopped before its end: typed if it is known; the text is made in `report`.

use serde::{Deserialize, Serialize};

use super::Check;
use crate::hold::ServerFailure;
use crate::{ErrorClass, Nanos, Rate};

/// The event that stopped a search.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reason")]
pub enum Stopped {
    /// The user interrupted it.
    #[default]
    Interrupted,
    /// The load ended early: the user interrupted it, or its clients were lost.
    LoadEnded,
    /// The coordinator was killed.
    Killed,
    /// The server exited.
    ServerEnded {
        /// The process and its end, in words.
        how: String,
    },
    /// The process that kept the server running ended.
    LaboratoryEnded {
        /// The process and its end, in words.
        how: String,
    },
    /// The server no longer answered anything.
    Silent {
        /// Number of the first trial without an answer.
        trial: u32,
        /// Load of that trial.
        load: Rate,
        /// The most frequent error in it.
        class: Option<ErrorClass>,
        /// Trials without an answer after it.
        checks: u32,
        /// Load of these trials; 0 without any.
        checks_load: Rate,
    },
    /// The time limit of the mode was reached.
    TimeLimit,
    /// The server failed while it held connections.
    ServerFailed {
        /// The failure.
        why: ServerFailure,
    },
    /// The lower bound of held connections did not pass its soak.
    SoakFailed,
    /// No connection could be opened.
    NoneOpened,
    /// Before the first storm, connections were missing or did not answer.
    BaseIncomplete {
        /// Connections that were open and answered.
        answered: u64,
        /// Connections asked for.
        asked: u64,
    },
    /// The connections missed the SLO without any storm.
    BaseMissed {
        /// The checks that failed.
        checks: Vec<Check>,
    },
    /// The server did not return to its base line after a storm.
    NotRecovered(NotRecovered),
}

/// The state of a server that was not as before after a storm.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NotRecovered {
    /// Connections that the storm cut.
    pub cut: u64,
    /// Time that it had.
    #[serde(rename = "waited_s", with = "crate::time::seconds")]
    pub waited: Nanos,
    /// The property that still differed.
    pub differs: BaseProperty,
}

named! {
    /// A property of the server between storms.
    pub enum BaseProperty {
        /// The connections that are open and answer.
        Connections = "connections",
        /// The latency of requests.
        Latency = "latency",
        /// The server's memory, which changes for some time after a storm.
        Memory = "memory",
    }
}
