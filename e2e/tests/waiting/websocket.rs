//! WebSocket judged by a client of another make.

use std::net::{TcpListener, TcpStream};
use std::thread;

use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
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
