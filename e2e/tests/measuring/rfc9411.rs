//! A case of RFC 9411 whose target is half of what this machine can do at most.

use e2e::plimsoll::{Plimsoll, undisturbed};
use e2e::turn::alone;

/// A shared host may be half as fast when the case runs as when its target was measured.
const ATTEMPTS: usize = 3;

#[test]
fn what_latency_builds_on_is_measured_first() {
    let _machine = alone();
    let flags = ["lab", "rfc9411", "--json", "-", "--case", "7.4", "--sustain", "1s"];
    let flags = [&flags[..], &["--sut", "embedded", "--object-size", "1KB"]].concat();
    let mut runs = (0..ATTEMPTS).map(|_| undisturbed(|| Plimsoll::new(&flags).run()));
    let finished = runs.find(|finished| finished.code == Some(0)).expect("the target is met once");
    for result in finished.summary(0).at("rfc9411.results").as_array().expect("a list") {
        assert_eq!(result["ending"], "target-met", "{result}");
        let source = result["target_source"].to_string();
        assert!(source.contains("a closed loop"), "{source}");
    }
}
