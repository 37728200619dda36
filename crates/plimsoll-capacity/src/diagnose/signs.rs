//! Signs of causes that no line predicts: counters that move at the tipping point.

use plimsoll_model::cause::{
    Cause, Evidence, EvidenceUnit, Finding, Grade, Resource, ResourceKind,
};
use plimsoll_model::host::{Label, Metric};

use super::record::During;
use super::usage::ThreadUse;
use super::{Around, Candidate, finding, usage};

/// A thread above this is busy, one below the other idle enough to take its work.
const HOT: f64 = 0.85;
const COOL: f64 = 0.6;
/// A server whose threads are all below this does not lack CPU.
const FREE: f64 = 0.7;
/// CPUs that nobody of the run accounts for.
const OTHERS_MIN: f64 = 0.3;
/// Full handshakes per operation from which they are most of the work.
const HANDSHAKES_MIN: f64 = 0.5;
/// Events per second above and below: what counts as moving.
const EVENTS_MIN: f64 = 1.0;
const EVENTS_GROWN: f64 = 10.0;
/// Segments sent again over segments sent.
const LOSS_MIN: f64 = 0.001;
/// Requests in service above the tipping point over those below.
const WAITING_GROWN: f64 = 2.0;
/// Operations in a queue.
const QUEUED_MIN: f64 = 1.0;

/// Whether one thread is busy while others that do the same work are not.
pub(super) fn is_hot_thread(threads: &[ThreadUse]) -> bool {
    let servers = || threads.iter().filter(|thread| thread.is_server);
    let Some(hottest) = servers().max_by(|a, b| a.used.total_cmp(&b.used)) else { return false };
    let others = servers().filter(|thread| {
        thread.process == hottest.process && thread.kind() == hottest.kind() && *thread != hottest
    });
    let (mut count, mut cool) = (0, 0);
    for other in others {
        count += 1;
        cool += usize::from(other.used < COOL);
    }
    hottest.used >= HOT && count > 0 && cool * 2 > count
}

/// Whether most of the work is full handshakes.
pub(super) fn is_handshaking(trial: &super::Trial<'_>) -> bool {
    trial.handshakes >= HANDSHAKES_MIN
}

/// Whether programs that have nothing to do with the run keep CPUs busy.
pub(super) fn has_neighbour(during: &During<'_>) -> bool {
    let change = during.change();
    let known: f64 = change.rate(Metric::ProcessCpuSeconds, &[]).unwrap_or(0.0);
    let has_clients =
        change.after().of(Metric::ProcessInfo, &[(Label::Role, "client")]).next().is_some();
    let busy: f64 = usage::cpus(during).iter().map(|(_, busy)| busy).sum();
    has_clients && busy - known > OTHERS_MIN
}

/// The first sign that is there.
pub(super) fn find(around: &Around<'_>, candidates: &[Candidate]) -> Option<Finding> {
    let above = around.above?;
    above.hosts.iter().find_map(|after| {
        let before = around.below.on(after.host)?;
        full_limit(after.host, candidates)
            .or_else(|| events(&before, after))
            .or_else(|| queue(&before, after))
            .or_else(|| loss(&before, after))
            .or_else(|| backends(&before, after))
    })
}

/// A limit that was reached above the tipping point and not below it.
fn full_limit(host: &str, candidates: &[Candidate]) -> Option<Finding> {
    let reached = candidates.iter().find(|candidate| {
        let is_cpu = matches!(candidate.kind(), ResourceKind::Cpu | ResourceKind::ThreadCpu);
        candidate.host == host && candidate.is_full() && !candidate.below.is_full && !is_cpu
    })?;
    let Candidate { below, .. } = reached;
    let mut made = finding(below.cause, below.resource.clone(), host, Grade::Correlated);
    made.evidence.push(reached.evidence());
    Some(made)
}

/// One value of a metric, read below and above the tipping point.
struct Moved {
    metric: Metric,
    unit: EvidenceUnit,
    below: f64,
    above: f64,
}

