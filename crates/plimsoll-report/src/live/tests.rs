//! The publishing thread, asked over real sockets; what it publishes is made up.

#![expect(clippy::disallowed_methods, reason = "this crate cannot make sockets and threads by sys")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use plimsoll_model::Nanos;
use plimsoll_model::event::Event;
use plimsoll_model::host::{Metric, Reading};
use plimsoll_model::tally::Interval;

use flate2::read::GzDecoder;

use super::*;
use crate::fixtures;

/// Longer than any test: what is waited for comes, or the test fails.
const FOR_EVER: Duration = Duration::from_secs(60);

fn outlets() -> Outlets {
    let clock = ClockPair { monotonic: Nanos::ZERO, unix_ns: 1_795_227_330_000_000_000 };
    let version = "0.1.0";
    Outlets {
        version,
        clock,
        page: None,
        metrics: None,
        linger: FOR_EVER,
        statsd: None,
        collector: None,
    }
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Returns a listener that other hosts reach, and its address on loopback.
fn any_listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, SocketAddr::from(([127, 0, 0, 1], port)))
}

fn scraped_at(listener: TcpListener) -> Option<MetricsAt> {
    Some(MetricsAt { listener, name: None })
}

/// Publishes until the feed is closed.
fn publish(outlets: Outlets) -> (Feed, JoinHandle<io::Result<()>>) {
    let (feed, inbox) = feed();
    (feed, std::thread::spawn(move || outlets.publish(inbox)))
}

fn head() -> RunHead {
    RunHead { run: "load-1".to_owned(), manifest: fixtures::manifest(false), deadline: None }
}

fn second(second: u32) -> Event {
    Event::Interval(Box::new(Interval { second, tally: fixtures::tally(1_000, 3_000, 1) }))
}

