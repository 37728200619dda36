//! Trials: one load held for one stretch of time, and what was judged of it.

use serde::Deserialize;
use serde::Serialize;

use crate::Nanos;
use crate::Rate;
use crate::tally::Tally;

/// Why the search asked for a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Phase {
    /// Does the SUT meet the SLO at the lowest load at all?
    Qualify,
    /// Growing steps from below until the first BAD.
    Expand,
    /// Closing in on the interval.
    Narrow,
    /// Longer trials at the lower bound.
    Confirm,
}

/// What the search asks for next.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRequest {
    /// 1 for the first trial of a search.
    pub number: u32,
    /// Why.
    pub phase: Phase,
    /// Offered load.
    pub rate: Rate,
    /// Planned measured window.
    pub duration: Nanos,
}

/// What was measured in one trial.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialMeasurement {
    /// What was asked for.
    pub request: TrialRequest,
    /// Wall time from the epoch to the end of sending.
    pub window: Nanos,
    /// Whether the trial was ended early because its verdict was fixed.
    pub aborted: bool,
    /// All agents and seconds.
    pub tally: Tally,
    /// CPU of the busiest SUT thread over the window, 0 to 1, where it could be observed.
    pub sut_busiest_thread: Option<f64>,
}

/// Three-valued verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Every goal met.
    Good,
    /// At least one goal missed, by the SUT.
    Bad,
    /// The generator, not the SUT, shaped the result.
    Invalid,
}

impl Verdict {
    /// `good`, `bad` or `invalid`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Good => "good",
            Self::Bad => "bad",
            Self::Invalid => "invalid",
        }
    }
}

/// How a check came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Within limits.
    Pass,
    /// Printed, changes nothing.
    Warn,
    /// Makes the trial INVALID (validity checks) or BAD (goals).
    Fail,
}

/// One check with what it saw: an entry of `reasons`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// Short stable name, for example `send-lag` or `p99<50ms`.
    pub check: String,
    /// The value seen, with its unit.
    pub value: String,
    /// The limit, with its unit.
    pub limit: String,
    /// The outcome.
    pub level: Level,
}

/// A verdict with its reasons.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// Every check that was made, the worst first.
    pub reasons: Vec<Check>,
    /// Late, failed and unsent operations over scheduled ones: MLRsearch's Trial Loss Ratio.
    pub loss_ratio: f64,
}

/// A trial with its verdict: a line of the iteration table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrialRecord {
    /// What was measured.
    pub measurement: TrialMeasurement,
    /// What was judged.
    pub judgement: Judgement,
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Both bounds found, as close together as the mode asks.
    Regular,
    /// No load up to the cap was BAD: at least `lower`.
    NotReached {
        /// What set the cap.
        cap: String,
    },
    /// Even the lowest load was BAD.
    FailsAtMinimum,
    /// The generator was the limit: at least `lower`.
    GeneratorLimited {
        /// The checks that failed.
        why: String,
    },
    /// Stopped before the bounds were close enough.
    Unfinished {
        /// By what: an interrupt, the time budget, a SUT that died.
        why: String,
    },
}

/// The tipping point: the answer of a search.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TippingPoint {
    /// How the search ended.
    pub outcome: Outcome,
    /// Highest load that met the SLO.
    pub lower: Option<Rate>,
    /// Lowest load above it that did not.
    pub upper: Option<Rate>,
    /// Typical rate of good answers at the lower bound (MLRsearch's Conditional Throughput).
    pub conditional_throughput: Option<Rate>,
    /// Trials judged GOOD or BAD.
    pub trials: u32,
    /// Trials judged INVALID.
    pub invalid_trials: u32,
    /// Findings worth a line, such as a loss inversion.
    pub notes: Vec<String>,
}

impl TippingPoint {
    /// Relative width `upper / lower - 1`.
    pub fn width(&self) -> Option<f64> {
        match (self.lower, self.upper) {
            (Some(lower), Some(upper)) if lower.get() > 0.0 => {
                Some(upper.get() / lower.get() - 1.0)
            }
            _ => None,
        }
    }
}
