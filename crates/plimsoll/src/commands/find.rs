//! `plimsoll find AXIS URL`: the tipping point of a server that somebody else runs.

use crate::commands::climb;
use crate::commands::rfc9411;
use crate::commands::search;
use crate::commands::search::SutWatch;
use crate::exit::Stop;
use crate::flags::FindFlags;
use crate::flags::values::ModeFlag;
use crate::plan;
use crate::plan::Inputs;
use crate::run;

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
    let pids = job.watch_pids.clone();
    let watch = SutWatch {
        pids: Box::new(move || pids.clone()),
        ended: Box::new(|| None),
        timers: Vec::new(),
        backend_is_ours: false,
    };
    search::run("find", &mut job, watch, &[], &interrupts)
}
