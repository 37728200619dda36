//! Checks of the figures: against each other, against the server's counts, and half against half.
//!
//! Each function reads the [`Subject`] and returns one [`Check`], or `None` if it does not apply. [`accounting`]
//! requires `scheduled = ok + errors + unsent`, [`littles_law`] compares operations in flight with rate times
//! latency, and [`stationarity`] compares the halves of the window. For the latter two, differences within four
//! standard errors count as chance. Errors of this host and ends by its own timers are also checked here. Start
//! reading at [`accounting`].

use plimsoll_model::observation::HalfWindow;
use plimsoll_model::tally::{ErrorCounts, Tally};
use plimsoll_model::trial::{Check, CheckId, Level, Measure, TrialMeasurement, Unit};
use plimsoll_model::{ErrorClass, Fault, Nanos};

use super::subject::Subject;
use crate::stats::{mean, squares_around};

/// Gauge and histograms differ by more than this: one of them is wrong.
const LITTLE_FAIL: f64 = 0.25;
const LITTLE_WARN: f64 = 0.10;
/// Fewest operations in flight for the law: below, the gauge, which counts whole ones ten times a second, says nothing
/// about a mean.
const LITTLE_OPS_MIN: f64 = 20.0;
/// Standard errors of the gauge's mean that are chance. Neighbouring samples are alike, so only
/// each third one counts.
const LITTLE_ERRORS: f64 = 4.0;
/// Requests that others may send to the server beside the load.
const PEER_OTHERS_PER_S: f64 = 5.0;
const PEER_FAIL: f64 = 0.01;
const PEER_WARN: f64 = 0.001;
/// Second half over first, or the other way round.
const HALVES_WARN: f64 = 1.10;
/// Ratio from which on a trial that others depend on is repeated over twice the time.
const HALVES_EXTEND: f64 = 1.25;
/// Standard errors between two counts that are chance.
const HALVES_ERRORS: f64 = 4.0;
/// A median that moves by less says nothing about latencies of interest.
const HALVES_P50_MIN: Nanos = Nanos::from_millis(1);
/// RFC 9411 asks for a sampling interval below 2 s.
const MONITOR_GAP_MAX: Nanos = Nanos::from_secs(2);

/// Checks that every scheduled operation ended in exactly one class, and every ok one was timed.
pub(super) fn accounting(subject: &Subject<'_>) -> Check {
    let tally = subject.tally;
    let ended = tally.ok + tally.errors_total() + tally.unsent;
    let timed = tally.spans.corrected.count();
    // What an aborted trial leaves outstanding has no class, and is counted as bad.
    let whole = ended == tally.scheduled || (subject.aborted && ended < tally.scheduled);
    let missing = if whole { 0 } else { ended.abs_diff(tally.scheduled) };
    let measures = [
        Measure::count("not in exactly one class", missing).at_most(0.0),
        Measure::count("ok without a latency", timed.abs_diff(tally.ok)).at_most(0.0),
        Measure::count("of", tally.scheduled),
    ];
    let level = Level::of(!whole || timed != tally.ok, false);
    Check::new(CheckId::Accounting, level, measures)
}

/// Checks that operations in flight are the rate times the mean latency. The gauge and the histogram are filled
/// independently of each other.
///
/// Only a trial that was steady, and met its goals, has to obey it; a load with stages is not.
pub(super) fn littles_law(subject: &Subject<'_>) -> Option<Check> {
    let tally = subject.tally;
    let samples: Vec<f64> = tally.outstanding.iter().map(|ops| f64::from(*ops)).collect();
    let unsteady = subject.aborted || subject.missed || subject.rate.is_none();
    if unsteady || samples.len() < 10 || subject.window == Nanos::ZERO {
        return None;
    }
    let count = samples.len() as f64;
    let seen = mean(samples.iter().copied())?;
    let variance = squares_around(seen, &samples) / count;
    let chance = LITTLE_ERRORS * (variance / (count / 3.0)).sqrt();
    let latency_s = tally.spans.corrected.mean()?.as_secs_f64();
    // What failed may have failed at once, or have been in flight to the end of the window: half of
    // it in the mean. How long it was is not recorded.
    let lost = (tally.scheduled - tally.ok.min(tally.scheduled)) as f64 / 2.0;
    let answered = tally.ok as f64 * latency_s / subject.window.as_secs_f64();
    let expected = seen.clamp(answered, answered + lost);
    let larger = seen.max(expected);
    let off = ((seen - expected).abs() - chance).max(0.0) / larger.max(1.0);
    let is_enough = larger >= LITTLE_OPS_MIN;
    let level = Level::of(is_enough && off > LITTLE_FAIL, is_enough && off > LITTLE_WARN);
    let measures = [
        Measure::ratio("difference beyond chance", off).at_most(LITTLE_FAIL),
        Measure::new("operations in flight", seen, Unit::Count),
        Measure::new("by rate and latency", expected, Unit::Count),
    ];
    Some(Check::new(CheckId::LittlesLaw, level, measures))
}

/// Checks that the SUT counted what we counted: all that it answered, and no more than was sent.
pub(super) fn peer_counters(subject: &Subject<'_>) -> Option<Check> {
    let peer = subject.observations.peer?;
    // Health checks and the like are not errors of the load.
    let others = (PEER_OTHERS_PER_S * subject.window.as_secs_f64()) as u64;
    let expected = peer.received.clamp(peer.answered.min(peer.sent), peer.sent + others);
    let off = expected.abs_diff(peer.received) as f64 / peer.sent.max(1) as f64;
    let measures = [
        Measure::ratio("outside of answered to sent", off).at_most(PEER_FAIL),
        Measure::count("answered", peer.answered),
        Measure::count("sent", peer.sent),
        Measure::count("received as the server counted", peer.received),
    ];
    Some(Check::new(CheckId::PeerCounters, Level::of(off > PEER_FAIL, off > PEER_WARN), measures))
}

