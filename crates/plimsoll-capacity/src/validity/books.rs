//! Do the figures agree with each other, and with what the other side counted?

use plimsoll_model::trial::{Check, TrialMeasurement};
use plimsoll_model::witness::HalfWindow;
use plimsoll_model::{ErrorClass, Fault, Nanos};

use crate::verdict::{level, percent};

use super::{Subject, check};

/// Gauge and histograms differ by more than this: one of them is wrong.
const LITTLE_FAIL: f64 = 0.25;
const LITTLE_WARN: f64 = 0.10;
/// With fewer operations in flight the gauge, which counts whole ones ten times a second, says
/// nothing about a mean.
const LITTLE_OPS_MIN: f64 = 20.0;
/// Standard errors of the gauge's mean that are chance. Neighbouring samples are alike, so only
/// each third one counts.
const LITTLE_ERRORS: f64 = 4.0;
const PEER_FAIL: f64 = 0.01;
const PEER_WARN: f64 = 0.001;
/// Second half over first, or the other way round.
const HALVES_WARN: f64 = 1.10;
/// From here on a trial that others rest on is repeated over twice the time.
const HALVES_EXTEND: f64 = 1.25;
/// Standard errors between two counts that are chance.
const HALVES_ERRORS: f64 = 4.0;
/// A median that moves by less says nothing about latencies of interest.
const HALVES_P50_MIN: Nanos = Nanos::from_millis(1);
/// RFC 9411 asks for a sampling interval below 2 s.
const MONITOR_GAP_MAX: Nanos = Nanos::from_secs(2);

/// V4: every scheduled operation ended in exactly one class, and every ok one was timed.
pub(super) fn accounting(subject: &Subject<'_>) -> Check {
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

/// V5: operations in flight are the rate times the mean latency. The gauge and the histogram are
/// filled independently of each other.
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
    let seen = samples.iter().sum::<f64>() / count;
    let variance = samples.iter().map(|ops| (ops - seen).powi(2)).sum::<f64>() / count;
    let chance = LITTLE_ERRORS * (variance / (count / 3.0)).sqrt();
    let latency_s = tally.spans.corrected.mean()?.as_secs_f64();
    let timed_out_s = subject.deadline.unwrap_or_default().as_secs_f64();
    let lost = (tally.scheduled - tally.ok.min(tally.scheduled)) as f64 * timed_out_s;
    let expected = (tally.ok as f64 * latency_s + lost) / subject.window.as_secs_f64();
    let larger = seen.max(expected);
    let off = ((seen - expected).abs() - chance).max(0.0) / larger.max(1.0);
    let told = larger >= LITTLE_OPS_MIN;
    Some(check(
        "littles-law",
        format!("{seen:.1} operations in flight, {expected:.1} by rate and latency"),
        format!("at most {} apart, chance aside", percent(LITTLE_FAIL)),
        level(told && off > LITTLE_FAIL, told && off > LITTLE_WARN),
    ))
}

/// V6: the SUT counted what we counted: all that it answered, and no more than was sent.
pub(super) fn peer_counters(subject: &Subject<'_>) -> Option<Check> {
    let peer = subject.witnesses.peer?;
    let expected = peer.received.clamp(peer.answered.min(peer.sent), peer.sent);
    let off = expected.abs_diff(peer.received) as f64 / peer.sent.max(1) as f64;
    Some(check(
        "peer-counters",
        format!(
            "{} sent and {} answered, {} received by the server's count",
            peer.sent, peer.answered, peer.received
        ),
        format!("between answered and sent, give or take {}", percent(PEER_FAIL)),
        level(off > PEER_FAIL, off > PEER_WARN),
    ))
}

/// V9: nothing failed because of this machine.
pub(super) fn local_errors(subject: &Subject<'_>) -> Check {
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

/// V10: who gave up waiting.
///
/// An answer that has not come after deadline and linger is the SUT's failure, and stays BAD; the
/// reader is told that the span ended by our clock. Only an interrupt decides nothing.
pub(super) fn own_timers(subject: &Subject<'_>) -> Option<Check> {
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

/// V14: the second half was like the first. Says nothing about whose doing it is.
pub(super) fn stationarity(subject: &Subject<'_>) -> Option<Check> {
    let [first, second] = subject.witnesses.halves?;
    Some(check(
        "stationarity",
        format!(
            "p50 {} then {}, {} then {} answers",
            first.p50, second.p50, first.completed, second.completed
        ),
        format!("halves within a factor of {HALVES_WARN}"),
        level(false, drift([first, second], subject.window) > HALVES_WARN),
    ))
}

/// How many times as large as in one half of `window` the p50 or the answers were in the other, as
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

/// Whether the halves differ so much that a longer trial is to tell what becomes of it.
pub(crate) fn is_drifting(measurement: &TrialMeasurement) -> bool {
    let halves = measurement.witnesses.halves;
    halves.is_some_and(|halves| drift(halves, measurement.window) > HALVES_EXTEND)
}

/// V15: the SUT was looked at often enough to say what limits it.
pub(super) fn monitor(subject: &Subject<'_>) -> Option<Check> {
    let gap = subject.witnesses.monitor_gap?;
    Some(check(
        "monitor",
        format!("up to {gap} without a look at the server"),
        format!("at most {MONITOR_GAP_MAX}"),
        level(false, gap > MONITOR_GAP_MAX),
    ))
}
