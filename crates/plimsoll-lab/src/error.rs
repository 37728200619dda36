//! Why a laboratory cannot be started, or a server not be watched.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use plimsoll_fleet::FleetError;
use plimsoll_tls::ConfigError;

use crate::program::CheckError;

/// The result of what may fail with a [`LabError`].
pub(crate) type Result<T, E = LabError> = std::result::Result<T, E>;

/// Why a laboratory cannot be started, or a server not be watched. A SUT that misbehaves is none of
/// these: that is a result.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The program under test is not installed.
    #[error(
        "{program} is not installed; install it with apt-get install {package}, name it with \
         --{program} PATH, or use --sut embedded"
    )]
    NotInstalled {
        /// Name of the program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// A program is missing on another host, of which no file is named.
    #[error("{program} is not installed; install it there with apt-get install {package}")]
    NotInstalledThere {
        /// Name of the program.
        program: &'static str,
        /// The Debian package that has it.
        package: &'static str,
    },
    /// The broker that is to be behind the program under test is not installed.
    #[error(
        "mosquitto is not installed; install it with apt-get install mosquitto, or use --broker embedded"
    )]
    NoMosquitto,
    /// The program that a configuration is to be written for is not installed.
    #[error("{0} is not installed; install it, or name it with --program PATH")]
    NotThere(&'static str),
    /// The named file is no program.
    #[error("{} is no program; name the file to execute with --program PATH", .0.display())]
    NoProgram(PathBuf),
    /// The installed program is too old.
    #[error(
        "{} is version {version}, and settings are known for {oldest} and later; install a newer one, \
         or name it with --program PATH",
        path.display()
    )]
    TooOld {
        /// Path of the program.
        path: PathBuf,
        /// Version of the program.
        version: String,
        /// The oldest that is known.
        oldest: String,
    },
    /// A proxy cannot be used.
    #[error(transparent)]
    Proxy(#[from] CheckError),
    /// A process could not be started.
    #[error(transparent)]
    Fleet(#[from] FleetError),
    /// No certificate or ticket key could be made.
    #[error(transparent)]
    Tls(#[from] ConfigError),
    /// One process may not open enough files.
    #[error(
        "{program} needs {needed} open files, and a process may have {have} here; raise the limit \
         with ulimit -n {needed}, or use fewer --connections"
    )]
    Descriptors {
        /// The proxy.
        program: &'static str,
        /// Descriptors that it needs.
        needed: u64,
        /// The limit of one process.
        have: u64,
    },
    /// The kernel refuses network namespaces.
    #[error("this host allows no network namespaces ({0}): they need root; use --isolate none")]
    Isolation(io::Error),
    /// The address that was named for the server cannot be used.
    #[error("the server cannot listen at {listen}: {source}; name another one with --sut-address")]
    NoAddress {
        /// The address.
        listen: SocketAddr,
        /// The system's reason.
        source: io::Error,
    },
    /// No port to listen on is free.
    #[error("no free port for the server: {0}")]
    NoPort(io::Error),
    /// The directory for temporary files has a name that no configuration can hold.
    #[error(
        "{}: a path with {character:?} cannot be written in a configuration of {program}; name another \
         directory in TMPDIR",
        path.display()
    )]
    Unwritable {
        /// The directory.
        path: PathBuf,
        /// The character in its name.
        character: char,
        /// The proxy.
        program: &'static str,
    },
    /// No directory for files of a check can be created.
    #[error("cannot create a directory for temporary files: {0}; name another place in TMPDIR")]
    Scratch(io::Error),
    /// A file of the SUT cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// A limit of a running server cannot be changed.
    #[error("{0}")]
    Lever(String),
    /// The link between clients and server cannot be switched.
    #[error("cannot switch the link between clients and server: {0}")]
    Link(io::Error),
    /// An event of a load cannot be carried out.
    #[error("{0}")]
    Event(String),
    /// The statistics of a server that was named cannot be read.
    #[error("--watch {source_name}: {reason}")]
    Statistics {
        /// The source as it was typed.
        source_name: String,
        /// Why not.
        reason: String,
    },
}
