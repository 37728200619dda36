//! WebSocket on the server: messages come back as they went, whatever their frames.

use plimsoll_proto::websocket::{MessageReader, Opcode, Progress, Side, accept_for, write_frame};

use super::*;

const KEY: &[u8; 24] = b"dGhlIHNhbXBsZSBub25jZQ==";
const MASK: [u8; 4] = [0xA5, 0x5A, 0x0F, 0xF1];

fn upgrade(headers: &str) -> String {
    let key = String::from_utf8_lossy(KEY);
    request(&format!(
        "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\
         Sec-WebSocket-Key: {key}\r\n{headers}"
    ))
}

/// A connection that has switched.
fn switched(address: SocketAddr, headers: &str) -> Client {
    let mut client = Client::connect(address);
    client.send(upgrade(headers));
    let head = client.head();
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.contains(&accept_for(KEY)), "{head}");
    client
}

fn frames(list: &[(bool, Opcode, &[u8])]) -> Vec<u8> {
    let mut out = Vec::new();
    for (is_last, opcode, payload) in list {
        write_frame(&mut out, *is_last, *opcode, payload, Some(MASK));
    }
    out
}

impl Client {
    /// Reads events until `count` came; payload with each.
    fn events(&mut self, count: usize) -> Vec<(Progress, Vec<u8>)> {
        let mut reader = MessageReader::new(Side::Client);
        let (mut events, mut payload) = (Vec::new(), Vec::new());
        while events.len() < count {
            // Byte by byte, so that nothing behind the last event is read.
            let byte = self.bytes(1);
            let read = reader.handle_bytes(&byte, &mut |bytes| payload.extend_from_slice(bytes));
            match read.unwrap().1 {
                Progress::NeedMore => {}
                progress @ Progress::Message { .. } => {
                    events.push((progress, std::mem::take(&mut payload)));
                }
                progress => events.push((progress, reader.control_payload().to_vec())),
            }
        }
        events
    }
}

fn text(text: &str) -> (Progress, Vec<u8>) {
    let bytes = text.len() as u64;
    (Progress::Message { is_text: true, bytes }, text.as_bytes().to_vec())
}

#[test]
fn messages_come_back_and_pings_are_answered() {
    let (server, address) = serve(&plan());
    let mut client = switched(address, "Sec-WebSocket-Protocol: mqtt\r\n");
    let large = vec![7; 100_000];
    client.send(frames(&[
        (true, Opcode::Text, b"one"),
        (false, Opcode::Text, b"tw"),
        (true, Opcode::Ping, b"alive?"),
        (true, Opcode::Continuation, b"o"),
        (true, Opcode::Binary, &large),
        (true, Opcode::Text, b""),
    ]));
    let expected = [
        text("one"),
        (Progress::Pong, b"alive?".to_vec()),
        text("two"),
        (Progress::Message { is_text: false, bytes: 100_000 }, large),
        text(""),
    ];
    assert_eq!(client.events(5), expected);
    client.send(frames(&[(true, Opcode::Close, &3000u16.to_be_bytes())]));
    let expected = (Progress::Close(Some(3000)), 3000u16.to_be_bytes().to_vec());
    assert_eq!(client.events(1), [expected]);
    assert_eq!(client.rest(), "");
    let counters = until(&server, |counters| counters.conns_open == 0);
    assert_eq!((counters.conns_upgraded, counters.messages, counters.requests), (1, 4, 1));
}

#[test]
fn frames_in_any_cut_and_right_behind_the_request_are_the_same() {
    let (_server, address) = serve(&plan());
    let mut client = Client::connect(address);
    client.0.set_nodelay(true).unwrap();
    let list: [(bool, Opcode, &[u8]); 2] =
        [(true, Opcode::Text, b"early"), (true, Opcode::Text, b"late")];
    client.send([upgrade("").into_bytes(), frames(&list[..1])].concat());
    for byte in frames(&list[1..]) {
        client.send([byte]);
    }
    client.head();
    assert_eq!(client.events(2), [text("early"), text("late")]);
}

#[test]
fn each_message_waits_for_the_delay_of_the_upgrade() {
    let (server, address) = serve(&plan());
    let mut client = switched(address, "delay: 2\r\n");
    let begun = clock::monotonic_ns();
    client.send(frames(&[(true, Opcode::Text, b"one"), (true, Opcode::Text, b"two")]));
    assert_eq!(client.events(2), [text("one"), text("two")]);
    // A lower bound only: a busy machine may need any time longer.
    assert!(clock::monotonic_ns() - begun >= 2 * 2_000_000);
    assert_eq!(server.counters().messages, 2);
}

#[test]
fn what_is_not_websocket_is_refused_with_its_code() {
    let (server, address) = serve(&plan());
    let mut unmasked = Vec::new();
    write_frame(&mut unmasked, true, Opcode::Text, b"x", None);
    for (bytes, code) in [
        (unmasked, 1002),
        (frames(&[(true, Opcode::Continuation, b"x")]), 1002),
        (frames(&[(true, Opcode::Text, b"\xff")]), 1007),
    ] {
        let mut client = switched(address, "");
        client.send(&bytes);
        assert_eq!(client.events(1)[0].0, Progress::Close(Some(code)));
    }
    assert_eq!(until(&server, |c| c.conns_open == 0).requests_malformed, 3);

    let mut client = Client::connect(address);
    client.send(request("Upgrade: websocket\r\nConnection: Upgrade\r\n"));
    let (status, body) = client.response();
    assert_eq!(
        (status, &body[..]),
        (400, &b"Sec-WebSocket-Version is not 13; correct the client\n"[..])
    );
    // The service decides; the connection continues with HTTP.
    let mut client = Client::connect(address);
    client.send(upgrade("refuse: 1\r\n") + &request(""));
    assert_eq!(client.response().0, 400);
    assert_eq!(client.response(), (200, PATTERN.to_vec()));
}
