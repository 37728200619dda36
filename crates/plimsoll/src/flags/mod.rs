//! What was typed: each flag is declared once, here, and yields its help text.
//!
//! What the flags mean, and whether they fit together, is said in `plan`.

use std::ffi::OsString;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

pub(crate) use compare::CompareFlags;
pub(crate) use hold::{HoldFlags, LabHoldFlags};
pub(crate) use load::{LoadFlags, PaceFlags};
pub(crate) use search::{FindFlags, LabExperiment, LabFlags};
pub(crate) use serve::{ReportFlags, ServeFlags};

use crate::exit::Stop;
use crate::screen::Stream;

mod compare;
mod complaint;
pub(crate) mod hold;
mod load;
pub(crate) mod rfc9411;
pub(crate) mod search;
mod serve;
pub(crate) mod shared;
#[cfg(test)]
mod tests;
pub(crate) mod values;

/// Widest help text, in columns.
const HELP_COLUMNS_MAX: usize = 100;

const EXAMPLES: &str = "\
Start with `plimsoll lab`, which needs nothing else. `plimsoll COMMAND --help` shows examples.";

/// Finds the load line of a server: how much it takes before latency bends, and what gives way
/// first.
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
    /// Find the tipping point of a proxy or server on this machine: backends, SUT and clients
    Lab(Box<LabFlags>),
    /// Find the tipping point of any server you name
    Find(Box<FindFlags>),
    /// Make one load, open loop or closed loop, and measure it
    Load(Box<LoadFlags>),
    /// Open many connections and hold them, with heartbeats
    Hold(Box<HoldFlags>),
    /// Measure two configurations in turn, and say by how much they differ
    Compare(CompareFlags),
    /// Serve as a backend that sleeps, streams and counts as the request says
    Serve(ServeFlags),
    /// Show the report of archived runs
    Report(ReportFlags),
    /// Work for a coordinator over stdin and stdout; not for people
    #[command(hide = true)]
    Agent,
}

/// The parser, with shared flags fitted to each command.
fn parser() -> clap::Command {
    Cli::command()
        .mut_subcommand("hold", |hold| hold::adapt(hold, "Connections to hold"))
        .mut_subcommand("lab", |lab| {
            lab.mut_subcommand("hold", |hold| {
                hold::adapt(hold, "Connections to hold at the top [default: 10k]")
            })
        })
}

/// Reads this process's arguments.
pub(crate) fn parse() -> Result<Command, Stop> {
    parse_from(std::env::args_os(), parser(), Stream::Out.colours())
}

/// Reads a command line that stands inside an argument of another.
pub(crate) fn parse_line(words: &[String]) -> Result<Command, Stop> {
    let args = std::iter::once("plimsoll").chain(words.iter().map(String::as_str));
    parse_from(args.map(OsString::from), parser(), false)
}

/// Reads the words after the program's name, as a test types them.
#[cfg(test)]
pub(crate) fn parse_words(words: &[&str]) -> Result<Command, Stop> {
    let args = std::iter::once("plimsoll").chain(words.iter().copied()).map(OsString::from);
    parse_from(args, parser().term_width(HELP_COLUMNS_MAX), false)
}

fn parse_from(
    args: impl IntoIterator<Item = OsString>,
    parser: clap::Command,
    colours: bool,
) -> Result<Command, Stop> {
    let args: Vec<_> = args.into_iter().collect();
    parser
        .try_get_matches_from(&args)
        .and_then(|mut matches| Cli::from_arg_matches_mut(&mut matches))
        .map(|cli| cli.command)
        .map_err(|error| match error.kind() {
            ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
                let text = error.render();
                let text = if colours { text.ansi().to_string() } else { text.to_string() };
                Stop::Asked(text)
            }
            _ => Stop::Usage(complaint::one_line(&error, args.get(1))),
        })
}
