//! The client role against scripted servers on loopback: whatever a server does, every operation
//! ends in exactly one class, and the class is the right one.
#![expect(clippy::disallowed_methods, reason = "the scripted peers are plain blocking sockets")]
#![expect(clippy::unwrap_used, reason = "a failure to set a test up is a failed test")]

mod answers;
mod deaf;
mod faults;
mod http2;
mod rate;
mod retrying;
mod scripted;
mod tls;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::mpsc::Sender;

use plimsoll_engine::load::Load;
use plimsoll_model::announced::AnnouncedLimits;
use plimsoll_model::ending::{Closer, Stretch};
use plimsoll_model::event::LoadEvent;
use plimsoll_model::pace::Shard;
use plimsoll_model::plan::{LoadPart, LoadPlan, Session, Timeouts};
use plimsoll_model::tally::Tally;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::clock;
use scripted::{OK, PATIENT, Scripted, closed, open, plan, read_request, run};

#[test]
fn open_loop_sends_exactly_what_was_scheduled() {
    let server = Scripted::answering();
    let tally = run(plan(server.address, open(500.0, 600)));
    assert_eq!((tally.scheduled, tally.ok), (300, 300));
    assert_eq!(tally.connections.opened, 8);
    assert_eq!(tally.spans.corrected.count(), 300);
    assert_eq!(tally.answers.status.iter().collect::<Vec<_>>(), [(200, 300)]);
}

#[test]
fn closed_loop_sends_exactly_the_number_asked_for() {
    let server = Scripted::answering();
    let tally = run(plan(server.address, closed(1000)));
    assert_eq!((tally.scheduled, tally.ok, tally.connections.opened), (1000, 1000, 8));
}

#[test]
fn without_keepalive_each_operation_has_its_own_connection() {
    let server = Scripted::start(|mut stream| {
        if read_request(&mut stream) {
            stream.write_all(OK).unwrap();
        }
    });
    for pacing in [open(400.0, 500), closed(200)] {
        let plan = LoadPlan { keepalive: false, ..plan(server.address, pacing) };
        let tally = run(plan);
        assert_eq!((tally.scheduled, tally.ok, tally.connections.opened), (200, 200, 200));
        assert_eq!(tally.spans.send_lag.count(), 200);
    }
}

#[test]
fn the_wire_takes_no_longer_than_the_operation() {
    let server = Scripted::start(|mut stream| {
        while read_request(&mut stream) {
            std::thread::sleep(std::time::Duration::from_millis(2));
            if stream.write_all(OK).is_err() {
                return;
            }
        }
    });
    for keepalive in [true, false] {
        let tally = run(LoadPlan { keepalive, ..plan(server.address, open(300.0, 500)) });
        let (spans, stamps) = (&tally.spans, tally.stamps);
        assert_eq!((tally.ok, stamps.every, stamps.clock_set), (150, 1, 0));
        let stamped = spans.wire.count();
        // The kernel begins to stamp a moment after it is asked.
        assert_eq!(stamped + stamps.missing, tally.ok);
        assert!(stamped > 100, "{stamps:?}");
        for other in [&spans.receive_lag, &spans.stamped, &spans.undelayed, &spans.undelayed_min] {
            assert_eq!(other.count(), stamped);
        }
        assert!(spans.wire.max() <= spans.uncorrected.max());
        assert!(spans.undelayed_min.max() <= spans.undelayed.max());
        assert!(spans.undelayed.max() <= spans.stamped.max());
        assert!(spans.wire.min() >= Some(Nanos::from_millis(2)), "{:?}", spans.wire.min());
        assert!(spans.receive_lag.mean() < spans.wire.mean());
    }
}

#[test]
fn requests_per_connection_bounds_reuse() {
    let server = Scripted::answering();
    let plan = LoadPlan {
        requests_per_connection: Some(10),
        connections: 1,
        threads: 1,
        ..plan(server.address, closed(100))
    };
    let tally = run(plan);
    assert_eq!((tally.ok, tally.connections.opened), (100, 10));
}