/// Returns the answer to a request, which ends its connection.
fn asked(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(FOR_EVER)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Scrapes until `wanted` is in the answer: what was handed over arrives soon.
fn scraped(address: SocketAddr, wanted: &str) -> String {
    loop {
        let answer = get(address, "/metrics", "");
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        if answer.contains(wanted) {
            return answer;
        }
    }
}

#[test]
fn a_scraper_gets_the_last_figures_and_then_it_is_over() {
    let (listener, address) = listener();
    let (feed, thread) = publish(Outlets { metrics: scraped_at(listener), ..outlets() });
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
    let (_feed, _thread) = publish(Outlets { metrics: scraped_at(listener), ..outlets() });
    let rest = format!("HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    for (request, status) in [
        (format!("GET / {rest}"), "200"),
        (format!("GET /view {rest}"), "404"),
        (format!("POST /metrics {rest}"), "405"),
        ("nonsense\r\n\r\n".to_owned(), "400"),
    ] {
        let answer = asked(address, &request);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{request} {answer}");
    }
    let head = asked(address, &format!("HEAD /metrics {rest}"));
    assert!(head.ends_with("\r\n\r\n"), "{head}");
}

#[test]
fn on_loopback_a_page_elsewhere_cannot_have_its_name_lead_to_the_figures() {
    let (listener, address) = listener();
    let name = Some("proxy1.example".to_owned());
    let (_feed, _thread) =
        publish(Outlets { metrics: Some(MetricsAt { listener, name }), ..outlets() });
    let port = address.port();
    for (host, more, status) in [
        (address.to_string(), "", "200"),
        (format!("localhost:{port}"), "", "200"),
        (format!("proxy1.example:{port}"), "", "200"),
        ("x".to_owned(), "", "421"),
        (format!("evil.example:{port}"), "", "421"),
        (address.to_string(), "Origin: http://evil.example\r\n", "403"),
        (address.to_string(), "Sec-Fetch-Site: cross-site\r\n", "403"),
    ] {
        let request =
            format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n");
        let answer = asked(address, &request);
        assert_eq!(answer.split(' ').nth(1), Some(status), "{request} {answer}");
        assert_eq!(answer.contains("version=0.0.4"), status == "200", "{answer}");
        has_headers(&answer);
    }
    let (listener, address) = any_listener();
    let (_feed, _thread) = publish(Outlets { metrics: scraped_at(listener), ..outlets() });
    // Any client that reaches this host may scrape it, by any name.
    let answer = asked(address, "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
}

/// Far shorter than anything a server waits for by default, and than a test may take.
const NO_PATIENCE: Duration = Duration::from_millis(50);

#[test]
fn connections_that_say_nothing_keep_nobody_out() {
    // They could stay for far longer than an answer is waited for.
    let hour = Duration::from_secs(3_600);
    let patience = Patience { first: hour, next: hour, unread: hour };
    let (metrics, scraped_address) = listener();
    let (listener, address) = listener();
    let page = Some(PageAt { listener, name: None, token: None });
    let outlets = Outlets { page, metrics: scraped_at(metrics), ..outlets() };
    let (feed, inbox) = feed();
    let _thread = std::thread::spawn(move || outlets.publish_with(inbox, patience));
    feed.begin(head());
    let mut viewer = Viewer::after(address, 0);
    let idle: Vec<_> = [address, scraped_address]
        .iter()
        .flat_map(|to| (0..80).map(|index| (*to, index)))
        .map(|(to, index)| {
            let mut stream = TcpStream::connect(to).unwrap();
            // Half of them have begun a request.
            if index % 2 == 0 {
                stream.write_all(b"GET / HTTP/1.1\r\nHo").unwrap();
            }
            stream
        })
        .collect();
    assert!(get(address, "/", "").starts_with("HTTP/1.1 200 "));
    assert!(get(scraped_address, "/metrics", "").starts_with("HTTP/1.1 200 "));
    // Who looks on makes no room.
    note(&feed, "first");
    assert_eq!(viewer.ids(1), names(1, 1));
    drop(idle);
}

#[test]
fn who_asks_for_nothing_is_let_go() {
    let (listener, address) = listener();
    let patience = Patience { first: NO_PATIENCE, next: FOR_EVER, unread: FOR_EVER };
    let outlets = Outlets { metrics: scraped_at(listener), ..outlets() };
    let (_feed, inbox) = feed();
    let _thread = std::thread::spawn(move || outlets.publish_with(inbox, patience));
    let mut silent = TcpStream::connect(address).unwrap();
    silent.set_read_timeout(Some(FOR_EVER)).unwrap();
    silent.write_all(b"GET /metrics HTTP/1.1\r\n").unwrap();
    assert_eq!(silent.read(&mut [0; 16]).unwrap(), 0);
}

#[test]
fn a_viewer_that_does_not_read_loses_its_place() {
    let (listener, address) = listener();
    let patience = Patience { unread: NO_PATIENCE, ..Patience::default() };
    let page = Some(PageAt { listener, name: None, token: None });
    let outlets = Outlets { page, ..outlets() };
    let (feed, inbox) = feed();
    let _thread = std::thread::spawn(move || outlets.publish_with(inbox, patience));
    feed.begin(head());
    let asleep: Vec<Viewer> = (0..16).map(|_| Viewer::after(address, 0)).collect();
    assert!(get(address, "/events?after=0", "").starts_with("HTTP/1.1 503 "));
    // More than sockets and buffers hold.
    let long = "x".repeat(200_000);
    (0..80).for_each(|_| note(&feed, &long));
    let begun = Instant::now();
    while Viewer::new(address, "/events?after=0", "").1.starts_with("HTTP/1.1 503 ") {
        assert!(begun.elapsed() < FOR_EVER, "no viewer has lost its place");
    }
    drop(asleep);
}

#[test]
fn nobody_waits_for_scrapers_that_do_not_come() {
    let (listener, _) = listener();
    let linger = Duration::ZERO;
    let (feed, thread) = publish(Outlets { metrics: scraped_at(listener), linger, ..outlets() });
    drop(feed.close());
    thread.join().unwrap().unwrap();
}

/// Returns the body of the request that arrives next.
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
    // No viewer reads it.
    for at in 0..2_000 {
        feed.handle_event(&second(0), Nanos::from_secs(at));
    }
    let mut messages = inbox.messages;
    let mut count = 0;
    while messages.try_recv().is_ok() {
        count += 1;
    }
    // The last place is taken by the word that others found none.
    assert_eq!(count, 512);
}

/// Returns a page at its own address, and its feed, at which a run has begun.
fn shown(token: Option<&str>) -> (Feed, JoinHandle<io::Result<()>>, SocketAddr) {
    let (listener, address) = listener();
    let token = token.map(str::to_owned);
    let page = Some(PageAt { listener, name: None, token });
    let (feed, thread) = publish(Outlets { page, ..outlets() });
    feed.begin(head());
    (feed, thread, address)
}

/// Returns the answer to a request for `path` with more `headers`.
fn get(address: SocketAddr, path: &str, headers: &str) -> String {
    asked(
        address,
        &format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n{headers}\r\n"),
    )
}

/// Asserts the headers that every answer of a route has, and every refusal.
fn has_headers(answer: &str) {
    for header in [
        "content-security-policy: default-src 'none'; ",
        "x-content-type-options: nosniff\r\n",
        "referrer-policy: no-referrer\r\n",
        "cache-control: no-store\r\n",
        "cross-origin-resource-policy: same-origin\r\n",
    ] {
        assert!(answer.contains(header), "{header} in {answer}");
    }
}

/// A viewer of the live page.
struct Viewer(BufReader<TcpStream>);

impl Viewer {
    /// Connects, and sees the head of the answer.
    fn new(address: SocketAddr, path: &str, headers: &str) -> (Self, String) {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(FOR_EVER)).unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\n{headers}\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut viewer = Self(BufReader::new(stream));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert!(viewer.0.read_line(&mut head).unwrap() > 0, "{head}");
        }
        (viewer, head)
    }

    fn after(address: SocketAddr, seq: u64) -> Self {
        let (viewer, head) = Self::new(address, &format!("/events?after={seq}"), "");
        assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
        viewer
    }

    /// Returns the next field of the stream that is called `name`; `None` at its end.
    fn next(&mut self, name: &str) -> Option<String> {
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 || line == "0\r\n" {
                return None;
            }
            if let Some(value) = line.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")) {
                return Some(value.trim_end().to_owned());
            }
        }
    }

    /// Returns the names of the next changes.
    fn ids(&mut self, count: usize) -> Vec<String> {
        let mut change = || {
            let id = self.next("id").unwrap();
            self.next("data").map(|_| id).unwrap()
        };
        (0..count).map(|_| change()).collect()
    }
}

