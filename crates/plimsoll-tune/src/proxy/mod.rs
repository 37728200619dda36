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

use plimsoll_model::units::grouped;

pub use memory::Memory;
pub use path::unwritable;
use text::Text;

/// A program that a configuration can be written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// HAProxy, 2.4 and later.
    Haproxy,
    /// nginx, 1.18 and later.
    Nginx,
}

/// Major and minor number of a version.
pub type Version = (u32, u32);

/// What the proxy has to do.
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
    /// `HOST:PORT` of each server behind it.
    pub backends: Vec<String>,
    /// `ADDRESS:PORT` that clients connect to.
    pub listen: String,
    /// Where everything else of it lies.
    pub places: Places,
}

/// The files of a running proxy, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Places {
    /// The user that it becomes after its start; `None` leaves it as it was started.
    pub user: Option<String>,
    /// Its directory after the start, which must be there; HAProxy only.
    pub chroot: Option<PathBuf>,
    /// Where HAProxy answers `show info`, and nginx its stub_status; `None` for none.
    pub statistics: Option<PathBuf>,
    /// Where log lines go: a socket for HAProxy, a file for nginx; `None` for nowhere.
    pub log: Option<PathBuf>,
    /// The directory of pid and temporary files; nginx only.
    pub state: PathBuf,
}

/// A burst of connections that waits while nobody accepts: the kernel's own default limit.
const BACKLOG_MIN: u64 = 4_096;

impl ProxyGoal {
    /// Connections of one second, which the accept queue has to hold.
    fn backlog(&self) -> u64 {
        self.rate_per_s.max(BACKLOG_MIN)
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

impl Program {
    /// The name of the program's file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Haproxy => "haproxy",
            Self::Nginx => "nginx",
        }
    }

    /// The oldest version that a configuration is written for.
    pub const fn oldest(self) -> Version {
        match self {
            Self::Haproxy => (2, 4),
            Self::Nginx => (1, 18),
        }
    }

    /// The version in what the program calls itself, such as `2.6.12-1+deb12u4`.
    pub fn version(self, text: &str) -> Option<Version> {
        let mut numbers = text.split(|c: char| !c.is_ascii_digit());
        Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
    }

    /// The first comments of a configuration: what it is for, and the memory that this takes.
    fn heading(self, text: &mut Text, version: Version, goal: &ProxyGoal, memory: &Memory) {
        let title = match self {
            Self::Haproxy => "HAProxy",
            Self::Nginx => "nginx",
        };
        text.comment(&format!(
            "{title} {}.{}: {} connections, {} new ones per second, {} CPUs. Written by plimsoll tune {}.",
            version.0,
            version.1,
            grouped(goal.connections),
            grouped(goal.rate_per_s),
            goal.cores,
            self.name()
        ));
        text.comment(&memory.line());
    }

    /// The configuration for `goal`, in the words of `version`.
    pub fn configure(self, version: Version, goal: &ProxyGoal) -> Configuration {
        match self {
            Self::Haproxy => haproxy::configure(version, goal),
            Self::Nginx => nginx::configure(version, goal),
        }
    }
}
