//! `plimsoll hold`: many connections to an existing server.

use crate::commands::find;
use crate::exit::Stop;
use crate::flags::HoldCommand;
use crate::plan;
use crate::plan::watch::Watched;
use crate::plan::{Inputs, Job};

pub(crate) fn run(command: &HoldCommand) -> Result<(), Stop> {
    let mut stdin = std::io::stdin();
    let job = plan::hold::build(command, &mut Inputs::of_host(&mut stdin))?;
    find::run_job("hold", Job::Hold(job), Watched::default())
}
