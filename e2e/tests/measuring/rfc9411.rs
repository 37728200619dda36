//! A case of RFC 9411 whose target is what this machine can do at most.

use e2e::plimsoll::{Plimsoll, undisturbed};

#[test]
fn what_latency_builds_on_is_measured_first() {
    let flags = ["lab", "rfc9411", "--json", "-", "--case", "7.4", "--sustain", "1s"];
    let flags = [&flags[..], &["--sut", "embedded", "--object-size", "1KB"]].concat();
    let summary = undisturbed(|| Plimsoll::new(&flags).run()).summary(0);
    for result in summary.at("rfc9411.results").as_array().expect("a list") {
        assert_eq!(result["ending"], "target-met", "{result}");
        let source = result["target_source"].to_string();
        assert!(source.contains("a closed loop"), "{source}");
    }
}
