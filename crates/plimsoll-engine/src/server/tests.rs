//! The server over real loopback sockets, with a service that is controlled by headers.
#![expect(
    clippy::disallowed_methods,
    reason = "a blocking client is the simplest independent judge"
)]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use plimsoll_model::Nanos;
use plimsoll_model::plan::{DeliveryFaults, ServerName, Spoken, TlsOptions, TlsState, Trust};
use plimsoll_proto::http1::Request;
use plimsoll_sys::clock;
use plimsoll_sys::socket::Socket;
use plimsoll_tls::{ClientContext, HandshakeKind, KeyKind, Session, ThreadContext};

use super::*;

mod kept;
mod mqtt;
mod websocket;

/// A test that waits longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(20);
const PATTERN: &[u8] = b"abcdefg";

/// `delay` (ms, before every piece), `size`, `further` (chunks) and `refuse`.
struct Obedient;

#[derive(Default)]
struct Notes {
    delay_ms: u64,
    size: Option<u32>,
    further: Option<u32>,
    refuse: bool,
}

impl Service for Obedient {
    type Notes = Notes;

    const PATTERN: &'static [u8] = PATTERN;

    fn handle_header(&mut self, notes: &mut Notes, name: &str, value: &[u8]) {
        let number = || std::str::from_utf8(value).unwrap().parse::<u32>().unwrap();
        match name {
            "delay" => notes.delay_ms = u64::from(number()),
            "size" => notes.size = Some(number()),
            "further" => notes.further = Some(number()),
            "refuse" => notes.refuse = true,
            _ => {}
        }
    }

    fn handle_request(&mut self, notes: &Notes, _request: &Request) -> Answer {
        if notes.refuse {
            return Answer::Refusal { status: 400, text: "as you wish".to_owned() };
        }
        Answer::Body(Body {
            delay: Nanos::from_millis(notes.delay_ms),
            piece_bytes: notes.size.unwrap_or(PATTERN.len() as u32),
            pieces_further: notes.further.unwrap_or(0),
            chunked: notes.further.is_some(),
            token: notes.delay_ms,
            push_every_ms: 0,
        })
    }

    fn next_delay(&mut self, token: u64) -> Nanos {
        Nanos::from_millis(token)
    }
}

fn plan() -> ServePlan {
    ServePlan {
        listeners: vec![Listener {
            address: "127.0.0.1:0".parse().unwrap(),
            tls: false,
            spoken: Spoken::Http,
        }],
        identity: None,
        ticket_key: None,
        threads: 1,
        cpus: Vec::new(),
        tls_state: TlsState::Compact,
        statsd: None,
        seed: 0,
        request_timeout: Nanos::from_secs(60),
        idle_timeout: Nanos::from_secs(60),
        acknowledgement_delay: Nanos::ZERO,
        receive_maximum: u16::MAX,
        delivery_faults: DeliveryFaults::default(),
        accept_proxy: false,
    }
}

fn serve(plan: &ServePlan) -> (ServerHandle, SocketAddr) {
    let server = start(plan, |_| Obedient).unwrap();
    let address = server.addresses()[0].address;
    (server, address)
}

/// Waits for a counter without sleeping.
fn until(server: &ServerHandle, condition: impl Fn(&Counters) -> bool) -> Counters {
    let begun = clock::monotonic_ns();
    loop {
        let counters = server.counters();
        if condition(&counters) {
            return counters;
        }
        let waited = Duration::from_nanos(clock::monotonic_ns() - begun);
        assert!(waited < PATIENCE, "still {counters:?}");
        std::thread::yield_now();
    }
}

struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        Self(stream)
    }

    fn send(&mut self, bytes: impl AsRef<[u8]>) {
        self.0.write_all(bytes.as_ref()).unwrap();
    }

    /// A head up to its empty line.
    fn head(&mut self) -> String {
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            let count = self.0.read(&mut byte).unwrap();
            assert_eq!(count, 1, "the stream ended in {:?}", String::from_utf8_lossy(&head));
            head.push(byte[0]);
        }
        String::from_utf8(head).unwrap()
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = vec![0; count];
        self.0.read_exact(&mut bytes).unwrap();
        bytes
    }

    /// A response of known length: status and body.
    fn response(&mut self) -> (u16, Vec<u8>) {
        let head = self.head();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("Content-Length: "))
            .map_or(0, |length| length.parse().unwrap());
        (status, self.bytes(length))
    }

    /// Everything until the server's end of stream.
    fn rest(mut self) -> String {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).unwrap();
        String::from_utf8(rest).unwrap()
    }
}

fn request(headers: &str) -> String {
    format!("GET / HTTP/1.1\r\nHost: test\r\n{headers}\r\n")
}

fn pattern(size: usize) -> Vec<u8> {
    PATTERN.iter().copied().cycle().take(size).collect()
}

#[test]
fn keep_alive_serves_one_request_after_the_other() {
    let (server, address) = serve(&plan());
    let mut client = Client::connect(address);
    for size in [0, 1, 7, 20_000, 300_000] {
        client.send(request(&format!("size: {size}\r\n")));
        assert_eq!(client.response(), (200, pattern(size)));
    }
    let counters = until(&server, |counters| counters.requests == 5);
    assert_eq!((counters.conns_accepted, counters.conns_open), (1, 1));
    drop(client);
    let counters = until(&server, |counters| counters.conns_open == 0);
    assert_eq!((counters.conns_reset, counters.conns_truncated), (0, 0));
}

#[test]
fn bytes_in_any_cut_are_the_same_request() {
    let (_server, address) = serve(&plan());
    let mut client = Client::connect(address);
    client.0.set_nodelay(true).unwrap();
    let post = "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 5\r\nsize: 3\r\n\r\nhello";
    for byte in post.bytes() {
        client.send([byte]);
    }
    assert_eq!(client.response(), (200, pattern(3)));
}

#[test]
fn pipelined_requests_are_answered_in_order_whatever_their_delays() {
    let (server, address) = serve(&plan());
    let mut client = Client::connect(address);
    let sizes: Vec<usize> = (1..60).collect();
    let pipeline: String = sizes
        .iter()
        .map(|size| request(&format!("size: {size}\r\ndelay: {}\r\n", size % 3)))
        .collect();
    client.send(pipeline);
    for size in &sizes {
        assert_eq!(client.response(), (200, pattern(*size)));
    }
    assert_eq!(until(&server, |c| c.requests == 59).conns_accepted, 1);
}

#[test]
fn a_long_pipeline_with_large_answers_is_answered_whole() {
    let (_server, address) = serve(&plan());
    let mut client = Client::connect(address);
    let mut writer = client.0.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let pipeline = request("size: 3000\r\n").repeat(5_000);
        writer.write_all(pipeline.as_bytes()).unwrap();
    });
    let expected = pattern(3000);
    for _ in 0..5_000 {
        assert!(client.response() == (200, expected.clone()));
    }
    sender.join().unwrap();
}

#[test]
fn chunks_come_one_by_one_each_after_its_delay() {
    let (_server, address) = serve(&plan());
    let mut client = Client::connect(address);
    let begun = clock::monotonic_ns();
    client.send(request("size: 5\r\nfurther: 3\r\ndelay: 2\r\n"));
    assert!(client.head().contains("Transfer-Encoding: chunked"));
    assert_eq!(
        client.bytes(10 * 4 + 5),
        b"5\r\nabcde\r\n".repeat(4).into_iter().chain(*b"0\r\n\r\n").collect::<Vec<_>>()
    );
    // A lower bound only: a busy machine may need any time longer.
    assert!(clock::monotonic_ns() - begun >= 4 * 2_000_000);

    // A large piece comes in several chunks; an empty one must not end the body.
    client.send(request("size: 40000\r\nfurther: 0\r\n"));
    client.head();
    for size in [16_384, 16_384, 7_232] {
        let line = format!("{size:x}\r\n");
        assert_eq!(client.bytes(line.len()), line.as_bytes());
        client.bytes(size + 2);
    }
    assert_eq!(client.bytes(5), b"0\r\n\r\n");
    client.send(request("size: 0\r\nfurther: 100000\r\n"));
    client.head();
    assert_eq!(client.bytes(5), b"0\r\n\r\n");
}

