//! A complete configuration of HAProxy or nginx for a number of connections, each setting with its
//! reason and its source, and the memory that it will need.
//!
//! Pure: who finds the installed program, and lets it check what is written here, is the caller.

mod haproxy;
mod memory;
mod nginx;
mod path;
#[cfg(test)]
mod tests;
mod text;

use std::path::PathBuf;

use plimsoll_model::SutKind;
use plimsoll_model::units::grouped;

pub use haproxy::HAPROXY;
pub use memory::Memory;
pub use nginx::{DEBIAN_WORKER_CONNECTIONS, NGINX};
pub use path::unwritable;
use text::Text;

/// Major and minor number of a version.
pub type Version = (u32, u32);

/// The task of the proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProxyGoal {
    /// Client connections held at once.
    pub connections: u64,
    /// New TLS connections per second.
    pub rate_per_s: u64,
    /// CPUs that it may use.
    pub cores: u32,
    /// One PEM file with the certificate chain, leaf first, and its key.
    pub certificate: PathBuf,
    /// Full handshakes per second that one CPU makes with the key of the certificate.
    pub handshakes_per_cpu: u64,
    /// `HOST:PORT` of each server behind it.
    pub backends: Vec<String>,
    /// The members of `backends` whose names DNS resolves.
    pub named_backends: Vec<String>,
    /// The program speaks HTTP/2; nginx may be built without.
    pub http2: bool,
    /// `ADDRESS:PORT` that clients connect to.
    pub listen: String,
    /// Places of its other files.
    pub places: Places,
}

/// The files of a running proxy, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The user that it becomes after its start; `None` leaves it as it was started.
    pub user: Option<String>,
    /// Root directory after the start, which must exist; HAProxy only.
    pub chroot: Option<PathBuf>,
    /// Socket of HAProxy's `show info`, or of nginx's stub_status; `None` for none.
    pub statistics: Option<PathBuf>,
    /// Destination of log lines: a socket for HAProxy, a file for nginx; `None` for no log.
    pub log: Option<PathBuf>,
    /// The directory of pid and temporary files; nginx only.
    pub state: PathBuf,
}

/// Cipher suites up to TLS 1.2: Mozilla's guidelines, intermediate, version 6.0.
const CIPHERS: &str = "ECDHE-ECDSA-AES128-GCM-SHA256:ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384:\
                       ECDHE-RSA-AES256-GCM-SHA384:ECDHE-ECDSA-CHACHA20-POLY1305:ECDHE-RSA-CHACHA20-POLY1305";
/// Lifetime of a session, the default of HAProxy and of nginx.
const SESSION_LIFETIME_S: u64 = 300;
/// HAProxy's default, and a bound of 1 to 2 GB.
const SESSIONS_MIN: u64 = 20_000;
const SESSIONS_MAX: u64 = 5_000_000;

/// Length of an accept queue at least, for bursts of connections: the kernel's own default limit.
const BACKLOG_MIN: u64 = 4_096;

impl ProxyGoal {
    /// Returns the number of connections of one second, which the accept queue has to hold.
    fn backlog(&self) -> u64 {
        self.rate_per_s.max(BACKLOG_MIN)
    }

    /// Returns the number of sessions that clients without tickets may resume: all of the last [`SESSION_LIFETIME_S`].
    fn sessions(&self) -> u64 {
        self.rate_per_s.saturating_mul(SESSION_LIFETIME_S).clamp(SESSIONS_MIN, SESSIONS_MAX)
    }

    /// Says so if the CPUs cannot make full handshakes at the rate.
    pub fn too_fast(&self) -> Option<String> {
        let made = self.handshakes_per_cpu.max(1).saturating_mul(self.cores.max(1).into());
        (self.rate_per_s > made).then(|| {
            format!(
                "{} new connections per second are more than the CPUs can make: with this certificate's key one CPU \
                 makes about {} full TLS handshakes per second, so that {} CPUs are needed unless most clients \
                 resume sessions",
                grouped(self.rate_per_s),
                grouped(self.handshakes_per_cpu),
                grouped(self.rate_per_s.div_ceil(self.handshakes_per_cpu.max(1)))
            )
        })
    }
}

/// A configuration, and what it will need.
#[derive(Clone, Debug, PartialEq)]
pub struct Configuration {
    /// The whole file.
    pub text: String,
    /// The memory of the proxy and of its sockets.
    pub memory: Memory,
    /// Files that the fullest of its processes will have open.
    pub descriptors: u64,
}

/// The configuration language of a program, and the places of its files on Debian.
#[derive(Debug)]
pub struct Dialect {
    /// The program.
    pub kind: SutKind,
    /// The oldest version that a configuration is written for.
    pub oldest: Version,
    /// The argument that lets the program check a configuration.
    pub check_flag: &'static str,
    /// The user of Debian's service.
    pub user: &'static str,
    /// The directory that Debian's service changes its root to.
    pub chroot: Option<&'static str>,
    /// The directory of its sockets and its pid file.
    pub state: &'static str,
    /// The name of its statistics socket in `state`.
    pub statistics: &'static str,
    /// Log of Debian's service.
    pub log: &'static str,
    /// Proxied connections that Debian's configuration allows on a number of CPUs.
    pub debian_connections: fn(u32) -> u64,
    quote: fn(&str) -> String,
    write: fn(Version, &ProxyGoal) -> Configuration,
}

impl PartialEq for Dialect {
    fn eq(&self, other: &Self) -> bool {
        self.kind == other.kind
    }
}

impl Eq for Dialect {}

impl Dialect {
    /// Returns the first comments of a configuration: its purpose, and the memory that it takes.
    fn heading(&self, text: &mut Text, version: Version, goal: &ProxyGoal, memory: &Memory) {
        text.comment(&format!(
            "{} {}.{}: {} connections, {} new ones per second, {} CPUs. Written by plimsoll tune {}.",
            self.kind.title(),
            version.0,
            version.1,
            grouped(goal.connections),
            grouped(goal.rate_per_s),
            goal.cores,
            self.kind
        ));
        text.comment(&memory.line());
        if let Some(warning) = goal.too_fast() {
            text.comment(&warning);
        }
    }

    /// Returns the configuration for `goal`, in the words of `version`.
    pub fn configure(&self, version: Version, goal: &ProxyGoal) -> Configuration {
        (self.write)(version, goal)
    }
}

/// Reads the numbers of a version such as `2.6.12-1+deb12u4`.
pub fn version(text: &str) -> Option<Version> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}
