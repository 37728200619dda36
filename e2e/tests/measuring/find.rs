//! The search against a server whose true capacity is known, and what limits it.

use std::time::Duration;

use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Finished, Plimsoll};

use crate::beside_others;

/// The search's own budget is shorter.
const SEARCH_PATIENCE: Duration = Duration::from_secs(180);
/// One search in five may err even on a quiet machine, and one that ends INVALID says nothing: so
/// the truth must be found by one of these. `nightly/capacity.rs` has more
/// servers and longer searches.
const ATTEMPTS: usize = 3;
const TRUTH_PER_S: f64 = 450.0;
const CAUSE: [&str; 2] = ["rate-limit", "predicted"];

fn search(haproxy: &Haproxy) -> Finished {
    let (url, socket) =
        (haproxy.url("http"), format!("haproxy:{}", haproxy.stats_socket().display()));
    let flags = ["find", "rate", &url, "--no-keepalive", "--budget", "90s", "--json", "-"];
    // An upper bound close to the truth saves time; the loads below it are not at 450/s, and reach far enough for a
    // line through them.
    let bounds = ["--min", "210", "--max", "500", "--watch", &socket];
    let running = Plimsoll::new([&flags[..], &bounds].concat()).start();
    running.finish_within(SEARCH_PATIENCE)
}

#[test]
fn the_limit_that_haproxy_was_given_is_found_and_named() {
    let _machine = beside_others();
    // HAProxy accepts 450 connections a second; the others wait.
    let rules = "    rate-limit sessions 450\n    \
                 http-request return status 200 content-type text/plain string pong";
    let haproxy = Haproxy::start("", rules, "");
    let mut seen = Vec::new();
    for _ in 0..ATTEMPTS {
        let finished = search(&haproxy);
        let Some(code @ (0 | 98 | 99)) = finished.code else {
            panic!("{:?}: {}", finished.code, finished.stderr);
        };
        // Irregular outcomes are objects with a reason.
        if !finished.stdout.contains(r#""outcome": "regular""#) {
            seen.push(format!("an irregular end with code {code}"));
            continue;
        }
        let summary = finished.summary(code);
        let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
        assert_eq!(summary.text("verdict"), "good");
        let first = &summary.at("causes")[0];
        let cause = [&first["cause"], &first["grade"]];
        // A search of 60 s promises this of a steady server. A disturbed one ends with a wider interval, and says so.
        let is_narrow = upper / lower <= 1.1501;
        if (lower..=upper).contains(&TRUTH_PER_S) && is_narrow && cause == CAUSE {
            return;
        }
        seen.push(format!("[{lower}, {upper}], {cause:?}"));
    }
    panic!("{TRUTH_PER_S} and its limit are in none of {seen:?}");
}
