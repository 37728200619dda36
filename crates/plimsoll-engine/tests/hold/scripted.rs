//! The server's side of a test: it acts only when the test calls it.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use plimsoll_model::Nanos;
use plimsoll_sys::socket::{ListenSocket, Socket};
use plimsoll_sys::{Errno, clock};

use super::driver::PATIENCE;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";

/// A listener and its accepted connections, in that order.
pub(crate) struct ScriptedServer {
    listener: ListenSocket,
    conns: Vec<Conn>,
}

struct Conn {
    socket: Socket,
    /// Head of a request that is not complete.
    head: Vec<u8>,
    requests: u64,
}

impl Conn {
    /// Takes what has come; true when a request is complete. The client may close at its end.
    fn poll_request(&mut self) -> bool {
        let mut buffer = [0; 1024];
        match self.socket.recv(&mut buffer) {
            Ok(0) | Err(Errno::AGAIN | Errno::CONNRESET) => return false,
            Ok(count) => self.head.extend_from_slice(&buffer[..count]),
            Err(errno) => panic!("{errno}"),
        }
        let complete = self.head.ends_with(b"\r\n\r\n");
        if complete {
            self.head.clear();
            self.requests += 1;
        }
        complete
    }
}

/// Asks until there is an answer, without sleeping.
fn spin<T>(what: &str, mut ask: impl FnMut() -> Option<T>) -> T {
    let begun = Nanos(clock::monotonic_ns());
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        let waited = Nanos(clock::monotonic_ns()).since(begun);
        assert!(waited < PATIENCE, "waited {waited} for {what}");
        std::thread::yield_now();
    }
}

impl ScriptedServer {
    pub(crate) fn start() -> Self {
        let listener = ListenSocket::bind("127.0.0.1:0".parse().unwrap(), 4096).unwrap();
        Self { listener, conns: Vec::new() }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_address().unwrap()
    }

    /// Takes `count` connections, which may still be on their way.
    pub(crate) fn accept(&mut self, count: usize) {
        for _ in 0..count {
            let socket = spin("a connection", || self.listener.accept().ok());
            self.conns.push(Conn { socket, head: Vec::new(), requests: 0 });
        }
    }

    /// Every connection was accepted.
    pub(crate) fn expect_no_more(&self) {
        assert_eq!(self.listener.accept().err(), Some(Errno::AGAIN));
    }

    /// No connection has anything to read.
    pub(crate) fn expect_silence(&self) {
        for conn in &self.conns {
            assert_eq!(conn.socket.recv(&mut [0; 64]), Err(Errno::AGAIN));
        }
    }

    /// Waits for a request on connection `conn`.
    pub(crate) fn read_request(&mut self, conn: usize) {
        let conn = &mut self.conns[conn];
        spin("a request", || conn.poll_request().then_some(()));
    }

    pub(crate) fn answer(&self, conn: usize) {
        self.send(conn, OK);
    }

    pub(crate) fn send(&self, conn: usize, bytes: &[u8]) {
        assert_eq!(self.conns[conn].socket.send(bytes), Ok(bytes.len()));
    }

    /// Answers whatever is asked while `work` is done.
    pub(crate) fn answer_during<T>(&mut self, work: impl FnOnce() -> T) -> T {
        /// Says that the work is done, also when it panics.
        struct Done<'a>(&'a AtomicBool);
        impl Drop for Done<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let done = Done(&is_done);
            scope.spawn(|| {
                while !is_done.load(Ordering::Acquire) {
                    for conn in &mut self.conns {
                        if conn.poll_request() {
                            // The client may be gone by now.
                            let _ = conn.socket.send(OK);
                        }
                    }
                    std::thread::yield_now();
                }
            });
            let result = work();
            drop(done);
            result
        })
    }

    /// Requests so far, by connection.
    pub(crate) fn requests(&self) -> Vec<u64> {
        self.conns.iter().map(|conn| conn.requests).collect()
    }

    /// Closes the first `count` connections.
    pub(crate) fn close(&mut self, count: usize) {
        self.conns.drain(..count);
    }

    /// Resets the first `count` connections.
    pub(crate) fn reset(&mut self, count: usize) {
        for conn in self.conns.drain(..count) {
            conn.socket.reset_on_close().unwrap();
        }
    }

    /// Ends connection `conn` by a FIN; it keeps its place.
    pub(crate) fn close_one(&self, conn: usize) {
        self.conns[conn].socket.shutdown_write().unwrap();
    }

    /// Resets connection `conn`, the last one taking its place.
    pub(crate) fn reset_one(&mut self, conn: usize) {
        self.conns.swap_remove(conn).socket.reset_on_close().unwrap();
    }
}
