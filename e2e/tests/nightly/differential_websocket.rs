//! Odd servers of WebSocket, met by plimsoll and the library websockets of Python. Where they disagree, the
//! corpus has an argument for it; an argument for nothing is a failure, too.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::thread;

use e2e::plimsoll::Plimsoll;
use e2e::summary::Summary;
use tungstenite::handshake::derive_accept_key;

/// One odd server.
struct Case {
    name: &'static str,
    /// Answer to the opening.
    opening: &'static str,
    /// Bytes behind that, in the same segment, ...
    behind: &'static [u8],
    /// ... and what answers the first message.
    answer: &'static [u8],
    /// Outcome in plimsoll: `ok`, or the class of its error.
    plimsoll: &'static str,
    /// Why they disagree.
    argued: Option<&'static str>,
}

const SWITCHES: &str = "HTTP/1.1 101 Switching Protocols\r\n\
                        Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\n\r\n";

const fn opens(name: &'static str, opening: &'static str) -> Case {
    let (behind, answer) = (b"", b"\x81\x04pong");
    Case { name, opening, behind, answer, plimsoll: "ok", argued: None }
}

const fn answers(name: &'static str, answer: &'static [u8]) -> Case {
    Case { name, opening: SWITCHES, behind: b"", answer, plimsoll: "ok", argued: None }
}

impl Case {
    const fn is(self, plimsoll: &'static str) -> Self {
        Self { plimsoll, ..self }
    }

    const fn behind(self, behind: &'static [u8]) -> Self {
        Self { behind, ..self }
    }

    const fn argued(self, why: &'static str) -> Self {
        Self { argued: Some(why), ..self }
    }
}

