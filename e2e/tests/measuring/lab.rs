//! The laboratory as a user runs it: the report is complete and nothing stays. `waiting/lab.rs` has what ends it early.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use e2e::plimsoll::{Finished, Plimsoll, archived_lines, undisturbed};
use e2e::summary::Summary;
use e2e::turn::beside_others;
use e2e::{process, program};

/// A search that ends after two trials: each load up to its cap meets goals as lax as these, on a
/// busy machine, too.
const SHORT: [&str; 6] = ["--min", "500", "--max", "1000", "--slo", "p99<300ms,errors<1%"];

fn lab(flags: &[&str]) -> Plimsoll {
    let always = ["lab", "--json", "out.json", "--out", "run"];
    Plimsoll::new([&always[..], &SHORT, flags].concat())
}

/// Checks a search that met its goals at every load, and that its archive gives the same report.
fn assert_not_reached(finished: &Finished, sut: &str) {
    let summary = finished.written(0);
    assert_eq!(summary.text("verdict"), "good");
    let cap = summary.text("find.outcome.not-reached.cap");
    assert!(cap.contains("--max"), "{cap}");
    assert_eq!((summary.number("find.lower"), summary.at("find.upper")), (1000.0, &Value::Null));
    assert_eq!((summary.text("find.axis"), summary.text("find.mode")), ("rate", "quick"));
    assert!(summary.count("find.trials") >= 2, "{summary:?}");
    assert!(summary.count("handshakes.full") >= 100, "{summary:?}");
    assert!(finished.stdout.contains("not reached"), "{}", finished.stdout);
    assert!(summary.text("target").contains(sut), "{summary:?}");

    let folder = finished.folder();
    let trials = summary.count("find.trials") + summary.count("find.invalid_trials");
    assert_eq!(archived_lines(&folder, "trials.jsonl") as u64, trials);
    for name in ["manifest.json", "intervals.jsonl", "events.jsonl", "summary.json"] {
        assert!(archived_lines(&folder, name) > 0, "{name} is empty");
    }
    assert_all_checks_made(&folder, sut != "caddy");
    let report =
        |flags: &[&str]| Plimsoll::new([&["report", "run"], flags].concat()).within(&folder).run();
    assert_eq!(report(&[]).stdout, finished.stdout);
    assert_eq!(Summary::parse(&report(&["--json", "-"]).stdout), summary);
}

/// Checks that every trial was looked at from all sides, and that a server that `counts` has counted what
/// the clients have sent.
fn assert_all_checks_made(folder: &Path, counts: bool) {
    let text = fs::read_to_string(folder.join("run/trials.jsonl")).expect("archived");
    for line in text.lines() {
        let trial: Value = serde_json::from_str(line).expect("one JSON object in each line");
        let reasons = trial["judgement"]["reasons"].as_array().expect("a list");
        let level = |name: &str| {
            let reason = reasons.iter().find(|reason| reason["check"] == name);
            reason.unwrap_or_else(|| panic!("{name} was not checked: {line}"))["level"].clone()
        };
        for name in ["arrivals", "host-cpu", "scheduling", "generator-network", "generator-memory"]
        {
            level(name);
        }
        level("monitor");
        assert_eq!(level("co-location"), "warn");
        if counts {
            assert_eq!(level("peer-counters"), "pass", "{line}");
        }
    }
}

#[test]
fn the_embedded_server_is_searched() {
    let _machine = beside_others();
    let finished = undisturbed(|| lab(&["--sut", "embedded"]).run());
    assert_not_reached(&finished, "embedded");
    finished.assert_no_scratch();
}

#[test]
fn nginx_is_searched() {
    let _machine = beside_others();
    let finished = undisturbed(|| lab(&["--sut", "nginx"]).run());
    assert_not_reached(&finished, "nginx");
    finished.assert_no_scratch();
}

#[test]
fn caddy_is_searched() {
    let _machine = beside_others();
    let finished = undisturbed(|| lab(&["--sut", "caddy"]).run());
    assert_not_reached(&finished, "caddy");
    finished.assert_no_scratch();
}

#[test]
fn haproxy_is_searched_and_its_configuration_kept_where_asked() {
    let _machine = beside_others();
    let flags = ["--sut", "haproxy", "--backends", "3", "--keep"];
    let finished = undisturbed(|| lab(&flags).run());
    assert_not_reached(&finished, "haproxy");
    let kept = process::entries(&finished.folder().join("tmp"));
    assert_eq!(kept.len(), 1, "{kept:?}");
    let config = kept[0].join("haproxy.cfg");
    let text = fs::read_to_string(&config).expect("kept");
    assert_eq!(text.matches("\n    server ").count(), 3, "{text}");
    // As it stands, it can be used again.
    let mut check = Command::new(program::installed("haproxy"));
    let output = check.arg("-c").arg("-f").arg(&config).stdin(Stdio::null()).output();
    let output = output.expect("an installed program can be run");
    assert!(output.status.success(), "{output:?}");
}
