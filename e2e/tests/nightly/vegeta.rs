//! Rows of single operations, read by the real vegeta: `go install github.com/tsenart/vegeta/v12@latest`.

use std::fs::File;
use std::path::Path;
use std::process::Command;

use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;
use e2e::summary::Summary;
use serde_json::Value;

use crate::alone;

/// Returns the output of a command of vegeta for the file.
fn vegeta(arguments: &[&str], file: &Path) -> String {
    let input = File::open(file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let ran = Command::new("vegeta").args(arguments).stdin(input).output();
    let ran = ran.unwrap_or_else(|e| panic!("vegeta is not on PATH: {e}"));
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("text")
}

#[test]
#[ignore = "needs vegeta"]
fn vegeta_counts_what_plimsoll_counts() {
    let _alone = alone();
    let nginx = Nginx::start(false, "location = /missing { return 404; }");
    let targets = format!("GET {0}\nGET {0}missing\n", nginx.url("http"));
    let flags = ["load", "--targets", "targets", "--rate", "2000", "-d", "10s", "--json", "-"];
    let rows = ["--out", "run", "--rows", "rows.csv", "--rows-all"];
    let ran = Plimsoll::new([&flags[..], &rows].concat()).with_file("targets", targets).run();
    // Also of a load that a busy machine has shaped.
    let summary = Summary::parse(&ran.stdout);
    let (archive, json) = (ran.folder().join("run"), ran.folder().join("rows.json"));
    let [archive, json_name] = [&archive, &json].map(|path| path.to_str().expect("text"));
    let report = Plimsoll::new(["report", archive, "--vegeta-json", json_name]).run();
    assert_eq!(report.code, Some(0), "{}", report.stderr);
    for file in [ran.folder().join("rows.csv"), json.clone()] {
        let text = vegeta(&["report", "-type", "json"], &file);
        let seen: Value = serde_json::from_str(&text).expect("JSON");
        println!("{}: {}", file.display(), seen["latencies"]);
        assert_eq!(seen["requests"].as_u64(), Some(summary.count("scheduled")));
        for (code, answers) in summary.counts("status") {
            assert_eq!(seen["status_codes"][&code].as_u64(), Some(answers), "{code}");
        }
        assert_eq!(seen["success"].as_f64(), Some(0.5));
        // plimsoll's quantiles are of ok answers: those of the rows are compared where all are.
        let plot = vegeta(&["plot"], &file);
        assert!(plot.contains("<html") && plot.len() > 50_000, "{} bytes", plot.len());
    }
    let flags = ["--rate", "2000", "-d", "10s", "--rows", "rows.csv", "--rows-all"];
    let url = nginx.url("http");
    let ran = Plimsoll::load(&url, &flags).run();
    let summary = Summary::parse(&ran.stdout);
    let text = vegeta(&["report", "-type", "json"], &ran.folder().join("rows.csv"));
    let seen: Value = serde_json::from_str(&text).expect("JSON");
    for (name, ours) in [("50th", "p50"), ("99th", "p99")] {
        let theirs = seen["latencies"][name].as_f64().expect("a number") / 1e6;
        let ours = summary.number(&format!("latency_ms.corrected.{ours}"));
        println!("{name}: {theirs} ms, {ours} ms");
        assert!((theirs / ours - 1.0).abs() < 0.01, "{name}: {theirs} {ours}");
    }
}
