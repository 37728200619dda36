//! The cost of watching a run: the screen and the live page beside `--no-ui`, the rows of single operations, and how
//! long the archive of half an hour takes to open.

mod run;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::bench::client::words::SUMMARY;
use crate::bench::results::{Outcome, Results, Row, Spread};
use crate::bench::server::{Server, ServerKind};
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU};
use run::{Display, Figures};

const LOAD_ROUNDS: u32 = 4;
const HOLD_ROUNDS: u32 = 3;
const ROWS_ROUNDS: u32 = 3;
const SECONDS: u32 = 5;
const CONNECTIONS: u32 = 100_000;
const RATE_PER_S: u32 = 20_000;
/// Openings per second of the hold: 20,000 fill both CPUs of a slower machine.
const OPENED_PER_S: u32 = 5_000;
/// Length of a hold over the length of a load: heartbeats come every 10 s.
const HELD_TIMES: u32 = 4;
/// Largest allowed difference of the rate, %.
const RATE_PERCENT_MAX: f64 = 2.0;
/// Largest allowed increase of the p99 of the send lag, ms.
const LAG_MS_MAX: f64 = 1.0;
/// CPU of the coordinator may be so much more, % of a core.
const CPU_PERCENT_MAX: f64 = 3.0;
/// Length of the archive that must open within [`OPEN_S_MAX`], s; it has the readings of [`ARCHIVE_HOSTS`] hosts.
const ARCHIVE_SECONDS: u32 = 1_800;
const ARCHIVE_HOSTS: u32 = 3;
const OPEN_S_MAX: f64 = 2.0;
const OPENINGS: u32 = 5;

/// Measures everything and fills the results. What fails does not stop the rest.
pub(crate) fn measure(bench: &Bench, results: &mut Results) -> Result<()> {
    let seconds = bench.settings.seconds_or(SECONDS);
    let connections = bench.settings.connections_or(CONNECTIONS);
    results.method = method(seconds, connections);
    let parts = [
        ("load", load(bench, seconds, results)),
        ("hold", hold(bench, seconds, connections, results)),
        ("rows", rows(bench, seconds, results)),
        ("archive", archive(bench, results)),
    ];
    for (name, part) in parts {
        if let Err(error) = part {
            results.fail(format!("{name}: {error:#}"));
        }
    }
    Ok(())
}

fn load(bench: &Bench, seconds: u32, results: &mut Results) -> Result<()> {
    let server = Server::start(ServerKind::Plimsoll, &bench.tools.plimsoll, &bench.scratch)?;
    let words = format!(
        "load {} --rate {RATE_PER_S} --duration {seconds}s --threads 1 --processes 1",
        server.url(false)
    );
    let displays = Displays::measure(bench, "load", &words, None, LOAD_ROUNDS, results);
    displays.report(&format!("{RATE_PER_S} requests/s"), results);
    Ok(())
}

fn hold(bench: &Bench, seconds: u32, connections: u32, results: &mut Results) -> Result<()> {
    let server = Server::for_many(&bench.tools.plimsoll, connections)?;
    let words = format!(
        "hold {} --connections {connections} --rate {OPENED_PER_S} --for {}s --heartbeat 10s \
         --threads 1",
        server.url(false),
        HELD_TIMES * seconds
    );
    let displays =
        Displays::measure(bench, "hold", &words, Some(connections), HOLD_ROUNDS, results);
    displays.report(&format!("{connections} connections"), results);
    Ok(())
}

/// One load with each display, round by round.
struct Displays {
    id: &'static str,
    /// In the order of `Display::ALL`; `None` if a run failed.
    rounds: Vec<[Option<Figures>; 3]>,
}

impl Displays {
    fn measure(
        bench: &Bench,
        id: &'static str,
        words: &str,
        held: Option<u32>,
        rounds: u32,
        results: &mut Results,
    ) -> Self {
        results.note_command(format!("taskset -c {CLIENT_CPU} plimsoll {words}"));
        let one = |round: u32| {
            let mut figures = [None; 3];
            for turn in 0..3 {
                let nth = (turn + round as usize) % 3;
                let display = Display::ALL[nth];
                let what = format!("{id}, round {}, {}", round + 1, display.name());
                match run::run(&bench.tools, &bench.scratch, words, held, display) {
                    Ok(run) => {
                        println!("look: {what}: {run:?}");
                        figures[nth] = Some(run);
                    }
                    Err(error) => results.fail(format!("{what}: {error:#}")),
                }
            }
            figures
        };
        Self { id, rounds: (0..bench.settings.rounds_or(rounds)).map(one).collect() }
    }

