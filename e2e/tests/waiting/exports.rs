//! Runs in the formats of other programs, single operations, and gates: what is written where, and exit codes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use e2e::nginx::Nginx;
use e2e::plimsoll::{Finished, Plimsoll, Running};
use e2e::serve::Serve;
use e2e::summary::Summary;
use serde_json::{Value, json};

/// Returns the rows of a file of vegeta's: code, latency in ns, error, sequence.
fn rows(path: &Path) -> Vec<(u16, u64, String, u64)> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        assert_eq!(fields.len(), 12, "{line}");
        let number = |at: usize| fields[at].parse::<u64>().expect("a number");
        (number(1) as u16, number(2), fields[5].to_owned(), number(8))
    };
    text.lines().map(row).collect()
}

fn quantile_ms(latencies: &mut [u64], q: f64) -> f64 {
    latencies.sort_unstable();
    latencies[((latencies.len() as f64 * q).ceil() as usize).max(1) - 1] as f64 / 1e6
}

#[test]
fn every_operation_has_a_row_and_the_same_quantiles() {
    let nginx = Nginx::start(false, "location = /missing { return 404; }");
    let url = nginx.url("http");
    let flags = ["--rate", "600", "-n", "900", "--out", "run", "--rows", "rows.csv"];
    let ran = Plimsoll::load(&url, &flags).run();
    let summary = ran.summary(0);
    let found = rows(&ran.folder().join("rows.csv"));
    assert_eq!(found.len(), 900);
    assert!(found.iter().all(|(code, _, error, _)| (*code, error.as_str()) == (200, "")));
    assert!(found.iter().map(|(.., seq)| *seq).eq(0..900));
    let mut latencies: Vec<u64> = found.iter().map(|(_, latency, ..)| *latency).collect();
    for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)] {
        let (of_rows, stated) = (
            quantile_ms(&mut latencies, q),
            summary.number(&format!("latency_ms.corrected.{name}")),
        );
        assert!((of_rows / stated - 1.0).abs() < 0.01, "{name}: {of_rows} {stated}");
    }
    assert_eq!((summary.count("rows.written"), summary.count("rows.dropped")), (900, 0));
    // The same from the archive.
    let out = ran.folder().join("again.csv");
    let archive = ran.folder().join("run");
    let (archive, out_name) = (archive.to_str().expect("text"), out.to_str().expect("text"));
    let again = Plimsoll::new(["report", archive, "--vegeta-csv", out_name]).run();
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(rows(&out), found);
}

/// Attempts at two loads that a busy machine may keep from being one.
const ATTEMPTS: usize = 3;

/// Two runs of one load at the same time, and both as one run.
fn merged(url: &str) -> ([Finished; 2], Finished) {
    for _ in 0..ATTEMPTS {
        let flags = ["load", url, "--rate", "150", "-d", "4s", "--slo", "errors<1%"];
        let start = |seed| {
            let own = ["--seed", seed, "--out", "run", "--rows", "rows.csv", "--json", "-"];
            Plimsoll::new([&flags[..], &own].concat()).start()
        };
        let parts = ["1", "2"].map(start).map(Running::finish);
        let merged = merge(&parts.each_ref().map(|part| part.folder().join("run")));
        if !merged.stderr.contains("were loading together for") {
            return (parts, merged);
        }
    }
    panic!("no two loads began together");
}

/// `report --merge` into `merged`.
fn merge(archives: &[PathBuf]) -> Finished {
    let archives = archives.iter().map(|archive| archive.to_str().expect("text"));
    let words = ["report", "--merge"].into_iter().chain(archives);
    Plimsoll::new(words.chain(["--out", "merged"])).run()
}

#[test]
fn runs_of_one_load_are_merged_exactly() {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--http", "127.0.0.1:0"], 2);
    let (parts, both) = merged(&serve.urls[0]);
    assert_eq!(both.code, Some(0), "{}", both.stderr);
    let read = Plimsoll::new(["report", "merged", "--json", "-"]).within(&both.folder()).run();
    let summary = read.summary(0);
    let mut latencies = Vec::new();
    for part in &parts {
        let found = rows(&part.folder().join("rows.csv"));
        assert_eq!(found.len() as u64, part.summary(0).count("ok"));
        latencies.extend(found.iter().map(|(_, latency, ..)| *latency));
    }
    // Those of all operations of both, and no mean of two quantiles.
    assert_eq!(summary.count("ok"), latencies.len() as u64);
    for (name, q) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("max", 1.0)] {
        let of_rows = quantile_ms(&mut latencies, q);
        let stated = summary.number(&format!("latency_ms.corrected.{name}"));
        // Three significant digits, of no less than a microsecond.
        let allowed_ms = (stated * 0.001).max(0.001);
        assert!((of_rows - stated).abs() <= allowed_ms, "{name}: {of_rows} {stated}");
    }

    let run = parts[0].folder().join("run");
    let other =
        Plimsoll::load(&serve.urls[1], &["--rate", "150", "-n", "10", "--out", "run"]).run();
    let newer = other.folder().join("newer");
    fs::create_dir(&newer).expect("an own folder is writable");
    let manifest = fs::read_to_string(run.join("manifest.json")).expect("archived");
    let manifest = manifest.replacen("plimsoll.archive/1", "plimsoll.archive/9", 1);
    fs::write(newer.join("manifest.json"), manifest).expect("an own folder is writable");
    for (with, said) in [
        (other.folder().join("run"), "differ: target is"),
        (run.clone(), "hold the same run"),
        (newer, "plimsoll.archive/9"),
    ] {
        let refused = merge(&[run.clone(), with]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
        assert_eq!(refused.stderr.lines().count(), 1, "{}", refused.stderr);
        assert!(!refused.folder().join("merged").exists());
    }
}

