//! Servers that ask for answers and read none of them: a connection ends before what waits for it fills the memory.

use std::io::{Read, Write};
use std::net::TcpStream;

use plimsoll_model::ErrorClass;
use plimsoll_model::plan::{ClientIds, LoadPlan, MqttPlan};
use plimsoll_model::target::{MqttVersion, Protocol, Publish, Qos};
use plimsoll_proto::websocket::{Opcode, accept_for, write_frame};

use super::scripted::{Scripted, closed, plan, run};

/// Sends `bytes` again and again until the client has had enough.
fn flood(mut stream: TcpStream, bytes: &[u8]) {
    let many = bytes.repeat(1_000);
    while stream.write_all(&many).is_ok() {}
}

fn switch_and_ping(mut stream: TcpStream) {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if !matches!(stream.read(&mut byte), Ok(1)) {
            return;
        }
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    let key = head.lines().find_map(|line| line.strip_prefix("Sec-WebSocket-Key: ")).unwrap();
    let accept = accept_for(key.as_bytes().try_into().unwrap());
    let answer = format!(
        "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
         Sec-WebSocket-Accept: {accept}\r\n\r\n"
    );
    if stream.write_all(answer.as_bytes()).is_ok() {
        let mut ping = Vec::new();
        write_frame(&mut ping, true, Opcode::Ping, &[7; 125], None);
        flood(stream, &ping);
    }
}

#[test]
fn pongs_that_nobody_reads_end_the_connection() {
    let server = Scripted::start(switch_and_ping);
    let mut plan = LoadPlan { threads: 1, connections: 1, ..plan(server.address, closed(2)) };
    plan.targets[0].url.protocol = Protocol::WebSocket;
    plan.targets[0].body = b"hello".to_vec().into();
    let tally = run(plan);
    assert_eq!(
        tally.failures.operations.get(ErrorClass::PeerNotReading),
        2,
        "{:?}",
        tally.failures.operations
    );
}

#[test]
fn acknowledgements_that_nobody_reads_end_the_connection() {
    let server = Scripted::start(|mut stream| {
        if matches!(stream.read(&mut [0; 1024]), Ok(1..))
            && stream.write_all(b"\x20\x02\0\0").is_ok()
        {
            flood(stream, b"\x32\x06\0\x01a\0\x01x");
        }
    });
    for in_flight in [1, 4] {
        let mut plan = LoadPlan { threads: 1, connections: 1, ..plan(server.address, closed(8)) };
        plan.targets[0].url.protocol = Protocol::Mqtt;
        plan.targets[0].publish =
            Some(Publish { topic: "b".to_owned(), qos: Qos::AtLeastOnce, retain: false });
        plan.mqtt = Some(MqttPlan {
            version: MqttVersion::V3_1_1,
            client_ids: ClientIds::Prefix("plimsoll".to_owned()),
            users: [].into(),
            keep_alive_s: 0,
            resumes_session: false,
            session_expiry_s: None,
            in_flight,
            will: None,
            subscribe: None,
            deliveries: None,
        });
        let tally = run(plan);
        assert_eq!(
            tally.failures.operations.get(ErrorClass::PeerNotReading),
            8,
            "{:?}",
            tally.failures.operations
        );
    }
}
