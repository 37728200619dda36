//! `plimsoll hold` and `plimsoll lab hold`: many connections at once. What was typed, not what it
//! means.

use clap::Args;
use plimsoll_model::units::parse_duration;
use plimsoll_model::{Nanos, Rate};

use super::search::HostFlags;
use super::shared::{ClientFlags, ConnectionFlags, HandshakeFlags, OutputFlags};
use super::values::{header, opening, positive_duration, positive_rate, seed};

const EXAMPLES: &str = "\
Examples:
  plimsoll hold https://127.0.0.1:8443/ -k --connections 10k
  plimsoll hold https://proxy.example/ --connections 200k --rate 1k --for 10m --heartbeat 30s
  plimsoll hold https://127.0.0.1:8443/ -k --connections 2M --rate 4k --up-to --json hold.json

Exit codes: 0 all were held to the end and answered, 1 could not run (such as: this machine does not
take so many), 2 bad usage, 98 invalid (this machine was the limit), 99 connections were refused,
lost or silent, 130 interrupted";

const LAB_EXAMPLES: &str = "\
Examples:
  plimsoll lab hold
  plimsoll lab hold --sut haproxy --connections 100k --rate 1k
  plimsoll lab hold --sut embedded --connections 1M --rate 4k --up-to --json lab.json

Exit codes: 0 all were held to the end and answered, 1 could not run (such as: this machine does not
take so many), 2 bad usage, 98 invalid (this machine was the limit), 99 connections were refused,
lost or silent, 130 interrupted";

/// `plimsoll hold`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct HoldFlags {
    /// What to connect to, such as https://127.0.0.1:8443/path; or use --targets
    #[arg(value_name = "URL")]
    pub(crate) url: Option<String>,

    /// How long to hold once all are open
    #[arg(
        long = "for",
        value_name = "DURATION",
        default_value = "60s",
        value_parser = parse_duration,
        help_heading = "Hold"
    )]
    pub(crate) span: Nanos,

    #[command(flatten)]
    pub(crate) pace: HoldPaceFlags,

    #[command(flatten)]
    pub(crate) client: ClientFlags,
}

/// How connections are opened, and what they do while they are held.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Hold")]
pub(crate) struct HoldPaceFlags {
    /// New connections per second; what a handshake costs, 0.2 ms and more at each end, is the
    /// limit
    #[arg(
        short = 'r',
        long,
        value_name = "RATE",
        default_value = "2k",
        value_parser = positive_rate
    )]
    pub(crate) rate: Rate,

    /// One request per connection in every such time, spread evenly; 0 is silence
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) heartbeat: Nanos,

    /// Connections in the middle of being opened, at most
    #[arg(long, value_name = "N", default_value = "512", value_parser = opening)]
    pub(crate) opening: u32,

    /// Open another connection for each one that was lost or refused
    #[arg(long)]
    pub(crate) replace: bool,

    /// Hold as many as this machine takes, if it does not take all
    #[arg(long)]
    pub(crate) up_to: bool,

    /// An answer after this is late, and still waited for
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = positive_duration)]
    pub(crate) deadline: Nanos,

    /// How long to wait past the deadline before a connection counts as lost
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = parse_duration)]
    pub(crate) linger: Nanos,

    /// Seed of all that is random
    #[arg(long, value_name = "N", default_value = "1", value_parser = seed)]
    pub(crate) seed: u64,
}

/// `plimsoll lab hold`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = LAB_EXAMPLES, allow_negative_numbers = true)]
pub(crate) struct LabHoldFlags {
    #[command(flatten)]
    pub(crate) hosts: HostFlags,

    /// How long to hold at the top
    #[arg(
        long = "for",
        value_name = "DURATION",
        default_value = "5s",
        value_parser = parse_duration,
        help_heading = "Hold"
    )]
    pub(crate) span: Nanos,

    #[command(flatten)]
    pub(crate) pace: HoldPaceFlags,

    /// Header of each request, such as 'sleep: 20'; repeatable
    #[arg(
        short = 'H',
        long = "header",
        value_name = "NAME: VALUE",
        value_parser = header,
        help_heading = "Request"
    )]
    pub(crate) headers: Vec<(String, String)>,

    #[command(flatten)]
    pub(crate) connection: ConnectionFlags,

    #[command(flatten)]
    pub(crate) handshake: HandshakeFlags,

    #[command(flatten)]
    pub(crate) output: OutputFlags,
}

/// Flags of a connection pool that make no sense for connections that are held; they are taken, so
/// that the refusal can say why, and not shown.
const POOL_ONLY: [&str; 3] = ["no_keepalive", "requests_per_connection", "handshake_only"];

/// Fits the shared flags of a `hold` command to what they mean there.
pub(super) fn adapt(command: clap::Command, connections_help: &'static str) -> clap::Command {
    let command = command.mut_arg("connections", |arg| arg.help(connections_help));
    POOL_ONLY.iter().fold(command, |command, name| command.mut_arg(name, |arg| arg.hide(true)))
}
