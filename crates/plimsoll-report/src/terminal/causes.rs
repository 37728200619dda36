//! The text of a cause: limiting resource, grade, evidence, and the next limit.
//!
//! [`section`] writes each finding of a summary in order: sentence, evidence, missing evidence, tests, remedy, and
//! the search with the limit raised; below them the next limit and the excluded resources. [`Search`] holds what the
//! wording depends on: the axis, and whether the search found an interval. Names and grades are exhaustive matches.
//! The number passed to [`Page::key`] bounds the lines of an entry in the report on one screen. Start reading at
//! [`section`].

use plimsoll_model::cause::{
    Cause, Evidence, EvidenceUnit, Finding, Grade, Limited, Missing, Projected, Resource,
    ResourceKind,
};
use plimsoll_model::search::Axis;
use plimsoll_model::summary::Summary;
use plimsoll_model::units::grouped;

use super::confirmation;
use super::layout::{Page, clean, per_s, whole};

/// Returns the name of a cause.
const fn title(cause: Cause) -> &'static str {
    match cause {
        Cause::ServerCpu => "the server's CPU",
        Cause::TlsHandshakes => "the server's CPU, for TLS handshakes",
        Cause::HotThread => "one busy thread of the server",
        Cause::SerialisedProcess => "the server's process uses one CPU at a time",
        Cause::SerialSection => "a part of the server that serves one operation at a time",
        Cause::WorkerPool => "the server's pool of workers",
        Cause::ConcurrencyLimit => "a limit of the server on operations at once",
        Cause::SessionCache => "the server's CPU, for TLS sessions that it no longer has",
        Cause::LogWrites => "logs that the server waits for",
        Cause::PeriodicPause => "pauses of the server",
        Cause::ServerMaxconn => "HAProxy's maxconn to its servers",
        Cause::Maxconn => "the server's maxconn",
        Cause::RateLimit => "a rate limit of the server",
        Cause::AddressLimit => "a limit of the server for each client address",
        Cause::WorkerConnections => "nginx's worker_connections",
        Cause::OpenFiles => "the server's limit of open files",
        Cause::AcceptQueue => "the accept queue",
        Cause::BackendCpu => "the backends' CPU",
        Cause::BackendCapacity => "the backends",
        Cause::BackendRefuses => "backends that refuse connections",
        Cause::BackendTimeout => "the proxy's timeouts and retries",
        Cause::HostCpu => "a CPU that server, backends and clients share",
        Cause::CpuQuota => "the CPU quota of the server's control group",
        Cause::NoisyNeighbour => "other programs on the server's CPUs",
        Cause::Steal => "CPU time that the hypervisor gives to others",
        Cause::Ports => "source ports to the backends",
        Cause::HostFiles => "the host's limit of open files",
        Cause::Conntrack => "the table of tracked connections",
        Cause::TcpMemory => "memory of TCP sockets",
        Cause::SynQueue => "the queue of half-open connections",
        Cause::Memory => "memory",
        Cause::MemoryReclaim => "memory that has to be freed first",
        Cause::Disk => "a disk that the server waits for",
        Cause::Threads => "the limit of threads",
        Cause::Orphans => "the limit of orphaned sockets",
        Cause::PacketQueue => "the CPUs' queues of packets",
        Cause::Link => "the network link",
        Cause::PacketLoss => "packets lost on the path",
        Cause::PathLatency => "the path's latency for this number of connections",
        Cause::Unknown => "unknown",
    }
}

const fn grade(grade: Grade) -> &'static str {
    match grade {
        Grade::Unknown => "unknown",
        Grade::Correlated => "correlated only",
        Grade::Predicted => "predicted",
        Grade::Confirmed => "confirmed",
    }
}

/// Returns the evidence that a cause lacks to be predicted.
const fn lacks(missing: Missing) -> &'static str {
    match missing {
        Missing::FullAbove => "it was not seen full above the tipping point",
        Missing::Line => {
            "its use does not grow with the load in a line that meets its limit at the tipping point"
        }
        Missing::Use => {
            "its counter moves when it is full, and nothing that was read says how full it is before"
        }
        Missing::BackendLimit => {
            "the limit of the backends was not read; name their processes with --watch backend:PID"
        }
        Missing::Storm => "a storm of any size fills it, and a larger one for a longer time",
    }
}

/// Returns `CPU of thread haproxy/0`.
fn resource(resource: &Resource) -> String {
    let name = clean(&resource.name);
    match resource.kind {
        ResourceKind::ThreadCpu => format!("CPU of thread {name}"),
        ResourceKind::ProcessCpu => format!("CPU of process {name}"),
        ResourceKind::Cpu => format!("CPU {name}"),
        ResourceKind::CpuQuota => format!("CPU quota of {name}"),
        ResourceKind::Limit | ResourceKind::Counter | ResourceKind::Concurrency => name,
        ResourceKind::Unknown => "what was not watched".to_owned(),
    }
}

/// The words for the figures of a search.
#[derive(Clone, Copy)]
struct Search {
    axis: Axis,
    /// `true` if the search ended with an interval.
    has_tip: bool,
}

impl Search {
    fn of(summary: &Summary) -> Self {
        let find = summary.result.find();
        Self {
            axis: find.map_or(Axis::Rate, |find| find.axis),
            has_tip: find.is_some_and(|find| find.found.lower.and(find.found.upper).is_some()),
        }
    }

