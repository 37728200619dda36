//! Whole searches, one after another, and what they say together.

use serde::{Deserialize, Serialize};

use crate::trial::{Outcome, Verdict};

/// Repeated searches; `find` has the interval over them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepeatSummary {
    /// Searches that were asked for.
    pub asked: u32,
    /// Searches that ended with an interval, which alone count.
    pub used: u32,
    /// Confidence that the interval over them contains the median of all such searches, 0 to 1; `None` for
    /// fewer than two.
    pub confidence: Option<f64>,
    /// Searches that are left out at each end of the interval: 0 when it spans all.
    pub left_out: u32,
    /// `true` if the server was started afresh for each.
    pub fresh_sut: bool,
    /// Every search, in order.
    pub searches: Vec<RepeatedSearch>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RepeatedSearch {
    /// 1 for the first.
    pub number: u32,
    /// Outcome of the search.
    pub outcome: Outcome,
    /// Lower bound.
    pub lower: Option<f64>,
    /// Upper bound.
    pub upper: Option<f64>,
    /// Verdict of the search.
    pub verdict: Verdict,
    /// The exit code that it alone would have had.
    pub exit_code: u8,
    /// Trials judged GOOD or BAD.
    pub trials: u32,
    /// Duration of the search.
    pub seconds: f64,
    /// Directory of its archive.
    pub archive: Option<String>,
}

impl RepeatedSearch {
    /// Returns the interval, if the search has one.
    pub fn interval(&self) -> Option<(f64, f64)> {
        let is_settled = self.outcome == Outcome::Regular && self.verdict == Verdict::Good;
        self.lower.zip(self.upper).filter(|_| is_settled)
    }
}
