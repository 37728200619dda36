//! Checks of the host that made the load: CPU, scheduling, network and memory.
//!
//! Each function reads the [`Subject`] and returns one [`Check`], or `None` without a reading. A shortage fails only
//! if it can have decided the verdict ([`Subject::decides`], [`Subject::decides_unmeasured`]); otherwise it is a
//! warning. A server on the same host may fill its CPUs, so [`host_cpu`] passes there and [`scheduling`] decides.
//! Most figures are shares from 0 to 1. Start reading at [`scheduling`].

use plimsoll_model::Nanos;
use plimsoll_model::observation::Scheduling;
use plimsoll_model::slo::Goal;
use plimsoll_model::trial::{Check, CheckId, Level, Measure};

use super::subject::Subject;

/// Share of a worker thread's wall time.
const CPU_FAIL: f64 = 0.90;
const CPU_WARN: f64 = 0.70;
/// Share of all CPUs of the host.
const HOST_CPU_FAIL: f64 = 0.95;
pub(crate) const HOST_CPU_WARN: f64 = 0.85;
/// Share of wall time: ready to run and not running.
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
/// The kernel's usual period of a CPU quota: a throttled one is stopped for a part of it.
const CGROUP_PERIOD: Nanos = Nanos::from_millis(100);
/// Operations that may be late for each one that was due while the generator was stopped.
const THROTTLED_SPREAD: f64 = 3.0;
const LINK_FAIL: f64 = 0.90;
const RETRANSMITS_WARN: f64 = 0.001;
/// Packets dropped here, over the segments that the load sent again, from which on the drops explain them. One packet
/// of an interface may be several segments.
const DROPS_EXPLAIN: f64 = 0.1;
/// Share of the lowest limit on memory.
const MEMORY_FAIL: f64 = 0.90;
const MEMORY_WARN: f64 = 0.75;
/// Share of time in which every task waited for memory.
const MEMORY_STALL_FAIL: f64 = 0.001;

/// Checks that no worker thread was saturated, so answers did not wait in this process.
pub(super) fn generator_cpu(subject: &Subject<'_>) -> Check {
    let busiest = subject.tally.generator.busiest_thread;
    let level = Level::of(subject.decides_unmeasured() && busiest > CPU_FAIL, busiest > CPU_WARN);
    let busiest = Measure::ratio("busiest thread", busiest).at_most(CPU_FAIL);
    Check::new(CheckId::GeneratorCpu, level, [busiest])
}

/// Checks that the host had CPU to spare.
///
/// A server on the same host is searched until its CPUs are full: that is the answer, not a fault.
/// [`scheduling`] and the send lag show if the generator got its part of them.
pub(super) fn host_cpu(subject: &Subject<'_>) -> Option<Check> {
    let busy = subject.observations.host_cpu?;
    let is_shared = subject.observations.shared_cpus.is_some();
    let spoils = busy > HOST_CPU_FAIL && !is_shared;
    let level =
        Level::of(subject.decides_unmeasured() && spoils, busy > HOST_CPU_WARN && !is_shared);
    let limit = (!is_shared).then_some(HOST_CPU_FAIL);
    let busy = Measure::ratio("all CPUs", busy).at_most(limit);
    Some(Check::new(CheckId::HostCpu, level, [busy]))
}

/// Checks that threads that were ready ran.
pub(super) fn scheduling(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.observations.scheduling?;
    let throttled = seen.throttled_periods.unwrap_or(0);
    let wait_max = wait_max(subject.deadline);
    let stolen = seen.steal.unwrap_or(0.0);
    let delayed = seen.run_delay.unwrap_or(0.0);
    let spoils = delays(&seen, DELAY_FAIL, wait_max)
        || delayed > STARVED_FAIL
        || stolen > STEAL_FAIL
        || throttling_spoils(subject, throttled);
    let alarms = throttled > 0
        || delays(&seen, DELAY_WARN, Nanos(wait_max.0 / 2))
        || delayed > STARVED_WARN
        || stolen > STEAL_WARN;
    // Short waits do no harm until they starve the thread.
    let is_long = seen.wait_mean.is_none_or(|mean| mean > wait_max);
    let delay_max = if is_long { DELAY_FAIL } else { STARVED_FAIL };
    let ratio = |name, seen: Option<f64>, most: f64| {
        seen.map(|seen| Measure::ratio(name, seen).at_most(most))
    };
    let measures: Vec<_> = [
        ratio("ready but not running", seen.run_delay, delay_max),
        seen.wait_mean.map(|mean| Measure::span("mean wait", mean)),
        ratio("stolen", seen.steal, STEAL_FAIL),
        Some(Measure::count("throttled periods", throttled).at_most(throttled_max(subject))),
    ]
    .into_iter()
    .flatten()
    .collect();
    let level = Level::of(subject.decides_unmeasured() && spoils, spoils || alarms);
    Some(Check::new(CheckId::Scheduling, level, measures))
}

