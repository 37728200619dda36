//! The limiting resources of a search, from its archive: during the run and when its report is drawn again.

use std::collections::BTreeMap;
use std::path::Path;

use plimsoll_capacity::diagnose::{Record, Trial, diagnose, figures, of_storms};
use plimsoll_model::Nanos;
use plimsoll_model::cause::{Cause, Finding};
use plimsoll_model::host::{HostSummary, Reading};
use plimsoll_model::search::Axis;
use plimsoll_model::slo::Slo;
use plimsoll_model::summary::FindSummary;
use plimsoll_model::trial::{Outcome, TrialRecord};
use plimsoll_report::archive::read_hosts;

/// Bounds without a confidence are two loads that happened to be tried: the tipping point may lie so far beside them.
const BESIDE: f64 = 1.2;

/// Every host's readings, by name.
pub(crate) type Readings = BTreeMap<String, Vec<Reading>>;

/// Returns the readings in the archive `dir`; none if they cannot be read.
pub(crate) fn readings(dir: &Path) -> Readings {
    read_hosts(dir).unwrap_or_default()
}

/// Returns the causes of what `find` found; empty if no resource was the limit. `None` if that cannot be said:
/// the generator was the limit, the search was cut short, or no host was read.
pub(crate) fn of(
    readings: &Readings,
    find: &FindSummary,
    trials: &[TrialRecord],
) -> Option<Vec<Finding>> {
    if find.axis == Axis::Storm {
        // A generator that is the limit hides the server's.
        let is_ours = matches!(find.found.outcome, Outcome::GeneratorLimited { .. });
        return if is_ours { None } else { of_storms(trials, readings) };
    }
    let (tip, is_told) = match find.found.outcome {
        Outcome::NotReached { .. } => match stopped_at(find) {
            Some(tip) => (Some(tip), true),
            None => return Some(Vec::new()),
        },
        Outcome::Regular | Outcome::Unconfirmed { .. } | Outcome::Undecided { .. } => {
            (Some(find.at_any_speed()?), false)
        }
        Outcome::Bounds { .. } => {
            let (lower, upper) = find.found.bounds();
            let tip = lower.zip(upper);
            (tip.map(|(lower, upper)| (lower / BESIDE, upper * BESIDE)), false)
        }
        // Without an interval nothing is predicted, but what was seen can be named.
        Outcome::FailsAtMinimum | Outcome::Unstable { .. } | Outcome::NetworkLimited { .. } => {
            (None, false)
        }
        // An interrupt ends a search as well as a server that died.
        Outcome::Unfinished { .. } => (None, true),
        // A generator that is the limit hides the server's.
        Outcome::GeneratorLimited { .. } => return None,
    };
    let found = diagnose(&Record { tip, ..record(find, trials, readings) })?;
    // The outcome says why it ended: that nothing is known of it would be wrong.
    let is_known = found.iter().any(|finding| finding.cause != Cause::Unknown);
    (is_known || !is_told).then_some(found)
}

/// Returns the connections at which the resource runs out that ended a search before they were reached.
fn stopped_at(find: &FindSummary) -> Option<(f64, f64)> {
    let projection = find.connections.as_ref()?.stopped_by.as_ref()?;
    let end = projection.ends_at?;
    Some((projection.ends_at_min.unwrap_or(end) as f64, end as f64))
}

fn record<'a>(find: &FindSummary, trials: &[TrialRecord], hosts: &'a Readings) -> Record<'a> {
    Record {
        axis: find.axis,
        tip: find.at_any_speed(),
        deadline: find.slo.parse::<Slo>().ok().and_then(|slo| slo.deadline()),
        round_trip: find.path.map(|path| Nanos::from_secs_f64(path.round_trip_ms / 1e3)),
        trials: Trial::all(find.axis, trials, hosts),
    }
}

/// Summarises the hosts of a search, also below and above its tipping point.
pub(crate) fn hosts_of_search(
    readings: &Readings,
    find: &FindSummary,
    trials: &[TrialRecord],
) -> BTreeMap<String, HostSummary> {
    let mut all: BTreeMap<String, HostSummary> =
        readings.iter().map(|(host, readings)| (host.clone(), HostSummary::of(readings))).collect();
    for (host, [below, above]) in figures(&record(find, trials, readings)) {
        let summary = all.entry(host.to_owned()).or_default();
        (summary.below, summary.above) = (below, above);
    }
    all
}
