//! Trials in which the host was slower, or the server needed more CPU time, than in the rest of the run.

use serde::{Deserialize, Serialize};

/// A trial that was slower than the run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Slow {
    /// Number of the trial.
    pub trial: u32,
    /// Part that was slower.
    #[serde(flatten)]
    pub what: Slower,
}

/// The part that was slower. All shares are relative: 0.16 is 16 % more time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "what")]
pub enum Slower {
    /// The server's CPUs: the yardstick's piece of work took longer on them.
    Host(SlowSeconds),
    /// The clients' CPUs: we were slower.
    Clients(SlowSeconds),
    /// The server: it needed more CPU time per answer than at like loads, on CPUs as fast as usual.
    Server {
        /// Total increase.
        by: f64,
        /// Increase in its own code; `None` when there was none at like loads.
        user: Option<f64>,
        /// Increase in the kernel.
        system: Option<f64>,
    },
}

/// Seconds of a trial in which CPUs were slower.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlowSeconds {
    /// Mean of these seconds, against the median second of the run.
    pub by: f64,
    /// Number of slow seconds.
    pub seconds: u32,
    /// Measured seconds of the trial.
    pub of: u32,
}
