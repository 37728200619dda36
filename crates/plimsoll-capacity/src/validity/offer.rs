//! Checks that the offered load was the requested one and was sent when it was due.
//!
//! [`rate_fidelity`] compares started with planned operations; unsent ones are not ours if the server withheld
//! connections. [`send_lag`] and [`arrivals`] compare starts with their own schedule. Lag fails a trial with goals
//! only if it can explain the miss: one late operation may delay [`LAG_SPREAD`] others. `reference` and [`pool`]
//! check if the generator or its connections were the limit. Start reading at [`send_lag`].

use plimsoll_model::slo::Goal;
use plimsoll_model::starts::lag_tolerance;
use plimsoll_model::tally::Tally;
use plimsoll_model::trial::{Check, CheckId, Level, Measure, Unit};
use plimsoll_model::{ErrorClass, Fault, Nanos};

use crate::losses::server_time;

use super::own_delay::OwnDelay;
use super::subject::Subject;

/// Below this share of what the plan asked for, the load was another one.
const FIDELITY_FAIL: f64 = 0.99;
const FIDELITY_WARN: f64 = 0.999;
/// Send lag that is worth a warning if no deadline says more.
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
/// Distance between distributions of gaps from which on they are different processes.
const GAP_DISTANCE_MAX: f64 = 0.03;
/// Counts per bin outside of this range vary too little or too much.
const DISPERSION: std::ops::RangeInclusive<f64> = 0.8..=1.25;
/// The dispersion of many operations feels a single late millisecond. It only matters if this share was started in
/// another bin than they were due in: a mean lag of 2.5 ms, or of 5 ms.
const DISPLACED_10MS_MAX: f64 = 0.25;
const DISPLACED_100MS_MAX: f64 = 0.05;
/// Share of the rate that the generator reaches alone; above, nothing is spare.
pub const REFERENCE_FAIL: f64 = 0.80;
const REFERENCE_WARN: f64 = 0.50;

/// Reports whether the SUT gave no connections, so that the unsent operations are its fault.
fn sut_withheld_connections(tally: &Tally) -> bool {
    tally.pool_exhausted > 0
        || tally.connections.failed > 0
        || tally.storm.gave_up > 0
        || tally.failures.attempts.by(Fault::Peer) > 0
        || tally.failures.lost_idle.get(ErrorClass::UnrequestedAnswer) > 0
}

/// Checks that the load that was asked for was offered.
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
    let level = Level::of(share < FIDELITY_FAIL, share < FIDELITY_WARN);
    let share = Measure::ratio("started of the planned operations", share).at_least(FIDELITY_FAIL);
    Check::new(CheckId::RateFidelity, level, [share])
}

/// Checks that operations were sent when they could be.
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
    // If nothing was ok, no latency was spoiled, and no lag explains the failures.
    let spoils = over && subject.tally.ok > 0;
    let late = subject.losses.share(lag.count_above(p99_max));
    let fail = spoils && may_explain(subject, late);
    // A plain load without goals has nothing to miss; there, lag itself spoils the figures.
    let fail = fail || (spoils && subject.slo.is_none());
    let measures = [
        Measure::span("p99", p99).at_most(p99_max.as_millis_f64()),
        Measure::span("p99.9", p999).at_most(p999_max.map(Nanos::as_millis_f64)),
    ];
    Check::new(CheckId::SendLag, Level::of(fail, over || p99 > p99_warn), measures)
}

/// Reports whether the share `late` that was sent late may have made a load miss its goals, unless the effect of our
/// delay on the operations is known more exactly.
fn may_explain(subject: &Subject<'_>, late: f64) -> bool {
    let is_settled = matches!(subject.own_delay(), OwnDelay::Harmless | OwnDelay::Decides);
    subject.missed && !is_settled && !missed_without(subject, late)
}

/// Reports whether a goal would be missed even if every operation of the share `late` that was sent late
/// had spoiled [`LAG_SPREAD`] others: then the lag explains nothing.
fn missed_without(subject: &Subject<'_>, late: f64) -> bool {
    subject.goals().iter().any(|goal| {
        let spared = match goal {
            Goal::Latency { .. } => LAG_SPREAD * late,
            // No server fails a request because it was sent late.
            Goal::Errors { .. } => 0.0,
        };
        subject.losses.misses(goal, spared)
    })
}

