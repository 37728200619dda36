//! Was it the generator? Checks whose failure makes a trial INVALID instead of BAD.
//!
//! Late sending and a busy generator make latency worse and never better, because latency counts
//! from the intended start. So `send-lag`, `generator-cpu` and `pool` can only spoil a trial that
//! missed a goal: a GOOD one stays GOOD and they become warnings. `rate-fidelity`, `accounting` and
//! `local-errors` say that the load was not the one asked for, or that the figures are wrong; they
//! always fail.

use plimsoll_model::ErrorClass;
use plimsoll_model::Fault;
use plimsoll_model::Nanos;
use plimsoll_model::slo::Goal;
use plimsoll_model::slo::Slo;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::Check;
use plimsoll_model::trial::Level;

use crate::verdict::Context;
use crate::verdict::Losses;
use crate::verdict::level;
use crate::verdict::percent;
use crate::verdict::server_time;

/// Below this share of what the plan asked for, the load was another one.
const FIDELITY_FAIL: f64 = 0.99;
const FIDELITY_WARN: f64 = 0.999;
/// Send lag below this is not worth a verdict, whatever the deadline.
const LAG_P99_MIN: Nanos = Nanos::from_millis(1);
/// Without a deadline nothing says how much lag is too much; far above any latency of interest.
const LAG_P99_NO_DEADLINE: Nanos = Nanos::from_millis(10);
/// Deadlines shorter than this leave p99.9 to the scheduler of the operating system.
const LAG_P999_DEADLINE_MIN: Nanos = Nanos::from_millis(20);
/// One operation sent late is sent in a burst with its neighbours, and near saturation the queue
/// that the burst leaves takes 1/(1 - utilisation) times as long to go: up to this many
/// operations may be late because of one that was sent late.
const LAG_SPREAD: f64 = 20.0;
const CPU_FAIL: f64 = 0.90;
const CPU_WARN: f64 = 0.70;
/// A server whose own time is within this factor of its unloaded time is not what operations
/// waited for.
const POOL_UNLOADED_FACTOR: f64 = 1.5;

/// What is examined.
pub(crate) struct Subject<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) losses: &'a Losses<'a>,
    pub(crate) slo: Option<&'a Slo>,
    pub(crate) deadline: Option<Nanos>,
    pub(crate) aborted: bool,
    /// Operations come on a schedule.
    pub(crate) open: bool,
    /// Operations that the plan puts into the window, where that is known.
    pub(crate) planned_ops: Option<f64>,
    /// Whether a goal was missed.
    pub(crate) missed: bool,
    pub(crate) context: &'a Context,
}

