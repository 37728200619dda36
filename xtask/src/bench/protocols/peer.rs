//! The programs beside which plimsoll's other protocols are measured: their command lines and their counts.
//!
//! Each function returns a [`Client`]: the program's path, its command line, the place of its report, and a function
//! that counts succeeded and failed operations in it. [`prepare`] writes the files that the peers read: the service
//! of ghz, the script of k6 and the Python program of paho. Every peer makes the load that plimsoll makes, with
//! payloads of 64 bytes where the protocol has one. Start with [`h2load`].

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

use crate::bench::client::Extent;
use crate::bench::client::count::count;
use crate::bench::client::words::K6_SUMMARY;
use crate::bench::protocols::Client;
use crate::bench::tool::Tool;
use crate::packages;

pub(super) const GHZ: &str = "ghz";
pub(super) const PAHO: &str = "paho";
pub(super) const MQTTV5: &str = "mqttv5-cli";
const GHZ_MISSING: &str = "ghz: missing (go install github.com/bojand/ghz/cmd/ghz@v0.121.0)";
const PAHO_MISSING: &str = "paho: missing (apt-get install python3-paho-mqtt)";
const MQTTV5_MISSING: &str = "mqttv5-cli: missing (cargo install mqttv5-cli --version 0.29.10)";

/// File of the service that ghz calls.
const PROTO: &str = "health.proto";
const PROTO_TEXT: &str = "syntax = \"proto3\";\npackage grpc.health.v1;\n\
    message HealthCheckRequest { string service = 1; }\n\
    message HealthCheckResponse { int32 status = 1; }\n\
    service Health { rpc Check(HealthCheckRequest) returns (HealthCheckResponse); }\n";
/// Script of k6: each virtual user sends its next message once the last one has come back.
const ECHO: &str = "echo.js";
const ECHO_TEXT: &str = "\
import { WebSocket } from 'k6/websockets';
import { Counter } from 'k6/metrics';
const echoes = new Counter('echoes');
const failures = new Counter('failures');
export const options = { scenarios: { all: {
  executor: 'per-vu-iterations', vus: Number(__ENV.VUS), iterations: 1, maxDuration: '10m', gracefulStop: '1s',
} } };
export default function () {
  const ws = new WebSocket(__ENV.URL);
  const message = 'x'.repeat(64);
  const end = Date.now() + __ENV.SECONDS * 1000;
  ws.onopen = () => ws.send(message);
  ws.onmessage = () => {
    echoes.add(1);
    if (Date.now() < end) ws.send(message); else ws.close();
  };
  ws.onerror = () => { failures.add(1); ws.close(); };
}
";
/// Debian's, which has Debian's paho; another one in PATH has not.
const PYTHON: &str = "/usr/bin/python3";
const PAHO_MODULE: &str = "/usr/lib/python3/dist-packages/paho/mqtt/client.py";
/// 100 clients of paho on one selector, since a thread for each would cost more: each publishes again once PUBACK
/// has come.
const PUBLISH: &str = "publish.py";
const PUBLISH_TEXT: &str = "\
import json, selectors, ssl, sys, time
import paho.mqtt.client as mqtt

address, is_tls, count, seconds = sys.argv[1], sys.argv[2] == 'tls', int(sys.argv[3]), float(sys.argv[4])
host, port = address.rsplit(':', 1)
counts = {'ok': 0, 'failed': 0}
payload, end = b'x' * 64, None
selector = selectors.DefaultSelector()

def on_publish(client, topic, mid):
    counts['ok'] += 1
    publish(client, topic)

def publish(client, topic):
    if time.monotonic() < end:
        client.publish(topic, payload, 1)

context = ssl.create_default_context()
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
clients = []
for nth in range(count):
    client = mqtt.Client('paho-%d' % nth, protocol=mqtt.MQTTv5, userdata='bench/%d' % nth)
    if is_tls:
        client.tls_set_context(context)
    client.on_publish = on_publish
    client.connect(host, int(port), 60)
    clients.append(client)
    while not client.is_connected():
        client.loop(1)
    selector.register(client.socket(), selectors.EVENT_READ, client)

end = time.monotonic() + seconds
for nth, client in enumerate(clients):
    publish(client, 'bench/%d' % nth)
while time.monotonic() < end + 1 and counts['failed'] < count:
    ready = selector.select(0.1)
    if not ready and time.monotonic() >= end:
        break
    for key, _ in ready:
        code = key.data.loop_read()
        while code == 0 and key.data.want_write():
            code = key.data.loop_write()
        if code != 0:
            counts['failed'] += 1
            selector.unregister(key.fileobj)
print(json.dumps(counts))
";

