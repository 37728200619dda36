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
        let was_full = candidate.below.as_ref().is_some_and(|usage| usage.is_full);
        let is_cpu = matches!(candidate.resource.kind, ResourceKind::Cpu | ResourceKind::ThreadCpu);
        candidate.host == host && candidate.is_full() && !was_full && !is_cpu
    })?;
    let mut made = finding(reached.cause, reached.resource.clone(), host, Grade::Correlated);
    made.evidence.push(reached.evidence());
    Some(made)
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
    let is_free = usage::threads(after).iter().all(|thread| thread.used < FREE);
    let moved = EVENTS.iter().filter(|_| is_free).find_map(|&(metric, cause)| {
        let (below, above) = (before.rate(metric).unwrap_or(0.0), after.rate(metric)?);
        let moves = above >= EVENTS_MIN && above >= EVENTS_GROWN * below;
        moves.then_some((metric, cause, below, above))
    });
    let (metric, cause, below, above) = moved?;
    let resource = Resource::new(ResourceKind::Counter, metric.name());
    let mut made = finding(cause, resource, after.host, Grade::Correlated);
    made.evidence.push(Evidence {
        counter: metric.name().to_owned(),
        unit: EvidenceUnit::PerS,
        below: Some(below),
        above: Some(above),
        limit: None,
    });
    Some(made)
}

/// HAProxy's queue before its servers.
fn queue(before: &During<'_>, after: &During<'_>) -> Option<Finding> {
    let below = before.mean(Metric::HaproxyQueued)?;
    let above = after.mean(Metric::HaproxyQueued)?;
    if above < QUEUED_MIN || above < EVENTS_GROWN * below {
        return None;
    }
    let resource = Resource::new(ResourceKind::Concurrency, "sessions with the servers");
    let mut made = finding(Cause::ServerMaxconn, resource, after.host, Grade::Correlated);
    made.evidence.push(Evidence {
        counter: Metric::HaproxyQueued.name().to_owned(),
        unit: EvidenceUnit::Count,
        below: Some(below),
        above: Some(above),
        limit: None,
    });
    Some(made)
}

/// HAProxy holds more and more requests, none of them in a queue of its own, while it is idle: it waits
/// for its backends.
fn backends(before: &During<'_>, after: &During<'_>) -> Option<Finding> {
    let is_free = usage::threads(after).iter().all(|thread| thread.used < FREE);
    let queued = after.mean(Metric::HaproxyQueued)?;
    let below = before.mean(Metric::HaproxyRequestsInService)?;
    let above = after.mean(Metric::HaproxyRequestsInService)?;
    if !is_free || queued >= QUEUED_MIN || above < WAITING_GROWN * below.max(QUEUED_MIN) {
        return None;
    }
    let resource = Resource::new(ResourceKind::Concurrency, "requests with the backends");
    let mut made = finding(Cause::BackendCapacity, resource, after.host, Grade::Correlated);
    made.evidence.push(Evidence {
        counter: Metric::HaproxyRequestsInService.name().to_owned(),
        unit: EvidenceUnit::Count,
        below: Some(below),
        above: Some(above),
        limit: None,
    });
    Some(made)
}

/// Segments that are sent again at every load.
fn loss(before: &During<'_>, after: &During<'_>) -> Option<Finding> {
    let share = |during: &During<'_>| {
        let sent = during.change().rate(Metric::TcpSegments, &[(Label::Direction, "transmit")])?;
        Some(during.rate(Metric::TcpRetransmitted)? / sent.max(1.0))
    };
    let (below, above) = (share(before)?, share(after)?);
    if below < LOSS_MIN || above < LOSS_MIN {
        return None;
    }
    let resource = Resource::new(ResourceKind::Counter, Metric::TcpRetransmitted.name());
    let mut made = finding(Cause::PacketLoss, resource, after.host, Grade::Correlated);
    made.evidence.push(Evidence {
        counter: Metric::TcpRetransmitted.name().to_owned(),
        unit: EvidenceUnit::Ratio,
        below: Some(below),
        above: Some(above),
        limit: None,
    });
    Some(made)
}
