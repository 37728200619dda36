//! The limiting resource at the tipping point, and the evidence for it.
//!
//! [`Cause`] is the table of causes: name, part and remedy, and by [`Cause::interventions`] the changes that test
//! each. `plimsoll-capacity` produces [`Finding`]s. One with a known cause names at least one resource that was ruled
//! out, which [`Finding::new`] enforces, and has a [`Grade`]: `correlated` by counters, `predicted` by a computed
//! limit, `confirmed` by a changed limit. [`Projected`] loads are in the unit of the search. Start reading at
//! [`Finding`].

use serde::{Deserialize, Serialize};

use crate::catalogue::catalogue;
use crate::confirmation::{Confirmation, Intervention, Remedied};

/// The grade of evidence for a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Grade {
    /// No reading proves the cause.
    Unknown,
    /// Counters of the cause move at the tipping point.
    Correlated,
    /// The limit, computed from loads that met the goals, is the tipping point, and it was full above.
    Predicted,
    /// Moving the limit moved the tipping point by the predicted size.
    Confirmed,
}

/// A reading that a cause lacks for a prediction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// The resource was not full at any load above the tipping point, or it was not read there.
    FullAbove,
    /// Use that grows with the load in a line which meets the limit at the tipping point.
    Line,
    /// A counter shows that it was full, and no value how full it is at lower loads.
    Use,
    /// The number of operations that the backends let in at once, or their own use of CPU.
    BackendLimit,
    /// Any storm fills it, for a longer time if it is larger.
    Storm,
}

/// The part on which the remedy works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The server under test and its configuration.
    Server,
    /// The part behind the server.
    Backend,
    /// The host of the server: kernel, limits, other programs.
    Host,
    /// The path between the hosts.
    Path,
    /// Not known.
    Unknown,
}

catalogue! {
    /// A row of the table of causes.
    Cause,
    /// The part whose limit is raised.
    part: Part,
    /// The change that raises the limit.
    remedy;

    Server {
        ServerCpu = "server-cpu":
            "more CPUs and threads for the server (nbthread, worker_processes), or less work for each \
             operation: keep-alive, session resumption, an ECDSA certificate, fewer rules and logs";
        TlsHandshakes = "tls-handshakes":
            "an ECDSA P-256 certificate, session tickets, keep-alive; then more CPUs and threads";
        HotThread = "hot-thread":
            "spread connections over the server's threads: SO_REUSEPORT or shards on the listener, \
             several queues of the network card";
        SerialisedProcess = "serialised-process":
            "more processes: this one uses one CPU in all, whatever the number of its threads";
        SerialSection = "serial-section":
            "several locks or connections where all operations wait for one, or less work while it is held";
        WorkerPool = "worker-pool": "more workers, or workers that wait less for each operation";
        ConcurrencyLimit = "concurrency-limit":
            "a higher limit of operations at once (workers, threads, connections to what is behind the server), \
             or less time in each";
        SessionCache = "session-cache":
            "session tickets, or a larger session cache with a longer lifetime";
        LogWrites = "log-writes":
            "logs that do not block the server: a buffer, a ring, a faster reader, or none";
        PeriodicPause = "periodic-pause":
            "shorter or rarer pauses: heap and garbage collection, snapshots, jobs that stop all threads";
        ServerMaxconn = "server-maxconn":
            "a higher maxconn on the server lines of HAProxy, or more backends";
        Maxconn = "maxconn":
            "a higher maxconn, after open files and memory are raised to match";
        RateLimit = "rate-limit": "a higher rate limit in the server's configuration";
        AddressLimit = "address-limit":
            "a higher limit for each client address, or clients with more addresses";
        WorkerConnections = "worker-connections":
            "a higher worker_connections, with worker_rlimit_nofile above it";
        OpenFiles = "open-files":
            "a higher limit of open files: LimitNOFILE, worker_rlimit_nofile, ulimit -n";
        AcceptQueue = "accept-queue":
            "a longer accept queue: backlog of the listener and net.core.somaxconn, then listen again; \
             or accept more often";
    }
    Backend {
        BackendCpu = "backend-cpu": "more CPUs or more backends";
        BackendCapacity = "backend-capacity": "faster or more backends";
        BackendRefuses = "backend-refuses": "backends that run and accept connections";
        BackendTimeout = "backend-timeout":
            "backends that answer within the proxy's timeouts, or longer timeouts and fewer retries";
    }
    Host {
        HostCpu = "host-cpu":
            "more CPUs, or the parts on hosts of their own: server, backends and clients share these";
        CpuQuota = "cpu-quota": "a higher CPU quota of the control group, or fewer threads than its CPUs";
        NoisyNeighbour = "noisy-neighbour": "other programs off the server's CPUs";
        Steal = "steal": "a virtual machine with CPUs of its own: the hypervisor gives them to others";
        Ports = "ports":
            "http-reuse, a wider net.ipv4.ip_local_port_range, more source or backend addresses";
        HostFiles = "host-files": "a higher fs.file-max";
        Conntrack = "conntrack":
            "a higher net.netfilter.nf_conntrack_max, or a NOTRACK rule for the port";
        TcpMemory = "tcp-memory": "a higher net.ipv4.tcp_mem, or smaller socket buffers";
        SynQueue = "syn-queue":
            "a longer backlog of the listener and net.core.somaxconn; without SYN cookies also a higher \
             net.ipv4.tcp_max_syn_backlog";
        Memory = "memory": "more memory, or less for each connection";
        MemoryReclaim = "memory-reclaim":
            "more memory, a higher memory.high, or less for each connection: allocations wait until pages \
             are freed";
        Disk = "disk": "a faster disk, or fewer and buffered writes";
        Threads = "threads": "a higher limit of threads: TasksMax, pids.max";
        Orphans = "orphans": "a higher net.ipv4.tcp_max_orphans";
        PacketQueue = "packet-queue":
            "packets spread over CPUs (RSS, RPS), a higher net.core.netdev_max_backlog";
    }
    Path {
        Link = "link": "a faster link, smaller or compressed bodies";
        PacketLoss = "packet-loss": "a path without loss";
        PathLatency = "path-latency":
            "more connections, or a shorter path: each waits a round trip for every answer";
    }
    Unknown {
        Unknown = "unknown": "watch more: --watch names processes, servers and hosts";
    }
}

