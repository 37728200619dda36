//! Tests of the kernel's stamps, with clocks that the tests set: the answer comes
//! now, and the worker looks at it when they say.

use std::sync::{Arc, mpsc};

use plimsoll_model::ErrorClass;
use plimsoll_model::plan::{LoadPlan, Session, Timeouts};
use plimsoll_sys::socket::{ListenSocket, Socket};
use plimsoll_sys::{Errno, clock};

use super::super::conn::Op;
use super::super::control::Control;
use super::super::exchange::Until;
use super::super::origin::tests::{CLOSED, plan};
use super::super::worker::Worker;
use super::*;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";
const HOUR: Nanos = Nanos::from_secs(3600);
const LONG: Nanos = Nanos::from_secs(60);

fn now() -> Nanos {
    Nanos(clock::monotonic_ns())
}

/// A worker that stamps every operation, its one connection, and the server's end of it.
fn connected() -> (Worker, Socket) {
    connected_for(None)
}

/// As [`connected`], with a connection for a session.
fn connected_for(session: Option<Session>) -> (Worker, Socket) {
    let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    let address = listener.local_address().unwrap();
    let timeouts = Timeouts { linger: LONG, ..Timeouts::default() };
    let plan = LoadPlan { timeouts, session, ..plan(CLOSED, 1, &[&[address]]) };
    let (events, _) = mpsc::channel();
    let mut worker =
        Worker::new(Arc::new(plan), 0, None, Arc::new(Control::new()), events).unwrap();
    worker.meter.stamps.every = 1;
    worker.open(0, None, now());
    worker.handle_connected(0, now());
    let server = loop {
        match listener.accept() {
            Err(Errno::AGAIN) => std::thread::yield_now(),
            accepted => break accepted.unwrap(),
        }
    };
    (worker, server)
}

/// Sends a request at `at`, with a delay after its due time.
fn send(worker: &mut Worker, lag: Nanos, at: Nanos) {
    let intended = Nanos(at.0 - lag.0);
    worker.send_op(0, Op { intended, target: 0, is_recorded: false, again: 0 }, Nanos::ZERO, at);
}

/// The server answers, and its answer is here.
fn answer(worker: &mut Worker, server: &Socket) {
    server.send(OK).unwrap();
    loop {
        worker.conns.transport.wait(Nanos::from_secs(20)).unwrap();
        while let Some(ready) = worker.conns.transport.next_ready() {
            if ready.is_readable() {
                return;
            }
        }
    }
}

/// Exchanges without delay until the kernel stamps, which it begins a moment after it is asked.
fn warm_up(worker: &mut Worker, server: &Socket) {
    for _ in 0..10_000 {
        send(worker, Nanos::ZERO, now());
        answer(worker, server);
        worker.read_until(0, Until::Emptied, now());
        let tally = worker.meter.tally();
        let is_stamped = !tally.spans.wire.is_empty();
        tally.clear();
        if is_stamped {
            return;
        }
    }
    panic!("the kernel does not stamp");
}

#[test]
fn what_we_take_to_read_an_answer_is_receive_lag_and_not_wire() {
    let (mut worker, server) = connected();
    warm_up(&mut worker, &server);
    let sent = now();
    send(&mut worker, Nanos::ZERO, sent);
    answer(&mut worker, &server);
    let arrived_by = now();
    worker.read_until(0, Until::Emptied, sent + HOUR);
    let tally = worker.meter.tally();
    let spans = &tally.spans;
    assert_eq!((tally.ok, spans.wire.count(), tally.stamps.missing), (1, 1, 0));
    let most = arrived_by.since(sent).0;
    let value = |hist: &plimsoll_model::Histogram| hist.max().unwrap().0;
    // Three digits of an hour are some seconds.
    assert!(value(&spans.wire) <= most + most / 500 + 1_000, "{:?}", spans.wire);
    assert!(value(&spans.receive_lag) >= (HOUR.0 - most) / 1000 * 998, "{:?}", spans.receive_lag);
    assert!(value(&spans.undelayed) <= value(&spans.wire), "{:?}", spans.undelayed);
    assert_eq!(spans.stamped.max(), spans.corrected.max());
}

#[test]
fn what_comes_late_because_of_us_is_late_for_a_while() {
    let (mut worker, server) = connected();
    warm_up(&mut worker, &server);
    let second = Nanos::from_secs(1);
    let due = now() + second;
    // One was sent a second late: the next one, which is not, arrives together with it.
    send(&mut worker, second, due);
    answer(&mut worker, &server);
    worker.read_until(0, Until::Emptied, due + second);
    let took = Nanos::from_secs(3);
    send(&mut worker, Nanos::ZERO, due + second);
    // It is answered an instant later as far as the kernel knows, which is before it was sent here.
    worker.meter.stamps.arrival = Some(due + second + took);
    let stamped = worker.meter.take_stamped(0, &worker.conns[0], due + second + took).unwrap();
    assert_eq!((stamped.wire.0 / 1_000_000, stamped.receive_lag), (3_000, Nanos::ZERO));
    // A twentieth of the second in between is worked off, and of what is left nothing was taken out
    // twice.
    let left = Nanos::from_millis(1_000 - 50);
    let least = stamped.undelayed_min.0 + left.0;
    assert!(least.abs_diff(took.0) < 10_000_000, "{:?}", stamped.undelayed_min);
    // By itself it was in time.
    assert!(stamped.undelayed.0.abs_diff(took.0) < 10_000_000, "{:?}", stamped.undelayed);
}

