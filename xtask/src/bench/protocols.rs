//! What an operation of the other protocols costs plimsoll's client: HTTP/2 beside h2load, gRPC beside ghz,
//! WebSocket and MQTT beside plimsoll's own HTTP/1.1 in the same round.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::client::count::count;
use crate::bench::client::words::SUMMARY;
use crate::bench::client::{self, Sample};
use crate::bench::comparison::{Comparison, Entrant, Series, Target};
use crate::bench::results::{Outcome, Results, Row};
use crate::bench::server::Server;
use crate::bench::tool::Tool;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU};
use crate::packages;

const ROUNDS: u32 = 5;
const SECONDS: u32 = 5;
const CONNECTIONS: u32 = 100;
/// Each of HTTP/2 and gRPC carries many operations.
const SHARED_CONNECTIONS: u32 = 10;
/// 32 streams on a connection may cost so much of what one costs.
const STREAMS_RATIO_MAX: f64 = 1.0 / 3.0;
const PAYLOAD_BYTES: usize = 64;
const OWN_HTTP1: &str = "its HTTP/1.1";
const GHZ: &str = "ghz";
const GHZ_MISSING: &str = "ghz: missing (go install github.com/bojand/ghz/cmd/ghz@v0.121.0)";
/// What ghz reads of the service that it calls.
const PROTO: &str = "health.proto";
const PROTO_TEXT: &str = "syntax = \"proto3\";\npackage grpc.health.v1;\n\
    message HealthCheckRequest { string service = 1; }\n\
    message HealthCheckResponse { int32 status = 1; }\n\
    service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }\n";

/// A program, and how it is asked for its load.
struct Client {
    name: &'static str,
    program: Option<PathBuf>,
    /// Why it is not there.
    missing: String,
    words: String,
    counts: fn(&str) -> Option<(u64, u64)>,
}

/// The same operations by plimsoll, and by what it is compared with.
struct Contest {
    comparison: Comparison,
    clients: [Client; 2],
}

/// Measures all rounds and fills the results.
pub(crate) fn measure(bench: &Bench, results: &mut Results) -> Result<()> {
    let rounds = bench.settings.rounds_or(ROUNDS);
    results.method = method(rounds, bench.settings.seconds_or(SECONDS));
    fs::write(bench.scratch.join(PROTO), PROTO_TEXT).context(PROTO)?;
    let (server, mqtt) = Server::with_mqtt(&bench.tools.plimsoll)?;
    results.note_command(format!(
        "taskset -c {SERVER_CPU} plimsoll serve --http ADDRESS --https ADDRESS --mqtt ADDRESS --mqtts ADDRESS --threads 1"
    ));
    let mut contests = contests(bench, &server, mqtt, results);
    for round in 0..rounds {
        for contest in &mut contests {
            contest.round(bench, round, results);
        }
    }
    for Contest { comparison, .. } in &contests {
        comparison.row().into_iter().for_each(|row| results.row(row, ""));
        results.figures.extend(comparison.figures());
    }
    let ours = |id: &str| {
        let found = contests.iter().find(|contest| contest.comparison.id == id);
        found.map(|contest| &contest.comparison.entrants[0].series)
    };
    if let Some((many, one)) = ours("http2-32").zip(ours("http2-1")) {
        results.row(streams_row(many, one), "");
    }
    Ok(())
}

