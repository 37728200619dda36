//! Flags of scripts over raw TCP and TLS.

use clap::Args;
use plimsoll_model::units::parse_size;

use super::values::{InputFile, input_file};

/// Flags of a tcp:// or tls:// URL.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Raw TCP and TLS")]
pub(crate) struct ScriptFlags {
    /// Script of what each connection sends and expects (docs/how-to/scripts.md); - reads standard input
    #[arg(long, value_name = "FILE|-", value_parser = input_file, conflicts_with = "echo")]
    pub(crate) script: Option<InputFile>,

    /// Send messages of this size, and expect the same bytes back
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub(crate) echo: Option<u64>,
}

impl ScriptFlags {
    /// Returns the first flag that was given, if any was.
    pub(crate) fn first_given(&self) -> Option<&'static str> {
        self.script.as_ref().map(|_| "--script").or_else(|| self.echo.map(|_| "--echo"))
    }
}