const PROGRAM: &str = "1795227330000000000";

fn names(from: u64, to: u64) -> Vec<String> {
    (from..=to).map(|seq| format!("{PROGRAM}.{seq}")).collect()
}

fn note(feed: &Feed, text: &str) {
    feed.handle_event(&Event::Note(text.to_owned()), Nanos::ZERO);
}

/// Returns the document as it is fetched.
fn document(address: SocketAddr) -> serde_json::Value {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET /view HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let head = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").unwrap() + 4;
    serde_json::from_reader(GzDecoder::new(&answer[head..])).unwrap()
}

#[test]
fn a_viewer_that_was_cut_off_has_no_gap() {
    let (feed, thread, address) = shown(None);
    (0..5).for_each(|at| note(&feed, &at.to_string()));
    let (mut first, mut second) = (Viewer::after(address, 0), Viewer::after(address, 0));
    assert_eq!(first.ids(3), names(1, 3));
    drop(first);
    (5..8).for_each(|at| note(&feed, &at.to_string()));
    // As a browser does by itself: the header wins over the address, which is that of the first time.
    let again = format!("Last-Event-ID: {PROGRAM}.3\r\n");
    let (mut first, _) = Viewer::new(address, "/events?after=0", &again);
    assert_eq!(first.ids(5), names(4, 8));
    assert_eq!(second.ids(8), names(1, 8));
    // What the document has is not sent again.
    let seq = document(address)["seq"].as_u64().unwrap();
    assert_eq!(seq, 8);
    let mut third = Viewer::after(address, seq);
    feed.end(&fixtures::load_good());
    drop(feed.close());
    assert_eq!(third.next("event").as_deref(), Some("end"));
    for viewer in [&mut first, &mut second] {
        assert_eq!(viewer.next("id"), names(9, 9).pop());
        assert_eq!(viewer.next("id"), None);
    }
    // A viewer that connects again is told to stop, and the page becomes the report.
    let over = get(address, "/events?after=9", "");
    assert!(over.starts_with("HTTP/1.1 204 "), "{over}");
    for _ in 0..3 {
        assert!(document(address)["summary"]["ok"].is_u64());
        assert!(get(address, "/", "").starts_with("HTTP/1.1 200 "));
    }
    thread.join().unwrap().unwrap();
}

#[test]
fn a_viewer_that_reads_nothing_delays_nobody() {
    let (feed, _thread, address) = shown(None);
    let (_asleep, mut awake) = (Viewer::after(address, 0), Viewer::after(address, 0));
    // More than sockets and buffers hold.
    let long = "x".repeat(200_000);
    for batch in 0..8 {
        (0..10).for_each(|_| note(&feed, &long));
        assert_eq!(awake.ids(10), names(10 * batch + 1, 10 * batch + 10));
    }
}

