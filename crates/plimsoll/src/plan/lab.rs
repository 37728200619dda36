//! The parts of the laboratory, from the flags of `plimsoll lab`.
//!
//! [`hosts`] decides which server is tested, finds its program, and returns a [`LabPlan`] with the protocol, the
//! broker and the number of backends. With `--sut-host` it also returns [`RemoteLab`]: the machines of server and
//! backends, and the address to listen on; their program is found over there. Combinations that cannot work are refused
//! with the flag to change. [`trust`] and [`request`] describe the clients, [`placement`] the CPUs. Start with
//! [`hosts`].

use std::net::SocketAddr;
use std::path::Path;

use plimsoll_fleet::hosts::{HostName, LoadHosts, fold};
use plimsoll_lab::{LabPlan, Placement, Sut, describe};
use plimsoll_model::SutKind;
use plimsoll_model::plan::Trust;
use plimsoll_model::target::Protocol;
use plimsoll_sys::affinity::usable_cpus;

use super::Inputs;
use crate::exit::Result;
use crate::flags::experiments::HostFlags;
use crate::flags::hosts::SUT_PORT;
use crate::flags::programs::kinds;
use crate::flags::shared::RequestFlags;
use crate::flags::values::{BrokerFlag, IsolateFlag, ProtocolFlag};

/// Bytes that `--protocol tcp` sends, and expects back, if no flag gives them.
const ECHO_BYTES_DEFAULT: u64 = 64;

impl RemoteLab {
    /// Returns the hosts of server and backends as text.
    pub(crate) fn name(&self) -> String {
        let names: Vec<HostName> = self.hosts.hosts.iter().map(|host| host.name.clone()).collect();
        match names.split_first() {
            Some((sut, [])) => format!("server and backends {sut}"),
            Some((sut, backends)) => format!("server {sut}, backends {}", fold(backends)),
            None => String::new(),
        }
    }
}

/// The parts of a laboratory, checked.
#[derive(Clone, Debug)]
pub(crate) struct Hosts {
    /// The laboratory; the program under test is installed.
    pub(crate) plan: LabPlan,
    /// Other machines that server and backends are on.
    pub(crate) far: Option<RemoteLab>,
}

/// Server and backends on other machines.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RemoteLab {
    /// The server's first.
    pub(crate) hosts: LoadHosts,
    /// Listening address of the server.
    pub(crate) listen: SocketAddr,
}

/// Returns the clients' trust in the SUT, which shows the certificate `chain_pem`.
pub(crate) fn trust(flags: &HostFlags, chain_pem: &str) -> Trust {
    if flags.insecure { Trust::Insecure } else { Trust::Roots(chain_pem.to_owned()) }
}

/// Checks what the laboratory is to be made of, and finds the program under test: HAProxy where it
/// is installed, else our own server, unless the flags name one.
pub(crate) fn hosts(flags: &HostFlags, inputs: &Inputs) -> Result<Hosts> {
    let far = far(flags, inputs)?;
    let (kind, program) = named(flags)?;
    let sut = match kind {
        // Their host finds the program.
        kind if far.is_some() => Sut::elsewhere(kind.unwrap_or(SutKind::Haproxy)),
        None => Sut::installed(),
        Some(kind) => Sut::find(kind, program)?,
    };
    let protocol = match flags.protocol {
        ProtocolFlag::Http => Protocol::Http1,
        ProtocolFlag::Ws => Protocol::WebSocket,
        ProtocolFlag::Mqtt => Protocol::Mqtt,
        ProtocolFlag::Tcp => Protocol::Script,
    };
    refuse_if!(!protocol.has_headers() && !sut.description().carries_tcp;
        "{} is an HTTP proxy here, and --protocol mqtt and tcp need one of TCP", sut.kind.title();
        "use --sut {}", kinds(SutKind::ALL.into_iter().filter(|kind| describe(*kind).carries_tcp)));
    let mosquitto = match flags.broker {
        BrokerFlag::Embedded => None,
        BrokerFlag::Mosquitto if protocol != Protocol::Mqtt || !sut.description().is_proxy() => {
            refuse!("--broker mosquitto is behind a proxy that passes MQTT on";
                "use --protocol mqtt --sut haproxy; a broker alone is loaded by its URL: find rate mqtt://HOST");
        }
        BrokerFlag::Mosquitto => Some(LabPlan::find_mosquitto()?),
    };
    let plan = LabPlan {
        mosquitto,
        protocol,
        sut_is_default: kind.is_none(),
        backends: flags.backends,
        keep_config: flags.keep,
        ..LabPlan::new(sut)
    };
    Ok(Hosts { plan, far })
}

