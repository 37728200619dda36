//! A path that loses packets is named, and not the server.

use e2e::namespace;
use e2e::turn::beside_others;

/// Drops one packet in fifty, in both directions.
const LOSS: &str = "nft add table inet loss \
                    && nft 'add chain inet loss in { type filter hook input priority 0; }' \
                    && nft add rule inet loss in tcp dport 8080 numgen random mod 50 == 0 drop \
                    && nft add rule inet loss in tcp sport 8080 numgen random mod 50 == 0 drop";

#[test]
fn a_path_that_loses_packets_is_not_the_server() {
    let _machine = beside_others();
    if !namespace::can(LOSS) {
        eprintln!("not tested: no privilege, or no nft, to drop packets in a network namespace");
        return;
    }
    let flags = ["find", "rate", namespace::URL, "--mode", "quick", "--json", "-", "--no-ui"];
    let load = ["--min", "100", "--max", "200", "--slo", "p99<50ms,errors<1%"];
    let run = namespace::with_a_server(LOSS, &[&flags[..], &load].concat());
    let finished = run.expect("it could be made before");
    let summary = finished.summary(98);
    let why = summary.text("find.outcome.network-limited.why");
    assert!(why.contains("until TCP sent a lost segment again"), "{why}");
    assert!(summary.number("find.path.sent_again_per_op") > 0.01, "{summary:?}");
}
