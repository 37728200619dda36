//! Synthetic hosts: one resource is the limit at a known load, others move and are not the cause. Every case
//! runs with many seeds; the confusion matrix is printed with `--nocapture`.

use std::collections::BTreeMap;

use plimsoll_model::cause::{Cause, Grade, ResourceKind};
use plimsoll_model::host::{Label, LimitId, Metric, Reading};
use plimsoll_model::search::Axis;
use plimsoll_model::trial::Verdict;
use plimsoll_model::{Nanos, cause::Finding};

use super::{Clients, During, Record, Trial, diagnose, signs};

mod at_once;
mod cases;
mod storms;

use cases::cases;

/// The tipping point of all cases, operations per second.
const TIP: f64 = 20_000.0;
const SEEDS: u64 = 40;
const SECONDS: u64 = 6;

type Labels = Vec<(Label, String)>;

/// The law by which a value follows the load.
#[derive(Clone)]
enum Moves {
    /// A gauge: idle, per operation, at most.
    Gauge(f64, f64, f64),
    /// A counter's rate: the same.
    Rate(f64, f64, f64),
    /// A counter that only moves above the tipping point, by this much per second.
    Above(f64),
    /// A gauge that only moves there.
    GaugeAbove(f64),
    /// A gauge that has one value below the tipping point, and another above it.
    Rise(f64, f64),
    /// The value does not move.
    Fixed(f64),
}

/// One host, by its series.
#[derive(Clone, Default)]
struct World {
    series: Vec<(Metric, Labels, Moves)>,
    /// Full handshakes per operation.
    handshakes: f64,
    /// The clients' view below and above the tipping point.
    clients: [Clients; 2],
    /// The median time in service at a share of the tipping point, if it depends on that.
    service_at: Option<fn(f64) -> f64>,
    round_trip: Option<Nanos>,
}

impl World {
    fn with(mut self, metric: Metric, labels: &[(Label, &str)], moves: Moves) -> Self {
        let labels = labels.iter().map(|(label, text)| (*label, (*text).to_owned())).collect();
        self.series.push((metric, labels, moves));
        self
    }

    /// Sets the clients' view below and above the tipping point.
    fn seen(mut self, below: Clients, above: Clients) -> Self {
        self.clients = [below, above];
        self
    }

    /// One of five answers is 429 above the tipping point.
    fn refusing(self) -> Self {
        self.seen(Clients::default(), Clients { refused: 0.2, ..Clients::default() })
    }

    /// The hypervisor takes this share of each CPU above the tipping point.
    fn stolen(self, share: f64) -> Self {
        let of = |cpu| [(Label::Cpu, cpu), (Label::Mode, "steal")];
        self.with(Metric::CpuSeconds, &of("0"), Moves::Above(share)).with(
            Metric::CpuSeconds,
            &of("1"),
            Moves::Above(share),
        )
    }

    /// Limits the server's control group to `cpus` CPUs. It waits for them in nine of ten periods above the tipping
    /// point.
    fn throttled(self, cpus: f64) -> Self {
        let of = [(Label::Cgroup, "haproxy")];
        self.with(Metric::CgroupCpuLimit, &of, Moves::Fixed(cpus))
            .with(Metric::CgroupPeriods, &of, Moves::Rate(10.0, 0.0, 10.0))
            .with(Metric::CgroupThrottledPeriods, &of, Moves::Above(9.0))
    }

    /// Has a number of threads of the server wait for `state` above the tipping point.
    fn waiting(self, state: &str, threads: f64) -> Self {
        let of = [(Label::Process, "haproxy"), (Label::State, state)];
        self.with(Metric::ProcessWaiting, &of, Moves::GaugeAbove(threads))
    }

    /// Sets the clients' view at every load.
    fn serving(self, service_s: f64) -> Self {
        let clients = Clients { service: Some(service_s), ..Clients::default() };
        self.seen(clients.clone(), clients)
    }

    /// Adds a process with `threads` threads, which are idle and go to sleep `sleeps` times for each operation.
    fn workers(self, process: &str, role: &str, threads: usize, sleeps: f64) -> Self {
        let of = [(Label::Process, process)];
        (0..threads)
            .fold(self, |world, number| {
                let thread = format!("{process}/{number}");
                world.thread(process, role, &thread, 0.0, 40.0 * TIP)
            })
            .with(Metric::ProcessVoluntarySwitches, &of, Moves::Rate(0.0, sleeps, 1e9))
    }

