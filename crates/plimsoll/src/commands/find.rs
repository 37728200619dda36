//! `plimsoll find AXIS URL`: the tipping point of a server that somebody else runs.

use plimsoll_probe::counted::CountSource;

use crate::commands::reference::Reference;
use crate::commands::search::SutWatch;
use crate::commands::{climb, rfc9411, search};
use crate::exit::Stop;
use crate::flags::FindFlags;
use crate::flags::values::ModeFlag;
use crate::plan::Inputs;
use crate::plan::find::FindJob;
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
    let pids = job.watch_pids.clone();
    let counts = answering(&job)?;
    let watch = SutWatch {
        count_of_reading: counts.as_ref().map(CountSource::own).unwrap_or_default(),
        counted: Box::new(move || counts.as_ref()?.read().ok()),
        pids: Box::new(move || pids.clone()),
        ..SutWatch::elsewhere()
    };
    search::run("find", &mut job, watch, Reference::default(), &[], &interrupts)
}

/// The server's own counters that are to be watched; an error where it does not tell them.
pub(super) fn answering(job: &FindJob) -> Result<Option<CountSource>, Stop> {
    if let Some(source) = &job.watch_counts
        && let Err(error) = source.read()
    {
        return Err(Stop::CannotRun(format!("--watch {}: {error}", described(source))));
    }
    Ok(job.watch_counts.clone())
}

/// As it was typed.
fn described(source: &CountSource) -> String {
    match source {
        CountSource::Haproxy(socket) => format!("haproxy:{}", socket.display()),
        CountSource::NginxSocket(socket) => format!("nginx:{}", socket.display()),
        CountSource::Nginx(url) => format!("nginx:{url}"),
    }
}
