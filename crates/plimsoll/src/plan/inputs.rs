//! Inputs of a plan from the system: files, standard input, names and the number of CPUs.
//!
//! [`Inputs`] holds the system as functions and numbers, so that tests replace each of them; [`Inputs::of_host`] is
//! the real one. Standard input can be read by one flag only, and a file has at most 64 MiB (bodies have their own
//! limit). [`Inputs::addresses`] resolves a name and drops addresses that refuse a connection, as long as one
//! accepts. Start with [`Inputs`].

use std::env;
use std::io::{Error as IoError, ErrorKind, Read, Result as IoResult};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use plimsoll_model::settings::ResolvedName;
use plimsoll_sys::affinity::usable_cpus;
use plimsoll_sys::{address, input_file, process};

use super::distinct::distinct;
use crate::exit::{Result, Stop};
use crate::flags::values::InputFile;

/// Largest file or standard input that is read, bodies apart. A plan travels to every agent as a whole.
const INPUT_BYTES_MAX: u64 = 64 << 20;

/// Most threads per process without --threads: beyond this, memory bandwidth limits a process before
/// its CPUs do.
pub(super) const THREADS_DEFAULT_MAX: usize = 16;

/// Most addresses of a name that are tried.
const TRIED_MAX: usize = 8;
/// Timeout of the test connection when a name has several addresses.
const FAMILY_CHECK: Duration = Duration::from_secs(1);

/// Longest wait for a FIFO to which nothing writes.
const FIFO_WAIT: Duration = Duration::from_secs(5);

/// The system, as far as a plan reads it.
pub(crate) struct Inputs {
    /// Standard input.
    pub(crate) stdin: Box<dyn Read>,
    /// The flag that has read standard input, which can be done once.
    pub(crate) stdin_reader: Option<String>,
    /// All addresses of a name.
    pub(crate) resolve: fn(&str, u16) -> IoResult<Vec<SocketAddr>>,
    /// Reports whether something accepts connections at an address.
    pub(crate) accepts: fn(SocketAddr) -> bool,
    /// Reports whether this host has an address, so that connections can come from it.
    pub(crate) owns: fn(IpAddr) -> bool,
    /// A variable of this process's environment, where it has one.
    pub(crate) variable: fn(&str) -> Option<String>,
    /// Reports whether a process of this host is there.
    pub(crate) is_alive: fn(u32) -> bool,
    /// CPUs this process may use; at least 1.
    pub(crate) cpus: usize,
    /// Ports that the kernel gives to outgoing connections of one address.
    pub(crate) source_ports: u64,
}

impl Inputs {
    /// Creates the inputs of this host.
    pub(crate) fn of_host(stdin: impl Read + 'static) -> Self {
        Self {
            stdin: Box::new(stdin),
            stdin_reader: None,
            resolve: |host, port| (host, port).to_socket_addrs().map(Iterator::collect),
            accepts: |address| TcpStream::connect_timeout(&address, FAMILY_CHECK).is_ok(),
            owns: address::is_own,
            variable: |name| env::var(name).ok(),
            is_alive: process::is_alive,
            cpus: usable_cpus().len(),
            source_ports: source_ports(Path::new("/proc/sys/net/ipv4")),
        }
    }

    /// Returns the default number of threads of each of `processes` on this host.
    pub(crate) fn threads_default(&self, processes: u32) -> u32 {
        let threads = self.cpus.min(THREADS_DEFAULT_MAX).div_ceil(processes.max(1) as usize);
        u32::try_from(threads.max(1)).unwrap_or(1)
    }

    /// Returns the process ID if the process lives; `typed` is the flag as it was written, up to the number.
    pub(super) fn process(&self, typed: &str, pid: u32) -> Result<u32> {
        if (self.is_alive)(pid) {
            return Ok(pid);
        }
        let flag = typed.split(' ').next().unwrap_or(typed);
        Err(Stop::CannotRun(format!(
            "{typed}{pid}: this host has no such process; find it with pidof, or drop {flag}"
        )))
    }

