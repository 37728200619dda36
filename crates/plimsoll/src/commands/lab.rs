//! `plimsoll lab`: backends, SUT and clients on this machine, and the search between them.

use std::net::Ipv4Addr;

use plimsoll_lab::{LabPlan, Laboratory, Placement, Sut, SutAddress};
use plimsoll_model::plan::LoadPlan;
use plimsoll_model::search::Axis;
use plimsoll_tls::KeyKind;

use crate::commands::reference::Reference;
use crate::commands::{climb, hold, rfc9411, search};
use crate::exit::Stop;
use crate::flags::LabExperiment;
use crate::plan::search::RateJob;
use crate::plan::{Destination, Inputs, Job};
use crate::{plan, run};

/// How long a connection to the embedded server lives, in requests.
const EMBEDDED_REQUESTS_PER_CONNECTION: u64 = 20;

/// What a laboratory is started with; nothing runs yet.
pub(super) struct Site {
    pub(super) sut: Sut,
    /// Where the SUT will be.
    pub(super) at: SutAddress,
    /// As the flags describe it.
    pub(super) plan: LabPlan,
}

pub(crate) fn run(experiment: &LabExperiment) -> Result<(), Stop> {
    let hosts = plan::lab::hosts(experiment.hosts())?;
    let sut = hosts.sut()?;
    let at = SutAddress::reserve(key_kind(experiment, &sut))?;
    let url = at.url(experiment.is_tls());
    let to = Destination::laboratory(url, hosts.trust(&at.identity().chain_pem));
    let mut stdin = std::io::stdin();
    let job = plan::lab(experiment, &to, &mut Inputs::of_host(&mut stdin))?;
    let plan = LabPlan { tls: experiment.is_tls(), ..hosts.lab_plan(&sut) };
    let site = Site { sut, at, plan };
    match job {
        Job::Rate(job) => find_rate(site, job),
        Job::Connections(job) => climb::run_lab(site, job),
        Job::Hold(job) => hold::run_lab(site, job),
        Job::Rfc9411(job) => rfc9411::run_lab(site, job),
    }
}

/// `plimsoll lab rate` and `plimsoll lab handshakes`.
fn find_rate(site: Site, mut job: RateJob) -> Result<(), Stop> {
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let placement = Placement::of_host();
    let plan = &mut job.load.plan;
    let lab_plan = LabPlan {
        connections: plan.connections,
        longest_wait: plan.linger,
        placement: Some(placement.clone()),
        ..site.plan
    };
    let mut lab = Laboratory::start(&lab_plan, site.at)?;
    job.load.target_name = lab.name();
    if !placement.clients.is_empty() {
        plan.cpus = placement.clients.clone();
        plan.threads = placement.clients.len() as u32;
    }
    let mut notes = lab.notes().to_vec();
    if site.sut.is_embedded() && renew_connections(plan) {
        notes.push(format!(
            "every {EMBEDDED_REQUESTS_PER_CONNECTION} requests a connection is replaced, with a \
             full handshake (RSA-2048): our server is as cheap as our client otherwise, and the \
             client would be the limit"
        ));
    }
    if job.search.axis == Axis::Handshakes {
        let key = match site.sut.key_kind() {
            KeyKind::Rsa2048 => "RSA-2048",
            KeyKind::EcdsaP256 => "ECDSA P-256",
        };
        notes.push(format!("each handshake: certificate {key}, nothing is sent"));
    }
    // While the reference runs, the SUT's CPUs have nothing else to do.
    let reference = Reference { cpus: placement.sut, identity: Some(lab.identity().clone()) };
    search::run("lab", &mut job, &mut lab, reference, &notes, &interrupts)
}

/// The key of the SUT's certificate. A hold measures what held connections cost, whatever their
/// handshakes did.
const fn key_kind(experiment: &LabExperiment, sut: &Sut) -> KeyKind {
    match experiment {
        LabExperiment::Connections { .. } | LabExperiment::Hold { .. } => KeyKind::EcdsaP256,
        _ => sut.key_kind(),
    }
}

/// Replaces connections now and then, unless the flags say how long they live; true if it does.
fn renew_connections(plan: &mut LoadPlan) -> bool {
    if !plan.keepalive || plan.requests_per_connection.is_some() {
        return false;
    }
    plan.requests_per_connection = Some(EMBEDDED_REQUESTS_PER_CONNECTION);
    plan.staggered = true;
    if plan.sources.is_empty() {
        // Closed connections keep their ports for a while; eight addresses have eight times more.
        plan.sources = (1..=8).map(|host| Ipv4Addr::new(127, 0, 0, host).into()).collect();
    }
    true
}
