//! Documents of runs that are known.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_model::event::Event;
use plimsoll_model::hold::HoldStep;
use plimsoll_model::host::{Label, LimitId, LimitKind, Metric, Reading};
use plimsoll_model::summary::Summary;
use plimsoll_model::tally::{Interval, Tally};
use plimsoll_model::trial::TippingPoint;
use plimsoll_model::{Histogram, Nanos};
use proptest::prelude::*;

use super::heat::{Range, cells};
use super::*;
use crate::archive::{Archive, ArchiveWriter, HostWriter};
use crate::fixtures;
use crate::schema::assert_described;

/// Returns a search whose trials follow each other 2 s apart; each has a second of everything and one without.
fn search_events() -> Vec<Event> {
    let mut at = Nanos::from_secs(70);
    let mut events = vec![Event::Note("the lowest load first".to_owned())];
    for record in fixtures::trials() {
        let measured = &record.measurement;
        let planned = Some(Nanos::from_secs(1));
        events.push(Event::LoadStarted { trial: Some(measured.request), planned, epoch: at });
        events.push(interval(0, measured.tally.clone()));
        events.push(interval(1, Tally::default()));
        at = at + measured.window + Nanos::from_secs(2);
        events.push(Event::TrialEnded(Box::new(record)));
    }
    events
}

fn interval(second: u32, tally: Tally) -> Event {
    Event::Interval(Box::new(Interval { second, tally }))
}

fn reading(second: u64) -> Reading {
    let at = Nanos::from_secs(second);
    let mut reading = Reading { begin: at, end: at, ..Reading::default() };
    reading.add(Metric::TcpEstablished, &[], 32.0);
    let transmit = [(Label::Device, "lo"), (Label::Direction, "transmit")];
    reading.add(Metric::NetworkBytes, &transmit, 1_000.0 * second as f64);
    for (cpu, idle) in [("0", 0.25), ("1", 0.75)] {
        let labels = [(Label::Cpu, cpu), (Label::Mode, "idle")];
        reading.add(Metric::CpuSeconds, &labels, idle * second as f64);
    }
    let listening = if second > 72 { 4.0 } else { 1.0 };
    reading.add(Metric::TcpListenOverflows, &[], listening);
    let limit = LimitId::host(LimitKind::OpenFiles);
    reading.add(Metric::LimitUsed, &limit.labels(), 10.0);
    reading.add(Metric::LimitMax, &limit.labels(), 1_000.0);
    reading.sort();
    reading
}

/// Returns the document that the events of a live run make, and the one of its archive.
fn live_and_archived(dir: &Path, search: bool, events: &[Event], summary: &Summary) -> [View; 2] {
    let manifest = fixtures::manifest(search);
    let mut writer = ArchiveWriter::create(dir, &manifest).expect("a folder");
    let run = dir.file_name().expect("a name").to_string_lossy().into_owned();
    let mut builder = ViewBuilder::new(run, "0.1.0".to_owned(), Head::of(&manifest), 1);
    let mut patches = 0;
    for event in events {
        writer.handle_event(event).expect("room");
        patches += builder.handle_event(event).len();
    }
    let mut hosts = HostWriter::create(dir).expect("a folder");
    for second in 69..75 {
        hosts.push("sut", &reading(second)).expect("room");
        patches += builder.handle_reading("sut", &reading(second)).len();
    }
    writer.finish(summary).expect("room");
    patches += builder.finish(summary).len();
    let live = builder.view();
    assert_eq!(live.seq, patches as u64);
    let archive = Archive::open(dir).expect("an archive");
    let archived = View::of_archive(&archive, summary).expect("readable");
    for view in [&live, &archived] {
        assert_described("view", &serde_json::to_value(view).expect("JSON"));
    }
    [live, archived].map(|view| View { seq: 0, ..view })
}

