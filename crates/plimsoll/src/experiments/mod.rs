//! Experiments: each one drives its loads; the session does everything else.

use plimsoll_lab::{LabPlan, Laboratory};
use plimsoll_model::plan::LoadPlan;

use crate::exit::Stop;
use crate::plan::Job;
use crate::preflight::Server;
use crate::session::Experiment;

pub(crate) mod compare;
mod confirm;
mod connections;
mod controller;
mod hold;
pub(crate) mod in_turn;
pub(crate) mod load;
mod memory;
mod path;
mod pool;
mod rate;
mod reference;
mod remedies;
mod rfc9411;
pub(crate) mod sizing;
mod storm;
mod timers;
mod tipping;

pub(crate) use tipping::search_head;

/// An experiment that a laboratory can be made for.
pub(crate) trait LabExperiment: Experiment {
    /// `plan` with what this experiment needs of a laboratory.
    fn lab_plan(&self, plan: LabPlan) -> LabPlan;

    /// Adapts to the running laboratory, which was started from `plan`; returns notes for the report.
    fn enter(&mut self, lab: &Laboratory, _plan: &LabPlan) -> Vec<String> {
        self.load().target_name = lab.name();
        Vec::new()
    }
}

/// An experiment that is about to begin, and notes for its report.
pub(crate) type Prepared = (Box<dyn LabExperiment>, Vec<String>);

/// Fits `job` to what this host can hold, where `server` accepts the connections.
pub(crate) fn prepare(job: Job, server: &Server) -> Result<Prepared, Stop> {
    Ok(match job {
        Job::Rate(job) => (Box::new(rate::RateExperiment::new(job)), Vec::new()),
        Job::Connections(job) => {
            (Box::new(connections::ConnectionsExperiment::new(job, server)?), Vec::new())
        }
        Job::Storm(job) => (Box::new(storm::StormExperiment::new(job, server)?), Vec::new()),
        Job::Hold(job) => {
            let (hold, notes) = hold::HoldExperiment::new(job, server)?;
            (Box::new(hold), notes)
        }
        Job::Rfc9411(job) => {
            let (case, notes) = rfc9411::CaseExperiment::new(job, server)?;
            (Box::new(case), notes)
        }
    })
}

/// Pins the clients to the CPUs that the laboratory leaves them.
fn pin_clients(plan: &mut LoadPlan, lab: &LabPlan) {
    let clients = lab.placement.as_ref().map(|placement| &placement.clients);
    if let Some(clients) = clients.filter(|clients| !clients.is_empty()) {
        plan.cpus.clone_from(clients);
        plan.threads = clients.len() as u32;
    }
}
