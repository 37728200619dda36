//! Hidden timers of the client, of a real HAProxy and of what stands behind it: each is found and
//! ascribed to the right one. These are short; `nightly/cliffs.rs` has timers up to two minutes.

use std::time::Duration;

use serde_json::Value;

use e2e::cliff::{assert_cliff, assert_row, cliffs, proxy, row};
use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use e2e::silent::SilentServer;
use e2e::summary::Summary;

/// A load that may fail, be late or be judged INVALID: what counts is what it saw.
fn load(url: &str, flags: &[&str]) -> Summary {
    let finished = Plimsoll::load(url, flags).run();
    assert!(matches!(finished.code, Some(0 | 98 | 99)), "{}", finished.stderr);
    Summary::parse(&finished.stdout)
}

#[test]
fn a_load_that_meets_no_timer_shows_none_and_says_how_far_it_saw() {
    let serve = Serve::plain();
    let summary = load(serve.url(), &["-r", "200", "-d", "1s", "--linger", "7s"]);
    assert_eq!(cliffs(&summary), &[] as &[Value]);
    assert_eq!(summary.number("longest_timer.answer_ms"), 7_000.0);
    assert!((summary.number("longest_timer.connection_ms") - 1_000.0).abs() < 100.0);
    assert!(summary.at("longest_timer.probe_ms").is_null());
}

#[test]
fn the_clients_own_timer_is_called_its_own() {
    let serve = Serve::plain();
    let flags = ["-H", "sleep-fixed: 20000", "-r", "40", "-d", "1s", "--linger", "3s"];
    let summary = load(serve.url(), &flags);
    let cliff = assert_cliff(&summary, "own-timer", 3.0, "client");
    assert_eq!(cliff["confidence"], "certain");
    assert_eq!(cliff["label"], "plimsoll's own --linger");
}

#[test]
fn a_connection_that_does_not_come_is_given_up_by_the_clients_own_timer() {
    // It accepts, and never answers the ClientHello.
    let silent = SilentServer::start(Duration::from_secs(60));
    let url = format!("https://{}/", silent.address);
    let flags = ["-k", "--no-keepalive", "-r", "40", "-d", "1s", "--connect-timeout", "2s"];
    let summary = load(&url, &flags);
    let cliff = assert_cliff(&summary, "own-timer", 2.0, "client");
    assert_eq!((&cliff["stretch"], &cliff["confidence"]), (&"opening".into(), &"certain".into()));
    assert_eq!(cliff["label"], "plimsoll's own --connect-timeout");
}

#[test]
fn the_proxys_timer_for_its_backend_is_the_suts() {
    let serve = Serve::plain();
    let haproxy = proxy(serve.address(), "", "    timeout server 3s");
    let flags = ["-H", "sleep: 6000", "-r", "60", "-d", "2s", "-c", "200"];
    assert_cliff(&load(&haproxy.url("http"), &flags), "status-504", 3.0, "sut");
}

#[test]
fn the_proxys_timer_for_idle_connections_is_the_suts() {
    let serve = Serve::plain();
    let haproxy = proxy(serve.address(), "    timeout http-keep-alive 2s", "");
    // Each connection of the pool would be used again after 3 s.
    let flags = ["-r", "20", "-d", "6s", "-c", "60", "--arrivals", "uniform"];
    let summary = load(&haproxy.url("http"), &flags);
    let cliff = assert_cliff(&summary, "peer-fin", 2.0, "sut");
    assert_eq!((&cliff["stretch"], &cliff["confidence"]), (&"idle".into(), &"likely".into()));
}

#[test]
fn a_backend_that_closes_after_a_while_is_told_from_its_proxy() {
    let silent = SilentServer::start(Duration::from_secs(2));
    let haproxy = proxy(silent.address, "", "");
    let summary = load(&haproxy.url("http"), &["-r", "40", "-d", "1s"]);
    assert_cliff(&summary, "status-502", 2.0, "backend");
}

#[test]
fn answers_that_some_requests_wait_for_are_the_backends() {
    let serve = Serve::plain();
    let haproxy = proxy(serve.address(), "", "");
    // One request in eight sleeps.
    let url = haproxy.url("http");
    let slow = format!("GET {url}\nsleep-fixed: 2000\n\n");
    let fast = format!("GET {url}\n\n");
    let targets = format!("{slow}{}", fast.repeat(7));
    let flags = ["load", "--json", "-", "--slo", "errors<1%", "--targets", "-", "-r", "200"];
    let finished = Plimsoll::new([&flags[..], &["-d", "2s"]].concat()).with_input(targets).run();
    let summary = Summary::parse(&finished.stdout);
    assert_cliff(&summary, "success", 2.0, "backend");
}

/// The shortest search: two trials, whose verdict does not matter here. On a busy machine they may be invalid, and a
/// quick search would repeat them for 4 minutes.
fn search(command: &[&str], flags: &[&str]) -> Summary {
    let short = ["--mode", "quick", "--min", "100", "--max", "200", "--budget", "60s"];
    let lax = ["--json", "out.json", "--slo", "p99<900ms,errors<50%"];
    let finished = Plimsoll::new([command, &short, &lax, flags].concat()).run();
    let code = finished.code.filter(|code| [0, 98, 99].contains(code));
    finished.written(code.unwrap_or_else(|| panic!("{finished:?}")))
}

#[test]
fn the_timeout_probe_tells_the_proxys_timers_from_the_backends() {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--request-timeout", "2s"], 1);
    let timers = "    timeout http-request 1s\n    timeout http-keep-alive 3s";
    let haproxy = proxy(serve.address(), timers, "");
    let url = haproxy.url("http");
    let summary = search(&["find", "rate", &url], &["--probe-timeouts", "5s"]);
    assert_row(&summary, "connected", 1.0, "sut");
    assert_row(&summary, "half-head", 1.0, "sut");
    assert_row(&summary, "half-body", 2.0, "backend");
    assert_row(&summary, "answered", 3.0, "sut");
    assert_eq!(summary.number("longest_timer.probe_ms"), 5_000.0);
}

#[test]
fn the_timers_of_a_lab_outlast_a_short_probe_and_quick_searches_have_none() {
    let lab = ["lab", "--sut", "haproxy", "--no-ui"];
    let summary = search(&lab, &["--probe-timeouts", "1s"]);
    for kind in ["connected", "tls-done", "half-head", "half-body", "answered", "slow-answer"] {
        let row = row(&summary, kind);
        assert!(row["after_ms"].is_null() && row["closer"] == "us", "{row}");
    }
    let summary = search(&lab, &[]);
    assert!(summary.0.get("timers").is_none(), "{summary:?}");
}
