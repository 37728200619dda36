//! `--hosts` and `--slurm`: other machines that make the load. What was typed, not what it means.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plimsoll_model::Nanos;

use super::values::positive_duration;

/// The machines that make the load.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Hosts")]
pub(crate) struct LoadHostFlags {
    /// Make the load on these hosts, over ssh: client[01-20], user@host:port, or @FILE with one item and
    /// threads=N a line; each sends its share, as one load
    #[arg(long, value_name = "LIST|@FILE", group = "named_hosts")]
    pub(crate) hosts: Option<String>,

    /// Make the load on the nodes of the Slurm allocation that this runs in, by srun
    #[arg(long, group = "named_hosts")]
    pub(crate) slurm: bool,

    /// Reach each host by this command instead of ssh; %h is the host, %u its user, %n its number
    #[arg(long, value_name = "COMMAND", requires = "hosts", conflicts_with = "slurm")]
    pub(crate) launch: Option<String>,

    /// Option for ssh, such as ProxyJump=gateway; repeatable
    #[arg(long, value_name = "NAME=VALUE", requires = "hosts", conflicts_with_all = ["launch", "slurm"])]
    pub(crate) ssh_option: Vec<String>,

    /// plimsoll on the hosts [default: the same build where it is there, else a copy in the user's cache]
    #[arg(long, value_name = "PATH", requires = "named_hosts")]
    pub(crate) remote_path: Option<String>,

    /// Make the load by so many agents that somebody else starts, and that connect to --listen
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    #[arg(conflicts_with = "named_hosts", requires_all = ["listen", "keys"])]
    pub(crate) agents: Option<u32>,

    /// Where they connect to; an agent needs a certificate of this run
    #[arg(long, value_name = "ADDRESS:PORT", requires = "agents")]
    pub(crate) listen: Option<SocketAddr>,

    /// The run's keys, a folder that `plimsoll agent --write-keys` makes
    #[arg(long, value_name = "DIR", requires = "agents")]
    pub(crate) keys: Option<PathBuf>,

    /// How long they may take to connect [default: 5m]
    #[arg(long, value_name = "DURATION", requires = "agents", value_parser = positive_duration)]
    pub(crate) agents_within: Option<Nanos>,

    /// When a process that makes load is lost: stop, or continue with the others
    /// [default: continue]
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    pub(crate) on_agent_loss: Option<AgentLossFlag>,
}

/// What the loss of an agent does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentLossFlag {
    /// Ends the load.
    Stop,
    /// Leaves the rest of the load to the others.
    Continue,
}
