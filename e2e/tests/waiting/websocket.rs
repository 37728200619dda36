//! WebSocket judged by a client of another make.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::thread::JoinHandle;

use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use tungstenite::handshake::derive_accept_key;
use tungstenite::handshake::server::{Request, Response};
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket, accept_hdr, client};

fn opened(serve: &Serve) -> WebSocket<TcpStream> {
    let url = serve.url().replacen("http", "ws", 1);
    let address = url.trim_start_matches("ws://").trim_end_matches('/');
    let stream = TcpStream::connect(address).expect("it listens");
    client(&url, stream).expect("it switches").0
}

#[test]
fn serve_sends_messages_back() {
    let serve = Serve::plain();
    let mut socket = opened(&serve);
    for message in [
        Message::text("Grüße"),
        Message::binary(vec![0u8; 3]),
        Message::text(""),
        Message::binary((0..=255u8).cycle().take(1_000_000).collect::<Vec<u8>>()),
    ] {
        socket.send(message.clone()).expect("it is taken");
        assert_eq!(socket.read().expect("it comes back"), message);
    }
    socket.send(Message::Ping(b"are you there"[..].into())).expect("it is taken");
    assert_eq!(socket.read().expect("a pong"), Message::Pong(b"are you there"[..].into()));
    let close = CloseFrame { code: CloseCode::Normal, reason: "done".into() };
    socket.close(Some(close)).expect("it is taken");
    match socket.read().expect("a close frame") {
        Message::Close(Some(frame)) => assert_eq!(frame.code, CloseCode::Normal),
        other => panic!("{other:?}"),
    }
}

#[test]
#[expect(clippy::result_large_err, reason = "the library says what its callbacks return")]
fn fragments_and_subprotocols_reach_a_server_of_another_make() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let server = thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let mut offered = String::new();
        let take_first = |request: &Request, mut response: Response| {
            let value = request.headers().get("Sec-WebSocket-Protocol").expect("an offer").clone();
            offered = value.to_str().expect("text").to_owned();
            response
                .headers_mut()
                .insert("Sec-WebSocket-Protocol", "chat".parse().expect("a value"));
            Ok(response)
        };
        let mut socket = accept_hdr(stream, take_first).expect("it opens");
        let mut messages = Vec::new();
        while messages.len() < 20 {
            let message = socket.read().expect("a message");
            socket.send(message.clone()).expect("it is taken");
            messages.push(message);
        }
        (offered, messages)
    });
    let message = "0123456789".repeat(100);
    let frames = ["--ws-binary", "--ws-fragment", "64", "--ws-protocol", "chat,superchat"];
    let flags = ["--rate", "0", "-n", "20", "-c", "1", "--data", &message];
    let url = format!("ws://{address}/");
    let summary = Plimsoll::load(&url, &[&frames[..], &flags].concat()).run().summary(0);
    summary.assert_all_ok(20);
    // 16 frames of 6 bytes of head each, or 8 where the length needs them, for each message.
    assert!(summary.count("bytes.sent") >= 20 * (1_000 + 16 * 6), "{summary:?}");
    let (offered, messages) = server.join().expect("it has served");
    assert_eq!(offered, "chat, superchat");
    assert!(messages.iter().all(|one| *one == Message::binary(message.clone().into_bytes())));
}

#[test]
fn load_and_hold_speak_websocket() {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"], 2);
    for url in &serve.urls {
        let url = url.replacen("http", "ws", 1);
        let flags = ["-k", "--rate", "0", "-n", "60", "-c", "3", "-H", "sleep-fixed: 1"];
        let summary = Plimsoll::load(&url, &flags).run().summary(0);
        summary.assert_all_ok(60);
        assert!(summary.number("latency_ms.uncorrected.p50") >= 1.0, "{summary:?}");
        let hold =
            ["hold", &url, "-k", "-c", "20", "--rate", "200", "--for", "2s", "--heartbeat", "1s"];
        let output = ["--no-ui", "--json", "-"];
        let summary = Plimsoll::new([&hold[..], &output].concat()).run().summary(0);
        assert_eq!(summary.count("errors"), 0, "{summary:?}");
    }
    // What does not switch is told with its status.
    let nginx = Nginx::start(false, "");
    let load = Plimsoll::load(&nginx.url("ws"), &["--rate", "0", "-n", "1", "-c", "1"]).run();
    assert_eq!(load.code, Some(99), "{load:?}");
    assert!(load.stderr.contains("status 200"), "{}", load.stderr);
}

/// Reads the opening of a client and switches, with `behind` in the same segment.
fn switch(stream: &mut TcpStream, behind: &[u8]) {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a request");
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).expect("text");
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: "));
    let accept = derive_accept_key(key.expect("a key").as_bytes());
    let switch = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade";
    let answer = format!("{switch}\r\nSec-WebSocket-Accept: {accept}\r\n\r\n");
    stream.write_all(&[answer.as_bytes(), behind].concat()).expect("it reads");
}

