//! `plimsoll hold` and `plimsoll lab hold`: many connections at once. What was typed, not what it
//! means.

use clap::Args;
use plimsoll_model::cycles::GrowthLimit;
use plimsoll_model::units::parse_duration;
use plimsoll_model::{Nanos, Rate};

use super::shared::{ClientFlags, EventFlags, HandshakeFlags, ResumeFlags};
use super::values::{connections, cycles, opening, positive_duration, positive_rate, seed};

pub(super) const EXAMPLES: &str = "\
Examples:
  plimsoll hold https://127.0.0.1:8443/ -k --connections 10k
  plimsoll hold https://proxy.example/ -c 200k --rate 1k --for 10m
  plimsoll hold https://127.0.0.1:8443/ -k -c 2M --rate 4k --up-to
  plimsoll hold https://127.0.0.1:8443/ -k -c 20k --cycles 20 --watch pid:1234

Exit codes: 0 all connections were held to the end and answered, 1 could not run (for example: this
host cannot hold that many), 2 bad usage, 98 invalid (this host was the limit), 99 connections were
refused, lost or did not answer, 130 interrupted";

/// Examples below the help of `lab hold`.
pub(super) const LAB_EXAMPLES: &str = "\
Examples:
  plimsoll lab hold
  plimsoll lab hold --sut haproxy --connections 100k --rate 1k
  plimsoll lab hold --sut embedded --connections 1M --rate 4k --up-to
  plimsoll lab hold --sut haproxy --cycles 20 --fail-if 'growth>1MB'

Exit codes: 0 all connections were held to the end and answered, 1 could not run (for example: this
host cannot hold that many), 2 bad usage, 98 invalid (this host was the limit), 99 connections were
refused, lost or did not answer, 130 interrupted";

/// Flags of opening and holding connections, wherever the server is.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Hold")]
pub(crate) struct HoldFlags {
    /// Connections to hold [default: 10k for lab hold]
    #[arg(short = 'c', long, value_name = "N", value_parser = connections)]
    pub(crate) connections: Option<u64>,

    /// Time to hold once all are open [default: 60s; 5s for lab hold]
    #[arg(long = "for", value_name = "DURATION", value_parser = parse_duration)]
    pub(crate) span: Option<Nanos>,

    /// New connections per second
    ///
    /// With TLS, the CPU time of the handshakes at both ends is the limit.
    #[arg(short = 'r', long, value_name = "RATE", default_value = "2k")]
    #[arg(value_parser = positive_rate)]
    pub(crate) rate: Rate,

    /// Period in which each connection sends one request; 0 sends none
    ///
    /// The requests of all connections are evenly spread over it.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) heartbeat: Nanos,

    /// Most connections being opened at once
    #[arg(long, value_name = "N", default_value = "512", value_parser = opening)]
    pub(crate) opening: u32,

    /// Fill and drain N times: does the server keep more memory each time?
    ///
    /// Needs the server's processes: those of a laboratory, or --watch pid:PID.
    #[arg(long, value_name = "N", value_parser = cycles, conflicts_with_all = ["replace", "event"])]
    pub(crate) cycles: Option<u32>,

    /// Exit with 99 if the server's memory grows by more per cycle: 'growth>1MB'
    #[arg(long, value_name = "EXPR", requires = "cycles")]
    pub(crate) fail_if: Option<GrowthLimit>,

    /// Open a new connection for each one that was lost or refused
    #[arg(long)]
    pub(crate) replace: bool,

    /// Hold as many as fit, if this host, or those of --hosts, cannot hold them all
    #[arg(long)]
    pub(crate) up_to: bool,

    /// Answers after this are late, and still waited for
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = positive_duration)]
    pub(crate) deadline: Nanos,

    /// Time to wait after the deadline before a connection counts as lost
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) linger: Nanos,

    /// Random seed
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: u64,

    #[command(flatten)]
    pub(crate) events: EventFlags,

    #[command(flatten)]
    pub(crate) client: ClientFlags,

    #[command(flatten)]
    pub(crate) handshake: HandshakeFlags,

    #[command(flatten)]
    pub(crate) resume: ResumeFlags,
}
