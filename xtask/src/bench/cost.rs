//! The cost of a request and a connection in plimsoll's client beside every peer on the machine, whether
//! the number of connections changes that, and how exactly a schedule is kept.

use anyhow::{Context, Result, bail};
use serde_json::json;

use crate::bench::client::{Connection, Extent, Load};
use crate::bench::comparison::{Comparison, Entrant, Series, Target};
use crate::bench::results::{Outcome, Results, Row, Spread};
use crate::bench::server::Server;
use crate::bench::tool::Tool;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU};

const ROUNDS: u32 = 5;
const SECONDS: u32 = 5;
const CONNECTIONS: u32 = 100;
/// Connections at most: every tool handles this number on one core.
const CONNECTIONS_MAX: u32 = 1_000;
/// The schedule that plimsoll must keep, operations per second.
const RATE_PER_S: u32 = 5_000;
/// Achieved may differ from offered by so much, %.
const OFF_PERCENT_MAX: f64 = 0.5;
/// Limit of the send lag's p99.
const LAG_MS_MAX: f64 = 1.0;
/// Connections over which the cost of a TLS request is compared with itself.
const SIZES: [u32; 3] = [100, 1_000, 10_000];
/// The most expensive of them over the cheapest.
const SIZES_RATIO_MAX: f64 = 1.2;

/// One load by every tool that can make it, against the same server.
struct Scenario {
    id: &'static str,
    what: &'static str,
    load: Load,
    /// Without one, the figure is plimsoll's own.
    target: Option<Target>,
}

const SCENARIOS: [Scenario; 5] = [
    Scenario {
        id: "request-plain",
        what: "client CPU per keep-alive HTTP/1.1 request, plain, us",
        load: Load { is_tls: false, connection: Connection::Kept },
        target: Some(Target::OfPeer { max: 0.8, peer: "wrk" }),
    },
    Scenario {
        id: "request-tls",
        what: "client CPU per keep-alive HTTP/1.1 request, TLS 1.3, us",
        load: Load { is_tls: true, connection: Connection::Kept },
        target: Some(Target::OfBest { max: 0.65, required: &["wrk"] }),
    },
    Scenario {
        id: "new-connection",
        what: "client CPU per new full TLS 1.3 connection with one request, us",
        load: Load { is_tls: true, connection: Connection::PerRequest },
        target: Some(Target::OfPeer { max: 0.65, peer: "oha" }),
    },
    Scenario {
        id: "resumed-connection",
        what: "client CPU per new resumed TLS 1.3 connection with one request, us",
        load: Load { is_tls: true, connection: Connection::Resumed },
        target: None,
    },
    Scenario {
        id: "handshake",
        what: "client CPU per new full TLS 1.3 connection without a request, us",
        load: Load { is_tls: true, connection: Connection::HandshakeOnly },
        target: None,
    },
];

/// Measures all rounds and fills the results.
pub(crate) fn measure(bench: &Bench, results: &mut Results) -> Result<()> {
    let Bench { settings, tools, scratch } = bench;
    let rounds = settings.rounds_or(ROUNDS);
    let connections = settings.connections_or(CONNECTIONS);
    if connections > CONNECTIONS_MAX {
        bail!("--connections {connections}: cost is measured with at most {CONNECTIONS_MAX}");
    }
    let extent = Extent { connections, seconds: settings.seconds_or(SECONDS) };
    results.method = method(rounds, extent, settings.server.name());
    let server = Server::start(settings.server, &tools.plimsoll, scratch)?;
    results.note_command(settings.server.shown());
    let mut comparisons = SCENARIOS.each_ref().map(|scenario| entered(bench, scenario, results));
    let mut schedule = Schedule::default();
    let mut sizes = SIZES.map(|_| Series::default());
    for round in 0..rounds {
        let turn = Turn { bench, server: &server, extent, round };
        for (scenario, comparison) in SCENARIOS.iter().zip(&mut comparisons) {
            turn.compare(scenario, comparison, results);
        }
        for (size, series) in SIZES.into_iter().zip(&mut sizes) {
            series.0.push(turn.tls_request_us(size, results));
        }
        schedule.add(&turn, results);
    }
    for comparison in &comparisons {
        comparison.row().into_iter().for_each(|row| results.row(row, ""));
        results.figures.extend(comparison.figures());
    }
    results.row(sizes_row(&sizes), "");
    schedule.rows().into_iter().for_each(|row| results.row(row, ""));
    for (size, series) in SIZES.iter().zip(&sizes) {
        let what =
            format!("client CPU per keep-alive HTTP/1.1 request, TLS 1.3, {size} connections, us");
        let spread = series.spread();
        let figure = json!({"what": what, "who": "plimsoll", "spread": spread, "rounds": series.0});
        results.figures.push(figure);
    }
    Ok(())
}

