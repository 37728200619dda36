//! A proxy between a viewer and a page that is served, whose connections can be cut at any time.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

/// The running proxy.
#[derive(Debug)]
pub struct Cutting {
    /// Listening address.
    pub address: SocketAddr,
    streams: Arc<Mutex<Vec<TcpStream>>>,
}

impl Cutting {
    /// Hands everything on to `server`, under whose name viewers must ask: its own name in what they send becomes that.
    pub fn before(server: SocketAddr) -> Self {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("loopback has a free port");
        let address = listener.local_addr().expect("it is bound");
        let streams = Arc::new(Mutex::new(Vec::new()));
        let all = Arc::clone(&streams);
        // Ends with the tests.
        thread::spawn(move || {
            for viewer in listener.incoming().flatten() {
                let Ok(onward) = TcpStream::connect(server) else { continue };
                let ends =
                    [&viewer, &onward].map(|stream| stream.try_clone().expect("descriptors"));
                lock(&all).extend(ends.iter().map(|end| end.try_clone().expect("descriptors")));
                let names = (address.to_string(), server.to_string());
                let [from, to] = ends;
                thread::spawn(move || {
                    hand_on(from, onward, &|text| text.replace(&names.0, &names.1))
                });
                thread::spawn(move || hand_on(to, viewer, &str::to_owned));
            }
        });
        Self { address, streams }
    }

    /// Ends all connections at once, in the middle of whatever they carry, and says how many of their ends were open:
    /// who sees one end go closes the other.
    pub fn cut(&self) -> usize {
        let streams = std::mem::take(&mut *lock(&self.streams));
        streams.iter().filter(|stream| stream.shutdown(Shutdown::Both).is_ok()).count()
    }
}

fn lock(streams: &Mutex<Vec<TcpStream>>) -> MutexGuard<'_, Vec<TcpStream>> {
    streams.lock().unwrap_or_else(PoisonError::into_inner)
}

fn hand_on(mut from: TcpStream, mut to: TcpStream, change: &dyn Fn(&str) -> String) {
    let mut bytes = [0; 16 << 10];
    while let Ok(count @ 1..) = from.read(&mut bytes) {
        let sent = match std::str::from_utf8(&bytes[..count]) {
            Ok(text) => to.write_all(change(text).as_bytes()),
            Err(_) => to.write_all(&bytes[..count]),
        };
        if sent.is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
