//! Comparing two configurations: what is compared, what each block and round gave, and the result.

use serde::{Deserialize, Serialize};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arm {
    /// What is compared with.
    A,
    /// What is compared.
    B,
}

impl Arm {
    /// Both, in the order of their figures.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// `A` or `B`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }

    /// Its place among two.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The one that it is compared with.
    pub const fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The figure that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Metric {
    /// Good answers per second while the server is saturated.
    Goodput,
    /// Median of the corrected latency at the same load, ms.
    P50,
    /// 99th percentile of the corrected latency at the same load, ms.
    P99,
    /// Good answers per second.
    Throughput,
    /// CPU time of the server per good answer, us.
    ServerCpu,
    /// CPU time of the generator per operation that was sent, us.
    ClientCpu,
}

impl Metric {
    /// Every metric that can be asked for.
    pub const ALL: &'static [Self] =
        &[Self::Goodput, Self::ServerCpu, Self::P50, Self::P99, Self::Throughput, Self::ClientCpu];

    /// The name in flags and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Goodput => "goodput",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::Throughput => "throughput",
            Self::ServerCpu => "server-cpu",
            Self::ClientCpu => "client-cpu",
        }
    }

    /// What people call it.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Goodput => "goodput at saturation",
            Self::P50 => "p50 latency at the same load",
            Self::P99 => "p99 latency at the same load",
            Self::Throughput => "throughput",
            Self::ServerCpu => "server CPU per answer",
            Self::ClientCpu => "client CPU per operation",
        }
    }

    /// Whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Goodput | Self::Throughput)
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
    /// No difference was seen.
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
#[expect(missing_docs, reason = "the fields are described once, in docs/reference/json.md")]
pub struct CompareSummary {
    pub a: String,
    pub b: String,
    pub metric: Metric,
    /// `requests/s`, `handshakes/s`, `ms`, `us`.
    pub unit: String,
    pub finding: Finding,
    /// B/A.
    pub ratio: Option<f64>,
    pub ratio_low: Option<f64>,
    pub ratio_high: Option<f64>,
    /// B/A as measured, where `ratio` is the one at like speed of the host; otherwise `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_observed: Option<f64>,
    /// Share of comparisons whose interval holds the truth, from the rank of its ends.
    pub confidence: Option<f64>,
    pub p: Option<f64>,
    /// No difference larger than this one, relative.
    pub difference_max: Option<f64>,
    /// Relative differences up to this are of no interest to the user.
    pub threshold: f64,
    pub noise: Option<NoiseSummary>,
    pub rounds_planned: u32,
    pub rounds_used: u32,
    pub rounds_invalid: u32,
    pub rounds: Vec<RoundSummary>,
    /// Other figures of the same rounds.
    pub others: Vec<OtherSummary>,
    /// What the blocks were; `None` where the loads are the user's.
    pub load: Option<BlockLoad>,
    pub blocks: Vec<BlockSummary>,
    /// Both were loaded at the same time, each on one half of the CPUs.
    pub duet: bool,
    /// Why fewer rounds were made than planned.
    pub stopped: Option<String>,
}

/// How much the figure varies by itself; all relative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see CompareSummary")]
pub struct NoiseSummary {
    pub cv: f64,
    /// Half of the interval.
    pub half_width: f64,
    /// Half of the interval that A has against itself, from its figures in neighbouring rounds.
    pub floor: Option<f64>,
    pub detectable: f64,
}

/// A figure of one side in one round, or why there is none.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see CompareSummary")]
pub struct MeasuredSummary {
    pub value: Option<f64>,
    pub invalid: Option<String>,
    pub seconds: f64,
}

/// Both sides in one round.
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

/// A figure beside the one that decides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see CompareSummary")]
pub struct OtherSummary {
    pub metric: Metric,
    pub unit: String,
    pub finding: Finding,
    /// Median over the rounds.
    pub a: f64,
    pub b: f64,
    pub ratio: f64,
    pub ratio_low: f64,
    pub ratio_high: f64,
    pub p: f64,
    pub detectable: f64,
}

/// The loads of a block that a comparison of searches chooses by itself.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see CompareSummary")]
pub struct BlockLoad {
    /// Connections that saturate both.
    pub connections: u64,
    pub saturated_s: f64,
    /// The load at which latency is compared.
    pub equal_per_s: f64,
    pub equal_s: f64,
}

/// One block: what one side did in its turn.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "see CompareSummary")]
pub struct BlockSummary {
    pub number: u32,
    pub round: u32,
    pub arm: Arm,
    /// Since the comparison began.
    pub start_s: f64,
    pub seconds: f64,
    pub goodput_per_s: Option<f64>,
    pub throughput_per_s: Option<f64>,
    pub p50_ms: Option<f64>,
    pub p99_ms: Option<f64>,
    pub server_cpu_us: Option<f64>,
    pub client_cpu_us: Option<f64>,
    /// CPU time of the yardstick's piece of work on the CPUs of the server, where it ran there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yardstick_us: Option<f64>,
    /// Of the time in which threads of the server were ready to run, that in which they did not; 0
    /// to 1.
    pub sut_waited: Option<f64>,
    /// CPU of the server's busiest thread, 0 to 1, where it could be seen.
    pub sut_busiest_thread: Option<f64>,
    pub generator_busiest_thread: f64,
    pub invalid: Option<String>,
}

impl BlockSummary {
    /// The figure of one side in a round: that of its block, or the geometric mean of its blocks, of which a duet
    /// has two. `None` where one of them has none.
    pub fn figure_of_round(
        blocks: &[Self],
        round: u32,
        arm: Arm,
        figure: impl Fn(&Self) -> Option<f64>,
    ) -> Option<f64> {
        let own = blocks.iter().filter(|block| block.round == round && block.arm == arm);
        let figures: Vec<f64> = own.map(figure).collect::<Option<_>>()?;
        match &figures[..] {
            [] => None,
            [one] => Some(*one),
            more => {
                let logarithms: f64 = more.iter().map(|figure| figure.ln()).sum();
                Some((logarithms / more.len() as f64).exp())
            }
        }
    }
}

/// A block that begins: the loads until the next one are its.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockStart {
    /// From 1.
    pub number: u32,
    /// The round it belongs to, from 1; 0 before the rounds, while loads are chosen.
    pub round: u32,
    /// Whose turn it is.
    pub arm: Arm,
}