impl Cause {
    /// Returns the changes of the server that test the cause, the best first; empty if no change that can be undone
    /// does.
    pub const fn interventions(self) -> &'static [Intervention] {
        match self {
            Self::ServerCpu
            | Self::TlsHandshakes
            | Self::SessionCache
            | Self::SerialisedProcess
            | Self::CpuQuota => &[Intervention::ServerCpuQuota],
            Self::HotThread => &[Intervention::ThreadCpuQuota],
            Self::BackendCpu => &[Intervention::BackendCpuQuota, Intervention::FewerBackends],
            Self::WorkerPool => &[Intervention::FewerBackends],
            Self::BackendCapacity => &[Intervention::FewerBackends, Intervention::BackendCpuQuota],
            Self::Maxconn => &[Intervention::Maxconn],
            Self::ServerMaxconn => &[Intervention::ServerMaxconn],
            Self::RateLimit => &[Intervention::SessionRate],
            Self::Ports => &[Intervention::Ports],
            Self::AcceptQueue | Self::SynQueue => &[Intervention::AcceptQueue],
            _ => &[],
        }
    }

    /// Returns the changes of the load that test the cause, independent of each other, the best first; empty if none
    /// has an effect of known size.
    pub const fn load_interventions(self) -> &'static [Intervention] {
        match self {
            Self::ServerCpu | Self::TlsHandshakes | Self::SerialisedProcess | Self::CpuQuota => &[
                Intervention::RequestsPerConnection,
                Intervention::Resumption,
                Intervention::CertificateKey,
            ],
            Self::AddressLimit => &[Intervention::SourceAddresses],
            Self::PathLatency => &[Intervention::LoadConnections],
            Self::Link => &[Intervention::BodySize],
            _ => &[],
        }
    }
}

/// A kind of thing that has a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResourceKind {
    /// CPU of one thread.
    ThreadCpu,
    /// CPU of one process, all threads together.
    ProcessCpu,
    /// One CPU of a host.
    Cpu,
    /// CPU quota of a control group.
    CpuQuota,
    /// A limit that has a number: of the kernel, a process or a server.
    Limit,
    /// A counter of things that did not fit.
    Counter,
    /// Operations in service.
    Concurrency,
    /// Not known.
    Unknown,
}

/// A thing that has a limit.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Resource {
    /// The kind.
    pub kind: ResourceKind,
    /// Which one: `haproxy/0`, `open files of haproxy`.
    pub name: String,
}

