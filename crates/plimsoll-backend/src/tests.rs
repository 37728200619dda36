//! The contract's headers over real loopback sockets, and the StatsD counters.
#![expect(
    clippy::disallowed_methods,
    reason = "a blocking client is the simplest independent judge"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpStream, UdpSocket};
use std::time::Duration;

use plimsoll_model::Nanos;
use plimsoll_model::plan::{DeliveryFaults, Spoken, TlsState};
use plimsoll_sys::clock;

use super::*;

const PATIENCE: Duration = Duration::from_secs(20);

fn plan() -> ServePlan {
    let address = "127.0.0.1:0".parse().unwrap();
    ServePlan {
        listeners: vec![Listener { address, tls: false, spoken: Spoken::Http }; 2],
        identity: None,
        ticket_key: None,
        threads: 2,
        cpus: Vec::new(),
        tls_state: TlsState::Compact,
        statsd: None,
        seed: 1,
        request_timeout: Nanos::from_secs(60),
        idle_timeout: Nanos::from_secs(60),
        acknowledgement_delay: Nanos::ZERO,
        receive_maximum: u16::MAX,
        delivery_faults: DeliveryFaults::default(),
        accept_proxy: false,
    }
}

/// Sends one request with `headers` and returns the whole response.
fn ask(backend: &Backend, listener: usize, headers: &str) -> String {
    let mut stream = TcpStream::connect(backend.addresses()[listener].address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let request = format!("POST /ping HTTP/1.1\r\nHost: t\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    response
}

#[test]
fn every_port_answers_pong() {
    let backend = start(&plan()).unwrap();
    for listener in 0..2 {
        let response = ask(&backend, listener, "");
        assert!(response.starts_with("HTTP/1.1 200 OK\r\n"), "{response}");
        assert!(response.ends_with("\r\n\r\npong"), "{response}");
    }
    assert_ne!(backend.addresses()[0].address, backend.addresses()[1].address);
    assert_eq!(backend.counters().requests, 2);
    backend.stop();
    backend.join().unwrap();
}

#[test]
fn headers_shape_the_answer() {
    let backend = start(&plan()).unwrap();
    assert!(ask(&backend, 0, "size: 10\r\n").ends_with("\r\n\r\npongpongpo"));
    let chunked = ask(&backend, 0, "times: 2\r\nsleep: 3\r\n");
    assert!(chunked.contains("Transfer-Encoding: chunked"), "{chunked}");
    assert!(
        chunked.ends_with("\r\n\r\n4\r\npong\r\n4\r\npong\r\n4\r\npong\r\n0\r\n\r\n"),
        "{chunked}"
    );
    let begun = clock::monotonic_ns();
    assert!(ask(&backend, 0, "sleep-fixed: 12.5\r\n").ends_with("pong"));
    assert!(clock::monotonic_ns() - begun >= 12_500_000);
    let refused = ask(&backend, 0, "sleep: a while\r\n");
    assert!(refused.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{refused}");
    assert!(
        refused.ends_with(
            "\r\n\r\nsleep: \"a while\" is not milliseconds from 0 to 86400000 (24 h)\n"
        ),
        "{refused}"
    );
}

#[test]
fn a_kept_connection_outlives_a_malformed_header() {
    let backend = start(&plan()).unwrap();
    let mut stream = TcpStream::connect(backend.addresses()[0].address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut lines = BufReader::new(stream.try_clone().unwrap());
    for (headers, status) in [("times: x\r\n", "400"), ("", "200")] {
        stream.write_all(format!("GET / HTTP/1.1\r\nHost: t\r\n{headers}\r\n").as_bytes()).unwrap();
        let (mut line, mut length) = (String::new(), 0);
        lines.read_line(&mut line).unwrap();
        assert!(line.starts_with(&format!("HTTP/1.1 {status} ")), "{line}");
        while line != "\r\n" {
            line.clear();
            lines.read_line(&mut line).unwrap();
            if let Some(value) = line.strip_prefix("Content-Length: ") {
                length = value.trim().parse().unwrap();
            }
        }
        lines.read_exact(&mut vec![0; length]).unwrap();
    }
}

#[test]
fn statsd_hears_of_every_request_at_the_latest_at_the_end() {
    let statsd = UdpSocket::bind("127.0.0.1:0").unwrap();
    statsd.set_read_timeout(Some(PATIENCE)).unwrap();
    let remote = statsd.local_addr().unwrap();
    let backend = start(&ServePlan { statsd: Some(remote), ..plan() }).unwrap();
    for _ in 0..7 {
        ask(&backend, 0, "");
    }
    backend.stop();
    backend.join().unwrap();
    let mut requests = 0;
    while requests < 7 {
        let mut datagram = [0; 500];
        let count = statsd.recv(&mut datagram).unwrap();
        for line in std::str::from_utf8(&datagram[..count]).unwrap().lines() {
            if let Some(growth) = line.strip_prefix("plimsoll.requests:") {
                requests += growth.strip_suffix("|c").unwrap().parse::<u32>().unwrap();
            }
        }
    }
    assert_eq!(requests, 7);
}
