//! The resource that the clients of a storm waited for: full from the cut until the last of them was back, and not
//! before.
//!
//! A storm of any size uses all the resources that it can get, and its size decides only for how long. So no line over
//! the storms meets a limit, and a full resource is `correlated`. Loads are clients that came back per second.

use std::collections::BTreeMap;

use plimsoll_model::cause::{Cause, Finding, Grade, Missing, ResourceKind};
use plimsoll_model::host::Reading;
use plimsoll_model::search::Axis;
use plimsoll_model::trial::{TrialRecord, Verdict};

use super::candidate::{Candidate, candidates, excluded};
use super::record::{Record, Trial};
use super::scene::{Around, Suspect};
use super::{first_cpu, named, signs};

/// Returns the limiting resource of the smallest storm that was not survived and that was read; nothing if all were
/// survived. `None` if none of the others was read.
pub fn of_storms(
    trials: &[TrialRecord],
    hosts: &BTreeMap<String, Vec<Reading>>,
) -> Option<Vec<Finding>> {
    let mut failed: Vec<&TrialRecord> =
        trials.iter().filter(|trial| trial.judgement.verdict == Verdict::Bad).collect();
    if failed.is_empty() {
        return Some(Vec::new());
    }
    let cut = |trial: &TrialRecord| trial.measurement.request.rate.get();
    failed.sort_by(|a, b| cut(a).total_cmp(&cut(b)));
    let (before, storm) = failed.into_iter().find_map(|trial| Trial::of_storm(trial, hosts))?;
    let record = Record {
        axis: Axis::Storm,
        tip: None,
        deadline: None,
        round_trip: None,
        trials: vec![before],
    };
    let around = Around { below: None, above: Some(&storm) };
    let candidates = candidates(&record, &around);
    // Connections, files and ports are used by how many there are, not by how many come per second.
    let is_rate = |candidate: &&Candidate| candidate.kind() != ResourceKind::Limit;
    let rates: Vec<Candidate> = candidates.iter().filter(is_rate).cloned().collect();
    let suspect = full_cpu(&candidates, &around)
        .or_else(|| signs::first_of(signs::SIGNS_OF_STORM, &record, &around, &candidates))
        .map(|suspect| Suspect { missing: Missing::Storm, ..suspect })
        .and_then(|suspect| suspect.beside(&rates, &record, storm.goodput));
    Some(vec![suspect.unwrap_or_else(|| Finding::unknown(excluded(&rates, storm.goodput, None)))])
}

/// A CPU that the storm filled.
fn full_cpu(all: &[Candidate], around: &Around<'_>) -> Option<Suspect> {
    let candidate = first_cpu(all, |one| one.is_full() && one.is_filled_by_load())?;
    let cause = match named(candidate, around) {
        Cause::ServerCpu if around.above.is_some_and(signs::is_handshaking) => Cause::TlsHandshakes,
        cause => cause,
    };
    Some(candidate.suspect(cause, Grade::Correlated, Missing::Storm))
}
