//! `plimsoll doctor`. What was typed, not what it means.

use clap::{Args, ValueEnum};
use plimsoll_model::Rate;

use super::values::{OutputFile, connections, output_file, positive_rate, process_id};

const DOCTOR_EXAMPLES: &str = "\
Changes nothing. Limits that would stop the connections come first, with the command that raises
each now and the line that keeps it over a reboot.

Examples:
  plimsoll doctor --connections 1M
  plimsoll doctor --connections 200k --rate 1k --role proxy --destinations 8
  plimsoll doctor --connections 50k --role proxy --pid $(pidof haproxy) --json -

Exit codes: 0 this host can hold them, 1 a limit would stop some, 2 bad usage";

/// The role of this host for the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum RoleFlag {
    /// It opens them: load generators.
    Client,
    /// It accepts them and opens one to a backend for each.
    Proxy,
    /// It accepts them.
    Backend,
}

/// The number of connections, and the role of this host.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct GoalFlags {
    /// Connections of the clients, held at once
    #[arg(short = 'c', long, value_name = "N", required = true, value_parser = connections)]
    pub(crate) connections: u64,

    /// New connections per second besides, each closed again [default: none]
    #[arg(long, value_name = "RATE", value_parser = positive_rate)]
    pub(crate) rate: Option<Rate>,

    /// Role of this host: client, proxy or backend; repeatable, for several on one host
    #[arg(long, value_name = "ROLE", default_value = "client", hide_possible_values = true)]
    pub(crate) role: Vec<RoleFlag>,

    /// Addresses and ports that this host connects to: of the server, or of a proxy's backends
    #[arg(long, value_name = "N", default_value = "1", value_parser = connections)]
    pub(crate) destinations: u64,

    /// Addresses that this host connects from
    #[arg(long, value_name = "N", default_value = "1", value_parser = connections)]
    pub(crate) sources: u64,

    /// Compare with the limits of this running process (open files, control group, threads of its
    /// user) instead of plimsoll's own
    #[arg(long, value_name = "N", value_parser = process_id)]
    pub(crate) pid: Option<u32>,
}

/// `plimsoll doctor`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = DOCTOR_EXAMPLES)]
pub(crate) struct DoctorFlags {
    #[command(flatten)]
    pub(crate) goal: GoalFlags,

    /// Write the result as one JSON object (plimsoll.doctor/1); - writes to standard output
    #[arg(long, value_name = "FILE|-", value_parser = output_file)]
    pub(crate) json: Option<OutputFile>,
}