#[test]
fn http10_gets_a_length_and_head_gets_no_body() {
    let (_server, address) = serve(&plan());
    let mut client = Client::connect(address);
    client.send("HEAD / HTTP/1.1\r\nHost: t\r\nsize: 9\r\n\r\n");
    assert!(client.head().contains("Content-Length: 9\r\n"));
    client.send("HEAD / HTTP/1.1\r\nHost: t\r\nfurther: 9\r\n\r\n");
    assert!(client.head().contains("Transfer-Encoding: chunked\r\n"));
    client.send("HEAD / HTTP/1.1\r\nHost: t\r\nrefuse: 1\r\n\r\n");
    assert!(client.head().starts_with("HTTP/1.1 400 "));
    client.send("GET / HTTP/1.0\r\nsize: 3\r\nfurther: 2\r\ndelay: 1\r\n\r\n");
    let rest = client.rest();
    assert!(rest.contains("Content-Length: 9\r\n") && rest.contains("Connection: close"), "{rest}");
    assert!(rest.ends_with("\r\n\r\nabcabcabc"), "{rest}");
}

#[test]
fn a_refusal_by_the_service_keeps_the_connection() {
    let (server, address) = serve(&plan());
    let mut client = Client::connect(address);
    client.send(request("refuse: 1\r\n") + &request(""));
    assert_eq!(client.response(), (400, b"as you wish\n".to_vec()));
    assert_eq!(client.response(), (200, PATTERN.to_vec()));
    until(&server, |c| (c.requests, c.requests_refused) == (2, 1));
}

#[test]
fn what_is_not_http_is_answered_and_closed() {
    let (server, address) = serve(&plan());
    let huge = format!("GET / HTTP/1.1\r\nHost: t\r\nfiller: {}\r\n\r\n", "x".repeat(1 << 20));
    let cases: [(&[u8], &str); 6] = [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello\r\n\r\n", "400"),
        (b"hello\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\n\r\n", "400"),
        (huge.as_bytes(), "431"),
        (b"POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: gzip\r\n\r\n", "501"),
        (b"GET / HTTP/3.7\r\nHost: t\r\n\r\n", "505"),
    ];
    for (bytes, status) in cases {
        let mut client = Client::connect(address);
        // A large request may find the connection shut before it is sent whole.
        let _ = client.0.write_all(bytes);
        let rest = client.rest();
        assert!(rest.starts_with(&format!("HTTP/1.1 {status} ")), "{status}: {rest}");
        assert!(rest.contains("Connection: close"), "{rest}");
    }
    let counters = until(&server, |counters| counters.conns_open == 0);
    assert_eq!(counters.requests_malformed, 6);
    // The good requests before a bad one are answered.
    let mut client = Client::connect(address);
    client.send(request("") + "nonsense\r\n\r\n" + &request(""));
    assert_eq!(client.response(), (200, PATTERN.to_vec()));
    assert_eq!(client.response().0, 400);
    assert_eq!(client.rest(), "");
}

#[test]
fn half_requests_get_408_and_silence_gets_a_close() {
    let short = Nanos::from_millis(20);
    let (server, address) = serve(&ServePlan { request_timeout: short, ..plan() });
    for half in
        ["G", "GET / HTTP/1.1\r\nHost:", "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 9\r\n\r\n1"]
    {
        let mut client = Client::connect(address);
        client.send(half);
        assert!(client.rest().starts_with("HTTP/1.1 408 "), "{half}");
    }
    assert_eq!(until(&server, |c| c.conns_open == 0).conns_timed_out, 3);

    let (server, address) = serve(&ServePlan { idle_timeout: short, ..plan() });
    assert_eq!(Client::connect(address).rest(), "");
    // An answer may sleep for longer. A client that is slow to ask is closed, and asks again.
    let mut answer = String::new();
    while answer.is_empty() {
        let mut client = Client::connect(address).0;
        let sent = client.write_all(request("delay: 50\r\n").as_bytes());
        let _ = sent.and_then(|()| client.read_to_string(&mut answer));
    }
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("abcdefg"), "{answer}");
    assert_eq!(until(&server, |c| c.conns_open == 0).conns_timed_out, 0);
}

