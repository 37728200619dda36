//! Signs of causes that no line predicts, in the order in which they are searched: a limit that was reached, then
//! interruptions of the server from outside, then its queues. If the process that drains a queue cannot, that process
//! is the cause, not the queue.

use plimsoll_model::cause::{Cause, EvidenceUnit, Grade, Missing, Resource, ResourceKind};
use plimsoll_model::host::{Label, Metric, Role, Sample};

use super::candidate::Candidate;
use super::record::{During, Record, Trial};
use super::scene::{Around, Moved, Scene, Suspect};
use super::usage::ThreadUse;
use super::{counters, usage, waits};

/// A thread above this is busy, one below the other idle enough to take its work.
const HOT: f64 = 0.85;
const COOL: f64 = 0.6;
/// The share of the full CPUs' time from which the server alone fills them, with several threads for each. Beside
/// clients that need a third of one of two CPUs it uses less.
const FILLED_BY_SERVER_MIN: f64 = 0.8;
/// CPUs in use that no process of the run accounts for.
const OTHERS_MIN: f64 = 0.3;
/// A server's thread waits for this share of a CPU, and others have as much of each full one: more than interrupts
/// take.
const CROWDED_MIN: f64 = 0.2;
/// Readings of one CPU by two hosts are less than a second apart.
const IDLE_APART_S: f64 = 1.0;
/// Full handshakes per operation from which they are most of the work.
const HANDSHAKES_MIN: f64 = 0.5;
/// Share of look-ups without a session from which on handshakes are full because sessions were not found.
const HANDSHAKES_MISSED_MIN: f64 = 0.1;
const MISSES_MIN: f64 = 0.3;

/// Reports whether one thread is busy, or would be if it got its CPU, while others that do the same work are not.
pub(super) fn is_hot_thread(threads: &[ThreadUse]) -> bool {
    let servers = || threads.iter().filter(|thread| thread.is_server && !thread.moves_work());
    let Some(hottest) = servers().max_by(|a, b| a.used.total_cmp(&b.used)) else { return false };
    let others = servers().filter(|thread| {
        thread.process == hottest.process && thread.kind() == hottest.kind() && *thread != hottest
    });
    let (mut count, mut cool) = (0, 0);
    for other in others {
        count += 1;
        cool += usize::from(other.wanted() < COOL);
    }
    hottest.wanted() >= HOT && count > 0 && cool * 2 > count
}

/// Reports whether most of the work is full handshakes.
pub(super) fn is_handshaking(trial: &Trial<'_>) -> bool {
    trial.handshakes >= HANDSHAKES_MIN
}

/// Reports whether handshakes are full because the server no longer has the sessions that clients offer.
pub(super) fn misses_sessions(during: &During<'_>, below: Option<&Trial<'_>>) -> bool {
    let rate = |metric| during.rate(metric, &[]).unwrap_or(0.0);
    let looked_up = rate(Metric::HaproxySslCacheLookups);
    let missed = rate(Metric::HaproxySslCacheMisses);
    let is_full = below.is_some_and(|trial| trial.handshakes >= HANDSHAKES_MISSED_MIN);
    is_full && looked_up > 0.0 && missed >= MISSES_MIN * looked_up
}

/// Reports whether the CPUs that are full are so because of the server's threads, none of which fills one.
pub(super) fn is_filled_by_server(during: &During<'_>) -> bool {
    let cpus = usage::cpus(during);
    let full: f64 =
        cpus.iter().map(|(_, used)| *used).filter(|used| *used >= usage::CPU_FULL).sum();
    let threads = usage::threads(during);
    let servers = threads.iter().filter(|thread| thread.is_server);
    servers.map(|thread| thread.used).sum::<f64>() >= FILLED_BY_SERVER_MIN * full && full > 0.0
}

/// Reports whether programs that have nothing to do with the run keep CPUs busy, if all that belongs to it is known.
pub(super) fn has_neighbour(during: &During<'_>, trial: &Trial<'_>) -> bool {
    during.has(Role::Client) && of_others(during, trial) > OTHERS_MIN
}

/// Returns the CPUs that no process of the run accounts for. The hosts of a laboratory share CPUs, and each lists its
/// own processes.
fn of_others(during: &During<'_>, trial: &Trial<'_>) -> f64 {
    let sharing = trial.hosts.iter().filter(|other| are_same_cpus(during, other));
    let known: f64 = sharing.filter_map(|other| other.rate(Metric::ProcessCpuSeconds, &[])).sum();
    let busy: f64 = usage::cpus(during).iter().map(|(_, busy)| busy).sum();
    busy - known
}

