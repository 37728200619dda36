//! A server of the tests' own that holds a given number of connections, answers on them, and closes
//! every further one as soon as it has accepted it. One thread per connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const PONG: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\npong";
/// A thread does next to nothing.
const STACK_BYTES: usize = 64 << 10;

/// The running server. It listens until the test program ends.
#[derive(Clone, Copy, Debug)]
pub struct CappedServer {
    /// Listening address.
    pub address: SocketAddr,
}

impl CappedServer {
    /// Listens on 127.0.0.1 and holds at most `connections`.
    pub fn start(connections: usize) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let held = Arc::new(AtomicUsize::new(0));
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if held.load(Ordering::SeqCst) >= connections {
                    continue;
                }
                held.fetch_add(1, Ordering::SeqCst);
                let count = Arc::clone(&held);
                let serve = move || {
                    answer(stream);
                    count.fetch_sub(1, Ordering::SeqCst);
                };
                let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(serve);
                thread.expect("there is room for a thread");
            }
        });
        Self { address }
    }
}

/// Answers each request until the client closes. A request of the tests comes in one piece.
fn answer(mut stream: TcpStream) {
    let mut piece = [0; 1024];
    while stream.read(&mut piece).is_ok_and(|bytes| bytes > 0) {
        if stream.write_all(PONG).is_err() {
            return;
        }
    }
}