#[test]
fn faults_of_the_server_are_counted_in_their_class() {
    type Script = fn(TcpStream);
    let table: [(&str, Script, ErrorClass); 6] = [
        (
            "closes without an answer",
            |mut s| {
                read_request(&mut s);
            },
            ErrorClass::ClosedByPeer,
        ),
        (
            "closes in mid-answer",
            |mut s| {
                read_request(&mut s);
                s.write_all(&OK[..30]).unwrap();
            },
            ErrorClass::ClosedByPeer,
        ),
        (
            "sends garbage",
            |mut s| {
                read_request(&mut s);
                s.write_all(b"SSH-2.0-x\r\n\r\n").unwrap();
                read_request(&mut s);
            },
            ErrorClass::HttpMalformed,
        ),
        (
            "answers 503",
            |mut s| {
                while read_request(&mut s) {
                    s.write_all(b"HTTP/1.1 503 No\r\nContent-Length: 0\r\n\r\n").unwrap();
                }
            },
            ErrorClass::Status5xx,
        ),
        (
            "answers 404",
            |mut s| {
                while read_request(&mut s) {
                    s.write_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n").unwrap();
                }
            },
            ErrorClass::Status4xx,
        ),
        ("never answers", |mut s| while read_request(&mut s) {}, ErrorClass::Timeout),
    ];
    for (what, script, class) in table {
        let server = Scripted::start(script);
        let mut plan = LoadPlan { connections: 40, ..plan(server.address, open(200.0, 100)) };
        if class == ErrorClass::Timeout {
            plan.timeouts = Timeouts { linger: Nanos::from_millis(200), ..PATIENT };
        }
        let tally = run(plan);
        assert_eq!(
            tally.failures.operations.get(class),
            20,
            "{what}: {:?}",
            tally.failures.operations
        );
        // Each ending is timed as well if the side that caused it may have had a timer.
        let closer = match class {
            ErrorClass::Status5xx => Some(Closer::Status(503)),
            other => Closer::of_class(other),
        };
        let timed = closer.and_then(|closer| tally.endings.get(Stretch::Operation, closer));
        let count = timed.map_or(0, |series| series.durations.count());
        assert_eq!(count, if closer.is_some() { 20 } else { 0 }, "{what}: {:?}", tally.endings);
    }
}

/// Sends a FIN, and reads what comes until the client's: a request that is left unread would make it a reset.
fn end(mut stream: TcpStream) {
    let _ = stream.shutdown(Shutdown::Write);
    let _ = stream.read_to_end(&mut Vec::new());
}

#[test]
fn connections_that_the_server_ends_are_timed() {
    type Script = fn(TcpStream);
    let table: [(&str, Script, Closer, bool); 4] = [
        ("closes an idle connection", end, Closer::PeerFin, true),
        (
            "answers unasked, as it does to a request that does not come",
            |mut s| {
                s.write_all(b"HTTP/1.1 408 Late\r\nContent-Length: 0\r\n\r\n").unwrap();
                end(s);
            },
            Closer::PeerAnswer,
            true,
        ),
        (
            "says that it will close",
            |mut s| {
                read_request(&mut s);
                s.write_all(
                    b"HTTP/1.1 200 OK\r\nConnection: close\r\nKeep-Alive: timeout=7\r\n\
                      Content-Length: 0\r\n\r\n",
                )
                .unwrap();
            },
            Closer::PeerAnswer,
            false,
        ),
        (
            "closes with a request in hand",
            |mut s| {
                read_request(&mut s);
            },
            Closer::PeerFin,
            false,
        ),
    ];
    for (what, script, closer, is_idle) in table {
        let server = Scripted::start(script);
        let plan = LoadPlan { connections: 40, ..plan(server.address, open(100.0, 200)) };
        let tally = run(plan);
        let count = |stretch| {
            tally.endings.get(stretch, closer).map_or(0, |series| series.durations.count())
        };
        assert!(count(Stretch::Lifetime) >= 20, "{what}: {:?}", tally.endings);
        assert_eq!(count(Stretch::Idle) > 0, is_idle, "{what}: {:?}", tally.endings);
        let announced = tally.answers.announced;
        let AnnouncedLimits { requests_min, requests_max, idle_s, .. } = announced;
        match what {
            "says that it will close" => {
                assert_eq!((requests_min, requests_max, idle_s), (1, 1, 7), "{announced:?}");
                assert!(announced.ends >= 20, "{announced:?}");
            }
            _ => assert!(announced.is_none(), "{what}: {announced:?}"),
        }
    }
}

#[test]
fn what_ends_well_or_by_our_will_costs_nothing() {
    let server = Scripted::answering();
    for (keepalive, requests_per_connection) in [(true, None), (true, Some(2)), (false, None)] {
        let plan = plan(server.address, open(200.0, 200));
        let tally = run(LoadPlan { keepalive, requests_per_connection, ..plan });
        assert!(tally.endings.is_empty(), "{:?}", tally.endings);
    }
}

#[test]
fn a_refusing_server_is_a_result() {
    // A separate address, or another test may listen on this port next.
    let listener = TcpListener::bind("127.77.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    for pacing in [open(500.0, 200), closed(40)] {
        let tally = run(plan(address, pacing));
        assert_eq!(tally.failures.operations.get(ErrorClass::ConnectRefused), tally.scheduled);
        assert!(tally.scheduled >= 40);
        // The pool of 8 was tried before the start, too.
        assert!(tally.connections.failed >= tally.scheduled + 8);
    }
}

#[test]
fn what_waits_when_the_window_ends_is_unsent() {
    let server = Scripted::start(|mut stream| while read_request(&mut stream) {});
    let plan = LoadPlan {
        timeouts: Timeouts {
            linger: Nanos::from_millis(300),
            deadline: Some(Nanos::from_millis(10)),
            ..PATIENT
        },
        connections: 2,
        ..plan(server.address, open(500.0, 100))
    };
    let tally = run(plan);
    assert_eq!(tally.scheduled, 50);
    assert_eq!(tally.failures.operations.get(ErrorClass::Timeout), 2);
    assert_eq!(tally.unsent, 48);
    assert!(tally.pool_exhausted > 0);
}