#[test]
fn a_peer_that_has_said_everything_still_gets_its_answers() {
    let (server, address) = serve(&plan());
    for headers in ["", "delay: 5\r\n", "size: 3000000\r\n"] {
        let mut client = Client::connect(address);
        client.send(request(headers).repeat(3));
        client.0.shutdown(Shutdown::Write).unwrap();
        let rest = client.rest();
        assert_eq!(rest.matches("HTTP/1.1 200 OK").count(), 3, "{headers}");
    }
    let counters = until(&server, |counters| counters.conns_open == 0);
    assert_eq!((counters.requests, counters.conns_truncated), (9, 0));
    let mut client = Client::connect(address);
    client.send("GET / HT");
    client.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.rest(), "");
    until(&server, |counters| counters.conns_truncated == 1);
}

#[test]
fn a_reset_ends_a_sleeping_connection() {
    let (server, address) = serve(&plan());
    let (socket, _) = Socket::connect(address, None).unwrap();
    until(&server, |counters| counters.conns_open == 1);
    socket.send(request("delay: 3600000\r\n").as_bytes()).unwrap();
    until(&server, |counters| counters.rx_bytes > 0);
    socket.reset_on_close().unwrap();
    drop(socket);
    let counters = until(&server, |counters| counters.conns_open == 0);
    assert_eq!((counters.conns_reset, counters.requests), (1, 0));
}

#[test]
fn a_body_is_asked_for_and_counted() {
    let (server, address) = serve(&plan());
    let mut client = Client::connect(address);
    let size = 5_000_000;
    client.send(format!(
        "POST / HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: {size}\r\n\r\n"
    ));
    assert_eq!(client.head(), "HTTP/1.1 100 Continue\r\n\r\n");
    client.send(vec![b'x'; size]);
    assert_eq!(client.response(), (200, PATTERN.to_vec()));
    until(&server, |counters| counters.request_body_bytes == size as u64);
}

#[test]
fn slow_readers_get_every_byte_and_hinder_nobody() {
    const SIZE: usize = 24 << 20;
    let (server, address) = serve(&plan());
    let mut slow: Vec<_> = ["", "further: 1\r\n"]
        .map(|headers| {
            let mut client = Client::connect(address);
            client.send(request(&format!("size: {SIZE}\r\n{headers}")));
            client
        })
        .into();
    // The kernel's buffers are full long before the end, and others are served meanwhile.
    let mut client = Client::connect(address);
    for _ in 0..500 {
        client.send(request("size: 0\r\n"));
        assert_eq!(client.response(), (200, vec![]));
    }
    let counters = until(&server, |counters| counters.requests == 500);
    assert!(counters.tx_bytes < 2 * SIZE as u64, "{counters:?}");
    assert!(slow[0].response() == (200, pattern(SIZE)));
    slow[1].head();
    let mut left = 2 * SIZE;
    let mut body = Vec::new();
    while left > 0 {
        let mut line = Vec::new();
        while !line.ends_with(b"\r\n") {
            line.extend(slow[1].bytes(1));
        }
        let text = std::str::from_utf8(&line[..line.len() - 2]).unwrap();
        let size = usize::from_str_radix(text, 16).unwrap();
        body.extend(slow[1].bytes(size));
        slow[1].bytes(2);
        left -= size;
    }
    assert!(body[..SIZE] == pattern(SIZE) && body[SIZE..] == pattern(SIZE));
    assert_eq!(slow[1].bytes(5), b"0\r\n\r\n");
}

#[test]
fn a_reader_that_stops_reading_is_given_up() {
    let idle_timeout = Nanos::from_millis(50);
    let (server, address) = serve(&ServePlan { idle_timeout, ..plan() });
    let mut client = Client::connect(address);
    client.send(request("size: 1000000000\r\n"));
    until(&server, |counters| counters.conns_timed_out == 1 && counters.conns_open == 0);
    drop(client);
}

