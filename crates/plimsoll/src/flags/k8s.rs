//! `plimsoll k8s`, and what runs in its pods. What was typed, not what it means.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use plimsoll_fleet::kubernetes::AGENTS_MAX;
use plimsoll_model::Nanos;

use super::values::positive_duration;

const RUN_EXAMPLES: &str = "\
Agents run in pods of their own, spread over the nodes, and the command runs in another pod, to which they connect over
TLS with certificates of the run. The command's output, archive and exit code are copied back, and all objects are
removed, also after Ctrl-C. kubectl is used with its contexts and logins.

The command, the files that it names and keys are stored in Secrets, which hold up to 1 MiB. A pod has the open files
that its container runtime allows, and no kernel settings beside its port range; each agent reports before the load what
it lacks.

Examples:
  plimsoll k8s run --image IMAGE -- load http://web.shop/ --rate 20k
  plimsoll k8s run --image IMAGE --agents 10 --cpus 4 -- find rate https://web/
  plimsoll k8s run --image IMAGE --dry-run -- hold https://web/ -c 500k

Exit codes: those of the command; 1 if the cluster does not run it";

/// `plimsoll k8s`.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum K8sCommand {
    /// Run load, hold, find rate or find handshakes with agents in pods
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<K8sRunFlags>),
}

/// `plimsoll k8s run`.
#[derive(Args, Clone, Debug, PartialEq)]
#[command(next_help_heading = "Kubernetes")]
pub(crate) struct K8sRunFlags {
    /// The command, after --, without the word plimsoll
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,

    /// Image of plimsoll, of this version, which the nodes can pull
    #[arg(long, value_name = "IMAGE")]
    pub(crate) image: String,

    /// Agents, each in a pod of its own
    #[arg(long, value_name = "N", default_value_t = 2)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(AGENTS_MAX)))]
    pub(crate) agents: u32,

    /// Whole CPUs of each agent, as request and limit
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) cpus: u32,

    /// Memory of each agent in Mi or Gi, as request and limit, sockets included
    #[arg(long, value_name = "SIZE", default_value = "1Gi", value_parser = memory)]
    pub(crate) memory: String,

    /// Namespace [default: the context's]
    #[arg(long, short, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// Context of kubectl's configuration [default: the current one]
    #[arg(long, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// Time after which the cluster ends the run
    #[arg(long, value_name = "DURATION", default_value = "2h", value_parser = positive_duration)]
    pub(crate) at_most: Nanos,

    /// Folder for the results, which must not exist [default: the name of the run]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,

    /// Print the objects as YAML, without what is in the Secrets, and start nothing
    #[arg(long)]
    pub(crate) dry_run: bool,

    /// With --dry-run: also print keys, command and files, so that the objects can be applied
    #[arg(long, requires = "dry_run")]
    pub(crate) inline_secrets: bool,
}

/// Commands in the coordinator's pod.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum PodCommand {
    /// Run a command, and keep its results until they are fetched
    Coordinate {
        /// Directory to keep them in
        #[arg(long, value_name = "DIR")]
        results: PathBuf,
        /// For this many seconds
        #[arg(long, value_name = "SECONDS", default_value_t = 600)]
        keep_for: u64,
        /// The command with its files: the folder of the pod's Secret
        #[arg(long, value_name = "DIR")]
        order: Option<PathBuf>,
        /// The command, if no folder has it
        #[arg(last = true, required_unless_present = "order", conflicts_with = "order")]
        words: Vec<String>,
    },
    /// Succeed once the command has ended
    Ended {
        /// Directory of its results
        #[arg(long, value_name = "DIR")]
        results: PathBuf,
    },
    /// Write the results of a command that has ended
    Results {
        /// Directory of the results
        #[arg(long, value_name = "DIR")]
        results: PathBuf,
    },
    /// Say that the results have arrived
    Fetched {
        /// Directory of the results
        #[arg(long, value_name = "DIR")]
        results: PathBuf,
    },
    /// Send the command SIGINT
    Interrupt {
        /// Directory of its future results
        #[arg(long, value_name = "DIR")]
        results: PathBuf,
    },
}

fn memory(text: &str) -> Result<String, String> {
    let number = text.strip_suffix("Mi").or_else(|| text.strip_suffix("Gi"));
    match number.map(str::parse) {
        Some(Ok(1u32..=65_535)) => Ok(text.to_owned()),
        _ => Err("a whole number with Mi or Gi is needed, such as 512Mi or 4Gi".to_owned()),
    }
}
