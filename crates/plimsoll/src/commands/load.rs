//! `plimsoll load`: one load, one report.

use plimsoll_capacity::judge_load;
use plimsoll_fleet::coordinator::LoadControl;
use plimsoll_model::plan::Pacing;
use plimsoll_model::summary::Summary;
use plimsoll_model::summary::SummaryHead;
use plimsoll_model::trial::Verdict;

use crate::exit::Stop;
use crate::flags::LoadFlags;
use crate::hosts::fleet_stop;
use crate::hosts::start_load_agents;
use crate::plan;
use crate::plan::Inputs;
use crate::run;
use crate::run::Run;
use crate::run::RunHead;

pub(crate) fn run(flags: &LoadFlags) -> Result<(), Stop> {
    let interrupts = run::install_interrupts()?;
    let mut stdin = std::io::stdin();
    let mut job = plan::load::build(flags, &mut Inputs::of_host(&mut stdin))?;
    let mut agents = start_load_agents(&mut job.plan, job.processes)?;
    let head = RunHead { command: "load", job: &job, search: None, always_archive: false };
    let mut run = Run::begin(head, interrupts.clone())?;
    let interrupted = || interrupts.is_raised();
    let control = LoadControl::new(&interrupted);
    let outcome = agents
        .run_load(&job.plan, &control, &mut |event| run.handle_event(&event))
        .map_err(|error| fleet_stop(&error))?;
    drop(agents);
    let open = matches!(job.plan.pacing, Pacing::Open { .. });
    let judgement = judge_load(&outcome.tally, outcome.window, job.slo.as_ref(), open);
    let head = SummaryHead {
        command: "load".to_owned(),
        target: job.target_name.clone(),
        started_at: run.started_at.clone(),
        window: outcome.window,
        partial: outcome.is_partial(),
        settings: run::settings(&job, &job.plan),
        verdict: judgement.verdict,
        reasons: judgement.reasons,
        find: None,
        archive: run.archive_dir(),
    };
    run.finish(&Summary::new(head, &outcome.tally), &[])?;
    if outcome.interrupted {
        return Err(run::interrupted_stop(&interrupts));
    }
    match judgement.verdict {
        Verdict::Good => Ok(()),
        Verdict::Bad => Err(Stop::SloMissed),
        Verdict::Invalid => Err(Stop::Invalid),
    }
}
