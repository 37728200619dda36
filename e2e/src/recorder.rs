//! A server of the tests' own that writes down what it is sent. Plain and slow: one thread per
//! connection, no pipelining.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::wait;

const PONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";

/// One request, as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// The client's address.
    pub remote: IpAddr,
    /// The connection's number, from 0.
    pub connection: usize,
    /// `GET /path HTTP/1.1`.
    pub line: String,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// Body of the length that `content-length` states.
    pub body: Vec<u8>,
}

impl Request {
    /// Returns the values of every header of this name.
    pub fn values(&self, name: &str) -> Vec<&str> {
        let named = self.headers.iter().filter(|(own, _)| own == name);
        named.map(|(_, value)| value.as_str()).collect()
    }
}

/// The running server.
#[derive(Debug)]
pub struct Recorder {
    /// Listening address.
    pub address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    over: Arc<AtomicBool>,
}

impl Recorder {
    /// Answers `pong` on 127.0.0.1 and keeps connections.
    pub fn start() -> Self {
        Self::start_with(Ipv4Addr::LOCALHOST.into(), None)
    }

    /// Listens on `ip`. With an `answer`, sends that instead and closes.
    pub fn start_with(ip: IpAddr, answer: Option<&'static [u8]>) -> Self {
        let listener = TcpListener::bind((ip, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let requests = Arc::new(Mutex::new(Vec::new()));
        let over = Arc::new(AtomicBool::new(false));
        let (log, ends) = (Arc::clone(&requests), Arc::clone(&over));
        thread::spawn(move || {
            for (connection, stream) in listener.incoming().enumerate() {
                if ends.load(Ordering::Acquire) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let log = Arc::clone(&log);
                // Ends with its client.
                thread::spawn(move || serve(stream, connection, &log, answer));
            }
        });
        Self { address, requests, over }
    }

    /// Returns the URL of its root.
    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    /// Returns the requests so far.
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.requests).clone()
    }

    /// Waits for at least `count` requests.
    pub fn wait_for(&self, count: usize) {
        let what = format!("{count} requests");
        wait::until(&what, || (lock(&self.requests).len() >= count).then_some(()));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // Wakes the accepting thread.
        drop(TcpStream::connect(self.address));
    }
}

fn lock(requests: &Mutex<Vec<Request>>) -> MutexGuard<'_, Vec<Request>> {
    requests.lock().unwrap_or_else(PoisonError::into_inner)
}

fn serve(
    mut stream: TcpStream,
    connection: usize,
    log: &Mutex<Vec<Request>>,
    answer: Option<&[u8]>,
) {
    let (Ok(remote), Ok(reading)) = (stream.peer_addr(), stream.try_clone()) else { return };
    // An answer that waited for the client's ACK would be slower than any of ours.
    let _ = stream.set_nodelay(true);
    let mut reader = BufReader::new(reading);
    while let Some(request) = read_request(&mut reader, remote.ip(), connection) {
        // Written down first: who has the answer may look.
        lock(log).push(request);
        if stream.write_all(answer.unwrap_or(PONG)).is_err() || answer.is_some() {
            return;
        }
    }
}

fn read_request(
    reader: &mut BufReader<TcpStream>,
    remote: IpAddr,
    connection: usize,
) -> Option<Request> {
    let line = read_line(reader)?;
    let mut headers = Vec::new();
    loop {
        let line = read_line(reader)?;
        if line.is_empty() {
            break;
        }
        let (name, value) = line.split_once(':')?;
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { remote, connection, line, headers, body: Vec::new() };
    let length = request.values("content-length").first().and_then(|text| text.parse().ok());
    request.body.resize(length.unwrap_or(0), 0);
    reader.read_exact(&mut request.body).ok()?;
    Some(request)
}

fn read_line(reader: &mut BufReader<TcpStream>) -> Option<String> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
    Some(line.trim_end_matches(['\r', '\n']).to_owned())
}
