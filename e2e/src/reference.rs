//! A server whose service times or whose capacity are known exactly, made of std alone and so of
//! another make than the server that plimsoll brings: our own must not be the only judge of our
//! client.
//!
//! It runs as its own process (`cargo run -p e2e --bin reference -- SERVICE SEED`), so that it can
//! be pinned and frozen. When its input ends, it writes how long each request of a timed service really took,
//! in nanoseconds, one per line and in order of completion: read to write on its own clock. What
//! the kernel adds on the way is not in it.
//!
//! It reads no bodies and ignores the method: it answers each request head. A client that speaks MQTT has its
//! publishes at QoS 1 acknowledged instead.

mod mqtt;
mod service;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::process::Guarded;
use crate::program;
use mqtt::Asked;
use service::{Bucket, Draws, Metastable};
pub use service::{SERVICES, Service};

const ANSWER: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\npong";
const HEAD_END: &[u8] = b"\r\n\r\n";
/// A longer head ends its connection.
const HEAD_BYTES_MAX: usize = 16_384;
/// One thread each; ten times what any test opens.
const CONNECTIONS_MAX: u64 = 1_000;
/// Later requests are served, and not logged: an hour at 1,000/s.
const LOG_MAX: usize = 3_600_000;
/// Sleeps end up to 50 us late by Linux's default timer slack; the rest is spun.
const SPIN: Duration = Duration::from_micros(100);

/// A running reference server.
#[derive(Debug)]
pub struct Reference {
    /// The URL of its root.
    pub url: String,
    guarded: Guarded,
    stdout: BufReader<ChildStdout>,
}

