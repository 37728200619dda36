//! Remedies for storms: the search is made again with one thing changed, of the running server or of its clients.

use plimsoll_capacity::StormSettings;
use plimsoll_model::confirmation::{Intervention, Remedied};
use plimsoll_model::trial::Outcome as SearchOutcome;
use plimsoll_report::terminal::render_remedy_plan;

use super::{Found, Pass, StormExperiment, find};
use crate::exit::Stop;
use crate::experiments::confirm;
use crate::experiments::confirm::Raised;
use crate::plan::storm::StormJob;
use crate::session::Session;

/// Searches again with each remedy of the job, once the largest storm without them is known.
pub(super) fn try_each(
    experiment: &StormExperiment,
    found: &Found,
    session: &Session<'_>,
) -> Result<Vec<Remedied>, Stop> {
    let tipping = &found.tipping;
    let bounds = tipping.lower.zip(tipping.upper);
    let known = bounds.filter(|_| tipping.outcome == SearchOutcome::Regular);
    let Some((lower, upper)) = known.map(|(lower, upper)| (lower.get(), upper.get())) else {
        return Ok(Vec::new());
    };
    let mut tried = Vec::new();
    for intervention in &experiment.job.remedies {
        if session.is_interrupted() || session.server_end().is_some() {
            break;
        }
        let mut job = experiment.job.clone();
        let Raised { mut remedied, lever } = change(*intervention, &mut job, found, session);
        if remedied.why.is_none() {
            session.note(render_remedy_plan(&remedied));
            let began = session.elapsed();
            // It serves no fewer.
            let lowest = lower.max(1.0) as u64;
            let settings =
                StormSettings { lowest, try_jitter: false, ..experiment.search_settings() };
            let again = find(experiment, &job, settings, Pass::Again, session)?.tipping;
            let bounds = [again.lower, again.upper].map(|bound| bound.map(|bound| bound.get()));
            remedied.take_result(&again.outcome, (bounds[0], bounds[1]), (lower * upper).sqrt());
            remedied.seconds = session.elapsed().since(began).as_secs_f64();
        }
        drop(lever);
        tried.push(remedied);
    }
    Ok(tried)
}

/// Makes the change: in the job, or of the running server.
fn change(
    intervention: Intervention,
    job: &mut StormJob,
    found: &Found,
    session: &Session<'_>,
) -> Raised {
    match (intervention, served_per_s(found)) {
        (Intervention::Resumption, _) => {
            let ratio = &mut job.load.plan.tls.resume_ratio;
            let before = std::mem::replace(ratio, 1.0);
            Raised { remedied: Remedied::new(intervention, before, 1.0), lever: None }
        }
        // Clients whose handshakes it begins are still there when it ends them.
        (Intervention::SessionRate, Some(per_s)) => confirm::limit_connections(per_s, session),
        _ => confirm::raise_limit(intervention, session),
    }
}

/// Clients per second that were back in the largest storm that was survived, where larger ones do not end.
fn served_per_s(found: &Found) -> Option<u64> {
    let storms = found.search.storms();
    storms.iter().find(|storm| storm.endless.is_some())?;
    let survived = storms.iter().filter(|storm| storm.jitter_s.is_none());
    let largest = survived.filter_map(|storm| Some((storm.cut, storm.recovered_s?)));
    let (cut, took_s) = largest.max_by_key(|(cut, _)| *cut)?;
    Some(((cut as f64 / took_s) as u64).max(1))
}