fn contests(
    bench: &Bench,
    server: &Server,
    [mqtt, mqtts]: [SocketAddr; 2],
    results: &mut Results,
) -> Vec<Contest> {
    let seconds = bench.settings.seconds_or(SECONDS);
    let connections = bench.settings.connections_or(CONNECTIONS);
    let payload = "x".repeat(PAYLOAD_BYTES);
    let ours = |name, url: &str, connections: u32, more: &str| Client {
        name,
        program: Some(bench.tools.plimsoll.clone()),
        missing: String::new(),
        words: format!(
            "load {url} --rate 0 --connections {connections} --duration {seconds}s --threads 1 --processes 1 \
             --no-ui --insecure --json {SUMMARY} {more}"
        ),
        counts: |report| count(Tool::Plimsoll, report),
    };
    let [plain, tls] = [server.url(false), server.url(true)];
    let http1 = |url: &str| ours(OWN_HTTP1, url, connections, "");
    let h2load = |streams: u32| Client {
        name: Tool::H2load.name(),
        program: packages::find(Tool::H2load.name()),
        missing: Tool::H2load.missing(),
        // The suite that plimsoll asks for.
        words: format!(
            "-t1 -c{SHARED_CONNECTIONS} -m{streams} -D {seconds} --tls13-ciphers TLS_AES_128_GCM_SHA256 {tls}"
        ),
        counts: |report| count(Tool::H2load, report),
    };
    let http2 = |streams: u32| {
        let more = format!("--http 2 --streams {streams}");
        ours(Tool::Plimsoll.name(), &tls, SHARED_CONNECTIONS, &more)
    };
    let address = plain.trim_start_matches("http://").trim_end_matches('/');
    let ghz = Client {
        name: GHZ,
        program: packages::find(GHZ),
        missing: GHZ_MISSING.to_owned(),
        words: format!(
            "--insecure --proto {PROTO} --call grpc.health.v1.Health.Check --cpus 1 --connections {SHARED_CONNECTIONS} \
             --concurrency {} --duration {seconds}s --duration-stop wait --format json {address}",
            SHARED_CONNECTIONS * 10
        ),
        counts: count_ghz,
    };
    let grpc = "--grpc grpc.health.v1.Health/Check --streams 10";
    let sent = |name, url: &str| ours(name, url, connections, &format!("--data {payload}"));
    let own = |max| Target::OfPeer { max, peer: OWN_HTTP1 };
    let beside = |max, peer| Target::OfPeer { max, peer };
    let name = Tool::Plimsoll.name();
    let all = [
        (
            "http2-1",
            "client CPU per HTTP/2 request, TLS 1.3, 10 connections with 1 stream each, us",
            beside(0.8, Tool::H2load.name()),
            [http2(1), h2load(1)],
        ),
        (
            "http2-32",
            "client CPU per HTTP/2 request, TLS 1.3, 10 connections with 32 streams each, us",
            beside(0.8, Tool::H2load.name()),
            [http2(32), h2load(32)],
        ),
        (
            "grpc",
            "client CPU per unary call of gRPC, 10 connections with 10 streams each, us",
            beside(0.2, GHZ),
            [ours(name, &plain, SHARED_CONNECTIONS, grpc), ghz],
        ),
        (
            "websocket",
            "client CPU per WebSocket echo of 64 bytes, us",
            own(1.1),
            [sent(name, &plain.replacen("http", "ws", 1)), http1(&plain)],
        ),
        (
            "mqtt-plain",
            "client CPU per MQTT publish of 64 bytes at QoS 1, us",
            own(1.1),
            [sent(name, &format!("mqtt://{mqtt}")), http1(&plain)],
        ),
        (
            "mqtt-tls",
            "client CPU per MQTT publish of 64 bytes at QoS 1, TLS 1.3, us",
            own(1.1),
            [sent(name, &format!("mqtts://{mqtts}")), http1(&tls)],
        ),
    ];
    let entered = all.into_iter().map(|(id, what, target, clients)| {
        let entrants = clients.each_ref().map(|client| {
            let excuse = client.program.is_none().then(|| client.missing.clone());
            results.missing.extend(excuse.clone().filter(|what| !results.missing.contains(what)));
            Entrant::new(client.name, excuse)
        });
        let target = Some(target);
        let comparison = Comparison { id, what, target, decimals: 2, entrants: entrants.to_vec() };
        Contest { comparison, clients }
    });
    entered.collect()
}