#[test]
fn who_cannot_go_on_is_told_to_begin_again() {
    let (feed, _thread, address) = shown(None);
    note(&feed, "first");
    let mut viewer = Viewer::after(address, 0);
    assert_eq!(viewer.ids(1), names(1, 1));
    // Another search of the same command.
    feed.begin(head());
    assert_eq!(viewer.next("event").as_deref(), Some("reset"));
    assert_eq!(viewer.next("event"), None);
    assert_eq!(document(address)["seq"], 2);
    for (path, header) in [
        ("/events?after=99", ""),
        ("/events?after=nonsense", ""),
        ("/events", "Last-Event-ID: 17.2\r\n"),
        ("/events", "Last-Event-ID: nonsense\r\n"),
    ] {
        let (mut viewer, _) = Viewer::new(address, path, header);
        assert_eq!(viewer.next("event").as_deref(), Some("reset"), "{path} {header}");
    }
}

#[test]
fn only_who_may_look_sees_anything() {
    let (_feed, _thread, address) = shown(Some("0123456789abcdef0123456789abcdef"));
    let at = "/0123456789abcdef0123456789abcdef";
    let page = get(address, &format!("{at}/"), "");
    assert!(page.starts_with("HTTP/1.1 200 OK\r\n"), "{page}");
    for header in [
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n",
    ] {
        assert!(page.contains(header), "{header} in {page}");
    }
    has_headers(&page);
    for paths in ["/", "/view", "/events", "/0123456789abcdef0123456789abcdeX/", "/x/../"] {
        let refused = get(address, paths, "");
        assert!(refused.starts_with("HTTP/1.1 404 "), "{paths} {refused}");
        assert!(!refused.contains("0123456789abcdef"), "{refused}");
        has_headers(&refused);
    }
    let with = |host: &str, more: &str| {
        asked(
            address,
            &format!("GET {at}/view HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{more}\r\n"),
        )
    };
    let host = address.to_string();
    for (answer, status) in [
        (with("evil.example", ""), "421"),
        (with(&format!("evil.example:{}", address.port()), ""), "421"),
        (with(&host, "Origin: http://evil.example\r\n"), "403"),
        (with(&host, "Sec-Fetch-Site: cross-site\r\n"), "403"),
        (with(&format!("localhost:{}", address.port()), ""), "200"),
    ] {
        assert_eq!(answer.split(' ').nth(1), Some(status), "{answer}");
        assert!(!answer.to_lowercase().contains("access-control"), "{answer}");
        has_headers(&answer);
    }
    let changed = format!(
        "POST {at}/view HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    );
    let answer = asked(address, &changed);
    assert!(answer.starts_with("HTTP/1.1 405 "), "{answer}");
    has_headers(&answer);
}

#[test]
fn the_seventeenth_viewer_is_refused_until_one_leaves() {
    let (feed, _thread, address) = shown(None);
    let mut viewers: Vec<Viewer> = (0..16).map(|_| Viewer::after(address, 0)).collect();
    let refused = get(address, "/events?after=0", "");
    assert!(refused.starts_with("HTTP/1.1 503 "), "{refused}");
    // Everything else is still answered.
    assert_eq!(document(address)["run"], "load-1");
    drop(viewers.pop());
    loop {
        // What is written to it shows that it has gone.
        note(&feed, "again");
        let (_viewer, head) = Viewer::new(address, "/events?after=0", "");
        if head.starts_with("HTTP/1.1 200 ") {
            break;
        }
    }
}

#[test]
fn who_looks_on_from_here_is_asked_about_once_and_no_secret_is_shown() {
    let (feed, _thread, address) = shown(None);
    let (mut one, mut two) = (Viewer::after(address, 0), Viewer::after(address, 0));
    note(&feed, "x");
    assert_eq!((one.ids(1), two.ids(1)), (names(1, 1), names(1, 1)));
    let asked = feed.note().unwrap();
    assert!(asked.contains("does the browser with this page run on this machine?"), "{asked}");
    assert_eq!(feed.note(), None);
    let document = document(address).to_string();
    assert!(
        document.contains("127.0.0.1:8443") && !document.contains(fixtures::SECRET),
        "{document}"
    );
}

#[test]
fn before_a_run_begins_its_page_asks_again() {
    let (listener, address) = listener();
    let page = Some(PageAt { listener, name: None, token: None });
    let (_feed, _thread) = publish(Outlets { page, ..outlets() });
    let page = get(address, "/", "");
    assert!(page.starts_with("HTTP/1.1 200 ") && page.contains("http-equiv=\"refresh\""), "{page}");
    assert!(get(address, "/view", "").starts_with("HTTP/1.1 503 "));
}
