//! Tests of metrics for scrapers and collectors, from made-up events and readings.

use std::collections::BTreeSet;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plimsoll_model::event::Event;
use plimsoll_model::host::{Change, EndStatus, Label, Reading, Source, SourceKind, SourceState};
use plimsoll_model::tally::Interval;
use plimsoll_model::{ErrorClass, Nanos};

use serde_json::Value;

use super::*;
use crate::fixtures;
use crate::state::RunState;

/// No edge of its own.
const DEADLINE: Nanos = Nanos::from_millis(7);

/// Returns two seconds of a load, and the trial that they were.
fn events() -> Vec<Event> {
    let trial = fixtures::trials().remove(0);
    let request = trial.measurement.request;
    let mut events =
        vec![Event::LoadStarted { trial: Some(request), planned: None, epoch: Nanos::ZERO }];
    for second in 0..2 {
        let mut tally = fixtures::tally(1_000, 3_000, 1);
        tally.failures.operations.add(ErrorClass::Timeout, 2);
        tally.scheduled += 2;
        events.push(Event::Interval(Box::new(Interval { second, tally })));
    }
    events.push(Event::TrialEnded(Box::new(trial)));
    events
}

fn run() -> RunState {
    let mut run = RunState::default();
    events().iter().for_each(|event| run.handle_event(event, Nanos::ZERO));
    hosts().into_iter().for_each(|(host, reading)| {
        run.handle_reading(&host, Arc::new(reading));
    });
    run
}

fn metrics() -> RunMetrics {
    RunMetrics::new(&fixtures::manifest(true), Some(DEADLINE))
}

/// Returns the families of a run in progress.
fn families() -> Vec<Family> {
    metrics().families(&run())
}

fn hosts() -> BTreeMap<String, Reading> {
    let host = |established| {
        let mut reading = Reading::default();
        reading.add(Metric::TcpEstablished, &[], established);
        reading.add(Metric::TcpOpens, &[(Label::Direction, "passive")], 1_500.0);
        let (kind, name) = (SourceKind::Process, "sleep".to_owned());
        let state = SourceState::Ended { since: Nanos(7), status: EndStatus::Exited(0) };
        reading.add_source(Source { kind, name, pid: Some(4711), state });
        reading.sort();
        reading
    };
    BTreeMap::from([("proxy\"1".to_owned(), host(5.0)), ("web".to_owned(), host(6.0))])
}

/// Returns the value of the one series that `text` has under `name`.
fn value(text: &str, name: &str) -> f64 {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let (value, next) = (lines.next(), lines.next());
    assert!(next.is_none(), "{name} twice in {text}");
    value.unwrap_or_else(|| panic!("{name} in {text}")).parse().expect("a number")
}

#[test]
fn a_scrape_has_every_figure_once() {
    let (run, mut metrics) = (run(), metrics());
    let mut families = metrics.families(&run);
    families.extend(of_hosts(&run.hosts));
    let text = exposition(&families);
    for (name, expected) in [
        ("plimsoll_operations_scheduled_total", 2_004.0),
        ("plimsoll_operations_total{outcome=\"ok\"}", 2_000.0),
        ("plimsoll_operations_total{outcome=\"error\",class=\"timeout\"}", 4.0),
        ("plimsoll_offered_rate", 1_002.0),
        ("plimsoll_latency_seconds_count", 2_000.0),
        ("plimsoll_latency_seconds_bucket{le=\"+Inf\"}", 2_000.0),
        ("plimsoll_latency_seconds_bucket{le=\"0.001\"}", 0.0),
        ("plimsoll_trial{phase=\"qualify\"}", 1.0),
        ("plimsoll_trials_total{verdict=\"good\"}", 1.0),
        ("plimsoll_trials_total{verdict=\"bad\"}", 0.0),
        ("plimsoll_run_finished", 0.0),
        ("plimsoll_tcp_established{host=\"web\"}", 6.0),
        ("plimsoll_source_up{host=\"web\",kind=\"process\",source=\"sleep\"}", 0.0),
        ("plimsoll_tcp_opens_total{host=\"proxy\\\"1\",direction=\"passive\"}", 1_500.0),
    ] {
        assert_eq!(value(&text, name), expected, "{name}");
    }
    // The deadline is an edge; what is at most an edge is in every later one.
    let buckets: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("plimsoll_latency_seconds_bucket"))
        .map(|line| line.split(' ').nth(1).expect("a value").parse().expect("a number"))
        .collect();
    assert!(buckets.is_sorted(), "{buckets:?}");
    let late = 2 * fixtures::tally(1_000, 3_000, 1).spans.corrected.count_above(DEADLINE);
    assert!(late > 0);
    let in_time = "plimsoll_latency_seconds_bucket{le=\"0.007\"}";
    assert_eq!(value(&text, in_time), 2_000.0 - late as f64);
    for line in text.lines() {
        assert!(line.starts_with("# ") || line.starts_with("plimsoll_"), "{line}");
    }
    let is_info = |line: &&str| line.split(['{', ' ']).next().is_some_and(|n| n.ends_with("_info"));
    assert!(text.lines().filter(is_info).all(|line| line.ends_with(" 1")), "{text}");
    // Every metric is introduced once.
    let types: Vec<&str> = text.lines().filter(|line| line.starts_with("# TYPE")).collect();
    let mut once = types.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), types.len());
    metrics.finish();
    let text = exposition(&metrics.families(&run));
    assert_eq!(value(&text, "plimsoll_run_finished"), 1.0);
    assert_eq!(value(&text, "plimsoll_offered_rate"), 0.0);
}

