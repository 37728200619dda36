//! The search against a server whose true capacity is known. Alone in its file: cargo runs one
//! test program at a time, so nothing of ours competes with it.

use std::time::Duration;

use e2e::haproxy::Haproxy;
use e2e::plimsoll::Plimsoll;
use e2e::summary::Summary;

/// The search's own budget is shorter.
const SEARCH_PATIENCE: Duration = Duration::from_secs(280);

#[test]
fn the_limit_that_haproxy_was_given_is_found() {
    // HAProxy takes 450 connections a second and lets the others wait.
    let rules = "    rate-limit sessions 450\n    \
                 http-request return status 200 content-type text/plain string pong";
    let haproxy = Haproxy::start("", rules, "");
    let url = haproxy.url("http");
    let flags = ["find", "rate", &url, "--no-keepalive", "--mode", "quick", "--json", "-"];
    // Bounds close to the truth save time; the loads between them are not at 450/s.
    let running = Plimsoll::new([&flags[..], &["--min", "420", "--max", "500"]].concat()).start();
    let finished = running.finish_within(SEARCH_PATIENCE);
    let summary: Summary = finished.summary(0);
    assert_eq!(summary.text("find.outcome"), "regular", "{}", finished.stderr);
    let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
    assert!(lower <= 450.0 && 450.0 <= upper, "450 is not in [{lower}, {upper}]");
    assert!(upper / lower <= 1.0501, "[{lower}, {upper}] is wider than 5 %");
    assert_eq!(summary.text("verdict"), "good");
}
