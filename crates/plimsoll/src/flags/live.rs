//! `--live`: the page of a run that goes on. What was typed, not what it means.

use clap::Args;

use super::values::{ListenAt, listen_at};

/// The page of a run that goes on.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Output")]
pub(crate) struct LiveFlags {
    /// Show the growing report in browsers, at an address that is printed [default: a free port of 127.0.0.1]
    ///
    /// At another address than the loopback its path contains a token.
    #[arg(long, value_name = "ADDR:PORT", value_parser = listen_at, num_args = 0..=1)]
    #[arg(require_equals = true, default_missing_value = "0")]
    pub(crate) live: Option<ListenAt>,
}
