//! `plimsoll find`: an experiment with a server that somebody else runs.

use plimsoll_lab::NamedServer;

use crate::exit::Stop;
use crate::flags::FindExperiment;
use crate::plan::watch::{Watched, watched};
use crate::plan::{Inputs, Job};
use crate::preflight::Server;
use crate::session::SetUp;
use crate::{experiments, plan, run, session};

pub(crate) fn run(experiment: &FindExperiment) -> Result<(), Stop> {
    let mut stdin = std::io::stdin();
    let mut inputs = Inputs::of_host(&mut stdin);
    let job = plan::find(experiment, &mut inputs)?;
    let watched = watched(experiment, &inputs)?;
    run_job("find", job, watched)
}

/// Runs `job` with a server of which `watched` is known.
pub(super) fn run_job(command: &'static str, job: Job, watched: Watched) -> Result<(), Stop> {
    let is_here = job.load().both_ends_here;
    let server = if is_here { Server::Running } else { Server::Elsewhere };
    let is_unwatched = is_here && watched.pids.is_empty() && matches!(job, Job::Connections(_));
    let (mut experiment, mut notes) = experiments::prepare(job, &server)?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let mut server = NamedServer::new(watched.pids, watched.counts)?;
    if is_unwatched {
        notes.push(
            "the server is on this host; with --watch pid:N its open files and its memory are \
             projected, too"
                .to_owned(),
        );
    }
    let set_up = SetUp { command, server: &mut server, interrupts: &interrupts, notes };
    session::run(&mut *experiment, set_up)
}
