//! The search for held connections against servers that hold a known number of them. `nightly/memory.rs` has one whose
//! memory ends.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::capped::CappedServer;
use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Finished, Plimsoll, Running, undisturbed};
use e2e::serve::Serve;
use e2e::silent::SilentServer;
use e2e::summary::Summary;
use e2e::{port, wait};
use serde_json::Value;

/// Goals that a busy machine meets, short waits, a short soak.
pub(crate) const QUICK: [&str; 10] = [
    "--mode",
    "quick",
    "--slo",
    "p99<1s,errors<0.1%",
    "--linger",
    "1s",
    "--for",
    "1s",
    "--rate",
    "1k",
];
const TRUTH: f64 = 731.0;
const PONG: &str = "    http-request return status 200 content-type text/plain string pong";

fn find(url: &str, flags: &[&str]) -> Plimsoll {
    let own = ["find", "connections", url, "-k", "--json", "out.json", "--out", "run"];
    Plimsoll::with_defaults(&own, &QUICK, flags)
}

fn summary_of(finished: &Finished, code: i32) -> Summary {
    let summary = finished.written(code);
    assert_eq!(summary.text("find.axis"), "connections");
    summary
}

/// The archive gives the same report, and does not contradict itself.
fn assert_report_repeats(finished: &Finished, folder: &Path) {
    let again = Plimsoll::new(["report", "run"]).within(folder).run();
    assert_eq!(again.stdout, finished.stdout);
}

fn assert_interval_holds_the_truth(summary: &Summary) {
    let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
    assert_eq!(summary.text("find.outcome"), "regular", "{summary:?}");
    assert!(lower <= TRUTH && TRUTH < upper, "[{lower}, {upper}]");
    assert!(upper / lower <= 1.0501, "[{lower}, {upper}] is wider than 5 %");
    assert_eq!(summary.text("verdict"), "good");
    assert_eq!(summary.text("find.recovers"), "yes");
    assert_eq!(summary.number("find.connections.soak_held"), lower);
}

#[test]
fn a_server_that_closes_what_it_has_no_room_for_is_found() {
    let server = CappedServer::start(TRUTH as usize);
    let url = format!("http://{}/", server.address);
    let finished = undisturbed(|| find(&url, &[]).run());
    let summary = summary_of(&finished, 0);
    assert_interval_holds_the_truth(&summary);
    assert_eq!(summary.number("find.lower"), TRUTH);
    assert!(finished.stdout.starts_with("Tipping point: between 731 and "), "{}", finished.stdout);
    assert_report_repeats(&finished, &finished.folder());
}

#[test]
fn a_haproxy_that_lets_more_wait_in_the_kernels_queue_is_found() {
    let haproxy = Haproxy::start("", &format!("    maxconn 731\n{PONG}"), "");
    let finished = undisturbed(|| find(&haproxy.url("http"), &["--max", "2k"]).run());
    assert_interval_holds_the_truth(&summary_of(&finished, 0));
    assert_report_repeats(&finished, &finished.folder());
}

#[test]
fn a_haproxy_that_is_asked_has_its_maxconn_predicted() {
    let haproxy = Haproxy::start("", &format!("    maxconn 731\n{PONG}"), "");
    let watch = format!("haproxy:{}", haproxy.stats_socket().display());
    let flags = ["--max", "2k", "--watch", &watch];
    let finished = undisturbed(|| find(&haproxy.url("http"), &flags).run());
    let summary = summary_of(&finished, 0);
    let cap = summary.text("find.outcome.not-reached.cap");
    assert!(cap.starts_with("maxconn of frontend sut runs out at about 731 "), "{cap}");
    assert_eq!(summary.text("find.connections.first_limit_of"), "server");
    assert_eq!(summary.count("hold.lost"), 0);
    let cause = &summary.at("causes")[0];
    assert_eq!(cause["cause"], "maxconn", "{cause}");
    assert!(cause["excluded"].as_array().is_some_and(|all| !all.is_empty()), "{cause}");
    let hosts = summary.at("hosts").as_object().expect("hosts");
    let host = hosts.values().next().expect("this host");
    assert!(host["established_max"].as_f64() > Some(500.0), "{host}");
    assert!(host["below"]["memory_bytes"].as_f64() > Some(0.0), "{host}");
    assert_report_repeats(&finished, &finished.folder());

    let pushed = ["--max", "2k", "--push", "--watch", &watch];
    let finished = undisturbed(|| find(&haproxy.url("http"), &pushed).run());
    let summary = summary_of(&finished, 0);
    let causes = summary.at("causes").as_array().expect("causes");
    assert_eq!((causes.len(), &causes[0]["cause"]), (1, &"maxconn".into()), "{causes:?}");
    assert_eq!(causes[0]["grade"], "predicted", "{causes:?}");

    let watched = ["--max", "2k", "--watch", "haproxy:nowhere.sock"];
    let finished = find(&haproxy.url("http"), &watched).run();
    assert_eq!(finished.code, Some(1), "{}", finished.stdout);
    assert!(finished.stderr.contains("--watch haproxy:nowhere.sock: "), "{}", finished.stderr);
}

