//! Was the machine that made the load up to it?

use plimsoll_model::Nanos;
use plimsoll_model::trial::Check;
use plimsoll_model::witness::Scheduling;

use crate::verdict::{level, percent};

use super::{Subject, check};

/// Of a worker thread's wall time.
const CPU_FAIL: f64 = 0.90;
const CPU_WARN: f64 = 0.70;
/// Of all CPUs of the host.
const HOST_CPU_FAIL: f64 = 0.95;
const HOST_CPU_WARN: f64 = 0.85;
/// Of wall time: ready to run and not running.
const DELAY_FAIL: f64 = 0.02;
const DELAY_WARN: f64 = 0.01;
/// A thread that shares its CPU waits often. Waits so short, of the deadline, do no harm: a
/// hundredth on the way out and another on the way back stay below what send lag may take.
const WAIT_OF_DEADLINE: f64 = 0.01;
const WAIT_MIN: Nanos = Nanos::from_millis(1);
/// A thread that is kept from running for so long is starved, however short its turns and waits are:
/// the kernel gives one that asks for short slices many of both.
const STARVED_FAIL: f64 = 1.0 / 3.0;
const STARVED_WARN: f64 = 0.2;
/// Stolen from the host: of its CPU time. Virtual machines lose some per cent all the time, and the
/// server its part of them.
const STEAL_FAIL: f64 = 0.10;
const STEAL_WARN: f64 = 0.02;
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
///
/// A server on the same host is searched until its CPUs are full: that is the answer, not a fault.
/// Whether the generator got its part of them is said by [`scheduling`] and by the send lag.
pub(super) fn host_cpu(subject: &Subject<'_>) -> Option<Check> {
    let busy = subject.witnesses.host_cpu?;
    let is_shared = subject.witnesses.shared_cpus.is_some();
    let spoils = busy > HOST_CPU_FAIL && !is_shared;
    Some(check(
        "host-cpu",
        format!("{} of all CPUs", percent(busy)),
        match is_shared {
            true => format!("at most {}, where the server is elsewhere", percent(HOST_CPU_FAIL)),
            false => format!("at most {}", percent(HOST_CPU_FAIL)),
        },
        level(subject.decides() && spoils, busy > HOST_CPU_WARN && !is_shared),
    ))
}

/// V8: threads that were ready ran.
pub(super) fn scheduling(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.witnesses.scheduling?;
    let told = |share: Option<f64>| share.map_or_else(|| "unknown".to_owned(), percent);
    let throttled = seen.throttled_periods.unwrap_or(0);
    let wait_max = wait_max(subject.deadline);
    let stolen = seen.steal.unwrap_or(0.0);
    let delayed = seen.run_delay.unwrap_or(0.0);
    let spoils = delays(&seen, DELAY_FAIL, wait_max)
        || delayed > STARVED_FAIL
        || stolen > STEAL_FAIL
        || throttled > 0;
    let alarms = delays(&seen, DELAY_WARN, Nanos(wait_max.0 / 2))
        || delayed > STARVED_WARN
        || stolen > STEAL_WARN;
    let waits = seen.wait_mean.map(|mean| format!(" ({mean} at a time)")).unwrap_or_default();
    Some(check(
        "scheduling",
        format!(
            "ready but not running {}{waits}, stolen {}, throttled {throttled} times",
            told(seen.run_delay),
            told(seen.steal)
        ),
        format!(
            "at most {} in waits over {wait_max} or {} in shorter ones, {} stolen, never throttled",
            percent(DELAY_FAIL),
            percent(STARVED_FAIL),
            percent(STEAL_FAIL)
        ),
        level(subject.decides() && spoils, spoils || alarms),
    ))
}

/// The mean wait for a CPU that harms no latency worth a verdict.
fn wait_max(deadline: Option<Nanos>) -> Nanos {
    deadline.map_or(WAIT_MIN, |deadline| {
        Nanos((deadline.0 as f64 * WAIT_OF_DEADLINE) as u64).max(Nanos(WAIT_MIN.0 / 2))
    })
}

/// Whether threads waited for more than `share` of the time, and for long. Where only the share is
/// known, it decides.
fn delays(seen: &Scheduling, share: f64, wait: Nanos) -> bool {
    seen.run_delay.is_some_and(|delay| delay > share)
        && seen.wait_mean.is_none_or(|mean| mean > wait)
}

/// V11: nothing was lost on our side of the network.
///
/// Interfaces also count as dropped what nobody here listens to; it matters where TCP had to send
/// again. What is sent again without a drop here was lost further on, or refused by a full server.
pub(super) fn network(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.witnesses.network?;
    let link = seen.link.unwrap_or(0.0);
    let loses = seen.drops > 0 && seen.retransmits > RETRANSMITS_WARN;
    let spoils = loses || link > LINK_FAIL;
    Some(check(
        "generator-network",
        format!(
            "{} packets dropped, {} sent again, link at {}",
            seen.drops,
            percent(seen.retransmits),
            seen.link.map_or_else(|| "unknown load".to_owned(), percent)
        ),
        format!(
            "no drops with over {} sent again, link at most {}",
            percent(RETRANSMITS_WARN),
            percent(LINK_FAIL)
        ),
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
        format!("the server may use {} of the generator's CPUs, too", percent(shared)),
        "separate hosts, or at least separate CPUs".to_owned(),
        level(false, true),
    ))
}
