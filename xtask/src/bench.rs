//! `cargo xtask bench`: what plimsoll costs beside its peers, in parts that can be run one by one.
//!
//! - `memory`: user memory of a held connection, client and server.
//! - `cost`: client CPU of a request and of a connection, and how exactly a schedule is kept.
//! - `protocols`: client CPU of an operation of HTTP/2, gRPC, WebSocket and MQTT.
//! - `serve`: CPU of a request in the backend.
//! - `look`: what the screen and the live page cost beside `--no-ui`, and how long an archive takes to open.
//! - `probes`: what `watch` and the readings of a run cost, with few sockets and with half a million.
//! - `hold`: a million connections and more, both ends on this machine; only on request.
//!
//! Each part writes its results to `docs/benchmarks/PART.json`. `docs/explanation/benchmarks.md` is rendered from
//! all of these files. Whether plimsoll is *right* is tested by `e2e/tests/nightly`.

mod client;
mod comparison;
mod cost;
mod cpus;
mod footprint;
mod hold;
mod look;
mod machine;
mod memory;
mod page;
mod probes;
mod process;
mod protocols;
mod results;
mod serve;
mod server;
mod settings;
mod tool;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::metadata;
use crate::metadata::Depth;
use client::Tools;
use cpus::{CLIENT_CPU, SERVER_CPU};
use results::Results;
use settings::{Part, Settings};

/// The common parts of a benchmark.
struct Bench {
    settings: Settings,
    tools: Tools,
    /// Directory in which programs run and leave their files.
    scratch: PathBuf,
}

/// Measures and writes the results.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    if flags.iter().any(|flag| ["--help", "-h"].contains(flag)) {
        print!("{}", settings::USAGE);
        return Ok(());
    }
    let settings = settings::parse(flags)?;
    if settings.is_page_only {
        return page::write(&settings.out);
    }
    if std::thread::available_parallelism()?.get() < 2 {
        bail!("a benchmark needs two CPUs: one for the client, one for the server");
    }
    let target = metadata::read(&crate::root(), Depth::Ours)?.target_directory;
    let plimsoll = match &settings.plimsoll {
        Some(path) => path.canonicalize().with_context(|| path.display().to_string())?,
        None => build(&target)?,
    };
    let scratch = target.join("bench");
    fs::create_dir_all(&scratch).with_context(|| scratch.display().to_string())?;
    let tools = Tools::find(plimsoll, scratch.clone());
    let bench = Bench { settings, tools, scratch };
    for part in Part::ALL.into_iter().filter(|part| bench.settings.parts.contains(part)) {
        let results = measure(&bench, part);
        println!("{}: {}", part.name(), results.summary());
        // After each part: an hour's figures are not lost when a later part goes wrong.
        page::add(&bench.settings.out, results)?;
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

/// Measures one part. Errors are part of its results.
fn measure(bench: &Bench, part: Part) -> Results {
    let mut results = Results::new(part.name(), machine::describe(&bench.tools));
    let before = machine::CpuTime::now();
    let measured = match part {
        Part::Memory => memory::measure(bench, &mut results),
        Part::Cost => cost::measure(bench, &mut results),
        Part::Protocols => protocols::measure(bench, &mut results),
        Part::Serve => serve::measure(bench, &mut results),
        Part::Look => look::measure(bench, &mut results),
        Part::Probes => probes::measure(bench, &mut results),
        Part::Hold => hold::measure(bench, &mut results),
    };
    let stolen = before.zip(machine::CpuTime::now());
    results.stolen_percent = stolen.map(|(before, after)| 100.0 * before.stolen_until(after));
    if let Err(error) = measured {
        results.fail(format!("{error:#}"));
    }
    // The results must not name folders of this machine.
    results.rename(&bench.scratch.display().to_string(), "target/bench");
    results
}