#[test]
fn many_connections_at_once_over_several_workers() {
    let (server, address) = serve(&ServePlan { threads: 3, ..plan() });
    let mut clients: Vec<_> = (0..300).map(|_| Client::connect(address)).collect();
    for round in 0..3 {
        for (index, client) in clients.iter_mut().enumerate() {
            client.send(request(&format!("size: {index}\r\ndelay: {round}\r\n")));
        }
        for (index, client) in clients.iter_mut().enumerate() {
            assert_eq!(client.response(), (200, pattern(index)));
        }
    }
    let counters = until(&server, |counters| counters.requests == 900);
    assert_eq!((counters.conns_accepted, counters.conns_open), (300, 300));
    server.stop();
    server.join().unwrap();
    for client in clients {
        assert_eq!(client.rest(), "");
    }
}

#[test]
fn whatever_peers_do_the_server_is_there_for_the_next_one() {
    let short = Nanos::from_millis(30);
    let plan = ServePlan { request_timeout: short, idle_timeout: short, threads: 2, ..plan() };
    let (server, address) = serve(&plan);
    let menu = [
        request("size: 200000\r\n"),
        request("delay: 1\r\nsize: 70000\r\nfurther: 2\r\n"),
        request("refuse: 1\r\n"),
        "POST / HTTP/1.1\r\nHost: t\r\nContent-Length: 100000\r\n\r\n".to_owned(),
        "POST / HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab".to_owned(),
        "\0\u{7f}rubbish\r\n".to_owned(),
        "\r\n\r\n".to_owned(),
    ];
    // A fixed walk over the combinations; 2,654,435,761 is odd, so all of them come up.
    let mut chance = 1u32;
    let mut draw = |below: usize| {
        chance = chance.wrapping_mul(2_654_435_761).wrapping_add(12_345);
        (chance >> 8) as usize % below
    };
    for _ in 0..400 {
        let (socket, _) = Socket::connect(address, None).unwrap();
        let mut bytes = String::new();
        for _ in 0..draw(6) {
            bytes += &menu[draw(menu.len())];
        }
        let cut = draw(bytes.len() + 1);
        // The peer may be too quick or the server; either may have given up already.
        let _ = socket.send(&bytes.as_bytes()[..cut]);
        if draw(2) == 0 {
            let _ = socket.send(&bytes.as_bytes()[cut..]);
        }
        match draw(3) {
            0 => drop(socket.reset_on_close()),
            1 => drop(socket.shutdown_write()),
            _ => {}
        }
    }
    until(&server, |counters| counters.conns_accepted >= 350 && counters.conns_open == 0);
    let mut client = Client::connect(address);
    client.send(request("Connection: close\r\n"));
    assert_eq!(client.response(), (200, PATTERN.to_vec()));
}

/// A blocking TLS client on our own session type.
struct TlsClient {
    stream: TcpStream,
    session: Session,
    plaintext: Vec<u8>,
    closed: bool,
    thread: ThreadContext,
}

impl TlsClient {
    fn connect(address: SocketAddr, context: &ClientContext) -> Self {
        let session = context.session(&ServerName("localhost".to_owned()), true).unwrap();
        let stream = Client::connect(address).0;
        let thread = ThreadContext::new(8);
        Self { stream, session, thread, plaintext: Vec::new(), closed: false }
    }

    fn send(&mut self, bytes: &[u8]) {
        let mut wire = Vec::new();
        self.session.write_plaintext(&mut self.thread, bytes, &mut wire).unwrap();
        self.stream.write_all(&wire).unwrap();
    }

    fn flush(&mut self) {
        let mut wire = Vec::new();
        self.session.poll_transmit(&mut self.thread, &mut wire);
        self.stream.write_all(&wire).unwrap();
    }

