//! Searches whose limits are known, because they were set: a HAProxy's capacity with what limits it, its largest storm, and
//! a client that has too few connections. `nightly/capacity.rs` has more servers and longer searches.

use std::time::Duration;

use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Finished, Plimsoll, found_once};
use e2e::serve::Serve;

/// The search's own budget is shorter.
const SEARCH_PATIENCE: Duration = Duration::from_secs(180);
/// The budget of the search and of the jitter is shorter.
const STORM_PATIENCE: Duration = Duration::from_secs(300);
const TRUTH_PER_S: f64 = 450.0;
const CAUSE: [&str; 2] = ["rate-limit", "predicted"];
/// Gives a program the priority of laboratories, before the other tests, where that is allowed: the limit is the subject, and not
/// the latency of a machine that does other work.
const AS_LABORATORIES: &str = "{ renice -n -10 $$ || true; } > /dev/null 2>&1";
/// HAProxy accepts 400 connections per second, and all must be back within 2 s.
const LARGEST_STORM: f64 = 800.0;
/// All 2,000 need 5 s, of which 2 s are allowed after the longest wait; jitter is not even.
const JITTER_S: std::ops::Range<f64> = 2.5..4.5;

fn search(haproxy: &Haproxy) -> Finished {
    let (url, socket) =
        (haproxy.url("http"), format!("haproxy:{}", haproxy.stats_socket().display()));
    let flags = ["find", "rate", &url, "--no-keepalive", "--budget", "90s", "--json", "-"];
    // An upper bound close to the truth saves time; the loads below it are not at 450/s, and reach far enough for a
    // line through them.
    let bounds = ["--min", "210", "--max", "500", "--watch", &socket];
    let running = Plimsoll::after(AS_LABORATORIES, &[&flags[..], &bounds].concat()).start();
    running.finish_within(SEARCH_PATIENCE)
}

#[test]
fn the_limit_that_haproxy_was_given_is_found_and_named() {
    // One search in five may err even on a quiet machine, and one that ends INVALID says nothing: the truth must be
    // found once. HAProxy accepts 450 connections a second; the others wait.
    let rules = "    rate-limit sessions 450\n    \
                 http-request return status 200 content-type text/plain string pong";
    let haproxy = Haproxy::after(AS_LABORATORIES, "", rules, "");
    found_once(
        &[0, 98, 99],
        || search(&haproxy),
        |summary| {
            let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
            assert_eq!(summary.text("verdict"), "good");
            let first = &summary.at("causes")[0];
            let cause = [&first["cause"], &first["grade"]];
            // A search of 60 s promises this of a steady server. A disturbed one ends with a wider interval, and says
            // so.
            let is_narrow = upper / lower <= 1.1501;
            let is_right = (lower..=upper).contains(&TRUTH_PER_S) && is_narrow && cause == CAUSE;
            (!is_right).then(|| format!("[{lower}, {upper}], {cause:?}"))
        },
    );
}

fn search_of_storms(haproxy: &Haproxy) -> Finished {
    let (url, socket) = (haproxy.url("http"), haproxy.stats_socket());
    let watch = format!("haproxy:{}", socket.display());
    let flags = ["find", "storm", &url, "-c", "2000", "--rate", "300", "--recover", "2s"];
    // The second storm would cut 800 after one of 200, and be GOOD or BAD by chance; five storms, in 60 s, leave too wide an interval.
    let more = ["--min", "600", "--slo", "p99<1s,errors<1%", "--budget", "80s"];
    let more = [&more[..], &["--watch", &watch, "--json", "-", "--try-remedies"]].concat();
    let running = Plimsoll::after(AS_LABORATORIES, &[&flags[..], &more].concat()).start();
    running.finish_within(STORM_PATIENCE)
}

#[test]
fn the_largest_storm_of_a_limited_haproxy_is_found() {
    // A search may end INVALID on a busy machine, and one in ten errs: the truth must be found once.
    let rules = "    http-request return status 200 content-type text/plain string pong";
    let haproxy = Haproxy::after(AS_LABORATORIES, "", rules, "global\n    maxconnrate 400");
    found_once(
        &[0, 97, 98, 99],
        || search_of_storms(&haproxy),
        |summary| {
            let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
            assert_eq!(summary.text("find.axis"), "storm");
            assert_eq!(summary.count("storm.held"), 2_000);
            // HAProxy averages its rate over a second and lets a burst through at first: one tenth to each side.
            // HAProxy's socket names its process.
            let seconds = summary.at("storm.storms").as_array().into_iter().flatten();
            let mut seconds =
                seconds.flat_map(|one| one["seconds"].as_array().into_iter().flatten());
            assert!(seconds.any(|second| second["server_cpu"].is_number()), "{summary:?}");
            let cause = &summary.at("causes")[0]["cause"];
            let is_right =
                lower <= 1.1 * LARGEST_STORM && upper >= 0.9 * LARGEST_STORM && upper / lower < 1.3;
            let enough = summary.at("storm.jitter.enough_s");
            let has_jitter = enough.as_f64().is_some_and(|enough| JITTER_S.contains(&enough));
            let is_found = is_right && has_jitter && cause == "rate-limit";
            (!is_found).then(|| format!("[{lower}, {upper}], {cause}, jitter {enough}"))
        },
    );
}

#[test]
fn a_search_with_too_few_connections_never_blames_the_server() {
    let serve = Serve::plain();
    // One connection carries 200 of these a second, however fast the server is with more.
    let flags = ["find", "rate", serve.url(), "--mode", "quick", "--json", "-", "--no-ui"];
    let few = ["-H", "sleep-fixed: 5", "-c", "1", "--min", "20", "--max", "1000"];
    let finished = Plimsoll::new([&flags[..], &few].concat()).run();
    let summary = finished.summary(98);
    let why = summary.text("find.outcome.generator-limited.why");
    // On a busy machine the client may be late before it runs out of connections.
    assert!(
        ["pool", "own-delay", "send-lag", "scheduling"].iter().any(|name| why.contains(name)),
        "{why}"
    );
}
