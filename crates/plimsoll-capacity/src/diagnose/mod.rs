//! The limiting resource at the tipping point: computed from the trials of a search and what the hosts did
//! meanwhile, so that it can be repeated from an archive.
//!
//! Trials that met the goals say how much of each resource an operation uses, and so at which load it is
//! full. A resource that is full at the tipping point, and that no other one competes with, is the
//! predicted cause; what only moves there is correlated.

use plimsoll_model::cause::{
    Cause, Evidence, EvidenceUnit, Finding, Grade, Limited, Projected, Resource, ResourceKind,
};
use plimsoll_model::trial::Verdict;

mod fit;
mod record;
mod signs;
#[cfg(test)]
mod tests;
mod usage;

pub use record::{During, Record, Trial};

use fit::{Line, Point, is_narrow};
use usage::Usage;

/// The least by which the interval of the tipping point is widened: two halves of one machine differ so.
const WIDENED_MIN: f64 = 0.03;
/// What of a CPU can be used at least before the goals are missed.
const USABLE_MIN: f64 = 0.5;
const USABLE_MAX: f64 = 0.95;
/// The same of a limit with a number, of which readings once a second miss the peaks.
const USABLE_OF_LIMIT: f64 = 0.97;
/// Trials below this share of the tipping point are left out where enough others remain: the demand of
/// an operation is lower at high loads, where work is batched.
const LATE_FROM: f64 = 0.35;
/// Two limits are near where their loads differ by less.
const NEAR: f64 = 0.1;
/// A resource that lasts longer than this share of the upper bound is excluded.
const EXCLUDED_FROM: f64 = 1.25;
/// At most so many are listed.
const EXCLUDED_MAX: usize = 4;

/// A resource over all trials of one host.
#[derive(Clone, Debug)]
struct Candidate {
    host: String,
    /// Narrow enough to be compared with the tipping point.
    projected: Option<Projected>,
    /// Below the tipping point, and above it where it was read there.
    below: Usage,
    above: Option<Usage>,
}

impl Candidate {
    fn resource(&self) -> &Resource {
        &self.below.resource
    }

    fn kind(&self) -> ResourceKind {
        self.below.resource.kind
    }

    fn is_full(&self) -> bool {
        self.above.as_ref().is_some_and(|usage| usage.is_full)
    }

    fn limited(&self) -> Option<Limited> {
        let (resource, host) = (self.resource().clone(), self.host.clone());
        Some(Limited { resource, host, projected: self.projected? })
    }

    fn evidence(&self) -> Evidence {
        let is_cpu = self.kind() != ResourceKind::Limit;
        let above = self.above.as_ref();
        Evidence {
            counter: counter_name(self.resource()),
            unit: if is_cpu { EvidenceUnit::Cpus } else { EvidenceUnit::Count },
            below: Some(self.below.used),
            above: above.map(|usage| usage.used),
            limit: Some(above.unwrap_or(&self.below).capacity),
        }
    }
}

/// The metric behind a resource, with what it belongs to.
fn counter_name(resource: &Resource) -> String {
    let metric = match resource.kind {
        ResourceKind::ThreadCpu | ResourceKind::ProcessCpu => "process_cpu_seconds_total",
        ResourceKind::Cpu => "cpu_seconds_total, not idle",
        ResourceKind::CpuQuota => "cgroup_cpu_seconds_total",
        _ => "limit_used",
    };
    format!("{metric} {}", resource.name)
}

/// The trials that the tipping point lies between.
struct Around<'a> {
    below: &'a Trial<'a>,
    /// `None` where none above went on long enough to be read.
    above: Option<&'a Trial<'a>>,
}

/// The limiting resources, the surest first. Where nothing proves a cause, one that is unknown, with what is
/// excluded. `None` where the record cannot say: no trial below the tipping point was read.
pub fn diagnose(record: &Record<'_>) -> Option<Vec<Finding>> {
    let around = around(record)?;
    let candidates = candidates(record, &around);
    let tip = widened(record.tip);
    let mut causes = covering(&candidates, tip, &around);
    if causes.is_empty() {
        causes.extend(signs::find(&around, &candidates));
    }
    if causes.is_empty() {
        causes.push(finding(
            Cause::Unknown,
            Resource::new(ResourceKind::Unknown, ""),
            "",
            Grade::Unknown,
        ));
    }
    let excluded = excluded(&candidates, record.tip.1);
    for cause in &mut causes {
        cause.next = next(&candidates, cause, tip);
        cause.excluded.clone_from(&excluded);
        cause.excluded.retain(|limited| limited.resource != cause.resource);
    }
    Some(causes)
}

