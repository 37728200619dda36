//! Was the machine that made the load up to it?

use plimsoll_model::trial::Check;

use crate::verdict::level;
use crate::verdict::percent;

use super::Subject;
use super::check;

/// Of a worker thread's wall time.
const CPU_FAIL: f64 = 0.90;
const CPU_WARN: f64 = 0.70;
/// Of all CPUs of the host.
const HOST_CPU_FAIL: f64 = 0.95;
const HOST_CPU_WARN: f64 = 0.85;
/// Of wall time: ready to run and not running, or stolen.
const DELAY_FAIL: f64 = 0.02;
const DELAY_WARN: f64 = 0.01;
const LINK_FAIL: f64 = 0.90;
const RETRANSMITS_WARN: f64 = 0.001;
/// Of the lowest limit on memory.
const MEMORY_FAIL: f64 = 0.90;
const MEMORY_WARN: f64 = 0.75;
/// Share of time in which every task waited for memory.
const MEMORY_STALL_FAIL: f64 = 0.001;

/// V7: no worker thread was saturated, so answers did not wait in this process.
pub(super) fn generator_cpu(subject: &Subject<'_>) -> Check {
    let busiest = subject.tally.generator.busiest_thread;
    check(
        "generator-cpu",
        format!("busiest thread {}", percent(busiest)),
        format!("at most {}", percent(CPU_FAIL)),
        level(subject.decides() && busiest > CPU_FAIL, busiest > CPU_WARN),
    )
}

/// V7: the host had CPU to spare.
pub(super) fn host_cpu(subject: &Subject<'_>) -> Option<Check> {
    let busy = subject.witnesses.host_cpu?;
    Some(check(
        "host-cpu",
        format!("{} of all CPUs", percent(busy)),
        format!("at most {}", percent(HOST_CPU_FAIL)),
        level(subject.decides() && busy > HOST_CPU_FAIL, busy > HOST_CPU_WARN),
    ))
}

/// V8: threads that were ready ran.
pub(super) fn scheduling(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.witnesses.scheduling?;
    let told = |share: Option<f64>| share.map_or_else(|| "unknown".to_owned(), percent);
    let worst = seen.run_delay.unwrap_or(0.0).max(seen.steal.unwrap_or(0.0));
    let throttled = seen.throttled_periods.unwrap_or(0);
    let spoils = worst > DELAY_FAIL || throttled > 0;
    Some(check(
        "scheduling",
        format!(
            "ready but not running {}, stolen {}, throttled {throttled} times",
            told(seen.run_delay),
            told(seen.steal)
        ),
        format!("at most {} each, never throttled", percent(DELAY_FAIL)),
        level(subject.decides() && spoils, worst > DELAY_WARN || throttled > 0),
    ))
}

/// V11: nothing was lost on our side of the network.
pub(super) fn network(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.witnesses.network?;
    let link = seen.link.unwrap_or(0.0);
    let spoils = seen.drops > 0 || link > LINK_FAIL;
    Some(check(
        "generator-network",
        format!(
            "{} packets dropped, {} sent again, link at {}",
            seen.drops,
            percent(seen.retransmits),
            seen.link.map_or_else(|| "unknown load".to_owned(), percent)
        ),
        format!("nothing dropped, link at most {}", percent(LINK_FAIL)),
        level(subject.decides() && spoils, spoils || seen.retransmits > RETRANSMITS_WARN),
    ))
}

/// V13: the generating processes had memory.
pub(super) fn memory(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.witnesses.memory?;
    let spoils = seen.resident > MEMORY_FAIL || seen.stalled > MEMORY_STALL_FAIL;
    Some(check(
        "generator-memory",
        format!(
            "{} of the limit, {} of the time stalled",
            percent(seen.resident),
            percent(seen.stalled)
        ),
        format!("at most {}, {} stalled", percent(MEMORY_FAIL), percent(MEMORY_STALL_FAIL)),
        level(subject.decides() && spoils, spoils || seen.resident > MEMORY_WARN),
    ))
}

/// V16: on one host the two sides take each other's time; the reader has to know.
pub(super) fn co_location(subject: &Subject<'_>) -> Option<Check> {
    let shared = subject.witnesses.shared_cpus?;
    Some(check(
        "co-location",
        format!("generator and server share {} of the CPUs", percent(shared)),
        "separate hosts, or at least separate CPUs".to_owned(),
        level(false, true),
    ))
}
