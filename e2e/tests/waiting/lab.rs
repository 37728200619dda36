//! A laboratory that ends early, whatever ends it: the report is complete and nothing stays.

use std::fs;

use e2e::plimsoll::{Plimsoll, Running, archived_lines};
use e2e::process::Process;
use e2e::{process, wait};

/// Each load up to its cap meets goals as lax as these, on a
/// busy machine, too.
const SHORT: [&str; 6] = ["--min", "50", "--max", "100", "--slo", "p99<3s,errors<1%"];

fn lab(flags: &[&str]) -> Plimsoll {
    let always = ["lab", "--json", "out.json", "--out", "run"];
    Plimsoll::new([&always[..], &SHORT, flags].concat())
}

/// Waits until the archive's file `name` has `count` lines.
fn wait_for_lines(running: &mut Running, name: &str, count: usize) {
    wait::until(name, || {
        let enough = archived_lines(running.folder(), name) >= count;
        assert!(enough || !running.has_ended(), "the lab ended too soon");
        enough.then_some(())
    });
}

/// Returns the HAProxy of a lab that makes load. (Earlier ones only check the configuration.)
fn haproxy(running: &Running) -> Process {
    running.named("haproxy").pop().expect("the SUT runs")
}

#[test]
fn a_sut_that_dies_is_a_missed_goal_and_its_trials_are_kept() {
    let mut running = lab(&["--sut", "haproxy"]).start();
    wait_for_lines(&mut running, "trials.jsonl", 1);
    haproxy(&running).kill();
    let finished = running.finish();
    finished.assert_no_scratch();
    let summary = finished.written(99);
    assert_eq!(summary.text("verdict"), "bad");
    let why = summary.text("find.outcome.unfinished.why.how");
    assert!(why.contains("haproxy"), "{why}");
    assert!(summary.count("find.trials") >= 1, "{summary:?}");
    assert_eq!(summary.number("find.lower"), 50.0);
}

#[test]
fn an_interrupted_lab_reports_and_cleans_up() {
    let flags = ["lab", "--sut", "haproxy", "--json", "out.json"];
    let running = Plimsoll::new([&flags[..], &SHORT].concat()).start();
    // Without --out, in its own place.
    let archives = running.folder().join("plimsoll-runs");
    wait::until("a second of load", || {
        let archive = process::entries(&archives).pop()?;
        let intervals = fs::read_to_string(archive.join("intervals.jsonl")).ok()?;
        intervals.contains('\n').then_some(())
    });
    running.signal_group("INT");
    let finished = running.finish();
    finished.assert_no_scratch();
    let summary = finished.written(130);
    assert_eq!(summary.at("partial"), true);
    let archive = finished.folder().join(summary.text("archive"));
    assert!(archive.join("summary.json").is_file(), "{}", archive.display());
}

#[test]
fn a_lab_whose_coordinator_is_killed_vanishes() {
    let mut running = lab(&["--sut", "haproxy"]).start();
    wait_for_lines(&mut running, "intervals.jsonl", 1);
    let haproxy = haproxy(&running);
    let descendants = running.descendants();
    let agents = descendants.iter().filter(|seen| seen.name == "plimsoll-agent").count();
    // At least a client, the backends and the supervisor.
    assert!(agents >= 3, "{descendants:?}");
    assert_eq!(process::entries(&running.folder().join("tmp")).len(), 1);
    running.signal("KILL");
    running.assert_nothing_left();
    running.assert_no_scratch();
    assert!(!haproxy.is_alive() && !descendants.iter().any(Process::is_alive), "{descendants:?}");
}

#[test]
fn a_lab_whose_supervisor_is_killed_ends_and_leaves_nothing() {
    let mut running = lab(&["--sut", "haproxy"]).start();
    wait_for_lines(&mut running, "intervals.jsonl", 1);
    let haproxy = haproxy(&running);
    let supervisor = Process::of(haproxy.ppid).expect("HAProxy's parent");
    assert_eq!(supervisor.name, "plimsoll-agent");
    supervisor.kill();
    let finished = running.finish();
    finished.assert_no_scratch();
    assert!(!haproxy.is_alive());
    // The SUT was lost together with our own supervisor: that says nothing of the SUT.
    let summary = finished.written(98);
    assert_eq!(summary.text("verdict"), "invalid");
    let why = summary.text("find.outcome.unfinished.why.how");
    assert!(why.contains("supervisor"), "{why}");
}
