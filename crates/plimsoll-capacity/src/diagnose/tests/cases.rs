//! Every row of the table that has a sign in what is read, as a world in which it is the limit, and decoys.

use plimsoll_model::cause::Cause as C;
use plimsoll_model::cause::Grade::{self, Correlated, Predicted, Unknown};
use plimsoll_model::host::{Label, Metric};

use super::{Clients, Moves, TIP, World, free};

/// Name, world, cause, least grade.
pub(super) type Case = (&'static str, World, C, Grade);

pub(super) fn cases() -> Vec<Case> {
    let all =
        [processors(), shared_processors(), limits(), backends(), queues(), network(), resources()];
    all.into_iter().flatten().collect()
}

/// Threads and CPUs of the server itself.
fn processors() -> Vec<Case> {
    vec![
        ("1 CPU of the server", busy(), C::ServerCpu, Predicted),
        ("1 two busy threads", two(TIP, "haproxy/1").cpu("2", TIP), C::ServerCpu, Predicted),
        (
            "1 two threads on one CPU",
            World::default()
                .thread("haproxy", "server", "haproxy/0", 0.01, 1.4 * TIP)
                .thread("haproxy", "server", "haproxy/1", 0.01, 3.0 * TIP)
                .thread("agent", "client", "client/0", 0.01, 3.0 * TIP)
                .cpu("0", 3.0 * TIP)
                .cpu("1", TIP)
                .limit("open files of haproxy", 6.0 * TIP, 100_000.0),
            C::ServerCpu,
            Predicted,
        ),
        ("2 one of two threads", two(20.0 * TIP, "haproxy/1"), C::HotThread, Predicted),
        (
            "3 one CPU for all threads",
            (0..4).fold(free().cpu("2", 4.0 * TIP), |world, n| {
                world.thread("python", "server", &format!("python/{n}"), 0.0, 4.0 * TIP)
            }),
            C::SerialisedProcess,
            Predicted,
        ),
        (
            "3 threads take turns on one CPU",
            free().taking_turns(0.3),
            C::SerialisedProcess,
            Predicted,
        ),
        ("1 threads that all want one CPU", free().taking_turns(0.74), C::ServerCpu, Predicted),
        (
            "1 one CPU for all threads of a runtime that moves work",
            (0..4).fold(free().cpu("2", TIP), |world, n| {
                world.thread("caddy", "server", &format!("caddy/{n}"), 0.0, 4.0 * TIP)
            }),
            C::ServerCpu,
            Predicted,
        ),
        (
            "1 its busiest thread",
            free().cpu("2", TIP).thread("caddy", "server", "caddy/0", 0.0, TIP).thread(
                "caddy",
                "server",
                "caddy/1",
                0.0,
                20.0 * TIP,
            ),
            C::ServerCpu,
            Predicted,
        ),
        ("37 handshakes", World { handshakes: 1.0, ..busy() }, C::TlsHandshakes, Predicted),
        (
            "38 sessions that are not found",
            World { handshakes: 0.6, ..busy() }
                .with(Metric::HaproxySslCacheLookups, &[], Moves::Rate(0.0, 1.0, 1e9))
                .with(Metric::HaproxySslCacheMisses, &[], Moves::Rate(0.0, 0.6, 1e9)),
            C::SessionCache,
            Predicted,
        ),
        (
            "38 decoy: sessions that are found",
            World { handshakes: 0.6, ..busy() }
                .with(Metric::HaproxySslCacheLookups, &[], Moves::Rate(0.0, 1.0, 1e9))
                .with(Metric::HaproxySslCacheMisses, &[], Moves::Rate(0.0, 0.05, 1e9)),
            C::TlsHandshakes,
            Predicted,
        ),
        (
            "decoy: busy polling",
            free().thread("poller", "server", "poller/0", 1.0, 2.0 * TIP),
            C::Unknown,
            Unknown,
        ),
    ]
}

/// CPUs that others use or hold back.
fn shared_processors() -> Vec<Case> {
    vec![
        (
            "24 quota",
            World::default()
                .thread("haproxy", "server", "haproxy/0", 0.002, TIP / 0.2)
                .throttled(0.2)
                .cpu("0", 3.0 * TIP),
            C::CpuQuota,
            Predicted,
        ),
        (
            "24 quota of a slice, of which others use half",
            World::default()
                .thread("haproxy", "server", "haproxy/0", 0.002, TIP / 0.1)
                .throttled(0.2)
                .with(
                    Metric::CgroupCpuSeconds,
                    &[(Label::Cgroup, "haproxy")],
                    Moves::Rate(0.0, 0.2 / TIP, 0.2),
                )
                .cpu("0", 3.0 * TIP),
            C::CpuQuota,
            Predicted,
        ),
        ("25 neighbour", beside_another("user"), C::NoisyNeighbour, Predicted),
        ("25 a CPU that others fill at every load", crowded_out(), C::NoisyNeighbour, Correlated),
        (
            "25 decoy: of lower priority",
            beside_another("nice").writing(250.0, TIP),
            C::Disk,
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
        ("26 steal", busy().stolen(0.3), C::Steal, Predicted),
        ("26 decoy: steal that leaves the CPUs room", free().stolen(0.3), C::Unknown, Unknown),
        ("decoy: a little steal", busy().stolen(0.01), C::ServerCpu, Predicted),
    ]
}

/// Limits of the server's configuration.
fn limits() -> Vec<Case> {
    vec![
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
            "8 worker_connections",
            limited("worker_connections", 64.0),
            C::WorkerConnections,
            Predicted,
        ),
        (
            "9 requests refused by rules",
            event(Metric::HaproxyDenied, 90.0),
            C::RateLimit,
            Correlated,
        ),
        ("9 status 429", free().refusing(), C::RateLimit, Correlated),
        (
            "10 refused by address",
            free().refusing().with(
                Metric::HaproxyTableUsed,
                &[(Label::Name, "clients"), (Label::Kind, "ip")],
                Moves::Fixed(1.0),
            ),
            C::AddressLimit,
            Correlated,
        ),
        (
            "decoy: maxconn fills before a slow backend",
            free().filled_above("maxconn", 120.0).slow_backend(0.0),
            C::BackendCapacity,
            Correlated,
        ),
        (
            "decoy: a server's maxconn fills before a slow backend",
            free().filled_above("maxconn of server b/s1", 60.0).slow_backend(240.0),
            C::BackendCapacity,
            Correlated,
        ),
    ]
}

/// Servers behind it.
fn backends() -> Vec<Case> {
    vec![
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
        (
            "20 backend refuses",
            event(Metric::HaproxyConnectErrors, 90.0),
            C::BackendRefuses,
            Correlated,
        ),
        ("12 retries", event(Metric::HaproxyRetries, 40.0), C::BackendTimeout, Correlated),
        (
            "12 a proxy's timeout",
            free().seen(Clients::default(), Clients { timed_out: 0.3, ..Clients::default() }),
            C::BackendTimeout,
            Correlated,
        ),
    ]
}

/// Connections that wait to be accepted.
fn queues() -> Vec<Case> {
    vec![
        ("15 accept queue", event(Metric::TcpListenOverflows, 80.0), C::AcceptQueue, Correlated),
        (
            "15 an accept queue that is known to be the server's",
            listening(Moves::Above(80.0), Moves::Fixed(0.0)),
            C::AcceptQueue,
            Correlated,
        ),
        (
            "15 decoy: another program's accept queue",
            listening(Moves::Fixed(0.0), Moves::Above(80.0)),
            C::Unknown,
            Unknown,
        ),
        (
            "16 accept queue of a busy server",
            busy().with(Metric::TcpListenOverflows, &[], Moves::Above(80.0)),
            C::ServerCpu,
            Predicted,
        ),
        ("17 half-open connections", event(Metric::TcpSynQueueFull, 50.0), C::SynQueue, Correlated),
        (
            "18 SYNs dropped without cookies",
            event(Metric::TcpListenDrops, 80.0),
            C::SynQueue,
            Correlated,
        ),
        (
            "18 decoy: SYNs dropped at a full accept queue",
            event(Metric::TcpListenDrops, 80.0).with(
                Metric::TcpListenOverflows,
                &[],
                Moves::Above(80.0),
            ),
            C::AcceptQueue,
            Correlated,
        ),
        (
            "17 decoy: half-open connections behind a full accept queue",
            event(Metric::TcpSynQueueFull, 12.0).with(
                Metric::TcpListenOverflows,
                &[],
                Moves::Above(80.0),
            ),
            C::AcceptQueue,
            Correlated,
        ),
    ]
}

/// Ports, tables of the kernel, links.
fn network() -> Vec<Case> {
    vec![
        ("13 ports", limited("ports", 28_000.0), C::Ports, Predicted),
        ("22 conntrack, drops", event(Metric::ConntrackDrops, 90.0), C::Conntrack, Correlated),
        ("22 conntrack", limited("tracked connections", 500.0), C::Conntrack, Predicted),
        (
            "decoy: a table of the host that others fill",
            busy().limit_that("tracked connections", Moves::Rise(950.0, 1_000.0), 1_000.0),
            C::ServerCpu,
            Predicted,
        ),
        ("23 TCP memory", limited("TCP memory", 4e6), C::TcpMemory, Predicted),
        ("30 drops of a link", event(Metric::NetworkDrops, 90.0), C::Link, Correlated),
        (
            "30 a link whose speed is known",
            free()
                .with(Metric::NetworkSpeed, &[(Label::Device, "eth0")], Moves::Fixed(2.5e6))
                .with(
                    Metric::NetworkBytes,
                    &[(Label::Device, "eth0"), (Label::Direction, "transmit")],
                    Moves::Rate(0.0, 2.5e6 / TIP, 2.5e6),
                ),
            C::Link,
            Predicted,
        ),
        ("31 queue of packets", event(Metric::SoftnetDropped, 90.0), C::PacketQueue, Correlated),
        ("32 packet loss", lossy().seen(losing(), losing()), C::PacketLoss, Correlated),
        ("32 answers that are lost", lossy().seen(waiting(), waiting()), C::PacketLoss, Correlated),
        ("32 decoy: another program's retransmits", lossy(), C::Unknown, Unknown),
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
    ]
}

/// Files, memory, threads, disks, and nothing at all.
fn resources() -> Vec<Case> {
    vec![
        ("19 open files", free().limit("open files of nginx", TIP, 256.0), C::OpenFiles, Predicted),
        (
            "21 open files of the host",
            free().limit("open files", TIP, 9e4),
            C::HostFiles,
            Predicted,
        ),
        ("34 memory", limited("cgroup memory", 2.6e8), C::Memory, Predicted),
        ("34 killed", event(Metric::OomKills, 1.0), C::Memory, Correlated),
        ("36 threads", limited("cgroup threads", 64.0), C::Threads, Predicted),
        (
            "29 a log that is read slowly",
            free().waiting("pipe", 0.9).with(Metric::TcpListenOverflows, &[], Moves::Above(80.0)),
            C::LogWrites,
            Correlated,
        ),
        (
            "29 decoy: dropped logs",
            busy().with(Metric::HaproxyDroppedLogs, &[], Moves::Above(900.0)),
            C::ServerCpu,
            Predicted,
        ),
        ("41 a slow disk", free().waiting("disk", 3.0), C::Disk, Correlated),
        ("41 a limit of writes", free().writing(250.0, TIP), C::Disk, Predicted),
        (
            "41 the same, waited for",
            free().writing(250.0, TIP).waiting("disk", 3.0),
            C::Disk,
            Predicted,
        ),
        ("41 decoy: writes have room", busy().writing(250.0, 4.0 * TIP), C::ServerCpu, Predicted),
        (
            "41 decoy: writes pile up behind a rate limit",
            limited("rate-limit of frontend f", TIP).writing(250.0, 3.0 * TIP).waiting("disk", 1.0),
            C::RateLimit,
            Predicted,
        ),
        ("decoy: locks are waited for", free().waiting("lock", 5.0), C::Unknown, Unknown),
        (
            "35 memory.high",
            free().with(Metric::CgroupMemoryEvents, &[(Label::Event, "high")], Moves::Above(50.0)),
            C::MemoryReclaim,
            Correlated,
        ),
        ("35 reclaim", event(Metric::AllocationStalls, 200.0), C::MemoryReclaim, Correlated),
        ("44 not watched", free(), C::Unknown, Unknown),
    ]
}

fn busy() -> World {
    server(TIP).cpu("1", TIP)
}

fn limited(limit: &str, max: f64) -> World {
    free().limit(limit, TIP, max)
}

fn event(metric: Metric, rate: f64) -> World {
    free().with(metric, &[], Moves::Above(rate))
}

fn two(second: f64, kind: &str) -> World {
    busy().thread("haproxy", "server", kind, 0.01, second)
}

fn listening(ours: Moves, theirs: Moves) -> World {
    let ours_is = [(Label::Listener, "[::]:80"), (Label::Process, "haproxy")];
    event(Metric::TcpListenOverflows, 80.0)
        .with(Metric::TcpListenDrops, &[], Moves::Above(80.0))
        .with(Metric::TcpListenerDrops, &ours_is, ours)
        .with(Metric::TcpListenerDrops, &[(Label::Listener, "[::]:25")], theirs)
}

fn lossy() -> World {
    let segments = [(Label::Direction, "transmit")];
    free().with(Metric::TcpSegments, &segments, Moves::Rate(0.0, 2.0, 1e9)).with(
        Metric::TcpRetransmitted,
        &[],
        Moves::Rate(0.0, 0.04, 1e9),
    )
}

fn losing() -> Clients {
    Clients { sent_again: 0.02, ..Clients::default() }
}

fn waiting() -> Clients {
    Clients { waited: 0.02, ..Clients::default() }
}

/// A server on whose second CPU another program runs, half of the time in `mode`.
fn beside_another(mode: &str) -> World {
    let of = |mode| [(Label::Cpu, "1"), (Label::Mode, mode)];
    server(2.2 * TIP)
        .with(Metric::CpuSeconds, &of(mode), Moves::Rate(0.5, 0.0, 1.0))
        .with(Metric::CpuSeconds, &of("system"), Moves::Rate(0.0, 0.5 / TIP, 0.5))
        .with(Metric::CpuSeconds, &of("idle"), Moves::Rate(0.5, -0.5 / TIP, 1.0))
}

/// A server of one thread that has two thirds of its CPU at every load and waits for the rest, as beside a compiler.
fn crowded_out() -> World {
    let of = |mode| [(Label::Cpu, "1"), (Label::Mode, mode)];
    let (ran, waited) = (Moves::Rate(0.6, 0.05 / TIP, 0.65), Moves::Rate(0.25, 0.07 / TIP, 0.32));
    World::default()
        .scheduled(["haproxy", "server", "haproxy/0"], ran, waited)
        .with(Metric::CpuSeconds, &of("user"), Moves::Rate(1.0, 0.0, 1.0))
        .with(Metric::CpuSeconds, &of("idle"), Moves::Rate(0.0, 0.0, 0.0))
        .limit("open files of haproxy", 6.0 * TIP, 100_000.0)
}

/// A server of one thread that is full at `full_at`, with a client beside it.
fn server(full_at: f64) -> World {
    World::default()
        .thread("haproxy", "server", "haproxy/0", 0.01, full_at)
        .thread("agent", "client", "client/0", 0.01, 3.0 * TIP)
        .cpu("0", 3.0 * TIP)
        .limit("open files of haproxy", 6.0 * TIP, 100_000.0)
}
