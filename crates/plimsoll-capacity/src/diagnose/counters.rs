//! Counters of drops, refusals and exhausted resources that grow at the tipping point.
//!
//! Each function examines one [`Scene`] (a host above the tipping point and, if it was read, below) and returns a
//! [`Suspect`] or `None`. The rows of [`EXHAUSTED`] and [`DROPPED`] are tried in order, and the first counter that
//! moved is the suspect. [`moved`] requires a least growth per second and ten times the growth below the tipping
//! point. Start reading at [`moved`], then at [`refused`] and [`queued`].

use plimsoll_model::SutKind;
use plimsoll_model::cause::{Cause, EvidenceUnit, Grade, Missing, Resource, ResourceKind};
use plimsoll_model::host::{Label, Metric, Role};

use super::candidate::Candidate;
use super::record::{Clients, During, Trial};
use super::scene::{Moved, Scene, Suspect};
use super::waits;

/// Factor from which on a counter moves, relative to its value below.
const GROWN: f64 = 10.0;
/// Segments sent again over segments sent.
const LOSS_MIN: f64 = 0.001;
/// The least part of such a loss that clients see: half of it, if only requests or only answers are lost.
const LOSS_OF_CLIENTS_MIN: f64 = 0.0005;
/// Requests in service above the tipping point over those below.
const WAITING_GROWN: f64 = 2.0;
/// Operations in a queue.
const QUEUED_MIN: f64 = 1.0;
/// Answers that refuse, over all answers; and so often what they were below.
const REFUSED_MIN: f64 = 0.005;
const REFUSED_GROWN: f64 = 3.0;

/// A counter, its growth per second that means something, and what it means.
type Row = (Metric, &'static [(Label, &'static str)], f64, Cause);

const SOME: f64 = 1.0;
/// One in a trial.
const ONE: f64 = 0.01;

const MEMORY_STALLS: &[(Label, &str)] = &[(Label::Resource, "memory"), (Label::Kind, "some")];

/// Counters of exhausted resources, whatever else happens.
const EXHAUSTED: &[Row] = &[
    (Metric::OomKills, &[], ONE, Cause::Memory),
    (Metric::CgroupMemoryEvents, &[(Label::Event, "oom_kill")], ONE, Cause::Memory),
    (Metric::HaproxyPoolFailures, &[], SOME, Cause::Memory),
    (Metric::CgroupPidsRefused, &[], SOME, Cause::Threads),
    (Metric::ConntrackDrops, &[], SOME, Cause::Conntrack),
    (Metric::CgroupMemoryEvents, &[(Label::Event, "high")], SOME, Cause::MemoryReclaim),
    (Metric::AllocationStalls, &[], 20.0, Cause::MemoryReclaim),
    (Metric::SwapIns, &[], 100.0, Cause::MemoryReclaim),
    (Metric::PressureSeconds, MEMORY_STALLS, 0.1, Cause::MemoryReclaim),
];

/// Counters of full queues. Behind a full accept queue half-open connections pile up as well, and SYNs are
/// dropped: it is counted apart.
const DROPPED: &[Row] = &[
    (Metric::HaproxyConnectErrors, &[], SOME, Cause::BackendRefuses),
    (Metric::TcpListenOverflows, &[], SOME, Cause::AcceptQueue),
    (Metric::TcpSynQueueFull, &[], SOME, Cause::SynQueue),
    (Metric::TcpListenDrops, &[], SOME, Cause::SynQueue),
    (Metric::SoftnetDropped, &[], SOME, Cause::PacketQueue),
    (Metric::NetworkDrops, &[], SOME, Cause::Link),
];

/// Returns the growth of a counter as evidence, if it is `least` per second and much more than it was.
fn moved(scene: &Scene<'_>, metric: Metric, labels: &[(Label, &str)], least: f64) -> Option<Moved> {
    let is_of_listeners = matches!(metric, Metric::TcpListenOverflows | Metric::TcpListenDrops);
    if is_of_listeners && own_drops(scene).is_some_and(|drops| drops < least) {
        return None;
    }
    let above = scene.after.rate(metric, labels)?;
    let below = scene.before.as_ref().and_then(|before| before.rate(metric, labels));
    let is_time = metric == Metric::PressureSeconds;
    let unit = if is_time { EvidenceUnit::Ratio } else { EvidenceUnit::PerS };
    let is_moved = above >= least && above >= GROWN * below.unwrap_or(0.0);
    is_moved.then(|| Moved::of(metric.name(), unit, below, above))
}

