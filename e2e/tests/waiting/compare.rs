//! Two servers compared: one that sleeps longer is found, one that does not is not, and whatever
//! ends a comparison early leaves nothing running.

use std::path::Path;

use e2e::plimsoll::{Plimsoll, Running};
use e2e::serve::Serve;
use e2e::wait;

/// 50 requests in each block.
const LOAD: [&str; 5] = ["--", "--rate", "100", "--duration", "500ms"];

fn serve() -> Serve {
    Serve::start(&["--http", "127.0.0.1:0", "--http", "127.0.0.1:0"], 2)
}

fn compare(a: &str, b: &str, more: &[&str]) -> Running {
    let flags = ["compare", a, b, "--json", "out.json", "--out", "run"];
    Plimsoll::new([&flags[..], more].concat()).start()
}

#[test]
fn the_server_that_sleeps_longer_is_found() {
    let serve = serve();
    let sleeping = |url: &str, ms: u32| format!("{url} -H 'sleep-fixed: {ms}'");
    let (a, b) = (sleeping(&serve.urls[0], 50), sleeping(&serve.urls[1], 600));
    // Without a goal, a generator that got no CPU for 10 ms makes a measurement INVALID; this goal
    // is missed by failing servers only.
    let flags = [&["--rounds", "8"], &LOAD[..], &["--slo", "errors<1%"]].concat();
    let finished = compare(&a, &b, &flags).finish();
    let summary = finished.written(0);
    assert_eq!(summary.text("command"), "compare");
    assert_eq!(summary.text("compare.metric"), "p99");
    assert_eq!(summary.text("compare.difference.finding"), "higher", "{}", finished.stdout);
    assert!(summary.number("compare.difference.ratio_low") > 1.0, "{summary:?}");
    // 600 ms against 50 ms; a busy machine adds to both.
    let ratio = summary.number("compare.difference.ratio");
    assert!((1.5..=13.0).contains(&ratio), "{ratio}");
    assert_eq!(summary.count("compare.rounds_planned"), 8);
    // The comparison can be drawn again, from an archive that agrees with itself.
    let again = Plimsoll::new(["report", "run"]).within(&finished.folder()).run();
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(again.stdout, finished.stdout);
    let blocks = summary.at("compare.blocks").as_array().expect("a list");
    assert_eq!(blocks.len(), 16);
    let rounds = summary.at("compare.rounds").as_array().expect("a list");
    let first: Vec<_> = rounds.iter().map(|round| round["first"].as_str()).collect();
    assert!(first.contains(&Some("a")) && first.contains(&Some("b")), "{first:?}");
}

#[test]
fn equal_servers_are_not_told_apart_and_unequal_ones_are() {
    let serve = serve();
    let goal = ["--slo", "errors<1%"];
    // An open loop gets done what its rate says, also on a busy machine.
    let open = ["--rounds", "8", "--metric", "throughput", "--threshold", "25%"];
    let finished =
        compare(&serve.urls[0], &serve.urls[1], &[&open, &LOAD[..], &goal].concat()).finish();
    let summary = finished.written(0);
    assert_eq!(summary.text("compare.difference.finding"), "no-difference", "{}", finished.stdout);
    // The threshold is the least that can be said.
    assert!(summary.number("compare.difference.difference_max") >= 0.25, "{summary:?}");
    assert!(finished.stdout.contains("No difference:"), "{}", finished.stdout);
    // A closed loop over one connection that waits 50 ms in each turn of the one.
    let slow = format!("{} -H 'sleep-fixed: 50'", serve.urls[1]);
    let closed = ["--rounds", "8", "--", "--rate", "0", "--connections", "1"];
    let closed = [&closed[..], &["--duration", "500ms"], &goal].concat();
    let finished = compare(&serve.urls[0], &slow, &closed).finish();
    let summary = finished.written(0);
    assert_eq!(summary.text("compare.metric"), "throughput");
    assert_eq!(summary.text("compare.difference.finding"), "lower", "{}", finished.stdout);
}

#[test]
fn what_cannot_be_measured_ends_the_comparison_with_its_reason() {
    // No server listens on port 1.
    let finished = compare("http://127.0.0.1:1/", "http://127.0.0.1:1/", &LOAD).finish();
    let summary = finished.written(1);
    assert!(finished.stderr.contains(": no operation was answered"), "{finished:?}");
    assert_eq!(summary.at("compare.difference"), &serde_json::Value::Null);
    // From loopback there is no way there: this machine's fault, so that every run is INVALID.
    let flags = [&LOAD[..], &["--source", "127.0.0.1"]].concat();
    let finished = compare("http://192.0.2.1/", "http://192.0.2.1/", &flags).finish();
    let summary = finished.written(98);
    assert_eq!(summary.text("verdict"), "invalid");
    assert_eq!(summary.count("compare.rounds_used"), 0);
}