/// Returns a comparison with everyone who can take part; who is missing is named in the results.
fn entered(bench: &Bench, scenario: &Scenario, results: &mut Results) -> Comparison {
    let mut entrants = vec![Entrant::new(Tool::Plimsoll.name(), None)];
    // Peers are not measured in scenarios that only plimsoll supports.
    let peers = if scenario.target.is_some() { &Tool::PEERS[..] } else { &[] };
    for tool in peers {
        let excuse = match (bench.tools.has(*tool), scenario.load.connection) {
            (false, _) => Some(tool.missing()),
            (true, Connection::PerRequest) if *tool == Tool::H2load => {
                Some("it opens no connection per request".to_owned())
            }
            _ => None,
        };
        let missing = excuse.clone().filter(|_| !bench.tools.has(*tool));
        results.missing.extend(missing.filter(|what| !results.missing.contains(what)));
        entrants.push(Entrant::new(tool.name(), excuse));
    }
    let Scenario { id, what, target, .. } = *scenario;
    Comparison { id, what, target, decimals: 2, entrants }
}

/// One round.
struct Turn<'a> {
    bench: &'a Bench,
    server: &'a Server,
    extent: Extent,
    round: u32,
}

impl Turn<'_> {
    /// Measures all tools in one scenario. A tool that fails does not stop the others.
    fn compare(&self, scenario: &Scenario, comparison: &mut Comparison, results: &mut Results) {
        let url = match scenario.load.connection {
            Connection::Resumed => self.server.tickets_url(),
            _ => self.server.url(scenario.load.is_tls),
        };
        for nth in comparison.order(self.round) {
            let entrant = &mut comparison.entrants[nth];
            let what = format!("{}, round {}, {}", scenario.what, self.round + 1, entrant.name);
            let tool = Tool::named(entrant.name);
            let job = self.bench.tools.job(tool, &url, self.extent, scenario.load);
            let job = job.context("it cannot make this load");
            let sample = job.and_then(|job| {
                results.note_command(job.shown());
                job.run()
            });
            match &sample {
                Ok(sample) => {
                    println!("cost: {what}: {:.2}, {} failed", sample.cpu_us(), sample.failed);
                    entrant.ops += sample.ops;
                    entrant.failed += sample.failed;
                }
                Err(error) => results.fail(format!("{what}: {error:#}")),
            }
            entrant.series.0.push(sample.ok().map(|sample| sample.cpu_us()));
        }
    }

    /// Returns the cost of a TLS request over this many connections: a long load minus a short one, so
    /// that what opening them costs cancels out.
    fn tls_request_us(&self, connections: u32, results: &mut Results) -> Option<f64> {
        let load = Load { is_tls: true, connection: Connection::Kept };
        let run = |seconds, results: &mut Results| {
            let extent = Extent { connections, seconds };
            let job = self.bench.tools.job(Tool::Plimsoll, &self.server.url(true), extent, load);
            let job = job.context("it cannot make this load")?;
            results.note_command(job.shown());
            job.run()
        };
        let seconds = self.extent.seconds;
        let pair = run(1, results).and_then(|short| Ok((short, run(seconds + 1, results)?)));
        match pair {
            Ok((short, long)) => {
                let cpu_us = (long.cpu_s - short.cpu_s) * 1e6 / (long.ops - short.ops) as f64;
                println!("cost: TLS request, {connections} connections: {cpu_us:.2}");
                Some(cpu_us)
            }
            Err(error) => {
                results.fail(format!("TLS request, {connections} connections: {error:#}"));
                None
            }
        }
    }
}

/// Returns the row on the cost of a TLS request, which must be the same over few and over many connections.
fn sizes_row(sizes: &[Series; 3]) -> Row {
    let medians = sizes.each_ref().map(|series| series.spread().median);
    let (min, max) = medians.iter().fold((f64::INFINITY, 0.0), |(min, max): (f64, f64), median| {
        (min.min(*median), max.max(*median))
    });
    let outcome = match medians.iter().any(|median| median.is_nan()) {
        true => Outcome::NotMeasured,
        false => Outcome::of(max <= min * SIZES_RATIO_MAX),
    };
    let shown = sizes.each_ref().map(|series| series.spread().to_string()).join("; ");
    Row {
        ratio: format!("{:.2}", max / min),
        ..Row::alone(
            "request-tls-connections",
            "client CPU per TLS 1.3 request over 100; 1,000; 10,000 connections, us",
            shown,
            "within 20 % of each other",
            outcome,
        )
    }
}

