//! `plimsoll agent`: what a coordinator, or the script that it sends to another host, types.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

/// `plimsoll agent`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct AgentFlags {
    /// Print which build this is, and end
    #[arg(long)]
    pub(crate) identity: bool,

    /// Start and end other programs for the parent process, over stdin and stdout
    #[arg(long, conflicts_with_all = ["nonce", "lease", "join", "write_keys"])]
    pub(crate) supervise: bool,

    /// Write a line with this before the first frame
    #[arg(long, value_name = "TEXT")]
    pub(crate) nonce: Option<String>,

    /// End after so many seconds without a message
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) lease: Option<Duration>,

    /// Connect to the coordinator there, instead of speaking over stdin and stdout
    #[arg(long, value_name = "HOST:PORT", requires = "keys", requires = "index")]
    pub(crate) join: Option<String>,

    /// Its keys: a folder that has no other end's
    #[arg(long, value_name = "DIR", requires = "join")]
    pub(crate) keys: Option<PathBuf>,

    /// Which agent it is, from 0: the certificate that it shows
    #[arg(long, value_name = "N", requires = "join")]
    pub(crate) index: Option<u32>,

    /// How long the coordinator may take to be there
    #[arg(long, value_name = "SECONDS", value_parser = seconds, default_value = "300")]
    pub(crate) join_within: Duration,

    /// Make keys for a run, write them into a new folder, which has one for each end, and end
    #[arg(long, value_name = "DIR", requires = "count", conflicts_with = "join")]
    pub(crate) write_keys: Option<PathBuf>,

    /// For so many agents
    #[arg(long, value_name = "N", requires = "write_keys")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub(crate) count: Option<u32>,

    /// From an hour before now until so many seconds after
    #[arg(long, value_name = "SECONDS", default_value_t = 86_400)]
    pub(crate) valid_for: u32,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=3_600) => Ok(Duration::from_secs(seconds)),
        _ => Err("a number of seconds from 1 to 3600 is needed".to_owned()),
    }
}
