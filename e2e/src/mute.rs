//! A server of the tests' own that never answers, and closes a connection once it has been silent
//! for a given time: an application with a timer. One thread per connection.

use std::io::Read;
use std::net::Ipv4Addr;
use std::net::SocketAddr;
use std::net::TcpListener;
use std::net::TcpStream;
use std::thread;
use std::time::Duration;

/// The running server. It listens until the test program ends.
#[derive(Clone, Copy, Debug)]
pub struct Mute {
    /// Where it listens.
    pub address: SocketAddr,
}

impl Mute {
    /// Listens on 127.0.0.1 and closes what has been silent for `patience`.
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
    if stream.set_read_timeout(Some(patience)).is_ok() {
        // Ends with an error when nothing more has come in time.
        let _ = std::io::copy(&mut stream.by_ref().take(1 << 20), &mut std::io::sink());
    }
}
