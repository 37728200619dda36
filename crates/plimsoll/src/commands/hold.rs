//! `plimsoll hold`: many connections to an existing server.

use crate::commands::find;
use crate::exit::Stop;
use crate::flags::{HoldFlags, ServerExperiment};
use crate::plan;
use crate::plan::watch::watched;
use crate::plan::{Inputs, Job};

pub(crate) fn run(command: &ServerExperiment<HoldFlags>) -> Result<(), Stop> {
    let mut stdin = std::io::stdin();
    let mut inputs = Inputs::of_host(&mut stdin);
    let job = plan::hold::build(command, &mut inputs)?;
    let watched = watched(&command.watch.watch, &inputs)?;
    find::run_job("hold", Job::Hold(job), watched)
}
