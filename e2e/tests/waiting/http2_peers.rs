//! Servers of HTTP/2 that do odd things, each of which the report names.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use e2e::plimsoll::Plimsoll;

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn setting(name: u8, value: u8) -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[0, name, 0, 0, 0, value])
}

/// Returns an answer with status 200, these fields and no body.
fn answer(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let literal = |(name, value): &(&str, &str)| {
        [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    let block = [vec![0x88], fields.iter().flat_map(literal).collect()].concat();
    frame(HEADERS, END_STREAM | END_HEADERS, stream, &block)
}

type Answers = fn(u32) -> Vec<u8>;

/// Sends `opening`, and what `answers` makes for each request; answers pings and nothing else.
fn speak(mut stream: TcpStream, opening: &[u8], answers: Answers) -> std::io::Result<()> {
    stream.write_all(opening)?;
    stream.read_exact(&mut [0; 24])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [high, middle, low, kind, flags, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        stream.read_exact(&mut payload)?;
        match kind {
            HEADERS => stream.write_all(&answers(u32::from_be_bytes(id)))?,
            PING if flags & ACK == 0 => stream.write_all(&frame(PING, ACK, 0, &payload))?,
            _ => {}
        }
    }
}

fn server(opening: Vec<u8>, answers: Answers) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("http://{}/", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let opening = opening.clone();
            // It ends with the client.
            thread::spawn(move || speak(stream, &opening, answers));
        }
    });
    url
}

#[test]
fn odd_peers_are_named() {
    let plain = plain_settings;
    let ok: Answers = |id| answer(id, &[]);
    let reset: Answers = |id| frame(RST_STREAM, 0, id, &[0, 0, 0, 11]);
    let refuses: Answers = |id| frame(RST_STREAM, 0, id, &[0, 0, 0, 7]);
    let leaves: Answers = |_| frame(GOAWAY, 0, 0, &[0, 0, 0, 9, 0, 0, 0, 11]);
    let pushes: Answers = |id| frame(PUSH_PROMISE, END_HEADERS, id, &[0, 0, 0, 2, 0x82]);
    let shouts: Answers = |id| answer(id, &[("Server", "x")]);
    let shortens: Answers = |id| answer(id, &[("content-length", "9")]);
    let none: Answers = |_| Vec::new();
    for (opening, answers, class, named) in [
        (setting(3, 0), ok, "h2-refused", "SETTINGS_MAX_CONCURRENT_STREAMS 0"),
        (plain(), reset, "h2-reset", "reset a request with ENHANCE_YOUR_CALM"),
        (plain(), refuses, "h2-refused", "REFUSED_STREAM"),
        (plain(), leaves, "h2-goaway", "GOAWAY ENHANCE_YOUR_CALM"),
        (plain(), pushes, "h2-malformed", "the server pushes"),
        (plain(), shouts, "h2-malformed", "a field's name has capital letters"),
        (plain(), shortens, "h2-malformed", "shorter than content-length says"),
        (frame(PING, 0, 0, &[7; 8]), ok, "h2-malformed", "begins without SETTINGS"),
        (Vec::new(), none, "timeout", "sent no SETTINGS within --connect-timeout"),
        (setting(4, 0), none, "timeout", "did not raise a flow-control window"),
    ] {
        let url = server(opening, answers);
        let flags =
            ["--http", "2", "--rate", "0", "-n", "3", "-c", "1", "-m", "3", "--data", "body"];
        let waits = ["--linger", "100ms", "--connect-timeout", "100ms"];
        let load = Plimsoll::load(&url, &[&flags[..], &waits].concat()).run();
        let summary = load.summary(99);
        summary.assert_all_failed(3, class);
        let fault = summary.reasons(class);
        assert!(fault.contains(named), "{named}: {fault}");
        assert!(load.stderr.contains("first fault: "), "{}", load.stderr);
    }
}

#[test]
fn what_a_server_may_do_costs_no_operation() {
    let plain = plain_settings;
    let ok: Answers = |id| answer(id, &[]);
    // Pings and settings between answers, 103 before one, a reset with NO_ERROR behind one.
    let busy: Answers = |id| {
        let early = frame(HEADERS, END_HEADERS, id, b"\x08\x03103");
        let behind = frame(RST_STREAM, 0, id, &[0; 4]);
        [frame(PING, 0, 0, &[7; 8]), plain_settings(), early, answer(id, &[]), behind].concat()
    };
    for (opening, answers) in [
        // None at first.
        ([setting(3, 0), setting(3, 2)].concat(), ok),
        (setting(1, 0), ok),
        (plain(), busy),
    ] {
        let url = server(opening, answers);
        let flags = ["--http", "2", "--rate", "0", "-n", "30", "-c", "2", "-m", "4"];
        let summary = Plimsoll::load(&url, &flags).run().summary(0);
        summary.assert_all_ok(30);
        assert_eq!(summary.count("connections.opened"), 2, "{summary:?}");
    }
    // Fields larger than the server accepts are sent, and named.
    let url = server(setting(6, 10), ok);
    let load = Plimsoll::load(&url, &["--http", "2", "--rate", "0", "-n", "3", "-c", "1"]).run();
    let summary = load.summary(0);
    summary.assert_all_ok(3);
    assert!(summary.reasons("status-4xx").contains("SETTINGS_MAX_HEADER_LIST_SIZE"), "{summary:?}");
}

fn plain_settings() -> Vec<u8> {
    frame(SETTINGS, 0, 0, &[])
}
