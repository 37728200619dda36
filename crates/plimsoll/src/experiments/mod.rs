//! Experiments: each one drives its loads; the session does everything else.

use crate::exit::Result;
use crate::plan::Job;
use crate::preflight::Server;

pub(crate) mod compare;
mod confirm;
mod connections;
mod controller;
mod hold;
mod holders;
pub(crate) mod in_turn;
mod laboratory;
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

pub(crate) use laboratory::RunsInLab;
pub(crate) use tipping::search_head;

/// An experiment that is about to begin, and notes for its report.
pub(crate) type Prepared = (Box<dyn RunsInLab>, Vec<String>);

/// Fits `job` to what this host can hold, where `server` accepts the connections.
pub(crate) fn prepare(job: Job, server: &Server) -> Result<Prepared> {
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
