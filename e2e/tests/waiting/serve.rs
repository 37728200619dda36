//! `plimsoll serve` judged by clients of another make, and by bytes that no client sends.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream, UdpSocket};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use e2e::certificate::{Certificate, NAME};
use e2e::plimsoll::Plimsoll;
use e2e::process::Process;
use e2e::serve::Serve;
use e2e::{process, program, wait};

/// Runs a client to its end.
fn run(name: &str, arguments: &[&str]) -> Output {
    let mut command = Command::new(program::installed(name));
    command.args(arguments).stdin(Stdio::null()).output().expect("an installed program can be run")
}

/// Returns the output of curl with `arguments`; it must not fail.
fn curl(arguments: &[&str]) -> String {
    let output = run("curl", &[&["-sS", "--max-time", "30", "--noproxy", "*"], arguments].concat());
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the head of an answer, in lower case.
fn head(answer: &str) -> String {
    answer.split("\r\n\r\n").next().unwrap_or_default().to_ascii_lowercase()
}

#[test]
fn curl_gets_what_the_headers_ask_for() {
    let serve = Serve::plain();
    let url = serve.url();
    assert_eq!(curl(&[url]), "pong");
    assert_eq!(curl(&["-H", "size: 100000", url]).len(), 100_000);
    assert_eq!(curl(&["-H", "size: 0", url]), "");
    // One piece and three further ones.
    assert_eq!(curl(&["-H", "times: 3", url]), "pong".repeat(4));
    let chunked = curl(&["-i", "-H", "times: 1", "-H", "sleep-fixed: 1", url]);
    assert!(head(&chunked).contains("transfer-encoding: chunked"), "{chunked}");
    let pieces = curl(&["-H", "times: 2", "-H", "size: 70000", "-H", "sleep: 2", url]);
    assert_eq!(pieces.len(), 210_000);
    // Lower bounds only: how much longer it takes is not the server's alone.
    let timed = ["-o", "/dev/null", "-w", "%{time_starttransfer} %{time_total}"];
    let times = curl(&[&timed[..], &["-H", "sleep-fixed: 120", "-H", "times: 1", url]].concat());
    let times: Vec<f64> = times.split(' ').filter_map(|text| text.parse().ok()).collect();
    assert!(times[0] >= 0.12 && times[1] >= 0.24, "{times:?}");
    let refused = curl(&["-i", "-H", "sleep: soon", url]);
    assert!(refused.starts_with("HTTP/1.1 400 ") && refused.contains("soon"), "{refused}");
    assert_eq!(serve.stop().0, 8);
}

#[test]
fn a_session_is_resumed_by_whichever_process_the_connection_comes_to() {
    let serve = Serve::start(&["--https", "127.0.0.1:0", "--processes", "3"], 1);
    // One connection after the other, each with the ticket of the one before.
    let flags = ["-k", "--no-keepalive", "--resume", "1", "--rate", "0", "-c", "1", "-t", "1"];
    let load = Plimsoll::load(serve.url(), &[&flags[..], &["-n", "60"]].concat());
    let summary = load.run().summary(0);
    summary.assert_all_ok(60);
    let (full, resumed) = (summary.count("handshakes.full"), summary.count("handshakes.resumed"));
    // The first ones have no ticket yet. By chance alone a third would come to their giver.
    assert!(full <= 3 && full + resumed == 60, "{full} full, {resumed} resumed");
}

#[test]
fn curl_sends_bodies_in_every_way() {
    let serve = Serve::plain();
    let url = serve.url();
    assert_eq!(curl(&["-d", "ping", url]), "pong");
    let folder = tempfile::tempdir().expect("the temporary directory is writable");
    let body = folder.path().join("body");
    fs::write(&body, vec![b'x'; 3_000_000]).expect("an own folder is writable");
    let file = format!("@{}", body.display());
    let upload = body.display().to_string();
    assert_eq!(curl(&["--data-binary", &file, url]), "pong");
    assert_eq!(curl(&["-T", &upload, "-H", "Transfer-Encoding: chunked", url]), "pong");
    // curl says Expect: 100-continue itself from 1 MB on; here it must be answered at once.
    let expect = ["-v", "-H", "Expect: 100-continue", "--expect100-timeout", "25"];
    let output = run("curl", &[&["-sS"], &expect[..], &["-d", "ping", url]].concat());
    assert_eq!(output.stdout, b"pong");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("HTTP/1.1 100 Continue"), "{said}");
    let answer = curl(&["-I", url]);
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(head(&answer).contains("content-length: 4"), "{answer}");
    for method in ["PUT", "DELETE", "OPTIONS", "PATCH"] {
        assert_eq!(curl(&["-X", method, url]), "pong");
    }
    // Two transfers, one connection.
    let reused = curl(&["-o", "/dev/null", "-w", "%{num_connects}", url, "-o", "/dev/null", url]);
    assert_eq!(reused, "10");
    let old = curl(&["-0", "-i", url]);
    assert!(old.contains("pong"), "{old}");
    assert!(head(&old).contains("connection: close"), "{old}");
    // HTTP/1.0 knows no chunks: the end of the connection is the end of the body.
    let old = curl(&["-0", "-i", "-H", "times: 2", url]);
    assert!(old.ends_with("\r\n\r\npongpongpong"), "{old}");
    assert!(!head(&old).contains("chunked"), "{old}");
}

