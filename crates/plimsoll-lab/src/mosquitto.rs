//! mosquitto behind a proxy: one broker that listens on each port that the proxy connects to.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use plimsoll_fleet::message::{Readiness, SupervisedProgram, SupervisorPlan};
use plimsoll_fleet::{AgentCommand, Supervisor};
use plimsoll_sys::socket::ReservedPort;
use plimsoll_sys::{Errno, limits, private_dir};

use crate::error::{LabError, Result};
use crate::isolated::{IsolatedHost, ip_of, on_host};
use crate::plan::{CONNECTIONS_SPARE, LabPlan};
use crate::program;
use crate::sut::{check_descriptors, write};

/// Descriptors of its own, beside connections and listening sockets.
const DESCRIPTORS_OWN: u64 = 64;

/// A running broker. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Mosquitto {
    /// Program and version.
    pub(crate) name: String,
    /// Listening addresses.
    pub(crate) addresses: Vec<SocketAddr>,
    supervisor: Supervisor,
    /// Reservations that keep other programs off the ports.
    _ports: Vec<ReservedPort>,
}

impl Mosquitto {
    /// Starts the one at `path` on `host`, `None` for this host's loopback, and waits until it listens.
    pub(crate) fn start(path: &Path, plan: &LabPlan, host: Option<&IsolatedHost>) -> Result<Self> {
        let ports = plan.backend_ports();
        limits::raise_descriptor_limit();
        check_descriptors(
            "mosquitto",
            plan.connections + CONNECTIONS_SPARE + ports + DESCRIPTORS_OWN,
        )?;
        let reserved = reserve(ports, host)?;
        let addresses = reserved.iter().map(ReservedPort::local_address);
        let addresses = addresses.collect::<Result<Vec<_>, _>>();
        let addresses = addresses.map_err(|errno| LabError::NoPort(errno.into()))?;
        let first = addresses.first().copied();
        let scratch = private_dir::unused_path("plimsoll-broker");
        let supervised = SupervisorPlan {
            scratch_dir: Some(scratch.clone()),
            keep: plan.keep_config,
            ..SupervisorPlan::default()
        };
        let network = host.map(|host| host.network.clone());
        let mut supervisor = Supervisor::start(&AgentCommand::supervisor(), network, supervised)?;
        let config = scratch.join("mosquitto.conf");
        write(&config, &render(&addresses))?;
        // With -v it would begin to serve.
        let name = format!("mosquitto {}", program::version(path, "-h", "mosquitto version ")?);
        let cpus = plan.placement.as_ref().map(|placement| placement.backends.clone());
        let argv = [path.as_os_str(), "-c".as_ref(), config.as_os_str()];
        supervisor.start_programs(vec![SupervisedProgram {
            name: name.clone(),
            argv: argv.map(|word| word.to_string_lossy().into_owned()).to_vec(),
            cpus: cpus.unwrap_or_default(),
            ready: first.map_or(Readiness::Started, Readiness::Accepts),
        }])?;
        Ok(Self { name, addresses, supervisor, _ports: reserved })
    }

    pub(crate) fn pids(&self) -> Vec<u32> {
        self.supervisor.pids().to_vec()
    }
}

impl LabPlan {
    /// Returns the installed mosquitto.
    pub fn find_mosquitto() -> Result<PathBuf> {
        program::find("mosquitto", None).ok_or(LabError::NoMosquitto)
    }
}

/// Returns ports that a program without `SO_REUSEPORT` may listen on.
fn reserve(count: u64, host: Option<&IsolatedHost>) -> Result<Vec<ReservedPort>> {
    let one = |_: u64| -> Result<ReservedPort, Errno> {
        let port = ReservedPort::bind((ip_of(host), 0).into())?;
        port.admit_any()?;
        Ok(port)
    };
    let bind = || (0..count).map(one).collect::<Result<Vec<_>, Errno>>();
    on_host(host, bind)?.map_err(|errno| LabError::NoPort(errno.into()))
}

fn render(addresses: &[SocketAddr]) -> String {
    let mut text = String::new();
    line!(&mut text, "# Written by plimsoll for one run.");
    line!(&mut text, "allow_anonymous true");
    line!(&mut text, "persistence false");
    line!(&mut text, "set_tcp_nodelay true");
    line!(&mut text, "log_dest none");
    // mosquitto would change to its own user, who may not read this.
    line!(&mut text, "user root");
    for address in addresses {
        line!(&mut text, "listener {} {}", address.port(), address.ip());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_listens_on_each_port_and_keeps_nothing() {
        let addresses = ["127.0.0.1:4001", "127.0.0.1:4002"].map(|text| text.parse().unwrap());
        let text = render(&addresses);
        assert!(text.contains("persistence false\n"));
        assert!(text.ends_with("listener 4001 127.0.0.1\nlistener 4002 127.0.0.1\n"), "{text}");
    }

    #[test]
    fn the_installed_one_says_its_version() {
        let path = program::tests::installed("mosquitto", "mosquitto");
        let version = program::version(&path, "-h", "mosquitto version ").unwrap();
        assert!(version.starts_with("2."), "{version}");
    }
}
