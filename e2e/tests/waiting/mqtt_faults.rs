//! Faults of brokers: each is counted in its class, and reported in words.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;

use e2e::plimsoll::{Finished, Plimsoll};

/// Longer than anything that a client of these tests sends at once.
const READ_BYTES: usize = 4_096;
const ACCEPTED_5: &[u8] = b"\x20\x03\0\0\0";

/// Returns a broker that gives each connection these answers, one to each thing that it sends, and then none.
fn broker(answers: Vec<Vec<u8>>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let answers = answers.clone();
            thread::spawn(move || answer(stream, &answers));
        }
    });
    address
}

fn answer(mut stream: TcpStream, answers: &[Vec<u8>]) {
    let mut input = [0; READ_BYTES];
    let mut answers = answers.iter();
    // Until the client ends the connection.
    while stream.read(&mut input).is_ok_and(|bytes| bytes > 0) {
        let answer = answers.next().map_or(&[][..], Vec::as_slice);
        if stream.write_all(answer).is_err() {
            return;
        }
    }
}

/// Three publishes to a broker with these answers, and more flags.
fn load(answers: &[&[u8]], flags: &[&str]) -> Finished {
    let address = broker(answers.iter().map(|answer| answer.to_vec()).collect());
    let url = format!("mqtt://{address}");
    let waits = ["--connect-timeout", "300ms", "--deadline", "100ms", "--linger", "200ms"];
    let pace = ["--rate", "0", "-n", "3", "-c", "1"];
    let finished = Plimsoll::load(&url, &[&pace[..], &waits, flags].concat()).run();
    assert_eq!(finished.code, Some(99), "{finished:?}");
    finished
}

/// Returns a CONNACK of version 5 with these properties.
fn accepted_with(properties: &[u8]) -> Vec<u8> {
    let length = properties.len() as u8;
    [&[0x20, 3 + length, 0, 0, length], properties].concat()
}

#[test]
fn a_plan_that_breaks_a_limit_of_the_broker_ends_with_its_figure() {
    let long = "x".repeat(50);
    for (connack, arguments, says) in [
        (
            accepted_with(b"\x24\x01"),
            &["load", "--rate", "100", "-d", "1m", "--qos", "2", "--processes", "2"][..],
            "plimsoll: the broker allows QoS 1 at most; write --qos 1",
        ),
        (
            accepted_with(b"\x24\0"),
            &["load", "--rate", "0", "-n", "9", "--no-keepalive"],
            "plimsoll: the broker allows QoS 0 at most; write --qos 0",
        ),
        (
            accepted_with(b"\x25\0"),
            &["find", "rate", "--retain"],
            "plimsoll: the broker does not retain messages; drop --retain",
        ),
        (
            accepted_with(b"\x27\0\0\0\x28"),
            &["load", "-d", "1m", "--inflight", "4", "--topic", "a/%i", "--data", &long],
            "packets of 40 bytes at most, and the longest one has ",
        ),
        (
            accepted_with(b"\x28\0"),
            &["hold", "-c", "9", "--for", "1m", "--subscribe", "a/#"],
            "plimsoll: the broker has no wildcard subscriptions; write a --subscribe without + and #",
        ),
        (
            accepted_with(b"\x2A\0"),
            &[
                "find",
                "connections",
                "--max",
                "9",
                "--probe-timeouts",
                "0",
                "--subscribe",
                "$share/g/a",
            ],
            "plimsoll: the broker has no shared subscriptions; write a --subscribe without $share/",
        ),
        (
            accepted_with(b"\x11\0\0\0\x3C"),
            &["load", "-d", "1m", "--no-clean-start", "--session-expiry", "61"],
            "plimsoll: the broker keeps sessions for 60 s at most; write --session-expiry 60",
        ),
        (
            [&accepted_with(b"")[..], b"\x90\x04\0\x01\0\x01"].concat(),
            &["load", "-d", "1m", "--subscribe", "b", "--subscribe-qos", "2"],
            "plimsoll: the broker grants the subscription QoS 1 at most; write --subscribe-qos 1",
        ),
        (
            b"\x20\x02\0\x01".to_vec(),
            &["load", "-d", "1m"],
            "plimsoll: the broker speaks MQTT 3.1.1; write --mqtt-version 3.1.1",
        ),
    ] {
        let url = format!("mqtt://{}", broker(vec![connack]));
        let finished = Plimsoll::new([arguments, &[&url, "--no-ui"]].concat()).run();
        assert_eq!(finished.code, Some(2), "{finished:?}");
        assert_eq!(finished.stderr.matches(says).count(), 1, "{arguments:?}: {}", finished.stderr);
        assert_eq!(finished.stdout, "", "{arguments:?}");
    }
}

