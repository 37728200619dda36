//! Screens as text: every command, at every size.

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::hold::HoldStep;
use plimsoll_model::host::{Label, Metric, Reading};
use plimsoll_model::tally::Interval;
use plimsoll_model::{ErrorClass, trial};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use super::{Budget, Head, Look, Scene, Tracker, Watched};
use crate::fixtures;

fn at(s: u64) -> Nanos {
    Nanos::from_secs(s)
}

fn head(command: &str) -> Head {
    Head {
        command: command.to_owned(),
        target: "http://127.0.0.1:8080/".to_owned(),
        slo: Some("p99<50ms,errors<0.1%".to_owned()),
        deadline: Some(Nanos::from_millis(50)),
        budget: None,
        page: None,
    }
}

fn reading(second: u64) -> Reading {
    let now = at(second);
    let mut reading = Reading { begin: now, end: now, ..Reading::default() };
    reading.add(Metric::HostCpus, &[], 2.0);
    for (cpu, busy) in [("0", 0.25), ("1", 0.5)] {
        let labels = [(Label::Cpu, cpu), (Label::Mode, "idle")];
        reading.add(Metric::CpuSeconds, &labels, second as f64 * (1.0 - busy));
    }
    for direction in ["receive", "transmit"] {
        let labels = [(Label::Device, "lo"), (Label::Direction, direction)];
        reading.add(Metric::NetworkBytes, &labels, second as f64 * 1_210_000.0);
        reading.add(Metric::NetworkPackets, &labels, second as f64 * 5_000.0);
    }
    reading.add(Metric::TcpEstablished, &[], 64.0);
    reading.add(Metric::MemoryTotalBytes, &[], 24e9);
    reading.add(Metric::MemoryAvailableBytes, &[], 22.9e9);
    reading.sort();
    reading
}

fn load(tracker: &mut Tracker, seconds: u32) {
    let planned = Some(at(60));
    tracker.handle_event(&Event::LoadStarted { trial: None, planned, epoch: Nanos::ZERO }, at(1));
    for second in 0..seconds {
        let typical_us = if second % 10 == 9 { 20_000 } else { 1_000 };
        let mut tally = fixtures::tally(1_000, typical_us, 1);
        if second == 7 {
            tally.failures.operations.add(ErrorClass::ResetByPeer, 12);
        }
        let interval = Interval { second, tally };
        tracker.handle_event(&Event::Interval(Box::new(interval)), at(u64::from(second) + 2));
    }
    for second in 1..3 {
        for host in ["clients", "sut"] {
            tracker.handle_reading(host, &reading(second));
        }
    }
}

fn search() -> Tracker {
    search_within(None)
}

fn search_within(budget: Option<Budget>) -> Tracker {
    let mut tracker = Tracker::new(Head { budget, ..head("find") });
    for trial in fixtures::trials() {
        let request = trial.measurement.request;
        let planned = Some(request.duration);
        tracker.handle_event(
            &Event::LoadStarted { trial: Some(request), planned, epoch: Nanos::ZERO },
            at(1),
        );
        tracker.handle_event(&Event::TrialEnded(Box::new(trial)), at(2));
    }
    let request = fixtures::trials()[6].measurement.request;
    let started =
        Event::LoadStarted { trial: Some(request), planned: Some(at(5)), epoch: Nanos::ZERO };
    tracker.handle_event(&started, at(50));
    let interval = Interval { second: 0, tally: fixtures::tally(18_200, 2_000, 1) };
    tracker.handle_event(&Event::Interval(Box::new(interval)), at(51));
    tracker
}

#[test]
fn no_second_is_beyond_the_planned_ones() {
    let mut tracker = Tracker::new(head("load"));
    let started = Event::LoadStarted { trial: None, planned: Some(at(3)), epoch: Nanos::ZERO };
    tracker.handle_event(&started, at(49));
    // Of 53 s four are the load's.
    let text = drawn(&tracker, &look(), 80, 24);
    assert!(text.contains("waiting for answers") && !text.contains("s of 3 s"), "{text}");
}

fn drawn(tracker: &Tracker, look: &Look, columns: u16, rows: u16) -> String {
    drawn_scene(tracker.state(), look, columns, rows)
}

