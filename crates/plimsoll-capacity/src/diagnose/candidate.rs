//! Every resource of every host over all trials: its use, and the load at which it is full.
//!
//! [`candidates`] takes each resource of the reference trial (just below the tipping point, else above it) and fits a
//! line of use over throughput through GOOD trials. [`Candidate::projected`] is the throughput at which the line
//! reaches the usable share of the capacity; `None` if the projection is too uncertain. [`excluded`] lists up to four
//! resources that last beyond 1.25 times the upper bound. Start reading at [`candidates`].

use plimsoll_model::cause::{
    Cause, Evidence, EvidenceUnit, Grade, Limited, Missing, Projected, Resource, ResourceKind,
};
use plimsoll_model::trial::Verdict;

use super::fit::{Line, Point, is_narrow};
use super::record::Record;
use super::scene::{Around, Suspect};
use super::usage::{self, Usage};

/// The least share of a CPU that can be used before the goals are missed.
const USABLE_MIN: f64 = 0.5;
const USABLE_MAX: f64 = 0.95;
/// Trials below this share of the tipping point are left out where enough others remain: the demand of
/// an operation is lower at high loads, where work is batched.
const LATE_FROM: f64 = 0.35;
/// A resource that lasts longer than this share of the upper bound is excluded.
const EXCLUDED_FROM: f64 = 1.25;
/// Resources that are listed, at most.
const EXCLUDED_MAX: usize = 4;
/// Use of a limit that the load fills: just below the tipping point, and at the lowest load.
const FILLED_BELOW_MIN: f64 = 0.5;
const FILLED_UNLOADED_MAX: f64 = 0.9;
/// Resources below this use are skipped: their projected limit is meaningless.
const USED_MIN: f64 = 1e-3;

/// A resource over all trials of one host.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) host: String,
    /// Narrow enough to be compared with the tipping point.
    pub(super) projected: Option<Projected>,
    /// At the highest load that met the goals and was read, else above it.
    pub(super) usage: Usage,
    /// The load of that, which its share in use is to be compared with.
    load: f64,
    pub(super) below: Option<Usage>,
    pub(super) above: Option<Usage>,
    /// The share of it that was in use at the lowest load that met the goals.
    unloaded: Option<f64>,
}

impl Candidate {
    pub(super) const fn resource(&self) -> &Resource {
        &self.usage.resource
    }

    pub(super) const fn kind(&self) -> ResourceKind {
        self.usage.resource.kind
    }

    /// Reports whether it was full above the tipping point. If it was not read there, as of a process that was killed,
    /// the highest load that met the goals counts.
    pub(super) fn is_full(&self) -> bool {
        self.above.as_ref().or(self.below.as_ref()).is_some_and(|usage| usage.is_full)
    }

    /// Reports whether the load itself filled it: it was not nearly full at low loads, and not nearly empty just below
    /// the tipping point. A resource that is full only above was filled by operations that wait there for another
    /// resource.
    pub(super) fn is_filled_by_load(&self) -> bool {
        let below = self.below.as_ref().map(|usage| usage.used / usage.capacity);
        below.is_none_or(|share| share >= FILLED_BELOW_MIN)
            && self.unloaded.is_none_or(|share| share < FILLED_UNLOADED_MAX)
    }

    /// Returns the resource as a suspect, without a projection.
    pub(super) fn suspect(&self, cause: Cause, grade: Grade, missing: Missing) -> Suspect {
        Suspect {
            cause,
            resource: self.resource().clone(),
            host: self.host.clone(),
            grade,
            evidence: vec![self.evidence()],
            predicted_at: None,
            missing,
        }
    }

    /// Returns the resource as a limit that is reached at the loads `projected`.
    pub(super) fn limited(&self, projected: Projected) -> Limited {
        Limited { resource: self.resource().clone(), host: self.host.clone(), projected }
    }

    /// Returns the loads up to which it lasts: the projection, or the limit if all of its use were the load's.
    pub(super) fn lasts(&self) -> Projected {
        let share = (self.usage.used / self.usage.capacity).max(USED_MIN);
        let at = self.load / share;
        self.projected.unwrap_or(Projected { lower: at, at, upper: None })
    }

    pub(super) fn evidence(&self) -> Evidence {
        let is_cpu = self.kind() != ResourceKind::Limit;
        let used = |usage: &Option<Usage>| usage.as_ref().map(|usage| usage.used);
        Evidence {
            counter: counter_name(self.resource()),
            unit: if is_cpu { EvidenceUnit::Cpus } else { EvidenceUnit::Count },
            below: used(&self.below),
            above: used(&self.above),
            limit: Some(self.above.as_ref().unwrap_or(&self.usage).capacity),
        }
    }
}