/// Throttled periods that a trial may have whatever it missed.
fn throttled_max(subject: &Subject<'_>) -> f64 {
    (DELAY_FAIL * subject.window.as_secs_f64() / CGROUP_PERIOD.as_secs_f64()).floor()
}

/// Reports whether the periods in which a cgroup stopped the generator are long enough to have made the
/// operations late that missed the goal: under a quota single ones are usual.
fn throttling_spoils(subject: &Subject<'_>, periods: u64) -> bool {
    let stopped_s = periods as f64 * CGROUP_PERIOD.as_secs_f64();
    let share = (stopped_s / subject.window.as_secs_f64().max(1e-3)).min(1.0);
    let is_missed = |goal: &Goal| subject.losses.misses(goal, THROTTLED_SPREAD * share);
    share > DELAY_FAIL && !subject.goals().iter().any(is_missed)
}

/// The mean wait for a CPU that harms no latency worth a verdict.
fn wait_max(deadline: Option<Nanos>) -> Nanos {
    deadline.map_or(WAIT_MIN, |deadline| {
        Nanos((deadline.0 as f64 * WAIT_OF_DEADLINE) as u64).max(Nanos(WAIT_MIN.0 / 2))
    })
}

/// Reports whether threads waited for more than `share` of the time, and for long. Where only the share is
/// known, it decides.
fn delays(seen: &Scheduling, share: f64, wait: Nanos) -> bool {
    seen.run_delay.is_some_and(|delay| delay > share)
        && seen.wait_mean.is_none_or(|mean| mean > wait)
}

/// Checks that no packet was lost on our side of the network.
///
/// Interfaces also count packets as dropped that no socket here listens to. Drops matter only if the load's own sockets
/// had to retransmit, and no more often than packets were dropped. Other losses occurred further on, or a full server
/// refused the packets.
pub(super) fn network(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.observations.network?;
    let link = seen.link.unwrap_or(0.0);
    let is_explained =
        seen.drops > 0 && seen.drops as f64 >= DROPS_EXPLAIN * seen.sent_again as f64;
    let loses = is_explained && seen.retransmits > RETRANSMITS_WARN;
    let spoils = loses || link > LINK_FAIL;
    // Without a drop here, what is sent again was lost further on.
    let again_max = is_explained.then_some(RETRANSMITS_WARN);
    let mut measures = vec![
        Measure::ratio("segments sent again", seen.retransmits).at_most(again_max),
        Measure::count("packets dropped", seen.drops),
    ];
    measures.extend(seen.link.map(|link| Measure::ratio("link", link).at_most(LINK_FAIL)));
    let warns = spoils || seen.retransmits > RETRANSMITS_WARN;
    let level = Level::of(subject.decides() && spoils, warns);
    Some(Check::new(CheckId::GeneratorNetwork, level, measures))
}

/// Checks that the generating processes had memory.
pub(super) fn memory(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.observations.memory?;
    let spoils = seen.resident > MEMORY_FAIL || seen.stalled > MEMORY_STALL_FAIL;
    let measures = [
        Measure::ratio("of the limit", seen.resident).at_most(MEMORY_FAIL),
        Measure::ratio("of the time stalled", seen.stalled).at_most(MEMORY_STALL_FAIL),
    ];
    let level =
        Level::of(subject.decides_unmeasured() && spoils, spoils || seen.resident > MEMORY_WARN);
    Some(Check::new(CheckId::GeneratorMemory, level, measures))
}

/// Warns if client and server run on one host and take each other's CPU time.
pub(super) fn co_location(subject: &Subject<'_>) -> Option<Check> {
    let shared = subject.observations.shared_cpus?;
    let shared = Measure::ratio("generator CPUs that the server may use", shared).at_most(0.0);
    Some(Check::new(CheckId::CoLocation, Level::Warn, [shared]))
}