fn drawn_scene(scene: &impl Scene, look: &Look, columns: u16, rows: u16) -> String {
    let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
    terminal.draw(|frame| scene.draw(look, at(53), frame)).unwrap();
    terminal.backend().to_string()
}

/// Returns a host that was watched for `seconds`.
fn watched(seconds: u64) -> Watched {
    let mut watched = Watched::new("proxy1", at(1), None);
    for second in 0..=seconds {
        watched.handle_reading(&fixtures::watched_for(second), at(second));
    }
    watched
}

fn look() -> Look {
    Look::new(true, false)
}

#[test]
fn a_load_is_drawn_at_each_size() {
    let mut tracker = Tracker::new(head("load"));
    load(&mut tracker, 51);
    tracker.handle_event(&Event::Note("4 agents on 2 CPUs\x1b[2J".to_owned()), at(3));
    for (columns, rows) in [(80, 24), (60, 15), (120, 40), (40, 10)] {
        insta::assert_snapshot!(
            format!("load_{columns}x{rows}"),
            drawn(&tracker, &look(), columns, rows)
        );
    }
}

#[test]
fn a_search_is_drawn_at_each_size() {
    let tracker = search();
    for (columns, rows) in [(80, 24), (60, 15), (120, 40), (40, 10)] {
        insta::assert_snapshot!(
            format!("find_{columns}x{rows}"),
            drawn(&tracker, &look(), columns, rows)
        );
    }
}

/// Returns the columns of the chart of trials that are bounds.
fn bound_columns(tracker: &Tracker) -> Vec<usize> {
    let text = drawn(tracker, &look(), 120, 40);
    let bars = |line: &str| -> Vec<usize> {
        line.chars().zip(0..).filter(|(sign, _)| *sign == '|').map(|(_, column)| column).collect()
    };
    let mut columns: Vec<usize> = text.lines().flat_map(bars).collect();
    columns.sort_unstable();
    columns.dedup();
    columns
}

#[test]
fn a_search_is_drawn_with_the_bounds_of_its_answer() {
    let mut tracker = search();
    // Of 18,200/s and 18,900/s, by the verdicts.
    let by_verdicts = bound_columns(&tracker);
    let lower = plimsoll_model::Rate::per_second(9_100.0);
    let answer = trial::TippingPoint { lower, upper: None, ..fixtures::tipping_point() };
    tracker.handle_event(&Event::Answer(Box::new(answer)), at(52));
    let by_answer = bound_columns(&tracker);
    assert_eq!(by_answer.len(), 1, "{by_answer:?}");
    assert!(by_answer[0] < by_verdicts[0], "{by_answer:?}, {by_verdicts:?}");
    let text = drawn(&tracker, &look(), 120, 40);
    assert!(text.contains("so far: at least 9,100/s") && !text.contains("good at"), "{text}");
}

#[test]
fn a_search_for_connections_names_them() {
    let mut tracker = Tracker::new(head("find connections"));
    tracker.handle_event(
        &Event::LoadStarted { trial: None, planned: None, epoch: Nanos::ZERO },
        at(1),
    );
    let ramp = HoldStep::Ramp { connections: 18_200, per_s: 2_000.0 };
    tracker.handle_event(&Event::HoldStep(ramp), at(1));
    for trial in fixtures::trials() {
        tracker.handle_event(&Event::TrialStarted(trial.measurement.request), at(1));
        tracker.handle_event(&Event::TrialEnded(Box::new(trial)), at(2));
    }
    let text = drawn(&tracker, &look(), 120, 40);
    let bounds = "good at 18,200 connections, bad at 18,900 connections (3.8 % apart)";
    assert!(text.contains(bounds) && text.contains("now at 18,200 connections"), "{text}");
    tracker.handle_event(&Event::SearchEnded(Box::new(fixtures::tipping_point())), at(3));
    let text = drawn(&tracker, &look(), 120, 40);
    assert!(text.contains("between 18,200 connections and 18,900 connections"), "{text}");
}

