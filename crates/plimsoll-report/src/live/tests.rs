//! The publishing thread, asked over real sockets; what it publishes is made up.

#![expect(clippy::disallowed_methods, reason = "this crate cannot make sockets and threads by sys")]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::Duration;

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::host::{Metric, Reading};
use plimsoll_model::tally::Interval;

use super::*;
use crate::fixtures;

/// Longer than any test: what is waited for comes, or the test fails.
const FOR_EVER: Duration = Duration::from_secs(60);

fn outlets() -> Outlets {
    let clock = ClockPair { monotonic: Nanos::ZERO, unix_ns: 1_795_227_330_000_000_000 };
    let version = "0.1.0";
    Outlets { version, clock, metrics: None, linger: FOR_EVER, statsd: None, collector: None }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Publishes until the feed is closed.
fn publish(outlets: Outlets) -> (Feed, JoinHandle<io::Result<()>>) {
    let (feed, inbox) = feed();
    (feed, std::thread::spawn(move || outlets.publish(inbox)))
}

fn head() -> RunHead {
    RunHead { manifest: fixtures::manifest(false), deadline: None }
}

fn second(second: u32) -> Event {
    Event::Interval(Box::new(Interval { second, tally: fixtures::tally(1_000, 3_000, 1) }))
}

/// What a request, which ends its connection, is answered.
fn asked(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(FOR_EVER)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Scrapes until `wanted` is in the answer: what was handed over arrives soon.
fn scraped(address: SocketAddr, wanted: &str) -> String {
    loop {
        let answer =
            asked(address, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        if answer.contains(wanted) {
            return answer;
        }
    }
}

#[test]
fn a_scraper_gets_the_last_figures_and_then_it_is_over() {
    let (listener, address) = listener();
    let (feed, thread) = publish(Outlets { metrics: Some(listener), ..outlets() });
    feed.begin(head());
    for at in 0..2 {
        feed.handle_event(&second(at), Nanos::from_secs(u64::from(at)));
    }
    let mut reading = Reading::default();
    reading.add(Metric::TcpEstablished, &[], 6.0);
    feed.handle_reading("proxy1", &reading);
    let answer = scraped(address, "plimsoll_tcp_established{host=\"proxy1\"} 6\n");
    assert!(
        answer.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"),
        "{answer}"
    );
    assert!(answer.contains("\nplimsoll_operations_total{outcome=\"ok\"} 2000\n"), "{answer}");
    assert!(answer.contains("\nplimsoll_run_finished 0\n"), "{answer}");
    drop(feed.close());
    // One may have begun before the end.
    scraped(address, "\nplimsoll_run_finished 1\n");
    scraped(address, "\nplimsoll_run_finished 1\n");
    thread.join().unwrap().unwrap();
    assert!(TcpStream::connect(address).is_err());
}

#[test]
fn a_scraper_may_ask_for_nothing_else() {
    let (listener, address) = listener();
    let (_feed, _thread) = publish(Outlets { metrics: Some(listener), ..outlets() });
    for (request, status) in [
        ("GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "200"),
        ("GET /view HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", "404"),
        (
            "POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            "405",
        ),
        ("nonsense\r\n\r\n", "400"),
    ] {
        let answer = asked(address, request);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{request} {answer}");
    }
    let head = asked(address, "HEAD /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn nobody_waits_for_scrapers_that_do_not_come() {
    let (listener, _) = listener();
    let linger = Duration::ZERO;
    let (feed, thread) = publish(Outlets { metrics: Some(listener), linger, ..outlets() });
    drop(feed.close());
    thread.join().unwrap().unwrap();
}

/// The body of the request that arrives next.
fn posted(listener: &TcpListener, status: &str) -> serde_json::Value {
    let (mut stream, _) = listener.accept().unwrap();
    let mut request = Vec::new();
    let mut bytes = [0; 65_536];
    let body = loop {
        let count = stream.read(&mut bytes).unwrap();
        request.extend_from_slice(&bytes[..count]);
        let text = String::from_utf8_lossy(&request);
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        assert!(head.starts_with("POST /v1/metrics HTTP/1.1\r\n"), "{head}");
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        if body.len() == length.unwrap().parse::<usize>().unwrap() {
            break serde_json::from_str(body).unwrap();
        }
    };
    let answer = format!("HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}");
    stream.write_all(answer.as_bytes()).unwrap();
    body
}

#[test]
fn a_collector_is_sent_metrics_every_ten_seconds_and_at_the_end() {
    let (listener, address) = listener();
    let collector = Collector::parse(&format!("http://{address}")).unwrap();
    let (feed, thread) = publish(Outlets { collector: Some(collector), ..outlets() });
    feed.begin(head());
    for at in 0..=10 {
        feed.handle_event(&second(at), Nanos::from_secs(u64::from(at)));
    }
    let ok = |body: &serde_json::Value| {
        let metrics = body.pointer("/resourceMetrics/0/scopeMetrics/0/metrics").unwrap();
        let mut metrics = metrics.as_array().unwrap().iter();
        let of = metrics.find(|metric| metric["name"] == "plimsoll_operations_total").unwrap();
        let point = &of["sum"]["dataPoints"][0];
        (point["asDouble"].as_f64().unwrap(), point["timeUnixNano"].as_str().unwrap().to_owned())
    };
    assert_eq!(ok(&posted(&listener, "200 OK")), (11_000.0, "1795227340000000000".to_owned()));
    feed.handle_event(&second(11), Nanos::from_secs(11));
    let notes = feed.close();
    assert_eq!(ok(&posted(&listener, "503 Busy")).0, 12_000.0);
    thread.join().unwrap().unwrap();
    let note = notes.try_recv().unwrap();
    assert!(
        note.contains("--otlp: cannot send metrics to http://127.0.0.1:")
            && note.contains("503 Busy"),
        "{note}"
    );
}

#[test]
fn a_thread_that_gets_no_cpu_delays_nobody() {
    let (feed, inbox) = feed();
    // Nobody reads it.
    for at in 0..2_000 {
        feed.handle_event(&second(0), Nanos::from_secs(at));
    }
    let mut messages = inbox.messages;
    let mut count = 0;
    while messages.try_recv().is_ok() {
        count += 1;
    }
    assert_eq!(count, 512);
}