/// Starts came as the arrival process says. They are compared with their own schedule, so what
/// differs is late, and bursts are harder on a server: a load that met its goals has met them.
pub(super) fn arrivals(subject: &Subject<'_>) -> Option<Check> {
    let seen = subject.observations.arrivals?;
    let bins = [
        ("10 ms", seen.dispersion_10ms, seen.displaced_10ms, DISPLACED_10MS_MAX),
        ("100 ms", seen.dispersion_100ms, seen.displaced_100ms, DISPLACED_100MS_MAX),
    ];
    let is_other = |share: f64| {
        let dispersed = |(_, dispersion, displaced, max): &(_, f64, f64, f64)| {
            !DISPERSION.contains(dispersion) && *displaced > share * max
        };
        seen.gap_distance > share * GAP_DISTANCE_MAX || bins.iter().any(dispersed)
    };
    let late = seen.gap_distance.max(seen.displaced_10ms).max(seen.displaced_100ms);
    let spoils = subject.slo.is_none() || may_explain(subject, late);
    let mut measures =
        vec![Measure::ratio("gaps off", seen.gap_distance).at_most(GAP_DISTANCE_MAX)];
    for (width, dispersion, displaced, most) in bins {
        measures.push(Measure::ratio(format!("displaced by {width}"), displaced).at_most(most));
        // Dispersion only counts where more starts than `most` were displaced.
        let dispersion = Measure::new(format!("dispersion in {width}"), dispersion, Unit::Factor);
        measures.push(dispersion.at_least(*DISPERSION.start()).at_most(*DISPERSION.end()));
    }
    let level = Level::of(is_other(1.0) && spoils, is_other(0.5));
    Some(Check::new(CheckId::Arrivals, level, measures))
}

/// Checks that the generator can do clearly more than it was asked for.
pub(super) fn reference(subject: &Subject<'_>) -> Option<Check> {
    let (reference, rate) = (subject.observations.reference?, subject.rate?);
    let share = if reference.get() > 0.0 { rate.get() / reference.get() } else { f64::INFINITY };
    // A search offers just this much, and arithmetic may round.
    let fail = subject.decides() && share > REFERENCE_FAIL + 1e-6;
    let measures = [
        Measure::ratio("of what the generator alone reaches", share).at_most(REFERENCE_FAIL),
        Measure::new("that is", reference.get(), Unit::PerS),
    ];
    Some(Check::new(CheckId::Reference, Level::of(fail, share > REFERENCE_WARN), measures))
}

/// Checks the pool: whether operations waited for a connection while the server answered as fast as ever. Then the
/// pool, which is ours, was the queue.
///
/// By Little's law the connections in use are the rate times the *mean* time in the server; a server that answers in
/// bursts has a fast median and still keeps every connection busy.
///
/// If the server allows fewer operations on a connection than we would send, and the user has set the number of
/// connections, the server bounds what they carry.
pub(super) fn pool(subject: &Subject<'_>) -> Option<Check> {
    let tally = subject.tally;
    if tally.pool_exhausted == 0 {
        return None;
    }
    let is_allowed =
        tally.answers.streams.allowed.is_none() || !subject.observations.connections_are_fixed;
    let mut slow_from = None;
    let mut small = false;
    if let (Some(unloaded), Some(now)) = (subject.context.unloaded, server_time(tally)) {
        let slow = unloaded.mean.0 as f64 * POOL_UNLOADED_FACTOR;
        // A refused or failed connection is the SUT's answer, not our frugality.
        small = subject.missed
            && !subject.observations.pool_grown_in_vain
            && is_allowed
            && (now.0 as f64) <= slow
            && tally.connections.failed == 0
            && subject.losses.share(subject.tally.errors_total()) < 0.001;
        slow_from = Some(Nanos(slow as u64).as_millis_f64());
    }
    let server = Measure::span("server mean", server_time(tally).unwrap_or_default());
    let measures =
        [Measure::count("waits", tally.pool_exhausted).at_most(0.0), server.at_least(slow_from)];
    Some(Check::new(CheckId::Pool, Level::of(small, subject.missed), measures))
}
