//! The search against a server whose true capacity is known, and what limits it. `nightly/capacity.rs` has more servers
//! and longer searches.

use std::time::Duration;

use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Finished, Plimsoll, found_once};
use e2e::turn::beside_others;

/// The search's own budget is shorter.
const SEARCH_PATIENCE: Duration = Duration::from_secs(180);
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
    // One search in five may err even on a quiet machine, and one that ends INVALID says nothing: the truth must be found
    // once. HAProxy accepts 450 connections a second; the others wait.
    let rules = "    rate-limit sessions 450\n    \
                 http-request return status 200 content-type text/plain string pong";
    let haproxy = Haproxy::start("", rules, "");
    found_once(
        &[0, 98, 99],
        || search(&haproxy),
        |summary| {
            let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
            assert_eq!(summary.text("verdict"), "good");
            let first = &summary.at("causes")[0];
            let cause = [&first["cause"], &first["grade"]];
            // A search of 60 s promises this of a steady server. A disturbed one ends with a wider interval, and says so.
            let is_narrow = upper / lower <= 1.1501;
            let is_right = (lower..=upper).contains(&TRUTH_PER_S) && is_narrow && cause == CAUSE;
            (!is_right).then(|| format!("[{lower}, {upper}], {cause:?}"))
        },
    );
}