#[test]
fn rows_are_sampled_and_say_so() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    let flags = ["--rate", "3000", "-n", "3000", "--rows", "rows.json", "-t", "1"];
    let ran = Plimsoll::load(&url, &flags).run();
    let summary = ran.summary(0);
    let text = fs::read_to_string(ran.folder().join("rows.1-in-3.json")).expect("its name says it");
    assert_eq!((text.lines().count(), summary.count("rows.every")), (1_000, 3));
    for line in text.lines() {
        let row: Value = serde_json::from_str(line).expect("JSON");
        assert_eq!((&row["attack"], &row["sampled"]), (&json!("rows (1 in 3)"), &json!(3)));
    }
    assert!(ran.stderr.contains("one operation in 3 is recorded in"), "{}", ran.stderr);
}

#[test]
fn failed_operations_have_rows() {
    // No server listens on it.
    let url = format!("http://{}/", e2e::port::free());
    let flags = ["--rate", "200", "-n", "50", "--rows", "rows.csv", "--linger", "1s"];
    let ran = Plimsoll::load(&url, &flags).run();
    let found = rows(&ran.folder().join("rows.csv"));
    assert_eq!(found.len(), 50);
    let is_refused = |(code, _, error, _): &(u16, u64, String, u64)| {
        *code == 0 && ["connect-refused", "unsent"].contains(&error.as_str())
    };
    assert!(found.iter().all(is_refused), "{found:?}");
}

fn report(archive: &Path, flags: &[&str]) -> Finished {
    let archive = archive.to_str().expect("text");
    Plimsoll::new([&["report", archive], flags].concat()).run()
}

#[test]
fn what_cannot_be_written_is_one_line_and_leaves_nothing() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    let ran = Plimsoll::load(&url, &["--rate", "200", "-n", "50", "--out", "run"]).run();
    ran.summary(0);
    let run = ran.folder().join("run");
    let before = fs::read_dir(&run).expect("the archive").count();
    for (flags, code, said) in [
        (vec!["--csv", "/dev/full"], 1, "cannot write --csv /dev/full: No space left"),
        (vec!["--junit", "no/such/file.xml"], 1, "cannot write --junit no/such/file.xml: No such"),
        (
            vec!["--csv", "-", "--ndjson", "-"],
            2,
            "--csv and --ndjson both write to standard output",
        ),
        (vec!["--vegeta-json", "-"], 1, "holds no single operations"),
        (vec!["--baseline", "nowhere", "--fail-if", "p99>10%"], 2, "nowhere"),
        (vec!["--fail-if", "p99>10%"], 2, "--baseline"),
    ] {
        let ended = report(&run, &flags);
        assert_eq!(ended.code, Some(code), "{flags:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(said), "{flags:?}: {}", ended.stderr);
    }
    assert_eq!(fs::read_dir(&run).expect("the archive").count(), before);
    // A load that is too short to say how much it varies, against itself.
    let itself = run.to_str().expect("text");
    let ended = report(&run, &["--baseline", itself, "--fail-if", "p99>10%"]);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("less than 12 s"), "{}", ended.stderr);
    // A baseline that has lost its seconds says nothing about them.
    let cut = ran.folder().join("cut");
    copy(&run, &cut);
    fs::write(cut.join("intervals.jsonl"), "").expect("a file");
    let lost = ["--baseline", cut.to_str().expect("text"), "--fail-if", "errors>1pp"];
    let ended = report(&run, &lost);
    assert_eq!(ended.code, Some(2), "{}", ended.stderr);
    assert!(ended.stderr.contains("cut disagrees with itself: "), "{}", ended.stderr);
    // To standard output, and appended.
    let csv = report(&run, &["--csv", "-"]);
    assert!(csv.stdout.starts_with("run,t,wall,trial,"), "{}", csv.stdout);
    let notes = ran.folder().join("notes.md");
    fs::write(&notes, "before\n").expect("a file");
    report(&run, &["--markdown", notes.to_str().expect("text")]);
    let text = fs::read_to_string(&notes).expect("a file");
    assert!(text.starts_with("before\n### plimsoll `load`: "), "{text}");
}

