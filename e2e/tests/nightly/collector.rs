//! OTLP judged by a collector of OpenTelemetry, which its own builder makes with the Go of PATH.

use std::fs;
use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::plimsoll::Plimsoll;
use e2e::process::Guarded;
use e2e::serve::Serve;
use e2e::{port, wait};

use crate::alone;

const BUILDER: &str = "go.opentelemetry.io/collector/cmd/builder@v0.165.0";
/// A receiver of OTLP, and an exporter that prints what has come.
const PARTS: &str = "\
dist: {name: collector, output_path: .}
receivers: [{gomod: go.opentelemetry.io/collector/receiver/otlpreceiver v0.165.0}]
exporters: [{gomod: go.opentelemetry.io/collector/exporter/debugexporter v0.165.0}]
providers: [{gomod: go.opentelemetry.io/collector/confmap/provider/fileprovider v1.71.0}]
conf_resolver: {default_uri_scheme: file}
";

/// Returns the collector, built once.
fn built() -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("collector");
    let collector = folder.join("collector");
    if !collector.exists() {
        fs::create_dir_all(&folder).expect("the target folder is writable");
        fs::write(folder.join("parts.yaml"), PARTS).expect("it is writable");
        let mut build = Command::new("go");
        build.args(["run", BUILDER, "--config", "parts.yaml"]).current_dir(&folder);
        let status = build.env("GOFLAGS", "").stdin(Stdio::null()).status().expect("go runs");
        assert!(status.success(), "{build:?}: {status}");
    }
    collector
}

fn config(listen: SocketAddr) -> String {
    format!(
        "receivers: {{otlp: {{protocols: {{http: {{endpoint: '{listen}'}}}}}}}}\n\
         exporters: {{debug: {{verbosity: detailed, use_internal_logger: false}}}}\n\
         service:\n  telemetry: {{metrics: {{level: none}}}}\n  \
         pipelines: {{metrics: {{receivers: [otlp], exporters: [debug]}}}}\n"
    )
}

/// Returns the printed lines of one metric of an export.
fn metric<'a>(export: &'a str, name: &str) -> &'a str {
    let begin = format!("-> Name: {name}\n");
    let (_, after) = export.split_once(&begin).unwrap_or_else(|| panic!("no {name} in {export}"));
    after.split("Metric #").next().unwrap_or_default()
}

/// Returns the number after `name` in the first line that has it.
fn number(text: &str, name: &str) -> f64 {
    let line = text.lines().find_map(|line| line.trim().strip_prefix(name));
    let number = line.and_then(|rest| rest.trim().parse().ok());
    number.unwrap_or_else(|| panic!("no {name:?} in {text}"))
}

#[test]
#[ignore = "builds a collector"]
fn a_collector_gets_the_figures_of_the_summary() {
    let _alone = alone();
    let collector = built();
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let listen = port::free();
    let place = folder.path().join("collector.yaml");
    fs::write(&place, config(listen)).expect("it is writable");
    let got = folder.path().join("got");
    let printed = File::create(&got).expect("it is writable");
    let mut command = Command::new(collector);
    command.arg("--config").arg(&place).stdin(Stdio::null()).stdout(printed);
    let mut collector = Guarded::start(&mut command);
    wait::until("the collector", || wait::accepts(listen).then_some(()));
    let serve = Serve::plain();
    let to = format!("http://{listen}");
    // Pushed every ten seconds, and at the end.
    let flags = ["--rate", "200", "-d", "12s", "--otlp", &to];
    let ran = Plimsoll::load(serve.url(), &flags).run();
    assert!(!ran.stderr.contains("--otlp"), "{}", ran.stderr);
    let ok = ran.summary(0).count("ok") as f64;
    collector.signal("INT");
    collector.wait();
    let got = fs::read_to_string(&got).expect("the collector printed");
    let exports: Vec<&str> = got.split("ResourceMetrics #").skip(1).collect();
    assert!(exports.len() >= 2, "{got}");
    let last = exports[exports.len() - 1];
    assert!(last.contains("service.name: Str(plimsoll)"), "{last}");
    let operations = metric(last, "plimsoll_operations_total");
    for said in ["DataType: Sum", "IsMonotonic: true", "AggregationTemporality: Cumulative"] {
        assert!(operations.contains(said), "{operations}");
    }
    let points = || operations.split("NumberDataPoints #");
    let point = points().find(|point| point.contains("outcome: Str(ok)")).expect("a point");
    assert_eq!(number(point, "Value:"), ok);
    let latency = metric(last, "plimsoll_latency_seconds");
    assert!(latency.contains("DataType: Histogram"), "{latency}");
    assert_eq!(number(latency, "Count:"), ok);
    let buckets = latency.lines().filter(|line| line.trim().starts_with("Buckets #"));
    let counts = buckets.filter_map(|line| line.rsplit_once("Count: ")?.1.parse::<f64>().ok());
    assert_eq!(counts.sum::<f64>(), ok);
}
