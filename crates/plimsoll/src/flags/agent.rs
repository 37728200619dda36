//! `plimsoll agent`: what a coordinator, or the script that it sends to another host, types.

use std::time::Duration;

use clap::Args;

/// `plimsoll agent`.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub(crate) struct AgentFlags {
    /// Print which build this is, and end
    #[arg(long)]
    pub(crate) identity: bool,

    /// Write a line with this before the first frame
    #[arg(long, value_name = "TEXT")]
    pub(crate) nonce: Option<String>,

    /// End after so many seconds without a message
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) lease: Option<Duration>,
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds @ 1..=3_600) => Ok(Duration::from_secs(seconds)),
        _ => Err("a number of seconds from 1 to 3600 is needed".to_owned()),
    }
}
