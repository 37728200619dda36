//! Serves the last reading to Prometheus: plain HTTP/1.1, one request for each connection.
//!
//! A scrape reads nothing of the host, so that several scrapers cost no more than one.

use std::io;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use plimsoll_model::host::Reading;
use plimsoll_report::watch::{CONTENT_TYPE, exposition};
use plimsoll_sys::thread;

use crate::exit::Stop;

/// The timeout of each read and write of a scrape.
const TIMEOUT: Duration = Duration::from_secs(2);
/// The longest request head that is read.
const HEAD_BYTES_MAX: u64 = 8 * 1024;

/// A thread that answers scrapes; it ends with the process.
pub(super) struct Exporter {
    address: SocketAddr,
    text: Arc<Mutex<String>>,
    host: String,
}

impl Exporter {
    /// Listens at `at`.
    pub(super) fn start(at: SocketAddr, host: &str) -> Result<Self, Stop> {
        let cannot = |error: io::Error| {
            Stop::CannotRun(format!("--prometheus: cannot listen on {at}: {error}"))
        };
        let listener = TcpListener::bind(at).map_err(cannot)?;
        let address = listener.local_addr().map_err(cannot)?;
        let text = Arc::new(Mutex::new(String::new()));
        let last = Arc::clone(&text);
        thread::spawn("prometheus", None, move || {
            for stream in listener.incoming().flatten() {
                // A scraper that goes away or sends nonsense is of no interest to anybody else.
                let _ = answer(&stream, &last);
            }
        })
        .map_err(cannot)?;
        Ok(Self { address, text, host: host.to_owned() })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers with `reading` from now on.
    pub(super) fn publish(&self, reading: &Reading) {
        let text = exposition(&self.host, reading);
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

fn answer(stream: &TcpStream, last: &Mutex<String>) -> io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut head = BufReader::new(stream.take(HEAD_BYTES_MAX));
    let mut request = String::new();
    head.read_line(&mut request)?;
    // The rest of the head is read, so that closing the connection does not reset it.
    let mut line = String::new();
    while head.read_line(&mut line)? > 2 {
        line.clear();
    }
    let mut words = request.split_ascii_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, body) = match (method, path.split('?').next().unwrap_or_default()) {
        ("GET" | "HEAD", "/metrics" | "/") => {
            let text = last.lock().unwrap_or_else(PoisonError::into_inner).clone();
            ("200 OK", text)
        }
        ("GET" | "HEAD", _) => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "use GET\n".to_owned()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {CONTENT_TYPE}\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    if method != "HEAD" {
        stream.write_all(body.as_bytes())?;
    }
    stream.flush()
}

#[cfg(test)]
mod tests {
    use plimsoll_model::host::Metric;

    use super::*;

    fn asked(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn a_scrape_gets_the_last_reading() {
        let exporter = Exporter::start("127.0.0.1:0".parse().unwrap(), "proxy1").unwrap();
        let get = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
        assert!(asked(exporter.address(), get).ends_with("\r\n\r\n"));
        for established in [5.0, 6.0] {
            let mut reading = Reading::default();
            reading.add(Metric::TcpEstablished, &[], established);
            exporter.publish(&reading);
        }
        let answer = asked(exporter.address(), get);
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        assert!(answer.contains(CONTENT_TYPE));
        assert!(answer.ends_with("plimsoll_tcp_established{host=\"proxy1\"} 6\n"), "{answer}");
        let not_found = asked(exporter.address(), "GET /x HTTP/1.1\r\n\r\n");
        assert!(not_found.starts_with("HTTP/1.1 404 "), "{not_found}");
        let refused = asked(exporter.address(), "POST /metrics HTTP/1.1\r\n\r\n");
        assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");
    }

    #[test]
    fn a_port_in_use_is_refused() {
        let holder = TcpListener::bind("127.0.0.1:0").unwrap();
        let stop = Exporter::start(holder.local_addr().unwrap(), "x").err().unwrap();
        assert_eq!(stop.code(), 1);
        assert!(stop.complaint().unwrap().contains("--prometheus: cannot listen on"));
    }
}
