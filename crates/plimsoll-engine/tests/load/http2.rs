//! HTTP/2 against servers that break off: each operation ends in one class, whatever became of its stream.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;

use plimsoll_model::announced::AnnouncedLimits;
use plimsoll_model::plan::{Http2Plan, LoadPlan, Pacing, Timeouts};
use plimsoll_model::target::Protocol;
use plimsoll_model::{ErrorClass, Nanos};
use plimsoll_proto::http2::{Incoming, Server};
use plimsoll_sys::socket::Socket;

use super::scripted::{PATIENT, Scripted, closed, open, plan, run};

/// The action of a scripted server on a request.
enum Does {
    Answers,
    /// GOAWAY that excludes this stream and all after it.
    GoesAway,
    Refuses,
    Resets,
    Nothing,
    Closes,
    /// Ends the connection with a RST.
    Breaks,
    /// Sends the bytes that the function makes for this stream.
    Sends(fn(u32) -> Vec<u8>),
}

/// Speaks HTTP/2 on `stream` and does what `script` says with the nth request, counted from 0.
fn speak(stream: TcpStream, script: impl FnMut(u32) -> Does) {
    let mut opening = Vec::new();
    Server::<()>::write_opening(&mut opening);
    speak_after(opening, stream, script);
}

/// Serves like [`speak`], but sends `opening` first.
fn speak_after(opening: Vec<u8>, mut stream: TcpStream, mut script: impl FnMut(u32) -> Does) {
    let (mut server, mut out) = (Server::<()>::default(), opening);
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
                Does::Breaks => {
                    let _ = Socket::from(OwnedFd::from(stream)).reset_on_close();
                    return;
                }
                Does::Sends(bytes) => out.extend(bytes(id)),
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
    assert_eq!((tally.ok, tally.errors_total()), (300, 0), "{:?}", tally.failures.operations);
    assert!(
        tally.answers.streams.goaways >= 25 && tally.answers.streams.requeued > 0,
        "{:?}",
        tally.answers.streams
    );
    let AnnouncedLimits { ends, requests_min, requests_max, .. } = tally.answers.announced;
    assert_eq!((ends, requests_min, requests_max), (tally.answers.streams.goaways, 10, 10));
    for does in [|| Does::Refuses, || Does::GoesAway] {
        let never = Scripted::start(move |stream| speak(stream, |_| does()));
        let tally = run(http2(never.address, closed(20)));
        assert_eq!(
            tally.failures.operations.get(ErrorClass::H2Refused),
            20,
            "{:?}",
            tally.failures.operations
        );
        assert!(
            (20..=20 * 8).contains(&tally.answers.streams.requeued),
            "{:?}",
            tally.answers.streams
        );
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
        timeouts: Timeouts { linger: Nanos::from_millis(500), ..PATIENT },
        connections: 1,
        ..http2(server.address, closed(20))
    };
    let tally = run(plan);
    assert_eq!(tally.failures.operations.get(ErrorClass::H2Reset), 5);
    assert_eq!(tally.failures.operations.get(ErrorClass::Timeout), 5);
    assert_eq!((tally.ok, tally.connections.opened), (10, 1));
    assert_eq!((tally.answers.streams.resets_received, tally.answers.streams.resets_sent), (5, 5));
}

#[test]
fn a_connection_that_ends_takes_its_streams_with_it() {
    let server = Scripted::start(|stream| {
        speak(stream, |nth| if nth < 3 { Does::Nothing } else { Does::Closes });
    });
    let tally = run(LoadPlan { connections: 1, ..http2(server.address, closed(40)) });
    assert_eq!(
        tally.failures.operations.get(ErrorClass::ClosedByPeer),
        40,
        "{:?}",
        tally.failures.operations
    );
    assert_eq!(tally.connections.closed_by_peer, 10);
}

#[test]
fn streams_without_a_byte_of_their_answer_are_lost_in_a_race_on_a_reused_connection_only() {
    for (answered, class) in [(0, ErrorClass::ResetByPeer), (4, ErrorClass::KeepaliveRace)] {
        let server = Scripted::start(move |stream| {
            speak(stream, |nth| match nth {
                nth if nth < answered => Does::Answers,
                nth if nth < answered + 3 => Does::Nothing,
                _ => Does::Breaks,
            });
        });
        let plan = LoadPlan { connections: 1, ..http2(server.address, closed(40)) };
        let tally = run(plan);
        let lost = 40 - tally.ok;
        assert_eq!(
            (tally.failures.operations.get(class), tally.errors_total()),
            (lost, lost),
            "{class:?}"
        );
        assert_eq!(tally.ok % u64::from(answered.max(1)), 0);
    }
}

#[test]
fn another_protocol_on_the_port_is_named() {
    let server = Scripted::start(|mut stream| {
        let _ = stream.read(&mut [0; 512]);
        let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n");
    });
    let tally = run(http2(server.address, closed(4)));
    assert_eq!(
        tally.failures.operations.get(ErrorClass::H2Malformed),
        4,
        "{:?}",
        tally.failures.operations
    );
}

