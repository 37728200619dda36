//! Loads that are interrupted, lose their server or lose a process of their own: the sum balances,
//! the exit code says whose fault it was, and nothing is left running.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use e2e::haproxy::Haproxy;
use e2e::nginx::Nginx;
use e2e::plimsoll::{Plimsoll, Running};
use e2e::process::Process;
use e2e::recorder::Recorder;
use e2e::serve::Serve;
use e2e::summary::Summary;
use e2e::{namespace, wait};

const AGENT: &str = "plimsoll-agent";

/// Returns the agents of a running load, once there are `count` of them.
fn agents(running: &Running, count: usize) -> Vec<Process> {
    wait::until("the agents", || Some(running.named(AGENT)).filter(|agents| agents.len() == count))
}

#[test]
fn an_interrupted_load_reports_what_it_has_seen() {
    let recorder = Recorder::start();
    let url = recorder.url();
    // To the coordinator alone, as a supervisor sends it, and to all, as a terminal does.
    for (signal, to_all, code) in [
        ("INT", false, 130),
        ("INT", true, 130),
        ("TERM", false, 143),
        // The terminal is gone.
        ("HUP", true, 143),
    ] {
        let flags = ["load", &url, "--rate", "200", "-d", "10m", "--json", "out.json"];
        // Whoever runs the tests may have SIGHUP ignored, and children inherit that.
        let with_signals = "exec env --default-signal=HUP \"$0\" \"$@\"";
        let flags = [&flags[..], &["--processes", "2"]].concat();
        let running = Plimsoll::after(with_signals, &flags).start();
        agents(&running, 2);
        recorder.wait_for(recorder.requests().len() + 50);
        match to_all {
            true => running.signal_group(signal),
            false => running.signal(signal),
        }
        let finished = running.finish();
        let summary = finished.written(code);
        assert!(finished.stdout.contains("scheduled"), "no report: {}", finished.stdout);
        assert_eq!(summary.at("partial"), true);
        assert!(summary.count("ok") >= 40, "{summary:?}");
        // Nobody lost an agent: all of them stopped in order.
        let classes = summary.counts("error_classes");
        assert!(classes.keys().all(|class| class == "interrupted"), "{classes:?}");
    }
}

#[test]
fn a_hangup_that_was_ignored_at_the_start_stays_ignored() {
    let recorder = Recorder::start();
    let url = recorder.url();
    let flags = ["load", &url, "--rate", "0", "-n", "2000", "-c", "1", "--slo", "errors<1%"];
    // As nohup does.
    let run = Plimsoll::after("trap '' HUP", &[&flags[..], &["--json", "out.json"]].concat());
    let running = run.start();
    agents(&running, 1);
    recorder.wait_for(1);
    running.signal_group("HUP");
    let finished = running.finish();
    finished.written(0).assert_all_ok(2000);
}

#[test]
fn a_second_interrupt_does_not_spoil_the_first() {
    // Answers come never, so the first one must wait for its grace.
    let serve = Serve::plain();
    let flags = ["load", serve.url(), "-H", "sleep-fixed: 86400000", "--rate", "200", "-d", "10m"];
    let running = Plimsoll::new([&flags[..], &["--json", "out.json"]].concat()).start();
    agents(&running, 1);
    running.signal("INT");
    running.signal("INT");
    let finished = running.finish();
    assert_eq!(finished.written(130).at("partial"), true);
}

#[test]
fn a_server_that_dies_is_a_finding_and_the_load_goes_on() {
    let pong = "    http-request return status 200 content-type text/plain string pong";
    let mut haproxy = Haproxy::start("", pong, "");
    let url = haproxy.url("http");
    let flags = ["--rate", "300", "-d", "2s", "-c", "20"];
    let running = Plimsoll::load(&url, &flags).start();
    haproxy.wait_for("req_tot", 100);
    haproxy.kill();
    let summary = running.finish().summary(99);
    assert_eq!(summary.count("scheduled"), 600);
    assert_eq!(summary.at("partial"), false);
    assert!(summary.count("ok") >= 100, "{summary:?}");
    let classes = summary.counts("error_classes");
    let plausible =
        ["connect-refused", "connect-reset", "reset-by-peer", "closed-by-peer", "keepalive-race"];
    assert!(classes.keys().all(|class| plausible.contains(&class.as_str())), "{classes:?}");
    assert!(classes.contains_key("connect-refused"), "{classes:?}");
}

/// Waits until an archive holds a whole second of load.
fn wait_for_a_second(archive: &Path) {
    let intervals = archive.join("intervals.jsonl");
    wait::until("a second of load", || {
        fs::read_to_string(&intervals).ok()?.contains('\n').then_some(())
    });
}

