//! The systems under test (SUT), with one module per installed program.
//!
//! A module describes its program by one [`Proxy`]: its package, its version, its configuration, and what it can do.
//! [`proxy`] is the only table of them.

mod caddy;
mod haproxy;
mod nginx;

use std::io::Write;
use std::path::{Path, PathBuf};

use plimsoll_fleet::message::SupervisedProgram;
use plimsoll_model::SutKind;
use plimsoll_model::cliff::KnownTimer;
use plimsoll_probe::haproxy_socket::HaproxySocket;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_sys::{limits, output_file};
use plimsoll_tls::KeyKind;

use plimsoll_sys::process::Signal;

use crate::error::LabError;
use crate::plan::LabPlan;
use crate::program;
use crate::program::CheckError;
use crate::proxy_plan::ProxyPlan;
use crate::settings::ProxyConfiguration;

/// The server under test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sut {
    /// Kind of the server.
    pub kind: SutKind,
    /// The program's file; unused for plimsoll's own server.
    pub program: PathBuf,
}

impl Sut {
    /// Returns plimsoll's own server, which answers requests itself.
    pub fn embedded() -> Self {
        Self { kind: SutKind::Embedded, program: PathBuf::new() }
    }

    /// A SUT whose program another host looks up.
    pub fn elsewhere(kind: SutKind) -> Self {
        Self { kind, program: kind.name().into() }
    }

    /// Finds the named program of this kind, or the installed one.
    pub fn find(kind: SutKind, named: Option<&Path>) -> Result<Self, LabError> {
        let Some(proxy) = proxy(kind) else { return Ok(Self::embedded()) };
        let missing = LabError::NotInstalled { program: kind.name(), package: proxy.package() };
        let program = program::find(kind.name(), named).ok_or(missing)?;
        Ok(Self { kind, program })
    }

    /// Returns HAProxy if it is installed, else plimsoll's own server.
    pub fn installed() -> Self {
        Self::find(SutKind::Haproxy, None).unwrap_or_else(|_| Self::embedded())
    }

    /// Returns the key of the certificate of a SUT whose rate is searched.
    ///
    /// Our own server costs what our own client costs, request for request (6.7 us each over TLS,
    /// see docs/journal), so that on one core each the client would be the limit. An RSA handshake
    /// costs the server twice what it costs the client; proxies need no such help.
    pub const fn key_kind(&self) -> KeyKind {
        if self.kind.is_embedded() { KeyKind::Rsa2048 } else { KeyKind::EcdsaP256 }
    }
}

/// An installed program that stands between clients and backends.
pub(crate) trait Proxy: Sync {
    /// Debian's package.
    fn package(&self) -> &'static str;

    /// Returns the signal on which its first process reloads, if the settings let it.
    fn reload_signal(&self) -> Option<Signal> {
        None
    }

    /// Returns the version as the program writes it: `2.6.12-1+deb12u4`.
    fn version(&self, program: &Path) -> Result<String, CheckError>;

    /// Program and arguments that check the configuration in `config`, beside which temporary files may be written.
    fn check_argv(&self, program: &Path, config: &Path) -> Vec<String>;

    /// Returns the first error in what a failed check wrote to stderr.
    fn alert(&self, stderr: &[u8]) -> String;

    /// Lets the program check the configuration in `config`.
    fn check(&self, program: &Path, config: &Path) -> Result<(), CheckError> {
        let argv = self.check_argv(program, config);
        let output = program::run(Path::new(&argv[0]), &argv[1..])?;
        if output.status.success() {
            return Ok(());
        }
        Err(CheckError::Rejected {
            program: program.to_owned(),
            config: config.to_owned(),
            alert: self.alert(&output.stderr),
        })
    }

    /// Writes and checks the configurations of `plan`, and returns the processes to start.
    fn prepare(&self, program: &Path, lab: &LabPlan, plan: ProxyPlan)
    -> Result<Prepared, LabError>;

    /// `true` if it passes on any bytes, not only HTTP and WebSocket.
    fn carries_tcp(&self) -> bool {
        false
    }

    /// `true` if its processes keep the privileges that they are started with.
    fn keeps_privileges(&self) -> bool {
        true
    }

    /// `true` if it listens with `SO_REUSEPORT`.
    fn shares_port(&self, _configuration: &ProxyConfiguration) -> bool {
        true
    }

    /// `true` if it logs to a datagram socket, `false` if to a file.
    fn logs_to_socket(&self) -> bool {
        false
    }

    /// `true` if this build of it reports statistics.
    fn has_statistics(&self, _program: &Path) -> bool {
        true
    }

    /// `true` if this build of it speaks HTTP/2.
    fn has_http2(&self, _program: &Path) -> bool {
        true
    }
}

/// Returns the description of an installed program; `None` for plimsoll's own server.
pub(crate) fn proxy(kind: SutKind) -> Option<&'static dyn Proxy> {
    match kind {
        SutKind::Embedded => None,
        SutKind::Haproxy => Some(&haproxy::Haproxy),
        SutKind::Nginx => Some(&nginx::Nginx),
        SutKind::Caddy => Some(&caddy::Caddy),
    }
}

/// Reports whether a server of this kind carries any protocol over TCP, not only HTTP and WebSocket.
pub fn carries_tcp(kind: SutKind) -> bool {
    proxy(kind).is_none_or(Proxy::carries_tcp)
}

/// Reports whether the processes of this kind keep the privileges that they are started with.
pub fn keeps_privileges(kind: SutKind) -> bool {
    proxy(kind).is_none_or(Proxy::keeps_privileges)
}

/// Programs whose configuration is written and checked.
pub(crate) struct Prepared {
    pub(crate) name: String,
    pub(crate) children: Vec<SupervisedProgram>,
    pub(crate) notes: Vec<String>,
    pub(crate) timers: Vec<KnownTimer>,
    pub(crate) statistics: Option<CounterSource>,
    /// Sockets of HAProxy's processes at which each takes commands about its servers b1, b2, ….
    pub(crate) sockets: Vec<HaproxySocket>,
}

/// `haproxy 2.6`, or `3 x haproxy 2.6`.
pub(crate) fn several(processes: u32, name: &str) -> String {
    if processes == 1 { name.to_owned() } else { format!("{processes} x {name}") }
}

pub(crate) fn check_descriptors(program: &'static str, needed: u64) -> Result<(), LabError> {
    let have = limits::raise_descriptor_limit();
    if needed <= have { Ok(()) } else { Err(LabError::Descriptors { program, needed, have }) }
}

/// Writes a new file of the SUT.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), LabError> {
    let written =
        output_file::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| LabError::Write { path: path.to_owned(), source })
}
