//! Limits that keep a machine idle: who waits for what. Operations in service at the tipping point are its throughput
//! times their time in service at a load that the server does not feel.

use plimsoll_model::Nanos;
use plimsoll_model::SutKind;
use plimsoll_model::cause::{Cause, EvidenceUnit, Grade, Projected, Resource, ResourceKind};
use plimsoll_model::host::{Label, Metric, Role};
use plimsoll_model::search::Axis;
use plimsoll_model::tally::OUTSTANDING_SAMPLE;
use plimsoll_model::trial::Verdict;

use super::record::Trial;
use super::scene::{Moved, Scene, Suspect};
use super::usage;
use crate::pauses::begins;
use crate::stats::{mean, median_of};

/// Threads that wait for the same in the mean, and over those below.
const BLOCKED_MIN: f64 = 0.5;
const BLOCKED_GROWN: f64 = 2.0;
/// Times between pauses that a period takes, and how far one may be from a multiple of it.
const SPACINGS_MIN: usize = 5;
const OFF_PERIOD: f64 = 0.12;
/// Samples in a row that make one period.
const ONCE_MIN: usize = 2;
/// The most periods for which a time between two pauses is evidence: pauses may fall between two samples, for a while
/// if their period is nearly a multiple of the samples'. Then the share of times that may be longer.
const PERIODS_MAX: f64 = 5.0;
const LONG_MAX: f64 = 0.25;
/// The shortest time in service from which a server is taken to wait rather than to compute.
const SERVICE_MIN_S: f64 = 0.001;
/// Operations in service over workers, less 1.
const POOL_OFF: f64 = 0.06;
/// Fewer workers than this are no pool that a number could identify.
const WORKERS_MIN: usize = 4;
/// Operations in service that are one at a time.
const ONE_AT_ONCE: (f64, f64) = (0.75, 1.3);
/// Threads that wait for each other: their number, and how often they go to sleep for each operation.
const WAITERS_MIN: usize = 3;
const SLEEPS_MIN: f64 = 2.0;
/// The fewest operations at once that are a limit of their number.
const AT_ONCE_MIN: f64 = 2.0;
/// The longest time in service over the shortest that is still flat.
const SERVICE_FLAT: f64 = 1.1;
/// Shares of the capacity between which the time in service is compared with that at lower loads. Closer to the
/// capacity a pool has a queue; below, no server queues.
const COMPARED: std::ops::RangeInclusive<f64> = 0.4..=0.85;
/// The widest interval, upper over lower bound, from which the number of operations follows.
const WIDE: f64 = 1.2;
/// The largest distance, relative, of a whole number from the product at the middle of a wide interval: the truth is
/// seldom near an end.
const NUMBER_OFF: f64 = 0.05;
/// The use of a CPU at the lowest load from which on others fill it.
const BUSY_OF_OTHERS: f64 = 0.8;
/// The error of the time in service: clients read answers a little late.
const SERVICE_OFF: f64 = 0.03;
/// The share of an operation that is the path's, and by how much it may grow while only connections are missing.
const PATH_MIN: f64 = 0.5;
const SERVICE_GROWN: f64 = 1.3;
const BUSY_OFF: f64 = 0.2;

/// Finds threads of the server, or of servers behind it, that wait for a disk or for the reader of their logs.
pub(super) fn blocked(scene: &Scene<'_>) -> Option<Suspect> {
    let states = [("pipe", Cause::LogWrites), ("socket", Cause::LogWrites), ("disk", Cause::Disk)];
    let metric = Metric::ProcessWaiting;
    let processes = served_by(scene);
    states.into_iter().find_map(|(state, cause)| {
        processes.iter().find_map(|process| {
            let labels = [(Label::Process, process.as_str()), (Label::State, state)];
            let above = scene.after.mean(metric, &labels)?;
            let below = scene.mean_before(metric, &labels);
            if above < BLOCKED_MIN || above < BLOCKED_GROWN * below.unwrap_or(0.0) {
                return None;
            }
            let counter = format!("{} {process}, {state}", metric.name());
            let moved = Moved::of(counter, EvidenceUnit::Count, below, above);
            let resource = Resource::new(ResourceKind::Counter, format!("{state} of {process}"));
            Some(scene.suspect(cause, resource, moved))
        })
    })
}