    fn thread(self, process: &str, role: &str, thread: &str, idle: f64, full_at: f64) -> Self {
        let demand = (1.0 - idle) / full_at;
        let (ran, waited) = (Moves::Rate(idle, demand, 1.0), Moves::Rate(0.0, 1e-7, 0.01));
        self.scheduled([process, role, thread], ran, waited)
    }

    /// A thread of a process with this role, the time that it ran, and that it waited for a CPU.
    fn scheduled(self, [process, role, thread]: [&str; 3], ran: Moves, waited: Moves) -> Self {
        let of = [(Label::Process, process), (Label::Thread, thread)];
        let role = [(Label::Process, process), (Label::Role, role)];
        self.with(Metric::ProcessInfo, &role, Moves::Fixed(1.0))
            .with(Metric::ProcessCpuSeconds, &of, ran)
            .with(Metric::ProcessRunDelaySeconds, &of, waited)
    }

    /// Adds a process of four threads that fill one CPU together; each waits for it for this share of the time there.
    fn taking_turns(self, waited: f64) -> Self {
        (0..4).fold(self.cpu("2", TIP), |world, n| {
            let ran = Moves::Rate(0.0, 1.0 / (4.0 * TIP), 0.25);
            let waited = Moves::Rate(0.0, waited / TIP, waited);
            world.scheduled(["python", "server", &format!("python/{n}")], ran, waited)
        })
    }

    fn cpu(self, cpu: &str, full_at: f64) -> Self {
        let of = |mode| [(Label::Cpu, cpu), (Label::Mode, mode)];
        let demand = 1.0 / full_at;
        self.with(Metric::CpuSeconds, &of("user"), Moves::Rate(0.0, demand, 1.0)).with(
            Metric::CpuSeconds,
            &of("idle"),
            Moves::Rate(1.0, -demand, 1.0),
        )
    }

    fn limit(self, limit: &str, full_at: f64, max: f64) -> Self {
        self.limit_that(limit, Moves::Gauge(0.02 * max, 0.98 * max / full_at, max), max)
    }

    fn limit_that(self, limit: &str, moves: Moves, max: f64) -> Self {
        let id: LimitId = limit.parse().expect("a limit");
        self.with(Metric::LimitUsed, &id.labels(), moves).with(
            Metric::LimitMax,
            &id.labels(),
            Moves::Fixed(max),
        )
    }

    /// A limit that is reached above the tipping point and hardly used below.
    fn filled_above(self, limit: &str, max: f64) -> Self {
        self.limit_that(limit, Moves::GaugeAbove(max), max)
    }

    /// Lets the control group of the server write this many times per second, which it does at `full_at`.
    fn writing(self, per_second: f64, full_at: f64) -> Self {
        let of = [(Label::Cgroup, "haproxy"), (Label::Device, "vda"), (Label::Direction, "write")];
        let counted = Moves::Rate(0.0, per_second / full_at, per_second);
        let limit = Metric::CgroupDiskOperationsPerSecondMax;
        self.with(Metric::CgroupDiskOperations, &of, counted).with(
            limit,
            &of,
            Moves::Fixed(per_second),
        )
    }

    /// Makes requests pile up, `queued` of them in HAProxy's queue.
    fn slow_backend(self, queued: f64) -> Self {
        self.with(Metric::HaproxyQueued, &[], Moves::GaugeAbove(queued)).with(
            Metric::HaproxyRequestsInService,
            &[],
            Moves::GaugeAbove(300.0),
        )
    }

    /// The readings of one trial, a second apart.
    fn readings(&self, served: f64, is_above: bool, random: &mut fastrand::Rng) -> Vec<Reading> {
        // One trial differs from the next by 1 %.
        let noise: Vec<f64> =
            self.series.iter().map(|_| 1.0 + 0.02 * (random.f64() - 0.5)).collect();
        let at = |second: u64| {
            let now = Nanos::from_secs(second);
            let mut reading = Reading { begin: now, end: now, ..Reading::default() };
            for ((metric, labels, moves), noise) in self.series.iter().zip(&noise) {
                let grown = |idle: f64, per_op: f64, most: f64| {
                    (idle + per_op * served * noise).clamp(0.0, most)
                };
                let value = match *moves {
                    Moves::Gauge(idle, per_op, most) => grown(idle, per_op, most),
                    Moves::Rate(idle, per_op, most) => grown(idle, per_op, most) * second as f64,
                    Moves::Above(rate) => {
                        if is_above {
                            rate * second as f64
                        } else {
                            0.0
                        }
                    }
                    Moves::GaugeAbove(value) => {
                        if is_above {
                            value
                        } else {
                            0.0
                        }
                    }
                    Moves::Rise(below, above) => {
                        if is_above {
                            above
                        } else {
                            below
                        }
                    }
                    Moves::Fixed(value) => value,
                };
                let labels: Vec<_> =
                    labels.iter().map(|(label, text)| (*label, text.as_str())).collect();
                reading.add(*metric, &labels, value);
            }
            reading.sort();
            reading
        };
        (0..=SECONDS).map(at).collect()
    }
}

