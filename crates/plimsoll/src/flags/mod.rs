//! The command line: each flag is declared once, here, and yields its help text.
//!
//! The meaning of flags, and whether they can be combined, is decided in `plan`.

use std::any::TypeId;
use std::env::consts::{ARCH, OS};
use std::ffi::OsString;
use std::io::Write as _;
use std::sync::{LazyLock, OnceLock};

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use agent::AgentFlags;
pub(crate) use compare::CompareFlags;
pub(crate) use doctor::{DoctorFlags, GoalFlags, RoleFlag};
pub(crate) use experiments::{
    ConfirmFlags, FindExperiment, LabCommand, LabExperiment, LabFlags, ServerExperiment,
};
pub(crate) use explain::ExplainFlags;
pub(crate) use hold::HoldFlags;
pub(crate) use load::{LoadFlags, PaceFlags, RowFlags};
pub(crate) use report::ReportFlags;
pub(crate) use run_file::RunFlags;
pub(crate) use schema::SchemaFlags;
pub(crate) use serve::ServeFlags;
pub(crate) use sweep::SweepFlags;
pub(crate) use tune::{ApplyFlags, PlanFlags, ProxyFlags, RevertFlags, TuneCommand};
pub(crate) use watch::WatchFlags;

use crate::exit::{Result, Stop};
use crate::screen::Stream;

mod agent;
pub(crate) mod archived;
#[cfg(test)]
mod book;
mod compare;
mod complaint;
mod doctor;
#[cfg(test)]
mod documents;
pub(crate) mod experiments;
mod explain;
mod foreign;
mod help;
pub(crate) mod hold;
pub(crate) mod hosts;
pub(crate) mod k8s;
mod load;
pub(crate) mod mqtt;
pub(crate) mod programs;
pub(crate) mod publish;
#[cfg(test)]
mod reference;
pub(crate) mod report;
pub(crate) mod rfc9411;
mod run_file;
mod schema;
pub(crate) mod script;
pub(crate) mod search;
mod serve;
pub(crate) mod shared;
mod spelling;
pub(crate) mod storm;
mod sweep;
#[cfg(test)]
mod tests;
mod tune;
pub(crate) mod values;
mod watch;
pub(crate) mod websocket;

/// Widest help text, in columns.
const HELP_COLUMNS_MAX: usize = 100;

/// The version, and the commit and target that it was built from. Only `cargo xtask dist` sets the commit: builds
/// that read it from git would be made again after every commit.
static BUILD: LazyLock<String> = LazyLock::new(|| {
    let libc = if cfg!(target_env = "musl") { "musl" } else { "gnu" };
    let commit = option_env!("PLIMSOLL_COMMIT").unwrap_or("built from source");
    format!("{} ({commit}, {ARCH}-unknown-{OS}-{libc})", env!("CARGO_PKG_VERSION"))
});

/// Finds the load line of a server: how much it carries, and what gives out first.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version = BUILD.as_str())]
#[command(max_term_width = HELP_COLUMNS_MAX)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// A command with its flags.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub(crate) enum Command {
    /// Measure a proxy in a laboratory of clients, server and backends
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
    /// Make one load, open loop or closed loop, and measure it
    Load(Box<LoadFlags>),
    /// Open many connections and hold them, with heartbeats
    #[command(after_help = hold::EXAMPLES, allow_negative_numbers = true)]
    Hold(Box<ServerExperiment<HoldFlags>>),
    /// Measure two servers or configurations, and their difference
    Compare(CompareFlags),
    /// Run a backend that delays and sizes its answers as requests ask
    Serve(ServeFlags),
    /// List the limits of this host that stop a number of connections
    Doctor(DoctorFlags),
    /// Apply and revert kernel settings, or write a proxy's configuration
    #[command(subcommand, disable_help_subcommand = true, after_help = tune::EXAMPLES)]
    Tune(TuneCommand),
    /// Show connections, packets, bytes, memory and CPUs of this host
    Watch(WatchFlags),
    /// Show, export, merge or gate archived runs
    Report(ReportFlags),
    /// Explain an exit code, a check, a cause, an error class or a word
    Explain(ExplainFlags),
    /// Run the command that a TOML file describes
    Run(RunFlags),
    /// Print the JSON Schema of a document that programs read
    Schema(SchemaFlags),
    /// Run a command from pods of a Kubernetes cluster
    #[command(name = "k8s", subcommand, disable_help_subcommand = true)]
    K8s(k8s::K8sCommand),
    /// Work in a pod of k8s run; not for people
    #[command(hide = true, subcommand)]
    Pod(k8s::PodCommand),
    /// Make load for a coordinator on another machine
    Agent(AgentFlags),
}

/// The command line that the run file of this process contains, if it was given one.
static OF_RUN_FILE: OnceLock<Vec<OsString>> = OnceLock::new();

/// Returns the arguments of this process, or the ones from its run file.
pub(crate) fn own_args() -> Vec<OsString> {
    OF_RUN_FILE.get().cloned().unwrap_or_else(|| std::env::args_os().collect())
}

/// Reads this process's arguments.
pub(crate) fn parse() -> Result<Command> {
    let colours = Stream::Out.colours();
    let typed = parse_from(std::env::args_os(), None, colours)?;
    let Command::Run(flags) = &typed else { return Ok(typed) };
    let run_file::Line { args, note } = flags.line()?;
    if let Some(note) = note {
        let _ = writeln!(std::io::stderr(), "plimsoll: {}: {note}", flags.file.display());
    }
    let args = OF_RUN_FILE.get_or_init(|| args);
    parse_from(args.clone(), None, colours).map_err(|stop| match stop {
        Stop::Usage(what) => Stop::Usage(format!("{}: {what}", flags.file.display())),
        other => other,
    })
}

/// Parses a command line that is an argument of another one.
pub(crate) fn parse_line(words: &[String]) -> Result<Command> {
    let args = std::iter::once("plimsoll").chain(words.iter().map(String::as_str));
    parse_from(args.map(OsString::from), None, false)
}

/// Returns the flags of the command `words`, as they are spelled, whose values are of one of these types.
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
pub(crate) fn parse_words(words: &[&str]) -> Result<Command> {
    let args = std::iter::once("plimsoll").chain(words.iter().copied()).map(OsString::from);
    parse_from(args, Some(HELP_COLUMNS_MAX), false)
}

fn parse_from(
    args: impl IntoIterator<Item = OsString>,
    help_columns: Option<usize>,
    colours: bool,
) -> Result<Command> {
    let parser = Cli::command();
    let args = spelling::completed(args.into_iter().collect());
    parser
        .clone()
        .try_get_matches_from(&args)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map(|cli| cli.command)
        .map_err(|error| {
            let text = match error.kind() {
                ErrorKind::DisplayHelp => help::text(&parser, &args, help_columns),
                ErrorKind::DisplayVersion => error.render(),
                _ => return Stop::Usage(complaint::one_line(&error, &args, &parser)),
            };
            Stop::Asked(if colours { text.ansi().to_string() } else { text.to_string() })
        })
}
