//! `plimsoll load`: one load, one report.

use std::cell::RefCell;

use plimsoll_capacity::{cliffs, judge_load};
use plimsoll_fleet::LocalAgents;
use plimsoll_fleet::coordinator::{LoadControl, LoadOutcome};
use plimsoll_model::plan::Pacing;
use plimsoll_model::summary::{Summary, SummaryHead};
use plimsoll_model::trial::{Check, CheckId, Judgement, Level, Measure, Verdict};
use plimsoll_model::witness::Witnesses;
use plimsoll_sys::signal::Interrupts;

use crate::commands::observer::{Observer, Scene};
use crate::exit::Stop;
use crate::flags::LoadFlags;
use crate::hosts::{fleet_stop, start_load_agents};
use crate::plan::Inputs;
use crate::plan::load::LoadJob;
use crate::run::{Run, RunHead};
use crate::{plan, run};

pub(crate) fn run(flags: &LoadFlags) -> Result<(), Stop> {
    let mut stdin = std::io::stdin();
    let mut job = plan::load::build(flags, &mut Inputs::of_host(&mut stdin))?;
    // Until here nothing was started, and a signal ends the process as it ends any other.
    let interrupts = run::install_interrupts()?;
    let mut agents = start_load_agents(&mut job.plan, job.processes)?;
    let head = RunHead { command: "load", job: &job, search: None, always_archive: false };
    let run = RefCell::new(Run::begin(head)?);
    let (outcome, witnesses) = make(&job, &mut agents, &run, &interrupts)?;
    let agents_count = agents.count();
    drop(agents);
    let run = run.into_inner();
    let judgement = judge(&job, &outcome, &witnesses, agents_count);
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
        hold: None,
        archive: run.archive_dir(),
    };
    let found = cliffs::find(&outcome.tally, &cliffs::own_timers(&job.plan));
    let longest = cliffs::horizon(&job.plan, outcome.window, outcome.is_partial(), None);
    let summary = Summary::new(head, &outcome.tally).with_timers(&found, None, longest);
    run.finish(&summary, &[])?;
    if outcome.interrupted {
        return Err(run::interrupted_stop(&interrupts));
    }
    match judgement.verdict {
        Verdict::Good => Ok(()),
        // No SLO was missed, because none was given: there was nothing to measure.
        Verdict::Bad if job.slo.is_none() => Err(Stop::CannotRun(no_answer(&summary))),
        Verdict::Bad => Err(Stop::SloMissed),
        Verdict::Invalid => Err(Stop::Invalid),
    }
}

fn make(
    job: &LoadJob,
    agents: &mut LocalAgents,
    run: &RefCell<Run>,
    interrupts: &Interrupts,
) -> Result<(LoadOutcome, Witnesses), Stop> {
    // Asked several times a second, also while connections are opened and nothing happens.
    let interrupted = || {
        run.borrow_mut().handle_tick();
        interrupts.is_raised()
    };
    let control = LoadControl::new(&interrupted);
    let scene = Scene::of(job, is_steady(&job.plan.pacing));
    let mut observer = Observer::new(&scene, Vec::new(), &[]);
    let outcome = agents
        .run_load(&job.plan, &control, &mut |event| {
            observer.handle_event(&event);
            run.borrow_mut().handle_event(&event);
        })
        .map_err(|error| fleet_stop(&error))?;
    let witnesses = observer.finish(&outcome);
    Ok((outcome, witnesses))
}

/// Whether the load is to be the same from its beginning to its end.
fn is_steady(pacing: &Pacing) -> bool {
    match pacing {
        Pacing::Open { profile, .. } => {
            let rate = profile.stages.first().map(|stage| stage.from);
            profile.stages.iter().all(|stage| Some(stage.from) == rate && stage.to == stage.from)
        }
        Pacing::Closed { .. } => true,
        Pacing::Hold(_) => false,
    }
}

/// The verdict on the figures, unless what became of the agents leaves none.
fn judge(job: &LoadJob, outcome: &LoadOutcome, witnesses: &Witnesses, agents: usize) -> Judgement {
    let open = matches!(job.plan.pacing, Pacing::Open { .. });
    let mut judgement =
        judge_load(&outcome.tally, outcome.window, job.slo.as_ref(), open, witnesses);
    if outcome.interrupted && outcome.tally.scheduled == 0 {
        judgement.verdict = Verdict::Invalid;
        let why = "no, interrupted before the first operation";
        judgement.reasons = vec![Check::failed(CheckId::RunComplete, why)];
    } else if outcome.lost_agents > 0 {
        judgement.verdict = Verdict::Invalid;
        let lost = Measure::count("lost", outcome.lost_agents.into()).at_most(0.0);
        let all = Measure::count("of", agents as u64);
        judgement.reasons.insert(0, Check::new(CheckId::Agents, Level::Fail, [lost, all]));
    }
    judgement
}

fn no_answer(summary: &Summary) -> String {
    let classes: Vec<_> =
        summary.error_classes.iter().map(|(class, count)| format!("{count} {class}")).collect();
    format!(
        "no operation was answered ({}); see the report for what to do",
        if classes.is_empty() { "all unsent".to_owned() } else { classes.join(", ") }
    )
}