/// Returns the drops at the listeners of watched processes, per second; `None` if it is not known which are theirs. The
/// kernel's sums cover every listener on the host.
fn own_drops(scene: &Scene<'_>) -> Option<f64> {
    let change = scene.after.change();
    let all = change.rates(Metric::TcpListenerDrops, &[]);
    let own = all.filter(|(series, _)| series.label(Label::Process).is_some());
    own.map(|(_, drops)| drops).reduce(|sum, drops| sum + drops)
}

fn first_of(rows: &[Row], scene: &Scene<'_>) -> Option<Suspect> {
    rows.iter().find_map(|&(metric, labels, least, cause)| {
        let moved = moved(scene, metric, labels, least)?;
        let resource = Resource::new(ResourceKind::Counter, moved.counter.clone());
        Some(scene.suspect(cause, resource, moved))
    })
}

pub(super) fn exhausted(scene: &Scene<'_>) -> Option<Suspect> {
    first_of(EXHAUSTED, scene)
}

/// Finds a queue that dropped connections. If the process that drains the queue has no CPU, the CPU is the cause.
pub(super) fn dropped(scene: &Scene<'_>) -> Option<Suspect> {
    if scene.is_free() { first_of(DROPPED, scene) } else { None }
}

/// Finds a rule of the server that refuses operations: at a rate, or for each client address if it counts by that.
pub(super) fn refused(scene: &Scene<'_>) -> Option<Suspect> {
    let unavailable = || grown(scene, "status 503", |clients| clients.unavailable);
    let found = moved(scene, Metric::HaproxyDenied, &[], SOME)
        .or_else(|| grown(scene, "status 429", |clients| clients.refused))
        .or_else(|| unavailable().filter(|_| refuses_with_503(scene)))?;
    let by_address = ["ip", "ipv6"].iter().any(|kind| {
        let labels = [(Label::Kind, *kind)];
        scene.after.last().sum(Metric::HaproxyTableUsed, &labels).is_some_and(|used| used > 0.0)
    });
    let cause = if by_address { Cause::AddressLimit } else { Cause::RateLimit };
    let resource = Resource::new(ResourceKind::Counter, found.counter.clone());
    (scene.is_free() && scene.serves()).then(|| scene.suspect(cause, resource, found))
}

fn refuses_with_503(scene: &Scene<'_>) -> bool {
    scene.after.last().processes(Role::Server).any(|one| {
        let kind = one.series.label(Label::Process).and_then(SutKind::of_process);
        kind.is_some_and(SutKind::refuses_with_503)
    })
}

/// Finds a share of the answers that is present above and was not below.
fn grown(scene: &Scene<'_>, name: &str, of: fn(&Clients) -> f64) -> Option<Moved> {
    let share = |trial: &Trial<'_>| of(&trial.clients);
    let (below, above) = (scene.below.map(share), share(scene.above));
    let is_new = above >= REFUSED_MIN && above >= REFUSED_GROWN * below.unwrap_or(0.0);
    is_new.then(|| Moved::of(name, EvidenceUnit::Ratio, below, above))
}

/// Reports whether HAProxy's servers have no limit, or one that the load fills: otherwise its queue comes from a slow
/// backend.
fn is_queue_of_maxconn(scene: &Scene<'_>) -> bool {
    let is_limit = |candidate: &&Candidate| {
        candidate.usage.cause == Cause::ServerMaxconn && candidate.host == scene.after.host
    };
    let mut limits = scene.candidates.iter().filter(is_limit).peekable();
    limits.peek().is_none() || limits.any(Candidate::is_filled_by_load)
}

