//! What the laboratory is made of, out of the flags of `plimsoll lab`.

use std::path::PathBuf;

use plimsoll_lab::{LabError, LabPlan, Sut};
use plimsoll_model::plan::Trust;

use crate::exit::Stop;
use crate::flags::experiments::HostFlags;
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

/// Checks what the laboratory is to be made of.
pub(crate) fn hosts(flags: &HostFlags) -> Result<Hosts, Stop> {
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
