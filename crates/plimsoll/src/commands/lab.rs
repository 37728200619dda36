//! `plimsoll lab`: backends, SUT and clients on this machine, and the search between them.

use std::net::Ipv4Addr;

use plimsoll_lab::{LabPlan, Laboratory, Placement};
use plimsoll_model::plan::LoadPlan;
use plimsoll_tls::KeyKind;

use crate::commands::reference::Reference;
use crate::commands::{climb, hold, rfc9411, search};
use crate::exit::Stop;
use crate::flags::values::ModeFlag;
use crate::flags::{LabExperiment, LabFlags};
use crate::plan::Inputs;
use crate::plan::find::Axis;
use crate::{plan, run};

/// How long a connection to the embedded server lives, in requests.
const EMBEDDED_REQUESTS_PER_CONNECTION: u64 = 20;

pub(crate) fn run(flags: &LabFlags) -> Result<(), Stop> {
    if let Some(LabExperiment::Hold(flags)) = &flags.experiment {
        return hold::run_lab(flags);
    }
    if flags.mode == ModeFlag::Rfc9411 && flags.unexpected.is_none() {
        return rfc9411::run_lab(flags);
    }
    let mut stdin = std::io::stdin();
    let mut inputs = Inputs::of_host(&mut stdin);
    let job = plan::lab::build(flags, &mut inputs)?;
    let sut = job.hosts.sut()?;
    if job.search.axis == Axis::Connections {
        return climb::run_lab(&job, &sut, &mut inputs);
    }
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let placement = Placement::of_host();
    let key = sut.key_kind();
    let mut lab = Laboratory::start(&LabPlan {
        connections: job.connections(),
        longest_wait: job.linger(),
        placement: Some(placement.clone()),
        key,
        ..job.hosts.lab_plan(&sut)
    })?;
    let trust = job.hosts.trust(&lab.identity().chain_pem);
    let mut find = job.find(lab.url(), trust, &mut inputs)?;
    find.load.target_name = lab.name();
    if !placement.clients.is_empty() {
        find.load.plan.cpus = placement.clients.clone();
        find.load.plan.threads = placement.clients.len() as u32;
    }
    let mut notes = lab.notes().to_vec();
    if sut.is_embedded() && renew_connections(&mut find.load.plan) {
        notes.push(format!(
            "every {EMBEDDED_REQUESTS_PER_CONNECTION} requests a connection is replaced, with a \
             full handshake (RSA-2048): our server is as cheap as our client otherwise, and the \
             client would be the limit"
        ));
    }
    if find.search.axis == Axis::Handshakes {
        let key = match key {
            KeyKind::Rsa2048 => "RSA-2048",
            KeyKind::EcdsaP256 => "ECDSA P-256",
        };
        notes.push(format!("each handshake: certificate {key}, nothing is sent"));
    }
    // While the reference runs, the SUT's CPUs have nothing else to do.
    let reference = Reference { cpus: placement.sut, identity: Some(lab.identity().clone()) };
    search::run("lab", &mut find, &mut lab, reference, &notes, &interrupts)
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
