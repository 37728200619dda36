//! The cost of an operation of the other protocols in plimsoll's client: HTTP/2 beside h2load, gRPC beside ghz,
//! WebSocket beside k6, MQTT beside paho and mqttv5-cli, and both beside plimsoll's own HTTP/1.1 in the same round.

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::bench::client::count::count;
use crate::bench::client::words::SUMMARY;
use crate::bench::client::{self, Extent, Sample};
use crate::bench::comparison::{Comparison, Entrant, Series, Target};
use crate::bench::results::{Outcome, Results, Row};
use crate::bench::server::Server;
use crate::bench::tool::Tool;
use crate::bench::{Bench, CLIENT_CPU, SERVER_CPU};

mod peer;

const ROUNDS: u32 = 5;
const SECONDS: u32 = 5;
const CONNECTIONS: u32 = 100;
/// Each of HTTP/2 and gRPC carries many operations.
const SHARED_CONNECTIONS: u32 = 10;
/// 32 streams on a connection may cost so much of what one costs.
const STREAMS_RATIO_MAX: f64 = 1.0 / 3.0;
const PAYLOAD_BYTES: usize = 64;
const NAME: &str = Tool::Plimsoll.name();
const OWN_HTTP1: &str = "its HTTP/1.1";
const OWN_PUBLISH: &str = "its publish";
/// Each connection gets what it publishes.
const OWN_TOPIC: &str = "--topic own/%i --subscribe own/%i";

/// A program, and how it is asked for its load.
struct Client {
    name: &'static str,
    program: Option<PathBuf>,
    /// Why it is not there.
    missing: String,
    words: String,
    /// The file that it reports to; standard output otherwise.
    report: Option<&'static str>,
    counts: fn(&str) -> Option<(u64, u64)>,
}

/// A set of operations by plimsoll, and by its peer.
struct Contest {
    comparison: Comparison,
    /// plimsoll first.
    clients: Vec<Client>,
}

/// Measures all rounds and fills the results.
pub(crate) fn measure(bench: &Bench, results: &mut Results) -> Result<()> {
    let rounds = bench.settings.rounds_or(ROUNDS);
    results.method = method(rounds, bench.settings.seconds_or(SECONDS));
    peer::prepare(&bench.scratch)?;
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
    mqtt: [SocketAddr; 2],
    results: &mut Results,
) -> Vec<Contest> {
    let seconds = bench.settings.seconds_or(SECONDS);
    let loads = Loads {
        plimsoll: &bench.tools.plimsoll,
        extent: Extent { connections: bench.settings.connections_or(CONNECTIONS), seconds },
        shared: Extent { connections: SHARED_CONNECTIONS, seconds },
        payload: format!("--data {}", "x".repeat(PAYLOAD_BYTES)),
        urls: [server.url(false), server.url(true)],
    };
    let entered = loads.of_http().into_iter().chain(loads.of_mqtt(mqtt));
    let contests = entered.map(|(id, what, target, clients)| {
        let mut entrants = Vec::new();
        for client in &clients {
            let excuse = client.program.is_none().then(|| client.missing.clone());
            results.missing.extend(excuse.clone().filter(|what| !results.missing.contains(what)));
            entrants.push(Entrant::new(client.name, excuse));
        }
        let comparison = Comparison { id, what, target: Some(target), decimals: 2, entrants };
        Contest { comparison, clients }
    });
    contests.collect()
}

/// Identifier, title and target of a contest, and its clients.
type Entry = (&'static str, &'static str, Target, Vec<Client>);

/// The common parts of all loads.
struct Loads<'a> {
    plimsoll: &'a Path,
    extent: Extent,
    /// Extent of loads whose connections carry many operations each.
    shared: Extent,
    /// The flag with the bytes of a message.
    payload: String,
    /// Plain and with TLS, over HTTP.
    urls: [String; 2],
}