#[test]
fn a_server_that_answers_nothing_or_fails_half_has_no_tipping_point() {
    let silent = SilentServer::start(Duration::from_secs(60));
    let finished = find(&format!("http://{}/", silent.address), &[]).run();
    let summary = summary_of(&finished, 99);
    assert_eq!(summary.text("find.outcome"), "fails-at-minimum");
    assert_eq!(summary.counts("error_classes").remove("timeout"), Some(100));

    let half = "    http-request return status 503 if { rand(2) eq 0 }";
    let haproxy = Haproxy::start("", &format!("{half}\n{PONG}"), "");
    let summary = summary_of(&find(&haproxy.url("http"), &[]).run(), 99);
    assert_eq!(summary.text("find.outcome"), "fails-at-minimum");
    assert!(summary.counts("error_classes").contains_key("status-5xx"), "{summary:?}");

    let finished = find(&format!("http://{}/", port::free()), &[]).run();
    let summary = summary_of(&finished, 99);
    assert_eq!(summary.text("hold.end"), "nothing-held");
    assert!(finished.stdout.contains("not one connection could be opened"), "{}", finished.stdout);
}

/// Waits until the archive has `levels` levels.
fn wait_for_levels(running: &mut Running, levels: usize) {
    let path = running.folder().join("run/trials.jsonl");
    wait::until("levels", || {
        let judged = fs::read_to_string(&path).unwrap_or_default().matches('\n').count();
        assert!(judged >= levels || !running.has_ended(), "the search ended too soon");
        (judged >= levels).then_some(())
    });
}

#[test]
fn a_server_that_vanishes_keeps_its_levels_and_is_to_blame() {
    let serve = Serve::start(&["--https", "127.0.0.1:0", "--processes", "1"], 1);
    let pid = format!("pid:{}", serve.pid());
    let mut running = find(serve.url(), &["--max", "5k", "--watch", &pid]).start();
    wait_for_levels(&mut running, 2);
    drop(serve);
    let finished = running.finish();
    let summary = summary_of(&finished, 99);
    assert!(summary.count("find.trials") >= 3, "{summary:?}");
    assert!(summary.number("find.lower") >= 200.0, "{summary:?}");
    // Lines are wrapped.
    let words: Vec<&str> = finished.stdout.split_whitespace().collect();
    assert!(words.join(" ").contains("the server failed"), "{}", finished.stdout);
    assert_report_repeats(&finished, &finished.folder());
}

#[test]
fn what_this_machine_cannot_make_is_its_own_limit() {
    let serve = Serve::plain();
    let words = ["find", "connections", serve.url(), "--json", "out.json", "--processes", "1"];
    // 64 descriptors of a process are its own.
    let finished = Plimsoll::after("ulimit -n 364", &[&words[..], &QUICK[..]].concat()).run();
    let summary = summary_of(&finished, 98);
    assert_eq!((summary.text("verdict"), summary.number("find.lower")), ("invalid", 300.0));
    let why = summary.text("find.outcome.generator-limited.why");
    assert!(why.starts_with("open files of a process (clients)"), "{why}");
    assert!(finished.stdout.contains("at least 300"), "{}", finished.stdout);
}

#[test]
fn an_interrupted_search_reports_its_levels() {
    let serve = Serve::plain();
    let mut running = find(serve.url(), &["--max", "5k", "--for", "10m"]).start();
    wait_for_levels(&mut running, 2);
    running.signal_group("INT");
    let finished = running.finish();
    let summary = summary_of(&finished, 130);
    assert_eq!(summary.at("partial"), &Value::Bool(true));
    assert!(summary.number("find.lower") >= 100.0, "{summary:?}");
    assert!(finished.stdout.starts_with("Stopped: "), "{}", finished.stdout);
    assert!(finished.stdout.contains("\nPARTIAL"), "{}", finished.stdout);
}

#[test]
fn the_laboratory_searches_through_its_own_server_up_to_the_cap() {
    let own = ["lab", "connections", "--sut", "embedded", "--max", "500"];
    let flags = [&own[..], &QUICK[..], &["--json", "out.json"]].concat();
    let finished = undisturbed(|| Plimsoll::new(&flags).run());
    finished.assert_no_scratch();
    let summary = summary_of(&finished, 0);
    assert_eq!(summary.number("find.lower"), 500.0);
    assert_eq!(summary.text("find.outcome.not-reached.cap"), "500 connections, --max");
    let levels = summary.at("hold.plateaus").as_array().expect("a list");
    assert!(levels.iter().all(|level| level["sut_bytes_per_connection"].is_number()), "{levels:?}");
    assert!(finished.stdout.contains("Projected limits"), "{}", finished.stdout);
}