    /// Returns the bytes of a file or of standard input.
    pub(crate) fn read(&mut self, flag: &str, from: &InputFile) -> Result<Vec<u8>> {
        match from {
            InputFile::File(path) => read_file(flag, path),
            InputFile::Stdin => bounded(self.stdin_for(flag)?).map_err(
                |error| usage!("{flag} cannot read standard input: {error}"; "name a file"),
            ),
        }
    }

    /// Returns standard input, which only one flag can read.
    pub(super) fn stdin_for(&mut self, flag: &str) -> Result<&mut dyn Read> {
        match self.stdin_reader.replace(flag.to_owned()) {
            Some(first) => Err(both_stdin(&first, flag)),
            None => Ok(&mut *self.stdin),
        }
    }

    /// Returns the addresses of `host` that a load goes to.
    ///
    /// A name such as `localhost` often has an IPv6 and an IPv4 address while the server listens
    /// on one of them. A part of all connections would then be refused, so where a name has several
    /// addresses, only those that accept are kept; if none does, all are, and the run counts the errors.
    pub(crate) fn addresses(&self, host: &str, port: u16) -> Result<ResolvedName> {
        let found = self.lookup(host, port)?;
        let name = |kept, refused| ResolvedName { host: host.to_owned(), kept, refused };
        if found.len() < 2 {
            return Ok(name(found, Vec::new()));
        }
        let (tried, others) = found.split_at(found.len().min(TRIED_MAX));
        let (mut kept, refused): (Vec<_>, Vec<_>) =
            tried.iter().partition(|address| (self.accepts)(**address));
        if kept.is_empty() {
            return Ok(name(found, refused));
        }
        kept.extend_from_slice(others);
        Ok(name(kept, refused))
    }

    /// Returns the one address of `host` to listen on or to send to: IPv4 where there is one.
    pub(crate) fn address_of(&self, host: &str) -> Result<IpAddr> {
        let found = self.lookup(host, 0)?;
        let best = found.iter().find(|address| address.is_ipv4()).or_else(|| found.first());
        best.map(SocketAddr::ip).ok_or_else(|| no_address(host))
    }

    /// Looks up a name: at least one address, without repetition.
    fn lookup(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(address, port)]);
        }
        let resolved = (self.resolve)(host, port).map_err(|error| {
            Stop::CannotRun(format!("cannot resolve {host:?}: {error}; check the name"))
        })?;
        let found = distinct(resolved);
        if found.is_empty() { Err(no_address(host)) } else { Ok(found) }
    }
}

/// Returns the size of the ephemeral port range without the reserved ports; the kernel's default where it cannot
/// be read.
fn source_ports(settings: &Path) -> u64 {
    const DEFAULT: (u64, u64) = (32_768, 60_999);
    let read = |name| std::fs::read_to_string(settings.join(name)).unwrap_or_default();
    let range = read("ip_local_port_range");
    let mut ends = range.split_ascii_whitespace().filter_map(|end| end.parse().ok());
    let (first, last) = ends.next().zip(ends.next()).unwrap_or(DEFAULT);
    let reserved = read("ip_local_reserved_ports");
    let taken = reserved.trim().split(',').filter_map(|ports| {
        let (from, to) = ports.split_once('-').unwrap_or((ports, ports));
        let (from, to): (u64, u64) = (from.parse().ok()?, to.parse().ok()?);
        Some((to.min(last) + 1).saturating_sub(from.max(first)))
    });
    (last + 1).saturating_sub(first + taken.sum::<u64>()).max(1)
}

fn no_address(host: &str) -> Stop {
    Stop::CannotRun(format!("{host:?} has no address; check the name"))
}

/// Returns the text of a PEM file.
pub(crate) fn read_pem(flag: &str, path: &Path, label: &str) -> Result<String> {
    let bytes = read_file(flag, path)?;
    // Checks only for the label of a PEM file; the TLS library parses the content.
    match String::from_utf8(bytes) {
        Ok(text) if text.contains(label) => Ok(text),
        _ => refuse!("{flag} {path:?} holds no PEM block with \"{label}\""; "name a PEM file"),
    }
}

/// Returns the error of two flags that both read standard input.
pub(crate) fn both_stdin(first: &str, second: &str) -> Stop {
    usage!("{first} - and {second} - both read standard input"; "give one of them a file")
}