#[test]
fn an_agent_that_is_killed_costs_its_operations_and_the_verdict() {
    let serve = Serve::plain();
    // Each second ends with about 60 operations in flight.
    let flags = ["--rate", "200", "-d", "3s", "-H", "sleep-fixed: 300", "--out", "run"];
    let flags = [&flags[..], &["--processes", "2"]].concat();
    let running = Plimsoll::load(serve.url(), &flags).start();
    let agents = agents(&running, 2);
    wait_for_a_second(&running.folder().join("run"));
    agents[1].kill();
    let summary = running.finish().summary(98);
    assert_eq!(summary.text("verdict"), "invalid");
    assert_eq!(summary.at("partial"), true);
    let lost = summary.counts("error_classes").remove("agent-lost");
    // Its half of what was in flight, about 30.
    assert!((10..=60).contains(&lost.unwrap_or(0)), "{summary:?}");
}

#[test]
fn an_agent_that_is_killed_between_two_operations_costs_the_verdict_too() {
    let nginx = Nginx::start(false, "");
    // Answers come at once, so there is hardly ever an operation in flight.
    let flags = ["--rate", "50", "-d", "3s", "--out", "run", "--processes", "2"];
    let running = Plimsoll::load(&nginx.url("http"), &flags).start();
    let agents = agents(&running, 2);
    wait_for_a_second(&running.folder().join("run"));
    agents[0].kill();
    let summary = running.finish().summary(98);
    assert_eq!((summary.text("verdict"), summary.at("partial")), ("invalid", &true.into()));
}

#[test]
fn a_full_disk_ends_the_archive_and_not_the_run() {
    let serve = Serve::plain();
    let flags = ["load", serve.url(), "--rate", "1000", "-d", "5s", "--slo", "errors<1%"];
    let out = ["--json", "-", "--out", "disk/run"];
    let Some(ran) = namespace::with_a_small_disk(64, &[&flags[..], &out].concat()) else {
        return println!("SKIPPED: no mount namespace can be made here");
    };
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let full = "No space left on device (os error 28)";
    for said in [
        format!("{full}; the run continues without it"),
        format!("{full}; the archive is not whole"),
    ] {
        assert_eq!(ran.stderr.matches(&said).count(), 1, "{}", ran.stderr);
    }
    let summary = Summary::parse(&ran.stdout);
    summary.assert_all_ok(5_000);
    assert_eq!(summary.0.get("archive"), None);
    let drawn = fs::read_to_string(ran.folder().join("drawn")).expect("it was drawn");
    // What fitted is there.
    assert!(drawn.starts_with("PARTIAL") && drawn.ends_with("\n0\n"), "{drawn}");
}

#[test]
fn a_coordinator_that_is_killed_takes_its_agents_along() {
    let recorder = Recorder::start();
    let url = recorder.url();
    let flags = ["load", &url, "--rate", "100", "-d", "10m", "--processes", "3"];
    let running = Plimsoll::new(flags).start();
    let agents = agents(&running, 3);
    recorder.wait_for(20);
    running.signal("KILL");
    // Also waits until nothing with its mark is left.
    let finished = running.finish();
    assert_eq!(finished.code, None);
    assert!(agents.iter().all(|agent| !agent.is_alive()), "{agents:?}");
}

#[test]
fn a_coordinator_that_is_killed_while_it_serves_takes_its_agents_along() {
    let serve = Plimsoll::new(["serve", "--http", "127.0.0.1:0", "--processes", "2"]).start();
    let agents = agents(&serve, 2);
    serve.signal("KILL");
    serve.finish();
    assert!(agents.iter().all(|agent| !agent.is_alive()), "{agents:?}");
}

#[test]
fn more_connections_than_a_process_may_open_are_spread_over_several() {
    let nginx = Nginx::start(false, "");
    let url = nginx.url("http");
    let flags = ["load", &url, "--json", "-", "--slo", "errors<1%", "--connections", "500"];
    let flags = [&flags[..], &["--rate", "1000", "--requests", "2000"]].concat();
    let running = Plimsoll::after("ulimit -n 200", &flags).start();
    let summary = running.finish().summary(0);
    summary.assert_all_ok(2000);
    let processes = summary.count("generator.processes");
    assert!((3..=10).contains(&processes), "{processes} processes");
    assert_eq!(summary.count("connections.held_max"), 500);
    assert_eq!(summary.count("connections.opened"), 500);
    assert_eq!(summary.counts("connection_error_classes"), BTreeMap::new());
    nginx.log_of(2000);
    // Less than it needs: refused before anything is started.
    let too_few = Plimsoll::after("ulimit -n 200", &[&flags[..], &["--processes", "2"]].concat());
    let refused = too_few.run();
    assert_eq!(refused.code, Some(2));
    assert!(refused.stderr.contains("--processes"), "{}", refused.stderr);
    nginx.log_of(2000);
}
