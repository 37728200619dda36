//! A server's own counters: HAProxy's from its statistics socket, nginx's from its stub_status page.
//!
//! Read twice, before and after a load, each time with a timeout.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::{fmt, io};

use plimsoll_model::target::TargetUrl;

use crate::answer;
use crate::haproxy_socket::HaproxySocket;

/// The largest answer that is read: HAProxy's has a line for each server behind it.
const ANSWER_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// The longest answer to a command that changes something.
const COMMAND_ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// The source of a server's counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CounterSource {
    /// HAProxy's statistics socket.
    Haproxy(HaproxySocket),
    /// nginx's stub_status, over plain HTTP.
    Nginx(TargetUrl),
    /// nginx's stub_status at the root of a Unix socket.
    NginxSocket(PathBuf),
}

/// Counters of a server since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerCounters {
    /// Requests received.
    pub requests: u64,
    /// The ones among them that never came: HAProxy counts a connection that closes without a request as
    /// one, and a malformed request (`ereq`).
    pub incomplete: u64,
    /// Client connections accepted.
    pub connections: u64,
    /// Counters of each front end, by name, if the server reports them separately.
    pub frontends: BTreeMap<String, Self>,
}

impl ServerCounters {
    /// Returns the difference to `earlier`; `None` when the server was restarted in between.
    pub fn since(&self, earlier: &Self) -> Option<Self> {
        let none = Self::default();
        let frontend = |(name, now): (&String, &Self)| {
            Some((name.clone(), now.since(earlier.frontends.get(name).unwrap_or(&none))?))
        };
        Some(Self {
            requests: self.requests.checked_sub(earlier.requests)?,
            incomplete: self.incomplete.checked_sub(earlier.incomplete)?,
            connections: self.connections.checked_sub(earlier.connections)?,
            frontends: self.frontends.iter().filter_map(frontend).collect(),
        })
    }
}

/// Memory of HAProxy's pools, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// In use and free for reuse.
    pub allocated_bytes: u64,
    /// In use; what threads have cached is free.
    pub used_bytes: u64,
}

/// Why a server's counters could not be read.
#[derive(Debug, thiserror::Error)]
pub enum CounterError {
    /// The server cannot be reached.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The answer has another form.
    #[error("the answer is not {0}")]
    Unexpected(&'static str),
}

impl CounterSource {
    /// Reads the counters.
    pub fn read(&self) -> Result<ServerCounters, CounterError> {
        match self {
            Self::Haproxy(socket) => {
                let answer = Self::ask_haproxy(socket, "show stat")?;
                haproxy(&answer).ok_or(CounterError::Unexpected("HAProxy's statistics"))
            }
            Self::Nginx(_) | Self::NginxSocket(_) => Ok(nginx(&nginx_status(self)?)),
        }
    }

    /// Reads the memory of HAProxy's pools; `None` for another server, and without an answer.
    pub fn pools(&self) -> Option<PoolUse> {
        let Self::Haproxy(socket) = self else { return None };
        pools(&Self::ask_haproxy(socket, "show pools").ok()?)
    }

    /// Reads the number of TLS handshakes that HAProxy began and could not complete, also because the client left.
    /// `None` for another server, and without an answer: reading nginx's page would be counted as a request.
    pub fn failed_handshakes(&self) -> Option<u64> {
        let Self::Haproxy(socket) = self else { return None };
        failed_handshakes(&Self::ask_haproxy(socket, "show stat").ok()?)
    }

    /// Asks HAProxy at its statistics socket.
    pub(crate) fn ask_haproxy(socket: &HaproxySocket, question: &str) -> io::Result<String> {
        socket.ask(question, ANSWER_BYTES_MAX)
    }

    /// Returns a line about the source if it is the socket of a master process.
    pub fn note(&self) -> Option<String> {
        let Self::Haproxy(socket) = self else { return None };
        socket.is_master().unwrap_or(false).then(|| {
            format!("{self} is the socket of HAProxy's master process: the statistics of its worker @1 are read")
        })
    }

    /// Reports whether reading the counters is itself counted, as one request and one connection.
    pub const fn counts_readings(&self) -> bool {
        matches!(self, Self::Nginx(_) | Self::NginxSocket(_))
    }
}

/// Writes the format of the flag `--watch`.
impl fmt::Display for CounterSource {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Haproxy(socket) => write!(formatter, "haproxy:{socket}"),
            Self::NginxSocket(socket) => write!(formatter, "nginx:{}", socket.display()),
            Self::Nginx(url) => write!(formatter, "nginx:{url}"),
        }
    }
}

/// Reads the last line of `show pools`: `Total: 46 pools, 1049088 bytes allocated, 900000 used (~4096 by thread
/// caches), 0 failures.`
fn pools(answer: &str) -> Option<PoolUse> {
    let total = answer.lines().find(|line| line.starts_with("Total:"))?;
    let before = |words: &str| {
        let number = total.split_once(words)?.0.rsplit([' ', '~']).next()?;
        number.parse::<u64>().ok()
    };
    let used = before(" used")?;
    let cached = before(" by thread caches").unwrap_or(0);
    Some(PoolUse {
        allocated_bytes: before(" bytes allocated")?,
        used_bytes: used.saturating_sub(cached),
    })
}

