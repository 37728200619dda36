//! The search against a server whose true capacity is known.

use std::time::Duration;

use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Finished, Plimsoll};

/// The search's own budget is shorter.
const SEARCH_PATIENCE: Duration = Duration::from_secs(280);
/// One search in five may err even on a quiet machine, and one that ends INVALID says nothing: so
/// the truth must be found by one of these. `nightly/capacity.rs` has more
/// servers.
const ATTEMPTS: usize = 3;
const TRUTH_PER_S: f64 = 450.0;

fn search(haproxy: &Haproxy) -> Finished {
    let url = haproxy.url("http");
    let flags = ["find", "rate", &url, "--no-keepalive", "--mode", "quick", "--json", "-"];
    // Bounds close to the truth save time; the loads between them are not at 450/s.
    let running = Plimsoll::new([&flags[..], &["--min", "420", "--max", "500"]].concat()).start();
    running.finish_within(SEARCH_PATIENCE)
}

#[test]
fn the_limit_that_haproxy_was_given_is_found() {
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
        assert!(upper / lower <= 1.0501, "[{lower}, {upper}] is wider than 5 %");
        assert_eq!(summary.text("verdict"), "good");
        if (lower..=upper).contains(&TRUTH_PER_S) {
            return;
        }
        seen.push(format!("[{lower}, {upper}]"));
    }
    panic!("{TRUTH_PER_S} is in none of {seen:?}");
}