    /// Reads until `enough` says so or the stream ends.
    fn read_until(&mut self, enough: impl Fn(&[u8]) -> bool) {
        let mut buffer = vec![0; 50_000];
        while !enough(&self.plaintext) {
            let count = self.stream.read(&mut buffer).unwrap();
            let (thread, plaintext) = (&mut self.thread, &mut self.plaintext);
            let received =
                self.session.handle_ciphertext(thread, &buffer[..count], plaintext).unwrap();
            self.closed |= received.peer_closed;
            self.flush();
            if count == 0 {
                return;
            }
        }
    }
}

#[test]
fn tls_carries_the_same() {
    let identity =
        plimsoll_tls::self_signed(&["localhost".to_owned()], KeyKind::EcdsaP256).unwrap();
    let trust = Trust::Roots(identity.chain_pem.clone());
    let mut plan = ServePlan { identity: Some(identity), ..plan() };
    plan.listeners[0].tls = true;
    let (server, address) = serve(&plan);
    let options = TlsOptions { trust, resume_ratio: 1.0, ..TlsOptions::default() };
    let context = ClientContext::new(&options).unwrap();
    let size = 3_000_000;
    for expected in [HandshakeKind::Full, HandshakeKind::Resumed] {
        let mut client = TlsClient::connect(address, &context);
        let large = format!("size: {size}\r\nConnection: close\r\n");
        client.send((request("delay: 3\r\n") + &request(&large)).as_bytes());
        client.read_until(|_| false);
        assert_eq!(client.session.handshake().unwrap().kind, expected);
        assert!(client.closed, "no close_notify");
        let text = client.plaintext;
        assert_eq!(text.windows(15).filter(|w| w == b"HTTP/1.1 200 OK").count(), 2);
        assert!(text.ends_with(&pattern(size)));
    }
    let counters = until(&server, |c| c.conns_open == 0);
    assert_eq!((counters.handshakes_full, counters.handshakes_resumed), (1, 1));
    assert_eq!((counters.requests, counters.tls_failed), (4, 0));

    // Plain HTTP on a TLS port gets an alert and a close, silence a close.
    let mut client = Client::connect(address);
    client.send(request(""));
    let mut alert = Vec::new();
    client.0.read_to_end(&mut alert).unwrap();
    assert_eq!(alert.first(), Some(&21), "{alert:?}");
    assert_eq!(until(&server, |c| c.conns_open == 0).tls_failed, 1);
}

#[test]
fn a_handshake_that_does_not_end_is_given_up() {
    let identity =
        plimsoll_tls::self_signed(&["localhost".to_owned()], KeyKind::EcdsaP256).unwrap();
    let request_timeout = Nanos::from_millis(20);
    let mut plan = ServePlan { identity: Some(identity), request_timeout, ..plan() };
    plan.listeners[0].tls = true;
    let (server, address) = serve(&plan);
    let client = Client::connect(address);
    until(&server, |c| c.conns_timed_out == 1 && c.conns_open == 0);
    drop(client);
}

#[test]
fn what_cannot_start_says_why_in_one_line() {
    let foreign =
        Listener { address: "192.0.2.1:80".parse().unwrap(), tls: false, spoken: Spoken::Http };
    let tls = Listener { tls: true, ..plan().listeners[0] };
    for (plan, text) in [
        (ServePlan { listeners: vec![foreign], ..plan() }, "cannot listen on 192.0.2.1:80: this"),
        (ServePlan { listeners: vec![tls], ..plan() }, "no certificate"),
        (ServePlan { listeners: vec![], ..plan() }, "the plan has 0 and 1"),
        (ServePlan { threads: 0, ..plan() }, "the plan has 1 and 0"),
    ] {
        let message = start(&plan, |_| Obedient).unwrap_err().to_string();
        assert!(message.contains(text) && !message.contains('\n'), "{message}");
    }
    let busy = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = busy.local_addr().unwrap();
    let plan = ServePlan {
        listeners: vec![Listener { address, tls: false, spoken: Spoken::Http }],
        ..plan()
    };
    let message = start(&plan, |_| Obedient).unwrap_err().to_string();
    assert!(message.contains(&address.to_string()) && message.contains("another program"));
}
