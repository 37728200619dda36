//! Answers of servers to questions about themselves: bounded in bytes and in time, however slowly one comes.

use std::io::{Error, ErrorKind, Read};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use plimsoll_model::Nanos;
use plimsoll_sys::clock;

/// The longest time for a whole answer. Each step of it has its own timeout.
pub(crate) const ANSWER_WAIT: Nanos = Nanos::from_secs(5);

/// Timeout of connecting, and of each read and write.
const TIMEOUT: Duration = Duration::from_secs(1);

/// Sets the timeouts of a connection.
pub(crate) fn unix(stream: UnixStream) -> Result<UnixStream, Error> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

/// Connects to the first address of `host` that is wanted and accepts.
///
/// # Errors
///
/// The refusal of the last address, and [`ErrorKind::NotFound`].
pub(crate) fn tcp(
    host: &str,
    port: u16,
    is_wanted: impl FnMut(&SocketAddr) -> bool,
) -> Result<TcpStream, Error> {
    let mut refusal = Error::new(ErrorKind::NotFound, "the name has no such address");
    for address in (host, port).to_socket_addrs()?.filter(is_wanted) {
        match TcpStream::connect_timeout(&address, TIMEOUT) {
            Ok(stream) => {
                stream.set_read_timeout(Some(TIMEOUT))?;
                stream.set_write_timeout(Some(TIMEOUT))?;
                return Ok(stream);
            }
            Err(error) => refusal = Error::new(error.kind(), format!("{address}: {error}")),
        }
    }
    Err(refusal)
}

/// Reads an answer to its end, at most `most` bytes of it, within `wait`. The stream has a read timeout.
///
/// # Errors
///
/// The errors of the stream, and [`ErrorKind::TimedOut`].
pub(crate) fn read(mut stream: impl Read, most: u64, wait: Nanos) -> Result<String, Error> {
    let until = Nanos(clock::monotonic_ns()) + wait;
    let (mut answer, mut part) = (Vec::new(), [0; 16 * 1024]);
    loop {
        let room = most.saturating_sub(answer.len() as u64).min(part.len() as u64);
        match stream.read(&mut part[..room as usize]) {
            Ok(0) => return Ok(String::from_utf8_lossy(&answer).into_owned()),
            Ok(count) => answer.extend_from_slice(&part[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
        if clock::monotonic_ns() > until.0 {
            let why = format!("its answer took more than {} s", wait.as_secs_f64());
            return Err(Error::new(ErrorKind::TimedOut, why));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_answer_that_never_ends_is_given_up() {
        assert_eq!(read(&b"abcdef"[..], 4, ANSWER_WAIT).unwrap(), "abcd");
        assert_eq!(read(&b"abc"[..], 4, ANSWER_WAIT).unwrap(), "abc");
        let endless = read(io::repeat(b'x'), u64::MAX, Nanos::ZERO);
        assert_eq!(endless.unwrap_err().kind(), ErrorKind::TimedOut);
    }
}