/// Script with which Debian's junitparser reads a file: its counts as written and as counted, and each case.
const JUNIT_READER: &str = "\
import json, sys
from junitparser import JUnitXml
suite, = JUnitXml.fromfile(sys.argv[1])
def counts():
    return [suite.tests, suite.failures, suite.errors, suite.skipped]
stated = counts()
suite.update_statistics()
cases = [[case.classname, case.name, [[type(r).__name__, r.type, r.text == r.message] for r in case.result]]
         for case in suite]
print(json.dumps({'stated': stated, 'counted': counts(), 'cases': cases}))
";

fn read_junit(file: &Path) -> Value {
    // The one that has Debian's packages.
    let mut python = Command::new("/usr/bin/python3");
    let read = python.args(["-c", JUNIT_READER]).arg(file).stdin(Stdio::null()).output();
    let read = read.expect("python3 runs; if not: apt-get install python3-junitparser");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    let found: Value = serde_json::from_slice(&read.stdout).expect("JSON");
    assert_eq!(found["stated"], found["counted"], "{found}");
    found
}

fn copy(archive: &Path, to: &Path) {
    fs::create_dir(to).expect("a folder");
    for file in fs::read_dir(archive).expect("the archive") {
        let path = file.expect("a file").path();
        fs::copy(&path, to.join(path.file_name().expect("a name"))).expect("a copy");
    }
}

/// A copy of the archive, whose summary is that of a search.
fn as_search(archive: &Path, to: &Path, outcome: Value, lower: f64, safe: f64) {
    copy(archive, to);
    let place = to.join("summary.json");
    let text = fs::read_to_string(&place).expect("a summary");
    let mut summary: Value = serde_json::from_str(&text).expect("JSON");
    summary["find"] = json!({
        "axis": "rate", "slo": "p99<50ms", "mode": "quick", "outcome": outcome,
        "lower": lower, "upper": lower * 1.05, "width": 0.05, "confidence": 0.95, "safe": safe,
        "trials": 9, "invalid_trials": 0, "search_s": 60.0, "confirm_s": 20.0, "run_s": 20.0,
        "conditional_throughput": null, "notes": [], "regimes": [],
        "confirmations": {"good": 1, "bad": 0, "invalid": 0},
    });
    fs::write(&place, summary.to_string()).expect("a file");
}

#[test]
fn gates_end_with_their_exit_codes() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    let ran = Plimsoll::load(&url, &["--rate", "200", "-n", "50", "--out", "run"]).run();
    let run = ran.folder().join("run");
    Summary::parse(&ran.stdout).assert_all_ok(50);
    let made = |name: &str, outcome: Value, lower: f64, safe: f64| {
        let to = ran.folder().join(name);
        as_search(&run, &to, outcome, lower, safe);
        to
    };
    let main = made("main", json!("regular"), 1_000.0, 950.0);
    let alike = made("alike", json!("regular"), 1_010.0, 960.0);
    let worse = made("worse", json!("regular"), 700.0, 650.0);
    let unsettled =
        made("unsettled", json!({"unstable": {"why": {"reason": "one-bound"}}}), 700.0, 650.0);
    let baseline = ["--baseline", main.to_str().expect("text")];
    let gate = |run: &Path, fail_if: &[&str]| report(run, &[&baseline[..], fail_if].concat());
    let both = ["--fail-if", "safe<-5%,tipping-point<-3%"];
    let passed = gate(&alike, &both);
    assert_eq!(passed.code, Some(0), "{}", passed.stderr);
    assert!(passed.stdout.contains("Against the baseline"), "{}", passed.stdout);
    let failed = gate(&worse, &both);
    assert_eq!(failed.code, Some(99), "{}", failed.stderr);
    let lines: Vec<&str> = failed.stderr.lines().collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("plimsoll: safe<-5%: 650/s, 950/s in the baseline"), "{lines:?}");
    assert_eq!(gate(&unsettled, &both).code, Some(97));
    let cases = |run: &Path, code: i32| {
        let file = ran.folder().join("cases.xml");
        let junit = ["--junit", file.to_str().expect("text")];
        assert_eq!(gate(run, &[&both[..], &junit].concat()).code, Some(code));
        read_junit(&file)
    };
    let case = |found: &Value, name: &str| {
        let cases = found["cases"].as_array().expect("a list");
        cases.iter().find(|case| case[1] == name).expect(name).clone()
    };
    let found = cases(&worse, 99);
    let gated = case(&found, "safe<-5%");
    assert_eq!(gated[0], "plimsoll.load.rate.baseline");
    assert_eq!(gated[2], json!([["Failure", "baseline", true]]));
    assert_eq!(case(&found, "tipping-point")[2], json!([]));
    let found = cases(&unsettled, 97);
    assert_eq!(case(&found, "tipping-point")[2], json!([["Error", "undecided", true]]));
    assert_eq!(cases(&alike, 0)["counted"][1], 0);
    // A load is no search.
    assert_eq!(gate(&run, &both).code, Some(2));
}