#[test]
fn curl_verifies_us_over_both_tls_versions() {
    let certificate = Certificate::new();
    let (chain, key) = (certificate.chain_argument(), certificate.key_argument());
    let flags = ["--https", "127.0.0.1:0", "--cert", &chain, "--key", &key];
    let serve = Serve::start(&flags, 1);
    let port = serve.address().port();
    let named = format!("https://{NAME}:{port}/");
    let resolve = format!("{NAME}:{port}:127.0.0.1");
    let trusting = ["--cacert", &chain, "--resolve", &resolve];
    for version in [["--tlsv1.2", "--tls-max", "1.2"], ["--tlsv1.3", "--tls-max", "1.3"]] {
        for url in [serve.url(), &named] {
            let answer = curl(&[&trusting[..], &version, &["-H", "times: 1", url]].concat());
            assert_eq!(answer, "pongpong");
        }
    }
    // 60: curl cannot verify the server.
    assert_eq!(run("curl", &["-sS", serve.url()]).status.code(), Some(60));
    let made = Serve::start(&["--https", "127.0.0.1:0"], 1);
    assert_eq!(curl(&["-k", made.url()]), "pong");
    // Not TLS at all: an alert or a close, and the server goes on.
    let plain = made.url().replace("https", "http");
    assert!(!run("curl", &["-sS", "--max-time", "30", &plain]).status.success());
    assert_eq!(curl(&["-k", made.url()]), "pong");
}

#[test]
fn wrk_and_ab_complete_without_an_error() {
    let flags = ["--http", "127.0.0.1:0", "--https", "127.0.0.1:0"];
    let serve = Serve::start(&flags, 2);
    for url in &serve.urls {
        let output = run("wrk", &["-t1", "-c32", "-d1s", "-H", "sleep: 2", url]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("requests in"), "{output:?}");
        assert!(!text.contains("Non-2xx") && !text.contains("Socket errors"), "{text}");
        for keep_alive in [true, false] {
            let flags = ["-q", "-n", "1000", "-c", "20"];
            let flags = if keep_alive { [&flags[..], &["-k"]].concat() } else { flags.to_vec() };
            let output = run("ab", &[&flags[..], &[url]].concat());
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let figure = |name: &str| {
                let line = text.lines().find_map(|line| line.strip_prefix(name));
                line.and_then(|rest| rest.trim().parse::<u32>().ok())
            };
            assert_eq!(figure("Complete requests:"), Some(1000), "{text}");
            assert_eq!(figure("Failed requests:"), Some(0), "{text}");
            assert_eq!(figure("Non-2xx responses:"), None, "{text}");
            assert_eq!(figure("Keep-Alive requests:"), keep_alive.then_some(1000), "{text}");
        }
    }
}

/// Returns a connection that gives up rather than block a test for ever.
fn connect(serve: &Serve) -> TcpStream {
    let stream = TcpStream::connect(serve.address()).expect("the server accepts");
    stream.set_read_timeout(Some(wait::PATIENCE)).expect("a positive time");
    stream
}

/// Returns all that comes until the server closes; a reset is not a close.
fn read_to_close(stream: &mut TcpStream) -> String {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).expect("the server closes in order");
    String::from_utf8(bytes).expect("text")
}

#[test]
fn what_is_not_http_is_refused_and_the_server_goes_on() {
    let serve = Serve::plain();
    let long = format!("GET / HTTP/1.1\r\nHost: x\r\nx: {}\r\n\r\n", "y".repeat(1 << 20));
    let many = format!("GET / HTTP/1.1\r\nHost: x\r\n{}\r\n", "x: y\r\n".repeat(20_000));
    for (bytes, status) in [
        (&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03garbage\r\n\r\n"[..], "400"),
        (b"hello\r\n\r\n", "400"),
        (b"GET / HTTP/3.0\r\nHost: x\r\n\r\n", "505"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", "400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "400"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "400"),
        (b"GET / HTTP/1.1\r\nbroken header\r\n\r\n", "400"),
        (long.as_bytes(), "431"),
        (many.as_bytes(), "431"),
    ] {
        let mut stream = connect(&serve);
        let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
        stream.write_all(bytes).expect("the server reads on after its answer");
        let answer = read_to_close(&mut stream);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown:?}: {answer}");
        assert!(head(&answer).contains("connection: close"), "{shown:?}: {answer}");
        assert_eq!(answer.matches("\r\n\r\n").count(), 1, "{shown:?}: {answer}");
    }
    assert_eq!(curl(&[serve.url()]), "pong");
}