/// Returns a server that sends `behind` with the switch, and `ahead` before its answer to the first message of each
/// connection. Every message, of 4 bytes, is answered with `pong`, in two fragments with a ping between them.
fn greeting(behind: &'static [u8], ahead: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("ws://{}/", listener.local_addr().expect("it is bound"));
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                switch(&mut stream, behind);
                let mut sent_ahead = ahead;
                while let Ok([0x81, ..]) = next_frame(&mut stream) {
                    let answers = [sent_ahead, b"\x01\x02po\x89\x00\x80\x02ng"];
                    // The client may have ended the connection.
                    let _ = answers.iter().try_for_each(|answer| stream.write_all(answer));
                    sent_ahead = b"";
                }
            });
        }
    });
    url
}

/// Returns the next frame of a client that is no pong: head, mask and 4 bytes of payload.
fn next_frame(stream: &mut TcpStream) -> std::io::Result<[u8; 10]> {
    let mut frame = [0; 10];
    loop {
        stream.read_exact(&mut frame[..6])?;
        if frame[0] != 0x8A {
            stream.read_exact(&mut frame[6..])?;
            return Ok(frame);
        }
    }
}

const HELLO: &[u8] = b"\x81\x05hello";

#[test]
fn messages_that_answer_nothing_are_counted_and_end_no_operation() {
    for (behind, ahead, each) in [(HELLO, &b""[..], 1), (b"", HELLO, 1), (HELLO, HELLO, 2)] {
        for (flags, connections) in [(&["--rate", "0"][..], 2), (&["--rate", "200"], 2)] {
            let url = greeting(behind, ahead);
            let load = |more: &[&str]| {
                let flags = [flags, &["-n", "20", "-c", "2", "--data", "ping"], more].concat();
                Plimsoll::load(&url, &flags).run()
            };
            let skipped = each.to_string();
            for more in
                [["--expect", "pong"], ["--expect", "/^p.*g$/"], ["--skip-messages", &skipped]]
            {
                let load = load(&more);
                let summary = load.summary(0);
                summary.assert_all_ok(20);
                assert_eq!(summary.count("pushed.messages"), each * connections, "{summary:?}");
                assert_eq!(summary.count("pushed.surplus"), 0, "{summary:?}");
                assert!(!load.stderr.contains("unrequested:"), "{}", load.stderr);
            }
            // Nothing says what an answer is: the warning does.
            let load = load(&[]);
            let summary = load.summary(0);
            summary.assert_all_ok(20);
            assert!(summary.count("pushed.surplus") > 0, "{summary:?}");
            assert!(load.stderr.contains("unrequested:"), "{}", load.stderr);
            assert!(load.stderr.contains("--expect"), "{}", load.stderr);
        }
    }
}

#[test]
fn a_message_behind_the_answer_is_seen_without_keep_alive() {
    // The greeting is the answer to the one message of each connection, and the answer comes after that.
    let url = greeting(b"", HELLO);
    let flags = ["--rate", "200", "-n", "20", "-c", "2", "--data", "ping", "--no-keepalive"];
    let load = Plimsoll::load(&url, &flags).run();
    let summary = load.summary(0);
    summary.assert_all_ok(20);
    assert!(summary.count("pushed.surplus") > 0, "{summary:?}");
    assert!(load.stderr.contains("unrequested:"), "{}", load.stderr);
    assert_eq!(summary.count("connections.opened"), 20, "{summary:?}");
    let exact = [&flags[..], &["--expect", "pong"]].concat();
    let summary = Plimsoll::load(&url, &exact).run().summary(0);
    summary.assert_all_ok(20);
    assert_eq!(summary.count("pushed.messages"), 20, "{summary:?}");
    assert_eq!(summary.count("pushed.surplus"), 0, "{summary:?}");
    // Nothing of what the server sends is an answer.
    let never = ["--expect", "done", "--linger", "100ms", "-n", "4", "-c", "2", "--data", "ping"];
    let summary = Plimsoll::load(&url, &[&["--rate", "0"], &never[..]].concat()).run().summary(99);
    summary.assert_all_failed(4, "timeout");
}

/// Returns a server that accepts `connections` WebSockets and answers each first message with `frame`; what came behind
/// that message, once the client has ended its side.
fn answering(frame: &[u8], connections: usize) -> (SocketAddr, JoinHandle<Vec<Vec<u8>>>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let frame = frame.to_vec();
    let serve = move |stream: std::io::Result<TcpStream>| {
        let mut stream = stream.expect("a client");
        switch(&mut stream, b"");
        // Head, mask and 4 bytes of payload.
        stream.read_exact(&mut [0; 10]).expect("a message");
        stream.write_all(&frame).expect("it reads");
        let mut behind = Vec::new();
        stream.read_to_end(&mut behind).expect("it ends its side");
        behind
    };
    let served = thread::spawn(move || listener.incoming().take(connections).map(serve).collect());
    (address, served)
}