/// Returns the bytes of a file that is not larger than inputs may be.
pub(crate) fn read_bounded(path: &Path) -> IoResult<Vec<u8>> {
    bounded(input_file::open(path, FIFO_WAIT)?)
}

/// Reads a text file that a user names.
pub(crate) fn read_text(path: &Path) -> IoResult<String> {
    let text = String::from_utf8(read_bounded(path)?);
    text.map_err(|error| IoError::new(ErrorKind::InvalidData, error))
}

fn read_file(flag: &str, path: &Path) -> Result<Vec<u8>> {
    read_bounded(path)
        .map_err(|error| usage!("{flag} cannot read {path:?}: {error}"; "name a readable file"))
}

fn bounded(from: impl Read) -> IoResult<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(INPUT_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > INPUT_BYTES_MAX {
        return Err(IoError::new(ErrorKind::FileTooLarge, "larger than 64 MiB"));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn inputs(stdin: &'static [u8]) -> Inputs {
        Inputs {
            stdin: Box::new(stdin),
            stdin_reader: None,
            resolve: |host, port| match host {
                "both" => Ok(vec![
                    SocketAddr::new("::1".parse().unwrap(), port),
                    SocketAddr::new("127.0.0.1".parse().unwrap(), port),
                    SocketAddr::new("127.0.0.1".parse().unwrap(), port),
                ]),
                "empty" => Ok(Vec::new()),
                _ => Err(io::Error::other("no such name")),
            },
            accepts: |address| address.is_ipv4() && address.port() == 80,
            owns: |_| true,
            variable: |_| None,
            is_alive: |_| true,
            cpus: 40,
            source_ports: 28_232,
        }
    }

    #[test]
    fn the_addresses_that_accept_are_kept_and_the_others_named() {
        let inputs = inputs(b"");
        let at = |port| inputs.addresses("both", port).unwrap();
        assert_eq!(at(80).kept, ["127.0.0.1:80".parse().unwrap()]);
        assert_eq!(at(80).refused, ["[::1]:80".parse().unwrap()]);
        // Neither accepts: the run counts the refusals of both.
        assert_eq!(at(81).kept, ["[::1]:81".parse().unwrap(), "127.0.0.1:81".parse().unwrap()]);
        assert_eq!(at(81).refused, at(81).kept);
        let only = inputs.addresses("::1", 9).unwrap();
        assert_eq!((only.refused, only.kept), (vec![], vec!["[::1]:9".parse().unwrap()]));
        assert_eq!(inputs.addresses("nowhere", 80).unwrap_err().code(), 1);
        assert_eq!(inputs.addresses("empty", 80).unwrap_err().code(), 1);
    }

    #[test]
    fn standard_input_is_read_once() {
        let mut inputs = inputs(b"abc");
        assert_eq!(inputs.read("--targets", &InputFile::Stdin), Ok(b"abc".to_vec()));
        let again = inputs.read("--body", &InputFile::Stdin).unwrap_err();
        assert_eq!(again, both_stdin("--targets", "--body"));
    }

    #[test]
    fn inputs_are_bounded() {
        let endless = &mut io::repeat(b'x');
        let error = bounded(endless).unwrap_err();
        assert_eq!(error.to_string(), "larger than 64 MiB");
    }

    #[test]
    fn reserved_ports_are_no_source_ports() {
        let folder = tempfile::tempdir().unwrap();
        let set = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
        assert_eq!(source_ports(folder.path()), 28_232);
        set("ip_local_port_range", "1024\t65535\n");
        assert_eq!(source_ports(folder.path()), 64_512);
        // One below the range, one inside it, ten that begin before it.
        set("ip_local_reserved_ports", "80,8080,1020-1029\n");
        assert_eq!(source_ports(folder.path()), 64_512 - 1 - 6);
    }

    #[test]
    fn threads_follow_the_cpus() {
        let inputs = inputs(b"");
        // 40 CPUs: at most 16 threads in one process, shared out when there are more.
        assert_eq!([1, 2, 3, 64].map(|n| inputs.threads_default(n)), [16, 8, 6, 1]);
    }
}
