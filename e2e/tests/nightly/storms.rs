//! Storms whose end follows from the server: a queue of handshakes that is served in order, also for clients that have
//! left, and a broker with sessions and subscriptions.

use std::process::Command;
use std::time::Duration;

use e2e::certificate::Certificate;
use e2e::conversation::Conversation;
use e2e::mosquitto::Mosquitto;
use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;
use e2e::program;
use e2e::serve::Serve;
use e2e::summary::Summary;

use crate::alone;
use crate::wrapper::Wrapper;

const PATIENCE: Duration = Duration::from_secs(900);

fn search(what: &[&str], flags: &[&str]) -> Summary {
    let own = ["--mode", "quick", "--no-ui", "--json", "-"];
    let finished = Plimsoll::new([what, &own, flags].concat()).start().finish_within(PATIENCE);
    finished.summary(0)
}

/// 500 handshakes per second and a patience of 1 s. Of n clients 500 are served in the first second; then the places of
/// the n - 500 that gave up are served in vain, and then these again: all are back after (2 n - 500) / 500 seconds, 2 s
/// for 750. From 1,000 on, no place is reached before its client gives up.
#[test]
#[ignore = "needs go, and takes minutes"]
fn a_go_server_that_serves_clients_that_have_left_has_both_limits() {
    let _alone = alone();
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let Some(program) = program::of_go_source("server", folder.path()) else { return };
    let certificate = Certificate::new();
    let (chain, key) = (certificate.chain_argument(), certificate.key_argument());
    let mut command = Command::new(program);
    let server = Conversation::start(command.args(["queue", "500", &chain, &key]));
    server.wait_for("\n", 1);
    let url = format!("https://{}/", server.text().trim());
    let flags = ["-c", "2000", "--rate", "300", "--recover", "2s", "--connect-timeout", "1s"];
    let summary = search(
        &["find", "storm", &url, "-k"],
        &[&flags[..], &["--slo", "p99<1s,errors<1%"]].concat(),
    );
    let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
    let endless = summary.number("storm.endless_from");
    let below = summary.at("storm.ends_below");
    println!("[{lower}, {upper}] of 750, endless from {endless} of 1,000, {below}");
    assert!(lower <= 1.1 * 750.0 && upper >= 0.9 * 750.0, "{summary:?}");
    assert!((800.0..1_350.0).contains(&endless), "{summary:?}");
    // One patience of handshakes: the queue of more clients never becomes shorter.
    assert!(below["ended_with"].as_u64().is_none_or(|ended| ended <= 550), "{below}");
    assert!(below["lasted_with"].as_f64().is_some_and(|lasted| lasted < endless), "{below}");
}

#[test]
#[ignore = "takes minutes"]
fn ten_thousand_sessions_of_mosquitto_come_back_with_their_subscriptions() {
    let _alone = alone();
    let broker = Mosquitto::start_with("sys_interval 1\n", &Certificate::new());
    let url = format!("mqtt://{}", broker.plain);
    let sessions = ["--no-clean-start", "--session-expiry", "3600", "--subscribe", "s/%i"];
    let flags = ["-c", "10000", "--recover", "10s", "--slo", "p99<1s,errors<1%", "--topic", "s/%i"];
    let summary = search(&["find", "storm", &url, "-k"], &[&flags[..], &sessions].concat());
    println!("{:?}: {:?}", summary.at("find.outcome"), summary.at("find.lower"));
    assert_eq!(summary.count("storm.held"), 10_000);
    for storm in summary.at("storm.storms").as_array().expect("a list") {
        assert!(
            storm["verdict"] != "good" || (storm["missing"] == 0 && storm["lost"] == 0),
            "{storm}"
        );
    }
}

/// nginx with `limit_conn 200` counts requests in process, of 300 ms each. All clients come back within that time, so
/// that their first requests and the 18 or so of the others are in process at once; beyond 200 some of the others get
/// 503.
#[test]
#[ignore = "takes minutes"]
fn the_largest_storm_of_a_limited_nginx_follows_from_its_limit() {
    const LIMIT: f64 = 200.0;
    let _alone = alone();
    let backend = Serve::plain();
    let pass = format!("proxy_pass {}; proxy_http_version 1.1;", backend.url());
    let limited = format!("limit_conn clients {LIMIT}; proxy_set_header Connection \"\"; {pass}");
    let nginx = Nginx::start(false, &format!("location = /slow {{ {limited} }}"));
    let url = format!("{}slow", nginx.url("http"));
    let flags = ["-c", "600", "--heartbeat", "10s", "--header", "sleep-fixed: 300"];
    let more = ["--recover", "3s", "--slo", "p99<1s,errors<1%", "--budget", "120s"];
    let summary = search(&["find", "storm", &url], &[&flags[..], &more].concat());
    let (lower, upper) = (summary.number("find.lower"), summary.number("find.upper"));
    println!("[{lower}, {upper}] of {LIMIT} less the requests of the others");
    assert!(lower <= LIMIT && upper >= 0.85 * LIMIT && upper < 1.5 * lower, "{summary:?}");
}