    fn report(&self, of: &str, results: &mut Results) {
        for (nth, display) in Display::ALL.into_iter().enumerate() {
            let each = |figure: fn(&Figures) -> f64| -> Vec<f64> {
                self.rounds.iter().filter_map(|round| round[nth].as_ref().map(figure)).collect()
            };
            results.figures.push(json!({
                "what": format!("{of}, {}", display.name()),
                "rate_per_s": each(|run| run.rate_per_s),
                "send_lag_ms_p99": each(|run| run.send_lag_ms_p99),
                "coordinator_percent_of_a_core": each(|run| run.coordinator_percent),
            }));
        }
        for (nth, name) in [(1, "screen"), (2, "live")] {
            results.row(self.row(of, nth, name), "");
        }
    }

    /// Returns the differences from the run without any display in the same round.
    fn row(&self, of: &str, nth: usize, name: &str) -> Row {
        let pairs = self.rounds.iter().filter_map(|round| round[0].zip(round[nth]));
        let pairs: Vec<(Figures, Figures)> = pairs.collect();
        let spread = |differ: fn(&(Figures, Figures)) -> f64| Spread::of(pairs.iter().map(differ));
        let rate = spread(|(without, with)| 100.0 * (with.rate_per_s / without.rate_per_s - 1.0));
        let lag = spread(|(without, with)| with.send_lag_ms_p99 - without.send_lag_ms_p99);
        let cpu = spread(|(without, with)| with.coordinator_percent - without.coordinator_percent);
        let outcome = match pairs.is_empty() {
            true => Outcome::NotMeasured,
            false => Outcome::of(
                rate.median.abs() <= RATE_PERCENT_MAX
                    && lag.median <= LAG_MS_MAX
                    && cpu.median <= CPU_PERCENT_MAX,
            ),
        };
        Row::alone(
            &format!("look-{}-{name}", self.id),
            &format!(
                "{} at {of}, against `--no-ui`: rate, %; p99 of the send lag, ms; CPU of the coordinator, % of a core",
                if nth == 1 { "the screen" } else { "`--live` and a reader" }
            ),
            format!("{rate}; {lag}; {cpu}"),
            &format!(
                "within {RATE_PERCENT_MAX} %; at most {LAG_MS_MAX} ms more; at most {CPU_PERCENT_MAX} % more"
            ),
            outcome,
        )
    }
}

/// Measures the CPU time of the client per request without rows, with some, and with all.
fn rows(bench: &Bench, seconds: u32, results: &mut Results) -> Result<()> {
    let server = Server::start(ServerKind::Plimsoll, &bench.tools.plimsoll, &bench.scratch)?;
    let words = format!(
        "load {} --rate {RATE_PER_S} --duration {seconds}s --threads 1 --processes 1 --no-ui",
        server.url(false)
    );
    let flags = ["", " --rows rows.csv", " --rows rows.csv --rows-all"];
    let mut costs = flags.map(|_| Vec::new());
    for round in 0..bench.settings.rounds_or(ROWS_ROUNDS) {
        for turn in 0..flags.len() {
            let nth = (turn + round as usize) % flags.len();
            let job = bench.tools.plimsoll_job(&format!("{words}{}", flags[nth]));
            results.note_command(job.shown());
            let cpu_us = job.run()?.cpu_us();
            println!("look: rows, round {},{}: {cpu_us:.2} us", round + 1, flags[nth]);
            costs[nth].push(cpu_us);
        }
    }
    for (flags, costs) in flags.into_iter().zip(costs) {
        results.figures.push(json!({
            "what": format!("client CPU per request at {RATE_PER_S}/s, us,{flags}"),
            "spread": Spread::of(costs.iter().copied()), "rounds": costs,
        }));
    }
    Ok(())
}

