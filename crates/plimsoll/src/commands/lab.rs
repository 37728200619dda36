//! `plimsoll lab`: an experiment in a laboratory that is started for it.
//!
//! `Planned::of` turns flags into a job, a laboratory plan and the address of the server under test; nothing is
//! started there. `Bench::measure` starts the laboratory unless it already runs, gives it to the experiment and hands
//! both to the session. `--repeat` uses one laboratory for all parts, or a new one each time if the flags ask for a
//! fresh server. Other commands that measure laboratories use [`Planned`] too. Start with [`Planned`].

use std::rc::Rc;

use plimsoll_lab::{
    ClientHost, FarHosts, LabError, LabPlan, Laboratory, Placement, Sut, SutAddress,
};
use plimsoll_model::plan::Identity;
use plimsoll_sys::signal::Interrupts;
use plimsoll_tls::KeyKind;

use crate::commands::isolation::Isolation;
use crate::commands::repeated;
use crate::commands::repeated::Repeated;
use crate::exit::Result;
use crate::experiments::Prepared;
use crate::experiments::in_turn::{Side, SideServer};
use crate::flags::LabExperiment;
use crate::plan::publish::PublishJob;
use crate::plan::sizing::Variation;
use crate::plan::{Destination, Inputs, Job};
use crate::preflight::Server;
use crate::publish::Publisher;
use crate::session::{Ended, SessionSetup};
use crate::{experiments, plan, run, session};

pub(crate) fn run(flags: &LabExperiment) -> Result<()> {
    let isolation = Isolation::of_one(flags)?;
    let mut inputs = Inputs::of_host(std::io::stdin());
    let planned = Planned::of(flags, &Variation::default(), &isolation, &mut inputs)?;
    let Planned { job, server, prepared, plan, at } = planned;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let command = if matches!(flags, LabExperiment::Hold(_)) { "lab hold" } else { "lab" };
    let interrupts = &interrupts;
    let cpus = plan.placement.as_ref().map(Placement::beside).unwrap_or_default();
    let publish = PublishJob { cpus, ..job.load().publish.clone() };
    Publisher::during(&publish, interrupts, |publisher| {
        let bench = Bench { command, plan, at, publisher, interrupts };
        let mut lab = None;
        let Some(times) = job.repeat() else { return bench.measure(&mut lab, prepared)?.report() };
        let fresh_sut = flags.is_fresh();
        let of = Repeated { command, job: &job, times, fresh_sut, interrupts };
        repeated::run(&of, &mut |part| {
            if fresh_sut {
                // Ended before another begins at the same address.
                lab = None;
            }
            bench.measure(&mut lab, experiments::prepare(part.job(&job), &server)?)
        })
    })
}

/// A laboratory and what is measured in it; nothing has been started.
pub(super) struct Planned {
    pub(super) job: Job,
    pub(super) server: Server,
    /// The job, ready to be run.
    pub(super) prepared: Prepared,
    pub(super) plan: LabPlan,
    pub(super) at: Rc<SutAddress>,
}

