//! Synthetic hosts: one resource is the limit at a known load, others move and are not the cause. Every case
//! runs with many seeds; the confusion matrix is printed with `--nocapture`.

use std::collections::BTreeMap;

use plimsoll_model::cause::{Cause, Grade, ResourceKind};
use plimsoll_model::host::{Label, Metric, Reading};
use plimsoll_model::trial::Verdict;
use plimsoll_model::{Nanos, cause::Finding};

use super::{During, Record, Trial, diagnose};

/// The tipping point of all cases, operations per second.
const TIP: f64 = 20_000.0;
const SEEDS: u64 = 40;
const SECONDS: u64 = 6;

type Labels = Vec<(Label, String)>;

/// How a value follows the load.
#[derive(Clone)]
enum Moves {
    /// A gauge: idle, per operation, at most.
    Gauge(f64, f64, f64),
    /// A counter's rate: the same.
    Rate(f64, f64, f64),
    /// A counter that only moves above the tipping point, so much per second.
    Above(f64),
    /// A gauge that only moves there.
    GaugeAbove(f64),
    /// It does not move.
    Fixed(f64),
}

/// One host, by its series.
#[derive(Clone, Default)]
struct World {
    series: Vec<(Metric, Labels, Moves)>,
    /// Full handshakes per operation.
    handshakes: f64,
}

impl World {
    fn with(mut self, metric: Metric, labels: &[(Label, &str)], moves: Moves) -> Self {
        let labels = labels.iter().map(|(label, text)| (*label, (*text).to_owned())).collect();
        self.series.push((metric, labels, moves));
        self
    }

