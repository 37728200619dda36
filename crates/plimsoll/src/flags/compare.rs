//! `plimsoll compare`: two configurations, and which is better. What was typed, not what it means.

use clap::Args;
use plimsoll_model::Nanos;
use plimsoll_model::compare::Metric;

use super::shared::OutputFlags;
use super::values::{metric, positive_duration, ratio, rounds, seed};

const EXAMPLES: &str = "\
Both servers run all the time. Two labs are loaded at the same time if there are two CPUs or more (a duet): each has
one half of the CPUs, and they swap the halves within each round, so that a disturbance of the host affects both. All
others take turns of a few seconds: A B B A or B A A B. URLs, lab and find send one load below saturation, the same for
both, and one that saturates the server. Goodput at saturation decides, or the server's CPU time per answer if it shows
the difference more clearly (lab, or --watch pid:N). Servers of lab are started afresh before each round.

Examples:
  plimsoll compare 'lab --sut haproxy' 'lab --sut nginx'
  plimsoll compare http://127.0.0.1:8080/ http://127.0.0.1:8081/
  plimsoll compare 'find handshakes https://a/' 'find handshakes https://b/'
  plimsoll compare --metric p50 http://a/ http://b/ -- --rate 2k --duration 10s
  plimsoll compare 'load http://a/ --rate 0' 'load http://b/ --rate 0'

Exit codes: 0 compared, 1 could not run, 2 bad usage, 97 undecided (the budget ended too early), 98 invalid (this host
invalidated too many rounds), 130 interrupted";

/// `plimsoll compare`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES, next_help_heading = "Comparison")]
pub(crate) struct CompareFlags {
    /// Baseline: a URL, or a quoted command (lab, find, load) with its flags
    #[arg(value_name = "A", help_heading = None::<&str>)]
    pub(crate) a: Option<String>,

    /// Candidate: another URL, or the same command with other flags
    #[arg(value_name = "B", help_heading = None::<&str>)]
    pub(crate) b: Option<String>,

    /// Flags for both, after --
    #[arg(last = true, value_name = "FLAGS", help_heading = None::<&str>)]
    pub(crate) both: Vec<String>,

    /// Figure that decides: goodput, server-cpu, p50, p99, throughput or client-cpu
    ///
    /// goodput is measured at saturation, server-cpu per answer, p50 and p99 at the same load [default: goodput and
    /// server-cpu, whichever shows more; for load p99, in a closed loop throughput]
    #[arg(long, value_name = "METRIC", value_parser = metric)]
    pub(crate) metric: Option<Metric>,

    /// Most rounds, 8 to 200; each measures both once [default: 24, or what fills --budget; load 12]
    #[arg(long, value_name = "N", value_parser = rounds)]
    pub(crate) rounds: Option<u32>,

    /// Time for the whole comparison [default: 5m; load: none]
    ///
    /// No round starts that would end after it.
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) budget: Option<Nanos>,

    /// Load labs in turn, each with all CPUs, instead of at the same time, each in one half of them
    #[arg(long)]
    pub(crate) in_turn: bool,

    /// Ignore differences up to this, such as 2%
    #[arg(long, value_name = "RATIO", default_value = "0", value_parser = ratio)]
    pub(crate) threshold: f64,

    /// Random seed of the order, and of the arrivals unless A or B sets its own
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}