#[test]
fn counters_go_on_in_the_next_search_of_a_command() {
    let mut next = run().next_search();
    let text = exposition(&metrics().families(&next));
    assert_eq!(value(&text, "plimsoll_operations_total{outcome=\"ok\"}"), 2_000.0);
    assert_eq!(value(&text, "plimsoll_trials_total{verdict=\"good\"}"), 1.0);
    assert!(!text.contains("plimsoll_bound"), "{text}");
    assert_eq!(next.hosts.len(), hosts().len());
    events().iter().for_each(|event| next.handle_event(event, Nanos::ZERO));
    let text = exposition(&metrics().families(&next));
    assert_eq!(value(&text, "plimsoll_operations_total{outcome=\"ok\"}"), 4_000.0);
}

/// The fields of the protocol's own example of an OTLP/HTTP request in JSON.
#[test]
fn a_collector_gets_the_shape_that_the_protocol_defines() {
    let span = Span { begun: 1_544_712_660_000_000_000, now: 1_544_712_661_000_000_000 };
    let request = otlp::request("1.2.3", &families(), span);
    let scope = &request["resourceMetrics"][0]["scopeMetrics"][0];
    assert_eq!(scope["scope"]["name"], "plimsoll");
    let service = &request["resourceMetrics"][0]["resource"]["attributes"][0];
    assert_eq!(
        (&service["key"], &service["value"]["stringValue"]),
        (&"service.name".into(), &"plimsoll".into())
    );
    let metrics = scope["metrics"].as_array().expect("a list");
    let named = |name: &str| {
        metrics.iter().find(|metric| metric["name"] == name).unwrap_or_else(|| panic!("{name}"))
    };
    let sum = &named("plimsoll_operations_scheduled_total")["sum"];
    assert_eq!((&sum["aggregationTemporality"], &sum["isMonotonic"]), (&2.into(), &true.into()));
    let point = &sum["dataPoints"][0];
    assert_eq!(point["asDouble"], 2_004.0);
    assert_eq!(point["startTimeUnixNano"], "1544712660000000000");
    assert_eq!(point["timeUnixNano"], "1544712661000000000");
    assert_eq!(named("plimsoll_run_finished")["gauge"]["dataPoints"][0]["asDouble"], 0.0);
    let latency = named("plimsoll_latency_seconds");
    assert_eq!(latency["unit"], "s");
    let point = &latency["histogram"]["dataPoints"][0];
    let counts = point["bucketCounts"].as_array().expect("a list");
    let bounds = point["explicitBounds"].as_array().expect("a list");
    assert_eq!(counts.len(), bounds.len() + 1);
    let count = |count: &Value| -> u64 { count.as_str().expect("a text").parse().expect("digits") };
    assert_eq!(counts.iter().map(count).sum::<u64>(), 2_000);
    assert_eq!(count(&point["count"]), 2_000);
}

