//! HAProxy's statistics socket, in the notation of HAProxy's configuration.
//!
//! [`HaproxySocket`] is parsed from text such as `/path`, `abns@name` or `ipv4@host:port`. [`HaproxySocket::ask`]
//! opens a new connection for each command, sends one line and reads a bounded answer. A master process knows no
//! statistics commands; then the command is sent again to the first worker with the prefix `@1`. Start reading at
//! [`HaproxySocket::ask`], and at `from_str` for the notation.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddress, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::{fmt, io};

use plimsoll_model::units::ParseError;

use crate::answer;

/// HAProxy fills the name of an abstract socket up to this length with zeros.
const ABSTRACT_NAME_BYTES: usize = 107;
/// The prefix that passes a command of the master process to its worker.
const TO_WORKER: &str = "@1 ";
/// The start of HAProxy's answer to a command that a socket does not have: the master's has no statistics.
const UNKNOWN: &str = "Unknown command";

/// A socket at which HAProxy answers commands: `/path`, `unix@/path`, `abns@name`, `host:port`, `:port`, and `ipv4@` or
/// `ipv6@` before an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HaproxySocket(Address);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Unix(PathBuf),
    Abstract(String),
    /// A TCP address: the text as written, with its host and port.
    Tcp {
        written: String,
        host: String,
        port: u16,
        family: Family,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Family {
    Any,
    V4,
    V6,
}

impl HaproxySocket {
    /// Returns HAProxy's answer to one command, at most `most` bytes of it. The socket of a master process returns the
    /// answer of its first worker.
    pub fn ask(&self, command: &str, most: u64) -> io::Result<String> {
        let answer = self.ask_directly(command, most)?;
        if !answer.starts_with(UNKNOWN) {
            return Ok(answer);
        }
        let of_worker = self.ask_directly(&format!("{TO_WORKER}{command}"), most)?;
        Ok(if of_worker.starts_with(UNKNOWN) { answer } else { of_worker })
    }

    /// Reports whether it is the socket of a master process, whose statistics come from a worker.
    pub fn is_master(&self) -> io::Result<bool> {
        let knows =
            |command| Ok::<_, io::Error>(!self.ask_directly(command, 64)?.starts_with(UNKNOWN));
        Ok(!knows("show info")? && knows("@1 show info")?)
    }

    fn ask_directly(&self, command: &str, most: u64) -> io::Result<String> {
        let stream = match &self.0 {
            Address::Unix(path) => UnixStream::connect(path)?,
            Address::Abstract(name) => abstract_stream(name)?,
            Address::Tcp { host, port, family, .. } => {
                let is_wanted = |address: &SocketAddr| match family {
                    Family::Any => true,
                    Family::V4 => address.is_ipv4(),
                    Family::V6 => address.is_ipv6(),
                };
                let stream = answer::tcp(host, *port, is_wanted)?;
                return exchange(&stream, || stream.shutdown(Shutdown::Write), command, most);
            }
        };
        let stream = answer::unix(stream)?;
        exchange(&stream, || stream.shutdown(Shutdown::Write), command, most)
    }
}

/// Sends the command and reads the answer. The master process closes only when `end` has announced that no further
/// command comes.
fn exchange<S>(
    mut stream: S,
    end: impl FnOnce() -> io::Result<()>,
    command: &str,
    most: u64,
) -> io::Result<String>
where
    S: Read + Write,
{
    stream.write_all(format!("{command}\n").as_bytes())?;
    end()?;
    answer::read(stream, most, answer::ANSWER_WAIT)
}

/// HAProxy's `abns@` fills the name with zeros, its `abnsz@` does not.
fn abstract_stream(name: &str) -> io::Result<UnixStream> {
    let mut filled = name.as_bytes().to_vec();
    filled.resize(ABSTRACT_NAME_BYTES, 0);
    let connect = |name: &[u8]| UnixStream::connect_addr(&UnixAddress::from_abstract_name(name)?);
    connect(&filled).or_else(|error| connect(name.as_bytes()).map_err(|_| error))
}

impl From<&Path> for HaproxySocket {
    fn from(path: &Path) -> Self {
        Self(Address::Unix(path.to_owned()))
    }
}

impl FromStr for HaproxySocket {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let refused = || ParseError {
            text: text.to_owned(),
            expected: "a socket as HAProxy's configuration has it: /path, unix@/path, abns@name, host:port, \
                       ipv4@host:port or ipv6@host:port",
        };
        let address = match text.split_once('@') {
            Some(("unix", path)) if path.starts_with('/') => Address::Unix(path.into()),
            Some(("abns" | "abnsz", name)) if (1..=ABSTRACT_NAME_BYTES).contains(&name.len()) => {
                Address::Abstract(name.to_owned())
            }
            Some(("ipv4", at)) => of_tcp(text, at, Family::V4).ok_or_else(refused)?,
            Some(("ipv6", at)) => of_tcp(text, at, Family::V6).ok_or_else(refused)?,
            _ if text.contains('/') => Address::Unix(text.into()),
            Some(_) => return Err(refused()),
            // A file of this directory has no colon in its name, or is written with ./ before it.
            None if text.contains(':') => of_tcp(text, text, Family::Any).ok_or_else(refused)?,
            None if text.is_empty() => return Err(refused()),
            None => Address::Unix(text.into()),
        };
        Ok(Self(address))
    }
}

