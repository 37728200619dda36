//! The limiting resource at the tipping point: computed from the trials of a search and what the hosts did
//! meanwhile, so that it can be repeated from an archive.
//!
//! Trials that met the goals say how much of each resource an operation uses, and so at which load it is
//! full. A resource that is full at the tipping point, and that no other one competes with, is the
//! predicted cause; what only moves there is correlated.

use plimsoll_model::cause::{Cause, Finding, Grade, Limited, Missing, Projected, ResourceKind};
use plimsoll_model::host::HostFigures;
use plimsoll_model::trial::Verdict;

mod candidate;
pub mod confirm;
mod counters;
mod fit;
mod record;
mod scene;
mod signs;
mod storm;
#[cfg(test)]
mod tests;
mod usage;
mod waits;

pub use record::{Clients, During, Record, Trial, missing_loads};
pub use storm::of_storms;

use candidate::{Candidate, candidates, excluded};
use scene::{Around, Suspect};

/// The least by which the interval of the tipping point is widened: two halves of one machine differ so. And the most:
/// what is wider spans several speeds.
const WIDENED_MIN: f64 = 0.03;
const WIDENED_MAX: f64 = 0.3;
/// A CPU is nearly full from this share on.
const NEARLY_FULL: f64 = 0.75;
/// Two limits are near where their loads differ by less.
const NEAR: f64 = 0.1;

impl Suspect {
    /// The finding; `None` if no other resource was read that would last longer: then it may be any.
    fn beside(self, candidates: &[Candidate], record: &Record<'_>, load: f64) -> Option<Finding> {
        let mut others = excluded(candidates, load, Some(&self.resource)).into_iter();
        let next = record.tip.and_then(|tip| next(candidates, &self, widened(tip)));
        let nearest = others.next()?;
        let place = (self.resource, self.host);
        let mut made = Finding::new(self.cause, place, self.grade, nearest, others);
        made.evidence = self.evidence;
        made.predicted_at = self.predicted_at;
        made.missing = (self.grade == Grade::Correlated).then_some(self.missing);
        made.next = next;
        Some(made)
    }
}

/// Returns the limiting resources, the surest first. Without a proven cause, returns an unknown one, with the excluded
/// resources. `None` if the record cannot decide, because the necessary trials were not read.
pub fn diagnose(record: &Record<'_>) -> Option<Vec<Finding>> {
    let around = around(record)?;
    let candidates = candidates(record, &around);
    let mut suspects =
        record.tip.map(|tip| covering(&candidates, widened(tip), &around)).unwrap_or_default();
    if suspects.is_empty() {
        let sign = signs::first_of(signs::SIGNS, record, &around, &candidates);
        suspects.extend(sign.or_else(|| filled(&candidates, &around)));
    } else if suspects.iter().all(|suspect| suspect.grade != Grade::Predicted)
        && let Some(full) = filled(&candidates, &around)
    {
        // What was full there says more than a line that meets it.
        suspects = vec![full];
    }
    let reached = around.above.or(around.below).map_or(0.0, |trial| trial.goodput);
    let load = record.tip.map_or(reached, |(_, upper)| upper);
    let found: Vec<Finding> = suspects
        .into_iter()
        .filter_map(|suspect| suspect.beside(&candidates, record, load))
        .collect();
    if found.is_empty() {
        return Some(vec![Finding::unknown(excluded(&candidates, load, None))]);
    }
    Some(found)
}

/// Returns the figures of every host at the highest load that met the goals, and above the tipping point.
pub fn figures<'a>(record: &'a Record<'a>) -> Vec<(&'a str, [Option<HostFigures>; 2])> {
    let (_, upper) = record.tip.unwrap_or((0.0, f64::INFINITY));
    let below = highest_met(record, upper);
    let above = longest(record.trials.iter().filter(|trial| trial.verdict != Verdict::Good));
    let of = |trial: Option<&Trial<'_>>, host: &str| {
        let during = trial?.on(host)?;
        Some(HostFigures::between(during.first(), during.last()))
    };
    let trials = [below, above].into_iter().flatten();
    let mut hosts: Vec<&str> =
        trials.flat_map(|trial| trial.hosts.iter().map(|during| during.host)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    hosts.into_iter().map(|host| (host, [of(below, host), of(above, host)])).collect()
}

/// Returns the trials around the tipping point; of a search without an interval the highest load that met the goals, if
/// there was one, and one that did not.
fn around<'a>(record: &'a Record<'a>) -> Option<Around<'a>> {
    let Some((lower, upper)) = record.tip else {
        let missed = record.trials.iter().filter(|trial| trial.verdict == Verdict::Bad);
        let (below, above) = (highest_met(record, f64::INFINITY), longest(missed)?);
        return Some(Around { below, above: Some(above) });
    };
    let above = |trial: &&Trial<'_>| trial.load > lower && trial.verdict != Verdict::Good;
    let above = longest(record.trials.iter().filter(above));
    Some(Around { below: Some(highest_met(record, upper)?), above })
}

/// Returns the trial of the highest load up to `upper` that met the goals.
fn highest_met<'a>(record: &'a Record<'a>, upper: f64) -> Option<&'a Trial<'a>> {
    let good = |trial: &&Trial<'_>| trial.verdict == Verdict::Good && trial.load <= upper;
    record.trials.iter().filter(good).max_by(|a, b| a.load.total_cmp(&b.load))
}

/// The overload after a search is not ended early, and neither are those in between; of those at one load, the longest
/// shows the most.
fn longest<'a>(trials: impl Iterator<Item = &'a Trial<'a>>) -> Option<&'a Trial<'a>> {
    let read = |trial: &Trial<'_>| trial.hosts.iter().map(|during| during.readings.len()).max();
    trials.max_by(|a, b| {
        let by_load = b.aborted.cmp(&a.aborted).then(a.load.total_cmp(&b.load));
        by_load.then_with(|| read(a).cmp(&read(b)))
    })
}