impl Resource {
    /// Creates the resource of `kind` called `name`.
    pub fn new(kind: ResourceKind, name: impl Into<String>) -> Self {
        Self { kind, name: name.into() }
    }
}

/// Loads between which a resource becomes full; no upper end if its use hardly moves, or if only its lower
/// end is known.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Projected {
    /// Lower end.
    pub lower: f64,
    /// Most likely.
    pub at: f64,
    /// Upper end.
    pub upper: Option<f64>,
}

/// A resource and when it becomes full.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limited {
    /// The resource that reaches its limit.
    pub resource: Resource,
    /// Name of the host.
    pub host: String,
    /// At which loads.
    pub projected: Projected,
}

/// Unit of a value of evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EvidenceUnit {
    /// CPUs: CPU seconds per second.
    Cpus,
    /// Per second.
    PerS,
    /// A share, 0 to 1.
    Ratio,
    /// A number of things.
    Count,
}

/// A counter below and above the tipping point.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Evidence {
    /// Name of the counter.
    pub counter: String,
    /// Unit of all values.
    pub unit: EvidenceUnit,
    /// At the highest load that met the goals.
    pub below: Option<f64>,
    /// At the highest load.
    pub above: Option<f64>,
    /// The most that the value may be, if known.
    pub limit: Option<f64>,
}

/// One cause. Made by [`Finding::new`], so that none is without a resource that was ruled out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// The limiting resource.
    pub resource: Resource,
    /// Name of the host; empty for [`Cause::Unknown`].
    pub host: String,
    /// The grade of the evidence.
    pub grade: Grade,
    /// The readings.
    pub evidence: Vec<Evidence>,
    /// Resources that would last longer, the next one first.
    pub excluded: Vec<Limited>,
    /// The change that raises the limit.
    pub remedy: String,
    /// Loads at which the resource becomes full by the law of utilisation.
    pub predicted_at: Option<Projected>,
    /// Evidence that is missing for the grade `predicted`, of a cause that is only correlated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<Missing>,
    /// The resource that limits next, once this one is raised.
    pub next: Option<Limited>,
    /// The tests of the cause, in order.
    pub confirmations: Vec<Confirmation>,
    /// The new tipping point after the confirmed limit was raised, if the running server's can be.
    pub remedied: Option<Box<Remedied>>,
}

impl Finding {
    /// Creates the finding that `resource` of `host` is the limit. `nearest` and the `others` would last longer.
    pub fn new(
        cause: Cause,
        (resource, host): (Resource, String),
        grade: Grade,
        nearest: Limited,
        others: impl IntoIterator<Item = Limited>,
    ) -> Self {
        let excluded = std::iter::once(nearest).chain(others).collect();
        let remedy = cause.remedy().to_owned();
        Self { cause, resource, host, grade, remedy, ..Self::unknown(excluded) }
    }

    /// Creates a finding without a proven cause. Resources in `excluded`, which may be empty, would last longer.
    pub fn unknown(excluded: Vec<Limited>) -> Self {
        Self {
            cause: Cause::Unknown,
            resource: Resource::new(ResourceKind::Unknown, ""),
            host: String::new(),
            grade: Grade::Unknown,
            evidence: Vec::new(),
            excluded,
            remedy: Cause::Unknown.remedy().to_owned(),
            predicted_at: None,
            missing: None,
            next: None,
            confirmations: Vec::new(),
            remedied: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_those_of_json() {
        let mut names: Vec<&str> = Cause::ALL.iter().map(|cause| cause.name()).collect();
        for cause in Cause::ALL {
            let json = serde_json::to_string(cause).expect("a name");
            assert_eq!(json, format!("{:?}", cause.name()));
            assert!(!cause.remedy().contains("  "), "{}", cause.name());
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Cause::ALL.len());
        assert!(Grade::Unknown < Grade::Correlated && Grade::Predicted < Grade::Confirmed);
    }

    #[test]
    fn every_intervention_tests_a_cause() {
        for intervention in Intervention::ALL {
            let tests = |cause: &Cause| {
                let all = [cause.interventions(), cause.load_interventions()].concat();
                all.contains(&intervention)
            };
            assert!(Cause::ALL.iter().any(tests), "{intervention:?}");
        }
        assert!(Cause::Unknown.interventions().is_empty());
    }
}