/// Every check that applies.
pub(crate) fn checks(subject: &Subject<'_>) -> Vec<Check> {
    let open = subject.open;
    [
        open.then(|| rate_fidelity(subject)),
        open.then(|| send_lag(subject)),
        Some(accounting(subject)),
        Some(generator_cpu(subject)),
        Some(local_errors(subject)),
        if open { pool(subject) } else { None },
        own_timers(subject),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn check(name: &str, value: String, limit: String, level: Level) -> Check {
    Check { check: name.to_owned(), value, limit, level }
}

/// Where the SUT gives no connection, what was not sent is its doing.
fn sut_withheld_connections(tally: &Tally) -> bool {
    let peer = |(class, _): (ErrorClass, u64)| class.fault() == Fault::Peer;
    tally.pool_exhausted > 0
        || tally.connections.failed > 0
        || tally.connection_errors.iter().any(peer)
}

/// V1: the load that was asked for was offered.
fn rate_fidelity(subject: &Subject<'_>) -> Check {
    let tally = subject.tally;
    let ours = if sut_withheld_connections(tally) { 0 } else { tally.unsent };
    let planned = subject.planned_ops.unwrap_or(tally.scheduled as f64).max(tally.scheduled as f64);
    let share = if planned > 0.0 {
        tally.scheduled.saturating_sub(ours) as f64 / planned
    } else {
        // Nothing was offered: a schedule without operations shows nothing.
        0.0
    };
    check(
        "rate-fidelity",
        format!("{} of the planned operations", percent(share)),
        format!("at least {}", percent(FIDELITY_FAIL)),
        level(share < FIDELITY_FAIL, share < FIDELITY_WARN),
    )
}

/// V2: operations were sent when they could be.
fn send_lag(subject: &Subject<'_>) -> Check {
    let lag = &subject.tally.spans.send_lag;
    let quantile = |q| lag.quantile(q).unwrap_or_default();
    let (p99, p999) = (quantile(0.99), quantile(0.999));
    let share_of_deadline =
        |share: f64| subject.deadline.map(|deadline| Nanos((deadline.0 as f64 * share) as u64));
    let p99_max = share_of_deadline(0.05).map_or(LAG_P99_NO_DEADLINE, |l| l.max(LAG_P99_MIN));
    let p99_warn = share_of_deadline(0.02).map_or(LAG_P99_MIN, |l| l.max(Nanos(p99_max.0 / 2)));
    let p999_max = share_of_deadline(0.10)
        .filter(|_| subject.deadline.is_some_and(|d| d >= LAG_P999_DEADLINE_MIN));
    let over = p99 > p99_max || p999_max.is_some_and(|max| p999 > max);
    // Where nothing was ok, no latency was spoiled, and no lag explains the failures.
    let spoils = over && subject.tally.ok > 0;
    let fail = spoils && subject.missed && !missed_without(subject, p99_max);
    check(
        "send-lag",
        format!("p99 {p99}, p99.9 {p999}"),
        match p999_max {
            Some(max) => format!("p99 at most {p99_max}, p99.9 at most {max}"),
            None => format!("p99 at most {p99_max}"),
        },
        // A plain load without goals has nothing to miss; there, lag itself spoils the figures.
        level(fail || (spoils && subject.slo.is_none()), over || p99 > p99_warn),
    )
}

/// Whether a goal would be missed even if every operation sent more than `limit` late had spoiled
/// [`LAG_SPREAD`] others: then the lag explains nothing.
fn missed_without(subject: &Subject<'_>, limit: Nanos) -> bool {
    let late_sends = subject.losses.share(subject.tally.spans.send_lag.count_above(limit));
    subject.slo.iter().flat_map(|slo| &slo.goals).any(|goal| {
        let share = subject.losses.bad_share(goal);
        match goal {
            Goal::Latency { .. } => share - LAG_SPREAD * late_sends > goal.bad_ratio_max(),
            // No server fails a request because it was sent late.
            Goal::Errors { .. } => share > goal.bad_ratio_max(),
        }
    })
}

/// V4: every scheduled operation ended in exactly one class, and every ok one was timed.
fn accounting(subject: &Subject<'_>) -> Check {
    let tally = subject.tally;
    let ended = tally.ok + tally.errors_total() + tally.unsent;
    let timed = tally.spans.corrected.count();
    // What an aborted trial leaves outstanding has no class, and is counted as bad.
    let whole = ended == tally.scheduled || (subject.aborted && ended < tally.scheduled);
    check(
        "accounting",
        format!(
            "{} scheduled, {} ok ({timed} timed), {} errors, {} unsent",
            tally.scheduled,
            tally.ok,
            tally.errors_total(),
            tally.unsent
        ),
        "scheduled = ok + errors + unsent".to_owned(),
        level(!whole || timed != tally.ok, false),
    )
}

/// V7: no worker thread was saturated, so answers did not wait in this process.
fn generator_cpu(subject: &Subject<'_>) -> Check {
    let busiest = subject.tally.generator.busiest_thread;
    // A closed loop, or a load without goals, is allowed to use all it can get.
    let decides = subject.open && subject.missed;
    check(
        "generator-cpu",
        format!("busiest thread {}", percent(busiest)),
        format!("at most {}", percent(CPU_FAIL)),
        level(decides && busiest > CPU_FAIL, busiest > CPU_WARN),
    )
}

/// V9: nothing failed because of this machine.
fn local_errors(subject: &Subject<'_>) -> Check {
    let tally = subject.tally;
    let named: Vec<String> = tally
        .errors
        .iter()
        .chain(tally.connection_errors.iter())
        .filter(|(class, _)| class.fault() == Fault::Local)
        .map(|(class, count)| format!("{count} {}", class.name()))
        .collect();
    let value = if named.is_empty() { "none".to_owned() } else { named.join(", ") };
    check("local-errors", value, "none".to_owned(), level(!named.is_empty(), false))
}

/// Operations waited for a connection while the server answered as fast as ever: the pool, which
/// is ours, was the queue.
fn pool(subject: &Subject<'_>) -> Option<Check> {
    let tally = subject.tally;
    if tally.pool_exhausted == 0 {
        return None;
    }
    let mut limit = "no operation waits for a connection".to_owned();
    let mut small = false;
    if let (Some(unloaded), Some(now)) = (subject.context.unloaded, server_time(tally)) {
        let slow = unloaded.p50.0 as f64 * POOL_UNLOADED_FACTOR;
        // A refused or failed connection is the SUT's answer, not our frugality.
        small = subject.missed
            && (now.0 as f64) <= slow
            && tally.connections.failed == 0
            && subject.losses.share(subject.tally.errors_total()) < 0.001;
        limit = format!("the server takes over {}, or no wait", Nanos(slow as u64));
    }
    Some(check(
        "pool",
        format!(
            "{} waits for a connection, server median {}",
            tally.pool_exhausted,
            server_time(tally).unwrap_or_default()
        ),
        limit,
        level(small, subject.missed),
    ))
}

/// V10: who gave up waiting.
///
/// An answer that has not come after deadline and linger is the SUT's failure, and stays BAD; the
/// reader is told that the span ended by our clock. Only an interrupt decides nothing.
fn own_timers(subject: &Subject<'_>) -> Option<Check> {
    let tally = subject.tally;
    let errors: u64 = tally.errors_total();
    let ours: u64 = tally
        .errors
        .iter()
        .filter(|(class, _)| class.fault() == Fault::OwnTimer)
        .map(|(_, ops)| ops)
        .sum();
    if ours == 0 {
        return None;
    }
    let interrupted = tally.errors.get(ErrorClass::Interrupted);
    let decides = !subject.aborted && subject.missed && !missed_but_for(subject, interrupted);
    Some(check(
        "own-timers",
        format!("{ours} of {errors} errors ended by plimsoll's own timers or an interrupt"),
        "the verdict does not rest on an interrupt".to_owned(),
        level(decides, true),
    ))
}

/// Whether a goal would be missed without `ops` of the failed operations.
fn missed_but_for(subject: &Subject<'_>, ops: u64) -> bool {
    let share = subject.losses.share(ops);
    ops == 0
        || subject
            .slo
            .iter()
            .flat_map(|slo| &slo.goals)
            .any(|goal| subject.losses.bad_share(goal) - share > goal.bad_ratio_max())
}