#[test]
fn a_bad_arm_starts_nothing() {
    let finished = compare("lab --sut nothing", "lab", &[]).finish();
    assert_eq!(finished.code, Some(2));
    assert!(finished.stderr.starts_with("plimsoll: A: --sut"), "{}", finished.stderr);
    assert!(!finished.folder().join("run").exists());
}

/// Waits until the archive of a run has more than `bytes` of seconds of load, and returns them.
fn wait_for_load(folder: &Path, bytes: usize) -> String {
    let intervals = folder.join("run/intervals.jsonl");
    wait::until("a second of load", || {
        std::fs::read_to_string(&intervals).ok().filter(|text| text.len() > bytes)
    })
}

#[test]
fn an_interrupt_or_a_kill_leaves_nothing_running() {
    let serve = serve();
    let flags = ["--", "--rate", "50", "--duration", "10m"];
    for (signal, to_all, code) in [
        ("INT", false, Some(130)),
        ("INT", true, Some(130)),
        ("TERM", false, Some(143)),
        ("KILL", false, None),
    ] {
        let running = compare(&serve.urls[0], &serve.urls[1], &flags);
        wait_for_load(running.folder(), 0);
        match to_all {
            true => running.signal_group(signal),
            false => running.signal(signal),
        }
        // Waits until nothing with its mark is left.
        let finished = running.finish();
        assert_eq!(finished.code, code, "{signal}: {}", finished.stderr);
        if let Some(code) = code {
            assert_eq!(finished.written(code).at("partial"), true);
        }
    }
}

#[test]
fn servers_are_saturated_in_turn() {
    let serve = serve();
    // Four connections carry 80/s and 40/s at most, which a busy machine has CPU time for.
    let slow = format!("{} -H 'sleep-fixed: 100'", serve.urls[1]);
    let a = format!("{} -H 'sleep-fixed: 50'", serve.urls[0]);
    let flags =
        ["--metric", "goodput", "--budget", "80s", "--", "--connections", "4", "--mode", "quick"];
    let finished = compare(&a, &slow, &flags).finish();
    let summary = finished.written(0);
    assert_eq!(summary.text("compare.metric"), "goodput");
    assert_eq!(summary.text("compare.difference.finding"), "lower", "{}", finished.stdout);
    assert_eq!(summary.count("compare.load.connections"), 4);
    assert!(finished.stdout.contains("slower than A at saturation"), "{}", finished.stdout);
    assert!(finished.stderr.contains("--mode changes nothing"), "{}", finished.stderr);
    let others = summary.at("compare.others").as_array().expect("a list");
    let p50 = others.iter().find(|other| other["metric"] == "p50").expect("latency");
    assert_eq!(p50["difference"]["finding"], "higher", "{p50}");
}

#[test]
fn laboratories_that_are_compared_end_with_the_comparison() {
    let flags = ["--budget", "5m", "--", "--sut", "haproxy"];
    for (signal, code) in [("INT", Some(130)), ("KILL", None)] {
        let running = compare("lab", "lab", &flags);
        // Loads are found in trial 0; then the first blocks end, in which both laboratories answer.
        let mut seconds = String::new();
        while !seconds.contains("\"trial\":3") {
            seconds = wait_for_load(running.folder(), seconds.len());
        }
        running.signal(signal);
        // Waits until nothing with its mark is left.
        let finished = running.finish();
        assert_eq!(finished.code, code, "{signal}: {}", finished.stderr);
        let Some(code) = code else { continue };
        let summary = finished.written(code);
        assert_eq!(summary.at("compare.duet"), true);
        let blocks = summary.at("compare.blocks").as_array().expect("a list");
        assert!(blocks.len() >= 2, "{blocks:?}");
        for both in blocks.chunks_exact(2) {
            assert_eq!(both[0]["start_s"], both[1]["start_s"]);
            assert_ne!(both[0]["arm"], both[1]["arm"]);
            assert!(
                both.iter().all(|block| block["goodput_per_s"].as_f64() > Some(0.0)),
                "{both:?}"
            );
        }
    }
}
