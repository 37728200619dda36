//! The description of an installed program, and what a start of it needs.

use std::io::Write;
use std::path::Path;

use plimsoll_fleet::message::SupervisedProgram;
use plimsoll_model::cliff::KnownTimer;
use plimsoll_probe::haproxy_socket::HaproxySocket;
use plimsoll_probe::server_counters::CounterSource;
use plimsoll_sys::{limits, output_file};

use crate::error::{LabError, Result};
use crate::plan::LabPlan;
use crate::program;
use crate::program::CheckError;
use crate::proxy_plan::ProxyPlan;
use crate::settings::ProxyConfiguration;

/// An installed program that stands between clients and backends.
pub(crate) trait Proxy: Sync {
    /// Debian's package.
    fn package(&self) -> &'static str;

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
    fn prepare(&self, program: &Path, lab: &LabPlan, plan: ProxyPlan) -> Result<Prepared>;

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
