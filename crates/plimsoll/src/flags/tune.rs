//! The flags of `plimsoll tune`, as typed.
//!
//! [`TuneCommand`] has one variant per subcommand. `plan`, `apply` and `revert` work on settings of this host: the
//! first two share [`GoalFlags`], the last two [`JournalFlags`]. `haproxy` and `nginx` share [`ProxyFlags`], which
//! describe the configuration to write and the measurement of `--try`. `commands::tune` carries out the first three,
//! `plan::tuned_proxy` resolves the other two. Start with [`TuneCommand`].

use std::path::PathBuf;

use clap::{Args, Subcommand};
use plimsoll_model::{Nanos, Rate};

use super::doctor::GoalFlags;
use super::values::{
    OutputFile, connections, host_and_port, memory, output_file, positive_duration, positive_rate,
    threads,
};

/// Examples below the help of `tune`.
pub(super) const EXAMPLES: &str = "\
Examples:
  plimsoll tune plan --connections 200k --role proxy
  plimsoll tune apply --connections 200k --role proxy
  plimsoll tune revert
  plimsoll tune haproxy -c 200k --cert site.pem --backend 192.0.2.11:80";

const PLAN_EXAMPLES: &str = "\
Changes nothing.

Examples:
  plimsoll tune plan --connections 200k --rate 1k --role proxy --destinations 8

Exit codes: 0 shown, 1 could not run, 2 bad usage";

const APPLY_EXAMPLES: &str = "\
Shows the plan and asks. Each change is written into a journal before it is made, so that `plimsoll tune revert` can undo
it, also after a crash. A setting that somebody else changes after the plan was made is left alone and named.

Examples:
  plimsoll tune apply --connections 200k --role proxy
  plimsoll tune apply --connections 1M --yes --persist

Exit codes: 0 done, 1 something could not be changed, 2 bad usage";

const REVERT_EXAMPLES: &str = "\
Undoes the newest apply that is not reverted yet. A setting that somebody else has changed since is left alone and named.
A journal that another user can have written is refused.

Examples:
  plimsoll tune revert
  plimsoll tune revert --force

Exit codes: 0 everything is as it was, 1 something is not, 2 bad usage";

const HAPROXY_EXAMPLES: &str = "\
Writes a complete configuration for the installed HAProxy (2.4 and later), which `haproxy -c` has
accepted: each setting with its reason and its source, and the memory that it will need. Nothing is
changed or restarted.

Examples:
  plimsoll tune haproxy -c 200k --rate 2k --cert site.pem --backend a:80
  plimsoll tune haproxy -c 50k --cert site.pem --backend a:80 --try

Exit codes: 0 written, 1 it could not be, 2 bad usage";

const NGINX_EXAMPLES: &str = "\
Writes a complete configuration for the installed nginx (1.18 and later), which `nginx -t` has
accepted: each setting with its reason and its source, and the memory that it will need. Nothing is
changed or restarted.

Examples:
  plimsoll tune nginx -c 200k --rate 2k --cert site.pem --backend a:80
  plimsoll tune nginx -c 50k --cert site.pem --backend a:80 --out nginx.conf

Exit codes: 0 written, 1 it could not be, 2 bad usage";

/// `plimsoll tune`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum TuneCommand {
    /// Show which settings of this host would be changed, and why
    #[command(after_help = PLAN_EXAMPLES)]
    Plan(PlanFlags),
    /// Apply kernel and process settings; tune revert restores the previous ones
    #[command(after_help = APPLY_EXAMPLES)]
    Apply(ApplyFlags),
    /// Restore the settings from before an apply
    #[command(after_help = REVERT_EXAMPLES)]
    Revert(RevertFlags),
    /// Write a configuration of HAProxy for a number of connections
    #[command(
        after_help = HAPROXY_EXAMPLES,
        override_usage = "plimsoll tune haproxy [OPTIONS] -c N --cert FILE --backend HOST:PORT"
    )]
    Haproxy(ProxyFlags),
    /// Write a configuration of nginx for a number of connections
    #[command(
        after_help = NGINX_EXAMPLES,
        override_usage = "plimsoll tune nginx [OPTIONS] -c N --cert FILE --backend HOST:PORT"
    )]
    Nginx(ProxyFlags),
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

/// Flags of the place of journals.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct JournalFlags {
    /// Directory of the journals, which no other user may write
    #[arg(long, value_name = "DIR", default_value = "/var/lib/plimsoll/tune")]
    pub(crate) journal: PathBuf,
}

/// `plimsoll tune apply`.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct ApplyFlags {
    #[command(flatten)]
    pub(crate) goal: GoalFlags,

    /// Keep the settings over a reboot, and raise limits for processes that start later
    ///
    /// In /etc/sysctl.d/60-plimsoll.conf, and in /etc/security/limits.d or in a drop-in of the unit of --pid.
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
    /// Restore also what somebody else has changed since, and the changes of another machine
    #[arg(long)]
    pub(crate) force: bool,

    #[command(flatten)]
    pub(crate) journal: JournalFlags,
}

/// `plimsoll tune haproxy` and `plimsoll tune nginx`.
#[derive(Args, Clone, Debug, PartialEq)]
pub(crate) struct ProxyFlags {
    /// Connections of the clients, held at once
    #[arg(short = 'c', long, value_name = "N", value_parser = connections)]
    pub(crate) connections: u64,

    /// New TLS connections per second [default: a sixtieth of --connections]
    ///
    /// That is what idle clients that stay for 60 s make.
    #[arg(long, value_name = "RATE", value_parser = positive_rate)]
    pub(crate) rate: Option<Rate>,

    /// CPUs that it may use [default: this host's]
    #[arg(long, value_name = "N", value_parser = threads)]
    pub(crate) cores: Option<u32>,

    /// Memory that it may use with its sockets, such as 8GiB [default: this host's]
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub(crate) memory: Option<u64>,

    /// Certificate chain and its private key in one PEM file
    #[arg(long, value_name = "FILE")]
    pub(crate) cert: PathBuf,

    /// Server behind it; repeatable
    #[arg(long, value_name = "HOST:PORT", required = true, value_parser = host_and_port)]
    pub(crate) backend: Vec<String>,

    /// Address that clients connect to; * is every address of the host
    #[arg(long, value_name = "ADDR:PORT", default_value = "*:443", value_parser = host_and_port)]
    pub(crate) listen: String,

    /// Program to write for [default: the installed one]
    #[arg(long, value_name = "PATH")]
    pub(crate) program: Option<PathBuf>,

    /// Write the configuration here [default: standard output]
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,

    /// Measure it in a laboratory on this host, in turn with Debian's default configuration and the
    /// same certificate
    #[arg(long = "try")]
    pub(crate) is_tried: bool,

    /// Time of --try, half of it for requests and half for handshakes
    #[arg(long, value_name = "DURATION", default_value = "5m", requires = "is_tried")]
    #[arg(value_parser = positive_duration)]
    pub(crate) budget: Nanos,
}
