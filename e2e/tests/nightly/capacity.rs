//! Searches of servers whose capacity is known, because it was set, by HAProxy and by the reference
//! server: the truth must lie in every interval. And searches of one laboratory must agree.

use std::time::Duration;

use e2e::capped::CappedServer;
use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Plimsoll, undisturbed};
use e2e::reference::Service;
use e2e::serve::Serve;
use e2e::summary::Summary;

use crate::{alone, client, pin_server, reference};

const PATIENCE: Duration = Duration::from_secs(600);
/// Widest interval of a quick search for connections, beside rounding errors. A search for a rate
/// promises no width.
const WIDTH_MAX: f64 = 1.05 + 1e-9;
/// Longest quick search with everything around it, seconds.
const SECONDS_MAX: f64 = 240.0;

/// Returns the bounds of a complete search.
fn bounds(summary: &Summary) -> (f64, f64) {
    assert_eq!(summary.text("find.outcome"), "regular", "{summary:?}");
    let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
    println!("[{lower:.1}, {upper:.1}] in {} trials", summary.count("find.trials"));
    assert!(
        summary.text("find.axis") != "connections" || upper / lower <= WIDTH_MAX,
        "{summary:?}"
    );
    (lower, upper)
}

/// A quick search of `url`, whose interval must hold `truth`.
fn assert_found(axis: &str, url: &str, flags: &[&str], truth: f64) -> Summary {
    let own = ["find", axis, url, "--mode", "quick", "--no-ui", "--json", "-"];
    let finished =
        undisturbed(|| client(&[&own[..], flags].concat()).start().finish_within(PATIENCE));
    let summary = finished.summary(0);
    let (lower, upper) = bounds(&summary);
    assert!((lower..=upper).contains(&truth), "{truth} is not in [{lower}, {upper}]");
    summary
}

#[test]
#[ignore = "takes 90 s on an idle machine"]
fn haproxy_with_a_limit_of_sessions() {
    let _alone = alone();
    let rules = "    rate-limit sessions 450\n    http-request return status 200";
    let haproxy = Haproxy::start("", rules, "");
    pin_server(haproxy.pid());
    // A session is a connection, so that each request needs one of its own.
    assert_found("rate", &haproxy.url("http"), &["--no-keepalive"], 450.0);
}

#[test]
#[ignore = "takes 5 minutes on an idle machine"]
fn token_buckets() {
    let _alone = alone();
    for per_s in [700, 2_300, 9_100] {
        let server = reference(Service::Bucket { per_s }, 1);
        assert_found("rate", &server.url, &[], per_s.into());
    }
}

#[test]
#[ignore = "takes 2 minutes on an idle machine"]
fn a_broker_with_a_token_bucket_behind_haproxy() {
    let _alone = alone();
    let broker = reference(Service::Bucket { per_s: 2_300 }, 1);
    let address = broker.url.trim_start_matches("http://").trim_end_matches('/');
    let sections = format!("backend brokers\n    mode tcp\n    server broker {address}\n");
    let haproxy = Haproxy::start("", "    mode tcp\n    default_backend brokers", &sections);
    pin_server(haproxy.pid());
    assert_found("rate", &format!("mqtt://{}", haproxy.address), &[], 2_300.0);
}

#[test]
#[ignore = "takes 2 minutes on an idle machine"]
fn a_broker_that_has_a_window_for_each_connection() {
    let _alone = alone();
    let window = ["--mqtt-receive-maximum", "20", "--mqtt-delay", "10ms"];
    let one = ["--mqtt", "127.0.0.1:0", "--processes", "1", "--threads", "1"];
    let serve = Serve::start(&[&one[..], &window].concat(), 1);
    pin_server(serve.pid());
    let few = ["--rate", "100", "--duration", "3s", "--connections", "1", "--no-ui", "--json", "-"];
    let alone = client(&[&["load", serve.url()][..], &few].concat()).run().summary(0);
    // 20 at once, each as long as one alone, about 10 ms: no connection can carry more.
    let truth = 20e3 / alone.number("latency_ms.uncorrected.p50");
    let flags = ["--connections", "1", "--inflight", "50"];
    assert_found("rate", serve.url(), &flags, truth);
}

#[test]
#[ignore = "takes 3 minutes on an idle machine"]
fn a_server_that_needs_a_while_to_recover() {
    let _alone = alone();
    let server = reference(Service::Metastable { per_s: 1_000 }, 1);
    let summary = assert_found("rate", &server.url, &[], 1_000.0);
    assert_eq!(summary.text("find.recovers"), "after");
}

#[test]
#[ignore = "takes 40 s on an idle machine"]
fn a_server_that_keeps_so_many_connections() {
    let _alone = alone();
    let url = format!("http://{}/", CappedServer::start(731).address);
    assert_found("connections", &url, &["--max", "2k"], 731.0);
}

#[test]
#[ignore = "takes 20 minutes on an idle machine"]
fn searches_of_one_laboratory_agree_or_say_that_it_is_not_steady() {
    let _alone = alone();
    let search = || {
        let flags = ["lab", "--mode", "quick", "--sut", "haproxy", "--no-ui", "--json", "-"];
        let finished = undisturbed(|| Plimsoll::new(flags).start().finish_within(PATIENCE));
        let is_unstable = finished.code == Some(97);
        let summary = finished.summary(if is_unstable { 97 } else { 0 });
        assert!(summary.number("seconds") < SECONDS_MAX, "{summary:?}");
        if is_unstable {
            assert_ne!(summary.text("find.outcome.unstable.why.reason"), "");
            return None;
        }
        Some(bounds(&summary))
    };
    let stated: Vec<(f64, f64)> = (0..6).filter_map(|_| search()).collect();
    assert!(stated.len() >= 3, "{stated:?}");
    let pairs =
        stated.iter().enumerate().flat_map(|(i, a)| stated[..i].iter().map(move |b| (a, b)));
    let overlap: Vec<bool> = pairs.map(|(a, b)| a.0 <= b.1 && b.0 <= a.1).collect();
    let agreeing = overlap.iter().filter(|overlaps| **overlaps).count();
    assert!(agreeing * 10 >= overlap.len() * 9, "{agreeing} of {}: {stated:?}", overlap.len());
}