/// Returns the processes of the server and behind it.
fn served_by(scene: &Scene<'_>) -> Vec<String> {
    let is_ours = |role: Option<&str>| role == Some(Role::Client.name());
    let infos = scene.after.last().of(Metric::ProcessInfo, &[]);
    infos
        .filter(|info| !is_ours(info.series.label(Label::Role)))
        .filter_map(|info| Some(info.series.label(Label::Process)?.to_owned()))
        .collect()
}

/// Finds pauses without answers that recur with a fixed period, whatever the load.
pub(super) fn pauses(scene: &Scene<'_>) -> Option<Suspect> {
    let spacings: Vec<f64> = scene.record.trials.iter().flat_map(spacings).collect();
    let period = period(&spacings).filter(|_| scene.serves() && scene.is_free())?;
    let moved = Moved::of("pauses of all answers", EvidenceUnit::PerS, None, 1.0 / period);
    let name = format!("answers, about every {period:.1} s");
    Some(scene.suspect(Cause::PeriodicPause, Resource::new(ResourceKind::Concurrency, name), moved))
}

/// Returns the times between the pauses of one trial, seconds.
fn spacings(trial: &Trial<'_>) -> Vec<f64> {
    let (begins, _) = begins(&trial.clients.outstanding, trial.load);
    let step = OUTSTANDING_SAMPLE.as_secs_f64();
    begins.windows(2).map(|pair| (pair[1] - pair[0]) as f64 * step).collect()
}

/// Returns the common period of all spacings, of which some may span pauses that were not observed.
fn period(spacings: &[f64]) -> Option<f64> {
    let shortest = spacings.iter().copied().reduce(f64::min)?;
    let once: Vec<f64> = spacings.iter().copied().filter(|one| *one < 1.5 * shortest).collect();
    let period = mean(once.iter().copied())?;
    let periods: Vec<f64> = spacings.iter().map(|spacing| spacing / period).collect();
    let (counted, long): (Vec<f64>, Vec<f64>) =
        periods.iter().partition(|n| n.round() <= PERIODS_MAX);
    let is_regular = counted.iter().all(|n| (n - n.round().max(1.0)).abs() <= OFF_PERIOD)
        && long.len() as f64 <= LONG_MAX * periods.len() as f64;
    // Two samples apart, everything is regular.
    let is_long = period >= 4.0 * OUTSTANDING_SAMPLE.as_secs_f64();
    let are_enough = spacings.len() >= SPACINGS_MIN && once.len() >= ONCE_MIN;
    (is_regular && is_long && are_enough).then_some(period)
}

/// Returns the trial at the lowest load that met the goals.
fn unloaded<'a>(scene: &Scene<'a>) -> Option<&'a Trial<'a>> {
    let good = scene.record.trials.iter().filter(|trial| trial.verdict == Verdict::Good);
    good.min_by(|a, b| a.load.total_cmp(&b.load))
}

/// Returns the median time in service at the lowest load that met the goals, seconds.
fn unloaded_service(scene: &Scene<'_>) -> Option<f64> {
    unloaded(scene)?.clients.service
}

/// Returns the loads at which `limit` operations are in service at once if each takes `service` seconds; `off` is the
/// relative error.
fn projected(limit: f64, service: f64, off: f64) -> Projected {
    let at = limit / service;
    Projected { lower: at * (1.0 - off), at, upper: Some(at * (1.0 + off)) }
}