/// Returns the machines that the flags name for server and backends.
fn far(flags: &HostFlags, inputs: &Inputs) -> Result<Option<RemoteLab>> {
    let machines = &flags.machines;
    let Some(sut) = &machines.sut_host else { return Ok(None) };
    let program = flags.server.programs.first();
    let program = program.map(|(kind, _)| (format!("--{kind}"), "names a file of this host"));
    let broker = (flags.broker != BrokerFlag::Embedded)
        .then(|| ("--broker".to_owned(), "starts a broker on this host"));
    let isolate = (flags.isolate == IsolateFlag::Netns)
        .then(|| ("--isolate".to_owned(), "makes hosts of this one"));
    if let Some((flag, why)) = program.or(broker).or(isolate) {
        refuse!("{flag} {why}, and --sut-host runs the server on another";
            "drop one of them; --sut says which program is run");
    }
    let hosts = super::hosts::of_laboratory(machines, sut)?;
    let listen = match machines.sut_address {
        Some(address) => address,
        None => {
            let name = &hosts.hosts[0].name.host;
            let ip = inputs.address_of(name).map_err(|_| {
                usage!("--sut-host {name:?} is no name that resolves here";
                    "give --sut-address, where clients and backends reach it")
            })?;
            SocketAddr::new(ip, SUT_PORT)
        }
    };
    Ok(Some(RemoteLab { hosts, listen }))
}

/// Refuses other machines where they are not possible.
pub(crate) fn check_near(flags: &HostFlags, command: &str) -> Result<()> {
    refuse_if!(flags.machines.sut_host.is_some();
        "--sut-host is for lab rate, handshakes, connections and hold, not for {command}";
        "drop it");
    Ok(())
}

/// Returns the clients' request to the laboratory. Backends of TCP send everything back.
pub(crate) fn request(flags: &HostFlags) -> RequestFlags {
    let mut script = flags.script.clone();
    if flags.protocol == ProtocolFlag::Tcp && script.first_given().is_none() {
        script.echo = Some(ECHO_BYTES_DEFAULT);
    }
    RequestFlags { mqtt: flags.mqtt.clone(), script, ..RequestFlags::default() }
}

/// Gives this many CPUs to the SUT, as far as there are.
pub(crate) fn placement(count: usize) -> Result<Placement> {
    let cpus = usable_cpus();
    Placement::with_sut(&cpus, count).ok_or_else(|| {
        usage!("{count} CPUs for the server are more than this host has";
            "use at most {}", cpus.len())
    })
}

/// Returns the kind of server under test and the file of its program, if the flags name them.
fn named(flags: &HostFlags) -> Result<(Option<SutKind>, Option<&Path>)> {
    let (mut sut, mut program) = (flags.server.sut, None);
    for (kind, path) in &flags.server.programs {
        refuse_if!(!path.is_file(); "--{kind} {path:?} is no file"; "name the program");
        refuse_if!(sut.is_some_and(|other| other != *kind);
            "--{kind} names a program that is not what --sut tests";
            "drop --{kind}, or change --sut");
        (sut, program) = (Some(*kind), Some(path.as_path()));
    }
    Ok((sut, program))
}
