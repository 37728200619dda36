//! Settings of a search for held connections, and the figures of its modes.

use plimsoll_model::Nanos;
use plimsoll_model::slo::{Goal, Slo};
use plimsoll_model::trial::Outcome;

use crate::search::Mode;

/// The share of connections that may be missing if no goal says how many errors are allowed.
const MISSING_MAX: f64 = 0.001;

/// The figures of a mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ConnectionLimits {
    /// Widest relative width of a finished interval.
    pub width_max: f64,
    /// Factor from one level to the next if the first limit is near.
    pub small_step: f64,
    /// Time for which a level is left alone before it is read.
    pub settle: Nanos,
    /// Requests that a level is judged by, if its connections allow as many.
    pub probes_min: u64,
    /// Sweeps of a level for that, at most.
    pub sweeps_max: u32,
    /// Time for which the last good level is held.
    pub soak: Nanos,
    /// Time limit of all levels, without soak and re-ramp; a level that has begun is completed.
    pub budget: Nanos,
    /// Highest level, if the user names none.
    pub cap: u64,
}

const QUICK: ConnectionLimits = ConnectionLimits {
    width_max: 0.05,
    small_step: 1.10,
    settle: Nanos::from_millis(500),
    probes_min: 200,
    sweeps_max: 2,
    soak: Nanos::from_secs(10),
    budget: Nanos::from_secs(90),
    cap: 10_000,
};

const STANDARD: ConnectionLimits = ConnectionLimits {
    width_max: 0.02,
    small_step: 1.05,
    settle: Nanos::from_secs(1),
    probes_min: 2_000,
    sweeps_max: 5,
    // Longer than the longest timer that is common, 120 s.
    soak: Nanos::from_secs(150),
    budget: Nanos::from_secs(1_500),
    cap: 200_000,
};

const STRICT: ConnectionLimits = ConnectionLimits {
    width_max: 0.01,
    small_step: 1.05,
    settle: Nanos::from_secs(3),
    probes_min: 10_000,
    sweeps_max: 10,
    soak: Nanos::from_secs(300),
    budget: Nanos::from_secs(5_400),
    cap: 1_000_000,
};

impl ConnectionLimits {
    /// Returns the figures of `mode`.
    pub const fn of(mode: Mode) -> &'static Self {
        match mode {
            Mode::Quick => &QUICK,
            Mode::Standard => &STANDARD,
            Mode::Strict => &STRICT,
        }
    }
}

/// Settings of a search.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionSettings {
    /// Goals of a GOOD level.
    pub slo: Slo,
    /// The first level.
    pub lowest: u64,
    /// The highest; at least the first.
    pub cap: u64,
    /// Outcome if the highest level is held.
    pub at_cap: Outcome,
    /// The mode's figures, with the soak that was asked for.
    pub limits: ConnectionLimits,
    /// Go on past what the projections allow, until the server fails.
    pub push: bool,
}

impl ConnectionSettings {
    /// Returns the number of connections of `asked` that may be missing.
    pub(super) fn missing_max(&self, asked: u64) -> u64 {
        let ratio = self.slo.goals.iter().find_map(|goal| match goal {
            Goal::Errors { ratio_max } => Some(*ratio_max),
            Goal::Latency { .. } => None,
        });
        (asked as f64 * ratio.unwrap_or(MISSING_MAX)) as u64
    }

    /// Sweeps that make enough requests at a level.
    pub(super) fn sweeps(&self, connections: u64) -> u32 {
        let wanted = self.limits.probes_min.div_ceil(connections.max(1));
        u32::try_from(wanted).unwrap_or(u32::MAX).clamp(1, self.limits.sweeps_max)
    }
}
