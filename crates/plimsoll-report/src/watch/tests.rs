//! Drawn from readings that are made up.

use plimsoll_model::Nanos;
use plimsoll_model::host::{EndStatus, Source, SourceKind, SourceState};

use super::*;
use crate::Style;
use crate::fixtures::{watched, watched_for as history};
use crate::schema::assert_described;

fn drawn(history: &History) -> String {
    page(Style::default(), "proxy1", history)
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

/// Returns the third second, in which a process has ended and a server has never answered.
fn with_lost_sources() -> History {
    let mut history = History::default();
    for second in 0..=3 {
        let mut reading = watched(second);
        let source = |kind, name: &str, pid, state| Source { kind, name: name.into(), pid, state };
        reading.add_source(source(SourceKind::Host, "host", None, SourceState::Reading));
        let since = Nanos::from_secs(101);
        let ended = SourceState::Ended { since, status: EndStatus::Killed(9) };
        let state = if second < 1 { SourceState::Reading } else { ended };
        reading.add_source(source(SourceKind::Process, "haproxy", Some(4711), state));
        let (since, reason) = (Nanos::from_secs(100), "Connection refused".to_owned());
        let missing = SourceState::Missing { since, reason };
        reading.add_source(source(SourceKind::Nginx, "nginx:http://x/", None, missing));
        reading.sort();
        history.push(reading);
    }
    history
}

#[test]
fn sources_that_cannot_be_read_are_named_with_time_and_reason() {
    let history = with_lost_sources();
    let ended = "process haproxy (4711) ended 2.00 s ago: killed by SIGKILL";
    let missing = "nginx:http://x/ not read for 3.00 s: Connection refused";
    let line = line(&history, 1_700_000_000).expect("two readings");
    assert!(line.starts_with(&format!("2023-11-14T22:13:20Z; {ended}; {missing}; ")), "{line}");
    let page = drawn(&history).replace('\u{a0}', " ");
    let sources = format!("proxy1\nSources      {ended}\n             {missing}\nLimits ");
    assert!(page.starts_with(&sources), "{page}");
    // Once is enough.
    assert_eq!(page.matches("4711").count(), 1, "{page}");
    let json = json_line("proxy1", &history, 1_700_000_000).expect("JSON").expect("a line");
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let state = |index: usize| json["sources"][index]["state"].clone();
    assert_eq!([state(0), state(1), state(2)], ["reading", "ended", "missing"]);
    assert_eq!(json["sources"][1]["status"]["killed"], 9);
    assert_eq!(json["sources"][2]["since"], "2023-11-14T22:13:17Z");
    let up = "source_up{kind=\"process\",source=\"haproxy\"}";
    assert_eq!(json["values"][up], 0.0);
}

#[test]
fn json_has_gauges_and_rates_by_series() {
    assert!(json_line("proxy1", &history(0), 0).expect("JSON").is_none());
    let line = json_line("proxy1", &history(3), 1_700_000_000).expect("JSON").expect("a line");
    assert_described("watch", &serde_json::from_str(&line).expect("JSON"));
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
    assert_eq!(history.change().expect("two readings").after(), &watched(200));
}

#[test]
fn the_speed_of_a_cpu_is_relative_to_its_median() {
    use plimsoll_model::host::{Label, Metric};
    let mut history = History::default();
    let mut sum_s = 0.0;
    for second in 0..6 {
        let us = if second == 5 { 500.0 } else { 400.0 };
        sum_s += 2.0 * us / 1e6;
        let mut reading = watched(second);
        let cpu = [(Label::Cpu, "0")];
        reading.add(Metric::YardstickSeconds, &cpu, sum_s);
        reading.add(Metric::YardstickPieces, &cpu, 2.0 * second as f64);
        reading.sort();
        history.push(reading);
    }
    let drawn = drawn(&history).replace('\u{a0}', " ");
    assert!(drawn.contains("0: 50 % (softirq 10 %) (speed 80 %)"), "{drawn}");
    let line = line(&history, 0).expect("two readings");
    assert!(line.contains("speed 80 % of the median"), "{line}");
}