#[test]
fn the_page_is_named_whole_where_it_fits() {
    let page = "http://127.0.0.1:45678/0123456789abcdef0123456789abcdef/".to_owned();
    let mut tracker = Tracker::new(Head { page: Some(page.clone()), ..head("load") });
    load(&mut tracker, 3);
    for (columns, rows) in [(80, 24), (60, 15), (120, 40)] {
        let text = drawn(&tracker, &look(), columns, rows);
        assert!(text.contains(&page[..usize::from(columns.min(61) - 5)]), "{text}");
    }
    assert!(tracker.notes().all(|note| !note.contains("0123456789abcdef")));
}

#[test]
fn connections_are_drawn_while_they_are_opened_and_lost() {
    let mut tracker = Tracker::new(head("hold"));
    let started = Event::LoadStarted { trial: None, planned: None, epoch: Nanos::ZERO };
    tracker.handle_event(&started, at(1));
    let ramp = HoldStep::Ramp { connections: 60_000, per_s: 2_000.0 };
    tracker.handle_event(&Event::HoldStep(ramp), at(1));
    for second in 0..25 {
        let mut tally = plimsoll_model::tally::Tally::default();
        tally.connections.opened = if second < 20 { 2_000 } else { 0 };
        tally.connections.held_end = u64::from(second + 1).min(20) * 2_000;
        if second > 21 {
            tally.failures.lost_held.add(ErrorClass::ResetByPeer, 500);
            tally.connections.reset_by_peer = 500;
            tally.connections.held_end -= 500 * u64::from(second - 21);
        }
        let interval = Interval { second, tally };
        tracker.handle_event(&Event::Interval(Box::new(interval)), at(u64::from(second) + 2));
    }
    let text = drawn(&tracker, &look(), 80, 24);
    assert!(text.contains("opened 40,000") && text.contains("lost 1,500"), "{text}");
    insta::assert_snapshot!(text);
}

#[test]
fn a_hold_shows_its_step() {
    let mut tracker = Tracker::new(head("hold"));
    let started = Event::LoadStarted { trial: None, planned: None, epoch: Nanos::ZERO };
    tracker.handle_event(&started, at(1));
    let ramp = HoldStep::Ramp { connections: 1_000_000_000_000, per_s: 2_000.0 };
    tracker.handle_event(&Event::HoldStep(ramp), at(1));
    let mut tally = plimsoll_model::tally::Tally::default();
    tally.connections.held_end = 123_456_789_012;
    tally.connections.opened = 2_000;
    tracker.handle_event(&Event::Interval(Box::new(Interval { second: 0, tally })), at(2));
    insta::assert_snapshot!(drawn(&tracker, &look(), 80, 24));
}

#[test]
fn no_size_and_no_state_is_a_crash() {
    let mut long = Tracker::new(Head { target: "x".repeat(300), ..head("lab rfc9411") });
    load(&mut long, 400);
    for host in 0..40 {
        for second in 1..3 {
            long.handle_reading(&format!("host-with-a-long-name-{host}"), &reading(second));
        }
    }
    for (class, count) in ErrorClass::ALL.iter().zip(1..) {
        let mut tally = plimsoll_model::tally::Tally::default();
        tally.failures.operations.add(*class, count);
        long.handle_event(&Event::Interval(Box::new(Interval { second: 0, tally })), at(9));
    }
    for (columns, rows) in [(1, 1), (60, 15), (60, 200), (61, 16), (300, 15), (79, 23)] {
        for tracker in [&Tracker::new(head("load")), &search(), &long] {
            for keys in [&b""[..], b"\t", b"\t\t", b"\t\t\t", b"\t\t\t\t", b"?", b"lu"] {
                for ascii in [false, true] {
                    let mut look = Look::new(false, ascii);
                    look.press(keys);
                    drawn(tracker, &look, columns, rows);
                }
            }
        }
    }
}

#[test]
fn what_a_peer_writes_does_not_reach_the_terminal_as_it_is() {
    let mut tracker =
        Tracker::new(Head { target: "http://\x1b]0;x\x07/".to_owned(), ..head("load") });
    tracker.handle_event(&Event::Note("\x1b[2J".to_owned()), at(1));
    tracker.handle_reading("\x1bc", &reading(1));
    tracker.handle_reading("\x1bc", &reading(2));
    let text = drawn(&tracker, &look(), 80, 24);
    assert!(!text.contains('\x1b') && text.contains("?[2J") && text.contains("?c"), "{text}");
}

