//! Settings of a search for the largest storm, and the figures of its modes.

use plimsoll_model::Nanos;
use plimsoll_model::slo::Slo;

use crate::search::Mode;

/// The figures of a mode.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StormLimits {
    /// Relative width at which an interval is narrow enough.
    pub width_max: f64,
    /// Time limit of all storms; one that has begun is completed.
    pub budget: Nanos,
    /// Storms that are judged, at most.
    pub trials_max: u32,
}

const QUICK: StormLimits =
    StormLimits { width_max: 0.15, budget: Nanos::from_secs(300), trials_max: 16 };
const STANDARD: StormLimits =
    StormLimits { width_max: 0.08, budget: Nanos::from_secs(1_800), trials_max: 40 };
const STRICT: StormLimits =
    StormLimits { width_max: 0.04, budget: Nanos::from_secs(5_400), trials_max: 100 };

impl StormLimits {
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
pub struct StormSettings {
    /// Goals that the connections meet that are not cut.
    pub slo: Slo,
    /// Connections held; at least one.
    pub connections: u64,
    /// The smallest storm; at least one.
    pub lowest: u64,
    /// The largest storm; at most `connections`.
    pub highest: u64,
    /// Time within which all clients must be back.
    pub recover: Nanos,
    /// Time after which a client gives up an attempt.
    pub patience: Nanos,
    /// The longest pause of a client between two attempts.
    pub pause: Nanos,
    /// Look for the jitter that makes the largest storm safe, too, within another budget.
    pub try_jitter: bool,
    /// Confidence of the interval, 0 to 1.
    pub confidence: f64,
    /// The mode's figures.
    pub limits: StormLimits,
}