/// Offered loads of a search, as shares of the tipping point, and whether each met the goals.
const LOADS: [(f64, bool); 9] = [
    (0.25, true),
    (0.5, true),
    (0.75, true),
    (0.9, true),
    (0.96, true),
    (0.98, true),
    (1.02, false),
    (1.1, false),
    (1.2, false),
];

/// The settings of a search of a world.
#[derive(Clone, Copy)]
struct Search {
    /// The tipping point.
    at: f64,
    axis: Axis,
    /// `true` if the search ended with an interval.
    is_found: bool,
    /// The ends of the interval over and below that, relative.
    off: f64,
}

const SEARCH: Search = Search { at: TIP, axis: Axis::Rate, is_found: true, off: 0.02 };

fn diagnosed(world: &World, seed: u64, loads: &[(f64, bool)]) -> Option<Vec<Finding>> {
    diagnosed_by(SEARCH, world, seed, loads)
}

fn diagnosed_by(
    Search { at, axis, is_found, off }: Search,
    world: &World,
    seed: u64,
    loads: &[(f64, bool)],
) -> Option<Vec<Finding>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let readings: Vec<Vec<Reading>> = loads
        .iter()
        .map(|(load, is_good)| world.readings(at * load.min(1.0), !is_good, &mut random))
        .collect();
    let mut trials = Vec::new();
    for ((load, is_good), readings) in loads.iter().zip(&readings) {
        let mut clients = world.clients[usize::from(!is_good)].clone();
        clients.service = world.service_at.map(|service| service(*load)).or(clients.service);
        trials.push(Trial {
            load: at * load,
            goodput: at * load.min(1.0),
            verdict: if *is_good { Verdict::Good } else { Verdict::Bad },
            aborted: false,
            handshakes: world.handshakes,
            clients,
            hosts: vec![During { host: "lab", readings }],
        });
    }
    let deadline = Some(Nanos::from_millis(50));
    let tip = is_found.then_some(((1.0 - off) * at, (1.0 + off) * at));
    diagnose(&Record { axis, tip, deadline, round_trip: world.round_trip, trials })
}

/// A server of one thread with its own CPU and a client beside it; no resource is near its limit.
fn free() -> World {
    World::default()
        .thread("haproxy", "server", "haproxy/0", 0.01, 4.0 * TIP)
        .thread("agent", "client", "client/0", 0.01, 3.0 * TIP)
        .cpu("0", 3.0 * TIP)
        .cpu("1", 3.5 * TIP)
        .limit("open files of haproxy", 6.0 * TIP, 100_000.0)
}

#[test]
#[expect(clippy::disallowed_macros, reason = "the confusion matrix is for runs with --nocapture")]
fn every_row_is_found_and_no_other() {
    let (mut wrong, mut runs) = (0u64, 0u64);
    for (name, world, cause, grade) in cases() {
        let mut named: BTreeMap<(&str, String), u64> = BTreeMap::new();
        for seed in 0..SEEDS {
            let found = diagnosed(&world, seed, &LOADS).expect("a trial below");
            let first = &found[0];
            *named.entry((first.cause.name(), format!("{:?}", first.grade))).or_default() += 1;
            let is_right = first.cause == cause && first.grade >= grade && found.len() == 1;
            let is_unknown = first.cause == Cause::Unknown;
            wrong += u64::from(!is_right && !is_unknown);
            runs += 1;
            assert!(is_right || seed > 0, "{name}: {found:#?}");
        }
        println!("{name:42} {named:?}");
        let right: u64 =
            named.iter().filter(|((found, _), _)| *found == cause.name()).map(|n| n.1).sum();
        assert!(right * 100 >= SEEDS * 95, "{name}: {named:?}");
    }
    println!("wrong: {wrong} of {runs}");
    assert!(wrong * 100 <= runs * 2, "wrong: {wrong} of {runs}");
}

