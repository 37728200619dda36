//! The rate of a closed loop, judged by a server that writes down when requests came and were answered; and the cases
//! of RFC 9411 that build on it.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use e2e::nginx::Nginx;
use e2e::plimsoll::{Plimsoll, undisturbed};
use e2e::port;
use e2e::turn::alone;

const DELAY: Duration = Duration::from_millis(50);
/// A shared host may be half as fast when the case runs as when its target was measured.
const ATTEMPTS: usize = 3;

/// When a request came, and when it was answered.
type Served = (Instant, Instant);

/// A server that takes [`DELAY`] for each answer. It listens until the test program ends.
struct Judge {
    address: SocketAddr,
    log: Receiver<Served>,
}

impl Judge {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let (sender, log) = channel();
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let sender = sender.clone();
                thread::spawn(move || serve(&stream, &sender));
            }
        });
        Self { address, log }
    }
}

fn serve(mut stream: &TcpStream, sender: &Sender<Served>) {
    // Not by a sleep: nothing is ever sent, and so the wait is the delay.
    let (_kept, never) = channel::<()>();
    let mut requests = BufReader::new(stream).lines().map_while(Result::ok);
    while let Some(mut line) = requests.next() {
        let came = Instant::now();
        while !line.is_empty() {
            let Some(next) = requests.next() else { return };
            line = next;
        }
        let _ = never.recv_timeout(DELAY);
        let _ = sender.send((came, Instant::now()));
        if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_err() {
            return;
        }
    }
}

/// Returns the number of operations of the log in the `seconds` from its first one, those at the end by the part that
/// lies in them.
fn in_window(log: &[Served], seconds: f64) -> f64 {
    let first = log.iter().map(|(came, _)| *came).min().expect("a request");
    let ends = first + Duration::from_secs_f64(seconds);
    let part = |(came, answered): &Served| {
        let within = (*answered).min(ends).saturating_duration_since(*came);
        within.as_secs_f64() / (*answered - *came).as_secs_f64()
    };
    log.iter().map(part).sum()
}

#[test]
fn the_server_agrees_with_the_rate_of_a_closed_loop() {
    let _machine = alone();
    let judge = Judge::start();
    let plain = format!("http://{}/", judge.address);
    let http2 = port::free();
    let pass = format!("listen {http2} http2;\nlocation /pass {{ proxy_pass {plain}; }}");
    let _nginx = Nginx::start(false, &pass);
    let over_http2 = format!("http://{http2}/pass");
    let a_host = ["--hosts", "a", "--launch", "env NAME=%h"];
    let rows: &[(&str, &[&str])] = &[
        (&plain, &["-c", "2", "-d", "500ms"]),
        (&plain, &["-c", "2", "-n", "20"]),
        (&plain, &["-c", "1", "-n", "1"]),
        (&plain, &["-c", "64", "-d", "500ms"]),
        (&plain, &["-c", "8", "-d", "500ms", "--no-keepalive"]),
        (&plain, &["-c", "8", "-n", "37", "--processes", "2"]),
        (&plain, &["-c", "8", "-d", "500ms", "--processes", "2"]),
        (&plain, &[&["-c", "2", "-d", "1s"][..], &a_host].concat()),
        (&plain, &[&["-c", "2", "-n", "20"][..], &a_host].concat()),
        (&over_http2, &["-c", "1", "-d", "1s", "--http", "2", "--streams", "8"]),
        (&over_http2, &["-c", "1", "-n", "40", "--http", "2", "--streams", "8"]),
    ];
    for (url, flags) in rows {
        let flags = [&["--rate", "0"][..], *flags].concat();
        let summary = Plimsoll::load(url, &flags).run().summary(0);
        let log: Vec<Served> = judge.log.try_iter().collect();
        assert_eq!(log.len() as u64, summary.count("ok"), "{flags:?}");
        let seconds = summary.number("seconds");
        let (stated, served) =
            (summary.number("rate.achieved_per_s") * seconds, in_window(&log, seconds));
        // One operation, or one in a hundred.
        let most = (served / 100.0).max(1.0);
        assert!((stated - served).abs() <= most, "{flags:?}: {stated} of {served} in {seconds} s");
    }
}

#[test]
fn what_latency_builds_on_is_measured_first() {
    let _machine = alone();
    let flags = ["lab", "rfc9411", "--json", "-", "--case", "7.4", "--sustain", "2s"];
    let flags = [&flags[..], &["--sut", "embedded", "--object-size", "1KB"]].concat();
    let mut runs = (0..ATTEMPTS).map(|_| undisturbed(|| Plimsoll::new(&flags).run()));
    let finished = runs.find(|finished| finished.code == Some(0)).expect("the target is met once");
    for result in finished.summary(0).at("rfc9411.results").as_array().expect("a list") {
        assert_eq!(result["ending"], "target-met", "{result}");
        let source = result["target_source"].to_string();
        assert!(source.contains("a closed loop"), "{source}");
    }
}
