//! Counters that stand still on a healthy host: shown only when they move.

use std::collections::BTreeMap;

use plimsoll_model::host::{Change, Label, Metric};
use plimsoll_model::stats::upper_median;
use plimsoll_model::units::grouped;

use super::history::History;

/// Counters of events, the most telling first, with the words for one interval.
const EVENTS: &[(Metric, &str)] = &[
    (Metric::OomKills, "processes killed for lack of memory"),
    (Metric::TcpListenOverflows, "connections found an accept queue full"),
    (Metric::TcpListenDrops, "SYNs dropped by listeners"),
    (Metric::TcpSynQueueFull, "SYNs found the SYN queue full"),
    (Metric::TcpSyncookiesSent, "SYN cookies sent"),
    (Metric::CgroupThrottledPeriods, "scheduling periods throttled by a CPU quota"),
    (Metric::CgroupMemoryEvents, "memory limit events of a control group"),
    (Metric::CgroupPidsRefused, "threads refused by a control group"),
    (Metric::TcpBacklogDrops, "segments dropped at a full socket backlog"),
    (Metric::TcpReceiveQueueDrops, "segments dropped at a full receive buffer"),
    (Metric::SoftnetDropped, "packets dropped at a full input queue"),
    (Metric::NetworkDrops, "packets dropped by interfaces"),
    (Metric::TcpMemoryPressures, "times under TCP memory pressure"),
    (Metric::ConntrackDrops, "connections not tracked for lack of room"),
    (Metric::HaproxyMaxconnReached, "times HAProxy reached maxconn"),
    (Metric::HaproxyPoolFailures, "failed allocations in HAProxy"),
    (Metric::HaproxyConnectErrors, "failed connections from HAProxy to backends"),
    (Metric::TcpTimeouts, "retransmission timeouts"),
    (Metric::TcpSynRetransmitted, "SYNs sent again"),
    (Metric::AllocationStalls, "allocations that had to reclaim memory"),
    (Metric::TcpTimeWaitOverflows, "sockets found the TIME_WAIT table full"),
    (Metric::HaproxyDroppedLogs, "log lines dropped by HAProxy"),
];

/// Returns the events of the interval, as text: `12/s SYN cookies sent`; empty on a healthy host.
pub(crate) fn events(change: &Change<'_>) -> Vec<String> {
    let moved = |(metric, words): &(Metric, &str)| {
        let rate = change.rate(*metric, &[])?;
        (rate > 0.0).then(|| format!("{}/s {words}", rate_text(rate)))
    };
    EVENTS.iter().filter_map(moved).collect()
}

/// Returns a rate without its unit, with the digits that matter.
pub(crate) fn rate_text(per_s: f64) -> String {
    if per_s == 0.0 || per_s >= 9.95 {
        grouped(per_s.round() as u64)
    } else {
        format!("{per_s:.1}")
    }
}

/// Returns the fraction of each CPU that was busy, and of it softirq and steal; sorted by CPU.
pub(crate) fn cpus(change: &Change<'_>) -> Vec<Cpu> {
    let cpu = |(name, busy): (&str, f64)| {
        let number = name.parse().ok()?;
        Some((number, Cpu { number, busy, ..Cpu::default() }))
    };
    let mut cpus: BTreeMap<u32, Cpu> = change.busy_cpus().into_iter().filter_map(cpu).collect();
    for (series, per_s) in change.rates(Metric::CpuSeconds, &[]) {
        let number = series.label(Label::Cpu).and_then(|cpu| cpu.parse::<u32>().ok());
        let Some(cpu) = number.and_then(|number| cpus.get_mut(&number)) else { continue };
        match series.label(Label::Mode) {
            Some("softirq") => cpu.softirq = per_s,
            Some("steal") => cpu.steal = per_s,
            _ => {}
        }
    }
    cpus.into_values().collect()
}

/// Returns [`cpus`] in the last interval of `history`, with their speeds.
pub(crate) fn cpus_now(history: &History) -> Vec<Cpu> {
    let Some(change) = history.change() else { return Vec::new() };
    let mut cpus = cpus(&change);
    for cpu in &mut cpus {
        let number = cpu.number.to_string();
        let took = |change: Change<'_>| {
            let labels = [(Label::Cpu, number.as_str())];
            let pieces = change.grown(Metric::YardstickPieces, &labels).filter(|n| *n > 0.0)?;
            Some(change.grown(Metric::YardstickSeconds, &labels)? / pieces)
        };
        let median = upper_median(history.changes().filter_map(took));
        cpu.speed = median.zip(took(change)).map(|(median, now)| median / now);
    }
    cpus
}

/// One CPU in one interval.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cpu {
    /// Number of the reading.
    pub(crate) number: u32,
    /// Fraction of the time that was not idle, 0 to 1, as in [`Change::busy_cpus`].
    pub(crate) busy: f64,
    /// Fraction in softirq.
    pub(crate) softirq: f64,
    /// Fraction stolen by the hypervisor.
    pub(crate) steal: f64,
    /// Speed of the yardstick's piece of work, 1 for the median of the history.
    pub(crate) speed: Option<f64>,
}

/// Returns the thread that used most CPU: its process, its name, the fraction of a CPU it used, and the
/// fraction of the time it was ready but waited for one.
pub(crate) fn busiest_thread(change: &Change<'_>) -> Option<(String, f64, f64)> {
    let rates = change.rates(Metric::ProcessCpuSeconds, &[]);
    let (series, busy) = rates.max_by(|a, b| a.1.total_cmp(&b.1))?;
    let (process, thread) = (series.label(Label::Process)?, series.label(Label::Thread)?);
    let of_it = [(Label::Process, process), (Label::Thread, thread)];
    let delay = change.rate(Metric::ProcessRunDelaySeconds, &of_it).unwrap_or_default();
    Some((format!("{process}, thread {thread}"), busy, delay))
}

/// Returns bytes and packets per second in and out of all interfaces but loopback, and of loopback.
pub(crate) fn traffic(change: &Change<'_>, loopback: bool) -> Traffic {
    let sum = |metric, direction| {
        change
            .rates(metric, &[(Label::Direction, direction)])
            .filter(|(series, _)| (series.label(Label::Device) == Some("lo")) == loopback)
            .map(|(_, rate)| rate)
            .sum()
    };
    Traffic {
        bytes_in: sum(Metric::NetworkBytes, "receive"),
        bytes_out: sum(Metric::NetworkBytes, "transmit"),
        packets_in: sum(Metric::NetworkPackets, "receive"),
        packets_out: sum(Metric::NetworkPackets, "transmit"),
    }
}

/// Traffic, per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Traffic {
    pub(crate) bytes_in: f64,
    pub(crate) bytes_out: f64,
    pub(crate) packets_in: f64,
    pub(crate) packets_out: f64,
}

impl Traffic {
    pub(crate) fn is_none(&self) -> bool {
        *self == Self::default()
    }
}
