//! `plimsoll load`: one load. What was typed, not what it means.

use clap::Args;
use plimsoll_model::slo::Slo;
use plimsoll_model::units::{parse_duration, parse_rate};
use plimsoll_model::{Nanos, Rate};

use super::shared::{
    ClientFlags, EventFlags, HandshakeFlags, OutputFlags, PoolFlags, RequestFlags, ResumeFlags,
    ServerFlags, ServerWatchFlags,
};
use super::values::{
    ArrivalsFlag, OutputFile, RampTo, output_file, positive_count, positive_duration, seed, stage,
};

const EXAMPLES: &str = "\
Durations: 250ms 10s 5m 1h. Rates: 500 500/s 30/m 2k/s. Counts: 100 20k 2M.

Examples:
  plimsoll load http://127.0.0.1:8080 --rate 1k --duration 30s
  plimsoll load https://localhost:8443/ -k --rate 5k --slo 'p99<50ms'
  plimsoll load http://127.0.0.1:8080 --stages 30s:1k,1m:1k,30s:0
  plimsoll load http://127.0.0.1:8080 --rate 0 --connections 64 --requests 100k
  echo 'GET http://127.0.0.1:8080/' | plimsoll load --targets - --json -

Exit codes: 0 done and SLO met, 1 could not run, 2 bad usage, 98 invalid (the generator was the limit), 99 SLO
missed, 130 interrupted";

/// `plimsoll load`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct LoadFlags {
    #[command(flatten)]
    pub(crate) pace: PaceFlags,

    #[command(flatten)]
    pub(crate) request: RequestFlags,

    #[command(flatten)]
    pub(crate) pool: PoolFlags,

    /// Connect, complete the TLS handshake and close; no request is sent, each handshake is one
    /// operation
    #[arg(long, help_heading = "Connections")]
    pub(crate) handshake_only: bool,

    #[command(flatten)]
    pub(crate) client: ClientFlags,

    #[command(flatten)]
    pub(crate) watch: ServerWatchFlags,

    #[command(flatten)]
    pub(crate) server: ServerFlags,

    #[command(flatten)]
    pub(crate) handshake: HandshakeFlags,

    #[command(flatten)]
    pub(crate) resume: ResumeFlags,

    #[command(flatten)]
    pub(crate) events: EventFlags,

    #[command(flatten)]
    pub(crate) rows: RowFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Rows of single operations.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Output")]
pub(crate) struct RowFlags {
    /// Write single operations in vegeta's format, CSV, or JSON if the file's name ends with .json
    ///
    /// At most 1,000 per second: above that one in N, and N is in the file's name.
    #[arg(long, value_name = "FILE|-", value_parser = output_file)]
    pub(crate) rows: Option<OutputFile>,

    /// Write every operation to --rows
    #[arg(long, requires = "rows")]
    pub(crate) rows_all: bool,
}

/// Flags of the pace: amount, time, and goals.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Load")]
pub(crate) struct PaceFlags {
    /// Requests started per second [default: 50]; 0 is a closed loop
    ///
    /// The rate does not depend on earlier answers (open loop). In a closed loop each connection sends its next request
    /// when the last one was answered.
    #[arg(short = 'r', long, value_name = "RATE", value_parser = parse_rate)]
    pub(crate) rate: Option<Rate>,

    /// Ramp linearly to each rate in turn, from 0 or --rate; 0s:RATE jumps
    #[arg(long, value_name = "DURATION:RATE,...", value_delimiter = ',', value_parser = stage)]
    pub(crate) stages: Vec<RampTo>,

    /// Distribution of start times: poisson (independent users) or uniform (equal gaps)
    /// [default: poisson]
    #[arg(long, value_name = "PROCESS", hide_possible_values = true)]
    pub(crate) arrivals: Option<ArrivalsFlag>,

    /// Time to start requests [default: 10s]
    #[arg(short = 'd', long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) duration: Option<Nanos>,

    /// Requests to start in all; with --duration, whichever ends first
    #[arg(short = 'n', long, value_name = "N", value_parser = positive_count)]
    pub(crate) requests: Option<u64>,

    /// Answers after this are late, and still waited for [default: the strictest latency in --slo]
    #[arg(long, value_name = "DURATION", value_parser = positive_duration)]
    pub(crate) deadline: Option<Nanos>,

    /// Time to wait for a response after the deadline before giving up
    #[arg(long, value_name = "DURATION", default_value = "150s", value_parser = parse_duration)]
    pub(crate) linger: Nanos,

    /// Goals that must all be met, such as 'p99<50ms,errors<0.1%'; else exit code 99
    #[arg(long, value_name = "GOALS")]
    pub(crate) slo: Option<Slo>,

    /// Random seed: the same seed gives the same start times
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: u64,
}
