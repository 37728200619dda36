//! Remedies for storms: the search is made again with one thing changed, of the running server or of its clients.

use plimsoll_capacity::StormSettings;
use plimsoll_model::Nanos;
use plimsoll_model::confirmation::{Intervention, Remedied};
use plimsoll_model::plan::{CertificateKey, LoadPlan, Pacing};
use plimsoll_model::tally::{HandshakeCounts, Tally};
use plimsoll_model::trial::Outcome;
use plimsoll_report::terminal::render_remedy_plan;

use super::{Found, StormExperiment, find};
use crate::exit::Stop;
use crate::experiments::confirm;
use crate::experiments::confirm::TemporaryChange;
use crate::experiments::tipping::Pass;
use crate::plan::storm::StormJob;
use crate::session::Session;

/// Longest time of the handshakes that show what the server can do.
const PROBE_MAX: Nanos = Nanos::from_secs(5);
/// Handshakes of a client that show whether sessions are resumed: the first one is full.
const PROBES_RESUMED: u64 = 4;

/// The searches with each remedy.
#[derive(Default)]
pub(super) struct RemedySearches {
    pub(super) remedies: Vec<Remedied>,
    /// Counts of all these searches.
    pub(super) tally: Tally,
    /// Wall time in which the operations were sent.
    pub(super) window: Nanos,
}

/// Searches again with each remedy of the job, once the largest storm without them is known.
pub(super) fn try_each(
    experiment: &StormExperiment,
    found: &Found,
    session: &Session<'_>,
) -> Result<RemedySearches, Stop> {
    let tipping = &found.tipping;
    let bounds = tipping.lower.zip(tipping.upper);
    let known = bounds.filter(|_| tipping.outcome == Outcome::Regular);
    let Some((lower, upper)) = known.map(|(lower, upper)| (lower.get(), upper.get())) else {
        return Ok(RemedySearches::default());
    };
    let mut tried = RemedySearches::default();
    let is_over = || session.is_interrupted() || session.server_end().is_some();
    for intervention in &experiment.job.remedies {
        if is_over() {
            break;
        }
        let mut job = experiment.job.clone();
        let TemporaryChange { mut remedied, lever } =
            change(*intervention, &mut job, found, session)?;
        // Handshakes that were cut short do not show what the server can do.
        if is_over() {
            break;
        }
        if remedied.why.is_none() {
            session.note(render_remedy_plan(&remedied));
            let began = session.elapsed();
            // It serves no fewer.
            let lowest = lower.max(1.0) as u64;
            let settings =
                StormSettings { lowest, try_jitter: false, ..experiment.search_settings() };
            let Found { driven, tipping: again, .. } =
                find(&experiment.holders, &job, settings, Pass::Again, session)?;
            tried.tally.merge_following(&driven.load.tally);
            tried.window = tried.window + driven.load.window;
            let bounds = [again.lower, again.upper].map(|bound| bound.map(|bound| bound.get()));
            remedied.take_result(&again.outcome, (bounds[0], bounds[1]), (lower * upper).sqrt());
            remedied.seconds = session.elapsed().since(began).as_secs_f64();
        }
        drop(lever);
        tried.remedies.push(remedied);
    }
    Ok(tried)
}

/// Makes the change: in the job, or of the running server.
fn change(
    intervention: Intervention,
    job: &mut StormJob,
    found: &Found,
    session: &Session<'_>,
) -> Result<TemporaryChange, Stop> {
    Ok(match (intervention, served_per_s(found)) {
        (Intervention::Resumption, _) => {
            let ratio = &mut job.load.plan.tls.resume_ratio;
            let before = std::mem::replace(ratio, 1.0);
            let mut remedied = Remedied::new(intervention, before, 1.0);
            if handshakes(&job.load.plan, PROBES_RESUMED, session)?.resumed == 0 {
                remedied.why = Some("the server resumes no session".to_owned());
            }
            TemporaryChange { remedied, lever: None }
        }
        (Intervention::CertificateKey, _) => {
            let shown = found.driven.load.tally.handshakes;
            let tls = &mut job.load.plan.tls;
            tls.certificate_key = Some(CertificateKey::Ecdsa);
            let ecdsa_share = 1.0 - shown.rsa as f64 / shown.full.max(1) as f64;
            let mut remedied = Remedied::new(intervention, ecdsa_share, 1.0);
            remedied.why = if shown.rsa == 0 {
                Some("no certificate of the server has an RSA key".to_owned())
            } else if handshakes(&job.load.plan, 1, session)?.full == 0 {
                Some("the server has none; give it one beside that with an RSA key".to_owned())
            } else {
                None
            };
            TemporaryChange { remedied, lever: None }
        }
        // Clients whose handshakes it begins are still there when it ends them.
        (Intervention::SessionRate, Some(per_s)) => confirm::limit_connections(per_s, session),
        _ => confirm::raise_limit(intervention, session),
    })
}

/// Makes `each` handshakes with every server, one after another, as a client of `plan`.
fn handshakes(plan: &LoadPlan, each: u64, session: &Session<'_>) -> Result<HandshakeCounts, Stop> {
    let connections = plan.destinations.len() as u64;
    let probe = LoadPlan {
        pacing: Pacing::Closed { duration: Some(PROBE_MAX), ops_total: Some(each * connections) },
        connections,
        handshake_only: true,
        keepalive: false,
        threads: 1,
        ..plan.clone()
    };
    Ok(session.run_unrecorded(&probe, &mut |_| {})?.tally.handshakes)
}

/// Returns the clients per second that were back in the largest storm that was survived, where larger ones do not end.
fn served_per_s(found: &Found) -> Option<u64> {
    let storms = found.driven.procedure.storms();
    storms.iter().find(|storm| storm.endless.is_some())?;
    let survived = storms.iter().filter(|storm| storm.jitter_s.is_none());
    let largest = survived.filter_map(|storm| Some((storm.cut, storm.recovered_s?)));
    let (cut, took_s) = largest.max_by_key(|(cut, _)| *cut)?;
    Some(((cut as f64 / took_s) as u64).max(1))
}