/// nginx has two certificates and takes the RSA one where clients accept both, so that its one worker makes about 1,000
/// handshakes per second. Clients that ask for the ECDSA one are back sooner.
#[test]
#[ignore = "takes minutes"]
fn an_ecdsa_certificate_raises_the_largest_storm() {
    let _alone = alone();
    let (rsa, ecdsa) = (Certificate::rsa(), Certificate::new());
    let both = [&rsa, &ecdsa].map(|one| {
        format!(
            "ssl_certificate {}; ssl_certificate_key {};",
            one.chain_argument(),
            one.key_argument()
        )
    });
    let prefers_rsa = "ssl_protocols TLSv1.2; ssl_prefer_server_ciphers on; ssl_session_tickets off; \
                       ssl_ciphers ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES128-GCM-SHA256;";
    let nginx =
        Nginx::start(true, &format!("{} {prefers_rsa} keepalive_timeout 600s;", both.concat()));
    let flags = ["-k", "-c", "3000", "--rate", "300", "--recover", "2s", "--try-remedies"];
    let more = ["--slo", "p99<1s,errors<1%", "--budget", "60s"];
    let summary = search(&["find", "storm", &nginx.url("https")], &[&flags[..], &more].concat());
    // Those of the remedy are of the other certificate.
    assert!(summary.count("handshakes.rsa") < summary.count("handshakes.full"), "{summary:?}");
    let remedies = summary.at("storm.remedies").as_array().expect("a list");
    println!("{:?}: {remedies:?}", summary.at("find.lower"));
    let of = |name: &str| remedies.iter().find(|one| one["intervention"] == name).expect("one");
    assert_eq!(of("resumption")["why"], "the server resumes no session");
    let key = of("certificate-key");
    assert_eq!((&key["from"], &key["to"]), (&0.0.into(), &1.0.into()));
    let lower = key["lower"].as_f64().expect("a number");
    assert!(lower > 1.2 * summary.number("find.upper"), "{key}");
}

/// HAProxy with `maxconnrate 400`: 800 are back within 2 s, and twice as many with twice the limit.
#[test]
#[ignore = "takes minutes"]
fn twice_the_limit_of_a_laboratory_doubles_its_largest_storm() {
    let _alone = alone();
    let edits = vec!["s|^global|global\\n    maxconnrate 400|"];
    let (_folder, haproxy) = Wrapper { edits, ..Wrapper::default() }.write();
    let lab = ["lab", "storm", "--sut", "haproxy", "--haproxy", &haproxy.to_string_lossy()];
    let flags = ["-c", "2000", "--rate", "300", "--recover", "2s", "--try-remedies"];
    // For the search, for jitter and for each remedy.
    let more = ["--slo", "p99<1s,errors<1%", "--budget", "70s"];
    let summary = search(&lab, &[&flags[..], &more].concat());
    let remedies = summary.at("storm.remedies").as_array().expect("a list");
    println!("{:?}: {remedies:?}", summary.at("find.lower"));
    let of = |name: &str| remedies.iter().find(|one| one["intervention"] == name).expect("one");
    let rate = of("session-rate");
    assert_eq!((&rate["from"], &rate["to"]), (&400.0.into(), &800.0.into()));
    let bound = |name: &str| rate[name].as_f64().expect("a number");
    let (lower, upper) = (bound("lower"), bound("upper"));
    assert!(1.2 * 800.0 < lower && lower <= 1.1 * 1_600.0 && upper >= 0.9 * 1_600.0, "{rate}");
    for name in ["accept-queue", "resumption"] {
        let ratio = of(name)["ratio"].as_f64();
        assert!(ratio.is_none_or(|ratio| (0.8..1.25).contains(&ratio)), "{}", of(name));
    }
}
