//! WebSocket judged by a client of another make.

use std::net::TcpStream;

use e2e::nginx::Nginx;
use e2e::plimsoll::Plimsoll;
use e2e::serve::Serve;
use tungstenite::protocol::CloseFrame;
use tungstenite::protocol::frame::coding::CloseCode;
use tungstenite::{Message, WebSocket, client};

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