/// Returns the interval of the tipping point, widened by the difference of machines between trials.
fn widened((lower, upper): (f64, f64)) -> (f64, f64) {
    let by = (upper / lower - 1.0).clamp(WIDENED_MIN, WIDENED_MAX);
    (lower * (1.0 - by), upper * (1.0 + by))
}

/// The resources whose projected limits cover the tipping point: predicted if they were full above
/// it, else correlated.
fn covering(all: &[Candidate], tip: (f64, f64), around: &Around<'_>) -> Vec<Suspect> {
    let covers = |projected: &Projected| {
        projected.lower <= tip.1 && projected.upper.is_none_or(|upper| upper >= tip.0)
    };
    let projected = all.iter().filter_map(|one| Some((one, one.projected.filter(covers)?)));
    let mut covering: Vec<(&Candidate, Projected)> = projected.collect();
    if covering.iter().any(|(candidate, _)| candidate.is_full()) {
        covering.retain(|(candidate, _)| candidate.is_full());
    }
    let middle = (tip.0 * tip.1).sqrt();
    let off = |projected: &Projected| (projected.at / middle).ln().abs();
    covering.sort_by(|(_, a), (_, b)| off(a).total_cmp(&off(b)));
    // A CPU is full because a thread on it is; that says more.
    let count = |kind| covering.iter().filter(|(candidate, _)| candidate.kind() == kind).count();
    // Or because the threads of a process take turns on it.
    let is_serialised =
        covering.iter().any(|(c, _)| c.kind() == ResourceKind::ProcessCpu && c.is_full());
    if is_serialised || count(ResourceKind::ThreadCpu) >= count(ResourceKind::Cpu) {
        covering.retain(|(candidate, _)| candidate.kind() != ResourceKind::Cpu);
    }
    let mut found: Vec<Suspect> = Vec::new();
    let first_at = covering.first().map_or(0.0, |(_, projected)| projected.at);
    for (candidate, projected) in covering {
        let cause = named(candidate, around);
        let is_near = (projected.at / first_at - 1.0).abs() <= NEAR;
        if !is_near || found.iter().any(|other| other.cause == cause) {
            continue;
        }
        let grade = if candidate.is_full() { Grade::Predicted } else { Grade::Correlated };
        let suspect = candidate.suspect(cause, grade, Missing::FullAbove);
        found.push(Suspect { predicted_at: Some(projected), ..suspect });
    }
    found
}

/// A CPU that the load filled, whose line is too uncertain to meet it.
fn filled(all: &[Candidate], around: &Around<'_>) -> Option<Suspect> {
    let is_filled = |candidate: &Candidate| {
        let below = candidate.below.as_ref().map_or(0.0, |usage| usage.used / usage.capacity);
        candidate.projected.is_none()
            && candidate.is_full()
            && candidate.is_filled_by_load()
            && below >= NEARLY_FULL
    };
    let candidate = first_cpu(all, is_filled)?;
    Some(candidate.suspect(named(candidate, around), Grade::Correlated, Missing::Line))
}

/// Returns the first CPU that `holds` accepts: a thread's before a process's, and a process's before the host's.
fn first_cpu(all: &[Candidate], holds: impl Fn(&Candidate) -> bool) -> Option<&Candidate> {
    let kinds = [ResourceKind::ThreadCpu, ResourceKind::ProcessCpu, ResourceKind::Cpu];
    kinds.into_iter().find_map(|kind| all.iter().find(|one| one.kind() == kind && holds(one)))
}

/// The row of the table for a resource that is full: which of its kind depends on what the others do.
fn named(candidate: &Candidate, around: &Around<'_>) -> Cause {
    let cause = candidate.usage.cause;
    let trial = around.above.or(around.below);
    let is_cpu = matches!(candidate.kind(), ResourceKind::Cpu | ResourceKind::ThreadCpu);
    let seen = trial.filter(|_| is_cpu).and_then(|trial| Some((trial, trial.on(&candidate.host)?)));
    let Some((trial, during)) = seen else { return cause };
    if usage::stolen(&during) >= usage::STOLEN_MIN {
        return Cause::Steal;
    }
    let cause = match cause {
        Cause::HostCpu if signs::is_filled_by_server(&during) => Cause::ServerCpu,
        cause => cause,
    };
    match cause {
        Cause::ServerCpu if signs::is_hot_thread(&usage::threads(&during)) => Cause::HotThread,
        Cause::ServerCpu if signs::misses_sessions(&during, around.below) => Cause::SessionCache,
        Cause::ServerCpu if around.below.is_some_and(signs::is_handshaking) => Cause::TlsHandshakes,
        Cause::HostCpu if signs::has_neighbour(&during, trial) => Cause::NoisyNeighbour,
        cause => cause,
    }
}

/// Returns the first other resource that is full beyond the tipping point.
fn next(all: &[Candidate], cause: &Suspect, tip: (f64, f64)) -> Option<Limited> {
    all.iter()
        .filter(|c| (c.resource(), &c.host) != (&cause.resource, &cause.host))
        .filter(|c| c.usage.cause != cause.cause || c.kind() == ResourceKind::Limit)
        // A server's threads keep its CPUs busy: that is the same limit once more.
        .filter(|c| c.kind() != ResourceKind::Cpu || cause.resource.kind != ResourceKind::ThreadCpu)
        .filter_map(|c| Some(c.limited(c.projected?)))
        .filter(|limited| limited.projected.at > tip.0)
        .min_by(|a, b| a.projected.at.total_cmp(&b.projected.at))
}
