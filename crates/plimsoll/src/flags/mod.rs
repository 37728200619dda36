//! What was typed: each flag is declared once, here, and yields its help text.
//!
//! What the flags mean, and whether they can be combined, is decided in `plan`.

use std::any::TypeId;
use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use agent::AgentFlags;
pub(crate) use compare::CompareFlags;
pub(crate) use doctor::{DoctorFlags, GoalFlags, RoleFlag};
pub(crate) use experiments::{FindExperiment, LabCommand, LabExperiment};
pub(crate) use hold::HoldCommand;
pub(crate) use load::{LoadFlags, PaceFlags, RowFlags};
pub(crate) use report::ReportFlags;
pub(crate) use schema::SchemaFlags;
pub(crate) use serve::ServeFlags;
pub(crate) use sweep::SweepFlags;
pub(crate) use tune::{ApplyFlags, PlanFlags, ProxyFlags, RevertFlags, TuneCommand};
pub(crate) use watch::WatchFlags;

use crate::exit::Stop;
use crate::screen::Stream;

mod agent;
pub(crate) mod archived;
mod compare;
mod complaint;
mod doctor;
#[cfg(test)]
mod documents;
pub(crate) mod experiments;
pub(crate) mod hold;
pub(crate) mod hosts;
pub(crate) mod http;
pub(crate) mod k8s;
pub(crate) mod live;
mod load;
pub(crate) mod mqtt;
pub(crate) mod publish;
pub(crate) mod report;
pub(crate) mod rfc9411;
mod schema;
pub(crate) mod script;
pub(crate) mod search;
mod serve;
pub(crate) mod shared;
mod spelling;
mod sweep;
#[cfg(test)]
mod tests;
mod tune;
pub(crate) mod values;
mod watch;
pub(crate) mod websocket;

/// Widest help text, in columns.
const HELP_COLUMNS_MAX: usize = 100;

const EXAMPLES: &str = "\
Start with `plimsoll lab`, which needs nothing else. `plimsoll COMMAND --help` shows examples.";

/// Finds the load line of a server: how much load it can carry before latency rises, and which
/// resource runs out first.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version, after_help = EXAMPLES)]
#[command(max_term_width = HELP_COLUMNS_MAX)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// A command with its flags.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum Command {
    /// Measure a proxy or server in a laboratory on this host: backends, server and clients
    #[command(
        subcommand,
        after_help = experiments::LAB_EXAMPLES,
        override_usage = "plimsoll lab [EXPERIMENT] [OPTIONS]",
        disable_help_subcommand = true,
        subcommand_value_name = "EXPERIMENT",
        subcommand_help_heading = "Experiments"
    )]
    Lab(LabCommand),
    /// Find the tipping point of any server
    #[command(
        subcommand,
        after_help = experiments::FIND_EXAMPLES,
        override_usage = "plimsoll find <EXPERIMENT> [OPTIONS] [URL]",
        disable_help_subcommand = true,
        subcommand_value_name = "EXPERIMENT",
        subcommand_help_heading = "Experiments"
    )]
    Find(Box<FindExperiment>),
    /// Generate one load, open loop or closed loop, and measure it
    Load(Box<LoadFlags>),
    /// Open many connections and hold them, with heartbeats
    Hold(Box<HoldCommand>),
    /// Measure two servers or configurations in turns of seconds and report their difference
    Compare(CompareFlags),
    /// Run an HTTP backend that delays and sizes its responses as each request asks
    Serve(ServeFlags),
    /// List the limits of this host that stop a number of connections, and what raises them
    Doctor(DoctorFlags),
    /// Change settings of this host for a number of connections, with a way back, or write a proxy's
    /// configuration
    #[command(subcommand, disable_help_subcommand = true)]
    Tune(TuneCommand),
    /// Show what this host is doing: limits, connections, packets, bytes, memory, CPUs
    Watch(WatchFlags),
    /// Show the report of an archived run
    Report(ReportFlags),
    /// Print the JSON Schema of a document that programs read
    Schema(SchemaFlags),
    /// Run a command from pods of a Kubernetes cluster
    #[command(name = "k8s", subcommand, disable_help_subcommand = true)]
    K8s(k8s::K8sCommand),
    /// Work in a pod of k8s run; not for people
    #[command(hide = true, subcommand)]
    Pod(k8s::PodCommand),
    /// Work for a coordinator over stdin and stdout; not for people
    #[command(hide = true)]
    Agent(AgentFlags),
}

/// Reads this process's arguments.
pub(crate) fn parse() -> Result<Command, Stop> {
    parse_from(std::env::args_os(), Cli::command(), Stream::Out.colours())
}

/// Reads a command line that stands inside an argument of another.
pub(crate) fn parse_line(words: &[String]) -> Result<Command, Stop> {
    let args = std::iter::once("plimsoll").chain(words.iter().map(String::as_str));
    parse_from(args.map(OsString::from), Cli::command(), false)
}

/// The flags of the command `words`, as they are spelled, whose values are of one of these types.
pub(crate) fn long_names(words: &[String], types: &[TypeId]) -> Vec<String> {
    let parser = Cli::command();
    let mut command = &parser;
    while let Some(inner) = words.iter().find_map(|word| command.find_subcommand(word)) {
        command = inner;
    }
    let is_one =
        |arg: &&clap::Arg| types.iter().any(|kind| arg.get_value_parser().type_id() == *kind);
    let found = command.get_arguments().filter(is_one).filter_map(clap::Arg::get_long);
    found.map(|long| format!("--{long}")).collect()
}

/// Reads the words after the program's name, as a test types them.
#[cfg(test)]
pub(crate) fn parse_words(words: &[&str]) -> Result<Command, Stop> {
    let args = std::iter::once("plimsoll").chain(words.iter().copied()).map(OsString::from);
    parse_from(args, Cli::command().term_width(HELP_COLUMNS_MAX), false)
}

fn parse_from(
    args: impl IntoIterator<Item = OsString>,
    parser: clap::Command,
    colours: bool,
) -> Result<Command, Stop> {
    let args = spelling::current(args.into_iter().collect());
    parser
        .clone()
        .try_get_matches_from(&args)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map(|cli| cli.command)
        .map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let text = error.render();
                let text = if colours { text.ansi().to_string() } else { text.to_string() };
                Stop::Asked(text)
            }
            _ => Stop::Usage(complaint::one_line(&error, &args, &parser)),
        })
}