/// Finds HAProxy's queue before its servers.
pub(super) fn queued(scene: &Scene<'_>) -> Option<Suspect> {
    let metric = Metric::HaproxyQueued;
    let above = scene.after.mean(metric, &[])?;
    let below = scene.mean_before(metric, &[]);
    let has_grown = above >= QUEUED_MIN && above >= GROWN * below.unwrap_or(0.0);
    if !has_grown || !is_queue_of_maxconn(scene) {
        return None;
    }
    let resource = Resource::new(ResourceKind::Concurrency, "sessions with the servers");
    let moved = Moved::of(metric.name(), EvidenceUnit::Count, below, above);
    Some(scene.suspect(Cause::ServerMaxconn, resource, moved))
}

/// Finds an HAProxy that waits for its backends: it holds more and more requests, none of them in a queue for want of
/// maxconn, while it is idle. If no load met the goals, it may always have held that many.
pub(super) fn backends(scene: &Scene<'_>) -> Option<Suspect> {
    let metric = Metric::HaproxyRequestsInService;
    let queued = scene.after.mean(Metric::HaproxyQueued, &[])?;
    let (below, above) = (scene.mean_before(metric, &[])?, scene.after.mean(metric, &[])?);
    let has_grown = above >= WAITING_GROWN * below.max(QUEUED_MIN);
    let is_queue = queued >= QUEUED_MIN && is_queue_of_maxconn(scene);
    if !scene.is_free() || is_queue || !has_grown {
        return None;
    }
    let resource = |name: String| Resource::new(ResourceKind::Concurrency, name);
    let waiting = Moved::of(metric.name(), EvidenceUnit::Count, Some(below), above);
    let cause = Cause::BackendCapacity;
    let name = "requests with the backends";
    let Some(found) = waits::at_once(scene) else {
        let suspect = scene.suspect(cause, resource(name.to_owned()), waiting);
        return Some(Suspect { missing: Missing::BackendLimit, ..suspect });
    };
    let name = format!("{name}, about {:.0} at once", found.number);
    let mut suspect = scene.suspect(cause, resource(name), waiting);
    suspect.evidence.push(Moved::in_service(found.observed, found.number).evidence());
    Some(Suspect { grade: Grade::Predicted, predicted_at: Some(found.projected), ..suspect })
}

/// Finds timers of the proxy that end requests, or its retries.
pub(super) fn timed_out(scene: &Scene<'_>) -> Option<Suspect> {
    if !scene.serves() {
        return None;
    }
    let again =
        [Metric::HaproxyRetries, Metric::HaproxyRedispatches, Metric::HaproxyResponseErrors];
    let found = grown(scene, "status 504", |clients| clients.timed_out)
        .or_else(|| again.into_iter().find_map(|metric| moved(scene, metric, &[], SOME)))?;
    let resource = Resource::new(ResourceKind::Counter, found.counter.clone());
    Some(scene.suspect(Cause::BackendTimeout, resource, found))
}

/// Segments that are sent again at every load, and that the clients' own sockets sent or waited for: the kernel's sum
/// is of every program on the host.
pub(super) fn lost(scene: &Scene<'_>) -> Option<Suspect> {
    let metric = Metric::TcpRetransmitted;
    let share = |during: &During<'_>| {
        let sent = during.rate(Metric::TcpSegments, &[(Label::Direction, "transmit")])?;
        Some(during.rate(metric, &[])? / sent.max(1.0))
    };
    let above = share(&scene.after)?;
    let below = scene.before.as_ref().and_then(share);
    let seen = |trial: &Trial<'_>| {
        trial.clients.sent_again.max(trial.clients.waited) >= LOSS_OF_CLIENTS_MIN
    };
    let is_seen = seen(scene.above) && scene.below.is_none_or(seen);
    if above < LOSS_MIN || below.is_some_and(|below| below < LOSS_MIN) || !is_seen {
        return None;
    }
    let resource = Resource::new(ResourceKind::Counter, metric.name());
    let moved = Moved::of(metric.name(), EvidenceUnit::Ratio, below, above);
    Some(scene.suspect(Cause::PacketLoss, resource, moved))
}
