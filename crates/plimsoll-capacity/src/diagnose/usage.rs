//! The use of every resource of a host in one trial.
//!
//! [`of`] returns one [`Usage`] (used, capacity, usable share, full or not) for each CPU, thread, process, quota,
//! link, disk and limit. Rates are means between the first and the last reading of the trial. Held connections use no
//! CPU, so the axis of connections has limits only. [`cause_of_limit`] maps a limit to its cause and omits limits
//! that fill without harm. Start reading at [`of`].

use std::collections::BTreeSet;

use plimsoll_model::SutKind;
use plimsoll_model::cause::{Cause, Resource, ResourceKind};
use plimsoll_model::host::{Label, LimitId, LimitKind, Metric, Role, Sample};
use plimsoll_model::search::Axis;

use super::record::During;

/// Share by which readings once a second miss the peaks.
const PEAKS_MISSED: f64 = 0.01;
/// Share from which on a CPU or a thread is full.
pub(super) const CPU_FULL: f64 = 0.93;
/// A thread that uses less of a CPU does no work for requests.
const WORKS: f64 = 0.05;
/// Threads that want a CPU for more of the time have too few CPUs.
const AWAKE_MAX: f64 = 0.9;
/// The share of the CPUs that the hypervisor takes from which they are not this host's own.
pub(super) const STOLEN_MIN: f64 = 0.1;
/// Share from which on an interface, or a control group's disk, is full.
const LINK_FULL: f64 = 0.95;
const LINK_USABLE: f64 = 0.9;
/// Throttled periods from which a quota is full.
const THROTTLED_FULL: f64 = 0.2;

/// A resource in one trial.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Usage {
    pub(super) resource: Resource,
    /// The cause if this resource is the limit.
    pub(super) cause: Cause,
    pub(super) used: f64,
    pub(super) capacity: f64,
    /// The share of it that can be used; `None` of CPUs, where it depends on the goals.
    pub(super) usable: Option<f64>,
    pub(super) is_full: bool,
}

/// CPU of one thread of a process that takes part.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ThreadUse {
    pub(super) process: String,
    /// Name and number of the thread: `haproxy/0`.
    pub(super) thread: String,
    pub(super) is_server: bool,
    pub(super) used: f64,
    /// Time ready but not running, per second.
    pub(super) waited: f64,
}

impl Usage {
    /// The use of a CPU, or of what may use one.
    fn of_cpu(resource: Resource, cause: Cause, used: f64, is_full: bool) -> Self {
        Self { resource, cause, used, capacity: 1.0, usable: None, is_full }
    }

    /// Returns the use of a resource with a limit per second.
    fn of_rate(name: String, cause: Cause, used: f64, capacity: f64) -> Self {
        let resource = Resource::new(ResourceKind::Limit, name);
        let is_full = used >= LINK_FULL * capacity;
        Self { resource, cause, used, capacity, usable: Some(LINK_USABLE), is_full }
    }
}

impl ThreadUse {
    /// Returns the name without its number, which is the same for threads that do the same work.
    pub(super) fn kind(&self) -> &str {
        let name = self.thread.rsplit_once('/').map_or(&*self.thread, |(name, _)| name);
        name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '-')
    }

    /// Reports whether the other threads of its process take its work when it has no CPU.
    pub(super) fn moves_work(&self) -> bool {
        SutKind::of_process(&self.process).is_some_and(SutKind::moves_work)
    }

    /// Returns the time on a CPU or ready for one, per second.
    pub(super) fn wanted(&self) -> f64 {
        self.used + self.waited
    }

    fn resource(&self) -> Resource {
        let number = self.thread.rsplit_once('/').map_or("0", |(_, number)| number);
        Resource::new(ResourceKind::ThreadCpu, format!("{}/{number}", self.process))
    }
}

/// Returns the threads of servers and backends.
pub(super) fn threads(during: &During<'_>) -> Vec<ThreadUse> {
    let mut all = Vec::new();
    for info in during.last().of(Metric::ProcessInfo, &[]) {
        let (Some(process), Some(role)) =
            (info.series.label(Label::Process), info.series.label(Label::Role))
        else {
            continue;
        };
        if role == Role::Client.name() {
            continue;
        }
        let wanted = [(Label::Process, process)];
        let waits = grown(during, Metric::ProcessRunDelaySeconds, &wanted);
        for (thread, used) in grown(during, Metric::ProcessCpuSeconds, &wanted) {
            let waited = waits.iter().find(|(name, _)| *name == thread).map_or(0.0, |wait| wait.1);
            let (process, is_server) = (process.to_owned(), role == Role::Server.name());
            all.push(ThreadUse { process, thread, is_server, used, waited });
        }
    }
    all
}

