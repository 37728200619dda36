//! A client that has too few connections: a search says so, and a load opens more.

use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;

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

#[test]
fn a_load_opens_as_many_connections_as_it_has_operations_in_flight() {
    let serve = Serve::plain();
    // 300 a second for half a second each: 150 are in flight.
    let flags = ["-r", "300", "-d", "3s", "-H", "sleep-fixed: 500"];
    let held = |more: &[&str]| {
        let finished = Plimsoll::load(serve.url(), &[&flags[..], more].concat()).run();
        let summary = finished.summary(0);
        (summary.count("connections.held_max"), summary.text("settings.connections").to_owned())
    };
    let (most, setting) = held(&[]);
    assert!(most >= 140 && setting == "100, up to 900", "{most} {setting}");
    assert_eq!(held(&["-c", "100"]), (100, "100".to_owned()));
}