/// Checks that no message came that would have been an answer if one had been awaited. During operations such messages
/// cannot be distinguished from answers.
pub(super) fn unrequested(subject: &Subject<'_>) -> Option<Check> {
    let pushed = subject.tally.answers.pushed;
    let measures = [
        Measure::count("messages more than were sent", pushed.surplus).at_most(0.0),
        Measure::count("unrequested", pushed.messages),
    ];
    (pushed.surplus > 0).then(|| Check::new(CheckId::Unrequested, Level::Warn, measures))
}

/// Checks that no operation failed because of this host.
pub(super) fn local_errors(subject: &Subject<'_>) -> Check {
    local([&subject.tally.failures.operations, &subject.tally.failures.attempts])
}

/// Checks that no connection of a hold failed because of this host.
pub(crate) fn local_held(tally: &Tally) -> Check {
    let failures = &tally.failures;
    local([&failures.operations, &failures.attempts, &failures.lost_held])
}

/// The check that none of these errors are this host's, each class with its count.
fn local<'a>(counts: impl IntoIterator<Item = &'a ErrorCounts>) -> Check {
    let all = counts.into_iter().flat_map(ErrorCounts::iter);
    let local = all.filter(|(class, _)| class.fault() == Fault::Local);
    let mut measures: Vec<_> =
        local.map(|(class, count)| Measure::count(class.name(), count).at_most(0.0)).collect();
    let level = Level::of(!measures.is_empty(), false);
    if measures.is_empty() {
        measures.push(Measure::count("", 0).at_most(0.0));
    }
    Check::new(CheckId::LocalErrors, level, measures)
}

/// Checks who gave up waiting.
///
/// An answer that has not come after deadline and linger is the SUT's failure, and stays BAD; the
/// report states that the span ended by our clock. Only an interrupt decides nothing.
pub(super) fn own_timers(subject: &Subject<'_>) -> Option<Check> {
    let tally = subject.tally;
    let errors: u64 = tally.errors_total();
    let ours = tally.failures.operations.by(Fault::OwnTimer);
    if ours == 0 {
        return None;
    }
    let interrupted = tally.failures.operations.get(ErrorClass::Interrupted);
    let decides = !subject.aborted && subject.missed && !missed_but_for(subject, interrupted);
    let measures = [
        Measure::count("interrupted", interrupted),
        Measure::count("ended by plimsoll's timers", ours - interrupted),
        Measure::count("of errors", errors),
    ];
    Some(Check::new(CheckId::OwnTimers, Level::of(decides, true), measures))
}

/// Reports whether a goal would be missed without `ops` of the failed operations.
fn missed_but_for(subject: &Subject<'_>, ops: u64) -> bool {
    let share = subject.losses.share(ops);
    ops == 0 || subject.goals().iter().any(|goal| subject.losses.misses(goal, share))
}

/// Checks that the second half was like the first, whatever the cause of a difference.
pub(super) fn stationarity(subject: &Subject<'_>) -> Option<Check> {
    let [first, second] = subject.observations.halves?;
    let drift = drift([first, second], subject.window);
    let answers = |name, half: HalfWindow| Measure::new(name, half.completed.get(), Unit::PerS);
    let measures = [
        Measure::new("one half over the other beyond chance", drift, Unit::Factor)
            .at_most(HALVES_WARN),
        Measure::span("p50 first", first.p50),
        Measure::span("second", second.p50),
        answers("answers first", first),
        answers("second", second),
    ];
    Some(Check::new(CheckId::Stationarity, Level::of(false, drift > HALVES_WARN), measures))
}

/// Returns the factor by which the p50 or the answers differ between the halves of `window`, as
/// far as chance does not explain it; at least 1.
fn drift([first, second]: [HalfWindow; 2], window: Nanos) -> f64 {
    let ratio = |a: f64, b: f64| if a.min(b) > 0.0 { a.max(b) / a.min(b) } else { 1.0 };
    let moved = Nanos(first.p50.0.abs_diff(second.p50.0));
    let latency = if moved >= HALVES_P50_MIN {
        ratio(first.p50.as_secs_f64(), second.p50.as_secs_f64())
    } else {
        1.0
    };
    // Independent arrivals differ by the root of their number.
    let (a, b) = (first.completed.get(), second.completed.get());
    let ops = a.min(b) * window.as_secs_f64() / 2.0;
    let chance = HALVES_ERRORS * (2.0 / ops.max(1.0)).sqrt();
    latency.max(ratio(a, b) - chance).max(1.0)
}

/// Reports whether the halves differ so much that a longer trial is needed.
pub(crate) fn is_drifting(measurement: &TrialMeasurement) -> bool {
    let halves = measurement.observations.halves;
    halves.is_some_and(|halves| drift(halves, measurement.window) > HALVES_EXTEND)
}

/// Checks that the SUT was read often enough to show what limits it.
pub(super) fn monitor(subject: &Subject<'_>) -> Option<Check> {
    let gap = subject.observations.monitor_gap?;
    let longest = Measure::span("longest gap", gap).at_most(MONITOR_GAP_MAX.as_millis_f64());
    Some(Check::new(CheckId::Monitor, Level::of(false, gap > MONITOR_GAP_MAX), [longest]))
}