    fn load(self, load: f64) -> String {
        match self.axis {
            Axis::Connections => whole(&format!("{} connections", grouped(load as u64))),
            _ => per_s(load),
        }
    }

    /// Returns `21,900/s to 23,100/s`.
    fn loads(self, projected: &Projected) -> String {
        match projected.upper {
            Some(upper) => format!("{} to {}", self.load(projected.lower), self.load(upper)),
            None => format!("{} or more", self.load(projected.lower)),
        }
    }

    /// Returns `process_cpu_seconds_total haproxy/0: 93 % below, 100 % above, of 100 %`.
    fn evidence(self, evidence: &Evidence) -> String {
        let unit = evidence.unit;
        let limit = evidence.limit;
        let of =
            limit.map_or_else(String::new, |limit| format!(", of {}", value(Some(limit), unit)));
        let (below, above) = (value(evidence.below, unit), value(evidence.above, unit));
        let counter = clean(&evidence.counter);
        if self.axis == Axis::Storm {
            return format!("{counter}: {above} until the clients were back{of}");
        }
        match (self.has_tip, evidence.below) {
            (true, Some(_)) => {
                format!("{counter}: {below} below the tipping point, {above} above{of}")
            }
            (true, None) => format!("{counter}: {above} above the tipping point{of}"),
            (false, Some(_)) => {
                format!("{counter}: {below} where the SLO was met, {above} where it was not{of}")
            }
            (false, None) => format!("{counter}: {above} where the SLO was not met{of}"),
        }
    }

    /// Returns `CPU of thread agent/1 on backends (47,700/s)`; without a host where that is `usual`.
    fn limited(self, limited: &Limited, usual: &str) -> String {
        let Limited { resource: which, host, projected } = limited;
        let load = match projected.upper {
            Some(_) => self.load(projected.at),
            None => self.loads(projected),
        };
        let on = if host == usual { String::new() } else { format!(" on {}", clean(host)) };
        format!("{}{on} ({load})", resource(which))
    }
}

fn value(value: Option<f64>, unit: EvidenceUnit) -> String {
    let Some(value) = value else { return "not read".to_owned() };
    whole(&match unit {
        EvidenceUnit::Cpus | EvidenceUnit::Ratio => format!("{:.0} %", value * 100.0),
        EvidenceUnit::PerS => per_s(value),
        EvidenceUnit::Count if value >= 10.0 => format!("{value:.0}"),
        EvidenceUnit::Count => format!("{value:.1}"),
    })
}

/// Writes the limiting resources, below the facts of a search; nothing if none was found or diagnosed.
pub(super) fn section(page: &mut Page, summary: &Summary) {
    let causes = summary.causes.as_deref().unwrap_or_default();
    let search = Search::of(summary);
    for (index, cause) in causes.iter().enumerate() {
        let (label, most) = if index == 0 { ("Cause", 2) } else { ("and", 0) };
        page.key(most, |page| page.entry(label, &sentence(search, cause)));
        for line in &cause.evidence {
            page.entry("", &search.evidence(line));
        }
        if let Some(missing) = cause.missing {
            page.entry("", &format!("not predicted: {}", lacks(missing)));
        }
        for (test, confirmation) in cause.confirmations.iter().enumerate() {
            let most = if (index, test) == (0, 0) { 3 } else { 0 };
            page.key(most, |page| page.entry("Test", &confirmation::sentence(confirmation)));
        }
        if cause.cause != Cause::Unknown {
            let most = if index == 0 { 3 } else { 0 };
            page.key(most, |page| page.entry("Remedy", &cause.remedy));
        }
        if let Some(remedied) = &cause.remedied {
            page.entry("Raised", &confirmation::remedied(remedied));
            for limit in &remedied.causes {
                page.entry("", &format!("the limit then: {}", sentence(search, limit)));
            }
        }
    }
    let Some(first) = causes.first() else { return };
    if let Some(next) = &first.next {
        let (which, host) = (resource(&next.resource), clean(&next.host));
        let text = format!("{which} on {host}, full at {}", search.loads(&next.projected));
        page.key(1, |page| page.entry("Next", &text));
    }
    if !first.excluded.is_empty() {
        let limited = |one: &Limited| search.limited(one, &first.host);
        let items: Vec<String> = first.excluded.iter().map(limited).collect();
        page.entry("Excluded", &format!("would last longer: {}", items.join(", ")));
    }
}

/// Returns `the server's CPU (CPU of thread haproxy/0 on lab), predicted: full at 21,900/s to 23,100/s`.
fn sentence(search: Search, cause: &Finding) -> String {
    if cause.cause == Cause::Unknown {
        let at = match search.axis {
            Axis::Storm => "until the clients of a storm were back",
            _ if search.has_tip => "at the tipping point",
            _ => "where the SLO was not met",
        };
        return format!("unknown: nothing that was read was full or moved {at}");
    }
    let mut text = format!(
        "{} ({} on {}), {}",
        title(cause.cause),
        resource(&cause.resource),
        clean(&cause.host),
        grade(cause.grade)
    );
    if let Some(projected) = &cause.predicted_at {
        text.push_str(&format!(": full at {}", search.loads(projected)));
    }
    text
}
