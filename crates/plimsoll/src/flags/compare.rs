//! `plimsoll compare`: two configurations, and which is better. What was typed, not what it means.

use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_model::compare::Metric;

use super::shared::OutputFlags;
use super::values::{metric, positive_duration, ratio, rounds, seed};

const EXAMPLES: &str = "\
A is first compared with itself, to measure the noise. Then each round measures A and B once, in
random order. Searches skip the timeout probe unless --probe-timeouts is given.

Examples:
  plimsoll compare 'lab --sut haproxy' 'lab --sut nginx'
  plimsoll compare http://127.0.0.1:8080/ http://127.0.0.1:8081/ -- --mode quick
  plimsoll compare 'find handshakes https://a/' 'find handshakes https://b/' --rounds 6
  plimsoll compare --metric p99 http://a/ http://b/ -- --rate 2k --duration 30s
  plimsoll compare 'load http://a/ --rate 0' 'load http://a/ --rate 0 --threads 4' --budget 10m

Exit codes: 0 compared, 1 could not run, 2 bad usage, 98 invalid (the load generator was the limit
in too many rounds), 130 interrupted";

/// `plimsoll compare`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CompareFlags {
    /// Baseline: a URL, or a quoted command (lab, find or load) with its flags
    #[arg(value_name = "A")]
    pub(crate) a: Option<String>,

    /// Candidate: another URL, or the same command with other flags
    #[arg(value_name = "B")]
    pub(crate) b: Option<String>,

    /// Flags for both, after --
    #[arg(last = true, value_name = "FLAGS")]
    pub(crate) both: Vec<String>,

    /// Figure to compare: lower-bound (of the tipping point), p99, throughput or client-cpu
    /// [default: lower-bound for lab and find; for load p99, in a closed loop throughput]
    #[arg(long, value_name = "METRIC", value_parser = metric, help_heading = "Comparison")]
    pub(crate) metric: Option<Metric>,

    /// Number of rounds, 6 to 200; each measures both
    #[arg(
        long,
        value_name = "N",
        default_value = "10",
        value_parser = rounds,
        help_heading = "Comparison"
    )]
    pub(crate) rounds: u32,

    /// Start no round that would end after this time
    #[arg(
        long,
        value_name = "DURATION",
        value_parser = positive_duration,
        help_heading = "Comparison"
    )]
    pub(crate) budget: Option<Nanos>,

    /// Ignore differences up to this, such as 2%
    #[arg(
        long,
        value_name = "RATIO",
        default_value = "0",
        value_parser = ratio,
        help_heading = "Comparison"
    )]
    pub(crate) threshold: f64,

    /// Random seed of the order, and of the arrivals unless A or B sets its own
    #[arg(
        long,
        value_name = "N",
        default_value = "1",
        value_parser = seed,
        help_heading = "Comparison"
    )]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}
