//! The handshake axis against our own TLS server: what is counted is connections.

use e2e::plimsoll::{Plimsoll, undisturbed};
use e2e::serve::Serve;

#[test]
fn handshakes_are_searched_and_nothing_is_sent() {
    let serve = Serve::start(&["--https", "127.0.0.1:0"], 1);
    // Far below what any machine makes, so that the cap ends the search at once; a deadline that
    // even a busy machine meets.
    let flags = ["find", "handshakes", serve.url(), "-k", "--mode", "quick", "--json", "-"];
    let bounds = ["--min", "20", "--max", "40", "--slo", "p99<2s,errors<1%"];
    let finished = undisturbed(|| Plimsoll::new([&flags[..], &bounds].concat()).run());
    let summary = finished.summary(0);
    assert_eq!(summary.text("find.axis"), "handshakes");
    assert_eq!(summary.number("find.lower"), 40.0);
    assert_eq!(summary.text("settings.load.operation"), "tls-handshake");
    // One operation is one connection with a full handshake, and no request.
    let ok = summary.count("ok");
    assert!(ok > 0 && ok == summary.count("scheduled"), "{summary:?}");
    assert_eq!(summary.count("handshakes.full"), ok);
    assert_eq!(summary.count("handshakes.resumed"), 0);
    assert_eq!(summary.count("connections.opened"), ok);
    assert!(summary.counts("status").is_empty(), "{summary:?}");
    let (requests, connections) = serve.stop();
    assert!(requests == 0 && connections >= ok, "{requests} requests, {connections} connections");
}