fn finding(cause: Cause, resource: Resource, host: &str, grade: Grade) -> Finding {
    Finding {
        cause,
        resource,
        host: host.to_owned(),
        grade,
        evidence: Vec::new(),
        excluded: Vec::new(),
        remedy: cause.remedy().to_owned(),
        predicted_at: None,
        next: None,
    }
}

fn around<'a>(record: &'a Record<'a>) -> Option<Around<'a>> {
    let (lower, upper) = record.tip;
    let good = |trial: &&Trial<'_>| trial.verdict == Verdict::Good && trial.load <= upper;
    let by_load = |a: &&Trial<'_>, b: &&Trial<'_>| a.load.total_cmp(&b.load);
    let below = record.trials.iter().filter(good).max_by(by_load)?;
    // The overload after a search is not ended early, and neither are those in between.
    let above = record
        .trials
        .iter()
        .filter(|trial| trial.load > lower && trial.verdict != Verdict::Good)
        .max_by(|a, b| b.aborted.cmp(&a.aborted).then(a.load.total_cmp(&b.load)));
    Some(Around { below, above })
}

/// The interval of the tipping point and what machines differ by between trials.
fn widened((lower, upper): (f64, f64)) -> (f64, f64) {
    let by = (upper / lower - 1.0).max(WIDENED_MIN);
    (lower * (1.0 - by), upper * (1.0 + by))
}

/// Every resource that was read at both ends, with its projection.
fn candidates(record: &Record<'_>, around: &Around<'_>) -> Vec<Candidate> {
    let met = |trial: &&Trial<'_>| trial.verdict == Verdict::Good && !trial.aborted;
    let mut usages = Vec::new();
    for trial in record.trials.iter().filter(met) {
        usages.extend(trial.hosts.iter().map(|during| (trial, during.host, usage::of(during))));
    }
    let mut all = Vec::new();
    for during in &around.below.hosts {
        let above = around.above.and_then(|trial| trial.on(during.host));
        let above = above.map(|during| usage::of(&during)).unwrap_or_default();
        for below in usage::of(during) {
            let is_it = |usage: &&Usage| usage.resource == below.resource;
            let of_host = usages.iter().filter(|(_, host, _)| *host == during.host);
            let points: Vec<(f64, Point)> = of_host
                .filter_map(|(trial, _, usages)| {
                    let used = usages.iter().find(is_it)?.used;
                    Some((trial.load, Point { throughput: trial.goodput, used }))
                })
                .collect();
            let above = above.iter().find(is_it).cloned();
            let projected = project(&points, &below, record);
            all.push(Candidate { host: during.host.to_owned(), projected, below, above });
        }
    }
    all
}

fn project(points: &[(f64, Point)], usage: &Usage, record: &Record<'_>) -> Option<Projected> {
    let late = |from: f64| -> Vec<Point> {
        points.iter().filter(|(load, _)| *load >= from).map(|(_, point)| *point).collect()
    };
    let line = Line::through(&late(LATE_FROM * record.tip.0), usage.capacity)
        .or_else(|| Line::through(&late(0.0), usage.capacity))?;
    let usable = if usage.resource.kind == ResourceKind::Limit {
        USABLE_OF_LIMIT
    } else {
        usable(&line, record)
    };
    line.projected(usage.capacity, usable).filter(is_narrow)
}

/// What of a CPU is usable before a p99 goal is missed: that of one server with random arrivals,
/// whose service time is the demand.
fn usable(line: &Line, record: &Record<'_>) -> f64 {
    let deadline = record.deadline.map_or(f64::INFINITY, |span| span.as_secs_f64());
    (1.0 - 4.6 * line.demand / deadline).clamp(USABLE_MIN, USABLE_MAX)
}

