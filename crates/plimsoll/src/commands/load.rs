//! `plimsoll load`: one load against an existing server.

use crate::exit::Result;
use crate::experiments::load::LoadExperiment;
use crate::flags::LoadFlags;
use crate::plan::Inputs;
use crate::plan::watch::watched;
use crate::publish::Publisher;
use crate::session::SessionSetup;
use crate::{plan, run, session};

pub(crate) fn run(flags: &LoadFlags) -> Result<()> {
    let mut inputs = Inputs::of_host(std::io::stdin());
    let job = plan::load::build(flags, &mut inputs)?;
    let watched = watched(&flags.watch.watch, &inputs)?;
    job.events.check(&watched.ways())?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let mut server = watched.server()?;
    let notes = job.rows.iter().map(|rows| rows.note.clone()).collect();
    Publisher::during(&job.publish.clone(), &interrupts, |publisher| {
        let interrupts = &interrupts;
        let set_up =
            SessionSetup { command: "load", server: &mut server, publisher, interrupts, notes };
        session::run(&mut LoadExperiment(job), set_up)
    })
}
