//! The facts that a laboratory relies on about a kind of server, and an installed program of it.
//!
//! [`Description`] is a row of constants for each kind. [`Proxy`] is the part that needs the program itself: version,
//! configuration, and the processes to start. Start reading at [`Description`].

use std::io::Write;
use std::path::Path;

use plimsoll_fleet::message::SupervisedProgram;
use plimsoll_model::cliff::KnownTimer;
use plimsoll_probe::haproxy_socket::HaproxySocket;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_sys::{limits, output_file};
use plimsoll_tls::KeyKind;

use crate::controls::Reload;
use crate::error::{LabError, Result};
use crate::plan::LabPlan;
use crate::program;
use crate::program::CheckError;
use crate::proxy_plan::ProxyPlan;
use crate::settings::ProxyConfiguration;

/// A kind of server that a laboratory can start as its SUT.
pub struct Description {
    /// The installed program; `None` for plimsoll's own server.
    pub(crate) proxy: Option<&'static dyn Proxy>,
    /// Returns the way in which a program reloads its configuration in a scratch directory; `None` if it cannot.
    pub(crate) reload: Option<fn(&Path, &Path) -> Reload>,
    /// `true` if it drains servers behind it on a command.
    pub drains: bool,
    /// `true` if it carries any protocol over TCP, not only HTTP and WebSocket.
    pub carries_tcp: bool,
    /// `true` if its processes keep the privileges that they are started with.
    pub keeps_privileges: bool,
    /// `true` if a request costs it no more than it costs plimsoll's client.
    pub costs_as_client: bool,
    /// Settings that a sweep may vary. `tune.*` is every setting with that prefix: the program knows all of them, and
    /// refuses others.
    pub options: &'static [&'static str],
}

impl Description {
    /// An installed program that only passes requests on.
    pub(super) const PROXY: Self = Self {
        proxy: None,
        reload: None,
        drains: false,
        carries_tcp: false,
        keeps_privileges: true,
        costs_as_client: false,
        options: &[],
    };

    /// Reports whether the server is an installed proxy with servers behind it, and does not answer requests itself.
    pub const fn is_proxy(&self) -> bool {
        self.proxy.is_some()
    }

    /// Reports whether the server can reload its configuration.
    pub const fn reloads(&self) -> bool {
        self.reload.is_some()
    }

    /// Reports whether `key` is the name of one of its [`Self::options`].
    pub fn has_option(&self, key: &str) -> bool {
        let is_letter =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b".-_".contains(&byte);
        let is_of = |option: &&str| match option.strip_suffix('*') {
            Some(prefix) => key
                .strip_prefix(prefix)
                .is_some_and(|name| !name.is_empty() && name.bytes().all(is_letter)),
            None => key == *option,
        };
        self.options.iter().any(is_of)
    }

    /// Returns the key of its certificate if its rate is searched.
    ///
    /// Our own server costs what our own client costs, request for request (6.7 us each over TLS,
    /// see docs/journal), so that on one core each the client would be the limit. An RSA handshake
    /// costs the server twice what it costs the client; proxies need no such help.
    pub const fn key_kind(&self) -> KeyKind {
        if self.costs_as_client { KeyKind::Rsa2048 } else { KeyKind::EcdsaP256 }
    }
}

/// An installed program between clients and backends.
pub(crate) trait Proxy: Sync {
    /// Returns the name of Debian's package.
    fn package(&self) -> &'static str;

    /// Returns the version as the program writes it: `2.6.12-1+deb12u4`.
    fn version(&self, program: &Path) -> Result<String, CheckError>;

    /// Returns program and arguments that check the configuration in `config`, beside which temporary files may be
    /// written.
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
    fn prepare(&self, program: &Path, lab: &LabPlan, plan: ProxyPlan) -> Result<Prepared>;

    /// Reports whether the server listens with `SO_REUSEPORT`.
    fn shares_port(&self, _configuration: &ProxyConfiguration) -> bool {
        true
    }

    /// Reports whether the server logs to a datagram socket, and not to a file.
    fn logs_to_socket(&self) -> bool {
        false
    }

    /// Reports whether this build of the program reports statistics.
    fn has_statistics(&self, _program: &Path) -> bool {
        true
    }

    /// Reports whether this build of the program speaks HTTP/2.
    fn has_http2(&self, _program: &Path) -> bool {
        true
    }
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

/// Returns `haproxy 2.6`, or `3 x haproxy 2.6`.
pub(crate) fn several(processes: u32, name: &str) -> String {
    if processes == 1 { name.to_owned() } else { format!("{processes} x {name}") }
}

pub(crate) fn check_descriptors(program: &'static str, needed: u64) -> Result<()> {
    let have = limits::raise_descriptor_limit();
    if needed <= have { Ok(()) } else { Err(LabError::Descriptors { program, needed, have }) }
}

/// Writes a new file of the SUT.
pub(crate) fn write(path: &Path, text: &str) -> Result<()> {
    let written =
        output_file::create_new(path).and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| LabError::Write { path: path.to_owned(), source })
}