/// Gives HAProxy one command at its statistics socket; the first 64 KiB of its answer.
pub fn command_haproxy(socket: &HaproxySocket, command: &str) -> io::Result<String> {
    socket.ask(command, COMMAND_ANSWER_BYTES_MAX)
}

fn ask(mut stream: impl Read + Write, question: &str) -> io::Result<String> {
    stream.write_all(question.as_bytes())?;
    answer::read(stream, ANSWER_BYTES_MAX, answer::ANSWER_WAIT)
}

/// HTTP/1.0: the server closes the connection after its answer.
fn status_request(authority: &str, path: &str) -> String {
    format!("GET {path} HTTP/1.0\r\nHost: {authority}\r\n\r\n")
}

/// Reads the answer to `show stat`: a CSV table whose first line names the columns after `# `. Returns the fields of
/// each line in `columns`, empty if the line or the table has none; nothing without a first line.
pub(crate) fn table<'a, const N: usize>(answer: &'a str, columns: [&str; N]) -> Vec<[&'a str; N]> {
    let mut lines = answer.lines();
    let Some(head) = lines.next().and_then(|line| line.strip_prefix("# ")) else {
        return Vec::new();
    };
    let names: Vec<&str> = head.split(',').collect();
    let places = columns.map(|wanted| names.iter().position(|name| *name == wanted));
    let of_line = |line: &'a str| {
        let fields: Vec<&str> = line.split(',').collect();
        places.map(|place| place.and_then(|at| fields.get(at).copied()).unwrap_or_default())
    };
    lines.map(of_line).collect()
}

/// Returns the fields of each frontend in `columns`, empty if its line is too short; `None` without such a column.
pub(crate) fn frontends<'a, const N: usize>(
    answer: &'a str,
    columns: [&str; N],
) -> Option<Vec<[&'a str; N]>> {
    let head = answer.lines().next()?.strip_prefix("# ")?;
    let has = |wanted: &str| head.split(',').any(|name| name == wanted);
    if !has("svname") || !columns.into_iter().all(has) {
        return None;
    }
    let kinds = table(answer, ["svname"]);
    let lines = kinds.into_iter().zip(table(answer, columns));
    Some(lines.filter(|([kind], _)| *kind == "FRONTEND").map(|(_, line)| line).collect())
}

/// Each front end, and the sum over all.
fn haproxy(answer: &str) -> Option<ServerCounters> {
    let frontends = frontends(answer, ["pxname", "req_tot", "ereq", "conn_tot"])?;
    let mut sum = ServerCounters::default();
    for [name, requests, incomplete, connections] in &frontends {
        // A frontend in TCP mode counts no requests.
        let number = |field: &str| field.parse().unwrap_or(0);
        let one = ServerCounters {
            requests: number(requests),
            incomplete: number(incomplete),
            connections: number(connections),
            ..ServerCounters::default()
        };
        sum.requests = sum.requests.saturating_add(one.requests);
        sum.incomplete = sum.incomplete.saturating_add(one.incomplete);
        sum.connections = sum.connections.saturating_add(one.connections);
        sum.frontends.insert((*name).to_owned(), one);
    }
    (!frontends.is_empty()).then_some(sum)
}

/// The sum over all front ends. HAProxy counts them from version 2.3 on.
fn failed_handshakes(answer: &str) -> Option<u64> {
    let failed = frontends(answer, ["ssl_failed_handshake"])?.into_iter();
    failed.filter_map(|[failed]| failed.parse().ok()).reduce(u64::saturating_add)
}

/// Returns every number of nginx's stub_status page, by its name there in lower case.
pub(crate) fn nginx_status(
    source: &CounterSource,
) -> Result<Vec<(&'static str, u64)>, CounterError> {
    let answer = match source {
        CounterSource::Nginx(url) => {
            let stream = answer::tcp(&url.host, url.port, |_| true)?;
            ask(stream, &status_request(&url.authority(), &url.path))?
        }
        CounterSource::NginxSocket(socket) => {
            let stream = answer::unix(UnixStream::connect(socket)?)?;
            ask(stream, &status_request("localhost", "/"))?
        }
        CounterSource::Haproxy(_) => return Err(CounterError::Unexpected("nginx's")),
    };
    parse_status(&answer).ok_or(CounterError::Unexpected("nginx's stub_status page"))
}

/// The names of the numbers on the stub_status page, in its order.
const STATUS_NAMES: [&str; 7] =
    ["active", "accepts", "handled", "requests", "reading", "writing", "waiting"];

