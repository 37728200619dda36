//! Developer commands of plimsoll: `cargo xtask ci` is the whole of CI, the others are parts of it
//! or measurements. Nothing here is shipped.
#![forbid(unsafe_code)]

mod bench;
mod book;
mod ci;
mod circles;
mod dist;
mod english;
mod fuzz;
mod layers;
mod licences;
mod lines;
mod metadata;
mod packages;
mod pictures;
mod simulate;
mod specifications;
mod tidy;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
usage: cargo xtask COMMAND

  ci [--fast]     everything CI runs; --fast leaves out what takes more than a minute
  packages        install the programs that the end-to-end tests drive
  layers          check which crate imports which, and that files import one another in no large circle; --table
                  prints the table of crates
  tidy            check the source text, the README and the book
  docs            build the book with mdBook, in target/book
  licences        check the licences of all dependencies
  lines           count the lines of each crate, without tests, comments and empty lines
  bench [...]     measure memory, cost and capacity against their targets and beside peers, and write
                  docs/explanation/benchmarks.md; --help lists its flags
  pictures        run a search of a real HAProxy and draw the pictures of README and the book from it
  dist [--check]  make everything that is released, in target/packages; with --check install and run it
  simulate [--seeds N] [--standard-seeds N] [--first SEED] [--only WORD]
                  run the simulated searches and write docs/explanation/search-quality.md; with --only, print the rows
                  of some servers
  fuzz TARGET [--seconds N]
                  run one fuzz target (needs a nightly toolchain and cargo-fuzz)
";

fn main() -> ExitCode {
    match run(&env::args().skip(1).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    // Tools and relative paths count from the root, wherever the command was typed.
    env::set_current_dir(root()).context("cannot enter the workspace")?;
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments.as_slice() {
        ["ci"] => ci::run(ci::Extent::Full),
        ["ci", "--fast"] => ci::run(ci::Extent::Fast),
        ["packages"] => packages::run(),
        ["layers"] => layers::run(),
        ["layers", "--table"] => {
            print!("{}", layers::table());
            Ok(())
        }
        ["tidy"] => tidy::run(),
        ["docs"] => book::run(),
        ["licences"] => licences::run(),
        ["lines"] => lines::run(),
        ["bench", flags @ ..] => bench::run(flags),
        ["pictures"] => pictures::run(),
        ["dist", flags @ ..] => dist::run(flags),
        ["simulate", flags @ ..] => simulate::run(flags),
        ["fuzz", target] => fuzz::run(target, 60),
        ["fuzz", target, "--seconds", seconds] => {
            fuzz::run(target, seconds.parse().context("--seconds takes a whole number")?)
        }
        [] | ["--help" | "-h" | "help"] => {
            print!("{USAGE}");
            Ok(())
        }
        other => bail!("unknown command: {}\n\n{USAGE}", other.join(" ")),
    }
}

/// Returns the workspace's root: the folder above this package's.
fn root() -> PathBuf {
    let package = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = package.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    package.parent().map_or_else(|| PathBuf::from("."), PathBuf::from)
}

/// Returns `Ok` if there are no offences, otherwise all of them, one per line, under `subject`.
fn verdict(subject: &str, offences: &[String]) -> Result<()> {
    if offences.is_empty() {
        return Ok(());
    }
    let lines: String = offences.iter().map(|offence| format!("\n  {offence}")).collect();
    bail!("{subject}: {} found{lines}", offences.len())
}
