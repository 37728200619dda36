//! `plimsoll find AXIS URL`: the tipping point of a server that somebody else runs.

use plimsoll_lab::NamedServer;

use crate::commands::reference::Reference;
use crate::commands::{climb, hold, rfc9411, search};
use crate::exit::Stop;
use crate::flags::FindExperiment;
use crate::plan::search::RateJob;
use crate::plan::watch::{Watched, watched};
use crate::plan::{Inputs, Job};
use crate::{plan, run};

pub(crate) fn run(experiment: &FindExperiment) -> Result<(), Stop> {
    let mut stdin = std::io::stdin();
    let mut inputs = Inputs::of_host(&mut stdin);
    let job = plan::find(experiment, &mut inputs)?;
    let watched = watched(experiment, &inputs)?;
    match job {
        Job::Rate(job) => find_rate(job, watched),
        Job::Connections(job) => climb::run(job, watched),
        Job::Hold(job) => hold::run_job(job),
        Job::Rfc9411(job) => rfc9411::run_find(job, watched),
    }
}

/// `plimsoll find rate` and `plimsoll find handshakes`.
fn find_rate(mut job: RateJob, watched: Watched) -> Result<(), Stop> {
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let mut server = NamedServer::new(watched.pids, watched.counts)?;
    search::run("find", &mut job, &mut server, Reference::default(), &[], &interrupts)
}
