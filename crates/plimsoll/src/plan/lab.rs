//! `plimsoll lab` into a job: what to start, and the search to run once it is up.

use std::path::PathBuf;

use plimsoll_lab::{LabError, LabPlan, Sut};
use plimsoll_model::Nanos;
use plimsoll_model::plan::Trust;

use super::climb::Typed;
use super::find::{Axis, FindJob, SearchJob, known_axis, placeholder, search};
use super::load::{CONNECTIONS_DEFAULT, Parts, assemble};
use super::{Inputs, climb, handshakes, rfc9411};
use crate::exit::Stop;
use crate::flags::LabFlags;
use crate::flags::search::HostFlags;
use crate::flags::shared::{RequestFlags, TrustFlags};
use crate::flags::values::{IsolateFlag, SutFlag};

/// What a laboratory is made of, checked.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Hosts {
    /// What is tested, where named.
    pub(crate) sut: Option<SutFlag>,
    /// Its program, where named; it exists.
    pub(crate) program: Option<PathBuf>,
    /// Backends behind the SUT; 1 to 256.
    pub(crate) backends: u32,
    /// Whether the generated config stays.
    pub(crate) keep: bool,
    /// Whether the clients take the SUT for what it says it is.
    pub(crate) insecure: bool,
}

impl Hosts {
    /// Finds the program under test: HAProxy when one is installed, else our own server, unless
    /// something was named.
    pub(crate) fn sut(&self) -> Result<Sut, LabError> {
        let named = self.program.as_deref();
        match self.sut {
            None => Ok(Sut::installed()),
            Some(SutFlag::Embedded) => Ok(Sut::Embedded),
            Some(SutFlag::Haproxy) => Sut::haproxy(named),
            Some(SutFlag::Nginx) => Sut::nginx(named),
        }
    }

    /// A laboratory with `sut` in it.
    pub(crate) fn lab_plan(&self, sut: &Sut) -> LabPlan {
        LabPlan {
            sut_is_default: self.sut.is_none(),
            backends: self.backends,
            keep_config: self.keep,
            ..LabPlan::new(sut.clone())
        }
    }

    /// How the clients check the SUT, which shows the certificate `chain_pem`.
    pub(crate) fn trust(&self, chain_pem: &str) -> Trust {
        if self.insecure { Trust::Insecure } else { Trust::Roots(chain_pem.to_owned()) }
    }
}

/// One laboratory, checked; what it starts is not yet known by address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LabJob {
    /// What it is made of.
    pub(crate) hosts: Hosts,
    /// How to search.
    pub(crate) search: SearchJob,
    flags: LabFlags,
}

/// Checks the flags of `lab`. A trial search against a stand-in address is built as well, so that
/// whatever is wrong with the load is said before anything is started.
pub(crate) fn build(flags: &LabFlags, inputs: &mut Inputs<'_>) -> Result<LabJob, Stop> {
    if let Some(other) = &flags.unexpected {
        let fix = match other.as_str() {
            "help" => "see plimsoll lab --help",
            _ => "the laboratory makes its own server; to test another, use plimsoll find rate URL",
        };
        return Err(Stop::usage(format_args!("unexpected argument {other:?}"), fix));
    }
    let axis = known_axis(&flags.find)?;
    climb::refuse_elsewhere(axis, &flags.climb, "lab")?;
    let job = LabJob {
        hosts: hosts(&flags.hosts)?,
        search: search(axis, &flags.search, flags.mode, &flags.foreign, "lab")?,
        flags: flags.clone(),
    };
    rfc9411::refuse_stray(&flags.rfc9411)?;
    job.find("https://127.0.0.1:443/", Trust::Insecure, inputs)?;
    Ok(job)
}

impl LabJob {
    /// Connections that the clients hold at most.
    pub(crate) fn connections(&self) -> u64 {
        self.flags.connection.connections.unwrap_or(CONNECTIONS_DEFAULT)
    }

    /// What is kept of a TLS connection, at our server as at our client.
    pub(crate) fn tls_state(&self) -> plimsoll_model::plan::TlsState {
        self.flags.handshake.tls_state.into()
    }

    /// How long a client waits past the deadline.
    pub(crate) fn linger(&self) -> Nanos {
        self.flags.search.linger
    }

    /// The search, once the SUT answers at `url` with a certificate that `trust` accepts.
    pub(crate) fn find(
        &self,
        url: &str,
        trust: Trust,
        inputs: &mut Inputs<'_>,
    ) -> Result<FindJob, Stop> {
        let flags = &self.flags;
        let request = RequestFlags { headers: flags.headers.clone(), ..RequestFlags::default() };
        let parts = Parts {
            usage: "plimsoll lab",
            url: Some(url),
            request: &request,
            connection: &flags.connection,
            trust: &TrustFlags::default(),
            handshake: &flags.handshake,
            output: &flags.output,
            pacing: placeholder(&self.search)?,
            ops_total: None,
            deadline: self.search.slo.deadline(),
            slo: Some(self.search.slo.clone()),
            linger: flags.search.linger,
            seed: flags.search.seed,
        };
        let mut load = assemble(parts, inputs)?;
        load.plan.tls.trust = trust;
        let mut search = self.search.clone();
        if search.axis == Axis::Handshakes {
            handshakes::apply(&mut load, &mut search, &request, &flags.connection, inputs)?;
        }
        let climb = match search.axis {
            Axis::Connections => {
                let typed = Typed { climb: &flags.climb, search: &flags.search };
                Some(climb::apply(&mut load, &mut search, &typed, &flags.connection)?)
            }
            Axis::Rate | Axis::Handshakes => None,
        };
        Ok(FindJob { load, search, watch_pids: Vec::new(), watch_counts: None, climb })
    }
}

/// Checks what the laboratory is to be made of.
pub(super) fn hosts(flags: &HostFlags) -> Result<Hosts, Stop> {
    if flags.isolate == IsolateFlag::Netns {
        return Err(Stop::usage("--isolate netns is not available yet", "use --isolate none"));
    }
    let (sut, program) = sut(flags)?;
    Ok(Hosts { sut, program, backends: flags.backends, keep: flags.keep, insecure: flags.insecure })
}

fn sut(flags: &HostFlags) -> Result<(Option<SutFlag>, Option<PathBuf>), Stop> {
    let named = [
        ("--haproxy", &flags.haproxy, SutFlag::Haproxy),
        ("--nginx", &flags.nginx, SutFlag::Nginx),
    ];
    let (mut sut, mut program) = (flags.sut, None);
    for (flag, path, kind) in named {
        let Some(path) = path else { continue };
        if !path.is_file() {
            return Err(Stop::usage(
                format_args!("{flag} {path:?} is no file"),
                "name the program",
            ));
        }
        if sut.is_some_and(|other| other != kind) {
            return Err(Stop::usage(
                format_args!("{flag} names a program that is not what --sut tests"),
                format_args!("drop {flag}, or change --sut"),
            ));
        }
        (sut, program) = (Some(kind), Some(path.clone()));
    }
    Ok((sut, program))
}
