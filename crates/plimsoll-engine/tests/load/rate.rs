//! The rate of a closed loop, as the server's own clock has it.

use std::io::Write;
use std::sync::mpsc;
use std::time::Duration;

use plimsoll_engine::load::Load;
use plimsoll_model::Nanos;
use plimsoll_model::event::LoadEvent;
use plimsoll_model::plan::{LoadPlan, Pacing};
use plimsoll_model::tally::Tally;
use plimsoll_sys::clock;

use crate::scripted::{OK, Scripted, plan, read_request};

/// Time from the order to start until the start; for agents on other hosts it is a second.
const AHEAD: Nanos = Nanos::from_millis(200);

fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}

/// Runs a load that is started [`AHEAD`]; returns its tally, its epoch and its window.
fn run_ahead(plan: LoadPlan) -> (Tally, Nanos, Nanos) {
    let mut load = Load::prepare(plan).unwrap();
    let (mut tally, mut epoch, mut length) = (Tally::default(), Nanos::ZERO, Nanos::ZERO);
    while let Some(event) = load.next_event() {
        match event {
            LoadEvent::Ready { .. } => {
                epoch = now() + AHEAD;
                load.start(epoch);
            }
            LoadEvent::Interval(interval) => tally.merge_following(&interval.tally),
            LoadEvent::Ended { window } => length = window,
            _ => {}
        }
    }
    assert!(tally.balances());
    (tally, epoch, length)
}

/// A load against a server that takes `delay` for each answer; also returns when each request came and was answered.
fn run_logged(delay: Duration, change: impl Fn(LoadPlan) -> LoadPlan) -> Logged {
    let (told, log) = mpsc::channel();
    let server = Scripted::start(move |mut stream| {
        while read_request(&mut stream) {
            let came = now();
            std::thread::sleep(delay);
            // Before the answer: the client may end the test with it.
            let _ = told.send((came, now()));
            if stream.write_all(OK).is_err() {
                return;
            }
        }
    });
    let pacing = Pacing::Closed { duration: None, ops_total: None };
    let (tally, epoch, window) = run_ahead(change(plan(server.address, pacing)));
    Logged { tally, epoch, window, log: log.try_iter().collect() }
}

struct Logged {
    tally: Tally,
    epoch: Nanos,
    window: Nanos,
    log: Vec<(Nanos, Nanos)>,
}

#[test]
fn no_operation_starts_before_the_window() {
    for keepalive in [true, false] {
        for ends in [(Some(Nanos::from_millis(120)), None), (None, Some(24))] {
            let (duration, ops_total) = ends;
            let pacing = Pacing::Closed { duration, ops_total };
            let run = run_logged(Duration::from_millis(20), |plan| LoadPlan {
                keepalive,
                pacing: pacing.clone(),
                ..plan
            });
            let first = run.log.iter().map(|(came, _)| *came).min().unwrap();
            assert!(first >= run.epoch, "{} before the window", run.epoch.since(first));
            assert_eq!(run.log.len() as u64, run.tally.ok);
        }
    }
}

#[test]
fn with_a_count_the_window_ends_with_the_last_answer() {
    for (connections, ops) in [(1, 1), (2, 20), (8, 17)] {
        let run = run_logged(Duration::from_millis(30), |plan| LoadPlan {
            connections,
            pacing: Pacing::Closed { duration: None, ops_total: Some(ops) },
            ..plan
        });
        let last = run.log.iter().map(|(_, answered)| *answered).max().unwrap();
        assert_eq!(run.tally.scheduled, ops);
        assert!(run.tally.after_window.is_none());
        assert!(run.window >= last.since(run.epoch), "{} of {connections}", run.window);
    }
}

#[test]
fn what_lies_after_the_window_is_counted_in_parts() {
    let length = Nanos::from_millis(450);
    for keepalive in [true, false] {
        let run = run_logged(Duration::from_millis(100), |plan| LoadPlan {
            keepalive,
            pacing: Pacing::Closed { duration: Some(length), ops_total: None },
            ..plan
        });
        assert_eq!(run.window, length);
        let ends = run.epoch + length;
        let parts = run.log.iter().map(|(came, answered)| {
            let within = ends.min(*answered).since(*came).0 as f64;
            within / answered.since(*came).0 as f64
        });
        let by_the_server: f64 = parts.sum();
        let counted = run.tally.sent_in_window();
        assert!(run.tally.after_window.ok_ppm > 0);
        // Eight connections, each with one operation in parts. On a busy machine a request lies in a socket before the
        // server's clock starts; whole operations would differ by four.
        assert!((counted - by_the_server).abs() < 2.0, "{counted} instead of {by_the_server}");
    }
}
