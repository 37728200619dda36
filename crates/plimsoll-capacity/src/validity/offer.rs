//! Was the load the one that was asked for, sent when it was due?

use plimsoll_model::slo::Goal;
use plimsoll_model::starts::lag_tolerance;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::Check;
use plimsoll_model::{ErrorClass, Fault, Nanos};

use crate::verdict::{level, percent, server_time};

use super::{Subject, check};

/// Below this share of what the plan asked for, the load was another one.
const FIDELITY_FAIL: f64 = 0.99;
const FIDELITY_WARN: f64 = 0.999;
/// Send lag that is worth a warning where no deadline says more.
const LAG_P99_WARN_MIN: Nanos = Nanos::from_millis(1);
/// Deadlines shorter than this leave p99.9 to the scheduler of the operating system.
const LAG_P999_DEADLINE_MIN: Nanos = Nanos::from_millis(20);
/// One operation sent late is sent in a burst with its neighbours, and near saturation the queue
/// that the burst leaves takes 1/(1 - utilisation) times as long to go: up to this many
/// operations may be late because of one that was sent late.
const LAG_SPREAD: f64 = 20.0;
/// A server whose own time is within this factor of its unloaded time is not what operations
/// waited for.
const POOL_UNLOADED_FACTOR: f64 = 1.5;
/// Gaps whose distribution is off by so much are another process.
const GAP_DISTANCE_MAX: f64 = 0.03;
/// Counts per bin that vary so much less or more than they should.
const DISPERSION: std::ops::RangeInclusive<f64> = 0.8..=1.25;
/// The dispersion of many operations feels a single late millisecond. It only matters where so many
/// were started in another bin than they were due in: a mean lag of 2.5 ms, or of 5 ms.
const DISPLACED_10MS_MAX: f64 = 0.25;
const DISPLACED_100MS_MAX: f64 = 0.05;
/// Of what the generator alone reaches; above, there is nothing to spare.
pub const REFERENCE_FAIL: f64 = 0.80;
const REFERENCE_WARN: f64 = 0.50;

/// Where the SUT gives no connection, what was not sent is its doing.
fn sut_withheld_connections(tally: &Tally) -> bool {
    let peer = |(class, _): (ErrorClass, u64)| class.fault() == Fault::Peer;
    tally.pool_exhausted > 0
        || tally.connections.failed > 0
        || tally.connection_errors.iter().any(peer)
}

/// V1: the load that was asked for was offered.
pub(super) fn rate_fidelity(subject: &Subject<'_>) -> Check {
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
pub(super) fn send_lag(subject: &Subject<'_>) -> Check {
    let lag = &subject.tally.spans.send_lag;
    let quantile = |q| lag.quantile(q).unwrap_or_default();
    let (p99, p999) = (quantile(0.99), quantile(0.999));
    let share_of_deadline =
        |share: f64| subject.deadline.map(|deadline| Nanos((deadline.0 as f64 * share) as u64));
    let p99_max = lag_tolerance(subject.deadline);
    let p99_warn =
        share_of_deadline(0.02).map_or(LAG_P99_WARN_MIN, |l| l.max(Nanos(p99_max.0 / 2)));
    let p999_max = share_of_deadline(0.10)
        .filter(|_| subject.deadline.is_some_and(|d| d >= LAG_P999_DEADLINE_MIN));
    let over = p99 > p99_max || p999_max.is_some_and(|max| p999 > max);
    // Where nothing was ok, no latency was spoiled, and no lag explains the failures.
    let spoils = over && subject.tally.ok > 0;
    let late = subject.losses.share(lag.count_above(p99_max));
    let fail = spoils && subject.missed && !missed_without(subject, late);
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

/// Whether a goal would be missed even if every operation of the share `late` that was sent late
/// had spoiled [`LAG_SPREAD`] others: then the lag explains nothing.
fn missed_without(subject: &Subject<'_>, late: f64) -> bool {
    subject.slo.iter().flat_map(|slo| &slo.goals).any(|goal| {
        let share = subject.losses.bad_share(goal);
        match goal {
            Goal::Latency { .. } => share - LAG_SPREAD * late > goal.bad_ratio_max(),
            // No server fails a request because it was sent late.
            Goal::Errors { .. } => share > goal.bad_ratio_max(),
        }
    })
}

/// V3: starts came as the arrival process says. They are compared with their own schedule, so what
/// differs is late, and bursts are harder on a server: a load that met its goals has met them.
pub(super) fn arrivals(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.witnesses.arrivals?;
    let bins = [
        (seen.dispersion_10ms, seen.displaced_10ms, DISPLACED_10MS_MAX),
        (seen.dispersion_100ms, seen.displaced_100ms, DISPLACED_100MS_MAX),
    ];
    let is_other = |share: f64| {
        let dispersed = |(dispersion, displaced, max): &(f64, f64, f64)| {
            !DISPERSION.contains(dispersion) && *displaced > share * max
        };
        seen.gap_distance > share * GAP_DISTANCE_MAX || bins.iter().any(dispersed)
    };
    let late = seen.gap_distance.max(seen.displaced_10ms).max(seen.displaced_100ms);
    let spoils = subject.slo.is_none() || (subject.missed && !missed_without(subject, late));
    Some(check(
        "arrivals",
        format!(
            "gaps off {}, dispersion {:.2} in 10 ms (displaced {}), {:.2} in 100 ms ({})",
            percent(seen.gap_distance),
            seen.dispersion_10ms,
            percent(seen.displaced_10ms),
            seen.dispersion_100ms,
            percent(seen.displaced_100ms)
        ),
        format!(
            "gaps off {}; dispersion {} to {}, or displaced {}, {}",
            percent(GAP_DISTANCE_MAX),
            DISPERSION.start(),
            DISPERSION.end(),
            percent(DISPLACED_10MS_MAX),
            percent(DISPLACED_100MS_MAX)
        ),
        level(is_other(1.0) && spoils, is_other(0.5)),
    ))
}

/// V12: the generator can do clearly more than it was asked for.
pub(super) fn reference(subject: &Subject<'_>) -> Option<Check> {
    let (reference, rate) = (subject.witnesses.reference?, subject.rate?);
    let share = if reference.get() > 0.0 { rate.get() / reference.get() } else { f64::INFINITY };
    Some(check(
        "reference",
        format!("{} of the {reference} that the generator alone reaches", percent(share)),
        format!("at most {}", percent(REFERENCE_FAIL)),
        // A search offers just this much, and arithmetic may round.
        level(subject.decides() && share > REFERENCE_FAIL + 1e-6, share > REFERENCE_WARN),
    ))
}

/// Operations waited for a connection while the server answered as fast as ever: the pool, which
/// is ours, was the queue.
///
/// By Little's law the connections in use are the rate times the *mean* time in the server; a
/// server that answers in bursts has a fast median and still keeps every connection busy.
pub(super) fn pool(subject: &Subject<'_>) -> Option<Check> {
    let tally = subject.tally;
    if tally.pool_exhausted == 0 {
        return None;
    }
    let mut limit = "no operation waits for a connection".to_owned();
    let mut small = false;
    if let (Some(unloaded), Some(now)) = (subject.context.unloaded, server_time(tally)) {
        let slow = unloaded.mean.0 as f64 * POOL_UNLOADED_FACTOR;
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
            "{} waits for a connection, server mean {}",
            tally.pool_exhausted,
            server_time(tally).unwrap_or_default()
        ),
        limit,
        level(small, subject.missed),
    ))
}
