//! The limiting resources of a search, from its archive: during the run and when its report is drawn again.

use std::path::Path;

use plimsoll_capacity::diagnose::{Record, diagnose};
use plimsoll_model::cause::Finding;
use plimsoll_model::search::Axis;
use plimsoll_model::slo::Slo;
use plimsoll_model::summary::FindSummary;
use plimsoll_model::trial::{Outcome, TrialRecord};
use plimsoll_report::archive::read_hosts;

/// The causes of what `find` found; empty where no resource was the limit. `None` where that cannot be said: without
/// both bounds, or without readings of hosts.
pub(crate) fn of(dir: &Path, find: &FindSummary, trials: &[TrialRecord]) -> Option<Vec<Finding>> {
    if find.axis == Axis::Connections {
        return None;
    }
    match find.outcome {
        Outcome::NotReached { .. } => return Some(Vec::new()),
        Outcome::Regular | Outcome::Unconfirmed { .. } | Outcome::Undecided { .. } => {}
        _ => return None,
    }
    let tip = (find.lower?, find.upper?);
    let deadline = find.slo.parse::<Slo>().ok().and_then(|slo| slo.deadline());
    let hosts = read_hosts(dir).ok()?;
    diagnose(&Record::new(trials, &hosts, tip, deadline))
}