    fn thread(self, process: &str, role: &str, thread: &str, idle: f64, full_at: f64) -> Self {
        let of = [(Label::Process, process), (Label::Thread, thread)];
        let demand = (1.0 - idle) / full_at;
        self.with(
            Metric::ProcessInfo,
            &[(Label::Process, process), (Label::Role, role)],
            Moves::Fixed(1.0),
        )
        .with(Metric::ProcessCpuSeconds, &of, Moves::Rate(idle, demand, 1.0))
        .with(Metric::ProcessRunDelaySeconds, &of, Moves::Rate(0.0, 1e-7, 0.01))
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

    fn limit(self, limit: &str, scope: &str, full_at: f64, max: f64) -> Self {
        let of = [(Label::Limit, limit), (Label::Scope, scope)];
        self.with(Metric::LimitUsed, &of, Moves::Gauge(0.02 * max, 0.98 * max / full_at, max)).with(
            Metric::LimitMax,
            &of,
            Moves::Fixed(max),
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

fn diagnosed(world: &World, seed: u64, loads: &[(f64, bool)]) -> Option<Vec<Finding>> {
    let mut random = fastrand::Rng::with_seed(seed);
    let readings: Vec<Vec<Reading>> = loads
        .iter()
        .map(|(load, is_good)| world.readings(TIP * load.min(1.0), !is_good, &mut random))
        .collect();
    let mut trials = Vec::new();
    for ((load, is_good), readings) in loads.iter().zip(&readings) {
        trials.push(Trial {
            load: TIP * load,
            goodput: TIP * load.min(1.0),
            verdict: if *is_good { Verdict::Good } else { Verdict::Bad },
            aborted: false,
            handshakes: world.handshakes,
            hosts: vec![During { host: "lab", readings }],
        });
    }
    let deadline = Some(Nanos::from_millis(50));
    diagnose(&Record { tip: (0.98 * TIP, 1.02 * TIP), deadline, trials })
}

/// A server of one thread with a CPU of its own and a client beside it, nothing near its limit.
fn free() -> World {
    World::default()
        .thread("haproxy", "server", "haproxy/0", 0.01, 4.0 * TIP)
        .thread("agent", "client", "client/0", 0.01, 3.0 * TIP)
        .cpu("0", 3.0 * TIP)
        .cpu("1", 3.5 * TIP)
        .limit("open files", "haproxy", 6.0 * TIP, 100_000.0)
}

/// Name, world, cause, least grade.
fn cases() -> Vec<(&'static str, World, Cause, Grade)> {
    use Cause as C;
    use Grade::{Correlated, Predicted, Unknown};
    let server = |full_at: f64| {
        World::default()
            .thread("haproxy", "server", "haproxy/0", 0.01, full_at)
            .thread("agent", "client", "client/0", 0.01, 3.0 * TIP)
            .cpu("0", 3.0 * TIP)
            .limit("open files", "haproxy", 6.0 * TIP, 100_000.0)
    };
    let busy = || server(TIP).cpu("1", TIP);
    let limited = |limit: &str, max: f64| free().limit(limit, "HAProxy", TIP, max);
    let event = |metric, rate| free().with(metric, &[], Moves::Above(rate));
    let two = |second: f64, kind: &str| busy().thread("haproxy", "server", kind, 0.01, second);
    vec![
        ("1 CPU of the server", busy(), C::ServerCpu, Predicted),
        ("1 two busy threads", two(TIP, "haproxy/1").cpu("2", TIP), C::ServerCpu, Predicted),
        ("2 one of two threads", two(20.0 * TIP, "haproxy/1"), C::HotThread, Predicted),
        (
            "3 one CPU for all threads",
            (0..4).fold(free().cpu("2", 4.0 * TIP), |world, n| {
                world.thread("python", "server", &format!("python/{n}"), 0.0, 4.0 * TIP)
            }),
            C::SerialisedProcess,
            Predicted,
        ),
        ("6 server maxconn", limited("maxconn of server b/s1", 200.0), C::ServerMaxconn, Predicted),
        (
            "6 queue alone",
            free().with(Metric::HaproxyQueued, &[], Moves::GaugeAbove(300.0)),
            C::ServerMaxconn,
            Correlated,
        ),
        ("7 maxconn", limited("maxconn", 500.0), C::Maxconn, Predicted),
        ("9 rate limit", limited("rate-limit of frontend f", TIP), C::RateLimit, Predicted),
        (
            "11 CPU of a backend",
            free().thread("agent-2", "backend", "serve/0", 0.01, TIP).cpu("2", TIP),
            C::BackendCpu,
            Predicted,
        ),
        (
            "11 backends that are not watched",
            free().with(Metric::HaproxyQueued, &[], Moves::Fixed(0.0)).with(
                Metric::HaproxyRequestsInService,
                &[],
                Moves::GaugeAbove(300.0),
            ),
            C::BackendCapacity,
            Correlated,
        ),
        ("13 ports", limited("ports", 28_000.0), C::Ports, Predicted),
        ("15 accept queue", event(Metric::TcpListenOverflows, 80.0), C::AcceptQueue, Correlated),
        (
            "16 accept queue of a busy server",
            busy().with(Metric::TcpListenOverflows, &[], Moves::Above(80.0)),
            C::ServerCpu,
            Predicted,
        ),
        ("17 half-open connections", event(Metric::TcpSynQueueFull, 50.0), C::SynQueue, Correlated),
        ("19 open files", free().limit("open files", "nginx", TIP, 256.0), C::OpenFiles, Predicted),
        (
            "20 backend refuses",
            event(Metric::HaproxyConnectErrors, 90.0),
            C::BackendRefuses,
            Correlated,
        ),
        (
            "21 open files of the host",
            free().limit("open files", "host", TIP, 9e4),
            C::HostFiles,
            Predicted,
        ),
        ("22 conntrack, drops", event(Metric::ConntrackDrops, 90.0), C::Conntrack, Correlated),
        ("22 conntrack", limited("tracked connections", 500.0), C::Conntrack, Predicted),
        ("23 TCP memory", limited("TCP memory", 4e6), C::TcpMemory, Predicted),
        (
            "24 quota",
            World::default()
                .thread("haproxy", "server", "haproxy/0", 0.002, TIP / 0.2)
                .with(Metric::CgroupCpuLimit, &[(Label::Cgroup, "haproxy")], Moves::Fixed(0.2))
                .with(
                    Metric::CgroupPeriods,
                    &[(Label::Cgroup, "haproxy")],
                    Moves::Rate(10.0, 0.0, 10.0),
                )
                .with(
                    Metric::CgroupThrottledPeriods,
                    &[(Label::Cgroup, "haproxy")],
                    Moves::Above(9.0),
                )
                .cpu("0", 3.0 * TIP),
            C::CpuQuota,
            Predicted,
        ),
        (
            "25 neighbour",
            server(2.2 * TIP)
                .with(
                    Metric::CpuSeconds,
                    &[(Label::Cpu, "1"), (Label::Mode, "user")],
                    Moves::Rate(0.5, 0.5 / TIP, 1.0),
                )
                .with(
                    Metric::CpuSeconds,
                    &[(Label::Cpu, "1"), (Label::Mode, "idle")],
                    Moves::Rate(0.5, -0.5 / TIP, 1.0),
                ),
            C::NoisyNeighbour,
            Predicted,
        ),
        (
            "27 shared CPU",
            World::default()
                .thread("haproxy", "server", "haproxy/0", 0.01, 2.0 * TIP)
                .thread("agent", "client", "client/0", 0.01, 2.0 * TIP)
                .cpu("0", TIP),
            C::HostCpu,
            Predicted,
        ),
        ("30 drops of a link", event(Metric::NetworkDrops, 90.0), C::Link, Correlated),
        ("31 queue of packets", event(Metric::SoftnetDropped, 90.0), C::PacketQueue, Correlated),
        (
            "32 packet loss",
            free()
                .with(
                    Metric::TcpSegments,
                    &[(Label::Direction, "transmit")],
                    Moves::Rate(0.0, 2.0, 1e9),
                )
                .with(Metric::TcpRetransmitted, &[], Moves::Rate(0.0, 0.04, 1e9)),
            C::PacketLoss,
            Correlated,
        ),
        ("34 memory", limited("memory of the control group", 2.6e8), C::Memory, Predicted),
        ("34 killed", event(Metric::OomKills, 1.0), C::Memory, Correlated),
        ("36 threads", limited("threads of the control group", 64.0), C::Threads, Predicted),
        ("37 handshakes", World { handshakes: 1.0, ..busy() }, C::TlsHandshakes, Predicted),
        ("39 orphans", limited("orphaned sockets", 64.0), C::Orphans, Predicted),
        ("40 TIME_WAIT, no harm", limited("TIME_WAIT sockets", 20.0), C::Unknown, Unknown),
        (
            "decoy: retransmits of a stalled server",
            {
                let segments = [(Label::Direction, "transmit")];
                busy().with(Metric::TcpSegments, &segments, Moves::Rate(0.0, 2.0, 1e9)).with(
                    Metric::TcpRetransmitted,
                    &[],
                    Moves::Above(900.0),
                )
            },
            C::ServerCpu,
            Predicted,
        ),
        (
            "decoy: busy polling",
            free().thread("poller", "server", "poller/0", 1.0, 2.0 * TIP),
            C::Unknown,
            Unknown,
        ),
        ("44 not watched", free(), C::Unknown, Unknown),
    ]
}

#[test]
#[expect(
    clippy::disallowed_macros,
    reason = "the confusion matrix, for whoever runs it with --nocapture"
)]
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
        let world = free().limit("maxconn", "HAProxy", TIP, 500.0).thread(
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
    let world =
        free().limit("maxconn", "HAProxy", TIP, 500.0).limit("ports", "host", 1.5 * TIP, 900.0);
    let found = diagnosed(&world, 1, &LOADS).expect("a trial below");
    let next = found[0].next.as_ref().expect("known");
    assert_eq!(
        (next.resource.name.as_str(), next.resource.kind),
        ("ports of host", ResourceKind::Limit)
    );
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
    let world = free().limit("maxconn", "HAProxy", TIP, 500.0);
    let found = diagnosed(&world, 1, &LOADS[..6]).expect("a trial below");
    assert_eq!((found[0].cause, found[0].grade), (Cause::Maxconn, Grade::Correlated));
}

#[test]
fn without_a_trial_below_nothing_is_said() {
    assert_eq!(diagnosed(&free(), 1, &LOADS[6..]), None);
}