/// Returns the growth of a counter of threads per second, by thread.
fn grown(during: &During<'_>, metric: Metric, wanted: &[(Label, &str)]) -> Vec<(String, f64)> {
    let change = during.change();
    let rates = change.rates(metric, wanted);
    rates.filter_map(|(of, rate)| Some((of.label(Label::Thread)?.to_owned(), rate))).collect()
}

/// Returns the busy time of each CPU, per second. Time that the hypervisor took is busy; time of programs at a lower
/// priority is not, because the scheduler prefers the server.
pub(super) fn cpus(during: &During<'_>) -> Vec<(String, f64)> {
    let niced = |cpu: &str| {
        during.rate(Metric::CpuSeconds, &[(Label::Cpu, cpu), (Label::Mode, "nice")]).unwrap_or(0.0)
    };
    let busy = during.change().busy_cpus().into_iter();
    busy.map(|(cpu, busy)| (cpu.to_owned(), (busy - niced(cpu)).max(0.0))).collect()
}

/// Returns the share of the host's CPUs that the hypervisor gave to others.
pub(super) fn stolen(during: &During<'_>) -> f64 {
    let stolen = during.rate(Metric::CpuSeconds, &[(Label::Mode, "steal")]).unwrap_or(0.0);
    stolen / cpus(during).len().max(1) as f64
}

/// Returns every resource whose use can be compared with a capacity. Held connections use no CPU.
pub(super) fn of(during: &During<'_>, axis: Axis) -> Vec<Usage> {
    let is_held = axis == Axis::Connections;
    let mut all = Vec::new();
    if !is_held {
        all = of_cpus(during);
        all.extend(links(during));
        all.extend(disks(during));
    }
    for (limit, most) in during.limits() {
        let cause = cause_of_limit(&limit.id, is_held);
        let Some(cause) = cause else { continue };
        let full = limit.id.kind.full_at();
        all.push(Usage {
            resource: Resource::new(ResourceKind::Limit, limit.id.to_string()),
            cause,
            used: limit.used,
            capacity: limit.max,
            usable: Some(full - PEAKS_MISSED),
            is_full: limit.max > 0.0 && most >= full * limit.max,
        });
    }
    all
}

/// CPUs, threads, processes and quotas.
fn of_cpus(during: &During<'_>) -> Vec<Usage> {
    let mut all = Vec::new();
    let threads = threads(during);
    for thread in &threads {
        let cause = if thread.is_server { Cause::ServerCpu } else { Cause::BackendCpu };
        let is_full = thread.wanted() >= CPU_FULL && thread.used >= 0.5;
        all.push(Usage::of_cpu(thread.resource(), cause, thread.used, is_full));
    }
    add_processes(&threads, &mut all);
    for (cpu, used) in cpus(during) {
        let resource = Resource::new(ResourceKind::Cpu, cpu);
        all.push(Usage::of_cpu(resource, Cause::HostCpu, used, used >= CPU_FULL));
    }
    add_quotas(during, &threads, &mut all);
    all
}

/// Returns the use of interfaces whose speed is known.
fn links(during: &During<'_>) -> Vec<Usage> {
    let speeds = during.last().of(Metric::NetworkSpeed, &[]);
    let link = |speed: &Sample| {
        let device = speed.series.label(Label::Device)?;
        let labels = [(Label::Device, device), (Label::Direction, "transmit")];
        let used = during.rate(Metric::NetworkBytes, &labels)?;
        let name = format!("bytes per second of {device}");
        Some(Usage::of_rate(name, Cause::Link, used, speed.value))
    };
    speeds.filter_map(link).collect()
}

/// Reads and writes of control groups whose disks are limited.
fn disks(during: &During<'_>) -> Vec<Usage> {
    let limited = |(counted, limit, what): (Metric, Metric, &str)| {
        let limits = during.last().of(limit, &[]);
        let used = |limit: &Sample| {
            let label = |label| limit.series.label(label);
            let (group, disk) = (label(Label::Cgroup)?, label(Label::Device)?);
            let direction = label(Label::Direction)?;
            let labels =
                [(Label::Cgroup, group), (Label::Device, disk), (Label::Direction, direction)];
            let used = during.rate(counted, &labels)?;
            let name = format!("{direction} {what} per second of {group} on {disk}");
            Some(Usage::of_rate(name, Cause::Disk, used, limit.value))
        };
        limits.filter_map(used).collect::<Vec<_>>()
    };
    let operations =
        (Metric::CgroupDiskOperations, Metric::CgroupDiskOperationsPerSecondMax, "operations");
    let bytes = (Metric::CgroupDiskBytes, Metric::CgroupDiskBytesPerSecondMax, "bytes");
    [operations, bytes].into_iter().flat_map(limited).collect()
}