#[test]
fn a_window_that_never_opens_is_given_up() {
    let server = Scripted::start(|stream| speak(stream, |_| Does::Answers));
    let mut plan = http2(server.address, closed(6));
    // More than a server's window, which it opens as it reads; then one that reads nothing.
    plan.targets[0].body = vec![b'b'; 3_000_000].into();
    plan.targets[0].method = "POST".to_owned();
    assert_eq!(run(plan.clone()).ok, 6);
    let deaf = Scripted::start(|mut stream| {
        let _ = stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]);
        let mut buffer = [0; 4096];
        while matches!(stream.read(&mut buffer), Ok(1..)) {}
    });
    plan.destinations[0].addresses = vec![deaf.address];
    plan.timeouts = Timeouts { linger: Nanos::from_millis(100), ..PATIENT };
    let tally = run(plan);
    assert_eq!(
        tally.failures.operations.get(ErrorClass::Timeout),
        6,
        "{:?}",
        tally.failures.operations
    );
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// HEADERS without END_HEADERS, and `count` CONTINUATION frames of `bytes` each.
fn long_block(stream: u32, count: usize, bytes: usize) -> Vec<u8> {
    let mut all = frame(1, 0, stream, &[0x88]);
    all.extend((0..count).flat_map(|_| frame(9, 0, stream, &vec![0x0F; bytes])));
    all
}

#[test]
fn what_hostile_servers_send_ends_each_operation_in_a_class() {
    const DATA: u8 = 0;
    const HEADERS: u8 = 1;
    const RST_STREAM: u8 = 3;
    const SETTINGS: u8 = 4;
    const PUSH_PROMISE: u8 = 5;
    const PING: u8 = 6;
    const GOAWAY: u8 = 7;
    const WINDOW_UPDATE: u8 = 8;
    const END_HEADERS: u8 = 4;
    type Sends = fn(u32) -> Vec<u8>;
    let cases: [(&str, Sends, ErrorClass); 15] = [
        (
            "a storm of GOAWAY with an error that has begun the streams",
            |_| frame(GOAWAY, 0, 0, &[0x7F, 0xFF, 0xFF, 0xFF, 0, 0, 0, 11]).repeat(2_000),
            ErrorClass::H2Goaway,
        ),
        (
            "a storm of GOAWAY that has begun nothing",
            |_| frame(GOAWAY, 0, 0, &[0, 0, 0, 0, 0, 0, 0, 11]).repeat(2_000),
            ErrorClass::H2Refused,
        ),
        (
            "resets, again and again",
            |id| frame(RST_STREAM, 0, id, &[0, 0, 0, 8]).repeat(2_000),
            ErrorClass::H2Reset,
        ),
        (
            "a reset of a stream that was never begun",
            |_| frame(RST_STREAM, 0, 999, &[0, 0, 0, 8]),
            ErrorClass::H2Malformed,
        ),
        (
            "a bomb: an entry of the header table that is named four thousand times",
            |id| {
                let kept = [&[0x40, 1, b'a', 0x7F, 0xA1, 0x1E][..], &[b'x'; 4_000]].concat();
                frame(HEADERS, END_HEADERS, id, &[&kept[..], &[0xBE; 4_000]].concat())
            },
            ErrorClass::H2Malformed,
        ),
        ("a block without an end", |id| long_block(id, 17, 0), ErrorClass::HttpTooLarge),
        ("a block of 80 kB", |id| long_block(id, 5, 16_000), ErrorClass::HttpTooLarge),
        (
            "interim answers without an end",
            // 103, as a literal.
            |id| frame(HEADERS, END_HEADERS, id, b"\x08\x03103").repeat(2_000),
            ErrorClass::H2Malformed,
        ),
        (
            "a body of nothing without an end",
            |id| {
                [frame(HEADERS, END_HEADERS, id, &[0x88]), frame(DATA, 0, id, &[]).repeat(5_000)]
                    .concat()
            },
            ErrorClass::Timeout,
        ),
        ("a body before its head", |id| frame(DATA, 0, id, b"pong"), ErrorClass::H2Malformed),
        (
            "pings and settings instead of an answer",
            |_| [frame(PING, 0, 0, &[7; 8]), frame(SETTINGS, 0, 0, &[])].concat().repeat(100),
            ErrorClass::Timeout,
        ),
        (
            "a window above what one may be",
            |_| frame(WINDOW_UPDATE, 0, 0, &[0x7F, 0xFF, 0xFF, 0xFF]),
            ErrorClass::H2Malformed,
        ),
        (
            "an initial window above what one may be",
            |_| frame(SETTINGS, 0, 0, &[0, 4, 0xFF, 0xFF, 0xFF, 0xFF]),
            ErrorClass::H2Malformed,
        ),
        (
            "a push",
            |id| frame(PUSH_PROMISE, END_HEADERS, id, &[0, 0, 0, 2, 0x82]),
            ErrorClass::H2Malformed,
        ),
        (
            "a frame above 16,384 bytes",
            |id| frame(DATA, 0, id, &[0; 16_385]),
            ErrorClass::H2Malformed,
        ),
    ];
    for (what, sends, class) in cases {
        let server = Scripted::start(move |stream| speak(stream, |_| Does::Sends(sends)));
        let timeouts = Timeouts { linger: Nanos::from_millis(300), ..PATIENT };
        let tally = run(LoadPlan { timeouts, ..http2(server.address, closed(12)) });
        assert_eq!(
            tally.failures.operations.get(class),
            12,
            "{what}: {:?} {:?}",
            tally.failures.operations,
            tally.answers.streams
        );
    }
}

