//! A case of RFC 9411 whose target is not met: its maximum is searched.

use std::time::Duration;

use e2e::haproxy::Haproxy;
use e2e::plimsoll::{Plimsoll, undisturbed};

use crate::alone;

/// The search's own budget is longer, but each of its iterations takes seconds here.
const SEARCH_PATIENCE: Duration = Duration::from_secs(420);

#[test]
#[ignore = "takes 3 minutes"]
fn a_maximum_is_found_below_a_target_that_is_not_met() {
    let _alone = alone();
    // HAProxy accepts 60 connections a second; the others wait.
    let rules = "    rate-limit sessions 60\n    \
                 http-request return status 200 content-type text/plain string pong";
    let haproxy = Haproxy::start("", rules, "");
    let url = haproxy.url("http");
    let flags = [&url, "--case", "7.2", "--target", "150", "--object-size", "4"];
    // Waiting for an answer is given up soon, or each failing iteration would wait for it.
    let short = ["--linger", "500ms", "--sustain", "2s", "--out", "run", "--json", "-"];
    let finished = undisturbed(|| {
        let words = [&["find", "rfc9411"], &flags[..], &short].concat();
        Plimsoll::new(words).start().finish_within(SEARCH_PATIENCE)
    });
    // A target that was asked for and is not met is a goal that was missed.
    let summary = finished.summary(99);
    let result = summary.at("rfc9411.results").as_array().expect("a list")[0].clone();
    assert_eq!(result["ending"], "maximum", "{result}");
    let load = result["load"].as_f64().expect("a load");
    assert!((40.0..=90.0).contains(&load), "{load}");
    let mut steps: Vec<_> = result["iterations"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|one| one["step"].as_str().expect("a text").to_owned())
        .collect();
    // Each as often as it took.
    steps.dedup();
    assert_eq!(steps, ["initial", "target", "search", "final"]);
}
