//! Growth of servers on Go's runtime over closed connections: its collector lets memory grow and shrink by itself.

use std::process::Command;

use e2e::conversation::Conversation;
use e2e::plimsoll::Plimsoll;
use e2e::program;
use e2e::summary::Summary;

use crate::alone;

const CONNECTIONS: u64 = 1_000;
const CYCLES: &str = "12";

/// Cycles against a server that keeps `kept` bytes of each connection; `None` where Go is not installed.
fn cycles(kept: u64) -> Option<Summary> {
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let program = program::of_go_source("server", folder.path())?;
    let mut command = Command::new(program);
    let server = Conversation::start(command.args(["keep", &kept.to_string()]));
    server.wait_for("\n", 1);
    let url = format!("http://{}/", server.text().trim());
    let watch = format!("pid:{}", server.pid());
    let own = ["hold", &url, "-c", "1000", "--cycles", CYCLES, "--for", "0", "--watch", &watch];
    let finished = Plimsoll::new([&own[..], &["--json", "-"]].concat()).run();
    let summary = finished.summary(0);
    println!("{kept} bytes: {:?}", summary.at("hold.cycles.growth_bytes_per_cycle"));
    Some(summary)
}

#[test]
#[ignore = "needs go, and takes two minutes"]
fn a_go_server_that_keeps_20_kb_of_each_connection_is_found() {
    let _alone = alone();
    let Some(summary) = cycles(20_000) else { return };
    assert_eq!(summary.text("hold.cycles.verdict"), "grows", "{summary:?}");
    let [low, high] = ["low", "high"]
        .map(|end| summary.number(&format!("hold.cycles.growth_bytes_per_cycle.{end}")));
    let kept = (CONNECTIONS * 20_000) as f64;
    // The collector runs when the heap has doubled: up to then garbage is resident, too.
    assert!(low <= 1.5 * kept && high >= 0.9 * kept, "{low} to {high} of {kept}");
}

#[test]
#[ignore = "needs go, and takes two minutes"]
fn a_go_server_that_keeps_nothing_is_not_blamed() {
    let _alone = alone();
    let Some(summary) = cycles(0) else { return };
    assert_ne!(summary.text("hold.cycles.verdict"), "grows", "{summary:?}");
}
