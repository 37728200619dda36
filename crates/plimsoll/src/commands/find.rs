//! `plimsoll find AXIS URL`: the tipping point of a server that somebody else runs.

use plimsoll_lab::NamedServer;

use crate::commands::reference::Reference;
use crate::commands::{climb, rfc9411, search};
use crate::exit::Stop;
use crate::flags::FindFlags;
use crate::flags::values::ModeFlag;
use crate::plan::Inputs;
use crate::{plan, run};

pub(crate) fn run(flags: &FindFlags) -> Result<(), Stop> {
    if flags.mode == ModeFlag::Rfc9411 {
        return rfc9411::run_find(flags);
    }
    let mut stdin = std::io::stdin();
    let mut job = plan::find::build(flags, &mut Inputs::of_host(&mut stdin))?;
    if job.climb.is_some() {
        return climb::run(&mut job);
    }
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let mut server = NamedServer::new(job.watch_pids.clone(), job.watch_counts.clone())?;
    search::run("find", &mut job, &mut server, Reference::default(), &[], &interrupts)
}
