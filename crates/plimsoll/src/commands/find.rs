//! `plimsoll find`: an experiment with an existing server.

use plimsoll_lab::WatchedServer;

use crate::commands::repeated;
use crate::commands::repeated::Repeated;
use crate::exit::Result;
use crate::flags::FindExperiment;
use crate::plan::watch::{Watched, of_experiment};
use crate::plan::{Inputs, Job};
use crate::preflight::Server;
use crate::publish::Publisher;
use crate::session::{Experiment, SessionSetup};
use crate::{experiments, plan, run, session};

pub(crate) fn run(experiment: &FindExperiment) -> Result<()> {
    let mut inputs = Inputs::of_host(std::io::stdin());
    let job = plan::find(experiment, &mut inputs)?;
    let watched = of_experiment(experiment, &inputs)?;
    run_job("find", job, watched)
}

/// Runs `job` with a server of which `watched` is known.
pub(super) fn run_job(command: &'static str, job: Job, watched: Watched) -> Result<()> {
    let is_here = job.load().both_ends_here;
    let server = if is_here { Server::Running } else { Server::Elsewhere };
    job.load().events.check(&watched.ways())?;
    let (mut experiment, mut notes) = experiments::prepare(job.clone(), &server)?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let mut watched = watched.server()?;
    if is_here && matches!(job, Job::Connections(_)) && watched.pids().is_empty() {
        notes.push(
            "the server is on this host; with --watch pid:N its open files and its memory are \
             projected, too"
                .to_owned(),
        );
    }
    let interrupts = &interrupts;
    Publisher::during(&job.load().publish, interrupts, |publisher| {
        let mut search = |experiment: &mut dyn Experiment, notes: Vec<String>| {
            let set_up =
                SessionSetup { command, server: &mut watched, publisher, interrupts, notes };
            session::measure(experiment, set_up)
        };
        let Some(times) = job.repeat() else { return search(&mut *experiment, notes)?.report() };
        let of = Repeated { command, job: &job, times, fresh_sut: false, interrupts };
        repeated::run(&of, &mut |part| {
            let (mut experiment, _) = experiments::prepare(part.job(&job), &server)?;
            search(&mut *experiment, if part.number == 1 { notes.clone() } else { Vec::new() })
        })
    })
}