/// Finds a limit on operations in service at once: the number of a process's workers, or one while several threads wait
/// for it.
pub(super) fn in_service(scene: &Scene<'_>) -> Option<Suspect> {
    let (lower, upper) = scene.record.tip?;
    let service = unloaded_service(scene).filter(|service| *service >= SERVICE_MIN_S)?;
    let rate = (lower * upper).sqrt();
    let at_once = rate * service;
    let off = POOL_OFF + 0.5 * (upper / lower - 1.0);
    if !scene.is_free() {
        return None;
    }
    let sleeps = |process: &str| {
        let labels = [(Label::Process, process)];
        Some(scene.after.rate(Metric::ProcessVoluntarySwitches, &labels)? / rate)
    };
    let found = |cause, process: &str, limit: f64| {
        let moved = Moved::in_service(at_once, limit);
        let name = format!("operations with {process}");
        let resource = Resource::new(ResourceKind::Concurrency, name);
        let correlated = scene.suspect(cause, resource, moved);
        if (at_once / limit - 1.0).abs() > off {
            return correlated;
        }
        // This number at once, each with its service time at a load that the server does not feel.
        let predicted_at = Some(projected(limit, service, off));
        Suspect { grade: Grade::Predicted, predicted_at, ..correlated }
    };
    for Pool { name, workers, masters } in pools(scene) {
        let is_one = (ONE_AT_ONCE.0..=ONE_AT_ONCE.1).contains(&at_once);
        if is_one && workers >= WAITERS_MIN && sleeps(&name).is_some_and(|n| n >= SLEEPS_MIN) {
            return Some(found(Cause::SerialSection, &name, 1.0));
        }
        let off_by = |count: &usize| (at_once / *count as f64 - 1.0).abs();
        let all = [workers, workers - masters].into_iter().filter(|count| *count >= WORKERS_MIN);
        let nearest = all.min_by(|a, b| off_by(a).total_cmp(&off_by(b)));
        if let Some(count) = nearest.filter(|count| off_by(count) <= off) {
            return Some(found(Cause::WorkerPool, &name, count as f64));
        }
    }
    None
}

/// A number of operations that are let in at once.
pub(super) struct AtOnce {
    pub(super) number: f64,
    /// Throughput times time in service, which the number is next to.
    pub(super) observed: f64,
    pub(super) projected: Projected,
}

/// Finds a limit on operations at once: below the tipping point each operation takes as long as at any lower load,
/// while no thread is busy. Their number is the throughput times that time.
pub(super) fn at_once(scene: &Scene<'_>) -> Option<AtOnce> {
    let (lower, upper) = scene.record.tip.filter(|(lower, upper)| *upper <= WIDE * lower)?;
    if scene.record.axis == Axis::Connections {
        return None;
    }
    let rate = (lower * upper).sqrt();
    let service = flat_service(scene, rate)?;
    let path = scene.record.round_trip.map_or(0.0, Nanos::as_secs_f64);
    let in_server = Some(service - path).filter(|seconds| *seconds >= SERVICE_MIN_S)?;
    let number = whole_number((lower * in_server, upper * in_server))?;
    // The number of the clients' connections: then those are the limit.
    let all_busy = scene.above.clients.all_busy;
    let is_clients = all_busy.is_some_and(|busy| (rate * service / busy - 1.0).abs() <= BUSY_OFF);
    let is_idle = scene.serves() && scene.is_free() && !fills_cpu(scene);
    let projected = projected(number, in_server, SERVICE_OFF);
    let found = AtOnce { number, observed: rate * in_server, projected };
    (number >= AT_ONCE_MIN && !is_clients && is_idle).then_some(found)
}

/// Reports whether the load fills a CPU. A CPU that is busy at the lowest load is filled by others, which make no
/// operation longer.
fn fills_cpu(scene: &Scene<'_>) -> bool {
    let unloaded = unloaded(scene).and_then(|trial| trial.on(scene.after.host));
    let unloaded = unloaded.map(|during| usage::cpus(&during)).unwrap_or_default();
    usage::cpus(&scene.after).iter().any(|(cpu, used)| {
        let before = unloaded.iter().find(|(other, _)| other == cpu).map_or(0.0, |(_, used)| *used);
        *used >= usage::CPU_FULL && before < BUSY_OF_OTHERS
    })
}

/// Finds a limit on operations at once whose cause is not known.
pub(super) fn concurrency_limit(scene: &Scene<'_>) -> Option<Suspect> {
    let found = at_once(scene)?;
    let name = format!("operations at once, about {:.0}", found.number);
    let resource = Resource::new(ResourceKind::Concurrency, name);
    let moved = Moved::in_service(found.observed, found.number);
    let suspect = scene.suspect(Cause::ConcurrencyLimit, resource, moved);
    Some(Suspect { grade: Grade::Predicted, predicted_at: Some(found.projected), ..suspect })
}

