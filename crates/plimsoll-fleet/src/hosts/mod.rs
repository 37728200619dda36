//! Hosts other than this one: their names, how a process is started there, and how it gets its program.

use std::path::PathBuf;

mod bootstrap;
pub(crate) mod clock;
mod launcher;
mod list;
mod preamble;
mod program;
mod trouble;

pub use launcher::Launcher;
pub use list::{HOSTS_MAX, HostName, HostNameError, fold, parse};
pub use preamble::announce;
pub use program::identity;

pub(crate) use bootstrap::script;
pub(crate) use preamble::{Preamble, Word};
pub(crate) use program::Program;
pub(crate) use trouble::{explained, is_dropped};

/// A host that makes load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadHost {
    /// Name by which it is reached.
    pub name: HostName,
    /// Worker threads; a host's share of the load is in proportion. `None`: as many as it has CPUs.
    pub threads: Option<u32>,
}

/// The hosts of a load, and how a process is started on each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadHosts {
    /// At least one, each once.
    pub hosts: Vec<LoadHost>,
    /// Launcher for them.
    pub launcher: Launcher,
    /// The program on each of them; `None` finds it there or copies it there.
    pub path: Option<String>,
    /// The file that names them, where one does.
    pub file: Option<PathBuf>,
}