#[test]
fn a_window_that_a_setting_closes_is_given_up() {
    // Room for 10 bytes of each body, and then none: 20 bytes of it are withdrawn.
    let server = Scripted::start(|mut stream| {
        let _ = stream.write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 10]));
        let mut buffer = [0; 4096];
        while matches!(stream.read(&mut buffer), Ok(1..)) {
            if stream.write_all(&frame(4, 0, 0, &[0, 4, 0, 0, 0, 0])).is_err() {
                return;
            }
        }
    });
    let mut plan = http2(server.address, closed(8));
    plan.targets[0].body = vec![b'b'; 100].into();
    plan.targets[0].method = "POST".to_owned();
    plan.timeouts = Timeouts { linger: Nanos::from_millis(200), ..PATIENT };
    let tally = run(plan);
    assert_eq!(
        tally.failures.operations.get(ErrorClass::Timeout),
        8,
        "{:?}",
        tally.failures.operations
    );
    assert_eq!(tally.answers.streams.blocked, 8, "{:?}", tally.answers.streams);
}

/// SETTINGS with one setting.
fn setting(name: u8, value: u8) -> Vec<u8> {
    frame(4, 0, 0, &[0, name, 0, 0, 0, value])
}

#[test]
fn operations_wait_while_a_server_allows_no_stream() {
    let raised = [setting(3, 0), setting(3, 2)].concat();
    let server =
        Scripted::start(move |stream| speak_after(raised.clone(), stream, |_| Does::Answers));
    let lowered = Scripted::start(|stream| {
        let answer = |id| [&setting(3, 1)[..], &frame(1, 5, id, &[0x88])].concat();
        speak(stream, move |_| Does::Sends(answer));
    });
    for address in [server.address, lowered.address] {
        for pacing in [open(500.0, 100), closed(40)] {
            for keepalive in [true, false] {
                let plan = LoadPlan { keepalive, ..http2(address, pacing.clone()) };
                let tally = run(plan);
                assert_eq!(
                    (tally.ok, tally.unsent),
                    (tally.scheduled, 0),
                    "{:?}",
                    tally.failures.operations
                );
            }
        }
    }
    // For ever: a closed loop ends, and nothing is sent.
    let never = Scripted::start(|stream| speak_after(setting(3, 0), stream, |_| Does::Answers));
    let for_a_while = Pacing::Closed { duration: Some(Nanos::from_millis(50)), ops_total: None };
    for (pacing, keepalive, is_refused) in [
        (closed(20), true, true),
        (closed(4), false, true),
        (open(500.0, 100), true, false),
        (for_a_while, true, false),
    ] {
        let linger = if is_refused { Nanos::from_millis(100) } else { Nanos::from_secs(9) };
        let timeouts = Timeouts { linger, ..PATIENT };
        let tally = run(LoadPlan { keepalive, timeouts, ..http2(never.address, pacing) });
        let refused = tally.failures.operations.get(ErrorClass::H2Refused);
        assert_eq!(refused + tally.unsent, tally.scheduled, "{:?}", tally.failures.operations);
        assert_eq!((tally.ok, refused > 0), (0, is_refused), "{:?}", tally.failures.operations);
        assert!(tally.scheduled > 0);
        assert_eq!(tally.answers.streams.allowed, Some(0));
    }
}

#[test]
fn a_server_that_ends_every_connection_at_once_is_not_flooded() {
    let away = [setting(3, 9), frame(7, 0, 0, &[0; 8])].concat();
    let server =
        Scripted::start(move |stream| speak_after(away.clone(), stream, |_| Does::Nothing));
    for pacing in [open(500.0, 100), closed(20)] {
        let tally = run(http2(server.address, pacing));
        // Between futile attempts there are pauses.
        let refused = tally.failures.operations.get(ErrorClass::H2Refused);
        assert_eq!(refused + tally.unsent, tally.scheduled, "{:?}", tally.failures.operations);
        assert!(refused > 0, "{:?}", tally.failures.operations);
        // An operation is sent nine times, and there were two connections before the first one.
        assert!(tally.connections.opened <= 9 * tally.scheduled + 2, "{:?}", tally.connections);
    }
}
