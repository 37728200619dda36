//! Servers that end connections and answers in awkward ways.

use std::io::Write;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use plimsoll_engine::timeouts::{Probe, ProbePlan};
use plimsoll_model::cliff::ProbeKind;
use plimsoll_model::ending::{Closer, Stretch};
use plimsoll_model::plan::{LoadPlan, Timeouts};
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_sys::socket::Socket;

use super::scripted::{OK, PATIENT, Scripted, closed, open, plan, read_request, run};

#[test]
fn an_idle_connection_is_found_again_in_a_slot_of_another_destination() {
    // The first server ends each connection, which was idle by then, so that its slot goes to the
    // second server's.
    let closing = Scripted::start(|mut stream| {
        if read_request(&mut stream) {
            stream.write_all(OK).unwrap();
        }
    });
    let lasting = Scripted::answering();
    let mut plan = LoadPlan {
        connections: 2,
        threads: 1,
        prewarm: false,
        ..plan(closing.address, open(200.0, 200))
    };
    let other = super::scripted::plan(lasting.address, open(200.0, 200));
    plan.targets.extend(other.targets);
    plan.destinations.extend(other.destinations);
    plan.target_destination.push(1);
    let tally = run(plan);
    assert_eq!((tally.scheduled, tally.unsent), (40, 0));
}

/// Answers one request, with the FIN in the answer's segment.
fn answer_and_close(mut stream: TcpStream) {
    if read_request(&mut stream) {
        Socket::from(OwnedFd::from(stream)).send_more(OK).unwrap();
    }
}

#[test]
fn no_request_goes_out_on_a_connection_whose_end_has_come() {
    let server = Scripted::start(answer_and_close);
    let tally = run(plan(server.address, closed(200)));
    assert_eq!((tally.ok, tally.errors_total()), (200, 0), "{:?}", tally.failures.operations);
    // Those that were open in advance and had nothing to do are left.
    assert!((200..=207).contains(&tally.connections.opened), "{:?}", tally.connections);
    assert_eq!(tally.connections.closed_by_peer, 200);
}

#[test]
fn a_connection_that_ends_before_its_next_answer_is_no_crash() {
    // The second request has been read, so its end cannot have been known when it was sent.
    let server = Scripted::start(|mut stream| {
        if read_request(&mut stream) {
            stream.write_all(OK).unwrap();
            read_request(&mut stream);
        }
    });
    let plan = LoadPlan { connections: 1, threads: 1, ..plan(server.address, closed(100)) };
    let tally = run(plan);
    assert_eq!((tally.ok, tally.failures.operations.get(ErrorClass::KeepaliveRace)), (50, 50));
    assert_eq!(tally.errors_total(), 50);
}

/// Resets the connection.
fn reset(stream: TcpStream) {
    Socket::from(OwnedFd::from(stream)).reset_on_close().unwrap();
}

#[test]
fn a_connection_that_is_reset_before_its_next_answer_is_the_same_class() {
    let server = Scripted::start(|mut stream| {
        if read_request(&mut stream) {
            stream.write_all(OK).unwrap();
            if read_request(&mut stream) {
                reset(stream);
            }
        }
    });
    let plan = LoadPlan { connections: 1, threads: 1, ..plan(server.address, closed(100)) };
    let tally = run(plan);
    assert_eq!((tally.ok, tally.failures.operations.get(ErrorClass::KeepaliveRace)), (50, 50));
    assert_eq!(tally.errors_total(), 50);
    assert_eq!(tally.connections.reset_by_peer, 50);
    // The cause of a hidden timer is how the connection ended, not the class.
    assert!(tally.endings.get(Stretch::Operation, Closer::PeerReset).is_some());
    assert!(tally.endings.get(Stretch::Operation, Closer::PeerFin).is_none());
}

#[test]
fn every_request_that_a_closing_server_has_not_answered_is_a_race() {
    // The next request meets a FIN, or the RST of a socket that is closed with unread bytes.
    let answered = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&answered);
    let server = Scripted::start(move |mut stream| {
        if read_request(&mut stream) {
            count.fetch_add(1, Ordering::Relaxed);
            stream.write_all(OK).unwrap();
        }
    });
    let tally = run(plan(server.address, closed(3_000)));
    assert_eq!(tally.ok, answered.load(Ordering::Relaxed));
    assert_eq!(
        tally.failures.operations.get(ErrorClass::KeepaliveRace),
        3_000 - tally.ok,
        "{:?}",
        tally.failures.operations
    );
}

