//! The cost of a request to `plimsoll serve`, beside nginx and HAProxy answering from memory. All three
//! run at once and are loaded in turn; what is idle costs the others nothing.

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::bench::client::{Connection, Extent, Load};
use crate::bench::comparison::{Comparison, Entrant, Target};
use crate::bench::results::{Results, Spread};
use crate::bench::server::{Server, ServerKind};
use crate::bench::tool::Tool;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU, footprint};

const ROUNDS: u32 = 5;
const SECONDS: u32 = 5;
const CONNECTIONS: u32 = 100;
const TARGET: Target = Target::BelowAll { required: &["nginx", "HAProxy"] };

/// One server under one kind of load for a while.
#[derive(Clone, Copy)]
struct Sample {
    cpu_us: f64,
    ops: u64,
    failed: u64,
    rate_per_s: f64,
}

/// One kind of load on all servers.
struct Contest {
    is_tls: bool,
    comparison: Comparison,
    /// In the order of the entrants: requests per second and busy fraction of its CPU, each round.
    rates: Vec<Vec<(f64, f64)>>,
}

impl Contest {
    fn new(is_tls: bool) -> Self {
        let (id, what) = match is_tls {
            false => ("serve-plain", "CPU of `serve` per request, plain, us"),
            true => ("serve-tls", "CPU of `serve` per request, TLS 1.3, us"),
        };
        let entrants = ServerKind::ALL.map(|kind| Entrant::new(kind.name(), None)).to_vec();
        let rates = vec![Vec::new(); entrants.len()];
        let comparison = Comparison { id, what, target: Some(TARGET), decimals: 2, entrants };
        Self { is_tls, comparison, rates }
    }

    fn add(&mut self, nth: usize, sample: Option<Sample>) {
        let entrant = &mut self.comparison.entrants[nth];
        entrant.series.0.push(sample.map(|sample| sample.cpu_us));
        if let Some(Sample { cpu_us, ops, failed, rate_per_s }) = sample {
            entrant.ops += ops;
            entrant.failed += failed;
            self.rates[nth].push((rate_per_s, cpu_us * rate_per_s / 1e6));
        }
    }

    fn report(&self, results: &mut Results) {
        self.comparison.row().into_iter().for_each(|row| results.row(row, ""));
        for (mut figure, rates) in self.comparison.figures().into_iter().zip(&self.rates) {
            figure["requests_per_s"] = json!(Spread::of(rates.iter().map(|(rate, _)| *rate)));
            figure["busy"] = json!(Spread::of(rates.iter().map(|(_, busy)| *busy)));
            results.figures.push(figure);
        }
    }
}

/// Measures all rounds and fills the results.
pub(crate) fn measure(bench: &Bench, results: &mut Results) -> Result<()> {
    let Bench { settings, tools, scratch } = bench;
    let rounds = settings.rounds_or(ROUNDS);
    let extent = Extent {
        connections: settings.connections_or(CONNECTIONS),
        seconds: settings.seconds_or(SECONDS),
    };
    results.method = method(rounds, extent);
    if !tools.has(Tool::Wrk) {
        bail!("{}", Tool::Wrk.missing());
    }
    let mut servers = Vec::new();
    for kind in ServerKind::ALL {
        results.note_command(kind.shown());
        // Each has files of its own.
        let folder = scratch.join(format!("serve-{}", kind.program()));
        std::fs::create_dir_all(&folder)?;
        servers.push(match Server::start(kind, &tools.plimsoll, &folder) {
            Ok(server) => Some(server),
            Err(error) => {
                results.fail(format!("{error:#}"));
                None
            }
        });
    }
    let mut contests = [Contest::new(false), Contest::new(true)];
    for round in 0..rounds {
        for contest in &mut contests {
            for nth in contest.comparison.order(round) {
                let Some(server) = &servers[nth] else { continue };
                let sample = sample(bench, server, extent, contest.is_tls, results);
                let name = contest.comparison.entrants[nth].name;
                let what = format!("{}: {name}, round {}", contest.comparison.what, round + 1);
                match &sample {
                    Ok(sample) => println!("serve: {what}: {:.2}", sample.cpu_us),
                    Err(error) => results.fail(format!("{what}: {error:#}")),
                }
                contest.add(nth, sample.ok());
            }
        }
    }
    contests.iter().for_each(|contest| contest.report(results));
    Ok(())
}

/// Runs wrk against one server, and measures the cost for the server.
fn sample(
    bench: &Bench,
    server: &Server,
    extent: Extent,
    is_tls: bool,
    results: &mut Results,
) -> Result<Sample> {
    let load = Load { is_tls, connection: Connection::Kept };
    let job = bench.tools.job(Tool::Wrk, &server.url(is_tls), extent, load);
    let job = job.context("wrk cannot make this load")?;
    results.note_command(job.shown());
    let before_s = footprint::cpu_s(server.pid());
    let (sample, rate_per_s) = job.run_wrk()?;
    let cpu_us = (footprint::cpu_s(server.pid()) - before_s) * 1e6 / sample.ops as f64;
    Ok(Sample { cpu_us, ops: sample.ops, failed: sample.failed, rate_per_s })
}

fn method(rounds: u32, extent: Extent) -> String {
    let Extent { connections, seconds } = extent;
    format!(
        "Medians over {rounds} rounds of {seconds} s. Every server is one process with one thread on \
         CPU {SERVER_CPU} and answers `pong`; wrk on CPU {CLIENT_CPU} asks as fast as it can over \
         {connections} keep-alive connections. The servers take turns, and the first one changes. The \
         figure is the server's user and system time per request. `requests_per_s` is a limit of the \
         server only where it was busy all the time (`busy` near 1); elsewhere wrk was the limit, which \
         favours the slower servers: a fast one has fewer requests to answer each time it wakes."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_server_is_told_from_one_that_waited() {
        let mut contest = Contest::new(true);
        for (nth, rate_per_s) in [(0, 250_000.0), (1, 125_000.0)] {
            contest.add(nth, Some(Sample { cpu_us: 4.0, ops: 1_000, failed: 0, rate_per_s }));
        }
        let mut results = Results::new("serve", [].into());
        contest.report(&mut results);
        let busy: Vec<_> = results.figures.iter().map(|of| of["busy"]["median"].as_f64()).collect();
        assert_eq!(busy, [Some(1.0), Some(0.5), None]);
        assert_eq!(results.rows[0].id, "serve-tls");
    }
}
