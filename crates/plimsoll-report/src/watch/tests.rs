//! Drawn from readings that are made up.

use super::*;
use crate::Style;
use crate::fixtures::{watched, watched_for as history};

fn drawn(history: &History) -> String {
    let mut out = Vec::new();
    page(&mut out, Style::default(), "proxy1", history).expect("a Vec takes everything");
    String::from_utf8(out).expect("text")
}

#[test]
fn the_page_shows_limits_first_and_events_only_when_they_happen() {
    insta::assert_snapshot!("page", drawn(&history(3)));
    let healthy = drawn(&history(2));
    assert!(!healthy.contains("Events"), "{healthy}");
    insta::assert_snapshot!("page_before_the_second_reading", drawn(&history(0)));
}

#[test]
fn a_line_holds_the_same_figures() {
    assert_eq!(line(&history(0), 1_700_000_000), None);
    insta::assert_snapshot!("line", line(&history(3), 1_700_000_000).expect("two readings"));
}

#[test]
fn json_has_gauges_and_rates_by_series() {
    assert!(json_line("proxy1", &history(0), 0).expect("JSON").is_none());
    let line = json_line("proxy1", &history(3), 1_700_000_000).expect("JSON").expect("a line");
    let json: serde_json::Value = serde_json::from_str(&line).expect("JSON");
    assert_eq!(json["schema"], "plimsoll.watch/1");
    assert_eq!(json["values"]["tcp_established"], 7_000.0);
    let opens = &json["per_second"]["tcp_opens_total{direction=\"passive\"}"];
    assert_eq!(opens, 500.0);
    assert_eq!(json["missing"][0]["source"], "/proc/pressure/cpu");
}

#[test]
fn history_is_bounded() {
    let history = history(200);
    assert_eq!(history.changes().count(), 60);
    assert_eq!(history.last(), Some(&watched(200)));
}