const CASES: &[Case] = &[
    // ---- the opening
    opens("the right one", SWITCHES),
    opens(
        "names and values in other letters",
        "HTTP/1.1 101 x\r\nUPGRADE: WebSocket\r\nconnection: keep-alive, UPGRADE\r\n\
         sec-websocket-accept: KEY\r\n\r\n",
    ),
    opens("no reason", "HTTP/1.1 101 \r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\n\r\n"),
    opens("status 200", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").is("ws-refused"),
    opens("status 404", "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n").is("ws-refused"),
    opens("status 426", "HTTP/1.1 426 Upgrade Required\r\nSec-WebSocket-Version: 8\r\nContent-Length: 0\r\n\r\n").is("ws-refused"),
    opens(
        "HTTP/1.0",
        "HTTP/1.0 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\n\r\n",
    )
    .argued("RFC 6455 4.1 asks the client for HTTP/1.1, and judges the answer by its fields"),
    opens("no Upgrade", "HTTP/1.1 101 x\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\n\r\n").is("ws-refused"),
    opens("no Connection", "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: KEY\r\n\r\n").is("ws-refused"),
    opens("no key", "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n").is("ws-refused"),
    opens("another key", "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n").is("ws-refused"),
    opens("Upgrade: h2c", "HTTP/1.1 101 x\r\nUpgrade: h2c\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\n\r\n").is("ws-refused"),
    opens("an extension", "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n").is("ws-refused"),
    opens("a subprotocol", "HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\nSec-WebSocket-Protocol: chat\r\n\r\n").is("ws-refused"),
    opens(
        "103 before it",
        "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 101 Switching Protocols\r\n\
         Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: KEY\r\n\r\n",
    )
    .argued("RFC 9110 15.2: a client must take any number of answers of 1xx"),
    opens("a TLS alert", "\x15\x03\x01\0\x02\x02\x28").is("ws-refused"),
    opens("not HTTP", "SSH-2.0-OpenSSH_9.2\r\n").is("ws-refused"),
    // ---- behind the switch
    answers("a greeting with the switch", b"\x81\x04pong").behind(b"\x81\x05hello"),
    answers("a ping with the switch", b"\x81\x04pong").behind(b"\x89\x01x"),
    answers("half a frame with the switch", b"pong").behind(b"\x81\x04")
        .is("timeout")
        .argued("its first byte was here before the message was sent: it answers nothing"),
    answers("a close frame with the switch", b"").behind(b"\x88\x02\x03\xE8").is("ws-closed"),
    // ---- answers
    answers("binary", b"\x82\x04pong"),
    answers("empty", b"\x81\0"),
    answers("in fragments", b"\x01\x02po\x80\x02ng"),
    answers("a ping between fragments", b"\x01\x02po\x89\0\x80\x02ng"),
    answers("empty fragments", b"\x01\0\0\0\x80\x04pong"),
    answers("an unsolicited pong first", b"\x8A\x03abc\x81\x04pong"),
    answers("a length of 16 bits", b"\x82\x7E\0\x7E12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678"),
    answers("masked", b"\x81\x84\x01\x02\x03\x04qmmc").is("ws-malformed"),
    answers("a reserved bit", b"\xC1\x04pong").is("ws-malformed"),
    answers("a reserved opcode", b"\x83\x04pong").is("ws-malformed"),
    answers("a reserved control frame", b"\x8B\0").is("ws-malformed"),
    answers("not UTF-8", b"\x81\x02\xC3\x28").is("ws-malformed"),
    answers("UTF-8 that is cut", b"\x81\x01\xC3").is("ws-malformed"),
    answers("a character over two fragments", b"\x01\x01\xC3\x80\x01\xA4"),
    answers("a continuation of nothing", b"\x80\x04pong").is("ws-malformed"),
    answers("a message within a message", b"\x01\x02po\x81\x02ng").is("ws-malformed"),
    answers("a fragmented ping", b"\x09\x01x\x80\x01y").is("ws-malformed"),
    answers("a ping of 126 bytes", b"\x89\x7E\0\x7E12345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678901234567890123456789012345678").is("ws-malformed"),
    answers("a length that is not the shortest", b"\x81\x7E\0\x04pong")
        .is("ws-malformed")
        .argued("RFC 6455 5.2: the minimal number of bytes must be used"),
    answers("a length with its top bit", b"\x82\x7F\x80\0\0\0\0\0\0\0").is("ws-malformed"),
    answers("closed, 1000", b"\x88\x02\x03\xE8").is("ws-closed"),
    answers("closed without a code", b"\x88\0").is("ws-closed"),
    answers("closed with half a code", b"\x88\x01\x03").is("ws-malformed"),
    answers("closed with a code that must not be sent", b"\x88\x02\x03\xED").is("ws-malformed"),
    answers("closed, code 999", b"\x88\x02\x03\xE7").is("ws-malformed"),
    answers("no answer", b"").is("timeout"),
    answers("HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n").is("ws-malformed"),
];

/// Speaks as the case says until the client ends the connection.
fn meet(mut stream: TcpStream, case: &Case) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte)?;
        head.push(byte[0]);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let accept = derive_accept_key(key.unwrap_or_default().as_bytes());
    let opening = case.opening.replace("KEY", &accept);
    stream.write_all(&[opening.as_bytes(), case.behind].concat())?;
    loop {
        let mut head = [0; 6];
        stream.read_exact(&mut head)?;
        // Shorter than 126 bytes, and masked.
        stream.read_exact(&mut vec![0; usize::from(head[1] & 0x7F)])?;
        if head[0] == 0x81 {
            stream.write_all(case.answer)?;
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

/// Returns plimsoll's outcome of one message.
fn plimsoll(server: SocketAddr) -> String {
    let pace = ["--rate", "0", "-n", "1", "-c", "1", "--data", "ping", "--no-keepalive"];
    let waits = ["--connect-timeout", "1s", "--linger", "1s"];
    let ran = Plimsoll::load(&format!("ws://{server}/"), &[&pace[..], &waits].concat()).run();
    let summary = Summary::parse(&ran.stdout);
    let classes: Vec<_> = summary.counts("error_classes").into_keys().collect();
    if classes.is_empty() { "ok".to_owned() } else { classes.join(", ") }
}

fn websockets(server: SocketAddr) -> bool {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/nightly/differential_websocket.py");
    // Debian's, which has Debian's websockets.
    let mut judge = Command::new("/usr/bin/python3");
    judge.args([script, &server.port().to_string()]);
    judge.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    judge.status().expect("Debian's Python can be run").success()
}

#[test]
#[ignore = "minutes"]
fn plimsoll_takes_what_another_client_of_websocket_takes() {
    let mut faults = Vec::new();
    for case in CASES {
        let server = serve(case);
        let (ours, theirs) = (plimsoll(server), websockets(server));
        println!("{}: {ours}, websockets {theirs}", case.name);
        let is_alone = theirs != (ours == "ok");
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
