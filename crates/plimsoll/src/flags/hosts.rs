//! `--hosts` and `--slurm`: other machines that make the load. What was typed, not what it means.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use plimsoll_model::Nanos;

use super::values::positive_duration;

/// The machines that make the load.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Hosts")]
pub(crate) struct LoadHostFlags {
    /// Make the load on these hosts, over ssh: client[01-20], user@host:port, or @FILE
    ///
    /// The file has one item a line, with threads=N if wanted. Each host sends its share of one load.
    #[arg(long, value_name = "LIST|@FILE", group = "named_hosts")]
    pub(crate) hosts: Option<String>,

    /// Make the load on the nodes of this Slurm allocation, by srun
    #[arg(long, group = "named_hosts")]
    pub(crate) slurm: bool,

    /// Reach each host by this command instead of ssh; %h is the host, %u its user, %n its number
    #[arg(long, value_name = "COMMAND", requires = "hosts", conflicts_with = "slurm")]
    pub(crate) launch: Option<String>,

    /// Option for ssh, such as ProxyJump=gateway; repeatable
    #[arg(long, value_name = "NAME=VALUE", requires = "hosts", conflicts_with_all = ["launch", "slurm"])]
    pub(crate) ssh_option: Vec<String>,

    /// Path of plimsoll on the hosts [default: the same build if installed, else a copy in the user's cache]
    #[arg(long, value_name = "PATH", requires = "named_hosts")]
    pub(crate) remote_path: Option<String>,

    /// Make the load by N agents that somebody else starts, and that connect to --listen
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    #[arg(conflicts_with = "named_hosts", requires_all = ["listen", "keys"])]
    pub(crate) agents: Option<u32>,

    /// Address that the agents connect to; each needs a certificate of this run
    #[arg(long, value_name = "ADDRESS:PORT", requires = "agents")]
    pub(crate) listen: Option<SocketAddr>,

    /// The coordinator's keys: the folder `coordinator` that `plimsoll agent --write-keys` writes
    #[arg(long, value_name = "DIR", requires = "agents")]
    pub(crate) keys: Option<PathBuf>,

    /// Time for the agents to connect [default: 5m]
    #[arg(long, value_name = "DURATION", requires = "agents", value_parser = positive_duration)]
    pub(crate) agents_within: Option<Nanos>,

    /// When a process that makes load is lost: stop, or continue with the others
    /// [default: continue]
    #[arg(long, value_name = "WHAT", hide_possible_values = true)]
    pub(crate) on_agent_loss: Option<AgentLossFlag>,
}

/// The machines of a laboratory, where it is not this host alone.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Hosts")]
pub(crate) struct LabHostFlags {
    /// Start the server under test on this host, over ssh: user@host:port; the program must be installed there
    #[arg(long, value_name = "HOST")]
    pub(crate) sut_host: Option<String>,

    /// Address at which clients and backends reach the server [default: the address of --sut-host, port 8443]
    #[arg(long, value_name = "ADDRESS[:PORT]", requires = "sut_host", value_parser = sut_address)]
    pub(crate) sut_address: Option<SocketAddr>,

    /// Start the backends on these hosts: b[1-2] [default: the server's host]
    #[arg(long, value_name = "LIST", requires = "sut_host")]
    pub(crate) backends_on: Option<String>,

    /// Make the load on these hosts: client[1-4], or @FILE as for --hosts [default: this host]
    #[arg(long, value_name = "LIST|@FILE", requires = "sut_host")]
    pub(crate) clients: Option<String>,

    /// Reach each host by this command instead of ssh; %h is the host, %u its user, %n its number
    #[arg(long, value_name = "COMMAND", requires = "sut_host")]
    pub(crate) launch: Option<String>,

    /// Option for ssh, such as ProxyJump=gateway; repeatable
    #[arg(long, value_name = "NAME=VALUE", requires = "sut_host", conflicts_with = "launch")]
    pub(crate) ssh_option: Vec<String>,

    /// Path of plimsoll on the hosts [default: the same build if installed, else a copy in the user's cache]
    #[arg(long, value_name = "PATH", requires = "sut_host")]
    pub(crate) remote_path: Option<String>,
}

impl LabHostFlags {
    /// Returns the flags of the clients in the form that other loads use.
    pub(crate) fn of_clients(&self) -> LoadHostFlags {
        LoadHostFlags {
            hosts: self.clients.clone(),
            launch: self.launch.clone().filter(|_| self.clients.is_some()),
            ssh_option: self.ssh_option.clone(),
            remote_path: self.remote_path.clone(),
            ..LoadHostFlags::default()
        }
    }
}

/// The port of a server under test on another host.
pub(crate) const SUT_PORT: u16 = 8443;

fn sut_address(text: &str) -> Result<SocketAddr, String> {
    let ip = text.parse::<IpAddr>().map(|ip| SocketAddr::new(ip, SUT_PORT));
    ip.or_else(|_| text.parse()).map_err(|_| "expected an address such as 10.0.0.5:8443".to_owned())
}

/// The effect of the loss of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum AgentLossFlag {
    /// Ends the load.
    Stop,
    /// Leaves the rest of the load to the others.
    Continue,
}
