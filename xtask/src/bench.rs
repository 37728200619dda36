//! `cargo xtask bench`: what a request costs plimsoll's client, side by side with the best known
//! peers in one run, and how well it keeps a pace. Rounds are interleaved, so that a change of the
//! machine's mood hits both tools; results are ratios first and absolute figures second.

mod client;
mod machine;
mod report;
mod server;

use std::fs;
use std::path::Path;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use anyhow::Result;
use anyhow::bail;

use crate::metadata;
use crate::metadata::Depth;
use client::Load;
use client::Sample;
use client::Tool;
use report::Comparison;
use report::Pace;
use server::Server;
use server::ServerKind;

/// Clients run on this CPU, servers on the next.
const CLIENT_CPU: u32 = 0;
const SERVER_CPU: u32 = 1;

/// The pace that plimsoll must keep, operations per second.
const PACE_PER_S: u32 = 5_000;

const USAGE: &str = "\
usage: cargo xtask bench [flags]

  --rounds N           interleaved rounds, at least 1 (default 5)
  --seconds N          length of one measurement, 1 to 60 (default 10)
  --connections N      connections of each client, 1 to 1000 (default 100)
  --server KIND        nginx or plimsoll (default nginx)
  --plimsoll PATH      the binary to measure (default: build the release binary)
  --out FILE           where to write (default docs/benchmarks.md)
";

/// What to measure, and how long.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    rounds: u32,
    seconds: u32,
    connections: u32,
    server: ServerKind,
    plimsoll: Option<PathBuf>,
    out: PathBuf,
}

/// One comparison: the same load by plimsoll and by a peer, against the same server.
struct Scenario {
    name: &'static str,
    peer: Tool,
    load: Load,
}

const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "keep-alive HTTP/1.1 request, plain",
        peer: Tool::Wrk,
        load: Load { is_tls: false, is_kept_alive: true },
    },
    Scenario {
        name: "keep-alive HTTP/1.1 request, TLS 1.3",
        peer: Tool::Wrk,
        load: Load { is_tls: true, is_kept_alive: true },
    },
    Scenario {
        name: "request on a new full TLS 1.3 connection",
        peer: Tool::Oha,
        load: Load { is_tls: true, is_kept_alive: false },
    },
];

/// Measures and writes the page.
pub(crate) fn run(flags: &[&str]) -> Result<()> {
    if flags.iter().any(|flag| ["--help", "-h"].contains(flag)) {
        print!("{USAGE}");
        return Ok(());
    }
    let settings = parse(flags)?;
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

    let tools = client::Tools::find(plimsoll, scratch.clone());
    let server = Server::start(settings.server, &tools.plimsoll, &scratch)?;
    let (comparisons, pace) = measure(&settings, &tools, &server)?;
    drop(server);
    let page = report::page(&settings, &machine::describe(&tools), &comparisons, &pace);
    fs::write(&settings.out, page).with_context(|| settings.out.display().to_string())?;
    println!("written: {}", settings.out.display());
    Ok(())
}

fn parse(flags: &[&str]) -> Result<Settings> {
    let mut settings = Settings {
        rounds: 5,
        seconds: 10,
        connections: 100,
        server: ServerKind::Nginx,
        plimsoll: None,
        out: PathBuf::from("docs/benchmarks.md"),
    };
    let mut flags = flags.iter();
    while let Some(flag) = flags.next() {
        let value = flags.next().with_context(|| format!("{flag} needs a value\n\n{USAGE}"))?;
        match *flag {
            "--rounds" => settings.rounds = number(flag, value, 1..=1_000)?,
            "--seconds" => settings.seconds = number(flag, value, 1..=60)?,
            "--connections" => settings.connections = number(flag, value, 1..=1_000)?,
            "--server" => settings.server = value.parse()?,
            "--plimsoll" => settings.plimsoll = Some(value.into()),
            "--out" => settings.out = value.into(),
            _ => bail!("unknown flag: {flag}\n\n{USAGE}"),
        }
    }
    Ok(settings)
}

fn number(flag: &str, value: &str, range: std::ops::RangeInclusive<u32>) -> Result<u32> {
    let parsed = value.parse().ok().filter(|number| range.contains(number));
    parsed.with_context(|| {
        format!("{flag} {value}: give a number from {} to {}", range.start(), range.end())
    })
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

fn measure(
    settings: &Settings,
    tools: &client::Tools,
    server: &Server,
) -> Result<(Vec<Comparison>, Pace)> {
    let mut comparisons: Vec<Comparison> = SCENARIOS
        .iter()
        .map(|scenario| Comparison::new(scenario.name, scenario.peer, tools.has(scenario.peer)))
        .collect();
    let mut pace = Pace::new(PACE_PER_S);
    for round in 0..settings.rounds {
        for (scenario, comparison) in SCENARIOS.iter().zip(&mut comparisons) {
            compare(settings, tools, server, scenario, round, comparison)?;
        }
        let url = server.url(false);
        let job = tools.plimsoll_pace(&url, settings, PACE_PER_S);
        println!("round {}: pace of {PACE_PER_S}/s", round + 1);
        pace.add(job.run_pace()?, job.shown());
    }
    Ok((comparisons, pace))
}

/// One round of one scenario. Who goes first alternates, because the second finds a warm machine.
fn compare(
    settings: &Settings,
    tools: &client::Tools,
    server: &Server,
    scenario: &Scenario,
    round: u32,
    comparison: &mut Comparison,
) -> Result<()> {
    let url = server.url(scenario.load.is_tls);
    let mut order = [Tool::Plimsoll, scenario.peer];
    if round % 2 == 1 {
        order.reverse();
    }
    let mut samples: [Option<Sample>; 2] = [None, None];
    for tool in order.into_iter().filter(|tool| tools.has(*tool)) {
        let job = tools.job(tool, &url, settings, &scenario.load);
        comparison.note_command(tool, job.shown());
        let sample = job.run()?;
        println!(
            "round {}: {}: {}: {:.2} us over {} operations, {} failed",
            round + 1,
            scenario.name,
            tool.name(),
            sample.cpu_us_per_op(),
            sample.ops,
            sample.failed
        );
        samples[usize::from(tool != Tool::Plimsoll)] = Some(sample);
    }
    let [ours, theirs] = samples;
    comparison.add(ours.context("plimsoll always runs")?, theirs);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_parsed_and_bounded() {
        let settings = parse(&["--rounds", "7", "--server", "plimsoll", "--out", "x.md"]).unwrap();
        assert_eq!((settings.rounds, settings.seconds), (7, 10));
        assert_eq!(settings.server, ServerKind::Plimsoll);
        for (flags, text) in [
            (vec!["--rounds"], "--rounds needs a value"),
            (vec!["--rounds", "0"], "--rounds 0: give a number from 1 to 1000"),
            (vec!["--seconds", "3600"], "--seconds 3600: give a number from 1 to 60"),
            (vec!["--server", "iis"], "--server iis: give nginx or plimsoll"),
            (vec!["--fast", "1"], "unknown flag: --fast"),
        ] {
            let error = parse(&flags).unwrap_err().to_string();
            assert!(error.starts_with(text), "{error}");
        }
    }
}
