//! Comparing two configurations: what is compared, what each round gave, and the result.

use serde::{Deserialize, Serialize};

/// The figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Lower bound of the tipping point, operations per second.
    LowerBound,
    /// 99th percentile of the corrected latency at a given load, ms.
    P99,
    /// Good answers per second.
    Throughput,
    /// CPU time of the generator per operation that was sent, us.
    ClientCpu,
}

impl Metric {
    /// Every metric.
    pub const ALL: &'static [Self] =
        &[Self::LowerBound, Self::P99, Self::Throughput, Self::ClientCpu];

    /// The name in flags and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LowerBound => "lower-bound",
            Self::P99 => "p99",
            Self::Throughput => "throughput",
            Self::ClientCpu => "client-cpu",
        }
    }

    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::LowerBound => "lower bound of the tipping point",
            Self::P99 => "p99 latency",
            Self::Throughput => "throughput",
            Self::ClientCpu => "client CPU per operation",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::LowerBound | Self::Throughput)
    }
}

/// The result of a comparison; B is relative to A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// B's figure is higher.
    Higher,
    /// B's figure is lower.
    Lower,
    /// No difference larger than the stated one.
    NoDifference,
    /// Too few usable rounds for any statement.
    Undecided,
}

/// Which of the two a round measures first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Order {
    /// A, then B.
    Ab,
    /// B, then A.
    Ba,
}

/// `compare` of the summary.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "the fields are described once, in docs/json.md")]
pub struct CompareSummary {
    pub a: String,
    pub b: String,
    pub metric: Metric,
    /// `requests/s`, `handshakes/s`, `ms`, `us`.
    pub unit: String,
    pub finding: Finding,
    /// Median of B/A.
    pub ratio: Option<f64>,
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    /// Share of comparisons whose interval holds the truth, from the rank of its ends.
    pub confidence: Option<f64>,
    pub p: Option<f64>,
    /// No difference larger than this one, relative.
    pub difference_max: Option<f64>,
    /// Relative differences up to this are of no interest to the user.
    pub threshold: f64,
    /// How exactly one measurement is known by its method, relative.
    pub resolution: f64,
    pub noise: Option<NoiseSummary>,
    pub same: Vec<MeasuredSummary>,
    pub rounds_planned: u32,
    pub rounds_used: u32,
    pub rounds_invalid: u32,
    pub rounds: Vec<RoundSummary>,
    /// Why fewer rounds were made than planned.
    pub stopped: Option<String>,
}

/// What measuring A against itself showed; all relative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see CompareSummary")]
pub struct NoiseSummary {
    pub cv: f64,
    /// Half of the interval that a comparison of A with A would have.
    pub half_width: f64,
    pub detectable: f64,
}

/// One measurement: a value, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see CompareSummary")]
pub struct MeasuredSummary {
    pub value: Option<f64>,
    pub invalid: Option<String>,
    pub seconds: f64,
    pub archive: String,
}

/// One measurement of each.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see CompareSummary")]
pub struct RoundSummary {
    pub number: u32,
    pub order: Order,
    pub a: MeasuredSummary,
    pub b: MeasuredSummary,
    /// B/A; `None` when one of them is INVALID.
    pub ratio: Option<f64>,
}