#[test]
fn two_limits_close_together_are_both_named() {
    for apart in [1.0, 1.04] {
        let world = free().limit("maxconn of HAProxy", TIP, 500.0).thread(
            "agent-2",
            "backend",
            "serve/0",
            0.01,
            apart * TIP,
        );
        for seed in 0..SEEDS {
            let found = diagnosed(&world, seed, &LOADS).expect("a trial below");
            let mut causes: Vec<Cause> = found.iter().map(|finding| finding.cause).collect();
            causes.sort_unstable();
            assert_eq!(causes, [Cause::Maxconn, Cause::BackendCpu], "{apart} {seed}: {found:#?}");
        }
    }
}

#[test]
fn the_next_limit_and_what_lasts_longer_are_named() {
    let world = free().limit("maxconn of HAProxy", TIP, 500.0).limit("ports", 1.5 * TIP, 900.0);
    let found = diagnosed(&world, 1, &LOADS).expect("a trial below");
    let next = found[0].next.as_ref().expect("known");
    assert_eq!((next.resource.name.as_str(), next.resource.kind), ("ports", ResourceKind::Limit));
    assert!((next.projected.at / (1.5 * TIP) - 1.0).abs() < 0.05, "{next:?}");
    let last = found[0].excluded.last().expect("some last longer");
    assert!(last.projected.lower > 1.25 * TIP, "{last:?}");
    assert!(found[0].excluded.iter().all(|limited| limited.resource != found[0].resource));
    let evidence = &found[0].evidence[0];
    assert_eq!((evidence.above, evidence.limit), (Some(500.0), Some(500.0)));
    assert!(evidence.below.is_some_and(|below| below < 500.0), "{evidence:?}");
}

#[test]
fn a_full_resource_that_no_trial_above_shows_is_correlated() {
    let world = free().limit("maxconn of HAProxy", TIP, 500.0);
    let found = diagnosed(&world, 1, &LOADS[..6]).expect("a trial below");
    assert_eq!((found[0].cause, found[0].grade), (Cause::Maxconn, Grade::Correlated));
}

#[test]
fn a_resource_that_is_full_where_the_goals_were_met_for_the_last_time_is_predicted() {
    let world = free().limit("cgroup memory of haproxy", TIP, 2.6e8);
    // A process that was killed for lack of memory is not read any more.
    let mut loads = LOADS[..6].to_vec();
    loads.push((1.0, true));
    let found = diagnosed(&world, 1, &loads).expect("a trial below");
    assert_eq!((found[0].cause, found[0].grade), (Cause::Memory, Grade::Predicted));
}

#[test]
fn of_trials_at_one_load_the_longest_counts() {
    let readings = vec![Reading::default(); 8];
    let trial = |count: usize| Trial {
        load: 2.0 * TIP,
        goodput: TIP,
        verdict: Verdict::Bad,
        aborted: false,
        handshakes: 0.0,
        clients: Clients::default(),
        hosts: vec![During { host: "vm", readings: &readings[..count] }],
    };
    let trials = [trial(8), trial(3)];
    let longest = super::longest(trials.iter()).expect("two of them");
    assert_eq!(longest.hosts[0].readings.len(), 8);
}

#[test]
fn without_a_trial_below_nothing_is_said() {
    assert_eq!(diagnosed(&free(), 1, &LOADS[6..]), None);
}

/// 500/s, at which no CPU is busy: the first cause for what clients saw.
fn idle_cause(world: &World) -> (Cause, Grade) {
    let search = Search { at: 500.0, ..SEARCH };
    let found = diagnosed_by(search, world, 1, &LOADS).expect("a trial below");
    (found[0].cause, found[0].grade)
}

