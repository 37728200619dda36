//! Odd servers of HTTP/2, met by plimsoll, nghttp and curl. Where plimsoll alone says something else, the
//! corpus has an argument for it; an argument for nothing is a failure, too.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use e2e::plimsoll::Plimsoll;
use e2e::program;
use e2e::summary::Summary;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PUSH_PROMISE: u8 = 5;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
/// `:status: 200`.
const OK: &[u8] = &[0x88];

/// One odd server.
struct Case {
    name: &'static str,
    /// First bytes of the server.
    opening: Vec<u8>,
    /// Bytes for the first request, on that stream.
    answer: fn(u32) -> Vec<u8>,
    /// Outcome in plimsoll: `ok`, or the class of its error.
    plimsoll: &'static str,
    /// Why plimsoll alone says so.
    argued: Option<&'static str>,
}

impl Case {
    fn is(self, plimsoll: &'static str) -> Self {
        Self { plimsoll, ..self }
    }

    fn argued(self, why: &'static str) -> Self {
        Self { argued: Some(why), ..self }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

fn settings(pairs: &[(u8, u32)]) -> Vec<u8> {
    let pair = |(name, value): &(u8, u32)| [&[0, *name][..], &value.to_be_bytes()].concat();
    frame(SETTINGS, 0, 0, &pairs.iter().flat_map(pair).collect::<Vec<_>>())
}

fn literal(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

fn head(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, block)
}

fn last_head(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS | END_STREAM, stream, block)
}

fn body(stream: u32, bytes: &[u8]) -> Vec<u8> {
    frame(DATA, END_STREAM, stream, bytes)
}

/// Returns an answer with this field beside its status.
fn with(stream: u32, name: &str, value: &str) -> Vec<u8> {
    [head(stream, &[OK, &literal(name, value)].concat()), body(stream, b"pong")].concat()
}

fn answers(name: &'static str, answer: fn(u32) -> Vec<u8>) -> Case {
    Case { name, opening: settings(&[]), answer, plimsoll: "ok", argued: None }
}

fn opens(name: &'static str, opening: Vec<u8>) -> Case {
    Case { opening, ..answers(name, |id| [head(id, OK), body(id, b"pong")].concat()) }
}

fn openings() -> Vec<Case> {
    let plain = settings(&[]);
    let goaway = |last: u32, code: u8| {
        frame(GOAWAY, 0, 0, &[&last.to_be_bytes()[..], &[0, 0, 0, code]].concat())
    };
    vec![
        opens("plain", plain.clone()),
        opens("no settings", Vec::new()).is("timeout"),
        opens("a ping before settings", [frame(PING, 0, 0, &[7; 8]), plain.clone()].concat())
            .is("h2-malformed"),
        opens("an acknowledgement first", frame(SETTINGS, ACK, 0, &[])).is("h2-malformed"),
        opens("HTTP/1.1", b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n".to_vec())
            .is("h2-malformed"),
        // No streams at all are in `load/http2.rs`: others may send theirs before they know of it, or after.
        opens("no streams at first", [settings(&[(3, 0)]), settings(&[(3, 1)])].concat()),
        opens("one stream", settings(&[(3, 1)])),
        opens("no header table", settings(&[(1, 0)])),
        opens("a window above its maximum", settings(&[(4, u32::MAX)])).is("h2-malformed"),
        opens("frames below the minimum", settings(&[(5, 16_383)])).is("h2-malformed"),
        opens("a small header list", settings(&[(6, 1)])),
        opens("an unknown setting", settings(&[(0x77, 9)])),
        opens("push enabled by the server", settings(&[(2, 1)])).is("h2-malformed"),
        opens("GOAWAY at once", [plain.clone(), goaway(0, 0)].concat()).is("h2-refused"),
        opens("GOAWAY with an error at once", [plain.clone(), goaway(0, 11)].concat())
            .is("h2-refused"),
        opens("settings of seven bytes", frame(SETTINGS, 0, 0, &[0; 7])).is("h2-malformed"),
        opens("settings on a stream", frame(SETTINGS, 0, 1, &[])).is("h2-malformed"),
        opens("an unknown frame", [plain, frame(0x77, 0xFF, 9, b"odd")].concat()),
    ]
}

fn heads() -> Vec<Case> {
    vec![
        answers("no body", |id| last_head(id, OK)),
        answers("status 404", |id| last_head(id, &[0x8D])).is("status-4xx"),
        answers("103 before", |id| {
            [head(id, b"\x08\x03103"), head(id, OK), body(id, b"pong")].concat()
        }),
        answers("103 and nothing else", |id| last_head(id, b"\x08\x03103")).is("h2-malformed"),
        answers("101", |id| [head(id, b"\x08\x03101"), body(id, b"pong")].concat())
            .is("h2-malformed"),
        answers("no status", |id| last_head(id, &literal("server", "x"))).is("h2-malformed"),
        answers("two statuses", |id| last_head(id, &[0x88, 0x88])).is("h2-malformed"),
        answers("a status behind a field", |id| {
            last_head(id, &[&literal("server", "x"), OK].concat())
        })
        .is("h2-malformed"),
        answers("a status of two digits", |id| last_head(id, b"\x08\x0299")).is("h2-malformed"),
        answers("a path", |id| last_head(id, &[0x88, 0x84])).is("h2-malformed"),
        answers("a capital letter", |id| with(id, "Server", "x")).is("h2-malformed"),
        answers("a line feed", |id| with(id, "x", "a\nb: c")).is("h2-malformed"),
        answers("white space before a value", |id| with(id, "x", " a")).is("h2-malformed"),
        answers("Connection", |id| with(id, "connection", "close")).is("h2-malformed"),
        answers("Transfer-Encoding", |id| with(id, "transfer-encoding", "chunked"))
            .is("h2-malformed"),
        answers("the dynamic table", |id| last_head(id, &[0x88, 0xBE])).is("h2-malformed"),
        answers("index 0", |id| last_head(id, &[0x88, 0x80])).is("h2-malformed"),
        answers("a table of 1 byte", |id| last_head(id, &[0x21, 0x88]))
            .is("h2-malformed")
            .argued("it has announced a table of no size; the others announce a larger one"),
        answers("a block in two frames", |id| {
            [frame(HEADERS, END_STREAM, id, OK), frame(CONTINUATION, END_HEADERS, id, &[0x54, 0])]
                .concat()
        }),
        answers("a frame within a block", |id| {
            [frame(HEADERS, END_STREAM, id, OK), frame(PING, 0, 0, &[7; 8])].concat()
        })
        .is("h2-malformed"),
        answers("padding", |id| {
            let head = frame(HEADERS, END_HEADERS | PADDED, id, &[2, 0x88, 0, 0]);
            [head, frame(DATA, END_STREAM | PADDED, id, b"\x01pong\0")].concat()
        }),
    ]
}

fn bodies() -> Vec<Case> {
    vec![
        answers("the right length", |id| with(id, "content-length", "4")),
        answers("a longer body", |id| with(id, "content-length", "3")).is("h2-malformed"),
        answers("a shorter body", |id| with(id, "content-length", "5")).is("h2-malformed"),
        answers("a length that is no number", |id| with(id, "content-length", "4x"))
            .is("h2-malformed"),
        answers("204 with a body", |id| [head(id, &[0x89]), body(id, b"pong")].concat())
            .is("h2-malformed"),
        answers("a body first", |id| body(id, b"pong")).is("h2-malformed"),
        answers("trailers", |id| {
            [head(id, OK), frame(DATA, 0, id, b"pong"), last_head(id, &literal("x", "y"))].concat()
        }),
        answers("trailers with a status", |id| {
            [head(id, OK), frame(DATA, 0, id, b"pong"), last_head(id, OK)].concat()
        })
        .is("h2-malformed"),
        answers("trailers that end nothing", |id| {
            [head(id, OK), head(id, &literal("x", "y"))].concat()
        })
        .is("h2-malformed"),
        answers("no end", |id| head(id, OK)).is("timeout"),
        answers("a reset in the middle", |id| {
            [head(id, OK), frame(RST_STREAM, 0, id, &[0, 0, 0, 2])].concat()
        })
        .is("h2-reset"),
        answers("a reset behind the answer", |id| {
            [last_head(id, OK), frame(RST_STREAM, 0, id, &[0; 4])].concat()
        }),
        answers("refused", |id| frame(RST_STREAM, 0, id, &[0, 0, 0, 7])).is("h2-refused"),
        answers("calm", |id| frame(RST_STREAM, 0, id, &[0, 0, 0, 11])).is("h2-reset"),
        answers("a push", |id| frame(PUSH_PROMISE, END_HEADERS, id, &[0, 0, 0, 2, 0x82, 0x84]))
            .is("h2-malformed"),
        answers("another stream", |id| last_head(id + 100, OK)).is("h2-malformed"),
        answers("an even stream", |id| last_head(id + 1, OK)).is("h2-malformed"),
        answers("a frame of 16,385 bytes", |id| [head(id, OK), body(id, &[0; 16_385])].concat())
            .is("h2-malformed"),
        answers("a window raised by nothing", |id| frame(WINDOW_UPDATE, 0, id, &[0; 4]))
            .is("h2-malformed"),
        answers("pings and settings between", |id| {
            let between = [frame(PING, 0, 0, &[7; 8]), settings(&[]), frame(PING, ACK, 0, &[9; 8])];
            [head(id, OK), between.concat(), body(id, b"pong")].concat()
        }),
    ]
}

/// Speaks as the case says until the client ends the connection.
fn meet(mut stream: TcpStream, case: &Case) -> std::io::Result<()> {
    stream.write_all(&case.opening)?;
    stream.read_exact(&mut [0; 24])?;
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let [high, middle, low, kind, flags, id @ ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        stream.read_exact(&mut payload)?;
        match kind {
            HEADERS => stream.write_all(&(case.answer)(u32::from_be_bytes(id)))?,
            SETTINGS if flags & ACK == 0 && !case.opening.is_empty() => {
                stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?;
            }
            _ => {}
        }
    }
}

/// Serves a case until the test program ends.
fn serve(case: &'static Case) -> SocketAddr {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            thread::spawn(move || meet(stream, case));
        }
    });
    address
}