impl Reference {
    /// Starts `binary`, which is `CARGO_BIN_EXE_reference`, on one CPU.
    pub fn start(binary: &str, cpu: u32, service: Service, seed: u64) -> Self {
        let mut command = Command::new(program::installed("taskset"));
        command.args(["-c", &cpu.to_string(), binary, &service.to_string(), &seed.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut guarded = Guarded::start(&mut command);
        let stdout = guarded.child().stdout.take().expect("the pipe was asked for");
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it says where it listens");
        let url = line.trim().strip_prefix("listening on ");
        let url = url.unwrap_or_else(|| panic!("unexpected line {line:?}")).to_owned();
        Self { url, guarded, stdout }
    }

    /// Returns the process id.
    pub fn pid(&self) -> u32 {
        self.guarded.pid()
    }

    /// Stops it; returns the true service time of each request, seconds.
    pub fn log(mut self) -> Vec<f64> {
        drop(self.guarded.child().stdin.take());
        let mut text = String::new();
        self.stdout.read_to_string(&mut text).expect("it writes its log");
        let seconds = |line: &str| line.parse::<u64>().expect("nanoseconds") as f64 * 1e-9;
        text.lines().map(seconds).collect()
    }
}

/// Serves until standard input ends, and writes the log.
pub fn serve(service: Service, seed: u64) -> io::Result<()> {
    let shared = Arc::new(Shared::new(service, seed));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    println!("listening on http://{}/", listener.local_addr()?);
    let accepting = Arc::clone(&shared);
    thread::spawn(move || accepting.accept_all(&listener));
    io::copy(&mut io::stdin(), &mut io::sink())?;
    let log = shared.log.lock().map(|log| log.clone()).unwrap_or_default();
    let lines: String = log.iter().map(|span| format!("{}\n", span.as_nanos())).collect();
    io::stdout().write_all(lines.as_bytes())
}

struct Shared {
    service: Service,
    seed: u64,
    epoch: Instant,
    bucket: Mutex<Bucket>,
    metastable: Mutex<Metastable>,
    log: Mutex<Vec<Duration>>,
    open: AtomicU64,
}

impl Shared {
    fn new(service: Service, seed: u64) -> Self {
        Self {
            service,
            seed,
            epoch: Instant::now(),
            bucket: Mutex::default(),
            metastable: Mutex::default(),
            log: Mutex::default(),
            open: AtomicU64::new(0),
        }
    }

    fn accept_all(self: &Arc<Self>, listener: &TcpListener) {
        for (number, stream) in (0..).zip(listener.incoming()) {
            let Ok(stream) = stream else { continue };
            if self.open.fetch_add(1, Ordering::Relaxed) < CONNECTIONS_MAX {
                let shared = Arc::clone(self);
                // The other end's errors are its own to report.
                thread::spawn(move || {
                    let _ = shared.answer_all(stream, number);
                    shared.open.fetch_sub(1, Ordering::Relaxed);
                });
            } else {
                self.open.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    /// Answers one connection's requests in turn, until it ends.
    fn answer_all(&self, mut stream: TcpStream, number: u64) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut draws = Draws::new(self.seed, number);
        let mut unread = Vec::new();
        let mut buffer = [0; 4_096];
        loop {
            let bytes = stream.read(&mut buffer)?;
            let received = self.epoch.elapsed();
            if bytes == 0 || unread.len() > HEAD_BYTES_MAX {
                return Ok(());
            }
            unread.extend_from_slice(&buffer[..bytes]);
            if unread.first() == Some(&mqtt::CONNECT) {
                return self.acknowledge_all(stream, draws, unread);
            }
            while let Some(end) = head_end(&unread) {
                unread.drain(..end);
                let due = self.due(received, &mut draws);
                self.wait_until(due);
                self.note(self.epoch.elapsed().saturating_sub(received));
                stream.write_all(ANSWER)?;
            }
        }
    }

    /// Acknowledges the packets of an MQTT client that has sent `unread`.
    fn acknowledge_all(
        &self,
        mut stream: TcpStream,
        mut draws: Draws,
        mut unread: Vec<u8>,
    ) -> io::Result<()> {
        let mut buffer = [0; 4_096];
        let mut received = self.epoch.elapsed();
        loop {
            while let Some((bytes, asked)) = mqtt::first_packet(&unread) {
                unread.drain(..bytes);
                match asked {
                    Asked::Answer(answer) => stream.write_all(&answer)?,
                    Asked::Served(answer) => {
                        self.wait_until(self.due(received, &mut draws));
                        self.note(self.epoch.elapsed().saturating_sub(received));
                        stream.write_all(&answer)?;
                    }
                    Asked::End => return Ok(()),
                }
            }
            let bytes = stream.read(&mut buffer)?;
            received = self.epoch.elapsed();
            if bytes == 0 {
                return Ok(());
            }
            unread.extend_from_slice(&buffer[..bytes]);
        }
    }

    /// When a request that was received then is to be answered, both since the epoch.
    fn due(&self, received: Duration, draws: &mut Draws) -> Duration {
        match self.service {
            Service::Fixed(span) => received + span,
            Service::Uniform(longest) => received + longest.mul_f64(draws.next_share()),
            Service::Bucket { per_s } => match self.bucket.lock() {
                Ok(mut bucket) => bucket.take(received, per_s),
                Err(_) => received,
            },
            Service::Metastable { per_s } => match self.metastable.lock() {
                Ok(mut metastable) => metastable.take(received, per_s),
                Err(_) => received,
            },
        }
    }

    fn wait_until(&self, due: Duration) {
        // A bucket keeps its capacity by its due times; spinning would only cost it CPU.
        let spin = if self.is_timed() { SPIN } else { Duration::ZERO };
        let left = due.saturating_sub(self.epoch.elapsed());
        thread::sleep(left.saturating_sub(spin));
        while self.epoch.elapsed() < due {
            std::hint::spin_loop();
        }
    }

    /// Reports whether the service has a fixed distribution of times.
    const fn is_timed(&self) -> bool {
        matches!(self.service, Service::Fixed(_) | Service::Uniform(_))
    }

    fn note(&self, span: Duration) {
        if !self.is_timed() {
            return;
        }
        let log = self.log.lock();
        if let Ok(mut log) = log
            && log.len() < LOG_MAX
        {
            log.push(span);
        }
    }
}

/// Length of the first head, once it is complete.
fn head_end(bytes: &[u8]) -> Option<usize> {
    let at = bytes.windows(HEAD_END.len()).position(|window| window == HEAD_END)?;
    Some(at + HEAD_END.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_end_with_an_empty_line() {
        assert_eq!(head_end(b"GET / HTTP/1.1\r\nhost: x\r\n"), None);
        assert_eq!(head_end(b"GET /\r\n\r\nGET"), Some(9));
    }

    #[test]
    fn each_request_is_answered_and_logged() {
        let service = Service::Fixed(Duration::from_micros(700));
        let shared = Arc::new(Shared::new(service, 1));
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = Arc::clone(&shared);
        thread::spawn(move || accepting.accept_all(&listener));
        let mut stream = TcpStream::connect(address).unwrap();
        // Two in one piece, and one in two.
        let pieces = ["GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\nGET / HT", "TP/1.1\r\n\r\n"];
        for piece in pieces {
            stream.write_all(piece.as_bytes()).unwrap();
        }
        let mut answers = [0; 3 * ANSWER.len()];
        stream.read_exact(&mut answers).unwrap();
        assert_eq!(answers, [ANSWER; 3].concat()[..]);
        let log = shared.log.lock().unwrap();
        assert_eq!(log.len(), 3);
        assert!(log.iter().all(|span| *span >= Duration::from_micros(700)), "{log:?}");
    }
}
