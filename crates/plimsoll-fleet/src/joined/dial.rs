//! The agent's side: it connects to its coordinator, which may be there only later.

use std::io::{Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};
use std::{io, thread};

use plimsoll_model::plan::Identity;
use plimsoll_tls::MutualContext;

use super::Joined;
use super::wire::HandshakeError;
use crate::error::{FleetError, Result};

/// Timeout of one attempt to connect.
const CONNECT_WAIT: Duration = Duration::from_secs(5);
/// From one attempt to the next: first, and at most.
const RETRY: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// Connects to the coordinator at `to`, a name or address with a port, and gives what its commands are read from and
/// what it is answered by. Tries for `within` to connect; what TLS refuses is an error at once.
pub fn dial(
    to: &str,
    identity: &Identity,
    roots_pem: &str,
    within: Duration,
) -> Result<(impl Read + Send + use<>, impl Write + Send + use<>)> {
    let failed =
        |source| FleetError::Start { name: format!("the link to the coordinator at {to}"), source };
    let context = MutualContext::agent(identity, roots_pem)
        .map_err(|error| failed(io::Error::other(error)))?;
    let deadline = Instant::now() + within;
    let mut pause = RETRY.0;
    loop {
        let joined = connect(to)
            .map_err(HandshakeError::from)
            .and_then(|socket| Joined::new(socket, &context));
        match joined {
            Ok(joined) => return Ok((joined.reader, joined.writer)),
            Err(error) if error.is_final() || Instant::now() + pause >= deadline => {
                return Err(failed(io::Error::other(error)));
            }
            Err(_) => {}
        }
        thread::sleep(pause);
        pause = (pause * 2).min(RETRY.1);
    }
}

fn connect(to: &str) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in to.to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, CONNECT_WAIT) {
            Ok(socket) => return Ok(socket),
            Err(error) => last = error,
        }
    }
    Err(last)
}
