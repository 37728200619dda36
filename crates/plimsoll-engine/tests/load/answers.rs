//! The end of a connection behind an answer: closes that the request asked for, and excess bytes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Sender, channel};

use plimsoll_model::ErrorClass;
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::reason::{CountedReason, Reason};
use plimsoll_model::tally::Tally;
use plimsoll_model::target::Target;

use crate::scripted::{OK, Scripted, closed, open, plan, read_request, run};

/// Answers each request with `answer`, and sends the number of requests of each connection that ends.
fn counting(
    answer: &'static [u8],
    closes: bool,
    told: Sender<u32>,
) -> impl Fn(TcpStream) + Send + Clone + 'static {
    move |mut stream| {
        let mut requests = 0;
        while read_request(&mut stream) {
            requests += 1;
            if stream.write_all(answer).is_err() || closes {
                break;
            }
        }
        let _ = told.send(requests);
    }
}

fn with_headers(address: SocketAddr, headers: &[&[(&str, &str)]]) -> LoadPlan {
    let plan = plan(address, closed(24));
    let target = |headers: &&[(&str, &str)]| Target {
        headers: headers.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect(),
        ..plan.targets[0].clone()
    };
    LoadPlan {
        targets: headers.iter().map(target).collect(),
        target_destination: vec![0; headers.len()],
        connections: 2,
        ..plan
    }
}

#[test]
fn a_close_that_was_asked_for_ends_its_connection() {
    // Of three targets one asks for the close, whether the server obeys it or not.
    for closes in [false, true] {
        for pacing in [closed(24), open(200.0, 120)] {
            let (told, requests) = channel();
            let server = Scripted::start(counting(OK, closes, told));
            let targets: [&[(&str, &str)]; 3] = match closes {
                true => [&[("Connection", "x, Close")]; 3],
                false => [&[], &[("Connection", "x, Close")], &[]],
            };
            let plan = LoadPlan { pacing, threads: 1, ..with_headers(server.address, &targets) };
            let tally = run(plan);
            assert_eq!((tally.scheduled, tally.ok), (24, 24));
            assert_eq!(tally.connections.closed_by_peer, 0);
            assert_eq!(
                (tally.failures.operations.total(), tally.failures.attempts.total()),
                (0, 0)
            );
            let (mut all, mut connections) = (0, 0);
            while all < 24 {
                let requests = requests.recv().unwrap();
                all += requests;
                connections += u32::from(requests > 0);
            }
            let closing = if closes { 24 } else { 8 };
            assert!((closing..=closing + 2).contains(&connections), "{connections}");
        }
    }
}

#[test]
fn bytes_behind_an_answer_fail_no_other_operation() {
    for (name, answer) in [
        (
            "a chunk behind 204",
            &b"HTTP/1.1 204 No\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"[..],
        ),
        ("a body behind 304", b"HTTP/1.1 304 No\r\nContent-Length: 4\r\n\r\npong"),
        ("more than the length", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\npong"),
        ("two answers", b"HTTP/1.1 204 No\r\n\r\nHTTP/1.1 204 No\r\n\r\n"),
    ] {
        let server = Scripted::start(counting(answer, false, channel().0));
        let tally = run(with_headers(server.address, &[&[]]));
        assert_eq!((tally.scheduled, tally.ok), (24, 24), "{name}");
        assert_eq!(tally.failures.lost_idle.get(ErrorClass::UnrequestedAnswer), 24, "{name}");
        // Each excess ended a connection.
        assert!(tally.connections.opened >= 24, "{name}");
    }
}

#[test]
fn late_bytes_behind_an_answer_are_called_what_they_are() {
    // The bytes follow the second request: a connection's second operation receives them.
    let server = Scripted::start(|mut stream| {
        read_request(&mut stream);
        stream.write_all(b"HTTP/1.1 204 No\r\n\r\n").unwrap();
        if read_request(&mut stream) {
            stream.write_all(b"0\r\n\r\n").unwrap();
        }
        read_request(&mut stream);
    });
    // On one connection at a time, the two outcomes alternate to the end.
    let plan = with_headers(server.address, &[&[]]);
    let tally = run(LoadPlan { threads: 1, connections: 1, ..plan });
    assert_eq!((tally.scheduled, tally.ok), (24, 12));
    assert_eq!(tally.failures.operations.get(ErrorClass::UnrequestedAnswer), 12);
}

#[test]
fn empty_lines_behind_an_answer_are_nothing() {
    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok\r\n\r\n";
    let server = Scripted::start(counting(answer, false, channel().0));
    let tally = run(with_headers(server.address, &[&[]]));
    assert_eq!((tally.ok, tally.connections.opened), (24, 2));
    // The lines follow the next request.
    let server = Scripted::start(|mut stream| {
        while read_request(&mut stream) {
            stream.write_all(b"\r\n").unwrap();
            stream.write_all(OK).unwrap();
        }
    });
    let tally = run(with_headers(server.address, &[&[]]));
    assert_eq!((tally.ok, tally.connections.opened), (24, 2));
}

/// The reasons of a class.
fn reasons(tally: &Tally, class: ErrorClass) -> Vec<CountedReason> {
    let of_class = tally.failures.reasons.iter().find(|(known, _)| *known == class);
    of_class.map_or_else(Vec::new, |(_, all)| all.to_vec())
}

#[test]
fn the_body_of_a_failing_answer_is_stored_without_secrets() {
    // In one piece and in several, which the client may or may not read at once.
    for pause in [false, true] {
        let server = Scripted::start(move |mut stream| {
            while read_request(&mut stream) {
                stream.write_all(b"HTTP/1.1 403 No\r\nContent-Length: 28\r\n\r\n").unwrap();
                if pause {
                    std::thread::yield_now();
                }
                stream.write_all(b"no access\r\nfor Bearer abcdef").unwrap();
            }
        });
        let headers: &[&[(&str, &str)]] = &[&[("Authorization", "Bearer abcdef")]];
        let tally = run(with_headers(server.address, headers));
        assert_eq!(tally.failures.operations.get(ErrorClass::Status4xx), 24);
        let stored = reasons(&tally, ErrorClass::Status4xx);
        let body = "no access for <redacted>".to_owned();
        let [CountedReason { reason, count: 24, connection: Some(_), .. }] = &stored[..] else {
            panic!("{stored:?}")
        };
        assert_eq!(*reason, Reason::Status { status: 403, body });
    }
}

#[test]
fn a_new_connection_that_is_ended_behind_its_request_is_told_from_other_ends() {
    for reset in [false, true] {
        let server = Scripted::start(move |mut stream| {
            // What is not read turns the end into a RST.
            match reset {
                true => stream.read_exact(&mut [0]).unwrap_or_default(),
                false => drop(read_request(&mut stream)),
            }
        });
        let tally = run(with_headers(server.address, &[&[]]));
        assert_eq!((tally.scheduled, tally.ok, tally.failures.lost_idle.total()), (24, 0, 0));
        let by = if reset { ErrorClass::ResetByPeer } else { ErrorClass::ClosedByPeer };
        let stored = reasons(&tally, by);
        assert_eq!(stored[0].reason, Reason::Unanswered { reset });
        assert_eq!(
            (tally.failures.lost_in_use.get(by), tally.failures.operations.get(by)),
            (24, 24)
        );
    }
}
