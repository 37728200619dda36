//! A server of the tests' own that never answers, and closes a given time after a request has come:
//! an application with a timer. One thread per connection.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The running server. It listens until the test program ends.
#[derive(Clone, Copy, Debug)]
pub struct SilentServer {
    /// Listening address.
    pub address: SocketAddr,
}

impl SilentServer {
    /// Listens on 127.0.0.1 and closes `patience` after the first bytes of a request.
    pub fn start(patience: Duration) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                thread::spawn(move || hold(stream, patience));
            }
        });
        Self { address }
    }
}

fn hold(mut stream: TcpStream, patience: Duration) {
    let mut piece = [0; 4096];
    // Not by a timeout of the socket: the kernel rounds those up by as much as an eighth.
    let (_kept, never) = mpsc::channel::<()>();
    if stream.read(&mut piece).is_ok_and(|bytes| bytes > 0) {
        let _ = never.recv_timeout(patience);
    }
}