#[test]
fn a_search_that_goes_on_and_its_archive_are_the_same_document() {
    let dir = tempfile::tempdir().expect("a folder");
    let (summary, records) = fixtures::find_regular();
    let [live, archived] = live_and_archived(dir.path(), true, &search_events(), &summary);
    assert_eq!(serde_json::to_value(&live).unwrap(), serde_json::to_value(&archived).unwrap());
    assert_eq!(archived.trials.len(), records.len());
    // One second of each trial, where it was; the second without anything is left out.
    let t = archived.seconds["t"].as_array().expect("a list");
    assert_eq!(t.len(), records.len());
    assert_eq!((t[0].as_f64(), t[1].as_f64()), (Some(1.0), Some(5.0)));
    assert_eq!(archived.trials[1].start_s, Some(4.0));
    assert_eq!(archived.trials[0].why, "");
    assert!(archived.trials.iter().all(|trial| trial.moves_bounds));
    assert!(archived.trials[3].why.contains("p99"), "{}", archived.trials[3].why);
    let phases: Vec<&str> = archived.events.iter().map(|event| &event.text[..]).collect();
    let expected =
        ["the lowest load first", "phase qualify", "phase expand", "phase narrow", "phase confirm"];
    assert_eq!(phases, expected);
}

#[test]
fn what_a_hold_is_to_reach_is_known_of_each_second() {
    let dir = tempfile::tempdir().expect("a folder");
    let mut tally = Tally::default();
    tally.connections.held_end = 700;
    let to = |connections| Event::HoldStep(HoldStep::Ramp { connections, per_s: 700.0 });
    let epoch = Nanos::from_secs(70);
    let events = [
        Event::LoadStarted { trial: None, planned: None, epoch },
        to(1_000),
        interval(0, tally.clone()),
        Event::HoldStep(HoldStep::Settle),
        interval(1, tally.clone()),
        to(2_000),
        interval(2, tally),
    ];
    let [live, archived] = live_and_archived(dir.path(), false, &events, &fixtures::hold_good());
    assert_eq!(serde_json::to_value(&live).unwrap(), serde_json::to_value(&archived).unwrap());
    assert_eq!(archived.seconds["asked"], serde_json::json!([1_000, 1_000, 2_000]));
}

#[test]
fn a_page_that_no_longer_holds_its_beginning_says_so() {
    let manifest = fixtures::manifest(false);
    let mut builder =
        ViewBuilder::new("run".to_owned(), "0.1.0".to_owned(), Head::of(&manifest), 1);
    builder.handle_event(&Event::LoadStarted { trial: None, planned: None, epoch: Nanos::ZERO });
    let mut notes = 0;
    for second in 0..3_700 {
        let patches = builder.handle_event(&interval(second, fixtures::tally(10, 1_000, 1)));
        notes += patches.iter().filter(|patch| patch.kind() == "note").count();
    }
    assert_eq!(notes, 1);
    let view = builder.view();
    assert!(view.notes[0].starts_with("a page that is opened from now on shows the last 1 h"));
    assert_eq!(view.seconds["t"].as_array().expect("a list").len(), 3_600);
}

#[test]
fn hosts_are_drawn_from_the_first_second_of_load() {
    let dir = tempfile::tempdir().expect("a folder");
    let (summary, _) = fixtures::find_regular();
    let [_, archived] = live_and_archived(dir.path(), true, &search_events(), &summary);
    let host = serde_json::to_value(&archived.hosts["sut"]).expect("JSON");
    assert_eq!(host["t"], serde_json::json!([0.0, 1.0, 2.0, 3.0, 4.0]));
    assert_eq!(host["bytes_out"], serde_json::json!([1e3, 1e3, 1e3, 1e3, 1e3]));
    assert_eq!((&host["cpu_busiest"][0], &host["cores"]["1"][0]), (&0.75.into(), &0.25.into()));
    // The counter moved once, and what was not read is not 0.
    let moved = &host["trouble"]["tcp_listen_overflows_total"];
    assert_eq!(*moved, serde_json::json!([0, 0, 0, 3.0, 0]));
    assert_eq!(host["memory_used"][0], Value::Null);
    assert_eq!(
        host["limits"],
        serde_json::json!([{"panel": "established", "name": "open files", "max": 1e3}])
    );
}

