//! A backend of another make that never answers, and closes a given time after a request has come.
//! One thread per connection.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::Result;

/// Listens until the benchmark ends.
pub(super) fn start(patience: Duration) -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let address = listener.local_addr()?;
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || hold(stream, patience));
        }
    });
    Ok(address)
}

fn hold(mut stream: TcpStream, patience: Duration) {
    let mut piece = [0; 4096];
    // Not by a timeout of the socket: the kernel rounds those up by as much as an eighth.
    let (_kept, never) = mpsc::channel::<()>();
    if stream.read(&mut piece).is_ok_and(|bytes| bytes > 0) {
        let _ = never.recv_timeout(patience);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn it_closes_without_an_answer() {
        let address = start(Duration::from_millis(30)).unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.is_empty());
    }
}
