//! `plimsoll hold`: many connections to an existing server.

use plimsoll_lab::processes_of;

use crate::commands::find;
use crate::exit::Result;
use crate::flags::{HoldFlags, ServerExperiment};
use crate::plan;
use crate::plan::watch::watched;
use crate::plan::{Inputs, Job};

pub(crate) fn run(command: &ServerExperiment<HoldFlags>) -> Result<()> {
    let mut inputs = Inputs::of_host(std::io::stdin());
    let job = plan::hold::build(command, &mut inputs)?;
    let watched = watched(&command.watch.watch, &inputs)?;
    let is_unnamed = || processes_of(&watched.pids, watched.counts.as_ref()).is_empty();
    refuse_if!(job.cycles.is_some() && is_unnamed();
        "--cycles reads the memory of the server, and no process of it is named";
        "name it: --watch pid:PID (find it with pidof), or --watch haproxy:SOCKET");
    find::run_job("hold", Job::Hold(job), watched)
}