#[test]
fn the_end_of_a_run_has_its_badge() {
    let mut builder = ViewBuilder::new(String::new(), String::new(), Head::default(), 1);
    assert_eq!(builder.view().badge.word, "RUNNING");
    let patches = builder.finish(&fixtures::hold_good());
    let badge = match patches.last() {
        Some(Patch::End { badge, .. }) => (badge.word, badge.class),
        _ => panic!("{patches:?}"),
    };
    assert_eq!(badge, ("HELD", "good"));
    assert_eq!(builder.view().badge.word, "HELD");
}

#[test]
fn long_runs_have_columns_of_several_seconds() {
    assert_eq!([1, 3_600, 3_601, 20_000].map(ViewBuilder::column_for), [1, 1, 2, 10]);
    let mut builder = ViewBuilder::new(String::new(), String::new(), Head::default(), 2);
    builder.handle_event(&Event::LoadStarted { trial: None, planned: None, epoch: Nanos::ZERO });
    for second in 0..5 {
        let mut tally = Tally { scheduled: 100, ok: 100, ..Tally::default() };
        let ms = u64::from(second) + 1;
        tally.spans.corrected.record_n(Nanos::from_millis(ms), 100);
        builder.handle_event(&interval(second, tally));
    }
    builder.finish(&fixtures::load_good());
    let view = builder.view();
    assert_eq!(view.seconds["t"], serde_json::json!([2.0, 4.0, 5.0]));
    // The last second may not have been a whole one.
    assert_eq!(view.seconds["offered"], serde_json::json!([100.0, 100.0, null]));
    // Of the merged histogram: the mean of both medians is 1.5.
    let p99 = view.seconds["corrected"]["p99"][0].as_f64().expect("measured");
    assert!((p99 - 2.0).abs() < 0.01, "{p99}");
    assert_eq!(view.spectrum.corrected.last().map(|point| point.2), Some(500));
}

/// Returns the offered load in the columns of a load, of which each second has this many operations.
fn offered(planned_ms: Option<u64>, column_s: u32, seconds: &[u64]) -> Value {
    let mut builder = ViewBuilder::new(String::new(), String::new(), Head::default(), column_s);
    let planned = planned_ms.map(Nanos::from_millis);
    builder.handle_event(&Event::LoadStarted { trial: None, planned, epoch: Nanos::ZERO });
    for (second, scheduled) in (0..).zip(seconds) {
        let tally = Tally { scheduled: *scheduled, ok: *scheduled, ..Tally::default() };
        builder.handle_event(&interval(second, tally));
    }
    builder.finish(&fixtures::load_good());
    builder.view().seconds["offered"].clone()
}

#[test]
fn a_second_that_is_cut_off_is_not_drawn_as_a_fall() {
    let list = |values: &[Option<f64>]| serde_json::json!(values);
    assert_eq!(offered(Some(2_000), 1, &[100, 100]), list(&[Some(100.0), Some(100.0)]));
    assert_eq!(offered(Some(1_500), 1, &[100, 50]), list(&[Some(100.0), None]));
    // By a kill, and by a count.
    assert_eq!(offered(Some(300_000), 1, &[100, 7]), list(&[Some(100.0), None]));
    assert_eq!(offered(None, 1, &[100, 7, 0]), list(&[Some(100.0), None]));
    // The half second is no part of the mean.
    assert_eq!(offered(Some(1_500), 2, &[100, 50]), list(&[Some(100.0)]));
}

#[test]
fn seconds_without_an_error_have_none() {
    let mut builder = ViewBuilder::new(String::new(), String::new(), Head::default(), 1);
    let empty = builder.view();
    assert_eq!(
        (&empty.seconds["t"], &empty.seconds["errors"]),
        (&serde_json::json!([]), &serde_json::json!({}))
    );
    builder.handle_event(&Event::LoadStarted { trial: None, planned: None, epoch: Nanos::ZERO });
    for (second, failed) in (0..).zip([0, 2, 0, 0]) {
        let mut tally = Tally { scheduled: 10, ok: 10 - failed, ..Tally::default() };
        tally.failures.operations.add(plimsoll_model::ErrorClass::Timeout, failed);
        builder.handle_event(&interval(second, tally));
    }
    builder.finish(&fixtures::load_bad());
    assert_eq!(builder.view().seconds["errors"]["timeout"], serde_json::json!([0, 2, 0, 0]));
}

