//! Messages that are incomplete, or wait to be sent back: all connections together keep a bounded number of bytes.

use plimsoll_model::target::{
    MqttVersion, Protocol, Publish, Qos, Subscription, Target, TargetUrl,
};
use plimsoll_proto::{http2, mqtt};

use super::*;

const MEBIBYTE: usize = 1 << 20;
/// Messages of 1 MiB that a worker keeps in tests.
const KEPT: usize = 8;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The header block of a call of gRPC.
fn call() -> Vec<u8> {
    let target = Target {
        method: "POST".to_owned(),
        url: TargetUrl {
            protocol: Protocol::Http2,
            tls: false,
            host: "test".to_owned(),
            port: 80,
            path: "/service/method".to_owned(),
        },
        headers: vec![("content-type".to_owned(), "application/grpc".to_owned())],
        body: Vec::new().into(),
        publish: None,
        script: None,
        websocket: None,
    };
    let mut block = Vec::new();
    http2::request::write_request_block(&mut block, &target);
    block
}

#[test]
fn calls_that_are_never_complete_end_their_connection() {
    let (server, address) = serve(&plan());
    let mut client = Client::connect(address);
    let mut bytes = Vec::new();
    http2::client::write_opening(&mut bytes);
    client.send(&bytes);
    let data = |stream| frame(0, 0, stream, &[0; 16_000]);
    let message = |nth: u32| {
        let stream = 2 * nth + 1;
        [frame(1, 4, stream, &call()), data(stream).repeat(MEBIBYTE / 16_000)].concat()
    };
    // Fills the memory, and sends one more than the bound; the server may be faster than this.
    for nth in 0..=KEPT as u32 {
        if client.0.write_all(&message(nth)).is_err() {
            break;
        }
    }
    until(&server, |counters| counters.conns_overfull == 1);
    // The memory is free again.
    drop(client);
    until(&server, |counters| counters.conns_open == 0);
    let mut other = Client::connect(address);
    let mut bytes = Vec::new();
    http2::client::write_opening(&mut bytes);
    bytes.extend(frame(1, 4, 1, &call()));
    bytes.extend(frame(0, 1, 1, &[&http2::request::grpc_prefix(5)[..], b"hello"].concat()));
    other.send(&bytes);
    assert_eq!(until(&server, |counters| counters.requests == 1).conns_overfull, 1);
}

#[test]
fn messages_that_are_never_complete_end_connections_of_clients_of_mqtt() {
    let mut plan = plan();
    plan.listeners[0].spoken = Spoken::Mqtt;
    let (server, address) = serve(&plan);
    let mut bytes = Vec::new();
    let says = mqtt::Connect { client_id: "a", keep_alive_s: 60, ..mqtt::Connect::default() };
    mqtt::connect(&mut bytes, MqttVersion::V5, &says);
    let wants = Subscription { filter: "t".to_owned(), qos: Qos::AtMostOnce };
    mqtt::subscribe(&mut bytes, MqttVersion::V5, &wants);
    let publish = Publish { topic: "t".to_owned(), qos: Qos::AtMostOnce, retain: false };
    mqtt::publish(&mut bytes, MqttVersion::V5, &publish, &vec![b'x'; MEBIBYTE - 1]);
    bytes.pop();
    let clients: Vec<Client> = (0..2 * KEPT)
        .map(|_| {
            let mut client = Client::connect(address);
            // The server may have ended it.
            let _ = client.0.write_all(&bytes);
            client
        })
        .collect();
    let counters = until(&server, |counters| counters.conns_overfull > 0);
    assert!(counters.conns_overfull <= 2 * KEPT as u64);
    drop(clients);
    until(&server, |counters| counters.conns_open == 0);
    let mut other = Client::connect(address);
    other.send(&bytes);
    other.send(b"x");
    until(&server, |counters| counters.deliveries == 1);
}