#[test]
fn what_keeps_a_machine_idle_is_told_by_the_operations_in_service() {
    let locked = |sleeps| free().workers("app", "server", 8, sleeps).serving(0.002);
    assert_eq!(idle_cause(&locked(2.8)), (Cause::SerialSection, Grade::Predicted));
    // One at a time, and no thread waits for it: the process that serves it is not read.
    assert_eq!(idle_cause(&locked(1.0)), (Cause::Unknown, Grade::Unknown));

    let pool = |threads, service| free().workers("app", "backend", threads, 1.2).serving(service);
    assert_eq!(idle_cause(&pool(16, 0.032)), (Cause::WorkerPool, Grade::Predicted));
    // One of them hands the work out, and is not counted.
    assert_eq!(idle_cause(&pool(17, 0.032)), (Cause::WorkerPool, Grade::Predicted));
    let search = Search { at: 500.0, ..SEARCH };
    let found = diagnosed_by(search, &pool(17, 0.032), 1, &LOADS).expect("a trial below");
    assert_eq!(found[0].evidence[0].limit, Some(16.0));
    // 16 at once, and nothing that has this number.
    assert_eq!(idle_cause(&pool(24, 0.032)), (Cause::ConcurrencyLimit, Grade::Predicted));
    // Several processes of one program, each with a thread that hands the work out.
    let many = ["app-2", "app-3", "app-4", "app-5"]
        .into_iter()
        .fold(pool(5, 0.04), |world, name| world.workers(name, "backend", 5, 1.2));
    assert_eq!(idle_cause(&many), (Cause::WorkerPool, Grade::Predicted));
    // An event loop serves any number with one thread: the number of its threads is not the limit.
    let events = free().workers("nginx", "server", 16, 1.2);
    let limited = events.clone().serving(0.032);
    assert_eq!(idle_cause(&limited), (Cause::ConcurrencyLimit, Grade::Predicted));
    let search = Search { at: 500.0, ..SEARCH };
    let found = diagnosed_by(search, &limited, 1, &LOADS).expect("a trial below");
    assert_eq!(found[0].resource.name, "operations at once, about 16");
    // The number of the clients' connections.
    let busy = |above| Clients { service: Some(0.032), all_busy: above, ..Clients::default() };
    let ours = events.clone().seen(busy(None), busy(Some(17.0)));
    assert_eq!(idle_cause(&ours), (Cause::Unknown, Grade::Unknown));
    // Nothing is known of the time in service.
    assert_eq!(idle_cause(&events), (Cause::Unknown, Grade::Unknown));
}

#[test]
fn a_long_path_with_few_connections_is_told_from_a_slow_server() {
    let waits = |service_s| Clients {
        service: Some(service_s),
        all_busy: Some(10.0),
        ..Clients::default()
    };
    let world = |service_above, path_ms| World {
        round_trip: Some(Nanos::from_millis(path_ms)),
        ..free().seen(waits(0.021), waits(service_above))
    };
    assert_eq!(idle_cause(&world(0.021, 20)), (Cause::PathLatency, Grade::Correlated));
    for (service_above, path_ms) in [(0.060, 20), (0.021, 1)] {
        let cause = idle_cause(&world(service_above, path_ms));
        assert_eq!(cause, (Cause::Unknown, Grade::Unknown), "{service_above} {path_ms}");
    }
}

#[test]
fn pauses_are_regular_or_no_cause() {
    // 8 s in steps of 100 ms; while nothing is answered, 40 operations come due.
    let paused = |at: &[usize]| {
        let mut outstanding = vec![1; 80];
        at.iter().for_each(|at| outstanding[*at] = 40);
        let clients = Clients { outstanding, ..Clients::default() };
        free().seen(clients.clone(), clients)
    };
    let failing = |world: &World| {
        let search = Search { at: 500.0, is_found: false, ..SEARCH };
        let loads = [(0.25, false), (0.25, false), (0.25, false)];
        diagnosed_by(search, world, 1, &loads).expect("trials")[0].cause
    };
    for at in [[5, 25, 45, 65], [5, 25, 44, 65], [5, 25, 45, 66]] {
        assert_eq!(failing(&paused(&at)), Cause::PeriodicPause, "{at:?}");
    }
    // One of them fell between two samples.
    assert_eq!(failing(&paused(&[5, 25, 65])), Cause::PeriodicPause);
    assert_eq!(failing(&paused(&[5, 15, 25, 45, 55, 65])), Cause::PeriodicPause);
    // Or many in a row, if their period and the samples' are nearly multiples.
    assert_eq!(failing(&paused(&[2, 7, 12, 17, 47, 52, 57])), Cause::PeriodicPause);
    for at in [&[5, 9, 45, 52][..], &[3, 30, 41, 77], &[5, 7, 9, 11], &[40]] {
        assert_eq!(failing(&paused(at)), Cause::Unknown, "{at:?}");
    }
}