/// Returns the median time in service at loads that leave a pool without a queue, in seconds, if it is the same at all
/// of them. A server that shares its CPU takes several times as long there.
fn flat_service(scene: &Scene<'_>, capacity: f64) -> Option<f64> {
    let compared = |trial: &&Trial<'_>| {
        trial.verdict == Verdict::Good && trial.load <= COMPARED.end() * capacity
    };
    let of = |trial: &Trial<'_>| Some((trial.load, trial.clients.service?));
    let services: Vec<(f64, f64)> =
        scene.record.trials.iter().filter(compared).filter_map(of).collect();
    let (_, unloaded) = services.iter().min_by(|a, b| a.0.total_cmp(&b.0))?;
    let is_flat = services.iter().all(|(_, seen)| *seen <= SERVICE_FLAT * unloaded);
    let is_loaded = services.iter().any(|(load, _)| *load >= COMPARED.start() * capacity);
    median_of(services.iter().map(|(_, seen)| *seen)).filter(|_| is_flat && is_loaded)
}

/// Returns the whole number that the middle of an interval is next to. A limit on operations is one; the product of
/// a limited rate and a time in service seldom is.
fn whole_number((lower, upper): (f64, f64)) -> Option<f64> {
    let middle = (lower * upper).sqrt();
    let off = (SERVICE_OFF + 0.5 * (upper / lower - 1.0)).min(NUMBER_OFF);
    Some(middle.round()).filter(|number| (number / middle - 1.0).abs() <= off)
}

/// Threads or processes that may serve one operation each.
struct Pool {
    name: String,
    workers: usize,
    /// Threads that may only hand work out.
    masters: usize,
}

/// Returns the threads of each process, the processes of each program, and the threads of all processes of a program.
fn pools(scene: &Scene<'_>) -> Vec<Pool> {
    let mut all: Vec<Pool> = Vec::new();
    let mut add = |name: &str, masters: usize| match all.iter_mut().find(|pool| pool.name == name) {
        Some(pool) => {
            pool.workers += 1;
            pool.masters += masters;
        }
        None => all.push(Pool { name: name.to_owned(), workers: 1, masters: 1 }),
    };
    // A thread of these serves many operations at once.
    let is_pool = |name: &str| SutKind::of_process(name).is_none();
    let threads = usage::threads(&scene.after);
    let threads: Vec<&str> =
        threads.iter().map(|one| one.process.as_str()).filter(|name| is_pool(name)).collect();
    let program = |process: &str| {
        let name = process.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        name.to_owned()
    };
    let processes: Vec<String> =
        served_by(scene).into_iter().filter(|name| is_pool(name)).collect();
    threads.iter().for_each(|process| add(process, 0));
    for process in &processes {
        add(&format!("{} processes", program(process)), 0);
    }
    let mut seen = Vec::new();
    for process in threads {
        let is_new = !seen.contains(&process);
        seen.push(process);
        add(&format!("all threads of {}", program(process)), usize::from(is_new));
    }
    all
}

/// Finds a path that limits the load: every connection waits for answers that take as long as at low loads, most of it
/// on the path.
pub(super) fn path_latency(scene: &Scene<'_>) -> Option<Suspect> {
    let (lower, upper) = scene.record.tip?;
    let (service, path) = (unloaded_service(scene)?, scene.record.round_trip?.as_secs_f64());
    let (busy, now) = (scene.above.clients.all_busy?, scene.above.clients.service?);
    let at_once = (lower * upper).sqrt() * service;
    let is_all = (at_once / busy - 1.0).abs() <= BUSY_OFF;
    let is_path = path >= PATH_MIN * service && now <= SERVICE_GROWN * service;
    let moved = Moved::in_service(at_once, busy);
    let resource = Resource::new(ResourceKind::Concurrency, "connections of the clients");
    (is_all && is_path && scene.is_free())
        .then(|| scene.suspect(Cause::PathLatency, resource, moved))
}
