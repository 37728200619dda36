//! The text of a cause: the limiting resource, how sure that is, what was read, and the next limit.

use std::io;

use plimsoll_model::cause::{
    Cause, Evidence, EvidenceUnit, Finding, Grade, Limited, Projected, Resource, ResourceKind,
};
use plimsoll_model::summary::Summary;

use super::layout::{Page, clean, per_s, whole};

/// What a cause is called.
const fn title(cause: Cause) -> &'static str {
    match cause {
        Cause::ServerCpu => "the server's CPU",
        Cause::TlsHandshakes => "the server's CPU, for TLS handshakes",
        Cause::HotThread => "one busy thread of the server",
        Cause::SerialisedProcess => "the server's process uses one CPU at a time",
        Cause::ServerMaxconn => "HAProxy's maxconn to its servers",
        Cause::Maxconn => "the server's maxconn",
        Cause::RateLimit => "a rate limit of the server",
        Cause::OpenFiles => "the server's limit of open files",
        Cause::AcceptQueue => "the accept queue",
        Cause::BackendCpu => "the backends' CPU",
        Cause::BackendCapacity => "the backends",
        Cause::BackendRefuses => "backends that refuse connections",
        Cause::HostCpu => "a CPU that server, backends and clients share",
        Cause::CpuQuota => "the CPU quota of the server's control group",
        Cause::NoisyNeighbour => "other programs on the server's CPUs",
        Cause::Ports => "source ports to the backends",
        Cause::HostFiles => "the host's limit of open files",
        Cause::Conntrack => "the table of tracked connections",
        Cause::TcpMemory => "memory of TCP sockets",
        Cause::SynQueue => "the queue of half-open connections",
        Cause::Memory => "memory",
        Cause::Threads => "the limit of threads",
        Cause::Orphans => "the limit of orphaned sockets",
        Cause::PacketQueue => "the CPUs' queues of packets",
        Cause::Link => "the network link",
        Cause::PacketLoss => "packets lost on the path",
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

/// `CPU of thread haproxy/0`.
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

/// `21,900/s to 23,100/s`.
fn loads(projected: &Projected) -> String {
    match projected.upper {
        Some(upper) => format!("{} to {}", per_s(projected.lower), per_s(upper)),
        None => format!("{} or more", per_s(projected.lower)),
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

/// `process_cpu_seconds_total haproxy/0: 93 % below, 100 % above, of 100 %`.
fn evidence(evidence: &Evidence) -> String {
    let of = evidence
        .limit
        .map_or_else(String::new, |limit| format!(", of {}", value(Some(limit), evidence.unit)));
    format!(
        "{}: {} below the tipping point, {} above{of}",
        clean(&evidence.counter),
        value(evidence.below, evidence.unit),
        value(evidence.above, evidence.unit)
    )
}

fn limited(limited: &Limited) -> String {
    format!("{} ({})", resource(&limited.resource), per_s(limited.projected.at))
}

/// The limiting resources, below the facts of a search; nothing where none was found or diagnosed.
pub(super) fn section(page: &mut Page<'_>, summary: &Summary) -> io::Result<()> {
    let causes = summary.causes.as_deref().unwrap_or_default();
    for (index, cause) in causes.iter().enumerate() {
        page.entry(if index == 0 { "Cause" } else { "and" }, &sentence(cause))?;
        for line in &cause.evidence {
            page.entry("", &evidence(line))?;
        }
        if cause.cause != Cause::Unknown {
            page.entry("Remedy", &cause.remedy)?;
        }
    }
    let Some(first) = causes.first() else { return Ok(()) };
    if let Some(next) = &first.next {
        let text = format!("{}, full at {}", resource(&next.resource), loads(&next.projected));
        page.entry("Next", &text)?;
    }
    if !first.excluded.is_empty() {
        let items: Vec<String> = first.excluded.iter().map(limited).collect();
        page.entry("Excluded", &format!("would last longer: {}", items.join(", ")))?;
    }
    Ok(())
}

/// `the server's CPU (CPU of thread haproxy/0 on lab), predicted: full at 21,900/s to 23,100/s`.
fn sentence(cause: &Finding) -> String {
    if cause.cause == Cause::Unknown {
        return "unknown: nothing that was read was full or moved at the tipping point".to_owned();
    }
    let mut text = format!(
        "{} ({} on {}), {}",
        title(cause.cause),
        resource(&cause.resource),
        clean(&cause.host),
        grade(cause.grade)
    );
    if let Some(projected) = &cause.predicted_at {
        text.push_str(&format!(": full at {}", loads(projected)));
    }
    text
}
