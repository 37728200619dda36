//! One load.

use plimsoll_capacity::cliffs::SlowAnswers;
use plimsoll_capacity::judge_load;
use plimsoll_fleet::coordinator::LoadOutcome;
use plimsoll_model::event::Event;
use plimsoll_model::observation::Observations;
use plimsoll_model::plan::Pacing;
use plimsoll_model::result::RunKind;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, CheckId, Judgement, Level, Measure, Verdict};

use super::timers;
use crate::exit::Result;
use crate::plan::load::LoadJob;
use crate::session::disruptor::Disruptor;
use crate::session::{Experiment, ExperimentResult, Measurement, Observed, Session};

/// `plimsoll load`.
pub(crate) struct LoadExperiment(pub(crate) LoadJob);

impl Experiment for LoadExperiment {
    fn load(&mut self) -> &mut LoadJob {
        &mut self.0
    }

    fn kind(&self) -> RunKind {
        RunKind::Load
    }

    fn drive(&mut self, session: &Session<'_>) -> Result<ExperimentResult> {
        let Self(job) = self;
        let plan = &job.plan;
        let is_steady = is_steady(&plan.pacing);
        let load = Measurement { plan, trial: None, is_steady, is_alone: true, deliveries: None };
        let mut slow = SlowAnswers::default();
        let mut disruptor = Disruptor::of(job, &**session.server());
        let mut listen = |event: &Event| {
            if let Event::Interval(interval) = event {
                slow.handle_second(interval);
            }
            disruptor.handle_event(event).into_iter().for_each(|note| session.note(note));
        };
        let Observed { outcome, observations, .. } = session.run_load(&load, &mut listen)?;
        let events = disruptor.finish(plan.timeouts.deadline);
        let agents = session.agents().count();
        let Judgement { verdict, reasons, .. } = judge(job, &outcome, &observations, agents);
        let partial = outcome.is_partial();
        let sent_again = observations.network.map(|network| network.sent_again);
        let timers = timers::of_one_load(plan, &**session.server(), &outcome, &slow, sent_again);
        // Without an SLO none was missed: there was nothing to measure.
        let unmeasured =
            (verdict == Verdict::Bad && job.slo.is_none()).then(|| no_answer(&outcome.tally));
        let LoadOutcome { tally, window, .. } = outcome;
        Ok(ExperimentResult {
            partial,
            timers: Some(timers),
            events,
            unmeasured,
            ..ExperimentResult::new(tally, window, verdict, reasons)
        })
    }
}

/// Reports whether the load is to be the same from its beginning to its end.
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

/// Returns the verdict on the load: INVALID where agents were lost or nothing was started.
fn judge(
    job: &LoadJob,
    outcome: &LoadOutcome,
    observations: &Observations,
    agents: usize,
) -> Judgement {
    let open = matches!(job.plan.pacing, Pacing::Open { .. });
    let mut judgement =
        judge_load(&outcome.tally, outcome.window, job.slo.as_ref(), open, observations);
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

fn no_answer(tally: &Tally) -> String {
    let mut why = failed(tally);
    if why.is_empty() {
        why.push_str("all unsent");
    }
    format!("no operation was answered ({why}); see the report for what to do")
}

/// Returns the operations that failed, in words: `3 connect-refused, 2 timeout`.
pub(super) fn failed(tally: &Tally) -> String {
    let classes = tally.failures.operations.iter();
    let words = classes.map(|(class, count)| format!("{count} {}", class.name()));
    words.collect::<Vec<_>>().join(", ")
}