/// A cause that is seen by a metric that moved.
fn sign(cause: Cause, resource: Resource, host: &str, moved: &Moved) -> Finding {
    let mut made = finding(cause, resource, host, Grade::Correlated);
    made.evidence.push(Evidence {
        counter: moved.metric.name().to_owned(),
        unit: moved.unit,
        below: Some(moved.below),
        above: Some(moved.above),
        limit: None,
    });
    made
}

/// Nobody's threads are so busy that they could not do more.
fn is_free(during: &During<'_>) -> bool {
    usage::threads(during).iter().all(|thread| thread.used < FREE)
}

/// Counters of what did not fit, the most telling first, and what must be idle for it to be the cause.
const EVENTS: &[(Metric, Cause)] = &[
    (Metric::OomKills, Cause::Memory),
    (Metric::CgroupPidsRefused, Cause::Threads),
    (Metric::ConntrackDrops, Cause::Conntrack),
    (Metric::HaproxyConnectErrors, Cause::BackendRefuses),
    (Metric::TcpSynQueueFull, Cause::SynQueue),
    (Metric::TcpListenOverflows, Cause::AcceptQueue),
    (Metric::SoftnetDropped, Cause::PacketQueue),
    (Metric::NetworkDrops, Cause::Link),
];

fn events(before: &During<'_>, after: &During<'_>) -> Option<Finding> {
    // Whoever is to drain a queue and has no CPU is the cause, not the queue.
    if !is_free(after) {
        return None;
    }
    EVENTS.iter().find_map(|&(metric, cause)| {
        let (below, above) = (before.rate(metric).unwrap_or(0.0), after.rate(metric)?);
        let moves = above >= EVENTS_MIN && above >= EVENTS_GROWN * below;
        let resource = Resource::new(ResourceKind::Counter, metric.name());
        let moved = Moved { metric, unit: EvidenceUnit::PerS, below, above };
        moves.then(|| sign(cause, resource, after.host, &moved))
    })
}

/// HAProxy's queue before its servers.
fn queue(before: &During<'_>, after: &During<'_>) -> Option<Finding> {
    let metric = Metric::HaproxyQueued;
    let (below, above) = (before.mean(metric)?, after.mean(metric)?);
    if above < QUEUED_MIN || above < EVENTS_GROWN * below {
        return None;
    }
    let resource = Resource::new(ResourceKind::Concurrency, "sessions with the servers");
    let moved = Moved { metric, unit: EvidenceUnit::Count, below, above };
    Some(sign(Cause::ServerMaxconn, resource, after.host, &moved))
}

/// HAProxy holds more and more requests, none of them in a queue of its own, while it is idle: it waits
/// for its backends.
fn backends(before: &During<'_>, after: &During<'_>) -> Option<Finding> {
    let metric = Metric::HaproxyRequestsInService;
    let queued = after.mean(Metric::HaproxyQueued)?;
    let (below, above) = (before.mean(metric)?, after.mean(metric)?);
    if !is_free(after) || queued >= QUEUED_MIN || above < WAITING_GROWN * below.max(QUEUED_MIN) {
        return None;
    }
    let resource = Resource::new(ResourceKind::Concurrency, "requests with the backends");
    let moved = Moved { metric, unit: EvidenceUnit::Count, below, above };
    Some(sign(Cause::BackendCapacity, resource, after.host, &moved))
}

/// Segments that are sent again at every load.
fn loss(before: &During<'_>, after: &During<'_>) -> Option<Finding> {
    let metric = Metric::TcpRetransmitted;
    let share = |during: &During<'_>| {
        let sent = during.change().rate(Metric::TcpSegments, &[(Label::Direction, "transmit")])?;
        Some(during.rate(metric)? / sent.max(1.0))
    };
    let (below, above) = (share(before)?, share(after)?);
    if below < LOSS_MIN || above < LOSS_MIN {
        return None;
    }
    let resource = Resource::new(ResourceKind::Counter, metric.name());
    let moved = Moved { metric, unit: EvidenceUnit::Ratio, below, above };
    Some(sign(Cause::PacketLoss, resource, after.host, &moved))
}