/// Returns the metric behind a resource, with what it belongs to.
fn counter_name(resource: &Resource) -> String {
    let metric = match resource.kind {
        ResourceKind::ThreadCpu | ResourceKind::ProcessCpu => "process_cpu_seconds_total",
        ResourceKind::Cpu => "cpu_seconds_total, not idle",
        ResourceKind::CpuQuota => "cgroup_cpu_seconds_total",
        _ => "limit_used",
    };
    format!("{metric} {}", resource.name)
}

/// Returns every resource that was read below or above, with its projection.
pub(super) fn candidates(record: &Record<'_>, around: &Around<'_>) -> Vec<Candidate> {
    let met = record.trials.iter().filter(|t| t.verdict == Verdict::Good && !t.aborted);
    let on_hosts = met.flat_map(|trial| trial.hosts.iter().map(move |during| (trial, during)));
    let met_usages: Vec<_> = on_hosts
        .map(|(trial, during)| (trial, during.host, usage::of(during, record.axis)))
        .collect();
    let Some(reference) = around.below.or(around.above) else { return Vec::new() };
    let mut all = Vec::new();
    for during in &reference.hosts {
        let on = |trial: Option<&super::Trial<'_>>| -> Vec<Usage> {
            let during = trial.and_then(|trial| trial.on(during.host));
            during.map(|during| usage::of(&during, record.axis)).unwrap_or_default()
        };
        let (below, above) = (on(around.below), on(around.above));
        for usage in usage::of(during, record.axis) {
            let is_it = |other: &&Usage| other.resource == usage.resource;
            let of_host = met_usages.iter().filter(|(_, host, _)| *host == during.host);
            let points: Vec<(f64, Point)> = of_host
                .filter_map(|(trial, _, usages)| {
                    let used = usages.iter().find(is_it)?.used;
                    Some((trial.load, Point { throughput: trial.goodput, used }))
                })
                .collect();
            let lowest = points.iter().min_by(|a, b| a.0.total_cmp(&b.0));
            all.push(Candidate {
                host: during.host.to_owned(),
                unloaded: lowest.map(|(_, point)| point.used / usage.capacity),
                projected: project(&points, &usage, record),
                load: reference.goodput,
                below: below.iter().find(is_it).cloned(),
                above: above.iter().find(is_it).cloned(),
                usage,
            });
        }
    }
    all
}

fn project(points: &[(f64, Point)], usage: &Usage, record: &Record<'_>) -> Option<Projected> {
    let (lower, _) = record.tip?;
    let late = |from: f64| -> Vec<Point> {
        points.iter().filter(|(load, _)| *load >= from).map(|(_, point)| *point).collect()
    };
    let line = Line::through(&late(LATE_FROM * lower), usage.capacity)
        .or_else(|| Line::through(&late(0.0), usage.capacity))?;
    let usable = usage.usable.unwrap_or_else(|| usable(&line, record));
    line.projected(usage.capacity, usable).filter(is_narrow)
}

/// Returns the share of a CPU that is usable before a p99 goal is missed, for one server with random arrivals whose
/// service time is the demand.
fn usable(line: &Line, record: &Record<'_>) -> f64 {
    let deadline = record.deadline.map_or(f64::INFINITY, |span| span.as_secs_f64());
    (1.0 - 4.6 * line.demand / deadline).clamp(USABLE_MIN, USABLE_MAX)
}

/// Returns the resources that last clearly longer than `upper` and were not full, the next one first, without
/// `suspect`.
pub(super) fn excluded(all: &[Candidate], upper: f64, suspect: Option<&Resource>) -> Vec<Limited> {
    let lasts = |candidate: &&Candidate| {
        !candidate.is_full()
            && candidate.below.as_ref().is_none_or(|usage| !usage.is_full)
            && candidate.lasts().lower > EXCLUDED_FROM * upper
            && suspect != Some(candidate.resource())
    };
    let limited = |candidate: &Candidate| candidate.limited(candidate.lasts());
    let mut found: Vec<Limited> = all.iter().filter(lasts).map(limited).collect();
    found.sort_by(|a, b| a.projected.at.total_cmp(&b.projected.at));
    found.truncate(EXCLUDED_MAX);
    found
}