impl Planned {
    /// Plans the laboratory that `flags` ask for, with settings that no flag has.
    pub(super) fn of(
        flags: &LabExperiment,
        variation: &Variation,
        isolation: &Isolation,
        inputs: &mut Inputs,
    ) -> Result<Self> {
        match flags {
            LabExperiment::Rfc9411(_) => plan::lab::check_near(flags.hosts(), "lab rfc9411")?,
            LabExperiment::Storm(_) => plan::lab::check_near(flags.hosts(), "lab storm")?,
            _ => {}
        }
        let hosts = plan::lab::hosts(flags.hosts(), inputs)?;
        let is_tls = flags.is_tls() && !variation.is_plain;
        let clients = isolation.clients.as_ref();
        let key = || variation.key.unwrap_or_else(|| key_kind(flags, &hosts.plan.sut));
        let at = match (&hosts.far, &variation.certificate) {
            (Some(far), _) => SutAddress::elsewhere(key(), far.listen)?,
            (None, Some(pem)) => {
                // Written into one file, in this order.
                let identity = Identity { chain_pem: pem.clone(), key_pem: String::new() };
                SutAddress::with_identity(identity, clients)?
            }
            (None, None) => SutAddress::reserve(key(), clients)?,
        };
        let url = at.url(hosts.plan.protocol, is_tls);
        let sources = isolation.clients.is_some().then(ClientHost::first_source);
        let to = {
            let trust = plan::lab::trust(flags.hosts(), &at.identity.chain_pem);
            let request = plan::lab::request(flags.hosts());
            let to = Destination::laboratory(url, request, trust, sources);
            match &hosts.far {
                Some(_) => to.far(flags.hosts().machines.of_clients()),
                None => to,
            }
        };
        let mut job = plan::lab(flags, &to, inputs)?;
        let settings = &mut job.load_mut().settings;
        settings.isolate = Some(isolation.place());
        settings.sut_hosts = hosts.far.as_ref().map(|far| far.name());
        let server = match hosts.far {
            Some(_) => Server::Elsewhere,
            None => Server::Laboratory(hosts.plan.sut.kind),
        };
        let mut prepared = experiments::prepare(job.clone(), &server)?;
        prepared.1.extend(isolation.note.clone());
        let settings = variation.settings.clone();
        let plan = LabPlan { tls: is_tls, settings, ..hosts.plan };
        let mut plan = prepared.0.lab_plan(plan);
        if let Some(count) = variation.sut_cpus {
            plan.placement = Some(plan::lab::placement(count)?);
        }
        if let Some(far) = hosts.far {
            // The CPUs of this host are not those of the others.
            let pins_sut = plan.placement.take().is_some();
            plan.far = Some(FarHosts { hosts: far.hosts, pins_sut });
        }
        job.load().events.check(&plan.ways(at.isolated.is_some()))?;
        Ok(Self { job, server, plan, prepared, at: Rc::new(at) })
    }

    /// Starts the laboratory as one of several servers that take turns; `notes` get its own, with `name`.
    pub(super) fn start(self, name: &str, notes: &mut Vec<String>) -> Result<Side, LabError> {
        let Self { prepared: (mut experiment, fits), plan, at, .. } = self;
        let lab = Laboratory::start(&plan, Rc::clone(&at))?;
        let own = experiment.enter(&lab, &plan);
        let said = [&lab.notes[..], &fits, &own].concat();
        notes.extend(said.into_iter().map(|note| format!("{name}: {note}")));
        let (connections_max, placement) = (plan.connections, plan.placement.clone());
        let server = SideServer { server: Some(Box::new(lab)), lab: Some((plan, at)) };
        let (name, load) = (name.to_owned(), experiment.load().clone());
        Ok(Side { name, load, connections_max, server, placement })
    }
}

/// The common parts of the experiments of one command.
struct Bench<'a> {
    command: &'static str,
    plan: LabPlan,
    at: Rc<SutAddress>,
    publisher: &'a Publisher,
    interrupts: &'a Interrupts,
}

impl Bench<'_> {
    /// Runs an experiment in `lab`, which is started first if it does not run.
    fn measure(
        &self,
        lab: &mut Option<Laboratory>,
        (mut experiment, fits): Prepared,
    ) -> Result<Ended> {
        let lab = match lab {
            Some(lab) => lab,
            none => none.insert(Laboratory::start(&self.plan, Rc::clone(&self.at))?),
        };
        let own = experiment.enter(lab, &self.plan);
        let notes = [&lab.notes[..], &fits, &own].concat();
        let Self { command, publisher, interrupts, .. } = *self;
        let set_up = SessionSetup { command, server: lab, publisher, interrupts, notes };
        session::measure(&mut *experiment, set_up)
    }
}

/// Returns the key of the SUT's certificate. A hold measures what held connections cost, whatever their
/// handshakes did.
fn key_kind(flags: &LabExperiment, sut: &Sut) -> KeyKind {
    match flags {
        LabExperiment::Connections(_) | LabExperiment::Storm(_) | LabExperiment::Hold(_) => {
            KeyKind::EcdsaP256
        }
        _ => sut.description().key_kind(),
    }
}
