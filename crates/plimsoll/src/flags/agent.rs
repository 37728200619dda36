//! `plimsoll agent`: what an operator types on a machine that no ssh reaches, and (hidden flags) what a coordinator, or
//! the script that it sends to another host, types.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

const EXAMPLES: &str = "\
A coordinator starts agents by itself: on this host, over ssh (--hosts), by Slurm or in pods. Where it cannot, write keys,
copy the folder of each end, start the agents, and let the coordinator listen.

Examples:
  plimsoll agent --write-keys keys --count 2
  plimsoll agent --join coordinator:7000 --keys keys/agent-0 --index 0
  plimsoll load URL --agents 2 --listen 0.0.0.0:7000 --keys keys/coordinator

Exit codes: 0 done, 1 could not run, 2 bad usage";

/// `plimsoll agent`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AgentFlags {
    /// Print which build this is, and end
    #[arg(long, hide = true)]
    pub(crate) identity: bool,

    /// Start and end other programs for the parent process, over stdin and stdout
    #[arg(long, hide = true, conflicts_with_all = ["nonce", "lease", "join", "write_keys"])]
    pub(crate) supervise: bool,

    /// Write a line with this before the first frame
    #[arg(long, hide = true, value_name = "TEXT")]
    pub(crate) nonce: Option<String>,

    /// End after this many seconds without a message
    #[arg(long, hide = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) lease: Option<Duration>,

    /// Connect to this coordinator [default: speak over standard input and output]
    #[arg(long, value_name = "HOST:PORT", requires = "keys", requires = "index")]
    pub(crate) join: Option<String>,

    /// This agent's keys: the folder that --write-keys made for it
    #[arg(long, value_name = "DIR", requires = "join")]
    pub(crate) keys: Option<PathBuf>,

    /// Number of this agent, from 0, as in its certificate
    #[arg(long, value_name = "N", requires = "join")]
    pub(crate) index: Option<u32>,

    /// Time to wait for the coordinator
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    pub(crate) join_within: Duration,

    /// Write keys for a run into this new folder, one folder for each end, and exit
    #[arg(long, value_name = "DIR", requires = "count", conflicts_with = "join")]
    pub(crate) write_keys: Option<PathBuf>,

    /// Number of agents that --write-keys is for
    #[arg(long, value_name = "N", requires = "write_keys")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) count: Option<u32>,

    /// Time for which keys are valid from now on, after an hour before
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub(crate) valid_for: u32,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=3_600) => Ok(Duration::from_secs(seconds)),
        _ => Err("a number of seconds from 1 to 3600 is needed".to_owned()),
    }
}