#[test]
fn a_reset_is_no_race_on_a_new_connection_nor_within_an_answer() {
    let first = Scripted::start(|mut stream| {
        if read_request(&mut stream) {
            reset(stream);
        }
    });
    let plan_of = |server: &Scripted| LoadPlan {
        connections: 1,
        threads: 1,
        ..plan(server.address, closed(20))
    };
    let tally = run(plan_of(&first));
    assert_eq!((tally.ok, tally.failures.operations.get(ErrorClass::ResetByPeer)), (0, 20));
    let within = Scripted::start(|mut stream| {
        if read_request(&mut stream) {
            stream.write_all(OK).unwrap();
            if read_request(&mut stream) {
                stream.write_all(&OK[..20]).unwrap();
                reset(stream);
            }
        }
    });
    let tally = run(plan_of(&within));
    assert_eq!(
        (tally.ok, tally.failures.operations.get(ErrorClass::ResetByPeer)),
        (10, 10),
        "{:?}",
        tally.failures.operations
    );
}

/// Answers `status` without reading what has come, so that closing resets.
fn answer_and_reset(status: u16) -> Scripted {
    Scripted::start(move |mut stream| {
        let _ = stream.peek(&mut [0; 1]);
        let answer = format!("HTTP/1.1 {status} No\r\nContent-Length: 0\r\n\r\n");
        let _ = stream.write_all(answer.as_bytes());
    })
}

#[test]
fn an_answer_is_read_before_the_reset_behind_it() {
    let server = answer_and_reset(413);
    let mut plan = LoadPlan { keepalive: false, ..plan(server.address, open(200.0, 200)) };
    plan.targets[0].body = vec![b'x'; 8 << 20].into();
    let tally = run(plan);
    assert_eq!(
        tally.failures.operations.get(ErrorClass::Status4xx),
        40,
        "{:?}",
        tally.failures.operations
    );
}

#[test]
fn the_timeout_probe_reads_the_answer_before_the_reset() {
    let server = answer_and_reset(408);
    let mut plan = plan(server.address, closed(1));
    let probe = Probe::start(ProbePlan {
        unix_socket: None,
        destination: plan.destinations.remove(0),
        target: plan.targets.remove(0),
        tls: plan.tls,
        wait: Nanos::from_secs(2),
        backend_is_ours: false,
    })
    .unwrap();
    while !probe.is_over() {
        std::thread::yield_now();
    }
    let ends = probe.finish();
    for kind in [ProbeKind::HalfHead, ProbeKind::HalfBody] {
        let closers: Vec<_> =
            ends.iter().filter(|end| end.kind == kind).map(|end| end.closer).collect();
        assert_eq!(closers, [Closer::Status(408); 3], "{kind:?}");
    }
}

#[test]
fn a_peer_that_never_stops_sending_stops_no_timer() {
    // A first answer, which the client only counts, makes its window large: reads never end short.
    // Then chunks of one byte cost it far more than the peer, which has 600 MB of them.
    let sent_all = Arc::new(AtomicBool::new(false));
    let has_sent_all = Arc::clone(&sent_all);
    let server = Scripted::start(move |mut stream| {
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 30000000\r\n\r\n");
        let _ = stream.write_all(&vec![b'x'; 30_000_000]);
        read_request(&mut stream);
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
        let chunks = b"1\r\nx\r\n".repeat(10_000);
        let sent = (0..10_000).try_for_each(|_| stream.write_all(&chunks));
        has_sent_all.store(sent.is_ok(), Ordering::Release);
    });
    let plan = LoadPlan {
        timeouts: Timeouts { linger: Nanos::from_secs(3), ..PATIENT },
        connections: 1,
        threads: 1,
        ..plan(server.address, closed(2))
    };
    let tally = run(plan);
    assert_eq!(
        (tally.ok, tally.failures.operations.get(ErrorClass::Timeout)),
        (1, 1),
        "{:?}",
        tally.failures.operations
    );
    assert!(!sent_all.load(Ordering::Acquire));
}