/// Writes what the peers read from files, to `folder`.
pub(super) fn prepare(folder: &Path) -> Result<()> {
    for (file, text) in [(PROTO, PROTO_TEXT), (ECHO, ECHO_TEXT), (PUBLISH, PUBLISH_TEXT)] {
        fs::write(folder.join(file), text).context(file)?;
    }
    Ok(())
}

/// Returns `streams` at once on each connection, over TLS.
pub(super) fn h2load(url: &str, streams: u32, Extent { connections, seconds }: Extent) -> Client {
    Client {
        name: Tool::H2load.name(),
        program: packages::find(Tool::H2load.name()),
        missing: Tool::H2load.missing(),
        // The suite that plimsoll asks for.
        words: format!(
            "-t1 -c{connections} -m{streams} -D {seconds} --tls13-ciphers TLS_AES_128_GCM_SHA256 {url}"
        ),
        report: None,
        counts: |report| count(Tool::H2load, report),
    }
}

/// Returns ghz with unary calls, 10 at once on each connection.
pub(super) fn ghz(address: &str, Extent { connections, seconds }: Extent) -> Client {
    Client {
        name: GHZ,
        program: packages::find(GHZ),
        missing: GHZ_MISSING.to_owned(),
        words: format!(
            "--insecure --proto {PROTO} --call grpc.health.v1.Health.Check --cpus 1 --connections {connections} \
             --concurrency {} --duration {seconds}s --duration-stop wait --format json {address}",
            connections * 10
        ),
        report: None,
        counts: count_ghz,
    }
}

/// Echoes of 64 bytes.
pub(super) fn k6(url: &str, Extent { connections, seconds }: Extent) -> Client {
    Client {
        name: Tool::K6.name(),
        program: packages::find(Tool::K6.name()),
        missing: Tool::K6.missing(),
        words: format!(
            "run --quiet --no-usage-report --summary-export={K6_SUMMARY} -e URL={url} -e VUS={connections} \
             -e SECONDS={seconds} {ECHO}"
        ),
        report: Some(K6_SUMMARY),
        counts: count_k6,
    }
}

/// Publishes of 64 bytes at QoS 1.
pub(super) fn paho(
    broker: SocketAddr,
    is_tls: bool,
    Extent { connections, seconds }: Extent,
) -> Client {
    let transport = if is_tls { "tls" } else { "plain" };
    Client {
        name: PAHO,
        program: packages::find(PAHO_MODULE).map(|_| PathBuf::from(PYTHON)),
        missing: PAHO_MISSING.to_owned(),
        words: format!("{PUBLISH} {broker} {transport} {connections} {seconds}"),
        report: None,
        counts: |report| {
            let report: Value = serde_json::from_str(report).ok()?;
            Some((report["ok"].as_u64()?, report["failed"].as_u64()?))
        },
    }
}

/// Publishes of 64 bytes at QoS 1. It counts those that succeeded.
pub(super) fn mqttv5(
    broker: SocketAddr,
    is_tls: bool,
    Extent { connections, seconds }: Extent,
) -> Client {
    let scheme = if is_tls { "mqtts" } else { "mqtt" };
    Client {
        name: MQTTV5,
        program: packages::find("mqttv5"),
        missing: MQTTV5_MISSING.to_owned(),
        words: format!(
            "bench --url {scheme}://{broker} --insecure --qos 1 --payload-size 64 --publishers {connections} \
             --subscribers 0 --warmup 0 --duration {seconds}"
        ),
        report: None,
        counts: |report| {
            let report: Value = serde_json::from_str(report).ok()?;
            Some((report["results"]["published"].as_u64()?, 0))
        },
    }
}

/// Counts a report of ghz: its statuses by name, OK among them.
fn count_ghz(report: &str) -> Option<(u64, u64)> {
    let report: Value = serde_json::from_str(report).ok()?;
    let statuses = report["statusCodeDistribution"].as_object()?;
    let ok = statuses.get("OK").and_then(Value::as_u64).unwrap_or(0);
    Some((ok, statuses.values().filter_map(Value::as_u64).sum::<u64>() - ok))
}

/// Returns the counters of its script; one that never counted is not there.
fn count_k6(summary: &str) -> Option<(u64, u64)> {
    let summary: Value = serde_json::from_str(summary).ok()?;
    let counter = |name: &str| summary["metrics"][name]["count"].as_u64();
    Some((counter("echoes")?, counter("failures").unwrap_or(0)))
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
    fn k6_counts_echoes() {
        let summary = r#"{"metrics": {"echoes": {"count": 7, "rate": 1.4}}}"#;
        assert_eq!(count_k6(summary), Some((7, 0)));
        let broken = r#"{"metrics": {"echoes": {"count": 7}, "failures": {"count": 2}}}"#;
        assert_eq!(count_k6(broken), Some((7, 2)));
        assert_eq!(count_k6("{}"), None);
    }
}