#[test]
fn a_refused_connection_is_told_by_its_reason() {
    for (version, connack, reason) in [
        ("3.1.1", &b"\x20\x02\0\x01"[..], "unacceptable protocol version, reason 0x01"),
        ("3.1.1", b"\x20\x02\0\x02", "identifier rejected, reason 0x02"),
        ("3.1.1", b"\x20\x02\0\x03", "server unavailable, reason 0x03"),
        ("3.1.1", b"\x20\x02\0\x04", "bad user name or password, reason 0x04"),
        ("3.1.1", b"\x20\x02\0\x05", "not authorized, reason 0x05"),
        ("5", b"\x20\x03\0\x84\0", "unsupported protocol version, reason 0x84"),
        ("5", b"\x20\x03\0\x89\0", "server busy, reason 0x89"),
        ("5", b"\x20\x03\0\x9F\0", "connection rate exceeded, reason 0x9f"),
    ] {
        let finished = load(&[connack], &["--mqtt-version", version]);
        let text = finished.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains("mqtt-refused"), "{text}");
        assert!(text.contains(reason), "no {reason:?} in {text}");
    }
}

#[test]
fn what_a_broker_does_wrong_before_the_first_publish_is_told() {
    for (answers, class, words) in [
        (
            &b"\x20\x03\0\0\0\x90\x04\0\x01\0\x8F"[..],
            "mqtt-rejected",
            "topic filter invalid, reason 0x8f",
        ),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "mqtt-malformed", "begins with H, as HTTP does"),
        (b"\x20\x01\0", "mqtt-malformed", "a CONNACK of less than two bytes"),
        (
            b"\x20\xFF\xFF\xFF\xFF\x01",
            "mqtt-malformed",
            "a remaining length of more than four bytes",
        ),
        (b"\x20\x81\x80\x04", "mqtt-malformed", "a packet of more than 64 KiB"),
        (b"\xD0\0", "mqtt-malformed", "a packet that nothing asked for"),
        (b"\xE0\x01\x82", "mqtt-disconnected", "protocol error, reason 0x82"),
        (b"", "connect-timeout", ""),
    ] {
        let finished = load(&[answers], &["--subscribe", "a/#"]);
        let text = finished.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(class), "no {class} in {text}");
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn what_a_broker_does_wrong_with_a_publish_is_counted() {
    for (answer, class, words) in [
        (&b"\xE0\x01\x82"[..], "mqtt-disconnected", "protocol error, reason 0x82"),
        (b"\x40\x02\0\x07", "mqtt-malformed", "an acknowledgement of a packet that was not sent"),
        (b"\x50\x02\0\x01", "mqtt-malformed", "a packet that nothing asked for"),
        (b"\x40\x01\0", "mqtt-malformed", "an acknowledgement without an identifier"),
        (b"\xF0\0", "mqtt-malformed", "an AUTH, and the client has asked for no authentication"),
        (b"\xA2\0", "mqtt-malformed", "a byte that no packet of a broker begins with"),
        (b"\x40\x02\0\0", "mqtt-malformed", "a packet identifier of 0"),
        (b"\x40\x03\0\x01\x01", "mqtt-malformed", "an acknowledgement with an unknown reason"),
        (b"\x30\x07\0\x01a\x03\x23\0\x01", "mqtt-malformed", "a topic alias"),
        (b"\xD0\0", "mqtt-malformed", "a packet that nothing asked for"),
        (b"\x40\x03\0\x01\x97", "mqtt-rejected", ""),
        (b"", "timeout", ""),
    ] {
        let finished = load(&[ACCEPTED_5, answer], &[]);
        let summary = finished.summary(99);
        assert!(summary.count(&format!("error_classes.{class}")) >= 1, "{class}: {summary:?}");
        assert_eq!(summary.count("ok"), 0, "{class}: {summary:?}");
        let text = format!("{} {}", finished.stderr, finished.stdout);
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "no {words:?} in {text}");
    }
}

#[test]
fn what_was_not_acknowledged_is_not_published_again() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let url = format!("mqtt://{}", listener.local_addr().expect("it is bound"));
    let (tell, published) = mpsc::channel();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut input = [0; READ_BYTES];
            // It keeps a session, and ends each connection behind the first publish.
            let _ = stream.read(&mut input);
            let _ = stream.write_all(b"\x20\x03\x01\0\0");
            if let Ok(1..) = stream.read(&mut input) {
                let _ = tell.send(input[0]);
            }
        }
    });
    let session = ["--no-clean-start", "--session-expiry", "60", "--client-id", "kept-"];
    let pace = ["--rate", "0", "-n", "3", "-c", "1"];
    let summary = Plimsoll::load(&url, &[&session[..], &pace].concat()).run().summary(99);
    assert_eq!((summary.count("ok"), summary.count("errors")), (0, 3), "{summary:?}");
    // At QoS 1, and none for the second time.
    assert_eq!(published.try_iter().collect::<Vec<_>>(), [0x32; 3]);
}
