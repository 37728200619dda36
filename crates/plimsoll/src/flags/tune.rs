//! `plimsoll tune`. What was typed, not what it means.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::doctor::GoalFlags;
use super::values::{OutputFile, output_file};

const PLAN_EXAMPLES: &str = "\
Changes nothing.

Example:
  plimsoll tune plan --connections 200k --rate 1k --role proxy --destinations 8";

const APPLY_EXAMPLES: &str = "\
Shows the plan and asks. Each change is written into a journal before it is made, so that
`plimsoll tune revert` can take it back, also after a crash.

Examples:
  plimsoll tune apply --connections 200k --role proxy
  plimsoll tune apply --connections 1M --yes --persist

Exit codes: 0 done, 1 something could not be changed, 2 bad usage";

const REVERT_EXAMPLES: &str = "\
Takes back the newest apply that is not reverted yet. What somebody else has changed since is left
alone and named.

Examples:
  plimsoll tune revert
  plimsoll tune revert --force

Exit codes: 0 everything is as it was, 1 something is not, 2 bad usage";

/// `plimsoll tune`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum TuneCommand {
    /// Show which settings of this host would be changed, and why
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanFlags),
    /// Change the settings of this host, with a way back
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(ApplyFlags),
    /// Restore the settings from before an apply
    #[command(after_help = REVERT_EXAMPLES)]
    Revert(RevertFlags),
}

/// `plimsoll tune plan`.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct PlanFlags {
    #[command(flatten)]
    pub(crate) goal: GoalFlags,

    /// Write the plan as one JSON object (plimsoll.tune/1); - writes to standard output
    #[arg(long, value_name = "FILE|-", value_parser = output_file)]
    pub(crate) json: Option<OutputFile>,
}

/// Where journals are kept.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct JournalFlags {
    /// Directory of the journals
    #[arg(long, value_name = "DIR", default_value = "/var/lib/plimsoll/tune")]
    pub(crate) journal: PathBuf,
}

/// `plimsoll tune apply`.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct ApplyFlags {
    #[command(flatten)]
    pub(crate) goal: GoalFlags,

    /// Keep the settings over a reboot, in /etc/sysctl.d/60-plimsoll.conf
    #[arg(long)]
    pub(crate) persist: bool,

    /// Do not ask
    #[arg(short = 'y', long)]
    pub(crate) yes: bool,

    #[command(flatten)]
    pub(crate) journal: JournalFlags,
}

/// `plimsoll tune revert`.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct RevertFlags {
    /// Restore also what somebody else has changed since
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) journal: JournalFlags,
}