/// Reports whether two hosts read the same CPUs: they have been idle for the same time.
fn are_same_cpus(one: &During<'_>, other: &During<'_>) -> bool {
    let idle = |during: &During<'_>| -> Vec<(String, f64)> {
        let samples = during.last().of(Metric::CpuSeconds, &[(Label::Mode, "idle")]);
        let each =
            |sample: &Sample| Some((sample.series.label(Label::Cpu)?.to_owned(), sample.value));
        samples.filter_map(each).collect()
    };
    let (one, other) = (idle(one), idle(other));
    one.len() == other.len()
        && one.iter().zip(&other).all(|(a, b)| a.0 == b.0 && (a.1 - b.1).abs() <= IDLE_APART_S)
}

type Sign = fn(&Scene<'_>) -> Option<Suspect>;

/// All signs, in the order in which one explains the other.
pub(super) const SIGNS: &[Sign] = &[
    full_limit,
    counters::exhausted,
    stolen,
    waits::blocked,
    waits::pauses,
    counters::refused,
    counters::dropped,
    crowded_out,
    counters::queued,
    counters::lost,
    waits::in_service,
    waits::path_latency,
    counters::backends,
    counters::timed_out,
    waits::concurrency_limit,
];

/// The signs of a storm: its clients make no operations, so nothing is known of queues and times in service.
pub(super) const SIGNS_OF_STORM: &[Sign] = &[
    full_limit,
    counters::exhausted,
    stolen,
    waits::blocked,
    counters::refused,
    counters::dropped,
    crowded_out,
    counters::lost,
];

/// Returns the first sign that is present; for one sign, the server's host comes before others.
pub(super) fn first_of(
    signs: &[Sign],
    record: &Record<'_>,
    around: &Around<'_>,
    candidates: &[Candidate],
) -> Option<Suspect> {
    let above = around.above?;
    let scenes = above.hosts.iter().map(|after| Scene {
        record,
        candidates,
        below: around.below,
        above,
        before: around.below.and_then(|trial| trial.on(after.host)),
        after: *after,
    });
    let mut scenes: Vec<Scene<'_>> = scenes.collect();
    scenes.sort_by_key(|scene| !scene.after.has(Role::Server));
    signs.iter().find_map(|sign| scenes.iter().find_map(sign))
}

/// Finds a limit that was reached above the tipping point, filled by the load.
fn full_limit(scene: &Scene<'_>) -> Option<Suspect> {
    let reached = scene.candidates.iter().find(|candidate| {
        let is_cpu = matches!(candidate.kind(), ResourceKind::Cpu | ResourceKind::ThreadCpu);
        candidate.host == scene.after.host
            && candidate.is_full()
            && candidate.is_filled_by_load()
            && !is_cpu
    })?;
    Some(reached.suspect(reached.usage.cause, Grade::Correlated, Missing::Line))
}

/// Finds a hypervisor that gives the CPUs to others: that makes answers late, but no other answers.
fn stolen(scene: &Scene<'_>) -> Option<Suspect> {
    let above = usage::stolen(&scene.after);
    let is_refused_only = scene.above.clients.is_refused_only;
    if above < usage::STOLEN_MIN || is_refused_only || lasts_without(scene, above) {
        return None;
    }
    let below = scene.before.as_ref().map(usage::stolen);
    let counter = format!("{}, steal", Metric::CpuSeconds.name());
    let moved = Moved::of(counter, EvidenceUnit::Ratio, below, above);
    Some(scene.suspect(Cause::Steal, Resource::new(ResourceKind::Counter, "steal"), moved))
}

/// Finds other programs on a CPU that the server wants, whatever the load: no line meets a CPU that is always full.
fn crowded_out(scene: &Scene<'_>) -> Option<Suspect> {
    let threads = usage::threads(&scene.after);
    let wants = |thread: &ThreadUse| thread.wanted() >= HOT && thread.waited >= CROWDED_MIN;
    let is_waiting = threads.iter().any(|thread| thread.is_server && wants(thread));
    let is_full_cpu = |candidate: &&Candidate| {
        candidate.host == scene.after.host
            && candidate.kind() == ResourceKind::Cpu
            && candidate.is_full()
    };
    let full: Vec<&Candidate> = scene.candidates.iter().filter(is_full_cpu).collect();
    let others = of_others(&scene.after, scene.above);
    let is_crowded = is_waiting && others >= CROWDED_MIN * full.len() as f64;
    let cpu = full.first().filter(|_| is_crowded)?;
    Some(cpu.suspect(Cause::NoisyNeighbour, Grade::Correlated, Missing::Line))
}

/// Reports whether what is left of each CPU without this share would last for more than the tipping point.
fn lasts_without(scene: &Scene<'_>, share: f64) -> bool {
    let Some((_, upper)) = scene.record.tip else { return false };
    let is_cpu = |candidate: &&Candidate| {
        candidate.host == scene.after.host && candidate.kind() == ResourceKind::Cpu
    };
    let mut cpus = scene.candidates.iter().filter(is_cpu).peekable();
    cpus.peek().is_some() && cpus.all(|cpu| (1.0 - share) * cpu.lasts().lower > upper)
}
