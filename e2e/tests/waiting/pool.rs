//! A client that has too few connections.

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
