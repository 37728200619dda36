//! `plimsoll lab`: an experiment in a laboratory on this host.

use plimsoll_lab::{LabPlan, Laboratory, Sut, SutAddress};
use plimsoll_tls::KeyKind;

use crate::exit::Stop;
use crate::flags::LabExperiment;
use crate::plan::{Destination, Inputs};
use crate::preflight::Server;
use crate::session::SetUp;
use crate::{experiments, plan, run, session};

pub(crate) fn run(flags: &LabExperiment) -> Result<(), Stop> {
    let hosts = plan::lab::hosts(flags.hosts())?;
    let at = SutAddress::reserve(key_kind(flags, &hosts.sut))?;
    let url = at.url(flags.is_tls());
    let to = Destination::laboratory(url, hosts.trust(&at.identity().chain_pem));
    let mut stdin = std::io::stdin();
    let job = plan::lab(flags, &to, &mut Inputs::of_host(&mut stdin))?;
    let (mut experiment, fits) = experiments::prepare(job, &Server::Laboratory(hosts.sut.clone()))?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let lab_plan = LabPlan { tls: flags.is_tls(), ..hosts.lab_plan() };
    let lab_plan = experiment.lab_plan(lab_plan);
    let mut lab = Laboratory::start(&lab_plan, at)?;
    let own = experiment.enter(&lab, &lab_plan);
    let command = if matches!(flags, LabExperiment::Hold { .. }) { "lab hold" } else { "lab" };
    let notes = [lab.notes(), &fits, &own].concat();
    let set_up = SetUp { command, server: &mut lab, interrupts: &interrupts, notes };
    session::run(&mut *experiment, set_up)
}

/// The key of the SUT's certificate. A hold measures what held connections cost, whatever their
/// handshakes did.
const fn key_kind(flags: &LabExperiment, sut: &Sut) -> KeyKind {
    match flags {
        LabExperiment::Connections { .. } | LabExperiment::Hold { .. } => KeyKind::EcdsaP256,
        _ => sut.key_kind(),
    }
}