/// Measures the time to read and draw the archive of half an hour.
fn archive(bench: &Bench, results: &mut Results) -> Result<()> {
    let folder = bench.scratch.join("half-an-hour");
    let _ = fs::remove_dir_all(&folder);
    let (seconds, hosts) = (ARCHIVE_SECONDS.to_string(), ARCHIVE_HOSTS.to_string());
    let status = Command::new("cargo")
        .args(["run", "--quiet", "--package", "e2e", "--bin", "archive", "--"])
        .arg(&folder)
        .args([&seconds, &hosts])
        .env("PLIMSOLL_BIN", &bench.tools.plimsoll)
        .status()
        .context("cannot run cargo")?;
    if !status.success() {
        bail!("no archive was made: {status}");
    }
    let bytes = bytes_of(&folder)?;
    for (id, what, flags) in [
        ("open-text", "the report as text", &["--json", SUMMARY][..]),
        ("open-page", "the report as a page", &["--html", "half-an-hour.html"]),
    ] {
        let mut times = Vec::new();
        for _ in 0..OPENINGS {
            times.push(opened_in_s(bench, &folder, flags)?);
        }
        let spread = Spread::of(times.iter().copied());
        let figure = format!("{what} of a 30-minute archive at 1 s with {ARCHIVE_HOSTS} hosts, s");
        let outcome = Outcome::of(spread.median < OPEN_S_MAX);
        let target = format!("less than {OPEN_S_MAX} s");
        results.row(Row::alone(id, &figure, spread.to_string(), &target, outcome), "");
        results.figures.push(json!({"what": figure, "archive_bytes": bytes, "rounds": times}));
        println!("look: {figure}: {spread}");
    }
    Ok(())
}

fn opened_in_s(bench: &Bench, archive: &Path, flags: &[&str]) -> Result<f64> {
    let mut command = Command::new(&bench.tools.plimsoll);
    command.arg("report").arg(archive).args(flags).current_dir(&bench.scratch);
    let began = Instant::now();
    let output = command.stdin(Stdio::null()).output().context("cannot run plimsoll")?;
    let took_s = began.elapsed().as_secs_f64();
    if !output.status.success() {
        bail!("plimsoll report: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(took_s)
}

fn bytes_of(folder: &Path) -> Result<u64> {
    let files = fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    files.map(|file| Ok(file?.metadata()?.len())).sum()
}

fn method(seconds: u32, connections: u32) -> String {
    format!(
        "`plimsoll serve` on CPU {SERVER_CPU}, plimsoll with its coordinator and one client thread on CPU \
         {CLIENT_CPU}, plain HTTP over loopback, in a terminal of 120 by 40 that `script` makes: \
         {RATE_PER_S} requests/s for {seconds} s, and {connections} connections held for {} s with a heartbeat each 10 s. \
         The send lag of a hold is the p99 of its middle second with all connections: their opening fills both CPUs. \
         The displays take turns in each round, and the first one changes; the figures of a row are medians of the differences \
         within the rounds. The live page has one reader that draws nothing. CPU of the coordinator is user and \
         system time from a second after its start to its end. An archive is opened by a process of its own, \
         from start to end; it is the archive of a load of 3 s, its seconds repeated.",
        HELD_TIMES * seconds
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_difference_is_judged_within_its_round() {
        let run = |rate_per_s, send_lag_ms_p99, coordinator_percent| {
            Some(Figures { rate_per_s, send_lag_ms_p99, coordinator_percent })
        };
        let without = run(20_000.0, 0.5, 1.0);
        for (with, expected) in [
            (run(20_000.0, 0.6, 2.0), Outcome::Reached),
            (run(19_500.0, 0.6, 2.0), Outcome::NotReached), // fewer requests
            (run(20_500.0, 0.6, 2.0), Outcome::NotReached), // another load
            (run(20_000.0, 1.6, 2.0), Outcome::NotReached), // late
            (run(20_000.0, 0.6, 4.1), Outcome::NotReached), // too much CPU
            (None, Outcome::NotMeasured),
        ] {
            // A round without its partner says nothing.
            let rounds = vec![[without, with, None], [None, run(1.0, 99.0, 99.0), None]];
            let displays = Displays { id: "load", rounds };
            assert_eq!(displays.row("x", 1, "screen").outcome, expected, "{with:?}");
            assert_eq!(displays.row("x", 2, "live").outcome, Outcome::NotMeasured);
        }
    }
}