#[test]
fn ascii_is_ascii() {
    let mut tracker = search();
    load(&mut tracker, 51);
    for keys in [&b""[..], b"\t", b"\t\t", b"\t\t\t", b"?"] {
        let mut look = Look::new(false, true);
        look.press(keys);
        let text = drawn(&tracker, &look, 120, 40);
        // Axes are drawn by the chart.
        let odd: String = text.chars().filter(|c| !c.is_ascii() && !"│─└•".contains(*c)).collect();
        assert_eq!(odd, "", "{text}");
    }
}

#[test]
fn the_time_that_is_left_is_named() {
    assert!(!drawn(&search(), &look(), 80, 24).contains("left"));
    // Six trials of 5 s, one of 2 s and one of 20 s.
    let text = drawn(&search_within(Some(Budget::Trials(at(215)))), &look(), 80, 24);
    assert!(text.contains("now at 18,200/s  at most 163 s of trials left"), "{text}");
    let text = drawn(&search_within(Some(Budget::Elapsed(at(300)))), &look(), 120, 40);
    assert!(text.contains("(3.8 % apart)") && text.contains("at most 248 s of trials"), "{text}");
}

#[test]
fn every_verdict_has_its_mark() {
    let text = drawn(&search(), &look(), 80, 24);
    assert!(
        text.contains("o GOOD 5") && text.contains("x BAD 2") && text.contains("? INVALID 1"),
        "{text}"
    );
    assert_eq!(trial::Verdict::Invalid.name(), "invalid");
}

#[test]
fn a_watched_host_is_drawn_at_each_size() {
    let mut watched = watched(4);
    watched.note("receiving StatsD on 127.0.0.1:8125\x1b[2J");
    for (columns, rows) in [(80, 24), (60, 15), (120, 40), (40, 10)] {
        insta::assert_snapshot!(
            format!("watch_{columns}x{rows}"),
            drawn_scene(&watched, &look(), columns, rows)
        );
    }
    let mut look = look();
    for panel in ["limits", "processes", "events"] {
        look.press(b"\t");
        insta::assert_snapshot!(format!("watch_{panel}"), drawn_scene(&watched, &look, 80, 24));
    }
}

#[test]
fn a_watched_host_is_drawn_before_its_second_reading_and_at_any_size() {
    let text = drawn_scene(&watched(0), &look(), 80, 24);
    assert!(text.contains("Waiting for the second reading."), "{text}");
    let mut many = Reading { begin: at(1), end: at(1), ..Reading::default() };
    let mut later = Reading { begin: at(2), end: at(2), ..Reading::default() };
    for cpu in 0..300 {
        let number = cpu.to_string();
        for (mode, seconds) in
            [("user", f64::from(cpu) / 300.0), ("idle", 1.0 - f64::from(cpu) / 300.0)]
        {
            let labels = [(Label::Cpu, number.as_str()), (Label::Mode, mode)];
            many.add(Metric::CpuSeconds, &labels, 0.0);
            later.add(Metric::CpuSeconds, &labels, seconds);
        }
        let process = format!("process-{cpu}");
        let labels = [(Label::Process, process.as_str()), (Label::Role, "server")];
        later.add(Metric::ProcessInfo, &labels, 1.0);
    }
    let mut history = crate::watch::History::default();
    for mut reading in [many, later] {
        reading.sort();
        history.push(reading);
    }
    let mut large = Watched::new(&"host".repeat(50), at(1), Some(at(600)));
    large.handle_reading(&history, at(1));
    for (columns, rows) in [(1, 1), (60, 15), (60, 200), (61, 16), (300, 15), (79, 23)] {
        for scene in [&watched(0), &watched(2), &large] {
            for keys in [&b""[..], b"\t", b"\t\t", b"\t\t\t", b"?"] {
                let mut look = Look::new(false, true);
                look.press(keys);
                let text = drawn_scene(scene, &look, columns, rows);
                assert!(text.is_ascii(), "{text}");
            }
        }
    }
    // Those that were busiest are shown, and the others are counted.
    let text = drawn_scene(&large, &look(), 80, 24);
    assert!(text.contains("CPU 299") && text.contains("more CPUs were less busy"), "{text}");
}