#[test]
fn half_requests_do_no_harm() {
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--request-timeout", "300ms"], 1);
    // Closed in the middle of a head and of a body.
    for half in ["GET / HTTP/1.1\r\nHo", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"]
    {
        let mut stream = connect(&serve);
        stream.write_all(half.as_bytes()).expect("the server reads");
        stream.shutdown(Shutdown::Write).expect("it is open");
        assert_eq!(read_to_close(&mut stream), "");
    }
    // Left open: the server's own timer ends the wait.
    for half in ["GET / HTTP/1.1\r\nHo", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n1"]
    {
        let mut stream = connect(&serve);
        stream.write_all(half.as_bytes()).expect("the server reads");
        let answer = read_to_close(&mut stream);
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
    // Half-closed behind a whole request: it is answered.
    let mut stream = connect(&serve);
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").expect("the server reads");
    stream.shutdown(Shutdown::Write).expect("it is open");
    assert!(read_to_close(&mut stream).ends_with("\r\n\r\npong"));
    // Refusals are answers, too.
    assert_eq!(serve.stop().0, 2 + 1);
}

#[test]
fn a_hundred_requests_in_one_write_are_answered_in_order() {
    let serve = Serve::plain();
    let mut stream = connect(&serve);
    let mut requests = String::new();
    for number in 1..=100 {
        // The size tells which answer it is; sleeps must not let a later one overtake.
        let sleep = if number % 10 == 0 { "sleep: 3\r\n" } else { "" };
        let body = if number % 7 == 0 { "Content-Length: 3\r\n\r\nabc" } else { "\r\n" };
        requests += &format!("GET / HTTP/1.1\r\nHost: x\r\nsize: {number}\r\n{sleep}{body}");
    }
    requests += "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(requests.as_bytes()).expect("the server reads");
    let answers = read_to_close(&mut stream);
    let sizes: Vec<usize> = answers
        .split("HTTP/1.1 200 OK\r\n")
        .skip(1)
        .map(|answer| answer.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len()))
        .collect();
    assert_eq!(sizes, (1..=100).chain([4]).collect::<Vec<_>>());
}

#[test]
fn many_ports_are_served_by_several_processes() {
    let ports = 40;
    let mut flags = ["--http", "127.0.0.1:0"].repeat(ports);
    flags.extend(["--processes", "2"]);
    let serve = Serve::start(&flags, ports);
    let agents = process::descendants(serve.pid());
    assert_eq!(agents.len(), 2, "{agents:?}");
    let mut urls = serve.urls.clone();
    urls.sort_unstable();
    urls.dedup();
    assert_eq!(urls.len(), ports, "every port is another");
    let all: Vec<&str> = serve.urls.iter().map(String::as_str).collect();
    assert_eq!(curl(&all), "pong".repeat(ports));
    assert_eq!(serve.stop(), (ports as u64, ports as u64));
    wait::until("the agents to end", || (!agents.iter().any(Process::is_alive)).then_some(()));
}

#[test]
fn a_port_range_is_bound_as_a_whole() {
    let first = e2e::port::free().port();
    let serve = Serve::start(&["--http", &format!("127.0.0.1:{first}-{}", first + 2)], 3);
    let expected: Vec<_> =
        (first..first + 3).map(|port| format!("http://127.0.0.1:{port}/")).collect();
    assert_eq!(serve.urls, expected);
    assert_eq!(curl(&[&expected[2]]), "pong");
}

#[test]
fn statsd_hears_of_every_request() {
    let statsd = UdpSocket::bind("127.0.0.1:0").expect("loopback has a free port");
    statsd.set_read_timeout(Some(Duration::from_millis(100))).expect("a positive time");
    let to = statsd.local_addr().expect("it is bound").to_string();
    let serve = Serve::start(&["--http", "127.0.0.1:0", "--statsd", &to], 1);
    let url = serve.url().to_owned();
    assert_eq!(curl(&[&url, &url, &url]), "pong".repeat(3));
    assert_eq!(curl(&[&url, &url]), "pong".repeat(2));
    let mut sums = std::collections::BTreeMap::<String, u64>::new();
    let mut packet = [0; 1500];
    wait::until("5 requests in StatsD", || {
        let length = match statsd.recv(&mut packet) {
            Ok(length) => length,
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => 0,
            Err(error) => panic!("{error}"),
        };
        for line in String::from_utf8_lossy(&packet[..length]).lines() {
            let (name, value) = line.split_once(':').expect("name:value|c");
            let count: u64 = value.strip_suffix("|c").expect("a counter").parse().expect("digits");
            *sums.entry(name.to_owned()).or_default() += count;
        }
        // Each counter comes in its own packet.
        let has = |name: &str, count| sums.get(name).is_some_and(|sum| *sum >= count);
        (has("plimsoll.requests", 5) && has("plimsoll.connections", 2)).then_some(())
    });
    assert_eq!(sums["plimsoll.requests"], 5);
    assert_eq!(sums["plimsoll.connections"], 2);
}