impl Loads<'_> {
    fn of_http(&self) -> Vec<Entry> {
        let [plain, tls] = &self.urls;
        let ws = plain.replacen("http", "ws", 1);
        let address = plain.trim_start_matches("http://").trim_end_matches('/');
        let http2 = |streams: u32| {
            self.ours(NAME, tls, self.shared, &format!("--http 2 --streams {streams}"))
        };
        let grpc = "--grpc grpc.health.v1.Health/Check --streams 10";
        vec![
            (
                "http2-1",
                "client CPU per HTTP/2 request, TLS 1.3, 10 connections with 1 stream each, us",
                beside(0.8, Tool::H2load.name()),
                vec![http2(1), peer::h2load(tls, 1, self.shared)],
            ),
            (
                "http2-32",
                "client CPU per HTTP/2 request, TLS 1.3, 10 connections with 32 streams each, us",
                beside(0.8, Tool::H2load.name()),
                vec![http2(32), peer::h2load(tls, 32, self.shared)],
            ),
            (
                "grpc",
                "client CPU per unary call of gRPC, 10 connections with 10 streams each, us",
                beside(0.2, peer::GHZ),
                vec![self.ours(NAME, plain, self.shared, grpc), peer::ghz(address, self.shared)],
            ),
            (
                "websocket",
                "client CPU per WebSocket echo of 64 bytes, us",
                beside(1.1, OWN_HTTP1),
                vec![self.sent(NAME, &ws), self.http1(plain)],
            ),
            (
                "websocket-peer",
                "client CPU per WebSocket echo of 64 bytes, beside k6, us",
                beside(0.1, Tool::K6.name()),
                vec![self.sent(NAME, &ws), peer::k6(&ws, self.extent)],
            ),
        ]
    }

    fn of_mqtt(&self, [mqtt, mqtts]: [SocketAddr; 2]) -> Vec<Entry> {
        let [plain, tls] = &self.urls;
        let [mqtt_url, mqtts_url] = [format!("mqtt://{mqtt}"), format!("mqtts://{mqtts}")];
        let delivered = Client {
            counts: count_deliveries,
            ..self.ours(NAME, &mqtt_url, self.extent, &format!("{} {OWN_TOPIC}", self.payload))
        };
        let quarter = Target::OfBest { max: 0.25, required: &[peer::PAHO, peer::MQTTV5] };
        vec![
            (
                "mqtt-plain",
                "client CPU per MQTT publish of 64 bytes at QoS 1, us",
                beside(1.1, OWN_HTTP1),
                vec![self.sent(NAME, &mqtt_url), self.http1(plain)],
            ),
            (
                "mqtt-plain-peers",
                "client CPU per MQTT publish of 64 bytes at QoS 1, beside other clients, us",
                quarter,
                vec![
                    self.sent(NAME, &mqtt_url),
                    peer::paho(mqtt, false, self.extent),
                    peer::mqttv5(mqtt, false, self.extent),
                ],
            ),
            (
                "mqtt-tls",
                "client CPU per MQTT publish of 64 bytes at QoS 1, TLS 1.3, us",
                beside(1.1, OWN_HTTP1),
                vec![self.sent(NAME, &mqtts_url), self.http1(tls)],
            ),
            (
                "mqtt-tls-peers",
                "client CPU per MQTT publish of 64 bytes at QoS 1, TLS 1.3, beside other clients, us",
                quarter,
                vec![
                    self.sent(NAME, &mqtts_url),
                    peer::paho(mqtts, true, self.extent),
                    peer::mqttv5(mqtts, true, self.extent),
                ],
            ),
            (
                "mqtt-deliveries",
                "client CPU per MQTT publish of 64 bytes at QoS 1 and its delivery, stamped and counted, us",
                // A delivery may cost 0.8 of a publish.
                beside(1.8, OWN_PUBLISH),
                vec![delivered, self.sent(OWN_PUBLISH, &mqtt_url)],
            ),
        ]
    }

    /// Returns plimsoll with the flags `more`.
    fn ours(&self, name: &'static str, url: &str, extent: Extent, more: &str) -> Client {
        Client {
            name,
            program: Some(self.plimsoll.to_owned()),
            missing: String::new(),
            words: format!(
                "load {url} --rate 0 --connections {} --duration {}s --threads 1 --processes 1 --no-ui --insecure \
                 --json {SUMMARY} {more}",
                extent.connections, extent.seconds
            ),
            report: Some(SUMMARY),
            counts: |report| count(Tool::Plimsoll, report),
        }
    }

    fn http1(&self, url: &str) -> Client {
        self.ours(OWN_HTTP1, url, self.extent, "")
    }

    /// Returns plimsoll with messages.
    fn sent(&self, name: &'static str, url: &str) -> Client {
        self.ours(name, url, self.extent, &self.payload)
    }
}

const fn beside(max: f64, peer: &'static str) -> Target {
    Target::OfPeer { max, peer }
}

impl Contest {
    /// Measures one round. A client that fails does not stop the others.
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
        let report = match self.report {
            Some(file) => fs::read_to_string(bench.scratch.join(file)).context(file)?,
            None => String::from_utf8_lossy(&output.stdout).into_owned(),
        };
        match (self.counts)(&report) {
            Some((ops @ 1.., failed)) => Ok(Sample { cpu_s, ops, failed }),
            _ => bail!("no operations counted\n{report}"),
        }
    }
}

/// Deliveries that came, and those that did not.
fn count_deliveries(summary: &str) -> Option<(u64, u64)> {
    let summary: Value = serde_json::from_str(summary).ok()?;
    let deliveries = &summary["deliveries"];
    Some((deliveries["delivered"].as_u64()?, deliveries["lost"].as_u64()?))
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
         beside it, answered with 4 bytes. paho is 100 clients on one selector of Python."
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deliveries_count() {
        let summary = r#"{"ok": 2, "errors": 0, "deliveries": {"delivered": 190, "lost": 10}}"#;
        assert_eq!(count_deliveries(summary), Some((190, 10)));
        assert_eq!(count_deliveries(r#"{"ok": 2, "errors": 0}"#), None);
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