#[test]
fn late_answers_are_ok_and_late() {
    let server = Scripted::answering();
    let plan = LoadPlan {
        // No answer can meet this one, nor is one given up on a busy machine.
        timeouts: Timeouts { deadline: Some(Nanos(1)), ..PATIENT },
        ..plan(server.address, open(100.0, 200))
    };
    let tally = run(plan);
    assert_eq!((tally.ok, tally.late), (20, 20));
}

#[test]
fn stopping_accounts_for_everything() {
    let server = Scripted::start(|mut stream| while read_request(&mut stream) {});
    let plan = LoadPlan { connections: 4, ..plan(server.address, open(1000.0, 60_000)) };
    let mut load = Load::prepare(plan).unwrap();
    let mut whole = Tally::default();
    while let Some(event) = load.next_event() {
        match event {
            LoadEvent::Ready { .. } => load.start(Nanos(clock::monotonic_ns())),
            LoadEvent::Interval(interval) => {
                whole.merge_following(&interval.tally);
                load.stop(Nanos::ZERO);
            }
            LoadEvent::Refused(_)
            | LoadEvent::Rows(_)
            | LoadEvent::Steered { .. }
            | LoadEvent::Draining { .. } => {}
            LoadEvent::Ended { window } => assert!(window < Nanos::from_secs(30)),
        }
    }
    assert!(whole.balances() && whole.scheduled > 0);
    assert_eq!(whole.failures.operations.get(ErrorClass::Interrupted), 4);
}

#[test]
fn shards_add_up_to_the_whole() {
    let server = Scripted::answering();
    let scheduled: u64 = (0..3)
        .map(|process| {
            let plan = plan(server.address, open(1000.0, 100));
            // Each thread is one shard.
            let shard = Shard { index: process * plan.threads, of: 3 * plan.threads };
            run(LoadPlan { part: LoadPart { shard, ..LoadPart::WHOLE }, ..plan }).scheduled
        })
        .sum();
    assert_eq!(scheduled, 100);
}

/// Answers until the client's FIN; reports how many answers that were and how the end came.
fn answering_to_the_end(
    told: Sender<(u32, std::io::Result<usize>)>,
) -> impl Fn(TcpStream) + Send + Clone + 'static {
    move |mut stream| {
        let mut answers = 0;
        while read_request(&mut stream) {
            stream.write_all(OK).unwrap();
            answers += 1;
        }
        let _ = told.send((answers, stream.read(&mut [0; 1])));
    }
}

#[test]
fn sessions_end_with_the_clients_fin() {
    for (pacing, transactions, connections) in [
        (open(200.0, 100), 1, 20),
        (open(200.0, 100), 3, 20),
        // The loop counts sessions; what follows their first transactions is not its affair.
        (closed(12), 5, 12),
    ] {
        let (told, endings) = std::sync::mpsc::channel();
        let server = Scripted::start(answering_to_the_end(told));
        let plan = LoadPlan {
            keepalive: false,
            prewarm: false,
            session: Some(Session { transactions }),
            ..plan(server.address, pacing)
        };
        let tally = run(plan);
        assert_eq!(tally.ok, u64::from(transactions) * connections);
        assert_eq!(tally.connections.opened, connections);
        assert_eq!(tally.connections.reset_by_peer, 0);
        assert_eq!(tally.spans.syn_to_first_byte.count(), connections);
        assert_eq!(tally.spans.syn_to_last_byte.count(), connections);
        for _ in 0..connections {
            let (answers, end) = endings.recv().unwrap();
            assert_eq!((answers, end.unwrap()), (transactions, 0));
        }
        // The last ones may still be closing when the load ends.
        assert!(tally.connections.finished <= connections);
    }
}

#[test]
fn finished_sessions_are_counted_and_resets_are_not() {
    // The first connections are answered and closed by FIN; a session that is closed by the server
    // with a RST, because it has not read the request after its answer, is none of them.
    for (reset, finished) in [(false, true), (true, false)] {
        let server = Scripted::start(move |mut stream| {
            read_request(&mut stream);
            stream.write_all(OK).unwrap();
            if reset {
                // One byte of the second request stays unread: the kernel resets.
                let _ = stream.read(&mut [0; 1]);
            } else {
                while stream.read(&mut [0; 64]).unwrap_or(0) > 0 {}
            }
        });
        let plan = LoadPlan {
            keepalive: false,
            prewarm: false,
            session: Some(Session { transactions: if reset { 2 } else { 1 } }),
            connections: 1,
            threads: 1,
            ..plan(server.address, closed(20))
        };
        let tally = run(plan);
        // One at a time: each has ended before the next began.
        assert_eq!(tally.connections.finished >= 19, finished, "{:?}", tally.connections);
        assert_eq!(tally.connections.reset_by_peer > 0, reset, "{:?}", tally.connections);
    }
}