#[test]
fn what_was_not_measured_is_null_and_numbers_are_short() {
    let view = serde_json::to_value(
        ViewBuilder::new("r".to_owned(), "0.1.0".to_owned(), Head::default(), 1).view(),
    )
    .expect("JSON");
    assert_eq!((&view["summary"], &view["ceiling_per_s"]), (&Value::Null, &Value::Null));
    assert_eq!(number::short(123_456.0), Some(123_500.0));
    assert_eq!((number::short(f64::NAN), number::short(0.0)), (None, Some(0.0)));
}

#[test]
fn a_page_that_grows_has_rows_for_most_latencies() {
    let edges = Range::LIVE.edges();
    assert_eq!((edges[0], edges[edges.len() - 1]), (0.1, 10_000.0));
    let mut fast = Histogram::new();
    fast.record(Nanos(3_000));
    assert_eq!(Range::LIVE.cells(&cells(&fast)), [0, 1]);
}

proptest! {
    /// Every operation is in one cell, and that cell's limits hold it.
    #[test]
    fn cells_add_up(spans in proptest::collection::vec(1_000_u64..3_600_000_000_000, 1..60)) {
        let mut histogram = Histogram::new();
        spans.iter().for_each(|span| histogram.record(Nanos(*span)));
        let all = cells(&histogram);
        let range = Range::of([&all].into_iter());
        let cells = range.cells(&all);
        prop_assert_eq!(cells.iter().skip(1).step_by(2).sum::<u64>(), spans.len() as u64);
        prop_assert!(cells.chunks(2).map(|cell| cell[0]).is_sorted());
        let edges = range.edges();
        prop_assert!(edges.is_sorted() && edges.len() >= 73);
        let slowest = *spans.iter().max().expect("one") as f64 / 1e6;
        let last = cells[cells.len() - 2] as usize;
        prop_assert!(edges[last] * 0.99 <= slowest && slowest <= edges[last + 1] * 1.01);
    }

    #[test]
    fn lists_are_as_long_as_the_document_has_columns(failing in proptest::collection::vec(any::<bool>(), 1..40)) {
        let mut builder = ViewBuilder::new(String::new(), String::new(), Head::default(), 1);
        builder.handle_event(&Event::LoadStarted { trial: None, planned: None, epoch: Nanos::ZERO });
        for (second, failing) in (0..).zip(&failing) {
            let mut tally = Tally { scheduled: 10, ok: 10 - u64::from(*failing), ..Tally::default() };
            if *failing {
                tally.failures.operations.add(plimsoll_model::ErrorClass::Timeout, 1);
            }
            builder.handle_event(&interval(second, tally));
        }
        builder.finish(&fixtures::load_good());
        let view = builder.view();
        prop_assert_eq!(view.heat.corrected.len(), failing.len());
        let mut lengths = BTreeMap::new();
        let mut visit = vec![("", &view.seconds)];
        while let Some((name, value)) = visit.pop() {
            match value {
                Value::Array(list) => drop(lengths.insert(name.to_owned(), list.len())),
                Value::Object(lists) => visit.extend(lists.iter().map(|(name, list)| (&name[..], list))),
                _ => {}
            }
        }
        prop_assert!(lengths.values().all(|length| *length == failing.len()), "{:?}", lengths);
    }
}

#[test]
fn a_view_has_the_last_answer_of_a_search() {
    let mut builder = ViewBuilder::new(String::new(), String::new(), Head::default(), 1);
    let answer = fixtures::tipping_point();
    let none = TippingPoint { lower: None, upper: None, ..answer.clone() };
    assert_eq!(builder.handle_event(&Event::Answer(Box::new(none))), []);
    let patches = builder.handle_event(&Event::Answer(Box::new(answer)));
    let text = builder.view().answer.expect("it was given");
    assert!(text.starts_with("so far: between 18,200/s and 18,900/s"), "{text}");
    assert_eq!(patches, [Patch::Answer { text }]);
    builder.finish(&fixtures::find_regular().0);
    assert_eq!(builder.view().answer, None);
}