/// The resources whose projected limits cover the tipping point: predicted where they were full above
/// it, else correlated.
fn covering(all: &[Candidate], tip: (f64, f64), around: &Around<'_>) -> Vec<Finding> {
    let covers = |candidate: &&Candidate| {
        candidate.projected.is_some_and(|projected| {
            projected.lower <= tip.1 && projected.upper.is_none_or(|upper| upper >= tip.0)
        })
    };
    let mut covering: Vec<&Candidate> = all.iter().filter(covers).collect();
    if covering.iter().any(|candidate| candidate.is_full()) {
        covering.retain(|candidate| candidate.is_full());
    }
    let middle = (tip.0 * tip.1).sqrt();
    let off = |candidate: &Candidate| {
        candidate.projected.map_or(f64::INFINITY, |projected| (projected.at / middle).ln().abs())
    };
    covering.sort_by(|a, b| off(a).total_cmp(&off(b)));
    // A CPU is full because a thread on it is; that says more.
    let threads = covering.iter().filter(|c| c.kind() == ResourceKind::ThreadCpu).count();
    let cpus = covering.iter().filter(|c| c.kind() == ResourceKind::Cpu).count();
    if threads >= cpus {
        covering.retain(|candidate| candidate.kind() != ResourceKind::Cpu);
    }
    let mut found: Vec<Finding> = Vec::new();
    let first_at = covering.first().and_then(|candidate| candidate.projected).map(|p| p.at);
    for candidate in covering {
        let cause = named(candidate, around);
        let at = candidate.projected.map(|projected| projected.at);
        let is_near = first_at.zip(at).is_some_and(|(first, at)| (at / first - 1.0).abs() <= NEAR);
        if !is_near || found.iter().any(|other| other.cause == cause) {
            continue;
        }
        let grade = if candidate.is_full() { Grade::Predicted } else { Grade::Correlated };
        let mut made = finding(cause, candidate.resource().clone(), &candidate.host, grade);
        made.evidence.push(candidate.evidence());
        made.predicted_at = candidate.projected;
        found.push(made);
    }
    found
}

/// The row of the table for a resource that is full: which of its kind depends on what the others do.
fn named(candidate: &Candidate, around: &Around<'_>) -> Cause {
    let trial = around.above.unwrap_or(around.below);
    match candidate.below.cause {
        Cause::ServerCpu => {
            let Some(during) = trial.on(&candidate.host) else { return Cause::ServerCpu };
            if signs::is_hot_thread(&usage::threads(&during)) {
                Cause::HotThread
            } else if signs::is_handshaking(around.below) {
                Cause::TlsHandshakes
            } else {
                Cause::ServerCpu
            }
        }
        Cause::HostCpu => {
            let Some(during) = trial.on(&candidate.host) else { return Cause::HostCpu };
            if signs::has_neighbour(&during) { Cause::NoisyNeighbour } else { Cause::HostCpu }
        }
        cause => cause,
    }
}

/// What lasts clearly longer and was not full, the next one first.
fn excluded(all: &[Candidate], upper: f64) -> Vec<Limited> {
    let lasts = |candidate: &&Candidate| {
        let lower = candidate.projected.map(|projected| projected.lower);
        !candidate.is_full() && lower.is_some_and(|lower| lower > EXCLUDED_FROM * upper)
    };
    let mut found: Vec<Limited> = all.iter().filter(lasts).filter_map(Candidate::limited).collect();
    found.sort_by(|a, b| a.projected.at.total_cmp(&b.projected.at));
    found.truncate(EXCLUDED_MAX);
    found
}

/// The first other resource that is full beyond the tipping point.
fn next(all: &[Candidate], cause: &Finding, tip: (f64, f64)) -> Option<Limited> {
    all.iter()
        .filter(|c| (c.resource(), &c.host) != (&cause.resource, &cause.host))
        .filter(|c| c.below.cause != cause.cause || c.kind() == ResourceKind::Limit)
        // A server's threads keep its CPUs busy: that is the same limit once more.
        .filter(|c| c.kind() != ResourceKind::Cpu || cause.resource.kind != ResourceKind::ThreadCpu)
        .filter_map(Candidate::limited)
        .filter(|limited| limited.projected.at > tip.0)
        .min_by(|a, b| a.projected.at.total_cmp(&b.projected.at))
}