impl Contest {
    /// One that fails does not stop the others.
    fn round(&mut self, bench: &Bench, round: u32, results: &mut Results) {
        for nth in self.comparison.order(round) {
            let client = &self.clients[nth];
            let what = format!("{}, round {}, {}", self.comparison.what, round + 1, client.name);
            let program =
                client.program.as_ref().and_then(|path| path.file_name()).unwrap_or_default();
            let shown = program.to_string_lossy();
            results.note_command(format!("taskset -c {CLIENT_CPU} {shown} {}", client.words));
            let sample = client.run(bench);
            let entrant = &mut self.comparison.entrants[nth];
            match &sample {
                Ok(sample) => {
                    println!("protocols: {what}: {:.2}, {} failed", sample.cpu_us(), sample.failed);
                    entrant.ops += sample.ops;
                    entrant.failed += sample.failed;
                }
                Err(error) => results.fail(format!("{what}: {error:#}")),
            }
            entrant.series.0.push(sample.ok().map(|sample| sample.cpu_us()));
        }
    }
}

impl Client {
    fn run(&self, bench: &Bench) -> Result<Sample> {
        let program = self.program.as_ref().context("it is missing")?;
        let (output, cpu_s) = client::execute(program, &self.words, &bench.scratch)?;
        let report = match fs::read_to_string(bench.scratch.join(SUMMARY)) {
            Ok(summary) => summary,
            Err(_) => String::from_utf8_lossy(&output.stdout).into_owned(),
        };
        match (self.counts)(&report) {
            Some((ops @ 1.., failed)) => Ok(Sample { cpu_s, ops, failed }),
            _ => bail!("no operations counted\n{report}"),
        }
    }
}

/// Its statuses by name, OK among them.
fn count_ghz(report: &str) -> Option<(u64, u64)> {
    let report: Value = serde_json::from_str(report).ok()?;
    let statuses = report["statusCodeDistribution"].as_object()?;
    let ok = statuses.get("OK").and_then(Value::as_u64).unwrap_or(0);
    Some((ok, statuses.values().filter_map(Value::as_u64).sum::<u64>() - ok))
}

/// That many streams on a connection save most of what a request costs.
fn streams_row(many: &Series, one: &Series) -> Row {
    let ratio = many.over(one);
    let outcome = match ratio.median.is_nan() {
        true => Outcome::NotMeasured,
        false => Outcome::of(ratio.median <= STREAMS_RATIO_MAX),
    };
    Row::alone(
        "http2-32-over-1",
        "client CPU per HTTP/2 request with 32 streams over that with 1",
        ratio.to_string(),
        "a third or less",
        outcome,
    )
}

fn method(rounds: u32, seconds: u32) -> String {
    format!(
        "Medians over {rounds} rounds of {seconds} s. The clients of a figure run one after another within each round, and the \
         first one changes. The server is one `plimsoll serve` with one thread on CPU {SERVER_CPU}, which speaks all of these \
         protocols; the client runs on CPU {CLIENT_CPU}, as fast as it can. Cost is the user and system time of the client per \
         successful operation. HTTP/1.1 is a keep-alive request of plimsoll's own, over as many connections as the protocol that is \
         beside it, answered with 4 bytes."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ghz_counts() {
        let report = r#"{"statusCodeDistribution": {"OK": 90, "Unavailable": 10}}"#;
        assert_eq!(count_ghz(report), Some((90, 10)));
        assert_eq!(count_ghz(r#"{"statusCodeDistribution": {"Unavailable": 1}}"#), Some((0, 1)));
        assert_eq!(count_ghz("usage"), None);
    }

    #[test]
    fn many_streams_are_judged_against_one() {
        let series = |cpu_us: f64| Series(vec![Some(cpu_us)]);
        for (many, outcome) in
            [(3.0, Outcome::Reached), (3.1, Outcome::NotReached), (f64::NAN, Outcome::NotMeasured)]
        {
            assert_eq!(streams_row(&series(many), &series(9.0)).outcome, outcome);
        }
    }
}