/// Returns the content of one datagram after another.
fn received(socket: &UdpSocket) -> Vec<String> {
    let mut lines = Vec::new();
    let mut datagram = [0; 2_048];
    while let Ok(length) = socket.recv(&mut datagram) {
        assert!(length <= 1_432, "{length}");
        let text = String::from_utf8_lossy(&datagram[..length]).into_owned();
        lines.extend(text.lines().map(str::to_owned));
    }
    lines
}

#[test]
fn statsd_gets_each_second_and_each_host() {
    // Loopback delivers within the call that sends.
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
    receiver.set_read_timeout(Some(Duration::from_millis(10))).expect("a timeout");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a port");
    sender.set_nonblocking(true).expect("it can");
    let statsd = Statsd::new(sender, receiver.local_addr().expect("an address")).expect("a sink");
    events().iter().for_each(|event| statsd.handle_event(event));
    let lines = received(&receiver);
    let count = |line: &str| lines.iter().filter(|seen| *seen == line).count();
    assert_eq!(count("plimsoll.ops.ok:1000|c"), 2, "{lines:?}");
    assert_eq!(count("plimsoll.ops.error.timeout:2|c"), 2, "{lines:?}");
    assert_eq!(count("plimsoll.trials.good:1|c"), 1, "{lines:?}");
    assert!(lines.iter().any(|line| line.starts_with("plimsoll.latency.p99_ms:")), "{lines:?}");

    let reading = |second: u64, opens: f64| {
        let at = Nanos::from_secs(second);
        let mut reading = Reading { begin: at, end: at, ..Reading::default() };
        reading.add(Metric::TcpEstablished, &[], 7.0);
        reading.add(Metric::TcpOpens, &[(Label::Direction, "passive")], opens);
        reading.sort();
        reading
    };
    let (before, after) = (reading(1, 100.0), reading(3, 150.0));
    statsd.send_host("proxy 1", &Change::new(&before, &after));
    let lines = received(&receiver);
    assert!(lines.contains(&"plimsoll.proxy_1.tcp_established:7|g".to_owned()), "{lines:?}");
    assert!(
        lines.contains(&"plimsoll.proxy_1.tcp_opens_total.passive:50|c".to_owned()),
        "{lines:?}"
    );
}

/// Names that a text has of ours, without those that rules make.
fn names(text: &str) -> BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && !"_:".contains(c));
    words.filter(|word| word.starts_with(PREFIX) && !word.contains(':')).collect()
}

#[test]
fn the_examples_for_prometheus_and_grafana_name_metrics_that_exist() {
    let mut known: BTreeSet<String> = BTreeSet::new();
    for family in families() {
        let name = format!("{PREFIX}{}", family.name);
        if matches!(family.points, Points::Histogram(_)) {
            known.extend(["bucket", "count", "sum"].map(|part| format!("{name}_{part}")));
        }
        known.insert(name);
    }
    known.extend(Metric::ALL.iter().map(|metric| format!("{PREFIX}{}", metric.name())));
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/prometheus");
    for file in ["rules.yml", "rules_test.yml", "grafana-dashboard.json"] {
        let text = std::fs::read_to_string(folder.join(file)).unwrap();
        let names = names(&text);
        assert!(names.len() > 8, "{file}: {names:?}");
        let unknown: Vec<_> = names.iter().filter(|name| !known.contains(**name)).collect();
        assert!(unknown.is_empty(), "{file} names {unknown:?}");
    }
    // The pages list each metric of a load.
    let page = include_str!("../../../../docs/reference/metrics.md");
    for family in families() {
        let is_listed = names(page).contains(format!("{PREFIX}{}", family.name).as_str());
        let in_short = family.name == "connections_failed_total";
        assert!(is_listed || in_short, "docs/reference/metrics.md lacks {}", family.name);
    }
    let dashboard: Value = serde_json::from_str(
        &std::fs::read_to_string(folder.join("grafana-dashboard.json")).unwrap(),
    )
    .unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.iter().all(|panel| panel["targets"][0]["expr"].is_string()));
}