/// `Active connections: 2`, `server accepts handled requests` with the numbers below it, and
/// `Reading: 0 Writing: 1 Waiting: 1`.
fn parse_status(answer: &str) -> Option<Vec<(&'static str, u64)>> {
    let (_, body) = answer.split_once("\r\n\r\n")?;
    let rest = body.split_once("Active connections:")?.1;
    let (active, rest) = rest.split_once("server accepts handled requests")?;
    let words = active.split_ascii_whitespace().chain(rest.split_ascii_whitespace());
    let numbers: Result<Vec<u64>, _> =
        words.filter(|word| !word.ends_with(':')).map(str::parse).collect();
    let numbers = numbers.ok().filter(|numbers| numbers.len() == STATUS_NAMES.len())?;
    Some(STATUS_NAMES.into_iter().zip(numbers).collect())
}

/// Reads the needed counters of the page.
fn nginx(status: &[(&str, u64)]) -> ServerCounters {
    let number = |name: &str| status.iter().find(|(key, _)| *key == name).map_or(0, |(_, n)| *n);
    let (requests, connections) = (number("requests"), number("accepts"));
    ServerCounters { requests, connections, ..ServerCounters::default() }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// HAProxy 2.6, shortened on the right but for conn_tot and ssl_failed_handshake.
    const STAT: &str = "\
# pxname,svname,qcur,qmax,scur,smax,slim,stot,ereq,req_tot,mode,conn_tot,ssl_failed_handshake
tls,FRONTEND,,,3,100,220,2418,18,91244,http,2418,7
backends,b1,0,0,0,9,,9,,,http,,
backends,BACKEND,0,0,0,20,20,91244,,91244,http,,
raw,FRONTEND,,,0,1,220,5,0,,tcp,5,0

";
    /// nginx 1.22.
    const STATUS: &str = "HTTP/1.1 200 OK\r\nServer: nginx\r\nContent-Length: 97\r\n\r\n\
Active connections: 2 \nserver accepts handled requests\n 14 14 3001 \n\
Reading: 0 Writing: 1 Waiting: 1 \n";

    #[test]
    fn both_servers_are_understood() {
        let counted = |requests, incomplete, connections| ServerCounters {
            requests,
            incomplete,
            connections,
            ..ServerCounters::default()
        };
        let frontends = [("tls", counted(91_244, 18, 2_418)), ("raw", counted(0, 0, 5))];
        let frontends = frontends.map(|(name, counted)| (name.to_owned(), counted)).into();
        let sum = ServerCounters { frontends, ..counted(91_244, 18, 2_423) };
        assert_eq!(haproxy(STAT), Some(sum));
        assert_eq!(failed_handshakes(STAT), Some(7));
        let status = parse_status(STATUS).expect("golden");
        let counted = counted(3_001, 0, 14);
        assert_eq!(nginx(&status), counted);
        assert!(status.contains(&("active", 2)) && status.contains(&("waiting", 1)));
    }

    #[test]
    fn other_answers_are_refused() {
        for broken in ["", "Unknown command\n", "# a,b\n1,2\n", "# svname,ereq,req_tot,conn_tot\n"]
        {
            assert_eq!(haproxy(broken), None, "{broken:?}");
        }
        for broken in [
            "",
            "HTTP/1.1 404 Not Found\r\n\r\nnot here",
            "HTTP/1.1 200 OK\r\n\r\nserver accepts handled requests\n 1 2\n",
            "HTTP/1.1 200 OK\r\n\r\nserver accepts handled requests\n 1 2 x\n",
            "HTTP/1.1 200 OK\r\n\r\nserver accepts handled requests",
        ] {
            assert_eq!(parse_status(broken), None, "{broken:?}");
        }
    }

    #[test]
    fn a_server_that_was_restarted_has_no_difference() {
        let counted =
            |requests| ServerCounters { requests, connections: 5, ..ServerCounters::default() };
        let grown = ServerCounters { requests: 3, ..ServerCounters::default() };
        assert_eq!(counted(7).since(&counted(4)), Some(grown.clone()));
        assert_eq!(counted(4).since(&counted(7)), None);
        // Each front end by itself; one that is new has counted from nothing.
        let of = |frontends: &[(&str, u64)]| {
            let named =
                frontends.iter().map(|(name, requests)| ((*name).to_owned(), counted(*requests)));
            ServerCounters { frontends: named.collect(), ..counted(20) }
        };
        let since = of(&[("a", 9), ("b", 2)]).since(&of(&[("a", 6)])).expect("none was restarted");
        assert_eq!((&since.frontends["a"], &since.frontends["b"]), (&grown, &counted(2)));
    }

    #[test]
    fn a_socket_without_a_server_is_an_error() {
        let nowhere = Path::new("/nowhere/haproxy.sock").to_owned();
        let haproxy = CounterSource::Haproxy(nowhere.as_path().into());
        for source in [haproxy, CounterSource::NginxSocket(nowhere)] {
            assert!(matches!(source.read(), Err(CounterError::Io(_))), "{source:?}");
        }
    }
}
