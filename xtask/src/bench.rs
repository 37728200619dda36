//! `cargo xtask bench`: what plimsoll promises, measured, in parts that can be run one by one.
//!
//! - `memory`: what a held connection costs client and server, beside every peer on the machine.
//! - `cost`: what a request and a connection cost the client, beside every peer on the machine, and
//!   how well it keeps a pace.
//! - `serve`: what a request costs the backend, beside nginx and HAProxy.
//! - `hold`: a million connections and more, both ends on this machine; only when asked for.
//! - `truth`: whether the latencies it reports are the ones that the server made.
//! - `lab`: whether the search is fast, narrow and repeatable.
//! - `capacity`: whether the search is right, on servers whose capacity is known.
//! - `cliffs`: whether hidden timers are found, and whose they are.
//! - `alarms`: whether healthy loads are ever called INVALID.
//!
//! Each part becomes a section of one page; a part that is not run keeps the section it has. On
//! top of the page is a table of what must be reached, from the sections as they stand.

mod alarms;
mod announced;
mod capacity;
mod claim;
mod client;
mod cliffs;
mod cost;
mod footprint;
mod hold;
mod invocation;
mod lab;
mod machine;
mod memory;
mod page;
mod process;
mod reference;
mod search;
mod serve;
mod server;
mod settings;
mod spread;
mod stolen;
mod target;
mod tool;
mod truth;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::metadata;
use crate::metadata::Depth;
use client::Tools;
use page::Section;
use settings::{Part, Settings};

/// Clients run on this CPU, servers on the next.
const CLIENT_CPU: u32 = 0;
const SERVER_CPU: u32 = 1;

/// What every part needs.
struct Bench {
    settings: Settings,
    tools: Tools,
    /// Where everything runs and leaves its files.
    scratch: PathBuf,
}

/// Measures and writes the page.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    if flags.iter().any(|flag| ["--help", "-h"].contains(flag)) {
        print!("{}", settings::USAGE);
        return Ok(());
    }
    if let ["reference", arguments @ ..] = flags {
        return reference::serve(arguments);
    }
    let settings = settings::parse(flags)?;
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("a benchmark needs two CPUs: one for the client, one for the server");
    }
    let target = metadata::read(&crate::root(), Depth::Ours)?.target_folder;
    let plimsoll = match &settings.plimsoll {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => build(&target)?,
    };
    let scratch = target.join("bench");
    fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    let tools = Tools::find(plimsoll, scratch.clone());
    let bench = Bench { settings, tools, scratch };
    for part in Part::ALL.iter().filter(|part| bench.settings.parts.contains(part)) {
        let section = measure(&bench, *part);
        println!("{}: {}", part.title(), section.outcome().name());
        // After each part: an hour's figures are not lost when a later part goes wrong.
        write(&bench.settings.out, &section)?;
    }
    println!("written: {}", bench.settings.out.display());
    Ok(())
}

fn build(target: &Path) -> Result<PathBuf> {
    let status = Command::new("cargo")
        .args(["build", "--release", "--package", "plimsoll"])
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("plimsoll does not build");
    }
    Ok(target.join("release/plimsoll"))
}

/// One part. Whatever goes wrong is said in its section.
fn measure(bench: &Bench, part: Part) -> Section {
    let mut section = Section::new(part, machine::describe(&bench.tools));
    let (stolen, measured) = stolen::stolen_during(|| match part {
        Part::Memory => memory::measure(bench, &mut section),
        Part::Serve => serve::measure(bench, &mut section),
        Part::Hold => hold::measure(bench, &mut section),
        Part::Cost => cost::measure(bench, &mut section),
        Part::Truth => truth::measure(bench, &mut section),
        Part::Lab => lab::measure(bench, &mut section),
        Part::Capacity => capacity::measure(bench, &mut section),
        Part::Cliffs => cliffs::measure(bench, &mut section),
        Part::Alarms => alarms::measure(bench, &mut section),
    });
    let stolen = format!("{:.1} % of all CPU time", 100.0 * stolen);
    section.note_machine("stolen by the hypervisor meanwhile", stolen);
    if let Err(error) = measured {
        section.fail(format!("{error:#}"));
    }
    // The page must not name folders of this machine.
    section.rename(&bench.scratch.display().to_string(), "target/bench");
    section
}

fn write(out: &Path, section: &Section) -> Result<()> {
    let old = fs::read_to_string(out).unwrap_or_default();
    fs::write(out, page::with_section(&old, section)).with_context(|| out.display().to_string())
}