/// The precision with which plimsoll keeps a schedule over plain keep-alive connections.
#[derive(Default)]
struct Schedule {
    achieved_percent: Vec<f64>,
    send_lag_ms_p99: Vec<f64>,
}

impl Schedule {
    fn add(&mut self, turn: &Turn<'_>, results: &mut Results) {
        let Extent { connections, seconds } = turn.extent;
        let words = format!(
            "load {} --rate {RATE_PER_S} --connections {connections} --duration {seconds}s \
             --threads 1 --processes 1 --no-ui",
            turn.server.url(false)
        );
        results.note_command(format!("taskset -c {CLIENT_CPU} plimsoll {words}"));
        let summary = turn.bench.tools.summary(&words);
        let figures = summary.and_then(|summary| {
            let figure = |value: &serde_json::Value| value.as_f64().context("not in the summary");
            let rate = &summary["rate"];
            let share = figure(&rate["achieved_per_s"])? / figure(&rate["offered_per_s"])?;
            Ok((100.0 * share, figure(&summary["send_lag_ms"]["p99"])?))
        });
        match figures {
            Ok((achieved, lag)) => {
                self.achieved_percent.push(achieved);
                self.send_lag_ms_p99.push(lag);
            }
            Err(error) => results.fail(format!("schedule, round {}: {error:#}", turn.round + 1)),
        }
    }

    fn rows(&self) -> [Row; 2] {
        let achieved = Spread::of(self.achieved_percent.iter().copied());
        let lag = Spread::of(self.send_lag_ms_p99.iter().copied()).decimals(3);
        let outcome = |spread: Spread, is_met| match spread.median.is_nan() {
            true => Outcome::NotMeasured,
            false => Outcome::of(is_met),
        };
        [
            Row::alone(
                "achieved",
                &format!("achieved of offered at {RATE_PER_S}/s, %"),
                achieved.to_string(),
                &format!("100 +- {OFF_PERCENT_MAX}"),
                outcome(achieved, (achieved.median - 100.0).abs() <= OFF_PERCENT_MAX),
            ),
            Row::alone(
                "send-lag",
                &format!("send lag p99 at {RATE_PER_S}/s, ms"),
                lag.to_string(),
                &format!("below {LAG_MS_MAX}"),
                outcome(lag, lag.median < LAG_MS_MAX),
            ),
        ]
    }
}

fn method(rounds: u32, extent: Extent, server: &str) -> String {
    let Extent { connections, seconds } = extent;
    format!(
        "Medians over {rounds} rounds of {seconds} s. The tools run one after another within each round, and the \
         first one changes. The server ({server}) is one process on CPU {SERVER_CPU}; the client runs \
         on CPU {CLIENT_CPU} with {connections} connections, as fast as it can. Cost is the user and \
         system time of the client and its children per successful operation. No client verifies the \
         certificate (ECDSA P-256, TLS 1.3); only the client that is asked to resumes sessions, on a \
         port of its own. Requests over 100 to 10,000 connections: a load of {} s minus one of 1 s.",
        seconds + 1
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_connections_may_cost_a_fifth_more() {
        let series = |median: f64| Series(vec![Some(median)]);
        for (medians, ratio, outcome) in [
            ([10.0, 11.0, 12.0], "1.20", Outcome::Reached),
            ([12.1, 11.0, 10.0], "1.21", Outcome::NotReached), // in any order
            ([10.0, 11.0, f64::NAN], "1.10", Outcome::NotMeasured),
        ] {
            let row = sizes_row(&medians.map(series));
            assert_eq!((row.outcome, &*row.ratio), (outcome, ratio));
        }
    }

    #[test]
    fn a_schedule_is_kept_within_its_limits() {
        for (achieved, lag, expected) in [
            (99.6, 0.9, [Outcome::Reached, Outcome::Reached]),
            (99.4, 1.0, [Outcome::NotReached, Outcome::NotReached]),
            (100.6, 0.1, [Outcome::NotReached, Outcome::Reached]),
        ] {
            let schedule =
                Schedule { achieved_percent: vec![achieved], send_lag_ms_p99: vec![lag] };
            assert_eq!(schedule.rows().map(|row| row.outcome), expected);
        }
        let unknown = Schedule::default().rows().map(|row| row.outcome);
        assert_eq!(unknown, [Outcome::NotMeasured; 2]);
    }
}
