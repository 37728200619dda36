//! Comparison of two configurations: the figures, the blocks and rounds that were measured, and the result.
//!
//! Servers ([`Arm`]s) take turns in rounds; each turn is a block ([`BlockSummary`]). A round yields one ratio B/A of
//! the [`Metric`], and the rounds yield a [`Difference`] with an interval and the noise of the figure;
//! `plimsoll-capacity` computes it. Noise, thresholds and differences are relative. [`CompareSummary`] is the block
//! `compare` of the summary's JSON. Start reading at [`CompareSummary`], then at [`BlockSummary::figure_of_round`].

use serde::{Deserialize, Serialize};

/// One of the servers that take turns: a letter, from A on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "char", try_from = "char")]
pub struct Arm(u8);

impl Arm {
    /// The server that the others are compared with.
    pub const A: Self = Self(0);
    /// The server that is compared, of two.
    pub const B: Self = Self(1);
    /// Both arms of a comparison of two servers, in the order of their figures.
    pub const BOTH: [Self; 2] = [Self::A, Self::B];

    /// Returns the arm at `place`, from 0.
    pub const fn at(place: usize) -> Self {
        Self(place as u8)
    }

    /// Returns the place, from 0.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the letter `A`, `B`, ….
    pub fn name(self) -> char {
        char::from(b'A'.saturating_add(self.0))
    }

    /// Returns the other arm of a comparison of [`Self::A`] and [`Self::B`]; `self` must be one of them.
    pub const fn other(self) -> Self {
        Self(1 - self.0)
    }
}

impl From<Arm> for char {
    fn from(arm: Arm) -> Self {
        arm.name().to_ascii_lowercase()
    }
}

impl TryFrom<char> for Arm {
    type Error = &'static str;

    fn try_from(letter: char) -> Result<Self, Self::Error> {
        match letter {
            'a'..='z' => Ok(Self(letter as u8 - b'a')),
            _ => Err("not a letter from a to z"),
        }
    }
}

named! {
    /// The figure that is compared.
    pub enum Metric {
        /// Good answers per second while the server is saturated.
        Goodput = "goodput",
        /// Median of the corrected latency at the same load, ms.
        P50 = "p50",
        /// 99th percentile of the corrected latency at the same load, ms.
        P99 = "p99",
        /// Good answers per second.
        Throughput = "throughput",
        /// CPU time of the server per good answer, us.
        ServerCpu = "server-cpu",
        /// CPU time of the generator per operation that was sent, us.
        ClientCpu = "client-cpu",
    }
}

impl Metric {
    /// Returns the common name.
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

    /// Reports whether more of it is better.
    pub const fn more_is_better(self) -> bool {
        matches!(self, Self::Goodput | Self::Throughput)
    }
}

/// The direction of a difference; B is relative to A.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// B's figure is higher.
    Higher,
    /// B's figure is lower.
    Lower,
    /// No difference was observed.
    NoDifference,
}

/// The difference of B's figure from A's over pairs of both, with its interval and the noise of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// The direction, if the interval and the user's threshold allow one.
    pub finding: Finding,
    /// B/A.
    pub ratio: f64,
    /// Lower end of its interval.
    pub ratio_low: f64,
    /// Upper end of its interval.
    pub ratio_high: f64,
    /// B/A as measured, if `ratio` is the one at like speed of the host; otherwise `None`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_observed: Option<f64>,
    /// Share of such intervals that contain the truth, from the rank of their ends.
    pub confidence: f64,
    /// Probability of pairs at least as one-sided if A and B are the same.
    pub p: f64,
    /// The interval contains no difference larger than this, relative, in either direction.
    pub difference_max: f64,
    /// The variation of the figure by itself.
    pub noise: NoiseSummary,
    /// Median of A's figures.
    pub a: f64,
    /// Median of B's figures.
    pub b: f64,
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
    /// `None`: too few rounds can be used for any statement.
    pub difference: Option<Difference>,
    /// Relative differences up to this are of no interest to the user.
    pub threshold: f64,
    pub rounds_planned: u32,
    pub rounds_used: u32,
    pub rounds_invalid: u32,
    pub rounds: Vec<RoundSummary>,
    /// Other figures of the same rounds.
    pub others: Vec<OtherSummary>,
    /// The load of the blocks; `None` if the loads are the user's.
    pub load: Option<BlockLoad>,
    pub blocks: Vec<BlockSummary>,
    /// Both were loaded at the same time, each on one half of the CPUs.
    pub duet: bool,
    /// Why fewer rounds were made than planned.
    pub stopped: Option<String>,
}

/// The variation of a figure by itself; all relative.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct NoiseSummary {
    /// Relative standard deviation of one side from pair to pair, without drift.
    pub cv: f64,
    /// Half of the interval: as wide as in a comparison of A with itself.
    pub half_width: f64,
    /// Half of the interval that A has against itself, from its figures in neighbouring rounds.
    pub floor: Option<f64>,
    /// The smallest difference that a comparison with this noise sees four times in five.
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
    /// The arm that was measured first.
    pub first: Arm,
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
    pub difference: Difference,
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
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// CPU time of the yardstick's piece of work on the CPUs of the server, if it ran there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yardstick_us: Option<f64>,
    /// Share of the time in which threads of the server were ready to run but did not run; 0
    /// to 1.
    pub sut_waited: Option<f64>,
    /// CPU of the server's busiest thread, 0 to 1, if it was read.
    pub sut_busiest_thread: Option<f64>,
    pub generator_busiest_thread: f64,
    pub invalid: Option<String>,
}

impl BlockSummary {
    /// Returns the figure of one arm in a round: its block's figure, or the geometric mean of its blocks, of which a
    /// duet has two. `None` if a block has no figure.
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
    /// The arm whose turn it is.
    pub arm: Arm,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_arm_is_a_letter() {
        assert_eq!(
            serde_json::to_string(&[Arm::A, Arm::B, Arm::at(15)]).unwrap(),
            r#"["a","b","p"]"#
        );
        assert_eq!((Arm::at(2).name(), Arm::B.other()), ('C', Arm::A));
        let arm = |text: &str| serde_json::from_str::<Arm>(text).ok();
        assert_eq!(
            (arm(r#""c""#), arm(r#""C""#), arm(r#""ab""#), arm("0")),
            (Some(Arm::at(2)), None, None, None)
        );
    }
}
