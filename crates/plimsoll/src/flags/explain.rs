//! `plimsoll explain`. What was typed, not what it means.

use clap::Args;

const EXAMPLES: &str = "\
Examples:
  plimsoll explain 98
  plimsoll explain send-lag
  plimsoll explain safe-load
  plimsoll explain server-cpu
  plimsoll explain --list

Exit codes: 0 explained, 2 unknown id";

/// `plimsoll explain`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(after_help = EXAMPLES)]
pub(crate) struct ExplainFlags {
    /// An exit code, or the name of a check, outcome, cause, error class, reason or word, as reports and JSON write it
    #[arg(value_name = "ID", required_unless_present = "list")]
    pub(crate) id: Vec<String>,

    /// List every id with one sentence
    #[arg(long, conflicts_with = "id")]
    pub(crate) list: bool,
}
