//! HTTP/2 against servers that break off: each operation ends in one class, whatever became of its stream.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use plimsoll_model::plan::{Http2Plan, LoadPlan, Pacing};
use plimsoll_model::target::Protocol;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::http2::{Incoming, Server};

use super::scripted::{Scripted, closed, open, plan, run};

/// What a scripted server does with a request.
enum Does {
    Answers,
    /// GOAWAY that excludes this stream and all after it.
    GoesAway,
    Refuses,
    Resets,
    Nothing,
    Closes,
}

/// Speaks HTTP/2 on `stream` and does what `script` says with the nth request, counted from 0.
fn speak(mut stream: TcpStream, mut script: impl FnMut(u32) -> Does) {
    let (mut server, mut out) = (Server::<()>::default(), Vec::new());
    Server::<()>::write_opening(&mut out);
    let (mut buffer, mut nth) = ([0; 4096], 0);
    loop {
        if stream.write_all(&out).is_err() {
            return;
        }
        out.clear();
        let Ok(count @ 1..) = stream.read(&mut buffer) else { return };
        let mut rest = &buffer[..count];
        while !rest.is_empty() {
            let handled = server.handle_bytes(rest, Nanos(1), &mut out, &mut |_, _| {});
            let Ok((consumed, incoming)) = handled else { return };
            rest = &rest[consumed..];
            let Some(Incoming::Complete(id)) = incoming else { continue };
            let end = |kind: u8, id: u32, code: u8| {
                [&[0, 0, 4, kind, 0][..], &id.to_be_bytes(), &[0, 0, 0, code]].concat()
            };
            match script(nth) {
                Does::Answers => {
                    let place = server.streams.iter().position(|one| one.id == id).unwrap();
                    Server::<()>::write_head(&mut out, &mut Vec::new(), id, 200, &[], false);
                    server.write_data(&mut out, place, b"pong", true);
                    server.finish(place, &mut out);
                }
                Does::GoesAway => {
                    out.extend([0, 0, 8, 7, 0, 0, 0, 0, 0]);
                    out.extend(id.saturating_sub(2).to_be_bytes());
                    out.extend([0; 4]);
                }
                Does::Refuses => out.extend(end(3, id, 7)),
                Does::Resets => out.extend(end(3, id, 2)),
                Does::Nothing => {}
                Does::Closes => return,
            }
            nth += 1;
        }
    }
}

fn http2(address: SocketAddr, pacing: Pacing) -> LoadPlan {
    let mut plan = LoadPlan { threads: 1, connections: 2, ..plan(address, pacing) };
    plan.http2 = Some(Http2Plan { streams: 4 });
    plan.targets[0].url.protocol = Protocol::Http2;
    plan
}

#[test]
fn operations_share_connections() {
    let server = Scripted::start(|stream| speak(stream, |_| Does::Answers));
    for pacing in [open(500.0, 400), closed(200)] {
        let tally = run(http2(server.address, pacing));
        assert_eq!((tally.ok, tally.connections.opened), (200, 2));
        assert_eq!((tally.spans.ttfb.count(), tally.bytes.sent > 0), (200, true));
        // The kernel stamps what has arrived, whichever stream it is of.
        assert!(tally.spans.wire.count() + tally.stamps.missing > 5, "{:?}", tally.stamps);
    }
    // Without keep-alive, and with a bound on what one connection carries.
    let single = LoadPlan { keepalive: false, ..http2(server.address, closed(20)) };
    let tally = run(single);
    assert_eq!((tally.ok, tally.connections.opened), (20, 20));
    let bounded = LoadPlan {
        requests_per_connection: Some(10),
        connections: 1,
        ..http2(server.address, closed(100))
    };
    let tally = run(bounded);
    assert_eq!(tally.ok, 100);
    // What is on its way when the bound is reached is answered, too.
    assert!((7..=10).contains(&tally.connections.opened), "{:?}", tally.connections);
}

#[test]
fn what_a_server_has_not_begun_is_sent_again_and_not_for_ever() {
    let polite = Scripted::start(|stream| {
        speak(stream, |nth| if nth < 10 { Does::Answers } else { Does::GoesAway });
    });
    let tally = run(http2(polite.address, closed(300)));
    assert_eq!((tally.ok, tally.errors_total()), (300, 0), "{:?}", tally.errors);
    assert!(tally.streams.goaways >= 25 && tally.streams.requeued > 0, "{:?}", tally.streams);
    for does in [|| Does::Refuses, || Does::GoesAway] {
        let never = Scripted::start(move |stream| speak(stream, |_| does()));
        let tally = run(http2(never.address, closed(20)));
        assert_eq!(tally.errors.get(ErrorClass::H2Refused), 20, "{:?}", tally.errors);
        assert_eq!(tally.streams.requeued, 20 * 8);
    }
}

#[test]
fn a_stream_that_ends_badly_leaves_the_others() {
    let server = Scripted::start(|stream| {
        speak(stream, |nth| match nth % 4 {
            0 => Does::Resets,
            1 => Does::Nothing,
            _ => Does::Answers,
        });
    });
    let plan = LoadPlan {
        linger: Nanos::from_millis(500),
        connections: 1,
        ..http2(server.address, closed(20))
    };
    let tally = run(plan);
    assert_eq!(tally.errors.get(ErrorClass::H2Reset), 5);
    assert_eq!(tally.errors.get(ErrorClass::Timeout), 5);
    assert_eq!((tally.ok, tally.connections.opened), (10, 1));
    assert_eq!((tally.streams.resets_received, tally.streams.resets_sent), (5, 5));
}

#[test]
fn a_connection_that_ends_takes_its_streams_with_it() {
    let server = Scripted::start(|stream| {
        speak(stream, |nth| if nth < 3 { Does::Nothing } else { Does::Closes });
    });
    let tally = run(LoadPlan { connections: 1, ..http2(server.address, closed(40)) });
    assert_eq!(tally.errors.get(ErrorClass::ClosedByPeer), 40, "{:?}", tally.errors);
    assert_eq!(tally.connections.closed_by_peer, 10);
}

#[test]
fn another_protocol_on_the_port_is_named() {
    let server = Scripted::start(|mut stream| {
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let tally = run(http2(server.address, closed(4)));
    assert_eq!(tally.errors.get(ErrorClass::H2Malformed), 4, "{:?}", tally.errors);
}

#[test]
fn a_window_that_never_opens_is_given_up() {
    let server = Scripted::start(|stream| speak(stream, |_| Does::Answers));
    let mut plan = http2(server.address, closed(6));
    // More than a server's window, which it opens as it reads; then one that reads nothing.
    plan.targets[0].body = vec![b'b'; 3_000_000];
    plan.targets[0].method = "POST".to_owned();
    assert_eq!(run(plan.clone()).ok, 6);
    let deaf = Scripted::start(|mut stream| {
        let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let mut buffer = [0; 4096];
        while matches!(stream.read(&mut buffer), Ok(1..)) {}
    });
    plan.destinations[0].addresses = vec![deaf.address];
    plan.linger = Nanos::from_millis(100);
    let tally = run(plan);
    assert_eq!(tally.errors.get(ErrorClass::Timeout), 6, "{:?}", tally.errors);
}