#[test]
fn a_connection_was_free_when_its_answer_came() {
    let (mut worker, server) = connected();
    warm_up(&mut worker, &server);
    let sent = now();
    send(&mut worker, Nanos::ZERO, sent);
    // It comes due while the answer awaits our reading it.
    let read = sent + LONG;
    assert!(worker.pools.push_waiting(
        0,
        Op { intended: sent + Nanos(1), target: 0, is_recorded: false, again: 0 }
    ));
    answer(&mut worker, &server);
    worker.read_until(0, Until::Emptied, read);
    assert_eq!(worker.conns[0].state, State::Busy, "the waiting operation was sent");
    assert_eq!(worker.meter.tally().spans.send_lag.max(), Some(Nanos::ZERO));
    let left = worker.meter.stamps.arrears.left(read);
    assert!(left > Nanos(LONG.0 / 2), "{left:?} of a minute are ours");
}

#[test]
fn a_transaction_of_a_session_has_no_delay_of_the_one_before() {
    let (mut worker, server) = connected_for(Some(Session { transactions: 2 }));
    send(&mut worker, LONG, now());
    let sending_us = |worker: &Worker| worker.meter.stamps.delays.as_ref().unwrap()[0].sending;
    assert!(sending_us(&worker) >= 60_000_000);
    answer(&mut worker, &server);
    worker.read_until(0, Until::Emptied, now());
    assert_eq!(worker.conns[0].state, State::Busy, "the next transaction is sent");
    assert!(sending_us(&worker) < 60_000_000);
}

#[test]
fn an_answer_that_has_come_is_read_before_a_late_timer_is_believed() {
    let (mut worker, server) = connected();
    warm_up(&mut worker, &server);
    send(&mut worker, Nanos::ZERO, now());
    answer(&mut worker, &server);
    worker.handle_timer(0, now() + HOUR);
    let tally = worker.meter.tally();
    assert_eq!((tally.ok, tally.errors_total()), (1, 0));
}

#[test]
fn an_answer_that_came_after_its_timer_was_due_is_none() {
    let (mut worker, server) = connected();
    warm_up(&mut worker, &server);
    // The clock counts from the boot of the machine, which may be less than an hour ago.
    let sent = Nanos(now().0 - (LONG + Nanos::from_secs(5)).0);
    send(&mut worker, Nanos::ZERO, sent);
    worker.conns[0].offset_us = 0;
    answer(&mut worker, &server);
    worker.handle_timer(0, now());
    let tally = worker.meter.tally();
    assert_eq!((tally.ok, tally.failures.operations.get(ErrorClass::Timeout)), (0, 1));
}

#[test]
fn a_connection_that_is_established_is_seen_before_a_late_timer_is_believed() {
    let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 16).unwrap();
    let address = listener.local_address().unwrap();
    let plan = plan(CLOSED, 1, &[&[address]]);
    let (events, _) = mpsc::channel();
    let mut worker =
        Worker::new(Arc::new(plan), 0, None, Arc::new(Control::new()), events).unwrap();
    worker.open(0, None, now());
    assert_eq!(worker.conns[0].state, State::Connecting);
    worker.handle_timer(0, now() + HOUR);
    assert_eq!(worker.conns[0].state, State::Idle);
    let tally = worker.meter.tally();
    assert_eq!((tally.connections.opened, tally.connections.failed), (1, 0));
}

#[test]
fn what_was_stamped_while_the_time_was_set_is_not_used() {
    let (mut worker, server) = connected();
    warm_up(&mut worker, &server);
    send(&mut worker, Nanos::ZERO, now());
    answer(&mut worker, &server);
    worker.read_until(0, Until::Emptied, now());
    let mut tally = std::mem::take(worker.meter.tally());
    worker.conns.end_second(&mut tally);
    assert_eq!((tally.spans.wire.count(), tally.stamps.clock_set), (1, 0));
    worker.conns.transport.pretend_set(1_000_000);
    worker.conns.end_second(&mut tally);
    assert_eq!((tally.spans.wire.count(), tally.stamps.clock_set, tally.stamps.missing), (0, 1, 1));
    assert_eq!((tally.ok, tally.spans.corrected.count()), (1, 1));
}

#[test]
fn a_sample_has_its_share_of_every_cycle() {
    let (mut worker, _server) = connected();
    worker.meter.stamps.every = SAMPLED;
    // Two targets in turn on one connection, and connections of one operation each.
    for (generations, ops) in [(1, 40_000), (40_000, 1)] {
        let mut seen = [0_u32; 2];
        for generation in 0..generations {
            for ops_total in 0..ops {
                let hot = ConnHot { generation, ops_total, ..ConnHot::default() };
                let turn = (generation + ops_total) % 2;
                seen[turn as usize] += u32::from(worker.meter.stamps.samples(7, &hot, 0));
            }
        }
        for count in seen {
            assert!(count.abs_diff(20_000 / SAMPLED) < 300, "{seen:?}");
        }
    }
}