/// Returns plimsoll's outcome of one request.
fn plimsoll(server: SocketAddr) -> String {
    let pace = ["--http", "2", "--rate", "0", "-n", "1", "-c", "1"];
    let waits = ["--connect-timeout", "1s", "--linger", "1s"];
    let ran = Plimsoll::load(&format!("http://{server}/"), &[&pace[..], &waits].concat()).run();
    let summary = Summary::parse(&ran.stdout);
    let classes: Vec<_> = summary.counts("error_classes").into_keys().collect();
    if classes.is_empty() { "ok".to_owned() } else { classes.join(", ") }
}

/// Reports whether the program ends well within three seconds, and says nothing of requests that were not answered.
fn takes(name: &str, arguments: &[&str]) -> bool {
    let mut command = Command::new(program::installed("timeout"));
    command.arg("3").arg(program::installed(name)).args(arguments).stdin(Stdio::null());
    let output = command.output().expect("an installed program can be run");
    output.status.success()
        && !String::from_utf8_lossy(&output.stderr).contains("were not processed")
}

#[test]
#[ignore = "minutes"]
fn plimsoll_takes_what_other_clients_of_http2_take() {
    let cases: &'static [Case] =
        [openings(), heads(), bodies()].into_iter().flatten().collect::<Vec<_>>().leak();
    let mut faults = Vec::new();
    for case in cases {
        let server = serve(case);
        let url = format!("http://{server}/");
        let ours = plimsoll(server);
        let others = [
            takes("nghttp", &["-n", &url]),
            takes(
                "curl",
                &["-sS", "--http2-prior-knowledge", "-o", "/dev/null", "--noproxy", "*", &url],
            ),
        ];
        println!("{}: {ours}, nghttp {}, curl {}", case.name, others[0], others[1]);
        let takes = matches!(&ours[..], "ok" | "status-4xx");
        let is_alone = others.iter().all(|other| *other != takes);
        if ours != case.plimsoll {
            faults.push(format!("{}: {ours} instead of {}", case.name, case.plimsoll));
        }
        match (case.argued, is_alone) {
            (None, true) => faults.push(format!("{}: plimsoll alone says {ours}", case.name)),
            (Some(why), false) => {
                faults.push(format!("{}: not alone, and argued: {why}", case.name));
            }
            _ => {}
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