/// Processes with several threads, none of which is busy by itself, and which sleep although the CPU is full: those
/// that wait for a CPU have too few of them. One whose runtime moves work has more threads than it may run at once: one
/// CPU for all of them is then no sign of a lock, and the CPU itself is listed.
fn add_processes(threads: &[ThreadUse], all: &mut Vec<Usage>) {
    let processes: BTreeSet<&str> = threads.iter().map(|thread| &*thread.process).collect();
    for process in processes {
        let of_it = || threads.iter().filter(|thread| thread.process == process);
        let used: f64 = of_it().map(|thread| thread.used).sum();
        let busiest = of_it().map(|thread| thread.used).fold(0.0, f64::max);
        let working = || of_it().filter(|thread| thread.used >= WORKS);
        let wanted: f64 = working().map(ThreadUse::wanted).sum();
        let sleeps = wanted <= AWAKE_MAX * working().count() as f64;
        let is_server = of_it().any(|thread| thread.is_server && !thread.moves_work());
        // Beyond one CPU it is not serialised.
        if of_it().count() > 1 && is_server && used <= 1.1 {
            let resource = Resource::new(ResourceKind::ProcessCpu, process);
            let is_full = used >= CPU_FULL && busiest <= 0.6 && sleeps;
            all.push(Usage::of_cpu(resource, Cause::SerialisedProcess, used, is_full));
        }
    }
}

fn add_quotas(during: &During<'_>, threads: &[ThreadUse], all: &mut Vec<Usage>) {
    for quota in during.last().of(Metric::CgroupCpuLimit, &[]) {
        let Some(process) = quota.series.label(Label::Cgroup) else { continue };
        let of_it: Vec<f64> =
            threads.iter().filter(|one| one.process == process).map(|one| one.used).collect();
        if of_it.is_empty() {
            continue;
        }
        let rate = |metric| during.rate(metric, &[(Label::Cgroup, process)]);
        let throttled = rate(Metric::CgroupThrottledPeriods).unwrap_or(0.0);
        let periods = rate(Metric::CgroupPeriods).filter(|periods| *periods > 0.0);
        all.push(Usage {
            resource: Resource::new(ResourceKind::CpuQuota, process),
            cause: Cause::CpuQuota,
            // Others in the group use the quota, too; version 1 does not count them here.
            used: rate(Metric::CgroupCpuSeconds).unwrap_or_else(|| of_it.iter().sum()),
            capacity: quota.value,
            usable: None,
            is_full: periods.is_some_and(|periods| throttled / periods >= THROTTLED_FULL),
        });
    }
}

/// The cause when a limit is full; `None` for what fills as a consequence or does no harm.
const fn cause_of_limit(limit: &LimitId, is_held: bool) -> Option<Cause> {
    Some(match limit.kind {
        LimitKind::Memory if is_held => Cause::Memory,
        LimitKind::WorkerConnections => Cause::WorkerConnections,
        LimitKind::OpenFiles if limit.scope.is_none() => Cause::HostFiles,
        LimitKind::OpenFiles => Cause::OpenFiles,
        LimitKind::TrackedConnections => Cause::Conntrack,
        LimitKind::TcpMemory => Cause::TcpMemory,
        LimitKind::Orphans => Cause::Orphans,
        LimitKind::AddressSpace | LimitKind::CgroupMemory => Cause::Memory,
        LimitKind::CgroupThreads | LimitKind::Threads => Cause::Threads,
        LimitKind::ConnectionRate
        | LimitKind::SessionRate
        | LimitKind::TlsRate
        | LimitKind::FrontendRate => Cause::RateLimit,
        LimitKind::Ports | LimitKind::ServerPorts => Cause::Ports,
        LimitKind::ServerMaxconn => Cause::ServerMaxconn,
        LimitKind::Maxconn | LimitKind::MaxSslConn | LimitKind::FrontendMaxconn => Cause::Maxconn,
        // Caches fill memory, TIME_WAIT overflows without harm, and a queue is full because its server is.
        LimitKind::Memory | LimitKind::TimeWait | LimitKind::AcceptQueue => return None,
        // Only holds read these, and they project them themselves.
        LimitKind::EpollWatches | LimitKind::MaxConnections => return None,
    })
}
