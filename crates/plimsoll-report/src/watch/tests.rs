//! Drawn from readings that are made up.

use plimsoll_model::Nanos;
use plimsoll_model::host::{Label, Metric, Reading};

use super::*;
use crate::Style;

/// A host with one CPU and a HAProxy, `second` seconds on.
fn reading(second: u64) -> Reading {
    let at = Nanos::from_secs(100 + second);
    let mut reading = Reading { begin: at, end: at, ..Reading::default() };
    let s = second as f64;
    for (metric, labels, value) in [
        (Metric::TcpEstablished, &[][..], 1_000.0 + 2_000.0 * s),
        (Metric::TcpOpens, &[(Label::Direction, "passive")], 500.0 * s),
        (Metric::CpuSeconds, &[(Label::Cpu, "0"), (Label::Mode, "user")], 0.4 * s),
        (Metric::CpuSeconds, &[(Label::Cpu, "0"), (Label::Mode, "softirq")], 0.1 * s),
        (Metric::CpuSeconds, &[(Label::Cpu, "0"), (Label::Mode, "idle")], 0.5 * s),
        (Metric::MemoryTotalBytes, &[], 24e9),
        (Metric::MemoryAvailableBytes, &[], 20e9 - 1e8 * s),
        (Metric::MemorySlabBytes, &[], 5e8),
        (Metric::NetworkBytes, &[(Label::Device, "eth0"), (Label::Direction, "receive")], 2e6 * s),
        (
            Metric::NetworkPackets,
            &[(Label::Device, "eth0"), (Label::Direction, "receive")],
            900.0 * s,
        ),
        (
            Metric::ProcessCpuSeconds,
            &[(Label::Process, "haproxy"), (Label::Thread, "haproxy/0")],
            0.45 * s,
        ),
        (
            Metric::ProcessRunDelaySeconds,
            &[(Label::Process, "haproxy"), (Label::Thread, "haproxy/0")],
            0.02 * s,
        ),
        (Metric::HaproxyCurrentConnections, &[(Label::Process, "0")], 800.0),
        (Metric::HaproxyRequests, &[(Label::Process, "0")], 4_000.0 * s),
        (
            Metric::LimitUsed,
            &[(Label::Limit, "open files"), (Label::Scope, "haproxy")],
            10_000.0 + 2_000.0 * s,
        ),
        (Metric::LimitMax, &[(Label::Limit, "open files"), (Label::Scope, "haproxy")], 20_000.0),
        // Overflows begin in the third second.
        (Metric::TcpListenOverflows, &[], if second > 2 { 12.0 } else { 0.0 }),
        (Metric::WatchCostSeconds, &[], 0.001 * s),
        (Metric::WatchMissed, &[], 0.0),
    ] {
        reading.add(metric, labels, value);
    }
    reading.miss("/proc/pressure/cpu", "No such file or directory (os error 2)");
    reading.sort();
    reading
}

fn history(seconds: u64) -> History {
    let mut history = History::default();
    for second in 0..=seconds {
        history.push(reading(second));
    }
    history
}

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
    assert_eq!(history.last(), Some(&reading(200)));
}
