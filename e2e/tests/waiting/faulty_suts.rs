//! Searches of servers that cannot be searched: each ends by itself with a verdict on the server,
//! exit code 99, a line that says what was seen, and every trial in JSON, archive and report.

use std::fs;
use std::path::Path;
use std::time::Duration;

use e2e::certificate::Certificate;
use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Finished, Plimsoll, undisturbed};
use e2e::serve::Serve;
use e2e::silent::SilentServer;
use e2e::summary::Summary;
use e2e::{port, process, wait};

/// Longer than any connection of a test lives.
const NEVER: Duration = Duration::from_secs(3_600);
/// A goal that only failing servers miss, also on a busy machine.
const LENIENT: [&str; 2] = ["--slo", "p99<2s,errors<1%"];
const PONG: &str = "    http-request return status 200 content-type text/plain string pong";

/// `find AXIS URL` with its archive in `run`.
fn find(axis: &str, url: &str, more: &[&str]) -> Plimsoll {
    let flags = ["find", axis, url, "-k", "--mode", "quick", "--out", "run"];
    let waits = ["--json", "out.json", "--linger", "200ms", "--connect-timeout", "1s"];
    Plimsoll::new([&flags[..], &waits, more].concat())
}

/// Checks the verdict BAD, the exit code, and that every trial is kept everywhere.
fn assert_kept(finished: &Finished) -> Summary {
    let shown = format!("{}\n{}", finished.stderr, finished.stdout);
    let summary = finished.written(99);
    assert_eq!((summary.text("verdict"), summary.at("partial")), ("bad", &false.into()), "{shown}");
    let trials = summary.count("find.trials") + summary.count("find.invalid_trials");
    assert!(trials >= 2, "{shown}");
    assert_eq!(kept(&finished.folder()) as u64, trials, "{shown}");
    let again = Plimsoll::new(["report", "run"]).within(&finished.folder()).run();
    assert_eq!((again.code, &again.stdout), (Some(0), &finished.stdout), "{}", again.stderr);
    finished.assert_no_scratch();
    summary
}

/// Trials in the archive, without those that are for the use of resources alone.
fn kept(folder: &Path) -> usize {
    let trials = fs::read_to_string(folder.join("run/trials.jsonl")).unwrap_or_default();
    trials.lines().filter(|line| !line.contains(r#""phase":"usage""#)).count()
}

/// Not even the lowest load is served, and the report says `words`.
fn assert_never_good(axis: &str, url: &str, more: &[&str], words: &[&str]) -> Summary {
    let finished = undisturbed(|| find(axis, url, more).run());
    let summary = assert_kept(&finished);
    let report = &finished.stdout;
    assert_eq!(summary.at("find.outcome"), "fails-at-minimum", "{report}");
    assert!(summary.at("find.lower").is_null(), "{report}");
    assert!(report.starts_with("No tipping point:"), "{report}");
    // Lines are wrapped as the width asks.
    let flat = report.split_whitespace().collect::<Vec<_>>().join(" ");
    for word in words {
        assert!(flat.contains(word), "{axis} {url}: no {word:?} in {report}");
    }
    summary
}

fn tls_haproxy(certificate: &Certificate, rules: &str) -> Haproxy {
    Haproxy::start(&format!("ssl crt {}", certificate.both().display()), rules, "")
}

#[test]
fn a_goal_that_no_load_meets() {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"], 2);
    // The looser the goal, the less of it may be lost to a busy machine.
    let slow = ["--slo", "p99<60ms,errors<1%", "-H", "sleep-fixed: 100"];
    let words = ["missed the SLO even at the lowest load", "loosen --slo"];
    assert_never_good("rate", &serve.urls[0], &slow, &words);
    // No handshake is that fast.
    assert_never_good("handshakes", &serve.urls[1], &["--slo", "p99<2us,errors<1%"], &words);
}

#[test]
fn a_server_that_accepts_and_says_nothing() {
    let silent = SilentServer::start(NEVER);
    let (http, https) =
        (format!("http://{}/", silent.address), format!("https://{}/", silent.address));
    let words = ["not one operation was answered"];
    for (axis, url) in [("rate", &http), ("handshakes", &https)] {
        let quick = ["--slo", "p99<300ms,errors<1%", "-c", "80", "-t", "1"];
        let summary = assert_never_good(axis, url, &quick, &words);
        assert_eq!(summary.count("ok"), 0, "{axis} {url}: {summary:?}");
    }
}

#[test]
fn a_server_that_refuses_every_connection() {
    let address = port::free();
    let words = ["not one operation was answered", "connect-refused", "nothing listens there"];
    for (axis, scheme) in [("rate", "http"), ("handshakes", "https")] {
        let summary = assert_never_good(axis, &format!("{scheme}://{address}/"), &LENIENT, &words);
        let classes = summary.counts("error_classes");
        assert!(classes.contains_key("connect-refused"), "{axis} {scheme}: {classes:?}");
    }
}

#[test]
fn a_server_that_fails_half_of_what_it_is_asked() {
    let half = "{ rand(2) eq 0 }";
    let denies = format!("    http-request deny deny_status 503 if {half}\n{PONG}");
    let haproxy = Haproxy::start("", &denies, "");
    let missed = "missed the SLO even at the lowest load";
    let summary =
        assert_never_good("rate", &haproxy.url("http"), &LENIENT, &[missed, "status-5xx"]);
    assert!(summary.counts("status").contains_key("503"), "{summary:?}");
    let certificate = Certificate::new();
    let rejects = format!("    tcp-request connection reject if {half}\n{PONG}");
    let haproxy = tls_haproxy(&certificate, &rejects);
    let summary = assert_never_good("handshakes", &haproxy.url("https"), &LENIENT, &[missed]);
    assert!(summary.count("ok") > 0 && summary.count("errors") > 0, "{summary:?}");
}

#[test]
fn a_server_that_vanishes_in_mid_search() {
    let certificate = Certificate::new();
    for (axis, mut haproxy, scheme) in [
        ("rate", Haproxy::start("", PONG, ""), "http"),
        ("handshakes", tls_haproxy(&certificate, PONG), "https"),
    ] {
        let url = haproxy.url(scheme);
        // Far from anything that this server cannot do: only its death can end the search BAD.
        let mut running = find(axis, &url, &[&LENIENT[..], &["--min", "20"]].concat()).start();
        wait::until("the first trial", || {
            assert!(!running.has_ended(), "the search ended before its second trial");
            (kept(running.folder()) >= 1).then_some(())
        });
        haproxy.kill();
        let finished = running.finish();
        let summary = assert_kept(&finished);
        let why = "find.outcome.unfinished.why";
        assert_eq!(summary.text(&format!("{why}.reason")), "silent");
        assert_eq!(summary.text(&format!("{why}.class")), "connect-refused");
        // What was seen before it died stands, and its death is no upper bound.
        assert!(summary.number("find.lower") >= 20.0, "{summary:?}");
        assert!(summary.at("find.upper").is_null(), "{}", finished.stdout);
        assert!(finished.stdout.starts_with("Server lost:"), "{}", finished.stdout);
        assert!(process::entries(&finished.folder().join("tmp")).is_empty());
    }
}