#[test]
fn without_an_interval_only_what_was_seen_is_named() {
    let failed = Search { is_found: false, ..SEARCH };
    let cause = |world: &World, loads: &[(f64, bool)]| {
        let found = diagnosed_by(failed, world, 1, loads).expect("a trial above");
        assert!(found[0].grade <= Grade::Correlated && found[0].predicted_at.is_none());
        found[0].cause
    };
    let lowest = &LOADS[6..];
    let timing_out = Clients { timed_out: 1.0, ..Clients::default() };
    let world = free().seen(Clients::default(), timing_out);
    assert_eq!(cause(&world, lowest), Cause::BackendTimeout);
    assert_eq!(cause(&free().limit("maxconn of HAProxy", TIP, 50.0), lowest), Cause::Maxconn);
    let refused = free().with(Metric::HaproxyConnectErrors, &[], Moves::Above(90.0));
    assert_eq!(cause(&refused, &LOADS), Cause::BackendRefuses);
    assert_eq!(cause(&free().stolen(0.3), lowest), Cause::Steal);
    // A process without a CPU is slow, and refuses no more.
    let in_time = Clients { is_refused_only: true, ..Clients::default() };
    let refused = refused.stolen(0.3).seen(Clients::default(), in_time);
    assert_eq!(cause(&refused, &LOADS), Cause::BackendRefuses);
    // A full CPU is no limit that was reached once: at the lowest load, anything may keep it busy.
    assert_eq!(cause(&free(), lowest), Cause::Unknown);
    assert_eq!(diagnosed_by(failed, &free(), 1, &LOADS[..6]), None);
}

#[test]
fn held_connections_have_limits_and_no_cpu() {
    let held = Search { at: 730.0, axis: Axis::Connections, ..SEARCH };
    let world = World::default()
        .thread("haproxy", "server", "haproxy/0", 0.01, 730.0)
        .cpu("0", 730.0)
        .limit("maxconn of HAProxy", 730.0, 731.0)
        .limit("open files of haproxy", 3_000.0, 3_100.0)
        .limit("memory", 9_000.0, 2.4e10);
    for seed in 0..SEEDS {
        let found = diagnosed_by(held, &world, seed, &LOADS).expect("a trial below");
        let (first, others) = (&found[0], &found[1..]);
        assert_eq!((first.cause, first.grade), (Cause::Maxconn, Grade::Predicted), "{seed}");
        assert!(others.is_empty(), "{others:?}");
        let excluded: Vec<&str> =
            first.excluded.iter().map(|one| one.resource.name.as_str()).collect();
        assert_eq!(excluded, ["open files of haproxy", "memory"]);
    }
}

#[test]
fn no_cause_is_named_without_one_that_is_ruled_out() {
    // What is not used at all has no line, and lasts.
    let idle = free().limit("ports", 1e9, 28_000.0).limit("maxconn of HAProxy", TIP, 500.0);
    for (name, world, _, _) in
        cases().into_iter().chain([("idle", idle, Cause::Maxconn, Grade::Predicted)])
    {
        for finding in diagnosed(&world, 1, &LOADS).expect("a trial below") {
            assert!(!finding.excluded.is_empty() || finding.cause == Cause::Unknown, "{name}");
            let is_itself = |one: &plimsoll_model::cause::Limited| one.resource == finding.resource;
            assert!(!finding.excluded.iter().any(is_itself), "{name}");
        }
    }
    // A host of which nothing but the suspect was read.
    let alone = World::default().limit("maxconn of HAProxy", TIP, 500.0);
    let found = diagnosed(&alone, 1, &LOADS).expect("a trial below");
    assert_eq!((found.len(), found[0].cause), (1, Cause::Unknown));
}

#[test]
fn the_processes_of_another_host_on_the_same_cpu_are_no_neighbour() {
    let mut random = fastrand::Rng::with_seed(1);
    let clients = World::default().cpu("0", TIP).thread("agent", "client", "a/0", 0.0, 2.0 * TIP);
    let backends = World::default().cpu("0", TIP).thread("own", "backend", "b/0", 0.0, 2.0 * TIP);
    let readings = [clients, backends].map(|world| world.readings(TIP, true, &mut random));
    let during =
        |host: usize| During { host: ["clients", "backends"][host], readings: &readings[host] };
    let trial = |hosts| Trial {
        load: TIP,
        goodput: TIP,
        verdict: Verdict::Bad,
        aborted: false,
        handshakes: 0.0,
        clients: Clients::default(),
        hosts,
    };
    assert!(signs::has_neighbour(&during(0), &trial(vec![during(0)])));
    assert!(!signs::has_neighbour(&during(0), &trial(vec![during(0), during(1)])));
}