/// Parses `host:port`. Without a host, or with `*`, the host is loopback, which reaches a socket that listens
/// everywhere. An IPv6 address needs no brackets, as in HAProxy's configuration.
fn of_tcp(written: &str, at: &str, family: Family) -> Option<Address> {
    let (host, port) = at.rsplit_once(':')?;
    let port = port.parse().ok().filter(|port| *port > 0)?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let host = match (host, family) {
        ("" | "*", Family::V6) | ("::", _) => "::1",
        ("" | "*" | "0.0.0.0", _) => "127.0.0.1",
        (host, _) => host,
    };
    Some(Address::Tcp { written: written.to_owned(), host: host.to_owned(), port, family })
}

/// Writes the text from which the socket was parsed.
impl fmt::Display for HaproxySocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Unix(path) => write!(f, "{}", path.display()),
            Address::Abstract(name) => write!(f, "abns@{name}"),
            Address::Tcp { written, .. } => f.write_str(written),
        }
    }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the scripted peers are plain blocking sockets")]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;
    use std::thread;

    use super::*;

    #[test]
    fn addresses_are_those_of_haproxy() {
        for (text, host, port) in [
            ("127.0.0.1:9999", "127.0.0.1", 9999),
            ("ipv4@127.0.0.1:9999", "127.0.0.1", 9999),
            ("ipv4@:9999", "127.0.0.1", 9999),
            ("ipv6@[::1]:99", "::1", 99),
            ("ipv6@::1:99", "::1", 99),
            ("ipv6@:::99", "::1", 99),
            (":99", "127.0.0.1", 99),
            ("*:99", "127.0.0.1", 99),
            ("stats.example:99", "stats.example", 99),
        ] {
            let socket: HaproxySocket = text.parse().unwrap();
            assert_eq!(socket.to_string(), text);
            let HaproxySocket(Address::Tcp { host: found, port: on, .. }) = socket else {
                panic!("{text}")
            };
            assert_eq!((&*found, on), (host, port), "{text}");
        }
        for text in ["/run/haproxy.sock", "unix@/run/haproxy.sock", "a.sock", "./a:b"] {
            let HaproxySocket(Address::Unix(path)) = text.parse().unwrap() else {
                panic!("{text}")
            };
            assert_eq!(path.to_str(), Some(text.trim_start_matches("unix@")));
        }
        for text in ["", "unix@", "abns@", "ipv4@host", "host:0", "host:x", "fd@3", "ipv4@1.2.3.4:"]
        {
            assert!(text.parse::<HaproxySocket>().is_err(), "{text}");
        }
    }

    /// Answers each connection by what it asks for.
    fn answer(mut stream: impl Read + Write, answers: &[(&str, &str)]) {
        let mut question = Vec::new();
        while question.last() != Some(&b'\n') {
            let mut byte = [0];
            stream.read_exact(&mut byte).unwrap();
            question.extend(byte);
        }
        let question = String::from_utf8(question).unwrap();
        let known = answers.iter().find(|(known, _)| *known == question.trim_end());
        let answer = known.map_or("Unknown command, but maybe\n", |(_, answer)| answer);
        stream.write_all(answer.as_bytes()).unwrap();
    }

    #[test]
    fn the_socket_of_a_master_is_read_through() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let socket: HaproxySocket = listener.local_addr().unwrap().to_string().parse().unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &[("@1 show info", "Name: HAProxy\n")]);
            }
        });
        assert_eq!(socket.ask("show info", 1000).unwrap(), "Name: HAProxy\n");
        assert!(socket.is_master().unwrap());
        assert!(socket.ask("show stat", 1000).unwrap().starts_with(UNKNOWN));
    }

    #[test]
    fn abstract_names_are_filled_with_zeros_as_haproxy_does() {
        let name = format!("plimsoll-{}", std::process::id());
        let mut filled = name.clone().into_bytes();
        filled.resize(ABSTRACT_NAME_BYTES, 0);
        let address = UnixAddress::from_abstract_name(&filled).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &[("show info", "Name: HAProxy\n")]);
            }
        });
        let socket: HaproxySocket = format!("abns@{name}").parse().unwrap();
        assert_eq!(socket.ask("show info", 1000).unwrap(), "Name: HAProxy\n");
        assert!(!socket.is_master().unwrap());
    }
}