#[test]
fn what_a_server_sends_wrong_is_named_and_answered_with_one_close_frame() {
    for (frame, class, code, told) in [
        (&b"\x81\x84abcdtest"[..], "ws-malformed", 1002_u16, "a server's frame is masked"),
        (b"\x81\x02\xc3\x28", "ws-malformed", 1007, "text that is not UTF-8"),
        (b"\xc1\x01a", "ws-malformed", 1002, "a frame sets a reserved bit"),
        (b"\x82\x7f\0\0\0\x01\0\0\0\0", "ws-malformed", 1009, "more than 1 GiB"),
        (b"\x88\x02\x03\xeb", "ws-closed", 1003, "with code 1003, unsupported data"),
    ] {
        let (address, served) = answering(frame, 2);
        let url = format!("ws://{address}/");
        let flags = ["--rate", "0", "-n", "2", "-c", "1", "--data", "ping"];
        let load = Plimsoll::load(&url, &flags).run();
        let summary = load.summary(99);
        summary.assert_all_failed(2, class);
        assert!(load.stderr.contains(told), "{}", load.stderr);
        if class == "ws-closed" {
            assert_eq!(summary.counts("ws_close").get("1003"), Some(&2));
        }
        for behind in served.join().expect("it has served") {
            // Close, 2 bytes of payload, masked.
            let [0x88, 0x82, mask, key, _, _, high, low] = behind[..] else {
                panic!("{behind:x?}")
            };
            assert_eq!(u16::from_be_bytes([high ^ mask, low ^ key]), code, "{told}");
        }
    }
}

#[test]
fn serve_pushes_and_what_is_pushed_is_counted_and_timed() {
    let serve = Serve::plain();
    let url = serve.url().replacen("http", "ws", 1);
    // Read by another library: a stamp, its number one more each time, then the pattern.
    let address = url.trim_start_matches("ws://").trim_end_matches('/');
    let request = tungstenite::http::Request::builder().uri(&url).header("Host", address);
    let request = request.header("Connection", "Upgrade").header("Upgrade", "websocket");
    let request = request
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==");
    let request = request.header("push", "20").header("size", "40").body(()).expect("a request");
    let stream = TcpStream::connect(address).expect("it listens");
    let mut socket = client(request, stream).expect("it switches").0;
    socket.send(Message::text("echo")).expect("it is taken");
    let (mut numbers, mut has_echo) = (Vec::new(), false);
    while numbers.len() < 5 || !has_echo {
        match socket.read().expect("a message") {
            Message::Binary(pushed) => {
                assert_eq!((&pushed[..4], &pushed[32..]), (&b"PLM1"[..], &b"pongpong"[..]));
                numbers.push(u32::from_be_bytes([pushed[12], pushed[13], pushed[14], pushed[15]]));
            }
            other => has_echo |= other == Message::text("echo"),
        }
    }
    assert!(numbers.windows(2).all(|pair| pair[1] > pair[0]), "{numbers:?}");

    let hold = ["hold", &url, "-c", "20", "--rate", "200", "--for", "2s", "--heartbeat", "1s"];
    let pushes = ["-H", "push: 100", "--no-ui", "--json", "-"];
    let summary = Plimsoll::new([&hold[..], &pushes].concat()).run().summary(0);
    assert_eq!(summary.count("errors"), 0, "{summary:?}");
    let pushed = summary.count("pushed.messages");
    assert!(pushed >= 100, "{summary:?}");
    assert_eq!(summary.count("pushed.bytes"), 32 * pushed);
    assert_eq!(summary.count("pushed.timed"), pushed);
    assert!(summary.number("pushed.delay_ms.p50") < 1_000.0, "{summary:?}");

    // An answer is not mistaken for a push, nor a push for an answer.
    let flags = ["--rate", "50", "-n", "50", "-c", "2", "-H", "push: 5", "-H", "sleep-fixed: 20"];
    let summary = Plimsoll::load(&url, &flags).run().summary(0);
    summary.assert_all_ok(50);
    assert!(summary.count("pushed.messages") >= 10, "{summary:?}");
    assert!(summary.number("latency_ms.uncorrected.p50") >= 20.0, "{summary:?}");
    let refused = ["--rate", "0", "-n", "1", "-c", "1", "-H", "push: 0"];
    Plimsoll::load(&url, &refused).run().summary(99).assert_all_failed(1, "ws-refused");
}

#[test]
fn serve_says_that_it_ends_a_silent_websocket() {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--idle-timeout", "200ms"], 1);
    match opened(&serve).read().expect("a close frame") {
        Message::Close(Some(frame)) => assert_eq!(frame.code, CloseCode::Away),
        other => panic!("{other:?}"),
    }
}
